"""Facts about a remediation case in the newest snapshot. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from offsetwatch.decode.rest_answers import ConnectRoot
from offsetwatch.model.connectors import ConnectorKind, StateChange
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, SinkGroup
from offsetwatch.remedy.classify import Failure
from offsetwatch.remedy.drivers.rest.connect_state import RestConnectorState
from offsetwatch.remedy.execute.incarnation_pins import find_deletion_times
from offsetwatch.remedy.locate.search import IdentifiedRecord
from offsetwatch.remedy.model import facts
from offsetwatch.remedy.model.fleet_state import ConnectorKey
from offsetwatch.remedy.model.incidents import Incident, find_unhealthy_connectors
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    Copy,
    Expect,
    PartitionOffset,
    Plan,
    RecordLocation,
)
from offsetwatch.state.snapshot import (
    ConnectorView,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
)

SIMILAR_WITHIN_S: Final = 600.0  # what fails within this time in the same way may have one cause
_MIRROR_OFFSET_FIELD: Final = "offset"


@dataclass(frozen=True, slots=True)
class RemediationCase:
    """A connector and an action for which a plan or a step is evaluated.

    found       the record, where one was identified
    plan        None until a plan exists; then `found` may be None, and the plan has everything
    altering    the connector is stopped, and its offsets are altered next
    backed_up   all offsets were written to the backup and read back
    stopped_at  when the plan stopped the connector; 0 if it was stopped already
    by_person   an operator requested it
    """

    connect: str
    connector: str
    action: Action
    incident: Incident | None = None
    failure: Failure | None = None
    found: IdentifiedRecord | None = None
    plan: Plan | None = None
    approval: facts.PlanApproval | None = None
    altering: bool = False
    backed_up: bool | None = None
    stopped_at: float | None = None
    receipt_sha256: str | None = None
    by_person: bool = False


class LiveConnectorState(NamedTuple):
    """Answers of the Connect REST API for a connector, read just now; None where one failed."""

    root: ConnectRoot | None
    seen: RestConnectorState | None
    config: dict[str, str | None] | None
    pairs: tuple[PartitionOffset, ...] | None
    at: float


class UnhealthyConnectors:
    """Connectors that are failed, stalled or silent, cached between snapshots.

    It is queried once a second, and most snapshots have the same judgements and connectors as the
    one before. There may be 100,000 connectors, so they are scanned only when they have changed.
    """

    def __init__(self) -> None:
        self._read: tuple[tuple[Judgement, ...], frozenset[ConnectorKey]] = ((), frozenset())
        self._listed: tuple[tuple[ConnectorView, ...], frozenset[ConnectorKey]] = ((), frozenset())

    def of(self, snapshot: Snapshot) -> frozenset[ConnectorKey]:
        """Return the connectors that are failed, stalled or silent."""
        if self._read[0] is not snapshot.judgements:
            bad = (Verdict.STALLED, Verdict.SILENT)
            found = (
                (judgement.connect_cluster, judgement.connector)
                for judgement in snapshot.judgements
                if judgement.verdict in bad and judgement.scope is Scope.CONNECTOR
            )
            self._read = (snapshot.judgements, frozenset(found))
        if self._listed[0] is not snapshot.connectors:
            self._listed = (snapshot.connectors, find_unhealthy_connectors(snapshot))
        return self._listed[1] | self._read[1]


def kind_of(view: ConnectorView | None) -> facts.SubjectKind:
    """Return the connector's kind in the terms of plans and guards; SOURCE if it is not shown."""
    if view is None:
        return facts.SubjectKind.SOURCE
    match view.kind:
        case ConnectorKind.SINK:
            return facts.SubjectKind.SINK
        case ConnectorKind.MIRROR:
            return facts.SubjectKind.MIRROR
    return facts.SubjectKind.SOURCE


def compute_incarnation(snapshot: Snapshot, connect: str, connector: str) -> str:
    """Return a key of the connector's incarnation: its last deletions, else "first".

    Deletions come from its status topic and from lists of connectors. "first" cannot distinguish
    incarnations; then comparing the offset and the record does. A status that was taken back is no
    deletion: it may be a hole in its topic.
    """
    ends = find_deletion_times(find_state_changes(snapshot, connect, connector))[-1:]
    ends += find_unlisted_times(snapshot, connect, connector)
    return " ".join(map(repr, ends)) or "first"


def find_unlisted_times(snapshot: Snapshot, connect: str, connector: str) -> list[float]:
    """Return when lists of connectors last showed it deleted, by the daemon's clock."""
    return [
        view.deleted_at[connector]
        for view in snapshot.lists
        if view.connect_cluster == connect and connector in view.deleted_at
    ]


