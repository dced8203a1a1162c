"""A case that is considered, and what the newest snapshot tells of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from offsetwatch.decode.rest_root import ConnectRoot
from offsetwatch.model.connect.connectors import ConnectorKind, StateChange
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
    """What is considered.

    found       the record, where one was identified
    plan        None until there is one; then `found` may be None, and the plan says all
    altering    the connector stands still, and its offsets are next
    backed_up   all offsets were written down and read back
    stopped_at  when the plan stopped it; 0 if it was stopped already
    by_person   it is a person's own wish
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
    """A connector as Connect shows it just now."""

    root: ConnectRoot | None
    seen: RestConnectorState | None
    config: dict[str, str | None] | None
    pairs: tuple[PartitionOffset, ...] | None
    at: float


class UnhealthyConnectors:
    """Who is not as it should be. Asked once a second, of verdicts and connectors that mostly are
    the last ones: there may be 100,000, so they are looked through when there are others.
    """

    def __init__(self) -> None:
        self._read: tuple[tuple[Judgement, ...], frozenset[ConnectorKey]] = ((), frozenset())
        self._listed: tuple[tuple[ConnectorView, ...], frozenset[ConnectorKey]] = ((), frozenset())

    def of(self, snapshot: Snapshot) -> frozenset[ConnectorKey]:
        """Failed, stalled or silent."""
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
    """As plans and guards name it."""
    if view is None:
        return facts.SubjectKind.SOURCE
    match view.kind:
        case ConnectorKind.SINK:
            return facts.SubjectKind.SINK
        case ConnectorKind.MIRROR:
            return facts.SubjectKind.MIRROR
    return facts.SubjectKind.SOURCE


def compute_incarnation(snapshot: Snapshot, connect: str, connector: str) -> str:
    """When it was last seen to be deleted, by its status topic and by lists of connectors; else
    what cannot tell one life from another, and then the offset and the record that are compared do.
    A status that is taken back is no deletion: it may be a hole in its topic.
    """
    ends = find_deletion_times(find_state_changes(snapshot, connect, connector))[-1:]
    ends += find_unlisted_times(snapshot, connect, connector)
    return " ".join(map(repr, ends)) or "first"


def find_unlisted_times(snapshot: Snapshot, connect: str, connector: str) -> list[float]:
    """When it was last found to be deleted by lists of connectors, by our clock."""
    return [
        view.deleted_at[connector]
        for view in snapshot.lists
        if view.connect_cluster == connect and connector in view.deleted_at
    ]


def is_read_committed(snapshot: Snapshot, connect: str, connector: str) -> bool | None:
    """Whether its consumers stop at open transactions; None if that is the worker's own setting."""
    for flow in snapshot.topology.flows:
        if (flow.connect_cluster, flow.connector) == (connect, connector):
            return flow.read_committed
    for sink in snapshot.topology.sinks:
        if (sink.connect_cluster, sink.connector) == (connect, connector):
            return sink.read_committed
    return None


def find_state_changes(snapshot: Snapshot, connect: str, connector: str) -> tuple[StateChange, ...]:
    """What became of a connector itself, as far as its status topic tells."""
    for history in snapshot.histories:
        if (history.connect_cluster, history.connector, history.task) == (connect, connector, None):
            return history.changes
    return ()


def find_connector_view(snapshot: Snapshot, connect: str, connector: str) -> ConnectorView | None:
    """The connector as it is shown; None if it is not."""
    for view in snapshot.connectors:
        if (view.connect_cluster, view.name) == (connect, connector):
            return view
    return None


def parse_version(version: str) -> tuple[int, ...] | None:
    """The numbers of a version, up to what begins with a letter; None if it has none."""
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
    """Others that failed lately with the same kind of exception."""
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
    """Whether another connector of the same class makes progress."""
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
    """Whether a label of a position is of this partition: a sink's, or a mirror's."""
    return label == f"{topic}-{partition}" or (
        f"topic={topic}" in label and f"partition={partition}" in label.split(",")
    )


def find_lag(snapshot: Snapshot, case: RemediationCase, topic: str, partition: int) -> int | None:
    """Records that wait in a partition."""
    key = (case.connect, case.connector, topic, partition)
    views: tuple[SinkPartitionView | MirrorPartitionView, ...]
    views = (*snapshot.sink_partitions, *snapshot.mirror_partitions)
    for view in views:
        if (view.connect_cluster, view.connector, view.topic, view.partition) == key:
            return view.lag
    return None


