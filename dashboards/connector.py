"""One connector: does it get on, how far is it, what do its tasks say, what was done about it."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import Row, dashboard
from dashboards.panels import Bad, Column, Json, Panel, Query, lines, stat, states, table, word
from dashboards.queries import (
    TOPIC,
    Choice,
    Scope,
    greatest,
    lag_by_topic,
    lag_in_all,
    least,
    oldest,
    total,
)
from dashboards.words import CELL_FLOW, EXPLAIN, ONE_FLOW, SAWTOOTH, STATES, VERDICTS
from offsetwatch.serve.metrics import catalog as m
from offsetwatch.serve.metrics import source_end_families as ends
from offsetwatch.serve.metrics.metric import CONNECTOR

HERE: Final = Scope(
    (
        Choice("connect_cluster", "Connect cluster", m.CONNECTOR_INFO, many=False),
        Choice("connector", "Connector", m.CONNECTOR_INFO, many=False),
    )
)
LATE_RECORDS: Final = Bad(
    {thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"}, runbooks=("MirrorMaker2ReplicationLagHigh",)
)
LATE: Final = Bad(
    {thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"}, runbooks=("MirrorMaker2DataLate",)
)
AHEAD: Final = Bad({1: "red"}, runbooks=("SourcePositionInvalid",))
PARTITION: Final = ("source_partition",)


def board() -> Json:
    """The whole file."""
    return dashboard(
        "connector",
        "One connector: its verdict, its source offsets, its tasks, its lag, and its remediation.",
        scope=HERE,
        now=[*_numbers(), *_states()],
        rows=[
            Row("Source offsets", _sources(), only="source connectors and MirrorMaker 2"),
            Row("Replication lag", _replication(), only="MirrorMaker 2"),
            Row("Sink lag", _sink(), only="sink connectors"),
            Row("Remediation and plugin", [*_remedies(), _plugin()]),
            Row("Source ends", _source_ends(), only="configured sources"),
        ],
    )


def _numbers() -> list[Panel]:
    return [
        word(
            "Verdict",
            f"How it makes progress. {EXPLAIN}",
            greatest(HERE.of(m.PROGRESS), "verdict"),
            "{{verdict}}",
            VERDICTS,
            bad=Bad(runbooks=("ConnectorSilent", "ConnectorStalled", "ConnectorFallingBehind")),
        ),
        word(
            "State",
            "As Connect's REST API reports it. Running says nothing about progress: see the "
            "verdict.",
            greatest(HERE.of(m.CONNECTOR_STATE), "state"),
            "{{state}}",
            STATES,
            bad=Bad(runbooks=("ConnectorOrTaskFailed",)),
        ),
        stat(
            "Tasks failed",
            "Connect does not restart them by itself. Read the cause first: `offsetwatch "
            "explain CONNECTOR`.",
            total(HERE.of(m.CONNECTOR_TASKS, state="failed")),
            bad=Bad({1: "red"}, runbooks=("ConnectorOrTaskFailed",)),
            unit="short",
        ),
        stat(
            "Lag",
            "Records that MirrorMaker 2 has still to replicate, or that a sink has not committed. "
            "Unknown while one topic's lag is unknown; other source connectors have none.",
            f"({lag_in_all(HERE)}) or {total(HERE.of(m.SINK_LAG))}",
            unit="short",
            bad=Bad(
                {thresholds.SINK_LAG_RECORDS: "orange"},
                runbooks=("MirrorMaker2ReplicationLagHigh", "SinkLagHigh"),
            ),
            no_value="none or unknown",
        ),
        stat(
            "Lag in time",
            "Age of the oldest known record that waits to be replicated, or to be committed by a "
            "sink. It rises as fast as the clock while nothing moves.",
            f"{oldest(HERE)} or {greatest(HERE.of(m.SINK_LAG_SECONDS))}",
            unit="s",
            bad=Bad(
                {thresholds.SINK_LAG_SECONDS: "orange"},
                runbooks=("MirrorMaker2DataLate", "SinkDataLate"),
            ),
            no_value="none or unknown",
        ),
        table(
            "Tasks",
            "Each task and its state. All unassigned: a rebalance, or workers that are gone.",
            [Column("", f"{greatest(HERE.of(m.TASK_STATE), 'task', 'state')} == 1", unit="none")],
            labels=("task", "state"),
            size=(4, 4),
            bad=Bad(runbooks=("ConnectorOrTaskFailed",)),
            colours={"state": STATES},
        ),
    ]


def _states() -> list[Panel]:
    return [
        states(
            "Verdict over time",
            "When it stopped making progress. Unknown: too little is known yet, or an input "
            "cannot be read (board Health).",
            greatest(HERE.of(m.PROGRESS), "verdict"),
            "{{verdict}}",
            VERDICTS,
            bad=Bad(runbooks=("ConnectorSilent", "ConnectorStalled", "ConnectorFallingBehind")),
        ),
        states(
            "State over time",
            "Failed and running in turns: an operator or a tool restarts it. Find that one "
            "and stop it first.",
            greatest(HERE.of(m.CONNECTOR_STATE), "state"),
            "{{state}}",
            STATES,
            bad=Bad(runbooks=("ConnectorOrTaskFailed",)),
        ),
    ]


def _plugin() -> Panel:
    info = greatest(HERE.of(m.CONNECTOR_INFO), *CONNECTOR, "kind", "class", "version")
    return table(
        "Class and version",
        "Class and plugin version as Connect reports them. A changed version may explain offsets "
        "of a new form.",
        [Column("", info, unit="none")],
        labels=(*CONNECTOR, "kind", "class", "version"),
        size=(24, 8),
    )


def _sources() -> list[Panel]:
    baseline = greatest(HERE.of(m.EXPECTED_COMMITS, percentile="99"))
    advance = greatest(HERE.of(m.EXPECTED_INTERVAL, percentile="99"))
    partition = "{{source_partition}}"
    return [
        lines(
            "Age of the last offset commit",
            "By source partition, and the baseline (99th percentile) where history has "
            "learned it. Far above it: read the worker's log.",
            [
                Query(HERE.age(m.LAST_COMMIT, *PARTITION), partition),
                Query(baseline, "baseline, 99th percentile"),
            ],
            unit="s",
            bad=Bad(runbooks=("SourceCommitsOverdue",)),
        ),
        lines(
            "Age of the last offset advance",
            "By source partition, and the baseline at this hour of the week. Commits "
            "without an advance: stuck, or nothing to read.",
            [
                Query(HERE.age(m.LAST_ADVANCE, *PARTITION), partition),
                Query(advance, "baseline, 99th percentile"),
            ],
            unit="s",
        ),
        lines(
            "Offset commits and advances",
            "Source offsets written per second, and those that differ from the one before.",
            [
                Query(HERE.rate(m.COMMITS, *PARTITION), f"{partition} commits"),
                Query(HERE.rate(m.ADVANCES, *PARTITION), f"{partition} advances"),
            ],
            unit="cps",
        ),
        lines(
            "Offset rewinds and resets",
            "Commits that moved a position back, and tombstones that removed it: records "
            "are read again. If no one altered the offsets, stop the connector before you "
            "restore them.",
            [
                Query(HERE.increase(m.REWINDS, *PARTITION), f"{partition} rewound"),
                Query(HERE.increase(m.RESETS, *PARTITION), f"{partition} reset"),
            ],
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("SourceOffsetsRewound",)),
        ),
        lines(
            "Source offset",
            "Each number of the stored source offset. Compare it with the source itself (a "
            "log sequence number, a row id) to see what is left to read.",
            [
                Query(
                    greatest(HERE.of(m.POSITION), *PARTITION, "field"), f"{partition} {{{{field}}}}"
                )
            ],
            unit="short",
        ),
        lines(
            "Age of the last change read at the source",
            "Time since the last change at the source that the offset covers, where the "
            "connector stores one (Debezium, JDBC by timestamp). Rising while the source is "
            "written: it is late.",
            [Query(HERE.age(m.EVENT_TIME, *PARTITION), partition)],
            unit="s",
        ),
    ]


def _source_ends() -> list[Panel]:
    partition = "{{source_partition}}"
    return [
        table(
            "Source ends",
            "Each source partition against the end that its database or file reports. Connected: "
            "PostgreSQL streams from its slot. Ahead: how far the offset lies beyond the end.",
            [
                Column("waits for", greatest(HERE.of(ends.LAG_SECONDS), *PARTITION), "s"),
                Column("caught up", least(HERE.of(ends.CAUGHT_UP), *PARTITION), "short"),
                Column("connected", least(HERE.of(ends.SLOT_ACTIVE), *PARTITION), "short"),
                Column("snapshot", greatest(HERE.of(ends.IN_SNAPSHOT), *PARTITION), "short"),
                Column("ahead", greatest(HERE.of(ends.AHEAD), *PARTITION), "short", AHEAD),
            ],
            labels=PARTITION,
            size=(12, 8),
            bad=AHEAD,
        ),
        lines(
            "Lag behind the source in time",
            "Time since the end of the source was last seen at the position. Rising as fast as "
            "the clock: nothing is read. No line without the right to see the connector's "
            "connection: see `offsetwatch doctor`.",
            [Query(greatest(HERE.of(ends.LAG_SECONDS), *PARTITION), partition)],
            unit="s",
            bad=Bad(runbooks=("SourceBehind",)),
        ),
        lines(
            "Lag behind the source in bytes",
            "WAL, binlog or file after the position, at most: a database also counts what the "
            "connector does not capture.",
            [Query(greatest(HERE.of(ends.LAG_BYTES), *PARTITION), partition)],
            unit="bytes",
            bad=Bad(runbooks=("SourceBehind",)),
        ),
        lines(
            "Lag behind the source in transactions or rows",
            "Transactions by GTID, or rows by an ascending column, after the position, at most.",
            [
                Query(
                    greatest(HERE.of(ends.LAG_TRANSACTIONS), *PARTITION),
                    f"{partition} transactions",
                ),
                Query(greatest(HERE.of(ends.LAG_ROWS), *PARTITION), f"{partition} rows"),
            ],
            unit="short",
            bad=Bad(runbooks=("SourceBehind",)),
        ),
        lines(
            "Retention headroom at the source",
            "Bytes until the database may remove what the connector has not read. Falling while "
            "the connector does not advance: act before it reaches 0.",
            [Query(least(HERE.of(ends.HEADROOM_BYTES), *PARTITION), partition)],
            unit="bytes",
            bad=Bad(runbooks=("SourceRetentionNear",)),
        ),
        lines(
            "End of the source",
            "Each number of the end that the source reports. Compare it with the source offset.",
            [
                Query(
                    greatest(HERE.of(ends.END_POSITION), *PARTITION, "field"),
                    f"{partition} {{{{field}}}}",
                )
            ],
            unit="short",
        ),
    ]


def _replication() -> list[Panel]:
    flow = "{{source}} -> {{target}} {{topic}}"
    baseline = greatest(HERE.of(m.EXPECTED_LAG), "percentile")
    return [
        lines(
            "Replication lag by topic",
            f"Upstream records not replicated yet, at most. {SAWTOOTH} No line while one "
            "partition's lag is not known.",
            [Query(lag_by_topic(HERE), flow)],
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"},
                runbooks=("MirrorMaker2ReplicationLagHigh",),
            ),
            link=ONE_FLOW,
            unit="short",
        ),
        lines(
            "Replication lag in time by topic",
            "Age of the oldest record that waits, of those that are known. Rising as fast "
            "as the clock: nothing is replicated.",
            [Query(oldest(HERE, *TOPIC), flow)],
            unit="s",
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"},
                runbooks=("MirrorMaker2DataLate",),
            ),
            link=ONE_FLOW,
        ),
        lines(
            "Replication lag and baseline",
            "All topics together, beside the baseline of this hour of the week. Far above "
            "the 99th percentile: find out what writes more upstream. Empty where there is "
            "no baseline.",
            [
                Query(lag_in_all(HERE), "now"),
                Query(baseline, "baseline, percentile {{percentile}}"),
            ],
            unit="short",
            bad=Bad(runbooks=("MirrorMaker2ReplicationLagUnusual",)),
        ),
        table(
            "Topics",
            "Replication lag of each topic. Click a flow for its partitions.",
            [
                Column("records", lag_by_topic(HERE), "short", LATE_RECORDS),
                Column("oldest record", oldest(HERE, *TOPIC), "s", LATE),
            ],
            labels=TOPIC,
            links=(CELL_FLOW,),
            size=(12, 8),
            bad=LATE_RECORDS,
        ),
    ]


def _sink() -> list[Panel]:
    sink = ("topic",)
    return [
        lines(
            "Sink lag by topic",
            "Log end minus the committed offset of the sink's group. Growing while tasks "
            "run: the target is slow or refuses records.",
            [Query(total(HERE.of(m.SINK_LAG), *sink), "{{topic}}")],
            bad=Bad({thresholds.SINK_LAG_RECORDS: "orange"}, runbooks=("SinkLagHigh",)),
            unit="short",
        ),
        lines(
            "Sink lag in time by topic",
            "Age of the oldest record that the sink has not committed. Rising as fast as "
            "the clock: check its tasks and its target.",
            [Query(greatest(HERE.of(m.SINK_LAG_SECONDS), *sink), "{{topic}}")],
            unit="s",
            bad=Bad({thresholds.SINK_LAG_SECONDS: "orange"}, runbooks=("SinkDataLate",)),
        ),
    ]


def _remedies() -> list[Panel]:
    return [
        lines(
            "Stopped by remediation",
            "How long remediation has held it stopped. Beyond the dashed line an operator "
            "has to act: `offsetwatch plan list`.",
            [Query(HERE.age(m.REMEDIATION_STOPPED_SINCE, *CONNECTOR), "held")],
            unit="s",
            bad=Bad(
                {thresholds.REMEDIATION_HOLD_SECONDS: "orange"},
                runbooks=("RemediationHoldsConnector",),
            ),
        ),
        lines(
            "Refusals by guard",
            f"How often each guard began to refuse an action. {EXPLAIN}",
            [
                Query(
                    HERE.increase(m.REMEDIATION_BLOCKED, "action", "guard"),
                    "{{action}} {{guard}}",
                )
            ],
            unit="short",
        ),
    ]
