"""The catalogue of all metrics: name, type, help and labels. They are defined nowhere else.

families.py fills these rows from a snapshot; `offsetwatch metrics` prints them; alerts and
dashboards are checked against them. Renaming a row or changing its labels breaks users' queries.

Labels are called `source` and `target` where the code says upstream and downstream: MM2's own JMX
series are, and users join the two.
"""

from __future__ import annotations

from typing import NamedTuple

from offsetwatch.serve.metrics.metric import (
    CONNECTOR,
    INPUT,
    SOURCE_PARTITION,
    TAIL,
    MetricSpec,
    counter,
    gauge,
)
from offsetwatch.serve.metrics.mirror_families import MIRROR_METRICS
from offsetwatch.serve.metrics.source_end_families import SOURCE_END_METRICS

REMEDIATION_METRICS: tuple[MetricSpec, ...] = (
    REMEDIATION_MODE := gauge(
        "remediation_mode",
        ("mode",),
        "State set: 1 for the mode of remediation (observe, propose, auto), 0 for the others.",
    ),
    REMEDIATION_PLANS := gauge(
        "remediation_plans",
        ("state",),
        "Plans of remediation by status: proposed and approved ones wait, a parked one waits for "
        "an operator and holds its connector.",
    ),
    REMEDIATION_ACTIONS := counter(
        "remediation_actions_total",
        (*CONNECTOR, "action", "result"),
        "Plans of remediation that ended, by action and result.",
    ),
    REMEDIATION_BLOCKED := counter(
        "remediation_blocked_total",
        (*CONNECTOR, "action", "guard"),
        "Times that a guard began to deny an action; `offsetwatch explain` says why. Guard "
        "`unexpected`: an exception in an evaluation, which is in the log.",
    ),
    REMEDIATION_STOPPED_SINCE := gauge(
        "remediation_stopped_since_timestamp_seconds",
        CONNECTOR,
        "Unix time since when remediation holds this connector stopped: while it skips a record, "
        "or until an operator acts.",
    ),
    REMEDIATION_HEARTBEAT := gauge(
        "remediation_engine_heartbeat_timestamp_seconds",
        (),
        "Unix time of the newest round of the remediation loop.",
    ),
    REMEDIATION_LEADER := gauge(
        "remediation_leader",
        (),
        "1 on the replica that acts, 0 on those that follow its journal; absent where a daemon "
        "acts alone.",
    ),
    REMEDIATION_JOURNAL_SEQ := gauge(
        "remediation_journal_seq",
        (),
        "The newest record of the shared journal that this replica has; absent where a daemon acts "
        "alone.",
    ),
)


