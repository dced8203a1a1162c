"""How long after a commit /metrics shows it, while 20,000 commits a second come in.

A real broker, the daemon as a process of its own with its defaults (site.py), a process that
commits at a steady rate, and one client that scrapes one family (`name[]`) over and over, with a
pause in between. Of one connector in a hundred every commit is followed: from the time that its
record bears until the answer to a scrape has arrived whose position covers it. So the time for
which the producer held it back, the tail, the loop, the writing of the answer, reading it, and the
pause between two scrapes are all in it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka as ck
import numpy as np

from bench import commits, cpu
from bench.site import Size, Watcher, fill, made, watched
from exporter.config.shape import Config
from exporter.decode.javamap import connect_key
from lab import Lab, LabOptions

RATE_PER_S = 20_000
RATE_SHARE = 0.95  # of it, or the figure is of something else
SOURCES = 20_000
CONNECTORS = 100
FOLLOWED = "files-0"
BURST_S = 0.01
WARM_UP_S = 20.0
MEASURED_S = 60.0
AFTER_S = 10.0  # the last of them become visible
PAUSE_S = 0.05  # between two scrapes
EXTRA_S_MAX = 0.250
Delivered = Callable[[ck.KafkaError | None, ck.Message], None]

FAMILY = "offsetwatch_source_offset_position"

_LINE = re.compile(
    rf'^{FAMILY}{{[^\n]*connector="{FOLLOWED}",[^\n]*/app-(\d+)\.log"[^\n]*}} (\S+)$'.encode(),
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one client saw of one source partition: when an answer had arrived, and its position."""

    at: list[float]
    positions: list[float]

    def since(self, position: int) -> float | None:
        """When a position was first covered; positions never go back here."""
        found = bisect_left(self.positions, position)
        return self.at[found] if found < len(self.at) else None


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds."""

    latencies_s: Sequence[float]
    scrapes: int
    cores: float
    rate_per_s: float
    tick_s: float

    @property
    def p99_s(self) -> float:
        """Of all followed commits."""
        return float(np.percentile(self.latencies_s, 99))

    @property
    def met(self) -> bool:
        """Is it as soon as it has to be, at the rate that was wanted?"""
        return (
            self.p99_s <= self.tick_s + EXTRA_S_MAX and self.rate_per_s >= RATE_SHARE * RATE_PER_S
        )

    def line(self) -> str:
        """As printed."""
        p50 = float(np.percentile(self.latencies_s, 50))
        return (
            f"visible      {self.rate_per_s:,.0f} commits/s of {SOURCES} source partitions: in "
            f"/metrics after {p50:.2f} s (p50), {self.p99_s:.2f} s (p99), "
            f"{max(self.latencies_s):.2f} s (max); a tick is {self.tick_s:.2f} s (p99 may be "
            f"{self.tick_s + EXTRA_S_MAX:.2f} s); {len(self.latencies_s)} commits followed, "
            f"{self.scrapes} scrapes, {self.cores:.2f} cores"
        )


def commit(bootstrap: str, topic: str, report: Path) -> None:
    """The process that commits. Leaves, of what is followed, [source, position, record's time]."""
    size = Size(files=SOURCES, file_connectors=CONNECTORS)
    keys: list[bytes] = [b""] * SOURCES
    for name, (_, places) in made(size, west="", east="").items():
        for at, (place, offset) in enumerate(places):
            key = connect_key(name, place)
            assert key is not None
            assert offset["position"] == 80 * (int(name.removeprefix("files-")) + CONNECTORS * at)
            keys[offset["position"] // 80] = key
    told: list[tuple[int, int, float]] = []

    def follow(source: int, position: int) -> Delivered:
        def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
            assert error is None, error
            told.append((source, position, message.timestamp()[1] / 1000))

        return delivered

    producer = commits.producer(bootstrap, linger_ms=5)
    per_burst = round(RATE_PER_S * BURST_S)
    began = due = time.monotonic()
    first = 0
    while due < began + WARM_UP_S + MEASURED_S:
        time.sleep(max(0.0, due - time.monotonic()))
        for number in range(first, first + per_burst):
            source = number % SOURCES
            position = 80 * SOURCES + number  # beyond where all of them stand
            value = b'{"position":%d}' % position
            if source % CONNECTORS == 0:
                producer.produce(
                    topic, key=keys[source], value=value, on_delivery=follow(source, position)
                )
            else:
                producer.produce(topic, key=keys[source], value=value)
        first += per_burst
        producer.poll(0)
        due += BURST_S
    took = time.monotonic() - began
    assert producer.flush(60) == 0
    report.write_text(json.dumps({"rate_per_s": first / took, "commits": told}))


def measure() -> Result:
    """Commit and scrape side by side."""
    size = Size(files=SOURCES, file_connectors=CONNECTORS)
    with tempfile.TemporaryDirectory() as folder, Lab(LabOptions(connectors=False)) as lab:
        answers = fill(lab, size, west=lab.west)
        report = Path(folder) / "commits.json"
        with watched(kafkas={"east": lab.east}, answers=answers, topic=size.topic) as watcher:
            watcher.start()
            watcher.wait(SOURCES)
            before, began = cpu.tree_s(watcher.pid), time.monotonic()
            given = ("--bootstrap", lab.east, "--topic", size.topic, "--report", str(report))
            committing = subprocess.Popen([sys.executable, "-m", "bench.visible", *given])
            try:
                seen, scrapes = _scraped(watcher, committing)
                assert committing.returncode == 0, "it could not commit"
            finally:
                committing.kill()
                committing.wait()
            cores = (cpu.tree_s(watcher.pid) - before) / (time.monotonic() - began)
        said = json.loads(report.read_text())
        tick_s = Config.model_fields["tick_s"].default
        return Result(
            list(_late(seen, said["commits"])), scrapes, cores, said["rate_per_s"], tick_s
        )


def _scraped(watcher: Watcher, committing: subprocess.Popen[bytes]) -> tuple[dict[int, Seen], int]:
    """What the client saw of the sources that are followed until there was nothing new to see, and
    how often it asked.
    """
    found: dict[int, Seen] = {}
    ends = math.inf
    scrapes = 0
    while time.monotonic() < ends:
        if ends == math.inf and committing.poll() is not None:
            ends = time.monotonic() + AFTER_S
        status, body = watcher.answers(f"/metrics?name[]={FAMILY}")
        now = time.time()
        assert status == 200
        for source, position in _LINE.findall(body):
            seen = found.setdefault(int(source), Seen([], []))
            if not seen.positions or float(position) > seen.positions[-1]:
                seen.at.append(now)
                seen.positions.append(float(position))
        scrapes += 1
        time.sleep(PAUSE_S)
    return found, scrapes


def _late(seen: Mapping[int, Seen], told: Sequence[tuple[int, int, float]]) -> Iterator[float]:
    """Of each commit after the warm-up: seconds until it was visible. All have to be."""
    assert len(seen) == SOURCES // CONNECTORS
    from_s = min(at for _, _, at in told) + WARM_UP_S
    for source, position, at in told:
        if at >= from_s:
            visible = seen[source].since(position)
            assert visible is not None, f"{source} never came to {position}"
            yield visible - at


def main() -> int:
    """Exit code 1 if commits are shown too late."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.report is not None:
        commit(given.bootstrap, given.topic, given.report)
        return 0
    result = measure()
    print(result.line(), flush=True)
    return 0 if result.met else 1


if __name__ == "__main__":
    sys.exit(main())
