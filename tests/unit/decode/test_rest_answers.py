"""Answers of Connect as wide as may be are read in bounded memory, counted in bytes allocated."""

from __future__ import annotations

import json
import math
import sys
import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from offsetwatch.clients.http.bodies import VALUES_MAX, has_too_many_values
from offsetwatch.decode.java.pattern import JavaPattern
from offsetwatch.decode.json_text import replace_lone_surrogates
from offsetwatch.decode.rest_answers import (
    CONNECTORS_MAX,
    ENTRY_VALUES_MAX,
    ConnectorNames,
    ConnectRoot,
    OddMembers,
    Plugins,
    RestConnectorStatus,
    decode_assignment,
    decode_config_texts,
    decode_connectors,
    decode_names,
    decode_offsets,
    decode_plugins,
    decode_readable_offsets,
    decode_rest_status,
    decode_root,
    decode_task_numbers,
    decode_traces,
    format_config_texts,
    parse_consumed_partition,
)
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.decode.stack_trace import TRACE_CHARS_MAX
from offsetwatch.decode.text_limits import TEXT_CHARS_MAX
from offsetwatch.model.connectors import (
    UNKNOWN_STATE,
    Connector,
    ConnectorKind,
    MirrorSettings,
    SinkSettings,
    Task,
)
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicFilter, TopicPartition, TopicRouter, is_provided
from tests.changed import replace
from tests.unit.decode.golden import rest_body

PACKAGE = "org.apache.kafka.connect.mirror."
MIRROR = f"{PACKAGE}MirrorSourceConnector"
TRANSFORMS = "org.apache.kafka.connect.transforms."
AIVEN = "io.aiven.kafka.connect.transforms."
NONE_ODD = OddMembers(0, ())
SEPARATES = "replication.policy.internal.topic.separator.enabled"
COPY = TopicRouter("RegexRouter", r"west\.(.*)", "copy-$1")


def listed(config: dict, *, kind: str = "source", name: str = "c", **status) -> Connector:
    """One connector with this configuration, as decoded."""
    configured = [{"connector": name, "task": task.get("id")} for task in status.get("tasks", [])]
    body = {
        name: {
            "status": {
                "name": name,
                "connector": {"state": "RUNNING", "worker_id": "w:8083"},
                "tasks": [],
                "type": kind,
                **status,
            },
            "info": {
                "name": name,
                "config": {"connector.class": "org.example.Any", **config},
                "tasks": configured,
                "type": kind,
            },
        }
    }
    connectors = decode_connectors(json.dumps(body).encode())
    assert not isinstance(connectors, Undecodable), connectors
    return connectors[0]


def mirror(**changes: str) -> MirrorSettings:
    config = {"connector.class": MIRROR, **changes}
    result = listed(config).mirror
    assert result is not None
    return result


def test_the_list_of_a_real_worker_gives_every_connector_its_state_and_its_tasks():
    connectors = decode_connectors(rest_body("GET /connectors?expand=status&expand=info"))
    assert {item.name: (item.kind.value, item.state, len(item.tasks)) for item in connectors} == {
        "file-sink": ("sink", "running", 1),
        "file-source": ("source", "running", 1),
        "mm2-checkpoint": ("mirror", "running", 0),
        "mm2-heartbeat": ("mirror", "running", 1),
        "mm2-source": ("mirror", "stopped", 0),
        "t-sink": ("sink", "running", 1),
        "t-src": ("source", "stopped", 0),
        "t-stopped": ("source", "stopped", 0),
    }
    assert {item.version for item in connectors} == {"4.3.1"}


def test_a_real_mirror_source_connector_says_what_it_reads_and_where_its_syncs_go():
    connectors = decode_connectors(rest_body("GET /connectors?expand=status&expand=info"))
    assert {item.name: item.mirror for item in connectors if item.mirror is not None} == {
        "mm2-source": MirrorSettings(
            source="west",
            target="east",
            source_addresses=frozenset({"127.0.0.1:29192"}),
            target_addresses=frozenset({"127.0.0.1:19092"}),
            syncs_topic="mm2-offset-syncs.east.internal",
            syncs_on_source=True,
            read_committed=False,
            refresh_s=5.0,
            topic_filter=TopicFilter("orders.*", r"mm2.*\.internal|.*\.replica|__.*"),
        )
    }


def test_real_offsets_compare_equal_to_what_the_topic_decodes_to():
    offsets = decode_offsets(rest_body("GET /connectors/mm2-source/offsets"))
    raw = b'["mm2-source",{"cluster":"west","partition":0,"topic":"orders"}]'
    assert (decode_key(raw).identity, decode_value(b'{"offset":4999}').text) in offsets
    assert len(offsets) == 2
    assert decode_offsets(rest_body("GET /connectors/t-stopped/offsets")) == ()


def test_a_null_offset_is_none_and_no_empty_map():
    body = b'{"offsets":[{"partition":{"a":1},"offset":null},{"partition":{"a":2},"offset":{}}]}'
    assert decode_offsets(body) == (('{"a":1}', None), ('{"a":2}', "{}"))
    assert decode_offsets(body.replace(b',"offset":null', b"")) == decode_offsets(body)


@pytest.mark.parametrize("odd", ["null", "7", "[]", "{}", '{"offset":{}}'])
def test_an_entry_of_another_shape_takes_no_other_offset_with_it(odd):
    body = f'{{"offsets":[{odd},{{"partition":{{"a":1}},"offset":{{"b":2}}}}]}}'.encode()
    assert decode_readable_offsets(body) == ((('{"a":1}', '{"b":2}'),), 1)
    assert decode_offsets(body) == Undecodable("offsets_entry_shape")


def test_of_entries_of_one_source_partition_only_those_that_agree_count():
    once, other = '{"partition":{"a":1},"offset":{"b":2}}', '{"partition":{"a":2},"offset":{}}'
    again = '{"partition":{"a":1},"offset":{"b":3}}'
    body = f'{{"offsets":[{once},{other},{once}]}}'.encode()
    assert decode_offsets(body) == (('{"a":1}', '{"b":2}'), ('{"a":2}', "{}"))
    body = f'{{"offsets":[{once},{other},{again}]}}'.encode()
    assert decode_readable_offsets(body) == ((('{"a":2}', "{}"),), 1)
    assert decode_offsets(body) == Undecodable("offsets_entry_shape")


