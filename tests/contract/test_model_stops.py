"""How stops of the model come late, or by halves, or leave zombies behind, as real ones do by their
code.
"""

from __future__ import annotations

import httpx
import pytest

from tests.contract.worlds import (
    SINK_NAME,
    SOURCE_NAME,
    TOPIC,
    alter,
    file_position,
    grow,
    numbers,
    request,
    spot,
    state,
    stored,
    with_sink,
    with_source,
)
from tests.fakes.connect_model import (
    SINK,
    FakeConnect,
    Fault,
    How,
)

STOPPED = ("STOPPED", [])
RUNNING = ("RUNNING", ["RUNNING"])


# --- stop ----------------------------------------------------------------------------------------


def test_a_stop_that_is_answered_too_late_is_carried_out_all_the_same():
    connect = with_sink(records=1)
    connect.workers[0].hold(120.0)
    began = connect.line.now()
    status, answer = request(connect.door(), "PUT", SINK_NAME, "/stop")
    assert status == 500
    assert answer["message"].startswith("Request timed out. The ")
    assert connect.line.now() - began == pytest.approx(90.0, abs=0.1)
    assert state(connect, SINK_NAME) == RUNNING
    connect.advance(60.0)
    assert state(connect, SINK_NAME) == STOPPED


def test_a_resume_overtakes_a_stop_that_waits_and_is_undone_by_it():
    connect = with_sink(records=1)
    connect.workers[0].hold(30.0)
    connection = connect.door()
    connection.next_time.append(("PUT", "/stop$", Fault(How.LATE)))
    with pytest.raises(httpx.ReadError):
        request(connection, "PUT", SINK_NAME, "/stop")
    assert request(connection, "PUT", SINK_NAME, "/resume")[0] == 202
    connect.advance(60.0)
    assert state(connect, SINK_NAME) == STOPPED


@pytest.mark.parametrize("how", ["crash", "fail"])
def test_half_a_stop_leaves_a_connector_that_runs_without_tasks(how):
    connect = FakeConnect(workers=2)
    connect.create("another", {"connector.class": SINK, "topics": TOPIC})
    connect.create(SINK_NAME, {"connector.class": SINK, "topics": TOPIC})
    (owner,) = [worker for worker in connect.workers if SINK_NAME in worker.connectors]
    assert not owner.leads  # else it would die with its leader, and be started anew, with tasks
    connect.half_stops[SINK_NAME] = how
    connection = connect.door()
    assert (
        connection.reply("PUT", owner.url, f"/connectors/{SINK_NAME}/stop", b"", 100.0).status
        == 500
    )
    connect.advance(5.0)
    assert state(connect, SINK_NAME) == ("RUNNING", [])
    assert connect.config_log[-1].key == f"commit-{SINK_NAME}"


def test_half_a_stop_is_fixed_by_a_resume_and_finished_by_another_stop():
    for verb, expected in (("resume", RUNNING), ("stop", STOPPED)):
        connect = with_sink(records=1)
        connect.half_stops[SINK_NAME] = "fail"
        connection = connect.door()
        assert request(connection, "PUT", SINK_NAME, "/stop")[0] == 500
        connect.advance(5.0)
        request(connection, "PUT", SINK_NAME, f"/{verb}")
        connect.advance(5.0)
        assert state(connect, SINK_NAME) == expected


def test_a_leader_that_dies_between_the_two_writes_breaks_the_connection():
    connect = with_sink(records=1)
    connect.half_stops[SINK_NAME] = "crash"
    with pytest.raises(httpx.RemoteProtocolError):
        request(connect.door(), "PUT", SINK_NAME, "/stop")
    with pytest.raises(httpx.ConnectError):
        request(connect.door(), "GET", SINK_NAME, "/status")
    connect.restart_worker()
    connect.advance(20.0)
    assert state(connect, SINK_NAME) == RUNNING


# --- zombies -------------------------------------------------------------------------------------


