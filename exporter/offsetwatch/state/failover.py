"""Failover cost of each consumer group, if it moved to the target of a flow now.

The cost is the number of records that it would read again or skip.

A group lands on its own commit on the target, if it has one (with sync.group.offsets MM2 writes
it), else on the newest checkpoint, which RemoteClusterUtils.translateOffsets returns. The syncs
give the best offset to land on (state/mirror/offset_translation.py). What lies between the two is
read again, or never.

The response of one poll is combined with the tails' state once. The result holds until the next
response or until one of its inputs goes stale. Numbers are left out where they are not known:

- A group beyond the upstream log end names no record: that topic was truncated or recreated. (A
  group before the log start does: what upstream has deleted may still be on the target.)
- A start offset outside the downstream log: the consumer's own auto.offset.reset decides then.
- A target topic that ends before a record that was acknowledged there: it is another one now.
- Partitions whose syncs may be those of another flow.
- Topics whose copies a transform writes to an unknown topic, or to one together with those of
  another topic.

A group that is ahead of what was replicated would read again only what follows its start offset:
`best` is then the end of the downstream log. A record that the downstream log no longer has is
replaced by the first one that it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from offsetwatch.model.observations import (
    GROUPS,
    CheckpointRecord,
    GroupOffset,
    GroupOffsetsRead,
    HeartbeatRecord,
    InputId,
    LogBounds,
    TailRead,
    TopicsChecked,
)
from offsetwatch.model.topology import FlowKey, KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.key_budget import KeyBudget
from offsetwatch.state.mirror.mm2_names import (
    DEFAULT_POLICY,
    IDENTITY_POLICY,
    find_merged_topics,
    locate_checkpoints,
    locate_heartbeats,
    resolve_checkpoint_topic,
)
from offsetwatch.state.mirror.offset_translation import PartitionSyncs
from offsetwatch.state.mirror.replication import Replication
from offsetwatch.state.snapshot import (
    CheckpointView,
    GroupOffsetsRequest,
    GroupPartition,
    GroupView,
    HeartbeatView,
)

OWN_COMMIT, CHECKPOINT = "group", "checkpoint"  # where a start offset comes from


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Position of a group in a partition at one moment. Offsets name the NEXT record.

    upstream        the group's commit on the source
    own             its own commit on the target; None if it has none
    checkpoint      the downstream offset of its newest checkpoint; None if there is none
    syncs           None if there are none, or they may be another flow's
    here, there     bounds of the upstream and the downstream log; None if they are not known
    synced_before   whether the newest sync was known before the downstream log's end was read
    had_start_offset_before    whether the start offset was. A group's own commit always is.
    """

    upstream: int
    own: int | None
    checkpoint: int | None
    syncs: PartitionSyncs | None
    here: LogBounds | None
    there: LogBounds | None
    synced_before: bool
    had_start_offset_before: bool

    @property
    def start_offset(self) -> int | None:
        """Return the offset where the group would start; None without commit and checkpoint."""
        return self.checkpoint if self.own is None else self.own

    @property
    def start_offset_from(self) -> str | None:
        """Return OWN_COMMIT or CHECKPOINT; None without a start offset."""
        if self.own is not None:
            return OWN_COMMIT
        return None if self.checkpoint is None else CHECKPOINT


@dataclass(frozen=True, slots=True)
class FailoverCost:
    """Failover cost of a group in a partition; None is not known.

    best            the offset from which nothing is read twice and nothing is skipped
    translated      the least that MM2 translates its upstream offset to
                    (state/mirror/offset_translation.py)
    reread, skip    records that it reads again, and that it never reads: one of them is 0
    """

    best: int | None = None
    translated: int | None = None
    reread: int | None = None
    skip: int | None = None


