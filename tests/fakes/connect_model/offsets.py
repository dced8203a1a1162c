"""Offsets topics: raw keys and values, what workers list of them, and what tasks find.

A key is found by its bytes. REST writes and looks up with the fields in the order of a HashMap; a
task does with those of its connector's own maps, so that the two can pass each other by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from offsetwatch.decode.java.hash_map import compute_hash_map_order
from tests.fakes.connect_model.answers import Refusal

GLOBAL: Final = "connect-offsets"
LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)

Partition = dict[str, Any] | None
Offset = dict[str, Any] | None
Pairs = list[tuple[Partition, Offset]]


class OffsetRecord(NamedTuple):
    """One record of an offsets topic. `by` is who caused it: a request, a task, a person."""

    at: float
    topic: str
    connector: str
    key: bytes
    value: bytes | None
    by: str


class Stores(NamedTuple):
    """Where a connector's offsets are: tasks and REST read the first; the second gets copies."""

    primary: str
    secondary: str | None


class OffsetsTopics:
    """All offsets topics of a Connect cluster."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.log: list[OffsetRecord] = []
        self.current: dict[str, dict[bytes, bytes]] = {}
        self._listed: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}

    def write(
        self, topic: str, connector: str, pairs: Pairs, by: str, *, order: str = "hash"
    ) -> None:
        """One record each. A tombstone takes away what is under these bytes and no other."""
        held = self.current.setdefault(topic, {})
        listed = self._listed.setdefault((topic, connector), {})
        for partition, offset in pairs:
            key = key_of(connector, partition, order)
            value = None if offset is None else text(offset).encode()
            self.log.append(OffsetRecord(self._now(), topic, connector, key, value, by))
            if value is None:
                held.pop(key, None)
            else:
                held[key] = value
            if partition is None:
                continue  # never listed
            if value is None:
                listed.pop(identity(partition), None)
            else:
                listed[identity(partition)] = partition

    def listed(self, stores: Stores, connector: str) -> Pairs:
        """As REST shows them: every partition known to either topic, and what is under its key in
        the first.
        """
        results: dict[str, dict[str, Any]] = {}
        for topic in filter(None, stores):
            results |= self._listed.get((topic, connector), {})
        return [(entry, self.read(stores, connector, entry)) for entry in results.values()]

    def read(
        self, stores: Stores, connector: str, partition: Partition, order: str = "hash"
    ) -> Offset:
        """What is under the bytes that this order gives."""
        held = self.current.get(stores.primary, {})
        value = held.get(key_of(connector, partition, order))
        return None if value is None else json.loads(value)

    def of_connector(self, connector: str) -> list[OffsetRecord]:
        """The records of one connector, oldest first."""
        return [record for record in self.log if record.connector == connector]


def key_of(connector: str, partition: Partition, order: str) -> bytes:
    """`["connector",{...}]`; `hash` is the order of a HashMap, `given` that of the map itself."""
    if partition is not None and order == "hash":
        names = compute_hash_map_order(tuple(partition))
        partition = {name: partition[name] for name in names}
    return text([connector, partition]).encode()


def text(value: Any) -> str:
    """JSON as Connect writes it: without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def identity(value: Any) -> str:
    """Tells maps apart as Java does: 1 is not 1.0, and neither is true."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def normalised(pairs: Iterable[tuple[Any, Any]]) -> Pairs:
    """As the internal converter leaves them: of a partition given twice the last, and only maps of
    primitive values. Raises Refusal.
    """
    results: dict[str, tuple[Partition, Offset]] = {}
    for partition, offset in pairs:
        results.pop(identity(partition), None)
        results[identity(partition)] = (partition, offset)
    for partition, offset in results.values():
        _check(partition)
        _check(offset)
    return list(results.values())


def _check(fields: dict[str, Any] | None) -> None:
    for name, value in (fields or {}).items():
        wrong = _type(value)
        if wrong is not None:
            raise Refusal(
                500,
                "Offsets may only contain primitive types as values, but field "
                f"{name} contains {wrong}",
            )


def _type(value: Any) -> str | None:
    """The type of a value that is not primitive, or the class of one that has no type."""
    if isinstance(value, dict):
        return "MAP"
    if isinstance(value, list):
        return "ARRAY"
    if isinstance(value, int) and not LONG_MIN <= value <= LONG_MAX:
        return "class java.math.BigInteger"
    return None


def java(value: Any) -> str:
    """As Java prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        names = compute_hash_map_order(tuple(value))
        return "{" + ", ".join(f"{name}={java(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(java(each) for each in value) + "]"
    return str(value)
