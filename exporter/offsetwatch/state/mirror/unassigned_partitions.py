"""Upstream partitions that no task of a flow is to copy, though it copies their topic: somebody
added partitions, and MirrorMaker has not found them, or never will (refresh.topics.enabled).

Its assignment names every partition of a topic that it copies; the upstream cluster tells how many
there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from offsetwatch.model.topology import MirrorFlow, TopicPartition

SinceByPartition = Mapping[TopicPartition, float]


class UnassignedPartitions:
    """Of all flows, each with the moment since when it is known."""

    def __init__(self) -> None:
        self._counts: dict[str, Mapping[str, int]] = {}
        self._made: dict[
            MirrorFlow, tuple[frozenset[TopicPartition], object, SinceByPartition]
        ] = {}

    def count(self, kafka: str, partitions: Mapping[str, int]) -> None:
        """So many has each topic of this cluster; nothing is known of others."""
        if self._counts.get(kafka) != partitions:
            self._counts[kafka] = partitions

    def keep(self, flows: Iterable[MirrorFlow]) -> None:
        """There are no others."""
        for flow in self._made.keys() - set(flows):
            del self._made[flow]

    def of(
        self,
        flow: MirrorFlow,
        assigned: frozenset[TopicPartition] | None,
        wants_topic: Callable[[str], bool],
        now: float,
    ) -> SinceByPartition:
        """Those of one flow; the same object while nothing changes. None where its assignment is
        not known.
        """
        counts = self._counts.get(flow.upstream or "")
        if assigned is None or counts is None:
            return {}
        made = self._made.get(flow)
        if made is None or made[0] is not assigned or made[1] is not counts:
            before = {} if made is None else made[2]
            found = {
                partition: before.get(partition, now)
                for topic in {partition.topic for partition in assigned}
                if wants_topic(topic)
                for partition in (
                    TopicPartition(topic, number) for number in range(counts.get(topic, 0))
                )
                if partition not in assigned
            }
            self._made[flow] = made = (assigned, counts, found)
        return made[2]
