"""The reader of MySQL and MariaDB against a connection that answers as a server would."""

from __future__ import annotations

import ssl
import struct
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest
from pymysql.err import OperationalError, ProgrammingError

from offsetwatch.clients.databases.mysql import MysqlReader
from offsetwatch.clients.databases.settings import StatementTimeout
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    IncompleteResponse,
    MalformedResponse,
    NotFound,
    ResponseTimeout,
    SettingsRefused,
    TargetUnreachable,
    TooManyRequests,
)
from offsetwatch.model.source_ends import (
    BinlogEvent,
    BinlogFile,
    BinlogReader,
    MysqlEnd,
    SourceEndRequest,
)

REQUEST = SourceEndRequest("books")
DENIED = OperationalError(1227, "Access denied; you need (at least one of) the PROCESS privilege")
UNKNOWN = ProgrammingError(1064, "You have an error in your SQL syntax")
SENT = "Master has sent all binlog to slave; waiting for more updates"
MARIADB = {
    "@@version": [("10.11.19-MariaDB-log", 7)],
    "SELECT @@server_id": [(7,)],
    "gtid_binlog_pos": [("0-7-17",)],
    "BINLOG_GTID_POS": [("0-7-16",)],
    "SHOW MASTER STATUS": [("bin.000002", 644, "", "")],
    "SHOW BINARY LOGS": [("bin.000002", 644)],
    "innodb_cmp": [(5,)],
    "processlist": [("cdc", "10.0.0.1:1234", SENT), ("other", None, None)],
}
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MYSQL = {
    "@@version": [("8.4.2", 7)],
    "SELECT @@server_id": [(7,)],
    "gtid_executed": [(f"{UUID}:1-5,\n{UUID[:-1]}3:1", f"{UUID}:1-2")],
    "SHOW MASTER STATUS": UNKNOWN,
    "SHOW BINARY LOG STATUS": [("bin.000002", 644, "", "", "")],
    "SHOW BINARY LOGS": [("bin.000001", 100, "No"), ("bin.000002", 600, "No")],
    "innodb_cmp": [(5,)],
    "processlist": [("cdc", "h", "Source has sent all binlog to replica; waiting for more")],
}


def source(**settings: Any) -> Source:
    fields = {"name": "books", "kind": "mysql", "connectors": [{"connect": "lab"}], "host": "db"}
    return Source.model_validate({**fields, **settings})


class FakeConnection:
    """Answers by a part of the statement; an exception is raised."""

    encoding = "utf8"

    def __init__(self, answers: dict[str, Any], **others: Any) -> None:
        self.answers = {**answers, **others}
        self.statements: list[str] = []
        self.closed = False

    @contextmanager
    def cursor(self) -> Any:
        yield self

    def execute(self, statement: str, values: tuple[object, ...] | None) -> None:
        self.statements.append(statement if values is None else statement % values)
        self.answer = next((rows for part, rows in self.answers.items() if part in statement), [])
        if isinstance(self.answer, Exception):
            raise self.answer

    def fetchall(self) -> Any:
        return self.answer

    def close(self) -> None:
        self.closed = True


def connecting(monkeypatch: pytest.MonkeyPatch, *connections: Any) -> list[dict[str, Any]]:
    """Have each connection be the next of these; an exception is raised."""
    calls: list[dict[str, Any]] = []

    def connect(**settings: Any) -> Any:
        calls.append(settings)
        connection = connections[len(calls) - 1]
        if isinstance(connection, Exception):
            raise connection
        return connection

    monkeypatch.setattr(pymysql, "connect", connect)
    return calls


