import pytest

from offsetwatch.cli.inspect import diagnosis
from offsetwatch.cli.inspect.diagnosis import DoctorCheck, report_failed_check
from offsetwatch.cli.inspect.doctor import compute_exit_code, find_worst_verdict
from offsetwatch.clients.kafka.inspector import TopicShape
from offsetwatch.errors import (
    AccessDenied,
    NotFound,
    ResponseTimeout,
    ServerError,
    TargetUnreachable,
)
from offsetwatch.model.connectors import Connector
from offsetwatch.model.topology import (
    InternalTopicRole,
    KafkaTopic,
    MirrorFlow,
    OffsetsTopic,
    StatusTopic,
    TopicFacts,
    Topology,
)
from offsetwatch.state.internal_topics import find_topic_problems
from tests.changed import replace
from tests.unit.state.worlds import mirror, sink, source

ALL = frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"})
SHAPE = TopicShape(topic_id="id", partitions=1, replication=1, operations=ALL)
FACTS = TopicFacts(
    KafkaTopic("east", "connect-offsets"), InternalTopicRole.OFFSETS, "compact", 25, 1, 1
)
CONFIGURED = {"east": frozenset({"east:9092"}), "west": frozenset({"west:9092"})}


def list_verdicts(*lines: DoctorCheck) -> list[tuple[str, str]]:
    return [(line.check, line.verdict) for line in lines]


@pytest.mark.parametrize(
    ("verdicts", "unreachable", "expected", "code"),
    [
        (("ok", "unknown"), False, "ok", 0),
        (("ok", "warn"), False, "warn", 1),
        (("fail", "warn"), False, "fail", 1),
        (("ok", "fail"), True, "fail", 7),
    ],
)
def test_the_worst_line_decides_and_silence_outweighs_it(verdicts, unreachable, expected, code):
    lines = [DoctorCheck("it", "check", verdict, "found") for verdict in verdicts]
    lines[-1] = replace(lines[-1], unreachable=unreachable)
    assert (find_worst_verdict(lines), compute_exit_code(lines)) == (expected, code)


@pytest.mark.parametrize(
    ("error", "unreachable"),
    [
        (TargetUnreachable, True),
        (ResponseTimeout, True),
        (AccessDenied, False),
        (ServerError, False),
    ],
)
def test_only_silence_is_unreachable(error, unreachable: bool):
    line = report_failed_check("kafka east", "reachable", error("east", "no luck"))
    assert (line.verdict, line.unreachable) == ("fail", unreachable)
    assert line.found == f"{error.reason}: no luck"


@pytest.mark.parametrize(
    ("worker_says", "ids", "verdict", "advice"),
    [
        ("e", {"east": "e", "west": "w"}, "ok", None),
        ("w", {"east": "e", "west": "w"}, "fail", "kafka: west"),
        ("x", {"east": "e", "west": "w"}, "fail", "under kafka"),
        (None, {"east": "e"}, "unknown", None),
        ("e", {"east": None}, "unknown", None),
    ],
)
def test_the_mapping_is_checked_by_cluster_ids(worker_says, ids, verdict: str, advice):
    line = diagnosis.check_mapping("worker", "east", worker_says, ids)
    assert line.verdict == verdict
    assert advice is None or advice in line.advice


@pytest.mark.parametrize(
    ("connector", "verdict", "part"),
    [
        (mirror(), "ok", "upstream west"),
        (mirror(source_addresses=frozenset({"w:1"})), "fail", "w:1: no cluster under kafka"),
        (
            mirror(source_addresses=frozenset({"west:9092", "east:9092"})),
            "fail",
            "that is east and west",
        ),
        (mirror(source_addresses=frozenset()), "fail", "no address"),
        (sink("out"), None, ""),
        (source("files"), None, ""),
    ],
)
def test_the_addresses_that_a_connector_names_are_looked_up(
    connector: Connector, verdict: str | None, part: str
):
    line = diagnosis.check_addresses("connect lab", connector, CONFIGURED)
    assert (None if line is None else line.verdict) == verdict
    assert line is None or part in line.found


