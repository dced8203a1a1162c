"""Each rule has a play in which it alone finds what is wrong, and one in which all is well."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from offsetwatch.judge.findings import register
from offsetwatch.judge.findings.register import RULES
from offsetwatch.model.connectors import (
    UNKNOWN_STATE,
    ConnectorKind,
    DatabaseSettings,
    Task,
    TaskStatus,
)
from offsetwatch.model.findings import TIME, FindingName, Severity, Verdict
from offsetwatch.model.history_documents import HOURS, Baseline
from offsetwatch.model.observations import (
    ConnectorsListed,
    FilteredTopics,
    Frozen,
    InputFailed,
    InputId,
    InputSucceeded,
    LogBounds,
    OffsetsTopicCompared,
    PartitionsAssigned,
    SinkOffset,
    SourceEndRead,
    TopicFactsRead,
    build_source_end_input,
)
from offsetwatch.model.source_ends import PostgresqlEnd, ReplicationSlot, SourceKind
from offsetwatch.model.topology import InternalTopicRole, TopicFacts, TopicPartition
from offsetwatch.notify.message_bodies import EVIDENCE_MAX
from offsetwatch.state.history_documents import BaselinesView
from offsetwatch.state.snapshot import GroupView, Loss, TopicRecreation
from offsetwatch.state.sources.source_ends import SourceSettings
from tests.changed import replace
from tests.evidence import pairs, texts
from tests.unit.judge.register_runs import BAD, INTERVAL_S, Play, connector, failed, task
from tests.unit.state.worlds import (
    FILE,
    OFFSETS,
    SYNCS,
    World,
    files,
    mirror,
    mirrors,
    orders,
    sink,
    source,
    sync,
)

ORDERS = TopicPartition("orders", 0)
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
FILE_IDENTITY = '{"filename":"/data/in.txt"}'


def filed(position: int = 1) -> Play:
    """`files` has committed this."""
    play = Play(files())
    play.world.commit("files", FILE, {"position": position})
    play.evaluate()
    return play


def mirrored(committed: int = 99, *, log_end: int = 100, log_start: int = 0) -> Play:
    """orders-0 is copied up to here, with a sync of it."""
    play = Play(mirrors())
    play.world.assigned(0)
    play.world.commit("mm2", orders(), {"offset": committed})
    play.world.synced(committed, downstream=committed)
    play.world.ends({ORDERS: LogBounds(log_start, log_end, log_end)})
    play.evaluate()
    return play


def altered(position: int = 500) -> Play:
    """orders-0 was copied to its end, and somebody then said it was further."""
    play = mirrored()
    play.world.commit("mm2", orders(), {"offset": position})
    play.world.ends(100)
    return play


def sunk(committed: int | None = 10, **changes) -> Play:
    world = World()
    world.listed(sink("out"))
    world.sinks(SinkOffset("out", "orders", 0, committed, 20))
    play = Play(world)
    play.more["sink_partitions"] = tuple(
        replace(view, **changes) for view in world.snapshot().sink_partitions
    )
    play.evaluate()
    return play


# --- what goes wrong -----------------------------------------------------------------------------


def a_connector_stalls() -> Play:
    play = filed()
    play.judge(Verdict.STALLED, "files")
    play.evaluate()
    return play


def a_flow_is_silent() -> Play:
    play = mirrored()
    play.judge(Verdict.SILENT, "mm2")
    play.evaluate()
    return play


def a_partition_went_back() -> Play:
    play = filed()
    play.judge(Verdict.REWOUND, "files", subjects=("filename=/data/in.txt",))
    play.evaluate()
    return play


def three_connectors_go_back() -> Play:
    names = ("a", "b", "c")
    play = Play(files())
    play.world.listed(*(source(name) for name in names))
    for name in names:
        play.world.commit(name, FILE, {"position": 9})
    play.evaluate()
    play.world.now += 5
    for name in names:
        play.world.commit(name, FILE, {"position": 7})
    play.evaluate()
    return play


def a_connector_has_failed() -> Play:
    play = filed()
    play.world.listed(source("files", state="failed", failure=BAD))
    play.evaluate()
    return play


def a_task_has_failed() -> Play:
    play = filed()
    play.world.listed(failed())
    play.evaluate()
    return play


def a_task_fails_at_one_position() -> Play:
    play = filed()
    play.status_followed()
    for _ in range(3):
        play.fail()
        play.run(0.2)
    return play


def a_task_fails_and_gets_on() -> Play:
    play = filed()
    play.status_followed()
    for number in range(4):
        play.fail()
        play.run(0.2)
        play.world.commit("files", FILE, {"position": 2 + number})
    return play


def a_sink_falls_below_the_log_start() -> Play:
    play = sunk(log_start=15)
    play.run(2)
    return play


def retention_comes_near() -> Play:
    play = mirrored(49)
    play.more["mirror_partitions"] = tuple(
        replace(view, headroom=49, headroom_s=20 * INTERVAL_S)
        for view in play.world.snapshot().mirror_partitions
    )
    play.evaluate()
    return play


def records_are_lost() -> Play:
    play = mirrored()
    moment = play.world.now
    lost = Loss("lab", "mm2", "west", "east", "orders", 0, "retention", 50, 74, moment)
    play.more["losses"] = (lost,)
    play.evaluate()
    return play


def a_topic_is_another_one() -> Play:
    play = mirrored()
    moment = play.world.now
    again = TopicRecreation("lab", "mm2", "west", "east", "orders", 1, moment, "id-1", "id-2")
    play.more["recreations"] = (again,)
    play.evaluate()
    return play


def a_position_is_past_the_end() -> Play:
    play = mirrored(500)
    play.run(1)
    return play


def a_flow_copies_again() -> Play:
    play = mirrored(99)
    play.world.commit("mm2", orders(), None)
    play.run(0.2)
    play.world.synced(10, downstream=110)
    play.world.commit("mm2", orders(), {"offset": 10})
    play.run(1.2)
    return play


def a_flow_copies_again_between_two_flushes() -> Play:
    play = mirrored(99)
    play.world.commit("mm2", orders(), None)
    play.run(0.2)
    play.world.synced(99, downstream=199)
    play.world.commit("mm2", orders(), {"offset": 99})
    play.run(1.2)
    return play


def stopped_and_reset() -> Play:
    play = mirrored()
    play.world.listed(replace(mirror(), state="stopped", tasks=()))
    play.world.commit("mm2", orders(), None)
    return play


def an_offset_is_reset_and_no_sync() -> Play:
    play = stopped_and_reset()
    play.run(3)
    return play


def an_offset_is_set_back_and_no_sync() -> Play:
    play = mirrored()
    play.world.listed(replace(mirror(), state="stopped", tasks=()))
    play.run(2)
    play.world.commit("mm2", orders(), {"offset": 60})
    play.run(3)
    return play


def the_syncs_are_deleted() -> Play:
    play = mirrored()
    play.world.tail_failed("not_found", SYNCS)
    play.run(3)
    return play


def there_is_no_sync_of_what_is_copied() -> Play:
    """Nobody ever saw one."""
    play = Play(mirrors())
    play.world.assigned(0)
    play.world.commit("mm2", orders(), {"offset": 5})
    play.run(1)
    play.world.commit("mm2", orders(), {"offset": 8})
    play.run(2.2)
    return play


def a_connector_is_recreated() -> Play:
    play = filed()
    play.run(1)
    play.world.listed()
    play.run(1)
    play.world.listed(source("files"))
    play.evaluate()
    return play


def a_connector_is_recreated_between_two_polls() -> Play:
    play = filed()
    play.status_followed()
    play.add_statuses(connector("running"), task("running"))
    play.run(1)
    gone = TaskStatus("files", 0, None)
    play.add_statuses(connector("unassigned"), connector(None), gone, connector("running"))
    play.evaluate()
    assert play.names() == []  # no task of it has begun
    play.add_statuses(task("running"))
    play.evaluate()
    assert play.names() == []  # the newest list may be of the connector that was deleted
    play.world.now += 1
    play.world.listed(source("files"))
    play.evaluate()
    return play


def test_offsets_that_the_class_of_a_new_connector_never_looks_up_are_not_gone_on_from():
    play = a_connector_is_recreated_between_two_polls()
    assert play.names() == [FindingName.REMNANT_OFFSETS]
    play.world.now += 1
    play.world.listed(source("files", class_name="io.confluent.connect.jdbc.JdbcSourceConnector"))
    play.evaluate()
    assert play.names() == []


def a_new_connector_has_old_offsets() -> Play:
    own = source("files", dedicated_offsets_topic="own")
    play = filed()
    play.world.listed(own)
    play.world.tail(topic=replace(OFFSETS, topic="own"), whole=True)
    play.evaluate()
    return play


def another_key_is_written() -> Play:
    play = filed()
    key = b'["files", {"filename": "/data/in.txt"}]'
    play.world.commit("files", FILE, {"position": 7}, raw_key=key)
    play.evaluate()
    return play


def an_offset_is_no_number() -> Play:
    play = mirrored()
    play.world.commit("mm2", orders(1), {"offset": "5"})
    play.evaluate()
    return play


def a_topic_is_not_compacted() -> Play:
    play = filed()
    facts = TopicFacts(
        at=OFFSETS,
        role=InternalTopicRole.OFFSETS,
        policy="delete",
        partitions=25,
        replication=1,
        brokers=1,
    )
    play.world.see(TopicFactsRead(kafka="east", facts=(facts,), at=play.world.now))
    play.evaluate()
    return play


def checkpoint(play: Play, *, age_s: float, **changes) -> None:
    view = GroupView(
        connect_cluster="lab",
        source="west",
        target="east",
        group="g",
        topic="orders",
        partition=0,
        upstream=90,
        best=90,
        start_offset=40,
        start_offset_from="checkpoint",
        translated=90,
        reread=50,
        skip=0,
        checkpoint_at=play.world.now - age_s,
    )
    play.more["groups"] = (replace(view, **changes),)


def checkpoints_stop() -> Play:
    play = mirrored()
    checkpoint(play, age_s=30)
    play.run(6)
    return play


def add_baseline(play: Play, **changes: Any) -> None:
    """Of mm2, at any hour: ten records to copy, hardly ever more than fifty."""
    baseline = Baseline(
        connect_cluster="lab",
        connector="mm2",
        since=0.0,
        until=play.world.now,
        advances=1000,
        per_hour=(60.0,) * HOURS,
        pause_advances=None,
        pause_s=None,
        quantiles=(1.0, 1.0, 2.0),
        lag=((10.0, 20.0, 50.0),) * HOURS,
    )
    of = {("lab", "mm2"): replace_struct(baseline, **changes)}
    play.more["baselines"] = BaselinesView(valid=True, of=of)


def a_flow_has_more_to_copy_than_ever(*, log_end: int = 301, **changes: Any) -> Play:
    """More than twice fifty and a hundred: 201."""
    play = mirrored(99, log_end=log_end)
    add_baseline(play, **changes)
    play.run(3.5)
    return play


def another_mirror_maker_writes_syncs() -> Play:
    """Ours commits nothing any more, while offset syncs go on."""
    play = mirrored()
    for offset in range(101, 107):
        play.world.synced(offset)
        play.run(1)
        play.world.commit("mm2", orders(), {"offset": offset})
        play.evaluate()
    for number in range(5):
        play.world.synced(200 + 10 * number)
        play.run(1)
    return play


def partitions_are_added() -> Play:
    """MirrorMaker, which looks for new ones every ten minutes, does not find them."""
    play = mirrored()
    bounds = {ORDERS: LogBounds(0, 100, 100)}
    play.world.ends(bounds, partitions={"orders": 2})
    play.evaluate()
    bounds[TopicPartition("orders", 1)] = LogBounds(3, 10, 10)
    play.world.ends(bounds, partitions={"orders": 2})
    play.run(12)
    return play


def a_transaction_hangs() -> Play:
    play = filed()
    play.world.tail(frozen=(Frozen(3, 10, "producer 7 since noon", 5),))
    play.evaluate()
    return play


def an_input_fails() -> Play:
    play = filed()
    fails = InputFailed(InputId("connect_rest", connect_cluster="lab"), "timeout", "no luck")
    play.run(1.2, each=lambda: play.world.see(fails))
    return play


def none_is_listed_and_one_works() -> Play:
    play = filed()
    answer = ConnectorsListed("lab", (), frozenset())

    def each() -> None:
        play.world.see(answer)
        play.world.commit("files", FILE, {"position": int(play.world.now)})

    play.run(2.5, each=each)
    return play


def a_worker_uses_another_kafka_cluster() -> Play:
    play = filed()
    for kafka in ("ours", "theirs"):
        play.world.see(ConnectorsListed("lab", (source("files"),), None, kafka))
    play.evaluate()
    return play


def a_connector_has_no_state() -> Play:
    play = filed()
    answer = ConnectorsListed("lab", (), frozenset({"files"}))
    play.run(1.5, each=lambda: play.world.see(answer))
    return play


def a_connector_has_no_configuration() -> Play:
    play = filed()
    bare = replace(source("files"), kind=ConnectorKind.UNKNOWN, class_name="", configured=False)
    play.run(10.5, each=lambda: play.world.listed(bare))
    return play


def a_connector_is_not_listed_and_works(name: str = "files") -> Play:
    play = filed()
    others = (source("files"),) if name != "files" else (source("other"),)
    play.world.listed(source("other"), source("files"))
    play.evaluate()
    answer = ConnectorsListed(
        "lab", others, frozenset(any_connector.name for any_connector in others)
    )

    def each() -> None:
        play.world.see(answer)
        play.world.commit(name, FILE, {"position": int(play.world.now)})

    play.run(2.5, each=each)
    return play


def rest_gives_other_offsets(rounds: int = 3) -> Play:
    play = filed()
    for _ in range(rounds):
        play.world.rest_offsets("files", {FILE_IDENTITY: '{"position":900}'})
        play.run(0.6)
    return play


def rest_gives_other_states() -> Play:
    play = filed()
    play.status_followed()
    play.add_statuses(task("failed", failure=BAD))
    for _ in range(3):
        play.world.listed(source("files"))
        play.run(0.2)
    return play


def tasks_lack_what_is_committed() -> Play:
    play = mirrored()
    offsets = count(100)

    def commit() -> None:
        offset = next(offsets)
        play.world.commit("mm2", orders(1), {"offset": offset})
        play.world.synced(offset, partition=1)

    play.run(3, each=commit)
    return play


def fewer_tasks_are_reported_than_listed() -> Play:
    play = mirrored()
    play.world.listed(replace(mirror(), tasks=(Task(0, "running"), Task(1, "running"))))
    partitions = frozenset({ORDERS})
    play.run(3, each=lambda: play.world.see(PartitionsAssigned("lab", "mm2", partitions, 1)))
    return play


def tasks_have_a_topic_that_is_not_selected() -> Play:
    play = mirrored()
    bounds, rejected = {ORDERS: LogBounds(0, 100, 100)}, FilteredTopics({}, frozenset({"orders"}))

    def report() -> None:
        play.world.ends(bounds, partitions={"orders": 1}, filtered={("lab", "mm2"): rejected})
        play.world.assigned(0)

    play.run(3, each=report)
    return play


def another_topic_has_them_too() -> Play:
    play = filed()
    play.world.see(OffsetsTopicCompared("lab", "several topics hold offsets of these connectors"))
    play.evaluate()
    return play


def series_are_left_out() -> Play:
    """A limit leaves no room for any connector."""
    play = Play(files(series_max=1))
    play.world.commit("files", FILE, {"position": 1})
    play.evaluate()
    return play


WAL = "io.debezium.connector.postgresql.PostgresConnector"
SHOP = build_source_end_input("shop")


def captured() -> Play:
    """`wal` reads a PostgreSQL server, which has sent it all."""
    world = World()
    world.book.watch_sources(
        (SourceSettings("shop", SourceKind.POSTGRESQL, {"lab": {"wal"}.__contains__}),)
    )
    settings = DatabaseSettings(slot="debezium", database="shop")
    world.listed(source("wal", class_name=WAL, database=settings))
    world.find_topic()
    world.tail(whole=True)
    world.commit("wal", {"server": "shop"}, {"lsn": 400})
    play = Play(world)
    ended(play)
    play.evaluate()
    return play


def ended(play: Play, end: int = 500, database: str = "shop", **slot: Any) -> None:
    """Its server is read."""
    fields = {"active": True, "sent": 500, "confirmed_flush": 100, "restart": 100, **slot}
    slots = {"debezium": ReplicationSlot("debezium", database, **fields)}
    now = play.world.now
    play.world.see(SourceEndRead("shop", PostgresqlEnd(end, slots), now), InputSucceeded(SHOP, now))


def a_source_is_later_than_ever() -> Play:
    return late_source(pause_s=30.0)


def a_source_is_later_than_at_this_hour() -> Play:
    return late_source(source_lag_s=((1.0, 5.0, 20.0),) * HOURS)


def late_source(**usual_values: Any) -> Play:
    """Changes wait for five intervals in a source whose connector has this baseline."""
    play = captured()
    usual = Baseline(
        connect_cluster="lab",
        connector="wal",
        since=0.0,
        until=play.world.now,
        advances=900,
        per_hour=(60.0,) * HOURS,
        pause_advances=None,
        quantiles=(0.5, 0.9, 0.99),
        **{"pause_s": None, **usual_values},
    )
    play.more["baselines"] = BaselinesView(valid=True, of={("lab", "wal"): usual})
    ends = count(600, 10)
    play.run(5, each=lambda: ended(play, next(ends)))
    return play


def a_slot_is_no_longer_reserved() -> Play:
    play = captured()
    play.run(1.5, each=lambda: ended(play, 600, wal_status="unreserved"))
    return play


def the_limit_of_wal_comes_near() -> Play:
    play = captured()
    ends = count(600, 100)
    play.run(1.5, each=lambda: ended(play, next(ends), safe_wal_size=9000))
    return play


def a_slot_is_lost() -> Play:
    play = captured()
    play.run(0.5, each=lambda: ended(play, wal_status="lost", active=False, sent=None))
    return play


def an_offset_is_past_the_end_of_its_source() -> Play:
    play = captured()
    play.world.commit("wal", {"server": "shop"}, {"lsn": 9000})
    play.run(3.5, each=lambda: ended(play))
    return play


def nothing_streams_from_a_slot() -> Play:
    play = captured()
    play.run(3.5, each=lambda: ended(play, active=False, sent=None))
    return play


def a_slot_is_of_another_database() -> Play:
    play = captured()
    play.run(1.5, each=lambda: ended(play, database="books"))
    return play


def a_source_does_not_answer() -> Play:
    play = captured()
    play.run(3.5, each=lambda: play.world.see(InputFailed(SHOP, "unreachable", "refused")))
    return play


FOUND = [
    (1, a_connector_stalls, FindingName.CONNECTOR_STALLED),
    (2, a_flow_is_silent, FindingName.MM2_SILENT_STALL),
    (3, a_partition_went_back, FindingName.REWOUND),
    (4, three_connectors_go_back, FindingName.REWINDS_AT_ONCE),
    (5, a_connector_has_failed, FindingName.CONNECTOR_FAILED),
    (6, a_task_has_failed, FindingName.TASK_FAILED),
    (7, a_task_fails_at_one_position, FindingName.POISON_SUSPECTED),
    (8, a_task_fails_and_gets_on, FindingName.RESTART_LOOP),
    (9, a_sink_falls_below_the_log_start, FindingName.SINK_BELOW_LOG_START),
    (10, retention_comes_near, FindingName.MM2_RETENTION_NEAR),
    (11, records_are_lost, FindingName.MM2_RECORDS_LOST),
    (12, a_topic_is_another_one, FindingName.MM2_TOPIC_RECREATED),
    (13, a_position_is_past_the_end, FindingName.MM2_POSITION_AHEAD),
    (14, a_flow_copies_again, FindingName.RECOPY),
    (14, a_flow_copies_again_between_two_flushes, FindingName.RECOPY),
    (15, an_offset_is_reset_and_no_sync, FindingName.HALF_RESET),
    (15, an_offset_is_set_back_and_no_sync, FindingName.HALF_RESET),
    (15, the_syncs_are_deleted, FindingName.HALF_RESET),
    (15, there_is_no_sync_of_what_is_copied, FindingName.HALF_RESET),
    (16, a_connector_is_recreated, FindingName.REMNANT_OFFSETS),
    (16, a_connector_is_recreated_between_two_polls, FindingName.REMNANT_OFFSETS),
    (17, a_new_connector_has_old_offsets, FindingName.STARTS_FROM_SCRATCH),
    (18, another_key_is_written, FindingName.DUPLICATE_KEYS),
    (19, an_offset_is_no_number, FindingName.UNUSABLE_OFFSET),
    (20, a_topic_is_not_compacted, FindingName.INTERNAL_TOPIC_PROBLEM),
    (21, checkpoints_stop, FindingName.CHECKPOINTS_STALE),
    (22, a_transaction_hangs, FindingName.HANGING_TRANSACTION),
    (23, an_input_fails, FindingName.INPUT_DOWN),
    (24, a_flow_has_more_to_copy_than_ever, FindingName.MM2_LAG_UNUSUAL),
    (25, another_mirror_maker_writes_syncs, FindingName.SYNCS_WITHOUT_COMMITS),
    (26, partitions_are_added, FindingName.UNREPLICATED_PARTITIONS),
    (27, none_is_listed_and_one_works, FindingName.CONNECT_CLUSTER_CHANGED),
    (27, a_worker_uses_another_kafka_cluster, FindingName.CONNECT_CLUSTER_CHANGED),
    (28, a_connector_has_no_state, FindingName.CONNECTOR_STATE_MISSING),
    (28, a_connector_has_no_configuration, FindingName.CONNECTOR_STATE_MISSING),
    (29, a_connector_is_not_listed_and_works, FindingName.CONNECTOR_NOT_LISTED),
    (30, rest_gives_other_offsets, FindingName.REST_OFFSETS_DIFFER),
    (31, another_topic_has_them_too, FindingName.OFFSETS_TOPIC_DOUBTED),
    (32, series_are_left_out, FindingName.SERIES_DROPPED),
    (33, rest_gives_other_states, FindingName.REST_STATES_DIFFER),
    (34, a_source_is_later_than_ever, FindingName.SOURCE_BEHIND),
    (34, a_source_is_later_than_at_this_hour, FindingName.SOURCE_BEHIND),
    (35, a_slot_is_no_longer_reserved, FindingName.SOURCE_RETENTION_NEAR),
    (35, the_limit_of_wal_comes_near, FindingName.SOURCE_RETENTION_NEAR),
    (36, a_slot_is_lost, FindingName.SOURCE_POSITION_LOST),
    (37, an_offset_is_past_the_end_of_its_source, FindingName.SOURCE_POSITION_AHEAD),
    (38, nothing_streams_from_a_slot, FindingName.SOURCE_SLOT_INACTIVE),
    (39, a_slot_is_of_another_database, FindingName.SOURCE_MISMATCH),
    (40, a_source_does_not_answer, FindingName.SOURCE_DOWN),
    (41, tasks_lack_what_is_committed, FindingName.REST_TASKS_DIFFER),
    (41, fewer_tasks_are_reported_than_listed, FindingName.REST_TASKS_DIFFER),
    (41, tasks_have_a_topic_that_is_not_selected, FindingName.REST_TASKS_DIFFER),
]
OF_SOURCES = [row[1] for row in FOUND if 34 <= row[0] <= 40]
IDS = [play.__name__ for _, play, _ in FOUND]


@pytest.mark.parametrize(("number", "play", "name"), FOUND, ids=IDS)
def test_what_goes_wrong_is_found_under_its_name_and_nothing_else_is(number, play, name):
    assert play().names() == [name.value]


def test_tasks_of_a_paused_connector_are_configured_later():
    play = tasks_have_a_topic_that_is_not_selected()
    (finding,) = play.findings
    assert finding.subject == "topics"
    assert texts(finding.evidence)["copied, not selected"] == "orders"
    play.world.listed(replace(mirror(), state="paused"))
    play.evaluate()
    assert FindingName.REST_TASKS_DIFFER not in play.names()


@pytest.mark.parametrize(("number", "play", "name"), FOUND, ids=IDS)
def test_without_its_rule_it_is_not_found(number, play, name, monkeypatch):
    others = tuple((other, rule) for other, rule in RULES if other != number)
    monkeypatch.setattr(register, "RULES", others)
    assert name.value not in play().names()


@pytest.mark.parametrize("built", OF_SOURCES)
def test_a_finding_of_a_source_ends_by_its_answer_and_not_by_silence(built):
    play = built()
    (name,) = play.names()
    failing = InputFailed(SHOP, "timeout", "no luck")
    play.run(3, each=lambda: play.world.see(failing))
    assert name in play.names()
    play.restart()
    play.run(1, each=lambda: play.world.see(failing))
    assert name in play.names()
    play.world.commit("wal", {"server": "shop"}, {"lsn": 480})
    play.run(0.5, each=lambda: ended(play))
    assert play.names() == []


def test_what_a_source_usually_lags_counts_more_than_the_pauses_of_its_connector():
    assert "it never paused for so long" in a_source_is_later_than_ever().only().summary
    late = a_source_is_later_than_at_this_hour().only().summary
    assert "at this hour it is hardly ever behind for more than 20 s" in late
    assert late_source(pause_s=30.0, source_lag_s=((1.0, 5.0, 300.0),) * HOURS).names() == []


def test_a_source_that_only_we_do_not_reach_is_said_to_be_read_by_its_connector():
    play = captured()
    positions = count(401)

    def each() -> None:
        play.world.see(InputFailed(SHOP, "timeout", "no luck"))
        play.world.commit("wal", {"server": "shop"}, {"lsn": next(positions)})

    play.run(4, each=each)
    assert play.names() == [FindingName.SOURCE_DOWN.value]
    assert play.only().severity is Severity.WARNING
    assert "wal still advances: only offsetwatch does not reach it" in play.only().summary


def test_a_source_that_denies_is_an_input_that_is_down():
    play = captured()
    play.run(3.5, each=lambda: play.world.see(InputFailed(SHOP, "denied", "no right")))
    assert play.names() == [FindingName.INPUT_DOWN.value]


def test_a_finding_remains_while_connect_lists_nothing_and_ends_with_its_connector():
    play = a_task_has_failed()
    play.world.see(ConnectorsListed("lab", (), frozenset()))
    play.evaluate()
    assert play.names() == [FindingName.TASK_FAILED.value]
    play.run(2.5, each=lambda: play.world.see(ConnectorsListed("lab", (), frozenset())))
    assert play.names() == [FindingName.TASK_FAILED.value]
    assert play.only().evidence[0].name == register.LAST_SEEN
    play.run(1, each=lambda: play.world.see(ConnectorsListed("lab", (), frozenset())))
    assert play.names() == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ConnectorsListed("lab", (), frozenset()), id="nothing"),
        pytest.param(ConnectorsListed("lab", (), frozenset({"files"})), id="no-state"),
    ],
)
def test_after_a_restart_what_connect_does_not_report_ends_no_finding(answer):
    """The connector was never listed to this process."""
    play = a_task_has_failed()
    report = play.register.remembered()
    again = Play(World())
    again.world.find_topic(OFFSETS)
    again.world.tail(whole=True)
    again.register.recall(report)
    again.world.now = play.world.now
    again.world.see(InputSucceeded(InputId("connect_rest", connect_cluster="lab"), again.world.now))
    again.run(2.5, each=lambda: again.world.see(answer))
    assert FindingName.TASK_FAILED.value in again.names()


@pytest.mark.parametrize("followed", [True, False])
def test_a_restart_neither_ends_nor_begins_doubt_of_a_status_topic(followed):
    play = rest_gives_other_states()
    (before,) = [item for item in play.findings if item.name is FindingName.REST_STATES_DIFFER]
    again = Play(World())
    again.world.book.recall(play.world.book.remembered())
    again.register.recall(play.register.remembered())
    again.world.now = play.world.now + 7200.0
    again.world.find_topic(OFFSETS)
    again.world.tail(whole=True)
    if followed:
        again.status_followed()
    for _ in range(5):
        again.run(0.5, each=lambda: again.world.listed(source("files")))
        (after,) = [item for item in again.findings if item.name is FindingName.REST_STATES_DIFFER]
        assert after.since == before.since


def test_an_end_of_what_connect_leaves_out_is_an_answer_that_has_it():
    play = a_connector_has_no_state()
    with play.hidden(InputId("connect_rest", connect_cluster="lab")):
        assert play.names() == [FindingName.CONNECTOR_STATE_MISSING.value]
    play.world.listed(source("files"))
    play.evaluate()
    assert play.names() == []


def test_a_task_that_has_failed_and_lost_its_state_has_failed_until_it_has_one_again():
    play = a_task_has_failed()
    hole = source("files", tasks=(Task(0, UNKNOWN_STATE),))
    play.run(30.0, each=lambda: play.world.listed(hole))
    results = {finding.name: finding.summary for finding in play.findings}
    assert results.keys() == {FindingName.TASK_FAILED, FindingName.CONNECTOR_STATE_MISSING}
    assert "no state of task 0" in results[FindingName.CONNECTOR_STATE_MISSING]
    play.run(4.0, each=lambda: play.world.listed(source("files")))
    assert play.names() == []


def test_a_connector_that_is_new_may_be_without_a_state_for_an_interval():
    play = filed()
    answer = ConnectorsListed("lab", (source("files"),), frozenset({"files", "new"}))
    play.run(0.9, each=lambda: play.world.see(answer))
    assert play.names() == []


def test_an_unknown_member_that_another_connect_cluster_lists_is_reported_elsewhere():
    play = a_connector_is_not_listed_and_works("stranger")
    assert play.names() == [FindingName.CONNECTOR_NOT_LISTED.value]
    assert play.only().connector == "stranger"


def test_two_rounds_that_differ_may_be_chance_and_one_that_agrees_ends_it():
    play = rest_gives_other_offsets(2)
    assert play.names() == []
    play = rest_gives_other_offsets(5)
    finding = play.only()
    since = texts(finding.evidence)["first differed"]
    assert f"than in east/connect-offsets since {since}: " in finding.summary
    assert pairs(finding.evidence)[:2] == [
        (f"{FILE_IDENTITY} over REST", '{"position":900}'),
        (f"{FILE_IDENTITY} in the topic", '{"position":1}'),
    ]
    play.world.rest_offsets("files", {FILE_IDENTITY: '{"position":1}'})
    play.run(0.4)
    assert play.names() == [FindingName.REST_OFFSETS_DIFFER.value]
    play.run(0.2)
    assert play.names() == []


def test_a_topic_that_was_found_again_is_not_doubted_any_more():
    play = another_topic_has_them_too()
    play.restart()
    play.more["topic_doubts"] = {}  # nobody has looked again since
    play.evaluate()
    assert play.names() == [FindingName.OFFSETS_TOPIC_DOUBTED.value]
    del play.more["topic_doubts"]
    play.world.see(OffsetsTopicCompared("lab", None))
    play.evaluate()
    assert play.names() == []


def test_every_rule_has_a_row_and_a_number_of_its_own():
    assert [number for number, _ in RULES] == sorted({number for number, _, _ in FOUND})


def test_every_rule_begins_with_its_number_and_its_rule():
    for number, rule in RULES:
        assert (rule.__doc__ or "").startswith(f"Rule {number}: ")


@pytest.mark.parametrize(("number", "play", "name"), FOUND, ids=IDS)
def test_a_finding_is_one_sentence_or_two_with_evidence_and_reports_nothing_twice(
    number, play, name
):
    finding = play().only()
    assert finding.summary.endswith(".")
    assert len(finding.summary) < 250
    assert finding.evidence or number in {1, 2, 5}  # that of the verdict, or of the failure
    assert all(name and text for name, text in pairs(finding.evidence))
    assert len(finding.evidence) <= EVIDENCE_MAX
    times = [item.value for item in finding.evidence if item.unit == TIME]
    assert all(RFC_3339.fullmatch(str(item)) for item in times)
    assert not any(
        RFC_3339.search(str(item.value)) for item in finding.evidence if item.unit != TIME
    )


@pytest.mark.parametrize(
    ("verdict", "built", "name"),
    [
        (Verdict.STALLED, filed, FindingName.CONNECTOR_STALLED),
        (Verdict.SILENT, filed, FindingName.CONNECTOR_SILENT),
        (Verdict.STALLED, mirrored, FindingName.MM2_STALLED),
        (Verdict.SILENT, mirrored, FindingName.MM2_SILENT_STALL),
        (Verdict.STALLED, sunk, FindingName.SINK_STUCK),
        (Verdict.SILENT, sunk, FindingName.SINK_STUCK),
    ],
)
def test_a_verdict_has_a_name_of_its_own_for_each_kind_of_connector(verdict, built, name):
    play = built()
    kind = {filed: "files", mirrored: "mm2", sunk: "out"}[built]
    play.judge(verdict, kind)
    play.evaluate()
    assert play.names() == [name.value]
    expected = Severity.CRITICAL if verdict is Verdict.SILENT else Severity.WARNING
    assert play.only().severity is expected
    if verdict is Verdict.STALLED:
        who = "mm2 (west->east)" if built is mirrored else kind
        assert play.only().summary.startswith(f"{who} makes no progress: ")


def test_while_it_is_unclear_whether_a_flow_copies_again_it_is_not_reported_to_have_gone_back():
    play = mirrored(99)
    play.world.commit("mm2", orders(), None)
    play.run(0.2)
    play.world.commit("mm2", orders(), {"offset": 10})
    play.judge(Verdict.REWOUND, "mm2", subjects=("orders-0",))
    play.run(0.5)
    assert "rewound" not in play.names()


@pytest.mark.parametrize(
    "verdict", [Verdict.OK, Verdict.IDLE, Verdict.SLOW, Verdict.UNKNOWN], ids=str
)
def test_any_other_verdict_is_no_finding(verdict):
    play = filed()
    play.judge(verdict, "files")
    play.judge(verdict, "files", subjects=("filename=/data/in.txt",))
    play.evaluate()
    assert play.names() == []


# --- what looks alike, and is well ---------------------------------------------------------------


def a_flow_has_just_begun() -> Play:
    """Its first sync comes with the first record, its first commit an interval later."""
    play = Play(mirrors())
    play.world.assigned(0)
    play.world.synced(0)
    play.run(1)
    play.world.commit("mm2", orders(), {"offset": 40})
    play.world.synced(40)
    play.run(5)
    return play


def a_flow_is_at_work() -> Play:
    """Syncs come before the commits that cover them."""
    play = mirrored(99)
    for number in range(8):
        play.world.synced(110 + 10 * number)
        play.run(0.5)
        play.world.commit("mm2", orders(), {"offset": 110 + 10 * number})
        play.world.ends(120 + 10 * number)
        play.run(0.5)
    return play


def a_flow_emits_no_syncs() -> Play:
    play = Play(mirrors(mirror(syncs_topic=None)))
    play.world.assigned(0)
    for number in range(5):
        play.world.commit("mm2", orders(), {"offset": number})
        play.run(1)
    return play


def both_stores_are_reset() -> Play:
    play = stopped_and_reset()
    play.world.tail_failed("not_found", SYNCS)
    play.run(5)
    return play


def the_operator_has_a_flow_copied_again() -> Play:
    play = stopped_and_reset()
    play.run(1)
    play.world.listed(mirror())
    play.world.synced(0, downstream=100)
    play.run(0.5)
    play.world.commit("mm2", orders(), {"offset": 10})
    play.run(3)
    return play


def a_worker_dies_and_repeats_what_it_had_not_committed() -> Play:
    play = mirrored(99, log_end=200)
    play.world.synced(140)
    play.run(0.5)
    play.world.synced(100, downstream=141)
    play.run(0.2)
    play.world.commit("mm2", orders(), {"offset": 150})
    play.world.synced(150, downstream=191)
    play.run(3)
    return play


def tasks_are_moved_about() -> Play:
    """A rolling restart: each worker goes and comes, and nothing fails."""
    play = filed()
    play.status_followed()
    for generation in range(6):
        for state in ("unassigned", "running"):
            says = connector(state)
            play.add_statuses(
                replace(says, condition=replace(says.condition, generation=generation))
            )
            play.run(0.1)
    return play


def a_task_fails_twice_for_different_reasons() -> Play:
    play = filed()
    play.status_followed()
    for failure in (BAD, "org.example.Worse in Files.poll"):
        play.fail(failure=failure)
        play.run(0.5)
    return play


def a_database_is_away_each_night() -> Play:
    """The same error at the same position, and in between it ran for hours."""
    play = filed()
    play.status_followed()
    for _ in range(4):
        play.fail()
        play.run(0.2)
        play.add_statuses(task("running"))
        play.run(12)
    return play


def a_new_connector_is_deployed() -> Play:
    play = filed()
    play.run(1)
    play.world.listed(source("files"), source("more"))
    play.run(0.2)
    play.world.commit("more", {"filename": "/x"}, {"position": 1})
    play.run(3)
    return play


def a_topic_is_another_one_and_smaller() -> Play:
    """Its end is seen before its id; MM2 begins again with it. All that is told is rule 12's."""
    play = mirrored(99)
    play.world.ends(10)
    play.run(0.5)
    moment = play.world.now
    again = TopicRecreation("lab", "mm2", "west", "east", "orders", 1, moment, "id-1", "id-2")
    play.more["recreations"] = (again,)
    play.evaluate()
    play.world.synced(9, downstream=109)
    play.world.commit("mm2", orders(), {"offset": 9})
    play.run(6)
    return play


