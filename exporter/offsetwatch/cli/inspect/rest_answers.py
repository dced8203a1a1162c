"""Answers of Connect's REST API, for verbs that no daemon answers and for `history as-of`."""

from __future__ import annotations

from contextlib import closing

from offsetwatch.clients.connect.reader import reader_of
from offsetwatch.config import Connect
from offsetwatch.errors import MalformedResponse
from offsetwatch.ingest import connect_rest
from offsetwatch.model.connectors import Connector

OFFSETS_TIMEOUT_S = 100.0  # Connect itself may take 90 s for this answer


def list_connectors(connect: Connect) -> tuple[Connector, ...]:
    """Return the connectors of a Connect cluster with their states. Raises ClientError."""
    with closing(reader_of(connect, connect.poll.timeout_s)) as reader:
        return tuple(connect_rest.list_connectors(reader))


def read_rest_offsets(
    connect: Connect, connector: str
) -> tuple[tuple[tuple[str, str | None], ...], MalformedResponse | None]:
    """Return the offsets that Connect would hand to a task now, and an error for malformed entries.

    An offset is (source partition, offset or None), both as JSON.
    """
    with closing(reader_of(connect, OFFSETS_TIMEOUT_S)) as reader:
        return connect_rest.parse_readable_offsets(
            connect.name, connector, reader.offsets(connector)
        )
