"""How internal topics are made, while that was read not long ago, and what the rules say of it.

Called by the book only; the rules are in lint.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from exporter.model.connectors import Connector
from exporter.model.observations import TopicFactsRead
from exporter.model.topology import Topology
from exporter.state.lint import Intruder, TopicProblem, lint, shared
from exporter.state.sources import SourceBook

FACTS_EVERY_S: Final = 300.0  # topics are made once; describing them costs each broker little
FACTS_STALE_S: Final = 3 * FACTS_EVERY_S + 60.0
# A foreign commit counts for so long: ten flushes. A connector that was moved to another Connect
# cluster may have made its last commit here shortly before.
INTRUDER_RECENT_S: Final = 600.0


class FactsBook:
    """The last reading of each Kafka cluster."""

    def __init__(self, sources: Mapping[str, SourceBook]) -> None:
        self._sources = sources
        self._facts: dict[str, TopicFactsRead] = {}

    def read(self, seen: TopicFactsRead) -> None:
        """Replace what was known of this Kafka cluster."""
        self._facts[seen.kafka] = seen

    def problems(
        self,
        now: float,
        topology: Topology,
        listed: Mapping[str, tuple[Connector, ...]],
        shown: Callable[[str], bool],
    ) -> tuple[TopicProblem, ...]:
        """What is wrong now. Offsets topics that are not `shown` say nothing of their users."""
        facts = (
            topic
            for read in self._facts.values()
            if abs(now - read.at) <= FACTS_STALE_S
            for topic in read.facts
        )
        return lint(facts) + shared(topology, self._intruders(now, topology, listed, shown))

    def _intruders(
        self,
        now: float,
        topology: Topology,
        listed: Mapping[str, tuple[Connector, ...]],
        shown: Callable[[str], bool],
    ) -> Iterator[Intruder]:
        names = {
            cluster: {connector.name for connector in connectors}
            for cluster, connectors in listed.items()
        }
        for topic in topology.offsets_topics:
            if not shown(topic.connect_cluster):
                continue
            since = now - INTRUDER_RECENT_S
            writers = self._sources[topic.connect_cluster].committing(since)
            for foreign in writers - names[topic.connect_cluster]:
                for home, theirs in names.items():
                    if foreign in theirs:
                        yield Intruder(at=topic.at, connector=foreign, home=home)
