"""How fast a log start and a position move, and when the one reaches the other."""

from __future__ import annotations

import pytest

from offsetwatch.state.loss.accounting import (
    ALTERED,
    JUMPS_MAX,
    JUMPS_S,
    RECREATED,
    RETENTION,
    WINDOW_S,
    PartitionRates,
)
from offsetwatch.state.mirror.offset_syncs import SyncsSinceLastPoll
from tests.unit.state.loss.test_accounting_partitions import Watched, steady, synced

FLUSH_S = 60.0


def deleting(*jumps: tuple[float, int]) -> PartitionRates:
    """Of which a position is known since 0, at 1000 of a log of 5000."""
    rates = PartitionRates()
    rates.record_position(1000, 5000, 0.0)
    for moment, start in jumps:
        rates.start_moved(start, moment)
    return rates


def compute_seconds(
    rates: PartitionRates, *, headroom: int = 600, position: int = 1000, now: float = 300.0
):
    return rates.seconds(headroom, position, now, over_s=FLUSH_S)


def test_one_jump_reports_no_rate_and_two_do():
    assert compute_seconds(deleting((100.0, 0))) is None
    assert compute_seconds(deleting((100.0, 0), (300.0, 400))) == 300.0  # two a second


def test_two_jumps_of_one_moment_report_none():
    assert compute_seconds(deleting((300.0, 0), (300.0, 400))) is None


def test_a_jump_that_is_overdue_slows_the_rate_from_then_on():
    rates = deleting((100.0, 0), (200.0, 200), (300.0, 400))
    assert compute_seconds(rates, now=400.0) == 300.0
    assert (
        compute_seconds(rates, now=500.0) == 450.0
    )  # one record and a third, since that was due at 400


def test_a_position_that_moves_as_fast_is_never_reached():
    rates = deleting((100.0, 0), (300.0, 400))
    assert compute_seconds(rates, position=1300) == 600.0  # it comes closer by one a second
    assert compute_seconds(rates, position=1600) is None
    assert compute_seconds(rates, position=1900) is None


def test_the_rate_of_a_position_counts_from_when_it_was_first_observed():
    rates = PartitionRates()
    rates.record_position(1000, 5000, 100.0)
    rates.start_moved(0, 100.0)
    rates.start_moved(400, 300.0)
    assert compute_seconds(rates, position=1200) == 600.0


def test_a_rate_within_a_second_is_one():
    rates = PartitionRates()
    rates.advanced(5, 0.5)
    assert rates.best == 10.0


@pytest.mark.parametrize(("headroom", "remaining"), [(0, 0.0), (-5, 0.0), (1, 0.5)])
def test_what_is_reached_is_reached_now(headroom, remaining):
    assert compute_seconds(deleting((100.0, 0), (300.0, 400)), headroom=headroom) == remaining


def test_what_is_reached_is_so_whatever_was_observed_of_a_rate():
    assert compute_seconds(PartitionRates(), headroom=0) == 0.0


def test_too_little_was_observed_of_a_position_before_a_flush_went_by():
    rates = deleting((0.0, 0), (50.0, 100))
    assert compute_seconds(rates, now=59.0) is None
    assert compute_seconds(rates, now=60.0) is not None
    never = PartitionRates()
    never.start_moved(0, 0.0)
    never.start_moved(400, 200.0)
    assert compute_seconds(never) is None


def test_a_jump_counts_for_six_hours():
    rates = deleting((0.0, 0), (JUMPS_S, 400))
    assert compute_seconds(rates, now=JUMPS_S) is not None
    assert compute_seconds(rates, now=JUMPS_S + 1) is None
    rates.start_moved(800, JUMPS_S + 1)
    assert rates.jumps == ((JUMPS_S, 400), (JUMPS_S + 1, 800))


def test_of_many_jumps_every_second_is_retained():
    rates = deleting(*((float(number), number) for number in range(JUMPS_MAX)))
    assert len(rates.jumps) == JUMPS_MAX
    rates.start_moved(99, 99.0)
    assert rates.jumps == (
        *((float(number), number) for number in range(0, JUMPS_MAX, 2)),
        (99.0, 99),
    )


