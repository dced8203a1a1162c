"""Threads of tasks: they start, work, and are asked to stop, which they notice where they look.

One that does not end within the graceful time is cancelled and goes on as a zombie. What it may do
then is what Connect lets it do: a zombie of a source whose poll returns commits what it has, a
zombie of a sink delivers what it was delivering and commits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.fakes.connect_model.broker import Trouble
from tests.fakes.connect_model.configs import PAUSED, STOPPED, ConfigState
from tests.fakes.connect_model.timeline import Signal, Steps

if TYPE_CHECKING:
    from tests.fakes.connect_model.worker import Worker


@dataclass
class Behaviour:
    """How the tasks of one connector go about their work; people and simulations set it.

    work_s              how long one batch takes
    writes_before_fail  whether a sink has written what comes before the record it fails on
    hangs               (where, seconds): the next time it is there it hangs for so long and does
                        not notice that it is to stop. start, poll, put
    outage              what everything fails with now: a database that is down, a registry
    broken              a cause: the connector itself cannot start
    """

    work_s: float = 0.05
    writes_before_fail: bool = False
    hangs: list[tuple[str, float]] = field(default_factory=list)
    outage: Trouble | None = None
    broken: str | None = None


class TaskFailed(Exception):
    """Carries the trace."""


class Task:
    """Made running. `config` is the task's own, `target` what the connector is meant to do."""

    def __init__(self, worker: Worker, item: tuple[str, int], state: ConfigState) -> None:
        self.worker, self.connect, self.line = worker, worker.connect, worker.connect.line
        self.at, self.name, self.number = item, item[0], item[1]
        self.config = state.tasks[self.name][self.number]
        self.stopping = self.cancelled = self.fenced = False
        self.paused = state.target(self.name) == PAUSED
        self.wake, self.freed = Signal(), Signal()
        self.behaviour = self.connect.behaviour(self.name)
        self.process = worker.spawn(self._run(), f"task {self.name}-{self.number}")

    # --- what others do to it --------------------------------------------------------------------

    def stop(self) -> None:
        """It ends when it notices."""
        self.stopping = True
        self.wake.notify()

    def change_state(self, target: str) -> None:
        """Pause, go on, or stop: of the last the group of workers will take care, too."""
        if target == STOPPED:
            self.stop()
            return
        if self.paused != (target == PAUSED):
            self.paused = target == PAUSED
            self._say_state()
            self.wake.notify()

    def cancel(self) -> None:
        """Nobody waits for it any longer."""
        self.cancelled = True
        self.connect.zombies.append(self)
        self.connect.note(f"task {self.name}-{self.number} is a zombie")

    def vanish(self) -> None:
        """Its process is gone with its worker."""

    # --- its life --------------------------------------------------------------------------------

    def _run(self) -> Steps:
        try:
            yield self.connect.timing.task_start_s
            yield from self.hang("start")
            if not self.stopping:
                self._outage("start")
                self.begin()
                self._say_state()
                yield from self.work()
        except TaskFailed as failed:
            if not self._dies_silently():
                yield from self.finish()
            if not self.cancelled:
                self.connect.say(self.name, self.number, "FAILED", self.worker, str(failed))
        else:
            yield from self.finish()
            if not self.cancelled:
                self.connect.say(self.name, self.number, "UNASSIGNED", self.worker)
        if self.cancelled:
            self.connect.note(f"zombie {self.name}-{self.number} ends")

    def begin(self) -> None:
        """Find out where to go on."""

    def work(self) -> Steps:
        """Until it is to stop; here without anything to do. Raises TaskFailed."""
        while not self.stopping:
            yield from self.idle()

    def finish(self) -> Steps:
        """The last commit."""
        yield from ()

    def _dies_silently(self) -> bool:
        """A source that fails after it was cancelled skips its last commit."""
        return False

    def _say_state(self) -> None:
        if not self.cancelled:
            output = "PAUSED" if self.paused else "RUNNING"
            self.connect.say(self.name, self.number, output, self.worker)

    def idle(self, until: float | None = None) -> Steps:
        """Wait for something to do, at most until then."""
        yield self.wake if until is None else (self.wake, max(until - self.line.at, 0.0))

    def hang(self, where: str) -> Steps:
        for number, (name, seconds) in enumerate(self.behaviour.hangs):
            if name == where:
                del self.behaviour.hangs[number]
                self.connect.note(f"task {self.name}-{self.number} hangs in {where}")
                yield from self.hanging(seconds)
                return

    def hanging(self, seconds: float) -> Steps:
        """So long, or until somebody frees it."""
        yield (self.freed, seconds)

    def _outage(self, *stages: str) -> None:
        outage = self.behaviour.outage
        if outage is not None and outage.stage in stages:
            raise TaskFailed(self.connect.trace_of(outage.stage, outage.cause))

    def flushes(self) -> Iterator[float]:
        """When offsets are committed, counted from the start of the task."""
        moment = self.line.at
        while True:
            moment += self.connect.timing.flush_s
            yield moment


def task_of(worker: Worker, item: tuple[str, int], state: ConfigState) -> Task:
    """A task of whatever class its connector has."""
    from tests.fakes.connect_model.mirror import MirrorTask
    from tests.fakes.connect_model.sinks import SinkTask
    from tests.fakes.connect_model.sources import FileTask, IncrementingTask, RowTask

    works = {
        "file": FileTask,
        "rows": RowTask,
        "incrementing": IncrementingTask,
        "mirror": MirrorTask,
        "sink": SinkTask,
    }
    plugin = worker.connect.plugin_of(state.configs[item[0]])
    return works.get(plugin.work, Task)(worker, item, state)
