"""Incidents: findings and failures that a remediation action could answer.

Pure. An incident is only a reason to inspect: its evidence is gathered afterwards, and read again.
Its key stays the same while the problem lasts, over restarts too, and changes once the connector
has got past it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.findings import FailureRun, Finding, FindingName

if TYPE_CHECKING:
    from offsetwatch.state.snapshot import ConnectorView, Snapshot


class IncidentKind(StrEnum):
    """Kind of an incident.

    failed    tasks, or the connector itself, have failed
    frozen    everything reports running and nothing moves (MirrorMaker 2 with an unreadable record)
    harmful   continuing does harm: a finding for which the configuration requires a stop
    """

    FAILED = "failed"
    FROZEN = "frozen"
    HARMFUL = "harmful"


@dataclass(frozen=True, slots=True)
class Incident:
    """Problem of one connector that a remediation action could answer.

    finding    name of the finding that it was made of
    said       the reason, without values that change while it lasts; finding and plan have these
    since      when it was first found
    runs       of a failed connector: the runs of failures of its tasks
    shows      whether it is visible right now
    """

    key: str
    what: IncidentKind
    connect_cluster: str
    connector: str
    finding: str
    said: str
    since: float
    runs: tuple[FailureRun, ...] = ()
    shows: bool = True

    @property
    def connector_key(self) -> tuple[str, str]:
        """Return the Connect cluster and the connector."""
        return (self.connect_cluster, self.connector)

    @property
    def worst(self) -> FailureRun | None:
        """Return the longest run of failures; None if there is none."""
        return find_longest_run(self.runs)


def find_longest_run(runs: Iterable[FailureRun]) -> FailureRun | None:
    """Return the run with the most failures; None if there is none."""
    return max(runs, key=lambda run: run.count, default=None)


def find_incidents(snapshot: Snapshot, stop_on: frozenset[str]) -> tuple[Incident, ...]:
    """Return all current incidents, the oldest first.

    stop_on   names of findings that a stop may answer
    """
    incidents: dict[str, Incident] = {}
    runs: dict[tuple[str, str], list[FailureRun]] = {}
    for run in snapshot.failure_runs:
        runs.setdefault((run.connect_cluster, run.connector), []).append(run)
    for view in snapshot.connectors if runs else ():
        of = (view.connect_cluster, view.name)
        if of in runs:
            failed = _build_failure_incident(tuple(runs[of]), view)
            incidents[failed.key] = failed
    for finding in snapshot.findings:
        opened = _build_finding_incident(finding, stop_on)
        if opened is not None:
            incidents.setdefault(opened.key, opened)
    return tuple(sorted(incidents.values(), key=lambda incident: (incident.since, incident.key)))


def _build_failure_incident(runs: tuple[FailureRun, ...], view: ConnectorView) -> Incident:
    """Build the incident of a connector that fails, or has failed recently.

    A connector that was just restarted shows nothing, and has the same incident until it has run
    for a while.
    """
    tasks = any(task.state == "failed" for task in view.tasks)
    worst = find_longest_run(runs)
    assert worst is not None
    since = min(run.first_at for run in runs)
    finding = FindingName.TASK_FAILED if worst.task is not None else FindingName.CONNECTOR_FAILED
    return Incident(
        key=_compute_key("failed", view.connect_cluster, view.name, worst.kind, repr(since)),
        what=IncidentKind.FAILED,
        connect_cluster=view.connect_cluster,
        connector=view.name,
        finding=finding.value,
        said=worst.failure or "no reason was given",
        since=since,
        runs=runs,
        shows=tasks or view.state == "failed",
    )


def _build_finding_incident(finding: Finding, stop_on: frozenset[str]) -> Incident | None:
    if finding.connector is None:
        return None
    if finding.name.value in stop_on:
        what = IncidentKind.HARMFUL
    elif finding.name is FindingName.MM2_SILENT_STALL:
        what = IncidentKind.FROZEN
    else:
        return None
    where = (finding.connect_cluster, finding.connector, finding.subject)
    return Incident(
        key=_compute_key(finding.name.value, *where, repr(finding.since)),
        what=what,
        connect_cluster=finding.connect_cluster,
        connector=finding.connector,
        finding=finding.name.value,
        said=finding.summary,
        since=finding.since,
    )


def is_target(kind: ConnectorKind, class_name: str) -> bool:
    """Check whether a connector can be remediated at all.

    MirrorMaker's checkpoint and heartbeat connectors cannot: they have no progress of their own.
    """
    internal = {"MirrorCheckpointConnector", "MirrorHeartbeatConnector"}
    return kind is not ConnectorKind.UNKNOWN and class_name.rpartition(".")[2] not in internal


def _compute_key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