def a_connector_is_deleted_and_reset() -> Play:
    play = filed()
    play.world.commit("files", FILE, None)
    play.run(1)
    play.world.listed()
    play.run(1)
    play.world.listed(source("files"))
    play.run(2)
    return play


def retention_follows_what_was_read() -> Play:
    play = mirrored(99, log_start=90)
    play.more["mirror_partitions"] = tuple(
        replace(view, headroom=10, headroom_s=30.0, caught_up=True)
        for view in play.world.snapshot().mirror_partitions
    )
    play.run(5)
    return play


def retention_runs_after_a_flow_that_keeps_up() -> Play:
    """The dense records of the day are deleted while few new ones come."""
    play = mirrored(89, log_end=100)
    play.more["mirror_partitions"] = tuple(
        replace(view, headroom=90, headroom_s=20 * INTERVAL_S)
        for view in play.world.snapshot().mirror_partitions
    )
    play.run(5)
    return play


def two_connectors_go_back() -> Play:
    play = Play(files())
    play.world.listed(source("a"), source("b"))
    for position in (9, 7):
        for name in ("a", "b"):
            play.world.commit(name, FILE, {"position": position})
        play.run(0.1)
    return play


def checkpoints_go_on() -> Play:
    play = mirrored()
    for number in range(8):
        checkpoint(play, age_s=5, start_offset=40 + number, translated=60 + number)
        play.world.synced(200 + number)
        play.world.commit("mm2", orders(), {"offset": 200 + number})
        play.run(1)
    return play


