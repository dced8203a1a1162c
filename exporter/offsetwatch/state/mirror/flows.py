"""Replication flows and sink groups, derived from listed connectors and broker addresses.

MM2's configuration names clusters by address, ours by name. The two are matched on `host:port`,
literally. A host name that only a worker could resolve, or that two clusters share, is not guessed:
the flow then has no upstream and no lag, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from offsetwatch.model.connectors import Connector
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, SinkGroup, is_provided

BROKER_ADDRESS_TTL_S: Final = 86_400.0  # a broker down for longer may come back with another


def build_mirror_flows(
    connect_cluster: str,
    home: str | None,
    connectors: tuple[Connector, ...],
    addresses: Mapping[str, frozenset[str]],
) -> tuple[MirrorFlow, ...]:
    """Build the flows of a Connect cluster. `home` is its own Kafka cluster, if known.

    A connector whose source alias only a config provider knows has none: its offsets and its topics
    are named by that alias.
    """
    flows = []
    for connector in connectors:
        settings = connector.mirror
        if settings is None or is_provided(settings.source):
            continue
        upstream = find_cluster_at(settings.source_addresses, addresses)
        downstream = find_cluster_at(settings.target_addresses, addresses) or home
        holder = upstream if settings.syncs_on_source else downstream
        syncs = None
        if settings.syncs_topic is not None and holder is not None:
            syncs = KafkaTopic(kafka=holder, topic=settings.syncs_topic)
        flows.append(
            MirrorFlow(
                connect_cluster=connect_cluster,
                connector=connector.name,
                source=settings.source,
                target=settings.target,
                upstream=upstream,
                offset_syncs=syncs,
                read_committed=settings.read_committed,
                from_start=settings.from_start,
                downstream=downstream,
                policy=settings.policy,
                separator=settings.separator,
                internal_separator=settings.internal_separator,
                routers=settings.routers,
                refresh_s=settings.refresh_s,
                topic_filter=settings.topic_filter,
            )
        )
    return tuple(flows)


def merge_named_flows(
    named: Iterable[MirrorFlow], discovered: Iterable[MirrorFlow]
) -> tuple[MirrorFlow, ...]:
    """Return all flows, in a stable order.

    A flow that the configuration names replaces the discovered flow of its connector. It takes over
    what the configuration cannot name: how the connector consumes, how it names topics, and its
    offset-syncs topic unless that is configured.
    """
    by_connector = {flow.connector_key: flow for flow in discovered}
    flows = []
    for flow in named:
        same = by_connector.get(flow.connector_key)
        if same is not None and same.source == flow.source:
            flows.append(
                replace(
                    same,
                    target=flow.target,
                    upstream=flow.upstream,
                    downstream=flow.downstream,
                    offset_syncs=flow.offset_syncs or same.offset_syncs,
                    copies=flow.copies,
                )
            )
        else:
            flows.append(flow)
    for key in {flow.connector_key for flow in flows}:
        by_connector.pop(key, None)
    return tuple(
        sorted(
            [*flows, *by_connector.values()],
            key=lambda flow: (flow.connect_cluster, flow.connector, flow.source, flow.target),
        )
    )


def build_sink_groups(
    connect_cluster: str,
    home: str | None,
    connectors: tuple[Connector, ...],
    addresses: Mapping[str, frozenset[str]],
) -> tuple[SinkGroup, ...]:
    """Build the groups of sinks; one without an override consumes from `home`."""
    groups = []
    for connector in connectors:
        settings = connector.sink
        if settings is not None:
            away = settings.addresses
            kafka = find_cluster_at(away, addresses) if away else home
            groups.append(
                SinkGroup(
                    connect_cluster=connect_cluster,
                    connector=connector.name,
                    group=settings.group,
                    kafka=None if is_provided(settings.group) else kafka,
                    topics=settings.topics,
                    topics_regex=settings.topics_regex,
                    read_committed=settings.read_committed,
                    from_start=settings.from_start,
                )
            )
    return tuple(groups)


class BrokerAddresses:
    """Broker addresses of each Kafka cluster, as reported within a day.

    A broker that is down is missing in the newest response. A broker that is gone leaves its
    address to others.
    """

    def __init__(self) -> None:
        self._newest: dict[str, tuple[float, frozenset[str]]] = {}
        self._seen_at: dict[str, dict[str, float]] = {}
        self._span: tuple[float, ...] = ()  # the first and the last of those times

    def see(self, kafka: str, addresses: frozenset[str], now: float) -> None:
        """Record the broker addresses that a cluster reported."""
        self.expire(now)
        self._newest[kafka] = now, addresses
        self._seen_at[kafka] = self._seen_at.get(kafka, {}) | dict.fromkeys(addresses, now)
        self._measure_span()

    def expire(self, now: float) -> bool:
        """Drop what was reported longer than a day ago; return whether there was any."""
        if all(_is_known(moment, now) for moment in self._span):
            return False
        self._newest = {
            kafka: (read_at, addresses)
            for kafka, (read_at, addresses) in self._newest.items()
            if _is_known(read_at, now)
        }
        self._seen_at = {
            kafka: {name: seen_at for name, seen_at in known.items() if _is_known(seen_at, now)}
            for kafka, known in self._seen_at.items()
        }
        self._measure_span()
        return True

    def _measure_span(self) -> None:
        moments = {read_at for read_at, _ in self._newest.values()}
        moments.update(*(known.values() for known in self._seen_at.values()))
        self._span = (min(moments), max(moments)) if moments else ()

    def of(self, kafka: str) -> frozenset[str]:
        """Return the addresses of a cluster, as of the last `see` or `expire`.

        An address that only its earlier responses had is left out if another cluster has it now.
        """
        others = {
            address
            for name, (_, theirs) in self._newest.items()
            if name != kafka
            for address in theirs
        }
        _, newest = self._newest.get(kafka, (0.0, frozenset()))
        return frozenset(self._seen_at.get(kafka, {})) - (others - newest)


def _is_known(seen_at: float, now: float) -> bool:
    return abs(now - seen_at) < BROKER_ADDRESS_TTL_S


def find_cluster_at(
    requested: frozenset[str], addresses: Mapping[str, frozenset[str]]
) -> str | None:
    """Return the one configured Kafka cluster with one of these addresses, or None."""
    clusters = [name for name in addresses if requested & addresses[name]]
    return clusters[0] if len(clusters) == 1 else None
