"""Rules 15 to 20: offsets that are misleading or unusable, and Connect's internal topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from offsetwatch.decode.dialects import is_foreign_dialect, is_treated_as_absent
from offsetwatch.decode.json_text import parse_flat_map
from offsetwatch.formatting import format_count
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.judge.progress.cases import format_raw_key
from offsetwatch.judge.text_formats import build_examples, build_time_item
from offsetwatch.model.findings import (
    OFFSET,
    Evidence,
    EvidenceItem,
    Finding,
    FindingName,
    Severity,
)
from offsetwatch.model.observations import InputId
from offsetwatch.model.topology import KafkaTopic, MirrorFlow
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.internal_topics import NOT_COMPACTED, OVERSIZE, SHARED
from offsetwatch.state.snapshot import SourcePartitionView, SyncView, TopicProblem
from offsetwatch.state.snapshot_index import ConnectorKey

_SEVERITIES: Final = {
    SHARED: Severity.CRITICAL,
    NOT_COMPACTED: Severity.CRITICAL,
    OVERSIZE: Severity.INFO,
}
_WORST_FIRST: Final = tuple(Severity)
_MIRROR_DIALECT: Final = "mirror_source"
_LOWEST_LEVEL: Final = -1.0  # a level that every position is above

_EvidenceBuilder = Callable[[SourcePartitionView], Evidence]


def find_half_resets(context: RuleContext) -> Iterator[Finding]:
    """Rule 15: of the two places in which MM2 keeps a position, one was reset and the other was
    not, for two intervals. Either the offset is gone, or was set back, while an older sync still
    stands further on; or the syncs are gone while the offset stands and goes on.

    In between: MM2 writes a sync with the first record that it copies after a start and commits
    within an interval, so that a healthy flow, a new one too, is never so for two. A topic that the
    flow has not written to for as long says nothing: workers with different configurations report
    two of them by turns (offset-syncs.topic.location).
    """
    wait_s = 2 * context.settings.interval_s
    for key, flow in context.index.flows.items():
        if not context.index.has_own_syncs(flow):
            continue  # it emits none; or their flow is not known
        configured_s = context.lasts("syncs_topic", key, str(flow.offset_syncs))
        halves = [
            half
            for subject, half in (
                *_find_retained_offsets(context, key, flow),
                *_find_retained_syncs(context, key, flow),
            )
            if min(context.lasts("half_reset", key, subject), configured_s) >= wait_s
        ]
        if halves:
            yield context.found(
                FindingName.HALF_RESET,
                Severity.WARNING,
                key,
                f"is half reset in {format_count(len(halves), 'partition')}: its offsets and its "
                "offset syncs contradict each other, so MirrorMaker translates consumer groups "
                "wrongly or not at all.",
                evidence=(
                    *build_examples(halves),
                    EvidenceItem("offset syncs", str(flow.offset_syncs)),
                ),
            )


def _find_retained_syncs(
    context: RuleContext, key: ConnectorKey, flow: MirrorFlow
) -> Iterator[tuple[str, Evidence]]:
    """The offset was reset or set back, and what the syncs tell is older than that. A fresh sync is
    the word of a task that runs again, and commits within an interval.
    """
    interval_s = context.settings.interval_s
    syncs = context.index.syncs_of(key[0])
    copied = {(view.topic, view.partition) for view in context.index.mirror_partitions.get(key, ())}
    for topic, number in _find_reset_partitions(context, key, flow):
        sync = syncs.get((flow.source, flow.target, topic, number))
        # What it copies no longer may well have a sync for ever.
        is_copied = not copied or (topic, number) in copied
        if sync is not None and is_copied and sync.read_by < context.now - interval_s:
            yield f"{topic}-{number}", _build_half_reset_evidence(f"{topic}-{number}", None, sync)
    for view in context.index.mirror_partitions.get(key, ()):
        sync = syncs.get((view.source, view.target, view.topic, view.partition))
        if (
            sync is not None
            and view.committed is not None
            and view.committed_at is not None
            and sync.upstream_offset > view.committed
            and (view.sync_outdated or is_later(view.committed_at - interval_s, sync.at))
        ):
            partition = f"{view.topic}-{view.partition}"
            yield partition, _build_half_reset_evidence(partition, view.committed, sync)


def _find_reset_partitions(
    context: RuleContext, row_key: ConnectorKey, flow: MirrorFlow
) -> Iterator[tuple[str, int]]:
    """The upstream partitions whose offset was taken back: a tombstone, or what means as much to
    MirrorMaker, stands there.
    """
    for view in context.index.source_partitions.get(row_key, ()):
        gone = view.offset is None or is_treated_as_absent(view.dialect, view.offset)
        if gone and view.log_offset is not None and view.dialect == _MIRROR_DIALECT:
            key = parse_flat_map(view.identity.encode()) or {}
            topic, number = key.get("topic"), key.get("partition")
            in_own_cluster = key.get("cluster") == flow.source
            if in_own_cluster and isinstance(topic, str) and isinstance(number, int):
                yield topic, number


def _build_half_reset_evidence(
    partition: str, offset: int | None, sync: SyncView | None
) -> Evidence:
    item = EvidenceItem(f"{partition} offset", offset, OFFSET)
    if sync is None:
        return (item, EvidenceItem(f"{partition} sync", None, OFFSET))
    return (
        item,
        EvidenceItem(f"{partition} sync", sync.upstream_offset, OFFSET),
        build_time_item(f"{partition} sync written", sync.at),
    )


def _find_retained_offsets(
    context: RuleContext, row_key: ConnectorKey, flow: MirrorFlow
) -> Iterator[tuple[str, Evidence]]:
    """There is no sync although there was one; or, where their topic is there, although the offset
    has moved since there was none.
    """
    there = _can_be_absent(context, flow)
    if there is None:
        return
    # A topic that is gone is believed to be before what was read of it is out of date.
    syncs = context.index.syncs_of(row_key[0]) if there else {}
    for view in context.index.mirror_partitions.get(row_key, ()):
        of = (view.source, view.target, view.topic, view.partition)
        if view.committed is None or of in syncs:
            continue
        subject = f"{view.topic}-{view.partition}"
        where = (flow.offset_syncs, (*row_key, view.topic, view.partition))
        had = where in context.memory.synced
        key = ("unsynced", *row_key, subject)
        if had or there or context.memory.held.has(key):
            level = _LOWEST_LEVEL if had else float(view.committed)
            if view.committed > context.memory.held.since(key, context.now, level)[1]:
                yield subject, _build_half_reset_evidence(subject, view.committed, None)


def _can_be_absent(context: RuleContext, flow: MirrorFlow) -> bool | None:
    """May a sync that is not there be said to be missing? None: no, the topic is not read. True:
    yes, the topic is there and read to its end; False: the topic is gone.
    """
    topic = flow.offset_syncs
    view = None if topic is None else context.index.inputs.get(InputId.of_tail(topic))
    if view is None:
        return None
    if view.last_reason == "not_found":
        return False
    whole = view.live and view.tail is not None and not view.tail.frozen
    return True if whole else None


def find_remnant_offsets(context: RuleContext) -> Iterator[Finding]:
    """Rule 16: a connector was deleted and created again, and has offsets from before that it goes
    on from: one of another class does not look them up. Reported until they have moved or are gone.
    """
    for key, incarnation in context.memory.incarnations.of.items():
        if not incarnation.left_over or key in context.memory.incarnations.unlisted:
            continue
        listed = context.index.connectors.get(key)
        class_name = "" if listed is None else listed.class_name
        now = {
            source.label: source.offset.text
            for source in context.index.source_partitions.get(key, ())
            if source.offset and not is_foreign_dialect(source.dialect, class_name)
        }
        remaining = [
            EvidenceItem(label, text)
            for label, text in incarnation.left_over.items()
            if now.get(label) == text
        ]
        if remaining:
            yield context.found(
                FindingName.REMNANT_OFFSETS,
                Severity.WARNING,
                key,
                f"is new and continues from {format_count(len(remaining), 'offset')} of an earlier "
                "connector of the same name.",
                evidence=(
                    build_time_item("created after", incarnation.born),
                    *build_examples(remaining),
                ),
            )


def find_connectors_without_moved_offsets(context: RuleContext) -> Iterator[Finding]:
    """Rule 17: a connector was given an offsets topic of its own, and offsets stand in the
    cluster's topic alone: Connect does not look there any more.
    """
    for key, views in context.index.odd_source_partitions.items():
        shadows = [view for view in views if view.shadow is not None]
        if shadows:
            yield context.found(
                FindingName.STARTS_FROM_SCRATCH,
                Severity.WARNING,
                key,
                f"will read {format_count(len(shadows), 'source partition')} from the start: it "
                "moved to an offsets topic of its own without its offsets.",
                evidence=build_examples(
                    [
                        EvidenceItem(f"{view.label} left behind", view.shadow.text)
                        for view in shadows
                        if view.shadow is not None
                    ]
                ),
            )


def find_duplicate_keys(context: RuleContext) -> Iterator[Finding]:
    """Rule 18: somebody else wrote offsets under raw keys that no task looks up: bytes that no
    worker writes, or another order of the fields, as REST writes it, beside which the connector
    went on under its own. A connector's own keys are never meant, however many it has.
    """
    yield from _find_in_source_partitions(
        context,
        FindingName.DUPLICATE_KEYS,
        _build_stray_key_evidence,
        "with offsets under keys that its task does not look up: another client's change of them "
        "had no effect.",
    )


def _build_stray_key_evidence(view: SourcePartitionView) -> Evidence:
    if not view.strays:
        return ()
    count = EvidenceItem(view.label, view.strays, "other raw keys")
    own = view.keys is not None and view.keys.own is not None and view.raw_key
    if not own:
        return (count,)
    return (count, EvidenceItem(f"{view.label} committed under", format_raw_key(own)))


def find_unusable_offsets(context: RuleContext) -> Iterator[Finding]:
    """Rule 19: an offset that the connector's task fails on when it is started."""
    yield from _find_in_source_partitions(
        context,
        FindingName.UNUSABLE_OFFSET,
        lambda view: (
            (EvidenceItem(view.label, view.offset.text),)
            if view.poisoned and view.offset is not None
            else ()
        ),
        "with an offset that it cannot use: its task will fail at its next start.",
    )


