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

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.whole_topic import LogRecord, StorageAdmin, ends_of, read_whole
from offsetwatch.config import Config, Connect
from offsetwatch.errors import ClientError, NotFound
from offsetwatch.model.connectors import Connector, ConnectorKind, ConnectorSettings
from offsetwatch.remedy.drivers.rest.connect_state import kafka_version
from offsetwatch.remedy.drivers.storage.stores import contents_of
from offsetwatch.remedy.model.plan import Pair, Write
from offsetwatch.remedy.model.stored_offsets import Contents, reset_records, set_records
from offsetwatch.remedy.model.stored_offsets import pairs as pairs_in

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
    """What to do instead of asking Connect; there are no `writes` where Connect can be asked."""

    writes: tuple[Write, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are written to."""
        return tuple(write.where.rpartition("/")[2] for write in self.writes)


def around(
    config: Config,
    connect: Connect,
    connector: str,
    settings: Connector | ConnectorSettings,
    pairs: tuple[Pair, ...],
    *,
    version: str,
    whole: bool = False,
    opened: Callable[[str], Log] | None = None,
) -> Around:
    """The way for these pairs, and back: what is new would have to be removed again. What goes from
    the connector's topic goes from the worker's as well, as Connect has it (KIP-875).

    whole   whatever else the topics have of the connector is to be removed as well
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

    opened = opened or of_topic
    with closing(opened(topic)) as log:
        try:
            own = _own(log, connector, pairs, whole=whole)
        except NotFound:
            return Around()  # no task of it has ever run
        except ClientError as exc:
            return Around(notes=(f"{_ELSEWHERE.format(topic=topic)}: {exc}",))
    if own is None:
        return Around()
    said = _SAID.format(topic=topic, count=len(own.records))
    shared = connect.offsets_topic
    gone = tuple(pair for pair in own.pairs if pair.offset is None)
    if not (gone or whole):
        return _written((own,), said)
    if shared is None:
        return _written((own,), said, _UNNAMED)
    with closing(opened(shared)) as log:
        try:
            contents = _contents_of(log)
        except ClientError as exc:
            return _written((own,), said, f"{_LEFT.format(topic=shared)}: {exc}")
    records = (
        reset_records(contents, connector) if whole else set_records(contents, connector, gone)
    )
    if not records:
        return _written((own,), said)
    twin = Write(where=log.where, records=records, pairs=())
    return _written((own, twin), said, _TWIN.format(topic=shared, count=len(records)))


def _written(writes: Iterable[Write], *notes: str) -> Around:
    writes = tuple(write for write in writes if write.records)
    return Around(writes, notes if writes else ())


def _own(log: Log, connector: str, pairs: tuple[Pair, ...], *, whole: bool) -> Write | None:
    """Return what is written to the connector's topic; None where Connect can be asked."""
    ends, log_records = log.read()
    if not transactional(log_records, ends):
        return None
    contents = contents_of(log.where, log_records, len(ends))
    there = {pair.partition for pair in pairs_in(contents, connector)}
    if whole:
        rest = sorted(there - {pair.partition for pair in pairs})
        pairs = (*(Pair(partition, None) for partition in rest), *pairs)
    elif all(pair.offset is not None and pair.partition in there for pair in pairs):
        return None
    return Write(where=log.where, records=set_records(contents, connector, pairs), pairs=pairs)


def _contents_of(log: Log) -> Contents:
    ends, records = log.read()
    return contents_of(log.where, records, len(ends))


_SAID: Final = (
    "its worker has exactly-once support, and it an offsets topic of its own ({topic}): there "
    "Connect cannot remove offsets, so {count} record(s) are written to that topic instead"
)
_TWIN: Final = (
    "{count} record(s) are written to the worker's own topic ({topic}), too: what it has of the "
    "connector does not count now, and would again without the setting offsets.storage.topic"
)
_STAYS: Final = (
    "what it has of the connector stays, does not count now, and would again without the setting "
    "offsets.storage.topic"
)
_LEFT: Final = f"the worker's own topic ({{topic}}) cannot be read: {_STAYS}"
_UNNAMED: Final = (
    f"the configuration does not name the worker's own topic (connect[].offsets_topic): {_STAYS}"
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
