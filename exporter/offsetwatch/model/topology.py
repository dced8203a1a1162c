"""Topology of Connect clusters: their topics, replication flows, and sink groups.

It is discovered over REST or set in the configuration. The edge follows it, and the pipeline gets
it as input. Kafka clusters have the names that the user gave them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class TopicKind(StrEnum):
    """Kinds of topics: MM2's `offset_syncs`, `checkpoints` and `heartbeats`, and Connect's."""

    CONNECT_OFFSETS = "connect_offsets"
    OFFSET_SYNCS = "offset_syncs"
    CHECKPOINTS = "checkpoints"
    HEARTBEATS = "heartbeats"
    STATUS = "status"
    CONFIGS = "configs"


@dataclass(frozen=True, slots=True, order=True)
class KafkaTopic:
    """Topic on one of the configured Kafka clusters."""

    kafka: str
    topic: str

    def __str__(self) -> str:
        return f"{self.kafka}/{self.topic}"


class TopicPartition(NamedTuple):
    """Partition of a topic, where the cluster is clear from the context.

    It is a tuple because it is the most frequent key: a dataclass hashes and compares five times
    slower.
    """

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """Topic in which a Connect cluster keeps offsets of source connectors.

    connector    the one connector that has this topic (its own setting offsets.storage.topic); None
                 for the topic of the whole cluster
    """

    connect_cluster: str
    at: KafkaTopic
    connector: str | None = None


@dataclass(frozen=True, slots=True)
class ListingTopics:
    """Topics in which a Connect cluster without a REST API lists its connectors and their states.

    These are configs and status; None for a topic that is not to be read.
    """

    connect_cluster: str
    configs: KafkaTopic | None
    status: KafkaTopic | None

    def topics(self) -> tuple[KafkaTopic, ...]:
        """Return those of the two topics that are to be read."""
        return tuple(topic for topic in (self.configs, self.status) if topic is not None)


@dataclass(frozen=True, slots=True, order=True)
class StatusTopic:
    """Status topic of a Connect cluster that is polled over REST.

    It has every change of a state, and a poll misses the short ones. Nothing waits for it and
    nothing else is read from it.
    """

    connect_cluster: str
    at: KafkaTopic


@dataclass(frozen=True, slots=True, order=True)
class AuxiliaryTopic:
    """Topic that is recorded where it may be read, and that no progress is computed from.

    These are Connect's config and status topics, and MM2's checkpoints.

    connect_cluster    its Connect cluster; None for checkpoints, as a flow's may come from several
    """

    at: KafkaTopic
    role: TopicKind
    connect_cluster: str | None


REGEX_ROUTER: Final = "RegexRouter"  # Connect's own


@dataclass(frozen=True, slots=True)
class TopicRouter:
    """Transform that may write a record to another topic than the connector named.

    class_name     simple name of its class
    regex          in java.util.regex, of a class that is configured by a regex alone; None for any
                   other: its topic names are unknown
    replacement    name for topics that match the regex, in Java's syntax
    conditional    a predicate decides record by record whether it is applied
    topics         pattern of the predicate that decides by the topic (TopicNameMatches); None if
                   none does
    negated        it is applied to the topics that do not match
    """

    class_name: str
    regex: str | None = None
    replacement: str = ""
    conditional: bool = False
    topics: str | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Topics that a MirrorSourceConnector is configured to copy (DefaultTopicFilter).

    topics, exclude    patterns of java.util.regex that have to match a whole name; "" matches none
    """

    topics: str
    exclude: str


# Instead of the routers of a configuration that is too old to tell where copies go.
UNKNOWN_ROUTER: Final = TopicRouter("unknown")

