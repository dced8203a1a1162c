"""Tests."""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import TopicFactsRead
from offsetwatch.model.topology import (
    InternalTopicRole,
    KafkaTopic,
    ListingTopics,
    MirrorFlow,
    OffsetsTopic,
    TopicFacts,
    Topology,
)
from offsetwatch.state.connect.connect_cluster import guess_sibling_names
from offsetwatch.state.internal_topics import (
    FACTS_EVERY_S,
    FACTS_STALE_S,
    FOREIGN_COMMIT_RECENT_S,
    LONG_TOPIC_RECORDS_MIN,
    ForeignWriter,
    find_internal_topics,
    find_shared_topics,
    find_topic_problems,
    role_of_key,
)
from offsetwatch.state.mirror.mm2_names import derive_checkpoints_topic
from tests.changed import replace
from tests.unit.state.worlds import FILE, OFFSETS, World, source

OTHER = KafkaTopic("east", "other-offsets")


def facts(topic: KafkaTopic = OFFSETS, policy: str = "delete") -> TopicFacts:
    return TopicFacts(
        at=topic,
        role=InternalTopicRole.OFFSETS,
        policy=policy,
        partitions=25,
        replication=1,
        brokers=1,
    )


def problems(world: World) -> list[tuple[str, str]]:
    return [(str(problem.at), problem.problem) for problem in world.snapshot().topic_problems]


def build_two_clusters() -> World:
    """Two Connect clusters; one's offsets topic has been read to its end."""
    world = World(sites=("one", "two"))
    world.listed(source("ours"), cluster="one")
    world.listed(source("theirs"), cluster="two")
    world.find_topic(cluster="one")
    world.tail(whole=True)
    return world


def test_what_was_read_of_a_topic_is_judged():
    world = World()
    world.see(TopicFactsRead(kafka="east", facts=(facts(),), at=world.now))
    assert problems(world) == [("east/connect-offsets", "not_compacted")]


def test_a_later_reading_replaces_the_earlier_one_of_its_cluster_only():
    world = World()
    west = KafkaTopic("west", "connect-offsets")
    world.see(TopicFactsRead(kafka="east", facts=(facts(), facts(OTHER)), at=world.now))
    world.see(TopicFactsRead(kafka="west", facts=(facts(west),), at=world.now))
    world.see(TopicFactsRead(kafka="east", facts=(facts(policy="compact"),), at=world.now))
    assert problems(world) == [("west/connect-offsets", "not_compacted")]


def test_facts_that_are_not_confirmed_disappear():
    world = World()
    world.see(TopicFactsRead(kafka="east", facts=(facts(),), at=world.now))
    world.now += FACTS_STALE_S
    assert problems(world)
    world.now += 1
    assert problems(world) == []


def test_a_reading_that_fails_takes_nothing_away():
    world = World()
    world.see(TopicFactsRead(kafka="east", facts=(facts(),), at=world.now))
    world.now += 2 * FACTS_EVERY_S
    assert problems(world)


def test_the_cluster_that_lists_an_intruder_is_named_and_no_other_is():
    world = World(sites=("one", "three", "two"))
    for cluster, name in (("one", "ours"), ("two", "theirs"), ("three", "others")):
        world.listed(source(name), cluster=cluster)
    world.find_topic(cluster="one")
    world.tail(whole=True)
    world.commit("theirs", FILE, {"position": 1})
    (problem,) = world.snapshot().topic_problems
    assert problem.detail == "connector theirs of Connect cluster two commits into it"


def test_a_connector_of_another_cluster_that_commits_here_makes_the_topic_shared():
    world = build_two_clusters()
    world.commit("theirs", FILE, {"position": 1})
    assert problems(world) == [("east/connect-offsets", "shared")]


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_foreign_commit_counts_for_ten_flushes_whatever_its_workers_clock_says(skew_s):
    world = build_two_clusters()
    world.commit("theirs", FILE, {"position": 1}, at=world.now + skew_s)
    world.now += FOREIGN_COMMIT_RECENT_S
    world.tail()
    assert problems(world) == [("east/connect-offsets", "shared")]
    world.now += 1
    world.tail()
    assert problems(world) == []


def test_what_a_moved_connector_left_behind_is_no_sharing():
    world = World(sites=("one", "two"))
    world.listed(source("ours"), cluster="one")
    world.listed(source("theirs"), cluster="two")
    world.find_topic(cluster="one")
    world.commit("theirs", FILE, {"position": 1}, live=False)
    world.tail(whole=False)
    assert problems(world) == []


def test_a_reset_of_a_moved_connectors_offsets_is_no_sharing():
    world = build_two_clusters()
    world.commit("theirs", FILE, None)
    assert problems(world) == []


