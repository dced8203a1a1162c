"""How connectors of the model work, fail and go on: what real ones do, by their code."""

from __future__ import annotations

import pytest

from tests.contract.worlds import (
    LINES,
    MIRROR_NAME,
    SINK_NAME,
    SOURCE_NAME,
    TOPIC,
    UPSTREAM,
    alter,
    bad,
    copied,
    file_position,
    grow,
    mirror_config,
    numbers,
    request,
    spot,
    state,
    stored,
    with_mirror,
    with_sink,
    with_source,
)
from tests.fakes.connect_model import JDBC_SOURCE, SINK, FakeConnect, OutsideClient, Trouble

POISON = 703


def poisoned(stage="value_converter", cause="data", **built):
    """A sink that has met a bad record."""
    connect = with_sink(**built)
    for number in range(1000):
        troubles = bad(stage, cause) if number == POISON else ()
        connect.broker.produce(TOPIC, b"%d" % number, troubles=troubles)
    connect.advance(5.0)
    return connect


def one_at_a_time(connect):
    OutsideClient(connect).edit(SINK_NAME, consumer_override_max_poll_records="1")
    connect.advance(120.0)


# --- sinks ---------------------------------------------------------------------------------------


def test_a_sink_that_fails_has_committed_where_the_failing_batch_begins():
    connect = poisoned()
    assert state(connect, SINK_NAME) == ("RUNNING", ["FAILED"])
    assert stored(connect, SINK_NAME) == [{"kafka_offset": 500}]
    assert numbers(connect, SINK_NAME) == list(range(500))


@pytest.mark.parametrize("stage", ["value_converter", "put"])
def test_a_restart_delivers_nothing_new_and_fails_at_the_same_batch(stage):
    connect = poisoned(stage)
    OutsideClient(connect).restart(SINK_NAME)
    connect.advance(5.0)
    assert state(connect, SINK_NAME) == ("RUNNING", ["FAILED"])
    assert stored(connect, SINK_NAME) == [{"kafka_offset": 500}]
    assert len(numbers(connect, SINK_NAME)) == 500


def test_a_sink_that_writes_before_it_fails_writes_that_again_with_each_restart():
    connect = with_sink()
    connect.behaviour(SINK_NAME).writes_before_fail = True
    for number in range(10):
        connect.broker.produce(TOPIC, b"", troubles=bad("put", "sink_data") if number == 4 else ())
    connect.advance(5.0)
    OutsideClient(connect).restart(SINK_NAME)
    connect.advance(5.0)
    assert numbers(connect, SINK_NAME) == [0, 1, 2, 3, 0, 1, 2, 3]
    assert stored(connect, SINK_NAME) == []


def test_batches_of_one_bring_a_sink_right_before_the_bad_record():
    connect = poisoned()
    one_at_a_time(connect)
    assert state(connect, SINK_NAME) == ("RUNNING", ["FAILED"])
    assert stored(connect, SINK_NAME) == [{"kafka_offset": POISON}]


def test_an_exact_skip_delivers_everything_but_the_bad_record_once():
    connect = poisoned()
    one_at_a_time(connect)
    connection = connect.door()
    request(connection, "PUT", SINK_NAME, "/stop")
    assert alter(connection, SINK_NAME, spot(POISON + 1))[0] == 200
    request(connection, "PUT", SINK_NAME, "/resume")
    connect.advance(120.0)
    assert state(connect, SINK_NAME) == ("RUNNING", ["RUNNING"])
    assert numbers(connect, SINK_NAME) == [number for number in range(1000) if number != POISON]


def test_a_skip_from_the_start_of_the_batch_loses_what_is_between():
    connect = poisoned()
    connection = connect.door()
    request(connection, "PUT", SINK_NAME, "/stop")
    assert alter(connection, SINK_NAME, spot(POISON + 1))[0] == 200
    request(connection, "PUT", SINK_NAME, "/resume")
    connect.advance(120.0)
    assert set(numbers(connect, SINK_NAME)) == {*range(500), *range(POISON + 1, 1000)}


