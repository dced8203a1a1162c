"""Limits of the series of one connector and of all together, and what is left out beyond them.

A replication flow falls back to one series per topic. The sums still show its full lag, while a
part of its partitions would add up to a wrong one. Of any other connector the last partitions in
order are not exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from offsetwatch.decode.dialects import MIRROR_SOURCE
from offsetwatch.model.connectors import STATES, Connector
from offsetwatch.model.findings import Verdict
from offsetwatch.model.history_documents import QUANTILES
from offsetwatch.model.topology import MirrorFlow
from offsetwatch.state.history_documents import BaselinesByConnector
from offsetwatch.state.memo import Memo
from offsetwatch.state.snapshot import (
    SERIES_MAX,
    SERIES_PER_CONNECTOR_MAX,
    DroppedSeries,
    MirrorPartitionView,
    SeriesGroup,
    SeriesOwner,
    Snapshot,
    SourcePartitionView,
)
from offsetwatch.state.snapshot_index import PartitionKey

# Times of commit and advance, four counters. A position for each number, and the time of the change
# at the source where the offset tells it, come on top.
PER_SOURCE_PARTITION: Final = 6
PER_MIRROR_PARTITION: Final = 15  # twelve of the partition, three of its newest sync
PER_SOURCE_END: Final = 8  # at most: no kind of source has all of them

NO_SOURCES: Final[Mapping[PartitionKey, str]] = {}

LEFT_OUT_MAX: Final = 1_000_000  # partitions that are remembered; then they are counted again

_ConnectorKey = tuple[str, str]
_ConnectorKeys = frozenset[_ConnectorKey]
_MirrorPartitions = tuple[MirrorPartitionView, ...]
_Flows = tuple[MirrorFlow, ...]
_connector_of: Callable[[SourcePartitionView | MirrorPartitionView], _ConnectorKey] = attrgetter(
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
        self._last: Memo[ConnectorSeriesSelection] = Memo()
        self._used: Memo[Counter[_ConnectorKey]] = Memo()

    def dropped(self) -> dict[str, int]:
        """Return how many source partitions have been left out, by reason."""
        return {SERIES_PER_CONNECTOR_MAX: self._cut} if self._cut else {}

    def select(
        self,
        views: tuple[SourcePartitionView, ...],
        layout: object,
        mirrored: _MirrorPartitions,
        flows: _Flows,
        by_topic: _ConnectorKeys,
        with_ends: Mapping[PartitionKey, str] = NO_SOURCES,
    ) -> ConnectorSeriesSelection:
        """Select what is exported. `by_topic` names the flows that are summed by topic anyway, and
        `with_ends` the source partitions whose ends are read (Snapshot.source_names).

        The last result is returned while nothing has changed. `layout` shows whether the views
        have: it is the same for two tuples of the same source partitions with the same number of
        fields each (state/connect/connect_cluster.py), whatever their positions.
        """
        return self._last.get(
            *(layout, mirrored, flows, by_topic, with_ends),
            make=lambda: self._select(views, layout, mirrored, flows, by_topic, with_ends),
        )

    def _select(
        self,
        views: tuple[SourcePartitionView, ...],
        layout: object,
        mirrored: _MirrorPartitions,
        flows: _Flows,
        by_topic: _ConnectorKeys,
        with_ends: Mapping[PartitionKey, str],
    ) -> ConnectorSeriesSelection:
        mirrors = frozenset(flow.connector_key for flow in flows)
        used = self._used.get(
            *(layout, flows, by_topic),
            make=lambda: _count_connector_series(views, mirrors, by_topic),
        ).copy()
        for key, run in groupby(mirrored, key=_connector_of):
            if key not in by_topic:  # what it copies and never committed is no source partition
                used[key] += PER_MIRROR_PARTITION * sum(view.committed is None for view in run)
        for cluster, connector, _ in with_ends:
            used[cluster, connector] += PER_SOURCE_END
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
        cut = frozenset(self._beyond(views, over, summed, with_ends)) if over else frozenset()
        # Each partition counts once, even if it is left out again later.
        self._cut += len((gone | cut) - self._left_out)
        if len(self._left_out) > LEFT_OUT_MAX:
            self._left_out.clear()
        self._left_out |= gone | cut
        limit, owners = SERIES_PER_CONNECTOR_MAX, frozenset(key[:2] for key in cut)
        left_out = (
            DroppedSeries(SeriesGroup.PARTITIONS, limit, fallen_back),
            DroppedSeries(SeriesGroup.SOURCE_PARTITIONS, limit, owners, partial=True),
        )
        return ConnectorSeriesSelection(
            by_topic=summed,
            not_exported=cut,
            left_out=tuple(dropped for dropped in left_out if dropped.owners),
        )

    def _beyond(
        self,
        views: Iterable[SourcePartitionView],
        over: set[_ConnectorKey],
        summed: _ConnectorKeys,
        with_ends: Mapping[PartitionKey, str],
    ) -> Iterable[tuple[str, str, str]]:
        used: Counter[_ConnectorKey] = Counter()
        for view in views:
            key = (view.connect_cluster, view.connector)
            if key in over and not (key in summed and _is_mirror_partition(view)):
                used[key] += count_partition_series(view)
                used[key] += PER_SOURCE_END * ((*key, view.identity) in with_ends)
                if used[key] > self._series_max:
                    yield (*key, view.identity)


def _count_connector_series(
    views: Iterable[SourcePartitionView],
    mirrors: _ConnectorKeys,
    by_topic: _ConnectorKeys,
) -> Counter[_ConnectorKey]:
    """Count the series of each connector. Views are sorted, so each connector is looked up once."""
    counts: Counter[_ConnectorKey] = Counter()
    for key, run in groupby(views, key=_connector_of):
        if key in by_topic:
            counts[key] += sum(
                count_partition_series(view) for view in run if not _is_mirror_partition(view)
            )
            continue
        each = PER_SOURCE_PARTITION + (PER_MIRROR_PARTITION if key in mirrors else 0)
        # Of every partition, whenever another one is shown, so without a call for each.
        fields = [
            0 if view.offset is None else len(view.offset.numbers) + (view.event_at is not None)
            for view in run
        ]
        counts[key] += each * len(fields) + sum(fields)
    return counts


def count_partition_series(view: SourcePartitionView) -> int:
    """Return the number of series of a source partition, at most."""
    if view.offset is None:
        return PER_SOURCE_PARTITION
    return PER_SOURCE_PARTITION + len(view.offset.numbers) + (view.event_at is not None)


def _is_mirror_partition(view: SourcePartitionView) -> bool:
    return view.dialect == MIRROR_SOURCE.name


RETURN_SHARE: Final = 0.9
PER_SYNC: Final = 3
PER_TOPIC: Final = 3  # lag in records and seconds where it is by topic, and recreations
PER_SINK_PARTITION: Final = 2
PER_GROUP_PARTITION: Final = 2
PER_TAIL: Final = 5
# State, tasks by state, info, from_rest and progress; what is usual comes on top.
PER_CONNECTOR: Final = 2 * len(STATES) + 2 + len(Verdict)
PER_BASELINE: Final = 3 * len(QUANTILES)

_RUNNING: Final = "running"

_SizesByGroup = dict[SeriesGroup, list[tuple[SeriesOwner, int]]]
_LeftOutOwners = frozenset[tuple[SeriesGroup, SeriesOwner]]


# By Connect cluster, whether or not their states can be shown now.
ListedConnectors = tuple[tuple[str, tuple[Connector, ...]], ...]


@dataclass(frozen=True, slots=True)
class _TaskSeries:
    """Series of running tasks, of other tasks, and of connectors.

    connectors    sorted: first those that run with all of their tasks
    total         of all of them
    largest       of the tasks of one connector
    """

    running: Mapping[SeriesOwner, int]
    others: Mapping[SeriesOwner, int]
    connectors: list[tuple[SeriesOwner, int]]
    total: int
    largest: int


# Of MirrorSourceConnectors, and of others.
_SourceSeries = tuple[Counter[SeriesOwner], Counter[SeriesOwner]]


@dataclass(frozen=True, slots=True)
class SeriesLimits:
    """Limits of series in one scrape: of one connector, and of all together."""

    per_connector: int
    total: int


UNLIMITED_SERIES: Final = SeriesLimits(2**31, 2**31)


class TotalSeriesBudget:
    """Limit of the series of all connectors together.

    Groups of series are left out in the order of SeriesGroup, and within a group the largest
    connectors first. Each is left out as a whole: a sum over a part of its partitions would be
    wrong. Series of inputs, of findings and of the daemon itself always stay. A connector comes
    back once all would fit into RETURN_SHARE of the limit: else series would come and go with every
    commit.

    The limit per connector also applies to the series of its tasks, and to those of a sink's
    partitions. ConnectorSeriesBudget applies it to other partitions.
    """

    def __init__(self, limits: SeriesLimits) -> None:
        self._series_max = limits.total
        self._per_connector_max = limits.per_connector
        self._tasks: Memo[_TaskSeries] = Memo()
        self._sources: Memo[_SourceSeries] = Memo()
        self._last: tuple[object, _LeftOutOwners, tuple[DroppedSeries, ...]] | None = None
        self._counted: set[tuple[SeriesGroup, SeriesOwner]] = set()
        self._dropped: Counter[str] = Counter()

    def dropped(self) -> Mapping[str, int]:
        """Return how many series have been left out, by limit. Those of each owner count once."""
        return self._dropped

    def left_out(
        self, snapshot: Snapshot, listed: ListedConnectors, layout: object
    ) -> tuple[DroppedSeries, ...]:
        """Return the series that are left out of a snapshot with ConnectorSeriesBudget's result."""
        tasks = self._tasks.get(
            snapshot.baselines,
            *(connectors for _, connectors in listed),
            make=lambda: _count_tasks(listed, snapshot.baselines.of),
        )
        sources = self._sources.get(
            layout, snapshot.not_exported, make=lambda: _count_sources(snapshot)
        )
        fixed = sum(
            2 + len(view.errors) + (PER_TAIL if view.tail is not None else 0)
            for view in snapshot.inputs
        )
        of_sinks = PER_SINK_PARTITION * len(snapshot.sink_partitions)
        most = (
            fixed
            + tasks.total
            + sum(counts.total() for counts in sources)
            + PER_SOURCE_END * len(snapshot.source_names)
            + (PER_MIRROR_PARTITION + PER_TOPIC) * len(snapshot.mirror_partitions)
            + PER_SYNC * len(snapshot.syncs)
            + of_sinks
            + PER_GROUP_PARTITION * len(snapshot.groups)
            + len(snapshot.checkpoints)
            + len(snapshot.recreations)
        )
        if (
            most <= self._series_max * RETURN_SHARE
            and max(tasks.largest, of_sinks) <= self._per_connector_max
        ):
            self._last = None
            return ()
        # Of the same partitions and connectors the same is left out, however far they have come.
        state = (
            *(most, listed, layout),
            *(snapshot.by_topic, snapshot.not_exported, snapshot.topology.flows),
        )
        if self._last is None or self._last[0] != state:
            before = _LeftOutOwners() if self._last is None else self._last[1]
            self._last = (state, *self._select(snapshot, tasks, sources, fixed, before))
        return self._last[2]

    def _select(
        self,
        snapshot: Snapshot,
        tasks: _TaskSeries,
        sources: _SourceSeries,
        fixed: int,
        before: _LeftOutOwners,
    ) -> tuple[_LeftOutOwners, tuple[DroppedSeries, ...]]:
        parts = _collect_sizes(snapshot, tasks, sources)
        alone = self._too_large(parts)
        for group, owner in alone:
            parts[group] = [part for part in parts[group] if part[0] != owner]
        total = fixed + sum(size for group in parts.values() for _, size in group)
        cut = frozenset(_select_left_out(parts, total, self._series_max))
        if before:
            cut |= before & frozenset(
                _select_left_out(parts, total, self._series_max * RETURN_SHARE)
            )
        sizes = {(group, owner): size for group, of in parts.items() for owner, size in of}
        sizes |= alone
        self._count(cut, SERIES_MAX, sizes)
        self._count(alone, SERIES_PER_CONNECTOR_MAX, sizes)
        return cut, (
            *_build_dropped_series(cut, SERIES_MAX, sizes),
            *_build_dropped_series(alone, SERIES_PER_CONNECTOR_MAX, sizes),
        )

    def _too_large(self, parts: _SizesByGroup) -> dict[tuple[SeriesGroup, SeriesOwner], int]:
        """Return the size of the groups, by owner, in which a connector exceeds its own limit."""
        running, others = dict(parts[SeriesGroup.RUNNING_TASKS]), dict(parts[SeriesGroup.TASKS])
        sizes: dict[tuple[SeriesGroup, SeriesOwner], int] = {}
        for owner, size in running.items():
            if size + others.get(owner, 0) > self._per_connector_max:
                sizes[SeriesGroup.RUNNING_TASKS, owner] = size
        for group in (SeriesGroup.TASKS, SeriesGroup.SINK_PARTITIONS):
            for owner, size in parts[group]:
                if size > self._per_connector_max:
                    sizes[group, owner] = size
        return sizes

    def _count(
        self,
        cut: Iterable[tuple[SeriesGroup, SeriesOwner]],
        limit: str,
        sizes: Mapping[tuple[SeriesGroup, SeriesOwner], int],
    ) -> None:
        new = [item for item in cut if item not in self._counted]
        if len(self._counted) + len(new) > LEFT_OUT_MAX:
            self._counted.clear()
        self._counted.update(new)
        if new:
            self._dropped[limit] += sum(sizes[item] for item in new)


