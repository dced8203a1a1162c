"""Queries of the configured Kafka clusters for remediation. Changes nothing.

A query without an answer raises ClientError; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final, ParamSpec, TypeVar

from offsetwatch.clients.kafka.whole_topic import StorageAdmin
from offsetwatch.clients.records.probe import ProbeReader
from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.config import Kafka
from offsetwatch.errors import ClientError, LeaderNotAvailable, RemoteRefusal
from offsetwatch.model.observations import LogBounds, NoRecordBefore
from offsetwatch.model.topology import TopicPartition

PROBE_S: Final = 5.0
IDLE_S: Final = 30.0  # then connections that nobody needed are given back


P = ParamSpec("P")
T = TypeVar("T")


def call_or_none(ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Return the result of a query, or None where it raises ClientError."""
    try:
        return ask(*args, **kwargs)
    except ClientError:
        return None


def find_kafka_cluster(clusters: Mapping[str, Kafka], name: str) -> Kafka:
    """Return the configured cluster. Raises RemoteRefusal if there is none of this name."""
    if name not in clusters:
        raise RemoteRefusal(name, "no Kafka cluster of this name is configured here")
    return clusters[name]


class Brokers:
    """Queries of each Kafka cluster by its configured name. Each may raise ClientError.

    Its clients stay connected between calls, until `rest`. For one thread.
    """

    def __init__(self, clusters: Mapping[str, Kafka], steady: UnixClock | None = None) -> None:
        self._clusters = clusters
        self._steady = steady or SteadyClock()
        self._admins: dict[str, StorageAdmin] = {}
        self._asked_at = 0.0

    def cluster_id(self, kafka: str) -> str | None:
        """Return the cluster's id, which does not depend on its configured name."""
        return self._admin(kafka).cluster_id()

    def topic_id(self, kafka: str, topic: str) -> str | None:
        """Return the topic's id; None where the broker has no topic ids. Raises NotFound."""
        return self._admin(kafka).topic_id_now(topic)

    def bounds(self, kafka: str, partition: TopicPartition) -> LogBounds:
        """Return the log start, log end and last stable offset."""
        found = self._admin(kafka).bounds([partition], stable=True)
        if partition not in found:
            raise LeaderNotAvailable(
                kafka, f"{partition.topic}-{partition.partition} has no leader, or is not there"
            )
        return found[partition]

    def ends(self, kafka: str, topic: str) -> Mapping[int, int]:
        """Return the end of the committed records of each partition."""
        admin = self._admin(kafka)
        _, count = admin.shape(topic)
        found = admin.readable_ends([TopicPartition(topic, number) for number in range(count)])
        return {partition.partition: end.stable for partition, end in found.items()}

    def first(
        self, kafka: str, partition: TopicPartition, offset: int, *, committed: bool
    ) -> int | None:
        """Return the offset of the first record at or after one; None if there is none yet.

        committed   among committed records only
        """
        properties = find_kafka_cluster(self._clusters, kafka).client_properties()
        with closing(ProbeReader(kafka, properties, committed=committed)) as reader:
            found = reader.first({partition: offset}, PROBE_S).get(partition)
        match found:
            case None:
                raise LeaderNotAvailable(
                    kafka, f"{partition.topic}-{partition.partition}: no answer in {PROBE_S:.0f} s"
                )
            case ClientError():
                raise found
            case NoRecordBefore():
                return None
            case _:
                return found.offset

    def committed(self, kafka: str, group: str, partition: TopicPartition) -> int | None:
        """Return the offset that a group has committed, which is that of its NEXT record."""
        return self._admin(kafka).group_offsets(group, [partition]).get(partition)

    def members(self, kafka: str, group: str) -> int:
        """Return the number of members of a group."""
        return len(self._admin(kafka).members(group))

    def message_bytes_max(self, kafka: str, topic: str) -> int | None:
        """Return max.message.bytes of the topic; None where the daemon may not read it."""
        return self._admin(kafka).message_bytes_max(topic)

    def rest(self) -> None:
        """Close connections that were not used for IDLE_S.

        Each cluster has three clients here, of several threads and connections each, and incidents
        are rare.
        """
        if self._admins and self._steady.now() - self._asked_at >= IDLE_S:
            self.close()

    def close(self) -> None:
        """Close all connections; the next query opens new ones."""
        while self._admins:
            self._admins.popitem()[1].close()

    def _admin(self, kafka: str) -> StorageAdmin:
        self._asked_at = self._steady.now()
        found = self._admins.get(kafka)
        if found is None:
            found = StorageAdmin(
                kafka, find_kafka_cluster(self._clusters, kafka).client_properties()
            )
            self._admins[kafka] = found
        return found
