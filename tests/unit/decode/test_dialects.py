from __future__ import annotations

import json

import pytest

from offsetwatch.decode.dialects import (
    DIALECTS,
    build_order_key,
    compare_offsets,
    describe_offset,
    detect_shape,
    is_poisoned,
    parse_mirror_partition,
    read_event_time,
    read_position,
    refine_dialect,
    resolve_dialect,
    select_positions,
)
from offsetwatch.decode.offset_order import is_snapshot
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.model.offsets import MirrorPartition, Order, SourceOffset


def offset(**fields) -> SourceOffset:
    return decode_value(json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ({"cluster": "a", "topic": "t", "partition": 0}, "mirror_source"),
        ({"cluster": "a", "topic": "t", "partition": 0, "x": 1}, "generic"),
        ({"group": "g", "topic": "t", "partition": 0}, "mirror_checkpoint"),
        ({"group": "g", "topic": "t", "partition": 0.0}, "generic"),
        ({"group": None, "topic": "t", "partition": 0}, "generic"),
        ({"group": "g", "topic": None, "partition": 0}, "generic"),
        ({"sourceClusterAlias": "a", "targetClusterAlias": "b"}, "mirror_heartbeat"),
        ({"sourceClusterAlias": "a", "targetClusterAlias": 1}, "generic"),
        ({"filename": "/x"}, "file_stream"),
        ({"filename": None}, "generic"),
        ({"filename": "/x", "more": 1}, "generic"),
        ({"protocol": "1", "table": "db.public.t"}, "jdbc"),
        ({"protocol": "2", "table": "db.public.t"}, "generic"),
        ({"protocol": 1, "table": "db.public.t"}, "generic"),
        ({"protocol": "1", "table": None}, "generic"),
        ({"table": "t"}, "jdbc"),
        ({"query": "query"}, "jdbc"),
        ({"query": "select 1"}, "generic"),
        ({"server": "db"}, "debezium"),
        ({"server": "db", "database": "d"}, "debezium"),
        ({"server": "db", "task_key": "task0_1_0"}, "debezium"),
        ({"server": 7}, "generic"),
        ({"server_id": "db"}, "debezium_mongodb"),
        ({"server_id": "db", "rs": "rs0"}, "debezium_mongodb"),
        ({"anything": "else"}, "generic"),
        ({}, "generic"),
        (None, "generic"),
    ],
    ids=str,
)
def test_a_dialect_is_recognised_by_the_shape_of_its_source_partition(partition, expected):
    assert detect_shape(partition).name == expected


MYSQL = {"ts_sec": 1_700_000_000, "file": "mysql-bin.000003", "pos": 154, "server_id": 2}
POSTGRES = {"lsn": 300, "lsn_proc": 300, "lsn_commit": 200, "txId": 5, "ts_usec": 1}
SQL_SERVER = {
    "commit_lsn": "00000027:00000ac0:0002",
    "change_lsn": "00000027:00000ac0:0001",
    "event_serial_no": 1,
}
ORACLE = {"scn": "2825417", "commit_scn": "2825500:1:aa"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (MYSQL, "debezium_mysql"),
        ({"file": "", "pos": 0}, "debezium_mysql"),
        (POSTGRES, "debezium_postgres"),
        (SQL_SERVER, "debezium_sqlserver"),
        ({**SQL_SERVER, "commit_lsn": "00000027:00000ac0:00000002"}, "debezium"),
        ({"commit_lsn": "00000027:00000ac0:0002"}, "debezium"),
        ({"commit_lsn": "00000000:0000150f:0000000000048fca"}, "debezium_db2"),
        (ORACLE, "debezium_oracle"),
        ({"scn": 2825417}, "debezium_oracle"),
        ({"scn": "9" * 38}, "debezium_oracle"),
        ({"scn": "9" * 39}, "debezium"),
        ({"scn": "٣"}, "debezium"),
        ({"scn": "28e5"}, "debezium"),
        ({"scn": True}, "debezium"),
        ({"scn": 28.5}, "debezium"),
        ({"file": "mysql-bin.000003"}, "debezium"),
        ({"file": None, "pos": 154}, "debezium"),
        ({"lsn": 2**63 - 1}, "debezium_postgres"),
        ({"lsn": -(2**63)}, "debezium_postgres"),
        ({"lsn": 2**63}, "debezium"),
        ({"lsn": -(2**63) - 1}, "debezium"),
        ({"scn": "null"}, "debezium"),
        ({"lsn": "0/16B3748"}, "debezium"),
        ({"anything": 1}, "debezium"),
        ({}, "debezium"),
    ],
    ids=str,
)
def test_what_shares_a_partition_is_distinguished_by_its_offset(fields, expected):
    assert refine_dialect("debezium", offset(**fields)).name == expected


def test_an_offset_changes_no_dialect_that_its_partition_settled():
    assert refine_dialect("file_stream", offset(**MYSQL)).name == "file_stream"
    assert refine_dialect("debezium", None).name == "debezium"
    assert refine_dialect("debezium", decode_value(b"null")).name == "debezium"


