from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from offsetwatch.model.connectors import DatabaseSettings, Task
from offsetwatch.model.observations import (
    InputSucceeded,
    SourceEndRead,
    build_source_end_input,
)
from offsetwatch.model.source_ends import (
    BinlogFile,
    BinlogReader,
    ColumnEnd,
    ColumnQuery,
    FileEnd,
    FileState,
    MysqlEnd,
    SourceEndRequest,
    SourceKind,
    SqlEnd,
)
from offsetwatch.state.sources import source_ends
from tests.unit.state.sources.worlds import (
    CLUSTER,
    CONNECTOR,
    INTERVAL_S,
    SETTINGS,
    SOURCE,
    T0,
    World,
    wal,
)


def binlog(gtids=None, *, sent_all=None, logs=(("bin.1", 100), ("bin.2", 50)), position=50):
    readers = None if sent_all is None else (BinlogReader("cdc", "h", sent_all),)
    files = tuple(BinlogFile(*log) for log in logs)
    return MysqlEnd(
        mariadb=True,
        server_id=1,
        gtids=gtids,
        file=files[-1].name,
        position=position,
        logs=files,
        readers=readers,
    )


# --- idle and behind -----------------------------------------------------------------------------


def test_what_is_handed_out_to_an_open_connection_is_done_also_of_other_databases():
    world = World()
    world.commit(lsn=100, lsn_commit=90)
    for end in (100, 5_000, 9_000):
        view = world.read(wal(end, sent=end))
        assert (view.caught_up, view.lag, view.behind_since) == (True, 0, None)
        assert (view.connected, view.end_position) == (True, end)


def test_a_view_says_which_server_it_is_of():
    world = World()
    world.commit(lsn=100)
    assert world.read(wal(100, sent=100, system_id="7", timeline=2)).server == "7/2"
    assert world.read(wal(100, sent=100)).server == ""
    world = World(SourceKind.MYSQL)
    world.commit(gtids="0-7-37")
    assert world.read(binlog("0-7-37")).server == "1"


def test_a_frozen_walsender_is_behind_since_the_end_was_last_there():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100, sent=100))
    world.read(wal(400, sent=100))
    view = world.read(wal(900, sent=100))
    assert (view.caught_up, view.lag_bytes, view.position) == (False, 800, 100)
    assert world.seconds(view) == 2 * INTERVAL_S
    done = world.read(wal(900, sent=900))
    assert (done.caught_up, done.lag, world.seconds(done)) == (True, 0, 0.0)


def test_a_stopped_connector_is_behind_from_what_was_handed_out_a_flush_before():
    world = World()
    world.commit(lsn=100)
    for end in (100, 5_000, 5_000, 5_000):  # of another database
        world.read(wal(end, sent=end))
    stopped = world.read(wal(5_000, active=False))
    assert (stopped.caught_up, stopped.lag, stopped.connected) == (True, 0, False)
    world.read(wal(7_000, active=False))
    view = world.read(wal(7_000, active=False))
    assert (view.caught_up, view.lag, world.seconds(view)) == (None, 2_000, 2 * INTERVAL_S)


@pytest.mark.parametrize(
    ("state", "tasks"), [("stopped", ()), ("paused", ("paused",)), ("running", ("failed",))]
)
def test_what_is_handed_out_to_a_connector_that_does_not_run_is_not_done(state, tasks):
    """A paused connector stays connected; MariaDB lists a closed connection until it fails."""
    world = World(SourceKind.MYSQL)
    world.commit(gtids="0-1-18", event=2, row=1, file="bin.2", pos=40, server_id=1)
    for _ in range(3):
        world.read(binlog("0-1-19", sent_all=True))
    numbered = tuple(Task(number, task) for number, task in enumerate(tasks))
    world.connector = replace(world.connector, state=state, tasks=numbered)
    for _ in range(4):
        view = world.read(binlog("0-1-20", sent_all=True))
    assert (view.lag_transactions, view.caught_up, view.connected) == (1, None, True)


