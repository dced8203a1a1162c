"""What became of every record of one slice, told from the records in which the two sides differ.

Pure. Called by audit.py. Records are known by their hashes. The windows hold what lies between
blocks that are the same on both sides; what is left of a window once it is aligned is told apart in
this order, surest first:

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

from offsetwatch.history.audit.alignment import aligned, gaps
from offsetwatch.history.audit.slices import Slice


class Kind(StrEnum):
    """What is wrong with a range. Names are only ever added.

    different    more differs than is looked at record by record
    """

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    ALTERED = "altered"
    ADDED = "added"
    DIFFERENT = "different"


class Record(NamedTuple):
    """One record: where it is, its hash, that of its key and value, that of its key, and whether it
    has no value.
    """

    offset: int
    digest: int
    body: int
    key: int
    tombstone: bool


class Window(NamedTuple):
    """Records of both sides in which something differs, each in the order of its log.

    up_before   the upstream offset of the last record before it that is the same on both sides;
                None if there is none
    """

    up: Sequence[Record]
    down: Sequence[Record]
    up_before: int | None


@dataclass(frozen=True, slots=True)
class Item:
    """One record with which something is wrong.

    up, down    where it is; None where it is not. Of a duplicate, `up` is where it comes from
    place       its number in its window's order, by which neighbours are told
    """

    kind: Kind
    window: int
    place: int
    up: Record | None
    down: Record | None


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of records in a row, first and last included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Records in a row with which the same thing is wrong.

    explained   what explains it, for people; empty if nothing does
    certain     the explanation is one; otherwise it only may be
    """

    kind: Kind
    records: int
    up: Span | None
    down: Span | None
    explained: str = ""
    certain: bool = False


class Left(NamedTuple):
    """What alignment leaves of a slice.

    known           of records that match, by hash, the first upstream
    up_unjudged     upstream records that cannot be compared, as they lie before all that matches
    """

    gaps: tuple[LeftGap, ...]
    known: Mapping[int, Record]
    up_unjudged: int


class LeftGap(NamedTuple):
    """What is left between two matching stretches of one window."""

    window: int
    up_at: int
    up: tuple[Record, ...]
    down_at: int
    down: tuple[Record, ...]


_Placed = tuple[int, Record]  # its number in its window's order, and the record

Explain = Callable[[Item], tuple[str, bool]]
"""What explains an item, and whether that is certain; ("", False) if nothing does."""


def left_of(of: Slice, windows: Sequence[Window]) -> Left:
    """Align every window. What is not to be judged (slices.Slice) is left out."""
    found: list[LeftGap] = []
    known: dict[int, Record] = {}
    unjudged = 0
    for number, window in enumerate(windows):
        up = [at.digest for at in window.up]
        runs = aligned(up, [at.digest for at in window.down])
        for run in runs:
            for record in window.up[run.up : run.up + run.length]:
                known.setdefault(record.digest, record)
        for gap in gaps(runs, len(window.up), len(window.down)):
            before = window.up[gap.up - 1].offset if gap.up else window.up_before
            at_head = before is None
            mine = [at for at in window.up[gap.up : gap.up_end] if _judged(of, at.offset)]
            theirs: Sequence[Record] = window.down[gap.down : gap.down_end]
            if at_head and not of.up_head:
                unjudged += len(mine)
                mine = []
            if (at_head and not of.down_head) or not _beside(of, before):
                theirs = ()
            if mine or theirs:
                found.append(LeftGap(number, gap.up, tuple(mine), gap.down, tuple(theirs)))
    return Left(tuple(found), known, unjudged)


def unknown(left: Left) -> frozenset[int]:
    """Hashes of downstream records of which the windows do not tell where they come from."""
    ups = {at.digest for gap in left.gaps for at in gap.up}
    downs = {at.digest for gap in left.gaps for at in gap.down}
    return frozenset(downs - ups - left.known.keys())


def items(left: Left, elsewhere: Mapping[int, Record | None]) -> Iterator[Item]:
    """What is wrong with each record. `elsewhere`: what was found of `unknown`, by hash; None for
    what stands only downstream, and did before.
    """
    moved_up, moved_down, moved = _moved(left.gaps)
    yield from moved
    known: dict[int, Record | None] = {
        **{at.up.digest: at.up for at in moved if at.up is not None},
        **elsewhere,
        **left.known,
    }
    repeated: set[tuple[int, int]] = set()
    for gap in left.gaps:
        for number, record in enumerate(gap.down):
            place = gap.down_at + number
            if record.digest in known and (gap.window, place) not in moved_down:
                repeated.add((gap.window, place))
                yield Item(Kind.DUPLICATED, gap.window, place, known[record.digest], record)
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
        yield from _neither(gap.window, ups, downs)


def findings(found: Iterable[Item], explain: Explain) -> tuple[Finding, ...]:
    """Items in a row with the same fault and the same explanation, as one."""
    made: list[Finding] = []
    last: tuple[object, ...] | None = None
    end = -2
    for item in sorted(found, key=lambda at: (at.kind, at.window, at.place)):
        why = explain(item)
        same = (item.kind, item.window, *why)
        if same == last and item.place == end + 1 and _goes_on(made[-1], item):
            made[-1] = replace(
                made[-1],
                records=made[-1].records + 1,
                up=_wider(made[-1].up, item.up),
                down=_wider(made[-1].down, item.down),
            )
        else:
            up, down = _wider(None, item.up), _wider(None, item.down)
            made.append(Finding(item.kind, 1, up, down, *why))
        last, end = same, item.place
    return tuple(sorted(made, key=_place))