def a_quiet_group_wakes() -> Play:
    """Its checkpoint is old, and was as good as any until now."""
    play = mirrored()
    checkpoint(play, age_s=36_000, start_offset=90)
    play.world.synced(200)
    play.run(5)
    checkpoint(play, age_s=36_000, start_offset=80)
    play.run(1)
    checkpoint(play, age_s=0, start_offset=90)
    play.run(4)
    return play


def a_group_lands_on_a_commit_of_its_own() -> Play:
    """Its checkpoint may be as good as any: what it did at the target itself comes before it."""
    play = mirrored()
    checkpoint(play, age_s=30, start_offset_from="group")
    play.run(6)
    return play


def a_group_that_is_not_translated() -> Play:
    play = mirrored()
    checkpoint(play, age_s=0, checkpoint_at=None, start_offset=None)
    play.run(6)
    return play


def an_input_is_away_for_less_than_an_interval() -> Play:
    play = filed()
    fails = InputFailed(InputId("connect_rest", connect_cluster="lab"), "timeout", "no luck")
    play.run(0.9, each=lambda: play.world.see(fails))
    play.world.listed(source("files"))
    play.run(2)
    return play


def the_operator_sets_a_position_back() -> Play:
    play = filed(9)
    play.world.listed(source("files", state="stopped", tasks=()))
    play.run(1)
    play.world.commit("files", FILE, {"position": 2})
    play.run(1)
    play.world.listed(source("files"))
    play.judge(Verdict.REWOUND, "files", subjects=("filename=/data/in.txt",))
    play.run(9)
    return play


