"""Upstream partitions that no task of a flow is to copy, though the flow copies their topic.

Partitions were added, and MirrorMaker has not found them yet, or never will
(refresh.topics.enabled). The assignment of a connector names every partition that it copies; the
upstream cluster reports how many partitions each topic has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from offsetwatch.model.topology import MirrorFlow, TopicPartition

SinceByPartition = Mapping[TopicPartition, float]


class UnassignedPartitions:
    """Unassigned partitions of all flows, each with the moment since when it is known."""

    def __init__(self) -> None:
        self._counts: dict[str, Mapping[str, int]] = {}
        self._made: dict[
            MirrorFlow, tuple[frozenset[TopicPartition], object, SinceByPartition]
        ] = {}

    def count(self, kafka: str, partitions: Mapping[str, int]) -> None:
        """Set the number of partitions of each topic of a cluster. Others are unknown."""
        if self._counts.get(kafka) != partitions:
            self._counts[kafka] = partitions

    def keep(self, flows: Iterable[MirrorFlow]) -> None:
        """Forget all other flows."""
        for flow in self._made.keys() - set(flows):
            del self._made[flow]

    def of(
        self,
        flow: MirrorFlow,
        assigned: frozenset[TopicPartition] | None,
        wants_topic: Callable[[str], bool],
        now: float,
    ) -> SinceByPartition:
        """Return the unassigned partitions of one flow; the same object while nothing changes.

        Empty where its assignment is not known (`assigned` is None).
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
