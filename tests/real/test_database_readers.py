"""Readers of sources against real servers: rights, refusals, and servers that do not answer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lab.databases.mariadb import MariadbServer
from lab.databases.postgresql import PUBLICATION, PostgresqlServer, frozen
from lab.databases.server import ADMINISTRATOR, ORDERS, SHOP, WATCHER, DatabaseServer
from lab.processes.ports import free_port
from lab.waiting import NotYet, until
from offsetwatch.clients.databases import SourceReader, build_source_reader
from offsetwatch.clients.databases.mysql import MysqlReader
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import (
    AccessDenied,
    NotFound,
    RemoteRefusal,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.model.row_positions import ID_SPAN, RowOrder
from offsetwatch.model.source_ends import (
    ColumnQuery,
    MysqlEnd,
    PostgresqlEnd,
    SourceEndRequest,
    SqlEnd,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.source_logs import SourceLog
from offsetwatch.toolbox.next_offset import find_next_offset

pytestmark = [pytest.mark.real, pytest.mark.full]

START_S_MAX = 150.0
REQUEST = SourceEndRequest("shop")
SLOT = "cdc"
USER = "someone"
PASSWORD = "p@ss/w:rd"
ESCAPED = "p%40ss%2Fw%3Ard"


@contextmanager
def running(server: DatabaseServer) -> Iterator[None]:
    child = server.child()
    child.start()
    try:
        until(f"{server.name} answers", server.check_ready, timeout_s=START_S_MAX)
        server.prepare()
        yield
    finally:
        child.terminate()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that other users get to: each run of pytest closes those of all runs to them."""
    with tempfile.TemporaryDirectory(prefix="databases-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def postgresql(folder: Path) -> Iterator[PostgresqlServer]:
    server = PostgresqlServer(folder, free_port())
    with running(server):
        server.query(f"select pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")
        yield server


@pytest.fixture(scope="module")
def mariadb(folder: Path) -> Iterator[MariadbServer]:
    server = MariadbServer(folder, free_port())
    with running(server):
        yield server


def reader(kind: str, dsn: str, **settings: Any) -> SourceReader:
    return build_source_reader(build_source(kind, dsn, **settings))


def build_source(kind: str, dsn: str, **settings: Any) -> Source:
    document = {"name": "shop", "kind": kind, "dsn": dsn, "connectors": [{"connect": "lab"}]}
    return Source.model_validate({**document, **settings})


def url(server: DatabaseServer, user: str = USER, database: str = SHOP) -> str:
    return f"{server.scheme}://{user}:{ESCAPED}@127.0.0.1:{server.port}/{database}"


@contextmanager
def role(server: DatabaseServer, attributes: str = "login", *grants: str) -> Iterator[None]:
    """Have the user USER while it is needed."""
    postgresql = isinstance(server, PostgresqlServer)
    create = (
        f"create role {USER} {attributes} password"
        if postgresql
        else (f"create user {USER}@'127.0.0.1' identified by")
    )
    lock = "" if postgresql or attributes == "login" else " account lock"
    name = USER if postgresql else f"{USER}@'127.0.0.1'"
    server.query(f"{create} '{PASSWORD}'{lock}")
    try:
        for grant in grants:
            server.query(f"grant {grant} to {name}")
        yield
    finally:
        if postgresql:
            server.query(f"drop owned by {USER}")
        server.query(f"drop {'role' if postgresql else 'user'} {name}")


def read(source: SourceReader, request: SourceEndRequest = REQUEST) -> Any:
    with closing(source):
        return source.read(request)


def test_the_end_of_postgresql_is_what_the_server_says(postgresql: PostgresqlServer) -> None:
    end = read(reader("postgresql", postgresql.url(WATCHER)))
    assert isinstance(end, PostgresqlEnd)
    slot = end.slots[SLOT]
    assert (slot.database, slot.active, slot.sent) == (SHOP, False, None)
    assert slot.confirmed_flush == postgresql.slot(SLOT)["confirmed_flush_lsn"]
    assert slot.restart == postgresql.slot(SLOT)["restart_lsn"]
    assert slot.wal_status == "reserved"
    assert slot.confirmed_flush is not None
    assert slot.confirmed_flush <= end.wal_end <= postgresql.wal_end()
    ((system_id,),) = postgresql.query("select system_identifier from pg_control_system()")
    assert (end.system_id, end.timeline, end.in_recovery) == (str(system_id), 1, False)


def test_a_read_leaves_no_transaction_and_changes_nothing(postgresql: PostgresqlServer) -> None:
    source = reader("postgresql", postgresql.url(WATCHER))
    with closing(source):
        source.read(REQUEST)
        rows = postgresql.query(
            "select state, xact_start, application_name from pg_stat_activity "
            f"where usename = '{WATCHER}'"
        )
        assert rows == [("idle", None, "offsetwatch")]
        locks = "select count(*) from pg_locks join pg_stat_activity using (pid)"
        assert postgresql.query(f"{locks} where usename = '{WATCHER}'") == [(0,)]


@pytest.mark.parametrize("grants", [(), ("pg_monitor",)])
def test_what_was_sent_needs_pg_monitor(
    postgresql: PostgresqlServer, grants: tuple[str, ...]
) -> None:
    with role(postgresql, "login", *grants), streaming(postgresql):
        slot = read(reader("postgresql", url(postgresql))).slots[SLOT]
    assert slot.active
    assert (slot.sent is not None) == bool(grants)


@contextmanager
def streaming(server: PostgresqlServer) -> Iterator[None]:
    """Have a connection that reads the slot."""
    dsn = server.url(ADMINISTRATOR)
    connection = psycopg.connect(dsn, autocommit=True, replication="database")
    options = f"(proto_version '1', publication_names '{PUBLICATION}')"
    connection.pgconn.send_query(f"START_REPLICATION SLOT {SLOT} LOGICAL 0/0 {options}".encode())
    try:
        until("the slot is read", lambda: _active(server), timeout_s=START_S_MAX)
        yield
    finally:
        connection.close()
        until("the slot is free", lambda: _inactive(server), timeout_s=START_S_MAX)


def _active(server: PostgresqlServer) -> None:
    if server.sent(SLOT) is None:
        raise NotYet(str(server.slot(SLOT)))


def _inactive(server: PostgresqlServer) -> None:
    if server.slot(SLOT)["active"]:
        raise NotYet


def test_refusals_of_postgresql_are_named(postgresql: PostgresqlServer) -> None:
    with role(postgresql, "nologin"), pytest.raises(AccessDenied, match="not permitted to log in"):
        read(reader("postgresql", url(postgresql)))
    with pytest.raises(AccessDenied, match="password authentication failed") as refused:
        read(reader("postgresql", url(postgresql)))
    assert PASSWORD not in f"{refused.value} {refused.value.advice}"
    with role(postgresql), pytest.raises(NotFound, match='database "none" does not exist'):
        read(reader("postgresql", url(postgresql, database="none")))
    with pytest.raises(TargetUnreachable, match="Connection refused"):
        read(reader("postgresql", f"postgresql://u:p@127.0.0.1:{free_port()}/x"))


def test_a_postgresql_that_stands_still_is_given_up(postgresql: PostgresqlServer) -> None:
    source = reader("postgresql", postgresql.url(WATCHER))
    with closing(source):
        source.read(REQUEST)
        statement = f"select pid from pg_stat_activity where usename = '{WATCHER}'"
        ((backend,),) = postgresql.query(statement)
        with frozen(backend), pytest.raises(ResponseTimeout, match="no answer within 4 s"):
            source.read(REQUEST)
        assert source.read(REQUEST)
    postmaster = int((postgresql.data / "postmaster.pid").read_text().split()[0])
    with frozen(postmaster), pytest.raises(ResponseTimeout, match="no connection within 5 s"):
        read(reader("postgresql", postgresql.url(WATCHER)))


def test_the_end_of_mariadb_is_what_the_server_says(mariadb: MariadbServer) -> None:
    mariadb.query("flush binary logs")
    mariadb.insert(1)

    def answers() -> tuple[Any, Any]:
        return mariadb.query("show master status"), mariadb.query("show binary logs")

    def read_between() -> tuple[Any, Any, Any]:
        # A moment after a flush the server writes a checkpoint of the binlog by itself.
        status, logs = answers()
        end = read(reader("mysql", mariadb.url(WATCHER, "")))
        if answers() != (status, logs):
            raise NotYet("the server writes")
        return end, status, logs

    end, ((file, position, *_),), logs = until(
        "it writes nothing", read_between, timeout_s=START_S_MAX
    )
    assert isinstance(end, MysqlEnd)
    assert (end.mariadb, end.server_id, end.gtids) == (True, 7, mariadb.gtids())
    assert (end.file, end.position) == (file, position)
    assert [tuple(log) for log in end.logs or ()] == logs
    assert (end.purged, end.readers) == ("", ())


def test_what_mariadb_has_purged(mariadb: MariadbServer) -> None:
    mariadb.insert(1)
    gone = mariadb.gtids()
    mariadb.query("flush binary logs")
    mariadb.insert(1)
    newest = mariadb.query("show binary logs")[-1][0]

    def purge() -> None:
        mariadb.query(f"purge binary logs to '{newest}'")
        oldest = mariadb.query("show binary logs")[0][0]
        if oldest != newest:
            raise NotYet(oldest)

    until("the file is no longer needed", purge, timeout_s=START_S_MAX)
    end = read(reader("mysql", mariadb.url(WATCHER, "")))
    assert (end.purged, end.logs[0].name) == (gone, newest)


@pytest.mark.parametrize(
    ("grants", "missing"),
    [
        ((), {"file", "position", "logs", "purged", "readers"}),
        (("binlog monitor on *.*",), {"readers"}),
        (("process on *.*",), {"file", "position", "logs", "purged"}),
    ],
)
def test_each_right_on_mariadb_has_its_fields(
    mariadb: MariadbServer, grants: tuple[str, ...], missing: set[str]
) -> None:
    with role(mariadb, "login", *grants):
        end = read(reader("mysql", url(mariadb, database="")))
        assert end.gtids == mariadb.gtids()
    assert {name for name in end.__struct_fields__ if getattr(end, name) is None} == missing


@pytest.mark.parametrize("has_gtids", [True, False])
def test_the_next_offset_is_where_the_server_says_that_the_transaction_ends(
    mariadb: MariadbServer, *, has_gtids: bool
) -> None:
    mariadb.query("create table if not exists pictures (content blob)")
    mariadb.query("flush binary logs")
    mariadb.insert(1)
    before = _coordinates(mariadb, has_gtids=has_gtids)
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("begin")
        cursor.execute(f"update {ORDERS} set note = 'new'")
        # A statement that is no UTF-8 is in the binlog as it is.
        cursor.execute("insert into pictures values (%s)", [b"\xff\x00"])
        cursor.execute("commit")
    after_first = _coordinates(mariadb, has_gtids=has_gtids)
    mariadb.query("flush binary logs")
    mariadb.insert(1)
    after_second = _coordinates(mariadb, has_gtids=has_gtids)
    source = MysqlReader(build_source("mysql", mariadb.url(WATCHER, "")))
    with closing(source):
        end = source.read(REQUEST)
        first = find_next_offset({**before, "event": 2}, end, source, source="shop")
        (passed,) = first.transactions
        assert [*passed.tables] == [f"{SHOP}.{ORDERS}", f"{SHOP}.pictures"]
        assert first.fields == after_first
        second = find_next_offset(first.fields, end, source, source="shop")
        both = find_next_offset(before, end, source, source="shop", count=2)
        assert second.fields == both.fields == after_second
        with pytest.raises(RemoteRefusal, match="nothing is after its offset"):
            find_next_offset(second.fields, end, source, source="shop")
        with pytest.raises(RemoteRefusal, match="not found within 3 events"):
            find_next_offset(before, end, source, source="shop", events_max=3)
        with pytest.raises(NotFound, match="SHOW BINLOG EVENTS"):
            source.read_events(str(after_second["file"]), 7, 1)
    assert mariadb.gtids() == end.gtids


def _coordinates(server: MariadbServer, *, has_gtids: bool) -> dict[str, Any]:
    """Return an offset at the end of the newest commit."""
    ((file, *_),) = server.query("show master status")
    events = server.query(f"show binlog events in '{file}'")
    position = [end for _, _, kind, _, end, _ in events if kind == "Xid"][-1]
    return {"file": file, "pos": position, **({"gtids": server.gtids()} if has_gtids else {})}


def test_refusals_of_mariadb_are_named(mariadb: MariadbServer) -> None:
    with role(mariadb, "locked"), pytest.raises(AccessDenied, match="this account is locked"):
        read(reader("mysql", url(mariadb, database="")))
    with pytest.raises(AccessDenied, match="Access denied for user") as refused:
        read(reader("mysql", url(mariadb, database="")))
    assert PASSWORD not in f"{refused.value} {refused.value.advice}"


def test_a_mariadb_that_stands_still_is_given_up(mariadb: MariadbServer) -> None:
    source = reader("mysql", mariadb.url(WATCHER, ""))
    pid = int((mariadb.data / "mariadb.pid").read_text())
    with closing(source):
        source.read(REQUEST)
        with frozen(pid):
            with pytest.raises(ResponseTimeout, match="no answer within 4 s"):
                source.read(REQUEST)
            with pytest.raises(ResponseTimeout, match="no connection within 5 s"):
                source.read(REQUEST)
        assert source.read(REQUEST)


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_greatest_values_and_bounds_of_statements(
    database: str, request: pytest.FixtureRequest
) -> None:
    server: DatabaseServer = request.getfixturevalue(database)
    server.insert(3)
    slow = "SELECT 1 FROM pg_sleep(9)" if database == "postgresql" else "SELECT sleep(9)"
    statements = [
        {"table": "slow", "statement": slow},
        {"table": "write", "statement": f"INSERT INTO {ORDERS} (note) VALUES ('x')"},
    ]
    source = reader("sql", server.url(ADMINISTRATOR), columns=statements)
    columns = (
        *(ColumnQuery(ORDERS, column) for column in ("id", "written_at", "note", "none")),
        *(ColumnQuery(table, "") for table in ("slow", "write")),
    )
    end = read(source, SourceEndRequest("shop", columns))
    assert isinstance(end, SqlEnd)
    ((greatest, seconds),) = server.query(_greatest(database))
    assert end.columns[columns[0]].value == greatest
    assert end.columns[columns[1]].is_time
    assert end.columns[columns[1]].value == int(seconds * 1_000_000) * 1000
    errors = [end.columns[column].error or "" for column in columns[2:]]
    assert "neither a whole number nor a time" in errors[0]
    assert "none" in errors[1]
    assert errors[2] == "a statement took longer than 2 s"
    assert "read" in errors[3].lower()
    assert server.query(f"select max(id) from {ORDERS}") == [(greatest,)]


def _greatest(database: str) -> str:
    of_time = "extract(epoch from max(written_at))"
    if database == "mariadb":
        of_time = "unix_timestamp(max(written_at))"
    return f"select max(id), {of_time} from {ORDERS}"


THINGS = {
    "postgresql": [
        ("id", "bigint", "9007199254740993", "BIGINT", 9007199254740993),
        ("price", "numeric(12,2)", "12.50", "NUMERIC(12, 2)", "12.50"),
        ("day", "date", "'2026-11-30'", "DATE", "2026-11-30"),
        ("at", "timestamptz", "'2026-11-30T01:02:03Z'", "TIMESTAMP WITH TIME ZONE",
         "2026-11-30T01:02:03Z"),
        ("raw", "bytea", r"'\x00ff'", "BYTEA", "AP8="),
        ("doc", "jsonb", """'{"a": [1]}'""", "JSONB", {"a": [1]}),
        ("net", "int4range", "'[1,2)'", "INT4RANGE", "[1, 2)"),
        ("none", "text", "null", "TEXT", None),
        ("number", "double precision", "'NaN'", "DOUBLE PRECISION", "nan"),
    ],
    "mariadb": [
        ("id", "bigint unsigned", "9007199254740993", "BIGINT(20) UNSIGNED", 9007199254740993),
        ("price", "decimal(12,2)", "12.50", "DECIMAL(12, 2)", "12.50"),
        ("day", "date", "'2026-11-30'", "DATE", "2026-11-30"),
        ("at", "datetime(6)", "'2026-11-30 01:02:03'", "DATETIME(6)", "2026-11-30T01:02:03"),
        ("raw", "blob", "x'00ff'", "BLOB", "AP8="),
        ("none", "text", "null", "TEXT", None),
    ],
}  # fmt: skip


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_a_row_is_read_whole_with_the_types_of_its_columns(
    request: pytest.FixtureRequest, database: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(database)
    things = THINGS[database]
    server.query(f"create table things ({', '.join(f'{row[0]} {row[1]}' for row in things)})")
    server.query(f"insert into things values ({', '.join(row[2] for row in things)})")
    document = {
        "name": "shop",
        "kind": "sql",
        "dsn": server.url(ADMINISTRATOR),
        "connectors": [{"connect": "lab"}],
    }
    with SourceLog(Source.model_validate(document)) as log:
        if database == "postgresql":
            with pytest.raises(RemoteRefusal, match="named without a schema"):
                log.topic_id("things(id)")
        table = "public.things" if database == "postgresql" else "things"
        partition = TopicPartition(f"{table}(id)", 0)
        first, second = (log.window(partition, 7, count_max=2) for _ in range(2))
    assert first == second
    (record,) = first.records
    assert (record.offset, first.next_offset) == (9007199254740993, 9007199254740994)
    columns = json.loads(record.value or b"")["columns"]
    assert [tuple(column.values()) for column in columns] == [
        (name, type_name, value) for name, _, _, type_name, value in things
    ]


# Rows as (id, changed_at, made_at), in the order in which a connector in Berlin reads them, and the
# time of each in UTC. A row without a time is never read.
CHANGES = [
    (9, "2026-01-02 03:04:05.678901", "2026-11-30 01:02:03", 1767319445678901000),
    (2, None, "2026-01-02 03:04:05.678902", 1767319445678902000),
    (5, "2026-01-02 03:04:05.678902", None, 1767319445678902000),
    (1, "2026-07-02 03:04:05", None, 1782954245000000000),
]


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
@pytest.mark.parametrize("has_zone", [False, True])
def test_rows_are_read_in_the_order_of_time_and_number(
    request: pytest.FixtureRequest, database: str, has_zone: bool
) -> None:
    server: DatabaseServer = request.getfixturevalue(database)
    types = {"postgresql": ("timestamp", "timestamptz"), "mariadb": ("datetime(6)", "timestamp(6)")}
    time_type = types[database][has_zone]
    table = f"changes_{has_zone}".lower()
    columns = f"id bigint, changed_at {time_type} null, made_at {time_type} null"
    server.query(f"create table {table} ({columns})")
    zone = "+01" if has_zone and database == "postgresql" else ""

    def quote(moment: str | None) -> str:
        summer = "+02" if zone and moment and "-07-" in moment else zone
        return "null" if moment is None else f"'{moment}{summer}'"

    rows = [(number, quote(changed), quote(made)) for number, changed, made, _ in CHANGES]
    young = [(7, "current_timestamp", "null"), (8, "null", "null")]
    for number, changed, made in reversed(rows + young):
        server.query(f"insert into {table} values ({number}, {changed}, {made})")
    document = {
        "name": "shop",
        "kind": "sql",
        "dsn": server.url(ADMINISTRATOR),
        "connectors": [{"connect": "lab"}],
    }
    order = RowOrder("id", ("changed_at", "made_at"), "Europe/Berlin", 86_400_000)
    topic = order.name_log(f"public.{table}" if database == "postgresql" else table)
    with SourceLog(Source.model_validate(document)) as log:
        if has_zone and database == "mariadb":
            with pytest.raises(RemoteRefusal, match="time zone of the connector's session"):
                log.topic_id(topic)
            return
        window = log.window(TopicPartition(topic, 0), 0, count_max=9)
        expected = [nanos * ID_SPAN + number for number, _, _, nanos in CHANGES]
        assert [record.offset for record in window.records] == expected
        assert (window.end, log.bounds(topic).end) == (expected[-1] + 1, expected[-1] + 1)
        for before, after in pairwise(expected):
            assert log.first(topic, before + 1) == after
        assert log.first(topic, expected[-1] + 1) is None