def test_an_offset_of_which_half_a_character_was_replaced_is_not_reported():
    """Under another source partition, or as another offset, it would be written back."""
    plain = rb'{"partition":{"a":1},"offset":{"b":"\ud83d\ude00"}}'
    for odd in (rb'{"partition":{"a":"\ud83d"},"offset":{"b":2}}', plain.replace(rb"\ude00", b"")):
        body = replace_lone_surrogates(b'{"offsets":[%b,%b]}' % (odd, plain))
        offsets, unread = decode_readable_offsets(body)
        assert (offsets, unread) == ((('{"a":1}', '{"b":"\U0001f600"}'),), 1)


def test_fields_come_back_in_any_order_and_compare_equal():
    body = b'{"offsets":[{"partition":{"topic":"t","cluster":"a"},"offset":{"b":1,"a":2}}]}'
    assert decode_offsets(body) == (('{"cluster":"a","topic":"t"}', '{"a":2,"b":1}'),)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>502</body></html>",
        b"[]",
        b"null",
        b'{"offsets":{}}',
        b'{"offsets":[7]}',
        b'{"offsets":[{"partitions":{}}]}',
        b'{"offsets":[{"offset":{}}]}',
        b'{"error_code":404,"message":"no"}',
    ],
)
def test_what_is_no_list_of_offsets_is_undecodable(body):
    assert isinstance(decode_offsets(body), Undecodable)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b"[]",
        b'["c"]',
        b'{"c":null}',
        b'{"c":{"status":{},"info":{}}}',
        b'{"c":{"status":{"connector":{},"tasks":[]}}}',
        b'{"error":{"code":500,"message":"no"}}',
        b'{"error_code":500,"message":"no"}',
    ],
)
def test_what_is_no_list_of_connectors_is_undecodable(body):
    assert isinstance(decode_connectors(body), Undecodable)


STATUS = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}
INFO = {"config": {"connector.class": "FileStreamSource"}, "type": "source"}


@pytest.mark.parametrize(
    ("entry", "state", "configured"),
    [
        pytest.param({"info": INFO}, UNKNOWN_STATE, True, id="no-status"),
        pytest.param({"status": STATUS}, "running", False, id="no-info"),
        pytest.param({"status": STATUS, "info": {}}, "running", False, id="no-config"),
        *(
            pytest.param({"status": STATUS, "info": {"config": config}}, "running", False, id=name)
            for name, config in (
                ("empty-config", {}),
                ("no-class", {"name": "odd", "topics": "t"}),
                ("null-class", {"connector.class": None}),
                ("blank-class", {"connector.class": " "}),
            )
        ),
        pytest.param({"status": {}, "info": INFO}, UNKNOWN_STATE, True, id="empty-status"),
        pytest.param({"status": {"tasks": []}, "info": INFO}, UNKNOWN_STATE, True, id="no-state"),
        pytest.param(
            {"status": {**STATUS, "tasks": None}, "info": INFO}, UNKNOWN_STATE, True, id="no-tasks"
        ),
        pytest.param(
            {"status": {**STATUS, "tasks": [*STATUS["tasks"], {"id": "1"}]}, "info": INFO},
            UNKNOWN_STATE,
            True,
            id="half-of-the-tasks",
        ),
        pytest.param({}, UNKNOWN_STATE, False, id="empty"),
        pytest.param(None, UNKNOWN_STATE, False, id="null"),
        pytest.param([7], UNKNOWN_STATE, False, id="another-shape"),
    ],
)
def test_an_entry_of_another_shape_takes_no_other_with_it(entry, state, configured):
    body = {"good": {"status": STATUS, "info": INFO}, "odd": entry}
    good, odd = decode_connectors(json.dumps(body).encode())
    assert (good.name, good.state, len(good.tasks), good.configured) == ("good", "running", 1, True)
    assert (odd.name, odd.state, odd.configured) == ("odd", state, configured)
    assert bool(odd.tasks) is (state == "running")
    assert odd.class_name == ("FileStreamSource" if configured else "")


def test_names_alone_are_a_list_of_texts():
    assert decode_names(b'["b","a"]') == ConnectorNames(frozenset({"a", "b"}), NONE_ODD)
    assert decode_names(b"[]") == ConnectorNames(frozenset(), NONE_ODD)
    assert decode_names(b"{}") == decode_names(b"[7]") == Undecodable("names_shape")


def test_a_member_that_is_no_name_is_named_and_counted_beside_the_others():
    names = decode_names(b'["a",5,"b"]')
    assert names == ConnectorNames(frozenset({"a", "b"}), OddMembers(1, ("5",)))
    many = decode_names(b'["a"%b,{"name":"%b"}]' % (b",null" * 6, b"x" * 100))
    assert isinstance(many, ConnectorNames)
    assert str(many.odd) == "null, null, null, null, null and 2 more"
    assert str(decode_names(b'["a",["%b"]]' % (b"x" * 100))[1]) == f'["{"x" * 38}…'


def test_connectors_come_by_their_names_whatever_the_workers_order():
    entry = {"status": {"connector": {}, "tasks": []}, "info": INFO}
    connectors = decode_connectors(json.dumps({"b": entry, "a": entry}).encode())
    assert [item.name for item in connectors] == ["a", "b"]


def test_a_connectors_kind_is_that_of_its_info_and_else_of_its_status():
    status = {"connector": {}, "tasks": [], "type": "sink"}
    config = INFO["config"]
    both = {"c": {"status": status, "info": {"config": config, "type": "source"}}}
    one = {"c": {"status": status, "info": {"config": config}}}
    assert decode_connectors(json.dumps(both).encode())[0].kind is ConnectorKind.SOURCE
    assert decode_connectors(json.dumps(one).encode())[0].kind is ConnectorKind.SINK


def test_no_connectors_is_a_valid_answer():
    assert decode_connectors(b"{}") == ()


SECRET = "hunter2"


def test_no_secret_of_a_configuration_leaves_the_decoder():
    config = {
        "connector.class": MIRROR,
        "source.cluster.bootstrap.servers": "west:9092",
        "source.cluster.sasl.jaas.config": f"password={SECRET}",
        "consumer.override.sasl.jaas.config": SECRET,
        "database.password": SECRET,
        "name": "c",
        "anything": SECRET,
    }
    status = {"connector": {"state": "FAILED", "trace": SECRET, "worker_id": "w"}}
    for kind in ("source", "sink"):
        assert SECRET not in repr(listed(config, kind=kind, **status))


