"""How much memory and how many descriptors a process has, once a second, and whether that grows."""

import os
import statistics
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 1.0
JOIN_S_MAX = 20.0
MIB = 1024 * 1024
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Of a life shorter than this nothing is said: it is still reading for the first time.
SAMPLES_MIN = 120
# Python gives memory back in arenas, and malloc keeps one for each thread that met a large answer.
RSS_GROWTH_MAX = 0.10
RSS_NOISE_BYTES = 8 * MIB
# Some twenty clients of Kafka, and each may hold a connection more to a broker that it met again;
# while an incident is looked into there are four more, of eight descriptors each.
DESCRIPTORS_NOISE = 40


@dataclass(frozen=True, slots=True)
class Vitals:
    """At one moment, Unix seconds."""

    at: float
    rss_bytes: int
    descriptors: int


@dataclass(frozen=True, slots=True)
class Rise:
    """Of a straight line through memory (least squares): how much it rises over so many seconds,
    and how far what was seen lies from it (standard deviation).
    """

    seconds: float
    rise_bytes: float
    scatter_bytes: float

    @property
    def noise_bytes(self) -> float:
        """What a line through nothing but noise may rise by."""
        return max(2 * self.scatter_bytes, RSS_NOISE_BYTES)

    @property
    def line(self) -> str:
        """For people."""
        per_hour = self.rise_bytes / self.seconds * 3600 if self.seconds else 0.0
        return (
            f"memory rises by {self.rise_bytes / MIB:.1f} MiB in {self.seconds:.0f} s "
            f"({per_hour / MIB:.1f} MiB an hour); noise is {self.noise_bytes / MIB:.1f} MiB"
        )


@dataclass(slots=True)
class ProcessLifetime:
    """One process."""

    pid: int
    samples: list[Vitals] = field(default_factory=list)

    @property
    def judged(self) -> bool:
        """Is it long enough to say anything of it?"""
        return len(self.samples) >= SAMPLES_MIN

    def grown(self) -> list[str]:
        """
        What is more in its last quarter than in its second one, by their medians; in words.

        The first quarter is its beginning, in which all is read that there is.
        """
        if not self.judged:
            return []
        quarter = len(self.samples) // 4
        before, after = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        results = []
        was, became = _median_rss(before), _median_rss(after)
        if became > was * (1 + RSS_GROWTH_MAX) + RSS_NOISE_BYTES:
            results.append(f"memory from {was / MIB:.0f} to {became / MIB:.0f} MiB")
        had, has = _median_descriptors(before), _median_descriptors(after)
        if has > had + DESCRIPTORS_NOISE:
            results.append(f"descriptors from {had:.0f} to {has:.0f}")
        return [f"process {self.pid}, {len(self.samples)} s: {line}" for line in results]

    def risen(self) -> Rise:
        """By how much memory rises from the second third on, along a straight line through it."""
        samples = self.samples[len(self.samples) // 3 :]
        seconds = [sample.at - samples[0].at for sample in samples]
        bytes_ = [float(sample.rss_bytes) for sample in samples]
        fit = statistics.linear_regression(seconds, bytes_)
        apart = [
            got - (fit.intercept + fit.slope * moment)
            for moment, got in zip(seconds, bytes_, strict=True)
        ]
        return Rise(
            seconds=seconds[-1],
            rise_bytes=fit.slope * seconds[-1],
            scatter_bytes=statistics.pstdev(apart),
        )

    @property
    def line(self) -> str:
        """For people: the medians of its quarters."""
        size = max(1, len(self.samples) // 4)
        quarters = [self.samples[number : number + size] for number in range(0, 4 * size, size)]
        reports = [
            f"{_median_rss(quarter) / MIB:.0f} MiB/{_median_descriptors(quarter):.0f}"
            for quarter in quarters
            if quarter
        ]
        return f"{len(self.samples)} s: {', '.join(reports)}"


class MemoryRecorder:
    """Looks at one process after the other, in a thread of its own; `lives` is for after stop()."""

    def __init__(self, pid: Callable[[], int | None], clock: Callable[[], float]) -> None:
        self.processes: list[ProcessLifetime] = []
        self._pid = pid
        self._clock = clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lab-vitals", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; harmless when it never began."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S_MAX)

    def _run(self) -> None:
        while not self._ended.wait(POLL_S):
            pid = self._pid()
            result = None if pid is None else vitals(pid, self._clock())
            if pid is None or result is None:
                continue
            if not self.processes or self.processes[-1].pid != pid:
                self.processes.append(ProcessLifetime(pid))
            self.processes[-1].samples.append(result)


def vitals(pid: int, moment: float) -> Vitals | None:
    """Of a process now; None if it has just ended."""
    proc = Path("/proc") / str(pid)
    try:
        resident = int((proc / "statm").read_text().split()[1])
        descriptors = sum(1 for _ in (proc / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return None
    return Vitals(at=moment, rss_bytes=resident * _PAGE_BYTES, descriptors=descriptors)


def _median_rss(samples: Sequence[Vitals]) -> float:
    return statistics.median(sample.rss_bytes for sample in samples)


def _median_descriptors(samples: Sequence[Vitals]) -> float:
    return statistics.median(sample.descriptors for sample in samples)
