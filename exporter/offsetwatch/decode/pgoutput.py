"""Messages of PostgreSQL's output plugin `pgoutput`, protocol version 1, without the rows' values.

Of a message only the beginning is read, so the rest may be cut off. Source: PostgreSQL, "Logical
Replication Message Formats".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from offsetwatch.model.offsets import Undecodable

_EPOCH_US: Final = 946_684_800_000_000  # 2000-01-01 in Unix microseconds
_COMMIT: Final = struct.Struct(">BQQq")
_OID: Final = struct.Struct(">I")
_TRUNCATE: Final = struct.Struct(">IB")
_OPERATIONS: Final = {b"I": "INSERT", b"U": "UPDATE", b"D": "DELETE"}
# The start of a transaction, its origin, and a data type.
_WITHOUT_CHANGES: Final = frozenset({b"B", b"O", b"Y"})
_TRANSACTIONAL: Final = 1


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """Commit of a transaction: its WAL record from `position` to `end`, and its time.

    time_us     Unix microseconds
    """

    position: int
    end: int
    time_us: int


@dataclass(frozen=True, slots=True)
class RelationMessage:
    """Name of a table, `schema.table`, by the number that changes refer to it with."""

    oid: int
    table: str


@dataclass(frozen=True, slots=True)
class ChangeMessage:
    """Change, and the tables of which it is.

    operation   INSERT, UPDATE, DELETE, TRUNCATE, or MESSAGE (pg_logical_emit_message)
    is_transactional    False for a message that is in no transaction
    """

    operation: str
    oids: tuple[int, ...] = ()
    is_transactional: bool = True


def parse_pgoutput(
    content: bytes,
) -> CommitMessage | RelationMessage | ChangeMessage | Undecodable | None:
    """Return a message; None for one that says nothing of changes."""
    kind, body = content[:1], content[1:]
    try:
        if kind in _WITHOUT_CHANGES:
            return None
        if kind in _OPERATIONS:
            return ChangeMessage(_OPERATIONS[kind], _OID.unpack_from(body))
        if kind == b"C":
            _, position, end, time_us = _COMMIT.unpack_from(body)
            return CommitMessage(position, end, time_us + _EPOCH_US)
        if kind == b"R":
            (oid,) = _OID.unpack_from(body)
            schema, table, _ = body[_OID.size :].split(b"\0", 2)
            # The schema pg_catalog is empty.
            name = f"{schema.decode() or 'pg_catalog'}.{table.decode()}"
            return RelationMessage(oid, name)
        if kind == b"T":
            count, _ = _TRUNCATE.unpack_from(body)
            oids = body[_TRUNCATE.size :][: count * _OID.size]
            whole = len(oids) - len(oids) % _OID.size
            return ChangeMessage(
                "TRUNCATE", tuple(oid for (oid,) in _OID.iter_unpack(oids[:whole]))
            )
        if kind == b"M":
            return ChangeMessage("MESSAGE", is_transactional=bool(body[0] & _TRANSACTIONAL))
    except (struct.error, ValueError, IndexError):
        return Undecodable(f"a message {kind.decode('latin1')!r} of pgoutput is cut off")
    return Undecodable(f"a message {kind.decode('latin1')!r} is none of pgoutput, version 1")
