"""Which incidents there are, since when, and which of them are to be looked into now.

What is new, and what is over, is taken down in the journal.
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
    """An incident, and when it was last considered. `said`: what was last written down of it."""

    incident: Incident
    considered_at: float | None = None
    said: tuple[object, ...] = ()


class IncidentTracker:
    """See the module. `of` is by the incident's key."""

    def __init__(self, ledger: JournalIndex, policy: Policy, clock: UnixClock) -> None:
        self._ledger = ledger
        self._policy = policy
        self._clock = clock
        self.of: dict[str, TrackedIncident] = {}

    def see(self, snapshot: Snapshot) -> None:
        """Take down incidents that are new, and those that are over."""
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
        """Incidents that were answered with a stop, for as long as it lasts, and those whose plans
        are not over: their findings may go meanwhile.
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
        """Those that show, and were not looked into just now; of who was woken, at once."""
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
