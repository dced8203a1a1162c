"""How the model misbehaves: late, twice, under other keys, with workers that die. Each is a way in
which real Connect does, by its code; the simulations rest on them.
"""

from __future__ import annotations

import httpx
import pytest

from tests.contract.worlds import (
    LINES,
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
    with_mirror,
    with_sink,
    with_source,
)
from tests.fakes.connect_model import (
    MIRROR_SOURCE,
    ROWS,
    SINK,
    FakeConnect,
    Fault,
    How,
    Operator,
    OutsideClient,
    conflict,
    error,
    page,
)
from tests.fakes.connect_model.plugins import PLUGINS, unsupported

STOPPED = ("STOPPED", [])
RUNNING = ("RUNNING", ["RUNNING"])


# --- late and lost -------------------------------------------------------------------------------


def test_a_late_job_sets_the_offsets_of_a_connector_that_runs_again():
    connect = with_source(lines=4)
    connection = connect.door()
    request(connection, "PUT", SOURCE_NAME, "/stop")
    connect.advance(1.0)
    connect.slow_jobs[SOURCE_NAME] = 200.0
    status, answer = alter(connection, SOURCE_NAME, file_position(10))
    assert (status, answer["message"][:17]) == (500, "Request timed out")
    request(connection, "PUT", SOURCE_NAME, "/resume")
    grow(connect, 1)
    connect.advance(100.0)
    assert stored(connect, SOURCE_NAME) == [{"position": 50}]
    connect.advance(50.0)
    assert stored(connect, SOURCE_NAME) == [{"position": 10}]
    grow(connect, 1)
    connect.advance(61.0)
    assert stored(connect, SOURCE_NAME) == [{"position": 60}]


@pytest.mark.parametrize(
    ("fault", "raised", "applied"),
    [
        pytest.param(Fault(How.REFUSED), httpx.ConnectError, False, id="refused"),
        pytest.param(Fault(How.DROPPED), httpx.WriteError, False, id="dropped"),
        pytest.param(Fault(How.LOST), httpx.ReadError, True, id="lost"),
        pytest.param(Fault(How.CUT), httpx.RemoteProtocolError, True, id="cut"),
        pytest.param(Fault(How.SLOW, delay_s=200.0), httpx.ReadTimeout, False, id="slow"),
    ],
)
def test_a_connection_that_fails_reports_nothing_of_what_happened(fault, raised, applied):
    connect = with_source(lines=4)
    connection = connect.door()
    request(connection, "PUT", SOURCE_NAME, "/stop")
    connect.advance(1.0)
    connection.faults[2] = fault
    with pytest.raises(raised):
        alter(connection, SOURCE_NAME, file_position(10))
    assert (stored(connect, SOURCE_NAME) == [{"position": 10}]) is applied
    if fault.delay_s:
        connect.advance(fault.delay_s)
        assert stored(connect, SOURCE_NAME) == [{"position": 10}]


@pytest.mark.parametrize(
    ("fault", "status", "applied"),
    [
        pytest.param(conflict(), 409, False, id="rebalance"),
        pytest.param(error(), 500, False, id="error"),
        pytest.param(error(applied=True), 500, True, id="applied-error"),
        pytest.param(page(), 200, True, id="html"),
        pytest.param(page(502, applied=False), 502, False, id="proxy"),
    ],
)
def test_an_answer_in_place_of_the_real_one_reports_nothing_either(fault, status, applied):
    connect = with_source(lines=4)
    connection = connect.door()
    request(connection, "PUT", SOURCE_NAME, "/stop")
    connect.advance(1.0)
    connection.faults[2] = fault
    body = b'{"offsets":[{"partition":{"filename":"%s"},"offset":{"position":10}}]}'
    reply = connection.request("PATCH", f"/connectors/{SOURCE_NAME}/offsets", body % LINES.encode())
    assert reply.status == status
    assert (stored(connect, SOURCE_NAME) == [{"position": 10}]) is applied


def test_a_request_that_arrives_twice_is_carried_out_twice():
    connect = with_sink()
    connection = connect.door()
    connection.next_time.append((None, "restart", Fault(How.TWICE)))
    request(connection, "POST", SINK_NAME, "/restart?includeTasks=true")
    assert [effect.what for effect in connect.effects].count("restart") == 2


# --- exactly-once --------------------------------------------------------------------------------


