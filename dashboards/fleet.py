"""The overview: what is wrong now, then how it came to be. One board for all that is watched."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import Row, dashboard
from dashboards.panels import Bad, Column, Json, Panel, Query, lines, stat, table
from dashboards.queries import (
    CLUSTER,
    DIRECTION,
    MIRROR,
    TOPIC,
    Choice,
    Scope,
    found,
    greatest,
    lag_by_flow,
    lag_by_topic,
    lag_in_all,
    least,
    oldest,
    topics_unknown,
    total,
    zeros,
)
from dashboards.words import (
    CELL_CONNECTOR,
    CELL_FLOW,
    EMPTY_IS_GOOD,
    EXPLAIN,
    ONE_CONNECTOR,
    ONE_FLOW,
    RETENTION_NEAR_SECONDS,
    SAWTOOTH,
    SEVERITIES,
    STATES,
    UNWELL,
    VERDICTS,
)
from offsetwatch.serve.metrics import catalog as m
from offsetwatch.serve.metrics import mirror_families as mm2
from offsetwatch.serve.metrics import source_end_families as ends
from offsetwatch.serve.metrics.metric import CONNECTOR, INPUT, TAIL

HERE: Final = Scope((CLUSTER, Choice("connector", "Connector", m.CONNECTOR_INFO)))
RED: Final = {1.0: "red"}
ORANGE: Final = {1.0: "orange"}


def board() -> Json:
    """The whole file."""
    return dashboard(
        "fleet",
        "Progress and lag of Kafka Connect source connectors and MirrorMaker 2.",
        scope=HERE,
        now=[*_problems_now(), *_lists()],
        rows=[
            Row("Lag and plans", _numbers()),
            Row("Verdicts and states", _states()),
            Row("MirrorMaker 2", _replication()),
            Row("Source connectors", _sources()),
            Row("Sink connectors", _sinks()),
            Row("Configured sources", _source_ends()),
        ],
    )


def _problems_now() -> list[Panel]:
    tasks = total(HERE.of(m.CONNECTOR_TASKS, state="failed"))
    return [
        stat(
            "Critical findings",
            "They need action now. The table below names finding and connector; "
            "`offsetwatch status` has the evidence of each.",
            found(HERE, severity="critical"),
            bad=Bad(RED),
            unit="short",
        ),
        stat(
            "Warnings",
            "Findings to investigate today. `offsetwatch status` has the evidence of each.",
            found(HERE, severity="warning"),
            bad=Bad(ORANGE),
            unit="short",
        ),
        stat(
            "Connectors silent or stalled",
            "Connectors that have work and do none of it. See the table below, then the "
            "board Connector.",
            total(HERE.of(m.PROGRESS, verdict="silent|stalled")),
            bad=Bad(RED, runbooks=("ConnectorSilent", "ConnectorStalled")),
            unit="short",
        ),
        stat(
            "Connectors failed",
            "Connectors in state FAILED. Connect does not restart them by itself: read the "
            "cause first (`offsetwatch explain CONNECTOR`).",
            total(HERE.of(m.CONNECTOR_STATE, state="failed")),
            bad=Bad(RED, runbooks=("ConnectorOrTaskFailed",)),
            unit="short",
        ),
        stat(
            "Tasks failed",
            "Tasks in state FAILED: their partitions do not advance. Read the cause before "
            "you restart one.",
            tasks,
            bad=Bad(RED, runbooks=("ConnectorOrTaskFailed",)),
            unit="short",
        ),
        stat(
            "Inputs down",
            "Topics, Connect clusters and Kafka clusters that cannot be read. What depends "
            "on them is missing here: fix them first (board Health).",
            zeros(HERE.of(m.INPUT_UP)),
            bad=Bad(RED, runbooks=("OffsetwatchBlind",)),
            unit="short",
        ),
    ]


def _numbers() -> list[Panel]:
    waiting = total(HERE.of(m.REMEDIATION_PLANS, state="proposed|parked"))
    sinks = greatest(HERE.of(m.SINK_LAG_SECONDS))
    return [
        stat(
            "Internal topics not caught up",
            "Internal topics that have not been read to their end since the exporter started. "
            "Until then nothing of them is shown: wait, then see the board Health.",
            zeros(HERE.of(m.TAIL_CAUGHT_UP)),
            bad=Bad(ORANGE, runbooks=("OffsetwatchBlind",)),
            unit="short",
        ),
        stat(
            "Replication lag",
            "Upstream records that are not replicated yet, at most, over all flows and "
            "topics. Unknown while the lag of one topic is, because a sum would be too "
            "small: the table of problems names the topic.",
            lag_in_all(HERE),
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"},
                runbooks=("MirrorMaker2ReplicationLagHigh",),
            ),
            unit="short",
        ),
        stat(
            "Replication lag in time",
            "Age of the oldest record that waits for replication, of those that are known. "
            "It grows while replication does not advance.",
            oldest(HERE),
            unit="s",
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"},
                runbooks=("MirrorMaker2DataLate",),
            ),
        ),
        stat(
            "Sink lag in time",
            "Age of the oldest record that a sink connector has not committed, of those "
            "that are known.",
            sinks,
            unit="s",
            bad=Bad({thresholds.SINK_LAG_SECONDS: "orange"}, runbooks=("SinkDataLate",)),
        ),
        stat(
            "Plans waiting",
            "Plans that wait for an operator: `offsetwatch plan list`. A parked one holds "
            "its connector stopped.",
            waiting,
            bad=Bad(ORANGE, runbooks=("RemediationPlanParked", "RemediationProposalWaits")),
            unit="short",
        ),
        stat(
            "Exporters up",
            "Instances of offsetwatch that answer Prometheus. Unknown: there is none, and "
            "nothing is monitored.",
            f"count({HERE.of(m.BUILD_INFO)})",
            unit="short",
            bad=Bad(below={1: "red"}, runbooks=("OffsetwatchBlind",)),
        ),
    ]


def _lists() -> list[Panel]:
    findings = greatest(HERE.of(m.FINDINGS), *CONNECTOR, "finding", "severity")
    return [
        table(
            "Findings",
            f"What the daemon has found, and how often. {EMPTY_IS_GOOD} `offsetwatch status` "
            "has a sentence and evidence for each.",
            [Column("findings", findings, unit="short")],
            labels=("severity", "finding", *CONNECTOR),
            links=(CELL_CONNECTOR,),
            size=(10, 8),
            colours={"severity": SEVERITIES},
        ),
        table(
            "Problems",
            f"One line per problem, by the thresholds of the alerts. {EMPTY_IS_GOOD} Begin at the "
            "top: what cannot be read hides the rest.",
            [
                Column("value", _named(_problems()), unit="short"),
                Column("age", _named(_overdue()), unit="s"),
            ],
            labels=(
                *("problem", *CONNECTOR, "task", "state", "verdict"),
                *(*DIRECTION, "kafka", "topic", "partition", "kind", "table"),
            ),
            links=(CELL_CONNECTOR, CELL_FLOW),
            size=(14, 8),
            colours={"state": STATES, "verdict": VERDICTS},
        ),
    ]


def _named(problems: dict[str, str]) -> str:
    return "\nor\n".join(
        f'label_replace({expr}, "problem", "{name}", "", "")' for name, expr in problems.items()
    )


def _overdue() -> dict[str, str]:
    """What is too old, by name, in seconds, with the thresholds of the alerts."""
    silence, age = thresholds.INPUT_SILENCE_SECONDS, thresholds.HISTORY_AGE_SECONDS
    of_topic = greatest(HERE.of(m.SINK_LAG_SECONDS), *CONNECTOR, "topic")
    return {
        "input silent": f"{HERE.age(m.INPUT_LAST_SUCCESS, *INPUT)} > {silence}",
        "replication late": f"{oldest(HERE, *TOPIC)} > {thresholds.MM2_REPLICATION_LAG_SECONDS}",
        "sink data late": f"{of_topic} > {thresholds.SINK_LAG_SECONDS}",
        "history does not advance": f"{HERE.age(m.HISTORY_TABLE_AT, 'table')} > {age}",
    }


def _problems() -> dict[str, str]:
    """What else is wrong, by name, with the thresholds of the alerts."""
    state = m.CONNECTOR_STATE
    return {
        "input down": f"{least(HERE.of(m.INPUT_UP), *INPUT)} == 0",
        "tail not caught up": f"{least(HERE.of(m.TAIL_CAUGHT_UP), *TAIL)} == 0",
        "tail behind": (
            f"{greatest(HERE.of(m.TAIL_BEHIND), *TAIL)} > {thresholds.TAIL_BEHIND_RECORDS}"
        ),
        "no offsets topic read": _unread(),
        "lag not known": _without_lag(),
        "topic lag not known": topics_unknown(HERE),
        "connector failed": f"{greatest(HERE.of(state, state='failed'), *CONNECTOR)} == 1",
        "task failed": (
            f"{greatest(HERE.of(m.TASK_STATE, state='failed'), *CONNECTOR, 'task')} == 1"
        ),
        "running without a task": _without_tasks(),
        "verdict not ok": (
            f"{greatest(HERE.of(m.PROGRESS, verdict=UNWELL), *CONNECTOR, 'verdict')} == 1"
        ),
        "beyond the log end": (
            f"{greatest(HERE.of(mm2.AHEAD), *MIRROR, 'topic', 'partition')} > 0"
        ),
        "below the log start": (
            f"{least(HERE.of(mm2.HEADROOM), *MIRROR, 'topic', 'partition')} < 0"
        ),
        "replication lag high": f"{lag_by_topic(HERE)} > {thresholds.MM2_REPLICATION_LAG_RECORDS}",
        "sink lag high": (
            f"{total(HERE.of(m.SINK_LAG), *CONNECTOR, 'topic')} > {thresholds.SINK_LAG_RECORDS}"
        ),
        "internal topic": (
            f"{greatest(HERE.of(m.TOPIC_PROBLEM), 'kafka', 'topic', 'problem')} == 1"
        ),
        "plan parked": f"{greatest(HERE.of(m.REMEDIATION_PLANS, state='parked'))} > 0",
        "paused or stopped": (
            f"{greatest(HERE.of(state, state='paused|stopped'), *CONNECTOR, 'state')} == 1"
        ),
    }


def _without_tasks() -> str:
    # A mirror is left out: it has no tasks while nothing matches its topics.
    tasks = f"sum without (state) ({HERE.of(m.CONNECTOR_TASKS)})"
    return " and ".join(
        (
            f"{greatest(tasks, *CONNECTOR)} == 0",
            f"{greatest(HERE.of(m.CONNECTOR_STATE, state='running'), *CONNECTOR)} == 1",
            greatest(HERE.of(m.CONNECTOR_INFO, kind="source|sink"), *CONNECTOR),
        )
    )


def _unread() -> str:
    sources = HERE.of(m.CONNECTOR_INFO, kind="source|mirror")
    read = f"{HERE.of(m.TAIL_CAUGHT_UP)} == 1"
    polled = f"on (connect_cluster, connector) {HERE.of(m.FROM_REST)}"
    return (
        f"count by (connect_cluster) ({sources} unless on (job, instance) {read} unless {polled})"
    )


def _without_lag() -> str:
    mirrors = HERE.of(m.CONNECTOR_INFO, **{"class": ".*[.]MirrorSourceConnector"})
    known = greatest(f"({HERE.of(mm2.LAG)} or {HERE.of(mm2.TOPIC_LAG)})", *CONNECTOR)
    return (
        f"{greatest(mirrors, *CONNECTOR)} and {greatest(HERE.of(m.LAST_COMMIT), *CONNECTOR)} "
        f"unless {known}"
    )


def _states() -> list[Panel]:
    return [
        lines(
            "Connectors by verdict",
            "How many connectors are ok, idle, slow, stalled, silent, rewound, failed, paused, "
            "stopped or unknown. Unknown grows when an input dies: see the board Health.",
            [Query(total(HERE.of(m.PROGRESS), "verdict"), "{{verdict}}")],
            stacked=True,
            colours=VERDICTS,
            unit="short",
            bad=Bad(runbooks=("ConnectorSilent", "ConnectorStalled")),
        ),
        lines(
            "Findings by severity",
            "When findings began, and whether they ended. A gap is a time without findings, "
            "or one in which no daemon ran.",
            [Query(total(HERE.of(m.FINDINGS), "severity"), "{{severity}}")],
            stacked=True,
            colours=SEVERITIES,
            unit="short",
        ),
        lines(
            "Connectors by state",
            "As Connect's REST API reports it. Failed ones do not restart by themselves.",
            [Query(total(HERE.of(m.CONNECTOR_STATE), "state"), "{{state}}")],
            stacked=True,
            colours=STATES,
            unit="short",
            bad=Bad(runbooks=("ConnectorOrTaskFailed",)),
        ),
        lines(
            "Tasks by state",
            "As Connect's REST API reports it. Many unassigned at once are a rebalance: "
            "check the workers.",
            [Query(total(HERE.of(m.CONNECTOR_TASKS), "state"), "{{state}}")],
            stacked=True,
            colours=STATES,
            unit="short",
            bad=Bad(runbooks=("ConnectorOrTaskFailed",)),
        ),
    ]


def _replication() -> list[Panel]:
    legend = "{{connect_cluster}} {{connector}} {{source}} -> {{target}}"
    written = f"{legend} written"
    return [
        lines(
            "Replication lag by flow",
            f"Upstream records not replicated yet, at most. {SAWTOOTH} A flow has no line while "
            "one of its topics' lag is not known. Click a line for its topics.",
            [Query(lag_by_flow(HERE), legend)],
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"},
                runbooks=("MirrorMaker2ReplicationLagHigh",),
            ),
            link=ONE_FLOW,
            unit="short",
        ),
        lines(
            "Replication lag in time by flow",
            "Age of the oldest record that waits, of those that are known. A flow whose "
            "line rises as fast as the clock does not advance: click it.",
            [Query(oldest(HERE, *MIRROR), legend)],
            unit="s",
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"},
                runbooks=("MirrorMaker2DataLate",),
            ),
            link=ONE_FLOW,
        ),
        lines(
            "Records produced upstream and replicated",
            "Records per second at the upstream log end, and replicated ones, of partitions "
            "that are exported one by one. The rate is over five minutes, because positions "
            "move once per flush. Lag grows while the second is below the first.",
            [
                Query(total(f"deriv({HERE.of(mm2.LOG_END)}[5m])", *MIRROR), written),
                Query(
                    total(f"deriv({HERE.of(mm2.REPLICATED)}[5m])", *MIRROR), f"{legend} replicated"
                ),
            ],
            unit="cps",
            link=ONE_FLOW,
        ),
        lines(
            "Time to retention by flow",
            "Time until the upstream log start reaches a position, at the present rates of "
            "both. Shorter than the repair takes: raise retention upstream first. No line "
            "while it does not come closer.",
            [Query(least(HERE.of(mm2.HEADROOM_SECONDS), *MIRROR), legend)],
            unit="s",
            link=ONE_FLOW,
            bad=Bad(
                below={RETENTION_NEAR_SECONDS: "red"},
                runbooks=("MirrorMaker2RetentionNear",),
            ),
        ),
    ]


def _sources() -> list[Panel]:
    legend = "{{connect_cluster}} {{connector}}"
    return [
        lines(
            "Age of the last offset commit",
            "Time since the connector last wrote a source offset. Idle connectors commit "
            "nothing, so a rising line alone is no fault: see the verdict.",
            [Query(HERE.age(m.LAST_COMMIT, *CONNECTOR), legend)],
            unit="s",
            bad=Bad(runbooks=("SourceCommitsOverdue",)),
            link=ONE_CONNECTOR,
        ),
        lines(
            "Age of the last offset advance",
            "Time since a commit last differed from the one before it. Commits without an "
            f"advance: the connector is stuck, or has nothing to read. {EXPLAIN}",
            [Query(HERE.age(m.LAST_ADVANCE, *CONNECTOR), legend)],
            unit="s",
            link=ONE_CONNECTOR,
        ),
        lines(
            "Offset commits",
            "Source offsets written per second. None from many connectors at once: check "
            "the workers and the offsets topic.",
            [Query(HERE.rate(m.COMMITS, *CONNECTOR), legend)],
            unit="cps",
            link=ONE_CONNECTOR,
        ),
        lines(
            "Offset rewinds and resets",
            "Commits that moved a position back, and tombstones that removed it. After "
            "either, records are read again: find out who altered the offsets.",
            [
                Query(HERE.increase(m.REWINDS, *CONNECTOR), f"{legend} rewound"),
                Query(HERE.increase(m.RESETS, *CONNECTOR), f"{legend} reset"),
            ],
            link=ONE_CONNECTOR,
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("SourceOffsetsRewound",)),
        ),
    ]


def _sinks() -> list[Panel]:
    legend = "{{connect_cluster}} {{connector}}"
    return [
        lines(
            "Sink lag by connector",
            "Log end minus the committed offset of the sink connector's consumer group. "
            "Partitions with an unknown log end are not in it.",
            [Query(total(HERE.of(m.SINK_LAG), *CONNECTOR), legend)],
            link=ONE_CONNECTOR,
            unit="short",
            bad=Bad({thresholds.SINK_LAG_RECORDS: "orange"}, runbooks=("SinkLagHigh",)),
        ),
        lines(
            "Sink lag in time by connector",
            "Age of the oldest record that it has not committed, of those that are known. "
            "Rising as fast as the clock: the sink is stuck, check its tasks and its "
            "target.",
            [Query(greatest(HERE.of(m.SINK_LAG_SECONDS), *CONNECTOR), legend)],
            unit="s",
            bad=Bad({thresholds.SINK_LAG_SECONDS: "orange"}, runbooks=("SinkDataLate",)),
            link=ONE_CONNECTOR,
        ),
    ]


def _source_ends() -> list[Panel]:
    return [
        lines(
            "Lag behind the source in time",
            "Time since the end of the source was last seen at the position, where `sources` has "
            "it. Rising as fast as the clock: the connector reads nothing.",
            [
                Query(
                    greatest(HERE.of(ends.LAG_SECONDS), *CONNECTOR),
                    "{{connect_cluster}} {{connector}}",
                )
            ],
            unit="s",
            bad=Bad(runbooks=("SourceBehind",)),
            link=ONE_CONNECTOR,
        ),
    ]
