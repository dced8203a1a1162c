"""What a connector copies, as its tasks say: more than it has committed, and sometimes less."""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import (
    TAIL,
    AssignmentConfirmed,
    InputId,
    LogBounds,
    OffsetsTopicLost,
    PartitionsAssigned,
)
from offsetwatch.model.topology import KafkaTopic, TopicPartition

from .worlds import OFFSETS, STALE_S, SYNCS, World, mirror, mirrors, orders, record, source

OWN = KafkaTopic("east", "mm2-own")


def bounds(end: int, start: int = 0, *, partition: int = 0) -> dict[TopicPartition, LogBounds]:
    return {TopicPartition("orders", partition): LogBounds(start, end, end)}


def trio(world: World, partition: int = 0) -> tuple[int | None, int | None, int | None]:
    """(replicated, end, lag) as the series show them."""
    view = world.mirrored(partition=partition)
    assert view is not None
    output = view.replicated if view.lag_position is None else view.lag_position
    return (output, view.log_end, view.lag)


def test_a_commit_outside_the_assignment_is_no_lag():
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.commit("mm2", orders(1), {"offset": 5})
    world.assigned(1)
    world.ends(bounds(100) | bounds(100, partition=1))
    assert world.mirrored(partition=0) is None
    assert world.mirrored(partition=1).lag == 94


def test_what_it_commits_after_an_assignment_was_read_is_shown_until_it_is_read_again():
    """Whoever tells what it was given may not tell any more, and what it copies may be more."""
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.commit("mm2", orders(1), {"offset": 5})
    world.assigned(1)
    world.now += 86_400
    world.commit("mm2", orders(0), {"offset": 6})
    world.reads(InputId.of_tail(OFFSETS), InputId.of_tail(SYNCS))
    world.ends(bounds(100) | bounds(100, partition=1))
    assert world.mirrored(partition=0).lag == 93
    assert world.mirrored(partition=1).lag == 94
    world.see(AssignmentConfirmed("lab", "mm2"))
    assert world.mirrored(partition=0) is None
    world.now += 1
    world.commit("mm2", orders(0), {"offset": 7})
    assert world.mirrored(partition=0).committed == 7
    world.assigned(1)
    assert world.mirrored(partition=0) is None


def test_an_assigned_partition_without_a_commit_has_its_whole_log_before_it():
    world = mirrors()
    world.assigned(0)
    world.ends(bounds(100, start=30))
    assert trio(world) == (None, 100, 70)
    assert (world.mirrored().committed, world.mirrored().ahead) == (None, 0)


def test_an_assigned_partition_without_a_commit_has_no_lag_if_it_begins_at_the_end():
    world = mirrors(mirror(from_start=False))
    world.assigned(0)
    world.ends(bounds(100, start=30))
    assert trio(world) == (None, 100, None)


@pytest.mark.parametrize("offset", [{"offset": -1}, {"offset": -7}, {"offset": None}, {}])
def test_an_offset_below_zero_or_without_a_number_is_none_to_mirrormaker(offset):
    world = mirrors()
    world.commit("mm2", orders(), offset)
    world.assigned(0)
    world.ends(bounds(100, start=30))
    assert trio(world) == (None, 100, 70)
    assert (world.mirrored().committed, world.mirrored().headroom) == (None, None)


@pytest.mark.parametrize("from_start", [True, False])
def test_a_first_commit_between_asking_and_answer_waits_for_the_next_answer(from_start):
    world = mirrors(mirror(from_start=from_start))
    world.assigned(0)
    request = world.ask_ends()
    world.commit("mm2", orders(), {"offset": 500})
    world.ends(bounds(400), number=request)
    assert trio(world) == (None, 400, 400 if from_start else None)
    world.ends(bounds(600))
    assert trio(world) == (500, 600, 99)


def test_a_reset_between_asking_and_answer_counts_at_once():
    world = mirrors()
    world.assigned(0)
    world.commit("mm2", orders(), {"offset": 99})
    world.ends(bounds(100))
    assert trio(world) == (99, 100, 0)
    request = world.ask_ends()
    world.commit("mm2", orders(), None)
    assert trio(world) == (None, 100, 100)
    world.ends(bounds(120), number=request)
    assert trio(world) == (None, 120, 120)


def test_a_reset_that_is_committed_over_between_two_answers_still_adds_up():
    world = mirrors()
    world.assigned(0)
    world.commit("mm2", orders(), {"offset": 99})
    request = world.ask_ends()
    world.commit("mm2", orders(), None)
    world.commit("mm2", orders(), {"offset": 7})
    world.ends(bounds(120), number=request)
    assert trio(world) == (7, 120, 112)


