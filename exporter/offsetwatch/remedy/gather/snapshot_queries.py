"""Facts about a remediation case in the newest snapshot, and pins of its connector. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from offsetwatch.decode.rest_answers import ConnectRoot
from offsetwatch.model.connectors import DELETED, ConnectorKind, StateChange
from offsetwatch.model.findings import FailureRun, Scope, Verdict
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.remedy.classify import Failure
from offsetwatch.remedy.gather.live_queries import RestConnectorState
from offsetwatch.remedy.locate.search import IdentifiedRecord
from offsetwatch.remedy.model import facts
from offsetwatch.remedy.model.fleet_state import ConnectorKey
from offsetwatch.remedy.model.incidents import Incident, find_longest_run
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    Copy,
    Expect,
    PartitionOffset,
    Plan,
    RecordLocation,
)
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.connect.state_history import find_deletions
from offsetwatch.state.snapshot import ConnectorView, Snapshot, SourcePartitionView

SIMILAR_WITHIN_S: Final = 600.0  # what fails within this time in the same way may have one cause
_REQUESTABLE_STATES: Final = frozenset({"stopped", "paused", "running"})
_BY_REST: Final = "rest"


@dataclass(frozen=True, slots=True)
class RemediationCase:
    """A connector and an action for which a plan or a step is evaluated.

    identified  the record, where one was identified
    plan        None until a plan exists; then `identified` may be None, and the plan has everything
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
    identified: IdentifiedRecord | None = None
    plan: Plan | None = None
    approval: facts.PlanApproval | None = None
    altering: bool = False
    backed_up: bool | None = None
    stopped_at: float | None = None
    receipt_sha256: str | None = None
    by_person: bool = False

    @property
    def key(self) -> ConnectorKey:
        """Return the key of the connector."""
        return (self.connect, self.connector)


class LiveConnectorState(NamedTuple):
    """Answers of the Connect REST API for a connector, read just now; None where one failed."""

    root: ConnectRoot | None
    connector: RestConnectorState | None
    config: dict[str, str | None] | None
    pairs: tuple[PartitionOffset, ...] | None
    at: float


def kind_of(view: ConnectorView | None) -> facts.SubjectKind:
    """Return the connector's kind in the terms of plans and guards; SOURCE if it is not shown."""
    kinds = {
        ConnectorKind.SINK: facts.SubjectKind.SINK,
        ConnectorKind.MIRROR: facts.SubjectKind.MIRROR,
    }
    source = facts.SubjectKind.SOURCE
    return source if view is None else kinds.get(view.kind, source)


# --- pins of a connector's incarnation and state -------------------------------------------------
# Two observations may know different amounts: a daemon has followed the status topic since it
# started, one that has just started has the newest record of each connector, and without the topic
# there is only the REST API. So a pin is a state and a record, and a comparison searches for
# evidence of a change. An observation that knows less finds less of it; it never invents a change.
# Records are ordered by their position in the topic, as their timestamps are by the clocks of
# several workers. A record that repeats a state under another generation of the worker group is a
# rebalance, and no one requested it.


def compute_incarnation(snapshot: Snapshot, key: ConnectorKey) -> str:
    """Return a key of the connector's incarnation: its last deletions, else "first".

    Deletions come from its status topic and from lists of connectors. "first" cannot distinguish
    incarnations; then comparing the offset and the record does. A status that was taken back is no
    deletion: it may be a hole in its topic.
    """
    changes = find_state_changes(snapshot, key)
    ends = [changes[number].at for number in find_deletions(changes)][-1:]
    return " ".join(map(repr, ends + find_unlisted_times(snapshot, key))) or "first"


def find_unlisted_times(snapshot: Snapshot, key: ConnectorKey) -> list[float]:
    """Return when the list of connectors last showed it deleted, by the daemon's clock."""
    listed = snapshot.index.lists.get(key[0])
    return [] if listed is None or key[1] not in listed.deleted_at else [listed.deleted_at[key[1]]]


def find_state_changes(snapshot: Snapshot, key: ConnectorKey) -> tuple[StateChange, ...]:
    """Return the state changes of the connector itself that its status topic shows."""
    history = snapshot.index.histories.get((*key, None))
    return () if history is None else history.changes