def test_states_are_lower_case_and_tasks_keep_their_numbers():
    tasks = [{"id": 1, "state": "FAILED", "trace": "..."}, {"id": 0, "state": "RUNNING"}]
    assert listed({}, tasks=tasks).tasks == (Task(1, "failed"), Task(0, "running"))


def test_a_failed_connector_and_a_failed_task_say_what_kind_of_failure_it_was():
    trace = f"org.example.Bad: {SECRET}\n\tat org.example.Task.poll(Task.java:7)"
    failed = {"state": "FAILED", "trace": trace, "worker_id": "w"}
    connector = listed({}, connector=failed, tasks=[{"id": 0, **failed}])
    assert connector.failure == connector.tasks[0].failure == "org.example.Bad in Task.poll"
    assert SECRET not in repr(connector)


def test_where_nothing_reports_which_task_cannot_be_read_no_state_is_known():
    tasks = [{"id": 3, "state": "RUNNING"}, {"id": "0", "state": "FAILED"}]
    connector = listed({}, tasks=tasks)
    assert (connector.state, connector.tasks) == (UNKNOWN_STATE, ())


@pytest.mark.parametrize(
    "odd",
    [
        {"id": 1},
        {"id": 1, "state": None},
        {"id": 1, "state": ""},
        *({"id": odd, "state": "RUNNING"} for odd in ("1", True, -1, 2**31, 10**4_000)),
        None,
        7,
        [],
    ],
)
def test_a_task_that_cannot_be_read_hides_no_failure_of_another(odd):
    tasks = [{"id": 0, "state": "FAILED"}, odd, {"id": 2, "state": "RUNNING"}]
    entry = {
        "status": {"connector": {"state": "RUNNING"}, "tasks": tasks},
        "info": {
            "config": INFO["config"],
            "tasks": [{"connector": "c", "task": number} for number in range(3)],
        },
    }
    (connector,) = decode_connectors(json.dumps({"c": entry}).encode())
    assert connector.state == "running"
    assert sorted(connector.tasks, key=lambda item: item.number) == [
        Task(0, "failed"),
        Task(1, UNKNOWN_STATE),
        Task(2, "running"),
    ]


def test_a_task_whose_statuses_contradict_each_other_has_no_state():
    failed = {"id": 0, "state": "FAILED", "trace": "org.example.Bad: no"}
    tasks = [{"id": 0, "state": "RUNNING"}, {"id": 1, "state": "RUNNING"}, failed]
    assert listed({}, tasks=tasks).tasks == (Task(0, UNKNOWN_STATE), Task(1, "running"))
    assert listed({}, tasks=[failed, failed]).tasks == listed({}, tasks=[failed]).tasks


def test_a_task_that_is_configured_and_has_no_status_is_there_without_a_state():
    entry = {
        "status": {"connector": {"state": "RUNNING"}, "tasks": [{"id": 1, "state": "RUNNING"}]},
        "info": {
            "config": INFO["config"],
            "tasks": [
                {"connector": "c", "task": 0},
                {"connector": "c", "task": 1},
                {"task": "2"},
                3,
            ],
        },
    }
    connectors = decode_connectors(json.dumps({"c": entry}).encode())
    assert not isinstance(connectors, Undecodable)
    assert (connectors[0].state, connectors[0].tasks) == (
        "running",
        (Task(1, "running"), Task(0, UNKNOWN_STATE)),
    )


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ([{"connector": "c", "task": 0}], (Task(0, "running"),)),
        ([], ()),
        # What cannot be read does not say that a task is not there.
        ([{"connector": "c", "task": 0}, {"task": "1"}], (Task(0, "running"), Task(1, "failed"))),
        (None, (Task(0, "running"), Task(1, "failed"))),
    ],
)
def test_a_status_of_a_task_that_is_not_configured_is_left_over(configured, expected):
    tasks = [{"id": 0, "state": "RUNNING"}, {"id": 1, "state": "FAILED"}]
    status = {"connector": {"state": "RUNNING"}, "tasks": tasks}
    entry = {"status": status, "info": {**INFO, "tasks": configured}}
    (connector,) = decode_connectors(json.dumps({"c": entry}).encode())
    assert connector.tasks == expected


def test_a_worker_older_than_4_1_gives_no_version():
    assert listed({}).version == ""
    connector = {"state": "RUNNING", "version": None}
    assert listed({}, connector=connector).version == ""


@pytest.mark.parametrize(
    ("class_name", "expected"),
    [
        (MIRROR, ConnectorKind.MIRROR),
        ("MirrorSource", ConnectorKind.MIRROR),
        ("MirrorCheckpointConnector", ConnectorKind.MIRROR),
        ("org.apache.kafka.connect.mirror.MirrorHeartbeatConnector", ConnectorKind.MIRROR),
        ("org.example.MirrorSourceConnector", ConnectorKind.SOURCE),
        ("org.example.Any", ConnectorKind.SOURCE),
    ],
)
def test_mm2_connectors_are_reported_by_their_class(class_name, expected):
    assert listed({"connector.class": class_name}).kind is expected


def test_a_connector_of_no_known_type_is_unknown():
    for kind in ("unknown", "", "of a later version"):
        connector = listed({"topics": "t"}, kind=kind)
        assert (connector.kind, connector.sink) == (ConnectorKind.UNKNOWN, None)
        assert connector.sink_if_one == listed({"topics": "t"}, kind="sink").sink


def test_the_aliases_default_to_source_and_target():
    result = mirror()
    assert (result.source, result.target) == ("source", "target")
    assert result.syncs_topic == "mm2-offset-syncs.target.internal"


