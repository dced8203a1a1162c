"""The audit of a mirror: what it finds where nothing is wrong, and what it costs beside reading.

First a million records that MirrorMaker 2 has copied, audited by the command line: there must be no
finding. Then ten million on both sides, put there by us in the same order, with offset syncs as
MirrorMaker writes them. The baseline is to read keys and values of both sides by the same Spark and
to add up their lengths, so that all of them are fetched. Both take turns in the order ABBA, in one
session, so that a drifting machine speed cancels out of the ratio. What counts as fast enough, and
fails the run if it is not: 0.60 of the speed of reading.
"""

from __future__ import annotations

import argparse
import os
import platform
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench import cpu
from lab import Lab, LabOptions
from lab.cluster.kafka_client import settings
from lab.kills import sample_connectors
from lab.product.toolbox import Toolbox
from lab.waiting import NotYet, until
from offsetwatch.history.audit.job import AuditSpec, audit
from offsetwatch.history.audit.scope import AuditBounds, AuditClients, AuditScope, resolve_scope
from offsetwatch.history.audit.spark_reader import DOWNSTREAM, UPSTREAM, SparkReadOptions
from offsetwatch.history.spark.security import kafka_options
from offsetwatch.history.spark.session import spark_session
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition

PARTITIONS: Final = 4
VALUE_BYTES: Final = 100
KEYS: Final = 100_000
SYNC_EVERY: Final = 100  # offset.lag.max
WARM_UP: Final = 500_000
COPIED_S_MAX: Final = 600.0
FLUSH_S_MAX: Final = 120.0
RATIO_MIN: Final = 0.60
TOPIC: Final = "bench-audit"
FLOW: Final = MirrorFlow(
    connect_cluster="lab",
    connector="bench",
    source="west",
    target="east",
    upstream="west",
    downstream="east",
    offset_syncs=KafkaTopic("west", "mm2-offset-syncs.bench.internal"),
    policy="DefaultReplicationPolicy",
)


def produce(bootstrap: str, topic: str, count: int) -> None:
    """Records with keys of which many repeat and values that are all different."""
    more: dict[str, str | int] = {
        "acks": "all",
        "linger.ms": 50,
        "batch.size": 1_000_000,
        "enable.idempotence": "true",
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 400_000,
    }
    producer = ck.Producer(settings(bootstrap, **more))
    filling = b"." * VALUE_BYTES
    for number in range(count):
        value = (b"%d/" % number + filling)[:VALUE_BYTES]
        while True:
            try:
                producer.produce(
                    topic,
                    key=b"key-%d" % (number % KEYS),
                    value=value,
                    partition=number % PARTITIONS,
                )
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(FLUSH_S_MAX) == 0


def sync(bootstrap: str, topic: str, count: int) -> None:
    """Offset syncs of a copy that has the same offsets as what it copies."""
    assert FLOW.offset_syncs is not None
    producer = ck.Producer(settings(bootstrap, acks="all"))
    name = topic.encode()
    for partition in range(PARTITIONS):
        key = struct.pack(">h", len(name)) + name + struct.pack(">i", partition)
        last = count // PARTITIONS - 1
        for offset in (*range(0, last, SYNC_EVERY), last):
            value = struct.pack(">qq", offset, offset)
            producer.produce(FLOW.offset_syncs.topic, key=key, value=value)
            producer.poll(0)
    assert producer.flush(FLUSH_S_MAX) == 0


def clean(lab: Lab, count: int) -> int:
    """A real mirror, audited as a person would; how many findings there are."""
    with (
        sample_connectors.mirror(lab, "bench-mirror", partitions=PARTITIONS) as mirror,
        tempfile.TemporaryDirectory(prefix="offsetwatch-bench-") as folder,
    ):
        produce(lab.west, mirror.topic, count)
        meant = mirror.pairs()

        def copied() -> None:
            if (held := sample_connectors.offsets(lab, mirror.name)) != meant:
                raise NotYet(str(held))

        began = time.perf_counter()
        until("the copies", copied, timeout_s=COPIED_S_MAX)
        print(f"  copied by MirrorMaker in {time.perf_counter() - began:.1f} s", flush=True)
        toolbox = Toolbox(lab, directory=Path(folder))
        began = time.perf_counter()
        report: dict[str, Any] = toolbox.own(
            "history", "audit", "--flow", mirror.name, "--json", status=0
        ).json
    wall_s = time.perf_counter() - began
    records = sum(partition["upstream_records"] for partition in report["partitions"])
    copies = sum(partition["downstream_records"] for partition in report["partitions"])
    findings = sum(len(partition["findings"]) for partition in report["partitions"])
    assert (records, copies) == (count, count), f"{records} and {copies} records of {count}"
    print(
        f"audit        {records} records that MirrorMaker copied: {findings} findings in "
        f"{wall_s:.1f} s, with all it takes to start"
    )
    return findings