def test_a_connector_that_stops_while_it_works_is_behind_by_the_clock():
    """What was handed out just before it stopped may not be committed."""
    world = World()
    world.commit(lsn=50)
    for end in (100, 200, 300):
        world.read(wal(end, sent=end))
    world.commit(lsn=260)
    for _ in range(5):
        view = world.read(wal(400, active=False))
    assert view.lag == 140
    assert world.seconds(view) == 6 * INTERVAL_S


def test_without_the_right_to_see_a_walsender_nothing_is_known_but_a_bound():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100))
    world.read(wal(500))
    view = world.read(wal(500))
    assert (view.caught_up, view.lag_bytes, view.connected) == (None, 400, True)
    assert view.behind_since is None  # another database may have written it


def test_the_whole_of_the_read_before_is_enough():
    world = World()
    world.commit(lsn=100)
    world.read(wal(300, sent=300))
    view = world.read(wal(500, sent=300))  # just written
    assert (view.caught_up, view.lag) == (True, 200)
    assert world.seconds(view) == INTERVAL_S


def test_an_offset_that_goes_back_undoes_what_was_done():
    world = World()
    world.commit(lsn=1_000)
    for _ in range(3):
        world.read(wal(1_000, sent=1_000))
    world.commit(lsn=200)
    view = world.view()
    assert (view.position, view.lag, view.caught_up) == (200, 800, False)
    assert world.read(wal(1_000, sent=600)).position == 600


# --- ahead, lost, another server -----------------------------------------------------------------


def test_an_offset_beyond_the_end_is_ahead_once_the_end_was_read_after_it():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100, sent=100))
    world.commit(lsn=900)
    assert (world.view().ahead, world.view().lag) == (0, 0)  # the end may be older
    view = world.read(wal(120, sent=120))
    assert (view.ahead, view.caught_up) == (780, None)


def test_below_what_the_slot_has_confirmed_an_offset_is_lost():
    world = World()
    world.commit(lsn=100, lsn_commit=80)
    assert world.read(wal(500, sent=500, confirmed=80)).lost is None
    world.commit(lsn=70, lsn_commit=60)
    assert world.view().lost is None
    assert world.read(wal(500, sent=500, confirmed=80)).lost is None  # it has resumed
    lost = world.read(wal(500, active=False, confirmed=80)).lost
    assert lost == "its offset lies 20 bytes before the position from which it can resume"


def test_a_slot_that_is_gone_or_lost_is_named():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100, sent=100))
    assert "does not exist" in world.read(wal(200, gone=True)).lost
    assert "has removed WAL" in world.read(wal(200, active=False, wal_status="lost")).lost


def test_a_promoted_standby_is_compared_from_the_first_offset_of_its_own():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100, sent=100, system_id="7", timeline=1))
    view = world.read(wal(90, sent=90, system_id="7", timeline=2))
    assert view.mismatch == (
        "a standby was promoted: the timeline was 1 and is 2, and its offset is from before"
    )
    assert (view.lag, view.caught_up, view.behind_since) == (None, None, None)
    world.commit(lsn=95)
    view = world.read(wal(95, sent=95, system_id="7", timeline=2))
    assert (view.mismatch, view.lag, view.caught_up) == (None, 0, True)


def test_another_server_is_no_end_of_a_connector_that_is_not_connected_to_it():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100, sent=100, system_id="7"))
    assert "is another one" in world.read(wal(900, active=False, system_id="8")).mismatch
    world.commit(lsn=150)  # of the server before
    assert "is another one" in world.read(wal(900, active=False, system_id="8")).mismatch
    world.commit(lsn=160)
    assert world.read(wal(900, sent=900, system_id="8")).mismatch is None


@pytest.mark.parametrize("back_s", [5.0, 3_600.0])
def test_a_clock_that_is_set_back_loses_samples_and_nothing_else(back_s):
    world = World()
    world.commit(lsn=100)
    for end in (100, 400):
        world.read(wal(end, sent=100))
    view = world.read(wal(500, sent=100), after=-back_s)
    assert (view.lag, view.caught_up, view.behind_since) == (400, False, None)
    world.commit(lsn=900)
    world.view()
    assert world.read(wal(600, sent=600)).ahead == 300
    world.commit(lsn=650)
    world.read(wal(650, sent=650))
    world.read(wal(700, sent=650))
    assert world.seconds(world.read(wal(700, sent=650))) == 2 * INTERVAL_S


