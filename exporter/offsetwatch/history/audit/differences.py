"""Differences between the two sides of one slice, as one finding for each range of records. Pure.

Records are known by their hashes. The windows hold the records between blocks that are equal on
both sides. Records that alignment leaves unmatched in a window are classified in this order, surest
first:

    reordered     it is on both sides, and not where its neighbours are
    duplicated    downstream it repeats a record that is there already, or that lies upstream
                  outside of the slice
    altered       between the same neighbours lie one record upstream and another one downstream
    lost          it was replicated, and is nowhere downstream
    added         it is downstream, and nowhere upstream
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from offsetwatch.history.audit.scope import Slice
from offsetwatch.history.audit.sequence_alignment import align_sequences, find_gaps


class MirrorDifferenceKind(StrEnum):
    """Kinds of difference between both sides. Names are only ever added.

    different    more records differ than are compared one by one
    """

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    ALTERED = "altered"
    ADDED = "added"
    DIFFERENT = "different"


class HashedRecord(NamedTuple):
    """A record: its offset, three hashes, and whether it has no value.

    digest    hash of the whole record
    body      hash of its key and value
    key       hash of its key
    """

    offset: int
    digest: int
    body: int
    key: int
    tombstone: bool


class DifferenceWindow(NamedTuple):
    """Records of both sides in which something differs, each in the order of its log.

    up_before   the upstream offset of the last record before it that is the same on both sides;
                None if there is none
    """

    up: Sequence[HashedRecord]
    down: Sequence[HashedRecord]
    up_before: int | None


@dataclass(frozen=True, slots=True)
class MirrorDifference:
    """A record that differs between both sides.

    up, down    the record on each side; None where it is missing. Of a duplicate, `up` is the
                original
    index       its number in its window's order, by which neighbours are found
    """

    kind: MirrorDifferenceKind
    window: int
    index: int
    up: HashedRecord | None
    down: HashedRecord | None


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of consecutive records, first and last included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Consecutive records with the same kind of difference.

    explained   the explanation, for display; empty if there is none
    certain     the explanation is certain; otherwise it is only possible
    """

    kind: MirrorDifferenceKind
    records: int
    up: Span | None
    down: Span | None
    explained: str = ""
    certain: bool = False


class AlignmentResult(NamedTuple):
    """Unmatched records of a slice after alignment.

    known           hash -> first upstream record, of the records that match
    up_unjudged     upstream records that cannot be compared, as they lie before the first match
    """

    gaps: tuple[UnmatchedRecords, ...]
    known: Mapping[int, HashedRecord]
    up_unjudged: int


class UnmatchedRecords(NamedTuple):
    """Unmatched records between two matching runs of one window."""

    window: int
    up: Sequence[NumberedRecord]
    down: Sequence[NumberedRecord]


NumberedRecord = tuple[int, HashedRecord]  # its number in its window's order, and the record

Explainer = Callable[[MirrorDifference], tuple[str, bool]]
"""What explains an item, and whether that is certain; ("", False) if nothing does."""


def align_slice(piece: Slice, windows: Sequence[DifferenceWindow]) -> AlignmentResult:
    """Align every window. Leave out records outside the judged range (scope.Slice)."""
    gaps: list[UnmatchedRecords] = []
    known: dict[int, HashedRecord] = {}
    unjudged = 0
    first, end = piece.judged
    for number, window in enumerate(windows):
        up = [record.digest for record in window.up]
        runs = align_sequences(up, [record.digest for record in window.down])
        for run in runs:
            for record in window.up[run.up : run.up + run.length]:
                known.setdefault(record.digest, record)
        for gap in find_gaps(runs, len(window.up), len(window.down)):
            before = window.up[gap.up - 1].offset if gap.up else window.up_before
            ups = [
                (number_up, record)
                for number_up, record in enumerate(window.up[gap.up : gap.up_end], gap.up)
                if first <= record.offset < end
            ]
            downs = list(enumerate(window.down[gap.down : gap.down_end], gap.down))
            if before is None and not piece.up_head:
                unjudged += len(ups)
                ups = []
            # Downstream records belong to the range that the record before them is in or beside.
            if not piece.down_head if before is None else not first - 1 <= before < end:
                downs = []
            if ups or downs:
                gaps.append(UnmatchedRecords(number, ups, downs))
    return AlignmentResult(tuple(gaps), known, unjudged)