def read(spark: SparkSession, pinned: AuditScope, clusters: SparkReadOptions) -> None:
    """The baseline."""
    topics = {UPSTREAM: pinned.reaches[0].at.topic, DOWNSTREAM: pinned.reaches[0].remote}
    sides = [
        spark.read.format("kafka")
        .options(**clusters.options[side])
        .option("subscribe", topic)
        .load()
        .select(sf.octet_length("key").alias("key"), sf.octet_length("value").alias("value"))
        for side, topic in topics.items()
    ]
    (row,) = (
        reduce(DataFrame.unionAll, sides)
        .agg(sf.count("*"), sf.sum("key"), sf.sum("value"))
        .collect()
    )
    expected = sum(
        size for coverage in pinned.reaches for of in coverage.slices for size in of.records
    )
    assert row[0] == expected, f"{row[0]} records of {expected}"


def held(spark: SparkSession, pinned: AuditScope, clusters: SparkReadOptions) -> None:
    """The audit; `spark` is the session that it finds."""
    assert spark is not None
    results = audit(AuditSpec(pinned, clusters), lambda _said: None)
    assert sum(item.up_records + item.down_records for item in results) == sum(
        size for coverage in pinned.reaches for of in coverage.slices for size in of.records
    )
    assert not any(item.findings for item in results), results


Job = Callable[[SparkSession, AuditScope, SparkReadOptions], None]


def speed(lab: Lab, count: int, rounds: int) -> float:
    """Print every run and the ratio of the speeds, which it returns."""
    assert FLOW.offset_syncs is not None
    lab.create_topic("west", FLOW.offset_syncs.topic, 1)
    sides = AuditClients(
        {"west": {"bootstrap.servers": lab.west}, "east": {"bootstrap.servers": lab.east}}
    )
    clusters = SparkReadOptions(
        (kafka_options("west", sides.kafka["west"]), kafka_options("east", sides.kafka["east"]))
    )
    pins = {}
    for topic, size in ((f"{TOPIC}-warm", WARM_UP), (TOPIC, count)):
        lab.create_topic("west", topic, PARTITIONS)
        lab.create_topic("east", f"west.{topic}", PARTITIONS)
        produce(lab.west, topic, size)
        produce(lab.east, f"west.{topic}", size)
        sync(lab.west, topic, size)
        replicated = {
            TopicPartition(topic, index): size // PARTITIONS - 1 for index in range(PARTITIONS)
        }
        pins[topic] = resolve_scope(FLOW, dict(replicated), (topic,), AuditBounds(), sides)
    others = cpu.tree(os.getpid()) - {os.getpid()}
    costs: dict[Job, list[tuple[float, float]]] = {read: [], held: []}
    with spark_session(master="local[2]", heap="1g", short=False) as spark:
        for job in costs:
            job(spark, pins[f"{TOPIC}-warm"], clusters)
        for number in range(rounds):
            for job in (read, held) if number % 2 == 0 else (held, read):
                cpu_before = cpu.tree_s(os.getpid(), without=others)
                began = time.perf_counter()
                job(spark, pins[TOPIC], clusters)
                wall_s = time.perf_counter() - began
                cpu_s = cpu.tree_s(os.getpid(), without=others) - cpu_before
                costs[job].append((wall_s, cpu_s))
                print(
                    f"  {job.__name__:<5} {wall_s:6.1f} s, {2 * count / wall_s:9,.0f} records/s, "
                    f"{cpu_s:6.1f} CPU-s",
                    flush=True,
                )
    walls = {job: sum(wall_s for wall_s, _ in of) for job, of in costs.items()}
    cpus = {job: sum(cpu_s for _, cpu_s in of) for job, of in costs.items()}
    ratio = walls[read] / walls[held]
    print(
        f"audit        {count} records on each side, local[2]: at {ratio:.2f} of the speed of "
        f"reading both, {cpus[held] / cpus[read]:.2f} times the CPU ({RATIO_MIN:.2f} of the speed "
        "is asked for)"
    )
    return ratio


def main() -> int:
    """Exit code 1 for a finding in what is clean, or for an audit that is too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clean", type=int, default=1_000_000, help="records MirrorMaker copies")
    parser.add_argument("--records", type=int, default=10_000_000, help="on each side")
    parser.add_argument("--rounds", type=int, default=2, help="even: the order is ABBA")
    inputs = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    with Lab(LabOptions()) as lab:
        findings = clean(lab, inputs.clean)
    with Lab(LabOptions(connectors=False)) as lab:
        ratio = speed(lab, inputs.records, inputs.rounds)
    return 0 if not findings and ratio >= RATIO_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
