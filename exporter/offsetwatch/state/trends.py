"""Trends of the last hour: one mark a minute of every connector and flow, for sparklines.

Pure and bounded. The loop owns them; readers get the marks, which never change. They begin empty
with the process, and a minute that was missed, or not known, stays a gap. For anything older use
the history pipeline.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Final, TypeVar

from offsetwatch.state import totals
from offsetwatch.state.snapshot import Snapshot
from offsetwatch.state.totals import PartitionTotals
from offsetwatch.state.trend_marks import TrendColumn, TrendMark, TrendMarks

MARK_INTERVAL_S: Final = 60.0
MARKS_MAX: Final = 60
SPAN_S: Final = MARKS_MAX * MARK_INTERVAL_S
# A mark of one is 24 bytes: an hour of so many connectors, and of as many flows, stays below 15 MB.
SUBJECTS_MAX: Final = 5_000
_EXACT_MAX: Final = 2**53  # beyond it a number would be rounded, and is a gap instead

_Key = TypeVar("_Key", bound=tuple[str, ...])


class Trends:
    """Trends of the last hour, one mark a minute."""

    def __init__(self) -> None:
        self._marks: TrendMarks = ()

    @property
    def marks(self) -> TrendMarks:
        """Return the marks, oldest first."""
        return self._marks

    def see(self, snapshot: Snapshot) -> TrendMarks:
        """Add a mark if a new minute has begun, and drop marks older than an hour.

        Returns the marks.
        """
        now, newest = snapshot.at, self._marks[-1].at if self._marks else None
        if newest is not None and now // MARK_INTERVAL_S == newest // MARK_INTERVAL_S:
            return self._marks
        # A clock that was set back leaves marks of a time that is still to come: of no use.
        kept = tuple(mark for mark in self._marks if now - SPAN_S < mark.at <= now)
        self._marks = (*kept[1 - MARKS_MAX :], _build_mark(snapshot, kept[-1] if kept else None))
        return self._marks


def _build_mark(snapshot: Snapshot, before: TrendMark | None) -> TrendMark:
    connectors, flows = (
        totals.compute_connector_totals(snapshot),
        totals.compute_flow_totals(snapshot),
    )
    return TrendMark(
        at=snapshot.at,
        connectors=_build_column(connectors, before.connectors if before else None, snapshot.at),
        flows=_build_column(flows, before.flows if before else None, snapshot.at),
        left_out=sum(max(0, len(found) - SUBJECTS_MAX) for found in (connectors, flows)),
    )


def _build_column(
    found: Mapping[_Key, PartitionTotals], before: TrendColumn[_Key] | None, moment: float
) -> TrendColumn[_Key]:
    keys = tuple(sorted(found)[:SUBJECTS_MAX])
    if before is not None:
        # Equal keys are the same objects: they would weigh more than what is kept of them.
        same = {key: key for key in before.keys}
        keys = before.keys if before.keys == keys else tuple(same.get(key, key) for key in keys)
    rows = [found[key] for key in keys]
    return TrendColumn(
        keys=keys,
        lag_records=_pack_numbers([row.lag_records for row in rows]),
        lag_seconds=_pack_numbers([row.lag_seconds for row in rows]),
        quiet_seconds=_pack_numbers(
            [
                None if row.advanced_at is None else max(0.0, moment - row.advanced_at)
                for row in rows
            ]
        ),
    )


def _pack_numbers(values: list[int | None] | list[float | None]) -> bytes:
    known = (math.nan if value is None or value > _EXACT_MAX else float(value) for value in values)
    return array("d", known).tobytes()