def joined(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings of the same kind and explanation that go on where another ends, on every side that
    they have, as one.
    """
    once = _merged(sorted(found, key=_by_kind), _next)
    turned = [at for at in once if at.kind is Kind.DUPLICATED]
    others = [at for at in once if at.kind is not Kind.DUPLICATED]
    # Of a range that is there twice the first copy may be matched to its middle and the second
    # from there: then what is left is its end, and after it its beginning.
    return tuple(sorted((*others, *_merged(turned, _next_or_turned)), key=_place))


def _merged(
    found: Iterable[Finding], follows: Callable[[Span | None, Span | None], bool]
) -> list[Finding]:
    made: list[Finding] = []
    for at in found:
        last = made[-1] if made else None
        if last is not None and _alike(last, at) and follows(last.up, at.up):
            made[-1] = replace(
                last,
                records=last.records + at.records,
                up=_both(last.up, at.up),
                down=_both(last.down, at.down),
            )
        else:
            made.append(at)
    return made


def _by_kind(found: Finding) -> tuple[str, str, int, int]:
    return (found.kind, found.explained, *_place(found))


def _alike(last: Finding, at: Finding) -> bool:
    same = (last.kind, last.explained, last.certain) == (at.kind, at.explained, at.certain)
    return same and _next(last.down, at.down)


def _next(last: Span | None, at: Span | None) -> bool:
    if last is None or at is None:
        return last is at
    return at.first == last.last + 1


def _next_or_turned(last: Span | None, at: Span | None) -> bool:
    if last is None or at is None:
        return False
    return at.last + 1 == last.first


def _both(last: Span | None, at: Span | None) -> Span | None:
    if last is None or at is None:
        return None
    return Span(min(last.first, at.first), max(last.last, at.last))


def _place(found: Finding) -> tuple[int, int]:
    """By where it is downstream, if it is there."""
    at = found.down or found.up
    return (0 if at is None else at.first, 0 if found.up is None else found.up.first)


def _judged(of: Slice, offset: int) -> bool:
    return of.judged[0] <= offset < of.judged[1]


def _beside(of: Slice, before: int | None) -> bool:
    """Is what stands downstream after this upstream record of the range that is judged?"""
    return before is None or of.judged[0] - 1 <= before < of.judged[1]


def _moved(
    left: Iterable[LeftGap],
) -> tuple[set[tuple[int, int]], set[tuple[int, int]], list[Item]]:
    """Places of what is left on both sides, upstream and downstream, and the items."""
    waiting: dict[int, deque[tuple[int, int, Record]]] = defaultdict(deque)
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
                at = gap.down_at + number
                downs.add((gap.window, at))
                found.append(Item(Kind.REORDERED, gap.window, at, of, record))
    return ups, downs, found


def _neither(window: int, ups: list[_Placed], downs: list[_Placed]) -> Iterator[Item]:
    """Of one gap, what is on one side only. Those are the same record, altered, that differ in
    their headers alone; then, if there are as many here as there, each in its turn; else those with
    the same key.
    """
    pairs, ups, downs = _paired(ups, downs, lambda at: at.body)
    if len(ups) == len(downs):
        pairs += zip(ups, downs, strict=True)
        ups = downs = []
    else:
        more, ups, downs = _paired(ups, downs, lambda at: at.key)
        pairs += more
    for (place, up), (_, down) in pairs:
        yield Item(Kind.ALTERED, window, place, up, down)
    for place, up in ups:
        yield Item(Kind.LOST, window, place, up, None)
    for place, down in downs:
        yield Item(Kind.ADDED, window, place, None, down)


def _paired(
    ups: list[_Placed], downs: list[_Placed], by: Callable[[Record], int]
) -> tuple[list[tuple[_Placed, _Placed]], list[_Placed], list[_Placed]]:
    """(pairs that are the same by this, in one order; what is left upstream, and downstream)."""
    runs = aligned([by(at) for _, at in ups], [by(at) for _, at in downs])
    pairs = [
        (ups[run.up + number], downs[run.down + number])
        for run in runs
        for number in range(run.length)
    ]
    paired_up, paired_down = {up[0] for up, _ in pairs}, {down[0] for _, down in pairs}
    return (
        pairs,
        [at for at in ups if at[0] not in paired_up],
        [at for at in downs if at[0] not in paired_down],
    )


def _goes_on(made: Finding, item: Item) -> bool:
    """What comes from one place goes on there: two ranges that lie together downstream may not."""
    if made.up is None or item.up is None:
        return made.up is None and item.up is None
    return item.up.offset > made.up.last


def _wider(span: Span | None, record: Record | None) -> Span | None:
    if record is None:
        return span
    if span is None:
        return Span(record.offset, record.offset)
    return Span(min(span.first, record.offset), max(span.last, record.offset))
