"""Inspector of a Kafka cluster: its release, topic settings and our permissions; rare requests.

Nothing here writes, joins a group or creates a topic: topics are described by name, which makes no
broker create them.
"""

from __future__ import annotations

import math
import socket
import ssl
import struct
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka import admin as ck_admin

from offsetwatch.addresses import parse_address
from offsetwatch.clients.kafka.clients import (
    REQUEST_TIMEOUT_S,
    RESULT_S_MAX,
    KafkaAdmin,
    create_client,
    extract_topic_id,
    list_broker_addresses,
    read_cleanup_policy,
)
from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.clients.kafka.groups import find_group_id_error
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    IncompleteResponse,
    MalformedResponse,
    NotFound,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.formatting import format_count
from offsetwatch.model.topology import TopicPartition

NO_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes: the broker knows no topic ids
ANSWER_BYTES_MAX: Final = 64 * 1024  # ApiVersions takes six bytes for each of some hundred requests
API_VERSIONS_KEY, FETCH_KEY = 18, 1
COORDINATOR_TIMEOUT_S: Final = 3600.0  # the most that librdkafka takes

# The newest version of Fetch that each Kafka release understands: it moves with nearly every other
# release, and brokers tell it before authentication (KIP-35).
_RELEASE_BY_FETCH: Final = (
    (18, "4.1 or newer"),
    (17, "3.9 or 4.0"),
    (16, "3.7 or 3.8"),
    (14, "3.5 or 3.6"),
    (13, "3.1 to 3.4"),
    (12, "2.7 to 3.0"),
    (11, "2.3 to 2.6"),
)
_TLS_FILES: Final = {"ssl.ca.location", "ssl.certificate.location", "ssl.key.location"}


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts about one Kafka cluster.

    topics      name -> number of partitions
    addresses   `host:port` of the brokers, as they advertise themselves
    """

    cluster_id: str | None
    brokers: int
    topics: dict[str, int]
    addresses: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TopicShape:
    """Id, partitions and replication of one topic.

    `operations` are those that the broker permits us, None if it does not say.
    """

    topic_id: str | None
    partitions: int
    replication: int
    operations: frozenset[str] | None

    def may(self, operation: str) -> bool:
        """Check whether the operation is permitted, or the broker does not say."""
        return self.operations is None or bool({operation, "ALL"} & self.operations)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Settings of one topic. Times are in milliseconds, -1 for unlimited.

    topic_id                "" if the broker knows no ids (before Kafka 2.8)
    replication             the minimum of all its partitions
    appended                timestamps are the broker's (LogAppendTime)
    """

    topic_id: str
    partitions: int
    replication: int
    compacted: bool
    retention_ms: int
    retention_bytes: int
    message_bytes_max: int
    in_sync_min: int
    appended: bool


_TOPIC_SETTING_NAMES: Final = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "max.message.bytes",
    "min.insync.replicas",
    "message.timestamp.type",
)


