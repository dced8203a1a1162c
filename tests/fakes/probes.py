"""ProbeReader, of a FakeKafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from offsetwatch.clients.records.probe import ProbeAnswer
from offsetwatch.errors import AccessDenied, NotFound, TopicChanged
from offsetwatch.model.observations import FirstRecord, NoRecordBefore
from offsetwatch.model.topology import TopicPartition

from .kafka import FakeKafka


@dataclass
class FakeProbeReader:
    """`denied` topics may not be read; of `mute` ones nothing is heard; each round takes
    `round_s` of the cluster's clock.
    """

    kafka: FakeKafka
    committed: bool = False
    denied: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    round_s: float = 0.1
    rounds: list[dict[TopicPartition, int]] = field(default_factory=list)

    def first(
        self,
        starts: Mapping[TopicPartition, int],
        timeout_s: float,
        stopped: Callable[[], bool] = lambda: False,
    ) -> dict[TopicPartition, ProbeAnswer]:
        assert timeout_s > 0
        self.rounds.append(dict(starts))
        self.kafka.clock.advance(self.round_s)
        if self.kafka.down is not None:
            raise self.kafka.down
        return {
            partition: self._first(partition, start)
            for partition, start in starts.items()
            if partition.topic not in self.mute
        }

    def _first(self, partition: TopicPartition, start: int) -> ProbeAnswer:
        if partition.topic in self.denied:
            return AccessDenied(self.kafka.name, "Topic authorization failed")
        if partition.topic not in self.kafka.names():
            return NotFound(self.kafka.name, "Unknown topic or partition")
        log = self.kafka.log(partition.topic, partition.partition)
        if not log.start <= start <= log.end:
            return TopicChanged(self.kafka.name, "Offset out of range")
        end = log.readable_end if self.committed else log.end
        for offset, message in sorted(log.records.items()):
            if start <= offset < end:
                return FirstRecord(offset=offset, at=message.timestamp()[1] / 1000)
        return NoRecordBefore(max(start, end))
