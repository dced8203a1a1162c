"""Queries of the configured Connect and Kafka clusters for remediation. Changes nothing.

A query without an answer raises ClientError; nothing is guessed. An answer that differs from
Connect's API is a MalformedResponse.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from offsetwatch.clients.connect.reader import ConnectReader, reader_of
from offsetwatch.clients.http.exchange import Transport
from offsetwatch.clients.kafka.whole_topic import StorageAdmin
from offsetwatch.clients.records.probe import ProbeReader
from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.config import Connect, Kafka
from offsetwatch.config.schema.sources import Source
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.rest_answers import (
    ConnectRoot,
    Plugins,
    RestConnectorStatus,
    decode_assignment,
    decode_config_texts,
    decode_connectors,
    decode_offsets,
    decode_plugins,
    decode_rest_status,
    decode_root,
    decode_task_numbers,
    decode_traces,
    format_config_texts,
)
from offsetwatch.errors import (
    AmbiguousOutcome,
    ClientError,
    LeaderNotAvailable,
    MalformedResponse,
    NotFound,
    RemoteRefusal,
    TargetUnreachable,
    TooManyRequests,
)
from offsetwatch.model.connectors import Connector
from offsetwatch.model.observations import LogBounds, NoRecordBefore
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.source_logs import SourceLog, SourceLogs
from offsetwatch.remedy.model.plan import PartitionOffset

PROBE_S: Final = 5.0
OFFSETS_TIMEOUT_S: Final = 100.0  # Connect itself may take 90 s for this answer
OFFSETS_SINCE: Final = (3, 5)  # KIP-875: offsets that can be read
ALTER_OFFSETS_SINCE: Final = (3, 6)  # and altered
READ_TIMEOUT_S: Final = 30.0  # the others come from memory, behind a rebalance at worst
IDLE_S: Final = 30.0  # then unused connections are closed


P = ParamSpec("P")
T = TypeVar("T")
# A request took its whole time, or the next one may.
_NO_ANSWER: Final = (TargetUnreachable, AmbiguousOutcome, TooManyRequests)


def call_or_none(query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Return the result of a query, or None where it raises ClientError."""
    try:
        return query(*args, **kwargs)
    except ClientError:
        return None