class KafkaInspector(KafkaAdmin):
    """Admin client of one Kafka cluster with further requests; thread-safe like its parent."""

    def cluster(self) -> ClusterFacts:
        """Return the cluster's id, its brokers and the topics that are visible to us."""
        metadata = self._list_topics()
        return ClusterFacts(
            cluster_id=metadata.cluster_id,
            brokers=len(metadata.brokers),
            topics={name: len(topic.partitions) for name, topic in metadata.topics.items()},
            addresses=list_broker_addresses(metadata),
        )

    def shapes(self, topics: Collection[str]) -> dict[str, TopicShape | ClientError]:
        """Return each topic, or the error why it cannot be described.

        NotFound may also mean that an ACL hides the topic.
        """
        futures = self._describe_topics(topics, include_authorized_operations=True)
        return {
            name: description
            if isinstance(description, ClientError)
            else _build_topic_shape(description)
            for name, description in self._answers(futures).items()
        }

    def identities_now(self, topics: Collection[str]) -> dict[str, tuple[str | None, int]]:
        """Return topic -> topic id and number of partitions of the existing topics, if available.

        The id is None if the broker knows no ids (before Kafka 2.8).
        """
        return {
            name: (_read_topic_id(description), len(description.partitions))
            for name, description in self._answers(self._describe_topics(topics)).items()
            if not isinstance(description, ClientError)
        }

    def topic_id_now(self, topic: str) -> str | None:
        """Return the id of a topic; None if the broker knows no ids (before Kafka 2.8).

        Raises NotFound if the topic does not exist, and another ClientError if that is not known.
        """
        return _read_topic_id(self._result(self._describe_topics([topic])[topic]))

    def offsets_at(
        self, moments: Mapping[TopicPartition, float]
    ) -> dict[TopicPartition, int | None]:
        """Return the offset of each partition's first record at or after a moment (Unix seconds).

        Record timestamps decide; None if all are earlier. Raises if one offset is not available.
        """
        if not moments:
            return {}
        requested = {}
        for partition, moment in moments.items():
            spec = ck_admin.OffsetSpec.for_timestamp(max(0, math.ceil(moment * 1000)))
            requested[ck.TopicPartition(partition.topic, partition.partition)] = spec
        with self._translated():
            futures = self._client.list_offsets(
                requested,
                isolation_level=ck.IsolationLevel.READ_UNCOMMITTED,
                request_timeout=REQUEST_TIMEOUT_S,
            )
        offsets = {
            TopicPartition(partition.topic, partition.partition): int(self._result(future).offset)
            for partition, future in futures.items()
        }
        return {where: offset if offset >= 0 else None for where, offset in offsets.items()}

    def policies(self, topics: Collection[str]) -> dict[str, str | None]:
        """Return the cleanup.policy of each topic.

        None without the permission DescribeConfigs, or while its broker fails. Raises the broker's
        error if all requests fail so.
        """
        answers = self._answers(self._describe_configs(topics))
        errors = [answer for answer in answers.values() if isinstance(answer, ClientError)]
        if len(errors) == len(answers):
            for error in errors:
                if not isinstance(error, AccessDenied):
                    raise error
        return {
            name: None if isinstance(item, ClientError) else read_cleanup_policy(item)
            for name, item in answers.items()
        }

    def message_bytes_max(self, topic: str) -> int | None:
        """Return max.message.bytes of a topic; None without the permission DescribeConfigs."""
        try:
            config = self._result(self._describe_configs([topic])[topic])
        except AccessDenied:
            return None
        return int(_read_setting(self.name, config, "max.message.bytes"))

    def settings(self, topic: str) -> TopicSettings | None:
        """Return the settings of a topic; None if no topic of this name is visible.

        Raises ClientError.
        """
        shape = self.shapes([topic])[topic]
        if isinstance(shape, NotFound):
            return None
        if isinstance(shape, ClientError):
            raise shape
        entries = self._result(self._describe_configs([topic])[topic])
        topic_settings = {
            name: _read_setting(self.name, entries, name) for name in _TOPIC_SETTING_NAMES
        }
        return TopicSettings(
            topic_id=shape.topic_id or "",
            partitions=shape.partitions,
            replication=shape.replication,
            compacted="compact" in topic_settings["cleanup.policy"].split(","),
            retention_ms=int(topic_settings["retention.ms"]),
            retention_bytes=int(topic_settings["retention.bytes"]),
            message_bytes_max=int(topic_settings["max.message.bytes"]),
            in_sync_min=int(topic_settings["min.insync.replicas"]),
            appended=topic_settings["message.timestamp.type"] == "LogAppendTime",
        )

    def group_operations(
        self, groups: Collection[str]
    ) -> dict[str, frozenset[str] | ClientError | None]:
        """Return the operations permitted on each group; None if the broker does not say."""
        if not groups:
            return {}
        return {
            name: operations
            if isinstance(operations, ClientError)
            else _list_operation_names(operations.authorized_operations)
            for name, operations in self._described(
                groups, include_authorized_operations=True
            ).items()
        }

    def _described(self, groups: Collection[str], **options: bool) -> dict[str, Any]:
        """Return the description of each group by its coordinator, or the error.

        Each request uses a client of its own. A long-lived client may wait forever for a
        coordinator that librdkafka dropped when no broker was left (confluentinc/librdkafka issue
        5511). The timeout is ours and not librdkafka's, which is set to its maximum of an hour:
        librdkafka aborts the process if an answer comes after its own timeout (3663, 4605).
        """
        errors = {group: find_group_id_error(group) for group in sorted(groups)}
        refused: dict[str, Any] = {
            group: client_error_from(self.name, error)
            for group, error in errors.items()
            if error is not None
        }
        valid = [group for group, error in errors.items() if error is None]
        if not valid:
            return refused
        client = create_client(self.name, ck_admin.AdminClient, self._settings)
        with self._translated():
            futures = client.describe_consumer_groups(
                valid, request_timeout=COORDINATOR_TIMEOUT_S, **options
            )
        return refused | self._answers(futures, client)

    def _answers(
        self, futures: Mapping[str, Future[Any]], client: ck_admin.AdminClient | None = None
    ) -> dict[str, Any]:
        """Return the result of each request, or its error."""
        wait(futures.values(), timeout=RESULT_S_MAX)
        if client is not None:
            client.poll(0)  # why there is no connection, for `_reason`
        answers: dict[str, Any] = {}
        for name, future in futures.items():
            try:
                answers[name] = self._result(future, limit_s=0)
            except ClientError as exc:
                answers[name] = exc
        return answers


