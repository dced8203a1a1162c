"""Findings put together, and what is left out of them: what properties do not reach."""

from __future__ import annotations

from offsetwatch.history.audit.differences import (
    AuditFinding,
    DifferenceWindow,
    HashedRecord,
    MirrorDifferenceKind,
    Span,
    align_slice,
    classify_records,
    find_unknown_hashes,
    group_differences,
    merge_findings,
)
from offsetwatch.history.audit.scope import Slice
from offsetwatch.model.topology import TopicPartition

OF = Slice(TopicPartition("orders", 0), "west.orders", 0, 100, 0, 100, judged=(0, 100))


def records(*digests: int, first: int = 0) -> list[HashedRecord]:
    return [
        HashedRecord(first + n, offset, offset, 0, tombstone=False)
        for n, offset in enumerate(digests)
    ]


def doubled(up: tuple[int, int], down: tuple[int, int]) -> AuditFinding:
    return AuditFinding(MirrorDifferenceKind.DUPLICATED, up[1] - up[0] + 1, Span(*up), Span(*down))


def classify(
    of: Slice, *windows: DifferenceWindow, elsewhere: dict[int, HashedRecord | None] | None = None
):
    result = classify_records(align_slice(of, windows), elsewhere or {})
    return [
        (difference.kind.value, difference.records)
        for difference in group_differences(result, lambda _item: ("", False))
    ]


def test_a_range_reported_with_its_end_first_is_one_range() -> None:
    parts = [doubled((28, 29), (28, 29)), doubled((10, 11), (30, 31)), doubled((12, 27), (32, 47))]
    assert merge_findings(parts) == (doubled((10, 29), (28, 47)),)


def test_ranges_that_do_not_go_on_upstream_stay_apart() -> None:
    parts = (doubled((28, 29), (28, 29)), doubled((10, 11), (30, 31)))
    assert merge_findings(parts) == parts


def test_losses_one_after_the_other_are_one_only_if_nothing_lies_between() -> None:
    def lost(first: int, last: int) -> AuditFinding:
        return AuditFinding(MirrorDifferenceKind.LOST, last - first + 1, Span(first, last), None)

    assert merge_findings([lost(1, 2), lost(3, 5), lost(7, 8)]) == (lost(1, 5), lost(7, 8))


def test_a_record_that_moved_from_one_window_to_another_is_neither_lost_nor_added() -> None:
    one = DifferenceWindow(records(1, 2, 3), records(1, 3), None)
    other = DifferenceWindow(records(7, 8, first=50), records(7, 2, 8, first=50), 49)
    assert classify(OF, one, other) == [("reordered", 1)]


def test_where_a_copy_comes_from_is_queried_only_if_the_windows_do_not_report() -> None:
    window = DifferenceWindow(records(1, 2, 3), records(1, 2, 3, 2, 9, first=10), None)
    assert find_unknown_hashes(align_slice(OF, [window])) == {9}
    assert classify(OF, window) == [("duplicated", 1), ("added", 1)]
    assert classify(OF, window, elsewhere={9: None}) == [("duplicated", 1), ("duplicated", 1)]


def test_what_stands_before_all_that_matches_is_judged_only_where_it_could_be_known() -> None:
    window = DifferenceWindow(records(1, 2, 3), records(8, 9, 3), None)
    assert classify(OF, window) == [("altered", 2)]
    unsure = Slice(OF.at, OF.remote, 0, 100, 0, 100, (0, 100), up_head=False, down_head=False)
    remaining = align_slice(unsure, [window])
    assert remaining.gaps == ()
    assert remaining.up_unjudged == 2


def test_headers_that_differ_are_paired_before_anything_else() -> None:
    up = [HashedRecord(0, 1, 10, 5, tombstone=False), HashedRecord(1, 2, 20, 5, tombstone=False)]
    down = [HashedRecord(7, 3, 20, 5, tombstone=False)]
    differences = group_differences(
        classify_records(align_slice(OF, [DifferenceWindow(up, down, None)]), {}),
        lambda _item: ("", False),
    )
    assert [
        (finding.kind, finding.up)
        for finding in differences
        if finding.kind is MirrorDifferenceKind.ALTERED
    ] == [(MirrorDifferenceKind.ALTERED, Span(1, 1))]
    assert [
        (finding.kind, finding.up)
        for finding in differences
        if finding.kind is MirrorDifferenceKind.LOST
    ] == [(MirrorDifferenceKind.LOST, Span(0, 0))]
