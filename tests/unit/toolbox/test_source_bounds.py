"""Offsets of databases against what those have: refused below the floor and past the end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from offsetwatch.model.connectors import ConnectorKind, DatabaseSettings
from offsetwatch.model.source_ends import (
    BinlogFile,
    ColumnEnd,
    ColumnQuery,
    FileEnd,
    FileState,
    MysqlEnd,
    PostgresqlEnd,
    ReplicationSlot,
    SqlEnd,
)
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.offset_locations import DocumentLocation
from offsetwatch.toolbox.source_bounds import SourceFacts
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationFacts,
    collect_notes,
    find_problems,
)
from tests.unit.toolbox.worlds import file_source

POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
MYSQL = "io.debezium.connector.mysql.MySqlConnector"
MARIADB = "io.debezium.connector.mariadb.MariaDbConnector"
SQL_SERVER = "io.debezium.connector.sqlserver.SqlServerConnector"
ORACLE = "io.debezium.connector.oracle.OracleConnector"
MONGODB = "io.debezium.connector.mongodb.MongoDbConnector"
DB2 = "io.debezium.connector.db2.Db2Connector"
INFORMIX = "io.debezium.connector.informix.InformixConnector"
VITESS = "io.debezium.connector.vitess.VitessConnector"
JDBC = "io.aiven.connect.jdbc.JdbcSourceConnector"

SERVER = '{"server":"shop"}'
TABLE = '{"protocol":"1","table":"public.orders"}'
SETTINGS = DatabaseSettings(
    database="shop",
    slot="dbz",
    topic_prefix="shop",
    mode="incrementing",
    incrementing_column="id",
)
WAL = PostgresqlEnd(1000, {"dbz": ReplicationSlot("dbz", "shop", False, 500)})
BINLOG = MysqlEnd(
    mariadb=True,
    server_id=1,
    gtids="0-7-38",
    file="bin.000004",
    position=200,
    logs=(BinlogFile("bin.000003", 900), BinlogFile("bin.000004", 200)),
)
IDS = SqlEnd({ColumnQuery("public.orders", "id"): ColumnEnd(50)})


def facts(class_name: str, end: object = None, *, there: bool = True, **changed) -> ValidationFacts:
    partition = TABLE if class_name == JDBC else SERVER
    fields = {
        "connector": "shop",
        "kind": ConnectorKind.SOURCE,
        "class_name": class_name,
        "present": (PartitionOffset(partition, "{}"),) if there else (),
        "database": SETTINGS,
        "source": None if end is None else SourceFacts("db", end),
    }
    return ValidationFacts(**{**fields, **changed})


def ask(offset: str | None, partition: str = SERVER, *, allow_new: bool = False) -> OffsetsRequest:
    pairs = (PartitionOffset(partition, offset),)
    return OffsetsRequest("shop", pairs, DocumentLocation("shop"), allow_new=allow_new)


def problems(known: ValidationFacts, offset: str | None, partition: str = SERVER) -> list[str]:
    found = find_problems(ask(offset, partition), known)
    assert find_problems(ask(offset, partition, allow_new=True), known) == found  # no way around
    return [str(problem) for problem in found]


# --- floor and ceiling ---------------------------------------------------------------------------


def test_a_slot_does_not_go_back_behind_what_it_has_confirmed():
    (problem,) = problems(facts(POSTGRES, WAL), '{"lsn":450,"lsn_proc":420,"lsn_commit":420}')
    assert problem == (
        "shop[0].offset: 420 lies 80 bytes before 500, which its replication slot has confirmed: a "
        "slot does not go back, its task fails, and nothing comes again; from 500 to 1000; "
        "`offsets reset` lets it take a new snapshot"
    )
    assert problems(facts(POSTGRES, WAL), '{"lsn":520,"lsn_commit":500}') == []


def test_an_offset_that_stays_as_it_is_needs_no_room():
    """A driver may confirm more to the slot than is committed: keepalives of a quiet database."""
    offset = '{"lsn":450,"lsn_commit":420}'
    known = facts(POSTGRES, WAL, present=(PartitionOffset(SERVER, offset),))
    assert problems(known, offset) == []


def test_past_the_end_of_the_wal_rows_would_be_lost_in_silence():
    (problem,) = problems(facts(POSTGRES, WAL), '{"lsn":1900,"lsn_commit":1900}')
    assert problem == (
        "shop[0].offset: it lies past the end of its source by 900 bytes: what is written until "
        "then is left out; at most lsn 1000"
    )
    assert problems(facts(POSTGRES, WAL), '{"lsn":1000,"lsn_commit":1000}') == []


@pytest.mark.parametrize(
    ("offset", "wrong"),
    [
        pytest.param(
            '{"file":"bin.000002","pos":4}', "the server no longer has its binlog file", id="purged"
        ),
        pytest.param('{"file":"bin.000004","pos":900}', "past the end", id="past-the-end"),
        pytest.param('{"file":"bin.000009","pos":4}', "does not exist yet", id="a-file-to-come"),
        pytest.param(
            '{"file":"bin.000004","pos":4,"gtids":"0-7-99"}',
            "by 61 transactions: what is written until then is left out; at most 0-7-38",
            id="gtids-past-the-end",
        ),
        pytest.param(
            '{"file":"bin.000004","pos":4,"gtids":"5-7-9"}',
            "it has read transactions of domain 5, and this server has none (source db)",
            id="gtids-of-another-server",
        ),
        pytest.param('{"file":"bin.000003","pos":4,"gtids":"0-7-30"}', None, id="right"),
    ],
)
def test_a_binlog_has_a_beginning_and_an_end(offset, wrong):
    found = problems(facts(MARIADB, BINLOG), offset)
    assert ([wrong in problem for problem in found] or [None]) == [True if wrong else None]


def test_an_id_that_no_row_has_yet_is_past_the_end():
    (problem,) = problems(facts(JDBC, IDS), '{"incrementing":60}', TABLE)
    assert problem.endswith("at most incrementing 50")
    assert problems(facts(JDBC, IDS), '{"incrementing":50}', TABLE) == []


def test_a_file_that_can_be_seen_has_an_end():
    end = FileEnd({"/data/t.txt": FileState(100)})
    known = file_source(source=SourceFacts("files", end))
    request = ask('{"position":500}', '{"filename":"/data/t.txt"}')
    (problem,) = find_problems(request, known)
    assert problem.wrong.startswith("it lies past the end of its source by 400 bytes")
    assert problem.right == "at most position 100"
    inside = ask('{"position":100}', '{"filename":"/data/t.txt"}')
    assert find_problems(inside, known) == ()
    assert collect_notes(inside, known) == ()


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (facts(POSTGRES), "no entry under sources reads it"),
        (facts(POSTGRES, source=SourceFacts("db", unknown="db: no answer")), "db: no answer"),
        (facts(ORACLE, source=SourceFacts(unknown="x")), "x"),
        (facts("com.example.Exotic"), "no entry under sources reads it"),
        (
            facts(MARIADB, structs.replace(BINLOG, gtids=None)),
            "source db: the server does",
        ),
    ],
)
def test_bounds_that_are_not_known_are_said_to_be_so(known, why):
    offset = '{"lsn":450,"file":"bin.000004","pos":4,"gtids":"0-7-1","scn":"7"}'
    (note,) = collect_notes(ask(offset), known)
    assert "cannot be seen from here" in note
    assert why in note


def test_an_offset_of_a_snapshot_has_no_bounds():
    known = facts(POSTGRES, WAL)
    offset = '{"lsn":9000,"snapshot":true,"snapshot_completed":false}'
    assert problems(known, offset) == []
    (note,) = collect_notes(ask(offset), known)
    assert "it is of a snapshot" in note


# --- what a class needs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("class_name", "offset", "wrong"),
    [
        (POSTGRES, '{"lsnn":12}', "`lsn` is missing, without which its task fails"),
        (POSTGRES, '{"lsn":null}', "`lsn` is missing"),
        (POSTGRES, '{"lsn":"0/16B3748"}', '"0/16B3748" is not a whole number'),
        (MYSQL, '{"pos":4}', "`file` is missing"),
        (MYSQL, '{"file":"bin.000004"}', "`pos` is missing"),
        (SQL_SERVER, '{"change_lsn":"x"}', "`commit_lsn` is missing"),
        (ORACLE, '{"snapshot":"x"}', "`scn` is missing"),
        (MONGODB, '{"ord":3}', "`sec` is missing"),
        (DB2, '{"change_lsn":"x"}', "`commit_lsn` is missing"),
        (INFORMIX, '{"begin_lsn":"9"}', "`commit_lsn` is missing"),
        (VITESS, '{"transaction_id":"x"}', "`vgtid` is missing"),
        (JDBC, '{"timestamp":12}', "`incrementing` is missing"),
    ],
)
def test_a_field_without_which_a_task_fails_is_required_by_class(class_name, offset, wrong):
    partition = {JDBC: TABLE, MONGODB: '{"server_id":"shop"}'}.get(class_name, SERVER)
    known = facts(class_name, present=(PartitionOffset(partition, "{}"),))
    found = problems(known, offset, partition)
    assert any(wrong in problem for problem in found), found


def test_a_misspelt_field_is_named():
    (problem,) = problems(facts(POSTGRES), '{"lsnn":12}')
    assert problem.endswith("did you mean it by `lsnn`?")


@pytest.mark.parametrize(
    ("class_name", "offset"),
    [
        (POSTGRES, '{"lsn":12}'),
        (MYSQL, '{"file":"bin.000004","pos":4}'),
        (ORACLE, '{"scn":"123"}'),
        (ORACLE, '{"scn":123}'),
        (ORACLE, '{"lcr_position":"00aa"}'),
        (MONGODB, '{"resume_token":"82"}'),
    ],
)
def test_what_a_class_needs_is_enough(class_name, offset):
    partition = '{"server_id":"shop"}' if class_name == MONGODB else SERVER
    known = facts(class_name, present=(PartitionOffset(partition, "{}"),))
    assert problems(known, offset, partition) == []


def test_a_partition_of_debezium_is_named_after_its_topic_prefix():
    new = facts(POSTGRES, there=False)
    assert problems(new, '{"lsn":12}') == []  # and needs no --allow-new
    (problem,) = problems(new, '{"lsn":12}', '{"server":"shpo"}')
    assert problem == ('shop[0].partition.server: "shpo" is not its topic.prefix; "server": "shop"')
    unknown = replace(new, database=None)
    (found,) = find_problems(ask('{"lsn":12}'), unknown)
    assert "never there before" in found.wrong
    databases = facts(SQL_SERVER, there=False)
    several = ask('{"commit_lsn":"00000027:00000ac0:0002"}', '{"database":"d","server":"shop"}')
    assert "never there before" in str(find_problems(several, databases))
    tasks = facts(VITESS, there=False)
    assert "never there before" in str(find_problems(ask('{"vgtid":"[]"}'), tasks))


@pytest.mark.parametrize(
    ("known", "partition", "note"),
    [
        (facts(POSTGRES), SERVER, "every row of its tables comes again, as a duplicate"),
        (facts(JDBC), TABLE, "everything comes again"),
        (file_source(), '{"filename":"/data/t.txt"}', "everything comes again"),
        (facts("com.example.Exotic"), SERVER, None),
    ],
)
def test_a_reset_announces_what_comes_again(known, partition, note):
    notes = collect_notes(ask(None, partition), known)
    assert [note in text for text in notes] == ([True] if note else [])
