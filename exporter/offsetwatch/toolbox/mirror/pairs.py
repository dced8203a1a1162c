"""The pairs of a MirrorSourceConnector: which upstream partition, and how far. Pure."""

from __future__ import annotations

from collections.abc import Collection

from offsetwatch.decode.dialects import mirror_partition
from offsetwatch.decode.jsontext import encode_sorted, is_flat_map, parse
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import Pair


def upstream(at: MirrorPartition) -> TopicPartition:
    """Where its records come from."""
    return TopicPartition(at.topic, at.partition)


def partition_text(at: MirrorPartition) -> str:
    """The source partition as MirrorSourceConnector writes it, in JSON with sorted keys."""
    return encode_sorted(
        {"cluster": at.cluster, "partition": at.partition, "topic": at.topic}
    ).decode()


def offset_text(stored: int | None) -> str | None:
    """The offset as MirrorSourceConnector writes it."""
    return None if stored is None else f'{{"offset":{stored}}}'


def stored_offset(offset: str | None) -> int | None:
    """The number in an offset; None for none, and for what MM2 could not read."""
    if offset is None:
        return None
    fields = parse(offset.encode())
    number = fields.get("offset") if is_flat_map(fields) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def mirrored(pairs: Collection[Pair]) -> dict[MirrorPartition, int | None]:
    """The pairs that have the shape of a MirrorSourceConnector's."""
    found = {}
    for pair in pairs:
        fields = parse(pair.partition.encode())
        at = mirror_partition(fields) if is_flat_map(fields) else None
        if at is not None:
            found[at] = stored_offset(pair.offset)
    return found


def name_of(at: MirrorPartition) -> str:
    """Topic and partition, for people."""
    return f"{at.topic}-{at.partition}"
