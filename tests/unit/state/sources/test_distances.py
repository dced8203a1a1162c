from __future__ import annotations

import pytest

from offsetwatch.model.connectors import DatabaseSettings
from offsetwatch.model.source_ends import (
    BinlogFile,
    BinlogReader,
    ColumnEnd,
    FileState,
    MysqlEnd,
    PostgresqlEnd,
    ReplicationSlot,
)
from offsetwatch.state.sources.distances import (
    format_wal_position,
    measure_column,
    measure_file,
    measure_mysql,
    measure_postgresql,
)

ONE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TWO = "4f11fa47-71ca-11e1-9e33-c80aa9429562"
SLOT = DatabaseSettings(database="shop", slot="dbz", user="cdc")
LOGS = (BinlogFile("bin.000003", 1000), BinlogFile("bin.000004", 500))


def wal(end=1000, **slot) -> PostgresqlEnd:
    fields = {"name": "dbz", "database": "shop", "active": True, "confirmed_flush": 500, **slot}
    return PostgresqlEnd(end, {"dbz": ReplicationSlot(**fields)})


def mysql(gtids=None, **fields) -> MysqlEnd:
    common = {"mariadb": True, "server_id": 1, "file": "bin.000004", "position": 200, "logs": LOGS}
    return MysqlEnd(**{**common, "gtids": gtids, **fields})


def thread(*, sent_all: bool, user: str = "cdc") -> tuple[BinlogReader, ...]:
    return (BinlogReader(user, "10.0.0.1", sent_all),)


# --- PostgreSQL ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "position", "resume"),
    [
        pytest.param({"lsn": 700}, 700, 700, id="lsn-alone"),
        pytest.param({"lsn": 700, "lsn_commit": 600}, 700, 600, id="idle-one-transaction-behind"),
        pytest.param({"lsn": 550, "lsn_commit": 600}, 600, 600, id="within-a-transaction"),
        pytest.param(
            {"lsn": 700, "lsn_proc": 600, "lsn_commit": 600}, 700, 600, id="processed-and-newer"
        ),
        pytest.param({"lsn": 550, "lsn_proc": 600}, 600, 600, id="without-a-commit"),
        pytest.param({"lsn": "0/16B3748"}, None, None, id="text"),
    ],
)
def test_the_greatest_lsn_was_read_and_the_commit_is_where_a_task_resumes(offset, position, resume):
    distance = measure_postgresql(offset, wal(sent=1000), SLOT)
    assert (distance.position, distance.resume) == (position, resume)
    assert (distance.mismatch is None) == (position is not None)


def test_a_slot_that_streams_says_what_was_handed_out():
    assert measure_postgresql({"lsn": 700}, wal(sent=900), SLOT).handed == 900
    assert measure_postgresql({"lsn": 700}, wal(sent=1200), SLOT).handed == 1000
    assert measure_postgresql({"lsn": 700}, wal(sent=None), SLOT).handed is None
    stopped = measure_postgresql({"lsn": 700}, wal(sent=900, active=False), SLOT)
    assert (stopped.handed, stopped.connected) == (None, False)
    unnamed = measure_postgresql({"lsn": 700}, wal(sent=900), None)
    assert (unnamed.handed, unnamed.connected, unnamed.lost) == (None, None, None)


def test_retention_is_of_the_slot():
    distance = measure_postgresql(
        {"lsn": 700}, wal(restart=300, safe_wal_size=99, wal_status="extended"), SLOT
    )
    assert (distance.floor, distance.retained_bytes, distance.headroom_bytes) == (500, 700, 99)
    assert distance.lost is None
    lost = measure_postgresql({"lsn": 700}, wal(wal_status="lost"), SLOT)
    assert lost.lost == "the server has removed WAL that the replication slot dbz needs"


def test_a_slot_that_is_gone_is_lost_on_its_own_server_only():
    gone = PostgresqlEnd(1000, {})
    assert "does not exist on this server" in measure_postgresql({"lsn": 700}, gone, SLOT).lost
    standby = measure_postgresql({"lsn": 700}, PostgresqlEnd(1000, {}, in_recovery=True), SLOT)
    assert standby.lost is None
    assert standby.mismatch == "this server is a standby without the replication slot dbz"


def test_a_slot_of_another_database_is_a_mismatch():
    distance = measure_postgresql({"lsn": 700}, wal(database="other"), SLOT)
    assert distance.mismatch == "the replication slot dbz is of database other, and not of shop"


