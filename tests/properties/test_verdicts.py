"""Whatever is done to a copy is found, and nothing else is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.history.audit.differences import (
    AuditFinding,
    DifferenceWindow,
    HashedRecord,
    MirrorDifferenceKind,
    Span,
    align_slice,
    classify_records,
    group_differences,
)
from offsetwatch.history.audit.scope import Slice
from offsetwatch.history.audit.sequence_alignment import align_sequences, find_gaps
from offsetwatch.model.topology import TopicPartition

DOWN_BEGINS = 7000
SHORT = st.lists(st.integers(0, 3), max_size=30)


def records(digests: list[int], first: int = 0) -> list[HashedRecord]:
    return [
        HashedRecord(first + number, digest, digest, digest % 7, tombstone=False)
        for number, digest in enumerate(digests)
    ]


def compared(up: list[int], down: list[int]) -> tuple[AuditFinding, ...]:
    """Both sides whole, as one window."""
    of = Slice(
        at=TopicPartition("orders", 0),
        remote="west.orders",
        up=0,
        up_end=len(up),
        down=DOWN_BEGINS,
        down_end=DOWN_BEGINS + len(down),
        judged=(0, len(up)),
    )
    remaining = align_slice(of, [DifferenceWindow(records(up), records(down, DOWN_BEGINS), None)])
    return group_differences(classify_records(remaining, {}), lambda _item: ("", False))


def up_to(count: int) -> st.SearchStrategy[tuple[int, int, int]]:
    """(records, first, length of a range within them that is neither empty nor all)."""
    return st.integers(4, count).flatmap(
        lambda size: st.integers(1, size - 2).flatmap(
            lambda first: st.tuples(
                st.just(size), st.just(first), st.integers(1, max(1, size - first - 1))
            )
        )
    )


@given(st.lists(st.integers()))
def test_a_faithful_copy_has_no_finding(sent: list[int]) -> None:
    assert compared(sent, sent) == ()


@given(up_to(200))
def test_a_lost_range_is_exactly_what_is_found(where: tuple[int, int, int]) -> None:
    size, first, length = where
    up = list(range(size))
    assert compared(up, up[:first] + up[first + length :]) == (
        AuditFinding(MirrorDifferenceKind.LOST, length, Span(first, first + length - 1), None),
    )


@given(up_to(200))
def test_a_range_that_is_there_twice_is_exactly_what_is_found(where: tuple[int, int, int]) -> None:
    size, first, length = where
    up = list(range(size))
    (finding,) = compared(up, up[: first + length] + up[first:])
    assert (finding.kind, finding.records, finding.up) == (
        MirrorDifferenceKind.DUPLICATED,
        length,
        Span(first, first + length - 1),
    )


@given(up_to(200))
def test_an_altered_range_is_exactly_what_is_found(where: tuple[int, int, int]) -> None:
    size, first, length = where
    up = list(range(size))
    down = [-1 - number if first <= number < first + length else number for number in up]
    assert compared(up, down) == (
        AuditFinding(
            MirrorDifferenceKind.ALTERED,
            length,
            Span(first, first + length - 1),
            Span(DOWN_BEGINS + first, DOWN_BEGINS + first + length - 1),
        ),
    )


@given(up_to(200), st.data())
def test_a_range_that_moved_is_all_that_is_found(
    where: tuple[int, int, int], data: st.DataObject
) -> None:
    size, first, length = where
    up = list(range(size))
    rest = up[:first] + up[first + length :]
    to = data.draw(st.integers(0, len(rest)))
    results = compared(up, rest[:to] + up[first : first + length] + rest[to:])
    assert {finding.kind for finding in results} <= {MirrorDifferenceKind.REORDERED}
    # What moved past more than itself is told; past less, what it moved past is.
    assert sum(finding.records for finding in results) == min(length, abs(to - first))


@given(SHORT, SHORT)
def test_every_record_is_matched_or_reported_once_whatever_the_sides_are(
    up: list[int], down: list[int]
) -> None:
    matched = sum(run.length for run in align_sequences(up, down))
    report = dict.fromkeys(MirrorDifferenceKind, 0)
    for finding in compared(up, down):
        report[finding.kind] += finding.records
    ups = (
        report[MirrorDifferenceKind.LOST]
        + report[MirrorDifferenceKind.REORDERED]
        + report[MirrorDifferenceKind.ALTERED]
    )
    downs = (
        report[MirrorDifferenceKind.ADDED]
        + report[MirrorDifferenceKind.REORDERED]
        + report[MirrorDifferenceKind.ALTERED]
        + report[MirrorDifferenceKind.DUPLICATED]
    )
    assert matched + ups == len(up)
    assert matched + downs == len(down)


@given(SHORT, SHORT)
def test_what_is_aligned_is_the_same_on_both_sides_and_in_order(
    up: list[int], down: list[int]
) -> None:
    runs = align_sequences(up, down)
    for run in runs:
        assert up[run.up : run.up + run.length] == down[run.down : run.down + run.length]
    locations = [(run.up, run.down) for run in runs]
    assert locations == sorted(locations)
    remaining = [up[gap.up : gap.up_end] for gap in find_gaps(runs, len(up), len(down))]
    assert sum(map(len, remaining)) + sum(run.length for run in runs) == len(up)
