"""The single writer: observations in, a snapshot out.

Inputs enqueue batches and never touch state; one thread drains the queue at its own pace and
publishes an immutable snapshot by one reference swap. A test drives the whole daemon by calling
`step`.
"""

from __future__ import annotations

import queue
from collections.abc import Callable

from exporter.clock import Clock
from exporter.model.observations import Observation
from exporter.state.book import Book
from exporter.state.snapshot import EMPTY, Snapshot

Batch = tuple[Observation, ...]

QUEUE_BATCHES_MAX = 256  # about a second of work; when full, tails wait: Kafka is the buffer
BATCHES_PER_STEP_MAX = 1024  # so that a flood cannot keep a snapshot from being published


class Loop:
    """Owns the book. `put` may be called from any thread, everything else from one."""

    def __init__(self, book: Book, clock: Clock, tick_s: float) -> None:
        self._book = book
        self._clock = clock
        self._tick_s = tick_s
        self._queue: queue.Queue[Batch] = queue.Queue(QUEUE_BATCHES_MAX)
        self._snapshot = EMPTY
        self._beat_at = clock.now()

    @property
    def snapshot(self) -> Snapshot:
        """The newest picture."""
        return self._snapshot

    def alive(self) -> bool:
        """Has the loop ticked within the last ten ticks (at least ten seconds)?"""
        # A clock set back must not keep a loop alive that died before.
        return abs(self._clock.now() - self._beat_at) < max(10.0, 10 * self._tick_s)

    def put(self, batch: Batch, timeout_s: float | None = None) -> bool:
        """Enqueue a batch; False if the queue stayed full for `timeout_s`."""
        try:
            self._queue.put(batch, timeout=timeout_s)
        except queue.Full:
            return False
        return True

    def step(self, now: float, batch: Batch) -> Snapshot:
        """Take in a batch and publish the picture after it."""
        for seen in batch:
            self._book.apply(seen, now)
        self._snapshot = self._book.snapshot(now)
        self._beat_at = now
        return self._snapshot

    def run(self, stopped: Callable[[float], bool]) -> None:
        """Tick until `stopped(seconds)`, which waits that long for a stop, says True."""
        while not stopped(self._tick_s):
            batch: list[Observation] = []
            for _ in range(BATCHES_PER_STEP_MAX):
                try:
                    batch.extend(self._queue.get_nowait())
                except queue.Empty:
                    break
            self.step(self._clock.now(), tuple(batch))
