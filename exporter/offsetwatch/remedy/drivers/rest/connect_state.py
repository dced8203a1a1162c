"""State of a connector as its Connect cluster returns it over REST. Changes nothing.

Raises ClientError; an answer that differs from Connect's API is a MalformedResponse.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from offsetwatch.clients.connect.reader import ConnectReader, reader_of
from offsetwatch.clients.http.exchange import Transport
from offsetwatch.config import Connect
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
from offsetwatch.errors import ClientError, MalformedResponse, NotFound
from offsetwatch.model.connectors import Connector
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset

OFFSETS_TIMEOUT_S: Final = 100.0  # Connect itself may take 90 s for this answer
READ_TIMEOUT_S: Final = 30.0  # the others come from memory, behind a rebalance at worst

T = TypeVar("T")


class RestConnectorState(NamedTuple):
    """The status of a connector from its worker, and the number of configured tasks."""

    standing: RestConnectorStatus
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
        """Return the offsets that a task would receive now, sorted. Raises NotFound."""
        found = self._decoded(
            f"offsets of {connector}", decode_offsets(self._slow.offsets(connector))
        )
        pairs = (PartitionOffset(partition, offset) for partition, offset in found)
        return tuple(sorted(pairs, key=lambda pair: pair.partition))

    def seen(self, connector: str) -> RestConnectorState | None:
        """Return the connector's state; None if no worker has reported one. Raises NotFound."""
        configured = self._configured(connector)
        try:
            body = self._quick.status(connector)
        except NotFound:
            return None
        found = decode_rest_status(body, configured)
        return RestConnectorState(self._decoded(f"status of {connector}", found), len(configured))

    def traces(self, connector: str) -> dict[int | None, str]:
        """Return the stack traces of failed tasks by number; None is the connector itself.

        Traces quote records: they must not be stored. Raises NotFound.
        """
        configured = self._configured(connector)
        body = self._quick.status(connector)
        return self._decoded(f"status of {connector}", decode_traces(body, configured))

    def _configured(self, connector: str) -> tuple[int | None, ...]:
        """Return the configured task numbers; a status also has tasks of earlier configurations."""
        found = decode_task_numbers(self._quick.tasks(connector))
        return self._decoded(f"tasks of {connector}", found)

    def assigned(self, connector: str) -> frozenset[TopicPartition]:
        """Return the partitions that the tasks of a MirrorSourceConnector copy.

        The result is empty if there are no tasks, or their configurations do not name partitions.
        Raises NotFound.
        """
        found = decode_assignment(self._quick.tasks(connector))
        return frozenset() if isinstance(found, Undecodable) else found

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

    def _decoded(self, what: str, found: T | Undecodable) -> T:
        if isinstance(found, Undecodable):
            raise MalformedResponse(self.name, f"{what}: {found.reason}")
        return found


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
    found = _VERSION.match(text)
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2])
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