# --- MySQL and MariaDB ---------------------------------------------------------------------------


def test_mariadb_is_caught_up_although_its_offset_is_one_transaction_behind():
    world = World(SourceKind.MYSQL)
    world.commit(gtids="0-7-37", event=1, row=1)
    view = world.read(binlog("0-7-38", sent_all=True))
    assert (view.caught_up, view.lag, view.lag_transactions) == (True, 0, 0)
    world.read(binlog("0-7-38", sent_all=True))
    view = world.read(binlog("0-7-40", sent_all=False))
    assert view.lag_transactions == 2  # the one that was begun is done
    assert world.seconds(view) == INTERVAL_S


def test_half_of_a_large_transaction_is_not_all_of_it():
    world = World(SourceKind.MYSQL)
    world.commit(gtids="0-7-37")
    world.read(binlog("0-7-37", sent_all=True))
    world.commit(gtids="0-7-37", event=1, row=50_000)
    world.read(binlog("0-7-38", sent_all=False))
    view = world.read(binlog("0-7-38", sent_all=False))
    assert (view.caught_up, view.lag_transactions) == (False, 1)
    assert world.seconds(view) == 2 * INTERVAL_S
    without_right = World(SourceKind.MYSQL)
    without_right.commit(gtids="0-7-37", event=1, row=50_000)
    view = without_right.read(binlog("0-7-38"))
    assert (view.caught_up, view.lag_transactions) == (None, 0)


def test_a_file_that_the_server_removes_changes_no_distance():
    world = World(SourceKind.MYSQL)
    world.commit(file="bin.2", pos=10)
    world.read(binlog(sent_all=False))
    before = world.read(binlog(sent_all=False, position=90))
    after = world.read(binlog(sent_all=False, position=90, logs=(("bin.2", 90),)))
    assert before.lag == after.lag == 80
    assert before.position == after.position
    assert after.headroom_bytes == 0


def test_a_binlog_that_begins_again_is_another_one():
    world = World(SourceKind.MYSQL)
    world.commit(file="bin.2", pos=10)
    world.read(binlog(sent_all=True))
    view = world.read(binlog(sent_all=True, logs=(("bin.1", 900),), position=900))
    assert view.mismatch == "its binlog file bin.2 does not exist yet: the newest is bin.1"


