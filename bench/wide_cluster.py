"""One real Kafka cluster of several brokers, for topics of more partitions than one may hold here.

Each partition is an open file and two memory maps of its leader, of which a machine gives a process
20,000 and 65,530 unless told otherwise. The first node is the controller too.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import confluent_kafka as ck
from confluent_kafka import admin as ck_admin

from lab.cluster import properties_files
from lab.cluster.build import FORMAT_S_MAX
from lab.cluster.kafka_client import Cluster
from lab.cluster.options import KAFKA_VERSION
from lab.errors import LabError
from lab.processes.child import Child
from lab.processes.jars import jars
from lab.processes.java import java
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import NotYet, until

HEAP_MB: Final = 900
READY_S_MAX: Final = 300.0
TOPICS_S_MAX: Final = 900.0
PARTITIONS_PER_CALL: Final = 5000  # the controller takes 10,000 records in one go


@contextmanager
def wide_cluster(directory: Path, brokers: int) -> Iterator[str]:
    """Its bootstrap servers, once all brokers serve; ended afterwards."""
    ports = [free_port() for _ in range(brokers)]
    bootstrap = ",".join(f"{LOOPBACK}:{port}" for port in ports)
    with ExitStack() as stack:
        nodes = _nodes(directory, ports)
        for node in nodes:
            node.start()
            stack.callback(node.terminate)

        def serve() -> None:
            for node in nodes:
                if not node.running:
                    raise LabError(f"a broker ended while starting\n{node.tail()}")
            for port in ports:
                Cluster("wide", f"{LOOPBACK}:{port}").check_ready()
            metadata = ck_admin.AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=5)
            if len(metadata.brokers) < brokers:
                raise NotYet(f"{len(metadata.brokers)} of {brokers} brokers")

        until("the brokers serving", serve, timeout_s=READY_S_MAX, evidence=nodes[0].tail)
        yield bootstrap


def fill(bootstrap: str, topics: int, partitions: int) -> None:
    """Topics `wide-0`, `wide-1`, ..., their partitions over all brokers, each telling its end."""
    client = ck_admin.AdminClient({"bootstrap.servers": bootstrap})
    create(
        client,
        [
            ck_admin.NewTopic(f"wide-{number}", num_partitions=partitions, replication_factor=1)
            for number in range(topics)
        ],
    )
    _serve_offsets(client, topics, partitions)


def create(client: ck_admin.AdminClient, expected: Sequence[ck_admin.NewTopic]) -> None:
    """Topics, so many at a time as a controller takes; each partition has a leader afterwards."""
    at_once = max(1, PARTITIONS_PER_CALL // max(topic.num_partitions for topic in expected))
    for first in range(0, len(expected), at_once):
        futures = client.create_topics(
            list(expected[first : first + at_once]), operation_timeout=120, request_timeout=130
        )
        for future in futures.values():
            future.result()
    partitions = sum(topic.num_partitions for topic in expected)
    names = {topic.topic for topic in expected}

    def led() -> None:
        topics = client.list_topics(timeout=60).topics
        count = sum(
            partition.leader >= 0
            for name, topic in topics.items()
            if name in names
            for partition in topic.partitions.values()
        )
        if count < partitions:
            raise NotYet(f"{count} of {partitions} partitions have a leader")

    until("all partitions having a leader", led, timeout_s=TOPICS_S_MAX)


def _serve_offsets(client: ck_admin.AdminClient, topics: int, partitions: int) -> None:
    """A leader is named before it has its log."""
    for topic in range(topics):
        expected = {
            ck.TopicPartition(f"wide-{topic}", number): ck_admin.OffsetSpec.latest()
            for number in range(partitions)
        }
        until(
            f"every partition of wide-{topic} telling its end",
            partial(_served, client, expected),
            timeout_s=TOPICS_S_MAX,
        )


def _served(
    client: ck_admin.AdminClient, expected: dict[ck.TopicPartition, ck_admin.OffsetSpec]
) -> None:
    try:
        for offset in client.list_offsets(expected, request_timeout=60).values():
            offset.result()
    except ck.KafkaException as exc:
        raise NotYet(str(exc)) from exc


def _nodes(directory: Path, ports: list[int]) -> list[Child]:
    number = uuid.uuid4().int >> 1  # then it begins with a letter
    cluster_id = base64.urlsafe_b64encode(number.to_bytes(16)).decode().rstrip("=")
    controller = free_port()
    classpath = jars(KAFKA_VERSION)
    children = []
    for node, port in enumerate(ports, start=1):
        data = directory / f"broker-{node}"
        properties = {
            **properties_files.broker(port=port, controller_port=controller, data=data),
            "node.id": node,
            "log.index.size.max.bytes": 4096,
            "log.cleaner.enable": "false",
            # What a crowded machine delays is no broker that is gone.
            "broker.session.timeout.ms": 60_000,
            "broker.heartbeat.interval.ms": 2000,
        }
        if node > 1:
            properties["process.roles"] = "broker"
            properties["listeners"] = f"PLAINTEXT://{LOOPBACK}:{port}"
        file = directory / f"broker-{node}.properties"
        file.write_text(properties_files.render(properties))
        arguments = ["format", "--cluster-id", cluster_id, "--config", str(file)]
        command = java(classpath, "kafka.tools.StorageTool", *arguments, heap_mb=256)
        formatting = Child(f"format-{node}", command, directory=directory)
        formatting.start()
        formatting.expect_success(timeout_s=FORMAT_S_MAX)
        command = java(classpath, "kafka.Kafka", str(file), heap_mb=HEAP_MB)
        children.append(Child(f"broker-{node}", command, directory=directory))
    return children