def compute_failover_cost(position: GroupPosition) -> FailoverCost:
    """Compute the failover cost of a group in a partition, at any moment.

    This is the only place of the computation: history/failover_report/replay.py uses it, too.
    """
    if position.syncs is None or position.here is None or position.upstream > position.here.end:
        return FailoverCost()
    best = _find_best_start(position, position.syncs)
    translated = position.syncs.at_least(position.upstream)
    if (
        best is None
        or position.start_offset is None
        or not _can_start_at(position, position.start_offset)
    ):
        return FailoverCost(best=best, translated=translated)
    number = position.syncs.history.record_number
    distance = number(best) - number(position.start_offset)
    return FailoverCost(
        best=best, translated=translated, reread=max(0, distance), skip=max(0, -distance)
    )


def _find_best_start(position: GroupPosition, syncs: PartitionSyncs) -> int | None:
    """Return the best offset to start at, inside the downstream log; None if it is not known."""
    newest = syncs.history.newest
    if position.there is None or newest is None:
        return None
    if newest[1] >= position.there.end and position.synced_before:
        return None
    # What was acknowledged or checkpointed since the log end was read is there by now.
    end = max(
        position.there.end,
        newest[1] + 1,
        0 if position.start_offset is None else position.start_offset,
    )
    best = syncs.history.best(position.upstream, end)
    return None if best is None else max(best, position.there.start)


def _can_start_at(position: GroupPosition, target: int) -> bool:
    """Return whether a consumer can start at this offset of the downstream log."""
    if position.there is None or target < position.there.start:
        return False
    return target <= position.there.end or not (
        position.own is not None or position.had_start_offset_before
    )


# A client each, on both sides, of which 64 stay connected (clients/kafka/groups.py): beyond that a
# round costs a connection per group. Those with the newest checkpoints are the ones alive.
GROUPS_MAX: Final = 200
GROUP_PARTITIONS_MAX: Final = 20_000  # of all groups of a flow: two series and a row each
HEARTBEATS_MAX: Final = 10_000  # pairs of aliases in one topic
CHECKPOINTS_MAX: Final = 200_000  # groups x partitions of one topic; deleted groups stay in there

_CheckpointKey = tuple[str, str, int]  # group, topic on the target, partition


def build_groups_input(flow: FlowKey) -> InputId:
    """Return the input id of a flow's consumer groups."""
    connect_cluster, source, target = flow
    return InputId(GROUPS, connect_cluster=connect_cluster, source=source, target=target)


class _NewestCheckpoint(NamedTuple):
    """Downstream offset of a checkpoint, its timestamp, and when it was read live, by our clock."""

    offset: int
    at: float
    read_at: float | None


@dataclass(slots=True)
class _Checkpoints:
    newest: dict[_CheckpointKey, _NewestCheckpoint] = field(default_factory=dict)
    by_group: dict[str, float] = field(default_factory=dict)
    budget: KeyBudget = field(default_factory=lambda: KeyBudget(CHECKPOINTS_MAX))

    def apply(self, records: Iterable[CheckpointRecord], read_at: float | None) -> int:
        """Apply records; return the number of those that have no room."""
        dropped = 0
        for record in records:
            checkpoint = record.checkpoint
            key = (checkpoint.group, checkpoint.topic, checkpoint.partition)
            size = len(checkpoint.group) + len(checkpoint.topic)
            if key not in self.newest and not self.budget.take(size):
                dropped += 1
                continue
            self.newest[key] = _NewestCheckpoint(checkpoint.downstream_offset, record.at, read_at)
            self.by_group[checkpoint.group] = max(
                record.at, self.by_group.get(checkpoint.group, record.at)
            )
        return dropped


