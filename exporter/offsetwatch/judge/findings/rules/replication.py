"""Rules 10 to 14, 21 and 24 to 26: records lost, copied again or not copied; stale checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import Final

from offsetwatch.formatting import format_count, format_moment, format_timespan
from offsetwatch.judge.findings.rewinds import Recopy
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.judge.input_visibility import compute_discovery_deadline, pause_state_of
from offsetwatch.judge.text_formats import build_examples, build_time_item
from offsetwatch.model.findings import (
    OFFSET,
    RECORDS,
    TIMES,
    Evidence,
    EvidenceItem,
    Finding,
    FindingName,
    Severity,
)
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.snapshot import (
    GroupView,
    Loss,
    MirrorPartitionView,
    SyncView,
    TopicRecreation,
)
from offsetwatch.state.snapshot_index import ConnectorKey

# Of intervals of sixty seconds these are an hour, in which an operator can act, and ten minutes.
NEAR_INTERVALS: Final = 60
VERY_NEAR_INTERVALS: Final = 10


def find_near_retention(context: RuleContext) -> Iterator[Finding]:
    """Rule 10: at its present pace retention reaches the position within sixty intervals, critical
    within ten, and more of the log waits than lies before the position. A flow that keeps up has
    all of its log before it, however short that is and however fast its start moves for a while.
    """
    interval_s = context.settings.interval_s
    for key, views in context.index.mirror_partitions.items():
        near = sorted(
            (view.headroom_s, view.topic, view.partition, view.headroom)
            for view in views
            if view.lag
            and not view.caught_up
            and view.headroom_s is not None
            and view.headroom is not None
            and 0 <= view.headroom < view.lag  # below that it is a loss
            and 0 <= view.headroom_s < NEAR_INTERVALS * interval_s
        )
        if near:
            soonest, first, partition, _ = near[0]
            very = soonest < VERY_NEAR_INTERVALS * interval_s
            within_s = (VERY_NEAR_INTERVALS if very else NEAR_INTERVALS) * interval_s
            yield context.found(
                FindingName.MM2_RETENTION_NEAR,
                Severity.CRITICAL if very else Severity.WARNING,
                key,
                f"is about to lose records: within {format_timespan(within_s)} retention reaches "
                f"what it has not replicated in {format_count(len(near), 'partition')}, first in "
                f"{first}-{partition}.",
                evidence=build_examples(
                    [
                        EvidenceItem(f"{topic}-{number} headroom", records, RECORDS)
                        for _, topic, number, records in near
                    ]
                ),
            )


def find_lost_records(context: RuleContext) -> Iterator[Finding]:
    """Rule 11: upstream records were deleted before they were replicated. Reported while the
    position lies in the hole, and for three intervals after it was found.
    """
    lost: dict[ConnectorKey, list[Loss]] = {}
    for loss in context.snapshot.losses:
        key = (loss.connect_cluster, loss.connector)
        in_lost_range = any(
            view.headroom is not None and view.headroom < 0
            for view in context.index.mirror_partitions.get(key, ())
            if (view.topic, view.partition) == (loss.topic, loss.partition)
        )
        if in_lost_range or 0 <= context.now - loss.at < context.reported_s:
            lost.setdefault(key, []).append(loss)
    for key, losses in lost.items():
        causes = Counter[str]()
        for loss in losses:
            causes[loss.cause] += loss.records
        total = sum(causes.values())
        yield context.found(
            FindingName.MM2_RECORDS_LOST,
            Severity.CRITICAL,
            key,
            f"can no longer replicate up to {format_count(total, 'upstream record')} "
            f"({', '.join(f'{cause}: {count}' for cause, count in causes.most_common())}).",
            evidence=build_examples(
                [
                    _build_loss_evidence(loss)
                    for loss in sorted(losses, key=lambda loss: -loss.records)
                ]
            ),
        )


def find_recreated_topics(context: RuleContext) -> Iterator[Finding]:
    """Rule 12: an upstream topic is another one than before, or lost its end. Reported while a
    position is still of the topic as it was or lies beyond its end, and for three intervals.
    """
    for recreation in context.snapshot.recreations:
        if _is_reported(context, recreation):
            yield context.found(
                FindingName.MM2_TOPIC_RECREATED,
                Severity.CRITICAL,
                (recreation.connect_cluster, recreation.connector),
                f"reads topic {recreation.topic}, {_describe_recreation(recreation)}",
                subject=recreation.topic,
                evidence=(
                    EvidenceItem("flow", f"{recreation.source}->{recreation.target}"),
                    EvidenceItem("topic id before", recreation.before or "unknown"),
                    EvidenceItem("topic id now", recreation.after or "unknown"),
                    build_time_item("found", recreation.at),
                    EvidenceItem("recreated", recreation.count, TIMES),
                ),
            )


def _describe_recreation(topic_recreation: TopicRecreation) -> str:
    if topic_recreation.before is not None and topic_recreation.before == topic_recreation.after:
        return (
            "whose log was truncated upstream, as by an unclean leader election: its offsets are "
            "of records that are gone."
        )
    return "which was deleted and created again upstream: its offsets belong to the old topic."


def find_positions_ahead(context: RuleContext) -> Iterator[Finding]:
    """Rule 13: for an interval (that a topic is another one may be known after its end is) a
    position has lain beyond the end of the upstream log, and its topic is the one it was: somebody
    altered it, or the log was cut. MM2 starts again at the beginning of the log.
    """
    for key, views in context.index.mirror_partitions.items():
        explained = {recreation.topic for recreation in _list_recreations(context, key)}
        ahead = [
            view
            for view in views
            if view.ahead
            and context.lasts("ahead", key, f"{view.topic}-{view.partition}")
            >= context.settings.interval_s
            and view.topic not in explained
        ]
        if ahead:
            yield context.found(
                FindingName.MM2_POSITION_AHEAD,
                Severity.CRITICAL,
                key,
                f"has {format_count(len(ahead), 'position')} beyond the end of the upstream log: "
                "an operator altered them, or the log was truncated. MirrorMaker will copy the "
                "topic from its start.",
                evidence=build_examples(
                    [
                        _build_ahead_evidence(view)
                        for view in sorted(ahead, key=lambda view: -(view.ahead or 0))
                    ]
                ),
            )


def find_recopies(context: RuleContext) -> Iterator[Finding]:
    """Rule 14: a flow that had offsets copies a partition again from near the start of its log, no
    person reset it, and within an interval its topic does not turn out to be another one (rule 12).
    Reported until it has come as far again, and for three intervals.
    """
    recopies: dict[ConnectorKey, list[Recopy]] = {}
    for where, recopy in list(context.memory.falls.recopies.items()):
        done_at = recopy.done_at
        over = done_at is not None and not 0 <= context.now - done_at < context.reported_s
        if over or where[2] in {of.topic for of in _list_recreations(context, where[:2])}:
            context.memory.falls.end(where)
        elif abs(context.now - recopy.at) >= context.settings.interval_s:
            recopies.setdefault(where[:2], []).append(recopy)
    for key, again in recopies.items():
        yield context.found(
            FindingName.RECOPY,
            Severity.CRITICAL,
            key,
            f"lost its offsets and copies {format_count(len(again), 'partition')} a second time: "
            "the target gets duplicates.",
            evidence=build_examples(
                [
                    _build_recopy_evidence(recopy)
                    for recopy in sorted(again, key=lambda recopy: recopy.again_from - recopy.peak)
                ]
            ),
        )


def _list_recreations(context: RuleContext, key: ConnectorKey) -> list[TopicRecreation]:
    return [
        recreation
        for recreation in context.snapshot.recreations
        if (recreation.connect_cluster, recreation.connector) == key
        and _is_reported(context, recreation)
    ]


def _is_reported(context: RuleContext, recreation: TopicRecreation) -> bool:
    if not recreation.count:
        return False  # a topic that never was recreated is counted too, with 0
    key = (recreation.connect_cluster, recreation.connector)
    lasts = any(
        view.ahead or view.partition in recreation.undecided
        for view in context.index.mirror_partitions.get(key, ())
        if view.topic == recreation.topic
    )
    return lasts or 0 <= context.now - recreation.at < context.reported_s


def _build_ahead_evidence(view: MirrorPartitionView) -> Evidence:
    partition = f"{view.topic}-{view.partition}"
    return (
        EvidenceItem(f"{partition} position", view.lag_position, OFFSET),
        EvidenceItem(f"{partition} log end", view.log_end, OFFSET),
        EvidenceItem(f"{partition} beyond", view.ahead, RECORDS),
    )


def _build_loss_evidence(loss: Loss) -> Evidence:
    partition = f"{loss.topic}-{loss.partition}"
    return (
        EvidenceItem(f"{partition} first offset lost", loss.first, OFFSET),
        EvidenceItem(f"{partition} last offset lost", loss.last, OFFSET),
        EvidenceItem(f"{partition} cause", loss.cause),
        build_time_item(f"{partition} found", loss.at),
    )


def _build_recopy_evidence(recopy: Recopy) -> Evidence:
    partition = f"{recopy.where[2]}-{recopy.where[3]}"
    return (
        EvidenceItem(f"{partition} copied again from", recopy.again_from, OFFSET),
        EvidenceItem(f"{partition} was at", recopy.peak, OFFSET),
        build_time_item(f"{partition} since", recopy.at),
    )


def find_unusual_lag(context: RuleContext) -> Iterator[Finding]:
    """Rule 24: for three intervals a flow has had more to copy than history knows of that hour of
    the week (twice what is hardly ever exceeded, and a few). Not of one that a person has stopped
    or paused: its lag is that person's.
    """
    for key, views in context.index.mirror_partitions.items():
        baseline, view = context.snapshot.baselines.of.get(key), context.index.connectors.get(key)
        limit = None if baseline is None else baseline.lag_limit(context.now)
        most = None if baseline is None else baseline.lag_at_most(context.now)
        if limit is None or most is None or (view is not None and pause_state_of(view)):
            continue
        waiting = {
            f"{partition.topic}-{partition.partition}": partition.lag
            for partition in views
            if partition.lag and not partition.caught_up
        }
        total = sum(waiting.values())
        if total <= limit or context.lasts("lag", key) < context.settings.patience_s:
            continue
        longest = sorted(waiting, key=lambda name: -waiting[name])
        yield context.found(
            FindingName.MM2_LAG_UNUSUAL,
            Severity.INFO,
            key,
            "has more records left to copy than usual at this hour of the week.",
            evidence=(
                EvidenceItem("left to copy", total, RECORDS),
                EvidenceItem("usually at most", round(most), RECORDS),
                *build_examples([EvidenceItem(name, waiting[name], RECORDS) for name in longest]),
            ),
        )


def find_syncs_without_commits(context: RuleContext) -> Iterator[Finding]:
    """Rule 25: for three intervals offset syncs have gone on beyond what the flow commits: another
    MirrorMaker writes them, or its own commits fail. Not of one that a person has stopped or
    paused.
    """
    for key, views in context.index.mirror_partitions.items():
        connector = context.index.connectors.get(key)
        alone = [
            (view.uncommitted_since, view)
            for view in views
            if view.uncommitted_since is not None
            and context.now - view.uncommitted_since >= context.settings.patience_s
        ]
        if not alone or (connector is not None and pause_state_of(connector)):
            continue
        since = format_moment(min(since for since, _ in alone))
        yield context.found(
            FindingName.SYNCS_WITHOUT_COMMITS,
            Severity.CRITICAL,
            key,
            f"has committed less than the offset syncs of {format_count(len(alone), 'partition')} "
            f"show since {since}: another MirrorMaker writes the syncs, or its own commits fail.",
            evidence=build_examples(
                [
                    (
                        EvidenceItem(f"{name} committed", view.committed, OFFSET),
                        EvidenceItem(f"{name} synced", view.synced, OFFSET),
                    )
                    for _, view in sorted(alone, key=lambda pair: pair[0])
                    for name in (f"{view.topic}-{view.partition}",)
                ]
            ),
        )


def find_unreplicated_partitions(context: RuleContext) -> Iterator[Finding]:
    """Rule 26: a topic that a flow copies, or that its configuration selects, has partitions with
    records which no task is to copy, and MirrorMaker should have found them
    (refresh.topics.interval.seconds), or never looks for any. Not of one that a person has stopped
    or paused.
    """
    for key, views in context.index.mirror_partitions.items():
        flow, connector = context.index.flows.get(key), context.index.connectors.get(key)
        if flow is None or (connector is not None and pause_state_of(connector)):
            continue
        waiting = {
            f"{view.topic}-{view.partition}": (view.log_end or 0) - (view.log_start or 0)
            for view in views
            if (found_at := compute_discovery_deadline(flow, view, context.settings.interval_s))
            is not None
            and context.now >= found_at
        }
        waiting = {name: records for name, records in waiting.items() if records > 0}
        if not waiting:
            continue
        why = "its refresh of topics did not assign them"
        if flow.refresh_s is None:
            why = "refresh.topics.enabled is false, so only a restart finds them"
        yield context.found(
            FindingName.UNREPLICATED_PARTITIONS,
            Severity.CRITICAL,
            key,
            f"has no task for {format_count(len(waiting), 'partition')} with "
            f"{format_count(sum(waiting.values()), 'record')} in topics that it is to copy: {why}.",
            evidence=build_examples(
                [EvidenceItem(name, waiting[name], RECORDS) for name in sorted(waiting)]
            ),
        )


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
    stale: dict[tuple[str, str, str], list[GroupView]] = {}
    for view in context.snapshot.groups:
        flow = (view.connect_cluster, view.source, view.target)
        if flow in synced and _is_checkpoint_behind(context, view, synced[flow]):
            subject = f"{view.source}->{view.target} {view.group} {view.topic}-{view.partition}"
            lasts = context.lasts("checkpoints", (view.connect_cluster, ""), subject)
            if lasts >= 2 * context.settings.interval_s:
                stale.setdefault(flow, []).append(view)
    for (cluster, source, target), views in stale.items():
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
                    for view in sorted(
                        views, key=lambda view: (view.start_offset or 0) - (view.translated or 0)
                    )
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
    if view.checkpoint_at is None or view.translated is None or view.start_offset is None:
        return False
    if view.start_offset_from != "checkpoint":
        return False
    written_at = view.checkpoint_at
    if view.checkpoint_read_at is not None:
        written_at = view.checkpoint_read_at
    old = context.now - written_at >= context.settings.patience_s
    return old and view.translated > view.start_offset and _is_sync_newer(newest, view)


def _is_sync_newer(sync: SyncView, view: GroupView) -> bool:
    """Return whether a sync is newer than a checkpoint: another task wrote it, by another clock."""
    if sync.read_at is None or view.checkpoint_read_at is None:
        later = view.checkpoint_at is not None and is_later(sync.at, view.checkpoint_at)
        return view.checkpoint_read_at is None and (sync.read_at is not None or later)
    return sync.read_at > view.checkpoint_read_at


def _build_checkpoint_evidence(view: GroupView) -> Evidence:
    assert view.checkpoint_at is not None
    of = f"{view.group} {view.topic}-{view.partition}"
    return (
        EvidenceItem(f"{of} would start at", view.start_offset, OFFSET),
        EvidenceItem(f"{of} could start at", view.translated, OFFSET),
        build_time_item(f"{of} checkpoint", view.checkpoint_at),
    )
