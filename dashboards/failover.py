"""Readiness for a failover: what consumer groups would meet if they moved to the target now."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import Row, dashboard
from dashboards.panels import Bad, Column, Json, Panel, Query, lines, stat, table
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
from dashboards.words import CELL_FLOW, EMPTY_IS_GOOD, OLD_HEARTBEAT, ONE_FLOW, SAWTOOTH
from offsetwatch.serve.metrics import mirror_families as mm2
from offsetwatch.serve.metrics.metric import FLOW

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
SKIPS: Final = Bad({1: "red"}, runbooks=("MirrorMaker2FailoverWouldSkip",))
KNOWN: Final = "Partitions of which nothing is known are not in it."


def board() -> Json:
    """The whole file."""
    return dashboard(
        "failover",
        "What consumer groups would read twice, or never, if they moved to the target now.",
        scope=HERE,
        now=[*_numbers(), *_groups()],
        rows=[
            Row("Over time", _trends()),
            Row("Heartbeats, syncs and replication", _basis()),
        ],
    )


def _numbers() -> list[Panel]:
    known = greatest(HERE.of(mm2.GROUP_REREAD), *GROUP)
    return [
        stat(
            "Groups with a checkpoint",
            "Groups that could move. A group that is missing has no checkpoint: check the "
            "checkpoint connector's setting groups.",
            f"count({greatest(HERE.of(mm2.CHECKPOINT_AT), *GROUP)})",
            unit="short",
        ),
        stat(
            "Groups that would skip records",
            "They would never read some records. Do not move them before you have read the "
            "table below.",
            above(total(HERE.of(mm2.GROUP_SKIP), *GROUP)),
            bad=Bad({1: "red"}, runbooks=("MirrorMaker2FailoverWouldSkip",)),
            unit="short",
        ),
        stat(
            "Records skipped",
            f"Records that groups would never read if they moved now. {KNOWN}",
            total(HERE.of(mm2.GROUP_SKIP)),
            bad=Bad({1: "red"}, runbooks=("MirrorMaker2FailoverWouldSkip",)),
            unit="short",
        ),
        stat(
            "Records read again",
            "Records that groups would read a second time if they moved now. Some are "
            f"normal; the table below names the groups. {KNOWN}",
            total(HERE.of(mm2.GROUP_REREAD)),
            unit="short",
        ),
        stat(
            "Groups with unknown position",
            "They have a checkpoint, and their position after a failover is unknown. Treat "
            "them as not ready: `/api/v1/flows` has the reason.",
            f"count({greatest(HERE.of(mm2.CHECKPOINT_AT), *GROUP)} unless {known}) or "
            f"0 * count({greatest(HERE.of(mm2.CHECKPOINT_AT), *GROUP)})",
            bad=Bad({1: "orange"}, runbooks=("OffsetwatchBlind",)),
            unit="short",
        ),
        stat(
            "Stale checkpoints",
            "Findings that better checkpoints could be written and are not. Restart the checkpoint "
            "connector first.",
            found(HERE, finding="checkpoints_stale"),
            bad=Bad({1: "orange"}, runbooks=("MirrorMaker2CheckpointsStale",)),
            unit="short",
        ),
    ]


def _groups() -> list[Panel]:
    partition = (*GROUP, "topic", "partition")
    return [
        table(
            "Groups",
            "What each group would skip or read again, and how old its newest checkpoint "
            f"is. Read the worst first. {KNOWN}",
            [
                Column("skipped", total(HERE.of(mm2.GROUP_SKIP), *GROUP), "short", SKIPS),
                Column("read again", total(HERE.of(mm2.GROUP_REREAD), *GROUP), unit="short"),
                Column("checkpoint's age", HERE.age(mm2.CHECKPOINT_AT, *GROUP), "s"),
            ],
            labels=("group", *FLOW),
            links=(CELL_FLOW,),
            size=(12, 8),
            bad=SKIPS,
        ),
        table(
            "Partitions that would skip records",
            f"Where a group would start after records that it has not read. {EMPTY_IS_GOOD} "
            "Alter the group's offset on the target before it moves.",
            [
                Column(
                    "skipped",
                    f"{greatest(HERE.of(mm2.GROUP_SKIP), *partition)} > 0",
                    "short",
                    SKIPS,
                )
            ],
            labels=("group", *FLOW, "topic", "partition"),
            size=(12, 8),
            bad=SKIPS,
        ),
    ]


def _trends() -> list[Panel]:
    return [
        lines(
            "Records skipped by group",
            "It should be 0. A moment above it may be a checkpoint ahead of what was "
            f"replicated. {KNOWN}",
            [Query(total(HERE.of(mm2.GROUP_SKIP), *GROUP), GROUPS)],
            unit="short",
            bad=Bad({1: "red"}, runbooks=("MirrorMaker2FailoverWouldSkip",)),
        ),
        lines(
            "Records read again by group",
            "It grows with the group's own lag, because MirrorMaker translates carefully there. "
            f"Growing without that lag: see the syncs. {KNOWN}",
            [Query(total(HERE.of(mm2.GROUP_REREAD), *GROUP), GROUPS)],
            unit="short",
        ),
        lines(
            "Age of the last checkpoint",
            "By group. It also rises for a group that commits nothing; all groups at once are the "
            "checkpoint connector.",
            [Query(HERE.age(mm2.CHECKPOINT_AT, *GROUP), GROUPS)],
            unit="s",
            bad=Bad(runbooks=("MirrorMaker2CheckpointsStale",)),
        ),
        lines(
            "Replication lag by flow",
            "Records that a failover would leave behind if the source were gone now, at "
            f"most, by flow. {SAWTOOTH} No line while a topic's lag is not known.",
            [Query(lag_by_flow(HERE), f"{FLOWS} {{{{connector}}}}")],
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_RECORDS: "orange"},
                runbooks=("MirrorMaker2ReplicationLagHigh",),
            ),
            link=ONE_FLOW,
            unit="short",
        ),
    ]


def _basis() -> list[Panel]:
    return [
        lines(
            "Age of the last heartbeat",
            "MirrorMaker's own heartbeat through the flow. Old: check that the flow is "
            "alive before you trust anything above.",
            [Query(HERE.age(mm2.HEARTBEAT_AT, *FLOW), FLOWS)],
            unit="s",
            link=ONE_FLOW,
            bad=OLD_HEARTBEAT,
        ),
        lines(
            "Age of the last offset sync",
            "Without newer syncs groups are not translated any further. Old while records "
            "are replicated: check the syncs topic and its ACLs.",
            [Query(HERE.age(mm2.SYNC_AT, *FLOW), FLOWS)],
            unit="s",
            link=ONE_FLOW,
        ),
        lines(
            "Replication lag in time by flow",
            "How far the target is behind, of what is known: the recovery point, were the source "
            "lost now.",
            [
                Query(
                    oldest(HERE, *MIRROR),
                    "{{connect_cluster}} {{connector}} {{source}} -> {{target}}",
                )
            ],
            unit="s",
            bad=Bad(
                {thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"},
                runbooks=("MirrorMaker2DataLate",),
            ),
            link=ONE_FLOW,
        ),
        table(
            "Flows",
            "Each direction with the age of what readiness is computed from. Begin with the "
            "oldest.",
            [
                Column("heartbeat's age", HERE.age(mm2.HEARTBEAT_AT, *FLOW), "s", OLD_HEARTBEAT),
                Column("sync's age", HERE.age(mm2.SYNC_AT, *FLOW), "s"),
                Column(
                    "oldest record",
                    oldest(HERE, *FLOW),
                    "s",
                    Bad({thresholds.MM2_REPLICATION_LAG_SECONDS: "orange"}),
                ),
            ],
            labels=FLOW,
            links=(CELL_FLOW,),
            size=(12, 8),
            bad=OLD_HEARTBEAT,
        ),
    ]