# --- snapshots -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "in_snapshot"),
    [
        ({"snapshot": True, "snapshot_completed": False}, True),
        ({"snapshot": True, "last_snapshot_record": False}, True),
        ({"snapshot": "true"}, True),
        ({"snapshot": "INITIAL", "snapshot_completed": False}, True),
        ({"snapshot": "BLOCKING", "snapshot_completed": False}, True),
        ({"snapshot": "INITIAL", "snapshot_completed": True}, False),
        ({"snapshot": True, "last_snapshot_record": True}, False),
        ({"snapshot": "last"}, False),
        ({"snapshot": False}, False),
        ({"incremental_snapshot_collections": "[]"}, False),
        ({}, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [SourceKind.POSTGRESQL, SourceKind.MYSQL])
def test_there_are_no_numbers_in_a_snapshot(kind, fields, in_snapshot):
    world = World(kind)
    world.commit(lsn=100, gtids="0-7-37", **fields)
    end = wal(400, sent=100) if kind is SourceKind.POSTGRESQL else binlog("0-7-40", sent_all=None)
    view = world.read(end)
    assert view.in_snapshot == in_snapshot
    assert (view.lag is None) == in_snapshot


INITIAL = {"snapshot": "INITIAL", "snapshot_completed": False}


def test_a_snapshot_is_over_once_its_connector_reads_the_binlog_and_nothing_waits():
    world = World(SourceKind.MYSQL)
    world.commit(gtids="0-7-37", **INITIAL)
    assert world.read(msgspec.structs.replace(binlog("0-7-37"), readers=())).in_snapshot
    view = [world.read(binlog("0-7-37", sent_all=True)) for _ in range(3)][-1]
    assert not view.in_snapshot
    assert (view.lag_transactions, view.caught_up) == (0, True)
    view = [world.read(binlog("0-7-40", sent_all=False)) for _ in range(2)][-1]
    assert (view.lag_transactions, view.caught_up) == (3, False)


@pytest.mark.parametrize(
    ("offset", "end", "users"),
    [
        ({**INITIAL, "snapshot": "BLOCKING"}, binlog("0-7-37", sent_all=True), ["cdc"]),
        (INITIAL, binlog("0-7-37", sent_all=True), ["cdc", "cdc"]),
        (INITIAL, binlog("0-7-37", sent_all=True), ["other"]),
        (INITIAL, binlog("0-7-37"), None),
    ],
    ids=["blocking", "two connections", "another user", "no rights"],
)
def test_a_connection_that_need_not_be_the_connectors_ends_no_snapshot(offset, end, users):
    world = World(SourceKind.MYSQL)
    world.commit(gtids="0-7-37", **offset)
    readers = None if users is None else tuple(BinlogReader(user, "h", True) for user in users)
    assert world.read(msgspec.structs.replace(end, readers=readers)).in_snapshot


def test_a_connection_of_a_user_that_two_connectors_have_ends_no_snapshot():
    world = World(SourceKind.MYSQL)
    world.commit(gtids="0-7-37", **INITIAL)
    (own,) = world.partitions
    other = msgspec.structs.replace(own, connector="other", identity='{"server":"other"}')
    of = replace(world.source, wants={CLUSTER: lambda name: True})
    ends = source_ends.SourceEnds([of], world.inputs, flush_s=INTERVAL_S)
    settings = replace(SETTINGS, topic_prefix="other")
    connectors = {
        CONNECTOR: world.connector,
        "other": replace(world.connector, name="other", database=settings),
    }
    ends.read(SourceEndRead(SOURCE, binlog("0-7-37", sent_all=True), world.now))
    world.inputs.apply(InputSucceeded(build_source_end_input(SOURCE), world.now))
    shown = ends.views((own, other), {CLUSTER: connectors}, world.now)
    assert [view.in_snapshot for view in shown] == [True, True]
    shown = ends.views((own,), {CLUSTER: connectors}, world.now)
    assert [view.in_snapshot for view in shown] == [False]


# --- JDBC and files ------------------------------------------------------------------------------

IDS = ColumnQuery("public.orders", "id")


def ids(value: int | None) -> SqlEnd:
    return SqlEnd({IDS: ColumnEnd(value)})


def test_rows_of_a_table_wait_exactly():
    world = World(SourceKind.SQL)
    world.commit(incrementing=10)
    assert (world.read(ids(10)).caught_up, world.view().lag_rows) == (True, 0)
    world.read(ids(12))
    view = world.read(ids(15))
    assert (view.caught_up, view.lag_rows, world.seconds(view)) == (False, 5, 2 * INTERVAL_S)


def test_rows_that_were_deleted_are_no_position_ahead():
    world = World(SourceKind.SQL)
    world.commit(incrementing=10)
    world.read(ids(10))
    world.read(ids(4))
    view = world.read(ids(4))
    assert (view.ahead, view.lag, view.caught_up) == (0, 0, None)
    assert world.read(ids(None)).caught_up is True


@pytest.mark.parametrize(
    ("settings", "partition", "columns", "expected"),
    [
        pytest.param(SETTINGS, None, (), [IDS], id="incrementing"),
        pytest.param(
            replace(SETTINGS, mode="timestamp", timestamp_columns=("at",)),
            None,
            (),
            [ColumnQuery("public.orders", "at")],
            id="timestamp",
        ),
        pytest.param(
            replace(SETTINGS, mode="timestamp", timestamp_columns=("a", "b")),
            None,
            (),
            [],
            id="the-first-of-several-that-is-not-null",
        ),
        pytest.param(replace(SETTINGS, mode="bulk"), None, (), [], id="bulk"),
        pytest.param(replace(SETTINGS, has_query=True), {"query": "query"}, (), [], id="query"),
        pytest.param(SETTINGS, {"query": "query"}, (), [], id="a-query-of-before"),
        pytest.param(DatabaseSettings(), None, (), [], id="unknown"),
        pytest.param(
            replace(SETTINGS, mode="bulk"),
            None,
            ("public.orders",),
            [ColumnQuery("public.orders", "")],
            id="configured",
        ),
        pytest.param(
            SETTINGS, {"query": "query"}, ("query",), [ColumnQuery("query", "")], id="own-query"
        ),
    ],
)
def test_a_source_is_asked_for_the_columns_that_order_the_rows(
    settings, partition, columns, expected
):
    world = World(SourceKind.SQL, settings, columns=frozenset(columns))
    world.partition = partition or world.partition
    world.commit(incrementing=10)
    requests = world.ends.requests(world.partitions, world.connectors())
    assert requests == (SourceEndRequest(SOURCE, tuple(expected)),)
    view = world.read(SqlEnd({}))
    assert view.problem is not None


def test_a_file_that_was_cut_is_read_no_further():
    world = World(SourceKind.FILE)
    world.commit(position=100)
    (request,) = world.ends.requests(world.partitions, world.connectors())
    assert request.files == ("/in.txt",)
    assert world.read(FileEnd({"/in.txt": FileState(100)})).caught_up is True
    world.read(FileEnd({"/in.txt": FileState(20)}))
    view = world.read(FileEnd({"/in.txt": FileState(20)}))
    assert (view.ahead, view.lag, view.caught_up) == (80, 0, None)
    assert world.read(FileEnd({"/in.txt": FileState(None, "it is gone")})).problem == "it is gone"


# --- what is shown -------------------------------------------------------------------------------


def test_a_source_that_does_not_answer_shows_nothing_and_forgets_nothing():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100, sent=100))
    world.read(wal(400, sent=100))
    world.now += 100
    assert world.views() == ()
    view = world.read(wal(400, sent=100))
    assert world.seconds(view) == 12 * INTERVAL_S


