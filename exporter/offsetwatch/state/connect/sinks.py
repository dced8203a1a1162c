"""Sink connectors: committed offsets of their groups, log ends, lag and record ages.

A group's committed offset is the NEXT record. So an idle sink behind a transaction marker has a lag
of one for ever, and only a read of the log shows that nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf

from offsetwatch.decode.rest_answers import parse_consumed_partition
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    Follower,
    InputId,
    OffsetsPolled,
    ProbeRoundRead,
    SinkOffset,
    SinkOffsetsRead,
    build_rest_offsets_input,
)
from offsetwatch.model.topology import SinkGroup, TopicPartition
from offsetwatch.state.connect.connect_cluster import ConnectClusterState
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.mirror.lag import (
    UNKNOWN_LATENESS,
    Lateness,
    OldestRecordAges,
    UnreadRange,
    compute_sink_lag,
)
from offsetwatch.state.snapshot import RestConnector, SinkPartitionView


class Sinks:
    """State of all sink connectors: the last group offsets of each Connect cluster."""

    def __init__(self, clusters: Mapping[str, ConnectClusterState], inputs: Inputs) -> None:
        self._clusters = clusters
        self._inputs = inputs
        self._offsets: dict[str, tuple[SinkOffset, ...]] = {}
        self._missing: dict[str, tuple[tuple[str, str], ...]] = {}
        self._ages = OldestRecordAges()
        self._groups: tuple[SinkGroup, ...] = ()
        self.by_rest: tuple[RestConnector, ...] = ()
        """The sinks whose offsets are polled over REST, in order."""
        self._polled: dict[tuple[str, str], tuple[SinkOffset, ...]] = {}
        self._polled_ends: dict[str, tuple[float, dict[Follower, SinkOffset]]] = {}

    def follow(self, groups: tuple[SinkGroup, ...]) -> None:
        """Replace the sink connectors' groups."""
        self._groups = groups

    def choose_stores(self) -> None:
        """Use REST for each group that is on no configured Kafka cluster, or cannot be read."""
        self.by_rest = tuple(
            RestConnector(group.connect_cluster, group.connector, sink=True)
            for group in sorted(
                self._groups, key=lambda sink: (sink.connect_cluster, sink.connector)
            )
            if self._clusters[group.connect_cluster].of.rest and self._is_unread(group)
        )
        keys = {(connector.connect_cluster, connector.connector) for connector in self.by_rest}
        self._polled = {key: offsets for key, offsets in self._polled.items() if key in keys}

    def _is_unread(self, group: SinkGroup) -> bool:
        if group.kafka is None:
            return True
        state = self._inputs.find(InputId(GROUPS, connect_cluster=group.connect_cluster))
        if state is None or not (state.last_reason or state.errors["denied"]):
            return False
        read = self._offsets.get(group.connect_cluster, ())
        return all(offset.connector != group.connector for offset in read)

    def polled(self, polled: OffsetsPolled) -> None:
        """Apply offsets polled over REST, without log ends.

        Entries of another shape are no use, nor are different offsets of one partition.
        """
        key = (polled.connect_cluster, polled.connector)
        if all(
            (connector.connect_cluster, connector.connector) != key for connector in self.by_rest
        ):
            return  # a source, or its group is read meanwhile
        offsets: dict[TopicPartition, set[int]] = {}
        for identity, text in polled.offsets:
            consumed = parse_consumed_partition(identity, text)
            if consumed is not None:
                topic, partition, committed = consumed
                offsets.setdefault(TopicPartition(topic, partition), set()).add(committed)
        self._polled[key] = tuple(
            SinkOffset(polled.connector, *partition, committed.pop(), None)
            for partition, committed in sorted(offsets.items())
            if len(committed) == 1
        )

    def read(self, offsets: SinkOffsetsRead, now: float) -> None:
        """Apply committed offsets of groups, and the log ends that were read after them."""
        self._offsets[offsets.connect_cluster] = offsets.offsets
        self._missing[offsets.connect_cluster] = offsets.missing
        cluster, read_at = offsets.connect_cluster, now if offsets.at is None else offsets.at
        ends = {_build_follower(cluster, offset): offset for offset in offsets.by_rest}
        self._polled_ends[cluster] = (read_at, ends)
        ranges = (
            (_build_follower(cluster, offset), _build_unread_range(offset))
            for offset in offsets.offsets
        )
        self._ages.apply_bounds(cluster, ranges, at=read_at, now=now)

    def apply_probes(self, probe_round: ProbeRoundRead) -> None:
        """Apply the results of probes."""
        self._ages.apply_probes(probe_round.answers, probe_round.at)

    def views(self, now: float) -> tuple[SinkPartitionView, ...]:
        """Return the views of all partitions that sinks consume and whose inputs are live."""
        names = sorted({*self._offsets, *(name for name, _ in self._polled)})
        return tuple(
            view
            for name in names
            for view in (*self._build_views(name, now), *self._build_rest_views(name, now))
        )

    def missing_topics(self, now: float) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """Return the topics that were not found when live inputs were last read, by sink.

        Only topics that the sink's configuration names now.
        """
        named = {(group.connect_cluster, group.connector): group.topics for group in self._groups}
        found: dict[tuple[str, str], tuple[str, ...]] = {}
        for cluster, missing in self._missing.items():
            if not self._inputs.live(InputId(GROUPS, connect_cluster=cluster), now):
                continue
            wants_topic = self._clusters[cluster].of.wants_topic
            for connector, topic in missing:
                key = (cluster, connector)
                if topic in named.get(key, ()) and wants_topic(topic):
                    found[key] = (*found.get(key, ()), topic)
        return found

    def _build_rest_views(self, cluster: str, now: float) -> Iterator[SinkPartitionView]:
        connect_cluster = self._clusters[cluster]
        if not self._polled or not self._inputs.live(
            InputId(CONNECT_REST, connect_cluster=cluster), now
        ):
            return
        read_at, ends = self._polled_ends.get(cluster, (-inf, {}))
        if not self._inputs.recent(GROUPS, read_at, now):
            ends = {}
        for (name, connector), offsets in sorted(self._polled.items()):
            rest = build_rest_offsets_input(cluster, connector)
            if (
                name != cluster
                or not self._inputs.live(rest, now)
                or connect_cluster.gone(connector)
            ):
                continue
            for offset in offsets:
                if connect_cluster.of.wants_topic(offset.topic):
                    # A log end comes with the offset known before it was read.
                    read = ends.get(_build_follower(cluster, offset), offset)
                    yield _build_view(
                        cluster, read, offset.committed, UNKNOWN_LATENESS, from_rest=True
                    )

    def _build_views(self, cluster: str, now: float) -> Iterator[SinkPartitionView]:
        if cluster not in self._offsets or not self._inputs.live(
            InputId(GROUPS, connect_cluster=cluster), now
        ):
            return
        connect_cluster = self._clusters[cluster]
        for offset in self._offsets[cluster]:
            if offset.connector in connect_cluster.by_name and connect_cluster.of.wants_topic(
                offset.topic
            ):
                lateness = self._compute_lateness(cluster, offset)
                yield _build_view(cluster, offset, offset.committed, lateness)

    def _compute_lateness(self, cluster: str, offset: SinkOffset) -> Lateness:
        unread = _build_unread_range(offset)
        # A position beyond the end is none in this log: nothing lies "after" it.
        if unread is None or (offset.committed or 0) > unread.end:
            return UNKNOWN_LATENESS
        return self._ages.compute_lateness(cluster, _build_follower(cluster, offset), unread)


