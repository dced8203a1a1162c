"""Knowledge of connector classes: which field of an offset is a position, and whether it has an
order.

A dialect is recognised by the SHAPE of the source partition, because the topics carry no class name
and the pipeline must agree with the daemon. Order is vouched for only where the connector
guarantees it; for every other shape we say "changed", never "less".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.model.offsets import MirrorPartition, Scalar, SourceOffset


@dataclass(frozen=True, slots=True)
class Dialect:
    """`position` names the ordered integer field, or is None where no order is vouched for."""

    name: str
    position: str | None


MIRROR_SOURCE = Dialect("mirror_source", "offset")
FILE_STREAM = Dialect("file_stream", "position")
GENERIC = Dialect("generic", None)

DIALECTS = {dialect.name: dialect for dialect in (MIRROR_SOURCE, FILE_STREAM, GENERIC)}


def dialect_of(partition: Mapping[str, Scalar] | None) -> Dialect:
    """The dialect whose source partitions look like this; None is a connector without any."""
    if partition is None:
        return GENERIC
    if mirror_partition(partition) is not None:
        return MIRROR_SOURCE
    if len(partition) == 1 and isinstance(partition.get("filename"), str):
        return FILE_STREAM
    return GENERIC


def mirror_partition(partition: Mapping[str, Scalar]) -> MirrorPartition | None:
    """The upstream topic-partition of a MirrorSourceConnector key, or None for any other shape.

    `0.0` and `"0"` are other partitions to Connect and are never read by MM2, so only a real
    integer counts (and a bool is no integer here, whatever Python says).
    """
    if len(partition) != 3:
        return None
    cluster, topic = partition.get("cluster"), partition.get("topic")
    number = partition.get("partition")
    if not isinstance(cluster, str) or not isinstance(topic, str):
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**31:
        return None
    return MirrorPartition(cluster=cluster, topic=topic, partition=number)


def position(dialect: str, offset: SourceOffset | None) -> int | None:
    """The ordered position in this offset, or None if there is none (generic, null, not an
    integer).
    """
    field = DIALECTS[dialect].position
    if field is None or offset is None:
        return None
    value = offset.number(field)
    return value if isinstance(value, int) else None
