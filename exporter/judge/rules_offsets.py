"""Rules 15 to 20: offsets that mean something else than people believe, and the topics they lie in.
Registered in rules.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from exporter.judge.looks import Who
from exporter.judge.phrases import examples, several
from exporter.judge.seen import Seen
from exporter.judge.words import moment
from exporter.model.findings import Evidence, Finding, FindingName, Severity
from exporter.model.observations import TAIL, InputId
from exporter.model.topology import MirrorFlow
from exporter.state.lint import NOT_COMPACTED, OVERSIZE, SHARED
from exporter.state.snapshot import MirrorPartitionView, SourcePartitionView, SyncView

_SEVERITIES: Final = {
    SHARED: Severity.CRITICAL,
    NOT_COMPACTED: Severity.CRITICAL,
    OVERSIZE: Severity.INFO,
}
_ALWAYS: Final = -1.0  # a level that every position is above

_Told = Callable[[SourcePartitionView], str | None]


def half_reset(seen: Seen) -> Iterator[Finding]:
    """Rule 15: of the two places in which MM2 keeps a position, one was reset and the other was
    not, for two intervals. Either the offset is gone, or was set back, while an older sync still
    stands further on; or the syncs are gone while the offset stands and goes on.

    In between: MM2 writes a sync with the first record that it copies after a start and commits
    within an interval, so that a healthy flow, a new one too, is never so for two.
    """
    wait_s = 2 * seen.settings.interval_s
    for who, flow in seen.look.flows.items():
        if not seen.look.has_own_syncs(flow) or who not in seen.look.mirrors:
            continue  # it emits none; or nobody can tell whose they are
        absent = _can_be_absent(seen, flow)
        syncs = seen.look.syncs(who[0])
        halves: list[tuple[str, str]] = []
        for view in seen.look.mirrors[who]:
            sync = syncs.get((view.source, view.target, view.topic, view.partition))
            half = _kept_sync(seen, who, view, sync)
            if half is None and sync is None and absent is not None:
                half = _kept_offset(seen, who, view, anew=absent)
            subject = f"{view.topic}-{view.partition}"
            if half is not None and seen.lasts("half_reset", who, subject) >= wait_s:
                halves.append((subject, half))
        if halves:
            yield seen.found(
                FindingName.HALF_RESET,
                Severity.WARNING,
                who,
                f"{several(len(halves), 'partition')} reset by half: offsets and offset syncs "
                "contradict each other, and consumer groups are translated wrongly or not at all.",
                evidence=(
                    *examples(halves),
                    ("offset syncs", str(flow.offset_syncs)),
                ),
            )


def _kept_sync(
    seen: Seen, who: Who, view: MirrorPartitionView, sync: SyncView | None
) -> str | None:
    """The offset was reset or set back, and what the syncs tell is older than that."""
    if sync is None:
        return None
    told = f"a sync of {moment(sync.at)} says {sync.upstream_offset}"
    if view.committed is None:
        where = (*who, view.topic, view.partition)
        lasts = seen.memory.held.has(("half_reset", *who, f"{view.topic}-{view.partition}"))
        return f"no offset, {told}" if where in seen.memory.committed or lasts else None
    set_back = sync.upstream_offset > view.committed and view.committed_at is not None
    if set_back and sync.at + seen.settings.interval_s < (view.committed_at or 0.0):
        return f"offset {view.committed}, {told}"
    return None


def _kept_offset(seen: Seen, who: Who, view: MirrorPartitionView, *, anew: bool) -> str | None:
    """There is no sync although there was one; or, where the topic is there (`anew`), although the
    offset has moved since there was none.
    """
    if view.committed is None:
        return None
    where = (*who, view.topic, view.partition)
    subject = f"{view.topic}-{view.partition}"
    had = where in seen.memory.synced
    key = ("unsynced", *who, subject)
    if not had and not anew and not seen.memory.held.has(key):
        return None
    _, level = seen.memory.held.since(key, seen.now, _ALWAYS if had else float(view.committed))
    return f"offset {view.committed}, no sync" if view.committed > level else None


def _can_be_absent(seen: Seen, flow: MirrorFlow) -> bool | None:
    """May a sync that is not there be said to be missing? None: no, the topic is not read. True:
    yes, the topic is there and read to its end; False: the topic is gone.
    """
    view = seen.look.inputs.get(InputId(str(flow.offset_syncs), TAIL))
    if view is None:
        return None
    if view.last_reason == "not_found":
        return False
    whole = view.live and view.tail is not None and not view.tail.frozen
    return True if whole else None


def remnant_offsets(seen: Seen) -> Iterator[Finding]:
    """Rule 16: a connector was deleted and created again, and has offsets from before. Told until
    they have moved or are gone.
    """
    for who, life in seen.memory.lives.of.items():
        if not life.left_over:
            continue
        now = {at.label: at.offset.text for at in seen.look.sources.get(who, ()) if at.offset}
        kept = [(label, text) for label, text in life.left_over.items() if now.get(label) == text]
        if kept:
            yield seen.found(
                FindingName.REMNANT_OFFSETS,
                Severity.WARNING,
                who,
                f"The connector is new and goes on where an earlier one of its name ended "
                f"({several(len(kept), 'offset')} left over).",
                evidence=(("created", moment(life.born)), *examples(kept)),
            )


def starts_from_scratch(seen: Seen) -> Iterator[Finding]:
    """Rule 17: a connector was given an offsets topic of its own, and offsets stand in the
    cluster's topic alone: Connect does not look there any more.
    """
    for who, views in seen.look.sources.items():
        shadows = [view for view in views if view.shadow is not None]
        if shadows:
            yield seen.found(
                FindingName.STARTS_FROM_SCRATCH,
                Severity.WARNING,
                who,
                f"{several(len(shadows), 'source partition')} will be read from the start: the "
                "connector was moved to an offsets topic of its own and its offsets were not.",
                evidence=examples(
                    [
                        (view.label, f"left behind: {view.shadow.text}")
                        for view in shadows
                        if view.shadow is not None
                    ]
                ),
            )


def duplicate_keys(seen: Seen) -> Iterator[Finding]:
    """Rule 18: offsets stand under other bytes than those that Connect looks up: what was written
    there, by hand or by a program, has no effect.
    """
    yield from _of_sources(
        seen,
        FindingName.DUPLICATE_KEYS,
        lambda view: f"{several(view.variants, 'other raw key')}" if view.variants else None,
        "written under keys that Connect does not look up: somebody's changes had no effect.",
    )


def unusable_offset(seen: Seen) -> Iterator[Finding]:
    """Rule 19: an offset that the connector's task fails on when it is started."""
    yield from _of_sources(
        seen,
        FindingName.UNUSABLE_OFFSET,
        lambda view: view.offset.text if view.poisoned and view.offset is not None else None,
        "with an offset that the connector cannot use: its task fails at its next start.",
    )


def internal_topic_problem(seen: Seen) -> Iterator[Finding]:
    """Rule 20: an internal topic is made in a way that will cost offsets, or does already."""
    clusters = {at.at: at.connect_cluster for at in seen.snapshot.topology.offsets_topics}
    for problem in seen.snapshot.topic_problems:
        yield seen.found(
            FindingName.INTERNAL_TOPIC_PROBLEM,
            _SEVERITIES.get(problem.problem, Severity.WARNING),
            (clusters.get(problem.at, ""), None),
            f"Topic {problem.at}: {problem.detail}.",
            subject=f"{problem.at} {problem.problem}",
            evidence=(("problem", problem.problem),),
        )


def _of_sources(seen: Seen, name: FindingName, told: _Told, summary: str) -> Iterator[Finding]:
    """One finding per connector of the source partitions of which there is something to tell."""
    for who, views in seen.look.sources.items():
        rows: Evidence = tuple(
            (view.label, text) for view in views if (text := told(view)) is not None
        )
        if rows:
            count = several(len(rows), "source partition")
            yield seen.found(
                name, Severity.WARNING, who, f"{count} {summary}", evidence=examples(rows)
            )