def _build_view(
    cluster: str,
    offset: SinkOffset,
    committed: int | None,
    lateness: Lateness,
    *,
    from_rest: bool = False,
) -> SinkPartitionView:
    following, end = _find_next_offset(offset), offset.log_end
    return SinkPartitionView(
        connect_cluster=cluster,
        connector=offset.connector,
        topic=offset.topic,
        partition=offset.partition,
        committed=committed,
        log_end=end,
        lag=None if following is None or end is None else compute_sink_lag(following, end),
        log_start=offset.log_start,
        caught_up=lateness.caught_up,
        behind_since=lateness.since,
        behind_from=lateness.known_by,
        probe_from=lateness.probe_from,
        from_rest=from_rest,
    )


def _build_follower(cluster: str, offset: SinkOffset) -> Follower:
    return (cluster, offset.connector, TopicPartition(offset.topic, offset.partition))


def _find_next_offset(offset: SinkOffset) -> int | None:
    """Return the next offset to read; None if a sink without a commit may begin anywhere."""
    if offset.committed is None:
        return offset.log_start if offset.from_start else None
    return offset.committed


def _build_unread_range(offset: SinkOffset) -> UnreadRange | None:
    """Return the unread range of a sink; None if it is not known or the log was not read."""
    following = _find_next_offset(offset)
    if following is None or offset.log_end is None:
        return None
    start = 0 if offset.log_start is None else offset.log_start
    return UnreadRange(
        following=max(following, start),
        start=start,
        end=offset.log_end,
        committed=offset.committed_only,
    )
