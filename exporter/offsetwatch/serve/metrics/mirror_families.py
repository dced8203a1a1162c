"""Metrics of replication flows: their definitions, and snapshot -> their families."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from offsetwatch.model.topology import FlowKey
from offsetwatch.serve.metrics.metric import (
    CONNECTOR,
    FLOW,
    FLOW_PARTITION,
    MIRROR_PARTITION,
    Family,
    LabelColumns,
    Labels,
    MetricSpec,
    build_family,
    build_family_of_counts,
    build_family_of_rows,
    counter,
    gauge,
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

MIRROR_METRICS: tuple[MetricSpec, ...] = (
    LOG_START := gauge(
        "mm2_source_log_start_offset",
        MIRROR_PARTITION,
        "First offset in the upstream partition, read from the upstream cluster.",
    ),
    LOG_END := gauge(
        "mm2_source_log_end_offset",
        MIRROR_PARTITION,
        "Offset after the last readable record of the upstream partition, read from the upstream "
        "cluster (the last stable offset if the connector reads committed records only).",
    ),
    REPLICATED := gauge(
        "mm2_replicated_offset",
        MIRROR_PARTITION,
        "Last upstream offset known to be replicated: the field offset in the offsets topic, or "
        "the newest offset sync if it is ahead of that and commits confirm it.",
    ),
    LAG := gauge(
        "mm2_replication_lag_records",
        MIRROR_PARTITION,
        "Upstream records not replicated yet, at most: max(0, log end - (replicated offset + 1)). "
        "Transaction markers and compaction gaps count as records.",
    ),
    AHEAD := gauge(
        "mm2_ahead_records",
        MIRROR_PARTITION,
        "Distance of the replicated offset beyond the upstream log end. Above 0 the upstream "
        "topic was recreated or truncated, or an operator altered the offset.",
    ),
    TOPIC_LAG := gauge(
        "mm2_topic_replication_lag_records",
        (*CONNECTOR, "source", "target", "topic"),
        "Upstream records not replicated yet, over all partitions of the topic; in place of a "
        "series for each partition if granularity is topic or a flow exceeds its limit of series. "
        "Absent while the lag of one partition is unknown.",
    ),
    SYNC_UPSTREAM := gauge(
        "mm2_offset_sync_upstream_offset",
        FLOW_PARTITION,
        "Upstream offset of the newest record in the flow's offset-syncs topic for this partition.",
    ),
    SYNC_DOWNSTREAM := gauge(
        "mm2_offset_sync_downstream_offset",
        FLOW_PARTITION,
        "Downstream offset of the newest record in the flow's offset-syncs topic for this "
        "partition: the position of the copy of the upstream record.",
    ),
    SYNC_AT := gauge(
        "mm2_offset_sync_last_timestamp_seconds",
        FLOW_PARTITION,
        "Unix time of the newest offset sync: the timestamp of its record in the offset-syncs "
        "topic.",
    ),
    LAG_SECONDS := gauge(
        "mm2_replication_lag_seconds",
        MIRROR_PARTITION,
        "Age of the oldest upstream record that is not replicated yet: its own timestamp, read "
        "upstream, or the moment at which the log end was last at or below it if that is later; "
        "only that moment if reading is not allowed. 0 when caught up; grows while replication "
        "stands still.",
    ),
    CAUGHT_UP := gauge(
        "mm2_caught_up",
        MIRROR_PARTITION,
        "1 if no readable record lies after the replicated offset, 0 if one does. Transaction "
        "markers and compaction gaps are no records.",
    ),
    HEADROOM := gauge(
        "mm2_retention_headroom_records",
        MIRROR_PARTITION,
        "Offsets between the upstream log start and the next record to replicate. Negative: that "
        "many can no longer be replicated.",
    ),
    HEADROOM_SECONDS := gauge(
        "mm2_retention_headroom_seconds",
        MIRROR_PARTITION,
        "Time until the upstream log start reaches the replicated offset, at the rate of both "
        "over the last minutes. Absent while the distance does not shrink.",
    ),
    LOST := counter(
        "mm2_lost_records_total",
        (*MIRROR_PARTITION, "cause"),
        "Upstream offsets that can no longer be replicated, an upper bound (compaction gaps "
        "count), each counted once: retention (deleted before they were copied), recreated (of a "
        "topic that was recreated), altered (skipped by an altered offset).",
    ),
    RECREATIONS := counter(
        "mm2_topic_recreations_total",
        (*CONNECTOR, "source", "target", "topic"),
        "Detected recreations of the upstream topic: another topic id, or a log end that fell "
        "below the replicated offset.",
    ),
    TOPIC_LAG_SECONDS := gauge(
        "mm2_topic_replication_lag_seconds",
        (*CONNECTOR, "source", "target", "topic"),
        "Age of the oldest upstream record that is not replicated yet, the greatest of the "
        "topic's partitions. Absent while that of one partition is unknown.",
    ),
    GROUP_REREAD := gauge(
        "mm2_group_failover_reread_records",
        (*FLOW, "group", "topic", "partition"),
        "Downstream records that the consumer group would read a second time if it moved to the "
        "target cluster now.",
    ),
    GROUP_SKIP := gauge(
        "mm2_group_failover_skip_records",
        (*FLOW, "group", "topic", "partition"),
        "Downstream records that the consumer group would never read if it moved to the target "
        "cluster now.",
    ),
    CHECKPOINT_AT := gauge(
        "mm2_checkpoint_last_timestamp_seconds",
        (*FLOW, "group"),
        "Unix time of the newest checkpoint of the group: the timestamp of its record in the "
        "checkpoints topic.",
    ),
    HEARTBEAT_AT := gauge(
        "mm2_heartbeat_last_timestamp_seconds",
        FLOW,
        "Unix time in the newest heartbeat of the flow.",
    ),
    PROBE_READS := counter(
        "probe_reads_total",
        ("reason",),
        "Reads of single records, for the age of the oldest unreplicated one.",
    ),
    PROBE_SKIPPED := counter(
        "probe_reads_skipped_total",
        ("reason",),
        "Reads of single records that were not made or failed: budget (the limit of a round; they "
        "follow later), denied (no permission to read), timeout, unreachable.",
    ),
)


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
    yield build_family(LOG_START, labels, [view.log_start for view in views])
    yield build_family(LOG_END, labels, [view.log_end for view in views])
    yield build_family(REPLICATED, labels, [_choose_position(view) for view in views])
    yield build_family(LAG, labels, [view.lag for view in views])
    yield build_family(AHEAD, labels, [view.ahead for view in views])
    seconds = [
        compute_lag_seconds(view.behind_since, snapshot.at, caught_up=view.caught_up)
        for view in views
    ]
    yield build_family(LAG_SECONDS, labels, seconds)
    caught_up = [None if view.caught_up is None else int(view.caught_up) for view in views]
    yield build_family(CAUGHT_UP, labels, caught_up)
    yield build_family(HEADROOM, labels, [view.headroom for view in views])
    yield build_family(HEADROOM_SECONDS, labels, [view.headroom_s for view in views])
    yield build_family_of_rows(
        LOST,
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
    known = {key: [lag for lag in values if lag is not None] for key, values in lags.items()}
    sums = [
        sum(known[key]) if len(known[key]) == len(values) else None for key, values in lags.items()
    ]
    yield build_family(TOPIC_LAG, list(lags), sums)
    old = {key: [age for age in values if age is not None] for key, values in ages.items()}
    oldest = [
        max(old[key]) if len(old[key]) == len(values) else None for key, values in ages.items()
    ]
    yield build_family(TOPIC_LAG_SECONDS, list(ages), oldest)


def collect_recreations(snapshot: Snapshot) -> Iterator[Family]:
    """Yield how often topics were recreated.

    Topics that were not have 0, so that increase() sees the first time.
    """
    without = snapshot.left_out_of(SeriesGroup.TOPICS)
    recreations: dict[Labels, int] = {
        (*flow_of(view), view.topic): 0
        for view in snapshot.mirror_partitions
        if not without or _connector_key_of(view) not in without
    }
    recreations |= {
        (*flow_of(recreation), recreation.topic): recreation.count
        for recreation in snapshot.recreations
        if (recreation.connect_cluster, recreation.connector) not in without
    }
    yield build_family_of_rows(RECREATIONS, recreations.items())


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
    yield build_family(SYNC_UPSTREAM, labels, [view.upstream_offset for view in views])
    yield build_family(SYNC_DOWNSTREAM, labels, [view.downstream_offset for view in views])
    yield build_family(SYNC_AT, labels, [view.at for view in views])


def collect_failover_readiness(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the failover cost of groups, and the newest checkpoints and heartbeats of MM2."""
    without = snapshot.left_out_of(SeriesGroup.FAILOVER)
    groups = [group for group in snapshot.groups if _flow_key_of(group) not in without]
    labels: list[Labels] = [
        (*_flow_key_of(group), group.group, group.topic, str(group.partition)) for group in groups
    ]
    yield build_family(GROUP_REREAD, labels, [group.reread for group in groups])
    yield build_family(GROUP_SKIP, labels, [group.skip for group in groups])
    yield build_family_of_rows(
        CHECKPOINT_AT,
        (
            ((*_flow_key_of(checkpoint), checkpoint.group), checkpoint.at)
            for checkpoint in snapshot.checkpoints
            if _flow_key_of(checkpoint) not in without
        ),
    )
    yield build_family_of_rows(
        HEARTBEAT_AT,
        ((_flow_key_of(heartbeat), heartbeat.at) for heartbeat in snapshot.heartbeats),
    )


def _flow_key_of(view: GroupView | CheckpointView | HeartbeatView | SyncView) -> FlowKey:
    return (view.connect_cluster, view.source, view.target)


def collect_probes(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the number of upstream reads that determine record ages, and of skipped ones."""
    yield build_family_of_counts(PROBE_READS, snapshot.probes)
    yield build_family_of_counts(PROBE_SKIPPED, snapshot.probes_skipped)


FamilyGroup = Callable[[Snapshot], Iterator[Family]]

# Each group with all metrics that it gives, where these grow with what is watched.
MIRROR_GROUPS: Final[Mapping[FamilyGroup, tuple[MetricSpec, ...]]] = {
    collect_mirror_partitions: (
        LOG_START,
        LOG_END,
        REPLICATED,
        LAG,
        AHEAD,
        LAG_SECONDS,
        CAUGHT_UP,
        HEADROOM,
        HEADROOM_SECONDS,
        LOST,
    ),
    collect_mirrored_topics: (TOPIC_LAG, TOPIC_LAG_SECONDS),
    collect_recreations: (RECREATIONS,),
    collect_syncs: (SYNC_UPSTREAM, SYNC_DOWNSTREAM, SYNC_AT),
    collect_failover_readiness: (),
    collect_probes: (),
}
