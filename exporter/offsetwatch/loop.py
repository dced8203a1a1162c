"""Main loop of the daemon: the single writer of state, which publishes snapshots.

Inputs enqueue batches and never change state. One thread applies them and publishes an immutable
snapshot once a tick, by one reference swap. It drains the queue several times a tick, so that
little is left to do at its end. Each snapshot is published twice: first with the verdicts of the
previous snapshot, then judged. While commits arrive, snapshots are also published within a tick, as
often as their cost allows. A test drives the whole daemon by calling `step`.

If something was counted, the state that must survive a restart is saved before the snapshot that
shows it is published. A kill in between is harmless: the next process counts it, and it was never
shown. The rest is saved every SAVE_EVERY_S.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.model.observations import Observation, TailRead
from offsetwatch.state.book import Book
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from offsetwatch.state.totals import Trends

Batch = tuple[Observation, ...]
DocumentSaver = Callable[[str, bytes], bool]
DocumentLoader = Callable[[str, Callable[[bytes], None]], None]  # passes a document to a function

QUEUE_BATCHES_MAX = 256  # about a second of work; when full, tails wait: Kafka is the buffer
BATCHES_AT_ONCE_MAX = 1024  # so that a flood cannot keep a snapshot from being published
QUEUE_READS_PER_TICK = 16
QUEUE_READS_PER_IDLE_TICK = 4  # while nothing comes: to wake up is most of what a loop at rest does
PUBLICATIONS_PER_TICK = 4
PUBLICATION_SHARE_MAX = 0.05  # of the time, which is what pictures within a tick may take at most
PAUSE_TICKS = 0.5  # pause after a snapshot that took long, or the loop would take a core
SAVE_EVERY_S = 30.0  # what is lost by a kill at most: positions, which are then seen again


class PersistentState(Protocol):
    """Part of the state that is saved and restored over a restart of the process."""

    @property
    def urgent(self) -> bool:
        """Return whether something was counted since `remembered` was last called."""
        ...

    def remembered(self) -> bytes | None:
        """Return the document to save; None while nothing has changed."""
        ...

    def recall(self, remembered: bytes) -> None:
        """Restore what another process saved. Raises ValueError for an invalid document."""
        ...


class Loop:
    """Owner of the book, the judge and the trends.

    `put` may be called by any thread, all other methods by one. The clock `steady` times the ticks.
    """

    def __init__(
        self,
        book: Book,
        judge: SnapshotJudge,
        clock: UnixClock,
        tick_s: float,
        steady: UnixClock | None = None,
    ) -> None:
        self._book = book
        self._judge = judge
        self._trends = Trends()
        self._clock = clock
        self._tick_s = tick_s
        self._steady = SteadyClock() if steady is None else steady
        self._queue: queue.Queue[Batch] = queue.Queue(QUEUE_BATCHES_MAX)
        self._snapshot = EMPTY_SNAPSHOT
        self._moved = False  # has a tail brought records that no picture shows yet?
        self._ticked_at = clock.now()
        self._parts: dict[str, PersistentState] = {
            "replication": book,
            "findings": judge.findings,
            "judge": judge,
            "sources": book.source_ends,
        }
        self._save: DocumentSaver | None = None
        self._unsaved: dict[str, bytes] = {}
        self._saved_at: float | None = None
        self._tried_at = self._ticked_at

    @property
    def snapshot(self) -> Snapshot:
        """Return the newest snapshot."""
        return self._snapshot

    def alive(self) -> bool:
        """Return whether the loop ticked within the last ten ticks (at least ten seconds)."""
        return self._tick_age_s() < max(10.0, 10 * self._tick_s)

    def fresh(self) -> bool:
        """Return whether the newest snapshot is of the last three ticks (at least three seconds).

        It is not where the process, or its machine, was suspended and has just resumed.
        """
        return self._tick_age_s() < max(3.0, 3 * self._tick_s)

    def _tick_age_s(self) -> float:
        # A clock set back must not keep a loop alive that died before.
        return abs(self._clock.now() - self._ticked_at)

    def put(self, batch: Batch, timeout_s: float | None = None) -> bool:
        """Enqueue a batch; False if the queue stayed full for `timeout_s`."""
        try:
            self._queue.put(batch, timeout=timeout_s)
        except queue.Full:
            return False
        return True

    def step(self, now: float, batch: Batch) -> Snapshot:
        """Apply a batch and publish the snapshot after it."""
        self._apply(now, batch)
        return self._publish(now)

    def _apply(self, now: float, batch: Batch) -> None:
        for observation in batch:
            self._book.apply(observation, now)
            self._moved |= isinstance(observation, TailRead) and bool(observation.records)
        if batch:
            self._book.prepare()

    def _take_snapshot(self, now: float) -> Snapshot:
        """Return the current snapshot, not judged yet.

        Publishes it with the previous verdicts, unless it has to be judged first.
        """
        snapshot = self._book.snapshot(now)
        first = self._judge.judged_before(snapshot)
        if first is not None:
            self._remember(now, counted=True)
            self._show(first)
        self._moved = False
        return snapshot

    def _publish(self, now: float) -> Snapshot:
        # Looks, the regular save and a mark of the trends take as long as ten pictures: positions
        # do not wait for them. What was counted is saved first, as ever.
        judged = self._judge.judged(self._take_snapshot(now))
        self._remember(now)
        self._trends.add(judged)
        self._show(judged)
        return self._snapshot

    def _show(self, snapshot: Snapshot) -> None:
        self._snapshot = replace(snapshot, saved_at=self._saved_at, trends=self._trends.marks)
        self._ticked_at = snapshot.at

    def recall_with(self, recall: DocumentLoader) -> None:
        """Restore what another process saved; before the first step."""
        for name, part in self._parts.items():
            recall(name, part.recall)

    def save_with(self, save: DocumentSaver | None) -> None:
        """Save with this function from the next step on; None: stop saving. For any thread."""
        self._save = save

    def _remember(self, now: float, *, counted: bool = False, last: bool = False) -> None:
        """Save what is due; with `counted` only what must not be published before it is saved."""
        save = self._save
        due = last or not (counted or 0 <= now - self._tried_at < SAVE_EVERY_S)
        if save is None or not (due or any(part.urgent for part in self._parts.values())):
            return
        self._tried_at = now
        for name, part in self._parts.items():
            document = part.remembered()
            if document is not None:
                self._unsaved[name] = document
        self._unsaved = {name: raw for name, raw in self._unsaved.items() if not save(name, raw)}
        if not self._unsaved:
            self._saved_at = now

    def run(self, stopped: Callable[[float], bool]) -> None:
        """Tick until `stopped` returns True, then save.

        `stopped(seconds)` waits so many seconds for a stop.
        """
        begun = self._steady.now()
        due, show_due = begun + self._tick_s, begun + self._tick_s / PUBLICATIONS_PER_TICK
        reads = QUEUE_READS_PER_IDLE_TICK
        while not stopped(min(max(0.0, due - self._steady.now()), self._tick_s / reads)):
            batch = self._read_queue()
            reads = QUEUE_READS_PER_TICK if batch else QUEUE_READS_PER_IDLE_TICK
            self._apply(self._clock.now(), batch)
            begun = self._steady.now()
            if begun >= due:
                self._publish(self._clock.now())
                due = max(due + self._tick_s, self._steady.now() + PAUSE_TICKS * self._tick_s)
                show_due = max(show_due, begun + self._tick_s / PUBLICATIONS_PER_TICK)
            elif begun >= show_due and self._moved:
                self._take_snapshot(self._clock.now())
                took_s = self._steady.now() - begun
                show_due = begun + max(
                    self._tick_s / PUBLICATIONS_PER_TICK, took_s / PUBLICATION_SHARE_MAX
                )
        self._remember(self._clock.now(), last=True)

    def _read_queue(self) -> Batch:
        batch: list[Observation] = []
        for _ in range(BATCHES_AT_ONCE_MAX):
            try:
                batch.extend(self._queue.get_nowait())
            except queue.Empty:
                break
        return tuple(batch)