def test_a_mirror_partition_needs_a_real_integer():
    good = {"cluster": "a", "topic": "t", "partition": 2**31 - 1}
    assert parse_mirror_partition(good) == MirrorPartition("a", "t", 2**31 - 1)
    for bad in (True, 1.0, "1", None, -1, 2**31):
        assert parse_mirror_partition({**good, "partition": bad}) is None
    assert parse_mirror_partition({**good, "topic": 1}) is None
    assert parse_mirror_partition({**good, "cluster": None}) is None


@pytest.mark.parametrize("topic", ["", ".", "a\0b", "a/b", "é", "t" * 250])
def test_a_name_that_no_topic_can_have_is_no_mirror_partition(topic):
    # librdkafka refuses a request for many partitions if the name of one has a NUL.
    assert parse_mirror_partition({"cluster": "a", "topic": topic, "partition": 0}) is None


@pytest.mark.parametrize(
    ("dialect", "value", "expected"),
    [
        pytest.param("mirror_source", b'{"offset":5}', 5, id="mm2"),
        pytest.param("mirror_source", b'{"offset":5.0}', None, id="a-double-is-no-position"),
        pytest.param("mirror_source", b'{"offset":true}', None, id="nor-is-a-bool"),
        pytest.param("jdbc", b'{"incrementing":true}', None, id="nor-is-a-bool-of-jdbc"),
        pytest.param("mirror_source", b'{"position":5}', None, id="nor-another-field"),
        pytest.param("mirror_source", b'{"offset":0}', 0, id="the-first-record-is-one"),
        pytest.param("mirror_source", b'{"offset":-1}', None, id="a-mirror-starts-over-below-it"),
        pytest.param("mirror_source", b'{"offset":9223372036854775808}', None, id="nor-a-wrap"),
        pytest.param("mirror_source", b"null", None, id="nor-null"),
        pytest.param("mirror_source", None, None, id="nor-a-tombstone"),
        pytest.param("mirror_checkpoint", b'{"offset":0}', None, id="nor-the-constant-0"),
        pytest.param("mirror_heartbeat", b'{"offset":0}', None, id="nor-a-heartbeats-0"),
        pytest.param("file_stream", b'{"position":7}', 7, id="file"),
        pytest.param("jdbc", b'{"incrementing":7}', 7, id="jdbc-by-id"),
        pytest.param("jdbc", b'{"incrementing":7,"timestamp":1}', None, id="an-id-beside-a-time"),
        pytest.param("generic", b'{"lsn":9,"offset":3}', None, id="no-order-is-vouched-for"),
    ],
)
def test_a_position_is_an_integer_whose_order_the_connector_guarantees(dialect, value, expected):
    assert read_position(dialect, decode_value(value)) == expected


ONE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TWO = "4f11fa47-71ca-11e1-9e33-c80aa9429562"

SHARDS = (
    '[{"keyspace":"k","shard":"-80","gtid":"MySQL56/%s","table_p_ks":[]},'
    '{"keyspace":"k","shard":"80-","gtid":"%s","table_p_ks":%s}]'
)
DB2 = {
    "commit_lsn": "00000000:0000150f:0000000000048fca",
    "change_lsn": "00000000:0000150f:0000000000048fb0",
    "event_serial_no": 1,
}


def vgtid(one: str, two: str, keys: str = "[]") -> dict:
    return {"vgtid": SHARDS % (one, two, keys)}


COMMITTED = {**POSTGRES, "lsn": 200, "lsn_proc": 200, "messageType": "COMMIT"}

