"""Who is connected to whom: Connect clusters, their offsets topics, replication flows.

Discovered over REST or named in the configuration; the edge follows it and the pipeline is given
it. Kafka clusters appear under the names the user gave them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class KafkaTopic:
    """A topic on one of the configured Kafka clusters."""

    kafka: str
    topic: str

    def __str__(self) -> str:
        return f"{self.kafka}/{self.topic}"


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition of a topic, where the cluster is clear from the context."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """The topic in which a Connect cluster keeps the offsets of its source connectors."""

    connect_cluster: str
    at: KafkaTopic


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
    """

    connect_cluster: str
    connector: str
    source: str
    target: str
    upstream: str | None
    offset_syncs: KafkaTopic | None
    read_committed: bool = False


@dataclass(frozen=True, slots=True)
class SinkGroup:
    """The consumer group of a sink connector. `kafka` is None if no configured cluster is its
    own.
    """

    connect_cluster: str
    connector: str
    group: str
    kafka: str | None


@dataclass(frozen=True, slots=True)
class Topology:
    """Everything there is to read, and how it belongs together."""

    offsets_topics: tuple[OffsetsTopic, ...]
    flows: tuple[MirrorFlow, ...]
    sinks: tuple[SinkGroup, ...] = ()

    def tailed(self) -> tuple[KafkaTopic, ...]:
        """Every topic to follow, in a stable order."""
        syncs = {flow.offset_syncs for flow in self.flows if flow.offset_syncs is not None}
        return tuple(sorted(syncs | {topic.at for topic in self.offsets_topics}))


class TopicRole(StrEnum):
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
    role: TopicRole
    policy: str | None
    partitions: int
    replication: int
    brokers: int
    records: int | None = None
    keys: int | None = None
