"""What may want a remedy, out of what was judged: the findings that an action could answer.

Pure. An incident is nothing but a reason to look: evidence is gathered afterwards, and read anew.
Its key stays the same while the trouble is the same, over restarts too, and is another one once the
connector has got past it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from offsetwatch.model.connect.connectors import ConnectorKind
from offsetwatch.model.findings import FailureRun, Finding, FindingName
from offsetwatch.state.snapshot import ConnectorView, Snapshot


class IncidentKind(StrEnum):
    """What sort of trouble it is.

    failed    tasks, or the connector itself, have failed
    frozen    everything claims to run and nothing moves (MirrorMaker 2 that reads what it cannot)
    harmful   going on does harm: a finding that configuration wants a stop for
    """

    FAILED = "failed"
    FROZEN = "frozen"
    HARMFUL = "harmful"


@dataclass(frozen=True, slots=True)
class Incident:
    """See the module.

    finding    the name of what it was made of
    said       why, without what changes while it lasts: the finding counts, and the plan
    since      when it was first found
    runs       of one that failed: its tasks' runs of failures
    shows      whether it can be seen right now
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
    def worst(self) -> FailureRun | None:
        """The longest of its runs."""
        return max(self.runs, key=lambda run: run.count, default=None)


_SILENT_STALL: Final = FindingName.MM2_SILENT_STALL


def find_incidents(snapshot: Snapshot, stop_on: frozenset[str]) -> tuple[Incident, ...]:
    """Every one there is now, the oldest first.

    stop_on   names of findings that a stop may answer
    """
    found: dict[str, Incident] = {}
    runs: dict[tuple[str, str], list[FailureRun]] = {}
    for run in snapshot.failure_runs:
        runs.setdefault((run.connect_cluster, run.connector), []).append(run)
    for view in snapshot.connectors if runs else ():
        of = (view.connect_cluster, view.name)
        if of in runs:
            failed = _build_failure_incident(tuple(runs[of]), view)
            found[failed.key] = failed
    for finding in snapshot.findings:
        made = _build_finding_incident(finding, stop_on)
        if made is not None:
            found.setdefault(made.key, made)
    return tuple(sorted(found.values(), key=lambda incident: (incident.since, incident.key)))


def _build_failure_incident(runs: tuple[FailureRun, ...], view: ConnectorView) -> Incident:
    """Of a connector that fails, or did so lately: one that was just started again shows nothing,
    and is in the same trouble until it has run for a while.
    """
    tasks = any(task.state == "failed" for task in view.tasks)
    worst = max(runs, key=lambda run: run.count)
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
    elif finding.name is _SILENT_STALL:
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


def find_unhealthy_connectors(snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """Connectors that are not as they should be: failed, or with a failed task."""
    return frozenset(
        (view.connect_cluster, view.name)
        for view in snapshot.connectors
        if view.state == "failed" or any(task.state == "failed" for task in view.tasks)
    )


def is_target(kind: ConnectorKind, class_name: str) -> bool:
    """Whether a remedy is ever for such a connector: MirrorMaker's checkpoints and heartbeats have
    no progress of their own.
    """
    simple = class_name.rpartition(".")[2]
    if kind is ConnectorKind.UNKNOWN:
        return False
    return simple not in {"MirrorCheckpointConnector", "MirrorHeartbeatConnector"}


def _compute_key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
