"""One minute of all connectors and flows, packed: the nouns of trends.py, which snapshots carry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

ConnectorKey = tuple[str, str]  # Connect cluster, connector
ConnectorFlowKey = tuple[str, str, str, str]  # the same, source, target

_Key = TypeVar("_Key", bound=tuple[str, ...])


@dataclass(frozen=True, slots=True)
class TrendColumn(Generic[_Key]):
    """All of one kind at one moment: `keys[n]` has the number n of each packed row of doubles, in
    which NaN is not known. Columns share their keys while those stay the same.
    """

    keys: tuple[_Key, ...] = ()
    lag_records: bytes = b""
    lag_seconds: bytes = b""
    quiet_seconds: bytes = b""


@dataclass(frozen=True, slots=True)
class TrendMark:
    """One minute. left_out: how many SUBJECTS_MAX cut.

    quiet_seconds   since an offset changed last; of a flow that is not told
    """

    at: float
    connectors: TrendColumn[ConnectorKey]
    flows: TrendColumn[ConnectorFlowKey]
    left_out: int


TrendMarks = tuple[TrendMark, ...]


def unpack_numbers(packed: bytes) -> tuple[float | None, ...]:
    """The numbers of a column again, None for those that were not known."""
    numbers = memoryview(packed).cast("d")
    return tuple(None if math.isnan(number) else number for number in numbers)