def an_input_misses_one_attempt() -> Play:
    play = filed()
    for _ in range(5):
        play.world.see(
            InputFailed(InputId("connect_rest", connect_cluster="lab"), "timeout", "no luck")
        )
        play.evaluate()
        play.world.listed(source("files"))
        play.run(0.1)
    return play


def a_status_topic_may_not_be_read() -> Play:
    play = filed()
    play.status_followed()
    for _ in range(9):
        play.world.tail_failed("denied", replace(OFFSETS, topic="connect-status"))
        play.run(1)
    return play


def a_sink_reads_on_above_its_commit() -> Play:
    """Its last commit lies below the start of the log for less than the next takes to come."""
    play = sunk(log_start=15)
    play.run(1.5)
    play.more["sink_partitions"] = tuple(
        replace(view, committed=18) for view in play.world.snapshot().sink_partitions
    )
    play.run(3)
    return play


def retention_takes_a_transactions_marker() -> Play:
    play = sunk(19, log_start=20, caught_up=True)
    play.run(5)
    return play


def topics_that_were_never_recreated() -> Play:
    play = mirrored()
    never = TopicRecreation("lab", "mm2", "west", "east", "orders", 0, play.world.now, None, None)
    play.more["recreations"] = (never,)
    play.run(3)
    return play


