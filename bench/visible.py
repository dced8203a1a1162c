"""How long after a commit /metrics shows it, while 20,000 commits a second come in.

A real broker, the daemon as a process of its own with its defaults (site.py), a process that
commits at a steady rate, and one client that scrapes one family (`name[]`) about once a second, at
moments that keep no time with the daemon. Of one connector in a hundred every commit is followed
from the time that its record bears, and each answer says which of them it shows. At an age at which
99 of 100 are shown, whatever the scrape, stands the 99th percentile. So the time for which the
producer held a commit back, the tail, the loop, the writing of the answer and reading it are all in
it, and how often one asks is not: to ask without a pause took 28 % of the interpreter, and nobody
scrapes like that. The client waits for each answer before it asks again, so moments at which
answers are slow are sampled less often than others, and the figure is the better for it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka as ck
import numpy as np

from bench import commits, cpu
from bench.site import Size, Watcher, fill, made, watched
from lab import Lab, LabOptions
from offsetwatch.config.schema.root import Config
from offsetwatch.decode.java.hash_map import build_connect_key

RATE_PER_S = 20_000
RATE_SHARE = 0.95  # of it, or the figure is of something else
SOURCES = 20_000
CONNECTORS = 100
FOLLOWED = "files-0"
BURST_S = 0.01
WARM_UP_S = 20.0
MEASURED_S = 60.0
AFTER_S = 10.0  # the last of them become visible
PAUSES_S = (0.5, 1.5)  # between two scrapes, by chance
SEED = 1
BIN_S = 0.05  # ages are told to so much, rounded up
LINGER_MS = 20  # less, and the broker alone takes a core for batches of four commits
EXTRA_S_MAX = 0.250
Delivered = Callable[[ck.KafkaError | None, ck.Message], None]

FAMILY = "offsetwatch_source_offset_position"

_LINE = re.compile(
    rf'^{FAMILY}{{[^\n]*connector="{FOLLOWED}",[^\n]*/app-(\d+)\.log"[^\n]*}} (\S+)$'.encode(),
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one answer showed: when it had arrived, and the position of each source followed."""

    at: float
    positions: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds."""

    p50_s: float
    p99_s: float
    max_s: float
    commits: int
    scrapes: int
    cores: float
    rate_per_s: float
    tick_s: float

    @property
    def is_passed(self) -> bool:
        """Is it as soon as it has to be, at the rate that was wanted?"""
        return (
            self.p99_s <= self.tick_s + EXTRA_S_MAX and self.rate_per_s >= RATE_SHARE * RATE_PER_S
        )

    def line(self) -> str:
        """As printed."""
        return (
            f"visible      {self.rate_per_s:,.0f} commits/s of {SOURCES} source partitions: in "
            f"/metrics after {self.p50_s:.2f} s (p50), {self.p99_s:.2f} s (p99), "
            f"{self.max_s:.2f} s (max); a tick is {self.tick_s:.2f} s (p99 may be "
            f"{self.tick_s + EXTRA_S_MAX:.2f} s); {self.commits} commits followed, "
            f"{self.scrapes} scrapes, {self.cores:.2f} cores"
        )


def commit(bootstrap: str, topic: str, report: Path) -> None:
    """The process that commits. Leaves, of what is followed, [source, position, record's time]."""
    size = Size(files=SOURCES, file_connectors=CONNECTORS)
    keys: list[bytes] = [b""] * SOURCES
    for name, (_, locations) in made(size, west="", east="").items():
        for index, (location, offset) in enumerate(locations):
            key = build_connect_key(name, location)
            assert key is not None
            assert offset["position"] == 80 * (
                int(name.removeprefix("files-")) + CONNECTORS * index
            )
            keys[offset["position"] // 80] = key
    reports: list[tuple[int, int, float]] = []

    def follow(source: int, position: int) -> Delivered:
        def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
            assert error is None, error
            reports.append((source, position, message.timestamp()[1] / 1000))

        return delivered

    producer = commits.producer(bootstrap, linger_ms=LINGER_MS)
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
    report.write_text(json.dumps({"rate_per_s": first / took, "commits": reports}))


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
            inputs = ("--bootstrap", lab.east, "--topic", size.topic, "--report", str(report))
            committing = subprocess.Popen([sys.executable, "-m", "bench.visible", *inputs])
            try:
                observed = _scraped(watcher, committing)
                assert committing.returncode == 0, "it could not commit"
            finally:
                committing.kill()
                committing.wait()
            cores = (cpu.tree_s(watcher.pid) - before) / (time.monotonic() - began)
        document = json.loads(report.read_text())
        tick_s = Config.model_fields["tick_s"].default
        return _result(observed, document["commits"], cores, document["rate_per_s"], tick_s)


def _scraped(watcher: Watcher, committing: subprocess.Popen[bytes]) -> list[Scrape]:
    """What the client saw of the sources that are followed, until all of it should be visible."""
    results: list[Scrape] = []
    chance = random.Random(SEED)
    ends = math.inf
    while time.monotonic() < ends:
        if ends == math.inf and committing.poll() is not None:
            ends = time.monotonic() + AFTER_S
        status, body = watcher.answers(f"/metrics?name[]={FAMILY}")
        now = time.time()
        assert status == 200
        results.append(
            Scrape(now, {int(at): float(position) for at, position in _LINE.findall(body)})
        )
        time.sleep(chance.uniform(*PAUSES_S))
    return results


def _result(
    sequence: Sequence[Scrape],
    report: Sequence[tuple[int, int, float]],
    cores: float,
    rate_per_s: float,
    tick_s: float,
) -> Result:
    """Of each commit after the warm-up and each answer after it: how old it was, and was it shown?
    In the end all have to be.
    """
    from_s = min(when for _, _, when in report) + WARM_UP_S
    of: dict[int, list[tuple[int, float]]] = {}
    for source, position, moment in report:
        if moment >= from_s:
            of.setdefault(source, []).append((position, moment))
    assert len(of) == SOURCES // CONNECTORS
    ages: list[float] = []
    hidden: list[bool] = []
    for answer in sequence:
        for source, commits_of in of.items():
            output = answer.positions[source]
            for position, moment in commits_of:
                if answer.at >= moment:
                    ages.append(answer.at - moment)
                    hidden.append(output < position)
    assert all(sequence[-1].positions[source] >= of[source][-1][0] for source in of), "not all came"
    bins = np.floor(np.array(ages) / BIN_S).astype(int)
    late = np.bincount(bins, weights=hidden) / np.maximum(np.bincount(bins), 1)
    p50_s, p99_s, max_s = (
        float(BIN_S * (np.flatnonzero(late > share).max(initial=-1) + 1))
        for share in (0.5, 0.01, 0.0)
    )
    followed = sum(len(group) for group in of.values())
    return Result(p50_s, p99_s, max_s, followed, len(sequence), cores, rate_per_s, tick_s)


def main() -> int:
    """Exit code 1 if commits are shown too late."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    inputs = parser.parse_args()
    if inputs.report is not None:
        commit(inputs.bootstrap, inputs.topic, inputs.report)
        return 0
    result = measure()
    print(result.line(), flush=True)
    return 0 if result.is_passed else 1


if __name__ == "__main__":
    sys.exit(main())
