"""Internal topics: search for an offsets topic, and poll of the settings and sizes of all.

A Connect cluster that has no offsets topic configured uses the one compacted topic that decodes to
this cluster's connectors. A bounded sample from the end of every compacted topic is decoded. No
match and several matches are errors that say what to configure. So is one match beside a topic that
could not be read and may be another. So is a match that is MirrorMaker's
copy of another Connect cluster's topic: MM2's default for topics.exclude lets `connect-offsets` be
copied, and connectors of two Connect clusters may have the same names.

Settings and sizes are polled every five minutes or for new topics; doctor reads them once. Two
facts need a read of the topic and are cached by topic id: whether a topic beside an offsets topic
is a config or status topic of Connect, and the number of records in a long topic. Offsets do not
give that number, because a compacted log keeps the offsets of removed records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from offsetwatch.clients.kafka.clients import KafkaAdmin, TailReader, parse_end_of_partition
from offsetwatch.clients.kafka.inspector import KafkaInspector, TopicShape
from offsetwatch.clock import UnixClock
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.errors import (
    ClientError,
    LeaderNotAvailable,
    OffsetsTopicNotIdentified,
    RemoteRefusal,
    ResponseTimeout,
    SeveralOffsetsTopics,
)
from offsetwatch.ingest.polls import Batch
from offsetwatch.model.observations import LogBounds, TopicFactsRead
from offsetwatch.model.offsets import SourceKey
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

_ALIAS_TOPICS: Final = ("heartbeats", "checkpoints.internal")
UNREAD_LISTED_MAX: Final = 5
SAMPLE_PER_PARTITION: Final = 20  # transaction markers, other connectors' commits take some
SAMPLE_DEADLINE_S = 10.0
CANDIDATE_PARTITIONS_MAX = 20_000
READ_RECORDS_MAX: Final = 10_000
RETRY_S: Final = 60.0
READ_S_MAX: Final = 60.0
# Enough to know: three times what is few. Counting costs a second of CPU or two per million.
COUNTED_RECORDS_MAX: Final = 3 * LONG_TOPIC_RECORDS_MIN
RECOUNT_S: Final = 3600.0  # a topic that was too long is looked at again: it may have been cured
OpenReader = Callable[[], TailReader]
BoundsByPartition = Mapping[TopicPartition, LogBounds]


def find_offsets_topic(
    connect_cluster: str,
    *,
    admin: KafkaAdmin,
    open_reader: OpenReader,
    connectors: Collection[str],
    dedicated: Collection[str],
    clock: UnixClock,
    copied_as: Collection[str] = (),
) -> KafkaTopic:
    """Return the topic that holds the offsets of these source connectors.

    `dedicated` are topics of single connectors (offsets.storage.topic); they hold the same keys and
    are not the cluster's. `copied_as` are the prefixes that known flows give to copies on this
    Kafka cluster. Raises OffsetsTopicNotIdentified, SeveralOffsetsTopics if several topics match,
    the error of a topic that could not be read if it may be a match, or the error of the cluster.
    """
    topics, _ = admin.topics()
    named = [name for name in topics if not name.startswith("__") and name not in dedicated]
    unread: dict[str, ClientError] = {}
    compacted = admin.compacted(named, refused=unread)
    partitions = [
        TopicPartition(name, number) for name in sorted(compacted) for number in range(topics[name])
    ]
    if len(partitions) > CANDIDATE_PARTITIONS_MAX:
        raise OffsetsTopicNotIdentified(
            connect_cluster,
            f"too many compacted partitions to search ({len(partitions)}): name the offsets topic "
            "in connect[].offsets_topic",
        )
    matching = _find_matching_topics(admin, open_reader, partitions, connectors, clock, unread)
    copies = sorted(topic for topic in matching if is_copy(topic, topics, copied_as))
    matches = sorted(matching.difference(copies))
    # A copy is no match, whatever it holds, and a match needs no more evidence.
    rivals = [
        error
        for topic, error in sorted(unread.items())
        if topic not in matching and not is_copy(topic, topics, copied_as)
    ]
    if rivals and len(matches) < 2:
        raise _build_unread_error(rivals, matches)
    if len(matches) == 1:
        return KafkaTopic(kafka=admin.name, topic=matches[0])
    if matches:
        raise SeveralOffsetsTopics(
            connect_cluster,
            f"several topics hold offsets of these connectors ({', '.join(matches)}): name "
            "the right one in connect[].offsets_topic",
        )
    if copies:
        raise OffsetsTopicNotIdentified(
            connect_cluster,
            f"only {', '.join(copies)} holds offsets of these connectors, and by its name it is "
            "MirrorMaker 2's copy of another cluster's topic: wait if none has committed yet, else "
            "name the topic in connect[].offsets_topic",
        )
    raise OffsetsTopicNotIdentified(
        connect_cluster,
        f"no compacted topic on {admin.name} holds an offset of its source connectors: either none "
        "has committed yet, or name the topic in connect[].offsets_topic, or it is a standalone "
        "worker, whose offsets are in a file: leave out its kafka, to read them over REST",
    )


def is_copy(topic: str, existing: Collection[str], copied_as: Collection[str] = ()) -> bool:
    """Check whether a topic has the name of a replicated copy.

    It has if its prefix is one of `copied_as`. It also has if its name is `<alias>.<topic>`, the
    default of a replication policy, and that topic or MM2's own topics of that alias exist.
    """
    if any(topic.startswith(prefix) and topic != prefix for prefix in copied_as if prefix):
        return True
    parts = topic.split(".")
    for length in range(1, len(parts)):
        alias, name = ".".join(parts[:length]), ".".join(parts[length:])
        if name in existing or any(f"{alias}.{topic}" in existing for topic in _ALIAS_TOPICS):
            return True
    return False


def _find_matching_topics(
    admin: KafkaAdmin,
    open_reader: OpenReader,
    partitions: list[TopicPartition],
    connectors: Collection[str],
    clock: UnixClock,
    unread: dict[str, ClientError],
) -> set[str]:
    """Return topics with at least one key of these connectors in the sample.

    `unread` receives the errors of topics of which a part could not be read, unless the rest holds
    records of another kind.
    """
    refused: dict[TopicPartition, ClientError] = {}
    bounds = admin.bounds(partitions, stable=True, refused=refused)
    for partition in partitions:
        if partition not in bounds and partition not in refused:
            refused[partition] = LeaderNotAvailable(
                admin.name, f"partition {partition.partition} has no leader"
            )
    starts = {
        partition: max(log.start, log.stable_end - SAMPLE_PER_PARTITION)
        for partition, log in bounds.items()
        if log.stable_end > log.start
    }
    open_ends = {partition: bounds[partition].stable_end for partition in starts}
    deadline = clock.now() + SAMPLE_DEADLINE_S
    topics: set[str] = set()
    with_offsets: set[str] = set()
    with_others: set[str] = set()
    # A clock that is set back must not draw this out: nothing else is found meanwhile.
    for partition, key in read_keys(
        open_reader,
        starts,
        open_ends,
        lambda: 0 < deadline - clock.now() <= SAMPLE_DEADLINE_S,
        refused,
    ):
        decoded = decode_key(key)
        is_offset = isinstance(decoded, SourceKey)
        (with_offsets if is_offset else with_others).add(partition.topic)
        if isinstance(decoded, SourceKey) and decoded.connector in connectors:
            topics.add(partition.topic)
    for partition in open_ends:
        refused[partition] = ResponseTimeout(
            admin.name, f"it could not be sampled within {SAMPLE_DEADLINE_S:.0f} s"
        )
    for partition, error in refused.items():
        if partition.topic in with_others - with_offsets:
            continue  # what was read of it shows that it is no offsets topic
        detail = f"topic {partition.topic}: {error.detail}"
        unread.setdefault(partition.topic, type(error)(error.target, detail, error.advice))
    return topics


def _build_unread_error(rivals: list[ClientError], matches: list[str]) -> ClientError:
    """Build the error of topics that may be the offsets topic, with how to do without a search."""
    details = "; ".join(error.detail for error in rivals[:UNREAD_LISTED_MAX])
    if len(rivals) > UNREAD_LISTED_MAX:
        details = f"{details}; and {len(rivals) - UNREAD_LISTED_MAX} more topics"
    if matches:
        details = f"{matches[0]} holds offsets of these connectors, and others may ({details})"
    first = rivals[0]
    how = "name the offsets topic in connect[].offsets_topic"
    return type(first)(first.target, f"{details}: {how}", first.advice)


def read_keys(
    open_reader: OpenReader,
    starts: Mapping[TopicPartition, int],
    open_ends: dict[TopicPartition, int],
    in_time: Callable[[], bool],
    refused: dict[TopicPartition, ClientError] | None = None,
) -> Iterator[tuple[TopicPartition, bytes]]:
    """Yield the keys of all records from these offsets to `open_ends`, while it is `in_time`.

    The ends that were reached are removed from `open_ends`. `refused` receives the errors of
    partitions, which are removed as well; without it the first is raised.
    """
    if not starts:
        return
    reader = open_reader()
    try:
        reader.assign(starts)
        while open_ends and in_time():
            for message in reader.read(READ_RECORDS_MAX, 0.1):
                partition = TopicPartition(str(message.topic()), message.partition() or 0)
                try:
                    position = parse_end_of_partition(message)
                except ClientError as exc:
                    if refused is None or partition not in starts:
                        raise
                    refused[partition] = exc
                    open_ends.pop(partition, None)
                    continue
                if position is None:
                    position = (message.offset() or 0) + 1
                    key = message.key()
                    if isinstance(key, bytes):
                        yield partition, key
                if position >= open_ends.get(partition, position + 1):
                    del open_ends[partition]
    finally:
        reader.close()


def derive_listing_topic_names(offsets_topic: str) -> tuple[str, str] | None:
    """Return the (config, status) topics that belong to an offsets topic by convention.

    The conventions are those of a dedicated MirrorMaker (`mm2-offsets.<alias>.internal`,
    WorkerConfig in MirrorMakerConfig) and of Connect's sample files. None if the name follows
    neither.
    """
    before, separator, after = offsets_topic.rpartition("offsets")
    return (f"{before}configs{after}", f"{before}status{after}") if separator else None


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
    requested: dict[str, InternalTopicRole] = field(default_factory=dict)
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
    roles = {
        topic.topic: role
        for topic, role in find_internal_topics(snapshot.topology, homes).items()
        if topic.kafka == admin.name
    }
    if not roles or (
        roles == memory.requested and 0 < memory.due_at - clock.now() <= FACTS_EVERY_S
    ):
        return ()
    memory.requested = roles
    memory.due_at = clock.now() + RETRY_S
    try:
        facts = read_topic_facts(admin, open_reader, roles, memory, clock, stopped)
    except ClientError:
        return ()
    memory.due_at = clock.now() + FACTS_EVERY_S
    return (TopicFactsRead(kafka=admin.name, facts=facts, at=clock.now()),)


def read_topic_facts(
    admin: KafkaInspector,
    open_reader: OpenReader,
    role_of: Mapping[str, InternalTopicRole],
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
        for name, role in role_of.items()
        if role is InternalTopicRole.OFFSETS
        for sibling in guess_sibling_names(name)
        if sibling in cluster.topics and sibling not in role_of
    }
    shapes: dict[str, TopicShape] = {}
    broken: list[ClientError] = []
    for name, shape in admin.shapes((role_of.keys() | beside) & cluster.topics.keys()).items():
        if isinstance(shape, TopicShape):
            if name in role_of or shape.may("READ"):  # what a sibling is, only its keys tell
                shapes[name] = shape
        elif not isinstance(shape, RemoteRefusal):  # deleted just now, or not for our eyes
            broken.append(shape)
    if broken and not shapes:
        raise broken[0]
    bounds = admin.bounds(_list_partitions(shapes), stable=True)
    reading = _TopicSampler(open_reader, bounds, memory, clock, stopped)
    roles: dict[str, InternalTopicRole | None] = {
        name: role_of[name] if name in role_of else reading.role(name, shape)
        for name, shape in shapes.items()
    }
    policies = admin.policies([name for name, role in roles.items() if role is not None])
    facts = []
    for name, role in sorted(roles.items()):
        if role is not None:
            count = reading.count(name, shapes[name])
            facts.append(
                TopicFacts(
                    at=KafkaTopic(admin.name, name),
                    role=role,
                    policy=policies[name],
                    partitions=shapes[name].partitions,
                    replication=shapes[name].replication,
                    brokers=cluster.brokers,
                    records=None if count is None else count.records,
                    keys=None if count is None else count.keys,
                )
            )
    return tuple(facts)


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
    bounds = admin.bounds(_list_partitions(shapes), stable=True)
    reading = _TopicSampler(open_reader, bounds, TopicMemory(), clock, lambda: False)
    siblings = {name: reading.role(name, shape) for name, shape in shapes.items()}
    return {name: role for name, role in siblings.items() if role is not None}


def _list_partitions(shapes: Mapping[str, TopicShape]) -> list[TopicPartition]:
    return [
        TopicPartition(name, number)
        for name, shape in shapes.items()
        for number in range(shape.partitions)
    ]


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
        missing = [partition for partition, start in starts.items() if start < ends[partition]]
        open_ends = {partition: ends[partition] for partition in missing}
        deadline = self._clock.now() + READ_S_MAX
        for _, key in read_keys(
            self._open_reader,
            {partition: starts[partition] for partition in missing},
            open_ends,
            lambda: not self._stopped() and 0 <= deadline - self._clock.now() <= READ_S_MAX,
        ):
            yield key
        if open_ends:
            raise ResponseTimeout(next(iter(open_ends)).topic, "could not be read in time")