def find_sink_group(snapshot: Snapshot, case: RemediationCase) -> SinkGroup | None:
    """The consumer group of a sink; None of any other connector."""
    for sink in snapshot.topology.sinks:
        if (sink.connect_cluster, sink.connector) == (case.connect, case.connector):
            return sink
    return None


def find_mirror_flow(snapshot: Snapshot, case: RemediationCase) -> MirrorFlow | None:
    """The flow of a MirrorSourceConnector; None of any other connector."""
    for flow in snapshot.topology.flows:
        if (flow.connect_cluster, flow.connector) == (case.connect, case.connector):
            return flow
    return None


def find_offsets_topic(snapshot: Snapshot, case: RemediationCase) -> KafkaTopic | None:
    """Where the connector keeps its offsets: in a topic of its own, or with the others."""
    mine = [
        topic for topic in snapshot.topology.offsets_topics if topic.connect_cluster == case.connect
    ]
    own = [topic.at for topic in mine if topic.connector == case.connector]
    shared = [topic.at for topic in mine if topic.connector is None]
    return next(iter((*own, *shared)), None)


def count_unread_records(
    snapshot: Snapshot, topic: KafkaTopic, ends: Mapping[int, int]
) -> int | None:
    """Records of a topic before these ends that its tail has not read."""
    tails = (view.tail for view in snapshot.inputs if view.tail is not None)
    read = next(
        (dict(tail.positions) for tail in tails if tail.topic == topic and tail.caught_up), None
    )
    if read is None:
        return None
    return sum(max(0, end - read.get(number, 0)) for number, end in ends.items())


def find_newest_commit_time(snapshot: Snapshot, case: RemediationCase) -> float | None:
    """Return by when a source connector had committed last, by our clock: when that was read."""
    commits = [
        view.read_at
        for view in snapshot.source_partitions
        if (view.connect_cluster, view.connector) == (case.connect, case.connector)
        and view.read_at is not None
    ]
    return max(commits, default=None)


def find_source_offset(snapshot: Snapshot, case: RemediationCase, identity: str) -> str | None:
    """The offset of a source partition as its topic tells it."""
    for view in snapshot.source_partitions:
        own = (view.connect_cluster, view.connector) == (case.connect, case.connector)
        if own and view.identity == identity:
            return None if view.offset is None else view.offset.text
    return None


def is_mirror_offset(pair: PartitionOffset) -> bool:
    """Whether this is an offset of a MirrorSourceConnector, and not of a sink."""
    return f'"{_MIRROR_OFFSET_FIELD}":' in (pair.offset or "")


def find_skipped_record(
    case: RemediationCase,
) -> tuple[RecordLocation, PartitionOffset, PartitionOffset] | None:
    """The record, the offset before and the offset after."""
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
    """Of a source partition: how many other keys it is under, and whether the one that its task
    looks up is the one that Connect looks up over REST.
    """
    for view in snapshot.source_partitions:
        own = (view.connect_cluster, view.connector) == (case.connect, case.connector)
        if own and view.identity == identity:
            return view.variants, view.offset is not None and view.is_hash_map
    return None


def find_altered_keys(snapshot: Snapshot, case: RemediationCase) -> tuple[int | None, bool | None]:
    """Of all source partitions that a plan sets: under how many keys the worst of them is, and
    whether each is under the one that Connect looks up. None where one of them is not known.
    """
    pairs = [] if case.plan is None else _list_altered_pairs(case.plan)
    found = [find_key_spelling(snapshot, case, pair.partition) for pair in pairs]
    known = [item for item in found if item is not None]
    if not known or len(known) < len(found):
        return None, None
    return 1 + max(variants for variants, _ in known), all(canonical for _, canonical in known)


def is_same_partition(identity: str, topic: str, partition: int) -> bool:
    """Whether a partition as Connect names it is this one: a sink's, or a mirror's."""
    found = msgspec.json.decode(identity)
    names = (
        found.get("kafka_topic", found.get("topic")),
        found.get("kafka_partition", found.get("partition")),
    )
    return names == (topic, partition)


def collect_plan_facts(case: RemediationCase) -> facts.PlanFacts:
    """What is known of the plan itself."""
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
    """A Date has whole seconds, and was written a moment before it was read."""
    return 0.0 if abs(skew_s) <= 2.0 else skew_s


def veto_of(failure: Failure | None) -> str | None:
    """What forbids a skip after this failure; "" where nothing does, None where none is known."""
    if failure is None:
        return None
    return "" if failure.veto is None else failure.veto.value