def compare_pins(
    snapshot: Snapshot,
    plan: Plan,
    state: str | None,
    *,
    stopped_at: float | None = None,
    altering: bool = False,
) -> tuple[str | None, str | None]:
    """Return a plan's pins of its connector's incarnation and state, as they are now.

    Each is as in the plan unless it has changed since, and None if that is unknown.

    state       as REST reports it; None if that is unknown
    """
    assert plan.remedy is not None
    pin = parse_pin(plan.remedy.token)
    changes = find_state_changes(snapshot, plan.connector_key)
    incarnation = compare_incarnation(
        plan.remedy.incarnation,
        pin,
        changes,
        unlisted_at=find_unlisted_times(snapshot, plan.connector_key),
        created_at=plan.created_at,
    )
    if pin is None or state is None:
        return incarnation, None
    token = compare_state(pin, state, changes, stopped_at=stopped_at, altering=altering)
    return incarnation, None if token is None else token.text


class StatePin(NamedTuple):
    """State that was requested of a connector.

    at          timestamp of its newest record in the status topic; None if only REST was queried
    generation  of the worker group, by that record; None if the plan does not have it
    """

    state: str
    at: float | None
    generation: int | None = None

    @property
    def text(self) -> str:
        """Return the pin as plans have it."""
        if self.at is None:
            return f"{self.state}@{_BY_REST}"
        generation = "" if self.generation is None else f"@{self.generation}"
        return f"{self.state}@{self.at!r}{generation}"


def parse_pin(text: str | None) -> StatePin | None:
    """Return the pin of a plan; None if it is missing or has another form."""
    state, mark, record = (text or "").partition("@")
    if not mark or state not in _REQUESTABLE_STATES:
        return None
    if record == _BY_REST:
        return StatePin(state, None)
    name, mark, generation = record.partition("@")
    try:
        return StatePin(state, float(name), int(generation) if mark else None)
    except ValueError:
        return None


def requested_state_of(state: str) -> str:
    """Return the state that was requested: `running` for failed or unassigned."""
    return state if state in {"stopped", "paused"} else "running"


def pin_state(state: str, changes: Sequence[StateChange]) -> StatePin:
    """Pin a connector's state, as REST (`state`) and its status topic report it."""
    requests = filter_requests(changes)
    if not requests:
        return StatePin(requested_state_of(state), None)
    return StatePin(requested_state_of(state), requests[-1].at, requests[-1].generation)


def compare_state(
    pin: StatePin,
    state: str,
    changes: Sequence[StateChange],
    *,
    stopped_at: float | None = None,
    altering: bool = False,
) -> StatePin | None:
    """Return `pin` itself unless other clients requested another state: then that state.

    None if the source of the pin cannot be read now, or if only clocks could tell whether the
    request came before or after.

    stopped_at    when the plan itself stopped the connector, by our clock; None if it did not
    altering      it has, and is about to set offsets: the state in REST is the plan's own doing
    """
    unordered: Sequence[StateChange] = ()
    if pin.at is not None:
        if not filter_requests(changes):
            return None
        later, unordered = _split_changes_since(pin, changes)
        if later and later[-1].state == "stopped" and stopped_at is not None:
            # The plan's own stop, if nothing came after it.
            later = later[:-1] if not is_later(stopped_at, later[-1].at) else later
        if later:
            return StatePin(later[-1].state, later[-1].at, later[-1].generation)
    requested = requested_state_of(state)
    if not altering and requested != pin.state:
        return StatePin(requested, None)
    return None if unordered else pin


def compare_incarnation(
    planned: str | None,
    pin: StatePin | None,
    changes: Sequence[StateChange],
    *,
    unlisted_at: Sequence[float] = (),
    created_at: float = 0.0,
) -> str | None:
    """Return `planned` unless the connector was deleted since the pin: then the times of that.

    None if the source of the pin cannot be read now, or if only clocks could tell whether that was
    before or after. Without a pin, the offset and the record distinguish the incarnations, as they
    are compared too.

    unlisted_at    when lists of connectors agreed that it is deleted, by our clock
    created_at     when it was planned, perhaps by the clock of another replica. So a deletion that
                   the planner did not know of counts, unless it certainly came before
    """
    known, unordered = (planned or "").split(), False
    ends = [
        moment
        for moment in unlisted_at
        if repr(moment) not in known and not is_later(created_at, moment)
    ]
    if pin is not None and pin.at is not None:
        if not filter_requests(changes):
            return None
        later, rest = _split_changes_since(pin, changes)
        ends += [change.at for change in later if change.state == DELETED]
        unordered = any(change.state == DELETED for change in rest)
    return " ".join(map(repr, ends)) or (None if unordered else planned)