def test_an_end_that_was_not_read_for_a_position_is_not_shown_beside_it():
    """Two flows read one upstream; the second one's position was away when the ends were asked."""
    other = KafkaTopic("east", "prod-offsets")
    world = World(sites=("lab", "prod"))
    for cluster, topic in (("lab", OFFSETS), ("prod", other)):
        world.listed(mirror(syncs_topic=None), cluster=cluster)
        world.found(topic, cluster=cluster)
        world.tail(topic=topic, whole=True)
    world.commit("mm2", orders(), {"offset": 10})
    request = world.ask_ends()
    world.commit("mm2", orders(), {"offset": 500}, topic=other)
    world.ends(bounds(400), number=request)
    views = {
        partition.connect_cluster: partition for partition in world.snapshot().mirror_partitions
    }
    assert (views["lab"].log_end, views["lab"].lag) == (400, 389)
    assert (views["prod"].log_end, views["prod"].lag, views["prod"].replicated) == (None, None, 500)


def test_a_connector_that_was_deleted_leaves_no_assignment_to_the_next_of_its_name():
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.assigned(1)
    world.listed()
    world.listed(mirror())
    assert world.mirrored(partition=1) is None
    assert world.mirrored(partition=0).committed == 5


def test_an_assignment_that_comes_after_the_connector_went_is_not_kept_for_the_next():
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.listed()
    world.assigned(1)
    world.listed(mirror())
    assert world.mirrored(partition=0).committed == 5


def test_a_partition_that_a_transaction_hides_does_not_look_as_if_it_had_never_been_replicated():
    world = mirrors()
    world.assigned(0, 1)
    world.commit("mm2", orders(0), {"offset": 99}, kafka_partition=3)
    world.commit("mm2", orders(1), {"offset": 99}, kafka_partition=4)
    world.ends(bounds(100) | bounds(100, partition=1))
    world.tail(frozen=(3,))
    assert world.mirrored(partition=0) is None
    assert world.mirrored(partition=1).lag == 0
    world.tail()
    assert world.mirrored(partition=0).lag == 0


def test_a_partition_whose_first_commit_a_transaction_may_hide_is_not_shown_as_never_replicated():
    world = mirrors()
    world.assigned(0)
    world.tail(frozen=(3,))
    world.ends(bounds(100))
    assert world.mirrored() is None
    world.tail()
    world.ends(bounds(100))
    assert world.mirrored().lag == 100


def test_a_partition_that_the_bound_cut_is_not_shown_as_never_replicated():
    world = mirrors(source_partitions_max=1)
    world.assigned(0, 1)
    world.commit("mm2", orders(0), {"offset": 99})
    world.commit("mm2", orders(1), {"offset": 99})
    world.ends(bounds(100) | bounds(100, partition=1))
    assert world.mirrored(partition=0).lag == 0
    assert world.mirrored(partition=1) is None


def test_a_partition_with_an_offset_that_is_no_number_is_not_shown_as_never_replicated():
    """Its task fails when it starts, and until then copies from where only it knows."""
    world = mirrors()
    world.assigned(0)
    world.commit("mm2", orders(), {"offset": "99"})
    world.ends(bounds(100))
    assert world.mirrored() is None


def test_an_assignment_says_who_may_write_a_sync_before_the_first_commit():
    world = mirrors(mirror("a"), mirror("b"))
    world.commit("b", orders(), {"offset": 10})
    world.assigned(0, connector="a")
    world.assigned(0, connector="b")
    world.now += 5
    world.synced(95)  # of a, which has not committed yet
    assert world.mirrored("b").replicated == 10


def test_syncs_are_not_taken_for_a_flows_own_while_the_others_commit_is_hidden():
    world = mirrors(mirror("a"), mirror("b"))
    world.commit("a", orders(), {"offset": 80}, kafka_partition=3)
    world.commit("b", orders(), {"offset": 10}, kafka_partition=4)
    world.now += 5
    world.synced(95)
    assert world.mirrored("b").replicated == 10
    world.tail(frozen=(3,))
    assert world.mirrored("a") is None
    assert world.mirrored("b").replicated == 10


def test_readiness_once_reached_is_not_lost_while_positions_are_away():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 10})
    world.ends(100)
    assert world.snapshot().ready
    world.now += STALE_S[TAIL] + 1
    world.ends({})
    assert world.snapshot().waiting_for == ()


