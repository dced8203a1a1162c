"""Answers of Connect's REST API, decoded; one that is not what Connect promises is a Malformed.

Called by the polls and by the verbs. Raises what the client raises.
"""

from __future__ import annotations

from hashlib import blake2b

from exporter.clients.connect_read import ConnectReader
from exporter.decode.connect_rest import decode_connectors, decode_offsets
from exporter.errors import Malformed
from exporter.model.connectors import Connector
from exporter.model.offsets import Undecodable


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