@pytest.mark.parametrize(
    ("changes", "topic", "on_source"),
    [
        pytest.param({}, "mm2-offset-syncs.east.internal", True, id="default"),
        pytest.param(
            {"offset-syncs.topic.location": "target"},
            "mm2-offset-syncs.west.internal",
            False,
            id="on-the-target-named-by-the-source",
        ),
        pytest.param(
            {"replication.policy.separator": "_"},
            "mm2-offset-syncs_east_internal",
            True,
            id="other-separator",
        ),
        pytest.param(
            {
                "replication.policy.separator": "_",
                "replication.policy.internal.topic.separator.enabled": "false",
            },
            "mm2-offset-syncs.east.internal",
            True,
            id="separator-not-for-internal-topics",
        ),
        pytest.param({"emit.offset-syncs.enabled": "false"}, None, True, id="no-syncs"),
    ],
)
def test_the_syncs_topic_is_named_and_placed_as_mm2_does(changes, topic, on_source):
    aliases = {"source.cluster.alias": "west", "target.cluster.alias": "east"}
    result = mirror(**aliases, **changes)
    assert (result.syncs_topic, result.syncs_on_source) == (topic, on_source)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"consumer.isolation.level": "read_committed"}, True),
        ({"source.consumer.isolation.level": "read_committed"}, True),
        (
            {
                "consumer.isolation.level": "read_committed",
                "source.consumer.isolation.level": "read_uncommitted",
            },
            False,
        ),
        ({"source.cluster.isolation.level": "read_committed"}, False),
        ({"source.cluster.consumer.isolation.level": "read_committed"}, False),
        ({"target.consumer.isolation.level": "read_committed"}, False),
    ],
    ids=str,
)
def test_the_isolation_level_is_read_where_mm2_reads_it(changes, expected):
    assert mirror(**changes).read_committed is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"consumer.auto.offset.reset": "earliest"}, True),
        ({"consumer.auto.offset.reset": "latest"}, False),
        ({"source.consumer.auto.offset.reset": "latest"}, False),
    ],
    ids=str,
)
def test_a_mirror_begins_at_the_start_unless_its_consumer_is_configured_otherwise(
    changes, expected
):
    assert mirror(**changes).from_start is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 600.0),
        ({"refresh.topics.interval.seconds": "30"}, 30.0),
        ({"refresh.topics.interval.seconds": "-1"}, None),
        ({"refresh.topics.interval.seconds": "soon"}, 600.0),
        ({"refresh.topics.interval.seconds": "9" * 400}, 600.0),
        ({"refresh.topics.enabled": "false"}, None),
        ({"refresh.topics.enabled": "TRUE", "refresh.topics.interval.seconds": "0"}, 0.0),
    ],
    ids=str,
)
def test_a_mirror_searches_for_new_partitions_as_often_as_it_is_reported(changes, expected):
    assert mirror(**changes).refresh_s == expected


def test_a_replication_policy_is_reported_by_its_simple_name():
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert mirror(**{"replication.policy.class": policy}).policy == "IdentityReplicationPolicy"
    assert mirror().policy == "DefaultReplicationPolicy"


def test_a_foreign_class_with_the_name_of_a_policy_of_mm2_is_another_policy():
    names = ("com.example.DefaultReplicationPolicy", "com.example.OurOwnPolicy")
    for name in names:
        assert mirror(**{"replication.policy.class": name}).policy == name
    strimzis = "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy"
    assert mirror(**{"replication.policy.class": strimzis}).policy == "IdentityReplicationPolicy"


IDENTITY = "IdentityReplicationPolicy"
SYNCS_BY_SOURCE = "mm2-offset-syncs.west.internal"
ALIASES = {"source.cluster.alias": " west ", "target.cluster.alias": "\teast\n"}


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        # Each was run on MirrorSourceConfig of connect-mirror 4.3.1.
        ({}, "source", "west"),
        ({}, "target", "east"),
        ({}, "syncs_topic", "mm2-offset-syncs.east.internal"),
        ({"offset-syncs.topic.location": " target"}, "syncs_on_source", False),
        ({"offset-syncs.topic.location": " target"}, "syncs_topic", SYNCS_BY_SOURCE),
        ({"emit.offset-syncs.enabled": " False "}, "syncs_topic", None),
        ({"source.consumer.isolation.level": " read_committed "}, "read_committed", True),
        ({"consumer.auto.offset.reset": " earliest\t"}, "from_start", True),
        ({"replication.policy.class": f" {PACKAGE}{IDENTITY} "}, "policy", IDENTITY),
        # The policy is configured with the values as they are written.
        ({"replication.policy.separator": " _ "}, "separator", " _ "),
        ({"replication.policy.separator": ""}, "separator", ""),
        ({"replication.policy.separator": "_", SEPARATES: " false "}, "internal_separator", "."),
        ({"replication.policy.separator": "_", SEPARATES: " true "}, "internal_separator", "."),
        ({"replication.policy.separator": "_", SEPARATES: "TRUE"}, "internal_separator", "_"),
    ],
    ids=str,
)  # fmt: skip
def test_values_are_trimmed_where_connect_trims_them(changes, field, expected):
    assert getattr(mirror(**ALIASES, **changes), field) == expected


def test_a_class_and_a_list_may_have_blanks_around_them():
    connector = listed({"connector.class": f" {MIRROR} "})
    assert (connector.kind, connector.class_name) == (ConnectorKind.MIRROR, MIRROR)
    assert connector.mirror is not None
    sink = listed({"topics": " a ,\tb,c", "consumer.override.group.id": " g "}, kind="sink").sink
    assert (sink.topics, sink.group) == ({"a", "b", "c"}, "g")
    assert listed({"topics": "  "}, kind="sink").sink.topics == frozenset()


def test_a_pattern_of_topics_is_used_as_it_is_written():
    assert listed({"topics.regex": " a.*"}, kind="sink").sink.topics_regex == " a.*"
    assert listed({"topics.regex": "  "}, kind="sink").sink.topics_regex is None


