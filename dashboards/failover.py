"""Readiness for a failover: what consumer groups would meet if they moved to the target now."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import dashboard
from dashboards.panels import Column, Json, Panel, Query, lines, stat, table
from dashboards.queries import (
    MIRROR,
    Choice,
    Scope,
    above,
    found,
    greatest,
    lag_by_flow,
    oldest,
    total,
)
from dashboards.words import CELL_FLOW, EMPTY_IS_GOOD, ONE_FLOW, SAWTOOTH
from exporter.serve import catalog_mm2 as mm2
from exporter.serve.spec import FLOW

HERE: Final = Scope(
    (
        Choice("connect_cluster", "Connect cluster", mm2.RECREATIONS),
        Choice("source", "Source", mm2.RECREATIONS),
        Choice("target", "Target", mm2.RECREATIONS),
        Choice("group", "Group", mm2.CHECKPOINT_AT),
    )
)
GROUP: Final = (*FLOW, "group")
FLOWS: Final = "{{connect_cluster}} {{source}} -> {{target}}"
GROUPS: Final = f"{FLOWS} {{{{group}}}}"
KNOWN: Final = "Partitions of which nothing is known are not in it."


def board() -> Json:
    """The whole file."""
    return dashboard(
        "failover",
        "What consumer groups would read twice, or never, if they moved to the target now.",
        scope=HERE,
        rows={
            "Now": [*_numbers(), *_groups()],
            "Over time": _trends(),
            "What it rests on": _basis(),
        },
    )


def _numbers() -> list[Panel]:
    known = greatest(HERE.of(mm2.GROUP_REREAD), *GROUP)
    return [
        stat(
            "Groups with a checkpoint",
            "Groups that could move. One that you miss has no checkpoint: see the checkpoint "
            "connector's groups setting.",
            f"count({greatest(HERE.of(mm2.CHECKPOINT_AT), *GROUP)})",
        ),
        stat(
            "Groups that would lose records",
            "They would never read some records. Do not move them before you have seen the table "
            "below.",
            above(total(HERE.of(mm2.GROUP_SKIP), *GROUP)),
            bad={1: "red"},
        ),
        stat(
            "Never read",
            f"Records that groups would never read if they moved now. {KNOWN}",
            total(HERE.of(mm2.GROUP_SKIP)),
            bad={1: "red"},
        ),
        stat(
            "Read again",
            "Records that groups would read a second time if they moved now. Some are normal; the "
            f"table below says whose. {KNOWN}",
            total(HERE.of(mm2.GROUP_REREAD)),
        ),
        stat(
            "Groups with nothing known",
            "They have a checkpoint, and where they would continue is unknown. Treat them as not "
            "ready: see `/api/v1/flows` for the reason.",
            f"count({greatest(HERE.of(mm2.CHECKPOINT_AT), *GROUP)} unless {known}) or "
            f"0 * count({greatest(HERE.of(mm2.CHECKPOINT_AT), *GROUP)})",
            bad={1: "orange"},
        ),
        stat(
            "Stale checkpoints",
            "Findings that better checkpoints could be written and are not. Restart the checkpoint "
            "connector first.",
            found(HERE, finding="checkpoints_stale"),
            bad={1: "orange"},
        ),
    ]


def _groups() -> list[Panel]:
    partition = (*GROUP, "topic", "partition")
    return [
        table(
            "Groups",
            "What each group would meet, and how old its newest checkpoint is. Read the worst "
            f"first. {KNOWN}",
            [
                Column("never read", total(HERE.of(mm2.GROUP_SKIP), *GROUP)),
                Column("read again", total(HERE.of(mm2.GROUP_REREAD), *GROUP)),
                Column("checkpoint's age", HERE.age(mm2.CHECKPOINT_AT, *GROUP), "s"),
            ],
            labels=("group", *FLOW),
            links=(CELL_FLOW,),
            width=12,
        ),
        table(
            "Partitions that would lose records",
            f"Where a group would land past what it has read. {EMPTY_IS_GOOD} Set the group's "
            "offset on the target by hand before it moves.",
            [Column("never read", f"{greatest(HERE.of(mm2.GROUP_SKIP), *partition)} > 0")],
            labels=("group", *FLOW, "topic", "partition"),
            width=12,
        ),
    ]


def _trends() -> list[Panel]:
    return [
        lines(
            "Never read by group",
            "It should be 0. A moment above it may be a checkpoint ahead of what was copied. "
            f"{KNOWN}",
            [Query(total(HERE.of(mm2.GROUP_SKIP), *GROUP), GROUPS)],
        ),
        lines(
            "Read again by group",
            "It grows with the group's own lag, because MirrorMaker translates carefully there. "
            f"Growing without that lag: see the syncs. {KNOWN}",
            [Query(total(HERE.of(mm2.GROUP_REREAD), *GROUP), GROUPS)],
        ),
        lines(
            "Age of the newest checkpoint",
            "By group. It also rises for a group that commits nothing; all groups at once are the "
            "checkpoint connector.",
            [Query(HERE.age(mm2.CHECKPOINT_AT, *GROUP), GROUPS)],
            unit="s",
        ),
        lines(
            "Not replicated yet",
            "What a failover would leave behind if the source were gone now, at most, by flow. "
            f"{SAWTOOTH} No line while a topic's lag is not known.",
            [Query(lag_by_flow(HERE), f"{FLOWS} {{{{connector}}}}")],
            bad=thresholds.MM2_REPLICATION_LAG_RECORDS,
            link=ONE_FLOW,
        ),
    ]


def _basis() -> list[Panel]:
    return [
        lines(
            "Age of the newest heartbeat",
            "MirrorMaker's own heartbeat through the flow. Old: check that the flow works before "
            "you trust anything above.",
            [Query(HERE.age(mm2.HEARTBEAT_AT, *FLOW), FLOWS)],
            unit="s",
            link=ONE_FLOW,
        ),
        lines(
            "Age of the newest offset sync",
            "Without newer syncs groups are not translated any further. Old while records are "
            "copied: the syncs topic, or its permissions.",
            [Query(HERE.age(mm2.SYNC_AT, *FLOW), FLOWS)],
            unit="s",
            link=ONE_FLOW,
        ),
        lines(
            "Oldest record to replicate",
            "How far the target is behind, of what is known: the recovery point, were the source "
            "lost now.",
            [
                Query(
                    oldest(HERE, *MIRROR),
                    "{{connect_cluster}} {{connector}} {{source}} -> {{target}}",
                )
            ],
            unit="s",
            bad=thresholds.MM2_REPLICATION_LAG_SECONDS,
            link=ONE_FLOW,
        ),
        table(
            "Flows",
            "Each direction with the age of the inputs of readiness. Begin with the oldest.",
            [
                Column("heartbeat's age", HERE.age(mm2.HEARTBEAT_AT, *FLOW), "s"),
                Column("sync's age", HERE.age(mm2.SYNC_AT, *FLOW), "s"),
                Column("oldest record", oldest(HERE, *FLOW), "s"),
            ],
            labels=FLOW,
            links=(CELL_FLOW,),
            width=12,
        ),
    ]