def is_read_committed(snapshot: Snapshot, connect: str, connector: str) -> bool | None:
    """Return whether its consumers read committed records only; None if the worker decides."""
    for flow in snapshot.topology.flows:
        if (flow.connect_cluster, flow.connector) == (connect, connector):
            return flow.read_committed
    for sink in snapshot.topology.sinks:
        if (sink.connect_cluster, sink.connector) == (connect, connector):
            return sink.read_committed
    return None


def find_state_changes(snapshot: Snapshot, connect: str, connector: str) -> tuple[StateChange, ...]:
    """Return the state changes of the connector itself that its status topic shows."""
    for history in snapshot.histories:
        if (history.connect_cluster, history.connector, history.task) == (connect, connector, None):
            return history.changes
    return ()


def find_connector_view(snapshot: Snapshot, connect: str, connector: str) -> ConnectorView | None:
    """Return the snapshot's view of the connector; None if there is none."""
    for view in snapshot.connectors:
        if (view.connect_cluster, view.name) == (connect, connector):
            return view
    return None


def parse_version(version: str) -> tuple[int, ...] | None:
    """Parse the leading numbers of a version; None if it begins with none."""
    found = []
    for part in version.split("."):
        digits = "".join(char for char in part if char.isdigit())
        if not part[:1].isdigit():
            break
        found.append(int(digits))
    return tuple(found) or None


def find_similar_failures(
    snapshot: Snapshot, case: RemediationCase, now: float
) -> frozenset[ConnectorKey] | None:
    """Return others that failed within SIMILAR_WITHIN_S with the same kind of exception."""
    own = (case.connect, case.connector)
    mine = set() if case.incident is None else {run.kind for run in case.incident.runs}
    return frozenset(
        (run.connect_cluster, run.connector)
        for run in snapshot.failure_runs
        if run.kind in mine
        and (run.connect_cluster, run.connector) != own
        and now - (run.last_at if run.read_at is None else run.read_at) <= SIMILAR_WITHIN_S
    )


def has_healthy_sibling(snapshot: Snapshot, case: RemediationCase) -> bool:
    """Return whether another connector of the same class makes progress."""
    view = find_connector_view(snapshot, case.connect, case.connector)
    if view is None:
        return False
    ok = {
        (judgement.connect_cluster, judgement.connector)
        for judgement in snapshot.judgements
        if judgement.scope is Scope.CONNECTOR and judgement.verdict in {Verdict.OK, Verdict.IDLE}
    }
    return any(
        other.class_name == view.class_name
        and other.name != view.name
        and (other.connect_cluster, other.name) in ok
        for other in snapshot.connectors
    )


def is_label_of(label: str, topic: str, partition: int) -> bool:
    """Return whether a position's label names this partition, in a sink's or a mirror's form."""
    return label == f"{topic}-{partition}" or (
        f"topic={topic}" in label and f"partition={partition}" in label.split(",")
    )


def find_lag(snapshot: Snapshot, case: RemediationCase, topic: str, partition: int) -> int | None:
    """Return the lag of a partition in records; None if it is unknown."""
    key = (case.connect, case.connector, topic, partition)
    views: tuple[SinkPartitionView | MirrorPartitionView, ...]
    views = (*snapshot.sink_partitions, *snapshot.mirror_partitions)
    for view in views:
        if (view.connect_cluster, view.connector, view.topic, view.partition) == key:
            return view.lag
    return None


def find_sink_group(snapshot: Snapshot, case: RemediationCase) -> SinkGroup | None:
    """Return the consumer group of a sink; None for any other connector."""
    for sink in snapshot.topology.sinks:
        if (sink.connect_cluster, sink.connector) == (case.connect, case.connector):
            return sink
    return None


def find_mirror_flow(snapshot: Snapshot, case: RemediationCase) -> MirrorFlow | None:
    """Return the flow of a MirrorSourceConnector; None for any other connector."""
    for flow in snapshot.topology.flows:
        if (flow.connect_cluster, flow.connector) == (case.connect, case.connector):
            return flow
    return None


def find_offsets_topic(snapshot: Snapshot, case: RemediationCase) -> KafkaTopic | None:
    """Return the connector's own offsets topic, else the shared one; None if neither is known."""
    mine = [
        topic for topic in snapshot.topology.offsets_topics if topic.connect_cluster == case.connect
    ]
    own = [topic.at for topic in mine if topic.connector == case.connector]
    shared = [topic.at for topic in mine if topic.connector is None]
    return next(iter((*own, *shared)), None)


