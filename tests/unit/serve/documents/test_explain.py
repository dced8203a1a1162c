import msgspec
import pytest

from offsetwatch import documents
from offsetwatch.cli.inspect import explain
from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.errors import ConfigError
from offsetwatch.model.connectors import SinkSettings, Task
from offsetwatch.model.findings import FindingName
from offsetwatch.model.moments import Moment
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    InputFailed,
    InputId,
    InputSucceeded,
    LogBounds,
    SinkOffset,
    SinkOffsetsRead,
    TopicFactsRead,
)
from offsetwatch.model.topology import (
    GROUP_NOT_KNOWN,
    KAFKA_NOT_CONFIGURED,
    InternalTopicRole,
    KafkaTopic,
    TopicFacts,
    TopicPartition,
    TopicRouter,
)
from offsetwatch.serve.documents.explain import build_explained_connector, find_connector
from tests.changed import replace
from tests.unit.serve.documents.test_findings import FOUND, JUDGED
from tests.unit.state.worlds import (
    FILE,
    OFFSETS,
    SYNCS,
    World,
    mirror,
    orders,
    record,
    sink,
    source,
)


def rfc3339(moment: float) -> str:
    return documents.encode(Moment(moment)).decode().strip('"')


def explained(world: World, name: str) -> dict:
    """As a program reads it."""
    snapshot = world.snapshot()
    connector = build_explained_connector(snapshot, find_connector(snapshot, name, None))
    return msgspec.json.decode(documents.encode(connector))


def mirrored() -> World:
    """mm2 has committed 99 and synced 120; the log ends at 200."""
    world = World()
    world.listed(mirror())
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=SYNCS, whole=True)
    for offset in (98, 99):
        world.commit("mm2", orders(), {"offset": offset})
        world.snapshot()
        world.now += 1
    world.synced(120)
    world.ends(200)
    return world


def test_every_number_of_a_mirror_says_where_it_is_from_and_when_it_was_true():
    world = mirrored()
    result = explained(world, "mm2")
    flow = result["flow"]
    assert (flow["source"], flow["target"], flow["upstream"]) == ("west", "east", "west")
    assert flow["offset_syncs"] == str(SYNCS)
    (partition,) = flow["partitions"]
    assert partition["committed"] == {
        "offset": 99,
        "at": rfc3339(world.now - 1),
        "from": "offsets topic",
    }
    assert partition["synced"] == {"offset": 120, "at": rfc3339(world.now), "from": str(SYNCS)}
    assert partition["log_end"] == {
        "offset": 200,
        "at": rfc3339(world.now),
        "from": "high watermark of west",
    }
    assert (partition["replicated"], partition["lag_records"]) == (120, 79)
    assert result["problems"] == []


def test_a_mirror_whose_copies_have_other_names_says_so(capsys: pytest.CaptureFixture[str]):
    world = mirrored()
    regex = TopicRouter("RegexRouter", r"west\.(.*)", "copy-$1")
    routers = (
        regex,
        TopicRouter("TimestampRouter", topics="west\\.m.*", negated=True),
        TopicRouter("RegexRouter", "a", "b", conditional=True),
    )
    world.listed(mirror(routers=routers))
    snapshot = world.snapshot()
    connector = build_explained_connector(snapshot, find_connector(snapshot, "mm2", None))
    assert connector["flow"]["routers"] == [
        {
            "class": "RegexRouter",
            "regex": r"west\.(.*)",
            "replacement": "copy-$1",
            "conditional": False,
            "topics": None,
            "negated": False,
        },
        {
            "class": "TimestampRouter",
            "regex": None,
            "replacement": None,
            "conditional": False,
            "topics": r"west\.m.*",
            "negated": True,
        },
        {
            "class": "RegexRouter",
            "regex": "a",
            "replacement": "b",
            "conditional": True,
            "topics": None,
            "negated": False,
        },
    ]
    explain._print_head(connector)
    explain._print_tables(connector)
    out = capsys.readouterr().out
    assert r"renamed by RegexRouter: west\.(.*) -> copy-$1" in out
    assert "have other names, which are unknown (TimestampRouter)" in out
    assert r"of topics that do not match west\.m.*" in out
    assert "a -> b; of some records only, as a predicate decides: unknown" in out


