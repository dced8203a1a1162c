"""One replication flow of MirrorMaker 2: what is left, what retention may take, where it stands."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import Row, dashboard
from dashboards.panels import Bad, Column, Json, Panel, Query, lines, stat, table
from dashboards.queries import (
    DIRECTION,
    Choice,
    Scope,
    above,
    greatest,
    lag_by_topic,
    lag_in_all,
    least,
    oldest,
    topics_unknown,
    total,
    zeros,
)
from dashboards.words import OLD_HEARTBEAT, RETENTION_NEAR_SECONDS, SAWTOOTH
from offsetwatch.serve.metrics import mirror_families as mm2
from offsetwatch.serve.metrics.metric import MetricSpec

# Every topic with a position has this metric, however its lag is exported.
_ALWAYS: Final = mm2.RECREATIONS
HERE: Final = Scope(
    (
        Choice("connect_cluster", "Connect cluster", _ALWAYS, many=False),
        Choice("source", "Source", _ALWAYS, many=False),
        Choice("target", "Target", _ALWAYS, many=False),
        Choice("topic", "Topic", _ALWAYS),
    )
)
OF_TOPIC: Final = ("connector", "topic")
OF_PARTITION: Final = (*OF_TOPIC, "partition")
LEGEND: Final = "{{connector}} {{topic}}"
ONE_BY_ONE: Final = "Only of partitions that are exported one by one."


def board() -> Json:
    """The whole file."""
    return dashboard(
        "flow",
        "One MirrorMaker 2 flow: lag, retention, losses, positions and offset syncs.",
        scope=HERE,
        now=[*_numbers(), *_lag()],
        rows=[
            Row("Throughput and unknown lag", _throughput()),
            Row("Retention and losses", _retention()),
            Row("Positions", _positions()),
        ],
    )


def _numbers() -> list[Panel]:
    return [
        stat(
            "Replication lag",
            "Upstream records not replicated yet, at most. Unknown while the lag of one "
            "topic is: the table Topics with unknown lag names it.",
            lag_in_all(HERE),
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"},
                runbooks=("MirrorMaker2ReplicationLagHigh",),
            ),
            unit="short",
        ),
        stat(
            "Replication lag in time",
            "Age of the oldest record that waits, of those that are known. Above the threshold: "
            "see below whether it is one topic or all of them.",
            oldest(HERE),
            unit="s",
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"},
                runbooks=("MirrorMaker2DataLate",),
            ),
        ),
        stat(
            "Partitions not caught up",
            "Partitions in which a readable record waits. Some are normal under load; all of them "
            "for long are not.",
            zeros(HERE.of(mm2.CAUGHT_UP)),
            unit="short",
        ),
        stat(
            "Time to retention",
            "The least time until the upstream log start reaches a position, at the present "
            "rates of both. Short: raise retention upstream now, then find the cause. "
            "Unknown while it does not come closer.",
            least(HERE.of(mm2.HEADROOM_SECONDS)),
            unit="s",
            bad=Bad(
                below={RETENTION_NEAR_SECONDS: "red"},
                runbooks=("MirrorMaker2RetentionNear",),
            ),
        ),
        stat(
            "Partitions below the log start",
            "Partitions of which records were deleted before they were replicated. They are "
            "lost: `offsetwatch explain` has the ranges.",
            f"sum(min without (instance, pod) ({HERE.of(mm2.HEADROOM)}) < bool 0)",
            bad=Bad({1: "red"}, runbooks=("MirrorMaker2RecordsLost",)),
            unit="short",
        ),
        stat(
            "Partitions beyond the log end",
            "Partitions whose position lies beyond the upstream log end: the topic was "
            "recreated or truncated, or the offset altered. Stop the connector before you "
            "fix it.",
            above(HERE.of(mm2.AHEAD)),
            bad=Bad({1: "red"}, runbooks=("MirrorMaker2PositionInvalid",)),
            unit="short",
        ),
    ]


def _lag() -> list[Panel]:
    return [
        lines(
            "Replication lag by topic",
            f"Upstream records not replicated yet, at most. {SAWTOOTH} No line while one "
            "partition's lag is not known. One topic alone: see its partitions; all: see the "
            "connector.",
            [Query(lag_by_topic(HERE), "{{connector}} {{topic}}")],
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"},
                runbooks=("MirrorMaker2ReplicationLagHigh",),
            ),
            unit="short",
        ),
        lines(
            "Replication lag in time by topic",
            "Age of the oldest record that waits, of those that are known. Rising as fast as the "
            "clock: nothing of that topic is copied.",
            [Query(oldest(HERE, *OF_TOPIC), LEGEND)],
            unit="s",
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"},
                runbooks=("MirrorMaker2DataLate",),
            ),
        ),
    ]


def _throughput() -> list[Panel]:
    def rate(spec: MetricSpec) -> str:
        return total(f"deriv({HERE.of(spec)}[5m])", *OF_TOPIC)

    return [
        lines(
            "Records produced upstream and replicated",
            "Records per second at the upstream log end, and replicated ones, over five "
            "minutes. Where the second stays below: add tasks, or check the target. "
            f"{ONE_BY_ONE}",
            [
                Query(rate(mm2.LOG_END), f"{LEGEND} written"),
                Query(rate(mm2.REPLICATED), f"{LEGEND} replicated"),
            ],
            unit="cps",
        ),
        table(
            "Topics with unknown lag",
            "They are replicated, and at least one partition has no lag: its log end or its "
            "position cannot be read. See the board Health. Empty is good.",
            [Column("", topics_unknown(HERE), unit="short")],
            labels=("connect_cluster", "connector", *DIRECTION, "topic"),
            size=(12, 8),
            bad=Bad(runbooks=("OffsetwatchBlind",)),
        ),
    ]


def _retention() -> list[Panel]:
    return [
        lines(
            "Offsets above the log start",
            "Between the upstream log start and the next record to copy, the least of the topic's "
            f"partitions. Falling: retention comes closer. Negative: it is past. {ONE_BY_ONE}",
            [Query(least(HERE.of(mm2.HEADROOM), *OF_TOPIC), LEGEND)],
            unit="short",
            bad=Bad(below={0: "red"}, runbooks=("MirrorMaker2RecordsLost",)),
        ),
        lines(
            "Time to retention by topic",
            "Time until the upstream log start reaches the position, at the present rates "
            "of both. Shorter than the repair takes: raise retention upstream first. "
            f"{ONE_BY_ONE}",
            [Query(least(HERE.of(mm2.HEADROOM_SECONDS), *OF_TOPIC), LEGEND)],
            unit="s",
            bad=Bad(
                below={RETENTION_NEAR_SECONDS: "red"},
                runbooks=("MirrorMaker2RetentionNear",),
            ),
        ),
        lines(
            "Records lost",
            "Upstream records that can no longer be replicated, by cause. Anything above 0 is a "
            f"loss downstream: `offsetwatch explain` has the ranges. {ONE_BY_ONE}",
            [Query(HERE.increase(mm2.LOST, *OF_TOPIC, "cause"), f"{LEGEND} {{{{cause}}}}")],
            unit="short",
            bad=Bad({1: "red"}, runbooks=("MirrorMaker2RecordsLost",)),
        ),
        lines(
            "Topics recreated",
            "The upstream topic was replaced by another one of its name. What follows may "
            "be skipped or replicated twice: stop the connector and reset that topic's "
            "offsets.",
            [Query(HERE.increase(mm2.RECREATIONS, *OF_TOPIC), LEGEND)],
            unit="short",
            bad=Bad({1: "red"}, runbooks=("MirrorMaker2PositionInvalid",)),
        ),
    ]


def _positions() -> list[Panel]:
    synced = ("topic", "partition")
    return [
        table(
            "Partitions",
            "Where each partition begins and ends upstream, and how far it is replicated. A row "
            f"without a lag: its log end is not known. {ONE_BY_ONE}",
            [
                Column("log start", greatest(HERE.of(mm2.LOG_START), *OF_PARTITION), "none"),
                Column("replicated", greatest(HERE.of(mm2.REPLICATED), *OF_PARTITION), "none"),
                Column("log end", greatest(HERE.of(mm2.LOG_END), *OF_PARTITION), "none"),
                Column(
                    "lag",
                    greatest(HERE.of(mm2.LAG), *OF_PARTITION),
                    "none",
                    Bad({thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"}),
                ),
                Column(
                    "oldest record",
                    greatest(HERE.of(mm2.LAG_SECONDS), *OF_PARTITION),
                    "s",
                    Bad({thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"}),
                ),
                Column(
                    "to log start",
                    least(HERE.of(mm2.HEADROOM), *OF_PARTITION),
                    "none",
                    Bad(below={0: "red"}),
                ),
            ],
            labels=OF_PARTITION,
            bad=Bad(runbooks=("MirrorMaker2ReplicationLagHigh", "MirrorMaker2RecordsLost")),
        ),
        table(
            "Offset syncs",
            "The newest pair of offsets that MirrorMaker wrote for each partition. Old "
            "while lag is small: nothing is replicated, or the syncs topic cannot be "
            "written.",
            [
                Column("upstream", greatest(HERE.of(mm2.SYNC_UPSTREAM), *synced), "none"),
                Column("downstream", greatest(HERE.of(mm2.SYNC_DOWNSTREAM), *synced), "none"),
                Column("age", HERE.age(mm2.SYNC_AT, *synced), "s"),
            ],
            labels=synced,
            size=(12, 8),
        ),
        lines(
            "Records replicated since the last offset sync",
            "Records that are replicated and that offset translation does not reach yet. "
            "Groups that move would read as many again at least. Growing: check "
            "offset.lag.max, and the syncs topic. 0 also where a sync is newer than the commit.",
            [
                Query(
                    f"clamp_min({greatest(HERE.of(mm2.REPLICATED), *OF_PARTITION)} - on (topic, "
                    f"partition) group_left () {greatest(HERE.of(mm2.SYNC_UPSTREAM), *synced)}, 0)",
                    f"{LEGEND} {{{{partition}}}}",
                )
            ],
            unit="short",
        ),
        lines(
            "Age of the last heartbeat",
            "MirrorMaker's own heartbeat through this flow. Old while data flows: check the "
            "heartbeat connector; old with everything else: the target, or the workers.",
            [Query(HERE.age(mm2.HEARTBEAT_AT, *DIRECTION), "{{source}} -> {{target}}")],
            unit="s",
            bad=OLD_HEARTBEAT,
        ),
    ]
