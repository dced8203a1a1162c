"""What doctor says of sources: what could not be read, which GRANT is missing, and connectors."""

from __future__ import annotations

from typing import Any

import pytest

from offsetwatch.cli.inspect import doctor
from offsetwatch.cli.inspect.diagnosis import DoctorCheck
from offsetwatch.cli.inspect.doctor import Doctor
from offsetwatch.cli.inspect.source_diagnosis import check_source_connectors, check_source_end
from offsetwatch.config import parse
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import AccessDenied, ClientError
from offsetwatch.model.connectors import Connector, DatabaseSettings
from offsetwatch.model.source_ends import (
    BinlogFile,
    BinlogReader,
    ColumnEnd,
    ColumnQuery,
    FileEnd,
    FileState,
    MysqlEnd,
    PostgresqlEnd,
    ReplicationSlot,
    SourceEnd,
    SqlEnd,
)
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, SourceEndView
from tests.unit.state.worlds import source as worlds_source

POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
FILE_STREAM = worlds_source("lines").class_name
SLOT = ReplicationSlot("cdc", "shop", active=True, sent=5)


def settings(kind: str = "postgresql", **changes: Any) -> Source:
    fields = {"name": "shop", "kind": kind, "connectors": [{"connect": "lab"}]}
    return Source.model_validate({**fields, **changes})


def postgresql(*slots: ReplicationSlot, **changes: Any) -> PostgresqlEnd:
    fields = {"wal_end": 0x1_0000_0010, "system_id": "7", "timeline": 1, "database": "shop"}
    return PostgresqlEnd(slots={slot.name: slot for slot in slots}, **{**fields, **changes})


def connector(name: str = "shop-a", class_name: str = POSTGRES, **database: Any) -> Connector:
    fields = {"slot": "cdc", "database": "shop", **database}
    return worlds_source(name, class_name=class_name, database=DatabaseSettings(**fields))


def texts(lines: Any) -> list[tuple[str, str, str]]:
    return [(line.check, line.verdict, line.found) for line in lines]


def grants(end: SourceEnd, kind: str) -> list[str]:
    lines = check_source_end(settings(kind), "watcher", end)
    return [str(line.advice).partition(":")[0] for line in lines if line.verdict == "warn"]


@pytest.mark.parametrize(
    ("end", "kind", "missing"),
    [
        (postgresql(SLOT), "postgresql", []),
        (
            postgresql(ReplicationSlot("cdc", "shop", active=True)),
            "postgresql",
            ["GRANT pg_monitor TO watcher"],
        ),
        (
            postgresql(SLOT, system_id=None),
            "postgresql",
            ["GRANT EXECUTE ON FUNCTION pg_control_system() TO watcher"],
        ),
        (
            MysqlEnd(mariadb=True, server_id=7, gtids="0-7-1"),
            "mysql",
            [
                "GRANT BINLOG MONITOR ON *.* TO 'watcher'@'HOST'",
                "GRANT PROCESS ON *.* TO 'watcher'@'HOST'",
            ],
        ),
        (
            MysqlEnd(mariadb=False, server_id=7, gtids="x:1", readers=()),
            "mysql",
            ["GRANT REPLICATION CLIENT ON *.* TO 'watcher'@'HOST'"],
        ),
    ],
)
def test_a_missing_right_is_named_with_its_grant(
    end: SourceEnd, kind: str, missing: list[str]
) -> None:
    assert grants(end, kind) == missing


def test_what_was_read_is_said() -> None:
    whole = MysqlEnd(
        mariadb=True,
        server_id=7,
        gtids="0-7-1",
        logs=(BinlogFile("bin.1", 4),),
        readers=(BinlogReader("cdc", "h", True),),
    )
    assert texts(check_source_end(settings(), "w", postgresql())) == [
        ("end", "ok", "WAL at 1/10, 0 logical replication slots"),
        ("rights", "unknown", "no slot is active, which would show pg_monitor"),
    ]
    assert texts(check_source_end(settings("mysql"), "w", whole)) == [
        ("end", "ok", "MariaDB, server_id 7, GTIDs 0-7-1"),
        ("rights", "ok", "1 binlog file, 1 reader"),
    ]
    no_binlog = MysqlEnd(mariadb=False, server_id=7, gtids="", logs=(), readers=())
    assert texts(check_source_end(settings("mysql"), "w", no_binlog))[0] == (
        "end",
        "fail",
        "MySQL, server_id 7: no end of its binlog is visible",
    )


