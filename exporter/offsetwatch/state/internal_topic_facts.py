"""Facts about internal topics, as last read, and the problems that the rules find in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from offsetwatch.model.observations import TopicFactsRead
from offsetwatch.model.topology import InternalTopicRole, KafkaTopic, Topology
from offsetwatch.state.connect.connect_cluster import ConnectClusterState
from offsetwatch.state.internal_topic_rules import (
    ForeignWriter,
    TopicProblem,
    find_shared_topics,
    find_topic_problems,
)

FACTS_EVERY_S: Final = 300.0  # topics are made once; describing them costs each broker little
FACTS_STALE_S: Final = 3 * FACTS_EVERY_S + 60.0
# A foreign commit counts for so long: ten flushes. A connector that was moved to another Connect
# cluster may have made its last commit here shortly before.
FOREIGN_COMMIT_RECENT_S: Final = 600.0


class InternalTopicFacts:
    """Last facts read about the internal topics of each Kafka cluster."""

    def __init__(self, sites: Mapping[str, ConnectClusterState]) -> None:
        self._sites = sites
        self._facts: dict[str, TopicFactsRead] = {}

    def read(self, facts: TopicFactsRead) -> None:
        """Replace the facts about this Kafka cluster."""
        self._facts[facts.kafka] = facts

    def topics(self, role: InternalTopicRole) -> frozenset[KafkaTopic]:
        """Return every topic that had this role when it was last read."""
        seen = (topic for read in self._facts.values() for topic in read.facts)
        return frozenset(topic.at for topic in seen if topic.role is role)

    def problems(self, now: float, topology: Topology) -> tuple[TopicProblem, ...]:
        """Return the problems by facts that are recent at `now`.

        An offsets topic that is not live reveals no foreign writers.
        """
        facts = (
            topic
            for read in self._facts.values()
            if abs(now - read.at) <= FACTS_STALE_S
            for topic in read.facts
        )
        return find_topic_problems(facts) + find_shared_topics(
            topology, self._intruders(now, topology)
        )

    def _intruders(self, now: float, topology: Topology) -> Iterator[ForeignWriter]:
        names = {
            name: cluster.runs
            for name, cluster in self._sites.items()
            if cluster.listed is not None
        }
        for topic in topology.offsets_topics:
            cluster = self._sites[topic.connect_cluster]
            if topic.connect_cluster not in names or not cluster.sound(topic.at, now):
                continue
            writers = cluster.committing(topic.at, since=now - FOREIGN_COMMIT_RECENT_S)
            for foreign in writers - names[topic.connect_cluster]:
                for home, theirs in names.items():
                    if foreign in theirs:
                        yield ForeignWriter(at=topic.at, connector=foreign, home=home)
