"""Limit of the series of all connectors together, and the series that are left out beyond it.

Groups of series are left out in the order of SeriesGroup, and within a group the largest connectors
first. Each is left out as a whole: a sum over a part of its partitions would be wrong. Series of
inputs, of findings and of the daemon itself always stay.

A connector that was left out comes back once all would fit into RETURN_SHARE of the limit. Without
that margin series would come and go with every commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from offsetwatch.decode.dialects import MIRROR_SOURCE
from offsetwatch.model.baselines import QUANTILES
from offsetwatch.model.connect.connectors import STATES, Connector, Task
from offsetwatch.model.findings import Verdict
from offsetwatch.model.series_limits import (
    SERIES_MAX,
    SERIES_PER_CONNECTOR_MAX,
    DroppedSeries,
    SeriesGroup,
    SeriesOwner,
)
from offsetwatch.state.baseline_view import BaselinesByConnector, BaselinesView
from offsetwatch.state.budgets.connector_series import PER_MIRROR_PARTITION, count_partition_series
from offsetwatch.state.snapshot import Snapshot, SourcePartitionView

RETURN_SHARE: Final = 0.9
PER_SYNC: Final = 3
PER_TOPIC: Final = 3  # lag in records and seconds where it is by topic, and recreations
PER_SINK_PARTITION: Final = 2
PER_GROUP_PARTITION: Final = 2
PER_TAIL: Final = 5
# State, tasks by state, info, from_rest and progress; what is usual comes on top.
PER_CONNECTOR: Final = 2 * len(STATES) + 2 + len(Verdict)
PER_BASELINE: Final = 3 * len(QUANTILES)
LEFT_OUT_MAX: Final = 1_000_000  # that are remembered; then they are counted again

_RUNNING: Final = "running"

ConnectorLists = tuple[tuple[Connector, ...], ...]
_SizesByGroup = dict[SeriesGroup, list[tuple[SeriesOwner, int]]]
_LeftOutOwners = frozenset[tuple[SeriesGroup, SeriesOwner]]


@dataclass(frozen=True, slots=True)
class ClusterConnectors:
    """Connectors of one Connect cluster, whether or not their states can be shown now."""

    connect_cluster: str
    connectors: tuple[Connector, ...]


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


@dataclass(frozen=True, slots=True)
class _SourceSeries:
    """Series of source partitions: of MirrorSourceConnectors, and of others."""

    mirrored: Mapping[SeriesOwner, int]
    others: Mapping[SeriesOwner, int]
    total: int


@dataclass(frozen=True, slots=True)
class SeriesLimits:
    """Limits of series in one scrape: of one connector, and of all together."""

    per_connector: int
    total: int


UNLIMITED_SERIES: Final = SeriesLimits(2**31, 2**31)


class TotalSeriesBudget:
    """Limit of the series of all connectors together.

    The limit per connector also applies to the series of its tasks, and to those of a sink's
    partitions. ConnectorSeriesBudget applies it to other partitions.
    """

    def __init__(self, limits: SeriesLimits) -> None:
        self._series_max = limits.total
        self._per_connector_max = limits.per_connector
        self._tasks: tuple[object, _TaskSeries] | None = None
        self._sources: tuple[object, _SourceSeries] | None = None
        self._last: tuple[object, _LeftOutOwners, tuple[DroppedSeries, ...]] | None = None
        self._counted: set[tuple[SeriesGroup, SeriesOwner]] = set()
        self._dropped: Counter[str] = Counter()

    def dropped(self) -> Mapping[str, int]:
        """Return how many series have been left out, by limit. Those of each owner count once."""
        return self._dropped

    def left_out(
        self, snapshot: Snapshot, listed: tuple[ClusterConnectors, ...], layout: tuple[object, ...]
    ) -> tuple[DroppedSeries, ...]:
        """Return the series that are left out of a snapshot.

        Its `by_topic` and `not_exported` are the result of ConnectorSeriesBudget; `layout` is as
        there.
        """
        tasks = self._of_tasks(snapshot.usual, listed)
        sources = self._of_sources(snapshot, layout)
        fixed = sum(
            2 + len(view.errors) + (PER_TAIL if view.tail is not None else 0)
            for view in snapshot.inputs
        )
        most = (
            fixed
            + tasks.total
            + sources.total
            + (PER_MIRROR_PARTITION + PER_TOPIC) * len(snapshot.mirror_partitions)
            + PER_SYNC * len(snapshot.syncs)
            + PER_SINK_PARTITION * len(snapshot.sink_partitions)
            + PER_GROUP_PARTITION * len(snapshot.groups)
            + len(snapshot.checkpoints)
            + len(snapshot.recreations)
        )
        of_sinks = PER_SINK_PARTITION * len(snapshot.sink_partitions)
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
            before = (
                frozenset[tuple[SeriesGroup, SeriesOwner]]()
                if self._last is None
                else self._last[1]
            )
            self._last = (state, *self._found(snapshot, tasks, sources, fixed, before))
        return self._last[2]

    def _found(
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
            *_build_left_out(cut, SERIES_MAX, sizes),
            *_build_left_out(alone, SERIES_PER_CONNECTOR_MAX, sizes),
        )

    def _too_large(self, parts: _SizesByGroup) -> dict[tuple[SeriesGroup, SeriesOwner], int]:
        """Return the size of the groups, by owner, in which a connector exceeds its own limit."""
        running, others = dict(parts[SeriesGroup.RUNNING_TASKS]), dict(parts[SeriesGroup.TASKS])
        found: dict[tuple[SeriesGroup, SeriesOwner], int] = {}
        for owner, size in running.items():
            if size + others.get(owner, 0) > self._per_connector_max:
                found[SeriesGroup.RUNNING_TASKS, owner] = size
        for group in (SeriesGroup.TASKS, SeriesGroup.SINK_PARTITIONS):
            for owner, size in parts[group]:
                if size > self._per_connector_max:
                    found[group, owner] = size
        return found

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

    def _of_tasks(self, usual: BaselinesView, listed: tuple[ClusterConnectors, ...]) -> _TaskSeries:
        state = (usual, listed)
        if self._tasks is None or self._tasks[0] != state:
            self._tasks = (state, _count_tasks(listed, usual.of))
        return self._tasks[1]

    def _of_sources(self, snapshot: Snapshot, layout: tuple[object, ...]) -> _SourceSeries:
        state = (layout, snapshot.not_exported)
        if self._sources is None or self._sources[0] != state:
            self._sources = (state, _count_sources(snapshot))
        return self._sources[1]


def _count_tasks(listed: tuple[ClusterConnectors, ...], usual: BaselinesByConnector) -> _TaskSeries:
    running: dict[SeriesOwner, int] = {}
    others: dict[SeriesOwner, int] = {}
    sound: list[tuple[SeriesOwner, int]] = []
    unsound: list[tuple[SeriesOwner, int]] = []
    for cluster in listed:
        for connector in cluster.connectors:
            owner = (cluster.connect_cluster, connector.name)
            runs = [task for task in connector.tasks if task.state == _RUNNING]
            if runs:
                running[owner] = len(STATES) * len(runs)
            rest = [task for task in connector.tasks if task.state != _RUNNING]
            if rest:
                others[owner] = sum(map(_count_states, rest))
            unknown = {connector.state, *(task.state for task in rest)}.difference(STATES)
            size = PER_CONNECTOR + 2 * len(unknown) + PER_BASELINE * (owner in usual)
            (sound if connector.state == _RUNNING and not rest else unsound).append((owner, size))
    connectors = sound + unsound
    of_tasks = Counter(running) + Counter(others)
    total = of_tasks.total() + sum(size for _, size in connectors)
    return _TaskSeries(running, others, connectors, total, max(of_tasks.values(), default=0))


def _count_states(task: Task) -> int:
    return len(STATES) + (task.state not in STATES)


def _count_sources(snapshot: Snapshot) -> _SourceSeries:
    mirrored: Counter[SeriesOwner] = Counter()
    others: Counter[SeriesOwner] = Counter()
    gone = snapshot.not_exported
    for view in snapshot.source_partitions:
        if gone and (view.connect_cluster, view.connector, view.identity) in gone:
            continue
        counts = mirrored if _is_mirror_partition(view) else others
        counts[view.connect_cluster, view.connector] += count_partition_series(view)
    return _SourceSeries(mirrored, others, mirrored.total() + others.total())


def _is_mirror_partition(view: SourcePartitionView) -> bool:
    return view.dialect == MIRROR_SOURCE.name


def _collect_sizes(snapshot: Snapshot, tasks: _TaskSeries, sources: _SourceSeries) -> _SizesByGroup:
    """Return the series of each owner in each group."""
    flows = {
        (mirror_flow.connect_cluster, mirror_flow.source, mirror_flow.target): mirror_flow
        for mirror_flow in snapshot.topology.flows
    }
    mirrors = {
        (mirror_flow.connect_cluster, mirror_flow.connector)
        for mirror_flow in snapshot.topology.flows
    }
    partitions: Counter[SeriesOwner] = Counter()
    topics: dict[SeriesOwner, set[str]] = {}
    others = Counter(dict(sources.others))
    for owner, size in sources.mirrored.items():
        (partitions if owner in mirrors else others)[owner] += size
    for mirrored in snapshot.mirror_partitions:
        owner = (mirrored.connect_cluster, mirrored.connector)
        partitions[owner] += PER_MIRROR_PARTITION - PER_SYNC
        topics.setdefault(owner, set()).add(mirrored.topic)
    for sync in snapshot.syncs:
        flow = flows.get((sync.connect_cluster, sync.source, sync.target))
        if flow is not None:
            partitions[flow.connect_cluster, flow.connector] += PER_SYNC
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
            {owner: PER_TOPIC * len(found) for owner, found in topics.items()}
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


def _build_left_out(
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