def test_a_mirror_rests_on_two_topics_its_workers_and_the_upstream_log():
    result = explained(mirrored(), "mm2")
    assert [(view["input"], view["kind"], view["live"]) for view in result["inputs"]] == [
        ("lab", "connect_rest", True),
        (str(OFFSETS), "tail", True),
        (str(SYNCS), "tail", True),
        ("west", "log_ends", True),
    ]
    assert result["offsets_topic"] == str(OFFSETS)


def test_an_input_that_is_down_is_a_problem():
    world = mirrored()
    world.tail_failed("timeout", SYNCS)
    assert explained(world, "mm2")["problems"] == [f"topic {SYNCS} cannot be read: no luck"]


def test_a_connector_whose_cluster_cannot_be_read_depends_on_its_list():
    world = files()
    world.commit("files", FILE, {"position": 7})
    list_input = InputId(CONNECT_REST, connect_cluster="lab")
    for _ in range(3):
        world.now += 60
        world.tail()
        world.see(InputFailed(list_input, "unreachable", "refused"))
    result = explained(world, "files")
    assert result["kind"] == "unknown"
    assert ("lab", "connect_rest") in [(row["input"], row["kind"]) for row in result["inputs"]]
    assert "Connect cluster lab cannot be read: refused" in result["problems"]


def test_an_upstream_that_is_not_configured_is_a_problem():
    world = mirrored()
    world.listed(mirror(source_addresses=frozenset({"elsewhere:9092"})))
    (problem,) = explained(world, "mm2")["problems"]
    assert "no Kafka cluster of the configuration" in problem


def test_a_position_beyond_the_end_is_a_problem():
    world = mirrored()
    world.ends(50)
    (problem,) = explained(world, "mm2")["problems"]
    assert problem.startswith("orders-0 is 71 records beyond the log end")


def test_records_that_retention_took_are_named():
    world = mirrored()
    world.ends({TopicPartition("orders", 0): LogBounds(150, 200, 200)})
    (problem,) = explained(world, "mm2")["problems"]
    assert "offsets 121 to 149 can no longer be replicated" in problem


def test_a_partition_without_a_log_end_has_no_lag_and_says_so():
    world = mirrored()
    world.ends({TopicPartition("payments", 0): LogBounds(0, 1, 1)})
    result = explained(world, "mm2")
    assert result["flow"]["partitions"][0]["lag_records"] is None
    assert result["problems"] == ["orders-0 has no lag: its upstream log end is not known"]


def files(**changes) -> World:
    world = World()
    world.listed(source("files", **changes))
    world.find_topic()
    world.tail(whole=True)
    return world


def test_a_source_partition_has_its_offset_exact_and_its_history():
    world = files()
    world.commit("files", FILE, {"position": 2**60 + 1})
    result = explained(world, "files")
    (partition,) = result["source_partitions"]
    assert partition["source_partition"] == FILE
    assert partition["offset"] == {"position": 2**60 + 1}
    assert (partition["dialect"], partition["commits"], partition["committed_at"]) == (
        "file_stream",
        1,
        rfc3339(world.now),
    )
    assert (result["flow"], result["group"], result["problems"]) == (None, None, [])


def test_another_raw_key_is_explained_and_not_used():
    world = files()
    world.commit("files", FILE, {"position": 1})
    raw_key = build_connect_key("files", FILE).replace(b":", b": ")
    world.commit("files", FILE, {"position": 999}, raw_key=raw_key)
    result = explained(world, "files")
    assert result["source_partitions"][0]["offset"] == {"position": 1}
    (problem,) = result["problems"]
    assert "1 other raw key of this source partition" in problem


def test_records_that_could_not_be_decoded_are_a_problem():
    world = files()
    world.tail(undecodable=(("key_shape", 2),))
    (problem,) = explained(world, "files")["problems"]
    assert problem == f"topic {OFFSETS}: 2 records could not be decoded"


def test_a_connector_with_a_topic_of_its_own_rests_on_that_one():
    own = KafkaTopic("east", "files-offsets")
    world = files(dedicated_offsets_topic=own.topic)
    world.tail(topic=own, whole=True)
    result = explained(world, "files")
    assert result["offsets_topic"] == str(own)
    assert result["inputs"][1]["input"] == str(own)
    assert result["problems"] == []


