"""Search for the offsets topic of a Connect cluster that has none configured.

It is the one compacted topic that decodes to this cluster's connectors. A bounded sample from the
end of every compacted topic is decoded. No match and several matches are errors that say what to
configure. So is a match that is MirrorMaker's copy of another Connect cluster's topic: MM2's
default for topics.exclude lets `connect-offsets` be copied, and connectors of two Connect clusters
may have the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from offsetwatch.clients.kafka.clients import KafkaAdmin, TailReader, parse_end_of_partition
from offsetwatch.clock import UnixClock
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    OffsetsTopicNotIdentified,
    ResponseTimeout,
    SeveralOffsetsTopics,
)
from offsetwatch.model.offsets import SourceKey
from offsetwatch.model.topology import KafkaTopic, TopicPartition

_ALIAS_TOPICS: Final = ("heartbeats", "checkpoints.internal")
SAMPLE_PER_PARTITION = 20  # transaction markers and other connectors' commits take some of these
SAMPLE_DEADLINE_S = 10.0
CANDIDATE_PARTITIONS_MAX = 20_000
READ_RECORDS_MAX = 5_000


def find_offsets_topic(
    connect_cluster: str,
    *,
    admin: KafkaAdmin,
    open_reader: Callable[[], TailReader],
    connectors: Collection[str],
    dedicated: Collection[str],
    clock: UnixClock,
    copied_as: Collection[str] = (),
) -> KafkaTopic:
    """Return the topic that holds the offsets of these source connectors.

    `dedicated` are topics of single connectors (offsets.storage.topic); they hold the same keys and
    are not the cluster's. `copied_as` are the prefixes that known flows give to copies on this
    Kafka cluster. Raises OffsetsTopicNotIdentified, SeveralOffsetsTopics if several topics match,
    or the error of the cluster.
    """
    topics, _ = admin.topics()
    named = [name for name in topics if not name.startswith("__") and name not in dedicated]
    try:
        compacted = admin.compacted(named)
    except AccessDenied as exc:
        raise _explain_topic_error(exc, exc.detail) from exc
    partitions = [
        TopicPartition(name, number) for name in sorted(compacted) for number in range(topics[name])
    ]
    if len(partitions) > CANDIDATE_PARTITIONS_MAX:
        raise OffsetsTopicNotIdentified(
            connect_cluster,
            f"too many compacted partitions to search ({len(partitions)}): name the offsets topic "
            "in connect[].offsets_topic",
        )
    found = _find_matching_topics(admin, open_reader, partitions, connectors, clock)
    copies = sorted(topic for topic in found if is_copy(topic, topics, copied_as))
    matches = sorted(found.difference(copies))
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
        if name in existing or any(f"{alias}.{at}" in existing for at in _ALIAS_TOPICS):
            return True
    return False


def _find_matching_topics(
    admin: KafkaAdmin,
    open_reader: Callable[[], TailReader],
    partitions: list[TopicPartition],
    connectors: Collection[str],
    clock: UnixClock,
) -> set[str]:
    """Return topics with at least one key of these connectors in the sample.

    Raises if the sample could not be read to its end: the unread part may hold a second match.
    """
    refused: dict[TopicPartition, ClientError] = {}
    bounds = admin.bounds(partitions, stable=True, refused=refused)
    for partition, error in refused.items():
        raise _explain_topic_error(error, f"topic {partition.topic}: {error.detail}")
    starts = {
        partition: max(log.start, log.stable_end - SAMPLE_PER_PARTITION)
        for partition, log in bounds.items()
        if log.stable_end > log.start
    }
    found: set[str] = set()
    if not starts:
        return found
    open_ends = {start: bounds[start].stable_end for start in starts}
    deadline = clock.now() + SAMPLE_DEADLINE_S
    reader = open_reader()
    try:
        reader.assign(starts)
        # A clock that is set back must not draw this out: nothing else is found meanwhile.
        while open_ends and 0 < deadline - clock.now() <= SAMPLE_DEADLINE_S:
            for message in reader.read(READ_RECORDS_MAX, 0.1):
                topic_partition = TopicPartition(str(message.topic()), message.partition() or 0)
                try:
                    position = parse_end_of_partition(message)
                except ClientError as exc:
                    detail = f"topic {topic_partition.topic}: {exc.detail}"
                    raise _explain_topic_error(exc, detail) from exc
                if position is None:
                    position = (message.offset() or 0) + 1
                    key = message.key()
                    decoded = decode_key(key if isinstance(key, bytes) else None)
                    if isinstance(decoded, SourceKey) and decoded.connector in connectors:
                        found.add(topic_partition.topic)
                if position >= bounds[topic_partition].stable_end:
                    open_ends.pop(topic_partition, None)
    finally:
        reader.close()
    if open_ends:
        raise ResponseTimeout(
            admin.name,
            f"{len(open_ends)} compacted partitions could not be sampled within "
            f"{SAMPLE_DEADLINE_S:.0f} s: name the offsets topic in connect[].offsets_topic",
        )
    return found


def _explain_topic_error(error: ClientError, detail: str) -> ClientError:
    """Return the error of one topic, which ends the search, with how to do without a search."""
    how = "name the offsets topic in connect[].offsets_topic"
    return type(error)(error.target, f"{detail}: {how}", error.advice)


def derive_listing_topic_names(offsets_topic: str) -> tuple[str, str] | None:
    """Return the (config, status) topics that belong to an offsets topic by convention.

    The conventions are those of a dedicated MirrorMaker (`mm2-offsets.<alias>.internal`,
    WorkerConfig in MirrorMakerConfig) and of Connect's sample files. None if the name follows
    neither.
    """
    before, found, after = offsets_topic.rpartition("offsets")
    return (f"{before}configs{after}", f"{before}status{after}") if found else None
