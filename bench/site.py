"""A site to measure the daemon on: a real broker with offsets topics, a worker that only answers,
and the daemon as a process of its own, as a user starts it.

Nothing in it moves by itself: what the daemon then takes of the processor it takes for nothing.
"""

from __future__ import annotations

import http.client
import json
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench import commits, connect
from bench.connect import Config, Offsets
from bench.wide_cluster import create
from lab import Lab
from lab.check.process_memory import vitals
from lab.cluster import connector_configs
from lab.cluster.kafka_client import settings
from lab.processes.child import Child
from lab.processes.ports import LOOPBACK, PortLease
from lab.product.program import BESIDE, EXPORTER
from lab.waiting import NotYet, until
from offsetwatch.decode.java.hash_map import build_connect_key

PARTITIONS = 25  # of the offsets topic, as Connect makes it
UPSTREAM_PARTITIONS = 25  # of each mirrored topic
SYNCS = "mm2-offset-syncs.east.internal"
RECORDS = 3  # in each of these
READY_S_MAX = 600.0

_SYNC_VALUE = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class Size:
    """`files` source partitions of FileStream connectors, `mirrored` of MirrorSourceConnectors."""

    files: int = 0
    file_connectors: int = 1
    mirrored: int = 0
    mirrors: int = 1

    @property
    def source_partitions(self) -> int:
        """Of both."""
        return self.files + self.mirrored

    @property
    def topic(self) -> str:
        """Its offsets topic: one for each size."""
        return f"offsets-{self.files}-{self.file_connectors}-{self.mirrored}"


def made(size: Size, *, west: str, east: str) -> dict[str, tuple[Config, Offsets]]:
    """The connectors of a site, their settings and where they are."""
    results: dict[str, tuple[Config, Offsets]] = {}
    if size.files:
        for n in range(size.file_connectors):
            config = connector_configs.file_source(
                Path(f"/var/log/shop/app-{n}.log"), topic=f"lines-{n}"
            )
            locations: Offsets = [
                ({"filename": f"/var/log/shop/app-{number}.log"}, {"position": 80 * number})
                for number in range(n, size.files, size.file_connectors)
            ]
            results[f"files-{n}"] = ({"name": f"files-{n}", **config}, locations)
    if size.mirrored:
        topics = topics_of(size)
        for n in range(size.mirrors):
            config = connector_configs.mm2_source(
                upstream=west, downstream=east, topics="|".join(topics[n :: size.mirrors])
            )
            locations = [
                ({"cluster": "west", "partition": number, "topic": topic}, {"offset": RECORDS - 1})
                for topic in topics[n :: size.mirrors]
                for number in range(UPSTREAM_PARTITIONS)
            ]
            results[f"mirror-{n}"] = ({"name": f"mirror-{n}", **config}, locations)
    return results


