"""How long one refresh of the log ends of 50,000 partitions takes, and whom it holds up.

Real brokers. The poll of the daemon: log start and log end of every partition that a flow has a
position in, and the ids of those topics whose turn it is, before and after. The baseline asks the
same two questions bare, each in one call of confluent-kafka's `list_offsets`, and no ids. They take
turns. Beside the poll a thread wants to run every 50 ms, as the daemon's loop wants to: how late it
is at worst is how long the poll keeps the interpreter to itself.

And how long it takes of a broker that is far away, as the source of a mirror often is: what passes
between them arrives FAR_S / 2 later. The baseline is the same poll with the questions that are
quickest to answer for one that is near.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest import mock

import confluent_kafka as ck
from confluent_kafka import admin as ck_admin

from bench.growth import exponent
from bench.wide_cluster import fill, wide_cluster
from lab.cluster.lone_broker import lone_broker
from offsetwatch.clients.kafka import log_bounds
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clock import SystemClock
from offsetwatch.ingest.log_ends_poll import LogEndsPoll
from offsetwatch.ingest.polls import Batch
from offsetwatch.model.observations import LogEndsRead
from offsetwatch.model.topology import MirrorFlow, Topology
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, MirrorPartitionView, Snapshot

TOPICS = 50
PARTITIONS_PER_TOPIC = 1000
BROKERS = 5
GROWTH = (16, 4, 1)
TICK_S = 0.05
GOAL_S = 3.0
FAR_S = 0.05
FAR_TOPICS = 20
FAR_PARTITIONS_PER_TOPIC = 200


@dataclass(frozen=True, slots=True)
class Result:
    """Medians of seconds; `late_s` is the worst of all rounds."""

    partitions: int
    refresh_s: float
    bare_s: float
    late_s: float
    bare_late_s: float

    def line(self) -> str:
        """As printed."""
        return (
            f"log ends     {self.partitions} partitions: {self.refresh_s:.2f} s, a thread beside "
            f"it up to {1000 * self.late_s:.0f} ms late; bare list_offsets {self.bare_s:.2f} s, up "
            f"to {1000 * self.bare_late_s:.0f} ms late; ratio {self.bare_s / self.refresh_s:.2f}"
        )


def snapshot(partitions: int, *, topics: int = TOPICS) -> Snapshot:
    """A flow that has a position in so many partitions, a part of each topic."""
    flow = MirrorFlow(
        connect_cluster="bench",
        connector="mm2",
        source="wide",
        target="here",
        upstream="wide",
        offset_syncs=None,
    )
    views = tuple(
        MirrorPartitionView(
            connect_cluster="bench",
            connector="mm2",
            source="wide",
            target="here",
            topic=f"wide-{number % topics}",
            partition=number // topics,
            committed=0,
            committed_at=None,
            synced=None,
            replicated=None,
            log_start=None,
            log_end=None,
            lag=None,
            ahead=0,
        )
        for number in range(partitions)
    )
    return replace(
        EMPTY_SNAPSHOT, topology=Topology(offsets_topics=(), flows=(flow,)), mirror_partitions=views
    )


def refresh(poll: LogEndsPoll, report: list[Batch], observed: Snapshot) -> None:
    """One poll. Every partition must have its ends."""
    report.clear()
    poll.poll(observed)
    read = [item for batch in report for item in batch if isinstance(item, LogEndsRead)]
    assert len(read) == 1, report
    assert len(read[0].bounds) == len(observed.mirror_partitions)
    assert read[0].ids


def bare(client: ck_admin.AdminClient, observed: Snapshot) -> None:
    """The same questions in one call each."""
    for spec in (ck_admin.OffsetSpec.earliest(), ck_admin.OffsetSpec.latest()):
        offsets = client.list_offsets(
            {
                ck.TopicPartition(partition.topic, partition.partition): spec
                for partition in observed.mirror_partitions
            },
            isolation_level=ck.IsolationLevel.READ_UNCOMMITTED,
            request_timeout=60,
        )
        for future in offsets.values():
            assert future.result().offset >= 0


@contextmanager
def beside() -> Iterator[list[float]]:
    """Seconds by which a thread that wants to run every TICK_S was late."""
    late: list[float] = []
    stop = threading.Event()

    def run() -> None:
        while True:
            began = time.perf_counter()
            if stop.wait(TICK_S):
                return
            late.append(time.perf_counter() - began - TICK_S)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield late
    finally:
        stop.set()
        thread.join()


def _result(bootstrap: str, partitions: int, rounds: int) -> Result:
    admin = KafkaInspector("wide", {"bootstrap.servers": bootstrap})
    client = ck_admin.AdminClient({"bootstrap.servers": bootstrap})
    observed = snapshot(partitions)
    took: dict[str, list[float]] = {"ours": [], "bare": []}
    late: dict[str, list[float]] = {"ours": [0.0], "bare": [0.0]}
    poll, report = _poll(admin)
    refresh(poll, report, observed)  # connects, and learns who leads
    for _ in range(rounds):
        for reader, ask in (
            ("bare", partial(bare, client, observed)),
            ("ours", partial(refresh, poll, report, observed)),
        ):
            with beside() as lateness:
                began = time.perf_counter()
                ask()
                took[reader].append(time.perf_counter() - began)
            late[reader] += lateness
    return Result(
        partitions=partitions,
        refresh_s=statistics.median(took["ours"]),
        bare_s=statistics.median(took["bare"]),
        late_s=max(late["ours"]),
        bare_late_s=max(late["bare"]),
    )


def results(bootstrap: str, rounds: int) -> list[Result]:
    """At a sixteenth, a quarter and all partitions."""
    whole = TOPICS * PARTITIONS_PER_TOPIC
    return [_result(bootstrap, whole // part, rounds) for part in GROWTH]


def far(rounds: int) -> str:
    """The line of a broker that is far away."""
    took: dict[float, float] = {}
    observed = snapshot(FAR_TOPICS * FAR_PARTITIONS_PER_TOPIC, topics=FAR_TOPICS)
    with (
        tempfile.TemporaryDirectory() as directory,
        lone_broker(Path(directory), relays=1) as broker,
    ):
        fill(broker.address, FAR_TOPICS, FAR_PARTITIONS_PER_TOPIC)
        broker.relays[0].late_s = FAR_S / 2
        for limit_s in (math.inf, log_bounds.FAR_ROUND_TRIP_S):
            poll, report = _poll(KafkaInspector("wide", {"bootstrap.servers": broker.by(0)}))
            with mock.patch.object(log_bounds, "FAR_ROUND_TRIP_S", limit_s):
                refresh(poll, report, observed)  # connects, and learns who leads
                each = []
                for _ in range(rounds):
                    began = time.perf_counter()
                    refresh(poll, report, observed)
                    each.append(time.perf_counter() - began)
            took[limit_s] = statistics.median(each)
    own, near = took[log_bounds.FAR_ROUND_TRIP_S], took[math.inf]
    return (
        f"log ends     {len(observed.mirror_partitions)} partitions of a broker "
        f"{1000 * FAR_S:.0f} ms away: {own:.2f} s; asked as if it were near {near:.2f} s, "
        f"ratio {near / own:.1f}"
    )


def _poll(admin: KafkaInspector) -> tuple[LogEndsPoll, list[Batch]]:
    """The daemon's, and what it tells."""
    reports: list[Batch] = []

    def put(batch: Batch) -> bool:
        reports.append(batch)
        return True

    return LogEndsPoll(admin, put, SystemClock()), reports


def measure(rounds: int = 5, bootstrap: str | None = None) -> list[str]:
    """The lines to print. `bootstrap` is of brokers that are up and filled already."""
    if bootstrap is None:
        with (
            tempfile.TemporaryDirectory() as directory,
            wide_cluster(Path(directory), BROKERS) as built,
        ):
            fill(built, TOPICS, PARTITIONS_PER_TOPIC)
            return measure(rounds, built)
    result = results(bootstrap, rounds)
    grows = exponent({item.partitions: item.refresh_s for item in result})
    return [
        *(item.line() for item in result),
        f"             goal {GOAL_S:.0f} s, grows with the power {grows:.2f}",
        far(rounds),
    ]


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bootstrap", help="of brokers that are up and filled already")
    inputs = parser.parse_args()
    for line in measure(inputs.rounds, inputs.bootstrap):
        print(line)


if __name__ == "__main__":
    main()
