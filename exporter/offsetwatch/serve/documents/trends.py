"""The document /api/v1/trends: lag and commits of the last hour, a value for each minute.

    at                 of the newest minute; null before the first
    since              of the oldest one in memory: after a start it is that start
    every_s            interval between minutes, if none is missing
    minutes            time of each, oldest first; a missing minute was not recorded
    left_out           how many connectors and flows a bound cut in the newest minute
    connectors         [{connect_cluster, name, lag_seconds, lag_records, quiet_seconds}]
    flows              [{connect_cluster, connector, source, target, lag_seconds, lag_records,
                         quiet_seconds}]

Each measure is a list with a value for every minute, null where it was not known. The list is null
if it never was. `quiet_seconds` is the time since the newest commit that changed an offset. Seconds
are whole. The hour is in memory alone: a restart or a reload begins a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from offsetwatch import documents
from offsetwatch.model.moments import Moment
from offsetwatch.serve.documents.types import TrendsBody, TrendSeries
from offsetwatch.state.snapshot import (
    ConnectorFlowKey,
    Snapshot,
    TrendColumn,
    TrendMark,
    TrendMarks,
)
from offsetwatch.state.snapshot_index import ConnectorKey
from offsetwatch.state.totals import MARK_INTERVAL_S, unpack_numbers

MinuteValues = list[int | None]

_MEASURES: Final = ("lag_seconds", "lag_records", "quiet_seconds")

Key = TypeVar("Key", ConnectorKey, ConnectorFlowKey)


def encode_trends(snapshot: Snapshot) -> bytes:
    """Return the body of /api/v1/trends."""
    marks = snapshot.trends
    body: TrendsBody = {
        "at": Moment(marks[-1].at) if marks else None,
        "since": Moment(marks[0].at) if marks else None,
        "every_s": MARK_INTERVAL_S,
        "minutes": [Moment(mark.at) for mark in marks],
        "left_out": marks[-1].left_out if marks else 0,
        "connectors": [
            {"connect_cluster": cluster, "name": name, **series}
            for (cluster, name), series in _build_rows(marks, lambda mark: mark.connectors)
        ],
        "flows": [
            {
                "connect_cluster": cluster,
                "connector": connector,
                "source": source,
                "target": target,
                **series,
            }
            for (cluster, connector, source, target), series in _build_rows(
                marks, lambda mark: mark.flows
            )
        ],
    }
    return documents.encode(body)


def compute_version(snapshot: Snapshot) -> str:
    """Return a text that changes when the document does."""
    marks = snapshot.trends
    return "none" if not marks else f"{marks[0].at!r}-{marks[-1].at!r}-{len(marks)}"


def _build_rows(
    marks: TrendMarks, column_of: Callable[[TrendMark], TrendColumn[Key]]
) -> list[tuple[Key, TrendSeries]]:
    """Return the series of each connector or flow of the newest minute."""
    if not marks:
        return []
    newest = column_of(marks[-1]).keys
    series: dict[str, list[MinuteValues]] = {
        measure: [[None] * len(marks) for _ in newest] for measure in _MEASURES
    }
    row_of = {key: row for row, key in enumerate(newest)}
    for number, mark in enumerate(marks):
        column = column_of(mark)
        rows = range(len(newest)) if column.keys is newest else map(row_of.get, column.keys)
        at = list(rows)
        for measure, values in series.items():
            for row, value in zip(at, unpack_numbers(getattr(column, measure)), strict=True):
                if row is not None and value is not None:
                    values[row][number] = round(value)
    return [
        (
            key,
            {
                "lag_seconds": _omit_empty_values(series["lag_seconds"][row]),
                "lag_records": _omit_empty_values(series["lag_records"][row]),
                "quiet_seconds": _omit_empty_values(series["quiet_seconds"][row]),
            },
        )
        for row, key in enumerate(newest)
    ]


def _omit_empty_values(values: MinuteValues) -> MinuteValues | None:
    return None if all(value is None for value in values) else values
