"""Registry of the numbered rules of findings, and which findings explain others.

A rule is a small function over one judged snapshot that yields findings. It reports what is wrong
at `RuleContext.now` and sets `since` to that moment. Many partitions of one connector with the same
trouble are one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from offsetwatch.judge.findings.rule_context import FindingRule
from offsetwatch.judge.findings.rules import (
    connect,
    failures,
    missing_inputs,
    offsets,
    progress,
    replication,
)
from offsetwatch.model.findings import EvidenceItem, Finding
from offsetwatch.model.findings import FindingName as Name

RULES: Final[tuple[tuple[int, FindingRule], ...]] = (
    (1, progress.find_stalled_connectors),
    (2, progress.find_silent_connectors),
    (3, progress.find_rewound_connectors),
    (4, progress.find_simultaneous_rewinds),
    (5, failures.find_failed_connectors),
    (6, failures.find_failed_tasks),
    (7, failures.find_suspected_poison),
    (8, failures.find_restart_loops),
    (9, failures.find_sinks_below_log_start),
    (10, replication.find_near_retention),
    (11, replication.find_lost_records),
    (12, replication.find_recreated_topics),
    (13, replication.find_positions_ahead),
    (14, replication.find_recopies),
    (15, offsets.find_half_resets),
    (16, offsets.find_remnant_offsets),
    (17, offsets.find_connectors_without_moved_offsets),
    (18, offsets.find_duplicate_keys),
    (19, offsets.find_unusable_offsets),
    (20, offsets.find_internal_topic_problems),
    (21, replication.find_stale_checkpoints),
    (22, missing_inputs.find_hanging_transactions),
    (23, missing_inputs.find_down_inputs),
    (24, replication.find_unusual_lag),
    (25, replication.find_syncs_without_commits),
    (26, replication.find_unreplicated_partitions),
    (27, connect.find_changed_connect_clusters),
    (28, connect.find_missing_connector_states),
    (29, connect.find_unlisted_connectors),
    (30, connect.find_differing_rest_offsets),
    (31, connect.find_doubtful_offsets_topics),
    (32, missing_inputs.find_dropped_series),
    (33, connect.find_differing_rest_states),
)
_STALL_FINDINGS: Final = frozenset(
    {
        Name.MM2_STALLED,
        Name.MM2_SILENT_STALL,
        Name.CONNECTOR_STALLED,
        Name.CONNECTOR_SILENT,
        Name.SINK_STUCK,
    }
)
_LAG_FINDINGS: Final = _STALL_FINDINGS | {Name.MM2_LAG_UNUSUAL}
_EFFECT_FINDINGS: Final = _LAG_FINDINGS | {Name.SYNCS_WITHOUT_COMMITS}
# What is told of a connector already says why the others are so: they are named in its evidence.
# A cause before its effects, a diagnosis before its symptoms.
EFFECTS_BY_CAUSE: Final[dict[Name, frozenset[Name]]] = {
    Name.POISON_SUSPECTED: frozenset({Name.RESTART_LOOP, Name.CONNECTOR_FAILED, Name.TASK_FAILED})
    | _EFFECT_FINDINGS,
    Name.RESTART_LOOP: frozenset({Name.CONNECTOR_FAILED, Name.TASK_FAILED}) | _EFFECT_FINDINGS,
    Name.CONNECTOR_FAILED: frozenset({Name.TASK_FAILED}) | _EFFECT_FINDINGS,
    Name.TASK_FAILED: _EFFECT_FINDINGS,
    Name.SYNCS_WITHOUT_COMMITS: _LAG_FINDINGS,
    Name.UNREPLICATED_PARTITIONS: _LAG_FINDINGS,
    Name.SINK_BELOW_LOG_START: frozenset({Name.SINK_STUCK}),
    Name.MM2_TOPIC_RECREATED: frozenset({Name.REWOUND, Name.MM2_LAG_UNUSUAL}),
    Name.RECOPY: frozenset({Name.REWOUND, Name.MM2_LAG_UNUSUAL}),
    Name.HALF_RESET: frozenset({Name.REWOUND, Name.MM2_LAG_UNUSUAL}),
    Name.MM2_STALLED: frozenset({Name.MM2_LAG_UNUSUAL}),
    Name.MM2_SILENT_STALL: frozenset({Name.MM2_LAG_UNUSUAL}),
}


def drop_explained_findings(found: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out what another finding of the same connector explains, and say so in that one."""
    by_connector: dict[tuple[str, str | None], list[Finding]] = {}
    for finding in found:
        by_connector.setdefault((finding.connect_cluster, finding.connector), []).append(finding)
    for findings in by_connector.values():
        names = {finding.name for finding in findings}
        silenced = {
            weaker: name
            for name in reversed(EFFECTS_BY_CAUSE)
            if name in names
            for weaker in EFFECTS_BY_CAUSE[name]
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