class QueryRound:
    """Queries of Connect clusters in one round: none after one that its cluster did not answer.

    A Connect cluster that does not answer may take 30 s for each.
    """

    def __init__(self) -> None:
        self._silent: set[str] = set()

    def is_silent(self, connect: str) -> bool:
        """Check whether the cluster left a query of this round without an answer."""
        return connect in self._silent

    def query(
        self, connect: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Return the answer; None where the call raises ClientError, or the cluster is silent."""
        if connect in self._silent:
            return None
        try:
            return call(*args, **kwargs)
        except _NO_ANSWER:
            self._silent.add(connect)
        except ClientError:
            pass
        return None


def find_kafka_cluster(clusters: Mapping[str, Kafka], name: str) -> Kafka:
    """Return the configured cluster. Raises RemoteRefusal if there is none of this name."""
    if name not in clusters:
        raise RemoteRefusal(name, "no Kafka cluster of this name is configured here")
    return clusters[name]


class Brokers:
    """Queries of each Kafka cluster by its configured name. Each may raise ClientError.

    Those of a log know the logs of `sources` as well, by the names of source_logs.py. Its clients
    stay connected between calls, until `close_idle`. For one thread.
    """

    def __init__(
        self,
        clusters: Mapping[str, Kafka],
        steady: UnixClock | None = None,
        sources: Iterable[Source] = (),
    ) -> None:
        self._clusters = clusters
        self._source_logs = SourceLogs(sources)
        self._steady = steady or SteadyClock()
        self._admins: dict[str, StorageAdmin] = {}
        self._used_at = 0.0

    def cluster_id(self, kafka: str) -> str | None:
        """Return the cluster's id, which does not depend on its configured name."""
        return self._admin(kafka).cluster_id()

    def topic_id(self, kafka: str, topic: str) -> str | None:
        """Return the topic's id; None where the broker has no topic ids. Raises NotFound."""
        log = self._find_source_log(kafka)
        return self._admin(kafka).topic_id_now(topic) if log is None else log.topic_id(topic)

    def bounds(self, kafka: str, partition: TopicPartition) -> LogBounds:
        """Return the log start, log end and last stable offset."""
        log = self._find_source_log(kafka)
        if log is not None:
            return log.bounds(partition.topic)
        limits = self._admin(kafka).bounds([partition], stable=True)
        if partition not in limits:
            raise LeaderNotAvailable(
                kafka, f"{partition.topic}-{partition.partition} has no leader, or is not there"
            )
        return limits[partition]

    def ends(self, kafka: str, topic: str) -> Mapping[int, int]:
        """Return the end of the committed records of each partition."""
        admin = self._admin(kafka)
        _, count = admin.shape(topic)
        ends = admin.readable_ends([TopicPartition(topic, number) for number in range(count)])
        return {partition.partition: end.stable for partition, end in ends.items()}

    def first(
        self, kafka: str, partition: TopicPartition, offset: int, *, committed: bool
    ) -> int | None:
        """Return the offset of the first record at or after one; None if there is none yet.

        committed   among committed records only
        """
        log = self._find_source_log(kafka)
        if log is not None:
            return log.first(partition.topic, offset)
        properties = find_kafka_cluster(self._clusters, kafka).client_properties()
        with closing(ProbeReader(kafka, properties, committed=committed)) as reader:
            answer = reader.first({partition: offset}, PROBE_S).get(partition)
        match answer:
            case None:
                raise LeaderNotAvailable(
                    kafka, f"{partition.topic}-{partition.partition}: no answer in {PROBE_S:.0f} s"
                )
            case ClientError():
                raise answer
            case NoRecordBefore():
                return None
            case _:
                return answer.offset

    def committed(self, kafka: str, group: str, partition: TopicPartition) -> int | None:
        """Return the offset that a group has committed, which is that of its NEXT record."""
        return self._admin(kafka).group_offsets(group, [partition]).get(partition)

    def members(self, kafka: str, group: str) -> int:
        """Return the number of members of a group."""
        return len(self._admin(kafka).members(group))

    def message_bytes_max(self, kafka: str, topic: str) -> int | None:
        """Return max.message.bytes of the topic; None where the daemon may not read it."""
        return self._admin(kafka).message_bytes_max(topic)

    def close_idle(self) -> None:
        """Close connections that were not used for IDLE_S.

        Each cluster has three clients here, of several threads and connections each, and incidents
        are rare.
        """
        if self._steady.now() - self._used_at >= IDLE_S:
            self.close()

    def close(self) -> None:
        """Close all connections; the next query opens new ones."""
        while self._admins:
            self._admins.popitem()[1].close()
        self._source_logs.close()

    def _find_source_log(self, name: str) -> SourceLog | None:
        self._used_at = self._steady.now()
        return self._source_logs.find(name)

    def _admin(self, kafka: str) -> StorageAdmin:
        self._used_at = self._steady.now()
        admin = self._admins.get(kafka)
        if admin is None:
            admin = StorageAdmin(
                kafka, find_kafka_cluster(self._clusters, kafka).client_properties()
            )
            self._admins[kafka] = admin
        return admin


class RestConnectorState(NamedTuple):
    """The status of a connector from its worker, and the number of configured tasks."""

    status: RestConnectorStatus
    configured: int


class ConnectClient:
    """Queries of one Connect cluster over REST. Thread-safe.

    `transport` replaces the network in tests.
    """

    def __init__(self, connect: Connect, *, transport: Transport | None = None) -> None:
        self.name = connect.name
        self.operator_managed = connect.strimzi is not None
        self._quick = reader_of(connect, READ_TIMEOUT_S, transport=transport)
        self._slow = reader_of(connect, OFFSETS_TIMEOUT_S, transport=transport)

    def root(self) -> ConnectRoot:
        """Return the worker's version and the id of its Kafka cluster."""
        return self._decoded("GET /", decode_root(self._quick.root()))

    @property
    def server_time(self) -> float | None:
        """The time of a worker at its last response, in whole seconds; None without one."""
        return self._quick.server_time

    def connectors(self) -> tuple[Connector, ...]:
        """Return every connector, sorted by name."""
        return self._decoded("GET /connectors", decode_connectors(self._quick.connectors()))

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """Return the offsets that a task would receive now, sorted.

        Raises NotFound, and RemoteRefusal where the worker is too old to return offsets.
        """
        try:
            body = self._slow.offsets(connector)
        except NotFound:
            self._require_offsets()
            raise
        decoded = self._decoded(f"offsets of {connector}", decode_offsets(body))
        pairs = (PartitionOffset(partition, offset) for partition, offset in decoded)
        return tuple(sorted(pairs, key=lambda pair: pair.partition))

    def _require_offsets(self) -> None:
        """Raise RemoteRefusal if the worker is known to have no offsets over REST."""
        version = self.root().version
        if (parse_kafka_version(version) or OFFSETS_SINCE) < OFFSETS_SINCE:
            raise RemoteRefusal(
                self.name,
                f"its worker has version {version}, and Connect returns offsets since Kafka 3.5",
                "upgrade it, or read them from the worker's storage: --worker-config; the daemon "
                "reads them from the offsets topic",
            )

    def read_state(self, connector: str) -> RestConnectorState | None:
        """Return the connector's state; None if no worker has reported one. Raises NotFound."""
        configured = self._read_task_numbers(connector)
        try:
            body = self._quick.status(connector)
        except NotFound:
            return None
        status = decode_rest_status(body, configured)
        return RestConnectorState(self._decoded(f"status of {connector}", status), len(configured))

    def traces(self, connector: str) -> dict[int | None, str]:
        """Return the stack traces of failed tasks by number; None is the connector itself.

        Traces quote records: they must not be stored. Raises NotFound.
        """
        configured = self._read_task_numbers(connector)
        body = self._quick.status(connector)
        return self._decoded(f"status of {connector}", decode_traces(body, configured))

    def _read_task_numbers(self, connector: str) -> tuple[int | None, ...]:
        """Return the configured task numbers; a status also has tasks of earlier configurations."""
        numbers = decode_task_numbers(self._quick.tasks(connector))
        return self._decoded(f"tasks of {connector}", numbers)

    def assigned(self, connector: str) -> frozenset[TopicPartition]:
        """Return the partitions that the tasks of a MirrorSourceConnector copy.

        The result is empty if there are no tasks, or their configurations do not name partitions.
        Raises NotFound.
        """
        partitions = decode_assignment(self._quick.tasks(connector))
        return frozenset() if isinstance(partitions, Undecodable) else partitions

    def config(self, connector: str) -> dict[str, str | None]:
        """Return the configuration, with its secrets. Raises NotFound."""
        body = self._quick.connector_config(connector)
        return self._decoded(f"configuration of {connector}", decode_config_texts(body))

    def plugins(self) -> Plugins:
        """Return the connector classes that can be created."""
        return self._decoded("GET /connector-plugins", decode_plugins(self._quick.plugins()))

    def close(self) -> None:
        """Close connections."""
        self._quick.close()
        self._slow.close()

    def _decoded(self, what: str, decoded: T | Undecodable) -> T:
        if isinstance(decoded, Undecodable):
            raise MalformedResponse(self.name, f"{what}: {decoded.reason}")
        return decoded


class WorkerVersions(NamedTuple):
    """The version at each configured address, or the reason why it did not answer."""

    versions: tuple[tuple[str, str], ...]
    silent: tuple[tuple[str, str], ...]
    cluster_ids: frozenset[str]


def query_worker_versions(connect: Connect) -> WorkerVersions:
    """Query each address separately: during an upgrade a cluster has workers of two versions."""
    versions, silent, ids = [], [], set()
    for url in connect.worker_urls:
        alone = ConnectReader(
            connect.name, (url,), READ_TIMEOUT_S, auth=connect.auth, tls=connect.tls
        )
        try:
            root = decode_root(alone.root())
        except ClientError as exc:
            silent.append((url, exc.detail))
            continue
        if isinstance(root, Undecodable):
            silent.append((url, "it is no Connect worker"))
            continue
        versions.append((url, root.version))
        if root.kafka_cluster_id is not None:
            ids.add(root.kafka_cluster_id)
    return WorkerVersions(tuple(versions), tuple(silent), frozenset(ids))


_VERSION = re.compile(r"(\d+)\.(\d+)")
_CONFLUENT = re.compile(r"-(ccs|ce)\b")
# Confluent Platform 5 to 7 hold Kafka 2 to 3 with the same or nearly the same minor, 8 holds 4.
_KAFKA_OF_CONFLUENT: Final = {5: 2, 6: 2, 7: 3, 8: 4}


def parse_kafka_version(text: str) -> tuple[int, int] | None:
    """Return the Apache Kafka version of a worker's version; None if that is unknown."""
    match = _VERSION.match(text)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2])
    if _CONFLUENT.search(text):
        kafka = _KAFKA_OF_CONFLUENT.get(major)
        if kafka is None:
            return None
        return kafka, minor + 6 if major == 6 else minor  # 6.0 to 6.2 hold 2.6 to 2.8
    return major, minor


def compute_config_sha256(connector: str, config: Mapping[str, Any]) -> str:
    """Compute the hash of a configuration in Connect's form, which plans have instead of it."""
    texts = format_config_texts({**config, "name": connector})
    return hashlib.sha256(encode_sorted(texts)).hexdigest()