ROUTER = {
    "transforms.r.type": " org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.r.regex": "west\\.(.*) ",
    "transforms.r.replacement": " copy-$1",
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ()),
        ({"transforms": ""}, ()),
        ({"transforms": "i", "transforms.i.type": f"{TRANSFORMS}InsertField$Value"}, ()),
        ({"transforms": " i , r", "transforms.i.type": f"{TRANSFORMS}Filter", **ROUTER}, (COPY,)),
        ({"transforms": "r", **ROUTER, "transforms.r.type": "RegexRouter"}, (COPY,)),
        (
            {"transforms": "r", **ROUTER, "transforms.r.predicate": "p"},
            (replace(COPY, conditional=True),),
        ),
        (
            {"transforms": "r", **ROUTER, "transforms.r.replacement": "${file:/etc/x:name}"},
            (TopicRouter("RegexRouter"),),
        ),
        (
            {"transforms": "t,e", "transforms.t.type": f"{TRANSFORMS}TimestampRouter",
             "transforms.e.type": "io.debezium.transforms.ByLogicalTableRouter"},
            (TopicRouter("TimestampRouter"), TopicRouter("ByLogicalTableRouter")),
        ),
        ({"transforms": "x"}, (TopicRouter("x"),)),
        (
            {"transforms": "l", "transforms.l.type": "io.debezium.transforms.ByLogicalTableRouter",
             "transforms.l.topic.regex": "shard-(.*) ", "transforms.l.topic.replacement": "all-$1"},
            (TopicRouter("ByLogicalTableRouter", "shard-(.*) ", "all-$1"),),
        ),
        (
            {"transforms": "r", **ROUTER, "transforms.r.type": "com.example.RegexRouter"},
            (TopicRouter("RegexRouter"),),
        ),
        ({"transforms": "h", "transforms.h.type": f"{AIVEN}Hash$Key"}, ()),
        ({"transforms": "h", "transforms.h.type": "Hash$Key"}, (TopicRouter("Hash$Key"),)),
        ({"transforms": "h", "transforms.h.type": f"{AIVEN}ExtractTopic$Key"},
         (TopicRouter("ExtractTopic$Key"),)),
    ],
    ids=str,
)  # fmt: skip
def test_the_transforms_that_may_rename_copies_are_reported(changes, expected):
    assert mirror(**changes).routers == expected


MATCHES = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, replace(COPY, topics="west\\..*")),
        ({"predicates.p.type": "TopicNameMatches"}, replace(COPY, topics="west\\..*")),
        ({"transforms.r.negate": " TRUE "}, replace(COPY, topics="west\\..*", negated=True)),
        ({"transforms.r.negate": "false"}, replace(COPY, topics="west\\..*")),
        ({"transforms.r.negate": "${env:NEGATE}"}, replace(COPY, conditional=True)),
        ({"predicates.p.pattern": "${env:TOPICS}"}, replace(COPY, conditional=True)),
        ({"predicates.p.type": MATCHES.replace("TopicNameMatches", "RecordIsTombstone")},
         replace(COPY, conditional=True)),
        ({"predicates.p.type": "com.example.TopicNameMatches"}, replace(COPY, conditional=True)),
        ({"transforms.r.predicate": "q"}, replace(COPY, conditional=True)),
        ({"transforms.r.type": f"{TRANSFORMS}TimestampRouter"},
         TopicRouter("TimestampRouter", topics="west\\..*")),
    ],
    ids=str,
)  # fmt: skip
def test_a_predicate_on_the_topic_is_distinguished_from_one_on_the_record(changes, expected):
    predicate = {
        "transforms.r.predicate": "p",
        "predicates": "p",
        "predicates.p.type": MATCHES,
        "predicates.p.pattern": "west\\..*",
    }
    assert mirror(**{"transforms": "r", **ROUTER, **predicate, **changes}).routers == (expected,)


def test_addresses_lose_protocol_and_spaces():
    result = mirror(**{"source.cluster.bootstrap.servers": "SASL_SSL://a:1, b:2 ,,"})
    assert result.source_addresses == {"a:1", "b:2"}


def test_addresses_of_ipv6_are_reported_in_one_spelling():
    servers = "SASL_SSL://[2001:DB8::1]:9092 , ::1:9092"
    result = mirror(**{"source.cluster.bootstrap.servers": servers})
    assert result.source_addresses == {"[2001:db8::1]:9092", "[::1]:9092"}


def test_a_sinks_group_is_named_after_it_unless_overridden():
    assert listed({}, kind="sink", name="s").sink == SinkSettings("connect-s", frozenset())
    overridden = {
        "consumer.override.group.id": "g",
        "consumer.override.bootstrap.servers": "far:9092",
    }
    assert listed(overridden, kind="sink").sink == SinkSettings("g", frozenset({"far:9092"}))


def test_a_sink_says_which_topics_it_reads():
    sink = listed({"topics": " a, b,,"}, kind="sink").sink
    assert (sink.topics, sink.topics_regex) == ({"a", "b"}, None)
    sink = listed({"topics.regex": "a.*"}, kind="sink").sink
    assert (sink.topics, sink.topics_regex) == (frozenset(), "a.*")
    assert listed({"topics.regex": ""}, kind="sink").sink.topics_regex is None


@pytest.mark.parametrize("topics", ["${env:TOPICS}", "a,${file:/etc/t.properties:b}"])
def test_topics_of_a_config_provider_are_a_pattern_that_cannot_be_evaluated(topics):
    found = listed({"topics": topics}, kind="sink").sink
    assert (found.topics, found.topics_regex) == (frozenset(), topics)
    assert not JavaPattern(topics).is_known


@pytest.mark.parametrize(
    ("level", "expected"),
    [(None, None), ("read_committed", True), ("read_uncommitted", False)],
)
def test_the_isolation_level_of_a_sink_without_an_override_is_unknown(level, expected):
    config = {} if level is None else {"consumer.override.isolation.level": level}
    assert listed(config, kind="sink").sink.read_committed is expected


@pytest.mark.parametrize(
    ("reset", "expected"), [(None, True), ("earliest", True), ("latest", False)]
)
def test_a_sink_without_a_commit_begins_where_its_override_says(reset, expected):
    config = {} if reset is None else {"consumer.override.auto.offset.reset": reset}
    assert listed(config, kind="sink").sink.from_start is expected


def test_a_checkpoint_connector_names_the_offset_syncs_it_reads_and_has_no_flow():
    aliases = {"source.cluster.alias": "a", "target.cluster.alias": "b"}
    connector = listed({"connector.class": MIRROR.replace("Source", "Checkpoint"), **aliases})
    assert connector.mirror is None
    assert connector.translates == mirror(**aliases)
    assert listed({"connector.class": "MirrorCheckpoint", **aliases}).translates is not None
    assert listed({"connector.class": MIRROR, **aliases}).translates is None


def test_only_of_a_file_source_is_it_said_what_it_reads():
    plain = {"file": "/data/in.txt"}
    source = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    assert listed({"connector.class": source, **plain}).filename == "/data/in.txt"
    for alias in ("FileStreamSource", "FileStreamSourceConnector"):
        assert listed({"connector.class": alias, **plain}).filename == "/data/in.txt"
    assert listed({"connector.class": source}).filename is None
    assert listed({"connector.class": source, "file": "${env:FILE}"}).filename is None
    assert listed({"connector.class": "org.example.Source", **plain}).filename is None