AHEAD = [
    pytest.param("mirror_source", {"offset": 5}, {"offset": 6}, id="mm2"),
    pytest.param("file_stream", {"position": 5}, {"position": 60}, id="file"),
    pytest.param("jdbc", {"incrementing": 9}, {"incrementing": 10}, id="jdbc-id"),
    pytest.param(
        "jdbc",
        {"timestamp": 1000, "timestamp_nanos": 5, "incrementing": 9},
        {"timestamp": 2000, "timestamp_nanos": 0, "incrementing": 1},
        id="jdbc-time-before-id",
    ),
    pytest.param(
        "jdbc",
        {"timestamp": 1000, "timestamp_nanos": 5},
        {"timestamp": 1000, "timestamp_nanos": 6},
        id="jdbc-nanos",
    ),
    pytest.param("debezium", MYSQL, {**MYSQL, "pos": 155}, id="mysql-position"),
    pytest.param("debezium", MYSQL, {**MYSQL, "pos": 154, "event": 2}, id="mysql-event"),
    pytest.param(
        "debezium", {**MYSQL, "event": 2}, {**MYSQL, "event": 2, "row": 1}, id="mysql-row"
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "file": "mysql-bin.999999"},
        {**MYSQL, "file": "mysql-bin.1000000", "pos": 4},
        id="mysql-file-by-number-and-not-by-text",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "gtids": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9", "pos": 900},
        {**MYSQL, "gtids": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-10", "pos": 4},
        id="mysql-one-run-of-gtids",
    ),
    pytest.param(
        "debezium", POSTGRES, {**POSTGRES, "lsn": 100, "lsn_commit": 250}, id="postgres-commit"
    ),
    pytest.param(
        "debezium",
        SQL_SERVER,
        {**SQL_SERVER, "commit_lsn": "00000027:00000ac0:000A"},
        id="sqlserver-hexadecimal",
    ),
    pytest.param(
        "debezium",
        SQL_SERVER,
        {**SQL_SERVER, "change_lsn": "00000027:00000ac0:0002"},
        id="sqlserver-in-one-transaction",
    ),
    pytest.param(
        "debezium",
        {**SQL_SERVER, "change_lsn": "NULL"},
        {**SQL_SERVER, "change_lsn": "NULL", "commit_lsn": "00000028:00000ac0:0002"},
        id="sqlserver-before-its-first-change",
    ),
    pytest.param(
        "debezium",
        {"commit_lsn": "00000027:00000ac0:0002", "event_serial_no": 1},
        {"commit_lsn": "00000027:00000ac1:0002", "event_serial_no": 1},
        id="sqlserver-with-no-change-at-all",
    ),
    pytest.param(
        "debezium",
        {**SQL_SERVER, "commit_lsn": "00000027:000000ff:0002"},
        {**SQL_SERVER, "commit_lsn": "00000027:00000100:0002"},
        id="sqlserver-digits-of-sixteen",
    ),
    pytest.param(
        "debezium",
        {**SQL_SERVER, "commit_lsn": "00000027:00000ABC:0002"},
        {**SQL_SERVER, "commit_lsn": "00000027:00000abd:0002"},
        id="sqlserver-in-either-case",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "gtids": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"},
        {**MYSQL, "gtids": "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-10"},
        id="mysql-gtids-in-either-case",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "gtids": f"{ONE}:1-9:11,{TWO}:1-3"},
        {**MYSQL, "gtids": f"{TWO}:1-3,\n{ONE}:1-12"},
        id="mysql-a-set-that-includes-the-other",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "gtids": "0-1-100,1-8-20"},
        {**MYSQL, "gtids": "1-8-20,0-2-101"},
        id="mariadb-gtids-within-their-domains",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "gtids": f"{ONE}:1-9:tag:1-3"},
        {**MYSQL, "gtids": f"{ONE}:TAG:1-4,{ONE}:1-9"},
        id="mysql-tagged-gtids",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "gtids": f"{ONE}:1-9"},
        {**MYSQL, "gtids": f"{ONE}:1-9:10-12"},
        id="mysql-runs-that-touch",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "gtids": "0-1-100", "event": 2, "row": 1},
        {**MYSQL, "gtids": "0-1-100", "event": 3},
        id="mariadb-within-the-transaction-that-follows",
    ),
    pytest.param(
        "debezium",
        COMMITTED,
        {**COMMITTED, "lsn": 150, "messageType": "INSERT"},
        id="postgres-a-transaction-that-began-before-the-last-commit",
    ),
    pytest.param(
        "debezium",
        {**COMMITTED, "lsn": 150, "messageType": "INSERT"},
        {**COMMITTED, "lsn": 260, "messageType": "UPDATE"},
        id="postgres-within-the-transaction-that-follows",
    ),
    pytest.param(
        "debezium",
        {**COMMITTED, "lsn": 260, "messageType": "INSERT", "lsn_events_processed": 1},
        {**COMMITTED, "lsn": 260, "messageType": "INSERT", "lsn_events_processed": 2},
        id="postgres-changes-that-share-an-lsn",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "gtids": ""},
        {**MYSQL, "gtids": "", "pos": 155},
        id="mysql-a-blank-set-is-none",
    ),
    pytest.param(
        "debezium",
        SQL_SERVER,
        {**SQL_SERVER, "event_serial_no": 2},
        id="sqlserver-events-of-one-change",
    ),
    pytest.param(
        "debezium",
        SQL_SERVER,
        {"commit_lsn": "00000028:00000ac0:0002", "change_lsn": "NULL", "event_serial_no": 0},
        id="sqlserver-a-heartbeat-at-the-end-of-the-log",
    ),
    pytest.param(
        "debezium",
        {**SQL_SERVER, "change_lsn": None, "event_serial_no": 0},
        {**SQL_SERVER, "commit_lsn": "00000028:00000ac0:0002"},
        id="sqlserver-the-first-change-after-a-heartbeat",
    ),
    pytest.param(
        "debezium_db2",
        DB2,
        {**DB2, "commit_lsn": "00000000:0000150f:0000000000048fcb"},
        id="db2-commit",
    ),
    pytest.param(
        "debezium_db2",
        DB2,
        {**DB2, "change_lsn": "00000000:0000150f:0000000000048fc0"},
        id="db2-in-one-transaction",
    ),
    pytest.param(
        "debezium_informix",
        {"commit_lsn": "999", "change_lsn": "998", "begin_lsn": "9"},
        {"commit_lsn": "1000", "change_lsn": "10", "begin_lsn": "8"},
        id="informix-by-number",
    ),
    pytest.param(
        "debezium_vitess",
        vgtid(f"{ONE}:1-9", f"MySQL56/{TWO}:1-3"),
        vgtid(f"{ONE}:1-10", f"MySQL56/{TWO}:1-3"),
        id="vitess-one-shard-of-two",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "gtids": "0-1-100,0-2-90"},
        {**MYSQL, "gtids": "0-2-101,0-1-100"},
        id="mariadb-two-servers-of-one-domain",
    ),
    pytest.param(
        "debezium",
        COMMITTED,
        {
            **COMMITTED,
            "lsn_commit": 250,
            "snapshot": "INCREMENTAL",
            "last_snapshot_record": False,
            "snapshot_completed": False,
        },
        id="postgres-an-incremental-snapshot-beside-the-changes",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "snapshot": "INCREMENTAL"},
        {**MYSQL, "pos": 155},
        id="mysql-an-incremental-snapshot-beside-the-changes",
    ),
    pytest.param(
        "debezium",
        {**MYSQL, "snapshot": False},
        {**MYSQL, "pos": 155},
        id="mysql-no-snapshot-in-two-spellings",
    ),
    pytest.param("debezium", {"scn": "999"}, {"scn": "1000"}, id="oracle-by-number"),
    pytest.param(
        "debezium",
        {"scn": "1000", "commit_scn": "1999:1:0a-0b"},
        {"scn": "1000", "commit_scn": "2000:1:0c"},
        id="oracle-commits-while-a-transaction-lasts",
    ),
    pytest.param(
        "debezium",
        {"scn": "1000", "commit_scn": 999},
        {"scn": "1000", "commit_scn": "1000:00003C4B.000022C8.0010:0:1"},
        id="oracle-commits-of-older-versions",
    ),
    pytest.param(
        "debezium_mongodb", {"sec": 5, "ord": 9}, {"sec": 6, "ord": 1}, id="mongodb-seconds"
    ),
    pytest.param(
        "debezium_mongodb", {"sec": 5, "ord": 9}, {"sec": 5, "ord": 10}, id="mongodb-counter"
    ),
]


