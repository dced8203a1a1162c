"""Limit of the series of one connector, and the partitions that are left out beyond it.

A replication flow falls back to one series per topic. The sums still show its full lag, while a
part of its partitions would add up to a wrong one. Of any other connector the last partitions in
order are not exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from offsetwatch.decode.dialects import MIRROR_SOURCE
from offsetwatch.model.series_limits import SERIES_PER_CONNECTOR_MAX, DroppedSeries, SeriesGroup
from offsetwatch.model.topology import MirrorFlow
from offsetwatch.state.snapshot import MirrorPartitionView, SourcePartitionView

# Times of commit and advance, four counters. A position for each number, and the time of the change
# at the source where the offset tells it, come on top.
PER_SOURCE_PARTITION: Final = 6
PER_MIRROR_PARTITION: Final = 15  # twelve of the partition, three of its newest sync

LEFT_OUT_MAX: Final = 1_000_000  # partitions that are remembered; then they are counted again

_ConnectorKey = tuple[str, str]
_ConnectorKeys = frozenset[_ConnectorKey]
_Layout = tuple[object, ...]
_MirrorPartitions = tuple[MirrorPartitionView, ...]
_Flows = tuple[MirrorFlow, ...]
_connector_of: Callable[[SourcePartitionView], _ConnectorKey] = attrgetter(
    "connect_cluster", "connector"
)
_flow_of: Callable[[MirrorPartitionView], _ConnectorKey] = attrgetter(
    "connect_cluster", "connector"
)


@dataclass(frozen=True, slots=True)
class ConnectorSeriesSelection:
    """Selection of what is exported. The first two fields are as in Snapshot."""

    by_topic: _ConnectorKeys
    not_exported: frozenset[tuple[str, str, str]]
    left_out: tuple[DroppedSeries, ...] = ()


class ConnectorSeriesBudget:
    """Limit of `series_max` per connector. Each source partition left out is counted once."""

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._left_out: set[tuple[str, str, str]] = set()
        self._cut = 0
        self._last: (
            tuple[_Layout, _MirrorPartitions, _Flows, _ConnectorKeys, ConnectorSeriesSelection]
            | None
        ) = None
        self._used: (
            tuple[_Layout, _ConnectorKeys, _ConnectorKeys, Counter[_ConnectorKey]] | None
        ) = None

    def dropped(self) -> dict[str, int]:
        """Return how many source partitions have been left out, by reason."""
        return {SERIES_PER_CONNECTOR_MAX: self._cut} if self._cut else {}

    def within(
        self,
        views: tuple[SourcePartitionView, ...],
        layout: _Layout,
        mirrored: _MirrorPartitions,
        flows: _Flows,
        by_topic: _ConnectorKeys,
    ) -> ConnectorSeriesSelection:
        """Select what is exported. `by_topic` names the flows that are summed by topic anyway.

        The last result is returned while nothing has changed. `layout` shows whether the views
        have: it is equal for two tuples of the same source partitions with the same number of
        fields each (state/connect/connect_cluster.py), whatever their positions.
        """
        last = self._last
        if (
            last is not None
            and last[1] is mirrored
            and (last[0], *last[2:4]) == (layout, flows, by_topic)
        ):
            return last[4]
        found = self._within(views, layout, mirrored, flows, by_topic)
        self._last = (layout, mirrored, flows, by_topic, found)
        return found

    def _within(
        self,
        views: tuple[SourcePartitionView, ...],
        layout: _Layout,
        mirrored: _MirrorPartitions,
        flows: _Flows,
        by_topic: _ConnectorKeys,
    ) -> ConnectorSeriesSelection:
        mirrors = frozenset((flow.connect_cluster, flow.connector) for flow in flows)
        if self._used is None or self._used[:3] != (layout, mirrors, by_topic):
            self._used = (
                layout,
                mirrors,
                by_topic,
                _count_connector_series(views, mirrors, by_topic),
            )
        used = self._used[3].copy()
        for key, run in groupby(mirrored, key=_flow_of):
            if key not in by_topic:  # what it copies and never committed is no source partition
                used[key] += PER_MIRROR_PARTITION * sum(view.committed is None for view in run)
        over = {key for key, series in used.items() if series > self._series_max}
        summed = by_topic | (over & mirrors)
        fallen_back = summed - by_topic
        gone: frozenset[tuple[str, str, str]] = frozenset()
        if fallen_back:
            gone = frozenset(
                (view.connect_cluster, view.connector, view.identity)
                for view in views
                if _is_mirror_partition(view)
                and (view.connect_cluster, view.connector) in fallen_back
            )
        cut = frozenset(self._beyond(views, over, summed)) if over else frozenset()
        self._count(gone | cut)
        return ConnectorSeriesSelection(
            by_topic=summed, not_exported=cut, left_out=_build_left_out(fallen_back, cut)
        )

    def _count(self, left_out: frozenset[tuple[str, str, str]]) -> None:
        """Count each partition once, even if it is left out again later."""
        self._cut += len(left_out - self._left_out)
        if len(self._left_out) > LEFT_OUT_MAX:
            self._left_out.clear()
        self._left_out |= left_out

    def _beyond(
        self,
        views: Iterable[SourcePartitionView],
        over: set[_ConnectorKey],
        summed: _ConnectorKeys,
    ) -> Iterable[tuple[str, str, str]]:
        used: Counter[_ConnectorKey] = Counter()
        for view in views:
            key = (view.connect_cluster, view.connector)
            if key in over and not (key in summed and _is_mirror_partition(view)):
                used[key] += count_partition_series(view)
                if used[key] > self._series_max:
                    yield (*key, view.identity)


def _build_left_out(
    fallen_back: _ConnectorKeys, cut: frozenset[tuple[str, str, str]]
) -> tuple[DroppedSeries, ...]:
    found = (
        DroppedSeries(SeriesGroup.PARTITIONS, SERIES_PER_CONNECTOR_MAX, fallen_back),
        DroppedSeries(
            SeriesGroup.SOURCE_PARTITIONS,
            SERIES_PER_CONNECTOR_MAX,
            frozenset(key[:2] for key in cut),
            partial=True,
        ),
    )
    return tuple(dropped_series for dropped_series in found if dropped_series.owners)


def _count_connector_series(
    views: Iterable[SourcePartitionView],
    mirrors: _ConnectorKeys,
    by_topic: _ConnectorKeys,
) -> Counter[_ConnectorKey]:
    """Count the series of each connector. Views are sorted, so each connector is looked up once."""
    found: Counter[_ConnectorKey] = Counter()
    for key, run in groupby(views, key=_connector_of):
        if key in by_topic:
            found[key] += sum(
                count_partition_series(view) for view in run if not _is_mirror_partition(view)
            )
            continue
        each = PER_SOURCE_PARTITION + (PER_MIRROR_PARTITION if key in mirrors else 0)
        # Of every partition, whenever another one is shown, so without a call for each.
        fields = [
            0 if view.offset is None else len(view.offset.numbers) + (view.event_at is not None)
            for view in run
        ]
        found[key] += each * len(fields) + sum(fields)
    return found


def count_partition_series(view: SourcePartitionView) -> int:
    """Return the number of series of a source partition, at most."""
    if view.offset is None:
        return PER_SOURCE_PARTITION
    return PER_SOURCE_PARTITION + len(view.offset.numbers) + (view.event_at is not None)


def _is_mirror_partition(view: SourcePartitionView) -> bool:
    return view.dialect == MIRROR_SOURCE.name
