"""Backfill: how fast the pipeline brings a whole offsets topic into bronze, decoded, and how soon
a commit is there afterwards (latency.py).

Real broker, 25 partitions, commits of four kinds of connector. The baseline is the same stream
without decoding: the columns that Kafka gives and the day, under the same session, bound of a
batch, compression and partitioning. It is taken twice: through our own writer, as the pipeline's
rows go, and through Spark's own sink for Delta. All take turns in the order ABCCBA, each into a
fresh table, so that a drifting machine speed cancels out of the ratio. What counts as fast enough,
and fails the run if it is not: 0.70 of the speed of raw bytes through our own writer.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench import commits, cpu
from lab import Lab, LabOptions
from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clock import SystemClock
from offsetwatch.history.pipeline import commits as lake
from offsetwatch.history.pipeline import stream
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic
from offsetwatch.history.pipeline.stream import BronzeStream
from offsetwatch.history.pipeline.stream_plan import Feed, plan_stream
from offsetwatch.history.spark.security import kafka_options
from offsetwatch.history.spark.session import spark_session
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    CONNECT_OFFSETS,
    OPS_GAPS,
    Table,
    TableColumn,
)

KAFKA: Final = "east"
PARTITIONS = 25
WARM_UP = 500_000  # commits: the JVM has then compiled most of what it will compile
OFFSETS_PER_TRIGGER_MAX = 500_000  # the pipeline's own default
RATIO_MIN = 0.70

RAW = Table(
    path="raw",
    columns=(
        TableColumn("key", "BINARY"),
        TableColumn("value", "BINARY"),
        TableColumn("topic", "STRING"),
        TableColumn("partition", "INT"),
        TableColumn("offset", "BIGINT"),
        TableColumn("timestamp", "TIMESTAMP"),
        TableColumn("day", "DATE"),
    ),
    partitioned_by=("day",),
    indexed=6,
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one job over all commits."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Bed:
    """Where the jobs run: a session, and pids beside it that are none of its own."""

    spark: SparkSession
    bootstrap: str
    others: frozenset[int]

    def feed(self, topic: str) -> Feed:
        """The topic as the pipeline is given it."""
        properties = {"bootstrap.servers": self.bootstrap}
        topic_id, _ = KafkaAdmin(KAFKA, properties).shape(topic)
        return Feed(
            kafka=KAFKA,
            properties=properties,
            options=kafka_options(KAFKA, properties),
            by_topic={topic: RecordedTopic(CONNECT_OFFSETS, "bench", topic_id)},
            offsets_per_trigger_max=OFFSETS_PER_TRIGGER_MAX,
        )


def raw(environment: Bed, topic: str, base: Path) -> Path:
    """The baseline; returns where its table is."""
    lake.create(base, RAW)

    def with_days(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (rows.append_column("day", rows["timestamp"].cast(pa.date32())) for rows in batches)

    def sink(records: DataFrame, number: int) -> None:
        cores = environment.spark.sparkContext.defaultParallelism
        rows = records.select(*RAW.names[:-1]).coalesce(cores)
        lake.append(
            lake.write_frame(rows, base, RAW, through=with_days),
            base,
            RAW,
            lake.IdempotentWrite("bench", number),
        )

    _read(environment, topic).writeStream.foreachBatch(sink).option(
        "checkpointLocation", str(base / "_ckpt")
    ).trigger(availableNow=True).start().awaitTermination()
    return RAW.at(base)


def raw_by_spark(environment: Bed, topic: str, base: Path) -> Path:
    """The baseline as Spark itself writes it; returns where its table is."""
    lake.create(base, RAW)
    (
        _read(environment, topic)
        .withColumn("day", sf.to_date("timestamp"))
        .select(*RAW.names)
        .coalesce(environment.spark.sparkContext.defaultParallelism)
        .writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", str(base / "_ckpt"))
        .trigger(availableNow=True)
        .start(str(RAW.at(base)))
        .awaitTermination()
    )
    return RAW.at(base)


def _read(environment: Bed, topic: str) -> DataFrame:
    feed = environment.feed(topic)
    return stream.open_kafka_stream(
        environment.spark,
        feed.options,
        [topic],
        starting={topic: dict.fromkeys((str(number) for number in range(PARTITIONS)), 0)},
        offsets_per_trigger_max=feed.offsets_per_trigger_max,
    )


def decoded(environment: Bed, topic: str, base: Path) -> Path:
    """The pipeline's own stream; returns where its table is."""
    feed = environment.feed(topic)
    for table in (BRONZE_RECORDS, OPS_GAPS):
        lake.create(base, table)
    stream = BronzeStream(environment.spark, base, feed, plan_stream(base, feed), SystemClock())
    stream.start(None)
    stream.finish()
    return BRONZE_RECORDS.at(base)


