"""Poll of one Kafka cluster: log bounds of all replicated partitions, and their topic ids.

A partition is polled if a flow has a position in it. The daemon schedules the poll; two may run at
the same time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from math import inf
from typing import Final

from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.kafka.log_bounds import EARLIEST, LATEST
from offsetwatch.clock import UnixClock
from offsetwatch.errors import ClientError
from offsetwatch.ingest.polls import Batch, build_failure, build_partial_failures, match_topics
from offsetwatch.model.observations import (
    LOG_ENDS,
    FilteredTopics,
    InputId,
    InputSucceeded,
    LogBounds,
    LogEndsRead,
    LogEndsRequested,
)
from offsetwatch.model.topology import MirrorFlow, TopicPartition
from offsetwatch.state.mirror.mm2_names import is_decided_by_filter, may_be_cycle
from offsetwatch.state.snapshot import MirrorPartitionView, Snapshot

TOPIC_IDS_PER_REQUEST: Final = 500  # at once: an answer describes every partition of each
# Log starts, and the ids of topics, cost more than the log ends, and change rarely: brokers look
# for what retention is to delete once in five minutes (log.retention.check.interval.ms). Where
# there are many partitions topics take turns, within three minutes as a rule. What became of the
# records of a topic (state/loss/accounting.py) is looked at in its turn, by what is read then.
TURN_PARTITIONS: Final = 250
TURNS_MAX: Final = 36
# A list of all topics is long where there are many, and MM2 itself looks every ten minutes.
LISTING_S: Final = 60.0

_TopicIdentity = tuple[str | None, int]  # id and number of partitions


@dataclass(frozen=True, slots=True)
class _RequestedPartitions:
    """Partitions whose bounds are requested from a cluster, reused while they do not change.

    partitions  in order
    topics      number of these partitions by topic
    """

    sources: tuple[tuple[MirrorPartitionView, ...], tuple[MirrorFlow, ...]]
    partitions: tuple[TopicPartition, ...]
    topics: Mapping[str, int]
    stable: bool

    def positions(self, topic: str) -> range:
        """Return the range of indexes of this topic's partitions in `partitions`."""
        first = bisect_left(self.partitions, TopicPartition(topic, -1))
        return range(first, first + self.topics[topic])


@dataclass(frozen=True, slots=True)
class _LogEndsAnswer:
    of: tuple[TopicPartition, ...]
    starts: list[int | None]
    ends: list[int | None]
    stable_ends: list[int | None]
    bounds: dict[TopicPartition, LogBounds]


