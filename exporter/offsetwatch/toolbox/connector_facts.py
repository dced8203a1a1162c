"""Facts about a connector for checks of a change to its offsets. Read-only.

The cluster that it reads from is found by the addresses in its configuration, unless the
configuration file names the flow. An unknown fact is reported with what to configure: without it,
no offset is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, Final

from offsetwatch.clients.connect.reader import reader_of
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.records.probe import ProbeReader
from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.decode.rest_answers import decode_connectors
from offsetwatch.errors import ClientError, MalformedResponse, NotFound, ResponseTimeout
from offsetwatch.model.connectors import Connector, ConnectorKind, ConnectorSettings
from offsetwatch.model.observations import FirstRecord
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.state.mirror.flows import find_cluster_at
from offsetwatch.toolbox.offset_shapes import ReadableRange
from offsetwatch.toolbox.suggestions import suggest_name
from offsetwatch.toolbox.validation import ValidationFacts

LISTING_TIMEOUT_S: Final = 30.0  # from a worker's memory; generous, as the operator waits for it
READS_S_MAX: Final = 30.0  # of single records, one for each partition


class KafkaClusterPool:
    """The configured Kafka clusters by name, each connected at its first query."""

    def __init__(self, clusters: Mapping[str, Kafka]) -> None:
        self.clusters = clusters
        self._open: dict[str, KafkaInspector] = {}

    def at(self, name: str) -> KafkaInspector:
        """Return the inspector of this cluster, which must be configured."""
        if name not in self._open:
            self._open[name] = KafkaInspector(name, self.clusters[name].client_properties())
        return self._open[name]

    def found(self, addresses: frozenset[str]) -> str | None:
        """Return the name of the cluster that has one of these addresses, or None.

        Its brokers' own addresses count as well as those in the configuration. They are queried
        only where those do not match, so that an unreachable cluster does not block the others.
        """
        known = {name: kafka.addresses for name, kafka in self.clusters.items()}
        return find_cluster_at(addresses, known) or find_cluster_at(addresses, self.addresses())

    def upstream(self, settings: ConnectorSettings | None) -> str | None:
        """Return the cluster that a MirrorSourceConnector copies from; None if unknown."""
        if settings is None or settings.mirror is None:
            return None
        return self.found(settings.mirror.source_addresses)

    def addresses(self) -> dict[str, frozenset[str]]:
        """Return the addresses of each cluster, from the configuration and from its brokers."""
        by_name = {}
        for name, kafka in self.clusters.items():
            by_name[name] = kafka.addresses
            with suppress(ClientError):
                by_name[name] |= self.at(name).topics()[1]
        return by_name

    def properties(self, name: str) -> dict[str, Any]:
        """Return the properties for another client of this cluster."""
        return self.clusters[name].client_properties()

    def close(self) -> None:
        """Close connections."""
        while self._open:
            self._open.popitem()[1].close()


# --- connectors ----------------------------------------------------------------------------------


def list_connectors(connect: Connect) -> tuple[Connector, ...]:
    """Return every connector of a Connect cluster, from its REST API."""
    with closing(reader_of(connect, LISTING_TIMEOUT_S)) as reader:
        connectors = decode_connectors(reader.connectors())
    if isinstance(connectors, Undecodable):
        raise MalformedResponse(connect.name, f"GET /connectors: {connectors.reason}")
    return connectors


def find_connector(connect: Connect, name: str) -> Connector:
    """Return the connector of this name. Raises NotFound."""
    by_name = {connector.name: connector for connector in list_connectors(connect)}
    if name not in by_name:
        raise NotFound(connect.name, f"no connector {name} ({suggest_name(name, by_name)})")
    return by_name[name]


def extract_settings(connector: Connector) -> ConnectorSettings:
    """Return the settings of a connector, without its state."""
    return ConnectorSettings(
        kind=connector.kind,
        class_name=connector.class_name,
        mirror=connector.mirror,
        sink=connector.sink,
        dedicated_offsets_topic=connector.dedicated_offsets_topic,
        offsets_addresses=connector.offsets_addresses,
        translates=connector.translates,
        filename=connector.filename,
        database=connector.database,
    )


def find_configured_upstream(config: Config, connect: str, connector: str) -> str | None:
    """Return the upstream cluster of this connector's configured flow; None if it has no flow."""
    for flow in config.flows:
        if flow.connector == connector and config.connect_of(flow) == connect:
            return flow.upstream
    return None


