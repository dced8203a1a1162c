from __future__ import annotations

import json

import pytest

from offsetwatch.decode.connect_topics import decode_status
from offsetwatch.model.connectors import Condition, ConnectorStatus, TaskStatus, TopicUse
from offsetwatch.model.offsets import Undecodable

from .golden import records

RUNNING = {
    "state": "RUNNING",
    "trace": None,
    "worker_id": "w:8083",
    "generation": 7,
    "version": "4.3.1",
}
CONDITION = Condition(state="running", worker="w:8083", generation=7, version="4.3.1")
USE = {"name": "t", "connector": "c", "task": 1, "discoverTimestamp": 1_700_000_000_250}


def decoded(key: str, body: object):
    return decode_status(key.encode(), None if body is None else json.dumps(body).encode())


def test_a_connectors_status_names_it_its_state_and_who_said_so():
    assert decoded("status-connector-a-b-0", RUNNING) == ConnectorStatus("a-b-0", CONDITION)


def test_a_tasks_number_is_after_the_last_dash():
    assert decoded("status-task-a-b-0-12", RUNNING) == TaskStatus("a-b-0", 12, CONDITION)
    largest = decoded("status-task-c-999999999", RUNNING)
    assert largest == TaskStatus("c", 999_999_999, CONDITION)


def test_a_topic_is_used_by_a_connector_since_a_time():
    result = decoded("status-topic-a-b:connector-c:connector-d", {"topic": USE})
    assert result == TopicUse("a-b", "c:connector-d", 1, 1_700_000_000.25)
    first = {**USE, "task": 0, "discoverTimestamp": 0}
    result = decoded("status-topic-t:connector-c", {"topic": first})
    assert result == TopicUse("t", "c", 0, 0.0)


def test_no_value_is_a_status_that_was_deleted():
    assert decoded("status-connector-c", None) == ConnectorStatus("c", None)
    assert decoded("status-task-c-0", None) == TaskStatus("c", 0, None)
    assert decoded("status-topic-t:connector-c", None) == TopicUse("t", "c", None, None)


def test_a_trace_that_was_cut_in_the_middle_of_a_character_is_that_of_a_failure():
    trace = "org.example.Bad: \ud83d\n\tat org.example.Sink.put(Sink.java:1)"
    found = decoded("status-task-c-0", {**RUNNING, "state": "FAILED", "trace": trace})
    assert (found.condition.state, found.condition.failure) == (
        "failed",
        "org.example.Bad in Sink.put",
    )


def test_a_worker_before_4_1_gives_no_version():
    older = {name: value for name, value in RUNNING.items() if name != "version"}
    for body in (older, {**older, "version": None}):
        assert decoded("status-connector-c", body).condition.version == ""


def test_of_a_trace_only_names_of_classes_and_methods_are_retained():
    trace = "org.example.Bad: password=hunter2\n\tat org.example.Sink.put(Sink.java:1)"
    result = decoded("status-task-c-0", {**RUNNING, "state": "FAILED", "trace": trace})
    assert result.condition.failure == "org.example.Bad in Sink.put"
    assert "hunter2" not in repr(result)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        pytest.param(None, b"{}", "key_null", id="no-key"),
        pytest.param(b"\xff", b"{}", "key_not_utf8", id="binary-key"),
        pytest.param(b"connector-c", b"{}", "key_unknown", id="a-config-topics-key"),
        pytest.param(b"status-task-c-0", b"null", "value_shape", id="json-null"),
        pytest.param(b"status-task-c", None, "key_task", id="no-number"),
        pytest.param(b"status-task-c-x", None, "key_task", id="no-digits"),
        pytest.param(b"status-task-7", None, "key_task", id="a-number-of-no-connector"),
        pytest.param(b"status-task-c-1000000000", None, "key_task", id="ten-digits"),
        pytest.param("status-task-c-٣".encode(), None, "key_task", id="digits-of-another-script"),
        pytest.param(b"status-topic-t", None, "key_topic", id="topic-of-no-connector"),
        pytest.param(b"status-connector-c", b"{", "value_not_json", id="cut"),
        pytest.param(b"status-connector-c", b"[]", "value_shape", id="a-list"),
        pytest.param(b"status-connector-c", b"{}", "value_shape", id="nothing"),
        pytest.param(
            b"status-connector-c",
            b'{"state":"RUNNING","worker_id":"w","generation":true}',
            "value_shape",
            id="generation-is-no-number",
        ),
        pytest.param(
            b"status-connector-c",
            b'{"state":"RUNNING","worker_id":"w","generation":"7"}',
            "value_shape",
            id="generation-is-text",
        ),
        pytest.param(
            b"status-connector-c",
            b'{"state":7,"worker_id":"w","generation":7}',
            "value_shape",
            id="state-is-no-text",
        ),
        pytest.param(
            b"status-connector-c",
            b'{"state":"RUNNING","worker_id":null,"generation":7}',
            "value_shape",
            id="of-no-worker",
        ),
        pytest.param(b"status-topic-t:connector-c", b"{}", "value_shape", id="no-use"),
        pytest.param(
            b"status-topic-t:connector-c",
            b'{"topic":{"task":1,"discoverTimestamp":-1}}',
            "value_shape",
            id="time-before-time",
        ),
        pytest.param(
            b"status-topic-t:connector-c",
            b'{"topic":{"task":1,"discoverTimestamp":9223372036854775808}}',
            "value_shape",
            id="time-beyond-a-long",
        ),
        pytest.param(
            b"status-topic-t:connector-c",
            b'{"topic":{"discoverTimestamp":1}}',
            "value_shape",
            id="use-by-no-task",
        ),
        pytest.param(
            b"status-topic-t:connector-c",
            b'{"topic":{"task":1}}',
            "value_shape",
            id="use-since-no-time",
        ),
    ],
)
def test_what_is_no_status_is_undecodable_with_its_own_reason(key, value, reason):
    assert decode_status(key, value) == Undecodable(reason)


def test_every_status_that_real_workers_wrote_decodes():
    newest = {}
    for record in records("east.connect-status"):
        status = decode_status(record.key, record.value)
        assert not isinstance(status, Undecodable), (record.key, status)
        newest[record.key.decode()] = status
    failed = newest["status-task-poison-mm2-0"].condition
    too_large = "org.apache.kafka.common.errors.RecordTooLargeException"
    assert failed.state == "failed"
    assert failed.failure == f"{too_large} in TransactionManager.maybeFailWithError"
    assert newest["status-connector-t-sink"] == ConnectorStatus("t-sink", None)
    assert newest["status-topic-west.orders-eu:connector-mm2-source"].topic == "west.orders-eu"


@pytest.mark.parametrize("field", ["state", "worker_id", "version"])
def test_a_status_with_a_text_of_any_length_is_undecodable(field):
    assert decoded("status-task-c-0", {**RUNNING, field: "x" * 1_000}) == Undecodable(
        "value_text_too_long"
    )


def test_a_status_with_a_key_of_any_length_is_undecodable():
    assert decoded(f"status-connector-{'x' * 10_000}", RUNNING) == Undecodable("key_too_long")


@pytest.mark.parametrize("generation", [-1, 2**31, True, 10**4_000])
def test_a_generation_is_an_integer_of_java(generation):
    assert decoded("status-connector-c", {**RUNNING, "generation": generation}) == Undecodable(
        "value_shape"
    )