def test_the_end_of_mariadb(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = FakeConnection(MARIADB)
    connecting(monkeypatch, connection)
    assert MysqlReader(source()).read(REQUEST) == MysqlEnd(
        mariadb=True,
        server_id=7,
        gtids="0-7-17",
        purged="0-7-16",
        file="bin.000002",
        position=644,
        logs=(BinlogFile("bin.000002", 644),),
        readers=(BinlogReader("cdc", "10.0.0.1:1234", True), BinlogReader("other", "", False)),
    )
    assert "SELECT BINLOG_GTID_POS(bin.000002, 4)" in connection.statements
    assert "SET SESSION max_statement_time = 2" in connection.statements
    assert "SET SESSION TRANSACTION READ ONLY" in connection.statements


def test_the_end_of_mysql(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = FakeConnection(MYSQL)
    connecting(monkeypatch, connection)
    assert MysqlReader(source()).read(REQUEST) == MysqlEnd(
        mariadb=False,
        server_id=7,
        gtids=f"{UUID}:1-5,{UUID[:-1]}3:1",
        purged=f"{UUID}:1-2",
        file="bin.000002",
        position=644,
        logs=(BinlogFile("bin.000001", 100), BinlogFile("bin.000002", 600)),
        readers=(BinlogReader("cdc", "h", True),),
    )
    assert "SET SESSION max_execution_time = 2000" in connection.statements


def test_the_end_is_read_before_the_files_and_those_before_the_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = FakeConnection(MARIADB)
    connecting(monkeypatch, connection)
    reader = MysqlReader(source())
    reader.read(REQUEST)
    connection.statements.clear()
    reader.read(REQUEST)
    assert [statement[:23] for statement in connection.statements] == [
        "SELECT @@gtid_binlog_po",
        "SHOW MASTER STATUS",
        "SHOW BINARY LOGS",
        "SELECT user, host, stat",
        "SELECT @@server_id",
    ]


def test_each_missing_right_leaves_its_fields_none(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = dict.fromkeys(["SHOW MASTER STATUS", "SHOW BINARY LOGS", "innodb_cmp"], DENIED)
    # Without the right PROCESS the list has no error, and is not whole.
    connecting(monkeypatch, FakeConnection({**MARIADB, **denied}, processlist=[]))
    assert MysqlReader(source()).read(REQUEST) == MysqlEnd(True, 7, "0-7-17")


def test_what_was_purged_is_asked_for_again_when_a_file_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = FakeConnection(MARIADB)
    connecting(monkeypatch, connection)
    reader = MysqlReader(source())
    reader.read(REQUEST)
    connection.answers |= {
        "SHOW BINARY LOGS": [("bin.000003", 4)],
        "BINLOG_GTID_POS": [("0-7-20",)],
    }
    assert reader.read(REQUEST).purged == "0-7-20"


def test_a_server_without_a_binlog(monkeypatch: pytest.MonkeyPatch) -> None:
    off = OperationalError(1381, "You are not using binary logging")
    answers = {**MARIADB, "gtid_binlog_pos": [("",)], "SHOW MASTER STATUS": []}
    connecting(monkeypatch, FakeConnection({**answers, "SHOW BINARY LOGS": off}))
    end = MysqlReader(source()).read(REQUEST)
    assert (end.gtids, end.file, end.logs, end.purged) == ("", None, None, None)


@pytest.mark.parametrize("answers", [MARIADB, MYSQL], ids=["mariadb", "mysql"])
def test_an_end_that_two_servers_behind_one_connection_reported_is_discarded(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    first, second = FakeConnection(answers), FakeConnection(answers)
    connecting(monkeypatch, first, second)
    reader = MysqlReader(source())
    reader.read(REQUEST)
    first.answers["SELECT @@server_id"] = [(8,)]
    with pytest.raises(IncompleteResponse, match="led to server 7, and now to 8"):
        reader.read(REQUEST)
    assert first.closed
    assert reader.read(REQUEST).server_id == 7


def test_a_connection_is_reused_and_opened_again_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = FakeConnection(MARIADB), FakeConnection(MARIADB)
    calls = connecting(monkeypatch, first, second)
    reader = MysqlReader(source())
    reader.read(REQUEST)
    reader.read(REQUEST)
    assert len(calls) == 1
    first.answers["gtid_binlog_pos"] = OperationalError(2013, "Lost connection during query")
    with pytest.raises(IncompleteResponse, match="the connection broke: Lost connection"):
        reader.read(REQUEST)
    assert first.closed
    reader.read(REQUEST)
    assert len(calls) == 2


@pytest.mark.parametrize("answers", [MARIADB, MYSQL], ids=["mariadb", "mysql"])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_connection_that_is_cut_at_any_statement_gives_no_end_and_the_next_read_gives_it(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], is_open: bool
) -> None:
    def read(cut_at: int | None) -> tuple[MysqlEnd | None, int]:
        """Return the end, if it is read, and the number of statements."""
        first, second = FakeConnection(answers), FakeConnection(answers)
        connecting(monkeypatch, first, second)
        reader = MysqlReader(source())
        if is_open:
            reader.read(REQUEST)
        before, execute = len(first.statements), first.execute

        def cut(statement: str, values: tuple[object, ...] | None) -> None:
            if len(first.statements) - before == cut_at:
                raise OperationalError(2013, "Lost connection to server during query")
            execute(statement, values)

        monkeypatch.setattr(first, "execute", cut)
        if cut_at is None:
            return reader.read(REQUEST), len(first.statements) - before
        with pytest.raises(IncompleteResponse, match="books: the connection broke: Lost"):
            reader.read(REQUEST)
        assert first.closed
        return reader.read(REQUEST), cut_at

    end, count = read(None)
    assert count >= 5
    for cut_at in range(count):
        assert read(cut_at) == (end, cut_at)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OperationalError(1045, "Access denied for user 'w'@'h'"), AccessDenied),
        (OperationalError(4151, "Access denied, this account is locked"), AccessDenied),
        (OperationalError(1049, "Unknown database 'x'"), NotFound),
        (OperationalError(1040, "Too many connections"), TooManyRequests),
        (OperationalError(2003, "Can't connect (Connection refused)"), TargetUnreachable),
        (OperationalError(2003, "Can't connect (timed out)"), ResponseTimeout),
        (OperationalError(2013, "Lost connection (timed out)"), ResponseTimeout),
        (OperationalError(2059, "Authentication plugin is not supported"), SettingsRefused),
        (RuntimeError("'cryptography' package is required"), SettingsRefused),
        (UnicodeError("encoding with 'idna' codec failed"), TargetUnreachable),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "of a greeting"), MalformedResponse),
        (UnboundLocalError("salt_len"), MalformedResponse),
        (struct.error("unpack requires a buffer of 2 bytes"), MalformedResponse),
        (ssl.SSLCertVerificationError("self-signed"), TargetUnreachable),
    ],
)
def test_errors_of_connections(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[ClientError]
) -> None:
    connecting(monkeypatch, error)
    with pytest.raises(ClientError) as raised:
        MysqlReader(source(password="s3cret")).read(REQUEST)
    assert type(raised.value) is kind
    assert raised.value.__context__ is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OperationalError(1969, "Query execution was interrupted"), StatementTimeout),
        (OperationalError(3024, "maximum statement execution time exceeded"), StatementTimeout),
        (OperationalError(2013, "Lost connection (The read operation timed out)"), ResponseTimeout),
        (OperationalError(2006, "Server has gone away"), IncompleteResponse),
        (OSError("closed"), IncompleteResponse),
        (OperationalError(1927, "Connection was killed"), IncompleteResponse),
        (OperationalError(1317, "Query execution was interrupted"), IncompleteResponse),
        (ProgrammingError(1234, "near s3cret"), MalformedResponse),
        (IndexError("index out of range"), MalformedResponse),
        (ValueError("invalid literal: s3cret"), MalformedResponse),
    ],
)
def test_errors_of_statements(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[ClientError]
) -> None:
    connecting(monkeypatch, FakeConnection({**MARIADB, "SHOW BINARY LOGS": error}))
    with pytest.raises(ClientError) as raised:
        MysqlReader(source(password="s3cret")).read(REQUEST)
    assert type(raised.value) is kind
    assert "s3cret" not in str(raised.value)


