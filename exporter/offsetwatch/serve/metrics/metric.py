"""The type of a metric in the catalogue, and the label sets that metrics share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

PREFIX = "offsetwatch_"

MetricKind = Literal["gauge", "counter"]

# Only those that a kind has are not empty, and Prometheus keeps no empty label. No label holds two.
TAIL = ("kafka", "topic")
INPUT = ("kind", "kafka", "connect_cluster", "topic", "connector", "source", "target")
CONNECTOR = ("connect_cluster", "connector")
SOURCE_PARTITION = (*CONNECTOR, "source_partition")
FLOW = ("connect_cluster", "source", "target")
FLOW_PARTITION = (*FLOW, "topic", "partition")
MIRROR_PARTITION = (*CONNECTOR, "source", "target", "topic", "partition")


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """Definition of a metric.

    `name` is the full name of its samples, `_total` included for a counter.

    optional    labels that some of its series do not have: `=~".+"` excludes these series
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...]
    optional: frozenset[str] = frozenset()


def gauge(
    name: str, labels: tuple[str, ...], help_text: str, *, optional: Iterable[str] = ()
) -> MetricSpec:
    """Build a gauge; `name` is without the prefix."""
    return MetricSpec(PREFIX + name, "gauge", help_text, labels, frozenset(optional))


def counter(
    name: str, labels: tuple[str, ...], help_text: str, *, optional: Iterable[str] = ()
) -> MetricSpec:
    """Build a counter; `name` is without the prefix, and with `_total`."""
    return MetricSpec(PREFIX + name, "counter", help_text, labels, frozenset(optional))