def test_an_offset_left_in_the_clusters_topic_is_of_no_use_and_says_so():
    own = KafkaTopic("east", "files-offsets")
    world = files(dedicated_offsets_topic=own.topic)
    world.tail(topic=own, whole=True)
    world.commit("files", FILE, {"position": 7})
    result = explained(world, "files")
    assert result["source_partitions"][0]["offset"] is None
    assert result["source_partitions"][0]["shadow"] == {"position": 7}
    (problem,) = result["problems"]
    assert "it starts over" in problem


def test_offsets_on_a_cluster_that_is_not_configured_are_not_known():
    world = files(
        dedicated_offsets_topic="files-offsets", offsets_addresses=frozenset({"elsewhere:9092"})
    )
    problems = explained(world, "files")["problems"]
    assert any("files-offsets" in problem for problem in problems)


def test_the_offsets_topic_itself_may_be_the_problem():
    world = files()
    facts = TopicFacts(OFFSETS, InternalTopicRole.OFFSETS, "delete", 25, 1, 1)
    world.see(TopicFactsRead(kafka="east", facts=(facts,), at=world.now))
    (problem,) = explained(world, "files")["problems"]
    assert problem.startswith(f"topic {OFFSETS}: not_compacted:")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"state": "failed"}, "the connector has failed"),
        ({"tasks": (Task(0, "running"), Task(1, "failed"))}, "task 1 has failed"),
        ({"tasks": ()}, "it runs without a single task"),
    ],
)
def test_what_failed_is_a_problem(changes: dict, problem: str):
    assert explained(files(**changes), "files")["problems"] == [problem]


def test_a_sink_has_a_group_and_rests_on_no_topic():
    world = World()
    world.listed(sink("out"))
    world.sinks(SinkOffset("out", "orders", 0, committed=90, log_end=100))
    result = explained(world, "out")
    assert (result["group"]["group"], result["group"]["kafka"]) == ("connect-out", "east")
    assert result["group"]["lag_unknown"] is None
    assert result["group"]["partitions"] == [
        {
            "topic": "orders",
            "partition": 0,
            "committed": 90,
            "log_end": 100,
            "lag_records": 10,
            "from": "group",
            "caught_up": None,
            "lag_seconds": None,
            "behind_since": None,
            "behind_from": None,
        }
    ]
    assert result["offsets_topic"] is None
    assert [view["kind"] for view in result["inputs"]] == ["connect_rest", "groups"]


GONE = (
    "topic gone does not exist on Kafka cluster east, or this client may not describe it: the sink "
    "reads nothing from there until it is created"
)


def test_the_missing_topic_of_a_sink_is_named_until_the_last_read_is_too_old():
    world = World()
    settings = SinkSettings("connect-out", frozenset(), topics=frozenset({"gone", "orders"}))
    world.listed(replace(sink("out"), sink=settings))
    groups = InputId(GROUPS, connect_cluster="lab")
    missing = (("out", "gone"), ("out", "never-named"), ("other", "gone"))
    world.see(SinkOffsetsRead("lab", (), missing=missing), InputSucceeded(groups, world.now))
    assert explained(world, "out")["problems"] == [GONE]
    world.now += 3600.0
    world.listed(replace(sink("out"), sink=settings))
    assert GONE not in explained(world, "out")["problems"]


def test_a_sink_on_a_kafka_cluster_that_is_not_configured_says_why_it_has_no_lag():
    world = World()
    settings = SinkSettings(group="connect-out", addresses=frozenset({"far:9092"}))
    world.listed(replace(sink("out"), sink=settings))
    group = explained(world, "out")["group"]
    assert (group["kafka"], group["lag_unknown"]) == (None, KAFKA_NOT_CONFIGURED)


def test_a_name_that_only_a_config_provider_knows_is_said_to_be_one():
    world = World()
    settings = SinkSettings(group="${env:GROUP}", addresses=frozenset())
    world.listed(replace(sink("out"), sink=settings), mirror(source="${env:ALIAS}"))
    assert explained(world, "out")["group"]["lag_unknown"] == GROUP_NOT_KNOWN
    (_, problem) = explained(world, mirror().name)["problems"]
    assert "a config provider of its workers knows its source.cluster.alias" in problem


def test_settings_that_only_a_config_provider_knows_are_said_to_be_missing():
    world = mirrored()
    world.listed(mirror(separator="${env:SEPARATOR}", read_committed=None))
    world.ends({TopicPartition("orders", 0): LogBounds(start=0, end=200, stable_end=150)})
    problems = explained(world, "mm2")["problems"]
    assert any("knows its replication.policy.separator" in problem for problem in problems)
    assert any("has no lag: a config provider" in problem for problem in problems)


