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
    place       its number in its window's order, by which neighbours are found
    """

    kind: MirrorDifferenceKind
    window: int
    place: int
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
    up_at: int
    up: tuple[HashedRecord, ...]
    down_at: int
    down: tuple[HashedRecord, ...]


_NumberedRecord = tuple[int, HashedRecord]  # its number in its window's order, and the record

Explainer = Callable[[MirrorDifference], tuple[str, bool]]
"""What explains an item, and whether that is certain; ("", False) if nothing does."""


def align_slice(of: Slice, windows: Sequence[DifferenceWindow]) -> AlignmentResult:
    """Align every window. Leave out records outside the judged range (scope.Slice)."""
    found: list[UnmatchedRecords] = []
    known: dict[int, HashedRecord] = {}
    unjudged = 0
    first, end = of.judged
    for number, window in enumerate(windows):
        up = [record.digest for record in window.up]
        runs = align_sequences(up, [record.digest for record in window.down])
        for run in runs:
            for record in window.up[run.up : run.up + run.length]:
                known.setdefault(record.digest, record)
        for gap in find_gaps(runs, len(window.up), len(window.down)):
            before = window.up[gap.up - 1].offset if gap.up else window.up_before
            at_head = before is None
            mine = [
                record for record in window.up[gap.up : gap.up_end] if first <= record.offset < end
            ]
            theirs: Sequence[HashedRecord] = window.down[gap.down : gap.down_end]
            if at_head and not of.up_head:
                unjudged += len(mine)
                mine = []
            # Downstream records belong to the range that the record before them is in or beside.
            if not of.down_head if before is None else not first - 1 <= before < end:
                theirs = ()
            if mine or theirs:
                found.append(UnmatchedRecords(number, gap.up, tuple(mine), gap.down, tuple(theirs)))
    return AlignmentResult(tuple(found), known, unjudged)


def find_unknown_hashes(left: AlignmentResult) -> frozenset[int]:
    """Return hashes of unmatched downstream records whose origin is not in the windows."""
    ups = {record.digest for gap in left.gaps for record in gap.up}
    downs = {record.digest for gap in left.gaps for record in gap.down}
    return frozenset(downs - ups - left.known.keys())


def classify_records(
    left: AlignmentResult, elsewhere: Mapping[int, HashedRecord | None]
) -> Iterator[MirrorDifference]:
    """Yield a difference for each unmatched record.

    elsewhere    hash -> upstream record, of the hashes of find_unknown_hashes; None for a record
                 that exists only downstream, and at an earlier offset too
    """
    moved_up, moved_down, moved = _find_reordered(left.gaps)
    yield from moved
    known: dict[int, HashedRecord | None] = {
        **{item.up.digest: item.up for item in moved if item.up is not None},
        **elsewhere,
        **left.known,
    }
    repeated: set[tuple[int, int]] = set()
    for gap in left.gaps:
        for number, record in enumerate(gap.down):
            place = gap.down_at + number
            if record.digest in known and (gap.window, place) not in moved_down:
                repeated.add((gap.window, place))
                yield MirrorDifference(
                    MirrorDifferenceKind.DUPLICATED, gap.window, place, known[record.digest], record
                )
    for gap in left.gaps:
        ups = [
            (gap.up_at + number, record)
            for number, record in enumerate(gap.up)
            if (gap.window, gap.up_at + number) not in moved_up
        ]
        downs = [
            (gap.down_at + number, record)
            for number, record in enumerate(gap.down)
            if (gap.window, gap.down_at + number) not in moved_down | repeated
        ]
        yield from _classify_one_sided(gap.window, ups, downs)


def group_differences(
    found: Iterable[MirrorDifference], explain: Explainer
) -> tuple[AuditFinding, ...]:
    """Return findings: consecutive records with the same kind and explanation become one."""
    made: list[AuditFinding] = []
    last: tuple[object, ...] | None = None
    end = -2
    for item in sorted(
        found, key=lambda difference: (difference.kind, difference.window, difference.place)
    ):
        why = explain(item)
        same = (item.kind, item.window, *why)
        if same == last and item.place == end + 1 and _is_continuation(made[-1], item):
            made[-1] = replace(
                made[-1],
                records=made[-1].records + 1,
                up=_widen_span(made[-1].up, item.up),
                down=_widen_span(made[-1].down, item.down),
            )
        else:
            up, down = _widen_span(None, item.up), _widen_span(None, item.down)
            made.append(AuditFinding(item.kind, 1, up, down, *why))
        last, end = same, item.place
    return tuple(sorted(made, key=_compute_offset_key))


def merge_findings(found: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Return the findings, with adjacent ones of the same kind and explanation merged.

    They are adjacent if one goes on where the other ends, on every side that they have.
    """
    once = _merge_adjacent(
        sorted(found, key=lambda one: (one.kind, one.explained, *_compute_offset_key(one))),
        _is_next,
    )
    # Of a range that is there twice the first copy may be matched to its middle and the second
    # from there: then what is left is its end, and after it its beginning.
    turned = [one for one in once if one.kind is MirrorDifferenceKind.DUPLICATED]
    others = [one for one in once if one.kind is not MirrorDifferenceKind.DUPLICATED]
    return tuple(sorted((*others, *_merge_adjacent(turned, _is_previous)), key=_compute_offset_key))


