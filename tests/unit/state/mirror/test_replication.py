"""All flows together: what of one is another's, and what is kept of those that are there."""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.state.snapshot import MirrorPartitionView
from tests.unit.state.worlds import OFFSETS, SYNCS, World, mirror, mirrors, orders, sync

PROD = KafkaTopic("east", "prod-offsets")
MORE = KafkaTopic("west", "mm2-offset-syncs.more.internal")


def to(*ends: int) -> dict[TopicPartition, LogBounds]:
    return {
        TopicPartition("orders", offset): LogBounds(0, end, end) for offset, end in enumerate(ends)
    }


def test_of_a_flow_that_is_gone_nothing_is_retained_of_what_was_made_for_it():
    world = mirrors(mirror("a"), mirror("b"))
    for name in ("a", "b"):
        world.commit(name, orders(), {"offset": 9})
    world.ends(10)
    world.snapshot()
    world.listed(mirror("b"))
    world.snapshot()
    replication = world.book._replication
    for built in (replication._views._views, replication._known_positions):
        assert {flow.connector for flow in built} == {"b"}


def test_partitions_are_reported_in_order_whichever_was_committed_first():
    world = mirrors()
    for partition in (2, 0, 1):
        world.commit("mm2", orders(partition), {"offset": 9})
    assert [view.partition for view in world.snapshot().mirror_partitions] == [0, 1, 2]


def test_syncs_of_which_there_are_no_others_are_the_very_same():
    world = mirrors()
    world.synced(10)
    before = world.snapshot().syncs
    assert len(before) == 1
    world.ends(20)
    world.now += 1
    assert world.snapshot().syncs is before


# --- who is told of an answer --------------------------------------------------------------------
# Of most answers only what they change is told; where more than that is new, all has to be.
BOTH = pytest.mark.parametrize("topics", [(PROD,), (PROD, OFFSETS)], ids=["one", "both"])


def at_rest() -> World:
    """Flow mm2 of either Connect cluster has copied all of orders-0, and two answers say so."""
    world = World(sites=("lab", "prod"))
    for cluster, topic in (("lab", OFFSETS), ("prod", PROD)):
        world.listed(mirror(syncs_topic=None), cluster=cluster)
        world.find_topic(topic, cluster=cluster)
        world.tail(topic=topic, whole=True)
        world.commit("mm2", orders(), {"offset": 9}, topic=topic)
    for _ in range(2):
        world.ends(to(10, 10))
    return world


def copied(world: World, partition: int = 0) -> MirrorPartitionView:
    """By the flow of prod."""
    (view,) = (
        view
        for view in world.snapshot().mirror_partitions
        if (view.connect_cluster, view.partition) == ("prod", partition)
    )
    return view


def test_of_a_flow_at_rest_every_answer_reports_when_its_log_was_last_observed_to_end_there():
    world = at_rest()
    observed_at = world.now = world.now + 1
    world.ends(10)
    world.now += 1
    world.ends(15)
    assert copied(world).behind_since == observed_at


def test_a_clock_that_is_set_back_leaves_nothing_of_a_flow_at_rest_in_the_future():
    world = at_rest()
    observed_at = world.now = world.now - 10
    world.ends(10)
    world.now += 1
    world.ends(15)
    assert copied(world).behind_since == observed_at


def test_a_partition_that_is_new_beside_a_flow_at_rest_is_to_be_read_from_its_position():
    world = at_rest()
    world.commit("mm2", orders(1), {"offset": 4}, topic=PROD)
    world.ends(to(10, 10))
    view = copied(world, 1)
    assert (view.lag, view.caught_up, view.probe_from) == (5, None, 5)


@BOTH
def test_a_partition_that_is_new_since_the_query_waits_for_the_next_answer(topics):
    world = at_rest()
    request = world.request_ends()
    for topic in topics:
        world.commit("mm2", orders(1), {"offset": 9}, topic=topic)
    world.ends(to(10, 12), number=request)
    assert copied(world, 1).lag is None
    observed_at = world.now = world.now + 1
    world.ends(to(10, 10))
    assert copied(world, 1).lag == 0
    world.now += 1
    world.ends(to(10, 15))
    assert copied(world, 1).behind_since == observed_at


@BOTH
def test_the_answer_after_one_that_was_queried_too_early_reports_what_it_does_not_change(topics):
    world = at_rest()
    request = world.request_ends()
    for topic in topics:
        world.commit("mm2", orders(1), {"offset": 9}, topic=topic)
    world.ends(to(10, 10), number=request)
    observed_at = world.now = world.now + 1
    world.ends(to(10, 10))
    world.now += 1
    world.ends(to(10, 15))
    assert copied(world, 1).behind_since == observed_at