class LogEndsPoll:
    """Poll of the log ends of one Kafka cluster, and of log starts and topic ids in turns.

    Unchanged LogBounds are the same objects as in the answer before: most logs of most clusters do
    not change most of the time.
    """

    def __init__(
        self,
        admin: KafkaInspector,
        put: Callable[[Batch], bool],
        clock: UnixClock,
        rounds: Iterator[int] | None = None,
    ) -> None:
        self._admin = admin
        self._put = put
        self._clock = clock
        self._rounds = count() if rounds is None else rounds
        self._requested_partitions: _RequestedPartitions | None = None
        self._last: _LogEndsAnswer | None = None
        self._ids: dict[str, _TopicIdentity] = {}  # of each topic, as of its last turn
        self._filtered: dict[tuple[str, str], FilteredTopics] = {}
        self._filtered_at = -inf

    def poll(self, snapshot: Snapshot) -> None:
        """Poll once.

        LogEndsRequested enters the queue before the request is sent: this order makes the lag
        sound.

        Bounds belong to a topic if the topic's id is the same before and after they are read. An id
        costs as much as a description of all partitions, so each turn of a topic starts with the id
        with which its last turn ended.
        """
        admin, input_id = self._admin, InputId(LOG_ENDS, kafka=self._admin.name)
        requested = self._find_requested(snapshot)
        number = next(self._rounds)
        if not self._put(
            (LogEndsRequested(kafka=admin.name, number=number, at=self._clock.now()),)
        ):
            return
        topics = _choose_topics(requested.topics, number)
        known = self._ids
        before = {topic: known[topic] for topic in topics if topic in known}
        refused: dict[TopicPartition, ClientError] = {}
        filtered = self._filter_topics(snapshot.topology.flows)
        try:
            before |= _read_topic_ids(admin, [topic for topic in topics if topic not in before])
            bounds = self._bounds(requested, topics, refused)
            after = _read_topic_ids(admin, topics)
            if any(after.get(name, key)[0] != key[0] for name, key in before.items()):
                # Made anew since its last turn; of which of the two the bounds are nobody knows.
                before = after
                bounds = self._bounds(requested, topics, refused)
                after = _read_topic_ids(admin, topics)
            if refused and not bounds:
                raise next(iter(refused.values()))
        except ClientError as exc:
            self._put((build_failure(input_id, exc),))
            return
        self._ids = now = {
            name: key for name, key in known.items() if name in requested.topics
        } | after
        self._put(
            (
                LogEndsRead(
                    kafka=admin.name,
                    number=number,
                    bounds=bounds,
                    ids={
                        name: key[0]
                        for name, key in before.items()
                        if name in after and after[name][0] == key[0]
                    },
                    partitions={name: count for name, (_, count) in now.items()},
                    filtered=filtered,
                ),
                InputSucceeded(input=input_id, at=self._clock.now()),
                *build_partial_failures(input_id, _name_partitions(refused)),
            )
        )

    def _filter_topics(
        self, flows: Iterable[MirrorFlow]
    ) -> Mapping[tuple[str, str], FilteredTopics]:
        """Return the topics of the cluster by the filters of its flows; none if that fails.

        They are listed once in LISTING_S. The same object if unchanged.
        """
        now = self._clock.now()
        if 0 <= now - self._filtered_at < LISTING_S:
            return self._filtered
        filters = {
            flow.connector_key: flow
            for flow in flows
            if flow.upstream == self._admin.name and flow.topic_filter is not None
        }
        self._filtered_at, filtered = now, {}
        with suppress(ClientError):  # log ends do not need them
            existing = self._admin.topics()[0] if filters else {}
            filtered = {
                key: topics
                for key, flow in filters.items()
                if (topics := filter_topics(flow, existing)) is not None
            }
        if filtered != self._filtered:
            self._filtered = filtered
        return self._filtered

    def _find_requested(self, snapshot: Snapshot) -> _RequestedPartitions:
        last = self._requested_partitions
        made_of = (snapshot.mirror_partitions, snapshot.topology.flows)
        if last is not None and last.sources[0] is made_of[0] and last.sources[1] == made_of[1]:
            return last
        flows = {
            (flow.connect_cluster, flow.connector): flow
            for flow in snapshot.topology.flows
            if flow.upstream == self._admin.name
        }
        partition_set = {
            TopicPartition(view.topic, view.partition)
            for view in snapshot.mirror_partitions
            if (view.connect_cluster, view.connector) in flows
        }
        partitions = tuple(sorted(partition_set))
        if last is not None and last.partitions == partitions:
            partitions = last.partitions
        self._requested_partitions = requested = _RequestedPartitions(
            sources=made_of,
            partitions=partitions,
            topics=Counter(partition.topic for partition in partitions),
            stable=any(flow.read_committed is not False for flow in flows.values()),
        )
        return requested

    def _bounds(
        self,
        requested: _RequestedPartitions,
        topics: Collection[str],
        refused: dict[TopicPartition, ClientError],
    ) -> dict[TopicPartition, LogBounds]:
        """Return log starts and ends of all partitions; read log starts again for `topics` only.

        Partitions that do not exist, have no leader or are refused are left out: one of them must
        not hide the lag of the others.
        """
        admin, partitions, last = self._admin, requested.partitions, self._last
        if not partitions:
            admin.topics()  # nothing to ask for yet: still find out whether the cluster answers
            return {}
        if last is not None and last.of is not partitions:
            last = None
        starts: list[int | None] = [None] * len(partitions) if last is None else [*last.starts]
        # Of ten thousand at rest to look at each one takes as long as to ask: lists are compared
        # and searched as a whole.
        positions = chain.from_iterable(requested.positions(topic) for topic in topics)
        if None in starts:
            positions = chain(
                positions, (position for position, index in enumerate(starts) if index is None)
            )
        self._request_starts(refused, partitions, starts, sorted(frozenset(positions)))
        ends = admin.log_offsets(partitions, LATEST, committed=False, refused=refused)
        if last is None or (starts, ends) != (last.starts, last.ends):
            # A log that ends before it was seen to begin is another one.
            self._request_starts(
                refused,
                partitions,
                starts,
                [
                    position
                    for position, (start, end) in enumerate(zip(starts, ends, strict=True))
                    if start is not None and end is not None and end < start
                ],
            )
        stable_ends = (
            admin.log_offsets(partitions, LATEST, committed=True, refused=refused)
            if requested.stable
            else ends
        )
        if last is not None and (starts, ends, stable_ends) == (
            last.starts,
            last.ends,
            last.stable_ends,
        ):
            return last.bounds
        bounds = _join_bounds(
            partitions, starts, ends, stable_ends, {} if last is None else last.bounds
        )
        self._last = _LogEndsAnswer(partitions, starts, ends, stable_ends, bounds)
        return bounds

    def _request_starts(
        self,
        refused: dict[TopicPartition, ClientError],
        partitions: Sequence[TopicPartition],
        starts: list[int | None],
        positions: Sequence[int],
    ) -> None:
        if positions:
            requested = [partitions[position] for position in positions]
            offsets = self._admin.log_offsets(requested, EARLIEST, committed=False, refused=refused)
            for position, start in zip(positions, offsets, strict=True):
                starts[position] = start


