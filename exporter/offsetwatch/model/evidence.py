"""Evidence of findings, verdicts and plans: named values with their units, and their text."""

from __future__ import annotations

from typing import Final

import msgspec

RECORDS: Final = "records"
OFFSET: Final = "offset"
TIME: Final = "time"
PARTITIONS: Final = "partitions"
TIMES: Final = "times"
BYTES: Final = "bytes"
OFFSETS: Final = "offsets"  # how many; OFFSET is one of them

NONE: Final = "none"  # stands for a value that is null
_UNPRINTED_UNITS: Final = frozenset({OFFSET, TIME, None})  # the value alone says what it is


class EvidenceItem(msgspec.Struct, frozen=True, gc=False):
    """One named value.

    value   a number with its unit, a moment in RFC 3339 (unit `time`), or words (no unit); None if
            there is none
    unit    `records`, `offset`, `time`, or whatever else is counted, in the plural
    """

    name: str
    value: str | int | float | None
    unit: str | None = None


Evidence = tuple[EvidenceItem, ...]  # in order of weight


def format_value(item: EvidenceItem) -> str:
    """Return a value with its unit as text: `3 records`, `120`, `none`."""
    if item.value is None:
        return NONE
    if item.unit in _UNPRINTED_UNITS or isinstance(item.value, str):
        return str(item.value)
    unit = item.unit or ""
    return f"{item.value} {unit.removesuffix('s') if item.value == 1 else unit}"


def format_item(item: EvidenceItem) -> str:
    """Return a name and its value: `lag: 3 records`."""
    return f"{item.name}: {format_value(item)}"
