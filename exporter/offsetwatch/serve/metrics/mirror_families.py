"""Snapshot -> the metric families of replication flows, for families.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsetwatch.model.topology import FlowKey
from offsetwatch.serve.metrics import catalog_mirrors as catalog
from offsetwatch.serve.metrics.metric import (
    Family,
    LabelColumns,
    Labels,
    build_family,
    build_family_of_counts,
    build_family_of_rows,
)
from offsetwatch.state.mirror.lag import compute_lag_seconds
from offsetwatch.state.snapshot import (
    CheckpointView,
    GroupView,
    HeartbeatView,
    MirrorPartitionView,
    SeriesGroup,
    Snapshot,
    SyncView,
)
from offsetwatch.state.totals import flow_of


def collect_mirror_partitions(snapshot: Snapshot) -> Iterator[Family]:
    """Yield replicated upstream partitions, except those exported by topic."""
    views: Sequence[MirrorPartitionView] = snapshot.mirror_partitions
    if snapshot.by_topic:
        views = [view for view in views if _connector_key_of(view) not in snapshot.by_topic]
    labels = LabelColumns(
        [view.connect_cluster for view in views],
        [view.connector for view in views],
        [view.source for view in views],
        [view.target for view in views],
        [view.topic for view in views],
        [str(view.partition) for view in views],
    )
    yield build_family(catalog.LOG_START, labels, [view.log_start for view in views])
    yield build_family(catalog.LOG_END, labels, [view.log_end for view in views])
    yield build_family(catalog.REPLICATED, labels, [_choose_position(view) for view in views])
    yield build_family(catalog.LAG, labels, [view.lag for view in views])
    yield build_family(catalog.AHEAD, labels, [view.ahead for view in views])
    seconds = [
        compute_lag_seconds(view.behind_since, snapshot.at, caught_up=view.caught_up)
        for view in views
    ]
    yield build_family(catalog.LAG_SECONDS, labels, seconds)
    caught_up = [None if view.caught_up is None else int(view.caught_up) for view in views]
    yield build_family(catalog.CAUGHT_UP, labels, caught_up)
    yield build_family(catalog.HEADROOM, labels, [view.headroom for view in views])
    yield build_family(catalog.HEADROOM_SECONDS, labels, [view.headroom_s for view in views])
    yield build_family_of_rows(
        catalog.LOST,
        (
            ((*key, cause), count)
            for key, view in zip(labels, views, strict=True)
            for cause, count in view.lost
        ),
    )


def _connector_key_of(view: MirrorPartitionView) -> tuple[str, str]:
    return (view.connect_cluster, view.connector)


def _choose_position(view: MirrorPartitionView) -> int | None:
    """Return the position that the exported log end and lag belong to, so that the three add up.

    A newer position may be known between two reads of the log end, and would seem to be ahead of
    it.
    """
    return view.replicated if view.lag_position is None else view.lag_position


def collect_mirrored_topics(snapshot: Snapshot) -> Iterator[Family]:
    """Yield lag by topic. No sum if the lag of one partition is unknown: it would be too small."""
    lags: dict[Labels, list[int | None]] = {}
    ages: dict[Labels, list[float | None]] = {}
    whole = snapshot.by_topic - snapshot.partial - snapshot.left_out_of(SeriesGroup.TOPICS)
    for view in snapshot.mirror_partitions if whole else ():
        if _connector_key_of(view) in whole:
            row_key = (*flow_of(view), view.topic)
            lags.setdefault(row_key, []).append(view.lag)
            age = compute_lag_seconds(view.behind_since, snapshot.at, caught_up=view.caught_up)
            ages.setdefault(row_key, []).append(age)
    known = {key: [lag for lag in found if lag is not None] for key, found in lags.items()}
    sums = [
        sum(known[key]) if len(known[key]) == len(found) else None for key, found in lags.items()
    ]
    yield build_family(catalog.TOPIC_LAG, list(lags), sums)
    old = {key: [age for age in found if age is not None] for key, found in ages.items()}
    oldest = [max(old[key]) if len(old[key]) == len(found) else None for key, found in ages.items()]
    yield build_family(catalog.TOPIC_LAG_SECONDS, list(ages), oldest)


def collect_recreations(snapshot: Snapshot) -> Iterator[Family]:
    """Yield how often topics were recreated.

    Topics that were not have 0, so that increase() sees the first time.
    """
    without = snapshot.left_out_of(SeriesGroup.TOPICS)
    found: dict[Labels, int] = {
        (*flow_of(view), view.topic): 0
        for view in snapshot.mirror_partitions
        if not without or _connector_key_of(view) not in without
    }
    found |= {
        (*flow_of(recreation), recreation.topic): recreation.count
        for recreation in snapshot.recreations
        if (recreation.connect_cluster, recreation.connector) not in without
    }
    yield build_family_of_rows(catalog.RECREATIONS, found.items())


def collect_syncs(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the newest offset syncs, except those of flows exported by topic."""
    views: Sequence[SyncView] = snapshot.syncs
    if snapshot.by_topic:
        apart = {
            flow.key
            for flow in snapshot.topology.flows
            if (flow.connect_cluster, flow.connector) not in snapshot.by_topic
        }
        views = [view for view in views if _flow_key_of(view) in apart]
    labels = LabelColumns(
        [view.connect_cluster for view in views],
        [view.source for view in views],
        [view.target for view in views],
        [view.topic for view in views],
        [str(view.partition) for view in views],
    )
    yield build_family(catalog.SYNC_UPSTREAM, labels, [view.upstream_offset for view in views])
    yield build_family(catalog.SYNC_DOWNSTREAM, labels, [view.downstream_offset for view in views])
    yield build_family(catalog.SYNC_AT, labels, [view.at for view in views])


def collect_failover_readiness(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the failover cost of groups, and the newest checkpoints and heartbeats of MM2."""
    without = snapshot.left_out_of(SeriesGroup.FAILOVER)
    groups = [group for group in snapshot.groups if _flow_key_of(group) not in without]
    labels: list[Labels] = [
        (*_flow_key_of(group), group.group, group.topic, str(group.partition)) for group in groups
    ]
    yield build_family(catalog.GROUP_REREAD, labels, [group.reread for group in groups])
    yield build_family(catalog.GROUP_SKIP, labels, [group.skip for group in groups])
    yield build_family_of_rows(
        catalog.CHECKPOINT_AT,
        (
            ((*_flow_key_of(checkpoint), checkpoint.group), checkpoint.at)
            for checkpoint in snapshot.checkpoints
            if _flow_key_of(checkpoint) not in without
        ),
    )
    yield build_family_of_rows(
        catalog.HEARTBEAT_AT,
        ((_flow_key_of(heartbeat), heartbeat.at) for heartbeat in snapshot.heartbeats),
    )


def _flow_key_of(view: GroupView | CheckpointView | HeartbeatView | SyncView) -> FlowKey:
    return (view.connect_cluster, view.source, view.target)


def collect_probes(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the number of upstream reads that determine record ages, and of skipped ones."""
    yield build_family_of_counts(catalog.PROBE_READS, snapshot.probes)
    yield build_family_of_counts(catalog.PROBE_SKIPPED, snapshot.probes_skipped)