def topics_of(size: Size) -> list[str]:
    """The upstream topics that are mirrored."""
    return [f"shop.orders.{n}" for n in range(size.mirrored // UPSTREAM_PARTITIONS)]


def fill_upstream(bootstrap: str, size: Size) -> None:
    """The upstream topics of the largest site, with records, and MirrorMaker's syncs of them."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    expected = [
        NewTopic(topic, num_partitions=UPSTREAM_PARTITIONS, replication_factor=1)
        for topic in topics_of(size)
    ]
    compacted = {"cleanup.policy": "compact"}
    expected.append(NewTopic(SYNCS, num_partitions=1, replication_factor=1, config=compacted))
    create(client, expected)
    # Not as fast as it goes: a broker has to open a file for each of so many partitions.
    producer = Producer(settings(bootstrap, **{"linger.ms": 50}))
    for topic in topics_of(size):
        for number in range(UPSTREAM_PARTITIONS * RECORDS):
            producer.produce(topic, value=b"x", partition=number % UPSTREAM_PARTITIONS)
        for number in range(UPSTREAM_PARTITIONS):
            name = topic.encode()
            producer.produce(
                SYNCS,
                key=struct.pack(">h", len(name)) + name + struct.pack(">i", number),
                value=_SYNC_VALUE.pack(RECORDS - 1, RECORDS - 1),
            )
        assert producer.flush(120) == 0


def fill(lab: Lab, size: Size, *, west: str) -> dict[str, bytes]:
    """The commits of a site; what its worker answers comes back."""
    lab.create_topic("east", size.topic, PARTITIONS, {"cleanup.policy": "compact"})
    result = made(size, west=west, east=lab.east)
    producer = commits.producer(lab.east)
    for name, (_, locations) in result.items():
        for location, offset in locations:
            value = json.dumps(offset, separators=(",", ":")).encode()
            producer.produce(size.topic, key=build_connect_key(name, location), value=value)
        producer.poll(0)
    assert producer.flush(60) == 0
    cluster = AdminClient({"bootstrap.servers": lab.east}).list_topics(timeout=30).cluster_id
    return connect.answers(str(cluster), result)


class Watcher:
    """The daemon's process."""

    def __init__(self, child: Child, port: int) -> None:
        self._child = child
        self.port = port

    @property
    def pid(self) -> int:
        """Of the daemon itself."""
        assert self._child.pid is not None, self._child.tail()
        return self._child.pid

    def start(self) -> None:
        """Say nothing of whether it is ready."""
        self._child.start()

    def answers(self, path: str, *, zipped: bool = False) -> tuple[int, bytes]:
        """One request over a connection of its own."""
        request = http.client.HTTPConnection(LOOPBACK, self.port, timeout=60)
        try:
            request.request("GET", path, headers={"Accept-Encoding": "gzip"} if zipped else {})
            answer = request.getresponse()
            return answer.status, answer.read()
        finally:
            request.close()

    def wait(self, source_partitions: int) -> None:
        """Until it is ready and shows that many source partitions."""

        def there() -> None:
            try:
                status, answer = self.answers("/-/ready")
                if status != 200:
                    raise NotYet(answer.decode())
                _, body = self.answers("/metrics?name[]=offsetwatch_source_offset_commits_total")
            except OSError as exc:
                raise NotYet(str(exc)) from exc
            count = body.count(b"\noffsetwatch_source_offset_commits_total{")
            if count != source_partitions:
                raise NotYet(f"{count} of {source_partitions} source partitions")

        until("the daemon", there, timeout_s=READY_S_MAX, evidence=self._child.tail)

    def resident(self) -> int:
        """Bytes of memory, the libraries' own among them."""
        result = vitals(self.pid, time.time())
        assert result is not None, self._child.tail()
        return result.rss_bytes


@contextmanager
def watched(*, kafkas: dict[str, str], answers: dict[str, bytes], topic: str) -> Iterator[Watcher]:
    """A daemon for these clusters, not started, and a worker that answers so; ended and forgotten
    afterwards.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        locks = Path(tempfile.gettempdir()) / "offsetwatch-bench-ports"
        lease = PortLease("free", locks=locks)
        stack.callback(lease.release)
        port, connect_port = lease.ports.east, lease.ports.connect_1
        url = f"http://{LOOPBACK}:{connect_port}"
        config = {
            "listen": f"{LOOPBACK}:{port}",
            "kafka": {name: {"bootstrap": value} for name, value in kafkas.items()},
            "connect": [{"name": "bench", "kafka": "east", "url": url, "offsets_topic": topic}],
            "state_dir": str(directory / "state"),
        }
        report, path = directory / "answers.json", directory / "offsetwatch.yaml"
        report.write_text(json.dumps({name: body.decode() for name, body in answers.items()}))
        path.write_text(json.dumps(config))  # which is YAML, too
        serve = ("-m", "bench.connect", "--port", str(connect_port), "--file", str(report))
        worker = Child("worker", (*BESIDE, sys.executable, *serve), directory=directory)
        stack.callback(worker.terminate)
        worker.start()
        run = (*EXPORTER, "run", "--config", str(path))
        daemon = Child("daemon", run, directory=directory)
        stack.callback(daemon.terminate)
        yield Watcher(daemon, port)