def test_only_a_sink_has_a_group_and_only_mirror_source_has_a_flow():
    assert listed({"connector.class": MIRROR}).sink is None
    assert listed({"connector.class": "MirrorHeartbeat"}).mirror is None
    assert listed({}, kind="sink").mirror is None


def test_a_dedicated_offsets_topic_is_named_and_placed():
    connector = listed({"offsets.storage.topic": "own"})
    assert (connector.dedicated_offsets_topic, connector.offsets_addresses) == ("own", frozenset())
    elsewhere = {"producer.override.bootstrap.servers": "PLAINTEXT://far:9092,far2:9092"}
    assert listed(elsewhere).offsets_addresses == {"far:9092", "far2:9092"}


# --- one connector -------------------------------------------------------------------------------


def test_a_status_reports_states_in_lower_case_and_the_kind():
    body = (
        b'{"name":"c","connector":{"state":"RUNNING","worker_id":"w"},'
        b'"tasks":[{"id":0,"state":"FAILED","trace":"x"}],"type":"sink"}'
    )
    assert decode_rest_status(body) == RestConnectorStatus("running", ("failed",), "sink")
    assert decode_rest_status(b'{"connector":{},"tasks":[]}') == RestConnectorStatus(
        "", (), "unknown"
    )


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"connector":{}}',
        b'{"connector":{},"tasks":[1]}',
        b'{"connector":{},"tasks":[{}]}',
        b'{"connector":{},"tasks":[{"state":"RUNNING"},{}]}',
        b'{"connector":1,"tasks":[]}',
    ],
)
def test_what_is_no_status_is_undecodable(body):
    assert decode_rest_status(body) == Undecodable("status_shape")


def test_traces_are_those_of_what_has_failed_by_task_and_none_is_the_connector():
    body = {
        "connector": {"state": "failed", "trace": "a"},
        "tasks": [
            7,
            {"id": 0, "state": "FAILED", "trace": "b" * (TRACE_CHARS_MAX + 1)},
            {"id": 1, "state": "RUNNING", "trace": "of before"},
            {"id": 2, "state": "FAILED"},
            {"id": "x", "state": "RUNNING"},
        ],
    }
    traces = decode_traces(json.dumps(body).encode())
    assert traces == {None: "a", 0: "b" * TRACE_CHARS_MAX}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"connector":{}}',
        b'{"tasks":[]}',
        b'{"connector":{},"tasks":[{"id":"0","state":"FAILED","trace":"x"}]}',
    ],
)
def test_traces_of_what_is_no_status_are_undecodable(body):
    assert decode_traces(body) == Undecodable("status_shape")


def test_a_mirrors_assignment_is_that_of_all_its_tasks():
    config = {"task.class": "org.apache.kafka.connect.mirror.MirrorSourceTask"}
    tasks = [
        {"config": {**config, "task.assigned.partitions": "a-b-0,c-1"}},
        {"config": {**config, "task.assigned.partitions": "a-b-2"}},
    ]
    assert decode_assignment(json.dumps(tasks).encode()) == {
        TopicPartition("a-b", 0),
        TopicPartition("c", 1),
        TopicPartition("a-b", 2),
    }
    assert decode_assignment(b"[]") == frozenset()


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (7, "task_shape"),
        ({}, "task_shape"),
        ({"config": {"task.class": "org.example.Task"}}, "task_not_mirror_source"),
        (
            {"config": {"task.class": "x.MirrorSourceTask", "task.assigned.partitions": "t"}},
            "value_assigned_partitions",
        ),
        (
            {"config": {"task.class": "x.MirrorSourceTask", "task.assigned.partitions": "a\0b-1"}},
            "value_assigned_partitions",
        ),
    ],
    ids=str,
)
def test_an_assignment_that_misses_one_tasks_share_is_undecodable(task, reason):
    whole = {"config": {"task.class": "x.MirrorSourceTask", "task.assigned.partitions": "t-0"}}
    for tasks in ([whole, task], [task, whole]):
        assert decode_assignment(json.dumps(tasks).encode()) == Undecodable(reason)
    assert decode_assignment(b"{}") == Undecodable("tasks_shape")


def test_configured_tasks_are_those_of_the_list_by_number():
    assert decode_task_numbers(b'[{"id":{"connector":"c","task":3},"config":{}}]') == (3,)
    assert decode_task_numbers(b'[{"id":{"task":0}},7,{"id":0},{}]') == (0, None, None, None)
    assert decode_task_numbers(b"{}") == Undecodable("tasks_shape")


def status_of(*states: str) -> bytes:
    tasks = [
        {"id": offset, "state": state, "trace": f"t{offset}"} for offset, state in enumerate(states)
    ]
    return json.dumps({"connector": {"state": "RUNNING"}, "tasks": tasks, "type": "sink"}).encode()


def test_a_status_that_a_task_of_an_earlier_configuration_left_is_none_of_its_tasks():
    body = status_of("RUNNING", "FAILED", "UNASSIGNED")
    assert decode_rest_status(body, (0,)) == RestConnectorStatus("running", ("running",), "sink")
    assert decode_traces(body, (0,)) == {}
    assert decode_traces(body, (0, 1)) == decode_traces(body) == {1: "t1"}
    # Nothing tells which are configured.
    assert decode_rest_status(body, (None,)) == decode_rest_status(body)
    assert decode_traces(body, (None,)) == {1: "t1"}


def test_a_task_that_is_not_configured_any_more_and_still_runs_is_not_left_out():
    body = status_of("RUNNING", "PAUSED", "FAILED")
    assert decode_rest_status(body, ()) == RestConnectorStatus(
        "running", ("running", "paused"), "sink"
    )


def test_a_configured_task_without_a_status_is_in_an_unknown_state():
    body = b'{"connector":{"state":"RUNNING"},"tasks":[{"id":0,"state":"RUNNING"},{}]}'
    assert decode_rest_status(body, (0, 1)) == RestConnectorStatus(
        "running", ("running", "unknown"), "unknown"
    )
    assert decode_rest_status(body, (0,)) == Undecodable("status_shape")


