"""A Connect cluster over REST, as a place where offsets are read."""

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
    """See Place. Raises ClientError; ConfigError where the cluster has no address to ask."""

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
        """The id of the Kafka cluster behind it, where its worker tells."""
        return self._sight.root().kafka_cluster_id

    def version(self) -> str:
        """What the worker that answers calls its version."""
        return self._sight.root().version

    def connectors(self) -> tuple[str, ...]:
        """Every connector. What a deleted one has left Connect does not show."""
        return tuple(sorted(self._known()))

    def connector(self, name: str) -> Connector | None:
        """Its kind, state and settings, as of the first question; None if there is none."""
        return self._known().get(name)

    def assigned(self, name: str) -> frozenset[TopicPartition] | None:
        """What the tasks of a MirrorSourceConnector copied when it was first asked; None if it has
        none, as while it is stopped.
        """
        if name not in self._assigned:
            self._assigned[name] = self._sight.assigned(name) or None
        return self._assigned[name]

    def kind_of(self, class_name: str) -> str | None:
        """Source or sink: of a class that connectors can be created of, by its full name or as
        Connect abbreviates it; None if the worker does not have it. Raises MalformedResponse where
        it may be among the members of the worker's answer that have no class.
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
        """What a task would be handed now. Raises NotFound."""
        return self._sight.pairs(connector)

    def notes(self, connector: str) -> tuple[str, ...]:
        """Partitions that are listed and have no offset: Connect found a key in another order of
        the fields than that of a HashMap, by which REST looks offsets up, or a value without one,
        or a dedicated topic hides it.
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
        """Refused: Connect tells only what holds now."""
        del connectors
        raise RemoteRefusal(
            self.name,
            "Connect returns only current offsets; its storage has the past: --worker-config",
        )

    def close(self) -> None:
        """Let go of connections."""
        self._sight.close()

    def _known(self) -> dict[str, Connector]:
        if self._listed is None:
            self._listed = {connector.name: connector for connector in self._sight.connectors()}
        return self._listed