def _merge_adjacent(
    found: Iterable[AuditFinding], follows: Callable[[Span | None, Span | None], bool]
) -> list[AuditFinding]:
    made: list[AuditFinding] = []
    for finding in found:
        last = made[-1] if made else None
        if (
            last is not None
            and (last.kind, last.explained) == (finding.kind, finding.explained)
            and last.certain == finding.certain
            and _is_next(last.down, finding.down)
            and follows(last.up, finding.up)
        ):
            made[-1] = replace(
                last,
                records=last.records + finding.records,
                up=_join_spans(last.up, finding.up),
                down=_join_spans(last.down, finding.down),
            )
        else:
            made.append(finding)
    return made


def _is_next(last: Span | None, span: Span | None) -> bool:
    if last is None or span is None:
        return last is span
    return span.first == last.last + 1


def _is_previous(last: Span | None, span: Span | None) -> bool:
    if last is None or span is None:
        return False
    return span.last + 1 == last.first


def _join_spans(last: Span | None, span: Span | None) -> Span | None:
    if last is None or span is None:
        return None
    return Span(min(last.first, span.first), max(last.last, span.last))


def _compute_offset_key(found: AuditFinding) -> tuple[int, int]:
    """Return the sort key: first the downstream offset, if there is one, then the upstream one."""
    span = found.down or found.up
    return (0 if span is None else span.first, 0 if found.up is None else found.up.first)


def _find_reordered(
    left: Iterable[UnmatchedRecords],
) -> tuple[set[tuple[int, int]], set[tuple[int, int]], list[MirrorDifference]]:
    """Return records that are unmatched on both sides.

    The result is (window, place) upstream, (window, place) downstream, and the differences.
    """
    waiting: dict[int, deque[tuple[int, int, HashedRecord]]] = defaultdict(deque)
    left = tuple(left)
    for gap in left:
        for number, record in enumerate(gap.up):
            waiting[record.digest].append((gap.window, gap.up_at + number, record))
    ups: set[tuple[int, int]] = set()
    downs: set[tuple[int, int]] = set()
    found = []
    for gap in left:
        for number, record in enumerate(gap.down):
            if waiting.get(record.digest):
                window, place, of = waiting[record.digest].popleft()
                ups.add((window, place))
                position = gap.down_at + number
                downs.add((gap.window, position))
                found.append(
                    MirrorDifference(
                        MirrorDifferenceKind.REORDERED, gap.window, position, of, record
                    )
                )
    return ups, downs, found


def _classify_one_sided(
    window: int, ups: list[_NumberedRecord], downs: list[_NumberedRecord]
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
    for (place, up), (_, down) in pairs:
        yield MirrorDifference(MirrorDifferenceKind.ALTERED, window, place, up, down)
    for place, up in ups:
        yield MirrorDifference(MirrorDifferenceKind.LOST, window, place, up, None)
    for place, down in downs:
        yield MirrorDifference(MirrorDifferenceKind.ADDED, window, place, None, down)


def _pair_records(
    ups: list[_NumberedRecord], downs: list[_NumberedRecord], by: Callable[[HashedRecord], int]
) -> tuple[
    list[tuple[_NumberedRecord, _NumberedRecord]], list[_NumberedRecord], list[_NumberedRecord]
]:
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


def _is_continuation(made: AuditFinding, item: MirrorDifference) -> bool:
    """Check whether the item's upstream record lies after the finding's last, or neither has one.

    Two ranges that lie together downstream may come from different places upstream.
    """
    if made.up is None or item.up is None:
        return made.up is None and item.up is None
    return item.up.offset > made.up.last


def _widen_span(span: Span | None, record: HashedRecord | None) -> Span | None:
    if record is None:
        return span
    if span is None:
        return Span(record.offset, record.offset)
    return Span(min(span.first, record.offset), max(span.last, record.offset))
