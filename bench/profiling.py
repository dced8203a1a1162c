"""`make profile`: what the time goes to, of the edge with 100,000 source partitions and of the
pipeline over 5 million commits.

py-spy looks a hundred times a second, at the daemon's thread that holds the interpreter's lock and
at Spark's Python workers, which have one thread each; the JVM's own recorder at its Java. All from
outside, so that what is looked at is what is installed. A look counts for the innermost module of
ours (of the JVM: for the innermost step that is named here), with everything that it calls of
others. Looking costs: the CPU-seconds beside the shares are of a process that is looked at, and
nothing here is a figure to be met.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import commits, cpu
from bench.history import KAFKA, PARTITIONS, WARM_UP, Bed, decoded
from bench.site import Size, Watcher, fill, watched
from bench.visible import CONNECTORS
from lab import Lab, LabOptions
from lab.waiting import NotYet, until
from offsetwatch.history.spark.session import spark_session

FILES = 100_000
COMMITS = 5_000_000
SOURCES = 10_000
SETTLE_S = 240.0  # as in edge.py
REST_S = 60.0
SCRAPES = 20
RATE_HZ = 100
FUNCTIONS_PRINTED_MAX = 14
SPY: Final = str(Path(sys.executable).with_name("py-spy"))

_OURS = re.compile(r" \((offsetwatch/[^:)]*)")
_JAVA_FRAME = re.compile(r"^\s{4,}([\w.$<>/]+)\(", re.MULTILINE)
# Steps of Spark on the way of a record, by what their frames' names have in them.
_STEPS: Final = {
    "ArrowWriter.sizeInBytes": "how large is the batch for Python by now? once for each row",
    "ArrowWriter.write": "a row into the batch for Python",
    "CompletedFetch": "Kafka's consumer, parsing",
    "kafka010.consumer": "Kafka's consumer, all else",
    "KafkaRecordToRow": "a record into Spark's row",
    "UnsafeProjection": "the columns that are wanted of a row",
    "GeneratedIterator": "the rows' way through generated code",
    "PythonArrow": "between the JVM and Python, all else",
    "StreamExecution": "planning a batch",
}


@contextmanager
def sample_stacks(pid: int, where: Path, *options: str) -> Iterator[None]:
    """With py-spy, into a file of stacks and how often each was seen."""
    arguments = [SPY, "record", "--pid", str(pid), "--rate", str(RATE_HZ), "--format", "raw"]
    arguments += ["--function", "--output", str(where)]
    spy = subprocess.Popen(
        [*arguments, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield
    finally:
        spy.send_signal(signal.SIGINT)
        _, answer = spy.communicate()
    if not where.exists():
        sys.exit(f"py-spy could not look (it needs ptrace): {answer.decode(errors='replace')}")


def of_stacks(text: str) -> Counter[str]:
    """How often the innermost module of ours was at work; where there is none, what was."""
    counter: Counter[str] = Counter()
    for line in text.splitlines():
        stack, _, times = line.rpartition(" ")
        frames = stack.split(";")
        own = [match[1] for frame in frames if (match := _OURS.search(frame))]
        counter[own[-1] if own else f"not ours: {frames[-1]}"] += int(times)
    return counter


def of_samples(text: str) -> Counter[str]:
    """Of the JVM's samples as `jfr print` tells them: the innermost step that has a name here."""
    counter: Counter[str] = Counter()
    for sample in text.split("jdk.ExecutionSample {")[1:]:
        steps = (
            report
            for frame in _JAVA_FRAME.findall(sample)
            for part, report in _STEPS.items()
            if part in frame
        )
        counter[next(steps, "all else")] += 1
    return counter


def print_profile(title: str, cpu_s: float, counter: Counter[str]) -> None:
    """The largest shares."""
    print(f"\n{title}: {cpu_s:.1f} CPU-s")
    for name, times in counter.most_common(FUNCTIONS_PRINTED_MAX):
        print(f"  {100 * times / counter.total():5.1f} %  {name}", flush=True)


