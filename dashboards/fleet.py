"""The overview: what is wrong now, then how it came to be. One board for all that is watched."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import dashboard
from dashboards.panels import Column, Json, Panel, Query, lines, stat, table
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
    SAWTOOTH,
    SEVERITIES,
    STATES,
    UNWELL,
    VERDICTS,
)
from exporter.serve import catalog as m
from exporter.serve import catalog_mm2 as mm2
from exporter.serve import catalog_remedy as remedy
from exporter.serve.spec import CONNECTOR, INPUT, TAIL

HERE: Final = Scope((CLUSTER, Choice("connector", "Connector", m.CONNECTOR_INFO)))
RED: Final = {1.0: "red"}
ORANGE: Final = {1.0: "orange"}


def board() -> Json:
    """The whole file."""
    return dashboard(
        "fleet",
        "Progress and lag of Kafka Connect source connectors and MirrorMaker 2.",
        scope=HERE,
        rows={
            "Now": [*_numbers(), *_lists()],
            "Verdicts and states": _states(),
            "MirrorMaker 2": _replication(),
            "Source connectors": _sources(),
            "Sinks": _sinks(),
        },
    )


def _numbers() -> list[Panel]:
    tasks = total(HERE.of(m.CONNECTOR_TASKS, state="failed"))
    waiting = total(HERE.of(remedy.REMEDIATION_PLANS, state="proposed|parked"))
    sinks = greatest(HERE.of(m.SINK_LAG_SECONDS))
    return [
        stat(
            "Critical findings",
            "Act now. The table below names them; `offsetwatch status` says which connector each "
            "is of.",
            found(HERE, severity="critical"),
            bad=RED,
        ),
        stat(
            "Warnings",
            "Findings to look into today. `offsetwatch status` has each with its sentence.",
            found(HERE, severity="warning"),
            bad=ORANGE,
        ),
        stat(
            "Silent or stalled",
            "Connectors that have work and do none of it. See the table below, then the "
            "connector's own board.",
            total(HERE.of(m.PROGRESS, verdict="silent|stalled")),
            bad=RED,
        ),
        stat(
            "Connectors failed",
            "Connectors whose own state is failed. Connect does not restart them by itself: read "
            "the trace first (`offsetwatch connectors status`).",
            total(HERE.of(m.CONNECTOR_STATE, state="failed")),
            bad=RED,
        ),
        stat(
            "Tasks failed",
            "Tasks in state failed; what they should copy does not move. Read the trace before you "
            "restart one.",
            tasks,
            bad=RED,
        ),
        stat(
            "Inputs down",
            "Topics, Connect clusters and Kafka clusters that cannot be read. What depends on them "
            "is missing from this board: fix them first (board Health).",
            zeros(HERE.of(m.INPUT_UP)),
            bad=RED,
        ),
        stat(
            "Tails not caught up",
            "Internal topics that have not been read to their end since the exporter started. "
            "Until then nothing of them is shown: wait, then see the board Health.",
            zeros(HERE.of(m.TAIL_CAUGHT_UP)),
            bad=ORANGE,
        ),
        stat(
            "MM2 lag",
            "Upstream records that are not replicated yet, at most, over all flows and topics. "
            "Unknown while one topic's is not known, because a sum would be too small; the table "
            "below names the topic.",
            lag_in_all(HERE),
            bad={thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"},
        ),
        stat(
            "MM2 oldest record",
            "Age of the oldest record that waits for replication, of those that are known. It "
            "grows while replication stands still: see which flow below.",
            oldest(HERE),
            unit="s",
            bad={thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"},
        ),
        stat(
            "Sinks' oldest record",
            "Age of the oldest record that a sink connector has not committed, of those that are "
            "known. See which below.",
            sinks,
            unit="s",
            bad={thresholds.SINK_LAG_SECONDS: "orange"},
        ),
        stat(
            "Plans that wait",
            "Plans that wait for an operator: `offsetwatch plan list`. A parked one holds its "
            "connector.",
            waiting,
            bad=ORANGE,
        ),
        stat(
            "Exporters",
            "Instances of offsetwatch that answer Prometheus. Unknown means that there is none, "
            "and that nothing here is watched.",
            f"count({HERE.of(m.BUILD_INFO)})",
        ),
    ]


def _lists() -> list[Panel]:
    findings = greatest(HERE.of(m.FINDINGS), "connect_cluster", "finding", "severity")
    problems = "\nor\n".join(
        f'label_replace({expr}, "problem", "{name}", "", "")' for name, expr in _problems().items()
    )
    return [
        table(
            "Findings",
            f"What the daemon has found, and how often. {EMPTY_IS_GOOD} `offsetwatch status` has a "
            "sentence and evidence for each; the README says where to look first.",
            [Column("findings", findings)],
            labels=("severity", "finding", "connect_cluster"),
            width=8,
        ),
        table(
            "What is wrong now",
            f"One line per problem, by the thresholds of the alerts. {EMPTY_IS_GOOD} Begin at the "
            "top: what cannot be read hides the rest.",
            [Column("value", problems)],
            labels=(
                *("problem", *CONNECTOR, "task", "state", "verdict"),
                *(*DIRECTION, "kafka", "topic", "partition", "kind", "table"),
            ),
            links=(CELL_CONNECTOR, CELL_FLOW),
            width=16,
        ),
    ]


def _problems() -> dict[str, str]:
    """What is wrong, by name, with the thresholds of the alerts."""
    silence, age = thresholds.INPUT_SILENCE_SECONDS, thresholds.HISTORY_AGE_SECONDS
    of_topic = greatest(HERE.of(m.SINK_LAG_SECONDS), *CONNECTOR, "topic")
    state = m.CONNECTOR_STATE
    return {
        "input down": f"{least(HERE.of(m.INPUT_UP), *INPUT)} == 0",
        "input silent": f"{HERE.age(m.INPUT_LAST_SUCCESS, *INPUT)} > {silence}",
        "tail not caught up": f"{least(HERE.of(m.TAIL_CAUGHT_UP), *TAIL)} == 0",
        "tail behind": (
            f"{greatest(HERE.of(m.TAIL_BEHIND), *TAIL)} > {thresholds.TAIL_BEHIND_RECORDS}"
        ),
        "no offsets topic read": _unread(),
        "lag not known": _without_lag(),
        "lag of a topic not known": topics_unknown(HERE),
        "connector failed": f"{greatest(HERE.of(state, state='failed'), *CONNECTOR)} == 1",
        "task failed": (
            f"{greatest(HERE.of(m.TASK_STATE, state='failed'), *CONNECTOR, 'task')} == 1"
        ),
        "running without a task": _without_tasks(),
        "no good verdict": (
            f"{greatest(HERE.of(m.PROGRESS, verdict=UNWELL), *CONNECTOR, 'verdict')} == 1"
        ),
        "beyond the log end": (
            f"{greatest(HERE.of(mm2.AHEAD), *MIRROR, 'topic', 'partition')} > 0"
        ),
        "below the log start": (
            f"{least(HERE.of(mm2.HEADROOM), *MIRROR, 'topic', 'partition')} < 0"
        ),
        "MM2 lag high": f"{lag_by_topic(HERE)} > {thresholds.MM2_REPLICATION_LAG_RECORDS}",
        "MM2 data late": f"{oldest(HERE, *TOPIC)} > {thresholds.MM2_REPLICATION_LAG_SECONDS}",
        "sink lag high": (
            f"{total(HERE.of(m.SINK_LAG), *CONNECTOR, 'topic')} > {thresholds.SINK_LAG_RECORDS}"
        ),
        "sink data late": f"{of_topic} > {thresholds.SINK_LAG_SECONDS}",
        "internal topic": (
            f"{greatest(HERE.of(m.TOPIC_PROBLEM), 'kafka', 'topic', 'problem')} == 1"
        ),
        "plan parked": f"{greatest(HERE.of(remedy.REMEDIATION_PLANS, state='parked'))} > 0",
        "history stands still": f"{HERE.age(m.HISTORY_TABLE_AT, 'table')} > {age}",
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
        ),
        lines(
            "Findings by severity",
            "When problems began, and whether they end. A gap is a time without findings, or "
            "without a running daemon.",
            [Query(total(HERE.of(m.FINDINGS), "severity"), "{{severity}}")],
            stacked=True,
            colours=SEVERITIES,
        ),
        lines(
            "Connectors by state",
            "As Connect's REST API gives it. Failed ones do not come back by themselves.",
            [Query(total(HERE.of(m.CONNECTOR_STATE), "state"), "{{state}}")],
            stacked=True,
            colours=STATES,
        ),
        lines(
            "Tasks by state",
            "As Connect's REST API gives it. Many unassigned at once are a rebalance: look at the "
            "workers.",
            [Query(total(HERE.of(m.CONNECTOR_TASKS), "state"), "{{state}}")],
            stacked=True,
            colours=STATES,
        ),
    ]


def _replication() -> list[Panel]:
    legend = "{{connect_cluster}} {{connector}} {{source}} -> {{target}}"
    written = f"{legend} written"
    return [
        lines(
            "MM2 lag by flow",
            f"Upstream records not replicated yet, at most. {SAWTOOTH} A flow has no line while "
            "one of its topics' lag is not known. Click a line for its topics.",
            [Query(lag_by_flow(HERE), legend)],
            bad=thresholds.MM2_REPLICATION_LAG_RECORDS,
            link=ONE_FLOW,
        ),
        lines(
            "MM2 oldest record by flow",
            "Age of the oldest record that waits, of those that are known. A line that rises as "
            "fast as the clock is a flow that stands still: click it.",
            [Query(oldest(HERE, *MIRROR), legend)],
            unit="s",
            bad=thresholds.MM2_REPLICATION_LAG_SECONDS,
            link=ONE_FLOW,
        ),
        lines(
            "Written upstream and replicated",
            "Records a second that arrive at the upstream log end, and that are known to be "
            "replicated, of the partitions that are shown one by one. Over five minutes, because "
            "positions move once per flush. Where the second stays below the first, lag grows.",
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
            "Least time to retention",
            "Time until the upstream log start reaches a position, at the rate of both. Shorter "
            "than the repair takes: raise retention upstream first. No line while it does not come "
            "closer.",
            [Query(least(HERE.of(mm2.HEADROOM_SECONDS), *MIRROR), legend)],
            unit="s",
            link=ONE_FLOW,
        ),
    ]


def _sources() -> list[Panel]:
    legend = "{{connect_cluster}} {{connector}}"
    return [
        lines(
            "Age of the newest commit",
            "Time since the connector last wrote a source offset. Idle connectors commit nothing, "
            "so a rising line alone is no fault: the verdict says.",
            [Query(HERE.age(m.LAST_COMMIT, *CONNECTOR), legend)],
            unit="s",
            link=ONE_CONNECTOR,
        ),
        lines(
            "Age of the newest change",
            "Time since a commit last differed from the one before it. Commits that go on without "
            f"a change: the connector is stuck, or has nothing to read. {EXPLAIN}",
            [Query(HERE.age(m.LAST_ADVANCE, *CONNECTOR), legend)],
            unit="s",
            link=ONE_CONNECTOR,
        ),
        lines(
            "Commits",
            "Source offsets written a second. None from many connectors at once: look at the "
            "workers and at the offsets topic.",
            [Query(HERE.rate(m.COMMITS, *CONNECTOR), legend)],
            unit="cps",
            link=ONE_CONNECTOR,
        ),
        lines(
            "Rewinds and resets",
            "Commits that moved a position back, and tombstones that removed it. Either means that "
            "records are read again: ask who did it.",
            [
                Query(HERE.increase(m.REWINDS, *CONNECTOR), f"{legend} rewound"),
                Query(HERE.increase(m.RESETS, *CONNECTOR), f"{legend} reset"),
            ],
            link=ONE_CONNECTOR,
        ),
    ]


def _sinks() -> list[Panel]:
    legend = "{{connect_cluster}} {{connector}}"
    return [
        lines(
            "Sink lag",
            "Log end minus the committed offset of the sink connector's consumer group. A "
            "partition whose log end is unknown is not in it.",
            [Query(total(HERE.of(m.SINK_LAG), *CONNECTOR), legend)],
            link=ONE_CONNECTOR,
        ),
        lines(
            "Sinks' oldest record by connector",
            "Age of the oldest record that it has not committed, of those that are known. Rising "
            "as fast as the clock: the sink is stuck, see its tasks and its target.",
            [Query(greatest(HERE.of(m.SINK_LAG_SECONDS), *CONNECTOR), legend)],
            unit="s",
            bad=thresholds.SINK_LAG_SECONDS,
            link=ONE_CONNECTOR,
        ),
    ]