# --- what checkpoint tasks may have forgotten ----------------------------------------------------


def translate_old(world: World, syncs: KafkaTopic) -> int | None:
    """What MM2 translates an offset to that lies long before the newest sync, as far as is known
    of its task.
    """
    known = world.book._replication._syncs[syncs].read[TopicPartition("orders", 0)]
    return known.store.translate(50)


def two_clusters() -> World:
    world = World(sites=("lab", "prod"))
    world.listed(mirror())
    world.listed(mirror("more", syncs_topic=MORE.topic), cluster="prod")
    for topic in (SYNCS, MORE):
        world.tail(topic=topic, whole=True)
        for upstream in (50, 100, 200):
            world.synced(upstream, syncs_topic=topic)
    return world


def test_a_task_that_begins_again_forgets_the_syncs_of_its_own_connect_cluster_alone():
    world = two_clusters()
    before = translate_old(world, SYNCS)
    assert translate_old(world, MORE) == before
    world.book._replication.checkpoint_task_restarted("lab")
    assert translate_old(world, SYNCS) != before
    assert translate_old(world, MORE) == before


def test_a_task_that_begins_again_before_any_sync_was_read_has_nothing_to_forget():
    world = World()
    world.listed(mirror())
    world.book._replication.checkpoint_task_restarted("lab")
    assert world.snapshot().syncs == ()


@pytest.mark.parametrize("skew_s", [-600.0, 4.0, 600.0])
@pytest.mark.parametrize("live", [True, False])
def test_an_offset_that_is_patched_back_is_followed_whatever_the_clocks_of_its_writers_say(
    live, skew_s
):
    """The sync is by the task's worker, whose clock is ahead; the PATCH, three seconds later, by
    another one.
    """
    world = mirrors()
    copied = sync(1_000_000, at=world.now + skew_s)
    if live:
        world.commit("mm2", orders(), {"offset": 999_990})
        world.tail(copied, topic=SYNCS)
    else:
        world.tail(copied, topic=SYNCS, whole=True)
    world.now += 3
    world.commit("mm2", orders(), {"offset": 0})
    world.ends(1_000_001)
    view = world.mirrored()
    assert (view.replicated, view.lag) == (0, 1_000_000)


# --- clocks that are set -------------------------------------------------------------------------


def purged(start: int) -> dict[TopicPartition, LogBounds]:
    return {TopicPartition("orders", 0): LogBounds(start, 100, 100)}


def copying_without_syncs() -> World:
    """mm2 has committed 49 of 100, and retention takes the first 80 in the middle of a flush."""
    world = mirrors(mirror(syncs_topic=None))
    world.assigned(0)
    for offset in (9, 49):
        world.commit("mm2", orders(), {"offset": offset})
        for _ in range(4):
            inspect(world, 0)
    inspect(world, 80)
    return world


def inspect(world: World, start: int, *, step_s: float = 0.0) -> None:
    world.now += 15 + step_s
    world.reads_all()
    world.ends(purged(start), ids={"orders": "a"})


@pytest.mark.parametrize("step_s", [600.0, 60.0])
def test_a_clock_that_is_set_on_ends_no_flush(step_s):
    world = copying_without_syncs()
    inspect(world, 80, step_s=step_s)
    inspect(world, 80)
    world.commit("mm2", orders(), {"offset": 99})
    inspect(world, 80)
    assert dict(world.mirrored().lost)["retention"] == 0


@pytest.mark.parametrize("step_s", [600.0, 0.0, -600.0])
def test_what_is_lost_is_counted_a_flush_later_whatever_the_clock_is_set_to(step_s):
    world = copying_without_syncs()
    inspect(world, 80, step_s=step_s)
    assert dict(world.mirrored().lost)["retention"] == 0
    for _ in range(5):
        inspect(world, 80)
    assert dict(world.mirrored().lost)["retention"] == 30


# --- syncs of another log ------------------------------------------------------------------------


def test_a_sync_beyond_the_log_end_is_of_another_log_and_hides_no_lag():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 9})
    world.ends(100)
    for offset in (19, 29):
        world.now += 15
        world.commit("mm2", orders(), {"offset": offset})
        world.reads_all()
    world.synced(89)
    world.ends(100)
    assert (world.mirrored().replicated, world.mirrored().lag) == (89, 10)
    world.synced(5_000)
    world.ends(100)
    view = world.mirrored()
    assert (view.synced, view.replicated, view.lag, view.ahead) == (5_000, 29, 70, 0)