def profile_daemon(folder: Path) -> None:
    """A daemon with 100,000 source partitions: as it starts, at rest, and as it is scraped."""
    size = Size(files=FILES, file_connectors=CONNECTORS)
    with Lab(LabOptions(connectors=False)) as lab:
        answers = fill(lab, size, west=lab.west)
        with watched(kafkas={"east": lab.east}, answers=answers, topic=size.topic) as watcher:
            watcher.start()
            until("it answers", lambda: _answers(watcher), timeout_s=60.0)
            with _phase("edge, from its first answer until it is ready", watcher, folder / "start"):
                watcher.wait(FILES)
            time.sleep(SETTLE_S)
            with _phase(f"edge, {REST_S:.0f} s at rest", watcher, folder / "rest"):
                time.sleep(REST_S)
            with _phase(f"edge, {SCRAPES} scrapes, zipped", watcher, folder / "scrapes"):
                for _ in range(SCRAPES):
                    watcher.answers("/metrics", zipped=True)


def _answers(watcher: Watcher) -> None:
    try:
        watcher.answers("/metrics")
    except OSError as error:
        raise NotYet from error


@contextmanager
def _phase(title: str, watcher: Watcher, where: Path) -> Iterator[None]:
    before = cpu.tree_s(watcher.pid)
    # Of threads that wait it does not always know that they do.
    with sample_stacks(watcher.pid, where, "--gil"):
        yield
        cpu_s = cpu.tree_s(watcher.pid) - before
    counter = of_stacks(where.read_text())
    without = max(0, round(cpu_s * RATE_HZ) - counter.total())
    counter["without the interpreter's lock: librdkafka, zlib"] = without
    print_profile(title, cpu_s, counter)


def pipeline(folder: Path) -> None:
    """The backfill of bench/history.py, once: the JVM, and Python's workers."""
    with Lab(LabOptions(connectors=False)) as lab:
        for topic, size in (("bench-warm", WARM_UP), ("bench", COMMITS)):
            lab.create_topic(KAFKA, topic, partitions=PARTITIONS)
            commits.produce(lab.east, topic, count=size, sources=SOURCES)
        others = cpu.tree(os.getpid()) - {os.getpid()}
        with spark_session(master="local[2]", heap="1g", short=False) as spark:
            environment = Bed(spark, lab.east, others)
            decoded(environment, "bench-warm", folder / "warm")
            (jvm,) = (
                pid
                for pid in cpu.tree(os.getpid(), without=others)
                if Path(f"/proc/{pid}/comm").read_text() == "java\n"
            )
            recorded = folder / "jvm.jfr"
            _jcmd(jvm, "JFR.start", "settings=profile", f"filename={recorded}", "name=profile")
            before = _costs(jvm)
            with sample_stacks(jvm, folder / "workers", "--subprocesses"):
                decoded(environment, "bench", folder / "table")
                jvm_s, workers_s = (
                    after - then for after, then in zip(_costs(jvm), before, strict=True)
                )
            _jcmd(jvm, "JFR.stop", "name=profile")
    printed = subprocess.run(
        ["jfr", "print", "--events", "jdk.ExecutionSample", "--stack-depth", "64", str(recorded)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    print_profile(f"pipeline, {COMMITS:,} commits, the JVM", jvm_s, of_samples(printed))
    stacks = of_stacks((folder / "workers").read_text())
    print_profile(f"pipeline, {COMMITS:,} commits, Python's workers", workers_s, stacks)


def _costs(jvm: int) -> tuple[float, float]:
    """CPU-seconds so far: of the JVM itself, and of those that it has started."""
    both = cpu.tree_s(jvm)
    own = cpu.tree_s(jvm, without=cpu.tree(jvm) - {jvm})
    return own, both - own


def _jcmd(jvm: int, *command: str) -> None:
    def obeyed() -> None:
        if subprocess.run(
            ["jcmd", str(jvm), *command], capture_output=True, check=False
        ).returncode:
            raise NotYet

    until(f"the JVM does {command[0]}", obeyed, timeout_s=30.0)


def main() -> None:
    """Both parts, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("daemon", "pipeline"))
    only = parser.parse_args().only
    for name, part in (("daemon", profile_daemon), ("pipeline", pipeline)):
        if only in {None, name}:
            with tempfile.TemporaryDirectory(prefix="offsetwatch-profile-") as folder:
                part(Path(folder))


if __name__ == "__main__":
    main()