def test_an_offset_past_the_end_delivers_the_whole_topic_again():
    connect = with_sink(records=10)
    connection = connect.door()
    request(connection, "PUT", SINK_NAME, "/stop")
    assert alter(connection, SINK_NAME, spot(11))[0] == 200
    request(connection, "PUT", SINK_NAME, "/resume")
    connect.advance(61.0)
    assert numbers(connect, SINK_NAME) == [*range(10), *range(10)]


def test_the_partitions_of_a_failed_task_go_to_the_others_which_fail_there_too():
    connect = with_sink(partitions=2, tasks=2)
    connect.broker.produce(TOPIC, b"", partition=1, troubles=bad())
    connect.advance(5.0)
    connect.broker.produce(TOPIC, b"", partition=0)
    connect.advance(5.0)
    assert state(connect, SINK_NAME) == ("RUNNING", ["FAILED", "FAILED"])


def test_a_trouble_of_one_connector_is_none_of_another():
    connect = with_sink()
    connect.broker.produce(TOPIC, b"", troubles=(Trouble("put", "sink_data", connector="other"),))
    connect.advance(5.0)
    assert state(connect, SINK_NAME) == ("RUNNING", ["RUNNING"])


def test_a_sink_that_tries_again_for_ever_says_that_it_runs():
    connect = with_sink()
    connect.broker.produce(TOPIC, b"", troubles=bad("put_retriable"))
    connect.advance(600.0)
    assert state(connect, SINK_NAME) == ("RUNNING", ["RUNNING"])
    assert (stored(connect, SINK_NAME), numbers(connect, SINK_NAME)) == ([], [])


def test_an_outage_fails_every_batch_until_it_is_over():
    connect = with_sink()
    connect.behaviour(SINK_NAME).outage = Trouble("put", "connectivity")
    connect.broker.produce(TOPIC, b"")
    connect.advance(5.0)
    assert "java.net.ConnectException" in connect.statuses[SINK_NAME].tasks[0].trace
    connect.behaviour(SINK_NAME).outage = None
    OutsideClient(connect).restart(SINK_NAME)
    connect.advance(5.0)
    assert numbers(connect, SINK_NAME) == [0]


def test_a_tolerant_sink_leaves_the_bad_record_out_and_writes_its_coordinates():
    connect = with_sink()
    queue = "letters"
    OutsideClient(connect).edit(
        SINK_NAME, errors_tolerance="all", errors_deadletterqueue_topic_name=queue
    )
    connect.advance(5.0)
    connect.broker.produce(TOPIC, b"bad", troubles=bad())
    connect.broker.produce(TOPIC, b"good")
    connect.advance(5.0)
    assert numbers(connect, SINK_NAME) == [1]
    (letter,) = connect.broker.log(queue, 0).records
    assert ("__connect.errors.offset", b"0") in letter.headers


def test_a_sink_of_a_pattern_reads_every_topic_that_there_is():
    connect = with_sink()
    for topic in ("east.a", "east.b", "west.a"):
        connect.broker.produce(topic, b"")
    connect.create("all", {"connector.class": SINK, "topics.regex": r"east\..*"})
    connect.advance(5.0)
    assert {item.topic for item in connect.delivered["all"]} == {"east.a", "east.b"}


def test_records_that_retention_took_are_reported_and_never_delivered():
    connect = with_sink(records=10)
    connection = connect.door()
    request(connection, "PUT", SINK_NAME, "/stop")
    alter(connection, SINK_NAME, spot(0))
    connect.broker.retain_from(TOPIC, 0, 6)
    request(connection, "PUT", SINK_NAME, "/resume")
    connect.advance(5.0)
    assert numbers(connect, SINK_NAME) == [*range(10), *range(6, 10)]
    assert [item.offset for item in connect.broker.lost] == list(range(6))


