"""Inputs that fail, come back, or go: what depends on a stale one is not shown."""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import (
    CONNECT_REST,
    LOG_ENDS,
    TAIL,
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
)

from .worlds import FILE, OFFSETS, STALE_S, SYNCS, World, files, mirrors, orders, record, source

REST = InputId(CONNECT_REST, connect_cluster="lab")
OFFSETS_TAIL = InputId.of_tail(OFFSETS)
OTHER = {"filename": "/data/other.txt"}


def inputs(world: World) -> dict:
    return {view.id: view for view in world.snapshot().inputs}


def test_a_failure_lowers_the_gauge_and_counts_while_the_data_is_still_fresh():
    world = files()
    world.see(InputFailed(REST, "timeout", "no answer"))
    view = inputs(world)[REST]
    assert (view.up, view.live) == (False, True)
    assert view.errors == (("timeout", 1),)
    assert view.last_error == "no answer"
    assert len(world.snapshot().connectors) == 1


def test_a_success_clears_the_error_and_keeps_its_count():
    world = files()
    world.see(InputFailed(REST, "timeout", "no answer"), InputSucceeded(REST, world.now + 1))
    view = inputs(world)[REST]
    assert (view.up, view.last_error, view.errors) == (True, None, (("timeout", 1),))
    assert view.last_success_at == world.now + 1


def test_a_stale_list_takes_the_connectors_away_but_not_their_source_offsets():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.now += STALE_S[CONNECT_REST] + 1
    world.tail()
    assert world.snapshot().connectors == ()
    assert world.file().offset.number("position") == 7


def test_a_stale_tail_takes_the_source_offsets_away_and_a_live_one_brings_them_back():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.now += STALE_S[TAIL]
    assert len(world.partitions()) == 1
    world.now += 1
    assert world.partitions() == {}
    world.tail()
    assert world.file().offset.number("position") == 7


def test_a_sign_of_life_from_before_the_process_stood_still_shows_nothing():
    """It waited in the queue meanwhile: what it says was true before, and may not be any more."""
    world = files()
    world.commit("files", FILE, {"position": 7})
    requested_at = world.now
    world.now += STALE_S[TAIL] + 1
    world.tail(at=requested_at)
    assert world.partitions() == {}
    world.tail()
    assert world.file().offset.number("position") == 7


def test_a_tail_that_is_behind_and_reads_nothing_goes_stale():
    world = files()
    world.commit("files", FILE, {"position": 7})
    for _ in range(3):
        world.now += 10
        world.tail(behind=5)
    assert world.partitions() == {}


def test_a_tail_that_reads_its_topic_again_takes_its_series_down_until_it_is_through():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.tail(caught_up=False, behind=1)
    assert world.partitions() == {}
    world.commit("files", FILE, {"position": 8})
    assert len(world.partitions()) == 1


def test_a_tail_that_reads_on_after_an_outage_shows_nothing_until_it_has_read_what_it_missed():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.now += STALE_S[TAIL] + 1
    world.tail(behind=5, positions=((1, 3),))
    assert world.partitions() == {}
    view = inputs(world)[OFFSETS_TAIL]
    assert (view.up, view.live, view.tail.behind) == (True, False, 5)
    world.tail(positions=((1, 8),))
    assert inputs(world)[OFFSETS_TAIL].live
    assert world.file().offset.number("position") == 7


def test_a_tail_is_live_as_long_as_the_end_it_read_to_was_observed_lately():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.now += STALE_S[TAIL]
    world.tail(behind=5, positions=((1, 3),))
    assert len(world.partitions()) == 1
    world.now += 1
    world.tail(behind=5, positions=((1, 4),))
    assert world.partitions() == {}


@pytest.mark.parametrize("lag", [5, None])
def test_a_tail_that_stands_where_it_stood_and_not_at_the_end_does_not_work(lag):
    world = files()
    world.tail(positions=((0, 5),))
    world.tail_failed("unreachable")
    world.tail(behind=lag, positions=((0, 5),))
    assert not inputs(world)[OFFSETS_TAIL].up
    world.tail(behind=lag, positions=((0, 6),))
    assert inputs(world)[OFFSETS_TAIL].up