def filter_topics(flow: MirrorFlow, existing: Mapping[str, int]) -> FilteredTopics | None:
    """Return the topics of a cluster by the filter of a flow; None if it cannot be evaluated.

    `existing` has their numbers of partitions.
    """
    names = [name for name in existing if is_decided_by_filter(name)]
    if flow.topic_filter is None:
        return None
    chosen = match_topics(flow.topic_filter.topics, names)
    excluded = match_topics(flow.topic_filter.exclude, names)
    if chosen is None or excluded is None:
        return None
    copied = frozenset(chosen).difference(excluded)
    return FilteredTopics(
        selected={name: existing[name] for name in copied if not may_be_cycle(flow, name)},
        rejected=frozenset(names) - copied,
    )


def _name_partitions(refused: Mapping[TopicPartition, ClientError]) -> dict[str, ClientError]:
    return {
        f"{partition.topic}-{partition.partition}": error for partition, error in refused.items()
    }


def _join_bounds(
    partitions: Sequence[TopicPartition],
    starts: Sequence[int | None],
    ends: Sequence[int | None],
    stable_ends: Sequence[int | None],
    before: Mapping[TopicPartition, LogBounds],
) -> dict[TopicPartition, LogBounds]:
    bounds = {}
    for partition, start, end, last in zip(partitions, starts, ends, stable_ends, strict=True):
        if start is None or end is None or last is None or start > end:
            continue
        known = before.get(partition)
        same = known is not None and (known.start, known.end, known.stable_end) == (
            start,
            end,
            last,
        )
        bounds[partition] = (
            known
            if known is not None and same
            else LogBounds(start=start, end=end, stable_end=last)
        )
    return bounds


def _choose_topics(partitions: Mapping[str, int], number: int) -> list[str]:
    """Return the topics whose turn it is in this poll: all of them, if they have few partitions.

    `partitions` is the number of partitions by topic.
    """
    turns = min(TURNS_MAX, -(-sum(partitions.values()) // TURN_PARTITIONS))
    return sorted(partitions)[number % turns :: turns] if turns else []


def _read_topic_ids(admin: KafkaInspector, topics: list[str]) -> dict[str, _TopicIdentity]:
    """Return id and number of partitions by topic, as far as available.

    Log ends do not need them, so a failure is no error here.
    """
    topic_ids: dict[str, _TopicIdentity] = {}
    with suppress(ClientError):
        for first in range(0, len(topics), TOPIC_IDS_PER_REQUEST):
            topic_ids.update(admin.identities_now(topics[first : first + TOPIC_IDS_PER_REQUEST]))
    return topic_ids
