"""Access of the REST driver to the workers' Kafka cluster, where it is configured.

It reads the members of a sink's group and the records of an offsets topic, and writes the records
that Connect cannot change itself.
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
    """The Kafka cluster of one Connect cluster. Keeps no connection open between calls."""

    def __init__(self, connect: Connect, kafka: Kafka) -> None:
        self.name = connect.home
        self._kafka = kafka
        self._blind = False

    def sink_members(self, connector: str, config: Mapping[Any, Any]) -> tuple[str, ...] | None:
        """Return the consumers that are still in a sink's group; None if that is unknown.

        A worker checks for members itself when it alters a sink's offsets.
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
        """Open the offsets topic of a connector that is stopped, so that no task writes to it."""
        return TopicStorage(self.name, self._kafka.client_properties(), topic, workers=None)
