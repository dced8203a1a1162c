"""Who is connected to whom: Connect clusters, their offsets topics, replication flows.

Discovered over REST or named in the configuration; the edge follows it and the pipeline is given
it. Kafka clusters appear under the names the user gave them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from offsetwatch.model.topic_kinds import TopicKind as RecordRole


@dataclass(frozen=True, slots=True, order=True)
class KafkaTopic:
    """A topic on one of the configured Kafka clusters."""

    kafka: str
    topic: str

    def __str__(self) -> str:
        return f"{self.kafka}/{self.topic}"


class TopicPartition(NamedTuple):
    """A partition of a topic, where the cluster is clear from the context.

    A tuple, as it is what most is looked up by: a dataclass hashes and compares five times slower.
    """

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """A topic in which a Connect cluster keeps offsets of source connectors.

    connector    the one that keeps its offsets there alone (its own setting offsets.storage.topic);
                 None for the topic of the whole cluster
    """

    connect_cluster: str
    at: KafkaTopic
    connector: str | None = None


@dataclass(frozen=True, slots=True)
class ListingTopics:
    """Where a Connect cluster without a REST API says which connectors it has (configs) and how
    they are (status). None for one that is not to be read.
    """

    connect_cluster: str
    configs: KafkaTopic | None
    status: KafkaTopic | None

    def topics(self) -> tuple[KafkaTopic, ...]:
        """Those that there are."""
        return tuple(topic for topic in (self.configs, self.status) if topic is not None)


@dataclass(frozen=True, slots=True, order=True)
class StatusTopic:
    """Where a Connect cluster that is asked over REST writes every change of a state as well: a
    poll misses the quick ones. Nothing waits for it and nothing else is known from it.
    """

    connect_cluster: str
    at: KafkaTopic


@dataclass(frozen=True, slots=True, order=True)
class AuxiliaryTopic:
    """A topic that tells what went on beside the offsets, and is recorded where it may be read:
    Connect's config and status topics, MM2's checkpoints. No progress is computed from it.

    connect_cluster    whose it is; None for checkpoints, as a flow's may come from several
    """

    at: KafkaTopic
    role: RecordRole
    connect_cluster: str | None


REGEX_ROUTER: Final = "RegexRouter"  # Connect's own


@dataclass(frozen=True, slots=True)
class TopicRouter:
    """A transform that may write a record to another topic than the connector named.

    class_name     simple name of its class
    regex          in java.util.regex, of a class whose configuration has one and nothing else that
                   decides; None of any other: what that calls a topic cannot be told
    replacement    what it makes of a name that its regex matches, in Java's syntax
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


FlowKey = tuple[str, str, str]  # Connect cluster, source alias, target alias


@dataclass(frozen=True, slots=True)
class MirrorFlow:
    """One MirrorSourceConnector: what it reads, under which aliases, and where its syncs are.

    source, target          the aliases, as MM2 and its JMX metrics call them
    upstream                the configured Kafka cluster it reads from, None if no configured
    cluster
                            answers to the addresses that the connector names
    offset_syncs            None if the connector emits none, or they lie on an unknown cluster
    read_committed          its consumer's isolation level: the end of its work is the last stable
                            offset, not the high watermark
    from_start              it begins a partition that it has no offset for at the start of its log
    downstream              the configured Kafka cluster it writes to, None if that is not known
    policy                  the simple name of its replication policy's class; None if not known
    separator               what that puts between an alias and a topic's name
    internal_separator      the same in the names of MM2's own topics; None if not known
    routers                 transforms that may give copies another name, in the order of use
    copies                  what the configuration calls copies: (upstream topic, name), where `*`
                            is every other topic, and `{topic}` in a name the upstream one
    refresh_s               how often it looks for new topics and partitions; None: never
    """

    connect_cluster: str
    connector: str
    source: str
    target: str
    upstream: str | None
    offset_syncs: KafkaTopic | None
    read_committed: bool = False
    from_start: bool = True
    downstream: str | None = None
    policy: str | None = None
    separator: str = "."
    internal_separator: str | None = None
    routers: tuple[TopicRouter, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    refresh_s: float | None = 600.0

    @property
    def key(self) -> FlowKey:
        """What identifies it in metrics, whichever connectors it has."""
        return (self.connect_cluster, self.source, self.target)


KAFKA_NOT_CONFIGURED: Final = (
    "the Kafka cluster of its topics is not configured (kafka), so no log ends are read there"
)


@dataclass(frozen=True, slots=True)
class SinkGroup:
    """The consumer group of a sink connector, and what the connector reads (see SinkSettings).

    `kafka` is None if no configured cluster is its own.
    """

    connect_cluster: str
    connector: str
    group: str
    kafka: str | None
    topics: frozenset[str] = frozenset()
    topics_regex: str | None = None
    read_committed: bool | None = None
    from_start: bool = True


@dataclass(frozen=True, slots=True)
class Topology:
    """Everything there is to read, and how it belongs together.

    elsewhere    (Connect cluster, connector) of those that keep their offsets on a Kafka cluster
                 that is not configured: nobody here can say how far they are
    checkpoints, heartbeats    those of MM2's topics on a target that there are
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
        """Every topic with progress in it, in a stable order: what the pipeline keeps for ever."""
        syncs = {flow.offset_syncs for flow in self.flows if flow.offset_syncs is not None}
        return tuple(sorted(syncs | {topic.at for topic in self.offsets_topics}))

    def awaited(self) -> tuple[KafkaTopic, ...]:
        """Every topic without which something is not known, in a stable order.

        A configuration topic is followed and never kept: its records hold secrets.
        """
        listings = {topic for listing in self.listings for topic in listing.topics()}
        beside = {*self.checkpoints, *self.heartbeats}
        return tuple(sorted({*self.recorded(), *listings, *beside}))

    def tailed(self) -> tuple[KafkaTopic, ...]:
        """Every topic the edge follows, in a stable order."""
        return tuple(sorted({*self.awaited(), *(status.at for status in self.statuses)}))


class InternalTopicRole(StrEnum):
    """What Connect or MM2 keeps in one of their own topics."""

    OFFSETS = "offsets"
    CONFIG = "config"
    STATUS = "status"
    OFFSET_SYNCS = "offset_syncs"
    CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """How an internal topic is made, as its cluster describes it.

    policy        its cleanup.policy; None if we may not see it
    replication   replicas of the partition that has the fewest
    brokers       brokers of its cluster
    records       records that a reader of the whole topic is given, of which `keys` are distinct;
                  both None if they were not counted (a topic this short cannot be too long)
    """

    at: KafkaTopic
    role: InternalTopicRole
    policy: str | None
    partitions: int
    replication: int
    brokers: int
    records: int | None = None
    keys: int | None = None