def test_settings_of_a_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    file = tmp_path / "dsn"
    file.write_text("mariadb://watcher:s3%40cret@db-2:3307/books\n")
    calls = connecting(monkeypatch, FakeConnection(MARIADB))
    settings = {"host": None, "dsn_file": str(file), "tls": {"verify": "none"}}
    MysqlReader(source(**settings)).read(REQUEST)
    context = calls[0].pop("ssl")
    assert context.verify_mode is ssl.CERT_NONE
    assert calls[0] == {
        "connect_timeout": 5,
        "read_timeout": 4.0,
        "write_timeout": 4.0,
        "autocommit": True,
        "charset": "utf8mb4",
        "program_name": "offsetwatch",
        "host": "db-2",
        "port": 3307,
        "user": "watcher",
        "password": "s3@cret",
        "database": "books",
    }


def test_a_url_that_is_none_is_refused_without_it(tmp_path: Any) -> None:
    with pytest.raises(SettingsRefused, match="books: dsn: write %40") as raised:
        MysqlReader(source(host=None, dsn="mysql://u:s3/cret@db/x")).read(REQUEST)
    assert "cret" not in str(raised.value)


EVENTS = [
    ("bin.000002", 4, "Format_desc", 7, 256, "Server ver: 10.11.19-MariaDB-log, Binlog ver: 4"),
    ("bin.000002", 256, "Gtid_list", 7, 299, "[0-7-14]"),
    ("bin.000002", 299, "Annotate_rows", 7, 350, "insert into caf\u00e9 values ('\ufffd')"),
]


def test_events_of_the_binlog(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_of_info = [row[5].encode().replace(b"\xef\xbf\xbd", b"\xff") for row in EVENTS]
    rows = [
        (*row[:5], info.decode("latin1")) for row, info in zip(EVENTS, bytes_of_info, strict=True)
    ]
    connection = FakeConnection(MARIADB, **{"SHOW BINLOG EVENTS": rows})
    connecting(monkeypatch, connection)
    reader = MysqlReader(source())
    assert reader.read_events("bin.000002", 4, 500) == tuple(BinlogEvent(*row) for row in EVENTS)
    assert connection.statements[-1] == "SHOW BINLOG EVENTS IN bin.000002 FROM 4 LIMIT 500"
    assert connection.encoding == "utf8"
    assert reader.read_gtids_before("bin.000002", 299) == "0-7-16"
    connection.answers["BINLOG_GTID_POS"] = OperationalError(1969, "max_statement_time exceeded")
    assert reader.read_gtids_before("bin.000002", 299) is None


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OperationalError(1227, "Access denied; you need"), AccessDenied, "may not read events"),
        (OperationalError(1220, "Wrong offset or I/O error"), NotFound, "Wrong offset"),
    ],
)
def test_events_that_are_not_read(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[ClientError], text: str
) -> None:
    connecting(monkeypatch, FakeConnection(MYSQL, **{"SHOW BINLOG EVENTS": error}))
    reader = MysqlReader(source())
    with pytest.raises(kind, match=text):
        reader.read_events("bin.000002", 7, 500)


def test_mysql_does_not_tell_the_gtids_before_a_position(monkeypatch: pytest.MonkeyPatch) -> None:
    connecting(monkeypatch, FakeConnection(MYSQL))
    assert MysqlReader(source()).read_gtids_before("bin.000002", 299) is None
