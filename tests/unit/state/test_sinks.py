from __future__ import annotations

from exporter.model.observations import GROUPS, SinkOffset

from .worlds import STALE_S, World, sink, source


def offset(
    connector: str = "s", *, committed: int = 90, log_end: int | None = 100, partition: int = 0
) -> SinkOffset:
    return SinkOffset(
        connector=connector,
        topic="orders",
        partition=partition,
        committed=committed,
        log_end=log_end,
    )


def sinking() -> World:
    world = World()
    world.listed(sink("s"))
    return world


def test_a_sinks_lag_is_the_end_less_the_next_record():
    world = sinking()
    world.sinks(offset(committed=100), offset(committed=90, partition=1))
    assert [at.lag for at in world.sunk()] == [0, 10]


def test_a_sink_whose_partition_has_no_end_has_a_position_and_no_lag():
    world = sinking()
    world.sinks(offset(log_end=None))
    (view,) = world.sunk()
    assert (view.committed, view.lag) == (90, None)


def test_a_stale_groups_poll_takes_the_sinks_away():
    world = sinking()
    world.sinks(offset())
    world.now += STALE_S[GROUPS] + 1
    assert world.sunk() == ()


def test_a_deleted_sink_is_gone_before_its_group_is():
    world = sinking()
    world.sinks(offset())
    world.listed(source("other"))
    assert world.sunk() == ()


def test_an_answer_replaces_the_last_one():
    world = sinking()
    world.sinks(offset(), offset(partition=1))
    world.sinks(offset(committed=95))
    assert [(at.partition, at.lag) for at in world.sunk()] == [(0, 5)]
