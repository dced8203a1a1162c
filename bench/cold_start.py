"""Cold start: how fast a tail takes in a whole offsets topic, against a bare consume loop.

Real broker, 25 partitions, commits of many source partitions. The baseline is confluent-kafka's own
loop that only counts messages; ours reads the same topic through TailReader and SourceRole until it
holds decoded records. The two take turns, so that a drifting machine speed cancels out of the
ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
import uuid
from collections.abc import Callable

import confluent_kafka as ck

from bench import commits as commits_of
from exporter.clients.kafka import BEGINNING, KafkaAdmin, TailReader
from exporter.ingest.roles import SourceRole
from exporter.model.topology import TopicPartition
from lab import Lab, LabOptions

TOPIC = "bench-offsets"
PARTITIONS = 25
BATCH = 10_000


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
    consumer.assign([ck.TopicPartition(at.topic, at.partition, BEGINNING) for at in ends])
    wanted = sum(ends.values())
    count = 0
    while count < wanted:
        for message in consumer.consume(BATCH, 0.05):
            if message.error() is None:
                count += 1
    consumer.close()
    return count


def ours(bootstrap: str, ends: dict[TopicPartition, int]) -> int:
    """What a tail does until it is caught up."""
    reader = TailReader("bench", {"bootstrap.servers": bootstrap})
    reader.assign(dict.fromkeys(ends, BEGINNING))
    role = SourceRole()
    partitions = tuple(ends)
    reached = False
    while not reached:
        role.fold(reader.read(BATCH, 0.05))
        positions = reader.positions(partitions)
        reached = all(positions.get(at.partition, 0) >= end for at, end in ends.items())
    records, _ = role.folded()
    reader.close()
    return len(records)


def _timed(
    run: Callable[[str, dict[TopicPartition, int]], int],
    bootstrap: str,
    ends: dict[TopicPartition, int],
) -> float:
    began = time.perf_counter()
    run(bootstrap, ends)
    return time.perf_counter() - began


def measure(*, commits: int, sources: int, rounds: int) -> str:
    """One line: records per second of both, and the median ratio of the pairs."""
    with Lab(LabOptions(ports="free", connectors=False)) as lab:
        lab.create_topic("east", TOPIC, partitions=PARTITIONS)
        produce(lab.east, commits, sources)
        admin = KafkaAdmin("east", {"bootstrap.servers": lab.east})
        asked = admin.readable_ends([TopicPartition(TOPIC, n) for n in range(PARTITIONS)])
        ends = {at: end.high for at, end in asked.items()}
        ratios, bare, tail = [], [], []
        _timed(baseline, lab.east, ends)  # warm the broker's page cache
        for _ in range(rounds):
            bare.append(_timed(baseline, lab.east, ends))
            tail.append(_timed(ours, lab.east, ends))
            ratios.append(bare[-1] / tail[-1])
    return (
        f"cold start   {commits} commits, {sources} source partitions: "
        f"bare loop {commits / statistics.median(bare):,.0f}/s, "
        f"tail {commits / statistics.median(tail):,.0f}/s, "
        f"ratio {statistics.median(ratios):.2f} "
        f"(min {min(ratios):.2f}, max {max(ratios):.2f}, {rounds} pairs)"
    )


def main() -> None:
    """Print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--sources", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(measure(commits=given.commits, sources=given.sources, rounds=given.rounds))


if __name__ == "__main__":
    main()
