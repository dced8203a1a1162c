"""Poll of the settings and sizes of internal topics, every five minutes or for new topics.

The daemon schedules it, and doctor calls it once. Two facts need a read of the topic and are cached
by topic id: whether a topic beside an offsets topic is a config or status topic of Connect, and the
number of records in a long topic. Offsets do not give that number, because a compacted log keeps
the offsets of removed records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from offsetwatch.clients.kafka.clients import TailReader, parse_end_of_partition
from offsetwatch.clients.kafka.inspector import ClusterFacts, KafkaInspector, TopicShape
from offsetwatch.clock import UnixClock
from offsetwatch.errors import ClientError, RemoteRefusal, ResponseTimeout
from offsetwatch.ingest.polls import Batch
from offsetwatch.model.observations import LogBounds, TopicFactsRead
from offsetwatch.model.topology import InternalTopicRole, KafkaTopic, TopicFacts, TopicPartition
from offsetwatch.state.connect.connect_cluster import guess_sibling_names
from offsetwatch.state.internal_topics import (
    FACTS_EVERY_S,
    LONG_TOPIC_RECORDS_MIN,
    RECORDS_PER_KEY_MAX,
    find_internal_topics,
    role_of_key,
)
from offsetwatch.state.snapshot import Snapshot

RETRY_S: Final = 60.0
SAMPLE_PER_PARTITION: Final = 20
READ_RECORDS_MAX: Final = 10_000
READ_S_MAX: Final = 60.0
# Enough to know: three times what is few. Counting costs a second of CPU or two per million.
COUNTED_RECORDS_MAX: Final = 3 * LONG_TOPIC_RECORDS_MIN
RECOUNT_S: Final = 3600.0  # a topic that was too long is looked at again: it may have been cured

BoundsByPartition = Mapping[TopicPartition, LogBounds]
OpenReader = Callable[[], TailReader]


@dataclass(frozen=True, slots=True)
class _RecordCount:
    """Number of records and of distinct keys up to `end`, the sum of the ends of all partitions."""

    records: int
    keys: int
    end: int
    at: float


@dataclass(slots=True)
class TopicMemory:
    """Facts about one Kafka cluster, kept between polls; those from reads are kept by topic id."""

    due_at: float = 0.0
    wanted: dict[str, InternalTopicRole] = field(default_factory=dict)
    roles: dict[str, InternalTopicRole] = field(default_factory=dict)
    counts: dict[str, _RecordCount] = field(default_factory=dict)
    gave_up_at: dict[str, float] = field(default_factory=dict)


def poll_topic_facts(
    admin: KafkaInspector,
    open_reader: OpenReader,
    snapshot: Snapshot,
    homes: Mapping[str, str],
    memory: TopicMemory,
    clock: UnixClock,
    stopped: Callable[[], bool] = lambda: False,
) -> Batch:
    """Return the facts of the internal topics; empty before it is time if no topic is new.

    It is time every five minutes, or at once if the topology names other topics.

    homes    Connect cluster -> the Kafka cluster that holds its topics
    stopped  checked while reading, which may take a minute

    A failure reports nothing here: the log-end poll reports an unavailable cluster, and the facts
    of its topics become stale.
    """
    wanted = {
        topic.topic: role
        for topic, role in find_internal_topics(snapshot.topology, homes).items()
        if topic.kafka == admin.name
    }
    if not wanted or (wanted == memory.wanted and 0 < memory.due_at - clock.now() <= FACTS_EVERY_S):
        return ()
    memory.wanted = wanted
    memory.due_at = clock.now() + RETRY_S
    try:
        facts = read_topic_facts(admin, open_reader, wanted, memory, clock, stopped)
    except ClientError:
        return ()
    memory.due_at = clock.now() + FACTS_EVERY_S
    return (TopicFactsRead(kafka=admin.name, facts=facts, at=clock.now()),)


def read_topic_facts(
    admin: KafkaInspector,
    open_reader: OpenReader,
    wanted: Mapping[str, InternalTopicRole],
    memory: TopicMemory,
    clock: UnixClock,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[TopicFacts, ...]:
    """Return facts of the requested topics that exist, and of those beside offsets topics.

    The latter are config and status topics. Raises ClientError.
    """
    cluster = admin.cluster()
    beside = {
        sibling
        for name, role in wanted.items()
        if role is InternalTopicRole.OFFSETS
        for sibling in guess_sibling_names(name)
        if sibling in cluster.topics and sibling not in wanted
    }
    shapes: dict[str, TopicShape] = {}
    broken: list[ClientError] = []
    for name, shape in admin.shapes((wanted.keys() | beside) & cluster.topics.keys()).items():
        if isinstance(shape, TopicShape):
            if name in wanted or shape.may("READ"):  # what a sibling is, only its keys tell
                shapes[name] = shape
        elif not isinstance(shape, RemoteRefusal):  # deleted just now, or not for our eyes
            broken.append(shape)
    if broken and not shapes:
        raise broken[0]
    bounds = admin.bounds(
        [
            TopicPartition(name, number)
            for name, shape in shapes.items()
            for number in range(shape.partitions)
        ],
        stable=True,
    )
    reading = _TopicSampler(open_reader, bounds, memory, clock, stopped)
    roles: dict[str, InternalTopicRole | None] = {
        name: wanted[name] if name in wanted else reading.role(name, shape)
        for name, shape in shapes.items()
    }
    policies = admin.policies([name for name, role in roles.items() if role is not None])
    return tuple(
        _build_topic_facts(
            KafkaTopic(admin.name, name), role, shapes[name], cluster, policies[name], reading
        )
        for name, role in sorted(roles.items())
        if role is not None
    )


def read_siblings(
    admin: KafkaInspector, open_reader: OpenReader, offsets_topic: str, clock: UnixClock
) -> dict[str, InternalTopicRole]:
    """Return the config and status topics beside an offsets topic.

    Candidates come from the topic's name. Those count that are readable and whose newest keys
    confirm their role. Raises ClientError.
    """
    there = admin.cluster().topics
    names = [name for name in guess_sibling_names(offsets_topic) if name in there]
    shapes = {
        name: shape
        for name, shape in admin.shapes(names).items()
        if isinstance(shape, TopicShape) and shape.may("READ")
    }
    places = [
        TopicPartition(name, number)
        for name, shape in shapes.items()
        for number in range(shape.partitions)
    ]
    bounds = admin.bounds(places, stable=True)
    reading = _TopicSampler(open_reader, bounds, TopicMemory(), clock, lambda: False)
    found = {name: reading.role(name, shape) for name, shape in shapes.items()}
    return {name: role for name, role in found.items() if role is not None}


def _build_topic_facts(
    topic: KafkaTopic,
    role: InternalTopicRole,
    shape: TopicShape,
    cluster: ClusterFacts,
    policy: str | None,
    reading: _TopicSampler,
) -> TopicFacts:
    counted = reading.count(topic.topic, shape)
    return TopicFacts(
        at=topic,
        role=role,
        policy=policy,
        partitions=shape.partitions,
        replication=shape.replication,
        brokers=cluster.brokers,
        records=None if counted is None else counted.records,
        keys=None if counted is None else counted.keys,
    )


class _TopicSampler:
    """Reads of topics during one poll, as few as the memory allows."""

    def __init__(
        self,
        open_reader: OpenReader,
        bounds: BoundsByPartition,
        memory: TopicMemory,
        clock: UnixClock,
        stopped: Callable[[], bool],
    ) -> None:
        self._open_reader = open_reader
        self._bounds = bounds
        self._memory = memory
        self._clock = clock
        self._stopped = stopped

    def role(self, topic: str, shape: TopicShape) -> InternalTopicRole | None:
        """Return the role that most of the topic's newest keys indicate; None if none has most."""
        identity = shape.topic_id or topic
        if identity not in self._memory.roles:
            starts = {
                partition: max(log.start, log.stable_end - SAMPLE_PER_PARTITION)
                for partition, log in self._of(topic).items()
            }
            try:
                votes = Counter(role_of_key(key) for key in self._keys(starts))
            except ClientError:  # of this topic nothing is known now, of the others it is
                return None
            role, count = votes.most_common(1)[0] if votes else (None, 0)
            if role is None or 2 * count <= votes.total():
                return None
            self._memory.roles[identity] = role
        return self._memory.roles[identity]

    def count(self, topic: str, shape: TopicShape) -> _RecordCount | None:
        """Return the record count of a long topic; None if it is short or was not counted.

        A cached count remains valid while even all records that were appended since would not make
        the topic too long; otherwise for an hour.
        """
        logs = self._of(topic)
        if sum(log.stable_end - log.start for log in logs.values()) <= LONG_TOPIC_RECORDS_MIN:
            return None
        identity, now = shape.topic_id or topic, self._clock.now()
        end = sum(log.stable_end for log in logs.values())
        last = self._memory.counts.get(identity)
        if last is not None:
            most = last.records + end - last.end
            sound = last.end <= end and most <= max(
                LONG_TOPIC_RECORDS_MIN, RECORDS_PER_KEY_MAX * last.keys
            )
            if sound or 0 <= now - last.at < RECOUNT_S:
                return last
        if 0 <= now - self._memory.gave_up_at.get(identity, 0.0) < RECOUNT_S:
            return None
        counted = self._counted(logs, end)
        if counted is None:
            self._memory.gave_up_at[identity] = now
        else:
            self._memory.counts[identity] = counted
        return counted

    def _counted(self, logs: BoundsByPartition, end: int) -> _RecordCount | None:
        """Count the records; None if that took too long or has too many keys to stop early."""
        records, keys = 0, set[int]()
        try:
            for key in self._keys({partition: log.start for partition, log in logs.items()}):
                records += 1
                keys.add(hash(key))
                if records >= COUNTED_RECORDS_MAX:
                    break
        except ClientError:  # too late, or this topic cannot be read: the others can
            return None
        cut = records >= COUNTED_RECORDS_MAX
        if cut and records <= RECORDS_PER_KEY_MAX * len(keys):
            return None
        return _RecordCount(records=records, keys=len(keys), end=end, at=self._clock.now())

    def _of(self, topic: str) -> BoundsByPartition:
        return {
            partition: log for partition, log in self._bounds.items() if partition.topic == topic
        }

    def _keys(self, starts: Mapping[TopicPartition, int]) -> Iterator[bytes]:
        """Yield the keys of all records from these offsets to the ends read in this poll."""
        ends = {partition: self._bounds[partition].stable_end for partition in starts}
        missing = {partition for partition, start in starts.items() if start < ends[partition]}
        if not missing:
            return
        deadline = self._clock.now() + READ_S_MAX
        reader = self._open_reader()
        try:
            reader.assign({partition: starts[partition] for partition in missing})
            while missing:
                if self._stopped() or not 0 <= deadline - self._clock.now() <= READ_S_MAX:
                    raise ResponseTimeout(next(iter(missing)).topic, "could not be read in time")
                for message in reader.read(READ_RECORDS_MAX, 0.1):
                    topic_partition = TopicPartition(str(message.topic()), message.partition() or 0)
                    position = parse_end_of_partition(message)
                    if position is None:
                        position = (message.offset() or 0) + 1
                        key = message.key()
                        if isinstance(key, bytes):
                            yield key
                    if position >= ends[topic_partition]:
                        missing.discard(topic_partition)
        finally:
            reader.close()