def test_plugins_are_reported_by_class_and_kind():
    body = b'[{"class":"a.B","type":"sink","version":"1"}]'
    assert decode_plugins(body) == Plugins({"a.B": "sink"}, NONE_ODD)
    assert decode_plugins(b"[]") == Plugins({}, NONE_ODD)
    odd = decode_plugins(b'[{"class":"a.B","type":"sink"},"a.B",{"class":7}]')
    assert odd == Plugins({"a.B": "sink"}, OddMembers(2, ('"a.B"', '{"class":7}')))
    for broken in (b'["a.B"]', b'[{"type":"sink"}]', b"{}", b"7"):
        assert decode_plugins(broken) == Undecodable("plugins_shape")


def test_a_configuration_is_compared_as_the_texts_that_connect_keeps():
    retained = decode_config_texts(b'{"tasks.max":"1","a":"true","b":null}')
    assert retained == {"tasks.max": "1", "a": "true", "b": None}
    assert retained == format_config_texts({"tasks.max": 1, "a": True, "b": None})
    assert decode_config_texts(b"[]") == Undecodable("config_shape")


@pytest.mark.parametrize(
    ("partition", "offset", "expected"),
    [
        (0, 5, ("t", 0, 5)),
        (-1, 5, None),
        (2**31, 5, None),
        (0, -5, None),
        (0, 2**63, None),
        (True, 5, None),
    ],
)
def test_a_sinks_entry_beyond_what_kafka_numbers_is_none(partition, offset, expected):
    identity = json.dumps({"kafka_topic": "t", "kafka_partition": partition})
    found = parse_consumed_partition(identity, json.dumps({"kafka_offset": offset}))
    assert found == expected


@pytest.mark.parametrize("topic", ["", "a\0b", "a b"])
def test_a_sinks_entry_of_a_name_that_no_topic_can_have_is_none(topic):
    identity = json.dumps({"kafka_topic": topic, "kafka_partition": 0})
    assert parse_consumed_partition(identity, '{"kafka_offset":5}') is None


@pytest.mark.parametrize("decode", [decode_names, decode_plugins])
def test_an_odd_member_of_any_depth_is_an_answer_or_none(decode):
    # What is decoded with the last frame there is cannot be encoded one frame further down.
    for depth in range(1, sys.getrecursionlimit() + 1):
        body = b'["a",{"class":"a"},' + b"[" * depth + b"]" * depth + b"]"
        assert isinstance(decode(body), tuple | Undecodable)


# --- rest answers memory -------------------------------------------------------------------------

MIB = 1024 * 1024
# A daemon without connectors takes 84 MiB, a body and its copy 64 MiB at most; all of it is to
# stay below 256 MiB.
PEAK_MAX = 100 * MIB
OFFSETS_PEAK_MAX = 15 * MIB  # 30,000 of them; of a whole answer, 250,000, eight times as much
STATUS_BODY = b'"status":{"connector":{"state":"RUNNING","worker_id":"w"},"tasks":[%s]}'


def joined(parts: Iterable[bytes]) -> bytes:
    return b",".join(parts)


def connector(
    name: int, *, config: bytes = b'"a":"b"', tasks: bytes = b"", configured: bytes = b""
) -> bytes:
    info = b'"info":{"config":{%s},"type":"source","tasks":[%s]}' % (config, configured)
    return b'"c%d":{%s,%s}' % (name, info, STATUS_BODY % tasks)


def wide_config() -> bytes:
    return connector(0, config=joined(b'"k%d":"v"' % number for number in range(900_000)))


def many_tasks() -> bytes:
    task = b'{"id":%d,"state":"RUNNING","worker_id":"w"}'
    return connector(0, tasks=joined(task % number for number in range(240_000)))


BODIES: dict[str, Callable[[], bytes]] = {
    "connectors of nothing": lambda: joined(b'"c%d":{}' % number for number in range(450_000)),
    "connectors": lambda: joined(connector(number) for number in range(10_000)),
    "one with a wide configuration": wide_config,
    "one with many tasks": many_tasks,
    "a trace of 31 MiB": lambda: connector(0, config=b'"a":"%s"' % (b"x" * 31 * MIB)),
}


def peak_of(decode: Callable[[bytes], object], body: bytes) -> int:
    assert not has_too_many_values(body)
    tracemalloc.start()
    try:
        decode(body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("built", BODIES.values(), ids=BODIES)
def test_a_list_of_connectors_is_decoded_one_by_one(built: Callable[[], bytes]):
    assert peak_of(decode_connectors, b"{%s}" % built()) < PEAK_MAX


def test_names_and_offsets_are_too():
    names = joined(b'"c%d"' % number for number in range(VALUES_MAX - 10))
    assert peak_of(decode_names, b"[%s]" % names) < PEAK_MAX
    pair = b'{"partition":{"f":"%d"},"offset":{"p":%d}}'
    offsets = joined(pair % (number, number) for number in range(30_000))
    assert peak_of(decode_offsets, b'{"offsets":[%s]}' % offsets) < OFFSETS_PEAK_MAX


@pytest.mark.parametrize("built", [wide_config, many_tasks])
def test_one_connector_that_is_too_wide_takes_no_other_with_it(built: Callable[[], bytes]):
    connectors = decode_connectors(b"{%s,%s}" % (built(), connector(1)))
    assert not isinstance(connectors, Undecodable)
    assert [(any_connector.name, any_connector.state) for any_connector in connectors] == [
        ("c0", UNKNOWN_STATE),
        ("c1", "running"),
    ]


def test_tasks_in_thousands_are_no_bound():
    task = b'{"id":%d,"state":"RUNNING","worker_id":"w"}'
    configured = b'{"connector":"c0","task":%d}'
    count = ENTRY_VALUES_MAX // 7 - 10
    entry = connector(
        0,
        tasks=joined(task % number for number in range(count)),
        configured=joined(configured % number for number in range(count)),
    )
    connectors = decode_connectors(b"{%s}" % entry)
    assert not isinstance(connectors, Undecodable)
    assert len(connectors[0].tasks) == count


def test_more_connectors_than_any_cluster_has_are_refused():
    body = joined(b'"c%d":{}' % number for number in range(CONNECTORS_MAX + 1))
    assert decode_connectors(b"{%s}" % body) == Undecodable("too_many_connectors")


# --- rest root -----------------------------------------------------------------------------------


def test_a_worker_says_its_version_and_its_kafka_cluster():
    body = b'{"version":"4.3.1","commit":"x","kafka_cluster_id":"abc"}'
    assert decode_root(body) == ConnectRoot(version="4.3.1", kafka_cluster_id="abc")


def test_old_workers_do_not_report_their_kafka_cluster():
    assert decode_root(b'{"version":"1.0.0"}') == ConnectRoot(version="1.0.0")
    empty = b'{"version":"4.3.1","kafka_cluster_id":""}'
    assert decode_root(empty) == ConnectRoot(version="4.3.1")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"version":1}', b"\xff", b"[" * 100_000])
