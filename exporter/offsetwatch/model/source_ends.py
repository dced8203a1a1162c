"""Ends of sources: how far a database or a file goes that a source connector reads, by itself.

A reader asks the source; nothing here is from Connect. Positions are numbers of the source's own
order: bytes of PostgreSQL's write-ahead log (WAL), GTIDs and binlog coordinates of MySQL and
MariaDB, values of a table's column, the size of a file. None is a number that could not be read,
which the reader's rights may be the reason of.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

BINLOG_EVENTS_MAX: Final = 10_000  # of a search for a transaction, unless the user sets it


class SourceKind(StrEnum):
    """Kinds of sources that can be asked for their end."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    SQL = "sql"
    FILE = "file"


class ReplicationSlot(msgspec.Struct, frozen=True, gc=False):
    """Logical replication slot of PostgreSQL (pg_replication_slots).

    database         the database that it belongs to
    active           a connection streams from it now
    confirmed_flush  position up to which its consumer has confirmed; it starts no earlier
    restart          oldest position of the WAL that the slot retains
    wal_status       reserved, extended, unreserved or lost (PostgreSQL 13)
    safe_wal_size    bytes that can be written until the slot may be lost; None without a limit
    sent             position up to which its walsender has sent (pg_stat_replication.sent_lsn);
                     None without a connection, and without the right to read it (pg_monitor)
    """

    name: str
    database: str | None
    active: bool
    confirmed_flush: int | None = None
    restart: int | None = None
    wal_status: str | None = None
    safe_wal_size: int | None = None
    sent: int | None = None


class PostgresqlEnd(msgspec.Struct, frozen=True, gc=False, tag="postgresql"):
    """End of a PostgreSQL server's WAL, and its logical slots by name.

    system_id    identifier of the database cluster (pg_control_system); another one is another
                 server, whose positions cannot be compared
    timeline     it changes with a promotion (pg_control_checkpoint)
    in_recovery  the server is a standby: `wal_end` is what it has replayed
    database     the database that the reader is connected to
    """

    wal_end: int
    slots: Mapping[str, ReplicationSlot]
    system_id: str | None = None
    timeline: int | None = None
    in_recovery: bool = False
    database: str | None = None


class SlotMessage(NamedTuple):
    """Message that a replication slot has for its consumer.

    position    of the change; of a commit, the one after its record
    xid         of the transaction
    content     beginning of the message, without the values of rows
    """

    position: int
    xid: int
    content: bytes


class BinlogFile(NamedTuple):
    """Binlog file of a server, and its size in bytes."""

    name: str
    size: int


class BinlogReader(msgspec.Struct, frozen=True, gc=False):
    """Connection that reads the binlog (a `Binlog Dump` thread of the process list).

    sent_all    the server has sent it all that the binlog has
    """

    user: str
    host: str
    sent_all: bool


class BinlogEvent(NamedTuple):
    """Event of a binlog (SHOW BINLOG EVENTS); the next one begins at `end`.

    kind        like Gtid, Query, Table_map, Write_rows, Xid
    server_id   of the server that wrote it first
    info        what the server says of it: a statement, a GTID, a table; no values of rows
    """

    file: str
    position: int
    kind: str
    server_id: int
    end: int
    info: str


class MysqlEnd(msgspec.Struct, frozen=True, gc=False, tag="mysql"):
    """End of the binlog of a MySQL or MariaDB server.

    mariadb      True for MariaDB, whose GTIDs are `domain-server-number`
    server_id    as in offsets without GTIDs
    gtids        executed transactions (gtid_executed, gtid_binlog_pos); "" if there are none
    purged       MySQL's gtid_purged: transactions that the binlog no longer has; None on MariaDB
    file, position    binlog coordinates of the end
    logs         binlog files, oldest first
    readers      connections that read the binlog; needs the right PROCESS
    """

    mariadb: bool
    server_id: int | None
    gtids: str | None
    purged: str | None = None
    file: str | None = None
    position: int | None = None
    logs: tuple[BinlogFile, ...] | None = None
    readers: tuple[BinlogReader, ...] | None = None


class ColumnQuery(NamedTuple):
    """Column of a table whose greatest value is requested."""

    table: str
    column: str


class ColumnEnd(msgspec.Struct, frozen=True, gc=False):
    """Greatest value of a column: an integer, or a time in Unix nanoseconds.

    value    None where the table has no rows
    error    why it could not be read, in words; `value` means nothing then
    """

    value: int | None
    is_time: bool = False
    error: str | None = None


class SqlEnd(msgspec.Struct, frozen=True, gc=False):
    """Ends of the columns that were requested of a database."""

    columns: Mapping[ColumnQuery, ColumnEnd]


class FileState(msgspec.Struct, frozen=True, gc=False):
    """Size of a file in bytes; `error` says in words why it could not be read."""

    size: int | None
    error: str | None = None


class FileEnd(msgspec.Struct, frozen=True, gc=False):
    """States of the files that were requested, by name."""

    files: Mapping[str, FileState]


SourceEnd = PostgresqlEnd | MysqlEnd | SqlEnd | FileEnd


class SourceEndSample(msgspec.Struct, frozen=True):
    """Source partition against the end of its source when that was read, for the history.

    read_at, behind_since    Unix seconds
    position, end_position   in the source's own order; of which a lag is the difference
    problem                  why there are no numbers, or what is lost, in words
    Fields that are not known are None; state/snapshot.SourceEndView says what each means.
    """

    read_at: float
    connect_cluster: str
    connector: str
    source_partition: str
    source: str
    kind: str
    server: str | None = None
    end: str | None = None
    position: int | None = None
    end_position: int | None = None
    lag_bytes: int | None = None
    lag_transactions: int | None = None
    lag_rows: int | None = None
    behind_since: float | None = None
    caught_up: bool | None = None
    problem: str | None = None


class SourceEndRequest(msgspec.Struct, frozen=True):
    """Query to a source beside that for its own end: columns of tables, or files."""

    source: str
    columns: tuple[ColumnQuery, ...] = ()
    files: tuple[str, ...] = ()


class SourceRow(NamedTuple):
    """Line of a file or row of a table, as its connector reads it.

    offset      of a line, the position of its last byte; of a row, its position (row_positions.py):
                a connector that has read it goes on at `offset` + 1
    content     bytes of the line with its end; or the row as JSON, with types and names of columns
    """

    offset: int
    content: bytes


class SourceRange(NamedTuple):
    """Records of a source from a position on.

    identity    of the file, or of the table's columns: another one is another log
    end         position after the last complete line or row; of rows, not before the one read from
    """

    identity: str
    end: int
    records: tuple[SourceRow, ...]
