"""The one list of metrics: name, type, help and labels. They appear nowhere else.

families.py fills these rows from a snapshot; `offsetwatch metrics` prints them; alerts and
dashboards are checked against them. Renaming a row or changing its labels breaks users' queries.

Labels say `source` and `target` where the code says upstream and downstream, because MM2's own JMX
series do and users join the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

PREFIX = "offsetwatch_"

Kind = Literal["gauge", "counter"]

INPUT = ("input", "kind")
CONNECTOR = ("connect_cluster", "connector")
SOURCE_PARTITION = (*CONNECTOR, "source_partition")
FLOW = ("connect_cluster", "source", "target")
FLOW_PARTITION = (*FLOW, "topic", "partition")
MIRROR_PARTITION = (*CONNECTOR, "source", "target", "topic", "partition")


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric. `name` is the full name of its samples, `_total` included for a counter."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]


class MetricRow(NamedTuple):
    """One line of the printed catalogue."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


def _gauge(name: str, labels: tuple[str, ...], help_text: str) -> Spec:
    return Spec(name=PREFIX + name, kind="gauge", help=help_text, labels=labels)


def _counter(name: str, labels: tuple[str, ...], help_text: str) -> Spec:
    return Spec(name=PREFIX + name, kind="counter", help=help_text, labels=labels)


