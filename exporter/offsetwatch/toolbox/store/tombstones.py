"""Direct writes of offsets that Connect cannot remove.

These are offsets of a source with its own offsets topic, on a worker with exactly-once support,
since 3.8. There Connect writes the tombstones to its own topic first, and to the connector's from a
callback that no longer has a transaction: after 90 s it returns 500, half done. So they are written
directly to the connector's topic while the connector is stopped, with the exact bytes of their
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, Final, NamedTuple

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.whole_topic import (
    LogRecord,
    StorageAdmin,
    read_topic_ends,
    read_whole_topic,
)
from offsetwatch.config import Config, Connect
from offsetwatch.errors import ClientError, NotFound
from offsetwatch.model.connectors import Connector, ConnectorKind, ConnectorSettings
from offsetwatch.remedy.drivers.storage import build_contents
from offsetwatch.remedy.gather.live_queries import parse_kafka_version
from offsetwatch.remedy.model.plan import PartitionOffset, Write
from offsetwatch.remedy.model.stored_offsets import (
    build_reset_records,
    build_set_records,
)
from offsetwatch.remedy.model.stored_offsets import list_pairs as pairs_in

BROKEN_SINCE: Final = (3, 8)  # KAFKA-15018


class TopicLog:
    """An offsets topic. Raises ClientError."""

    def __init__(self, kafka: str, properties: Mapping[str, Any], topic: str) -> None:
        self._kafka, self._properties, self._topic = kafka, properties, topic
        self._admin = StorageAdmin(kafka, properties)

    @property
    def where(self) -> str:
        """The topic as `kafka/topic`."""
        return f"{self._kafka}/{self._topic}"

    def read(self) -> tuple[Mapping[int, int], tuple[LogRecord, ...]]:
        """Return (partition -> end, every record)."""
        ends = read_topic_ends(self._admin, self._topic)
        records = read_whole_topic(
            self._admin,
            lambda: TailReader(self._kafka, self._properties),
            self._topic,
            until=ends,
        )
        return ends.ends, tuple(records)

    def close(self) -> None:
        """Close connections."""
        self._admin.close()


class DirectTopicWrites(NamedTuple):
    """Writes that replace a request to Connect; no `writes` where Connect can do it."""

    writes: tuple[Write, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the writes."""
        return tuple(write.where.rpartition("/")[2] for write in self.writes)


def plan_direct_writes(
    config: Config,
    connect: Connect,
    connector: str,
    settings: Connector | ConnectorSettings,
    pairs: tuple[PartitionOffset, ...],
    *,
    version: str,
    whole: bool = False,
    opened: Callable[[str], TopicLog] | None = None,
) -> DirectTopicWrites:
    """Plan direct writes of these pairs; also for new offsets, which an undo would have to remove.

    Offsets removed from the connector's topic are removed from the worker's as well, as Connect
    does (KIP-875).

    whole   all other offsets of the connector in the topics are removed as well
    opened  opens the log of a topic; for tests
    """
    topic = settings.dedicated_offsets_topic
    if (
        topic is None
        or topic == connect.offsets_topic
        or settings.kind is ConnectorKind.SINK
        or (parse_kafka_version(version) or BROKEN_SINCE) < BROKEN_SINCE
    ):
        return DirectTopicWrites()
    unreadable = _OWN_TOPIC_UNREADABLE.format(topic=topic)
    kafka, away = config.kafka_of(connect), settings.offsets_addresses
    if kafka is None or (away and not away & kafka.addresses):
        return DirectTopicWrites(notes=(unreadable,))
    properties = kafka.client_properties()
    open_log = opened or (lambda name: TopicLog(connect.home, properties, name))
    with closing(open_log(topic)) as log:
        try:
            own = _plan_own_topic_write(log, connector, pairs, whole=whole)
        except NotFound:
            return DirectTopicWrites()  # no task of it has ever run
        except ClientError as exc:
            return DirectTopicWrites(notes=(f"{unreadable}: {exc}",))
    if own is None:
        return DirectTopicWrites()
    twin, note = _plan_worker_topic_write(
        connect.offsets_topic, open_log, connector, own, whole=whole
    )
    writes = tuple(write for write in (own, twin) if write is not None and write.records)
    said = _OWN_TOPIC_NOTE.format(topic=topic, count=len(own.records))
    notes = (said,) if note is None else (said, note)
    return DirectTopicWrites(writes, notes if writes else ())