def test_a_connector_of_the_same_name_in_both_clusters_is_no_sharing():
    world = build_two_clusters()
    world.listed(source("ours"), source("theirs"), cluster="one")
    world.commit("theirs", FILE, {"position": 1})
    assert problems(world) == []


def test_an_offsets_topic_that_is_not_read_raises_no_problem():
    world = build_two_clusters()
    world.commit("theirs", FILE, {"position": 1})
    world.now += 25.0  # the tail is stale
    assert problems(world) == []


def test_a_topic_of_two_clusters_is_shared_before_anyone_commits():
    world = build_two_clusters()
    world.find_topic(cluster="two")
    assert problems(world) == [("east/connect-offsets", "shared")]


# --- internal topic rules ------------------------------------------------------------------------

AT = KafkaTopic("east", "connect-offsets")
SOUND = TopicFacts(
    at=AT, role=InternalTopicRole.OFFSETS, policy="compact", partitions=25, replication=3, brokers=5
)
FLOW = MirrorFlow(
    connect_cluster="lab",
    connector="mm2",
    source="west",
    target="east",
    upstream="west",
    offset_syncs=KafkaTopic("west", "mm2-offset-syncs.east.internal"),
)


def changed(role: InternalTopicRole = InternalTopicRole.OFFSETS, **changes) -> TopicFacts:
    return replace(SOUND, role=role, **changes)


@pytest.mark.parametrize(
    ("facts", "problems"),
    [
        pytest.param(SOUND, [], id="sound"),
        pytest.param(changed(policy="delete"), ["not_compacted"], id="deleted by time"),
        pytest.param(changed(policy="compact,delete"), ["not_compacted"], id="compacted and cut"),
        pytest.param(changed(policy=None), [], id="a policy we may not see"),
        pytest.param(
            changed(InternalTopicRole.CHECKPOINTS, policy="delete", partitions=1),
            ["not_compacted"],
            id="checkpoints deleted by time",
        ),
        pytest.param(
            changed(InternalTopicRole.CONFIG, partitions=2),
            ["wrong_partitions"],
            id="two config partitions",
        ),
        pytest.param(
            changed(InternalTopicRole.OFFSET_SYNCS, partitions=3),
            ["wrong_partitions"],
            id="three offset-syncs partitions",
        ),
        pytest.param(
            changed(InternalTopicRole.CONFIG, partitions=1), [], id="one config partition"
        ),
        pytest.param(
            changed(InternalTopicRole.STATUS, partitions=5), [], id="five status partitions"
        ),
        pytest.param(changed(replication=2), ["low_replication"], id="two replicas of five"),
        pytest.param(changed(replication=2, brokers=2), [], id="two replicas on two brokers"),
        pytest.param(
            changed(replication=1, brokers=2), ["low_replication"], id="one replica on two brokers"
        ),
        pytest.param(changed(replication=1, brokers=1), [], id="one replica on one broker"),
        pytest.param(
            changed(records=LONG_TOPIC_RECORDS_MIN + 1, keys=10_000),
            ["oversize"],
            id="100 and a bit per key",
        ),
        pytest.param(changed(records=LONG_TOPIC_RECORDS_MIN, keys=1), [], id="a million is few"),
        pytest.param(changed(records=5_000_000, keys=50_000), [], id="many keys"),
        pytest.param(changed(records=5_000_000, keys=None), [], id="keys not counted"),
        pytest.param(changed(records=None, keys=5), [], id="records not counted"),
        pytest.param(
            changed(policy="delete", replication=1),
            ["low_replication", "not_compacted"],
            id="two at once",
        ),
    ],
)
def test_a_topic_has_exactly_these_problems(facts: TopicFacts, problems: list[str]) -> None:
    results = find_topic_problems((facts,))
    assert [problem.problem for problem in results] == problems
    assert {problem.at for problem in results} <= {AT}


def test_a_topic_in_two_roles_has_each_problem_once() -> None:
    facts = (
        changed(policy="delete"),
        changed(InternalTopicRole.CONFIG, policy="delete", partitions=1),
    )
    assert [problem.problem for problem in find_topic_problems(facts)] == ["not_compacted"]


def test_one_offsets_topic_of_two_connect_clusters_is_shared() -> None:
    topology = Topology(offsets_topics=(OffsetsTopic("one", AT), OffsetsTopic("two", AT)), flows=())
    (problem,) = find_shared_topics(topology, ())
    assert (problem.at, problem.problem) == (AT, "shared")
    assert "one and two" in problem.detail


def test_a_foreign_connector_that_commits_makes_a_topic_shared() -> None:
    topology = Topology(offsets_topics=(OffsetsTopic("one", AT),), flows=())
    (problem,) = find_shared_topics(topology, (ForeignWriter(at=AT, connector="jdbc", home="two"),))
    assert (problem.at, problem.problem) == (AT, "shared")
    assert "jdbc of Connect cluster two" in problem.detail


