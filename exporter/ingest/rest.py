"""Answers of Connect's REST API, decoded; one that is not what Connect promises is a Malformed.

Called by the polls and by the verbs. Raises what the client raises.
"""

from __future__ import annotations

from exporter.clients.connect_read import ConnectReader
from exporter.decode.connect_rest import decode_connectors, decode_offsets
from exporter.errors import Malformed
from exporter.model.connectors import Connector
from exporter.model.offsets import Undecodable


def listed(reader: ConnectReader) -> tuple[Connector, ...]:
    """Every connector with its state."""
    found = decode_connectors(reader.connectors())
    if isinstance(found, Undecodable):
        raise Malformed(reader.name, f"GET /connectors: {found.reason}")
    return found


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