def _split_changes_since(
    pin: StatePin, changes: Sequence[StateChange]
) -> tuple[Sequence[StateChange], Sequence[StateChange]]:
    """Return the requests after the pinned record, and those that may be before or after it."""
    for number in range(len(changes) - 1, -1, -1):
        change = changes[number]
        if change.at == pin.at and change.state in _REQUESTABLE_STATES:
            later = filter_requests(changes[number:])[1:]
            is_pinned = change.state != pin.state and later[:1] and later[0].state == pin.state
            return later[1:] if is_pinned else later, ()  # REST was quicker than the topic
    requests = filter_requests(changes)
    assert pin.at is not None
    if requests[0].state == pin.state and requests[0].generation != pin.generation:
        requests = requests[1:]  # written again in a rebalance; nothing tells of a request
    later = [change for change in requests if is_later(change.at, pin.at)]
    if later:
        return later, ()
    return (), [change for change in requests if not is_later(pin.at, change.at)]


def filter_requests(changes: Sequence[StateChange]) -> list[StateChange]:
    """Return the changes that were requested.

    A status that was lost and is written again is not one, nor is one that is written again in a
    rebalance.
    """
    ends, deletions, is_lost, generation = find_deletions(changes), list[StateChange](), False, 0
    for number, change in enumerate(changes):
        if change.state == DELETED and number not in ends:
            is_lost = True
        elif change.state in _REQUESTABLE_STATES or change.state == DELETED:
            same = bool(deletions) and deletions[-1].state == change.state
            again = same and (
                change.generation != generation
                or (is_lost and replace(deletions[-1], at=change.at) == change)
            )
            is_lost, generation = False, change.generation
            if not again:
                deletions.append(change)
    return deletions


# --- views of the snapshot ------------------------------------------------------------------------


def parse_version(version: str) -> tuple[int, ...] | None:
    """Parse the leading numbers of a version; None if it begins with none.

    `7.8.0-ccs` and `3.6.0-cp1` are (7, 8, 0) and (3, 6, 0): what follows a number ends the version.
    """
    match = re.match(r"[0-9]{1,9}(?:\.[0-9]{1,9})*", version)
    return None if match is None else tuple(map(int, match[0].split(".")))


def find_similar_failures(
    snapshot: Snapshot, case: RemediationCase, now: float
) -> frozenset[ConnectorKey]:
    """Return others that failed within SIMILAR_WITHIN_S with the same kind of exception."""
    mine = set() if case.incident is None else {run.kind for run in case.incident.runs}
    return frozenset(
        (run.connect_cluster, run.connector)
        for run in snapshot.failure_runs
        if run.kind in mine
        and (run.connect_cluster, run.connector) != case.key
        and now - (run.last_at if run.read_at is None else run.read_at) <= SIMILAR_WITHIN_S
    )


def has_healthy_sibling(snapshot: Snapshot, key: ConnectorKey) -> bool:
    """Return whether another connector of the same class makes progress.

    A class that is not known is no class.
    """
    index = snapshot.index
    view = index.connectors.get(key)
    class_name = "" if view is None else view.class_name
    healthy = (
        index.connectors.get((judgement.connect_cluster, judgement.connector))
        for verdict in (Verdict.OK, Verdict.IDLE)
        for judgement in index.judgements(Scope.CONNECTOR, verdict)
    )
    return bool(class_name) and any(
        other is not None and other.class_name == class_name and other.name != key[1]
        for other in healthy
    )


def has_failed_at(run: FailureRun, topic: str, partition: int, label: str | None) -> bool:
    """Return whether this position was the same at two failures of a run.

    label   of the source partition; None for a sink's or a mirror's
    """
    return any(same == label or is_label_of(same, topic, partition) for same, _ in run.same)


