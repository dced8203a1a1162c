"""Virtual time with threads that are generators: what a model of many threads runs on.

A process yields seconds to sleep, a Signal to wait for, or both to wait with a bound; whatever is
due at the same moment runs in the order in which it was asked for. One real thread, no chance.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from typing import Any, Final

from tests.fakes.clock import VirtualClock

Steps = Generator[Any, Any, Any]
# A model that goes round in circles at one moment is a mistake of the model's.
AT_ONE_MOMENT_MAX: Final = 100_000


class Entry:
    """Something that is to happen."""

    __slots__ = ("action", "cancelled")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action, self.cancelled = action, False


class Timeline(VirtualClock):
    """A clock that does what is due on the way when it is moved. Asking it from within is allowed:
    whoever waits inside an action lets the rest of the world go on.
    """

    def __init__(self, moment: float = 1_800_000_000.0) -> None:
        super().__init__(moment)
        self._due: list[tuple[float, int, Entry]] = []
        self._number = 0

    def call_at(self, when: float, action: Callable[[], None]) -> Entry:
        """Do this then, or now if that is past."""
        entry = Entry(action)
        self._number += 1
        heapq.heappush(self._due, (max(when, self.at), self._number, entry))
        return entry

    def call_after(self, seconds: float, action: Callable[[], None]) -> Entry:
        return self.call_at(self.at + seconds, action)

    def spawn(self, steps: Steps, name: str) -> Process:
        """Start a process: its first step is done at this moment, behind whatever is due."""
        process = Process(self, steps, name)
        process.wake(report=None)
        return process

    def advance(self, seconds: float) -> None:
        """Let so much time pass."""
        self.run(until=self.at + seconds)

    def run(self, *, until: float, stop: Callable[[], bool] = lambda: False) -> bool:
        """Do what is due up to then, or until `stop` says so; whether it did."""
        turns, moment = 0, self.at
        while not stop():
            if not self._due or self._due[0][0] > until:
                self.at = max(self.at, until)
                return stop()
            when, _, entry = heapq.heappop(self._due)
            if entry.cancelled:
                continue
            turns = turns + 1 if when == moment else 0
            assert turns < AT_ONE_MOMENT_MAX, "the world goes round in circles"
            moment = self.at = max(self.at, when)
            entry.action()
        return True


class Signal:
    """Wakes whoever waits when it is given; who comes later waits for the next time."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[Process] = []

    def notify(self) -> None:
        waiting, self.waiting = self.waiting, []
        for process in waiting:
            process.wake(report=True)


class Process:
    """A thread of the model. A wait gives True if its signal came and False if its time was up;
    `ended` is given when it returns or is killed, and `result` is what it returned.
    """

    __slots__ = ("_entry", "_line", "_on", "_runs", "_steps", "alive", "ended", "name", "result")

    def __init__(self, line: Timeline, steps: Steps, name: str) -> None:
        self._line, self._steps, self.name = line, steps, name
        self._entry: Entry | None = None
        self._on: Signal | None = None
        self._runs, self.alive, self.ended = False, True, Signal()
        self.result: Any = None

    def wake(self, *, report: bool | None) -> None:
        """Go on at this moment, behind whatever is due already."""
        self._let_go()
        self._entry = self._line.call_at(self._line.at, lambda: self._go_on(report))

    def kill(self) -> None:
        """End it wherever it waits; one that kills itself ends where it would wait next."""
        if self.alive:
            self._let_go()
            self.alive = False
            if not self._runs:
                self._steps.close()
            self.ended.notify()

    def _let_go(self) -> None:
        if self._entry is not None:
            self._entry.cancelled = True
            self._entry = None
        if self._on is not None:
            if self in self._on.waiting:
                self._on.waiting.remove(self)
            self._on = None

    def _go_on(self, report: bool | None) -> None:
        self._let_go()
        if not self.alive:
            return
        self._runs = True
        try:
            requests = self._steps.send(report)
        except StopIteration as stopped:
            if self.alive:
                self.alive, self.result = False, stopped.value
                self.ended.notify()
            return
        finally:
            self._runs = False
        if not self.alive:
            self._steps.close()
            return
        signal, seconds = requests if isinstance(requests, tuple) else (requests, None)
        if isinstance(signal, Signal):
            self._on = signal
            signal.waiting.append(self)
        else:
            seconds = signal
        if seconds is not None:
            self._entry = self._line.call_after(seconds, lambda: self._go_on(False))
