"""What it costs to ask a real broker about 5,000 lagging partitions: log ends, and single records.

`python -m bench.upstream` prints both against the plain way of doing the same, one partition after
the other with the same client, and fails where log ends take longer than they may or a round of
reads goes over its budget. The positions are written by hand; everything else is the daemon's own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer, TopicPartition

from lab import Lab, LabOptions
from lab.cluster.kafka_client import settings
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.records.probe import ProbeReader
from offsetwatch.clock import SystemClock
from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.ingest.log_ends_poll import LogEndsPoll
from offsetwatch.ingest.polls import Batch
from offsetwatch.ingest.record_age_poll import ProbeBudget, ProbeMemory, poll_probes
from offsetwatch.model.observations import (
    InputId,
    OffsetsTopicFound,
    ProbeRoundRead,
    SourceRecord,
    TailRead,
)
from offsetwatch.model.offsets import SourceKey
from offsetwatch.model.topology import KafkaTopic, MirrorFlow
from offsetwatch.state.book import Book
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.snapshot import Snapshot

TOPICS, PARTITIONS, RECORDS = 50, 100, 3
CONNECTOR = "MirrorSourceConnector"
OFFSETS = KafkaTopic("east", "mm2-offsets.west.internal")
FLOW = MirrorFlow("mm2", CONNECTOR, "west", "east", upstream="west", offset_syncs=None)
BUDGET = ProbeBudget(reads_max=500, seconds=2.0)  # as the configuration's defaults
ENDS_S_MAX = 2.0
ROUNDS_ENDS = 7
PLAIN = 200  # partitions that the plain way is measured over; it has no reason to get faster


@dataclass
class SourceCluster:
    """The daemon's state and clients, without its threads."""

    bootstrap: str
    clock: SystemClock = field(default_factory=SystemClock)
    memory: ProbeMemory = field(default_factory=ProbeMemory)

    def __post_init__(self) -> None:
        properties = {"bootstrap.servers": self.bootstrap}
        self.admin = KafkaInspector("west", properties)
        self.ends_poll = LogEndsPoll(self.admin, self.take, self.clock)
        self.reader = ProbeReader("west", properties, committed=False)
        self.book = Book(
            clusters=(ConnectClusterSettings(name="mm2", kafka="east", rest=False),),
            kafkas={"west": frozenset({self.bootstrap})},
            stale_after_s=dict.fromkeys(("tail", "connect_rest", "groups", "log_ends"), 3600.0),
            source_partitions_max=100_000,
            flows=(FLOW,),
        )
        self.take((OffsetsTopicFound("mm2", OFFSETS),))

    def take(self, batch: Batch) -> bool:
        """Apply it, as the loop would."""
        for observed in batch:
            self.book.apply(observed, self.clock.now())
        return True

    def snapshot(self) -> Snapshot:
        """The picture now."""
        return self.book.snapshot(self.clock.now())

    def ends(self) -> None:
        """One reading of all log ends."""
        self.ends_poll.poll(self.snapshot())

    def round(self, snapshot: Snapshot) -> ProbeRoundRead | None:
        """One round of reads of single records, not yet applied."""
        results = poll_probes(
            "west",
            lambda _committed: self.reader,
            snapshot,
            self.memory,
            BUDGET,
            self.clock,
        )
        return next((item for item in results if isinstance(item, ProbeRoundRead)), None)


def committed(offset: int, moment: float) -> TailRead:
    """MirrorMaker's offsets of all partitions."""
    return TailRead(
        input=InputId.of_tail(OFFSETS),
        topic=OFFSETS,
        at=moment,
        records=tuple(
            _record(topic, number, offset) for topic in names() for number in range(PARTITIONS)
        ),
        positions=(),
        caught_up=True,
        behind=0,
        as_of=moment,
        whole=True,
    )


def names() -> Iterator[str]:
    """The upstream topics."""
    return (f"bench-{number:02}" for number in range(TOPICS))


