"""Jobs at their pace, whatever the machine's clock is set to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from offsetwatch.daemon.supervisor import JobScheduler, _PauseTrigger
from tests.fakes.clock import VirtualClock

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
PAUSE = timedelta(seconds=10)
DEADLINE_S = 60.0
HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("previous_s", "following_s"),
    [
        pytest.param(None, 0, id="the first turn"),
        pytest.param(0, 10, id="in time"),
        pytest.param(-4, 6, id="a little late, and back in step"),
        pytest.param(-86_400 * 400, 10, id="a clock set forward by a year"),
    ],
)
def test_the_next_turn(previous_s: float | None, following_s: float):
    previous = None if previous_s is None else NOW + timedelta(seconds=previous_s)
    following = _PauseTrigger(PAUSE).get_next_fire_time(previous, NOW)
    assert following == NOW + timedelta(seconds=following_s)


@pytest.mark.parametrize("late_s", [0, 9, 11, 25, 86_400 * 400])
def test_what_was_missed_is_done_once_however_much_it_was(late_s: float):
    trigger, due, turns = _PauseTrigger(PAUSE), NOW - timedelta(seconds=late_s), 0
    while due <= NOW:
        due, turns = trigger.get_next_fire_time(due, NOW), turns + 1
        assert turns <= 2


class Hourly:
    """A rhythm with one job, whose next turn is an hour away once it was done."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.done = threading.Semaphore(0)
        self.looks = threading.Semaphore(0)
        self._looked = threading.Semaphore(0)
        self.failed: list[str] = []
        self.rhythm = JobScheduler(self.clock, 1, lambda error, _: self.failed.append(str(error)))
        self.rhythm.every(HOUR_S, self.done.release)
        self.rhythm.start()
        self.watch = threading.Thread(target=self.rhythm.watch_clock, args=(self._stopped,))
        self.ended = False
        self.watch.start()
        assert self._looked.acquire(timeout=DEADLINE_S)

    def _stopped(self, _seconds: float) -> bool:
        self._looked.release()
        assert self.looks.acquire(timeout=DEADLINE_S)
        return self.ended

    def run_once(self) -> None:
        """One, to its end."""
        self.looks.release()
        assert self._looked.acquire(timeout=DEADLINE_S)

    def await_run(self) -> bool:
        return self.done.acquire(timeout=DEADLINE_S)

    def end(self) -> None:
        self.ended = True
        self.looks.release()
        self.watch.join(DEADLINE_S)
        assert self.rhythm.stop(DEADLINE_S)


@pytest.fixture
def hourly() -> Iterator[Hourly]:
    built = Hourly()
    yield built
    built.end()


def test_a_clock_that_is_set_back_has_nothing_wait_until_it_shows_the_same_again(hourly: Hourly):
    assert hourly.await_run()
    hourly.clock.advance(-HOUR_S)
    hourly.run_once()
    assert hourly.await_run()


def test_nothing_is_done_early_for_a_clock_that_is_set_forward_or_slewed(hourly: Hourly):
    assert hourly.await_run()
    for step_s in (HOUR_S, 0.0, -0.1):
        hourly.clock.advance(step_s)
        hourly.run_once()
    hourly.end()  # and whatever was begun is done
    assert not hourly.done.acquire(blocking=False)


def test_a_job_that_dies_is_reported(hourly: Hourly):
    died = threading.Event()

    def dies() -> None:
        died.set()
        raise KeyError("gone")

    hourly.rhythm.every(HOUR_S, dies)
    assert died.wait(DEADLINE_S)
    hourly.end()
    assert hourly.failed == ["'gone'"]


def test_a_job_without_an_end_does_not_hold_up_a_stop():
    begun, release = threading.Event(), threading.Event()

    def wait_long() -> None:
        begun.set()
        release.wait(DEADLINE_S)

    scheduler = JobScheduler(VirtualClock(), 1, lambda *_: None)
    scheduler.every(HOUR_S, wait_long)
    scheduler.start()
    assert begun.wait(DEADLINE_S)
    try:
        assert not scheduler.stop(0.01)
        assert not release.is_set()
    finally:
        release.set()