def find_unknown_hashes(alignment: AlignmentResult) -> frozenset[int]:
    """Return hashes of unmatched downstream records whose origin is not in the windows."""
    ups = {record.digest for gap in alignment.gaps for _, record in gap.up}
    downs = {record.digest for gap in alignment.gaps for _, record in gap.down}
    return frozenset(downs - ups - alignment.known.keys())


def classify_records(
    alignment: AlignmentResult, elsewhere: Mapping[int, HashedRecord | None]
) -> Iterator[MirrorDifference]:
    """Yield a difference for each unmatched record.

    elsewhere    hash -> upstream record, of the hashes of find_unknown_hashes; None for a record
                 that exists only downstream, and at an earlier offset too
    """
    moved_up, classified, moved = _find_reordered(alignment.gaps)
    yield from moved
    known: dict[int, HashedRecord | None] = {
        **{item.up.digest: item.up for item in moved if item.up is not None},
        **elsewhere,
        **alignment.known,
    }
    for gap in alignment.gaps:
        for index, record in gap.down:
            if record.digest in known and (gap.window, index) not in classified:
                classified.add((gap.window, index))
                yield MirrorDifference(
                    MirrorDifferenceKind.DUPLICATED, gap.window, index, known[record.digest], record
                )
    for gap in alignment.gaps:
        ups = [item for item in gap.up if (gap.window, item[0]) not in moved_up]
        downs = [item for item in gap.down if (gap.window, item[0]) not in classified]
        yield from _classify_one_sided(gap.window, ups, downs)


def group_differences(
    differences: Iterable[MirrorDifference], explain: Explainer
) -> tuple[AuditFinding, ...]:
    """Return findings: consecutive records with the same kind and explanation become one."""
    findings: list[AuditFinding] = []
    last: tuple[object, ...] | None = None
    for item in sorted(differences, key=attrgetter("kind", "window", "index")):
        why = explain(item)
        if last == (item.kind, item.window, item.index - 1, *why) and _is_continuation(
            findings[-1], item
        ):
            findings[-1] = replace(
                findings[-1],
                records=findings[-1].records + 1,
                up=_widen_span(findings[-1].up, item.up),
                down=_widen_span(findings[-1].down, item.down),
            )
        else:
            up, down = _widen_span(None, item.up), _widen_span(None, item.down)
            findings.append(AuditFinding(item.kind, 1, up, down, *why))
        last = (item.kind, item.window, item.index, *why)
    return tuple(sorted(findings, key=_compute_offset_key))


