"""Cases of partitions: the input of the verdict rules, and the evidence for what they decide.

Evidence has the numbers that a verdict rests on, the most important first, as of the evaluation.
Times are moments and not ages, so that the evidence stays valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf
from typing import Final

from offsetwatch.decode.dialects import is_debezium, parse_offset_fields
from offsetwatch.decode.offset_order import is_snapshot
from offsetwatch.judge.input_visibility import InputVisibility, compute_discovery_deadline
from offsetwatch.judge.progress.observation_window import LOG_END_MOVE_SPACING, ObservationWindow
from offsetwatch.judge.progress.subjects import JudgedConnector, JudgedPartition, has_source_end
from offsetwatch.judge.progress.verdict_rules import (
    NEW_PARTITION_RULE,
    OVERDUE_PARTITION_RULE,
    WORST_FIRST,
    VerdictCase,
)
from offsetwatch.judge.settings import INTERVALS_OF_EVIDENCE, JudgeSettings
from offsetwatch.judge.text_formats import build_time_item
from offsetwatch.model.findings import (
    BYTES,
    OFFSET,
    PARTITIONS,
    RECORDS,
    ROWS,
    SECONDS,
    TIMES,
    TRANSACTIONS,
    Evidence,
    EvidenceItem,
    Verdict,
)
from offsetwatch.state.snapshot import (
    MirrorPartitionView,
    SinkPartitionView,
    SourceEndView,
    SourcePartitionView,
)

NO_LOG_END: Final = "no log end is known for its position"
NO_POSITION: Final = "it has no position, and does not begin at the start of the log"
SYNCS_WITHOUT_COMMIT: Final = "offset syncs continue, and no commit follows"
_MIRROR_DIALECT: Final = "mirror_source"


def build_case(
    subject: JudgedPartition,
    track: JudgedConnector,
    visibility: InputVisibility,
    settings: JudgeSettings,
    *,
    number: int,
    w: float,
    at: float,
    clock: Callable[[float], float] = float,
) -> VerdictCase | None:
    """Update a partition's window from the snapshot and return its case; None if it is gone.

    `clock` converts seconds of watching to a Unix time.
    """
    connector = subject.key[:2]
    before = subject.verdict_state.before
    patience_s = settings.patience_s
    if subject.number != number:
        subject.hidden = visibility.explain_absence(connector, sink=subject.sink)
        if subject.hidden is None:
            return None
        return VerdictCase(patience_s=patience_s, before=before, unavailable=subject.hidden)
    subject.hidden, headed, copied = _inspect_second_signal(subject, visibility)
    if subject.hidden is not None:
        return VerdictCase(
            patience_s=patience_s,
            before=before,
            unavailable=subject.hidden,
            rests=track.rests if track.unavailable is None else None,
        )
    window = _update_window(subject, track, settings, w=w, at=at)
    unavailable_states = track.unavailable
    # What is not seen any more does not count, for good or bad.
    rests, why = (track.rests, track.why) if unavailable_states is None else (None, None)
    found_at = _compute_discovery_deadline(subject, visibility, settings)
    if rests is not None or not copied or found_at is not None:
        window.rest(w)  # a task that is given it begins then
    return VerdictCase(
        patience_s=patience_s,
        w=w,
        clock=clock,
        gaps=window.gaps,
        before=before,
        unavailable_states=unavailable_states,
        rests=rests,
        copied=copied,
        placed=_has_offset(subject),
        unsure=subject.source is not None and bool(subject.source.unsure),
        why=why,
        why_all=track.why_all,
        why_s=w - track.why_w,
        failed_s=None if track.failed_w is None or rests else w - track.failed_w,
        watched_s=w - window.first_w,
        still_s=w - window.still_w,
        moved_s=None if window.moved_w is None else w - window.moved_w,
        waiting_s=None if window.waiting_w is None else w - window.waiting_w,
        sure=window.sure,
        headed=headed,
        sourced=subject.end is not None,
        poll_s=0.0 if subject.end is None else subject.end.poll_s,
        unit=_choose_unit(subject.end),
        in_snapshot=_is_in_snapshot(subject, window, w=w, patience_s=patience_s),
        unusable=None if subject.end is None else subject.end.mismatch or subject.end.lost,
        endless=visibility.explain_unread_log_ends(connector),
        end_still_s=w - window.end_w,
        ahead=_find_distance_ahead(subject),
        behind=window.behind,
        falls_behind=why is None and window.falls_behind(settings),
        repeats=window.repeats,
        repeated_s=None if window.repeated_w is None else w - window.repeated_w,
        contradicted=_find_contradiction(subject),
        unassigned=found_at is not None,
        handed_over=subject.verdict_state.rule in {NEW_PARTITION_RULE, OVERDUE_PARTITION_RULE},
        overdue=found_at is not None and at >= found_at and _has_records(subject),
        unusual=track.unusual,
        move_interval_s=0.0 if headed else window.move_interval_s,
        longest_s=window.longest_s,
    )


def _find_distance_ahead(subject: JudgedPartition) -> int:
    if subject.end is not None:
        return subject.end.ahead
    if subject.read is not None:
        committed, log_end = subject.read.committed, subject.read.log_end
        return 0 if committed is None or log_end is None else max(0, committed - log_end)
    return 0 if subject.mirror is None else subject.mirror.ahead or 0


def _choose_unit(end: SourceEndView | None) -> str:
    """Return the unit of a distance to an end; that of a time column is seconds."""
    if end is None:
        return RECORDS
    lags = (
        (end.lag_transactions, TRANSACTIONS),
        (end.lag_rows, ROWS),
        (end.lag_bytes, BYTES),
    )
    return next((unit for lag, unit in lags if lag is not None), SECONDS)


def _is_in_snapshot(
    subject: JudgedPartition, window: ObservationWindow, *, w: float, patience_s: float
) -> bool:
    """Check whether an offset is of an initial snapshot that is in progress.

    A partition that a connector no longer reads may have such an offset for ever. Where no source
    is configured, commits show that it is read.
    """
    if subject.end is not None:
        return subject.end.in_snapshot
    source = subject.source
    if source is None or source.offset is None or not is_debezium(source.dialect):
        return False
    committed_w = window.moved_w if window.repeated_w is None else window.repeated_w
    if committed_w is None or w - committed_w >= patience_s:
        return False
    return is_snapshot(parse_offset_fields(source.offset))


def _has_offset(subject: JudgedPartition) -> bool:
    if subject.read is not None:
        return subject.read.committed is not None
    return subject.source is None or subject.source.offset is not None


def _compute_discovery_deadline(
    subject: JudgedPartition, visibility: InputVisibility, settings: JudgeSettings
) -> float | None:
    """Return when MirrorMaker 2 must have discovered an unassigned partition, or None."""
    flow = visibility.flows.get(subject.key[:2])
    if flow is None or subject.mirror is None:
        return None
    return compute_discovery_deadline(flow, subject.mirror, settings.interval_s)


def _has_records(subject: JudgedPartition) -> bool:
    mirror = subject.mirror
    return mirror is not None and (mirror.log_end or 0) > (mirror.log_start or 0)


def _find_contradiction(subject: JudgedPartition) -> str | None:
    mirror = subject.mirror
    return None if mirror is None or mirror.uncommitted_since is None else SYNCS_WITHOUT_COMMIT


def compute_patience_end_w(
    subject: JudgedPartition, w: float, settings: JudgeSettings
) -> float | None:
    """Return the second of watching at which patience with a partition ends; None if not ahead."""
    window = subject.window
    if window is None or window.waiting_w is None:
        return None
    due = max(window.waiting_w, window.still_w) + settings.patience_s
    if subject.end is not None:
        due += subject.end.poll_s
    if not window.sure and window.ends_moved == INTERVALS_OF_EVIDENCE - 1:
        due = max(due, window.counted_w + settings.interval_s * LOG_END_MOVE_SPACING)
    return due if due > w else None


def compute_valid_until_w(subject: JudgedPartition, case: VerdictCase, rule: int) -> float:
    """Return the second of watching until which a decision holds if only time passes.

    0.0 if it must be decided again at the next pass.
    """
    window = subject.window
    if window is None:
        return 0.0
    match rule:
        case 8 | 16 if window.moved_w is not None:
            return window.moved_w + case.late_s
        case 10:
            return inf
        case 17 if window.repeated_w is not None:
            return window.repeated_w + case.patience_s
        case 20 if not window.longest_s:
            return inf
    return 0.0


def _inspect_second_signal(
    subject: JudgedPartition, visibility: InputVisibility
) -> tuple[str | None, bool, bool]:
    """Return three facts about the second signal of a partition.

    They are why it is unavailable (None if it is not), whether there is one, and whether the
    connector works on the partition.
    """
    connector = subject.key[:2]
    if subject.read is not None:
        had_end = subject.window is not None and subject.window.end is not None
        if subject.read.log_end is None and had_end:
            return NO_LOG_END, True, True
        is_placed = subject.read.lag is not None or _find_distance_ahead(subject) > 0
        if subject.read.log_end is not None and not is_placed:
            return NO_POSITION, True, True
        return None, subject.read.log_end is not None, True
    flow = visibility.flows.get(connector)
    mirror = subject.mirror
    if mirror is None and subject.source_name is not None:
        had_end = subject.window is not None and subject.window.end is not None
        why = visibility.explain_missing_source_end(subject.source_name) if had_end else None
        return why, has_source_end(subject.end), True
    if mirror is None:
        mirrored = subject.source is not None and subject.source.dialect == _MIRROR_DIALECT
        if flow is None:
            # Nothing shows here that the connector works on something else by now.
            unknown = visibility.explain_missing_configuration(connector) if mirrored else None
            return unknown, False, True
        if not mirrored:
            return None, False, True
        why = visibility.explain_missing_syncs(connector)
        return (
            visibility.explain_outdated_assignment(connector) if why is None else why,
            True,
            False,
        )
    if flow is None or flow.upstream is None:
        return None, False, True
    why = visibility.explain_missing_log_ends(flow.upstream)
    if why is None and mirror.lag is None:
        why = NO_LOG_END if mirror.log_end is None else NO_POSITION
    return why, True, True


def _update_window(
    subject: JudgedPartition,
    track: JudgedConnector,
    settings: JudgeSettings,
    *,
    w: float,
    at: float,
) -> ObservationWindow:
    sample = subject.sample(at)
    window = subject.window
    if window is None:
        window = subject.window = ObservationWindow.opened(sample, w)
    else:
        window.take(sample, w, settings)
    if track.restarted_w is not None:
        window.grace(track.restarted_w)
    return window


_NO_PARTITIONS: Final = EvidenceItem("partitions", 0, PARTITIONS)
_NONE_WAIT: Final = EvidenceItem("readable records wait", "no")
_SOME_WAIT: Final = EvidenceItem("readable records wait", "yes")


def build_partition_evidence(subject: JudgedPartition, states: str) -> Evidence:
    """Return the evidence for a source partition, replicated or not, or for a sink's partition."""
    window, source, mirror = subject.window, subject.source, subject.mirror
    evidence: list[EvidenceItem] = []
    if window is None:
        return (_build_states_item(states),)
    if subject.read is not None:
        evidence += [
            *_build_log_items(subject.read.committed, subject.read),
            *_build_rewind_items(window),
        ]
    elif mirror is not None:
        position = mirror.replicated if mirror.lag_position is None else mirror.lag_position
        evidence += [*_build_log_items(position, mirror), *_build_rewind_items(window)]
    elif source is not None and source.offset is not None:
        evidence.append(EvidenceItem("offset", source.offset.text))
        if window.furthest is not None:
            evidence.append(EvidenceItem("went back from", window.furthest))
    if subject.end is not None:
        evidence += build_source_end_evidence(subject.end)
    if source is not None:
        evidence += build_raw_key_evidence(source)
        evidence += _build_time_items(source)
    if window.repeats:
        evidence.append(EvidenceItem("commits of the same offset", window.repeats, TIMES))
    evidence.append(_build_states_item(states))
    return tuple(evidence)


