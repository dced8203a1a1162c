from __future__ import annotations

import pytest

from offsetwatch.model.observations import (
    GROUPS,
    ConnectorsListed,
    FirstRecord,
    InputId,
    InputSucceeded,
    NoRecordBefore,
    ProbeResult,
    ProbeRoundRead,
    SinkOffset,
    SinkOffsetsRead,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.mirror.lag import LOG_ENDS, RECORD
from tests.changed import replace
from tests.unit.state.worlds import NOW, STALE_S, World, sink, source


def offset(
    connector: str = "s",
    *,
    committed: int | None = 90,
    log_end: int | None = 100,
    partition: int = 0,
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
    assert [partition.lag for partition in world.sunk()] == [0, 10]


def test_a_sink_whose_partition_has_no_end_has_a_position_and_no_lag():
    world = sinking()
    world.sinks(offset(log_end=None))
    (view,) = world.sunk()
    assert (view.committed, view.lag) == (90, None)


@pytest.mark.parametrize(
    ("from_start", "lag", "caught_up"), [(True, 90, None), (False, None, None)]
)
def test_a_sink_that_committed_nothing_has_the_whole_log_before_it_or_nobody_knows(
    from_start, lag, caught_up
):
    world = sinking()
    world.sinks(replace(offset(committed=None), log_start=10, from_start=from_start))
    (view,) = world.sunk()
    assert (view.committed, view.lag, view.caught_up) == (None, lag, caught_up)


def test_an_empty_partition_that_a_sink_committed_nothing_of_has_nothing_waiting():
    world = sinking()
    world.sinks(replace(offset(committed=None, log_end=7), log_start=7))
    (view,) = world.sunk()
    assert (view.lag, view.caught_up) == (0, True)


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
    assert [(partition.partition, partition.lag) for partition in world.sunk()] == [(0, 5)]


def probed(world: World, start: int, result: FirstRecord | NoRecordBefore) -> None:
    partition = ("lab", "s", TopicPartition("orders", 0))
    world.see(
        ProbeRoundRead(kafka="west", at=world.now, answers=(ProbeResult(partition, start, result),))
    )


def told(world: World) -> tuple[bool | None, float | None, str | None]:
    (view,) = world.sunk()
    return (view.caught_up, view.behind_since, view.behind_from)


def test_a_sink_at_the_end_is_caught_up_and_one_beyond_it_is_nothing_that_we_know():
    world = sinking()
    world.sinks(offset(committed=100))
    assert told(world) == (True, None, None)
    world.sinks(offset(committed=101))
    assert told(world) == (None, None, None)


def test_a_sink_that_rests_behind_a_marker_is_caught_up_although_it_lags_by_one():
    world = sinking()
    world.sinks(offset(committed=99))
    assert world.sunk()[0].probe_from == 99
    probed(world, 99, NoRecordBefore(100))
    assert told(world) == (True, None, None)
    assert world.sunk()[0].lag == 1


def test_what_waits_for_a_sink_counts_from_its_own_timestamp_once_that_is_read():
    world = sinking()
    world.sinks(offset(committed=100))
    world.now += 10
    world.sinks(offset(committed=100, log_end=110))
    assert told(world) == (None, NOW, LOG_ENDS)
    probed(world, 100, FirstRecord(offset=103, at=NOW + 4))
    assert told(world) == (False, NOW + 4, RECORD)
    world.sinks(offset(committed=104, log_end=110))
    assert world.sunk()[0].probe_from == 104


@pytest.mark.parametrize("log_end", [None, 50])
def test_without_an_end_or_with_one_that_fell_nothing_old_is_believed_of_a_sink(log_end):
    world = sinking()
    world.sinks(offset(committed=40))
    probed(world, 40, FirstRecord(offset=40, at=NOW))
    world.sinks(offset(committed=40, log_end=log_end))
    assert world.sunk()[0].caught_up is None


def test_what_retention_took_from_a_sink_is_not_waited_for():
    world = sinking()
    world.sinks(replace(offset(committed=40), log_start=70))
    assert world.sunk()[0].probe_from == 70


def test_before_there_is_a_list_no_sink_is_shown():
    world = World()
    world.sinks(offset())
    assert world.sunk() == ()
    world.listed(sink("s"))
    assert len(world.sunk()) == 1


def test_sinks_are_told_by_connect_cluster_whichever_answered_first():
    world = World(sites=("lab", "prod"))
    for name in ("prod", "lab"):
        world.see(
            ConnectorsListed(name, (sink("s"),)),
            SinkOffsetsRead(name, (offset(),)),
            InputSucceeded(InputId(GROUPS, connect_cluster=name), world.now),
        )
    assert [view.connect_cluster for view in world.sunk()] == ["lab", "prod"]


def test_a_sink_that_has_yet_to_read_its_first_record_is_probed_from_there():
    world = sinking()
    world.sinks(offset(committed=0, log_end=1))
    assert world.sunk()[0].probe_from == 0