def test_one_key_in_two_kafka_partitions_is_said_to_be_in_doubt():
    world = files()
    there = [
        record("files", FILE, {"position": 7 + n}, log_offset=0, kafka_partition=n, live=False)
        for n in range(2)
    ]
    world.tail(*there, whole=True)
    (problem,) = explained(world, "files")["problems"]
    assert "different offsets in several Kafka partitions" in problem


def test_it_says_how_the_connector_makes_progress_by_which_rule_and_what_is_wrong_with_it():
    other = replace(JUDGED, connector="other")
    snapshot = replace(
        mirrored().snapshot(),
        judgements=(JUDGED, other),
        findings=(FOUND, replace(FOUND, connector=None)),
    )
    (view,) = snapshot.connectors
    connector = build_explained_connector(snapshot, view)
    ((judged,), (wrong,)) = (connector["judgements"], connector["findings"])
    assert (judged.verdict, judged.rule, judged.reason) == ("silent", 5, "work waits")
    assert judged.rule_text.startswith("Rule 5: work waits")
    assert wrong.name == "mm2_silent_stall"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (FindingName.POISON_SUSPECTED, {"state": "failed", "tasks": (Task(0, "failed"),)}),
        (FindingName.DUPLICATE_KEYS, {}),
    ],
)
def test_what_a_finding_says_is_not_said_again(name, wrong):
    world = files(**wrong)
    world.commit("files", FILE, {"position": 7}, raw_key=b'["files", {"filename": "/data/in.txt"}]')
    before = explained(world, "files")["problems"]
    finding = replace(FOUND, name=name, connector="files")
    snapshot = replace(world.snapshot(), findings=(finding,))
    (view,) = snapshot.connectors
    remaining = build_explained_connector(snapshot, view)["problems"]
    assert len(before) == 1 + 2 * bool(wrong)
    assert len(remaining) == len(before) - (2 if wrong else 1)


def test_a_position_beyond_the_end_that_was_found_is_not_said_again():
    world = mirrored()
    world.ends(50)
    finding = replace(FOUND, name=FindingName.MM2_POSITION_AHEAD)
    snapshot = replace(world.snapshot(), findings=(finding,))
    (view,) = snapshot.connectors
    assert build_explained_connector(snapshot, view)["problems"] == []


def test_an_unknown_name_is_answered_with_the_nearest():
    snapshot = files().snapshot()
    with pytest.raises(ConfigError, match=r'no connector file in .*, did you mean "files"'):
        find_connector(snapshot, "file", None)
    with pytest.raises(ConfigError, match=r"no connector x in .*: `offsetwatch connectors status`"):
        find_connector(snapshot, "x", None)


def test_a_name_that_two_clusters_have_queries_which():
    snapshot = files().snapshot()
    (view,) = snapshot.connectors
    both = replace(snapshot, connectors=(view, replace(view, connect_cluster="other")))
    with pytest.raises(ConfigError, match="say --connect"):
        find_connector(both, "files", None)
    assert find_connector(both, "files", "other").connect_cluster == "other"
    with pytest.raises(ConfigError, match="in Connect cluster none"):
        find_connector(both, "files", "none")


def test_what_a_flow_lost_is_reported_with_its_ranges_and_its_topics_ids():
    world = mirrored()
    bounds = {TopicPartition("orders", 0): LogBounds(150, 200, 200)}
    for topic_id in "aaaaab":
        world.now += 15
        world.tail()
        world.tail(topic=SYNCS)
        world.ends(bounds, ids={"orders": topic_id})
    flow = explained(world, "mm2")["flow"]
    lost = {"topic": "orders", "partition": 0, "cause": "retention", "first": 121, "last": 149}
    assert flow["losses"] == [{**lost, "records": 29, "at": rfc3339(world.now - 15)}]
    (again,) = flow["recreations"]
    assert (again["topic"], again["count"], again["id_before"], again["id_after"]) == (
        "orders",
        1,
        "a",
        "b",
    )
    (partition,) = flow["partitions"]
    assert (partition["headroom_records"], partition["lost_records"]["retention"]) == (-29, 29)