def test_syncs_that_a_transaction_hides_do_not_keep_a_daemon_from_being_ready():
    world = World()
    world.listed(mirror())
    world.found()
    world.tail(record("mm2", orders(), {"offset": 1}, log_offset=0, live=False), whole=True)
    world.tail(topic=SYNCS, whole=True, frozen=(0,))
    world.ends({})
    assert world.mirrored() is None
    assert world.snapshot().waiting_for == ()


def test_a_list_that_lacks_a_connector_once_does_not_empty_its_own_topic():
    """Its tail goes on, and reads nothing twice."""
    world = World()
    own = source("files", dedicated_offsets_topic="own")
    world.listed(own)
    world.tail(topic=KafkaTopic("east", "own"), whole=True)
    world.commit("files", {"filename": "/a"}, {"position": 7}, topic=KafkaTopic("east", "own"))
    world.listed()
    assert world.partitions() == {}
    world.listed(own)
    assert world.partitions()["files", "filename=/a"].offset.number("position") == 7


def test_an_offsets_topic_lost_and_found_again_under_its_name_is_not_empty():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 10})
    world.see(OffsetsTopicLost("lab"))
    assert world.snapshot().source_partitions == ()
    world.found()
    assert world.mirrored().committed == 10


def test_a_tail_that_ended_leaves_nothing_to_the_next_of_its_topic():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 10})
    world.tail_ended()
    world.found()
    assert world.snapshot().source_partitions == ()
    world.tail(whole=True)
    assert world.snapshot().source_partitions == ()


def test_what_a_bound_cut_stays_counted_when_its_topic_is_left():
    world = mirrors(source_partitions_max=1)
    world.commit("mm2", orders(0), {"offset": 10})
    world.commit("mm2", orders(1), {"offset": 10})
    world.tail_ended()
    assert dict(world.snapshot().dropped) == {"source_partitions_max": 1}


def test_an_assignment_outlives_the_next_listing():
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.assigned(1)
    world.listed(mirror(), source("files"))
    assert world.mirrored(partition=0) is None
    assert world.mirrored(partition=1) is not None


def test_an_assigned_partition_with_an_empty_log_has_nothing_before_it():
    world = mirrors()
    world.assigned(0)
    world.ends(bounds(30, start=30))
    assert trio(world) == (None, 30, 0)
    world.ends(bounds(20, start=30))  # cut back between the two questions
    assert trio(world) == (None, 20, 0)


class Compared(frozenset[TopicPartition]):
    """An assignment that knows how often it was held against another one."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = frozenset.__hash__


def test_an_assignment_told_again_is_held_against_the_last_one_once_and_not_by_each_picture():
    world = mirrors()
    reports = [Compared({TopicPartition("orders", 0)}) for _ in range(2)]
    world.see(PartitionsAssigned("lab", "mm2", reports[0]))
    world.ends(bounds(100))
    world.snapshot()
    Compared.times = 0
    world.see(PartitionsAssigned("lab", "mm2", reports[1]))
    assert Compared.times == 1
    for _ in range(3):
        world.snapshot()
    assert Compared.times == 1


def test_an_assignment_that_nobody_knows_any_more_is_none_where_flows_share_their_syncs():
    world = mirrors(mirror("a"), mirror("b"))
    for connector in ("a", "b"):
        world.commit(connector, orders(0), {"offset": 5})
    world.assigned(0, connector="a")
    world.ends(bounds(100))
    world.see(PartitionsAssigned("lab", "a", None))  # as of a cluster that is read from its topics
    world.ends(bounds(100))
    results = {view.connector: view.lag for view in world.snapshot().mirror_partitions}
    assert results == {"a": 94, "b": 94}


@pytest.mark.parametrize("skew_s", [-600.0, -30.0, 30.0, 600.0])
def test_what_was_committed_beside_an_assignment_is_told_from_what_is_since_by_any_clock(skew_s):
    """Partition 1 is left over from another configuration, until it is committed again."""
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.commit("mm2", orders(1), {"offset": 5}, at=world.now + skew_s)
    world.assigned(0)
    world.ends(bounds(100) | bounds(100, partition=1))
    assert [view.partition for view in world.snapshot().mirror_partitions] == [0]
    world.now += 20
    world.commit("mm2", orders(1), {"offset": 6}, at=world.now + skew_s)
    world.ends(bounds(100) | bounds(100, partition=1))
    assert [view.partition for view in world.snapshot().mirror_partitions] == [0, 1]