def is_label_of(label: str, topic: str, partition: int) -> bool:
    """Return whether a position's label names this partition, in a sink's or a mirror's form."""
    return label == f"{topic}-{partition}" or (
        f"topic={topic}" in label and f"partition={partition}" in label.split(",")
    )


def find_longest_run_of(snapshot: Snapshot, key: ConnectorKey) -> FailureRun | None:
    """Return the connector's longest run of failures; None if there is none."""
    runs = snapshot.failure_runs
    return find_longest_run(run for run in runs if (run.connect_cluster, run.connector) == key)


class PartitionLag(NamedTuple):
    """Lag of a partition in its own unit, and the position that it is of; None if unknown."""

    position: int | None
    lag: int


def list_lags(
    snapshot: Snapshot, key: ConnectorKey
) -> Iterator[tuple[TopicPartition | str, PartitionLag]]:
    """Yield the known lags of a connector's partitions; those of a source by their identity."""
    index = snapshot.index
    for sink in index.sink_partitions.get(key, ()):
        if sink.lag is not None:
            partition = TopicPartition(sink.topic, sink.partition)
            yield partition, PartitionLag(sink.committed, sink.lag)
    for mirror in index.mirror_partitions.get(key, ()):
        if mirror.lag is not None:
            partition = TopicPartition(mirror.topic, mirror.partition)
            yield partition, PartitionLag(mirror.lag_position, mirror.lag)
    for source in index.source_partitions.get(key, ()):
        end = index.source_ends.get((*key, source.identity))
        if end is not None and end.lag is not None:
            yield source.identity, PartitionLag(end.position, end.lag)


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


def find_source_partition(
    snapshot: Snapshot, key: ConnectorKey, identity: str
) -> SourcePartitionView | None:
    """Return the view of a source partition; None if there is none."""
    views = snapshot.index.source_partitions.get(key, ())
    return next((view for view in views if view.identity == identity), None)


def is_sink_offset(pair: PartitionOffset) -> bool:
    """Return whether the offset is one of a sink's group, which no offsets topic has."""
    return '"kafka_offset":' in (pair.offset or "")


def find_skipped_record(
    case: RemediationCase,
) -> tuple[RecordLocation, PartitionOffset, PartitionOffset] | None:
    """Return the record to skip, the offset before and the offset after; None if there is none.

    Those of the plan, where there is one: what a search finds later is compared with nothing.
    """
    if case.plan is None:
        return (
            None
            if case.identified is None
            else (case.identified.record, case.identified.frm, case.identified.to)
        )
    copies = [step.record for step in case.plan.steps if isinstance(step, Copy)]
    before = [pair for step in case.plan.steps if isinstance(step, Expect) for pair in step.pairs]
    after = _list_altered_pairs(case.plan)
    if not (copies and before and after):
        return None
    return copies[0], before[0], after[0]


def _list_altered_pairs(plan: Plan) -> list[PartitionOffset]:
    return [pair for step in plan.steps if isinstance(step, Alter) for pair in step.pairs]


def has_canonical_key(view: SourcePartitionView) -> bool:
    """Check whether the task looks up the same raw key as Connect's REST API."""
    return view.offset is not None and view.is_hash_map


def find_altered_keys(snapshot: Snapshot, case: RemediationCase) -> tuple[int | None, bool | None]:
    """Return the most raw keys of a partition that a plan alters, and if all are canonical.

    Both are None where one of the partitions is not known.
    """
    pairs = [] if case.plan is None else _list_altered_pairs(case.plan)
    partitions = [find_source_partition(snapshot, case.key, pair.partition) for pair in pairs]
    views = [view for view in partitions if view is not None]
    if not views or len(views) < len(partitions):
        return None, None
    return 1 + max(view.variants for view in views), all(map(has_canonical_key, views))


def is_same_partition(identity: str, topic: str, partition: int) -> bool:
    """Return whether a partition in Connect's form is this one, for a sink or a mirror."""
    members = msgspec.json.decode(identity)
    names = (
        members.get("kafka_topic", members.get("topic")),
        members.get("kafka_partition", members.get("partition")),
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