Job = Callable[[Bed, str, Path], Path]
JOBS: Final[tuple[Job, ...]] = (raw, raw_by_spark, decoded)


def timed(job: Job, environment: Bed, topic: str, count: int) -> Cost:
    """Run a job into a fresh table, which must then hold every commit."""
    me = os.getpid()
    with tempfile.TemporaryDirectory(prefix="offsetwatch-bench-") as folder:
        cpu_before, began = cpu.tree_s(me, without=environment.others), time.perf_counter()
        written = job(environment, topic, Path(folder))
        wall_s = time.perf_counter() - began
        cpu_s = cpu.tree_s(me, without=environment.others) - cpu_before
        rows = DeltaTable(str(written)).count()
        assert rows == count, f"{job.__name__}: {rows} rows of {count}"
    return Cost(wall_s=wall_s, cpu_s=cpu_s)


def measure(*, count: int, sources: int, rounds: int) -> float:
    """Print every run and the ratios; returns that of the speeds."""
    with Lab(LabOptions(connectors=False)) as lab:
        for topic, size in (("bench-warm", WARM_UP), ("bench", count)):
            lab.create_topic(KAFKA, topic, partitions=PARTITIONS)
            commits.produce(lab.east, topic, count=size, sources=sources)
        others = cpu.tree(os.getpid()) - {os.getpid()}
        with spark_session(master="local[2]", heap="1g", short=False) as spark:
            environment = Bed(spark, lab.east, others)
            for job in JOBS:
                timed(job, environment, "bench-warm", WARM_UP)
            return _compare(environment, count, rounds)


def _compare(environment: Bed, count: int, rounds: int) -> float:
    costs: dict[Job, list[Cost]] = {job: [] for job in JOBS}
    for number in range(rounds):
        for job in JOBS if number % 2 == 0 else reversed(JOBS):
            cost = timed(job, environment, "bench", count)
            costs[job].append(cost)
            print(
                f"  {job.__name__:<12} {cost.wall_s:6.1f} s, {count / cost.wall_s:9,.0f}/s, "
                f"{cost.cpu_s:6.1f} CPU-s",
                flush=True,
            )
    walls = {job: sum(cost.wall_s for cost in result) for job, result in costs.items()}
    cpus = {job: sum(cost.cpu_s for cost in result) for job, result in costs.items()}
    for job, how in ((raw, "by the same writer"), (raw_by_spark, "by Spark's own writer")):
        print(
            f"backfill     {count} commits, local[2]: decoded at {walls[job] / walls[decoded]:.2f} "
            f"of the speed of raw bytes {how}, {cpus[decoded] / cpus[job]:.2f} times the CPU"
        )
    ratio = walls[raw] / walls[decoded]
    print(f"             the first of these counts: {RATIO_MIN:.2f} is asked for")
    return ratio


def main() -> int:
    """Exit code 1 if decoding is too slow, or commits come too late into bronze."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=5_000_000)
    parser.add_argument("--sources", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2, help="even: the order is ABBA")
    parser.add_argument("--only", choices=("backfill", "latency"), help="one of the two parts")
    inputs = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    is_passed = True
    if inputs.only != "latency":
        ratio = measure(count=inputs.commits, sources=inputs.sources, rounds=inputs.rounds)
        is_passed = ratio >= RATIO_MIN
    if inputs.only != "backfill":
        # In a process of its own, as two sessions of one process share a JVM.
        following = subprocess.run([sys.executable, "-m", "bench.latency"], check=False)
        is_passed = is_passed and following.returncode == 0
    return 0 if is_passed else 1


if __name__ == "__main__":
    sys.exit(main())