def test_where_a_tail_was_in_a_topic_that_is_read_again_is_forgotten():
    world = files()
    world.tail(positions=((1, 3), (0, 5)))
    assert inputs(world)[OFFSETS_TAIL].tail.positions == ((0, 5), (1, 3))
    world.tail(caught_up=False, behind=9, positions=((0, 0),))
    assert inputs(world)[OFFSETS_TAIL].tail.positions == ((0, 0),)


def test_inputs_are_in_order_whichever_was_heard_of_first():
    world = World()
    for name in ("west", "east", "north"):
        world.see(InputFailed(InputId(LOG_ENDS, kafka=name), "timeout", "no answer"))
    names = [view.id.input for view in world.snapshot().inputs]
    assert names == ["east", "north", "west"]


def test_a_tail_that_has_read_nothing_yet_is_not_up():
    world = World()
    world.tail(behind=5)
    assert not inputs(world)[OFFSETS_TAIL].up
    world.tail()
    assert inputs(world)[OFFSETS_TAIL].up


def test_how_far_a_dead_tail_lies_behind_is_not_claimed():
    world = files()
    assert inputs(world)[OFFSETS_TAIL].tail.behind == 0
    world.now += STALE_S[TAIL] + 1
    assert inputs(world)[OFFSETS_TAIL].tail.behind is None


def test_a_stale_syncs_tail_takes_the_flow_away_rather_than_understate_it():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 100})
    world.synced(150)
    assert world.mirrored() is not None
    assert len(world.snapshot().syncs) == 1
    world.now += STALE_S[TAIL] + 1
    world.tail()
    assert world.mirrored() is None
    assert world.snapshot().syncs == ()
    assert len(world.partitions()) == 1


def test_stale_log_ends_take_the_lag_away_and_leave_the_position():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 100})
    world.ends(150)
    assert world.mirrored().lag == 49
    world.now += STALE_S[LOG_ENDS] + 1
    world.tail()
    world.tail(topic=SYNCS)
    view = world.mirrored()
    assert (view.lag, view.ahead, view.log_start, view.log_end) == (None, None, None, None)
    assert view.replicated == 100


def test_a_clock_set_back_freezes_nothing():
    """A success that lies in the future must not keep a dead input alive until then."""
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.now -= 3600
    assert world.partitions() == {}
    assert world.snapshot().connectors == ()
    world.tail()
    assert len(world.partitions()) == 1


def test_a_small_step_back_of_the_clock_hides_nothing():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.now -= 5
    assert len(world.partitions()) == 1


def test_a_retired_input_is_forgotten():
    world = files()
    world.see(InputRetired(OFFSETS_TAIL))
    assert OFFSETS_TAIL not in inputs(world)
    assert world.partitions() == {}


def test_live_records_are_counted_by_what_they_are():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.commit("files", FILE, b"{nonsense")
    world.commit("files", FILE, None)
    world.tail(undecodable=(("key_null", 2), ("key_shape", 1)))
    tail = inputs(world)[OFFSETS_TAIL].tail
    assert (tail.values, tail.tombstones, tail.undecodable) == (2, 1, 3)


def test_what_was_there_before_it_was_followed_counts_nowhere():
    world = files()
    world.tail(
        record("files", FILE, {"position": 7}, live=False, log_offset=1),
        record("files", OTHER, None, live=False, log_offset=2),
        whole=True,
    )
    tail = inputs(world)[OFFSETS_TAIL].tail
    assert (tail.values, tail.tombstones) == (0, 0)


def test_an_input_that_never_answered_is_neither_up_nor_live():
    world = World()
    world.see(InputFailed(REST, "unreachable", "refused"))
    view = inputs(world)[REST]
    assert (view.up, view.live, view.last_success_at) == (False, False, None)


def test_connectors_of_one_connect_cluster_outlive_the_silence_of_another():
    world = World(sites=("lab", "prod"))
    world.listed(source("a"), cluster="lab")
    world.listed(source("b"), cluster="prod")
    world.now += STALE_S[CONNECT_REST] + 1
    world.listed(source("b"), cluster="prod")
    assert [view.name for view in world.snapshot().connectors] == ["b"]
