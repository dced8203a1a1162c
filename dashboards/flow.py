"""One replication flow of MirrorMaker 2: what is left, what retention may take, where it stands."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import dashboard
from dashboards.panels import Column, Json, Panel, Query, lines, stat, table
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
from dashboards.words import SAWTOOTH
from exporter.serve import catalog_mm2 as mm2
from exporter.serve.spec import Spec

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
        rows={
            "Now": _numbers(),
            "Lag": _lag(),
            "Retention and losses": _retention(),
            "Positions": _positions(),
        },
    )


def _numbers() -> list[Panel]:
    return [
        stat(
            "Lag",
            "Upstream records not replicated yet, at most. Unknown while one topic's lag is not "
            "known: the table below names it.",
            lag_in_all(HERE),
            bad={thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"},
        ),
        stat(
            "Oldest record",
            "Age of the oldest record that waits, of those that are known. Above the threshold: "
            "see below whether it is one topic or all of them.",
            oldest(HERE),
            unit="s",
            bad={thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"},
        ),
        stat(
            "Partitions not caught up",
            "Partitions in which a readable record waits. Some are normal under load; all of them "
            "for long are not.",
            zeros(HERE.of(mm2.CAUGHT_UP)),
        ),
        stat(
            "Time to retention",
            "The least time until the upstream log start reaches a position, at the rate of both. "
            "Short: raise retention upstream now, then look for the cause. Unknown while it does "
            "not come closer.",
            least(HERE.of(mm2.HEADROOM_SECONDS)),
            unit="s",
        ),
        stat(
            "Below the log start",
            "Partitions of which records were deleted before they were copied. They are gone: "
            "`offsetwatch explain` has the ranges.",
            f"sum(min without (instance, pod) ({HERE.of(mm2.HEADROOM)}) < bool 0)",
            bad={1: "red"},
        ),
        stat(
            "Beyond the log end",
            "Partitions whose position lies past the upstream log end: the topic was re-created or "
            "cut, or the offset altered by hand. Stop the connector before you fix it.",
            above(HERE.of(mm2.AHEAD)),
            bad={1: "red"},
        ),
    ]


def _lag() -> list[Panel]:
    def pace(spec: Spec) -> str:
        return total(f"deriv({HERE.of(spec)}[5m])", *OF_TOPIC)

    return [
        lines(
            "Lag by topic",
            f"Upstream records not replicated yet, at most. {SAWTOOTH} No line while one "
            "partition's lag is not known. One topic alone: see its partitions; all: see the "
            "connector.",
            [Query(lag_by_topic(HERE), "{{connector}} {{topic}}")],
            bad=thresholds.MM2_REPLICATION_LAG_RECORDS,
        ),
        lines(
            "Oldest record by topic",
            "Age of the oldest record that waits, of those that are known. Rising as fast as the "
            "clock: nothing of that topic is copied.",
            [Query(oldest(HERE, *OF_TOPIC), LEGEND)],
            unit="s",
            bad=thresholds.MM2_REPLICATION_LAG_SECONDS,
        ),
        lines(
            "Written and replicated",
            "Records a second at the upstream log end, and known to be replicated, over five "
            f"minutes. Where the second stays below: add tasks, or see the target. {ONE_BY_ONE}",
            [
                Query(pace(mm2.LOG_END), f"{LEGEND} written"),
                Query(pace(mm2.REPLICATED), f"{LEGEND} replicated"),
            ],
            unit="cps",
        ),
        table(
            "Topics whose lag is not known",
            "They are replicated, and at least one partition has no lag: its log end or its "
            "position cannot be read. See the board Health. Empty is good.",
            [Column("", topics_unknown(HERE))],
            labels=("connect_cluster", "connector", *DIRECTION, "topic"),
            width=12,
        ),
    ]


def _retention() -> list[Panel]:
    return [
        lines(
            "Offsets to the log start",
            "Between the upstream log start and the next record to copy, the least of the topic's "
            f"partitions. Falling: retention comes closer. Negative: it is past. {ONE_BY_ONE}",
            [Query(least(HERE.of(mm2.HEADROOM), *OF_TOPIC), LEGEND)],
        ),
        lines(
            "Time to the log start",
            "The same as time, at the rate of both. Shorter than the repair takes: raise retention "
            f"upstream first. {ONE_BY_ONE}",
            [Query(least(HERE.of(mm2.HEADROOM_SECONDS), *OF_TOPIC), LEGEND)],
            unit="s",
        ),
        lines(
            "Records lost",
            "Upstream records that can no longer be replicated, by cause. Anything above 0 is a "
            f"loss downstream: `offsetwatch explain` has the ranges. {ONE_BY_ONE}",
            [Query(HERE.increase(mm2.LOST, *OF_TOPIC, "cause"), f"{LEGEND} {{{{cause}}}}")],
        ),
        lines(
            "Recreated topics",
            "The upstream topic was deleted and created again. What follows may be "
            "skipped or copied twice: stop the connector and reset that topic's offsets.",
            [Query(HERE.increase(mm2.RECREATIONS, *OF_TOPIC), LEGEND)],
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
                Column("lag", greatest(HERE.of(mm2.LAG), *OF_PARTITION), "none"),
                Column("oldest record", greatest(HERE.of(mm2.LAG_SECONDS), *OF_PARTITION), "s"),
                Column("to log start", least(HERE.of(mm2.HEADROOM), *OF_PARTITION), "none"),
            ],
            labels=OF_PARTITION,
        ),
        table(
            "Offset syncs",
            "The newest pair of offsets that MirrorMaker wrote for each partition. Old while lag "
            "is small: nothing is copied, or the syncs topic cannot be written.",
            [
                Column("upstream", greatest(HERE.of(mm2.SYNC_UPSTREAM), *synced), "none"),
                Column("downstream", greatest(HERE.of(mm2.SYNC_DOWNSTREAM), *synced), "none"),
                Column("age", HERE.age(mm2.SYNC_AT, *synced), "s"),
            ],
            labels=synced,
            width=12,
        ),
        lines(
            "Replicated past the newest sync",
            "Records that are copied and that offset translation does not reach yet. Groups that "
            "move would read as many again at least. Growing: see offset.lag.max, and the syncs "
            "topic.",
            [
                Query(
                    f"{greatest(HERE.of(mm2.REPLICATED), *OF_PARTITION)} - on (topic, partition) "
                    f"group_left () {greatest(HERE.of(mm2.SYNC_UPSTREAM), *synced)}",
                    f"{LEGEND} {{{{partition}}}}",
                )
            ],
        ),
        lines(
            "Age of the newest heartbeat",
            "MirrorMaker's own heartbeat through this flow. Old while data flows: the heartbeat "
            "connector; old with everything else: the target, or the workers.",
            [Query(HERE.age(mm2.HEARTBEAT_AT, *DIRECTION), "{{source}} -> {{target}}")],
            unit="s",
        ),
    ]