def what_retention_took_is_not_near_it() -> Play:
    """Whether it was copied all the same, the next commit tells."""
    play = mirrored(49, log_start=60)
    play.more["mirror_partitions"] = tuple(
        replace(view, headroom=-10, headroom_s=0.0)
        for view in play.world.snapshot().mirror_partitions
    )
    play.run(3)
    return play


def a_flow_has_as_much_to_copy_as_it_may() -> Play:
    return a_flow_has_more_to_copy_than_ever(log_end=300)


def a_flow_of_which_no_lag_is_known_to_be_usual() -> Play:
    return a_flow_has_more_to_copy_than_ever(lag=None)


def a_flow_has_much_to_copy_for_a_moment() -> Play:
    play = mirrored(99, log_end=301)
    add_baseline(play)
    play.run(2.8)
    play.world.commit("mm2", orders(), {"offset": 299})
    play.world.synced(299, downstream=299)
    play.world.ends(301)
    play.run(3)
    return play


def the_operator_has_paused_a_flow() -> Play:
    play = mirrored(99, log_end=9000)
    add_baseline(play)
    play.world.listed(replace(mirror(), state="paused"))
    play.run(5)
    return play


WELL = [
    a_flow_has_as_much_to_copy_as_it_may,
    a_flow_of_which_no_lag_is_known_to_be_usual,
    a_flow_has_much_to_copy_for_a_moment,
    the_operator_has_paused_a_flow,
    a_flow_has_just_begun,
    a_flow_is_at_work,
    a_flow_emits_no_syncs,
    both_stores_are_reset,
    the_operator_has_a_flow_copied_again,
    a_worker_dies_and_repeats_what_it_had_not_committed,
    tasks_are_moved_about,
    a_task_fails_twice_for_different_reasons,
    a_database_is_away_each_night,
    a_new_connector_is_deployed,
    a_connector_is_deleted_and_reset,
    retention_follows_what_was_read,
    retention_runs_after_a_flow_that_keeps_up,
    two_connectors_go_back,
    checkpoints_go_on,
    a_quiet_group_wakes,
    a_group_lands_on_a_commit_of_its_own,
    a_group_that_is_not_translated,
    an_input_is_away_for_less_than_an_interval,
    an_input_misses_one_attempt,
    the_operator_sets_a_position_back,
    a_status_topic_may_not_be_read,
    a_sink_reads_on_above_its_commit,
    retention_takes_a_transactions_marker,
    topics_that_were_never_recreated,
    what_retention_took_is_not_near_it,
]


