"""How fast a log start and a position move, and when the one reaches the other."""

from __future__ import annotations

import pytest

from offsetwatch.state.loss.accounting import JUMPS_MAX, JUMPS_S, WINDOW_S, PartitionRates

FLUSH_S = 60.0


def deleting(*jumps: tuple[float, int]) -> PartitionRates:
    """Of which a position is known since 0, at 1000 of a log of 5000."""
    rates = PartitionRates()
    rates.position_seen(1000, 5000, 0.0)
    for moment, start in jumps:
        rates.start_moved(start, moment)
    return rates


def left_s(rates: PartitionRates, *, headroom: int = 600, position: int = 1000, now: float = 300.0):
    return rates.seconds(headroom, position, now, over_s=FLUSH_S)


def test_one_jump_tells_no_pace_and_two_do():
    assert left_s(deleting((100.0, 0))) is None
    assert left_s(deleting((100.0, 0), (300.0, 400))) == 300.0  # two a second


def test_two_jumps_of_one_moment_tell_none():
    assert left_s(deleting((300.0, 0), (300.0, 400))) is None


def test_a_jump_that_is_overdue_slows_the_pace_from_then_on():
    rates = deleting((100.0, 0), (200.0, 200), (300.0, 400))
    assert left_s(rates, now=400.0) == 300.0
    assert left_s(rates, now=500.0) == 450.0  # one record and a third, since that was due at 400


def test_a_position_that_moves_as_fast_is_never_reached():
    rates = deleting((100.0, 0), (300.0, 400))
    assert left_s(rates, position=1300) == 600.0  # it comes closer by one a second
    assert left_s(rates, position=1600) is None
    assert left_s(rates, position=1900) is None


def test_the_pace_of_a_position_counts_from_when_it_was_first_seen():
    rates = PartitionRates()
    rates.position_seen(1000, 5000, 100.0)
    rates.start_moved(0, 100.0)
    rates.start_moved(400, 300.0)
    assert left_s(rates, position=1200) == 600.0


def test_a_pace_within_a_second_is_one():
    rates = PartitionRates()
    rates.advanced(5, 0.5)
    assert rates.best == 10.0


@pytest.mark.parametrize(("headroom", "remaining"), [(0, 0.0), (-5, 0.0), (1, 0.5)])
def test_what_is_reached_is_reached_now(headroom, remaining):
    assert left_s(deleting((100.0, 0), (300.0, 400)), headroom=headroom) == remaining


def test_what_is_reached_is_so_whatever_was_seen_of_a_pace():
    assert left_s(PartitionRates(), headroom=0) == 0.0


def test_too_little_was_seen_of_a_position_before_a_flush_went_by():
    rates = deleting((0.0, 0), (50.0, 100))
    assert left_s(rates, now=59.0) is None
    assert left_s(rates, now=60.0) is not None
    never = PartitionRates()
    never.start_moved(0, 0.0)
    never.start_moved(400, 200.0)
    assert left_s(never) is None


def test_a_jump_counts_for_six_hours():
    rates = deleting((0.0, 0), (JUMPS_S, 400))
    assert left_s(rates, now=JUMPS_S) is not None
    assert left_s(rates, now=JUMPS_S + 1) is None
    rates.start_moved(800, JUMPS_S + 1)
    assert rates.jumps == ((JUMPS_S, 400), (JUMPS_S + 1, 800))


def test_of_many_jumps_every_second_is_kept():
    rates = deleting(*((float(number), number) for number in range(JUMPS_MAX)))
    assert len(rates.jumps) == JUMPS_MAX
    rates.start_moved(99, 99.0)
    assert rates.jumps == (
        *((float(number), number) for number in range(0, JUMPS_MAX, 2)),
        (99.0, 99),
    )


def test_a_pace_is_over_half_a_window_at_least_once_that_has_passed():
    rates = PartitionRates()
    for moment, position in ((0.0, 0), (299.0, 10), (300.0, 20), (599.0, 30), (600.0, 40)):
        rates.position_seen(position, position + 5, moment)
    assert (rates.anchor, rates.middle) == ((300.0, 20, 25), (600.0, 40, 45))


def test_a_position_that_goes_back_begins_anew_and_one_that_stands_does_not():
    rates = PartitionRates()
    rates.position_seen(100, 200, 0.0)
    rates.advanced(50, 10.0)
    rates.position_seen(100, 210, 10.0)
    assert (rates.anchor, rates.best) == ((0.0, 100, 200), 5.0)
    rates.position_seen(99, 210, 20.0)
    assert (rates.anchor, rates.middle, rates.best) == ((20.0, 99, 210), (20.0, 99, 210), 0.0)


def test_what_may_have_been_copied_is_three_times_the_greatest_pace_of_both_halves():
    rates = PartitionRates()
    rates.position_seen(0, 100, 0.0)
    for records, seconds in ((50, 10.0), (1, 0.5), (30, 10.0), (900, 0.0)):
        rates.advanced(records, seconds)
    assert rates.reach(100, 20.0, 60.0, over_s=FLUSH_S) == 300.0
    rates.position_seen(81, 100, 300.0)
    rates.advanced(20, 10.0)
    assert rates.reach(100, 20.0, 310.0, over_s=FLUSH_S) == 300.0
    rates.position_seen(101, 200, 600.0)
    assert rates.reach(100, 20.0, 610.0, over_s=FLUSH_S) == 120.0


def test_how_far_it_came_is_not_known_of_what_did_not_wait_for_a_flush():
    rates = PartitionRates()
    assert rates.reach(100, 20.0, 60.0, over_s=FLUSH_S) is None
    rates.position_seen(0, 100, 0.0)
    rates.advanced(50, 10.0)
    assert rates.reach(100, 20.0, 59.0, over_s=FLUSH_S) is None
    assert rates.reach(101, 20.0, 60.0, over_s=FLUSH_S) is None
    assert rates.reach(100, 20.0, 60.0, over_s=FLUSH_S) == 300.0


def test_of_another_log_nothing_is_remembered():
    rates = deleting((100.0, 0), (300.0, 400))
    rates.advanced(50, 10.0)
    rates.restart()
    assert rates == PartitionRates()


def test_it_tells_the_same_in_our_days():
    began = 1_800_000_000.0
    rates = PartitionRates()
    rates.position_seen(1000, 5000, began)
    rates.start_moved(0, began + 100)
    rates.start_moved(400, began + 300)
    assert left_s(rates, now=began + 300) == 300.0
    rates.advanced(50, 5.0)
    assert rates.reach(4000, 10.0, began + FLUSH_S - 1, over_s=FLUSH_S) is None
    assert rates.reach(4000, 10.0, began + FLUSH_S, over_s=FLUSH_S) == 300.0


def test_a_pace_of_a_window_ago_is_none_any_more():
    rates = PartitionRates()
    rates.position_seen(1000, 5000, 0.0)
    rates.advanced(50, 5.0)
    for moment in (WINDOW_S / 2, WINDOW_S):
        rates.position_seen(1000, 5000, moment)
    assert rates.reach(4000, 10.0, WINDOW_S + FLUSH_S, over_s=FLUSH_S) == 0.0