def test_a_sink_that_consumes_elsewhere_is_looked_up_too():
    out = sink("out")
    away = replace(out, sink=replace(out.sink, addresses=frozenset({"x:1"})))
    line = diagnosis.check_addresses("connect lab", away, CONFIGURED)
    assert line is not None
    assert (line.verdict, "x:1" in line.found) == ("fail", True)


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (ALL, [("topic ACLs", "ok")]),
        (frozenset({"ALL"}), [("topic ACLs", "ok")]),
        (ALL - {"READ"}, [("topic ACLs", "fail")]),
        (ALL - {"DESCRIBE_CONFIGS"}, [("topic ACLs", "warn")]),
        (frozenset(), [("topic ACLs", "fail"), ("topic ACLs", "fail"), ("topic ACLs", "warn")]),
        (None, [("topic ACLs", "unknown")]),
    ],
)
def test_what_we_may_not_do_with_a_topic_is_named(operations, expected):
    shapes = {"connect-offsets": replace(SHAPE, operations=operations)}
    assert list_verdicts(*diagnosis.check_permissions("kafka east", shapes, {})) == expected


def test_a_topic_that_is_hidden_or_missing_does_not_hide_the_others():
    shapes = {
        "gone": NotFound("east", "Unknown topic"),
        "hidden": AccessDenied("east", "no"),
        "connect-offsets": replace(SHAPE, operations=ALL - {"READ"}),
    }
    lines = list(diagnosis.check_permissions("kafka east", shapes, {}))
    assert list_verdicts(*lines) == [("topic", "fail"), ("topic", "fail"), ("topic ACLs", "fail")]
    assert [name in line.found for name, line in zip(shapes, lines, strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (frozenset({"DESCRIBE"}), "ok"),
        (frozenset({"READ"}), "ok"),  # implies Describe
        (frozenset(), "fail"),
        (AccessDenied("east", "no"), "fail"),
        (None, "unknown"),
    ],
)
def test_groups_need_describe(result, verdict: str):
    lines = diagnosis.check_permissions("kafka east", {}, {"connect-out": result})
    assert list_verdicts(*lines) == [("group ACLs", verdict)]


@pytest.mark.parametrize(
    ("shapes", "verdict"),
    [
        ({"a": SHAPE}, "ok"),
        ({"a": SHAPE, "b": replace(SHAPE, topic_id=None)}, "warn"),
        ({"a": NotFound("east", "gone")}, "unknown"),
    ],
)
def test_topics_without_ids_are_named(shapes, verdict: str):
    assert diagnosis.check_topic_ids("kafka east", shapes).verdict == verdict


@pytest.mark.parametrize(
    ("theirs", "verdict", "part"),
    [
        (None, "unknown", ""),
        (1000.0, "ok", ""),
        (1007.0, "ok", ""),  # 5 s after the answer
        (1009.0, "warn", "7 s ahead of"),
        (994.0, "ok", ""),  # its second may just have ended
        (993.0, "warn", "6 s behind"),
    ],
)
def test_a_workers_clock_is_compared_with_the_moments_around_the_question(theirs, verdict, part):
    line = diagnosis.check_worker_clock("worker", theirs, 1000.0, 1002.0)
    assert line.verdict == verdict
    assert part in line.found


@pytest.mark.parametrize(
    ("newest", "verdict"), [(None, "unknown"), (1.0, "ok"), (1005.0, "ok"), (1006.0, "warn")]
)
def test_only_records_from_the_future_report_a_clock(newest, verdict: str):
    assert diagnosis.check_record_clock(newest, 1000.0).verdict == verdict


