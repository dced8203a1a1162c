"""What became of every record of one slice, told from the records in which the two sides differ.

Pure. Records are known by their hashes. The windows hold what lies between blocks that are the same
on both sides; what is left of a window once it is aligned is told apart in this order, surest
first:

    reordered     it stands on both sides, and not where its neighbours are
    duplicated    downstream it repeats a record that is there already, or that lies upstream
                  outside of the slice
    altered       between the same neighbours stand one record here and another one there
    lost          it was replicated, and is nowhere downstream
    added         it is downstream, and nowhere upstream
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from offsetwatch.history.audit.alignment import align_sequences, find_gaps
from offsetwatch.history.audit.slices import Slice


class MirrorDifferenceKind(StrEnum):
    """What is wrong with a range. Names are only ever added.

    different    more differs than is looked at record by record
    """

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    ALTERED = "altered"
    ADDED = "added"
    DIFFERENT = "different"


class HashedRecord(NamedTuple):
    """One record: where it is, its hash, that of its key and value, that of its key, and whether it
    has no value.
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
    """One record with which something is wrong.

    up, down    where it is; None where it is not. Of a duplicate, `up` is where it comes from
    place       its number in its window's order, by which neighbours are told
    """

    kind: MirrorDifferenceKind
    window: int
    place: int
    up: HashedRecord | None
    down: HashedRecord | None


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of records in a row, first and last included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Records in a row with which the same thing is wrong.

    explained   what explains it, for people; empty if nothing does
    certain     the explanation is one; otherwise it only may be
    """

    kind: MirrorDifferenceKind
    records: int
    up: Span | None
    down: Span | None
    explained: str = ""
    certain: bool = False


class AlignmentResult(NamedTuple):
    """What alignment leaves of a slice.

    known           of records that match, by hash, the first upstream
    up_unjudged     upstream records that cannot be compared, as they lie before all that matches
    """

    gaps: tuple[UnmatchedRecords, ...]
    known: Mapping[int, HashedRecord]
    up_unjudged: int


class UnmatchedRecords(NamedTuple):
    """What is left between two matching stretches of one window."""

    window: int
    up_at: int
    up: tuple[HashedRecord, ...]
    down_at: int
    down: tuple[HashedRecord, ...]


_NumberedRecord = tuple[int, HashedRecord]  # its number in its window's order, and the record

Explainer = Callable[[MirrorDifference], tuple[str, bool]]
"""What explains an item, and whether that is certain; ("", False) if nothing does."""


def align_slice(of: Slice, windows: Sequence[DifferenceWindow]) -> AlignmentResult:
    """Align every window. What is not to be judged (slices.Slice) is left out."""
    found: list[UnmatchedRecords] = []
    known: dict[int, HashedRecord] = {}
    unjudged = 0
    for number, window in enumerate(windows):
        up = [at.digest for at in window.up]
        runs = align_sequences(up, [at.digest for at in window.down])
        for run in runs:
            for record in window.up[run.up : run.up + run.length]:
                known.setdefault(record.digest, record)
        for gap in find_gaps(runs, len(window.up), len(window.down)):
            before = window.up[gap.up - 1].offset if gap.up else window.up_before
            at_head = before is None
            mine = [at for at in window.up[gap.up : gap.up_end] if _is_judged(of, at.offset)]
            theirs: Sequence[HashedRecord] = window.down[gap.down : gap.down_end]
            if at_head and not of.up_head:
                unjudged += len(mine)
                mine = []
            if (at_head and not of.down_head) or not _is_beside_judged(of, before):
                theirs = ()
            if mine or theirs:
                found.append(UnmatchedRecords(number, gap.up, tuple(mine), gap.down, tuple(theirs)))
    return AlignmentResult(tuple(found), known, unjudged)


def find_unknown_hashes(left: AlignmentResult) -> frozenset[int]:
    """Hashes of downstream records of which the windows do not tell where they come from."""
    ups = {record.digest for gap in left.gaps for record in gap.up}
    downs = {record.digest for gap in left.gaps for record in gap.down}
    return frozenset(downs - ups - left.known.keys())


def classify_records(
    left: AlignmentResult, elsewhere: Mapping[int, HashedRecord | None]
) -> Iterator[MirrorDifference]:
    """What is wrong with each record. `elsewhere`: what was found of `unknown`, by hash; None for
    what stands only downstream, and did before.
    """
    moved_up, moved_down, moved = _find_reordered(left.gaps)
    yield from moved
    known: dict[int, HashedRecord | None] = {
        **{
            mirror_difference.up.digest: mirror_difference.up
            for mirror_difference in moved
            if mirror_difference.up is not None
        },
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
            (gap.up_at + number, at)
            for number, at in enumerate(gap.up)
            if (gap.window, gap.up_at + number) not in moved_up
        ]
        downs = [
            (gap.down_at + number, at)
            for number, at in enumerate(gap.down)
            if (gap.window, gap.down_at + number) not in moved_down | repeated
        ]
        yield from _classify_one_sided(gap.window, ups, downs)


def group_differences(
    found: Iterable[MirrorDifference], explain: Explainer
) -> tuple[AuditFinding, ...]:
    """Items in a row with the same fault and the same explanation, as one."""
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
    """Findings of the same kind and explanation that go on where another ends, on every side that
    they have, as one.
    """
    once = _merge_adjacent(sorted(found, key=_compute_kind_key), _is_next)
    turned = [
        audit_finding
        for audit_finding in once
        if audit_finding.kind is MirrorDifferenceKind.DUPLICATED
    ]
    others = [
        audit_finding
        for audit_finding in once
        if audit_finding.kind is not MirrorDifferenceKind.DUPLICATED
    ]
    # Of a range that is there twice the first copy may be matched to its middle and the second
    # from there: then what is left is its end, and after it its beginning.
    return tuple(sorted((*others, *_merge_adjacent(turned, _is_previous)), key=_compute_offset_key))


def _merge_adjacent(
    found: Iterable[AuditFinding], follows: Callable[[Span | None, Span | None], bool]
) -> list[AuditFinding]:
    made: list[AuditFinding] = []
    for audit_finding in found:
        last = made[-1] if made else None
        if (
            last is not None
            and _is_same_kind(last, audit_finding)
            and follows(last.up, audit_finding.up)
        ):
            made[-1] = replace(
                last,
                records=last.records + audit_finding.records,
                up=_join_spans(last.up, audit_finding.up),
                down=_join_spans(last.down, audit_finding.down),
            )
        else:
            made.append(audit_finding)
    return made


def _compute_kind_key(found: AuditFinding) -> tuple[str, str, int, int]:
    return (found.kind, found.explained, *_compute_offset_key(found))


def _is_same_kind(last: AuditFinding, finding: AuditFinding) -> bool:
    same = (last.kind, last.explained, last.certain) == (
        finding.kind,
        finding.explained,
        finding.certain,
    )
    return same and _is_next(last.down, finding.down)


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
    """By where it is downstream, if it is there."""
    span = found.down or found.up
    return (0 if span is None else span.first, 0 if found.up is None else found.up.first)


def _is_judged(of: Slice, offset: int) -> bool:
    return of.judged[0] <= offset < of.judged[1]


def _is_beside_judged(of: Slice, before: int | None) -> bool:
    """Is what stands downstream after this upstream record of the range that is judged?"""
    return before is None or of.judged[0] - 1 <= before < of.judged[1]


def _find_reordered(
    left: Iterable[UnmatchedRecords],
) -> tuple[set[tuple[int, int]], set[tuple[int, int]], list[MirrorDifference]]:
    """Places of what is left on both sides, upstream and downstream, and the items."""
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
    """Of one gap, what is on one side only. Those are the same record, altered, that differ in
    their headers alone; then, if there are as many here as there, each in its turn; else those with
    the same key.
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
    """(pairs that are the same by this, in one order; what is left upstream, and downstream)."""
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
    """What comes from one place goes on there: two ranges that lie together downstream may not."""
    if made.up is None or item.up is None:
        return made.up is None and item.up is None
    return item.up.offset > made.up.last


def _widen_span(span: Span | None, record: HashedRecord | None) -> Span | None:
    if record is None:
        return span
    if span is None:
        return Span(record.offset, record.offset)
    return Span(min(span.first, record.offset), max(span.last, record.offset))