@pytest.mark.parametrize(("dialect", "before", "after"), AHEAD)
def test_an_order_that_the_connector_keeps_is_vouched_for_both_ways(dialect, before, after):
    assert compare_offsets(dialect, offset(**before), offset(**after)) is Order.AHEAD
    assert compare_offsets(dialect, offset(**after), offset(**before)) is Order.BEHIND
    assert compare_offsets(dialect, offset(**before), offset(**before)) is Order.SAME
    assert build_order_key(dialect, offset(**before)) is not None


@pytest.mark.parametrize(
    ("dialect", "before", "after"),
    [
        pytest.param("generic", {"offset": 5}, {"offset": 6}, id="unknown-connector"),
        pytest.param("mirror_source", {"offset": 5}, {"offset": 6.0}, id="not-a-long"),
        pytest.param("mirror_source", {"offset": 5}, {"offset": 5, "x": 1}, id="same-place"),
        pytest.param("mirror_source", {"offset": 5}, {"offset": 2**63}, id="connect-wraps-it"),
        pytest.param("mirror_checkpoint", {"offset": 0}, {"offset": 1}, id="constant"),
        pytest.param("jdbc", {"timestamp": 1}, {"incrementing": 2}, id="jdbc-other-mode"),
        pytest.param(
            "jdbc", {"timestamp": 1}, {"timestamp": 2, "timestamp_nanos": 0}, id="jdbc-version"
        ),
        pytest.param("jdbc", {"incrementing": 1}, {"incrementing": 2, "x": 1}, id="not-jdbc"),
        pytest.param("jdbc", {"incrementing": 1}, {"incrementing": "2"}, id="jdbc-text"),
        pytest.param("jdbc", {"timestamp": None}, {"incrementing": None}, id="jdbc-nothing-yet"),
        pytest.param("jdbc", {}, {"incrementing": None}, id="jdbc-nothing-at-all"),
        pytest.param(
            "jdbc",
            {"timestamp": 1, "incrementing": "1"},
            {"timestamp": 2, "incrementing": "1"},
            id="jdbc-half-a-place",
        ),
        pytest.param(
            "debezium", MYSQL, {**MYSQL, "file": "binlog.000004"}, id="mysql-other-base-name"
        ),
        pytest.param("debezium", MYSQL, {**MYSQL, "file": "4"}, id="mysql-no-base-name"),
        pytest.param(
            "debezium", MYSQL, {**MYSQL, "pos": 155, "server_id": 3}, id="mysql-other-server"
        ),
        pytest.param(
            "debezium", MYSQL, {**MYSQL, "pos": 155, "snapshot": True}, id="mysql-snapshot"
        ),
        pytest.param("debezium", MYSQL, {**MYSQL, "ts_sec": 1_700_000_001}, id="mysql-idle"),
        pytest.param("debezium", MYSQL, {**MYSQL, "pos": "155"}, id="mysql-text"),
        pytest.param(
            "debezium",
            {**MYSQL, "event": "1"},
            {**MYSQL, "event": "1", "pos": 155},
            id="mysql-events-are-no-number",
        ),
        pytest.param(
            "debezium",
            {**MYSQL, "gtids": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"},
            {**MYSQL, "gtids": "3e11fa47-71ca-11e1-9e33-c80aa9429562:2-10"},
            id="mysql-a-run-of-gtids-that-begins-elsewhere",
        ),
        pytest.param(
            "debezium",
            {**POSTGRES, "snapshot": "INITIAL", "snapshot_completed": True},
            {**POSTGRES, "lsn_commit": 250},
            id="postgres-snapshot-ended",
        ),
        pytest.param(
            "debezium",
            {**MYSQL, "gtids": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"},
            {**MYSQL, "gtids": "4f11fa47-71ca-11e1-9e33-c80aa9429562:1-10", "pos": 999},
            id="mysql-other-source-of-gtids",
        ),
        pytest.param(
            "debezium",
            {**MYSQL, "gtids": "0-1-100"},
            {**MYSQL, "gtids": "1-1-101", "pos": 155},
            id="mariadb-another-domain",
        ),
        pytest.param(
            "debezium",
            {**MYSQL, "gtids": "0-1-100,1-1-7"},
            {**MYSQL, "gtids": "0-1-101,1-1-6"},
            id="mariadb-one-domain-ahead-and-one-behind",
        ),
        pytest.param(
            "debezium",
            {**MYSQL, "gtids": f"{ONE}:1-9,{TWO}:1-3"},
            {**MYSQL, "gtids": f"{ONE}:1-8,{TWO}:1-4"},
            id="mysql-neither-set-includes-the-other",
        ),
        pytest.param(
            "debezium",
            {**MYSQL, "gtids": f"{ONE}:1-9"},
            {**MYSQL, "gtids": "0-1-100"},
            id="mysql-became-mariadb",
        ),
        pytest.param(
            "debezium",
            {**MYSQL, "gtids": f"{ONE}:tag:1-9"},
            {**MYSQL, "gtids": f"{ONE}:other:1-10"},
            id="mysql-another-tag",
        ),
        pytest.param(
            "debezium",
            {**MYSQL, "gtids": f"{ONE}:1-9:tag"},
            {**MYSQL, "gtids": f"{ONE}:1-10:tag"},
            id="mysql-a-tag-without-transactions",
        ),
        pytest.param(
            "debezium",
            {**COMMITTED, "messageType": "MESSAGE", "lsn": 240},
            {**COMMITTED, "messageType": "INSERT", "lsn": 230},
            id="postgres-a-message-of-no-transaction",
        ),
        pytest.param(
            "debezium",
            {**MYSQL, "gtids": f"{ONE}:1-9,{ONE}:11"},
            {**MYSQL, "gtids": f"{ONE}:1-9,{ONE}:12"},
            id="mysql-a-source-twice",
        ),
        pytest.param("debezium", MYSQL, POSTGRES, id="mysql-became-postgres"),
        pytest.param(
            "debezium", POSTGRES, {**POSTGRES, "lsn": 400}, id="postgres-inside-a-transaction"
        ),
        pytest.param("debezium", {"lsn": 300}, {"lsn": 400}, id="postgres-without-commits"),
        pytest.param(
            "debezium",
            SQL_SERVER,
            {
                "snapshot": "INITIAL",
                "snapshot_completed": True,
                "commit_lsn": "00000028:00000ac0:0002",
                "change_lsn": "NULL",
            },
            id="sqlserver-after-a-snapshot",
        ),
        pytest.param(
            "debezium",
            SQL_SERVER,
            {**SQL_SERVER, "change_lsn": "NULL", "event_serial_no": 0},
            id="sqlserver-a-heartbeat-at-the-commit-of-a-change",
        ),
        pytest.param(
            "debezium_db2", DB2, {**SQL_SERVER, "event_serial_no": 2}, id="db2-an-lsn-of-sqlserver"
        ),
        pytest.param(
            "debezium_informix",
            {"commit_lsn": "1000", "change_lsn": "10"},
            {"commit_lsn": "1000", "change_lsn": "11"},
            id="informix-changes-of-interleaved-transactions",
        ),
        pytest.param(
            "debezium_vitess",
            vgtid(f"{ONE}:1-9", f"MySQL56/{TWO}:1-3"),
            vgtid(f"{ONE}:1-10", f"MySQL56/{TWO}:1-2"),
            id="vitess-one-shard-ahead-and-one-behind",
        ),
        pytest.param(
            "debezium_vitess",
            vgtid(f"{ONE}:1-9", "current"),
            vgtid(f"{ONE}:1-10", "current"),
            id="vitess-a-shard-that-has-not-begun",
        ),
        pytest.param(
            "debezium_vitess",
            vgtid(f"{ONE}:1-9", f"MySQL56/{TWO}:1-3", '[{"table_name":"t"}]'),
            vgtid(f"{ONE}:1-10", f"MySQL56/{TWO}:1-3", '[{"table_name":"t"}]'),
            id="vitess-a-shard-that-is-copied",
        ),
        pytest.param("debezium_vitess", {"vgtid": "current"}, {"vgtid": "[]"}, id="vitess-no-set"),
        pytest.param("debezium_vitess", {"vgtid": 1}, {"vgtid": 2}, id="vitess-no-text"),
        pytest.param(
            "debezium",
            {"scn": "1000", "commit_scn": "1999:1:0a,1990:2:0b"},
            {"scn": "1000", "commit_scn": "2000:1:0a,1990:2:0b"},
            id="oracle-commits-of-two-threads",
        ),
        pytest.param(
            "debezium", {"scn": "1000", "commit_scn": None}, {"scn": "1000"}, id="oracle-no-commit"
        ),
        pytest.param(
            "debezium", SQL_SERVER, {**SQL_SERVER, "change_lsn": "x"}, id="sqlserver-no-lsn"
        ),
        pytest.param(
            "debezium",
            {"scn": "1000", "snapshot_scn": "900"},
            {"scn": "899"},
            id="oracle-streaming-starts",
        ),
        pytest.param(
            "debezium",
            {"scn": "1000", "lcr_position": "a"},
            {"scn": "1001", "lcr_position": "b"},
            id="oracle-xstream",
        ),
        pytest.param(
            "debezium_mongodb",
            {"sec": 5, "ord": 9, "initsync": True},
            {"sec": 6, "ord": 1},
            id="mongodb-first-sync",
        ),
        pytest.param(
            "debezium_mongodb",
            {"sec": 5, "ord": 9, "resume_token": "a"},
            {"sec": -1, "ord": -1, "resume_token": "b"},
            id="mongodb-a-token-alone",
        ),
        pytest.param(
            "debezium_mongodb", {"sec": 5, "ord": 9}, {"sec": 0, "ord": 0}, id="mongodb-no-change"
        ),
        pytest.param("debezium_mongodb", {"sec": 5}, {"sec": 6}, id="mongodb-half"),
        pytest.param("debezium_mongodb", {"ord": 5}, {"ord": 6}, id="mongodb-the-other-half"),
    ],
)
def test_what_has_no_order_is_changed_and_never_ahead_or_behind(dialect, before, after):
    assert compare_offsets(dialect, offset(**before), offset(**after)) is Order.UNORDERED
    assert compare_offsets(dialect, offset(**after), offset(**before)) is Order.UNORDERED


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        ("jdbc", {"timestamp": None, "incrementing": None}),
        ("jdbc", {}),
        ("debezium_mysql", {**MYSQL, "pos": "154"}),
        ("debezium_mysql", {**MYSQL, "pos": None}),
        ("debezium_mysql", {**MYSQL, "row": "1"}),
    ],
    ids=str,
)
def test_what_lacks_a_part_of_its_place_has_none(dialect, fields):
    assert build_order_key(dialect, offset(**fields)) is None