def _record(topic: str, partition: int, offset: int) -> SourceRecord:
    raw = build_connect_key(CONNECTOR, {"cluster": "west", "partition": partition, "topic": topic})
    assert raw is not None
    key = decode_key(raw)
    assert isinstance(key, SourceKey)
    return SourceRecord(
        key=key,
        raw_key=raw,
        offset=decode_value(b'{"offset":%d}' % offset),
        partition=0,
        log_offset=0,
        at=time.time(),
        advanced_at=None,
        live=False,
    )


def fill(lab: Lab) -> None:
    """So many records in each partition."""
    for topic in names():
        lab.create_topic("west", topic, PARTITIONS)
    producer = Producer(settings(lab.west, **{"linger.ms": 50}))
    for topic in names():
        for number in range(PARTITIONS * RECORDS):
            producer.produce(topic, value=b"x" * 100, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


def timed(job: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def plain(bootstrap: str) -> tuple[float, float]:
    """Milliseconds per partition of the plain ways: (log bounds, a record)."""
    own = {"group.id": "plain", "enable.auto.commit": "false"}
    reader = Consumer(settings(bootstrap, **own))
    group = [TopicPartition(next(names()), number % PARTITIONS, 1) for number in range(PLAIN)]
    try:
        reader.get_watermark_offsets(group[0], timeout=10)  # connected
        bounds = timed(lambda: [reader.get_watermark_offsets(one, timeout=10) for one in group])
        records = timed(lambda: _each(reader, group))
    finally:
        reader.close()
    return bounds / PLAIN * 1000, records / PLAIN * 1000


def _each(reader: Consumer, expected: Sequence[TopicPartition]) -> None:
    for partition in expected:
        reader.assign([partition])
        message = reader.poll(10)
        assert message is not None
        assert message.error() is None


def measure() -> bool:
    """Print every figure. True if each is what it has to be."""
    total = TOPICS * PARTITIONS
    with Lab(LabOptions(connectors=False)) as lab:
        fill(lab)
        cluster = SourceCluster(lab.west)
        cluster.take((committed(0, cluster.clock.now()),))
        cluster.ends()  # connected
        ends = [timed(cluster.ends) for _ in range(ROUNDS_ENDS)]
        each, rounds = [], []
        snapshots = [timed(cluster.snapshot)]
        while read := cluster.round(snapshot := cluster.snapshot()):
            expected = sum(view.probe_from is not None for view in snapshot.mirror_partitions)
            assert sum(count for _, count in read.made) == min(expected, BUDGET.reads_max)
            each.append(len(read.answers))
            rounds.append(cluster.clock.now() - read.at)
            cluster.take((read,))
            snapshots.append(timed(cluster.snapshot))
        known = sum(view.caught_up is False for view in cluster.snapshot().mirror_partitions)
        cluster.ends()
        again = cluster.round(cluster.snapshot())
        bounds_ms, record_ms = plain(lab.west)
        cluster.reader.close()
    middle, record = statistics.median(ends), sum(rounds) / sum(each) * 1000
    print(
        f"log ends     {total} partitions: median {middle:.2f} s, max {max(ends):.2f} s "
        f"(the median may be {ENDS_S_MAX:.0f} s); topic ids and the book's part included, "
        f"{bounds_ms / (middle / total * 1000):.1f} times as fast as bounds alone, one partition "
        "after the other over loopback"
    )
    print(
        f"reads        {sum(each)} in {len(each)} rounds of at most {BUDGET.reads_max}: "
        f"max {max(rounds):.2f} s a round (may be {BUDGET.seconds:.0f} s); "
        f"{record_ms / record:.0f} times as fast as one partition after the other; "
        f"{0 if again is None else len(again.answers)} once all are known"
    )
    print(
        f"snapshot     {total} partitions after reads: median "
        f"{statistics.median(snapshots) * 1000:.0f} ms, max {max(snapshots) * 1000:.0f} ms"
    )
    return _sound(ends, rounds, each) and known == total and again is None


def _sound(ends: Sequence[float], rounds: Sequence[float], each: Sequence[int]) -> bool:
    within = max(each) <= BUDGET.reads_max and max(rounds) <= BUDGET.seconds
    return statistics.median(ends) < ENDS_S_MAX and within


def main() -> int:
    """Exit code 1 if something takes longer than it may."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    return 0 if measure() else 1


if __name__ == "__main__":
    sys.exit(main())
