"""The catalogue of the metrics of replication flows, a part of catalog.py."""

from __future__ import annotations

from offsetwatch.serve.metrics.metric import (
    CONNECTOR,
    FLOW,
    FLOW_PARTITION,
    MIRROR_PARTITION,
    MetricSpec,
    counter,
    gauge,
)

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