def _plan_worker_topic_write(
    topic: str | None,
    open_log: Callable[[str], TopicLog],
    connector: str,
    own: Write,
    *,
    whole: bool,
) -> tuple[Write | None, str | None]:
    """Return what is written to the worker's topic, if anything, and a note about it."""
    gone = tuple(pair for pair in own.pairs if pair.offset is None)
    if not (gone or whole):
        return None, None
    if topic is None:
        return None, _WORKER_TOPIC_UNKNOWN
    with closing(open_log(topic)) as log:
        try:
            ends, log_records = log.read()
        except ClientError as exc:
            return None, f"{_WORKER_TOPIC_UNREADABLE.format(topic=topic)}: {exc}"
    contents = build_contents(log.where, log_records, len(ends))
    records = (
        build_reset_records(contents, connector)
        if whole
        else build_set_records(contents, connector, gone)
    )
    if not records:
        return None, None
    note = _WORKER_TOPIC_NOTE.format(topic=topic, count=len(records))
    return Write(where=log.where, records=records, pairs=()), note


def _plan_own_topic_write(
    log: TopicLog, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
) -> Write | None:
    """Return what is written to the connector's topic; None where Connect can do it."""
    ends, log_records = log.read()
    if not is_transactional(log_records, ends):
        return None
    contents = build_contents(log.where, log_records, len(ends))
    there = {pair.partition for pair in pairs_in(contents, connector)}
    if whole:
        rest = sorted(there - {pair.partition for pair in pairs})
        pairs = (*(PartitionOffset(partition, None) for partition in rest), *pairs)
    elif all(pair.offset is not None and pair.partition in there for pair in pairs):
        return None
    return Write(
        where=log.where, records=build_set_records(contents, connector, pairs), pairs=pairs
    )


_OWN_TOPIC_NOTE: Final = (
    "its worker has exactly-once support, and it an offsets topic of its own ({topic}): there "
    "Connect cannot remove offsets, so {count} record(s) are written to that topic instead"
)
_WORKER_TOPIC_NOTE: Final = (
    "{count} record(s) are written to the worker's own topic ({topic}), too: what it has of the "
    "connector does not count now, and would again without the setting offsets.storage.topic"
)
_REMAINING_NOTE: Final = (
    "what it has of the connector stays, does not count now, and would again without the setting "
    "offsets.storage.topic"
)
_WORKER_TOPIC_UNREADABLE: Final = (
    f"the worker's own topic ({{topic}}) cannot be read: {_REMAINING_NOTE}"
)
_WORKER_TOPIC_UNKNOWN: Final = (
    f"the configuration does not name the worker's own topic "
    f"(connect[].offsets_topic): {_REMAINING_NOTE}"
)
_OWN_TOPIC_UNREADABLE: Final = (
    "its offsets topic ({topic}) cannot be read: if its worker has exactly-once support, "
    "Connect cannot remove offsets there and says so after 90 s"
)


def is_transactional(records: Iterable[LogRecord], ends: Mapping[int, int]) -> bool:
    """Return whether offsets are written in transactions.

    Each ends with a marker, which takes an offset and is never read. So no record comes right
    before the end, or before our own records there. Compaction makes gaps as well, but never at the
    end of a log.
    """
    last: dict[int, int] = {}
    for record in records:
        before = last.get(record.kpartition)
        if record.ours and before is not None and record.koffset > before + 1:
            return True
        last[record.kpartition] = record.koffset
    return any(offset < ends.get(number, 0) - 1 for number, offset in last.items())
