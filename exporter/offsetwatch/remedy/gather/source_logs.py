"""Files and tables of configured sources as logs, for the search of a record and its copy.

A FileStream connector reads a file line by line, and a JDBC source connector with an incrementing
column, alone or after timestamp columns, a table row by row: each is a log with one partition. Its
offsets are those of SourceRow, so that a position is right after a record at its `offset` + 1, as
in a log of Kafka. Nothing here changes a source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from offsetwatch.clients.databases.files import FileReader
from offsetwatch.clients.databases.sql import SqlReader
from offsetwatch.config.schema.sources import Source
from offsetwatch.decode.dialects import find_own_dialect
from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.row_positions import parse_log_name
from offsetwatch.model.source_ends import SourceKind, SourceRange
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import SOURCE_PREFIX
from offsetwatch.state.sources.source_ends import DIALECTS


def find_reading_sources(
    sources: Iterable[Source], connect: str | None, connector: str, class_name: str
) -> tuple[Source, ...]:
    """Return the configured sources that a connector of this class reads; `connect` None: any."""
    return tuple(
        source
        for source in sources
        if DIALECTS[SourceKind(source.kind)] == find_own_dialect(class_name)
        and any(
            connect in {None, members.connect} and members.allows(connector)
            for members in source.connectors
        )
    )


class SourceLog:
    """Files or tables of one source as logs. Each call may raise ClientError. For one thread.

    A topic is the name of a file, or a table with the order of its rows: `public.orders(id)`.
    """

    def __init__(self, source: Source) -> None:
        self.name = f"{SOURCE_PREFIX}{source.name}"
        match source.kind:
            case "file":
                self._reader: FileReader | SqlReader = FileReader(source)
            case "sql":
                self._reader = SqlReader(source)
            case _:
                what = "its records cannot be read: only those of files and tables can"
                raise RemoteRefusal(source.name, what)

    def cluster_id(self) -> None:
        """Return None: a source has no id of a Kafka cluster."""

    def topic_id(self, topic: str) -> str:
        """Return what distinguishes the file from another one, or the columns of the table."""
        return self._read(topic, 0, 0).identity

    def bounds(self, topic: str) -> LogBounds:
        """Return the bounds of the log; what a table has no longer is not known."""
        end = self._read(topic, 0, 0).end
        return LogBounds(0, end, end)

    def first(self, topic: str, offset: int) -> int | None:
        """Return the offset of the first record at or after one; None if there is none yet."""
        records = self._read(topic, offset, 1).records
        return records[0].offset if records else None

    def window(
        self,
        partition: TopicPartition,
        start: int,
        until: int | None = None,
        *,
        count_max: int = 1,
        **_: float,
    ) -> LogWindow:
        """Read records from a position on; limits of bytes and time are the reader's own."""
        found = self._read(partition.topic, start, count_max)
        records = tuple(
            RawRecord(
                topic=partition.topic,
                partition=partition.partition,
                offset=record.offset,
                leader_epoch=None,
                timestamp_ms=None,
                timestamp_type="none",
                key=None,
                value=record.content,
            )
            for record in found.records
            if until is None or record.offset < until
        )
        is_all = len(found.records) < count_max
        next_offset = found.end if is_all else found.records[-1].offset + 1
        return LogWindow(records, next_offset, found.end, log_start=0)

    def close(self) -> None:
        """Close the connection; the next call opens one."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _read(self, topic: str, start: int, count_max: int) -> SourceRange:
        if isinstance(self._reader, FileReader):
            return self._reader.read_records(topic, start, count_max)
        return self._reader.read_records(*parse_log_name(topic), start, count_max)


class SourceLogs:
    """Logs of all configured sources, each opened at its first use. For one thread."""

    def __init__(self, sources: Iterable[Source] = ()) -> None:
        self._sources = {f"{SOURCE_PREFIX}{source.name}": source for source in sources}
        self._logs: dict[str, SourceLog] = {}

    def find(self, name: str) -> SourceLog | None:
        """Return the log of a source by `source:` and its name; None if it is no source's.

        Raises RemoteRefusal if no source of this name is configured.
        """
        if not name.startswith(SOURCE_PREFIX):
            return None
        if name not in self._sources:
            raise RemoteRefusal(name, "no source of this name is configured here")
        if name not in self._logs:
            self._logs[name] = SourceLog(self._sources[name])
        return self._logs[name]

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        for log in self._logs.values():
            log.close()