def test_a_set_that_lacks_a_source_is_not_behind_as_a_filter_may_have_been_set():
    all_of_them = offset(**{**MYSQL, "gtids": f"{ONE}:1-9,{TWO}:1-3"})
    filtered = offset(**{**MYSQL, "gtids": f"{ONE}:1-9"})
    assert compare_offsets("debezium_mysql", all_of_them, filtered) is Order.UNORDERED
    assert compare_offsets("debezium_mysql", filtered, all_of_them) is Order.AHEAD


def test_the_same_text_is_the_same_whatever_the_connector():
    assert compare_offsets("generic", offset(a=1, b=2), offset(b=2, a=1)) is Order.SAME
    assert compare_offsets("generic", None, None) is Order.SAME


def test_no_offset_has_no_place():
    for other in (offset(offset=1), decode_value(b"null")):
        assert compare_offsets("mirror_source", None, other) is Order.UNORDERED
        assert compare_offsets("mirror_source", other, None) is Order.UNORDERED
    assert build_order_key("mirror_source", decode_value(b"null")) is None


@pytest.mark.parametrize(
    ("dialect", "fields", "expected"),
    [
        pytest.param("debezium", MYSQL, 1_700_000_000.0, id="seconds"),
        pytest.param(
            "debezium",
            {**POSTGRES, "ts_usec": 1_700_000_000_250_000},
            1_700_000_000.25,
            id="micros",
        ),
        pytest.param("debezium", {"ts_ms": 1_700_000_000_500}, 1_700_000_000.5, id="millis"),
        pytest.param("jdbc", {"timestamp": 1_700_000_000_250}, 1_700_000_000.25, id="jdbc"),
        pytest.param(
            "jdbc",
            {"timestamp": 1_700_000_000_250, "timestamp_nanos": 250_500_000},
            1_700_000_000.2505,
            id="jdbc-nanos",
        ),
        pytest.param(
            "jdbc",
            {"timestamp": 1_700_000_000_250, "timestamp_nanos": 1_000_000_000},
            1_700_000_000.25,
            id="jdbc-nanos-of-no-second",
        ),
        pytest.param(
            "jdbc",
            {"timestamp": 1_700_000_000_250, "timestamp_nanos": 0},
            1_700_000_000.0,
            id="jdbc-nanos-of-a-whole-second",
        ),
        pytest.param("debezium_mongodb", {"sec": 1_700_000_000, "ord": 1}, 1.7e9, id="mongodb"),
        pytest.param("debezium", {"ts_sec": 1_700_000_000_000}, None, id="millis-as-seconds"),
        pytest.param("debezium", {"ts_ms": 1_700_000_000}, None, id="seconds-as-millis"),
        pytest.param("debezium", {"ts_usec": 1_700_000_000_000}, None, id="millis-as-micros"),
        pytest.param("jdbc", {"timestamp": 0}, None, id="nothing-read-yet"),
        pytest.param("debezium_mongodb", {"sec": -5, "ord": 1}, None, id="negative"),
        pytest.param("debezium_mongodb", {"ord": 1}, None, id="mongodb-without-seconds"),
        pytest.param("debezium", {"ts_sec": 315_532_800}, 315_532_800.0, id="1980"),
        pytest.param("debezium", {"ts_sec": 4_102_444_800}, None, id="2100"),
        pytest.param("debezium", {"ts_sec": 1.7e9}, None, id="no-integer"),
        pytest.param("debezium", {"ts_sec": "1700000000"}, None, id="text"),
        pytest.param("generic", {"ts_sec": 1_700_000_000}, None, id="unknown-connector"),
        pytest.param("mirror_source", {"offset": 1_700_000_000}, None, id="no-time-at-all"),
    ],
)
def test_event_time_is_in_seconds_or_unknown(dialect, fields, expected):
    assert read_event_time(dialect, offset(**fields)) == expected