def test_offsets_in_a_topic_of_their_own_cannot_be_removed_with_exactly_once():
    own = {"offsets.storage.topic": "own-offsets"}
    connect = with_source(lines=2, config=own, exactly_once=True)
    connection = connect.door()
    request(connection, "PUT", SOURCE_NAME, "/stop")
    connect.advance(1.0)
    began = connect.line.now()
    assert request(connection, "DELETE", SOURCE_NAME, "/offsets")[0] == 500
    assert connect.line.now() - began == pytest.approx(90.0, abs=0.1)
    connect.advance(10.0)
    assert stored(connect, SOURCE_NAME) == [{"position": 20}]
    assert not connect.offsets.current["connect-offsets"]
    assert alter(connection, SOURCE_NAME, file_position(10))[0] == 200


def test_zombies_that_cannot_be_fenced_keep_offsets_from_being_altered():
    connect = with_source(lines=2, exactly_once=True)
    connect.unfenceable.add(SOURCE_NAME)
    connection = connect.door()
    request(connection, "PUT", SOURCE_NAME, "/stop")
    connect.advance(1.0)
    status, answer = alter(connection, SOURCE_NAME, file_position(10))
    assert (status, "zombie fencing" in answer["message"]) == (500, True)
    assert stored(connect, SOURCE_NAME) == [{"position": 20}]


# --- keys ----------------------------------------------------------------------------------------


def test_a_connector_with_maps_of_its_own_order_never_reads_what_rest_writes():
    connect = FakeConnect()
    connect.create("rows", {"connector.class": ROWS, "topic": "rows-out", "table": "t"})
    connect.files.insert("t", "a", "b", "c")
    connect.advance(61.0)
    connection = connect.door()
    request(connection, "PUT", "rows", "/stop")
    connect.advance(1.0)
    (entry,) = request(connection, "GET", "rows", "/offsets")[1]["offsets"]
    assert entry["offset"] is None  # it is there, under other bytes
    assert alter(connection, "rows", (entry["partition"], {"row": 1}))[0] == 200
    assert stored(connect, "rows") == [{"row": 1}]
    request(connection, "PUT", "rows", "/resume")
    connect.files.insert("t", "d")
    connect.advance(61.0)
    assert [record.value for record in connect.broker.log("rows-out", 0).records] == [
        b"a",
        b"b",
        b"c",
        b"d",
    ]


@pytest.mark.parametrize(("vouches", "words"), [(True, "have been altered"), (False, "However")])
def test_a_class_says_whether_it_vouches_for_the_new_offsets(vouches, words):
    connect = with_mirror(records=2)
    plugin = PLUGINS[MIRROR_SOURCE]
    own = {**plugin.__dict__, "alter": lambda _config, _pairs: vouches}
    connect.plugins[plugin.name] = type(plugin)(**own)
    connection = connect.door()
    request(connection, "PUT", "west-mirror", "/stop")
    connect.advance(1.0)
    entry = {"cluster": "west", "partition": 0, "topic": "orders"}
    status, answer = alter(connection, "west-mirror", (entry, {"offset": 0}))
    assert status == 200
    assert words in answer["message"]


def test_altering_offsets_of_a_class_without_support_answers_500_with_the_reason():
    connect = with_sink()
    plugin = connect.plugins[SINK]
    connect.plugins[plugin.name] = type(plugin)(**{**plugin.__dict__, "alter": unsupported})
    connection = connect.door()
    request(connection, "PUT", SINK_NAME, "/stop")
    connect.advance(1.0)
    status, answer = alter(connection, SINK_NAME, spot(0))
    assert (status, "doesn't support external modification" in answer["message"]) == (500, True)


# --- workers -------------------------------------------------------------------------------------


def follower_of(connect):
    return next(worker for worker in connect.workers if not worker.leads)


def test_what_only_the_leader_may_do_is_forwarded():
    connect = with_sink(records=1, workers=2)
    connection = connect.door()
    url = follower_of(connect).url
    assert connection.reply("PUT", url, f"/connectors/{SINK_NAME}/stop", b"", 100.0).status == 204
    connect.advance(1.0)
    assert state(connect, SINK_NAME) == STOPPED