def test_a_task_that_hangs_lets_the_stop_be_over_after_five_seconds_and_becomes_a_zombie():
    connect = with_source(lines=2)
    connect.hang(SOURCE_NAME, "poll", 60.0)
    connection = connect.door()
    request(connection, "PUT", SOURCE_NAME, "/stop")
    connect.advance(4.0)
    assert state(connect, SOURCE_NAME) == ("STOPPED", ["RUNNING"])
    connect.advance(2.0)
    assert state(connect, SOURCE_NAME) == STOPPED
    assert [task.number for task in connect.zombies if task.process.alive] == [0]


def test_the_last_commit_of_a_zombie_overwrites_what_was_altered_meanwhile():
    connect = with_source(lines=2)
    grow(connect, 2)
    connect.advance(1.0)  # read, and not committed yet
    connect.hang(SOURCE_NAME, "poll", 60.0)
    connection = connect.door()
    request(connection, "PUT", SOURCE_NAME, "/stop")
    connect.advance(6.0)
    assert alter(connection, SOURCE_NAME, file_position(10))[0] == 200
    assert stored(connect, SOURCE_NAME) == [{"position": 10}]
    connect.advance(60.0)
    assert stored(connect, SOURCE_NAME) == [{"position": 40}]
    assert connect.effects[-1].by == f"zombie {SOURCE_NAME}-0"


@pytest.mark.parametrize("built", [{"exactly_once": True}, {"own": True}])
def test_a_zombie_commits_nothing_that_is_fenced_or_has_a_producer_of_its_own(built):
    own = {"offsets.storage.topic": "own-offsets"} if built.pop("own", False) else {}
    connect = with_source(lines=2, config=own, **built)
    grow(connect, 2)
    connect.hang(SOURCE_NAME, "poll", 60.0)
    connect.advance(1.0)
    connection = connect.door()
    request(connection, "PUT", SOURCE_NAME, "/stop")
    connect.advance(6.0)
    assert alter(connection, SOURCE_NAME, file_position(10))[0] == 200
    connect.advance(60.0)
    assert stored(connect, SOURCE_NAME) == [{"position": 10}]


def test_offsets_of_a_sink_cannot_be_altered_while_a_zombie_is_in_its_group():
    connect = with_sink(records=1)
    connect.hang(SINK_NAME, "put", 60.0)
    connect.broker.produce(TOPIC, b"")
    connect.advance(1.0)
    connection = connect.door()
    request(connection, "PUT", SINK_NAME, "/stop")
    connect.advance(6.0)
    assert state(connect, SINK_NAME) == STOPPED
    for method in ("PATCH", "DELETE"):
        body = {"offsets": [dict(zip(("partition", "offset"), spot(0), strict=True))]}
        status, answer = request(connection, method, SINK_NAME, "/offsets", body)
        assert status == 500
        assert "get rid of the zombie sink tasks" in answer["message"]
    connect.advance(60.0)
    assert alter(connection, SINK_NAME, spot(0))[0] == 200
    # It has delivered what it was about to, and committed nothing of it.
    assert numbers(connect, SINK_NAME) == [0, 1]


def test_a_zombie_that_was_put_out_of_its_group_no_longer_keeps_anybody_from_altering():
    connect = with_sink(records=1)
    connect.hang(SINK_NAME, "put", 1000.0)
    connect.broker.produce(TOPIC, b"")
    connect.advance(1.0)
    connection = connect.door()
    request(connection, "PUT", SINK_NAME, "/stop")
    connect.advance(301.0)
    assert alter(connection, SINK_NAME, spot(0))[0] == 200
    connect.advance(1000.0)
    assert numbers(connect, SINK_NAME) == [0, 1]
    assert stored(connect, SINK_NAME) == [{"kafka_offset": 0}]


def test_a_group_that_never_formed_is_altered_under_a_zombie():
    connect = FakeConnect()
    connect.broker.create_topic(TOPIC)
    connect.behaviour(SINK_NAME).hangs.append(("start", 60.0))
    connect.create(SINK_NAME, {"connector.class": SINK, "topics": TOPIC})
    connection = connect.door()
    request(connection, "PUT", SINK_NAME, "/stop")
    connect.advance(6.0)
    assert alter(connection, SINK_NAME, spot(0))[0] == 200
    assert connect.broker.groups[f"connect-{SINK_NAME}"].state == "EMPTY"
    assert [task.process.alive for task in connect.zombies] == [True]