def test_a_topic_that_is_recreated_has_another_id():
    connect = with_sink(records=3)
    before = connect.broker.topics[TOPIC].id
    connect.broker.recreate_topic(TOPIC)
    connect.broker.produce(TOPIC, b"")
    assert connect.broker.topics[TOPIC].id != before
    assert len(connect.produced(TOPIC)) == 4


# --- mirrors -------------------------------------------------------------------------------------


def oversized(**built):
    connect = with_mirror(records=5, **built)
    west = connect.upstreams["west"]
    west.produce(UPSTREAM, b"big", size_bytes=2_000_000)
    west.produce(UPSTREAM, b"next")
    connect.advance(5.0)
    return connect


def test_a_mirror_keeps_the_last_record_that_it_copied():
    connect = with_mirror(records=5)
    assert stored(connect, MIRROR_NAME) == [{"offset": 4}]
    assert connect.broker.log(f"west.{UPSTREAM}", 0).end == 5


def test_a_record_too_large_fails_a_mirror_right_before_it():
    connect = oversized()
    assert state(connect, MIRROR_NAME) == ("RUNNING", ["FAILED"])
    assert stored(connect, MIRROR_NAME) == [{"offset": 4}]
    trace = connect.statuses[MIRROR_NAME].tasks[0].trace
    assert "RecordTooLargeException: The message is 2000000 bytes when serialized" in trace


def test_a_mirror_goes_on_behind_the_record_that_it_is_reported_it_has_copied():
    connect = oversized()
    connection = connect.door()
    request(connection, "PUT", MIRROR_NAME, "/stop")
    assert alter(connection, MIRROR_NAME, copied(5))[0] == 200
    request(connection, "PUT", MIRROR_NAME, "/resume")
    connect.advance(61.0)
    assert numbers(connect, MIRROR_NAME) == [0, 1, 2, 3, 4, 6]
    assert connect.syncs[-1][1:] == (UPSTREAM, 0, 6, 5)


def test_a_larger_limit_lets_a_mirror_copy_all_of_it():
    connect = oversized()
    config = mirror_config(producer_override_max_request_size="3000000")
    OutsideClient(connect).edit(
        MIRROR_NAME, **{name.replace(".", "_"): to for name, to in config.items()}
    )
    connect.advance(5.0)
    OutsideClient(connect).restart(MIRROR_NAME)
    connect.advance(61.0)
    assert numbers(connect, MIRROR_NAME) == list(range(7))


def test_with_exactly_once_a_batch_with_such_a_record_is_not_copied_at_all():
    connect = with_mirror(records=5, exactly_once=True)
    west = connect.upstreams["west"]
    connect.door().request("PUT", f"/connectors/{MIRROR_NAME}/pause")
    connect.advance(1.0)
    west.produce(UPSTREAM, b"good")
    west.produce(UPSTREAM, b"big", size_bytes=2_000_000)
    connect.door().request("PUT", f"/connectors/{MIRROR_NAME}/resume")
    connect.advance(5.0)
    assert state(connect, MIRROR_NAME) == ("RUNNING", ["FAILED"])
    assert stored(connect, MIRROR_NAME) == [{"offset": 4}]


def test_a_mirror_that_cannot_read_a_record_says_that_it_runs_and_copies_the_other_partitions():
    connect = with_mirror(records=4, partitions=2)
    west = connect.upstreams["west"]
    west.produce(UPSTREAM, b"", partition=0, troubles=bad("corrupt"))
    west.produce(UPSTREAM, b"", partition=0)
    west.produce(UPSTREAM, b"", partition=1)
    connect.advance(61.0)
    assert state(connect, MIRROR_NAME) == ("RUNNING", ["RUNNING"])
    assert stored(connect, MIRROR_NAME) == [{"offset": 1}, {"offset": 2}]