def count_unread_records(
    snapshot: Snapshot, topic: KafkaTopic, ends: Mapping[int, int]
) -> int | None:
    """Count a topic's records before these ends that its tail has not read; None if unknown."""
    tails = (view.tail for view in snapshot.inputs if view.tail is not None)
    read = next(
        (dict(tail.positions) for tail in tails if tail.topic == topic and tail.caught_up), None
    )
    if read is None:
        return None
    return sum(max(0, end - read.get(number, 0)) for number, end in ends.items())


def find_newest_commit_time(snapshot: Snapshot, case: RemediationCase) -> float | None:
    """Return when the newest commit of a source connector was read, by the daemon's clock."""
    commits = [
        view.read_at
        for view in snapshot.source_partitions
        if (view.connect_cluster, view.connector) == (case.connect, case.connector)
        and view.read_at is not None
    ]
    return max(commits, default=None)


def find_source_offset(snapshot: Snapshot, case: RemediationCase, identity: str) -> str | None:
    """Return the offset of a source partition in its offsets topic; None if there is none."""
    for view in snapshot.source_partitions:
        own = (view.connect_cluster, view.connector) == (case.connect, case.connector)
        if own and view.identity == identity:
            return None if view.offset is None else view.offset.text
    return None


def is_mirror_offset(pair: PartitionOffset) -> bool:
    """Return whether the offset is one of a MirrorSourceConnector and not of a sink."""
    return f'"{_MIRROR_OFFSET_FIELD}":' in (pair.offset or "")


def find_skipped_record(
    case: RemediationCase,
) -> tuple[RecordLocation, PartitionOffset, PartitionOffset] | None:
    """Return the record to skip, the offset before and the offset after; None if there is none."""
    if case.found is not None:
        return case.found.record, case.found.frm, case.found.to
    if case.plan is None:
        return None
    copies = [step.record for step in case.plan.steps if isinstance(step, Copy)]
    before = [pair for step in case.plan.steps if isinstance(step, Expect) for pair in step.pairs]
    after = _list_altered_pairs(case.plan)
    if not (copies and before and after):
        return None
    return copies[0], before[0], after[0]


def _list_altered_pairs(plan: Plan) -> list[PartitionOffset]:
    return [pair for step in plan.steps if isinstance(step, Alter) for pair in step.pairs]


def find_key_spelling(
    snapshot: Snapshot, case: RemediationCase, identity: str
) -> tuple[int, bool] | None:
    """Return how many other raw keys store a source partition, and whether its key is canonical.

    The key is canonical if the task looks up the same one as Connect's REST API. None if the
    partition is unknown.
    """
    for view in snapshot.source_partitions:
        own = (view.connect_cluster, view.connector) == (case.connect, case.connector)
        if own and view.identity == identity:
            return view.variants, view.offset is not None and view.is_hash_map
    return None


def find_altered_keys(snapshot: Snapshot, case: RemediationCase) -> tuple[int | None, bool | None]:
    """Return the most raw keys of a partition that a plan alters, and if all are canonical.

    Both are None where one of the partitions is not known.
    """
    pairs = [] if case.plan is None else _list_altered_pairs(case.plan)
    found = [find_key_spelling(snapshot, case, pair.partition) for pair in pairs]
    known = [item for item in found if item is not None]
    if not known or len(known) < len(found):
        return None, None
    return 1 + max(variants for variants, _ in known), all(canonical for _, canonical in known)


def is_same_partition(identity: str, topic: str, partition: int) -> bool:
    """Return whether a partition in Connect's form is this one, for a sink or a mirror."""
    found = msgspec.json.decode(identity)
    names = (
        found.get("kafka_topic", found.get("topic")),
        found.get("kafka_partition", found.get("partition")),
    )
    return names == (topic, partition)


def collect_plan_facts(case: RemediationCase) -> facts.PlanFacts:
    """Build the facts about the plan itself."""
    plan = case.plan
    if plan is None or plan.remedy is None:
        return facts.PlanFacts()
    copies = [step for step in plan.steps if isinstance(step, Copy)]
    return facts.PlanFacts(
        created_at=plan.created_at,
        created_by=plan.created_by,
        plan_sha256=plan.sha256,
        policy_sha256=plan.remedy.policy_sha256,
        records=len(copies),
        approval=case.approval,
        record_sha256=copies[0].sha256 if copies else None,
        receipt_sha256=case.receipt_sha256,
        backup_verified=case.backed_up,
        stopped_at=case.stopped_at,
    )


def drop_rounding_skew(skew_s: float) -> float:
    """Return 0 for a skew of at most 2 s, else the skew.

    A Date header has whole seconds, and was written a moment before it was read.
    """
    return 0.0 if abs(skew_s) <= 2.0 else skew_s


def veto_of(failure: Failure | None) -> str | None:
    """Return the cause that forbids a skip after this failure; "" if none does, None if unknown."""
    if failure is None:
        return None
    return "" if failure.veto is None else failure.veto.value