# --- facts ---------------------------------------------------------------------------------------


def gather_facts(
    connector: str,
    settings: ConnectorSettings | None,
    present: tuple[PartitionOffset, ...],
    partitions: Collection[TopicPartition],
    *,
    kafkas: KafkaClusterPool,
    home: str | None,
    upstream: str | None = None,
    assigned: frozenset[TopicPartition] | None = None,
) -> ValidationFacts:
    """Gather the facts about one connector, with log bounds of the existing `partitions`.

    settings    None where its configuration cannot be read
    home        the configured name of the cluster that its workers use; None if it has none
    upstream    where the configuration itself names the cluster that it copies from
    """
    if settings is None:
        return ValidationFacts(
            connector=connector,
            kind=ConnectorKind.UNKNOWN,
            class_name="",
            present=present,
            unknown=("its configuration cannot be read here: go through its REST API (--connect)",),
        )
    facts = ValidationFacts(
        connector=connector,
        kind=settings.kind,
        class_name=settings.class_name,
        present=present,
        mirror=settings.mirror,
        sink=settings.sink,
        assigned=assigned,
        filename=settings.filename,
        database=settings.database,
    )
    name, why = _find_source_cluster(settings, kafkas, home, upstream)
    if name is None:
        return replace(facts, unknown=() if why is None else (why,))
    kafka = kafkas.at(name)
    topics, _ = kafka.topics()
    stable = (
        settings.mirror.read_committed is not False
        if settings.mirror is not None
        else settings.sink is not None and settings.sink.read_committed is True
    )
    there = [
        partition
        for partition in partitions
        if 0 <= partition.partition < topics.get(partition.topic, 0)
    ]
    logs = {
        partition: ReadableRange(start=log.start, end=log.stable_end if stable else log.end)
        for partition, log in kafka.bounds(there, stable=stable).items()
    }
    unknown = (f"a partition on {name} returns no log end now: try again",)
    return replace(
        facts, topics=topics, logs=logs, unknown=unknown if len(logs) < len(there) else ()
    )


def _find_source_cluster(
    settings: ConnectorSettings, kafkas: KafkaClusterPool, home: str | None, upstream: str | None
) -> tuple[str | None, str | None]:
    """Return the cluster whose records it reads, if any and known; else the reason why not."""
    more = ""
    if settings.mirror is not None:
        addresses, name = settings.mirror.source_addresses, upstream
        more = ", or name the flow and its upstream under flows"
    elif settings.sink is not None and settings.sink.addresses:
        addresses, name = settings.sink.addresses, None
    elif settings.kind is ConnectorKind.SINK:
        return home, "name the workers' Kafka cluster (--kafka, --config)"
    else:
        return None, None
    names = ", ".join(sorted(addresses)) or "no address"
    return name or kafkas.found(addresses), (
        f"it reads from {names}, and not exactly one cluster of --config has one of these among "
        f"its bootstrap servers: add it{more}"
    )


def read_record_times(
    kafkas: KafkaClusterPool, name: str, starts: Mapping[TopicPartition, int], *, committed: bool
) -> dict[TopicPartition, float]:
    """Return the timestamp of the first record at or after each of these offsets, in Unix seconds.

    Partitions where it is unknown are left out. Raises ResponseTimeout where a record was not read
    in time.
    """
    if not starts:
        return {}
    with closing(ProbeReader(name, kafkas.properties(name), committed=committed)) as reader:
        answers = reader.first(starts, READS_S_MAX)
    late = sorted(starts.keys() - answers.keys())
    if late:
        said = f"no record of {late[0].topic}-{late[0].partition} came within {READS_S_MAX:g} s"
        raise ResponseTimeout(name, said)
    return {
        partition: answer.at
        for partition, answer in answers.items()
        if isinstance(answer, FirstRecord) and answer.at is not None
    }