def test_only_partitions_of_the_kind_and_the_prefix_are_compared():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100, sent=100))
    world.partition = {"server": "before-it-was-renamed"}
    world.commit(lsn=1)
    assert world.views() == ()
    world.partition, world.dialect = {"server": "shop"}, "debezium_mysql"
    world.commit(lsn=1)
    assert world.views() == ()


def test_a_partition_without_an_offset_says_so():
    world = World()
    world.commit()
    assert world.read(wal(100)).problem == "it has no offset"


def test_the_same_facts_give_the_same_views():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100, sent=100))
    assert world.views() is world.views()
    assert world.view().read_at == T0 + INTERVAL_S


# --- over a restart ------------------------------------------------------------------------------


def test_seconds_go_on_over_a_restart():
    world = World()
    world.commit(lsn=100)
    world.read(wal(100, sent=100, system_id="7", timeline=1))
    world.read(wal(400, sent=100, system_id="7", timeline=1))
    world.restart()
    view = world.read(wal(900, sent=100, system_id="7", timeline=1))
    assert (view.caught_up, view.lag_bytes, world.seconds(view)) == (False, 800, 2 * INTERVAL_S)
    world.restart()
    assert world.views() == ()  # nothing is shown before the source was read again


def test_what_was_handed_out_to_a_stopped_connector_stays_done_over_a_restart():
    world = World()
    world.commit(lsn=100)
    for end in (100, 5_000, 5_000, 5_000):  # of another database
        world.read(wal(end, sent=end))
    world.read(wal(5_000, active=False))
    world.restart()
    view = world.read(wal(7_000, active=False))
    assert (view.lag, world.seconds(view)) == (2_000, INTERVAL_S)
    world.commit(lsn=90)
    assert world.view().position == 90
    world.restart()
    world.commit(lsn=80)  # went back meanwhile
    assert world.read(wal(7_000, active=False)).position == 80


