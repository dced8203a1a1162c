"""Checks of offsets against a partition's log range. Pure; called by validation.py.

Two kinds of offset differ by one: a sink's is the NEXT record to read, MirrorMaker's the LAST one
it has copied (MirrorSourceTask seeks to offset + 1). Past the end of its log a consumer applies
`auto.offset.reset`, which copies all of a topic again, or none of it.
"""

from __future__ import annotations

from typing import NamedTuple


class PartitionLogRange(NamedTuple):
    """The log range of a Kafka partition: its name, its first offset, and its next offset."""

    name: str
    start: int
    end: int


def check_next_offset(log: PartitionLogRange, value: int) -> tuple[str, str] | None:
    """Return why `value` cannot be the next record to read, and what can; None if it can."""
    if log.start <= value <= log.end:
        return None
    right = (
        f"{format_range(log.start, log.end)}, the NEXT record to read ({log.end} waits "
        "for new ones)"
    )
    return _describe_out_of_range(log, value, over=value > log.end), right


def check_last_offset(
    log: PartitionLogRange, value: int, *, null_is_end: bool
) -> tuple[str, str] | None:
    """Return why `value` cannot be the last record copied, and what can; None if it can.

    null_is_end     a partition without an offset is read from its end
    """
    first, last = max(log.start - 1, 0), log.end - 1
    if first <= value <= last:
        return None
    null = "null starts at the END" if null_is_end else "null starts at the first record"
    right = f"only null: {null}"
    if first <= last:
        right = (
            f"{format_range(first, last)}, the LAST record copied (for X to be the next: "
            f"X-1); {null}"
        )
    return _describe_out_of_range(log, value, over=value > last), right


def format_range(first: int, last: int) -> str:
    """Format a range that includes both ends."""
    return f"only {first}" if first == last else f"{first} to {last}"


def _describe_out_of_range(log: PartitionLogRange, value: int, *, over: bool) -> str:
    if not over:
        return f"{value} is before the first record of {log.name}, which is {log.start}"
    if log.start >= log.end:
        return f"{value} is past the end: {log.name} is empty, its next record will be {log.end}"
    return f"{value} is past the end: the last record of {log.name} is {log.end - 1}"