@pytest.mark.parametrize("played", WELL, ids=lambda play: play.__name__)
def test_what_is_well_is_no_finding_at_any_moment(played, monkeypatch):
    assert list_findings(played, monkeypatch) == set()


def test_a_stall_explains_why_there_is_more_to_copy_than_ever():
    play = a_flow_has_more_to_copy_than_ever()
    play.judge(Verdict.SILENT, "mm2")
    play.evaluate()
    assert play.names() == [FindingName.MM2_SILENT_STALL.value]
    assert ("explains", "mm2_lag_unusual") in pairs(play.only().evidence)


def test_a_topic_that_is_another_one_explains_all_that_follows(monkeypatch):
    assert list_findings(a_topic_is_another_one_and_smaller, monkeypatch) == {"mm2_topic_recreated"}


def test_an_altered_offset_that_was_resumed_from_is_over_when_all_is_copied(monkeypatch):
    def played() -> None:
        play = altered()
        play.run(2)
        play.world.commit("mm2", orders(), {"offset": 99})
        play.world.synced(99, downstream=199)
        play.world.ends(100)
        play.run(2)
        assert play.names() == ["recopy"]
        play.run(3)
        assert play.names() == []

    assert list_findings(played, monkeypatch) == {"mm2_position_ahead", "recopy"}