@pytest.mark.parametrize(
    ("system_id", "timeline", "mismatch"), [("8", 1, "is another one"), ("7", 2, "was promoted")]
)
def test_another_server_after_a_restart_has_no_seconds(system_id, timeline, mismatch):
    world = World()
    world.commit(lsn=100)
    for end in (100, 400):
        world.read(wal(end, sent=100, system_id="7", timeline=1))
    world.restart()
    for _ in range(2):
        now = wal(900, sent=100, system_id=system_id, timeline=timeline)
        view = world.read(now)
        assert mismatch in view.mismatch
        assert (view.lag, view.behind_since) == (None, None)
        world.restart()
    world.commit(lsn=150)
    view = world.read(now)
    assert (view.mismatch, view.lag, view.behind_since) == (None, 750, None)


def test_another_binlog_server_has_no_seconds_and_the_same_one_goes_on():
    world = World(SourceKind.MYSQL)
    world.commit(gtids="0-7-37")
    world.read(binlog("0-7-37", sent_all=True))
    world.read(binlog("0-7-40", sent_all=False))
    world.restart()
    view = world.read(binlog("0-7-41", sent_all=False))
    assert (view.lag_transactions, world.seconds(view)) == (4, 2 * INTERVAL_S)
    world.restart()
    view = world.read(msgspec.structs.replace(binlog("0-7-41", sent_all=False), server_id=2))
    assert (view.lag_transactions, view.behind_since) == (4, None)


def test_removed_binlog_files_change_no_distance_over_a_restart():
    world = World(SourceKind.MYSQL)
    world.commit(file="bin.2", pos=50)
    world.read(binlog(sent_all=False))
    world.restart()
    view = world.read(binlog(sent_all=False, position=90, logs=(("bin.2", 90),)))
    assert (view.lag, world.seconds(view)) == (40, INTERVAL_S)


@pytest.mark.parametrize("changes", [{"address": "db-2"}, {"away_s": 86_400.0}])
def test_a_source_that_moved_or_was_not_read_for_a_day_begins_again(changes):
    world = World(SourceKind.SQL)
    world.commit(incrementing=10)
    world.read(ids(10))
    world.read(ids(15))
    world.now += changes.pop("away_s", 0.0)
    world.restart(**changes)
    view = world.read(ids(15))
    assert (view.lag_rows, view.caught_up, view.behind_since) == (5, False, None)


def test_what_is_saved_is_bounded_and_has_the_partitions_that_wait(monkeypatch):
    monkeypatch.setattr(source_ends, "PERSISTED_TRACKS_MAX", 1)
    world = World(SourceKind.SQL)
    world.commit(incrementing=10)
    waiting = world.partitions
    world.partition = {"protocol": "1", "table": "public.idle"}
    world.commit(incrementing=3)
    world.partitions = (*world.partitions, *waiting)
    for value in (10, 12, 15):
        world.now += INTERVAL_S
        end = SqlEnd({IDS: ColumnEnd(value), ColumnQuery("public.idle", "id"): ColumnEnd(3)})
        world.ends.read(SourceEndRead(SOURCE, end, world.now))
        world.inputs.apply(InputSucceeded(build_source_end_input(SOURCE), world.now))
        world.views()
    world.restart()
    world.partitions = waiting
    assert world.seconds(world.read(ids(15))) == 3 * INTERVAL_S


def test_nothing_is_saved_twice():
    world = World()
    assert world.ends.remembered() is None
    world.commit(lsn=100)
    world.read(wal(100, sent=100))
    assert world.ends.remembered() is not None
    assert world.ends.remembered() is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda state: state.update(version=2), id="version"),
        pytest.param(
            lambda state: state["sources"][SOURCE]["tracks"][0]["samples"].reverse(), id="order"
        ),
        pytest.param(lambda state: state["sources"][SOURCE].pop("at"), id="missing"),
    ],
)
def test_another_document_is_refused_and_changes_nothing(change):
    world = World()
    world.commit(lsn=100)
    for end in (100, 400):
        world.read(wal(end, sent=100))
    state = json.loads(world.ends.remembered())
    change(state)
    with pytest.raises(ValueError, match=r"version 2|cannot be|missing"):
        world.restart(document=json.dumps(state).encode())
    assert world.read(wal(900, sent=100)).behind_since is None
