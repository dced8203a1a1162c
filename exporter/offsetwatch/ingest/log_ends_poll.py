"""Ask one Kafka cluster for the log bounds of every partition that a flow has a position in, and
for the ids of their topics. Scheduled by the daemon; two rounds may be under way at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from typing import Final

from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.kafka.log_bounds import EARLIEST, LATEST
from offsetwatch.clock import UnixClock
from offsetwatch.errors import ClientError
from offsetwatch.ingest.polls import Batch, build_failure, build_partial_failures
from offsetwatch.model.log_readings import LogBounds, LogEndsRead, LogEndsRequested
from offsetwatch.model.observations import LOG_ENDS, InputId, InputSucceeded
from offsetwatch.model.topology import MirrorFlow, TopicPartition
from offsetwatch.state.snapshot import MirrorPartitionView, Snapshot

TOPIC_IDS_PER_REQUEST: Final = 500  # at once: an answer describes every partition of each
# Log starts, and the ids of topics, cost more than the log ends, and change rarely: brokers look
# for what retention is to delete once in five minutes (log.retention.check.interval.ms). Where
# there are many partitions topics take turns, within three minutes as a rule. What became of the
# records of a topic (state/loss/flow.py) is looked at in its turn, by what is read then.
TURN_PARTITIONS: Final = 250
TURNS_MAX: Final = 36

_TopicIdentity = tuple[str | None, int]  # id and number of partitions


@dataclass(frozen=True, slots=True)
class _RequestedPartitions:
    """What a cluster is asked about: made once for as long as it stays the same.

    partitions  in order
    topics      of each how many of these are its own
    """

    made_of: tuple[tuple[MirrorPartitionView, ...], tuple[MirrorFlow, ...]]
    partitions: tuple[TopicPartition, ...]
    topics: Mapping[str, int]
    stable: bool

    def places(self, topic: str) -> range:
        """Which of all partitions are this topic's."""
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
    """See the module. The bounds in an answer are the very ones of the answer before, as far as
    they did not change: most logs of most clusters stand still most of the time.
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
        self._wanted: _RequestedPartitions | None = None
        self._last: _LogEndsAnswer | None = None
        self._ids: dict[str, _TopicIdentity] = {}  # of each topic, as of its last turn

    def ask(self, snapshot: Snapshot) -> None:
        """One round.

        LogEndsRequested goes into the queue before the request goes out: that order is what makes
        the lag sound. If a topic had one id before the bounds were asked for and has it after that,
        they are of that topic and of no other: so each turn of a topic begins with what the turn
        before ended with, for an id costs as much as a description of all partitions.
        """
        admin, input_id = self._admin, InputId(LOG_ENDS, kafka=self._admin.name)
        requested_partitions = self._wanted_of(snapshot)
        number = next(self._rounds)
        if not self._put(
            (LogEndsRequested(kafka=admin.name, number=number, at=self._clock.now()),)
        ):
            return
        topics = _choose_topics(requested_partitions.topics, number)
        known = self._ids
        before = {topic: known[topic] for topic in topics if topic in known}
        refused: dict[TopicPartition, ClientError] = {}
        try:
            before |= _read_topic_ids(admin, [topic for topic in topics if topic not in before])
            bounds = self._bounds(requested_partitions, topics, refused)
            after = _read_topic_ids(admin, topics)
            if any(after.get(name, key)[0] != key[0] for name, key in before.items()):
                # Made anew since its last turn; of which of the two the bounds are nobody knows.
                before = after
                bounds = self._bounds(requested_partitions, topics, refused)
                after = _read_topic_ids(admin, topics)
            if refused and not bounds:
                raise next(iter(refused.values()))
        except ClientError as exc:
            self._put((build_failure(input_id, exc),))
            return
        self._ids = now = {
            name: key for name, key in known.items() if name in requested_partitions.topics
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
                ),
                InputSucceeded(input=input_id, at=self._clock.now()),
                *build_partial_failures(input_id, _name_partitions(refused)),
            )
        )

    def _wanted_of(self, snapshot: Snapshot) -> _RequestedPartitions:
        last = self._wanted
        made_of = (snapshot.mirror_partitions, snapshot.topology.flows)
        if last is not None and last.made_of[0] is made_of[0] and last.made_of[1] == made_of[1]:
            return last
        flows = {
            (flow.connect_cluster, flow.connector): flow
            for flow in snapshot.topology.flows
            if flow.upstream == self._admin.name
        }
        found = {
            TopicPartition(view.topic, view.partition)
            for view in snapshot.mirror_partitions
            if (view.connect_cluster, view.connector) in flows
        }
        partitions = tuple(sorted(found))
        if last is not None and last.partitions == partitions:
            partitions = last.partitions
        self._wanted = requested_partitions = _RequestedPartitions(
            made_of=made_of,
            partitions=partitions,
            topics=Counter(partition.topic for partition in partitions),
            stable=any(flow.read_committed for flow in flows.values()),
        )
        return requested_partitions

    def _bounds(
        self,
        requested_partitions: _RequestedPartitions,
        topics: Collection[str],
        refused: dict[TopicPartition, ClientError],
    ) -> dict[TopicPartition, LogBounds]:
        """Log start and ends of all. `topics` are those whose log starts are asked for anew.

        Partitions that do not exist, have no leader just now or are refused are left out: one of
        them must not take the others' lag away.
        """
        admin, partitions, last = self._admin, requested_partitions.partitions, self._last
        if not partitions:
            admin.topics()  # nothing to ask for yet: still find out whether the cluster answers
            return {}
        if last is not None and last.of is not partitions:
            last = None
        starts: list[int | None] = [None] * len(partitions) if last is None else [*last.starts]
        # Of ten thousand at rest to look at each one takes as long as to ask: lists are compared
        # and searched as a whole.
        turn = chain.from_iterable(requested_partitions.places(topic) for topic in topics)
        if None in starts:
            turn = chain(turn, (place for place, index in enumerate(starts) if index is None))
        self._ask_starts(refused, partitions, starts, sorted(frozenset(turn)))
        ends = admin.log_offsets(partitions, LATEST, committed=False, refused=refused)
        if last is None or (starts, ends) != (last.starts, last.ends):
            # A log that ends before it was seen to begin is another one.
            self._ask_starts(
                refused,
                partitions,
                starts,
                [
                    place
                    for place, (start, end) in enumerate(zip(starts, ends, strict=True))
                    if start is not None and end is not None and end < start
                ],
            )
        stable_ends = (
            admin.log_offsets(partitions, LATEST, committed=True, refused=refused)
            if requested_partitions.stable
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

    def _ask_starts(
        self,
        refused: dict[TopicPartition, ClientError],
        partitions: Sequence[TopicPartition],
        starts: list[int | None],
        places: Sequence[int],
    ) -> None:
        if places:
            partition = [partitions[place] for place in places]
            told = self._admin.log_offsets(partition, EARLIEST, committed=False, refused=refused)
            for place, start in zip(places, told, strict=True):
                starts[place] = start


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
    found = {}
    for partition, start, end, last in zip(partitions, starts, ends, stable_ends, strict=True):
        if start is None or end is None or last is None or start > end:
            continue
        known = before.get(partition)
        same = known is not None and (known.start, known.end, known.stable_end) == (
            start,
            end,
            last,
        )
        found[partition] = (
            known
            if known is not None and same
            else LogBounds(start=start, end=end, stable_end=last)
        )
    return found


def _choose_topics(partitions: Mapping[str, int], number: int) -> list[str]:
    """The topics whose turn it is in this round, of all and how many partitions each has: all of
    them, if they are few.
    """
    turns = min(TURNS_MAX, -(-sum(partitions.values()) // TURN_PARTITIONS))
    return sorted(partitions)[number % turns :: turns] if turns else []


def _read_topic_ids(admin: KafkaInspector, topics: list[str]) -> dict[str, _TopicIdentity]:
    """Nothing where that cannot be had: the log ends are worth as much without."""
    found: dict[str, _TopicIdentity] = {}
    with suppress(ClientError):
        for first in range(0, len(topics), TOPIC_IDS_PER_REQUEST):
            found.update(admin.identities_now(topics[first : first + TOPIC_IDS_PER_REQUEST]))
    return found