def merge_findings(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Return the findings, with adjacent ones of the same kind and explanation merged.

    They are adjacent if one goes on where the other ends, on every side that they have.
    """
    once = _merge_adjacent(
        sorted(findings, key=lambda item: (item.kind, item.explained, *_compute_offset_key(item))),
        _is_next,
    )
    # Of a range that is there twice the first copy may be matched to its middle and the second
    # from there: then what is left is its end, and after it its beginning.
    duplicates = [item for item in once if item.kind is MirrorDifferenceKind.DUPLICATED]
    others = [item for item in once if item.kind is not MirrorDifferenceKind.DUPLICATED]
    merged = _merge_adjacent(
        duplicates, lambda last, span: last is not None and _is_next(span, last)
    )
    return tuple(sorted((*others, *merged), key=_compute_offset_key))


def _merge_adjacent(
    findings: Iterable[AuditFinding], follows: Callable[[Span | None, Span | None], bool]
) -> list[AuditFinding]:
    merged: list[AuditFinding] = []
    same = attrgetter("kind", "explained", "certain")
    for finding in findings:
        last = merged[-1] if merged else None
        if (
            last is not None
            and same(last) == same(finding)
            and _is_next(last.down, finding.down)
            and follows(last.up, finding.up)
        ):
            merged[-1] = replace(
                last,
                records=last.records + finding.records,
                up=_join_spans(last.up, finding.up),
                down=_join_spans(last.down, finding.down),
            )
        else:
            merged.append(finding)
    return merged


def _is_next(last: Span | None, span: Span | None) -> bool:
    if last is None or span is None:
        return last is span
    return span.first == last.last + 1


def _join_spans(last: Span | None, span: Span | None) -> Span | None:
    if last is None or span is None:
        return None
    return Span(min(last.first, span.first), max(last.last, span.last))


def _compute_offset_key(finding: AuditFinding) -> tuple[int, int]:
    """Return the sort key: first the downstream offset, if there is one, then the upstream one."""
    span = finding.down or finding.up
    return (0 if span is None else span.first, 0 if finding.up is None else finding.up.first)


def _find_reordered(
    gaps: Sequence[UnmatchedRecords],
) -> tuple[set[tuple[int, int]], set[tuple[int, int]], list[MirrorDifference]]:
    """Return records that are unmatched on both sides.

    The result is (window, index) upstream, (window, index) downstream, and the differences.
    """
    waiting: dict[int, deque[tuple[int, int, HashedRecord]]] = defaultdict(deque)
    for gap in gaps:
        for index, record in gap.up:
            waiting[record.digest].append((gap.window, index, record))
    ups: set[tuple[int, int]] = set()
    downs: set[tuple[int, int]] = set()
    moved = []
    for gap in gaps:
        for index, record in gap.down:
            if waiting.get(record.digest):
                window, index_up, origin = waiting[record.digest].popleft()
                ups.add((window, index_up))
                downs.add((gap.window, index))
                moved.append(
                    MirrorDifference(
                        MirrorDifferenceKind.REORDERED, gap.window, index, origin, record
                    )
                )
    return ups, downs, moved


def _classify_one_sided(
    window: int, ups: list[NumberedRecord], downs: list[NumberedRecord]
) -> Iterator[MirrorDifference]:
    """Yield differences of the records of one gap that are on one side only.

    Two records are one that was altered if they differ in their headers alone; then, if there are
    as many upstream as downstream, each pair in its turn; else those with the same key.
    """
    pairs, ups, downs = _pair_records(ups, downs, lambda record: record.body)
    if len(ups) == len(downs):
        pairs += zip(ups, downs, strict=True)
        ups = downs = []
    else:
        more, ups, downs = _pair_records(ups, downs, lambda record: record.key)
        pairs += more
    for (index, up), (_, down) in pairs:
        yield MirrorDifference(MirrorDifferenceKind.ALTERED, window, index, up, down)
    for index, up in ups:
        yield MirrorDifference(MirrorDifferenceKind.LOST, window, index, up, None)
    for index, down in downs:
        yield MirrorDifference(MirrorDifferenceKind.ADDED, window, index, None, down)


def _pair_records(
    ups: list[NumberedRecord], downs: list[NumberedRecord], by: Callable[[HashedRecord], int]
) -> tuple[list[tuple[NumberedRecord, NumberedRecord]], list[NumberedRecord], list[NumberedRecord]]:
    """Pair records that are equal by `by`, in one order.

    Return the pairs, the remaining upstream records, and the remaining downstream ones.
    """
    runs = align_sequences([by(record) for _, record in ups], [by(record) for _, record in downs])
    pairs = [
        (ups[run.up + number], downs[run.down + number])
        for run in runs
        for number in range(run.length)
    ]
    paired_up, paired_down = {up[0] for up, _ in pairs}, {down[0] for _, down in pairs}
    return (
        pairs,
        [record for record in ups if record[0] not in paired_up],
        [record for record in downs if record[0] not in paired_down],
    )


def _is_continuation(finding: AuditFinding, item: MirrorDifference) -> bool:
    """Check whether the item's upstream record lies after the finding's last, or neither has one.

    Two ranges that lie together downstream may come from different places upstream.
    """
    if finding.up is None or item.up is None:
        return finding.up is None and item.up is None
    return item.up.offset > finding.up.last


def _widen_span(span: Span | None, record: HashedRecord | None) -> Span | None:
    if record is None:
        return span
    single = Span(record.offset, record.offset)
    return single if span is None else _join_spans(span, single)
