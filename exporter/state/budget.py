"""How many series one connector may have, and what gives way beyond that. Called by the book only.

A replication flow falls back to one series per topic: summed up it still says how far behind it is,
while some of its partitions alone would add up to a lag that is wrong. Of any other connector the
partitions that come last are not exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from exporter.model.topology import MirrorFlow
from exporter.state.snapshot import SourcePartitionView

PER_SOURCE_PARTITION: Final = 6  # times of commit and advance, four counters; positions come on top
PER_MIRROR_PARTITION: Final = 8  # five of the partition, three of its newest sync

_Connector = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Within:
    """What fits. See Snapshot for the two."""

    by_topic: frozenset[_Connector]
    not_exported: frozenset[tuple[str, str, str]]


class Budget:
    """`series_max` per connector. Counts each source partition once, when it is first left out."""

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._left_out: frozenset[tuple[str, str, str]] = frozenset()
        self._cut = 0
        self._last: (
            tuple[
                tuple[SourcePartitionView, ...],
                tuple[MirrorFlow, ...],
                frozenset[_Connector],
                Within,
            ]
            | None
        ) = None

    def dropped(self) -> dict[str, int]:
        """How many source partitions have been left out, by reason."""
        return {"series_per_connector_max": self._cut} if self._cut else {}

    def within(
        self,
        views: tuple[SourcePartitionView, ...],
        flows: tuple[MirrorFlow, ...],
        by_topic: frozenset[_Connector],
    ) -> Within:
        """`by_topic` names the flows that are summed up anyway. Answered from memory while nothing
        has changed.
        """
        if (
            self._last is not None
            and self._last[0] is views
            and self._last[1:3] == (flows, by_topic)
        ):
            return self._last[3]
        found = self._within(views, flows, by_topic)
        self._last = (views, flows, by_topic, found)
        return found

    def _within(
        self,
        views: tuple[SourcePartitionView, ...],
        flows: tuple[MirrorFlow, ...],
        by_topic: frozenset[_Connector],
    ) -> Within:
        mirrors = frozenset((flow.connect_cluster, flow.connector) for flow in flows)
        sizes = Counter((view.connect_cluster, view.connector) for view in views)
        # Most connectors are far below any budget: do not count their fields.
        suspects = {at for at, size in sizes.items() if size * 16 > self._series_max}
        over = {at for at in suspects if self._series(at, views, mirrors) > self._series_max}
        summed = by_topic | (over & mirrors)
        cut = frozenset(self._beyond(views, over - mirrors))
        hidden = cut | {
            (view.connect_cluster, view.connector, view.identity)
            for view in views
            if (view.connect_cluster, view.connector) in over & mirrors
        }
        self._cut += len(hidden - self._left_out)
        self._left_out = hidden
        return Within(by_topic=summed, not_exported=cut)

    @staticmethod
    def _series(
        at: _Connector, views: Iterable[SourcePartitionView], mirrors: frozenset[_Connector]
    ) -> int:
        extra = PER_MIRROR_PARTITION if at in mirrors else 0
        return sum(
            _series_of(view) + extra
            for view in views
            if (view.connect_cluster, view.connector) == at
        )

    def _beyond(
        self, views: Iterable[SourcePartitionView], over: set[_Connector]
    ) -> Iterable[tuple[str, str, str]]:
        used: Counter[_Connector] = Counter()
        for view in views:
            at = (view.connect_cluster, view.connector)
            if at in over:
                used[at] += _series_of(view)
                if used[at] > self._series_max:
                    yield (*at, view.identity)


def _series_of(view: SourcePartitionView) -> int:
    fields = 0 if view.offset is None else len(view.offset.numbers)
    return PER_SOURCE_PARTITION + fields
