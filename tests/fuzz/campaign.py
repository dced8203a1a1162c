"""Many records through every target, and what was found.

A record is given one second of the processor's time, and a span of records may not make its process
grow by more than they could account for. What leaks a little with each record is not found here.
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from structlog.testing import capture_logs

from tests.fuzz.targets import Parts, Target

SPAN: Final = 2_000  # records in one piece of work
SECONDS_MAX: Final = 1.0  # for one record
GROWTH_BYTES_MAX: Final = 128 * 1024 * 1024  # of a process in one span: all inputs are smaller
SHOWN_BYTES_MAX: Final = 2_000


class TooSlow(BaseException):
    """No decoder's own `except` takes it for something else."""


@dataclass(frozen=True)
class Finding:
    """A record that was neither decoded nor refused as it should be.

    origin   the line it came from, which tells one defect from another
    """

    target: str
    seed: int
    number: int
    what: str
    origin: str
    parts: Parts

    def lines(self) -> Iterator[str]:
        yield f"{self.target}: {self.what}"
        yield f"  at {self.origin}; seed {self.seed}, number {self.number}"
        for part in self.parts:
            yield f"  {_hex(part)}"
        yield f"  python -m tests.fuzz --repeat {self.target}:{self.seed}:{self.number}"


def _hex(part: bytes | None) -> str:
    if part is None:
        return "null"
    output = part[:SHOWN_BYTES_MAX].hex() or "(no bytes)"
    more = len(part) - SHOWN_BYTES_MAX
    return output if more <= 0 else f"{output}… and {more} bytes more"


@dataclass
class Report:
    """`first`: of each defect the first record that shows it; `often`: how many do."""

    tried: Counter[str] = field(default_factory=Counter)
    spent_s: Counter[str] = field(default_factory=Counter)
    first: dict[tuple[str, str], Finding] = field(default_factory=dict)
    often: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: Report) -> None:
        self.tried += other.tried
        self.spent_s += other.spent_s
        self.often += other.often
        for item, finding in other.first.items():
            if item not in self.first or finding.number < self.first[item].number:
                self.first[item] = finding

    def add_finding(self, finding: Finding) -> None:
        item = (finding.target, finding.origin)
        self.often[item] += 1
        self.first.setdefault(item, finding)

    def lines(self) -> Iterator[str]:
        """For people."""
        for name, count in self.tried.items():
            rate = count / max(self.spent_s[name], 1e-9)
            yield f"  {name:<24} {count:>9,} tried, {rate:>9,.0f} a second"
        for item, finding in self.first.items():
            yield from finding.lines()
            yield f"  {self.often[item]} like it"
        yield f"{self.tried.total():,} tried, {len(self.first)} findings"


def tried(target: Target, seed: int, numbers: Iterable[int]) -> Report:
    """These records, one after the other."""
    report, before = Report(), _peak_bytes()
    began = time.process_time()
    numbers = list(numbers)
    with _alarm(), capture_logs():
        for number in numbers:
            parts = target.record(seed, number)
            wrong = _wrong(target, parts)
            if wrong is not None:
                report.add_finding(Finding(target.name, seed, number, *wrong, parts))
    report.tried[target.name] = len(numbers)
    report.spent_s[target.name] = time.process_time() - began
    grown = _peak_bytes() - before
    if grown > GROWTH_BYTES_MAX:
        number = max(numbers, key=lambda offset: _weight(target, target.record(seed, offset)))
        what = f"the process has grown by {grown:,} bytes, the most with this one"
        parts = target.record(seed, number)
        report.add_finding(Finding(target.name, seed, number, what, "memory", parts))
    return report


def _wrong(target: Target, parts: Parts) -> tuple[str, str] | None:
    """What was raised, and where."""
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_MAX)
    try:
        target.run(*parts)
    except TooSlow as exc:
        return f"more than {SECONDS_MAX:g} s", _origin(exc)
    except Exception as exc:  # noqa: BLE001 - any is a finding
        text = " ".join(f"{type(exc).__name__}: {exc}".split())
        return text[:300], f"{type(exc).__name__} at {_origin(exc)}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def _origin(error: BaseException) -> str:
    """The innermost line of ours."""
    frames = [
        summary
        for summary in traceback.extract_tb(error.__traceback__)
        if {"offsetwatch", "tests"} & set(Path(summary.filename).parts)
        and "site-packages" not in summary.filename
    ]
    if not frames:
        return "?"
    last = frames[-1]
    return f"{'/'.join(Path(last.filename).parts[-2:])}:{last.lineno} ({last.name})"


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _weight(target: Target, parts: Parts) -> int:
    """How much memory a record takes at most."""
    tracemalloc.start()
    try:
        with _alarm():
            _wrong(target, parts)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def plan(targets: Iterable[Target], records: int) -> list[tuple[str, range]]:
    """Spans of all targets by their shares, in turn: whenever it ends, all were tried alike."""
    targets = list(targets)
    shares = sum(item.share for item in targets)
    spans: list[tuple[float, str, range]] = []
    for target in targets:
        count = max(1, records * target.share // shares)
        spans += [
            (first / count, target.name, range(first, min(first + SPAN, count)))
            for first in range(0, count, SPAN)
        ]
    return [(name, numbers) for _, name, numbers in sorted(spans, key=lambda span: span[0])]


def campaign(
    targets: Mapping[str, Target],
    seed: int,
    records: int,
    *,
    jobs: int = 1,
    until: float | None = None,
) -> Report:
    """So many records, or as many as there is time for: `until` is a monotonic time."""
    report = Report()
    work = ((name, seed, numbers) for name, numbers in plan(targets.values(), records))
    if jobs == 1:
        for name, _, numbers in work:
            if until is not None and time.monotonic() > until:
                break
            report.add(tried(targets[name], seed, numbers))
        return report
    _TARGETS.update(targets)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for part in pool.imap_unordered(_piece, work):
            report.add(part)
            if until is not None and time.monotonic() > until:
                break
    return report


_TARGETS: dict[str, Target] = {}


def _piece(work: tuple[str, int, range]) -> Report:
    name, seed, numbers = work
    return tried(_TARGETS[name], seed, numbers)