def build_source_end_evidence(end: SourceEndView) -> Evidence:
    """Return the end of a source, and how far a partition is behind it."""
    evidence = [EvidenceItem("source", end.source)]
    if end.end:
        evidence.append(EvidenceItem("end of the source", end.end))
    lags = (
        (end.lag_transactions, TRANSACTIONS),
        (end.lag_rows, ROWS),
        (end.lag_bytes, BYTES),
    )
    evidence += (EvidenceItem("lag", lag, unit) for lag, unit in lags if lag is not None)
    if end.caught_up is not None:
        evidence.append(EvidenceItem("changes wait", "no" if end.caught_up else "yes"))
    if end.behind_since is not None and not end.caught_up:
        evidence.append(build_time_item("end last seen at the position", end.behind_since))
    return tuple(evidence)


def build_raw_key_evidence(source: SourcePartitionView) -> Evidence:
    """Return the raw keys that a task may look up, or that it looked up one after the other."""
    unsure = tuple(
        EvidenceItem(
            "raw key", f"{format_raw_key(raw_key)} = {'null' if offset is None else offset.text}"
        )
        for raw_key, offset in source.unsure
    )
    change = source.restarted
    if change is None:
        return unsure
    before = "null" if change.offset is None else change.offset.text
    return (
        EvidenceItem("raw key before", f"{format_raw_key(change.before)} = {before}"),
        EvidenceItem("raw key now", format_raw_key(change.after)),
        *unsure,
    )


