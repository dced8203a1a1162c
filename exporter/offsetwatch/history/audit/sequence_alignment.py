"""Alignment of two sequences of hashes: matching runs and the gaps between them. Pure.

The matches always form a common subsequence. It is the longest one wherever the part between unique
items is small; elsewhere, among very many repeated items, it may be a little shorter.

Items that occur once on both sides are matched first, as many as keep their order (Bram Cohen's
patience diff): they cannot be mistaken for one another, and repeated items can.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

# Cells of the table for the longest common subsequence: a second at most, and 8 MB.
CELLS_MAX: Final = 1_000_000


class MatchingRun(NamedTuple):
    """`length` equal items in a row, from index `up` of one sequence and `down` of the other."""

    up: int
    down: int
    length: int


class AlignmentGap(NamedTuple):
    """Items between two runs: [up, up_end) of one sequence and [down, down_end) of the other."""

    up: int
    up_end: int
    down: int
    down_end: int


def align_sequences(up: Sequence[int], down: Sequence[int]) -> tuple[MatchingRun, ...]:
    """Return the matching runs, in order."""
    matches: list[tuple[int, int]] = []
    todo = [AlignmentGap(0, len(up), 0, len(down))]
    while todo:
        gap = _trim_matches(up, down, todo.pop(), matches)
        if gap.up == gap.up_end or gap.down == gap.down_end:
            continue
        anchors = _select_increasing(_pair_items(up, down, gap, unique=True))
        if not anchors:
            if (gap.up_end - gap.up) * (gap.down_end - gap.down) <= CELLS_MAX:
                matches += _match_longest(up, down, gap)
                continue
            anchors = _select_increasing(_pair_items(up, down, gap, unique=False))
        matches += anchors
        todo += _split_gap(anchors, gap) if anchors else ()
    return _runs(sorted(matches))


def find_gaps(
    runs: Sequence[MatchingRun], up_length: int, down_length: int
) -> Iterator[AlignmentGap]:
    """Yield the gaps between the runs, in order; at least one side of each is not empty."""
    at_up = at_down = 0
    for run in (*runs, MatchingRun(up_length, down_length, 0)):
        if run.up > at_up or run.down > at_down:
            yield AlignmentGap(at_up, run.up, at_down, run.down)
        at_up, at_down = run.up + run.length, run.down + run.length


def _trim_matches(
    up: Sequence[int], down: Sequence[int], gap: AlignmentGap, matches: list[tuple[int, int]]
) -> AlignmentGap:
    """Return the gap without equal items at its beginning and its end; add those to `matches`."""
    first_up, end_up, first_down, end_down = gap
    while first_up < end_up and first_down < end_down and up[first_up] == down[first_down]:
        matches.append((first_up, first_down))
        first_up, first_down = first_up + 1, first_down + 1
    while first_up < end_up and first_down < end_down and up[end_up - 1] == down[end_down - 1]:
        end_up, end_down = end_up - 1, end_down - 1
        matches.append((end_up, end_down))
    return AlignmentGap(first_up, end_up, first_down, end_down)


def _pair_items(
    up: Sequence[int], down: Sequence[int], gap: AlignmentGap, *, unique: bool
) -> list[tuple[int, int]]:
    """Return pairs of equal items: first with first, second with second; in the order of `up`.

    With `unique` only those that occur exactly once on each side.
    """
    ups = _index_items(up, gap.up, gap.up_end)
    downs = _index_items(down, gap.down, gap.down_end)
    return sorted(
        pair
        for item, indices in ups.items()
        if not unique or len(indices) == len(downs.get(item, ())) == 1
        for pair in zip(indices, downs.get(item, ()), strict=False)
    )


def _index_items(items: Sequence[int], first: int, end: int) -> dict[int, list[int]]:
    indices: dict[int, list[int]] = defaultdict(list)
    for index in range(first, end):
        indices[items[index]].append(index)
    return dict(indices)


def _select_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return as many of the pairs as increase on both sides. They arrive in the order of `up`."""
    tops: list[int] = []  # the lowest end of a rising row of each length
    ends: list[int] = []  # which pair that is
    before: list[int] = []
    for number, (_, down) in enumerate(pairs):
        length = bisect_left(tops, down)
        before.append(ends[length - 1] if length else -1)
        if length == len(tops):
            tops.append(down)
            ends.append(number)
        else:
            tops[length], ends[length] = down, number
    increasing = []
    number = ends[-1] if ends else -1
    while number >= 0:
        increasing.append(pairs[number])
        number = before[number]
    return increasing[::-1]


def _split_gap(anchors: Sequence[tuple[int, int]], gap: AlignmentGap) -> Iterator[AlignmentGap]:
    at_up, at_down = gap.up, gap.down
    for up, down in anchors:
        yield AlignmentGap(at_up, up, at_down, down)
        at_up, at_down = up + 1, down + 1
    yield AlignmentGap(at_up, gap.up_end, at_down, gap.down_end)


def _match_longest(
    up: Sequence[int], down: Sequence[int], gap: AlignmentGap
) -> list[tuple[int, int]]:
    """Return the longest common subsequence, by the usual table, filled from its end."""
    width = gap.down_end - gap.down
    table = [[0] * (width + 1)]
    for number in range(gap.up_end - 1, gap.up - 1, -1):
        below, row = table[-1], [0] * (width + 1)
        for column in range(width - 1, -1, -1):
            if up[number] == down[gap.down + column]:
                row[column] = below[column + 1] + 1
            else:
                row[column] = max(below[column], row[column + 1])
        table.append(row)
    table.reverse()
    matches, row_at, column = [], 0, 0
    while row_at < len(table) - 1 and column < width:
        if up[gap.up + row_at] == down[gap.down + column]:
            matches.append((gap.up + row_at, gap.down + column))
            row_at, column = row_at + 1, column + 1
        elif table[row_at + 1][column] >= table[row_at][column + 1]:
            row_at += 1
        else:
            column += 1
    return matches


def _runs(matches: Sequence[tuple[int, int]]) -> tuple[MatchingRun, ...]:
    runs: list[MatchingRun] = []
    for up, down in matches:
        last = runs[-1] if runs else None
        if last is not None and (last.up + last.length, last.down + last.length) == (up, down):
            runs[-1] = last._replace(length=last.length + 1)
        else:
            runs.append(MatchingRun(up, down, 1))
    return tuple(runs)