def test_what_is_no_worker_is_undecodable(body: bytes):
    assert isinstance(decode_root(body), Undecodable)


@pytest.mark.parametrize("body", [b"[]", b'{"version":1}'])
def test_what_is_json_and_no_worker_has_a_reason_of_its_own(body: bytes):
    assert decode_root(body) == Undecodable("root_shape")


# --- settings that a config provider knows -------------------------------------------------------

PROVIDED = "${file:/etc/mm2.properties:it}"


@pytest.mark.parametrize(
    ("setting", "field", "unknown"),
    [
        ("offset-syncs.topic.location", "syncs_topic", None),
        ("emit.offset-syncs.enabled", "syncs_topic", None),
        ("replication.policy.separator", "syncs_topic", None),
        ("target.cluster.alias", "syncs_topic", None),
        ("source.consumer.isolation.level", "read_committed", None),
        ("source.consumer.auto.offset.reset", "from_start", False),
        ("refresh.topics.enabled", "refresh_s", math.inf),
        ("refresh.topics.interval.seconds", "refresh_s", math.inf),
        ("source.cluster.bootstrap.servers", "source_addresses", {PROVIDED}),
    ],
)
def test_no_setting_of_a_mirror_is_taken_literally(setting, field, unknown):
    found = mirror(**{setting: PROVIDED})
    assert getattr(found, field) == unknown
    assert found.syncs_known is (field != "syncs_topic")
    assert mirror(**{setting: PROVIDED, "emit.offset-syncs.enabled": "false"}).syncs_known


@pytest.mark.parametrize(
    ("separator", "enabled", "known"),
    [("_", PROVIDED, False), (PROVIDED, "true", False), (PROVIDED, "false", True)],
)
def test_a_separator_of_internal_topics_is_unknown_if_what_decides_it_is(separator, enabled, known):
    policy = "replication.policy"
    found = mirror(
        **{
            f"{policy}.separator": separator,
            f"{policy}.internal.topic.separator.enabled": enabled,
        }
    )
    assert is_provided(found.internal_separator) is not known
    assert (found.syncs_topic is not None) is known


def test_neither_class_nor_isolation_of_other_connectors_is_taken_literally():
    assert listed({"connector.class": PROVIDED}).class_name == ""
    sink = listed({"consumer.override.isolation.level": PROVIDED}, kind="sink").sink
    assert (sink.read_committed, sink.from_start) == (None, True)
    sink = listed({"consumer.override.auto.offset.reset": PROVIDED}, kind="sink").sink
    assert not sink.from_start


def test_an_empty_name_is_no_offsets_topic_of_its_own():
    for name in ("", " "):
        assert listed({"offsets.storage.topic": name}).dedicated_offsets_topic is None


LONG = "x" * 100_000


def test_a_text_of_any_length_is_bounded_before_it_is_used():
    """Each becomes a label, or is retained for each connector and task."""
    worker = {"state": "RUNNING", "version": LONG}
    status = {"connector": worker, "tasks": [{"id": 0, "state": LONG}]}
    aliases = {"source.cluster.alias": LONG, "target.cluster.alias": f"{LONG}y"}
    configs = {"class": {"connector.class": LONG}, "mirror": {"connector.class": "MirrorSource"}}
    body = {
        name: {"status": status, "info": {"config": {**config, **aliases}}}
        for name, config in configs.items()
    }
    by_class, mirror = decode_connectors(json.dumps(body).encode())
    assert mirror.mirror is not None
    texts = (by_class.class_name, by_class.version, mirror.mirror.source, mirror.mirror.target)
    assert {len(text) for text in texts} == {TEXT_CHARS_MAX}
    assert mirror.mirror.source != mirror.mirror.target
    assert by_class.tasks[0].state == UNKNOWN_STATE


def test_a_state_of_any_length_is_unknown():
    status = {"connector": {"state": LONG}, "tasks": [{"id": 0, "state": "RUNNING"}]}
    (connector,) = decode_connectors(json.dumps({"c": {"status": status, "info": INFO}}).encode())
    assert (connector.state, connector.tasks) == (UNKNOWN_STATE, ())
    rest_status = decode_rest_status(json.dumps(status).encode())
    assert isinstance(rest_status, RestConnectorStatus)
    assert rest_status.state == ""


def test_a_connector_with_a_name_of_any_length_is_counted_and_takes_no_other_with_it():
    entry = {"status": STATUS, "info": INFO}
    (connector,) = decode_connectors(json.dumps({"c": entry, LONG: entry}).encode())
    assert connector.name == "c"
    names = decode_names(json.dumps(["c", LONG]).encode())
    assert isinstance(names, ConnectorNames)
    assert (names.names, names.odd.count) == ({"c"}, 1)


def test_an_assigned_topic_has_a_name_that_kafka_allows():
    config = {
        "task.class": "org.apache.kafka.connect.mirror.MirrorSourceTask",
        "task.assigned.partitions": f"{'t' * 249}-0",
    }
    assert decode_assignment(json.dumps([{"config": config}]).encode()) == {
        TopicPartition("t" * 249, 0)
    }
    config["task.assigned.partitions"] = f"orders-0,{'t' * 250}-0"
    assert decode_assignment(json.dumps([{"config": config}]).encode()) == Undecodable(
        "value_assigned_partitions"
    )


def test_an_id_of_a_kafka_cluster_is_bounded_and_remains_another_one():
    roots = [
        decode_root(json.dumps({"version": "4.3.1", "kafka_cluster_id": LONG + end}).encode())
        for end in "ab"
    ]
    first, second = (root.kafka_cluster_id for root in roots if not isinstance(root, Undecodable))
    assert first is not None
    assert len(first) == TEXT_CHARS_MAX
    assert first != second
