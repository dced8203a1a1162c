"""What can be found wrong: numbered rules over one judged snapshot, each a small function that
yields findings. Called by register.py, which knows since when and what was mended.

A rule says what is wrong at `seen.now` and gives that moment as `since`. Many partitions of one
connector with the same trouble are one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from offsetwatch.judge.findings.rule_context import Rule
from offsetwatch.judge.findings.rules import (
    connect,
    failover,
    failures,
    inputs,
    offsets,
    progress,
    replication,
)
from offsetwatch.model.evidence import EvidenceItem
from offsetwatch.model.findings import Finding
from offsetwatch.model.findings import FindingName as Name

RULES: Final[tuple[tuple[int, Rule], ...]] = (
    (1, progress.stalled),
    (2, progress.silent),
    (3, progress.rewound),
    (4, progress.rewinds_at_once),
    (5, failures.connector_failed),
    (6, failures.task_failed),
    (7, failures.poison_suspected),
    (8, failures.restart_loop),
    (9, failures.sink_below_log_start),
    (10, replication.retention_near),
    (11, replication.records_lost),
    (12, replication.topic_recreated),
    (13, replication.position_ahead),
    (14, replication.recopy),
    (15, offsets.half_reset),
    (16, offsets.remnant_offsets),
    (17, offsets.starts_from_scratch),
    (18, offsets.duplicate_keys),
    (19, offsets.unusable_offset),
    (20, offsets.internal_topic_problem),
    (21, failover.checkpoints_stale),
    (22, inputs.hanging_transaction),
    (23, inputs.input_down),
    (24, replication.lag_unusual),
    (25, replication.syncs_without_commits),
    (26, replication.unreplicated_partitions),
    (27, connect.connect_cluster_changed),
    (28, connect.connector_state_missing),
    (29, connect.connector_not_listed),
    (30, connect.rest_offsets_differ),
    (31, connect.offsets_topic_doubted),
    (32, inputs.series_dropped),
)
_STALLS: Final = frozenset(
    {
        Name.MM2_STALLED,
        Name.MM2_SILENT_STALL,
        Name.CONNECTOR_STALLED,
        Name.CONNECTOR_SILENT,
        Name.SINK_STUCK,
    }
)
_LATE: Final = _STALLS | {Name.MM2_LAG_UNUSUAL}
_EFFECTS: Final = _LATE | {Name.SYNCS_WITHOUT_COMMITS}
# What is told of a connector already says why the others are so: they are named in its evidence.
# A cause before its effects, a diagnosis before its symptoms.
EXPLAINS: Final[dict[Name, frozenset[Name]]] = {
    Name.POISON_SUSPECTED: frozenset({Name.RESTART_LOOP, Name.CONNECTOR_FAILED, Name.TASK_FAILED})
    | _EFFECTS,
    Name.RESTART_LOOP: frozenset({Name.CONNECTOR_FAILED, Name.TASK_FAILED}) | _EFFECTS,
    Name.CONNECTOR_FAILED: frozenset({Name.TASK_FAILED}) | _EFFECTS,
    Name.TASK_FAILED: _EFFECTS,
    Name.SYNCS_WITHOUT_COMMITS: _LATE,
    Name.UNREPLICATED_PARTITIONS: _LATE,
    Name.SINK_BELOW_LOG_START: frozenset({Name.SINK_STUCK}),
    Name.MM2_TOPIC_RECREATED: frozenset({Name.REWOUND, Name.MM2_LAG_UNUSUAL}),
    Name.RECOPY: frozenset({Name.REWOUND, Name.MM2_LAG_UNUSUAL}),
    Name.HALF_RESET: frozenset({Name.REWOUND, Name.MM2_LAG_UNUSUAL}),
    Name.MM2_STALLED: frozenset({Name.MM2_LAG_UNUSUAL}),
    Name.MM2_SILENT_STALL: frozenset({Name.MM2_LAG_UNUSUAL}),
}


def explained(found: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out what another finding of the same connector explains, and say so in that one."""
    by_connector: dict[tuple[str, str | None], list[Finding]] = {}
    for finding in found:
        by_connector.setdefault((finding.connect_cluster, finding.connector), []).append(finding)
    for findings in by_connector.values():
        names = {finding.name for finding in findings}
        silenced = {
            weaker: name
            for name in reversed(EXPLAINS)
            if name in names
            for weaker in EXPLAINS[name]
            if weaker in names
        }
        for finding in findings:
            if finding.name in silenced:
                continue
            effects = tuple(
                sorted(weaker for weaker, name in silenced.items() if name is finding.name)
            )
            more = (EvidenceItem("explains", ", ".join(effects)),) if effects else ()
            yield replace(finding, evidence=finding.evidence + more, explains=effects)
