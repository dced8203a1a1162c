"""The protocol of the readers, and the reader of a configured source."""

from __future__ import annotations

from typing import Protocol

from offsetwatch.clients.databases.files import FileReader
from offsetwatch.clients.databases.mysql import MysqlReader
from offsetwatch.clients.databases.postgresql import PostgresqlReader
from offsetwatch.clients.databases.settings import CONNECT_TIMEOUT_S, STATEMENT_TIMEOUT_S
from offsetwatch.clients.databases.sql import SqlReader
from offsetwatch.config.schema.sources import Source
from offsetwatch.model.source_ends import SourceEnd, SourceEndRequest

# A connection, and a few statements, of which a slow one is the last.
READ_TIMEOUT_S = 2 * CONNECT_TIMEOUT_S + STATEMENT_TIMEOUT_S


class SourceReader(Protocol):
    """Reader of the end of one source. One thread uses it at a time."""

    def read(self, request: SourceEndRequest, /) -> SourceEnd:
        """Return the end of the source now. Raises ClientError."""

    def close(self) -> None:
        """Close the connection; the next read opens one."""


def build_source_reader(source: Source) -> SourceReader:
    """Return the reader of a source; nothing is connected yet."""
    match source.kind:
        case "postgresql":
            return PostgresqlReader(source)
        case "mysql":
            return MysqlReader(source)
        case "sql":
            return SqlReader(source)
        case "file":
            return FileReader(source)