def test_a_rate_is_over_half_a_window_at_least_once_that_has_passed():
    rates = PartitionRates()
    for moment, position in ((0.0, 0), (299.0, 10), (300.0, 20), (599.0, 30), (600.0, 40)):
        rates.record_position(position, position + 5, moment)
    assert (rates.anchor, rates.middle) == ((300.0, 20, 25), (600.0, 40, 45))


def test_a_position_that_goes_back_begins_again_and_one_that_stands_does_not():
    rates = PartitionRates()
    rates.record_position(100, 200, 0.0)
    rates.advanced(50, 10.0)
    rates.record_position(100, 210, 10.0)
    assert (rates.anchor, rates.best) == ((0.0, 100, 200), 5.0)
    rates.record_position(99, 210, 20.0)
    assert (rates.anchor, rates.middle, rates.best) == ((20.0, 99, 210), (20.0, 99, 210), 0.0)


def test_what_may_have_been_copied_is_three_times_the_greatest_rate_of_both_halves():
    rates = PartitionRates()
    rates.record_position(0, 100, 0.0)
    for records, seconds in ((50, 10.0), (1, 0.5), (30, 10.0), (900, 0.0)):
        rates.advanced(records, seconds)
    assert rates.reach(100, 20.0, 60.0, over_s=FLUSH_S) == 300.0
    rates.record_position(81, 100, 300.0)
    rates.advanced(20, 10.0)
    assert rates.reach(100, 20.0, 310.0, over_s=FLUSH_S) == 300.0
    rates.record_position(101, 200, 600.0)
    assert rates.reach(100, 20.0, 610.0, over_s=FLUSH_S) == 120.0


def test_how_far_it_came_is_not_known_of_what_did_not_wait_for_a_flush():
    rates = PartitionRates()
    assert rates.reach(100, 20.0, 60.0, over_s=FLUSH_S) is None
    rates.record_position(0, 100, 0.0)
    rates.advanced(50, 10.0)
    assert rates.reach(100, 20.0, 59.0, over_s=FLUSH_S) is None
    assert rates.reach(101, 20.0, 60.0, over_s=FLUSH_S) is None
    assert rates.reach(100, 20.0, 60.0, over_s=FLUSH_S) == 300.0


def test_of_another_log_nothing_is_remembered():
    rates = deleting((100.0, 0), (300.0, 400))
    rates.advanced(50, 10.0)
    rates.restart()
    assert rates == PartitionRates()


def test_it_reports_the_same_in_our_days():
    began = 1_800_000_000.0
    rates = PartitionRates()
    rates.record_position(1000, 5000, began)
    rates.start_moved(0, began + 100)
    rates.start_moved(400, began + 300)
    assert compute_seconds(rates, now=began + 300) == 300.0
    rates.advanced(50, 5.0)
    assert rates.reach(4000, 10.0, began + FLUSH_S - 1, over_s=FLUSH_S) is None
    assert rates.reach(4000, 10.0, began + FLUSH_S, over_s=FLUSH_S) == 300.0


def test_a_rate_of_a_window_ago_is_none_any_more():
    rates = PartitionRates()
    rates.record_position(1000, 5000, 0.0)
    rates.advanced(50, 5.0)
    for moment in (WINDOW_S / 2, WINDOW_S):
        rates.record_position(1000, 5000, moment)
    assert rates.reach(4000, 10.0, WINDOW_S + FLUSH_S, over_s=FLUSH_S) == 0.0


# --- partition edges -----------------------------------------------------------------------------

# --- retention, and what was not decided yet -----------------------------------------------------


def test_a_jump_that_waits_for_its_sync_is_no_edit_when_the_connector_is_stopped():
    watched = Watched(99)
    watched.inspect(position=320, start=150, syncs=synced(99))
    watched.inspect(quiet=True, syncs=SyncsSinceLastPoll(newest=99))
    result = watched.inspect(quiet=False, syncs=synced(340, (100, 149)))
    assert result == [(RETENTION, 100, 149)]


# --- a topic that is another one -----------------------------------------------------------------


def test_what_was_committed_of_the_old_topic_is_not_lost_with_it_though_a_sync_was_waited_for():
    watched = Watched(99)
    watched.inspect(position=320, start=150, syncs=synced(99))
    watched.inspect(renewed=True, position=5, start=0, end=10)
    assert watched.lost == [(RECREATED, 321, 999)]


