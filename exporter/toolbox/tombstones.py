"""Offsets that Connect cannot remove: of a source with an offsets topic of its own, on a worker
with exactly-once support, since 3.8.

There Connect writes the tombstones to its own topic first, and to the connector's from a callback
that no longer has a transaction: after 90 s it says 500, half done. So they are written straight to
the connector's topic while the connector is stopped, under the very bytes of their keys. Called by
the ways to a connector; nothing here writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, Final, NamedTuple, Protocol

from exporter.clients.kafka import TailReader
from exporter.clients.whole_topic import LogRecord, StorageAdmin, ends_of, read_whole
from exporter.config import Config, Connect
from exporter.errors import ClientError, NotFound
from exporter.model.connectors import Connector, ConnectorKind, ConnectorSettings
from exporter.remedy.drivers.rest_sight import kafka_version
from exporter.remedy.drivers.storages import contents_of
from exporter.remedy.model.plan import Pair, Write
from exporter.remedy.model.stored import pairs as pairs_in
from exporter.remedy.model.stored import set_records

BROKEN_SINCE: Final = (3, 8)  # KAFKA-15018


class Log(Protocol):
    """An offsets topic. Raises ClientError."""

    @property
    def where(self) -> str:
        """`kafka/topic`."""

    def read(self) -> tuple[Mapping[int, int], tuple[LogRecord, ...]]:
        """(partition -> end, every record)."""

    def close(self) -> None:
        """Let go of connections."""


class TopicLog:
    """The real one."""

    def __init__(self, kafka: str, properties: Mapping[str, Any], topic: str) -> None:
        self._kafka, self._properties, self._topic = kafka, properties, topic
        self._admin = StorageAdmin(kafka, properties)

    @property
    def where(self) -> str:
        """See Log."""
        return f"{self._kafka}/{self._topic}"

    def read(self) -> tuple[Mapping[int, int], tuple[LogRecord, ...]]:
        """See Log."""
        ends = ends_of(self._admin, self._topic)
        records = read_whole(
            self._admin,
            lambda: TailReader(self._kafka, self._properties),
            self._topic,
            until=ends,
        )
        return ends.ends, tuple(records)

    def close(self) -> None:
        """See Log."""
        self._admin.close()


class Around(NamedTuple):
    """What to do instead of asking Connect; `write` is None where Connect can be asked."""

    write: Write | None = None
    notes: tuple[str, ...] = ()
    topic: str | None = None


def around(
    config: Config,
    connect: Connect,
    connector: str,
    settings: Connector | ConnectorSettings,
    pairs: tuple[Pair, ...],
    *,
    version: str,
    alone: bool = False,
    opened: Callable[[str], Log] | None = None,
) -> Around:
    """The way for these pairs, and back: what is new would have to be removed again.

    alone   whatever else the topic has of the connector is to be removed as well
    opened  gives the log of a topic; for tests
    """
    topic = settings.dedicated_offsets_topic
    if topic is None or settings.kind is ConnectorKind.SINK or topic == connect.offsets_topic:
        return Around()
    if (kafka_version(version) or BROKEN_SINCE) < BROKEN_SINCE:
        return Around()
    kafka, away = config.kafka_of(connect), settings.offsets_addresses
    if kafka is None or (away and not away & kafka.addresses):
        return Around(notes=(_ELSEWHERE.format(topic=topic),))

    def of_topic(name: str) -> Log:
        return TopicLog(connect.home, kafka.client_properties(), name)

    with closing((opened or of_topic)(topic)) as log:
        try:
            found = _around(log, topic, connector, pairs, alone=alone)
        except NotFound:
            return Around()  # no task of it has ever run
        except ClientError as exc:
            return Around(notes=(f"{_ELSEWHERE.format(topic=topic)}: {exc}",))
    return found


def _around(
    log: Log, topic: str, connector: str, pairs: tuple[Pair, ...], *, alone: bool
) -> Around:
    ends, log_records = log.read()
    if not transactional(log_records, ends):
        return Around()
    contents = contents_of(log.where, log_records, len(ends))
    there = {pair.partition for pair in pairs_in(contents, connector)}
    if alone:
        rest = sorted(there - {pair.partition for pair in pairs})
        pairs = (*(Pair(partition, None) for partition in rest), *pairs)
    if all(pair.offset is not None and pair.partition in there for pair in pairs):
        return Around()
    records = set_records(contents, connector, pairs)
    if not records:
        return Around()
    return Around(
        write=Write(where=log.where, records=records, pairs=pairs),
        notes=(_SAID.format(topic=topic, count=len(records)),),
        topic=topic,
    )


_SAID: Final = (
    "its worker has exactly-once support, and it an offsets topic of its own ({topic}): there "
    "Connect cannot remove offsets, so {count} record(s) are written to that topic instead; what "
    "the worker's own topic has of them does not count, and would again without that setting"
)
_ELSEWHERE: Final = (
    "its offsets topic ({topic}) cannot be read: if its worker has exactly-once support, "
    "Connect cannot remove offsets there and says so after 90 s"
)


def transactional(records: Iterable[LogRecord], ends: Mapping[int, int]) -> bool:
    """Are offsets written in transactions? Each ends with a marker, which takes an offset and is
    never read; so no record stands right before the end, or before what we wrote there ourselves.
    Compaction makes gaps as well, but never at the end of a log.
    """
    last: dict[int, int] = {}
    for record in records:
        before = last.get(record.kpartition)
        if record.ours and before is not None and record.koffset > before + 1:
            return True
        last[record.kpartition] = record.koffset
    return any(offset < ends.get(number, 0) - 1 for number, offset in last.items())
