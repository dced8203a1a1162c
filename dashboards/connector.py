"""One connector: does it get on, how far is it, what do its tasks say, what was done about it."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import dashboard
from dashboards.panels import Column, Json, Panel, Query, lines, stat, states, table, word
from dashboards.queries import (
    TOPIC,
    Choice,
    Scope,
    greatest,
    lag_by_topic,
    lag_in_all,
    oldest,
    total,
)
from dashboards.words import CELL_FLOW, EXPLAIN, ONE_FLOW, SAWTOOTH, STATES, VERDICTS
from exporter.serve import catalog as m
from exporter.serve import catalog_remedy as remedy
from exporter.serve.spec import CONNECTOR

HERE: Final = Scope(
    (
        Choice("connect_cluster", "Connect cluster", m.CONNECTOR_INFO, many=False),
        Choice("connector", "Connector", m.CONNECTOR_INFO, many=False),
    )
)
PARTITION: Final = ("source_partition",)
NO_SOURCE: Final = "Empty for sinks."
NO_MIRROR: Final = "Empty but for MirrorMaker 2."
NO_SINK: Final = "Empty but for sinks."


def board() -> Json:
    """The whole file."""
    return dashboard(
        "connector",
        "One connector: its verdict, its source offsets, its tasks, its lag, and its remediation.",
        scope=HERE,
        rows={
            "Now": _numbers(),
            "Verdict and tasks": _states(),
            "Source offsets": _sources(),
            "What it has left to do": _lag(),
            "Remediation": _remedies(),
        },
    )


def _numbers() -> list[Panel]:
    return [
        word(
            "Verdict",
            f"Does it get on? {EXPLAIN}",
            greatest(HERE.of(m.PROGRESS), "verdict"),
            "{{verdict}}",
            VERDICTS,
        ),
        word(
            "State",
            "As Connect's REST API gives it. Running says nothing of progress: see the verdict.",
            greatest(HERE.of(m.CONNECTOR_STATE), "state"),
            "{{state}}",
            STATES,
        ),
        stat(
            "Tasks that failed",
            "Connect does not restart them by itself. Read the trace first: `offsetwatch "
            "connectors status CONNECTOR`.",
            total(HERE.of(m.CONNECTOR_TASKS, state="failed")),
            bad={1: "red"},
        ),
        stat(
            "Newest commit",
            f"Time since it last wrote a source offset. Old and no verdict against it: it has "
            f"nothing to do. {NO_SOURCE}",
            HERE.age(m.LAST_COMMIT),
            unit="s",
        ),
        stat(
            "Left to replicate",
            "Upstream records not replicated yet, at most. Unknown while one topic's lag is not "
            f"known. {NO_MIRROR}",
            lag_in_all(HERE),
            bad={thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"},
        ),
        stat(
            "Left to commit",
            "Records that the sink has not committed. A partition whose log end is unknown is "
            f"not in it. {NO_SINK}",
            total(HERE.of(m.SINK_LAG)),
            bad={thresholds.SINK_LAG_RECORDS: "orange"},
        ),
    ]


def _states() -> list[Panel]:
    what = greatest(HERE.of(m.CONNECTOR_INFO), *CONNECTOR, "kind", "class", "version")
    return [
        states(
            "Verdict over time",
            "When it stopped getting on. Unknown: too little was seen, or an input could not be "
            "read; see the board Health.",
            greatest(HERE.of(m.PROGRESS), "verdict"),
            "{{verdict}}",
            VERDICTS,
        ),
        states(
            "State over time",
            "Failed and running in turns: an operator or a script restarts it. Find it, and "
            "stop that first.",
            greatest(HERE.of(m.CONNECTOR_STATE), "state"),
            "{{state}}",
            STATES,
        ),
        table(
            "Tasks",
            "Each task and its state. All unassigned: a rebalance, or workers that are gone.",
            [Column("", f"{greatest(HERE.of(m.TASK_STATE), 'task', 'state')} == 1")],
            labels=("task", "state"),
            width=6,
        ),
        table(
            "What it is",
            "Class and plugin version as Connect lists them. A version that changed may explain "
            "offsets that are new in kind.",
            [Column("", what)],
            labels=(*CONNECTOR, "kind", "class", "version"),
            width=18,
        ),
    ]


def _sources() -> list[Panel]:
    usual = greatest(HERE.of(m.EXPECTED_COMMITS, percentile="99"))
    advance = greatest(HERE.of(m.EXPECTED_INTERVAL, percentile="99"))
    partition = "{{source_partition}}"
    return [
        lines(
            "Age of the newest commit",
            "By source partition, and what is usual (99 of 100) where history has learned it. Far "
            f"above usual: see the worker's log. {NO_SOURCE}",
            [
                Query(HERE.age(m.LAST_COMMIT, *PARTITION), partition),
                Query(usual, "usual, 99 of 100"),
            ],
            unit="s",
        ),
        lines(
            "Age of the newest change",
            "By source partition, and what is usual at this hour of the week. Commits without a "
            f"change: stuck, or nothing to read. {NO_SOURCE}",
            [
                Query(HERE.age(m.LAST_ADVANCE, *PARTITION), partition),
                Query(advance, "usual, 99 of 100"),
            ],
            unit="s",
        ),
        lines(
            "Commits and changes",
            "Source offsets written a second, and those that differ from the one before. Commits "
            f"alone move nothing. {NO_SOURCE}",
            [
                Query(HERE.rate(m.COMMITS, *PARTITION), f"{partition} commits"),
                Query(HERE.rate(m.ADVANCES, *PARTITION), f"{partition} changes"),
            ],
            unit="cps",
        ),
        lines(
            "Rewinds and resets",
            "Commits that moved a position back, and tombstones that removed it: records are read "
            f"again. If no one altered them: stop it before you restore. {NO_SOURCE}",
            [
                Query(HERE.increase(m.REWINDS, *PARTITION), f"{partition} rewound"),
                Query(HERE.increase(m.RESETS, *PARTITION), f"{partition} reset"),
            ],
        ),
        lines(
            "Position",
            "Each number of the stored source offset. Hold it against the source itself (a log "
            f"sequence number, a row id) to see what is left to read. {NO_SOURCE}",
            [
                Query(
                    greatest(HERE.of(m.POSITION), *PARTITION, "field"), f"{partition} {{{{field}}}}"
                )
            ],
        ),
        lines(
            "Age of what it has read",
            "Time since the last change at the source that the offset covers, where the connector "
            "keeps one (Debezium, JDBC by timestamp). Rising while the source is written: it is "
            "late.",
            [Query(HERE.age(m.EVENT_TIME, *PARTITION), partition)],
            unit="s",
        ),
    ]


def _lag() -> list[Panel]:
    flow = "{{source}} -> {{target}} {{topic}}"
    usual = greatest(HERE.of(m.EXPECTED_LAG), "percentile")
    sink = ("topic",)
    return [
        lines(
            "Left to replicate by topic",
            f"Upstream records not replicated yet, at most. {SAWTOOTH} No line while one "
            f"partition's lag is not known. {NO_MIRROR}",
            [Query(lag_by_topic(HERE), flow)],
            bad=thresholds.MM2_REPLICATION_LAG_RECORDS,
            link=ONE_FLOW,
        ),
        lines(
            "Oldest record to replicate",
            "Age of the oldest record that waits, of those that are known. Rising as fast as the "
            f"clock: nothing is copied. {NO_MIRROR}",
            [Query(oldest(HERE, *TOPIC), flow)],
            unit="s",
            bad=thresholds.MM2_REPLICATION_LAG_SECONDS,
            link=ONE_FLOW,
        ),
        lines(
            "Left to replicate and what is usual",
            "All topics together, beside what history knows of this hour of the week. Far above "
            "the 99th of 100: ask what writes more upstream. Empty where nothing was learned.",
            [Query(lag_in_all(HERE), "now"), Query(usual, "usual, {{percentile}} of 100")],
        ),
        table(
            "Topics",
            f"What each topic has left. Click a flow for its partitions. {NO_MIRROR}",
            [
                Column("records", lag_by_topic(HERE)),
                Column("oldest record", oldest(HERE, *TOPIC), "s"),
            ],
            labels=TOPIC,
            links=(CELL_FLOW,),
            width=12,
        ),
        lines(
            "Left to commit by topic",
            "Log end minus the committed offset of the sink's group. Growing while tasks run: the "
            f"target is slow or refuses. {NO_SINK}",
            [Query(total(HERE.of(m.SINK_LAG), *sink), "{{topic}}")],
            bad=thresholds.SINK_LAG_RECORDS,
        ),
        lines(
            "Oldest record to commit",
            "Age of the oldest record that the sink has not committed. Rising as fast as the "
            f"clock: see its tasks and its target. {NO_SINK}",
            [Query(greatest(HERE.of(m.SINK_LAG_SECONDS), *sink), "{{topic}}")],
            unit="s",
            bad=thresholds.SINK_LAG_SECONDS,
        ),
    ]


def _remedies() -> list[Panel]:
    return [
        lines(
            "Held stopped by remediation",
            "How long remediation has held it stopped. Beyond the dashed line a person has to "
            "look: `offsetwatch plan list`.",
            [Query(HERE.age(remedy.REMEDIATION_STOPPED_SINCE, *CONNECTOR), "held")],
            unit="s",
            bad=thresholds.REMEDIATION_HOLD_SECONDS,
        ),
        lines(
            "Guards that deny remediation",
            f"How often each began to deny. {EXPLAIN}",
            [
                Query(
                    HERE.increase(remedy.REMEDIATION_BLOCKED, "action", "guard"),
                    "{{action}} {{guard}}",
                )
            ],
        ),
    ]