@pytest.mark.parametrize("fields", [MYSQL, POSTGRES, SQL_SERVER, ORACLE])
def test_debezium_connectors_of_one_shape_of_partition_report_the_time_alike(fields):
    exact = refine_dialect("debezium", offset(**fields))
    assert exact.name != "debezium"
    assert exact.time is DIALECTS["debezium"].time


def test_no_offset_has_no_event_time():
    assert read_event_time("debezium", None) is None
    assert read_event_time("jdbc", decode_value(b"null")) is None


@pytest.mark.parametrize(
    ("dialect", "value", "expected"),
    [
        ("mirror_source", b'{"offset":5}', False),
        ("mirror_source", b'{"offset":5.0}', True),
        ("mirror_source", b'{"offset":"5"}', True),
        ("mirror_source", b'{"offset":true}', True),
        ("mirror_source", b'{"offset":null}', False),
        ("mirror_source", b"{}", False),
        ("mirror_source", b"null", False),
        ("mirror_source", None, False),
        ("mirror_checkpoint", b'{"offset":"x"}', False),
        ("file_stream", b'{"position":"5"}', True),
        ("file_stream", b'{"position":5,"x":"y"}', False),
        ("jdbc", b'{"incrementing":5,"timestamp":5.5}', True),
        ("jdbc", b'{"incrementing":5}', False),
        ("debezium", b'{"lsn":"5"}', False),
        ("generic", b'{"offset":"5"}', False),
    ],
    ids=str,
)
def test_an_offset_that_fails_its_task_is_poisoned(dialect, value, expected):
    assert is_poisoned(dialect, decode_value(value)) is expected


