"""What the daemon takes when nothing moves, and how it bears to be asked by several at once.

The daemon is a process of its own on a real broker, beside a worker that only answers (site.py):
the time until /metrics answers, memory with nothing to watch and per source partition, processor
time of a site at rest, and the time of a scrape by one client and by ten at once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import cpu
from bench.growth import exponent
from bench.site import Size, Watcher, fill, fill_upstream, watched
from bench.wide_cluster import wide_cluster
from lab import Lab, LabOptions

STARTS = 5
START_S_MAX = 1.0
FILES = (6_250, 25_000, 100_000)
MIRRORED = (625, 2_500, 10_000)
SCRAPES = 4  # of memory: zlib and the writer have then what they keep
SCRAPE_S = 10.0
# A verdict needs three intervals, and comes with the look after them, a minute later at most; until
# it is reached all are thought over each minute.
SETTLE_S = 300.0
REST_S = 60.0
CLIENTS = 10
ROUNDS = 30
BASE_MIB_MAX = 90.0
PARTITION_KIB_MAX = 4.0
CPU_MAX = 0.03
TIMES_MAX = 2.0


@dataclass(frozen=True, slots=True)
class Line:
    """A figure as printed, and whether it is what it has to be."""

    text: str
    is_passed: bool


def starts(watcher: Watcher) -> tuple[float, float]:
    """Seconds until /metrics answers, and until Python alone has come and gone."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    bare = time.perf_counter() - began
    began = time.perf_counter()
    watcher.start()
    while True:
        try:
            if watcher.answers("/metrics")[0] == 200:
                return time.perf_counter() - began, bare
        except OSError:
            time.sleep(0.005)


def _start(lab: Lab) -> Iterator[Line]:
    answers = fill(lab, Size(), west=lab.west)
    results, bare, resident = [], [], []
    for _ in range(1 + STARTS):  # the first one compiles, as an installation does
        with watched(kafkas={"east": lab.east}, answers=answers, topic=Size().topic) as watcher:
            took, python = starts(watcher)
            results.append(took)
            bare.append(python)
            watcher.wait(0)
            watcher.answers("/metrics", zipped=True)
            resident.append(watcher.resident() / 2**20)
    took, python, base = (statistics.median(group[1:]) for group in (results, bare, resident))
    yield Line(
        f"start        {took:.2f} s until /metrics answers, empty cluster; "
        f"`python -c pass` {python:.2f} s (may be {START_S_MAX:.0f} s)",
        took <= START_S_MAX,
    )
    yield Line(
        f"memory       {base:.0f} MiB with nothing to watch (may be {BASE_MIB_MAX:.0f})",
        base <= BASE_MIB_MAX,
    )


def _memory(lab: Lab) -> Iterator[Line]:
    resident = {}
    for files in (0, *FILES):
        size = Size(files=files, file_connectors=50)
        answers = fill(lab, size, west=lab.west)
        with watched(kafkas={"east": lab.east}, answers=answers, topic=size.topic) as watcher:
            watcher.start()
            watcher.wait(files)
            for _ in range(SCRAPES):
                watcher.answers("/metrics", zipped=True)
                time.sleep(SCRAPE_S)
            resident[files] = watcher.resident()
    taken = {files: resident[files] - resident[0] for files in FILES}
    each = taken[FILES[-1]] / FILES[-1] / 1024
    growth = exponent(taken)
    yield Line(
        f"memory       {each:.2f} KiB per source partition of {FILES[-1]}, all its series scraped "
        f"(may be {PARTITION_KIB_MAX:.0f}); grows by {growth:.2f}",
        each <= PARTITION_KIB_MAX and growth <= 1.1,
    )


def _rest(lab: Lab, directory: Path) -> Iterator[Line]:
    with wide_cluster(directory, 1) as west:
        fill_upstream(west, Size(mirrored=MIRRORED[-1]))
        cores = {}
        for mirrored in MIRRORED:
            size = Size(files=990, file_connectors=990, mirrored=mirrored, mirrors=10)
            answers = fill(lab, size, west=west)
            kafkas = {"east": lab.east, "west": west}
            with watched(kafkas=kafkas, answers=answers, topic=size.topic) as watcher:
                watcher.start()
                watcher.wait(size.source_partitions)
                time.sleep(SETTLE_S)
                before = cpu.tree_s(watcher.pid)
                time.sleep(REST_S)
                cores[mirrored] = (cpu.tree_s(watcher.pid) - before) / REST_S
                if mirrored == MIRRORED[-1]:
                    yield _scrapes(watcher)
    most = cores[MIRRORED[-1]]
    yield Line(
        f"at rest      {100 * most:.1f} % of a core, 1,000 connectors, {MIRRORED[-1]} mirrored "
        f"partitions (may be {100 * CPU_MAX:.0f} %); grows by {exponent(cores):.2f}",
        most <= CPU_MAX,
    )


def _scrapes(watcher: Watcher) -> Line:
    one = _timed(watcher, 1)
    ten = _timed(watcher, CLIENTS)
    series = sum(not line.startswith(b"#") for line in watcher.answers("/metrics")[1].splitlines())
    times = _p99(ten) / _p99(one)
    return Line(
        f"scrapes      {series} series: p99 {_p99(one):.2f} s of one client, {_p99(ten):.2f} s of "
        f"{CLIENTS} at once, {times:.1f} times (may be {TIMES_MAX:.0f})",
        times <= TIMES_MAX,
    )


def _timed(watcher: Watcher, clients: int) -> list[float]:
    """Seconds of each scrape, `clients` of them at a time."""
    results: list[float] = []

    def scrape() -> None:
        began = time.perf_counter()
        watcher.answers("/metrics", zipped=True)
        results.append(time.perf_counter() - began)

    for _ in range(ROUNDS):
        threads = [threading.Thread(target=scrape) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def _p99(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


def measure() -> list[Line]:
    """Every line, printed as it is known."""
    results = []
    # As an installed package: with its bytecode.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder, Lab(LabOptions(connectors=False)) as lab:
        for lines in (_start(lab), _memory(lab), _rest(lab, Path(folder))):
            for line in lines:
                print(line.text, flush=True)
                results.append(line)
    return results


def main() -> int:
    """Exit code 1 if something is not what it has to be."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    return 0 if all(line.is_passed for line in measure()) else 1


if __name__ == "__main__":
    sys.exit(main())
