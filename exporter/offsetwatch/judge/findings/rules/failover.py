"""Rule 21: checkpoints that are stale, which a failover would rely on."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from offsetwatch.judge.findings.list_phrases import build_examples, build_time_item
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.model.findings import (
    OFFSET,
    Evidence,
    EvidenceItem,
    Finding,
    FindingName,
    Severity,
)
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.snapshot import GroupView, SyncView


def find_stale_checkpoints(context: RuleContext) -> Iterator[Finding]:
    """Rule 21: for three intervals MM2 could have written a better checkpoint for a group than the
    one it wrote, and offset syncs have come since: its checkpoint task is dead. A group for which
    it never wrote one may not be among those it is to translate.
    """
    if not context.snapshot.groups:
        return  # syncs may be many
    synced: dict[tuple[str, str, str], SyncView] = {}
    for sync in context.snapshot.syncs:
        flow = (sync.connect_cluster, sync.source, sync.target)
        synced[flow] = max(synced.get(flow, sync), sync, key=_sync_sort_key)
    found: dict[tuple[str, str, str], list[GroupView]] = {}
    for view in context.snapshot.groups:
        flow = (view.connect_cluster, view.source, view.target)
        if flow in synced and _is_checkpoint_behind(context, view, synced[flow]):
            subject = f"{view.source}->{view.target} {view.group} {view.topic}-{view.partition}"
            lasts = context.lasts("checkpoints", (view.connect_cluster, ""), subject)
            if lasts >= 2 * context.settings.interval_s:
                found.setdefault(flow, []).append(view)
    for (cluster, source, target), views in found.items():
        yield context.found(
            FindingName.CHECKPOINTS_STALE,
            Severity.WARNING,
            (cluster, None),
            f"Flow {source}->{target}: MirrorMaker no longer writes checkpoints for some groups; "
            "after a failover they would start too far back.",
            subject=f"{source}->{target}",
            evidence=build_examples(
                [
                    _build_checkpoint_evidence(view)
                    for view in sorted(views, key=_compute_translation_gap)
                ]
            ),
        )


def _sync_sort_key(sync: SyncView) -> tuple[float, float]:
    """Return how new it is: what was read live is newer than what was there before."""
    return (-inf if sync.read_at is None else sync.read_at, sync.at)


def _is_checkpoint_behind(context: RuleContext, view: GroupView, newest: SyncView) -> bool:
    """Under load a checkpoint is always a little behind; a dead one grows old as well. A group that
    lands on a commit of its own says nothing of its checkpoint.
    """
    if view.checkpoint_at is None or view.translated is None or view.landing is None:
        return False
    if view.landing_from != "checkpoint":
        return False
    written_at = view.checkpoint_at
    if view.checkpoint_read_at is not None:
        written_at = view.checkpoint_read_at
    old = context.now - written_at >= context.settings.patience_s
    return old and view.translated > view.landing and _is_sync_newer(newest, view)


def _is_sync_newer(sync: SyncView, view: GroupView) -> bool:
    """Return whether a sync is newer than a checkpoint: another task wrote it, by another clock."""
    if sync.read_at is None or view.checkpoint_read_at is None:
        later = view.checkpoint_at is not None and is_later(sync.at, view.checkpoint_at)
        return view.checkpoint_read_at is None and (sync.read_at is not None or later)
    return sync.read_at > view.checkpoint_read_at


def _compute_translation_gap(view: GroupView) -> int:
    return (view.landing or 0) - (view.translated or 0)


def _build_checkpoint_evidence(view: GroupView) -> Evidence:
    assert view.checkpoint_at is not None
    of = f"{view.group} {view.topic}-{view.partition}"
    return (
        EvidenceItem(f"{of} would start at", view.landing, OFFSET),
        EvidenceItem(f"{of} could start at", view.translated, OFFSET),
        build_time_item(f"{of} checkpoint", view.checkpoint_at),
    )
