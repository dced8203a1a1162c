"""Seconds of watching and the moments that they stand for."""

from __future__ import annotations

import pytest

from offsetwatch.judge.progress.observation_window import MARKS_MAX, Stopwatch

INTERVAL_S = 60.0
BEGAN = 1_800_000_000.0


def watching(*moments: float) -> Stopwatch:
    """Advance to these, in seconds since the beginning."""
    built = Stopwatch(INTERVAL_S)
    for moment in moments:
        built.advance(BEGAN + moment)
    return built


@pytest.mark.parametrize(
    ("moments", "watched"),
    [
        pytest.param((0,), 0.0, id="the first moment"),
        pytest.param((0, 30, 90), 90.0, id="no more than an interval apart"),
        pytest.param((0, 10, 7210), 70.0, id="a leap counts as an interval"),
        pytest.param((0, 10, -3590, -3580), 20.0, id="a step back counts as nothing"),
    ],
)
def test_what_is_counted_is_what_was_watched(moments, watched):
    assert watching(*moments).w == watched


@pytest.mark.parametrize(
    ("moments", "w", "moment"),
    [
        pytest.param((0, 30, 90), 40.0, 40.0, id="both run alike"),
        pytest.param((0, 10, 7210, 7220), 9.0, 9.0, id="before a leap"),
        pytest.param((0, 10, 7210, 7220), 75.0, 7215.0, id="after a leap"),
        pytest.param((0, 10, -3590, -3580), 9.0, 9.0, id="before a step back"),
        pytest.param((0, 10, -3590, -3580), 15.0, -3585.0, id="after a step back"),
        pytest.param((0,), -5.0, -5.0, id="before the first moment"),
    ],
)
def test_a_second_of_watching_has_one_moment(moments, w, moment):
    assert watching(*moments).clock(w) == BEGAN + moment


@pytest.mark.parametrize(
    ("after_s", "watched"), [(1.0, 11.0), (120.0, 70.0), (120.5, 10.0), (-5.0, 10.0)]
)
def test_a_restart_is_no_interruption_and_a_daemon_that_was_down_is(after_s, watched):
    before = watching(0, 10)
    after = Stopwatch(INTERVAL_S)
    after.recall(BEGAN + 10, before.w, before.marks)
    after.advance(BEGAN + 10 + after_s)
    assert after.w == watched
    assert after.clock(5.0) == BEGAN + 5


def test_what_was_remembered_without_marks_begins_where_it_ended():
    after = Stopwatch(INTERVAL_S)
    after.recall(BEGAN, 100.0, ())
    assert after.clock(90.0) == BEGAN - 10


def test_of_many_marks_the_newest_are_kept():
    built = watching(*(100.0 * number for number in range(MARKS_MAX + 10)))
    assert len(built.marks) == MARKS_MAX
    assert built.clock(built.w) == BEGAN + 100.0 * (MARKS_MAX + 9)
