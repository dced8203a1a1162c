"""How long after a commit the record of it stands in bronze, and what following costs.

A process of its own runs the pipeline (`run_continuous`) while this one commits at a steady rate.
Afterwards every file of the table is asked for the records it holds: what counts is the time at
which Delta's log named the file, less the record's own time. CPU is that of the pipeline's whole
process tree, without its start.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq

from bench import commits, cpu
from lab import Lab, LabOptions
from lab.waiting import NotYet, until
from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clock import SystemClock
from offsetwatch.history.pipeline import commits as lake
from offsetwatch.history.pipeline.bronze_rows import resolve_recorded_topics
from offsetwatch.history.pipeline.run import PipelineSpec, run_continuous
from offsetwatch.history.pipeline.stream import BronzeStream
from offsetwatch.history.pipeline.stream_plan import Feed, plan_stream
from offsetwatch.history.spark.security import kafka_options
from offsetwatch.history.spark.session import spark_session
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, OPS_GAPS
from offsetwatch.model.topology import KafkaTopic, OffsetsTopic, Topology

AT = KafkaTopic("east", "bench-offsets")
PARTITIONS = 25
SOURCES = 2000
CADENCE_S = 10.0
RATE_PER_S = 200
TICK_S = 0.05
WARM_UP_S = 60.0  # the first batches compile, and hold what was committed while Spark started
START_S_MAX = 120.0
P95_S_MAX = 15.0
# What is asked for is asked of bronze; what is made of it costs as much as there is to make.
CORES_MAX = {"whole": math.inf, "bronze": 0.25}
PARTS = {"whole": "the whole pipeline", "bronze": "bronze alone"}


@dataclass(frozen=True, slots=True)
class Steady:
    """What was seen while nothing but the clock moved on."""

    latencies_s: tuple[float, ...]
    cores: float
    batches: int

    def line(self, what: str) -> str:
        """As printed."""
        p50, p95 = np.percentile(self.latencies_s, (50, 95))
        return (
            f"latency      {what}, {RATE_PER_S} commits/s, every {CADENCE_S:.0f} s: "
            f"p50 {p50:.1f} s, p95 {p95:.1f} s, max {max(self.latencies_s):.1f} s "
            f"({len(self.latencies_s)} records, {self.batches} batches), {self.cores:.2f} cores"
        )

    def is_within(self, cores_max: float) -> bool:
        """Return whether latency and CPU time are within their limits."""
        soon = float(np.percentile(self.latencies_s, 95)) < P95_S_MAX
        return soon and self.cores <= cores_max


def spec(base: Path, bootstrap: str) -> PipelineSpec:
    """A site of one offsets topic."""
    properties = {"bootstrap.servers": bootstrap}
    topic_id, _ = KafkaAdmin(AT.kafka, properties).shape(AT.topic)
    return PipelineSpec(
        base=base,
        topology=Topology(offsets_topics=(OffsetsTopic("bench", AT),), flows=()),
        kafka={AT.kafka: properties},
        topic_ids={AT: topic_id},
        cadence_s=CADENCE_S,
    )


def follow(part: str, base: Path, bootstrap: str) -> None:
    """The process that is measured: the pipeline until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    inputs = spec(base, bootstrap)
    if part == "whole":
        run_continuous(inputs, stop)
    else:
        _follow_bronze(inputs, stop)


def _follow_bronze(inputs: PipelineSpec, stop: threading.Event) -> None:
    properties = inputs.kafka[AT.kafka]
    feed = Feed(
        kafka=AT.kafka,
        properties=properties,
        options=kafka_options(AT.kafka, properties),
        by_topic={AT.topic: resolve_recorded_topics(inputs.topology, inputs.topic_ids)[AT]},
        offsets_per_trigger_max=inputs.max_offsets_per_trigger,
    )
    with spark_session(master=inputs.master, heap=inputs.heap, short=False) as spark:
        for table in (BRONZE_RECORDS, OPS_GAPS):
            lake.create(inputs.base, table)
        stream = BronzeStream(
            spark, inputs.base, feed, plan_stream(inputs.base, feed), SystemClock()
        )
        stream.start(f"{CADENCE_S:.0f} seconds")
        stop.wait()
        stream.stop()


def measure(part: str, *, seconds: float) -> Steady:
    """Commit and follow for so long after the warm-up."""
    with Lab(LabOptions(connectors=False)) as lab, tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        lab.create_topic("east", AT.topic, partitions=PARTITIONS)
        stop = threading.Event()
        committing = threading.Thread(target=_commit, args=(lab.east, stop))
        committing.start()
        command = [sys.executable, "-m", "bench.latency", "--only", part, "--base", folder]
        pipeline = subprocess.Popen([*command, "--bootstrap", lab.east])
        try:
            until("bronze", lambda: _some(base, pipeline), timeout_s=START_S_MAX)
            time.sleep(WARM_UP_S)
            began, cpu_before = time.time(), cpu.tree_s(pipeline.pid)
            time.sleep(seconds)
            ended, cpu_s = time.time(), cpu.tree_s(pipeline.pid) - cpu_before
            time.sleep(2 * CADENCE_S)  # the last of them come into bronze
        finally:
            stop.set()
            committing.join()
            pipeline.terminate()
            pipeline.wait()
        batches = list(_batches(base, began, ended))
        latencies = tuple(late for batch in batches for late in batch)
        assert len(latencies) >= 0.99 * RATE_PER_S * seconds, f"only {len(latencies)} records"
        return Steady(latencies, cores=cpu_s / (ended - began), batches=len(batches))


def _commit(bootstrap: str, stop: threading.Event) -> None:
    producer = commits.producer(bootstrap)
    per_tick = round(RATE_PER_S * TICK_S)
    following = commits.commits(1_000_000_000, SOURCES)
    due = time.monotonic()
    while not stop.wait(max(0.0, due - time.monotonic())):
        for _ in range(per_tick):
            key, value = next(following)
            producer.produce(AT.topic, key=key, value=value)
        producer.poll(0)
        due += TICK_S
    producer.flush()


def _some(base: Path, pipeline: subprocess.Popen[bytes]) -> None:
    assert pipeline.poll() is None, "the pipeline has ended"
    if not any(BRONZE_RECORDS.at(base).glob("kind=*")):
        raise NotYet("no file")


def _batches(base: Path, began: float, ended: float) -> Iterator[list[float]]:
    """Of every version of bronze: how late the records were that were made in between."""
    table = BRONZE_RECORDS.at(base)
    for version in sorted((table / "_delta_log").glob("*.json")):
        visible = version.stat().st_mtime
        late: list[float] = []
        for line in version.read_text().splitlines():
            added = json.loads(line).get("add")
            if added is not None:
                column = pq.ParquetFile(table / unquote(added["path"])).read(columns=["kts"])["kts"]
                stamps = column.cast("int64").to_numpy() / 1e6
                late += (visible - stamps[(stamps >= began) & (stamps < ended)]).tolist()
        if late:
            yield late


def main() -> int:
    """Exit code 1 if commits come too late into bronze, or at too high a price."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="that are measured")
    parser.add_argument("--only", choices=PARTS, help="gold and all, or bronze alone; else both")
    parser.add_argument("--base", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    inputs = parser.parse_args()
    if inputs.base is not None:
        follow(inputs.only, inputs.base, inputs.bootstrap)
        return 0
    is_within = True
    for part in PARTS if inputs.only is None else (inputs.only,):
        steady = measure(part, seconds=inputs.seconds)
        print(steady.line(PARTS[part]), flush=True)
        is_within = steady.is_within(CORES_MAX[part]) and is_within
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