def test_of_several_foreign_connectors_the_first_by_name_is_reported() -> None:
    intruders = (ForeignWriter(AT, "jdbc", "two"), ForeignWriter(AT, "files", "two"))
    (problem,) = find_shared_topics(Topology(offsets_topics=(), flows=()), intruders)
    assert "files of Connect cluster two" in problem.detail


def test_topics_that_are_shared_are_reported_in_order() -> None:
    other = KafkaTopic("west", "connect-offsets")
    clusters = (OffsetsTopic(name, topic) for topic in (other, AT) for name in ("one", "two"))
    shared_topics = find_shared_topics(Topology(offsets_topics=tuple(clusters), flows=()), ())
    assert [problem.at for problem in shared_topics] == [AT, other]


def test_two_connect_clusters_with_a_topic_each_share_nothing() -> None:
    other = KafkaTopic("west", "connect-offsets")
    topology = Topology(
        offsets_topics=(OffsetsTopic("one", AT), OffsetsTopic("two", other)), flows=()
    )
    assert find_shared_topics(topology, ()) == ()


def test_the_topics_to_inspect_follow_from_the_topology() -> None:
    topology = Topology(offsets_topics=(OffsetsTopic("lab", AT),), flows=(FLOW,))
    assert find_internal_topics(topology, {"lab": "east"}) == {
        AT: InternalTopicRole.OFFSETS,
        KafkaTopic("west", "mm2-offset-syncs.east.internal"): InternalTopicRole.OFFSET_SYNCS,
        KafkaTopic("east", "west.checkpoints.internal"): InternalTopicRole.CHECKPOINTS,
    }


def test_topics_that_list_connectors_are_inspected() -> None:
    configs, status = KafkaTopic("east", "mm2-configs"), KafkaTopic("east", "mm2-status")
    topology = Topology(
        offsets_topics=(), flows=(), listings=(ListingTopics("lab", configs, status),)
    )
    assert find_internal_topics(topology, {"lab": "east"}) == {
        configs: InternalTopicRole.CONFIG,
        status: InternalTopicRole.STATUS,
    }


@pytest.mark.parametrize(
    ("syncs", "expected"),
    [
        ("mm2-offset-syncs.east.internal", "west.checkpoints.internal"),
        ("mm2-offset-syncs.west.internal", "west.checkpoints.internal"),  # syncs at the target
        ("mm2-offset-syncs_east_internal", "west_checkpoints_internal"),
        ("mm2-offset-syncs--east--internal", "west--checkpoints--internal"),
        ("mm2-offset-syncseastinternal", "westcheckpointsinternal"),  # a separator of no length
        ("mm2-offset-syncs.w.internal", "west.checkpoints.internal"),  # shorter than either alias
        ("of-a-policy-of-its-own", "west.checkpoints.internal"),
        (None, "west.checkpoints.internal"),
    ],
)
def test_the_checkpoints_topic_has_the_separator_of_the_syncs_topic(
    syncs: str | None, expected: str
) -> None:
    topic = None if syncs is None else KafkaTopic("west", syncs)
    assert derive_checkpoints_topic(replace(FLOW, offset_syncs=topic)) == expected


@pytest.mark.parametrize(
    ("offsets_topic", "config", "status"),
    [
        ("connect-offsets", "connect-configs", "connect-status"),
        ("mm2-offsets.west.internal", "mm2-configs.west.internal", "mm2-status.west.internal"),
        ("pay.connect.offset", "pay.connect.config", "pay.connect.status"),
    ],
)
def test_siblings_are_named_like_the_offsets_topic(
    offsets_topic: str, config: str, status: str
) -> None:
    assert {config, status} <= set(guess_sibling_names(offsets_topic))


def test_a_name_without_the_word_has_no_siblings() -> None:
    assert guess_sibling_names("kc-1") == ()


@pytest.mark.parametrize(
    ("key", "role"),
    [
        (b"connector-jdbc", InternalTopicRole.CONFIG),
        (b"task-jdbc-0", InternalTopicRole.CONFIG),
        (b"commit-jdbc", InternalTopicRole.CONFIG),
        (b"target-state-jdbc", InternalTopicRole.CONFIG),
        (b"session-key", InternalTopicRole.CONFIG),
        (b"status-connector-jdbc", InternalTopicRole.STATUS),
        (b"status-task-jdbc-0", InternalTopicRole.STATUS),
        (b"status-topic-orders:connector-jdbc", InternalTopicRole.STATUS),
        (b"order-4711", None),
        (b"connector-", None),
        (b"\xff\x00", None),
    ],
)
def test_a_key_reports_the_role_of_its_topic(key: bytes, role: InternalTopicRole | None) -> None:
    assert role_of_key(key) is role
