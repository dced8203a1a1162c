"""Answers of Connect's REST API, decoded; one that is not what Connect promises is a Malformed.

Called by the polls and by the verbs. Raises what the client raises.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b

from exporter.clients.connect_read import ConnectReader
from exporter.decode.connect_rest import decode_assignment, decode_connectors, decode_offsets
from exporter.errors import Malformed
from exporter.model.connectors import Connector
from exporter.model.offsets import Undecodable
from exporter.model.topology import TopicPartition


def listed(reader: ConnectReader) -> tuple[Connector, ...]:
    """Every connector with its state."""
    return listed_in(reader.name, reader.connectors())


def listed_in(connect_cluster: str, body: bytes) -> tuple[Connector, ...]:
    """The same, of an answer that has come."""
    found = decode_connectors(body)
    if isinstance(found, Undecodable):
        raise Malformed(connect_cluster, f"GET /connectors: {found.reason}")
    return found


class ConnectorsPoll:
    """The connectors of one Connect cluster, over and over. Most answers are the one before, byte
    by byte: then so are the connectors, the very same object. For one thread at a time.
    """

    def __init__(self, reader: ConnectReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._digest = b""
        self._connectors: tuple[Connector, ...] = ()

    def ask(self) -> tuple[Connector, ...]:
        """Every connector with its state."""
        body = self._reader.connectors()
        digest = blake2b(body).digest()  # an answer may have megabytes, which are not kept
        if digest != self._digest:
            self._connectors = listed_in(self.name, body)
            self._digest = digest
        return self._connectors


class AssignmentsPoll:
    """What the MirrorSourceConnectors of one Connect cluster gave their tasks, likewise over and
    over. Any thread.
    """

    def __init__(self, reader: ConnectReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._known: dict[str, tuple[bytes, frozenset[TopicPartition]]] = {}

    def ask(self, connector: str) -> frozenset[TopicPartition]:
        """All partitions that its tasks copy."""
        body = self._reader.tasks(connector)
        digest = blake2b(body).digest()
        known = self._known.get(connector)
        if known is not None and known[0] == digest:
            return known[1]
        found = decode_assignment(body)
        if isinstance(found, Undecodable):
            raise Malformed(self.name, f"GET tasks of {connector}: {found.reason}")
        self._known[connector] = (digest, found)
        return found

    def runs(self, connector: str) -> bool:
        """Does Connect say just now that it runs?"""
        return any((at.name, at.state) == (connector, "running") for at in listed(self._reader))

    def keep(self, connectors: Collection[str]) -> None:
        """Forget what others were given."""
        for gone in self._known.keys() - set(connectors):
            self._known.pop(gone, None)


def offsets(reader: ConnectReader, connector: str) -> tuple[tuple[str, str | None], ...]:
    """What Connect would hand to a task now: (source partition, offset or None), both as JSON."""
    return offsets_in(reader.name, connector, reader.offsets(connector))


def offsets_in(
    connect_cluster: str, connector: str, body: bytes
) -> tuple[tuple[str, str | None], ...]:
    """The same, of an answer that has come."""
    found = decode_offsets(body)
    if isinstance(found, Undecodable):
        raise Malformed(connect_cluster, f"GET offsets of {connector}: {found.reason}")
    return found