@dataclass(slots=True)
class _GroupOffsetsAnswer:
    """Newest response with a flow's group offsets, and the views built from it.

    `before` is the previous response. Its syncs and start offsets were known before the log ends of
    this one were read.
    """

    read: GroupOffsetsRead
    views: tuple[GroupView, ...] | None = None
    start_offsets: dict[_CheckpointKey, int] = field(default_factory=dict)
    synced: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    before: _GroupOffsetsAnswer | None = None

    def knew_sync(self, partition: TopicPartition, newest: tuple[int, int] | None) -> bool:
        """Return whether this sync was known before the log ends were read."""
        return self.before is not None and self.before.synced.get(partition) == newest

    def knew_checkpoint(self, where: _CheckpointKey, checkpoint: _NewestCheckpoint | None) -> bool:
        """Return whether this checkpoint was known before the log ends were read."""
        if self.before is None or checkpoint is None:
            return False
        return self.before.start_offsets.get(where) == checkpoint.offset


class FailoverGroups:
    """Failover state of the consumer groups of all flows.

    `wants_topic` returns whether the configuration of a Connect cluster includes an upstream topic.
    """

    def __init__(
        self,
        inputs: Inputs,
        replication: Replication,
        wants_topic: Callable[[str, str], bool],
    ) -> None:
        self._inputs = inputs
        self._replication = replication
        self._wants_topic = wants_topic
        self._flows: dict[FlowKey, MirrorFlow] = {}
        self._there: dict[str, frozenset[str]] = {}
        self._checkpoints: dict[KafkaTopic, _Checkpoints] = {}
        self._heartbeats: dict[KafkaTopic, dict[tuple[str, str], float]] = {}
        self._heartbeat_budgets: dict[KafkaTopic, KeyBudget] = {}
        self._answers: dict[FlowKey, _GroupOffsetsAnswer] = {}
        self._requests: dict[FlowKey, tuple[object, GroupOffsetsRequest | None]] = {}
        self._cut: dict[FlowKey, frozenset[str]] = {}
        self._dropped = Counter[str]()

    # --- taking in -------------------------------------------------------------------------------

    def follow(self, flows: Iterable[MirrorFlow]) -> None:
        """Replace the flows. Two with one pair of aliases share one checkpoints topic."""
        self._flows = {}
        for flow in flows:
            self._flows.setdefault(flow.key, flow)
        tables: tuple[dict[FlowKey, Any], ...] = (self._answers, self._requests, self._cut)
        for table in tables:
            for key in table.keys() - self._flows.keys():
                del table[key]

    def retire(self, tail: InputId) -> None:
        """Forget the records of a tail that has ended: its topic would be read from the start."""
        tables: tuple[dict[KafkaTopic, Any], ...]
        tables = (self._checkpoints, self._heartbeats, self._heartbeat_budgets)
        for table in tables:
            for topic in [topic for topic in table if InputId.of_tail(topic) == tail]:
                del table[topic]

    def apply_topics(self, checked: TopicsChecked) -> None:
        """Record which of a Kafka cluster's topics exist."""
        self._there[checked.kafka] = checked.there

    def topics(self) -> tuple[tuple[KafkaTopic, ...], tuple[KafkaTopic, ...]]:
        """Return the existing checkpoints topics and heartbeats topics, in a stable order."""
        flows = self._flows.values()
        checkpoints = {topic for flow in flows if (topic := locate_checkpoints(flow)) is not None}
        heartbeats = {topic for flow in flows for topic in locate_heartbeats(flow)}
        return (
            tuple(sorted(filter(self._exists, checkpoints))),
            tuple(sorted(filter(self._exists, heartbeats))),
        )

    def apply(self, read: TailRead) -> None:
        """Apply the checkpoints and heartbeats among the records of a tail."""
        checkpoints = [record for record in read.records if isinstance(record, CheckpointRecord)]
        if read.whole:
            self.retire(read.input)
        if checkpoints:
            known = self._checkpoints.setdefault(read.topic, _Checkpoints())
            read_at = None if read.whole else read.at
            self._dropped["checkpoints"] += known.apply(checkpoints, read_at)
        for record in read.records:
            if isinstance(record, HeartbeatRecord):
                beat = record.heartbeat
                beats = self._heartbeats.setdefault(read.topic, {})
                of = (beat.source, beat.target)
                budget = self._heartbeat_budgets.setdefault(read.topic, KeyBudget(HEARTBEATS_MAX))
                if of not in beats and not budget.take(len(beat.source) + len(beat.target)):
                    self._dropped["heartbeats"] += 1
                    continue
                beats[of] = beat.at

    def read(self, answer: GroupOffsetsRead) -> None:
        """Apply a response with the committed offsets of a flow's groups."""
        if answer.flow in self._flows:
            before = self._answers.get(answer.flow)
            if before is not None:
                before.before = None
                if before.views is None:
                    before = None
            self._answers[answer.flow] = _GroupOffsetsAnswer(answer, before=before)

    # --- giving out ------------------------------------------------------------------------------

    def dropped(self) -> dict[str, int]:
        """Return the number of entries that limits dropped, by reason."""
        return dict(+self._dropped)

    def requests(self) -> tuple[GroupOffsetsRequest, ...]:
        """Return the groups whose offsets are to be requested: those with a checkpoint."""
        requests = (self._build_request(flow) for _, flow in sorted(self._flows.items()))
        return tuple(request for request in requests if request is not None)

    def groups(self, now: float) -> tuple[GroupView, ...]:
        """Return the failover cost of each group, for flows whose inputs are all live."""
        return tuple(
            view
            for key, flow in sorted(self._flows.items())
            if self._are_inputs_live(flow, now)
            for view in self._views(key, flow)
        )

    def checkpoints(self, now: float) -> tuple[CheckpointView, ...]:
        """Return the newest checkpoint of each group that still has an offset upstream."""
        views: list[CheckpointView] = []
        for key, flow in sorted(self._flows.items()):
            topic = locate_checkpoints(flow)
            if topic is None or not self._whole(topic, now):
                continue
            known, answer = self._checkpoints.get(topic), self._answers.get(key)
            offsets = () if answer is None else answer.read.offsets
            alive = {offset.group for offset in offsets if offset.upstream is not None}
            gone = {offset.group for offset in offsets} - alive
            views += [
                CheckpointView(*key, group=group, at=moment)
                for group, moment in sorted(known.by_group.items() if known is not None else ())
                if group not in gone
            ]
        return tuple(views)

    def heartbeats(self, now: float) -> tuple[HeartbeatView, ...]:
        """Return the newest heartbeat of each flow."""
        views = []
        for key, flow in sorted(self._flows.items()):
            beats = [
                self._heartbeats[topic][flow.source, flow.target]
                for topic in locate_heartbeats(flow)
                if (flow.source, flow.target) in self._heartbeats.get(topic, {})
                and self._whole(topic, now)
            ]
            if beats:
                views.append(HeartbeatView(*key, at=max(beats)))
        return tuple(views)

    # --- details ---------------------------------------------------------------------------------

    def _exists(self, topic: KafkaTopic) -> bool:
        return topic.topic in self._there.get(topic.kafka, ())

    def _whole(self, topic: KafkaTopic, now: float) -> bool:
        return self._exists(topic) and self._inputs.whole(InputId.of_tail(topic), now)

    def _are_inputs_live(self, flow: MirrorFlow, now: float) -> bool:
        checkpoints, syncs = locate_checkpoints(flow), flow.offset_syncs
        return (
            checkpoints is not None
            and syncs is not None
            and self._whole(checkpoints, now)
            and self._inputs.whole(InputId.of_tail(syncs), now)
            and self._inputs.live(build_groups_input(flow.key), now)
        )

    def _build_request(self, flow: MirrorFlow) -> GroupOffsetsRequest | None:
        topic = locate_checkpoints(flow)
        known = self._checkpoints.get(topic) if topic is not None and self._exists(topic) else None
        if known is None or flow.upstream is None or flow.downstream is None:
            return None
        names: frozenset[str] = frozenset()
        if flow.routers or flow.copies or flow.policy not in {DEFAULT_POLICY, IDENTITY_POLICY}:
            names = frozenset(partition.topic for partition in self._replication.translations(flow))
        state = (flow, id(known), len(known.newest), names)
        last = self._requests.get(flow.key)
        if last is None or last[0] != state:
            partitions = self._select_partitions(flow, known, names)
            request = GroupOffsetsRequest(flow.key, flow.upstream, flow.downstream, partitions)
            last = self._requests[flow.key] = (state, request if partitions else None)
        return last[1]

    def _select_partitions(
        self, flow: MirrorFlow, known: _Checkpoints, names: frozenset[str]
    ) -> tuple[GroupPartition, ...]:
        rows: dict[str, list[GroupPartition]] = {}
        merged = find_merged_topics(flow, names)
        for group, name, partition in known.newest:
            copied = resolve_checkpoint_topic(flow, name, names)
            if copied is None or copied[0] in merged:
                continue
            topic, copy = copied
            if self._wants_topic(flow.connect_cluster, topic):
                checkpointed = None if copy == name else name
                rows.setdefault(group, []).append(
                    GroupPartition(group, topic, copy, partition, checkpointed)
                )
        selected: list[GroupPartition] = []
        cut: set[str] = set()
        newest_first = sorted(rows, key=lambda name: (-known.by_group[name], name))
        for number, group in enumerate(newest_first):
            if number >= GROUPS_MAX or len(selected) + len(rows[group]) > GROUP_PARTITIONS_MAX:
                cut.add(group)
            else:
                selected += rows[group]
        self._dropped["groups"] += len(cut - self._cut.get(flow.key, frozenset()))
        self._cut[flow.key] = frozenset(cut)
        return tuple(selected)

    def _views(self, key: FlowKey, flow: MirrorFlow) -> tuple[GroupView, ...]:
        """Return the views of a flow's groups.

        They are built once for each response: later syncs and checkpoints wait for the next one.
        """
        answer = self._answers.get(key)
        if answer is None:
            return ()
        if answer.views is None:
            translations = self._replication.translations(flow)
            answer.synced = {
                partition: syncs.history.newest
                for partition, syncs in translations.items()
                if syncs.history.newest is not None
            }
            topic = locate_checkpoints(flow)
            known = None if topic is None else self._checkpoints.get(topic)
            checkpoints = {} if known is None else known.newest
            answer.views = tuple(
                self._view(answer, row, row.upstream, translations, checkpoints)
                for row in answer.read.offsets
                if row.upstream is not None
            )
            answer.before = None
        return answer.views

    def _view(
        self,
        answer: _GroupOffsetsAnswer,
        row: GroupOffset,
        upstream: int,
        translations: Mapping[TopicPartition, PartitionSyncs],
        checkpoints: Mapping[_CheckpointKey, _NewestCheckpoint],
    ) -> GroupView:
        where = (row.group, row.checkpointed or row.remote, row.partition)
        partition = TopicPartition(row.topic, row.partition)
        checkpoint = checkpoints.get(where)
        syncs = translations.get(partition)
        position = GroupPosition(
            upstream=upstream,
            own=row.downstream,
            checkpoint=None if checkpoint is None else checkpoint.offset,
            syncs=syncs,
            here=answer.read.upstream.get(partition),
            there=answer.read.downstream.get(TopicPartition(row.remote, row.partition)),
            synced_before=syncs is not None and answer.knew_sync(partition, syncs.history.newest),
            had_start_offset_before=answer.knew_checkpoint(where, checkpoint),
        )
        cost = compute_failover_cost(position)
        if position.start_offset is not None:
            answer.start_offsets[where] = position.start_offset
        return GroupView(
            *answer.read.flow,
            group=row.group,
            topic=row.topic,
            partition=row.partition,
            upstream=upstream,
            best=cost.best,
            start_offset=position.start_offset,
            start_offset_from=position.start_offset_from,
            translated=cost.translated,
            reread=cost.reread,
            skip=cost.skip,
            checkpoint_at=None if checkpoint is None else checkpoint.at,
            checkpoint_read_at=None if checkpoint is None else checkpoint.read_at,
        )