def format_raw_key(raw_key: bytes) -> str:
    """Return a raw key as text, byte for byte where it is UTF-8."""
    return raw_key.decode(errors="backslashreplace")


def build_summary_evidence(
    counts: Counter[Verdict], worst: tuple[str, Evidence] | None
) -> Evidence:
    """Return the evidence for a connector or flow: verdict counts and the worst partition."""
    evidence = tuple(
        EvidenceItem(verdict.value, counts[verdict], PARTITIONS)
        for verdict in WORST_FIRST
        if counts[verdict]
    ) or (_NO_PARTITIONS,)
    return (
        evidence
        if worst is None
        else (*evidence, EvidenceItem("for instance", worst[0]), *worst[1])
    )


@lru_cache(maxsize=1000)
def _build_states_item(states: str) -> EvidenceItem:
    """Return the states as evidence; cached, because connectors in equal states share the item."""
    return EvidenceItem("states", states)


def _build_log_items(
    position: int | None, view: MirrorPartitionView | SinkPartitionView
) -> Iterator[EvidenceItem]:
    yield EvidenceItem("position", position, OFFSET)
    if view.log_end is not None:
        yield EvidenceItem("log end", view.log_end, OFFSET)
    if view.lag is not None:
        yield EvidenceItem("lag", view.lag, RECORDS)
    if view.caught_up is not None and view.lag:
        yield _NONE_WAIT if view.caught_up else _SOME_WAIT
    if view.behind_since is not None:
        yield build_time_item("oldest record waits since", view.behind_since)


def _build_rewind_items(window: ObservationWindow) -> Iterator[EvidenceItem]:
    if window.behind:
        yield EvidenceItem("went back from", window.high, OFFSET)


def _build_time_items(source: SourcePartitionView) -> Iterator[EvidenceItem]:
    if source.committed_at is not None:
        yield _build_cached_time_item("last commit", int(source.committed_at // 1))
    if source.advanced_at is not None:
        yield _build_cached_time_item("last advance", int(source.advanced_at // 1))


@lru_cache(maxsize=4096)
def _build_cached_time_item(name: str, second: int) -> EvidenceItem:
    """Return a time as evidence; cached, because a flush commits many partitions at once."""
    return build_time_item(name, second)