# Connect cluster, then the connector in the second, source alias, target alias.
FlowKey = tuple[str, str, str]
ConnectorFlowKey = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class MirrorFlow:
    """Replication flow of one MirrorSourceConnector.

    source, target          aliases, as MM2 and its JMX metrics have them
    upstream                configured Kafka cluster that it reads from; None if no configured
                            cluster has the addresses that the connector names
    offset_syncs            None if the connector emits none, or it is not known where
    read_committed          isolation level of its consumer: its log end is then the last stable
                            offset, not the high watermark; None if it is not known
    from_start              it starts a partition without an offset at the start of the log
    downstream              configured Kafka cluster that it writes to, None if unknown
    policy                  simple name of its replication policy's class; None if unknown
    separator               text that the policy puts between an alias and a topic's name; a
                            reference if a config provider knows it (is_provided)
    internal_separator      the same in the names of MM2's own topics; None if unknown
    routers                 transforms that may give copies another name, in the order of use
    copies                  names of copies by the configuration: (upstream topic, name), where `*`
                            is every other topic, and `{topic}` in a name the upstream one
    refresh_s               how often it looks for new topics and partitions; None: never; infinite
                            if it is not known
    topic_filter            topics that its configuration selects; None if that is not known
    """

    connect_cluster: str
    connector: str
    source: str
    target: str
    upstream: str | None
    offset_syncs: KafkaTopic | None
    read_committed: bool | None = False
    from_start: bool = True
    downstream: str | None = None
    policy: str | None = None
    separator: str = "."
    internal_separator: str | None = None
    routers: tuple[TopicRouter, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    refresh_s: float | None = 600.0
    topic_filter: TopicFilter | None = None

    @property
    def key(self) -> FlowKey:
        """Return the key of the flow in metrics; several connectors may share it."""
        return (self.connect_cluster, self.source, self.target)

    @property
    def connector_flow_key(self) -> ConnectorFlowKey:
        """Return the key of the flow among those of all connectors."""
        return (self.connect_cluster, self.connector, self.source, self.target)

    @property
    def connector_key(self) -> tuple[str, str]:
        """Return the Connect cluster and the connector."""
        return (self.connect_cluster, self.connector)

    @property
    def known_separator(self) -> str | None:
        """Return the separator; None if only a config provider knows it."""
        return None if is_provided(self.separator) else self.separator


MISSING_NAMED_MAX: Final = 5
KAFKA_NOT_CONFIGURED: Final = (
    "the Kafka cluster of its topics is not configured (kafka), so no log ends are read there"
)
GROUP_NOT_KNOWN: Final = (
    "a config provider of its workers knows the name of its group "
    "(consumer.override.group.id), so its committed offsets are not read"
)
# A worker replaces it when it starts the connector: ConfigTransformer.
_PROVIDER_REFERENCE: Final = re.compile(r"\$\{[^}]*?:[^}]*\}")
_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Return whether a topic can have this name (org.apache.kafka.common.internals.Topic).

    A partition of any other name must not be requested: librdkafka refuses a NUL with ValueError,
    and with it the whole request.
    """
    return name not in {".", ".."} and _TOPIC_NAME.fullmatch(name) is not None


def is_provided(*values: str) -> bool:
    """Check whether any of these values, or a part of one, comes from a config provider."""
    return any(_PROVIDER_REFERENCE.search(value) for value in values)


@dataclass(frozen=True, slots=True)
class SinkGroup:
    """Consumer group of a sink connector, and the topics that it reads (see SinkSettings).

    `kafka` is None if no configured cluster is its own, or if its group is not known.
    """

    connect_cluster: str
    connector: str
    group: str
    kafka: str | None
    topics: frozenset[str] = frozenset()
    topics_regex: str | None = None
    read_committed: bool | None = None
    from_start: bool = True

    @property
    def lag_unknown(self) -> str | None:
        """Return why its lag is not known; None if it may be."""
        if is_provided(self.group):
            return GROUP_NOT_KNOWN
        return KAFKA_NOT_CONFIGURED if self.kafka is None else None


def describe_missing_topics(topics: Sequence[str], kafka: str) -> str:
    """Return that topics which a sink is configured to read were not found, and what to do."""
    noun, does, them = ("topics", "do", "them") if len(topics) > 1 else ("topic", "does", "it")
    more = len(topics) - MISSING_NAMED_MAX
    named = f"{', '.join(topics[:MISSING_NAMED_MAX])}{f' and {more} more' if more > 0 else ''}"
    return (
        f"{noun} {named} {does} not exist on Kafka cluster {kafka}, or this client may not "
        f"describe {them}: the sink reads nothing from there until it is created"
    )


@dataclass(frozen=True, slots=True)
class Topology:
    """Topology of all that is to be read.

    elsewhere    (Connect cluster, connector) of those that keep their offsets on a Kafka cluster
                 that is not configured: their positions are unknown
    checkpoints, heartbeats    those of MM2's topics that exist on a target
    """

    offsets_topics: tuple[OffsetsTopic, ...]
    flows: tuple[MirrorFlow, ...]
    sinks: tuple[SinkGroup, ...] = ()
    listings: tuple[ListingTopics, ...] = ()
    elsewhere: tuple[tuple[str, str], ...] = ()
    statuses: tuple[StatusTopic, ...] = ()
    checkpoints: tuple[KafkaTopic, ...] = ()
    heartbeats: tuple[KafkaTopic, ...] = ()

    def recorded(self) -> tuple[KafkaTopic, ...]:
        """Return every topic with progress in it, sorted; the pipeline retains them for ever."""
        syncs = {flow.offset_syncs for flow in self.flows if flow.offset_syncs is not None}
        return tuple(sorted(syncs | {topic.at for topic in self.offsets_topics}))

    def awaited(self) -> tuple[KafkaTopic, ...]:
        """Return every topic that is needed for complete information, sorted.

        A configuration topic is followed and never stored: its records hold secrets.
        """
        listings = {topic for listing in self.listings for topic in listing.topics()}
        beside = {*self.checkpoints, *self.heartbeats}
        return tuple(sorted({*self.recorded(), *listings, *beside}))

    def tailed(self) -> tuple[KafkaTopic, ...]:
        """Return every topic that the edge follows, sorted."""
        return tuple(sorted({*self.awaited(), *(status.at for status in self.statuses)}))


class InternalTopicRole(StrEnum):
    """Roles of internal topics of Connect and MM2."""

    OFFSETS = "offsets"
    CONFIG = "config"
    STATUS = "status"
    OFFSET_SYNCS = "offset_syncs"
    CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """Settings and size of an internal topic, as its cluster describes it.

    policy        its cleanup.policy; None if it may not be read
    replication   number of replicas of the partition that has the fewest
    brokers       number of brokers of its cluster
    records       records that a reader of the whole topic gets, of which `keys` are distinct; both
                  None if they were not counted (a topic this short cannot be too long)
    """

    at: KafkaTopic
    role: InternalTopicRole
    policy: str | None
    partitions: int
    replication: int
    brokers: int
    records: int | None = None
    keys: int | None = None