def _count_tasks(listed: ListedConnectors, baselines: BaselinesByConnector) -> _TaskSeries:
    running: dict[SeriesOwner, int] = {}
    others: dict[SeriesOwner, int] = {}
    sound: list[tuple[SeriesOwner, int]] = []
    unsound: list[tuple[SeriesOwner, int]] = []
    for cluster, connectors_listed in listed:
        for connector in connectors_listed:
            owner = (cluster, connector.name)
            runs = [task for task in connector.tasks if task.state == _RUNNING]
            if runs:
                running[owner] = len(STATES) * len(runs)
            rest = [task for task in connector.tasks if task.state != _RUNNING]
            if rest:
                others[owner] = sum(len(STATES) + (task.state not in STATES) for task in rest)
            unknown = {connector.state, *(task.state for task in rest)}.difference(STATES)
            size = PER_CONNECTOR + 2 * len(unknown) + PER_BASELINE * (owner in baselines)
            (sound if connector.state == _RUNNING and not rest else unsound).append((owner, size))
    connectors = sound + unsound
    of_tasks = Counter(running) + Counter(others)
    total = of_tasks.total() + sum(size for _, size in connectors)
    return _TaskSeries(running, others, connectors, total, max(of_tasks.values(), default=0))


def _count_sources(snapshot: Snapshot) -> _SourceSeries:
    mirrored: Counter[SeriesOwner] = Counter()
    others: Counter[SeriesOwner] = Counter()
    gone = snapshot.not_exported
    for view in snapshot.source_partitions:
        if gone and (view.connect_cluster, view.connector, view.identity) in gone:
            continue
        counts = mirrored if _is_mirror_partition(view) else others
        counts[view.connect_cluster, view.connector] += count_partition_series(view)
    return mirrored, others