def _read_setting(name: str, config: Mapping[str, Any], setting: str) -> str:
    """Return one value of a topic's configuration. Raises MalformedResponse if it is missing."""
    entry = config.get(setting)
    if entry is None or entry.value is None:
        raise MalformedResponse(name, f"the broker's answer has no {setting}")
    return str(entry.value)


def _read_topic_id(description: ck_admin.TopicDescription) -> str | None:
    topic_id = extract_topic_id(description)
    return None if topic_id == NO_TOPIC_ID else topic_id


def _build_topic_shape(description: ck_admin.TopicDescription) -> TopicShape:
    return TopicShape(
        topic_id=_read_topic_id(description),
        partitions=len(description.partitions),
        replication=min(
            (len(partition.replicas) for partition in description.partitions), default=0
        ),
        operations=_list_operation_names(description.authorized_operations),
    )


def _list_operation_names(operations: Iterable[Any] | None) -> frozenset[str] | None:
    return None if operations is None else frozenset(operation.name for operation in operations)


# --- the release, by ApiVersions -----------------------------------------------------------------


def detect_release(name: str, properties: Mapping[str, str]) -> str | None:
    """Return the Kafka release of the first broker that answers, as far as its protocol tells.

    librdkafka does not expose this, so it is requested over a socket of our own. None if the
    cluster needs TLS settings that only librdkafka understands.
    """
    context = _build_tls_context(properties)
    if context is None and _read_security_protocol(properties).endswith("ssl"):
        return None
    error: ClientError = TargetUnreachable(name, "no bootstrap server")
    for address in map(parse_address, properties["bootstrap.servers"].split(",")):
        if address is None:
            continue
        try:
            fetch = _request_api_versions(name, address, context)[FETCH_KEY]
        except (ClientError, KeyError) as exc:
            error = exc if isinstance(exc, ClientError) else MalformedResponse(name, "no Fetch")
        else:
            return release_of_fetch_version(fetch)
    raise error


def release_of_fetch_version(fetch_version: int) -> str:
    """Return the releases whose newest Fetch version is this one."""
    for version, text in _RELEASE_BY_FETCH:
        if fetch_version >= version:
            return text
    return "older than 2.3"


def _read_security_protocol(properties: Mapping[str, str]) -> str:
    return properties.get("security.protocol", "plaintext").lower()


def _build_tls_context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    if not _read_security_protocol(properties).endswith("ssl"):
        return None
    if any(key.startswith("ssl.") and key not in _TLS_FILES for key in properties):
        return None
    try:
        context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
        if "ssl.certificate.location" in properties:
            context.load_cert_chain(
                properties["ssl.certificate.location"],
                properties.get("ssl.key.location"),
                # Always given, as OpenSSL would ask for a missing one on the terminal.
                password=lambda: "",
            )
    except OSError:
        return None  # librdkafka will say what is wrong with the files
    return context


def _request_api_versions(
    name: str, address: tuple[str, int], context: ssl.SSLContext | None
) -> dict[int, int]:
    """Return request key -> newest version that the broker understands."""
    header = struct.pack(">hhih", API_VERSIONS_KEY, 0, 1, -1)  # version 0, correlation 1, no client
    try:
        with (
            socket.create_connection(address, timeout=REQUEST_TIMEOUT_S) as plain,
            plain
            if context is None
            else context.wrap_socket(plain, server_hostname=address[0]) as connection,
        ):
            connection.sendall(struct.pack(">i", len(header)) + header)
            (size,) = struct.unpack(">i", _receive(name, connection, 4))
            if not 10 <= size <= ANSWER_BYTES_MAX:
                raise MalformedResponse(
                    name, f"an answer of {format_count(size, 'byte')} to ApiVersions"
                )
            return parse_api_versions(name, _receive(name, connection, size))
    except TimeoutError as exc:
        raise ResponseTimeout(name, "ApiVersions: no answer in time") from exc
    except OSError as exc:
        raise TargetUnreachable(name, f"ApiVersions: {exc}") from exc
    except UnicodeError as exc:  # of a label that is empty or too long, as in a..b
        raise TargetUnreachable(name, f"ApiVersions: no host name: {address[0]}") from exc


def _receive(name: str, connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise IncompleteResponse(name, "ApiVersions: the broker closed the connection")
        received += part
    return received


def parse_api_versions(name: str, body: bytes) -> dict[int, int]:
    """Parse an ApiVersionsResponse of version 0 into request key -> newest version.

    It consists of correlation id, error code, (key, oldest, newest)...
    """
    try:
        correlation, error, count = struct.unpack_from(">ihi", body)
        entries = [struct.unpack_from(">hhh", body, 10 + 6 * number) for number in range(count)]
    except struct.error as exc:
        raise MalformedResponse(name, "an answer to ApiVersions that is none") from exc
    if correlation != 1 or error != 0:
        raise MalformedResponse(name, f"ApiVersions: error code {error}")
    return {key: newest for key, _, newest in entries}
