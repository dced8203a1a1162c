"""Which offsets an audit reads and judges, from bounds and offset syncs alone."""

from __future__ import annotations

import itertools
from dataclasses import replace

from offsetwatch.history.audit.scope import (
    ANCHOR_SPACING,
    Anchors,
    AuditPartition,
    PartitionCoverage,
    compute_coverage,
    sample_coverage,
)
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition

KNOWN = AuditPartition(
    at=TopicPartition("orders", 0),
    remote="west.orders",
    up=LogBounds(0, 1000, 1000),
    down=LogBounds(0, 900, 900),
    anchors=(),
    replicated=899,
    from_start=True,
    committed=False,
)
LONG = replace(
    KNOWN,
    up=LogBounds(0, 1_000_000, 1_000_000),
    down=LogBounds(0, 1_000_000, 1_000_000),
    replicated=999_999,
    anchors=tuple((number, number) for number in range(0, 1_000_000, 1000)),
)


def only(coverage: PartitionCoverage):
    (built,) = coverage.slices
    return built


def test_what_is_not_replicated_yet_is_read_and_not_judged() -> None:
    coverage = compute_coverage(KNOWN, None, None)
    finding = only(coverage)
    assert (finding.up, finding.up_end, finding.down, finding.down_end) == (0, 1000, 0, 900)
    assert finding.judged == (0, 900)
    assert coverage.pending == 100


def test_nothing_is_judged_before_anything_is_replicated() -> None:
    coverage = compute_coverage(replace(KNOWN, replicated=None), None, None)
    assert coverage.slices == ()
    assert coverage.pending == 1000


def test_a_flow_that_reads_committed_records_ends_at_the_stable_end() -> None:
    known = replace(KNOWN, committed=True, up=LogBounds(0, 1000, 950), replicated=940)
    coverage = compute_coverage(known, None, None)
    assert only(coverage).up_end == 950
    assert coverage.pending == 9


def test_bounds_are_widened_to_the_anchors_around_them_and_judged_as_they_were_requested() -> None:
    known = replace(KNOWN, anchors=((0, 0), (100, 90), (200, 190), (300, 280), (400, 380)))
    finding = only(compute_coverage(known, 150, 250))
    assert (finding.up, finding.down, finding.up_end, finding.down_end) == (100, 90, 300, 280)
    assert finding.judged == (150, 250)
    assert finding.up_head
    assert finding.down_head


def test_a_flow_that_was_set_back_is_read_from_its_first_time_to_its_last() -> None:
    known = replace(KNOWN, anchors=((0, 0), (100, 100), (300, 300), (100, 310), (300, 510)))
    finding = only(compute_coverage(known, 150, 250))
    assert (finding.up, finding.down, finding.up_end, finding.down_end) == (100, 100, 300, 510)


def test_what_retention_took_downstream_makes_the_beginning_incomparable() -> None:
    finding = only(compute_coverage(replace(KNOWN, down=LogBounds(50, 900, 900)), None, None))
    assert not finding.up_head
    assert finding.down_head


def test_what_retention_took_upstream_leaves_copies_that_nothing_is_known_of() -> None:
    coverage = compute_coverage(replace(KNOWN, up=LogBounds(70, 1000, 1000)), None, None)
    assert coverage.deleted == 70
    assert only(coverage).judged == (70, 900)
    assert only(coverage).up_head
    assert not only(coverage).down_head


def test_a_flow_that_begins_at_the_end_of_logs_owes_nothing_of_what_was_there() -> None:
    assert not only(compute_coverage(replace(KNOWN, from_start=False), None, None)).up_head


def test_anchors_of_one_line_are_thinned_out_and_its_ends_are_retained() -> None:
    anchors = Anchors()
    for number in range(0, 5 * ANCHOR_SPACING, 100):
        anchors.add(number, number + 7)
    anchors.add(5 * ANCHOR_SPACING, 5 * ANCHOR_SPACING)
    retained = anchors.within(LogBounds(0, 10**6, 10**6), LogBounds(0, 10**6, 10**6))
    assert retained[0] == (0, 7)
    assert retained[-2:] == (
        (5 * ANCHOR_SPACING - 100, 5 * ANCHOR_SPACING - 93),
        (5 * ANCHOR_SPACING, 5 * ANCHOR_SPACING),
    )
    assert len(retained) < 12
    assert all(
        after[0] - before[0] <= ANCHOR_SPACING for before, after in itertools.pairwise(retained)
    )


def test_anchors_into_a_topic_that_was_recreated_are_forgotten() -> None:
    anchors = Anchors()
    for number in ((0, 0), (500, 500), (600, 0), (700, 100)):
        anchors.add(*number)
    everything = LogBounds(0, 10**6, 10**6)
    assert anchors.within(everything, everything) == ((600, 0), (700, 100))


def test_anchors_at_records_that_are_gone_are_of_no_use() -> None:
    anchors = Anchors()
    for number in ((0, 0), (500, 500), (2000, 1990), (5000, 4900)):
        anchors.add(*number)
    up, down = LogBounds(100, 3000, 3000), LogBounds(200, 4000, 4000)
    assert anchors.within(up, down) == ((500, 500), (2000, 1990))


def test_a_sample_is_about_its_share_in_pieces_from_anchor_to_anchor() -> None:
    whole = compute_coverage(LONG, None, None)
    coverage = sample_coverage(LONG, whole, 0.2, seed=3)
    total = sum(of.judged[1] - of.judged[0] for of in coverage.slices)
    assert 0.08 < total / coverage.requested < 0.35
    assert all(of.judged == (of.up, of.up_end) for of in coverage.slices)
    assert all(of.up % 1000 == 0 for of in coverage.slices)
    assert sample_coverage(LONG, whole, 0.2, seed=3) == coverage
    assert sample_coverage(LONG, whole, 0.2, seed=4) != coverage


def test_without_anchors_a_sample_inspects_nothing_and_does_not_pretend() -> None:
    known = replace(LONG, anchors=())
    assert sample_coverage(known, compute_coverage(known, None, None), 0.5, seed=0).slices == ()
