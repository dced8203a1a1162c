"""What the REST driver sees and does beside REST, where the workers' Kafka cluster is configured:
who is in a sink's group, and the records of an offsets topic that Connect cannot change itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from offsetwatch.clients.kafka.whole_topic import StorageAdmin
from offsetwatch.config import Connect, Kafka
from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.errors import ClientError
from offsetwatch.remedy.drivers.storage.stores import TopicStorage


class WorkersKafkaClient:
    """The Kafka cluster of one Connect cluster. Keeps nothing open between calls."""

    def __init__(self, connect: Connect, kafka: Kafka) -> None:
        self.name = connect.home
        self._kafka = kafka
        self._blind = False

    def sink_members(self, connector: str, config: Mapping[Any, Any]) -> tuple[str, ...] | None:
        """Consumers that are still in the group of a sink; None where nobody can tell: a worker
        checks for itself when it is asked to alter them.
        """
        sink = parse_connector_settings(connector, config, kind="sink").sink
        if (
            self._blind
            or sink is None
            or (sink.addresses and not sink.addresses & self._kafka.addresses)
        ):
            return None
        try:
            with closing(StorageAdmin(self.name, self._kafka.client_properties())) as admin:
                return admin.members(sink.group)
        except ClientError:
            self._blind = True  # asked again with every look, it would take as long again
            return None

    def storage(self, topic: str) -> TopicStorage:
        """An offsets topic of a connector that is stopped: nobody else writes under its name."""
        return TopicStorage(self.name, self._kafka.client_properties(), topic, workers=None)
