"""`offsets next`, from the command line to a worker in memory and the rows of a database."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.clients.databases import bounded_psycopg
from tests.fakes import connect as fake
from tests.unit.clients.databases.test_mysql import MARIADB, FakeConnection
from tests.unit.clients.databases.test_postgresql import FakeConnection as PostgresqlConnection
from tests.unit.toolbox.test_next_commit import DELIVERED, FIRST
from tests.unit.toolbox.test_next_offset import MARIADB as EVENTS

DEBEZIUM = "io.debezium.connector.mariadb.MariaDbConnector"
POSTGRESQL = "io.debezium.connector.postgresql.PostgresConnector"
FILE_STREAM = "org.apache.kafka.connect.file.FileStreamSourceConnector"
PARTITION = {"server": "shop"}
OFFSET = {"file": "binlog.000001", "pos": 1421, "gtids": "0-7-5", "server_id": 7, "event": 3}
WAL_OFFSET = {"lsn": 1010, "lsn_commit": 900, "txId": 751, "messageType": "INSERT"}
ROWS = [row for row in EVENTS if row[0] == "binlog.000001" and row[1] >= 1421]
ANSWERS = {
    "SHOW BINLOG EVENTS": ROWS,
    "BINLOG_GTID_POS": [("0-7-5",)],
    "SHOW MASTER STATUS": [("binlog.000001", 3961)],
    "SHOW BINARY LOGS": [("binlog.000001", 3961)],
}


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving() as served:
        served.add("shop", config={"connector.class": DEBEZIUM, "topic.prefix": "shop"})
        slot = {"slot.name": "cdc", "publication.name": "dbz"}
        served.add("wal", config={"connector.class": POSTGRESQL, **slot})
        served.add("lines", config={"connector.class": FILE_STREAM})
        served.add("other", config={"connector.class": DEBEZIUM})
        for name in ("shop", "lines", "other"):
            served.commit(name, PARTITION, OFFSET)
        served.commit("wal", PARTITION, WAL_OFFSET)
        yield served


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> FakeConnection:
    connection = FakeConnection(
        {**ANSWERS, **{k: v for k, v in MARIADB.items() if k not in ANSWERS}}
    )
    monkeypatch.setattr(pymysql, "connect", lambda **_: connection)
    return connection


def run(folder: Path, worker: fake.Connect, *arguments: str, status: int = 0) -> Result:
    config = folder / "config.yaml"
    config.write_text(
        'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
        f"connect: [{{name: cc, kafka: k, url: '{worker.url}'}}]\n"
        "sources: [{name: db, kind: mysql, host: h, user: u, password: p, "
        "connectors: [{connect: cc, include: [shop]}]}, "
        "{name: wal, kind: postgresql, host: h, user: u, password: p, "
        "connectors: [{connect: cc, include: [wal]}]}, "
        "{name: files, kind: file, connectors: [{connect: cc, include: [lines]}]}]\n"
        f"state_dir: {folder / 'state'}\n"
    )
    where = ("--connect", "cc", "--config", str(config))
    result = CliRunner().invoke(cli, ["offsets", "next", *arguments, *where])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result


def test_the_command_that_sets_it_has_all_names_filled_in(
    tmp_path: Path, worker: fake.Connect, database: FakeConnection
) -> None:
    document = json.loads(run(tmp_path, worker, "shop", "--json").stdout)
    then = {"file": "binlog.000001", "pos": 1768, "gtids": "0-7-6", "server_id": 7}
    assert (document["now"], document["next"], document["source"]) == (OFFSET, then, "db")
    (passed,) = document["passes_over"]
    assert (passed["tables"], passed["bytes"], document["bytes"]) == (["shop.orders"], 347, 347)
    program, *verb, name = shlex.split(document["command"])[:4]
    assert (program, verb, name) == ("offsetwatch", ["offsets", "alter"], "shop")
    words = shlex.split(document["command"])
    options = dict(zip(words[4::2], words[5::2], strict=True))
    assert json.loads(options["--partition"]) == PARTITION
    assert json.loads(options["--offset"]) == then
    assert options["--connect"] == "cc"
    assert worker.changes() == []
    assert {sent.split()[0] for sent in database.statements} <= {"SELECT", "SHOW", "SET"}


def test_what_it_passes_over_is_shown(
    tmp_path: Path, worker: fake.Connect, database: FakeConnection
) -> None:
    del database
    done = run(tmp_path, worker, "shop")
    assert '  next       {"file":"binlog.000001","gtids":"0-7-6","pos":1768' in done.stdout
    assert "shop.orders" in done.stdout
    assert "  offsetwatch offsets alter shop --connect cc" in done.stdout
    assert "shop: the task may have failed at a later transaction" in done.stderr


@pytest.fixture
def slot(monkeypatch: pytest.MonkeyPatch) -> PostgresqlConnection:
    row = ("cdc", "shop", False, 900, 800, None, "reserved", None)
    answers = {
        "SELECT plugin": [("pgoutput",)],
        "peek_binary_changes": [*DELIVERED, *FIRST],
        "pg_replication_slots": [row],
    }
    connection = PostgresqlConnection(**answers)
    monkeypatch.setattr(bounded_psycopg, "connect", lambda *_: connection)
    return connection


def test_the_next_commit_of_a_slot_is_shown_with_the_command(
    tmp_path: Path, worker: fake.Connect, slot: PostgresqlConnection
) -> None:
    document = json.loads(run(tmp_path, worker, "wal", "--json").stdout)
    then = {"lsn": 1299, "lsn_commit": 1299, "txId": 752, "messageType": "COMMIT"}
    assert (document["now"], document["next"], document["source"]) == (WAL_OFFSET, then, "wal")
    assert document["passes_over"] == [
        {
            "xid": 752,
            "start": 1100,
            "end": 1300,
            "committed_at": "2000-01-01T00:00:00.000005Z",
            "changes": {"INSERT": 1},
            "delivered": 0,
            "tables": ["public.orders"],
        }
    ]
    assert slot.values == ("cdc", 10_001, '"dbz"', 10_001)
    done = run(tmp_path, worker, "wal")
    assert "0/44C  0/514  1 change: 1 INSERT  0          public.orders" in done.stdout
    assert "  offsetwatch offsets alter wal --connect cc" in done.stdout
    assert "wal: the position is one byte before the end of the commit" in done.stderr
    assert worker.changes() == []
    assert {sent.split()[0] for sent in slot.statements} <= {"SELECT", "SET"}


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (
            ("lines",),
            "the next offset is computed only of Debezium's MySQL, MariaDB and PostgreSQL",
        ),
        (("other",), "no entry under sources reads it"),
        (("shop", "--partition", "{"), "it has no such offset; its source partitions: "),
        (("shop", "--events-max", "4"), "it was not found within 4 events"),
    ],
)
def test_there_is_a_reason_if_there_is_no_answer(
    tmp_path: Path,
    worker: fake.Connect,
    database: FakeConnection,
    arguments: tuple[str, ...],
    answer: str,
) -> None:
    del database
    done = run(tmp_path, worker, *arguments, status=3)
    assert done.stdout == ""
    assert answer in done.stderr
