"""Reader of offsets of a Connect cluster over REST."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from offsetwatch.config import Connect
from offsetwatch.errors import ConfigError, MalformedResponse, RemoteRefusal
from offsetwatch.model.connect.connectors import Connector
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.rest.connect_state import ConnectClient
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.offset_shapes import parse_fields
from offsetwatch.toolbox.store.reader import HistoricOffset

_NO_TASK_OFFSET: Final = (
    "has no offset for a task: its key is written in other bytes than Connect looks it up by, or "
    "its value is none; a reset over REST leaves it as it is"
)
_UNREACHABLE_OVER_REST: Final = (
    "has no offset over REST: its key is written in other bytes than REST looks it up by, which "
    "its task may well read (a map that is no HashMap), or its value is none; a change or reset "
    "over REST does not reach it: stop the workers and use --worker-config, which reads and "
    "changes their storage"
)


class RestOffsetReader:
    """OffsetReader over REST. Raises ClientError; ConfigError if the cluster has no address."""

    def __init__(self, connect: Connect) -> None:
        if not connect.worker_urls:
            raise ConfigError((f"Connect cluster {connect.name} has no url to ask",))
        self._sight = ConnectClient(connect)
        self._listed: dict[str, Connector] | None = None
        self._assigned: dict[str, frozenset[TopicPartition] | None] = {}

    @property
    def name(self) -> str:
        """The Connect cluster's name."""
        return self._sight.name

    def identity(self) -> str | None:
        """Return the id of the Kafka cluster, if the worker returns it."""
        return self._sight.root().kafka_cluster_id

    def version(self) -> str:
        """Return the version of the worker that answers."""
        return self._sight.root().version

    def connectors(self) -> tuple[str, ...]:
        """Return every connector. Connect does not show offsets of deleted ones."""
        return tuple(sorted(self._known()))

    def connector(self, name: str) -> Connector | None:
        """Return the connector's kind, state and settings at the first query; None if missing."""
        return self._known().get(name)

    def assigned(self, name: str) -> frozenset[TopicPartition] | None:
        """Return what the tasks of a MirrorSourceConnector copied at the first query.

        None if it has no tasks, as while it is stopped.
        """
        if name not in self._assigned:
            self._assigned[name] = self._sight.assigned(name) or None
        return self._assigned[name]

    def kind_of(self, class_name: str) -> str | None:
        """Return `source` or `sink` for a connector class, in full or in Connect's short forms.

        None if the worker does not have the class. Raises MalformedResponse where it may be one of
        the plugins that the worker returns without a class.
        """
        simple = class_name.removesuffix("Connector")
        kinds, odd = self._sight.plugins()
        for name, kind in kinds.items():
            last = name.rpartition(".")[2]
            if class_name == name or simple in {last, last.removesuffix("Connector")}:
                return kind
        if odd.count:
            why = f"no {class_name}, and members without a class: {odd.count} ({odd})"
            raise MalformedResponse(self.name, f"GET /connector-plugins: {why}")
        return None

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """Return the offsets that a task would receive now. Raises NotFound."""
        return self._sight.pairs(connector)

    def notes(self, connector: str) -> tuple[str, ...]:
        """Explain partitions that are listed without an offset.

        Connect found a key whose fields are not in HashMap order, by which REST finds offsets, or a
        value without an offset; or a dedicated topic hides the offset.
        """
        lost = [pair.partition for pair in self.pairs(connector) if pair.offset is None]
        if not lost:
            return ()
        known = self._known().get(connector)
        topic = None if known is None else known.dedicated_offsets_topic
        if topic is not None:
            why = (
                f"{topic}, its connector's own offsets topic, has none, and what the worker's "
                "topic may have for it does not count"
            )
            return tuple(f"{partition} has no offset for a task: {why}" for partition in lost)
        reasons = {True: _UNREACHABLE_OVER_REST, False: _NO_TASK_OFFSET}
        return tuple(
            f"{partition} {reasons[len(parse_fields(partition) or ()) > 1]}" for partition in lost
        )

    def from_beginning(self, connectors: frozenset[str] | None) -> Iterator[HistoricOffset]:
        """Raise RemoteRefusal: Connect returns only current offsets."""
        del connectors
        raise RemoteRefusal(
            self.name,
            "Connect returns only current offsets; its storage has the past: --worker-config",
        )

    def close(self) -> None:
        """Close connections."""
        self._sight.close()

    def _known(self) -> dict[str, Connector]:
        if self._listed is None:
            self._listed = {connector.name: connector for connector in self._sight.connectors()}
        return self._listed