class MetricRow(NamedTuple):
    """Row of the printed catalogue."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


CATALOG: tuple[MetricSpec, ...] = (
    BUILD_INFO := gauge(
        "build_info",
        ("version", "revision", "python"),
        "Always 1; labels with the versions of offsetwatch and of Python.",
    ),
    RELOAD_SUCCESSFUL := gauge(
        "config_last_reload_successful",
        (),
        "1 if the last read of the configuration file succeeded, 0 if the file was refused and "
        "the previous configuration is still in use.",
    ),
    RELOAD_AT := gauge(
        "config_last_reload_timestamp_seconds",
        (),
        "Unix time at which the configuration in use was read.",
    ),
    WEB_RELOAD_SUCCESSFUL := gauge(
        "web_config_last_reload_successful",
        ("listener",),
        "1 if the last change of a listener's web config file (read, control), or of a file it "
        "names, is in use; 0 if it was refused and the previous one is still in use.",
    ),
    WEB_RELOAD_FAILURES := counter(
        "web_config_reload_failures_total",
        ("listener",),
        "Changes of a web config file, or of a file it names, that were refused.",
    ),
    READ_REFUSED := counter(
        "read_refused_total",
        ("reason",),
        "Connections and requests that the read listener refused, by reason: handshake for "
        "connections; overload for both (too many at once, or too many answers that no client "
        "takes); unauthorised, throttled and certificate (a name that is not allowed) for "
        "requests.",
    ),
    STATE_SAVED_AT := gauge(
        "state_saved_timestamp_seconds",
        (),
        "Unix time at which the state that must survive a restart (topic ids, last positions, "
        "counts, verdicts) was last written to state_dir.",
    ),
    INPUT_UP := gauge(
        "input_up",
        INPUT,
        "1 if the last attempt to read this input succeeded, 0 if it failed or none was made yet. "
        "Labels by kind: tail (kafka, topic; connect_cluster alone while its offsets topic is "
        "searched for), log_ends (kafka), connect_rest (connect_cluster), rest_offsets "
        "(connect_cluster, connector), groups (connect_cluster; source and target too if they are "
        "those of a flow), source_end (source, a name under `sources`).",
        optional=INPUT[1:],
    ),
    INPUT_LAST_SUCCESS := gauge(
        "input_last_success_timestamp_seconds",
        INPUT,
        "Unix time, by the clock of offsetwatch, of the last successful read of this input.",
        optional=INPUT[1:],
    ),
    INPUT_ERRORS := counter(
        "input_errors_total",
        (*INPUT, "reason"),
        "Failed attempts to read this input since start, by reason.",
        optional=INPUT[1:],
    ),
    TAIL_RECORDS := counter(
        "tail_records_total",
        (*TAIL, "record"),
        "Records read from an internal topic after its tail caught up: with a value, tombstones, "
        "and those that could not be decoded.",
    ),
    TAIL_CAUGHT_UP := gauge(
        "tail_caught_up",
        TAIL,
        "1 once the tail has passed the end that the internal topic had when the tail started. "
        "Until then nothing that depends on the topic is shown.",
    ),
    TAIL_BEHIND := gauge(
        "tail_behind_records",
        TAIL,
        "Records between the read position of offsetwatch and the end of the internal topic, all "
        "partitions.",
    ),
    CONNECTOR_STATE := gauge(
        "connector_state",
        (*CONNECTOR, "state"),
        "State set: 1 for the state that Connect's REST API gives for the connector (field "
        "connector.state of its status), 0 for the others.",
    ),
    TASK_STATE := gauge(
        "task_state",
        (*CONNECTOR, "task", "state"),
        "State set: 1 for the state that Connect's REST API gives for the task (field "
        "tasks[].state of the connector's status), 0 for the others. Beyond limits.series_max "
        "running tasks of the largest connectors have no series; connector_tasks counts them.",
    ),
    CONNECTOR_TASKS := gauge(
        "connector_tasks",
        (*CONNECTOR, "state"),
        "Tasks of the connector in each state, counted from the status in Connect's REST API; "
        "all zero for a connector without tasks.",
    ),
    CONNECTOR_INFO := gauge(
        "connector_info",
        (*CONNECTOR, "kind", "class", "version"),
        "Always 1; kind (source, sink, mirror), class (connector.class) and plugin version as "
        "Connect's REST API lists them.",
    ),
    POSITION := gauge(
        "source_offset_position",
        (*SOURCE_PARTITION, "field"),
        "Each number of the source offset that is a position, in the newest record that the "
        "offsets topic holds for this source partition, or from REST if no topic can be read: what "
        "Connect would hand to the task. For MirrorMaker 2 the field offset is the last record "
        "replicated, not the next one. Of Debezium connectors, counters within a transaction "
        "(event, row), ids and metadata of transactions, and times are left out; of a class that "
        "is not known every number is a position.",
    ),
    LAST_COMMIT := gauge(
        "source_offset_last_commit_timestamp_seconds",
        SOURCE_PARTITION,
        "Unix time of the newest commit: the timestamp of the newest record in the offsets topic "
        "for this source partition. None where only REST has the offset.",
    ),
    LAST_ADVANCE := gauge(
        "source_offset_last_advance_timestamp_seconds",
        SOURCE_PARTITION,
        "Unix time of the newest commit whose source offset differs from the one before it: the "
        "timestamp of that record in the offsets topic, or of the poll that saw the change where "
        "only REST has the offset.",
    ),
    COMMITS := counter(
        "source_offset_commits_total",
        SOURCE_PARTITION,
        "Records written to the offsets topic for this source partition since the tail caught up.",
    ),
    ADVANCES := counter(
        "source_offset_advances_total",
        SOURCE_PARTITION,
        "Commits whose source offset differs from the one before, since the tail caught up.",
    ),
    REWINDS := counter(
        "source_offset_rewinds_total",
        SOURCE_PARTITION,
        "Commits that moved the position back, since the tail caught up. Counted only where the "
        "connector's class gives its offsets an order: MirrorMaker 2, file stream, JDBC and the "
        "relational and MongoDB connectors of Debezium.",
    ),
    RESETS := counter(
        "source_offset_resets_total",
        SOURCE_PARTITION,
        "Tombstones that removed an offset of this source partition since the tail caught up: a "
        "reset by an operator, or a connector that finished it, such as a file.",
    ),
    EVENT_TIME := gauge(
        "source_position_timestamp_seconds",
        SOURCE_PARTITION,
        "Unix time of the last change at the source that the newest source offset covers, if the "
        "connector stores it in the offset (Debezium, JDBC in timestamp mode).",
    ),
    FROM_REST := gauge(
        "connector_offsets_from_rest",
        CONNECTOR,
        "1 for a connector whose offsets are polled over Connect's REST API because none of its "
        "topics or groups can be read: its positions are as old as the poll, and have no commit "
        "times. Other connectors have no series.",
    ),
    SINK_LAG := gauge(
        "sink_lag_records",
        (*CONNECTOR, "topic", "partition"),
        "Records that the sink connector has not committed: log end - the committed offset of its "
        "consumer group (which names the next record). Absent where that offset is beyond the log "
        "end.",
    ),
    SINK_LAG_SECONDS := gauge(
        "sink_lag_seconds",
        (*CONNECTOR, "topic", "partition"),
        "Age of the oldest record that the sink connector has not committed, as in "
        "mm2_replication_lag_seconds. 0 when it has committed all that can be read.",
    ),
    PROGRESS := gauge(
        "connector_progress",
        (*CONNECTOR, "verdict"),
        "State set: 1 for the verdict on the connector's progress (ok, idle, slow, stalled, "
        "silent, rewound, failed, paused, stopped, unknown), 0 for the others. `offsetwatch "
        "explain` gives the evidence.",
    ),
    FINDINGS := gauge(
        "findings",
        (*CONNECTOR, "finding", "severity"),
        "Findings of this name now; see /api/v1/findings. connector is empty for a finding of a "
        "whole cluster, topic or input.",
        optional=CONNECTOR,
    ),
    NOTIFICATIONS_FAILED := counter(
        "notifications_failed_total",
        ("reason",),
        "Notifications that could not be delivered, by reason; they are sent again.",
    ),
    HOOKS_RECEIVED := counter(
        "hooks_received_total",
        ("reason",),
        "Alerts sent to the control listener, by result (new, resolved, duplicate, "
        "unknown_subject), and requests with alerts that were refused (malformed, unauthorised, "
        "throttled, forbidden, misdirected).",
    ),
    CONTROL_REFUSED := counter(
        "control_refused_total",
        ("reason",),
        "Other requests to the control listener that were refused (malformed, unauthorised, "
        "throttled, forbidden, misdirected), and connections: overload, handshake.",
    ),
    TOPIC_PROBLEM := gauge(
        "internal_topic_problem",
        ("kafka", "topic", "problem"),
        "1 for each problem of an internal topic of Connect or MirrorMaker: not_compacted, "
        "wrong_partitions, low_replication, shared (by two Connect clusters), oversize (over a "
        "million records, and over a hundred for each key).",
    ),
    HISTORY_BATCH_AT := gauge(
        "history_last_batch_timestamp_seconds",
        (),
        "Unix time by which the history pipeline had last completed a batch of every Kafka "
        "cluster it reads, or found nothing new there, by its status file.",
    ),
    HISTORY_BEHIND := gauge(
        "history_behind_records",
        ("kafka",),
        "Offsets between what the history pipeline's newest batch read and the log ends that it "
        "saw. Absent once that batch is older than three cadences and five minutes.",
    ),
    HISTORY_RECORDS := counter(
        "history_records_total",
        ("kafka", "record"),
        "Records that the history pipeline has stored in bronze since its tables were created: "
        "decoded ones (tombstones included) and undecodable ones.",
    ),
    HISTORY_ERRORS := counter(
        "history_errors_total",
        ("reason",),
        "Runs of the history pipeline that failed: while starting, reading or computing, with "
        "Spark gone, by a bug, or for what Kafka said (as in input_errors_total). stream_ended: "
        "streams of a run that goes on and has to start them again. status_unreadable: status "
        "files that the daemon could not read.",
    ),
    HISTORY_GAPS := gauge(
        "history_gaps",
        ("kafka",),
        "Ranges of offsets that are permanently missing from bronze: rows of ops/gaps.",
    ),
    HISTORY_TABLE_AT := gauge(
        "history_table_timestamp_seconds",
        ("table",),
        "Unix time of the newest batch that is in the tables of a layer (bronze, silver, gold). "
        "Absent for one that was computed for an earlier moment (--up-to).",
    ),
    HISTORY_BASELINES := gauge(
        "history_baselines_valid",
        (),
        "1 while the baselines from the history pipeline are in use; 0 if the document is "
        "damaged, or was learned from data older than two weeks, and only fixed rules are used. "
        "Absent if none was published.",
    ),
    EXPECTED_INTERVAL := gauge(
        "expected_advance_interval_seconds",
        ("connect_cluster", "connector", "percentile"),  # `quantile` is a summary's alone
        "Usual seconds between two advances of the connector at this hour of the week (UTC), by "
        "the history pipeline; absent for hours in which none is expected, and for connectors "
        "with less than four weeks of history.",
    ),
    EXPECTED_COMMITS := gauge(
        "expected_commit_interval_seconds",
        ("connect_cluster", "connector", "percentile"),
        "Usual seconds between two commits of the connector, of the same or of another offset, by "
        "the history pipeline.",
    ),
    EXPECTED_LAG := gauge(
        "expected_lag_records",
        ("connect_cluster", "connector", "percentile"),
        "Usual lag of a MirrorSourceConnector in records, over all its partitions, at this hour "
        "of the week (UTC), by the history pipeline; absent with less than four weeks of sampled "
        "log ends.",
    ),
    *SOURCE_END_METRICS,
    *MIRROR_METRICS,
    *REMEDIATION_METRICS,
    SERIES_DROPPED := counter(
        "series_dropped_total",
        ("reason",),
        "Series left out of this output, by reason: a configured limit of label sets (those of a "
        "connector or flow are counted once, when they are first left out), or inexact (numbers "
        "above 2^53, which the API and the command line show in full).",
    ),
)


def describe_metrics() -> list[MetricRow]:
    """Return the rows that `offsetwatch metrics` prints."""
    return [MetricRow(spec.name, spec.kind, spec.labels, spec.help) for spec in CATALOG]
