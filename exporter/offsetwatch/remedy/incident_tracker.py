"""Tracker of current incidents: since when each exists, and which are due for evaluation.

New and ended incidents are recorded in the journal.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from offsetwatch.clock import UnixClock
from offsetwatch.remedy.gather.snapshot_queries import find_connector_view
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.model import incidents
from offsetwatch.remedy.model.approval import PlanStatus
from offsetwatch.remedy.model.incidents import Incident
from offsetwatch.remedy.model.journal_records import IncidentDetected, IncidentEnded
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.state.snapshot import Snapshot

EVALUATION_GAP_S: Final = (
    15.0  # evidence costs requests and reads; an alert has it gathered at once
)


@dataclass(slots=True)
class TrackedIncident:
    """Incident with the time of its last evaluation; `said` is the last recorded refusal."""

    incident: Incident
    considered_at: float | None = None
    said: tuple[object, ...] = ()


class IncidentTracker:
    """Tracker of current incidents; `of` maps an incident's key to it."""

    def __init__(self, ledger: JournalIndex, policy: Policy, clock: UnixClock) -> None:
        self._ledger = ledger
        self._policy = policy
        self._clock = clock
        self.of: dict[str, TrackedIncident] = {}

    def see(self, snapshot: Snapshot) -> None:
        """Record incidents that are new, and those that have ended."""
        now, journal = self._clock.now(), self._ledger.journal
        found = {
            at.key: at
            for at in incidents.find_incidents(snapshot, frozenset(self._policy.stop_on))
            if _is_target(snapshot, at)
        }
        for key, incident in found.items():
            if key in self.of:
                self.of[key].incident = incident
                continue
            self.of[key] = TrackedIncident(incident)
            if key not in self._ledger.fleet.incidents:
                journal.control(
                    IncidentDetected(
                        at=now,
                        incident=key,
                        connect_cluster=incident.connect_cluster,
                        connector=incident.connector,
                        what=incident.what.value,
                        said=incident.said,
                    )
                )
        held = self._held(snapshot)
        for key in {*self.of, *self._ledger.fleet.incidents} - {*found, *held}:
            self.of.pop(key, None)
            if key in self._ledger.fleet.incidents:
                journal.control(IncidentEnded(at=now, incident=key))
        self._ledger.read_on()

    def _held(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the keys of incidents that stay open although their finding may be gone.

        These are incidents answered with a stop, while the connector is stopped, and those with a
        running or parked plan.
        """
        open_plans = {
            history.plan.remedy.incident
            for history in self._ledger.dossiers.values()
            if history.plan.remedy is not None
            and history.stands in {PlanStatus.RUNNING, PlanStatus.PARKED}
        }
        stopped = {
            (view.connect_cluster, view.name)
            for view in snapshot.connectors
            if view.state == "stopped"
        }
        return frozenset(open_plans) | self._ledger.fleet.holding(stopped)

    def due(self, woken: Collection[tuple[str, str]]) -> list[TrackedIncident]:
        """Return the visible incidents not evaluated within the last 15 s (EVALUATION_GAP_S).

        Incidents of connectors in `woken` are due at once.
        """
        now = self._clock.now()
        return [
            tracked_incident
            for tracked_incident in self.of.values()
            if tracked_incident.incident.shows
            and (
                tracked_incident.considered_at is None
                or not 0 <= now - tracked_incident.considered_at < EVALUATION_GAP_S
                or (tracked_incident.incident.connect_cluster, tracked_incident.incident.connector)
                in woken
            )
        ]


def _is_target(snapshot: Snapshot, incident: Incident) -> bool:
    view = find_connector_view(snapshot, incident.connect_cluster, incident.connector)
    return view is not None and incidents.is_target(view.kind, view.class_name)
