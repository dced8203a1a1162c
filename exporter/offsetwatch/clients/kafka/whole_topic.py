"""Reader of a topic from its first record to its end, once; and members of Connect worker groups.

Nothing here writes, joins a group or commits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import confluent_kafka as ck

from offsetwatch.clients.kafka.clients import (
    BEGINNING,
    REQUEST_TIMEOUT_S,
    KafkaAdmin,
    TailReader,
    bytes_or_none,
    parse_end_of_partition,
    read_headers,
    timestamp_of,
)
from offsetwatch.clients.kafka.errors import client_error_from, kafka_code_of
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    LeaderNotAvailable,
    MalformedResponse,
    NotFound,
    ResponseTimeout,
)
from offsetwatch.model.topology import TopicPartition

OWN_RECORD_HEADER: Final = "offsetwatch"  # on our records; Connect does not look at headers
READ_RECORDS_MAX: Final = 10_000
READ_TIMEOUT_S: Final = 0.1
# In a row: after 30 s without a record or an end nothing more is to be expected. An open
# transaction ends a reader's way as well, and is given up by its broker after a minute.
EMPTY_READS_MAX: Final = 300


ProgressCallback = Callable[[int, int | None], None]


class LogRecord(NamedTuple):
    """Record as it is in the log.

    at      Unix seconds, by its writer's clock; None if it has none
    ours    it has the header of offsetwatch
    """

    kpartition: int
    koffset: int
    at: float | None
    key: bytes | None
    value: bytes | None
    ours: bool


class TopicEnds(NamedTuple):
    """Ends of a topic at one moment.

    ends    partition -> high watermark
    held    partitions with an open transaction
    """

    topic_id: str
    partitions: int
    ends: Mapping[int, int]
    held: tuple[int, ...]


class StorageAdmin(KafkaInspector):
    """Admin client for changes of an offsets topic. Thread-safe like its parent."""

    def cluster_id(self) -> str | None:
        """Return the Kafka cluster id, which does not depend on the configured name."""
        return self.cluster().cluster_id

    def members(self, group: str) -> tuple[str, ...]:
        """Return the members of a group of any protocol, as `client id at host`.

        Empty if there is no such group. Raises AccessDenied without permission.
        """
        description = self._described([group])[group]
        if not isinstance(description, ClientError):
            return tuple(
                sorted(f"{member.client_id} at {member.host}" for member in description.members)
            )
        if isinstance(description, NotFound):
            return ()
        if isinstance(description, AccessDenied):
            raise AccessDenied(self.name, f"group {group}: {description.detail}") from description
        # librdkafka's error about groups of another protocol, such as Connect workers.
        if kafka_code_of(description) != ck.KafkaError._INVALID_ARG:  # noqa: SLF001
            raise description
        return self._listed(group)

    def _listed(self, group: str) -> tuple[str, ...]:
        """Return the members of a group that is not of consumers, by librdkafka's `list_groups`.

        The group is known to exist, so an answer without it does not mean that it has no members.
        """
        try:
            with warnings.catch_warnings():
                # Called out of date, in favour of questions that know groups of consumers only.
                warnings.simplefilter("ignore", DeprecationWarning)
                groups = self._client.list_groups(group, timeout=REQUEST_TIMEOUT_S)
        except ck.KafkaException as exc:
            raise self._why(exc.args[0]) from exc
        if not groups:
            raise LeaderNotAvailable(
                self.name, f"group {group}: it is there and no broker lists it"
            )
        description = groups[0]
        if description.error is not None:
            raise client_error_from(self.name, description.error)
        return tuple(
            sorted(f"{member.client_id} at {member.client_host}" for member in description.members)
        )


def read_topic_ends(admin: KafkaAdmin, topic: str) -> TopicEnds:
    """Return the current ends of the topic.

    Raises NotFound, and LeaderNotAvailable while a partition has no leader.
    """
    topic_id, count = admin.shape(topic)
    partitions = [TopicPartition(topic, number) for number in range(count)]
    ends = admin.readable_ends(partitions)
    if len(ends) < count:
        raise LeaderNotAvailable(admin.name, f"{topic}: not every partition has a leader")
    return TopicEnds(
        topic_id=topic_id,
        partitions=count,
        ends={partition.partition: end.high for partition, end in ends.items()},
        held=tuple(
            sorted(partition.partition for partition, end in ends.items() if end.stable < end.high)
        ),
    )


def read_whole_topic(
    admin: KafkaAdmin,
    open_reader: Callable[[], TailReader],
    topic: str,
    *,
    until: TopicEnds | None = None,
    progress: ProgressCallback | None = None,
) -> Iterator[LogRecord]:
    """Yield every committed record up to the current ends, or to `until`.

    Each partition is in the order of its log. Raises ResponseTimeout if an end is not reached.
    """
    ends = read_topic_ends(admin, topic) if until is None else until
    partitions = [TopicPartition(topic, number) for number in sorted(ends.ends)]
    starts = admin.bounds(partitions, stable=False)
    total = sum(ends.ends[partition.partition] - bound.start for partition, bound in starts.items())
    reader = open_reader()
    try:
        reader.assign(dict.fromkeys(partitions, BEGINNING))
        yield from _read_records(reader, partitions, ends, total, progress)
    finally:
        reader.close()


def _read_records(
    reader: TailReader,
    partitions: list[TopicPartition],
    ends: TopicEnds,
    total: int,
    progress: ProgressCallback | None,
) -> Iterator[LogRecord]:
    positions = dict.fromkeys(ends.ends, 0)
    done = empty = 0
    while any(positions[number] < end for number, end in ends.ends.items()):
        messages = reader.read(READ_RECORDS_MAX, READ_TIMEOUT_S)
        before = dict(positions)
        for message in messages:
            number = message.partition() or 0
            end = parse_end_of_partition(message)
            if end is not None:
                positions[number] = max(positions[number], end)
                continue
            positions[number] = max(positions[number], (message.offset() or 0) + 1)
            done += 1
            yield LogRecord(
                kpartition=number,
                koffset=message.offset() or 0,
                at=timestamp_of(message),
                key=bytes_or_none(message.key()),
                value=bytes_or_none(message.value()),
                ours=is_written_by_offsetwatch(message),
            )
        for number, position in reader.positions(partitions).items():
            positions[number] = max(positions[number], position)
        if progress is not None:
            progress(done, total)
        empty = 0 if messages or positions != before else empty + 1
        if empty >= EMPTY_READS_MAX:
            raise _build_timeout_error(reader.name, partitions, positions, ends)
    if progress is not None:
        progress(total, total)  # what compaction and markers left out is done as well


def _build_timeout_error(
    name: str, partitions: list[TopicPartition], positions: Mapping[int, int], ends: TopicEnds
) -> ResponseTimeout:
    topic, number = next(
        partition
        for partition in partitions
        if positions[partition.partition] < ends.ends[partition.partition]
    )
    return ResponseTimeout(
        name,
        f"{topic} partition {number} stands at {positions[number]} of {ends.ends[number]}, and "
        "nothing more comes; an open transaction may be in the way",
    )


def is_written_by_offsetwatch(message: ck.Message) -> bool:
    """Check whether offsetwatch wrote the record, whose headers all have names in UTF-8."""
    try:
        headers = read_headers(message, "")
    except MalformedResponse:
        return False
    return any(name == OWN_RECORD_HEADER for name, _ in headers)
