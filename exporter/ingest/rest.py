"""Answers of Connect's REST API, decoded; one that is not what Connect promises is a Malformed.

Called by the polls and by the verbs. Raises what the client raises.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from hashlib import blake2b
from typing import Final, Generic, TypeVar

from exporter.clients.connect_read import ConnectReader
from exporter.decode.connect_rest import (
    decode_assignment,
    decode_connectors,
    decode_names,
    decode_offsets,
    decode_readable_offsets,
)
from exporter.decode.connect_root import decode_root
from exporter.errors import Malformed
from exporter.model.connectors import UNKNOWN_STATE, Connector
from exporter.model.offsets import Undecodable
from exporter.model.topology import TopicPartition

WITNESSES_S: Final = 60.0  # two more requests a minute, answered from a worker's memory
MISSING_S: Final = 900.0  # what is not listed for so long is gone, or told by other witnesses

T = TypeVar("T")


def listed(reader: ConnectReader) -> tuple[Connector, ...]:
    """Every connector with its state."""
    return listed_in(reader.name, reader.connectors())


def listed_in(connect_cluster: str, body: bytes) -> tuple[Connector, ...]:
    """The same, of an answer that has come."""
    return _sound(connect_cluster, "GET /connectors", decode_connectors(body))


class _Answer(Generic[T]):
    """To one question, over and over: most are the one before, byte by byte, and are decoded once.
    They may have megabytes, which are not kept.
    """

    def __init__(self) -> None:
        self._known: tuple[bytes, T] | None = None

    def of(self, body: bytes, decode: Callable[[bytes], T]) -> T:
        """What it says, the very same object while it is the same. Raises what `decode` raises."""
        digest, known = blake2b(body).digest(), self._known
        if known is None or known[0] != digest:
            self._known = known = (digest, decode(body))
        return known[1]


class ConnectorsPoll:
    """The connectors of one Connect cluster, over and over: the very same object while the answer
    is the same. For one thread at a time.
    """

    def __init__(self, reader: ConnectReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._answer: _Answer[tuple[Connector, ...]] = _Answer()
        self._infos: dict[str, Connector] = {}
        self._listed_at: dict[str, float] = {}
        self._asked_at: float | None = None
        self._before: tuple[Connector, ...] | None = None

    def ask(self) -> tuple[Connector, ...]:
        """Every connector with its state."""
        return self._answer.of(self._reader.connectors(), partial(listed_in, self.name))

    def wants_witnesses(self, listed: tuple[Connector, ...], now: float) -> bool:
        """Is it time to ask for names and identity: rarely, at once when the answer is another than
        before (it may be another cluster's), and while a connector that was listed lately is
        missing, or is listed without a state?
        """
        changed, self._before = listed is not self._before, listed
        known = {at.name for at in listed if at.state != UNKNOWN_STATE}
        self._listed_at = {
            name: at
            for name, at in self._listed_at.items()
            if name not in known and abs(now - at) < MISSING_S
        }
        missing = bool(self._listed_at) or len(known) < len(listed)
        self._listed_at |= dict.fromkeys(known, now)
        due = self._asked_at is None or not 0 <= now - self._asked_at < WITNESSES_S
        if due:
            self._asked_at = now
        return changed or missing or due

    def names(self) -> frozenset[str]:
        """Every connector by name, of those without a status too."""
        names = decode_names(self._reader.connector_names())
        return _sound(self.name, "GET /connectors (names)", names)

    def kafka_cluster_id(self) -> str | None:
        """The Kafka cluster that the worker says it uses; None from a worker before 1.1."""
        return _sound(self.name, "GET /", decode_root(self._reader.root())).kafka_cluster_id

    def without_status(
        self, names: frozenset[str], listed: tuple[Connector, ...]
    ) -> tuple[Connector, ...]:
        """The connectors that only the list of names has, each with its configuration."""
        missing = names - {at.name for at in listed}
        if not missing <= self._infos.keys():
            found = listed_in(self.name, self._reader.connector_infos())
            self._infos = {at.name: at for at in found if at.name in missing}
        return tuple(self._infos[name] for name in sorted(missing & self._infos.keys()))


class AssignmentsPoll:
    """What the MirrorSourceConnectors of one Connect cluster gave their tasks, likewise over and
    over. Any thread.
    """

    def __init__(self, reader: ConnectReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._answers: dict[str, _Answer[frozenset[TopicPartition]]] = {}

    def ask(self, connector: str) -> frozenset[TopicPartition]:
        """All partitions that its tasks copy."""
        body = self._reader.tasks(connector)
        asked = f"GET tasks of {connector}"
        answer = self._answers.setdefault(connector, _Answer())
        return answer.of(body, lambda told: _sound(self.name, asked, decode_assignment(told)))

    def runs(self, connector: str) -> bool:
        """Does Connect say just now that it runs?"""
        return any((at.name, at.state) == (connector, "running") for at in listed(self._reader))

    def keep(self, connectors: Collection[str]) -> None:
        """Forget what others were given."""
        for gone in self._answers.keys() - set(connectors):
            self._answers.pop(gone, None)


def offsets(reader: ConnectReader, connector: str) -> tuple[tuple[str, str | None], ...]:
    """What Connect would hand to a task now: (source partition, offset or None), both as JSON."""
    body = reader.offsets(connector)
    return _sound(reader.name, f"GET offsets of {connector}", decode_offsets(body))


def readable_offsets(
    connect_cluster: str, connector: str, body: bytes
) -> tuple[tuple[tuple[str, str | None], ...], Malformed | None]:
    """The same, of an answer that has come, as far as its entries can be read; and what is to be
    said of the others.
    """
    asked = f"GET offsets of {connector}"
    found, unread = _sound(connect_cluster, asked, decode_readable_offsets(body))
    why = f"{asked}: entries of another shape: {unread}"
    return found, Malformed(connect_cluster, why) if unread else None


def _sound(connect_cluster: str, asked: str, found: T | Undecodable) -> T:
    if isinstance(found, Undecodable):
        raise Malformed(connect_cluster, f"{asked}: {found.reason}")
    return found