def list_findings(played, monkeypatch) -> set[str]:
    """The names of everything that was found at any moment of a play."""
    names: set[str] = set()
    poll = Play.evaluate

    def noted(play: Play):
        results = poll(play)
        names.update(finding.name.value for finding in results)
        return results

    monkeypatch.setattr(Play, "evaluate", noted)
    played()
    return names


def test_a_topic_that_is_there_again_takes_its_tail_down_for_a_moment_only(monkeypatch):
    def played() -> None:
        play = mirrored()
        play.run(3, each=lambda: play.world.tail_failed("not_found", SYNCS))
        play.world.tail_failed("topic_changed", SYNCS)
        play.run(0.2)
        play.world.tail(sync(99, at=play.world.now), topic=SYNCS, whole=True)
        play.run(3)

    assert list_findings(played, monkeypatch) == {"half_reset"}


def recreate_topic(play: Play) -> None:
    moment = play.world.now
    again = TopicRecreation("lab", "mm2", "west", "east", "orders", 1, moment, "id-1", "id-2")
    play.more["recreations"] = (again,)
    play.run(0.5)


@pytest.mark.parametrize("known", ["long before", "before", "after"])
def test_what_is_copied_of_a_topic_recreated_is_no_second_copy(known, monkeypatch):
    def played() -> None:
        play = mirrored(39, log_end=40)
        if known != "after":
            recreate_topic(play)
        play.world.ends(10)
        play.run(8 if known == "long before" else 0.2)
        play.world.synced(0, downstream=40)
        play.run(0.3)
        play.world.commit("mm2", orders(), {"offset": 9})
        play.run(0.3)
        if known == "after":
            recreate_topic(play)
        play.run(8)
        assert play.names() == []

    assert list_findings(played, monkeypatch) == {"mm2_topic_recreated"}


def test_a_position_ahead_is_not_explained_by_a_topic_that_was_never_recreated():
    play = mirrored(500)
    never = TopicRecreation("lab", "mm2", "west", "east", "orders", 0, 0.0, None, None)
    play.more["recreations"] = (never,)
    play.run(2)
    assert play.names() == ["mm2_position_ahead"]


def test_a_second_copy_was_never_at_an_offset_beyond_the_end():
    play = altered()
    play.run(2)
    play.world.commit("mm2", orders(), {"offset": 10})
    play.run(1.5)
    (report,) = (finding for finding in play.findings if finding.name is FindingName.RECOPY)
    assert texts(report.evidence)["orders-0 was at"] == "99"


@pytest.mark.parametrize("result", [False, True])
def test_what_an_operator_sets_back_and_resumes_at_once_is_meant(result, monkeypatch):
    """Between two looks, or with the offsets read after the status; states were polled before."""

    def played() -> None:
        play = mirrored(99)
        play.status_followed()
        play.add_statuses(connector("running", name="mm2"))
        play.run(1)
        play.world.listed(replace(mirror(), state="stopped", tasks=()))
        play.add_statuses(connector("stopped", name="mm2"))
        play.run(1)
        play.world.now += 1
        set_at = play.world.now
        play.world.now += 1
        play.add_statuses(connector("running", name="mm2"))
        if result:
            play.run(0.1)
        play.world.commit("mm2", orders(), {"offset": 10}, at=set_at)
        play.run(1)
        play.world.synced(11, downstream=100)
        play.world.listed(mirror())
        play.run(0.2)
        play.world.commit("mm2", orders(), {"offset": 99})
        play.world.synced(99, downstream=188)
        play.run(4)

    assert list_findings(played, monkeypatch) == set()


