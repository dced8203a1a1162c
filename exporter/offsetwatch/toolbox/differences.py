"""Changes that a request would make: current offsets compared with requested ones. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from offsetwatch.decode.dialects import compare_offsets, find_dialect, read_position
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.model.offsets import Order, SourceOffset
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.offset_shapes import SINK, Fields, parse_fields


class OffsetChangeKind(StrEnum):
    """The kind of change of one partition's offset."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """A partition whose current and requested offsets differ.

    before, after   JSON, or None for none
    key             as in PartitionOffset
    order           of `after` against `before`, where the connector has an order and both exist
    distance        from `before` to `after`, where the position is one number
    """

    partition: str
    before: str | None
    after: str | None
    order: Order | None = None
    key: str | None = None
    distance: int | None = None

    @property
    def kind(self) -> OffsetChangeKind:
        """The kind of change, by which of `before` and `after` exist."""
        if self.before is None:
            return OffsetChangeKind.ADDED
        return OffsetChangeKind.REMOVED if self.after is None else OffsetChangeKind.CHANGED

    @property
    def pair(self) -> PartitionOffset:
        """The requested offset as a pair."""
        return PartitionOffset(self.partition, self.after, self.key)


def compute_changes(
    now: tuple[PartitionOffset, ...], wanted: tuple[PartitionOffset, ...], class_name: str = ""
) -> tuple[Change, ...]:
    """Return what a request would change, in its order; partitions that it does not name stay.

    `class_name` is the connector's, where it is known: it determines the meaning of its offsets.
    Numbers are compared with their types: 5 and 5.0 differ to a connector.
    """
    have = {pair.partition: pair.offset for pair in now}
    return tuple(
        compute_change(
            pair.partition,
            have.get(pair.partition),
            pair.offset,
            pair.key,
            class_name=class_name,
        )
        for pair in wanted
        if have.get(pair.partition) != pair.offset
    )


def compute_differences(
    now: tuple[PartitionOffset, ...], wanted: tuple[PartitionOffset, ...], class_name: str = ""
) -> tuple[Change, ...]:
    """Return all differences, sorted, including partitions that only `now` has.

    `class_name` is as in compute_changes.
    """
    named = {pair.partition for pair in wanted}
    gone = tuple(
        PartitionOffset(pair.partition, None) for pair in now if pair.partition not in named
    )
    return tuple(
        sorted(
            compute_changes(now, (*wanted, *gone), class_name), key=lambda change: change.partition
        )
    )


def describe_directions(found: tuple[Change, ...]) -> tuple[str, ...]:
    """Describe the effect of moving forward or back, for changes with a known order."""
    said = {
        Order.AHEAD: "forward: the records in between are skipped for good",
        Order.BEHIND: "back: the records in between are processed again",
    }
    counted = Counter(change.order for change in found)
    return tuple(
        f"{counted[order]} partition(s) go {words}"
        for order, words in said.items()
        if counted[order]
    )


def compute_change(
    partition: str,
    before: str | None,
    after: str | None,
    key: str | None = None,
    *,
    class_name: str = "",
) -> Change:
    """Build one partition's change, with its order and distance where they are known."""
    order = distance = None
    if before is not None and after is not None:
        order = _compare_order(partition, before, after, class_name)
        was, now = (_parse_position(partition, text, class_name) for text in (before, after))
        if was is not None and now is not None:
            distance = now - was
    return Change(partition, before, after, order=order, key=key, distance=distance)


def _compare_order(partition: str, before: str, after: str, class_name: str) -> Order:
    fields = parse_fields(partition)
    if _is_sink_partition(fields):
        return _compare_sink_order(before, after)
    was, now = (_parse_offset(text) for text in (before, after))
    return compare_offsets(find_dialect(fields, class_name), was, now)


def _parse_position(partition: str, text: str, class_name: str) -> int | None:
    """Return the one integer that is the position; None if there is none or it is unknown."""
    fields = parse_fields(partition)
    if _is_sink_partition(fields):
        number = (parse_fields(text) or {}).get(SINK.position)
        return number if isinstance(number, int) else None
    return read_position(find_dialect(fields, class_name), _parse_offset(text))


def _is_sink_partition(fields: Fields | None) -> bool:
    return fields is not None and fields.keys() == SINK.partition.keys()


def _compare_sink_order(before: str, after: str) -> Order:
    was, now = ((parse_fields(text) or {}).get(SINK.position) for text in (before, after))
    if not isinstance(was, int) or not isinstance(now, int) or was == now:
        return Order.UNORDERED
    return Order.AHEAD if now > was else Order.BEHIND


def _parse_offset(text: str) -> SourceOffset | None:
    offset = decode_value(text.encode())
    return offset if isinstance(offset, SourceOffset) else None