def find_internal_topic_problems(context: RuleContext) -> Iterator[Finding]:
    """Rule 20: an internal topic is made in a way that will cost offsets, or does already."""
    offsets_topics = context.snapshot.topology.offsets_topics
    clusters = {topic.at: topic.connect_cluster for topic in offsets_topics}
    by_topic: dict[KafkaTopic, list[TopicProblem]] = {}
    for problem in context.snapshot.topic_problems:
        by_topic.setdefault(problem.at, []).append(problem)
    for topic, problems in by_topic.items():
        problems.sort(key=lambda problem: _WORST_FIRST.index(_severity_of(problem)))
        yield context.found(
            FindingName.INTERNAL_TOPIC_PROBLEM,
            _severity_of(problems[0]),
            (clusters.get(topic, ""), None),
            f"Topic {topic}: {problems[0].detail}.",
            subject=str(topic),
            evidence=tuple(EvidenceItem(problem.problem, problem.detail) for problem in problems),
        )


def _severity_of(problem: TopicProblem) -> Severity:
    return _SEVERITIES.get(problem.problem, Severity.WARNING)


def _find_in_source_partitions(
    context: RuleContext, name: FindingName, build_evidence: _EvidenceBuilder, summary: str
) -> Iterator[Finding]:
    """Yield one finding per connector of the source partitions that show something."""
    for key, views in context.index.odd_source_partitions.items():
        rows = [evidence for view in views if (evidence := build_evidence(view))]
        if rows:
            count = format_count(len(rows), "source partition")
            yield context.found(
                name, Severity.WARNING, key, f"has {count} {summary}", evidence=build_examples(rows)
            )