def test_every_dialect_is_found_under_its_own_name():
    assert all(dialect.name == name for name, dialect in DIALECTS.items())


def test_a_position_is_among_the_fields_that_say_where_a_connector_is():
    for dialect in DIALECTS.values():
        assert dialect.position is None or dialect.position in dialect.fields
        assert set(dialect.longs) <= set(dialect.fields)


# --- which class it is ---------------------------------------------------------------------------

CONFLUENT = "io.confluent.connect.jdbc.JdbcSourceConnector"
AIVEN = "io.aiven.connect.jdbc.JdbcSourceConnector"
FILES = "org.apache.kafka.connect.file.FileStreamSourceConnector"
MM2 = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


@pytest.mark.parametrize(
    ("shape", "class_name", "dialect"),
    [
        ("jdbc", CONFLUENT, "jdbc"),
        ("jdbc", AIVEN, "jdbc"),
        ("jdbc", "JdbcSource", "jdbc"),
        ("jdbc", "com.sap.kafka.connect.source.hana.HANASourceConnector", "generic"),
        ("jdbc", FILES, "generic"),
        ("jdbc", "", "unknown"),
        ("file_stream", " ", "unknown"),
        ("debezium", "", "unknown"),
        ("debezium_mongodb", "", "unknown"),
        ("generic", "", "unknown"),
        ("mirror_source", "", "mirror_source"),
        ("mirror_heartbeat", "", "mirror_heartbeat"),
        ("file_stream", FILES, "file_stream"),
        ("file_stream", " FileStreamSource ", "file_stream"),
        ("file_stream", "org.example.CameraSource", "generic"),
        ("debezium", "io.debezium.connector.postgresql.PostgresConnector", "debezium_postgres"),
        ("debezium", "io.debezium.connector.mariadb.MariaDbConnector", "debezium_mysql"),
        ("debezium", "io.debezium.connector.mongodb.MongoDbConnector", "debezium_mongodb"),
        ("debezium", CONFLUENT, "generic"),
        ("debezium", "io.debezium.connector.vitess.VitessConnector", "debezium_vitess"),
        ("debezium", "io.debezium.connector.db2.Db2Connector", "debezium_db2"),
        ("debezium", "io.debezium.connector.informix.InformixConnector", "debezium_informix"),
        ("debezium", "io.debezium.connector.spanner.SpannerConnector", "generic"),
        ("debezium_mongodb", "io.debezium.connector.mysql.MySqlConnector", "generic"),
        ("mirror_source", MM2, "mirror_source"),
        ("mirror_source", "org.example.DerivedMirrorSourceConnector", "generic"),
        ("mirror_heartbeat", "org.example.Replicator", "generic"),
        ("mirror_source", FILES, "generic"),
        ("generic", CONFLUENT, "generic"),
    ],
)
def test_a_dialect_applies_to_its_own_connector_classes(shape, class_name, dialect):
    assert resolve_dialect(shape, class_name) == dialect