def test_a_request_forwarded_to_a_dead_leader_answers_500():
    connect = with_sink(records=1, workers=2)
    follower = follower_of(connect)
    connect.membership.leader.kill()
    reply = connect.door().reply("PUT", follower.url, f"/connectors/{SINK_NAME}/stop", b"", 100.0)
    assert reply.status == 500
    assert b"IO Error trying to forward REST request" in reply.body
    connect.advance(15.0)  # by then there is another leader
    assert request(connect.door(), "PUT", SINK_NAME, "/stop")[0] == 204


def test_without_a_known_leader_changes_answer_409_and_reads_go_on():
    connect = with_sink(records=1, workers=2)
    connect.forget_leader(10.0)
    connection = connect.door()
    assert request(connection, "PUT", SINK_NAME, "/stop")[0] == 409
    assert request(connection, "GET", SINK_NAME, "/status")[0] == 200
    assert request(connection, "GET", SINK_NAME, "/offsets")[0] == 200
    connect.advance(10.0)
    assert request(connection, "PUT", SINK_NAME, "/stop")[0] == 204


def test_what_needs_the_assignments_is_refused_while_they_are_about_to_change():
    connect = with_sink(records=1)
    worker = connect.workers[0]
    worker.hold(10.0)
    connection = connect.door()
    connect.append_config(
        [("connector-new", {"properties": {"connector.class": ROWS, "topic": "x", "name": "new"}})],
        "somebody",
    )
    for method, what, status in (
        ("GET", "/tasks", 500),
        ("GET", "/config", 500),
        ("POST", "/restart", 409),
        ("GET", "/status", 200),
        ("PUT", "/resume", 202),
    ):
        assert request(connection, method, SINK_NAME, what)[0] == status, what
        worker._rebalance = True  # as long as the herder thread does not come to it
    worker._rebalance = False


def test_a_dead_workers_connector_is_done_by_another_after_the_delay():
    connect = with_sink(records=1, workers=2)
    owner = next(worker for worker in connect.workers if worker.tasks)
    owner.kill()
    connect.advance(60.0)
    assert not any(worker.tasks for worker in connect.workers if worker.alive)
    connect.advance(300.0)
    connect.broker.produce(TOPIC, b"")
    connect.advance(60.0)
    assert numbers(connect, SINK_NAME)[-1] == 1
    assert state(connect, SINK_NAME) == RUNNING


def test_a_standalone_worker_forgets_what_rest_queried_of_it_and_keeps_offsets():
    connect = with_source(lines=2, standalone=True)
    connect.restart_worker()
    connect.advance(5.0)
    assert request(connect.door(), "GET", SOURCE_NAME, "/status")[0] == 404
    assert connect.offsets.of_connector(SOURCE_NAME)[-1].value == b'{"position":20}'


# --- others --------------------------------------------------------------------------------------


def test_an_operator_resumes_what_is_to_run_again_and_again():
    connect = with_sink(records=1)
    Operator(connect, SINK_NAME, every_s=120.0)
    OutsideClient(connect, "alice").stop(SINK_NAME)
    connect.advance(119.0)
    assert state(connect, SINK_NAME) == STOPPED
    connect.advance(5.0)
    assert state(connect, SINK_NAME) == RUNNING
    assert [observed.who for observed in connect.requests if observed.change] == [
        "alice",
        "operator",
    ]


def test_everything_that_was_changed_names_the_request_that_caused_it():
    connect = with_source(lines=2)
    connection = connect.door("replica-1")
    request(connection, "PUT", SOURCE_NAME, "/stop")
    connect.advance(1.0)
    alter(connection, SOURCE_NAME, file_position(10))
    by = {f"#{observed.number}" for observed in connect.requests if observed.who == "replica-1"}
    own = [effect.what for effect in connect.effects if effect.by in by]
    assert own == ["tasks", "state", "offset"]


def story(seed):
    connect = with_sink(records=20, partitions=3, workers=2, seed=seed)
    person = OutsideClient(connect)
    connect.rebalance()
    person.stop(SINK_NAME)
    connect.advance(1.0)
    person.alter(SINK_NAME, spot(0, 1))
    connect.workers[0].kill()
    person.resume(SINK_NAME)
    connect.advance(400.0)
    return connect.trace()


def test_the_same_calls_leave_the_same_trace_to_the_byte():
    assert story(7) == story(7)


def test_an_operator_can_act_at_a_moment_to_come():
    connect = with_sink(records=1)
    person = OutsideClient(connect)
    connect.line.call_after(10.0, lambda: person.stop(SINK_NAME))
    connect.advance(12.0)
    assert state(connect, SINK_NAME) == STOPPED
