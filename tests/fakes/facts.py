"""KafkaFacts, of a FakeKafka: topics as a test says they are made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from offsetwatch.clients.kafka.inspector import ClusterFacts, TopicShape
from offsetwatch.errors import AccessDenied, ClientError, NotFound

from .kafka import FakeAdmin, FakeKafka, FakeReader


@dataclass
class TopicTraits:
    """What the fake cluster says of a topic beyond its partitions."""

    policy: str | None = "compact"
    replication: int = 1
    operations: frozenset[str] | None = frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"})
    hidden: bool = False


@dataclass
class Readers:
    """Opens readers and counts them."""

    kafka: FakeKafka
    opened: int = 0

    def __call__(self) -> FakeReader:
        self.opened += 1
        return FakeReader(self.kafka)


@dataclass
class FakeFacts(FakeAdmin):
    kafka: FakeKafka
    brokers: int = 1
    made: dict[str, TopicTraits] = field(default_factory=dict)
    groups: dict[str, frozenset[str] | ClientError | None] = field(default_factory=dict)
    topic_ids: bool = True

    def __post_init__(self) -> None:
        super().__init__(self.kafka)

    def cluster(self) -> ClusterFacts:
        return ClusterFacts(
            cluster_id=f"id-of-{self.name}", brokers=self.brokers, topics=self.kafka.names()
        )

    def shapes(self, topics: Collection[str]) -> dict[str, TopicShape | ClientError]:
        return {name: self._shape(name) for name in topics}

    def _shape(self, name: str) -> TopicShape | ClientError:
        answer = self.made.get(name, TopicTraits())
        if answer.hidden:
            return AccessDenied(self.name, "Topic authorization failed")
        if name not in self.kafka.names():
            return NotFound(self.name, f"Unknown topic: {name}")
        topic_id, partitions = self.kafka.shape(name)
        return TopicShape(
            topic_id=topic_id if self.topic_ids else None,
            partitions=partitions,
            replication=answer.replication,
            operations=answer.operations,
        )

    def policies(self, topics: Collection[str]) -> dict[str, str | None]:
        return {name: self.made.get(name, TopicTraits()).policy for name in topics}

    def group_operations(
        self, groups: Collection[str]
    ) -> dict[str, frozenset[str] | ClientError | None]:
        return {name: self.groups.get(name, frozenset({"DESCRIBE"})) for name in groups}
