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
from tests.fakes import connect as fake
from tests.unit.clients.databases.test_mysql import MARIADB, FakeConnection
from tests.unit.toolbox.test_next_offset import MARIADB as EVENTS

DEBEZIUM = "io.debezium.connector.mariadb.MariaDbConnector"
POSTGRESQL = "io.debezium.connector.postgresql.PostgresConnector"
PARTITION = {"server": "shop"}
OFFSET = {"file": "binlog.000001", "pos": 1421, "gtids": "0-7-5", "server_id": 7, "event": 3}
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
        served.add("wal", config={"connector.class": POSTGRESQL})
        for name in ("shop", "wal"):
            served.commit(name, PARTITION, OFFSET)
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
        "connectors: [{connect: cc, include: [shop]}]}]\n"
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


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("wal",), "the next commit of a PostgreSQL connector is not computed"),
        (("shopp",), "no connector shopp (did you mean shop?)"),
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
