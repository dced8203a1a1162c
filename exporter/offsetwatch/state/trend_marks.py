"""Trend marks: one minute of all connectors and flows, packed.

Made by trends.py, and part of every snapshot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

ConnectorKey = tuple[str, str]  # Connect cluster, connector
ConnectorFlowKey = tuple[str, str, str, str]  # the same, source, target

_Key = TypeVar("_Key", bound=tuple[str, ...])


@dataclass(frozen=True, slots=True)
class TrendColumn(Generic[_Key]):
    """Column of packed numbers, of all connectors or all flows at one moment.

    `keys[n]` belongs to number n of each row of doubles, in which NaN is not known. Columns share
    their keys while those stay the same.
    """

    keys: tuple[_Key, ...] = ()
    lag_records: bytes = b""
    lag_seconds: bytes = b""
    quiet_seconds: bytes = b""


@dataclass(frozen=True, slots=True)
class TrendMark:
    """Trend mark of one minute. `left_out` is the number of subjects beyond SUBJECTS_MAX.

    Of the columns, `quiet_seconds` is the time since an offset last changed; for flows it is not
    known.
    """

    at: float
    connectors: TrendColumn[ConnectorKey]
    flows: TrendColumn[ConnectorFlowKey]
    left_out: int


TrendMarks = tuple[TrendMark, ...]


def unpack_numbers(packed: bytes) -> tuple[float | None, ...]:
    """Unpack the numbers of a column, with None for those that were not known."""
    numbers = memoryview(packed).cast("d")
    return tuple(None if math.isnan(number) else number for number in numbers)
