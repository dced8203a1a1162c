from __future__ import annotations

import json

import pytest

from offsetwatch.decode.connect_topics import decode_config
from offsetwatch.model.connectors import (
    ConnectorConfigured,
    ConnectorKind,
    LoggerLevel,
    RestartRequested,
    SessionKey,
    TargetState,
    TaskConfigured,
    TasksCommitted,
    TasksFenced,
)
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicPartition

SECRET = "hunter2"
MIRROR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "west",
    "target.cluster.alias": "east",
    "source.cluster.bootstrap.servers": "west:9092",
    "source.cluster.sasl.jaas.config": SECRET,
}
MIRROR_TASK = {
    "task.class": "org.apache.kafka.connect.mirror.MirrorSourceTask",
    "task.assigned.partitions": "orders-0,orders-eu-12",
    "source.cluster.sasl.jaas.config": SECRET,
}


def decoded(key: str, body: object):
    return decode_config(key.encode(), None if body is None else json.dumps(body).encode())


def test_a_connectors_configuration_keeps_what_rest_keeps_of_it():
    result = decoded("connector-a-b-0", {"properties": MIRROR})
    assert (result.connector, result.settings.kind) == ("a-b-0", ConnectorKind.MIRROR)
    assert result.settings.mirror.source_addresses == {"west:9092"}
    assert result.settings.mirror.syncs_topic == "mm2-offset-syncs.east.internal"


def test_no_secret_of_this_topic_leaves_the_decoder():
    records = [
        ("connector-c", {"properties": {**MIRROR, "database.password": SECRET, SECRET: SECRET}}),
        ("task-c-0", {"properties": MIRROR_TASK}),
        ("task-c-0", {"properties": {"task.class": "X", "task.assigned.partitions": SECRET}}),
        ("session-key", {"key": SECRET, "algorithm": "HmacSHA256", "creation-timestamp": 1}),
        ("session-key", SECRET),
    ]
    for key, body in records:
        result = decoded(key, body)
        assert not isinstance(result, Undecodable)
        assert SECRET not in repr(result)


def test_of_a_session_key_nothing_but_its_existence_is_known():
    assert decode_config(b"session-key", b"\xff not even json") == SessionKey()


def test_a_mirror_tasks_assignment_is_retained_and_its_topics_may_hold_dashes():
    result = decoded("task-a-b-3", {"properties": MIRROR_TASK})
    assigned = (TopicPartition("orders", 0), TopicPartition("orders-eu", 12))
    assert result == TaskConfigured(connector="a-b", task=3, assigned=assigned)
    nothing = {**MIRROR_TASK, "task.assigned.partitions": ""}
    assert decoded("task-a-b-3", {"properties": nothing}).assigned == ()


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"task.class": "org.example.MirrorSource", "task.assigned.partitions": "t-0"},
        {"task.assigned.partitions": "t-0"},
        {"task.class": MIRROR_TASK["task.class"]},
    ],
    ids=str,
)
def test_no_other_tasks_configuration_is_retained(properties):
    assert decoded("task-c-0", {"properties": properties}).assigned is None


@pytest.mark.parametrize(
    ("key", "body", "expected"),
    [
        ("connector-c", None, ConnectorConfigured("c", None)),
        ("task-c-0", None, TaskConfigured("c", 0, None)),
        ("commit-a-b", {"tasks": 0}, TasksCommitted("a-b", 0)),
        ("commit-a-b", {"tasks": 25_000}, TasksCommitted("a-b", 25_000)),
        ("commit-c", None, TasksCommitted("c", None)),
        ("target-state-a-b", {"state": "PAUSED"}, TargetState("a-b", "paused")),
        (
            "target-state-c",
            {"state": "PAUSED", "state.v2": "STOPPED"},
            TargetState("c", "stopped"),
        ),
        ("target-state-c", None, TargetState("c", None)),
        ("tasks-fencing-a-b", {"task-count": 2}, TasksFenced("a-b", 2)),
        ("tasks-fencing-c", None, TasksFenced("c", None)),
        (
            "restart-connector-a-b",
            {"include-tasks": True, "only-failed": False},
            RestartRequested("a-b", include_tasks=True, only_failed=False),
        ),
        ("restart-connector-c", None, RestartRequested("c", None, None)),
        ("logger-cluster-org.example", {"level": "DEBUG"}, LoggerLevel("org.example", "DEBUG")),
        ("logger-cluster-org.example", None, LoggerLevel("org.example", None)),
    ],
    ids=str,
)
def test_each_kind_of_record_says_what_it_is_for(key, body, expected):
    assert decoded(key, body) == expected


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        pytest.param(None, b"{}", "key_null", id="no-key"),
        pytest.param(b"\xff", b"{}", "key_not_utf8", id="binary-key"),
        pytest.param(b"status-connector-c", b"{}", "key_unknown", id="a-status-topics-key"),
        pytest.param(b"of-a-later-version", b"{}", "key_unknown", id="unknown"),
        pytest.param(b"connector-c", b"{", "value_not_json", id="cut"),
        pytest.param(b"connector-c", b"[]", "value_shape", id="a-list"),
        pytest.param(b"connector-c", b"{}", "value_shape", id="no-properties"),
        pytest.param(b"task-c", b"{}", "key_task", id="no-number"),
        pytest.param(b"task-c-0", b"{}", "value_shape", id="no-task-properties"),
        pytest.param(b"commit-c", b'{"tasks":true}', "value_shape", id="tasks-are-no-number"),
        pytest.param(b"commit-c", b'{"tasks":-1}', "value_shape", id="fewer-than-no-tasks"),
        pytest.param(b"commit-c", b'{"tasks":25001}', "too_many_tasks", id="many-tasks"),
        pytest.param(b"commit-c", b"null", "value_shape", id="json-null"),
        pytest.param(b"target-state-c", b"{}", "value_shape", id="no-state"),
        pytest.param(b"target-state-c", b'{"state.v2":7}', "value_shape", id="state-is-no-text"),
        pytest.param(b"tasks-fencing-c", b"{}", "value_shape", id="no-count"),
        pytest.param(b"restart-connector-c", b"{}", "value_shape", id="no-flags"),
        pytest.param(
            b"restart-connector-c", b'{"include-tasks":true}', "value_shape", id="one-flag"
        ),
        pytest.param(
            b"restart-connector-c", b'{"only-failed":true}', "value_shape", id="the-other-flag"
        ),
        pytest.param(b"logger-cluster-x", b"{}", "value_shape", id="no-level"),
        pytest.param(
            b"task-c-0",
            b'{"properties":{"task.class":"x.MirrorSourceTask","task.assigned.partitions":"t"}}',
            "value_assigned_partitions",
            id="assignment-without-a-number",
        ),
    ],
)
def test_what_is_no_config_is_undecodable_with_its_own_reason(key, value, reason):
    assert decode_config(key, value) == Undecodable(reason)


def test_a_class_or_a_state_of_any_length_is_undecodable():
    too_long = Undecodable("value_text_too_long")
    assert (
        decode_config(b"connector-c", b'{"properties":{"connector.class":"%b"}}' % (b"x" * 10_000))
        == too_long
    )
    assert decode_config(b"target-state-c", b'{"state":"%b"}' % (b"x" * 10_000)) == too_long