def test_an_lsn_beyond_the_end_is_ahead():
    distance = measure_postgresql({"lsn": 1700}, wal(), SLOT)
    assert (distance.ahead, distance.end_text) == (700, "0/3E8")
    assert format_wal_position((7 << 32) + 0xAB) == "7/AB"


# --- MySQL and MariaDB ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("readers", "position", "handed", "partial"),
    [
        pytest.param(None, 38, None, True, id="no-right-to-see"),
        pytest.param(thread(sent_all=True), 37, 38, False, id="all-is-sent"),
        pytest.param(thread(sent_all=False), 37, 37, False, id="some-is-not-sent"),
        pytest.param((), 38, None, True, id="not-connected"),
        pytest.param(thread(sent_all=True, user="x"), 38, None, True, id="another-user"),
    ],
)
def test_only_the_server_knows_whether_a_begun_transaction_is_done(
    readers, position, handed, partial
):
    """MariaDB, caught up and quiet: the offset has the GTIDs before its newest transaction."""
    offset = {"file": "bin.000004", "pos": 100, "gtids": "0-7-37", "event": 1, "row": 1}
    distance = measure_mysql(offset, mysql("0-7-38", readers=readers), SLOT)
    assert (distance.position, distance.end) == (position, 38)
    assert (distance.handed, distance.is_partial) == (handed, partial)
    assert (distance.bytes, distance.headroom_bytes) == (100, 1000)


def test_transactions_of_several_domains_and_servers_add_up():
    domains = measure_mysql({"gtids": "0-1-5,1-2-9"}, mysql("0-1-7,1-2-10"), None)
    assert (domains.end - domains.position, domains.unit) == (3, "transactions")
    end = mysql(f"{ONE}:1-10,{TWO}:1-4:x:1-2", mariadb=False)
    servers = measure_mysql({"gtids": f"{ONE}:1-7,{TWO}:1-4"}, end, None)
    assert servers.end - servers.position == 5
    failover = measure_mysql({"gtids": "0-1-5,0-2-7"}, mysql("0-2-9"), None)
    assert (failover.end - failover.position, failover.mismatch) == (2, None)


def test_gtids_of_a_server_that_is_unknown_here_are_a_mismatch():
    end = mysql(f"{ONE}:1-10", mariadb=False)
    distance = measure_mysql({"gtids": f"{ONE}:1-7,{TWO}:1-4"}, end, None)
    assert distance.mismatch == (
        f"it has read transactions of server {TWO}, and this server has none"
    )
    assert distance.ahead == 0
    other = measure_mysql({"gtids": "0-1-5"}, end, None)
    assert other.mismatch == "its GTIDs are not of MySQL"


def test_gtids_beyond_the_end_are_ahead():
    assert measure_mysql({"gtids": "0-7-50"}, mysql("0-7-38"), None).ahead == 12


def test_gtids_that_are_too_many_are_no_mismatch():
    many = f"{ONE}:1" + "".join(f":{n}" for n in range(3, 3000, 2))
    distance = measure_mysql({"gtids": many}, mysql(f"{ONE}:1-9000", mariadb=False), None)
    assert (distance.mismatch, distance.unreadable) == (
        None,
        "its GTIDs are too many to be compared",
    )


def test_purged_transactions_are_lost_but_those_that_a_filter_leaves_out():
    end = mysql(f"{ONE}:1-99,{TWO}:1-50", mariadb=False, purged=f"{ONE}:1-20,{TWO}:1-40")
    lost = measure_mysql({"gtids": f"{ONE}:1-17"}, end, None).lost
    assert lost == "the server has removed 3 transactions that it has not read"
    assert measure_mysql({"gtids": f"{ONE}:1-20"}, end, None).lost is None
    assert measure_mysql({"gtids": f"{ONE}:1-19", "row": 1}, end, None).lost is None


def test_coordinates_count_bytes_over_the_files():
    distance = measure_mysql({"file": "bin.000003", "pos": 900, "server_id": 1}, mysql(), None)
    assert (distance.position, distance.end, distance.headroom_bytes) == (900, 1200, 0)
    assert distance.handed is None
    offset = {"file": "bin.000004", "pos": 150}
    distance = measure_mysql(offset, mysql(readers=thread(sent_all=True)), SLOT)
    assert (distance.position, distance.handed, distance.connected) == (1150, 1200, True)
    shifted = measure_mysql(offset, mysql(), None, removed=4000)
    assert (shifted.position, shifted.end, shifted.headroom_bytes) == (5150, 5200, 1000)


