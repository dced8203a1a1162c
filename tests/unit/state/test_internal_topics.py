import pytest

from offsetwatch.model.observations import TopicFactsRead
from offsetwatch.model.topology import InternalTopicRole, KafkaTopic, TopicFacts
from offsetwatch.state.internal_topics import (
    FACTS_EVERY_S,
    FACTS_STALE_S,
    FOREIGN_COMMIT_RECENT_S,
)

from .worlds import FILE, OFFSETS, World, source

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


def two_sites() -> World:
    """Two Connect clusters; one's offsets topic has been read to its end."""
    world = World(sites=("one", "two"))
    world.listed(source("ours"), cluster="one")
    world.listed(source("theirs"), cluster="two")
    world.found(cluster="one")
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


def test_facts_that_nobody_confirms_disappear():
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
    world.found(cluster="one")
    world.tail(whole=True)
    world.commit("theirs", FILE, {"position": 1})
    (problem,) = world.snapshot().topic_problems
    assert problem.detail == "connector theirs of Connect cluster two commits into it"


def test_a_connector_of_another_cluster_that_commits_here_makes_the_topic_shared():
    world = two_sites()
    world.commit("theirs", FILE, {"position": 1})
    assert problems(world) == [("east/connect-offsets", "shared")]


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_foreign_commit_counts_for_ten_flushes_whatever_its_workers_clock_says(skew_s):
    world = two_sites()
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
    world.found(cluster="one")
    world.commit("theirs", FILE, {"position": 1}, live=False)
    world.tail(whole=False)
    assert problems(world) == []


def test_a_reset_of_a_moved_connectors_offsets_is_no_sharing():
    world = two_sites()
    world.commit("theirs", FILE, None)
    assert problems(world) == []


def test_a_connector_of_the_same_name_in_both_clusters_is_no_sharing():
    world = two_sites()
    world.listed(source("ours"), source("theirs"), cluster="one")
    world.commit("theirs", FILE, {"position": 1})
    assert problems(world) == []


def test_an_offsets_topic_that_is_not_read_accuses_nobody():
    world = two_sites()
    world.commit("theirs", FILE, {"position": 1})
    world.now += 25.0  # the tail is stale
    assert problems(world) == []


def test_a_topic_of_two_clusters_is_shared_before_anyone_commits():
    world = two_sites()
    world.found(cluster="two")
    assert problems(world) == [("east/connect-offsets", "shared")]
