"""What counts as observed of the time that a clock shows to have passed."""

from __future__ import annotations

from offsetwatch.state.observed_time import ObservedTime


def pass_over(*moments: float) -> list[float]:
    time = ObservedTime()
    return [time.pass_over(moment) for moment in moments]


def test_all_time_between_steps_counts_while_they_come_as_often_as_before():
    assert pass_over(1000.0, 1015.0, 1030.0, 1030.0, 1040.0) == [0.0] * 5


def test_of_a_step_of_the_clock_no_more_counts_than_is_usual():
    assert pass_over(1000.0, 1015.0, 1630.0, 1645.0, 1045.0) == [0.0, 0.0, 600.0, 0.0, -600.0]


def test_steps_that_become_rarer_count_in_full_after_a_while():
    assert pass_over(0.0, 10.0, 70.0, 130.0, 190.0, 250.0) == [0.0, 0.0, 50.0, 40.0, 20.0, 0.0]


def test_the_clock_may_be_set_back_before_anything_is_known_of_the_steps():
    assert pass_over(1000.0, 400.0, 410.0) == [0.0, -600.0, 0.0]