def test_without_the_list_of_files_only_the_newest_one_can_be_measured():
    end = mysql(logs=None)
    same = measure_mysql({"file": "bin.000004", "pos": 150}, end, None)
    assert (same.position, same.end, same.headroom_bytes) == (150, 200, None)
    older = measure_mysql({"file": "bin.000003", "pos": 150}, end, None)
    assert (older.position, older.lost, older.mismatch) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "mismatch", "lost"),
    [
        ("bin.000002", None, "no longer has its binlog file bin.000002: the oldest is bin.000003"),
        ("bin.000005", "bin.000005 does not exist yet: the newest is bin.000004", None),
        ("mysql-bin.000004", "is mysql-bin.000004, and this server writes bin.000004", None),
    ],
)
def test_a_file_that_the_server_does_not_have_is_lost_or_of_another(name, mismatch, lost):
    distance = measure_mysql({"file": name, "pos": 4}, mysql(), None)
    assert (mismatch or "") in (distance.mismatch or "")
    assert (lost or "") in (distance.lost or "")
    assert (distance.mismatch is None, distance.lost is None) == (mismatch is None, lost is None)
    assert distance.ahead == 0


@pytest.mark.parametrize(
    ("server_id", "comparable"), [(None, True), (0, True), (1, True), (5, False)]
)
def test_coordinates_of_an_event_that_another_server_wrote_are_not_compared(server_id, comparable):
    """They may be of this server all the same, if it is that one's replica: no mismatch."""
    offset = {"file": "bin.000004", "pos": 150, "server_id": server_id}
    distance = measure_mysql(offset, mysql(), None)
    assert (distance.position is not None, distance.mismatch) == (comparable, None)
    assert (distance.unreadable is None) == comparable
    unknown = measure_mysql(offset, mysql(server_id=None), None)
    assert unknown.position == 1150


def test_what_the_server_does_not_tell_is_unreadable():
    assert measure_mysql({"gtids": "0-7-1"}, mysql(None), None).unreadable is not None
    no_end = measure_mysql({"file": "bin.000004", "pos": 4}, mysql(file=None, position=None), None)
    assert no_end.unreadable is not None
    assert measure_mysql({"pos": 4}, mysql(), None).mismatch is not None


# --- JDBC and files ------------------------------------------------------------------------------


def test_an_id_is_compared_with_the_greatest_one():
    distance = measure_column({"incrementing": 7}, ColumnEnd(10))
    assert (distance.position, distance.end, distance.unit, distance.exact) == (7, 10, "rows", True)
    assert distance.fields == (("incrementing", 10),)
    assert measure_column({"incrementing": 12}, ColumnEnd(10)).ahead == 2


def test_nothing_waits_in_a_table_without_rows():
    distance = measure_column({"incrementing": 7}, ColumnEnd(None))
    assert (distance.position, distance.end, distance.ahead) == (7, 7, 0)


def test_a_time_is_compared_as_exactly_as_the_offset_has_it():
    end = ColumnEnd(1_700_000_000_123_456_000, is_time=True)
    done = {"timestamp": 1_700_000_000_123, "timestamp_nanos": 123_456_000}
    assert measure_column(done, end).position == end.value
    before = {**done, "timestamp_nanos": 123_455_000}
    assert measure_column(before, end).end - measure_column(before, end).position == 1000
    by_millis = measure_column({"timestamp": 1_700_000_000_123}, end)
    assert by_millis.position == by_millis.end
    assert (by_millis.unit, by_millis.fields) == ("", (("timestamp", 1_700_000_000_123),))


def test_a_column_that_the_offset_does_not_have_is_unreadable():
    end = ColumnEnd(10, is_time=True)
    assert measure_column({"incrementing": 7}, end).unreadable == "its offset has no timestamp"
    error = measure_column({"incrementing": 7}, ColumnEnd(None, error="no table t"))
    assert error.unreadable == "no table t"


def test_a_file_is_compared_with_the_end_of_its_last_line():
    distance = measure_file({"position": 30}, FileState(50))
    assert (distance.position, distance.end, distance.exact, distance.floor) == (30, 50, True, 0)
    assert measure_file({"position": 80}, FileState(50)).ahead == 30
    assert measure_file({"position": 80}, FileState(None, "no such file")).unreadable
    assert measure_file({}, FileState(50)).unreadable == "its offset has no position"
