"""Partitions and offsets of a MirrorSourceConnector, parsed and formatted. Pure."""

from __future__ import annotations

from collections.abc import Collection

from offsetwatch.decode.dialects import parse_mirror_partition
from offsetwatch.decode.json_text import encode_sorted, is_flat_map, parse_json
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset


def build_upstream_partition(partition: MirrorPartition) -> TopicPartition:
    """Build the upstream partition."""
    return TopicPartition(partition.topic, partition.partition)


def format_partition(partition: MirrorPartition) -> str:
    """Format the source partition as MirrorSourceConnector does, in JSON with sorted keys."""
    return encode_sorted(
        {"cluster": partition.cluster, "partition": partition.partition, "topic": partition.topic}
    ).decode()


def format_offset(stored: int | None) -> str | None:
    """Format the offset as MirrorSourceConnector does."""
    return None if stored is None else f'{{"offset":{stored}}}'


def parse_stored_offset(offset: str | None) -> int | None:
    """Return the number in an offset; None for none, and for one that MM2 could not read."""
    if offset is None:
        return None
    fields = parse_json(offset.encode())
    number = fields.get("offset") if is_flat_map(fields) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def parse_mirror_pairs(pairs: Collection[PartitionOffset]) -> dict[MirrorPartition, int | None]:
    """Parse the pairs that have the shape of a MirrorSourceConnector's."""
    found = {}
    for pair in pairs:
        fields = parse_json(pair.partition.encode())
        partition = parse_mirror_partition(fields) if is_flat_map(fields) else None
        if partition is not None:
            found[partition] = parse_stored_offset(pair.offset)
    return found


def format_partition_name(partition: MirrorPartition) -> str:
    """Format topic and partition, for users."""
    return f"{partition.topic}-{partition.partition}"
