"""Cold start: how fast a tail takes in a whole offsets topic, against two that only count.

Real broker, 25 partitions, commits of many source partitions. Ours reads the topic through
TailReader and SourceRole until it holds decoded records. One baseline is confluent-kafka's own loop
that only counts messages, in the same process as ours; the other is Kafka's
`kafka-consumer-perf-test`, with the heap and the collector that its script gives it. They take
turns, so that a drifting machine speed cancels out of the ratios.

What counts: of the loop and of ours the time from making the consumer to the last record. Of
Kafka's the time that it says it fetched for, which leaves out the start of its JVM and joining its
group: so its baseline is the more favourable to it. The time of its whole process is printed, too.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka as ck

from bench import commits as commits_of
from lab import Lab, LabOptions
from lab.cluster.options import KAFKA_VERSION
from lab.processes.child import finished
from lab.processes.jars import jars
from lab.processes.java import tool
from offsetwatch.clients.kafka.clients import BEGINNING, KafkaAdmin, TailReader
from offsetwatch.daemon import tuning
from offsetwatch.ingest.topic_readers import SourceOffsetsTopicReader
from offsetwatch.model.topology import TopicPartition

TOPIC = "bench-offsets"
PARTITIONS = 25
BATCH = 10_000
LOOP_MIN = 0.80
KAFKAS_OWN_MIN = 0.45
KAFKAS_OWN_S_MAX = 300.0
# As bin/kafka-run-class.sh and bin/kafka-consumer-perf-test.sh of Kafka start it.
JVM = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")


@dataclass(frozen=True, slots=True)
class Line:
    """A figure as printed, and whether it is what it has to be."""

    text: str
    is_passed: bool


def produce(bootstrap: str, commits: int, sources: int) -> None:
    """Commits of MM2-like source partitions, each one step ahead of its last."""
    producer = commits_of.producer(bootstrap)
    keys = [
        f'["mirror-{n % 40}",{{"cluster":"west","partition":{n % 64},"topic":"topic-{n // 64}"}}]'
        for n in range(sources)
    ]
    for number in range(commits):
        producer.produce(
            TOPIC, key=keys[number % sources], value=f'{{"offset":{1_000_000 + number}}}'
        )
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def baseline(bootstrap: str, ends: dict[TopicPartition, int]) -> int:
    """The loop that only counts: same consumer settings, until every record was seen."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 100,
            "queued.min.messages": 100_000,
        }
    )
    consumer.assign([ck.TopicPartition(end.topic, end.partition, BEGINNING) for end in ends])
    expected = sum(ends.values())
    count = 0
    while count < expected:
        for message in consumer.consume(BATCH, 0.05):
            if message.error() is None:
                count += 1
    consumer.close()
    return count


def ours(bootstrap: str, ends: dict[TopicPartition, int]) -> int:
    """What a tail does until it is caught up, with the daemon's settings of memory."""
    before = gc.get_threshold()
    tuning.tune_memory()
    try:
        return _read(bootstrap, ends)
    finally:
        gc.set_threshold(*before)  # the loop that only counts is what a user would write


def _read(bootstrap: str, ends: dict[TopicPartition, int]) -> int:
    reader = TailReader("bench", {"bootstrap.servers": bootstrap})
    reader.assign(dict.fromkeys(ends, BEGINNING))
    role = SourceOffsetsTopicReader()
    partitions = tuple(ends)
    reached = False
    while not reached:
        role.fold(reader.read(BATCH, 0.05))
        positions = reader.positions(partitions)
        reached = all(
            positions.get(partition.partition, 0) >= end for partition, end in ends.items()
        )
    records, _ = role.folded()
    reader.close()
    return len(records)


def kafkas_own(bootstrap: str, commits: int) -> tuple[float, float]:
    """Seconds that Kafka's tool says it fetched for, and seconds of its process."""
    command = [
        tool("java"),
        *JVM,
        *("-cp", f"{jars(KAFKA_VERSION)}/*", "org.apache.kafka.tools.ConsumerPerformance"),
        *("--bootstrap-server", bootstrap, "--topic", TOPIC, "--num-records", str(commits)),
        *("--command-property", "isolation.level=read_committed", "--hide-header"),
    ]
    began = time.perf_counter()
    ran = finished(
        command,
        called="ConsumerPerformance",
        directory=Path(tempfile.gettempdir()),
        timeout_s=KAFKAS_OWN_S_MAX,
    )
    whole_s = time.perf_counter() - began
    fields = ran.stdout.strip().splitlines()[-1].split(", ")
    # start, end, MB, MB/s, records, records/s, ms to join, ms of fetching, MB/s, records/s
    assert ran.returncode == 0, ran.stderr
    assert len(fields) == 10, ran.stdout
    assert int(fields[4]) == commits, ran.stdout
    return int(fields[7]) / 1000, whole_s


def _timed(
    run: Callable[[str, dict[TopicPartition, int]], int],
    bootstrap: str,
    ends: dict[TopicPartition, int],
) -> float:
    began = time.perf_counter()
    run(bootstrap, ends)
    return time.perf_counter() - began


def measure(*, commits: int, sources: int, rounds: int) -> list[Line]:
    """Records per second of all, and the median ratios of what took turns."""
    with Lab(LabOptions(ports="free", connectors=False)) as lab:
        lab.create_topic("east", TOPIC, partitions=PARTITIONS)
        produce(lab.east, commits, sources)
        admin = KafkaAdmin("east", {"bootstrap.servers": lab.east})
        partition = admin.readable_ends([TopicPartition(TOPIC, n) for n in range(PARTITIONS)])
        ends = {topic_partition: end.high for topic_partition, end in partition.items()}
        bare: list[float] = []
        tail: list[float] = []
        theirs: list[float] = []
        whole: list[float] = []
        _timed(baseline, lab.east, ends)  # warm the broker's page cache
        for _ in range(rounds):
            bare.append(_timed(baseline, lab.east, ends))
            tail.append(_timed(ours, lab.east, ends))
            fetched_s, whole_s = kafkas_own(lab.east, commits)
            theirs.append(fetched_s)
            whole.append(whole_s)
    took = statistics.median(tail)
    return [
        Line(
            f"cold start   {commits} commits, {sources} source partitions: {took:.2f} s, "
            f"{commits / took:,.0f}/s",
            is_passed=True,
        ),
        _beside("a bare loop", commits, bare, tail, LOOP_MIN),
        _beside("ConsumerPerformance, fetching", commits, theirs, tail, KAFKAS_OWN_MIN),
        _beside("ConsumerPerformance, process", commits, whole, tail, 0.0),
    ]


def _beside(
    what: str, commits: int, theirs: list[float], tail: list[float], ratio_min: float
) -> Line:
    ratios = [its / own for its, own in zip(theirs, tail, strict=True)]
    ratio = statistics.median(ratios)
    expected = f", has to be {ratio_min:.2f}" if ratio_min else ""
    return Line(
        f"             {what} {commits / statistics.median(theirs):,.0f}/s, ratio {ratio:.2f} "
        f"(min {min(ratios):.2f}, max {max(ratios):.2f}, {len(ratios)} turns{expected})",
        is_passed=ratio >= ratio_min,
    )


def main() -> int:
    """Exit code 1 if it is slower than it has to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=2_000_000)
    parser.add_argument("--sources", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    inputs = parser.parse_args()
    lines = measure(commits=inputs.commits, sources=inputs.sources, rounds=inputs.rounds)
    for line in lines:
        print(line.text)
    return 0 if all(line.is_passed for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