@pytest.mark.parametrize(
    ("writable", "free_bytes", "verdict"),
    [(True, 2**31, "ok"), (True, 2**20, "warn"), (False, 2**31, "fail")],
)
def test_the_tables_need_room(writable: bool, free_bytes: int, verdict: str):
    assert (
        diagnosis.check_disk("history", writable=writable, free_bytes=free_bytes).verdict == verdict
    )


@pytest.mark.parametrize(
    ("spark", "java", "verdict"), [(True, True, "ok"), (True, False, "warn"), (False, False, "ok")]
)
def test_spark_needs_java(spark: bool, java: bool, verdict: str):
    assert diagnosis.check_history_extra(spark=spark, java=java).verdict == verdict


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(None, "ok"), (NotFound("lab", "404"), "warn"), (ResponseTimeout("lab", "slow"), "warn")],
)
def test_offsets_over_rest_are_good_to_have(error, verdict: str):
    assert diagnosis.check_offsets_endpoint("connect lab", error).verdict == verdict


def linted(*facts: TopicFacts) -> list[DoctorCheck]:
    result = diagnosis.check_internal_topics("kafka east", facts, find_topic_problems(facts))
    return [line for line in result if "beside" not in line.found]


def test_every_problem_of_a_topic_has_an_advice():
    syncs = KafkaTopic("east", "syncs")
    lines = linted(
        replace(FACTS, policy="delete", brokers=3, records=2_000_000, keys=1),
        replace(FACTS, at=syncs, role=InternalTopicRole.OFFSET_SYNCS, partitions=2),
    )
    assert sorted(line.verdict for line in lines) == ["fail", "warn", "warn", "warn"]
    assert all(line.advice for line in lines)


def test_a_policy_that_is_hidden_is_unknown_and_not_fine():
    assert [line.verdict for line in linted(replace(FACTS, policy=None))] == ["unknown"]


def test_sound_topics_are_named():
    (line,) = linted(FACTS)
    assert (line.verdict, "connect-offsets" in line.found) == ("ok", True)


def test_config_and_status_topics_that_were_not_found_are_unknown():
    lines = list(diagnosis.check_internal_topics("kafka east", (FACTS,), ()))
    assert list_verdicts(*lines) == [("internal topics", "ok"), ("internal topics", "unknown")]


HOME = OffsetsTopic("lab", KafkaTopic("east", "connect-offsets"))
STATUS = StatusTopic("lab", KafkaTopic("east", "connect-status"))


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (Topology((), ()), [("status topic", "warn")]),
        (Topology((replace(HOME, connector="orders"),), ()), [("status topic", "warn")]),
        (Topology((replace(HOME, connect_cluster="other"),), ()), [("status topic", "warn")]),
        (Topology((HOME,), ()), []),
        (Topology((), (), statuses=(STATUS,)), []),
    ],
)
def test_a_status_topic_that_nothing_leads_to_is_to_be_named(topology, expected):
    lines = list(diagnosis.check_status_topic("lab", topology))
    assert list_verdicts(*lines) == expected
    assert all("connect[].status_topic" in (line.advice or "") for line in lines)


@pytest.mark.parametrize(
    ("copies", "there", "expected"),
    [
        ((), ("west.orders",), []),
        ((("orders", "west.orders"),), ("west.orders",), []),
        ((("orders", "west.orders"),), (), []),  # its topics are not known
        (
            (("orders", "west.orders"),),
            ("other",),
            ["orders: there is no topic west.orders on east"],
        ),
        (
            (("*", "copy-{topic}"),),
            ("west.orders",),
            ["orders is copied to west.orders by its settings: copy-orders is not used"],
        ),
    ],
)
def test_names_of_copies_are_held_against_settings_and_topics(copies, there, expected):
    flow = MirrorFlow(
        *("lab", "mm2", "west", "east", "west", None),
        downstream="east",
        policy="DefaultReplicationPolicy",
        copies=copies,
    )
    lines = list(diagnosis.check_copies(flow, {"orders"}, there))
    assert [line.found for line in lines] == expected
    assert {line.verdict for line in lines} <= {"warn"}