def test_what_the_syncs_reported_of_a_topic_recreated_is_taken_in_look_by_look():
    watched = Watched(899)
    watched.inspect(renewed=True, end=0)
    watched.inspect()
    assert not watched.account.waits


def test_a_sync_of_the_old_topic_that_comes_with_the_new_one_hides_nothing_of_that():
    watched = Watched(899, end=900)
    watched.inspect(runs=True)
    watched.inspect(renewed=True, end=0, syncs=synced(899))
    watched.wait()
    watched.inspect(position=4, end=50)
    watched.inspect(start=20)
    watched.wait()
    assert watched.lost == [(RETENTION, 5, 19)]


def test_a_log_start_at_the_heels_of_a_topic_that_is_copied_again_leaves_nothing_open():
    watched = Watched(999)
    watched.inspect(renewed=True, end=10)
    watched.wait()
    watched.inspect(position=9, start=10, end=20, syncs=SyncsSinceLastPoll(newest=9, came=True))
    assert not watched.account.waits


def test_a_commit_of_the_old_topic_that_comes_too_late_is_a_position_in_the_new_one():
    watched = Watched(899)
    watched.inspect(renewed=True, end=3000)
    watched.wait(50)
    assert watched.inspect(position=950) == [(RECREATED, 0, 899), (RECREATED, 900, 999)]


def test_what_moves_after_the_connector_was_stopped_is_no_last_commit():
    watched = Watched(899)
    watched.inspect(renewed=True, end=3000)
    assert watched.inspect(position=950, quiet=True) == [(RECREATED, 900, 999)]


def test_what_retention_took_beyond_what_was_skipped_is_counted_once():
    watched = Watched(999)
    watched.inspect(renewed=True, end=3000)
    watched.inspect(position=2999, start=1500, syncs=synced(2999, (900, 1100)))
    assert watched.lost == [(RECREATED, 0, 1100)]


# --- edits ---------------------------------------------------------------------------------------


def test_what_retention_takes_of_a_position_that_was_taken_back_is_lost():
    watched = Watched(99)
    watched.inspect(quiet=True)
    watched.inspect(position=499, quiet=True)
    watched.inspect(position=99, quiet=True)
    assert watched.inspect(start=150, quiet=True) == [(RETENTION, 100, 149)]


def test_what_was_passed_over_by_an_edit_and_then_by_retention_is_reported_of_both():
    watched = steady(100)
    watched.inspect(quiet=True)
    watched.inspect(position=5000, quiet=True)
    assert watched.inspect(position=10**6, start=900_000, quiet=False) == [
        (ALTERED, 1201, 5000),
        (RETENTION, 5001, 899_999),
    ]


def test_a_position_moved_to_the_end_of_a_log_that_grew_over_it_has_passed_over_nothing_yet():
    watched = Watched(99)
    watched.inspect(position=4999)
    assert watched.inspect(position=6000, end=6000) == []
    watched.inspect(position=99)
    watched.wait(600)
    assert watched.lost == []


def test_a_sync_of_a_record_that_is_not_in_the_log_yet_ends_no_edit():
    """Syncs are read after the log ends."""
    watched = Watched(99, end=100)
    watched.inspect(position=100)
    watched.inspect(syncs=SyncsSinceLastPoll(newest=100, came=True, lowest=0))
    watched.inspect(position=101, end=103)
    watched.wait(600)
    assert watched.lost == []


# --- headroom ------------------------------------------------------------------------------------


def test_the_log_start_of_the_old_topic_is_no_jump_that_the_new_one_goes_on_from():
    watched = Watched(5000, end=10**6)
    watched.inspect(start=1000)
    watched.inspect(renewed=True, start=0, position=4000)
    watched.wait()
    watched.inspect(start=2000)
    assert watched.account.headroom_s is None


def test_after_an_edit_of_the_position_the_time_to_retention_is_unknown():
    watched = Watched(5000, end=10**6)
    watched.wait()
    watched.inspect(start=1000)
    watched.wait(90)
    watched.inspect(start=2000, quiet=True)
    assert watched.account.headroom_s is not None
    watched.inspect(position=6000)
    assert watched.account.headroom_s is None
