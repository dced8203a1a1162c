"""Supervisor and scheduler of the daemon's inputs.

An unexpected exception suspends one input, not the process. It is a bug or a library's surprise
(OverflowError of a header, MemoryError of an answer). It is logged with its trace once for each
code location that raises it, and counted as the input's error. The input restarts with a growing
pause. Only the loop is not restarted: its state may be half changed.

The scheduler uses wall time, and a wall clock may be set. Forwards: a missed job runs once.
Backwards: jobs do not wait until the clock shows the old time again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from apscheduler.events import EVENT_JOB_ERROR
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from offsetwatch.clients.http.exchange import forget_locals
from offsetwatch.clock import UnixClock
from offsetwatch.errors import raised_at
from offsetwatch.ingest.polls import Batch
from offsetwatch.model.observations import InputFailed, InputId, InputRetired

UNEXPECTED_REASON: Final = "unexpected"  # the `reason` of input_errors_total
RETRY_FIRST_S: Final = 1.0
RETRY_MAX_S: Final = 60.0
LOGGED_PLACES_MAX: Final = 100  # of one job, whose traces have been logged
CLOCK_CHECK_S: Final = 1.0
# Clocks are also slewed, by less than a thousandth; and a look may come late.
STEP_S_MIN: Final = 1.0

Inputs = Callable[[], Iterable[InputId]]

_log = structlog.get_logger()


class JobFailures:
    """Consecutive unexpected exceptions of one job or thread, and when it may run again."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._places: set[str] = set()
        self._pause_s = RETRY_FIRST_S
        self._due_at: float | None = None

    @property
    def wait_s(self) -> float:
        """Return how many seconds to suspend it; 0 if it may run."""
        return 0.0 if self._due_at is None else max(0.0, self._due_at - self._clock())

    def add(self, error: Exception) -> str:
        """Log the error and double the pause; return a description without the error's own text.

        That text may quote data.
        """
        location = raised_at(error)
        if location in self._places:
            _log.error("unexpected_error_again", name=self._name, error=location)
        else:
            _log.error("unexpected_error", name=self._name, error=location, exc_info=error)
            if len(self._places) < LOGGED_PLACES_MAX:
                self._places.add(location)
        forget_locals(error)
        self._due_at = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, RETRY_MAX_S)
        return f"unexpected {location}: see the log"

    def end(self) -> bool:
        """Reset the pause after a success. Return True if the job had failed before."""
        failed, self._due_at = self._due_at is not None, None
        self._pause_s = RETRY_FIRST_S
        return failed


class Supervisor:
    """Supervisor of jobs and threads. `put` hands a batch to the loop."""

    def __init__(
        self, put: Callable[[Batch], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._put = put
        self._clock = clock

    def guard(
        self,
        name: str,
        job: Callable[[], object],
        inputs: Inputs,
        *,
        partial: bool = False,
        retires: bool = False,
    ) -> Callable[[], None]:
        """Return a job that raises nothing, and does nothing while it is suspended.

        inputs   the inputs that fail with it, called at each failure
        partial  another job reads the rest of them: they stay up
        retires  nothing else reports these inputs: they are removed once it works again
        """
        failures = JobFailures(name, self._clock)
        failed: set[InputId] = set()

        def guarded() -> None:
            if failures.wait_s > 0:
                return
            try:
                job()
            except Exception as exc:  # noqa: BLE001 - see the module
                detail = failures.add(exc)
                named = tuple(inputs())
                failed.update(named)
                self._put(
                    tuple(
                        InputFailed(input_id, UNEXPECTED_REASON, detail, partial=partial)
                        for input_id in named
                    )
                )
            else:
                if failures.end() and retires:
                    self._put(tuple(InputRetired(input_id) for input_id in sorted(failed)))
                    failed.clear()

        return guarded

    def keep(
        self,
        name: str,
        run: Callable[[], None],
        stopped: Callable[[float], bool],
        inputs: Inputs = tuple,
    ) -> None:
        """Run it in this thread until it returns; run it again after each exception.

        `stopped(seconds)` waits that long for a stop and returns True for one.
        """
        failures = JobFailures(name, self._clock)
        while not stopped(failures.wait_s):
            began = self._clock()
            try:
                run()
            except Exception as exc:  # noqa: BLE001 - see the module
                if self._clock() - began > RETRY_MAX_S:
                    failures.end()
                detail = failures.add(exc)
                self._put(
                    tuple(InputFailed(input_id, UNEXPECTED_REASON, detail) for input_id in inputs())
                )
            else:
                return


def start_supervised_thread(
    name: str,
    run: Callable[[], None],
    stopped: threading.Event,
    put: Callable[[Batch], object] = lambda _: None,
) -> threading.Thread:
    """Start a thread that runs as in `Supervisor.keep`."""
    supervisor = Supervisor(put)
    thread = threading.Thread(
        target=supervisor.keep, args=(name, run, stopped.wait), name=name, daemon=True
    )
    thread.start()
    return thread


# --- schedule ------------------------------------------------------------------------------------


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

        self._scheduler.add_listener(
            lambda event: failed(event.exception, event.traceback), EVENT_JOB_ERROR
        )

    def every(
        self, seconds: float, job: Callable[[], object], *, delayed: bool = False
    ) -> Callable[[], None]:
        """Run a job now and then every so many seconds; with `delayed` first after that pause.

        Return a function that runs it once more as soon as a thread is free.
        """
        first = datetime.now(UTC) + timedelta(seconds=seconds if delayed else 0)
        added = self._scheduler.add_job(
            job, _PauseTrigger(timedelta(seconds=seconds)), next_run_time=first
        )
        return lambda: added.modify(next_run_time=datetime.now(UTC))

    def start(self) -> None:
        """Start the jobs."""
        self._scheduler.start()

    def stop(self, timeout_s: float) -> bool:
        """Start no more jobs; return whether the running ones ended within the timeout.

        Harmless before start().
        """
        if not self._scheduler.running:
            return True
        ending = threading.Thread(target=self._scheduler.shutdown, name="shutdown", daemon=True)
        ending.start()  # it waits for the jobs without a timeout
        ending.join(timeout_s)
        return not ending.is_alive()

    def watch_clock(self, stopped: Callable[[float], bool]) -> None:
        """Run all jobs at once whenever the clock is set back, until stopped.

        `stopped(seconds)` waits that long and returns whether to stop. For a thread of its own.
        """
        ahead_s = self._clock.now() - time.monotonic()
        while not stopped(CLOCK_CHECK_S):
            was_s, ahead_s = ahead_s, self._clock.now() - time.monotonic()
            if was_s - ahead_s >= STEP_S_MIN:
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