def test_null_begins_at_the_first_record_and_zero_behind_it():
    connect = with_mirror(records=3)
    connection = connect.door()
    for offset, again in ((None, [0, 1, 2]), (0, [1, 2])):
        connect.delivered[MIRROR_NAME].clear()
        request(connection, "PUT", MIRROR_NAME, "/stop")
        assert alter(connection, MIRROR_NAME, copied(offset))[0] == 200
        request(connection, "PUT", MIRROR_NAME, "/resume")
        connect.advance(5.0)
        assert numbers(connect, MIRROR_NAME) == again


# --- FileStream ----------------------------------------------------------------------------------


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_line_that_a_transform_refuses_fails_a_source_behind_what_it_delivered(exactly_once):
    connect = with_source(lines=2, exactly_once=exactly_once)
    connect.files.troubles[b"poison"] = Trouble("source_transform", "transform")
    connect.files.append(LINES, "line 0002", "poison", "line 0003")
    connect.advance(61.0)
    assert state(connect, SOURCE_NAME) == ("RUNNING", ["FAILED"])
    before = 20 if exactly_once else 30  # with exactly-once all of a batch comes, or nothing
    assert stored(connect, SOURCE_NAME) == [{"position": before}]
    assert len(connect.broker.log("lines", 0).records) == before // 10


def test_a_row_that_a_transform_refuses_fails_a_jdbc_source_right_before_it():
    connect = FakeConnect()
    config = {"connector.class": JDBC_SOURCE, "topic": "rows-out", "table": "t"}
    connect.files.troubles[b"poison"] = Trouble("source_transform", "transform")
    connect.files.insert("t", "a", "b", "c", "poison", "d")
    connect.files.delete("t", 1)
    connect.create("rows", config)
    connect.advance(61.0)
    assert state(connect, "rows") == ("RUNNING", ["FAILED"])
    assert stored(connect, "rows") == [{"incrementing": 3}]
    connection = connect.door()
    request(connection, "PUT", "rows", "/stop")
    row = ({"protocol": "1", "table": "t"}, {"incrementing": 4})
    assert alter(connection, "rows", row)[0] == 200
    request(connection, "PUT", "rows", "/resume")
    connect.advance(61.0)
    records = connect.broker.log("rows-out", 0).records
    assert [record.value for record in records] == [b"b", b"c", b"d"]


def test_a_source_goes_on_at_the_byte_that_it_is_given():
    connect = with_source(lines=3)
    connection = connect.door()
    request(connection, "PUT", SOURCE_NAME, "/stop")
    assert alter(connection, SOURCE_NAME, file_position(10))[0] == 200
    request(connection, "PUT", SOURCE_NAME, "/resume")
    grow(connect, 1)
    connect.advance(61.0)
    assert stored(connect, SOURCE_NAME) == [{"position": 40}]
    values = [record.value for record in connect.broker.log("lines", 0).records]
    expected = [0, 1, 2, 1, 2, 3]
    assert values == [f"line {number:04d}".encode() for number in expected]


def test_a_source_that_is_stopped_has_committed_what_it_read():
    connect = with_source(lines=3)
    grow(connect, 2)
    connect.advance(1.0)
    request(connect.door(), "PUT", SOURCE_NAME, "/stop")
    connect.advance(1.0)
    assert stored(connect, SOURCE_NAME) == [{"position": 50}]


def test_a_source_whose_position_is_no_number_fails_as_it_starts():
    connect = with_source(lines=1)
    connect.offsets.write(
        "connect-offsets", SOURCE_NAME, [({"filename": "/data/lines.txt"}, {"position": "x"})], "me"
    )
    OutsideClient(connect).restart(SOURCE_NAME)
    connect.advance(5.0)
    assert state(connect, SOURCE_NAME) == ("RUNNING", ["FAILED"])


def test_deleted_and_created_again_it_goes_on_from_its_old_offsets():
    connect = with_source(lines=3)
    OutsideClient(connect).recreate(SOURCE_NAME)
    grow(connect, 1)
    connect.advance(61.0)
    assert len(connect.produced("lines")) == 4
    assert stored(connect, SOURCE_NAME) == [{"position": 40}]
