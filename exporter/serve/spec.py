"""What a row of the metric catalogue is made of. Called by the catalogue alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "offsetwatch_"

Kind = Literal["gauge", "counter"]

INPUT = ("input", "kind")
CONNECTOR = ("connect_cluster", "connector")
SOURCE_PARTITION = (*CONNECTOR, "source_partition")
FLOW = ("connect_cluster", "source", "target")
FLOW_PARTITION = (*FLOW, "topic", "partition")
MIRROR_PARTITION = (*CONNECTOR, "source", "target", "topic", "partition")


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric. `name` is the full name of its samples, `_total` included for a counter."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]


def gauge(name: str, labels: tuple[str, ...], help_text: str) -> Spec:
    """A row; `name` without the prefix."""
    return Spec(name=PREFIX + name, kind="gauge", help=help_text, labels=labels)


def counter(name: str, labels: tuple[str, ...], help_text: str) -> Spec:
    """A row; `name` without the prefix, with its `_total`."""
    return Spec(name=PREFIX + name, kind="counter", help=help_text, labels=labels)
