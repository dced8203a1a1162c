"""Totals of connectors and flows over all of their partitions, and their trends. Pure.

Used for the status page: totals now, and one mark a minute for the last hour. If a part of a sum is
not known, the sum is None: it would be too small.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from offsetwatch.model.topology import MirrorFlow
from offsetwatch.state.mirror.lag import compute_lag_seconds
from offsetwatch.state.snapshot import (
    ConnectorFlowKey,
    Loss,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourceEndView,
    TopicRecreation,
    TrendColumn,
    TrendMark,
    TrendMarks,
)
from offsetwatch.state.snapshot_index import ConnectorKey

_View = TypeVar("_View")
_Key = TypeVar("_Key", bound=Hashable)
_LagView = MirrorPartitionView | SinkPartitionView
_LateView = _LagView | SourceEndView


@dataclass(frozen=True, slots=True)
class PartitionTotals:
    """Totals of the partitions of a connector or a flow. None means not known.

    partitions      number of known partitions
    position        of the only partition, as the connector stores it; None where there are several
    committed_at    of the newest commit of all
    advanced_at     of the newest commit of all that changed its offset
    lag_records     the sum of all, unless one of them is not known; sources do not count records
    lag_seconds     the greatest of all, unless one of them is not known
    """

    partitions: int
    position: str | None = None
    committed_at: float | None = None
    advanced_at: float | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None


NO_PARTITIONS = PartitionTotals(partitions=0)


def compute_connector_totals(snapshot: Snapshot) -> dict[ConnectorKey, PartitionTotals]:
    """Return the totals of every connector that has a partition."""
    index = snapshot.index
    totals: dict[ConnectorKey, PartitionTotals] = {}
    for key, sources in index.source_partitions.items():
        offset = sources[0].offset if len(sources) == 1 else None
        ends = [end for view in sources if (end := index.source_ends.get((*key, view.identity)))]
        totals[key] = PartitionTotals(
            partitions=len(sources),
            position=None if offset is None else offset.text,
            committed_at=_find_newest(view.committed_at for view in sources),
            advanced_at=_find_newest(view.advanced_at for view in sources),
            lag_seconds=_find_greatest_lag_age(ends, snapshot.at)
            if len(ends) == len(sources)
            else None,
        )
    for key, copied in index.mirror_partitions.items():
        totals[key] = _sum_mirrored(
            copied, totals.get(key), snapshot.at, whole=key not in snapshot.partial
        )
    for key, consumed in index.sink_partitions.items():
        committed = consumed[0].committed if len(consumed) == 1 else None
        totals[key] = PartitionTotals(
            partitions=len(consumed),
            position=None if committed is None else str(committed),
            lag_records=_sum_lag(consumed),
            lag_seconds=_find_greatest_lag_age(consumed, snapshot.at),
        )
    return totals


def compute_flow_totals(snapshot: Snapshot) -> dict[ConnectorFlowKey, PartitionTotals]:
    """Return the totals of every flow that has a partition."""
    return {
        key: _sum_mirrored(views, None, snapshot.at, whole=key[:2] not in snapshot.partial)
        for key, views in group_views(snapshot.mirror_partitions, flow_of).items()
    }


def flow_of(
    part: MirrorFlow | MirrorPartitionView | Loss | TopicRecreation,
) -> ConnectorFlowKey:
    """Return the key of a flow, or of the flow that a view, loss or recreation belongs to."""
    return (part.connect_cluster, part.connector, part.source, part.target)


def _sum_mirrored(
    views: Sequence[MirrorPartitionView],
    stored: PartitionTotals | None,
    moment: float,
    *,
    whole: bool,
) -> PartitionTotals:
    """Sum the views of a connector or a flow.

    `stored` has the totals of the connector's source offsets, which have times that the views lack.
    """
    only = views[0].replicated if len(views) == 1 else None
    return PartitionTotals(
        partitions=len(views),
        position=None if only is None else str(only),
        committed_at=_find_newest(view.committed_at for view in views),
        advanced_at=None if stored is None else stored.advanced_at,
        lag_records=_sum_lag(views) if whole else None,
        lag_seconds=_find_greatest_lag_age(views, moment) if whole else None,
    )


def _find_newest(times: Iterable[float | None]) -> float | None:
    return max((time for time in times if time is not None), default=None)


def _sum_lag(views: Sequence[_LagView]) -> int | None:
    known = [view.lag for view in views if view.lag is not None]
    return sum(known) if len(known) == len(views) else None


def _find_greatest_lag_age(views: Sequence[_LateView], moment: float) -> float | None:
    ages = [
        compute_lag_seconds(view.behind_since, moment, caught_up=view.caught_up) for view in views
    ]
    known = [age for age in ages if age is not None]
    return max(known) if len(known) == len(ages) else None


def group_views(views: Iterable[_View], key_of: Callable[[_View], _Key]) -> dict[_Key, list[_View]]:
    """Group views by their key, in their order."""
    grouped: defaultdict[_Key, list[_View]] = defaultdict(list)
    for view in views:
        grouped[key_of(view)].append(view)
    return dict(grouped)


MARK_INTERVAL_S: Final = 60.0
MARKS_MAX: Final = 60
SPAN_S: Final = MARKS_MAX * MARK_INTERVAL_S
# A mark of one is 24 bytes: an hour of so many connectors, and of as many flows, stays below 15 MB.
SUBJECTS_MAX: Final = 5_000
_EXACT_MAX: Final = 2**53  # beyond it a number would be rounded, and is a gap instead

_Owner = TypeVar("_Owner", bound=tuple[str, ...])


class Trends:
    """Trends of the last hour: one mark a minute of every connector and flow, for sparklines.

    Bounded. They begin empty with the process, and a minute that was missed, or not known, stays a
    gap. For anything older use the history pipeline.
    """

    def __init__(self) -> None:
        self.marks: TrendMarks = ()
        """Oldest first."""

    def add(self, snapshot: Snapshot) -> TrendMarks:
        """Add a mark if a minute has begun, drop marks older than an hour, and return the marks."""
        now, newest = snapshot.at, self.marks[-1].at if self.marks else None
        if newest is None or now // MARK_INTERVAL_S != newest // MARK_INTERVAL_S:
            # A clock that was set back leaves marks of a time that is still to come: of no use.
            recent = [mark for mark in self.marks if now - SPAN_S < mark.at <= now]
            mark = _build_mark(snapshot, recent[-1] if recent else None)
            self.marks = (*recent[1 - MARKS_MAX :], mark)
        return self.marks


def _build_mark(snapshot: Snapshot, before: TrendMark | None) -> TrendMark:
    connectors, flows = compute_connector_totals(snapshot), compute_flow_totals(snapshot)
    return TrendMark(
        at=snapshot.at,
        connectors=_build_column(connectors, before.connectors if before else None, snapshot.at),
        flows=_build_column(flows, before.flows if before else None, snapshot.at),
        left_out=sum(max(0, len(owners) - SUBJECTS_MAX) for owners in (connectors, flows)),
    )


def _build_column(
    totals: Mapping[_Owner, PartitionTotals],
    before: TrendColumn[_Owner] | None,
    moment: float,
) -> TrendColumn[_Owner]:
    keys = tuple(sorted(totals)[:SUBJECTS_MAX])
    if before is not None:
        # Equal keys are the same objects: they would weigh more than what is kept of them.
        same = {key: key for key in before.keys}
        keys = before.keys if before.keys == keys else tuple(same.get(key, key) for key in keys)
    rows = [totals[key] for key in keys]
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


def unpack_numbers(packed: bytes) -> tuple[float | None, ...]:
    """Unpack the numbers of a column, with None for those that were not known."""
    numbers = memoryview(packed).cast("d")
    return tuple(None if math.isnan(number) else number for number in numbers)
