"""Scheduler of repeated jobs: each runs at once and then every so many seconds.

It uses wall time, and a wall clock may be set. Forwards: a missed job runs once. Backwards: jobs do
not wait until the clock shows the old time again. The ClusterMonitor starts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from offsetwatch.clock import UnixClock

CLOCK_CHECK_S: Final = 1.0
# Clocks are also slewed, by less than a thousandth; and a look may come late.
STEP_S_MIN: Final = 1.0


class JobScheduler:
    """Scheduler of repeated jobs. `failed` receives the error of a job that died, and its trace."""

    def __init__(
        self, clock: UnixClock, workers: int, failed: Callable[[BaseException, str], None]
    ) -> None:
        self._clock = clock
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(workers)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone="UTC",
        )

        def heard(event: JobExecutionEvent) -> None:
            failed(event.exception, event.traceback)

        self._scheduler.add_listener(heard, EVENT_JOB_ERROR)

    def every(self, seconds: float, job: Callable[[], object], *, delayed: bool = False) -> None:
        """Run a job now and then every so many seconds; with `delayed` first after that pause."""
        first = datetime.now(UTC) + timedelta(seconds=seconds if delayed else 0)
        self._scheduler.add_job(job, _PauseTrigger(timedelta(seconds=seconds)), next_run_time=first)

    def start(self) -> None:
        """Start the jobs."""
        self._scheduler.start()

    def stop(self, *, wait: bool = True) -> None:
        """Start no more jobs and wait for the running ones; harmless before start()."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=wait)

    def watch_clock(self, stopped: Callable[[float], bool]) -> None:
        """Run all jobs at once whenever the clock is set back, until stopped.

        `stopped(seconds)` waits that long and returns whether to stop. For a thread of its own.
        """
        ahead_s = self._clock.now() - time.monotonic()
        while not stopped(CLOCK_CHECK_S):
            was_s, ahead_s = ahead_s, self._clock.now() - time.monotonic()
            if was_s - ahead_s >= STEP_S_MIN:
                self._begin_again()

    def _begin_again(self) -> None:
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))


class _PauseTrigger(BaseTrigger):  # type: ignore[misc]  # its library has no types
    """Trigger after a pause since the last run, without a run for each missed one.

    A clock that is set forward by a year would otherwise count millions of missed runs first.
    """

    def __init__(self, pause: timedelta) -> None:
        self._pause = pause

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        following = now if previous is None else previous + self._pause
        return following if following > now - self._pause else now + self._pause
