"""Connectors as the Connect REST API shows them, reduced to what we need.

A connector's configuration may hold secrets, so decode keeps named settings and drops the rest;
there is no field here that could carry one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

STATES = ("running", "paused", "stopped", "failed", "unassigned", "restarting")


class ConnectorKind(StrEnum):
    """`mirror` is any of MM2's three connectors; they are source connectors to Connect itself."""

    SOURCE = "source"
    SINK = "sink"
    MIRROR = "mirror"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Task:
    """One task and its state, in lower case."""

    number: int
    state: str


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """The settings of a MirrorSourceConnector that say where it reads and where its syncs go.

    Addresses are `host:port` as written in the connector's configuration.
    """

    source: str
    target: str
    source_addresses: frozenset[str]
    target_addresses: frozenset[str]
    syncs_topic: str | None
    syncs_on_source: bool
    read_committed: bool


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The consumer group of a sink connector, and the addresses it was overridden to read from."""

    group: str
    addresses: frozenset[str]


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector as listed by `GET /connectors?expand=status&expand=info`."""

    name: str
    kind: ConnectorKind
    class_name: str
    version: str
    state: str
    tasks: tuple[Task, ...]
    mirror: MirrorSettings | None = None
    sink: SinkSettings | None = None
    dedicated_offsets_topic: str | None = None
    offsets_addresses: frozenset[str] = frozenset()