@pytest.mark.parametrize(
    ("shape", "class_name", "value", "fails"),
    [
        ("jdbc", CONFLUENT, b'{"incrementing":"9"}', True),
        ("jdbc", AIVEN, b'{"incrementing":"9"}', True),
        ("jdbc", CONFLUENT, b'{"incrementing":9}', False),
        ("jdbc", "vb.TextSource", b'{"incrementing":"9"}', False),
        ("jdbc", "", b'{"incrementing":"9"}', False),
        ("file_stream", FILES, b'{"position":"a line"}', True),
        ("file_stream", "org.example.CameraSource", b'{"position":"a line"}', False),
        ("mirror_source", MM2, b'{"offset":5.0}', True),
        ("mirror_source", "org.example.DerivedMirror", b'{"offset":5.0}', False),
    ],
)
def test_an_offset_fails_a_task_only_in_a_connector_class_with_that_rule(
    shape, class_name, value, fails
):
    assert describe_offset(shape, decode_value(value), class_name)[2] is fails


def test_what_another_class_writes_has_no_time_and_no_order():
    offset = decode_value(b'{"timestamp":1700000000000}')
    assert describe_offset("jdbc", offset, CONFLUENT)[:2] == ("jdbc", 1_700_000_000.0)
    assert describe_offset("jdbc", offset, "vb.TextSource") == ("generic", None, False)


@pytest.mark.parametrize(
    ("dialect", "names"),
    [
        ("debezium_postgres", ["lsn", "lsn_commit", "lsn_proc"]),
        (
            "debezium",
            ["lsn", "lsn_commit", "lsn_proc", "transaction_order", "ts_usec", "txId"],
        ),
        ("jdbc", ["lsn", "lsn_commit", "lsn_proc", "transaction_order", "ts_usec", "txId"]),
    ],
)
def test_only_positions_of_a_known_class_are_positions(dialect, names):
    known = offset(**POSTGRES, transaction_order=7)
    assert [name for name, _ in select_positions(dialect, known)] == names
    assert select_positions(dialect, None) == ()


@pytest.mark.parametrize("dialect", ["generic", "unknown", "debezium_postgres"])
def test_a_counter_of_a_table_in_a_transaction_is_no_position_of_any_class(dialect):
    counter = {"transaction_data_collection_order_public.orders": 2}
    assert select_positions(dialect, offset(lsn=300, **counter)) == (("lsn", 300),)
    assert select_positions(dialect, offset(scn="300", **counter)) == ()


def test_a_position_that_the_connector_does_not_know_is_none():
    offset_of_a_token = offset(sec=-1, ord=-1, resume_token="82")
    assert select_positions("debezium_mongodb", offset_of_a_token) == ()


SNAPSHOTS = [
    ({"snapshot": True}, True),
    ({"snapshot": "true", "snapshot_completed": False}, True),
    ({"snapshot": "true", "snapshot_completed": "true"}, False),
    ({"snapshot": True, "last_snapshot_record": False}, True),
    ({"snapshot": True, "last_snapshot_record": True}, False),
    ({"snapshot": "last"}, False),
    ({"snapshot": "INITIAL"}, True),
    ({"snapshot": "INITIAL", "snapshot_completed": False, "last_snapshot_record": False}, True),
    ({"snapshot": "INITIAL", "snapshot_completed": True}, False),
    ({"snapshot": "BLOCKING", "snapshot_completed": False}, True),
    ({"snapshot": "INCREMENTAL"}, False),
    ({"snapshot": "INCREMENTAL", "snapshot_completed": False}, False),
    ({"snapshot": "INCREMENTAL", "snapshot_completed": True}, False),
    ({"snapshot": "incremental"}, False),
    ({"snapshot": False, "snapshot_completed": False}, False),
    ({"snapshot": "false"}, False),
    ({"snapshot_completed": "false"}, False),
    (
        {"incremental_snapshot_primary_key": "aced0005", "incremental_snapshot_collections": "[]"},
        False,
    ),
    ({"initsync": True, "sec": 0, "ord": 0}, True),
    ({"initsync": None}, False),
    ({}, False),
]


@pytest.mark.parametrize(("fields", "expected"), SNAPSHOTS, ids=str)
def test_a_snapshot_is_under_way_until_its_last_row_and_only_where_changes_wait(fields, expected):
    assert is_snapshot(fields) is expected
