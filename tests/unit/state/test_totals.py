"""All partitions of one connector or flow together."""

from __future__ import annotations

import pytest

from offsetwatch.state import totals
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from tests.changed import replace
from tests.unit.serve.worlds import FORGOTTEN, MIRROR, SINK, full, number, source

AT = 1_763_712_006.5
FLOW = ("lab", "mirror", "west", "east")


def mirrored(*views, partial=frozenset()) -> Snapshot:
    return replace(EMPTY_SNAPSHOT, at=AT, mirror_partitions=views, partial=partial)


def test_what_has_no_partition_has_none():
    assert totals.NO_PARTITIONS.partitions == 0
    assert totals.compute_connector_totals(replace(EMPTY_SNAPSHOT, at=AT)) == {}


def test_lags_are_summed_up_and_the_oldest_record_counts():
    second = replace(MIRROR, partition=8, lag=21, behind_since=AT - 300.0)
    result = totals.compute_flow_totals(mirrored(MIRROR, second))[FLOW]
    assert (result.partitions, result.lag_records, result.lag_seconds) == (2, 400, 300.0)


@pytest.mark.parametrize("measure", ["lag", "behind_since"])
def test_with_one_part_unknown_there_is_no_sum(measure):
    second = replace(MIRROR, partition=8, **{measure: None})
    result = totals.compute_flow_totals(mirrored(MIRROR, second))[FLOW]
    of = {"lag": result.lag_records, "behind_since": result.lag_seconds}
    assert of.pop(measure) is None
    assert None not in of.values()


def test_a_flow_that_may_have_other_positions_is_not_summed_up():
    snapshot = mirrored(MIRROR, partial=frozenset({("lab", "mirror")}))
    result = totals.compute_flow_totals(snapshot)[FLOW]
    assert (result.lag_records, result.lag_seconds) == (None, None)
    assert totals.compute_connector_totals(snapshot)["lab", "mirror"].lag_records is None


def test_one_that_is_caught_up_has_an_age_of_0_which_is_known():
    caught_up = replace(MIRROR, lag=0, caught_up=True, behind_since=None)
    result = totals.compute_flow_totals(mirrored(caught_up))[FLOW]
    assert (result.lag_records, result.lag_seconds) == (0, 0.0)


def test_only_one_partition_has_a_position():
    assert totals.compute_flow_totals(mirrored(MIRROR))[FLOW].position == "120"
    both = mirrored(MIRROR, replace(MIRROR, partition=8))
    assert totals.compute_flow_totals(both)[FLOW].position is None


def test_a_position_beyond_2_to_the_53_is_exact():
    huge = source("{}", "a", number("lsn", 1.0, '{"lsn":9007199254740993}'))
    snapshot = replace(EMPTY_SNAPSHOT, at=AT, source_partitions=(huge,))
    assert (
        totals.compute_connector_totals(snapshot)["lab", "files"].position
        == '{"lsn":9007199254740993}'
    )


def test_a_source_has_no_lag_and_the_newest_of_its_commits():
    views = (
        source("{}", "a", number("n", 1), connector="files"),
        replace(FORGOTTEN, identity="b", committed_at=5.0, advanced_at=4.0),
    )
    result = totals.compute_connector_totals(
        replace(EMPTY_SNAPSHOT, at=AT, source_partitions=views)
    )["lab", "files"]
    assert (result.lag_records, result.lag_seconds) == (None, None)
    assert (result.committed_at, result.advanced_at) == (1_763_712_000.123, 1_763_711_940.5)


def test_of_a_sink_nobody_knows_when_it_committed():
    result = totals.compute_connector_totals(
        replace(EMPTY_SNAPSHOT, at=AT, sink_partitions=(SINK,))
    )["lab", "out"]
    assert (result.committed_at, result.lag_records, result.lag_seconds) == (None, 15, 10.0)


def test_a_sink_has_a_position_if_it_reads_one_partition():
    only = totals.compute_connector_totals(replace(EMPTY_SNAPSHOT, at=AT, sink_partitions=(SINK,)))[
        "lab", "out"
    ]
    assert only.position == str(SINK.committed)
    two = (SINK, replace(SINK, partition=99))
    both = totals.compute_connector_totals(replace(EMPTY_SNAPSHOT, at=AT, sink_partitions=two))[
        "lab", "out"
    ]
    assert (both.partitions, both.position) == (2, None)


def test_a_mirror_has_the_lag_of_its_flows_and_the_advances_of_its_offsets():
    result = totals.compute_connector_totals(full())["lab", "mirror"]
    assert result.lag_records is None  # of one partition it is not known
    assert result.advanced_at == 1_763_711_940.5
