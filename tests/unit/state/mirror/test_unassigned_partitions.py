"""Partitions that were added upstream and are no task's."""

from __future__ import annotations

from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition
from tests.unit.state.worlds import NOW, World, mirror, mirrors, orders

ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))
BOUNDS = {ZERO: LogBounds(0, 100, 100), ONE: LogBounds(5, 50, 50), TWO: LogBounds(0, 7, 7)}


def copying(**changes) -> World:
    world = mirrors(mirror(**changes))
    world.assigned(0)
    world.commit("mm2", orders(), {"offset": 99})
    world.ends(BOUNDS, partitions={"orders": 1, "another": 9})
    return world


def seen(world: World) -> dict[int, tuple[int | None, float | None]]:
    results = world.snapshot().mirror_partitions
    return {
        partition.partition: (partition.lag, partition.unassigned_since) for partition in results
    }


def test_what_was_added_waits_from_the_start_of_its_log_since_it_was_seen():
    world = copying()
    assert seen(world) == {0: (0, None)}
    world.now += 10
    world.ends(BOUNDS, partitions={"orders": 3})
    assert seen(world) == {0: (0, None), 1: (None, NOW + 10), 2: (None, NOW + 10)}
    world.now += 10
    world.ends(BOUNDS, partitions={"orders": 3})
    assert seen(world) == {0: (0, None), 1: (45, NOW + 10), 2: (7, NOW + 10)}


def test_where_a_flow_that_begins_at_the_end_begins_is_not_known():
    world = copying(from_start=False)
    for _ in range(2):
        world.ends(BOUNDS, partitions={"orders": 2})
    assert seen(world)[1] == (None, NOW)


def test_what_a_task_is_given_is_unassigned_no_more():
    world = copying()
    world.ends(BOUNDS, partitions={"orders": 2})
    world.assigned(0, 1)
    assert seen(world)[1][1] is None


def test_what_a_topic_has_no_more_is_gone():
    world = copying()
    world.ends(BOUNDS, partitions={"orders": 2})
    assert 1 in seen(world)
    world.ends(BOUNDS, partitions={"orders": 1})
    assert 1 not in seen(world)


def test_where_nobody_tells_an_assignment_nothing_is_missing_from_it():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 99})
    world.ends(BOUNDS, partitions={"orders": 3})
    assert seen(world) == {0: (0, None)}