CATALOG: tuple[Spec, ...] = (
    BUILD_INFO := _gauge(
        "build_info",
        ("version", "revision", "python"),
        "Always 1; the labels say which offsetwatch this is and which Python runs it.",
    ),
    RELOAD_SUCCESSFUL := _gauge(
        "config_last_reload_successful",
        (),
        "1 if the configuration file was right when it was last read, 0 if it was refused and the "
        "one before it is still in use.",
    ),
    RELOAD_AT := _gauge(
        "config_last_reload_timestamp_seconds",
        (),
        "Unix time at which the configuration in use was read.",
    ),
    INPUT_UP := _gauge(
        "input_up",
        INPUT,
        "1 if the last attempt to read this input worked, 0 if it failed or none was made yet.",
    ),
    INPUT_LAST_SUCCESS := _gauge(
        "input_last_success_timestamp_seconds",
        INPUT,
        "Unix time, by our own clock, of the last attempt to read this input that worked.",
    ),
    INPUT_ERRORS := _counter(
        "input_errors_total",
        (*INPUT, "reason"),
        "Failed attempts to read this input since start, by reason.",
    ),
    TAIL_RECORDS := _counter(
        "tail_records_total",
        ("input", "record"),
        "Records read from an internal topic after its tail caught up: with a value, tombstones, "
        "and those that could not be decoded.",
    ),
    TAIL_CAUGHT_UP := _gauge(
        "tail_caught_up",
        ("input",),
        "1 once the tail has passed the end that the internal topic had when the tail started. "
        "Until then nothing that depends on the topic is shown.",
    ),
    TAIL_BEHIND := _gauge(
        "tail_behind_records",
        ("input",),
        "Records between our own read position and the end of the internal topic, all partitions.",
    ),
    CONNECTOR_STATE := _gauge(
        "connector_state",
        (*CONNECTOR, "state"),
        "State set: 1 for the state that Connect's REST API gives for the connector (field "
        "connector.state of its status), 0 for the others.",
    ),
    TASK_STATE := _gauge(
        "task_state",
        (*CONNECTOR, "task", "state"),
        "State set: 1 for the state that Connect's REST API gives for the task (field "
        "tasks[].state of the connector's status), 0 for the others.",
    ),
    CONNECTOR_TASKS := _gauge(
        "connector_tasks",
        (*CONNECTOR, "state"),
        "Tasks of the connector in each state, counted from the status in Connect's REST API; "
        "all zero for a connector without tasks.",
    ),
    CONNECTOR_INFO := _gauge(
        "connector_info",
        (*CONNECTOR, "kind", "class", "version"),
        "Always 1; kind (source, sink, mirror), class (connector.class) and plugin version as "
        "Connect's REST API lists them.",
    ),
    POSITION := _gauge(
        "source_offset_position",
        (*SOURCE_PARTITION, "field"),
        "Each numeric field of the source offset in the newest record that the offsets topic holds "
        "for this source partition: what Connect would hand to the task. For MirrorMaker 2 the "
        "field offset is the last record replicated, not the next one.",
    ),
    LAST_COMMIT := _gauge(
        "source_offset_last_commit_timestamp_seconds",
        SOURCE_PARTITION,
        "Unix time of the newest commit: the timestamp of the newest record in the offsets topic "
        "for this source partition.",
    ),
    LAST_ADVANCE := _gauge(
        "source_offset_last_advance_timestamp_seconds",
        SOURCE_PARTITION,
        "Unix time of the newest commit whose source offset differs from the one before it: the "
        "timestamp of that record in the offsets topic.",
    ),
    COMMITS := _counter(
        "source_offset_commits_total",
        SOURCE_PARTITION,
        "Records written to the offsets topic for this source partition since the tail caught up.",
    ),
    ADVANCES := _counter(
        "source_offset_advances_total",
        SOURCE_PARTITION,
        "Commits whose source offset differs from the one before, since the tail caught up.",
    ),
    REWINDS := _counter(
        "source_offset_rewinds_total",
        SOURCE_PARTITION,
        "Commits that moved the position back, since the tail caught up. Counted only where the "
        "kind of connector gives its offsets an order (MirrorMaker 2, file stream).",
    ),
    RESETS := _counter(
        "source_offset_resets_total",
        SOURCE_PARTITION,
        "Tombstones written to the offsets topic for this source partition since the tail caught "
        "up: its offset was removed and the connector starts over.",
    ),
    EVENT_TIME := _gauge(
        "source_position_timestamp_seconds",
        SOURCE_PARTITION,
        "Unix time of the last change at the source that the newest source offset covers, where "
        "the connector keeps it there (Debezium, JDBC in timestamp mode).",
    ),
    LOG_START := _gauge(
        "mm2_source_log_start_offset",
        MIRROR_PARTITION,
        "First offset that the upstream partition still holds, asked of the upstream cluster.",
    ),
    LOG_END := _gauge(
        "mm2_source_log_end_offset",
        MIRROR_PARTITION,
        "Offset after the last readable record of the upstream partition, asked of the upstream "
        "cluster (the last stable offset where the connector reads committed records only).",
    ),
    REPLICATED := _gauge(
        "mm2_replicated_offset",
        MIRROR_PARTITION,
        "Last upstream offset known to be replicated: the better of the field offset in the "
        "offsets topic and the newest offset sync, unless the sync is older than the commit.",
    ),
    LAG := _gauge(
        "mm2_replication_lag_records",
        MIRROR_PARTITION,
        "Upstream records not replicated yet, at most: max(0, log end - (replicated offset + 1)). "
        "Transaction markers and compaction gaps count as records.",
    ),
    AHEAD := _gauge(
        "mm2_ahead_records",
        MIRROR_PARTITION,
        "How far the replicated offset lies beyond the upstream log end. Anything but 0 means that "
        "the upstream topic was re-created or cut, or that the offset was altered by hand.",
    ),
    TOPIC_LAG := _gauge(
        "mm2_topic_replication_lag_records",
        (*CONNECTOR, "source", "target", "topic"),
        "Upstream records not replicated yet, all partitions of the topic; in place of each "
        "partition's series where granularity is topic or a flow is beyond its budget of series. "
        "Absent while one partition's lag is not known.",
    ),
    SYNC_UPSTREAM := _gauge(
        "mm2_offset_sync_upstream_offset",
        FLOW_PARTITION,
        "Upstream offset of the newest record in the flow's offset-syncs topic for this partition.",
    ),
    SYNC_DOWNSTREAM := _gauge(
        "mm2_offset_sync_downstream_offset",
        FLOW_PARTITION,
        "Downstream offset of the newest record in the flow's offset-syncs topic for this "
        "partition: where the replica of the upstream record lies.",
    ),
    SYNC_AT := _gauge(
        "mm2_offset_sync_last_timestamp_seconds",
        FLOW_PARTITION,
        "Unix time of the newest offset sync: the timestamp of its record in the offset-syncs "
        "topic.",
    ),
    SINK_LAG := _gauge(
        "sink_lag_records",
        (*CONNECTOR, "topic", "partition"),
        "Records that the sink connector has not committed: log end - the committed offset of its "
        "consumer group (which names the next record).",
    ),
    TOPIC_PROBLEM := _gauge(
        "internal_topic_problem",
        ("kafka", "topic", "problem"),
        "1 for each thing wrong with a topic that Connect or MirrorMaker keeps for itself: "
        "not_compacted, wrong_partitions, low_replication, shared (by two Connect clusters), "
        "oversize (over a million records, and over a hundred for each key).",
    ),
    HISTORY_BATCH_AT := _gauge(
        "history_last_batch_timestamp_seconds",
        (),
        "Unix time by which the history pipeline had last ended a batch of every Kafka cluster it "
        "reads, or found nothing new there; as its status file says.",
    ),
    HISTORY_BEHIND := _gauge(
        "history_behind_records",
        ("kafka",),
        "Offsets between what the history pipeline's newest batch read and the log ends that it "
        "saw. Absent once that batch is older than three cadences and five minutes.",
    ),
    HISTORY_RECORDS := _counter(
        "history_records_total",
        ("kafka", "record"),
        "Records that the history pipeline has stored in bronze since its tables were made: "
        "decoded ones, tombstones among them, and undecodable ones.",
    ),
    HISTORY_ERRORS := _counter(
        "history_errors_total",
        ("reason",),
        "Runs of the history pipeline that failed: while starting, reading or computing, with "
        "Spark gone, by a bug, or for what Kafka said (as in input_errors_total). stream_ended: "
        "streams of a run that goes on and has to start them again. status_unreadable: status "
        "files that the daemon could not read.",
    ),
    HISTORY_GAPS := _gauge(
        "history_gaps",
        ("kafka",),
        "Ranges of offsets that are missing from bronze for ever: rows of ops/gaps.",
    ),
    HISTORY_TABLE_AT := _gauge(
        "history_table_timestamp_seconds",
        ("table",),
        "Unix time of the newest batch that is in the tables of a layer (bronze, silver, gold). "
        "Absent for one that was computed for an earlier moment (--up-to).",
    ),
    SERIES_DROPPED := _counter(
        "series_dropped_total",
        ("reason",),
        "What was left out of this output, by reason: a configured bound on label sets, or inexact "
        "(numbers above 2^53, which the API and the command line show in full).",
    ),
)


def describe() -> list[MetricRow]:
    """The catalogue as people read it: `offsetwatch metrics` prints these rows."""
    return [MetricRow(spec.name, spec.kind, spec.labels, spec.help) for spec in CATALOG]