def test_each_table_and_file_that_cannot_be_read_has_a_line() -> None:
    columns = {
        ColumnQuery("orders", "id"): ColumnEnd(5),
        ColumnQuery("gone", "id"): ColumnEnd(None, error="permission denied"),
    }
    lines = list(check_source_end(settings("sql"), "watcher", SqlEnd(columns)))
    assert texts(lines) == [
        ("end", "ok", "table orders"),
        ("table", "fail", "gone: permission denied"),
    ]
    assert lines[1].advice == (
        "GRANT SELECT ON gone to watcher, or give its statement under columns"
    )
    files = FileEnd({"pipe": FileState(None, "it is not a file")})
    assert texts(check_source_end(settings("file"), None, files)) == [
        ("file", "fail", "pipe: it is not a file")
    ]
    assert texts(check_source_end(settings("file"), None, FileEnd({}))) == [
        ("end", "unknown", "it answers, and no connector reads a file of it yet")
    ]


@pytest.mark.parametrize(
    ("connectors", "include", "lines"),
    [
        ((connector(),), [], [("connectors", "ok", "shop-a of lab")]),
        (
            (connector(),),
            ["other-.*"],
            [("connectors", "warn", "none of lab is matched")],
        ),
        (
            (worlds_source("lines"),),
            [],
            [("connectors", "warn", "none of lab is of its kind")],
        ),
        (
            (connector(), worlds_source("shop-file")),
            ["shop-.*"],
            [
                ("connectors", "ok", "shop-a of lab"),
                (
                    "connectors",
                    "warn",
                    f"shop-file of lab is of class {FILE_STREAM}",
                ),
            ],
        ),
        (
            (connector(slot="gone"),),
            [],
            [
                ("connectors", "ok", "shop-a of lab"),
                ("connectors", "warn", "shop-a: this server has no replication slot gone"),
            ],
        ),
        (
            (connector(database="books"),),
            [],
            [
                ("connectors", "ok", "shop-a of lab"),
                (
                    "connectors",
                    "fail",
                    "shop-a: its slot cdc is of database shop, and it reads books",
                ),
            ],
        ),
    ],
)
def test_connectors_are_matched_by_name_class_and_slot(
    connectors: tuple[Connector, ...], include: list[str], lines: list[tuple[str, str, str]]
) -> None:
    source = settings(connectors=[{"connect": "lab", "include": include}])
    checks = check_source_connectors(source, {"lab": connectors}, postgresql(SLOT), ())
    assert texts(checks) == lines


def test_what_the_comparison_says_is_said_once() -> None:
    view = SourceEndView(
        *("lab", "shop-a", "{}", "server=x", "shop", "postgresql", 1.0),
        mismatch="its offset has no lsn",
    )
    lines = check_source_connectors(
        settings(), {"lab": (connector(slot="gone"),)}, postgresql(), (view,)
    )
    assert texts(lines) == [
        ("connectors", "fail", "shop-a of lab: its offset has no lsn"),
        ("connectors", "ok", "shop-a of lab"),
    ]


def test_a_cluster_that_does_not_answer_has_a_line_of_its_own() -> None:
    assert texts(check_source_connectors(settings(), {}, None, ())) == []


def run(monkeypatch: pytest.MonkeyPatch, answer: SourceEnd | ClientError) -> list[DoctorCheck]:
    class Reader:
        def read(self, _request: object) -> SourceEnd:
            if isinstance(answer, ClientError):
                raise answer
            return answer

        def close(self) -> None:
            pass

    monkeypatch.setattr(doctor, "build_source_reader", lambda _: Reader())
    document = {
        "kafka": {"east": {"bootstrap": "127.0.0.1:1"}},
        "connect": [{"name": "lab", "kafka": "east", "url": "http://127.0.0.1:1"}],
        "sources": [
            {
                "name": "shop",
                "kind": "postgresql",
                "dsn": "postgresql://watcher:s3cret@db/shop",
                "connectors": [{"connect": "lab"}],
            }
        ],
    }
    subject = Doctor(parse(document, {}), 5.0)
    return list(subject._all(subject._list_source_checks(EMPTY_SNAPSHOT)))


def test_doctor_reads_each_source_with_its_own_user(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run(monkeypatch, postgresql(ReplicationSlot("cdc", "shop", active=True)))
    assert [line.about for line in lines] == ["source shop"] * 2
    assert str(lines[1].advice).startswith("GRANT pg_monitor TO watcher:")


def test_a_source_that_refuses_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = run(monkeypatch, AccessDenied("shop", "password authentication failed"))
    assert (line.about, line.verdict) == ("source shop", "fail")
    assert line.found == "denied: password authentication failed"