def _collect_sizes(snapshot: Snapshot, tasks: _TaskSeries, sources: _SourceSeries) -> _SizesByGroup:
    flows = {flow.key: flow for flow in snapshot.topology.flows}
    mirrors = {flow.connector_key for flow in snapshot.topology.flows}
    partitions: Counter[SeriesOwner] = Counter()
    topics: dict[SeriesOwner, set[str]] = {}
    mirrored_sizes, other_sizes = sources
    others = other_sizes.copy()
    for owner, size in mirrored_sizes.items():
        (partitions if owner in mirrors else others)[owner] += size
    for key in snapshot.source_names:
        if key not in snapshot.not_exported:
            others[key[:2]] += PER_SOURCE_END
    for mirrored in snapshot.mirror_partitions:
        owner = (mirrored.connect_cluster, mirrored.connector)
        partitions[owner] += PER_MIRROR_PARTITION - PER_SYNC
        topics.setdefault(owner, set()).add(mirrored.topic)
    for sync in snapshot.syncs:
        flow = flows.get((sync.connect_cluster, sync.source, sync.target))
        if flow is not None:
            partitions[flow.connector_key] += PER_SYNC
    for owner in snapshot.by_topic:
        del partitions[owner]
    sinks = Counter[SeriesOwner](
        (partition.connect_cluster, partition.connector) for partition in snapshot.sink_partitions
    )
    groups: Counter[SeriesOwner] = Counter()
    for group in snapshot.groups:
        groups[group.connect_cluster, group.source, group.target] += PER_GROUP_PARTITION
    for checkpoint in snapshot.checkpoints:
        groups[checkpoint.connect_cluster, checkpoint.source, checkpoint.target] += 1
    return {
        SeriesGroup.RUNNING_TASKS: _sort_largest_first(tasks.running),
        SeriesGroup.FAILOVER: _sort_largest_first(groups),
        SeriesGroup.PARTITIONS: _sort_largest_first(partitions),
        SeriesGroup.SOURCE_PARTITIONS: _sort_largest_first(others),
        SeriesGroup.SINK_PARTITIONS: _sort_largest_first(
            {owner: PER_SINK_PARTITION * count for owner, count in sinks.items()}
        ),
        SeriesGroup.TOPICS: _sort_largest_first(
            {owner: PER_TOPIC * len(names) for owner, names in topics.items()}
        ),
        SeriesGroup.TASKS: _sort_largest_first(tasks.others),
        SeriesGroup.CONNECTORS: tasks.connectors,
    }


def _sort_largest_first(sizes: Mapping[SeriesOwner, int]) -> list[tuple[SeriesOwner, int]]:
    return sorted(sizes.items(), key=lambda item: (-item[1], item[0]))


def _select_left_out(
    parts: _SizesByGroup, total: int, room: float
) -> Iterable[tuple[SeriesGroup, SeriesOwner]]:
    for group in SeriesGroup:
        for owner, size in parts[group]:
            if total <= room:
                return
            total -= size
            yield group, owner


def _build_dropped_series(
    cut: Iterable[tuple[SeriesGroup, SeriesOwner]],
    limit: str,
    sizes: Mapping[tuple[SeriesGroup, SeriesOwner], int],
) -> Iterable[DroppedSeries]:
    by_group: dict[SeriesGroup, list[SeriesOwner]] = {}
    for group, owner in cut:
        by_group.setdefault(group, []).append(owner)
    for group in SeriesGroup:
        if group in by_group:
            owners = by_group[group]
            series = sum(sizes[group, owner] for owner in owners)
            yield DroppedSeries(group, limit, frozenset(owners), series)