def test_a_position_set_beyond_the_end_and_back_again_is_no_second_copy(monkeypatch):
    def played() -> None:
        play = altered()
        play.run(2)
        play.world.commit("mm2", orders(), {"offset": 99})
        play.world.ends(100)
        play.run(4)

    assert list_findings(played, monkeypatch) == {"mm2_position_ahead"}


def test_the_first_syncs_after_a_resume_report_a_second_copy_whatever_states_were_polled():
    play = altered()
    play.status_followed()
    play.world.listed(replace(mirror(), state="stopped", tasks=()))
    play.add_statuses(connector("stopped", name="mm2"))
    play.run(2)
    play.add_statuses(connector("running", name="mm2"))
    play.world.synced(99, downstream=199)
    play.run(1.2)
    (report,) = (finding for finding in play.findings if finding.name is FindingName.RECOPY)
    evidence = texts(report.evidence)
    assert (evidence["orders-0 copied again from"], evidence["orders-0 was at"]) == ("0", "99")


@pytest.mark.parametrize(
    ("headroom_s", "severity"),
    [
        (10 * INTERVAL_S - 1, Severity.CRITICAL),
        (10 * INTERVAL_S, Severity.WARNING),
        (60 * INTERVAL_S - 1, Severity.WARNING),
        (60 * INTERVAL_S, None),
    ],
)
def test_retention_is_near_within_an_hour_and_very_near_within_ten_minutes(headroom_s, severity):
    play = mirrored(49)
    play.more["mirror_partitions"] = tuple(
        replace(view, headroom=49, headroom_s=headroom_s)
        for view in play.world.snapshot().mirror_partitions
    )
    play.evaluate()
    assert [finding.severity for finding in play.findings] == (
        [] if severity is None else [severity]
    )


def test_a_failed_task_is_reported_with_what_it_failed_of():
    assert ("task 0", BAD) in pairs(a_task_has_failed().only().evidence)


def test_a_task_that_fails_before_anything_was_committed_is_reported_so():
    play = Play(files())
    play.status_followed()
    for _ in range(3):
        play.fail()
        play.run(0.2)
    assert play.names() == ["poison_suspected"]
    assert ("position", "no commit yet") in pairs(play.only().evidence)
    (run,) = play.register.failure_runs
    assert (run.connector, run.task, run.count, run.failure) == ("files", 0, 3, BAD)


def test_a_sink_that_has_committed_nothing_fails_at_no_offset():
    play = sunk(None)
    play.world.find_topic()
    play.status_followed()
    for _ in range(3):
        play.fail("out")
        play.run(0.2)
    assert play.only().name is FindingName.POISON_SUSPECTED
    assert "Bad at orders-0;" in play.only().summary
    assert ("orders-0 position", "no commit yet") in pairs(play.only().evidence)


@pytest.mark.parametrize("before", [0, 1], ids=["at the first failure", "at a later one"])
def test_what_a_task_commits_as_it_ends_is_where_it_failed(before: int):
    """Its position is read later than that it failed; had that counted as getting past it, it would
    fail for good and nobody would be asked to help.
    """
    play = filed()
    play.status_followed()
    for _ in range(before + 1):
        play.fail()
        play.run(0.2)
    play.world.commit("files", FILE, {"position": 77})
    play.run(0.2)
    (run,) = play.register.failure_runs
    assert (run.count, [name for _, name in run.same]) == (1, ['{"position":77}'])
    for _ in range(2):
        play.fail()
        play.run(0.2)
    (run,) = play.register.failure_runs
    assert (run.count, run.moved) == (3, False)
    assert play.names() == ["poison_suspected"]


def test_positions_that_are_read_after_a_task_has_failed_are_those_at_which_it_did():
    play = Play(files())
    play.status_followed()
    play.fail()
    play.run(0.2)
    play.world.commit("files", FILE, {"position": 5})
    play.run(0.2)
    play.fail()
    play.run(0.2)
    (run,) = play.register.failure_runs
    assert (run.count, [name for _, name in run.same]) == (2, ['{"position":5}'])


def test_a_task_that_got_past_its_failure_and_runs_is_over_it():
    play = filed()
    play.status_followed()
    play.fail()
    play.run(0.2)
    play.add_statuses(task("running"))
    play.world.commit("files", FILE, {"position": 77})
    play.run(0.2)
    assert play.register.failure_runs == ()


def test_a_connector_that_went_back_beside_those_that_did_together_is_reported_as_well():
    play = three_connectors_go_back()
    play.world.listed(*(source(name) for name in "abcd"))
    play.judge(Verdict.REWOUND, "a", "d", subjects=("filename=/data/in.txt",))
    play.evaluate()
    reports = {(finding.name, finding.connector) for finding in play.findings}
    assert reports == {(FindingName.REWINDS_AT_ONCE, None), (FindingName.REWOUND, "d")}


def test_an_offset_that_is_taken_back_under_another_alias_is_no_reset_of_this_flow():
    play = mirrored()
    for offset in ({"offset": 1}, None):
        play.world.commit("mm2", orders(cluster="north"), offset)
    play.run(4)
    assert play.names() == []


def test_a_tail_that_is_not_yet_at_its_end_is_slow_and_not_down():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    play = Play(world)
    play.run(3, each=lambda: world.tail(caught_up=False))
    assert play.names() == []


def test_an_offsets_topic_that_may_not_be_read_is_more_than_a_status_topic_would_be():
    play = filed()
    play.run(2, each=lambda: play.world.tail_failed("denied"))
    assert play.names() == ["input_down"]
    assert play.only().severity is Severity.WARNING


def test_checkpoints_are_stale_two_intervals_after_the_oldest_is_three_old():
    play = mirrored()
    checkpoint(play, age_s=30)
    play.run(4.4)
    assert play.names() == []
    play.run(0.3)
    assert play.names() == ["checkpoints_stale"]


def test_of_every_finding_it_is_known_what_it_is_observed_in():
    assert set(FindingName) <= register._INPUTS_BY_FINDING.keys()


@pytest.mark.parametrize(
    ("play", "name"),
    [
        (partitions_are_added, FindingName.UNREPLICATED_PARTITIONS),
        (altered, FindingName.MM2_POSITION_AHEAD),
    ],
)
def test_nothing_of_a_flow_is_resolved_by_tasks_that_are_not_reported(play, name):
    played = play()
    played.run(4)
    assert name.value in played.names()
    tasks = dict(played.world.tasks)
    played.world.tasks.clear()
    played.run(15)
    assert ("lab", "mm2") in played.world.snapshot().outdated_assignments
    assert name.value in played.names()
    played.world.tasks |= tasks
    played.world.assigned(0, 1)
    played.world.commit("mm2", orders(0), {"offset": 99})
    played.world.commit("mm2", orders(1), {"offset": 9})
    played.world.ends(
        {ORDERS: LogBounds(0, 100, 100), TopicPartition("orders", 1): LogBounds(3, 10, 10)},
        partitions={"orders": 2},
    )
    played.run(1)
    assert name.value not in played.names()
