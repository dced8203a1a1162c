"""librdkafka's in-process broker: real clients, real protocol, up in milliseconds.

It cannot describe topics or their configurations, delete topics, compact, or abort a transaction
(`describe_*`, `delete_topics` wait for a controller that it has not). KafkaAdmin.shape, topic_ids
and compacted are therefore proved against real Kafka only, in tests/real and tests/history; here
`shape` is answered from the topic list. Every topic has four partitions, made at the first record.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from offsetwatch.clients.kafka.clients import KafkaAdmin, TailReader

PARTITIONS = 4


class MockBroker:
    """The broker lives as long as this object, or until `stop`."""

    def __init__(self) -> None:
        # Its producer talks to itself; log_level 0 keeps librdkafka off standard error.
        settings: dict[str, Any] = {
            "bootstrap.servers": "mock",
            "test.mock.num.brokers": 1,
            "log_level": 0,
        }
        self._producer: Producer | None = Producer(settings)
        brokers = self._producer.list_topics(timeout=10).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        at: float = 1_800_000_000.0,
    ) -> None:
        """Write one record and wait until it is there."""
        assert self._producer is not None
        self._producer.produce(
            topic, key=key, value=value, partition=partition, timestamp=round(at * 1000)
        )
        assert self._producer.flush(10) == 0

    def admin(self, name: str = "east") -> KafkaAdmin:
        return _MockAdmin(name, {"bootstrap.servers": self.bootstrap})

    def reader(self, name: str = "east") -> TailReader:
        return TailReader(name, {"bootstrap.servers": self.bootstrap})

    def stop(self) -> None:
        """The broker is gone."""
        self._producer = None


class _MockAdmin(KafkaAdmin):
    def shape(self, topic: str) -> tuple[str, int]:
        topics, _ = self.topics()
        return ("", topics[topic])
