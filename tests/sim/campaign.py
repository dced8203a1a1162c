"""All crash schedules, or some; many random ones; and what they came to."""

from __future__ import annotations

import multiprocessing
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tests.sim.schedule_runner import Run, carried_out, frozen_at, pairs_of, singles
from tests.sim.schedules import Schedule, random_schedule
from tests.sim.world import CASES

T = TypeVar("T")
CHUNK: Final = 50
TWICE_EVERY: Final = 50  # of random schedules: is the second run the first one, byte by byte?


@dataclass
class Report:
    """`broken`: what does not hold, with how to see it again."""

    points: dict[str, int] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        self.runs += other.runs
        self.endings += other.endings
        self.broken += other.broken

    def took(self, kind: str, run: Run) -> None:
        self.runs[kind] += 1
        self.endings[run.ending] += 1
        if run.broken is not None:
            self.broken.append(f"{run.broken}\n  python -m tests.sim --repeat {run.schedule.name}")

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"crash points: {_counts(self.points)}"
        yield f"schedules: {_counts(self.runs)}; {self.runs.total()} in all"
        yield f"ended: {_counts(self.endings)}"
        yield from self.broken[:20]
        yield f"{len(self.broken)} invariants broken"


def _counts(report: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in report.items()) or "none"


def crashes(seed: int, share: int, jobs: int = 1) -> Report:
    """Every crash and, after it, every second one; or one in `share` of the first, which ones says
    the seed, each with every second one. The same of processes that stand still.
    """
    report = Report()
    work: list[Schedule] = []
    for case in CASES:
        results = singles(case)
        report.points[case] = len(results) // 2
        work += results
    chosen = work if share == 1 else random.Random(seed).sample(work, max(1, len(work) // share))
    for part in _spread(_with_pairs, chosen, jobs):
        report.add(part)
    still = [schedule for case in CASES for schedule in frozen_at(case)]
    if share != 1:
        still = random.Random(seed).sample(still, max(1, len(still) // share))
    for part in _spread(_run_frozen, still, jobs):
        report.add(part)
    return report


def _run_frozen(schedule: Schedule) -> Report:
    report = Report()
    report.took("standing still", carried_out(schedule))
    return report


def _with_pairs(first: Schedule) -> Report:
    report = Report()
    run = carried_out(first)
    report.took(f"one crash, {first.way}", run)
    for pair in pairs_of(run):
        report.took(f"two crashes, {first.way}", carried_out(pair))
    return report


def at_random(seed: int, count: int, jobs: int = 1) -> Report:
    """So many random schedules."""
    report = Report()
    begins = range(seed * 1_000_000, seed * 1_000_000 + count, CHUNK)
    spans = [range(begin, min(begin + CHUNK, begins.start + count)) for begin in begins]
    for part in _spread(_random_span, spans, jobs):
        report.add(part)
    return report


def _random_span(seeds: range) -> Report:
    report = Report()
    for number, seed in enumerate(seeds):
        schedule = random_schedule(seed)
        run = carried_out(schedule)
        report.took("random", run)
        if number % TWICE_EVERY == 0 and carried_out(schedule).digest != run.digest:
            report.broken.append(
                f"I14: not the same twice\n  python -m tests.sim --repeat {schedule.name}"
            )
    return report


def _spread(work: Callable[[T], Report], items: Iterable[T], jobs: int) -> Iterator[Report]:
    if jobs == 1:
        yield from map(work, items)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(work, items)
