"""The metrics of replication flows. See catalog.py, which has all others and the whole list."""

from __future__ import annotations

from exporter.serve.spec import (
    CONNECTOR,
    FLOW,
    FLOW_PARTITION,
    MIRROR_PARTITION,
    Spec,
    counter,
    gauge,
)

MM2: tuple[Spec, ...] = (
    LOG_START := gauge(
        "mm2_source_log_start_offset",
        MIRROR_PARTITION,
        "First offset that the upstream partition still holds, asked of the upstream cluster.",
    ),
    LOG_END := gauge(
        "mm2_source_log_end_offset",
        MIRROR_PARTITION,
        "Offset after the last readable record of the upstream partition, asked of the upstream "
        "cluster (the last stable offset where the connector reads committed records only).",
    ),
    REPLICATED := gauge(
        "mm2_replicated_offset",
        MIRROR_PARTITION,
        "Last upstream offset known to be replicated: the field offset in the offsets topic, or "
        "the newest offset sync where it is beyond that and commits vouch for it.",
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
        "How far the replicated offset lies beyond the upstream log end. Anything but 0 means that "
        "the upstream topic was re-created or cut, or that the offset was altered by hand.",
    ),
    TOPIC_LAG := gauge(
        "mm2_topic_replication_lag_records",
        (*CONNECTOR, "source", "target", "topic"),
        "Upstream records not replicated yet, all partitions of the topic; in place of each "
        "partition's series where granularity is topic or a flow is beyond its budget of series. "
        "Absent while one partition's lag is not known.",
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
        "partition: where the replica of the upstream record lies.",
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
        "upstream, or the moment at which the log end was last seen at or below it if that is "
        "later; where reading is not allowed, that moment alone. 0 when caught up; grows while "
        "replication stands still.",
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
        "Offsets between the upstream log start and the next record to replicate. Negative: so "
        "many can no longer be replicated.",
    ),
    HEADROOM_SECONDS := gauge(
        "mm2_retention_headroom_seconds",
        MIRROR_PARTITION,
        "Time until the upstream log start reaches the replicated offset, at the rate of both over "
        "the last minutes. Absent while it does not come closer.",
    ),
    LOST := counter(
        "mm2_lost_records_total",
        (*MIRROR_PARTITION, "cause"),
        "Upstream offsets that can no longer be replicated, at most (compaction gaps count), each "
        "counted once: retention (deleted before they were copied), recreated (of a topic that "
        "was recreated), altered (jumped over by hand).",
    ),
    RECREATIONS := counter(
        "mm2_topic_recreations_total",
        (*CONNECTOR, "source", "target", "topic"),
        "Times that the upstream topic was seen to be another one of the same name: another topic "
        "id, or a log end that fell below the replicated offset.",
    ),
    TOPIC_LAG_SECONDS := gauge(
        "mm2_topic_replication_lag_seconds",
        (*CONNECTOR, "source", "target", "topic"),
        "Age of the oldest upstream record that is not replicated yet, the greatest of the "
        "topic's partitions. Absent while one partition's is not known.",
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
        "Such reads that were not made, or came to nothing: budget (as many as are allowed were "
        "made; its turn comes), denied (no permission to read), timeout, unreachable.",
    ),
)
