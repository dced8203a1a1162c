"""All partitions of one connector or flow together."""

from __future__ import annotations

import sys
from dataclasses import fields

import pytest

from offsetwatch.state import totals
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot, TrendColumn, TrendMarks
from offsetwatch.state.totals import MARK_INTERVAL_S, MARKS_MAX, Trends, unpack_numbers
from tests.changed import replace
from tests.unit.serve.worlds import (
    FORGOTTEN,
    MIRROR,
    ROWS_END,
    SINK,
    SOURCE_END,
    full,
    number,
    source,
)

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


def test_a_source_is_as_late_as_the_latest_of_its_partitions_if_the_ends_of_all_are_known():
    views = tuple(
        source(end.identity, end.label, number("lsn", 1)) for end in (SOURCE_END, ROWS_END)
    )
    snapshot = replace(
        EMPTY_SNAPSHOT,
        at=1_763_712_006.5,
        source_partitions=views,
        source_ends=(SOURCE_END, ROWS_END),
    )
    result = totals.compute_connector_totals(snapshot)["lab", "files"]
    assert (result.lag_records, result.lag_seconds) == (None, 60.0)
    unknown = replace(snapshot, source_ends=(SOURCE_END,))
    assert totals.compute_connector_totals(unknown)["lab", "files"].lag_seconds is None


def test_the_commit_time_of_a_sink_is_unknown():
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


# --- trends --------------------------------------------------------------------------------------

START = 1_763_712_000.0  # a full minute
MIB = 1024 * 1024


def build_snapshot(moment: float, *, lag: int | None = 15, name: str = "out") -> Snapshot:
    return replace(
        EMPTY_SNAPSHOT, at=moment, sink_partitions=(replace(SINK, connector=name, lag=lag),)
    )


def records(marks: TrendMarks) -> list[float | None]:
    return [unpack_numbers(mark.connectors.lag_records)[0] for mark in marks]


def test_within_a_minute_there_is_one_mark():
    trends = Trends()
    first = trends.add(build_snapshot(START, lag=1))
    assert trends.add(build_snapshot(START + 59.9, lag=2)) is first
    assert records(trends.add(build_snapshot(START + 60.0, lag=3))) == [1, 3]


def test_an_hour_is_retained_and_no_more():
    trends = Trends()
    for minute in range(200):
        trends.add(build_snapshot(START + minute * MARK_INTERVAL_S, lag=minute))
    assert records(trends.marks) == list(range(200 - MARKS_MAX, 200))


def test_what_is_not_known_is_a_gap_and_not_0():
    trends = Trends()
    for minute, lag in enumerate((4, None, 0)):
        trends.add(build_snapshot(START + minute * MARK_INTERVAL_S, lag=lag))
    assert records(trends.marks) == [4, None, 0]


def test_minutes_without_snapshots_are_not_filled():
    trends = Trends()
    trends.add(build_snapshot(START))
    trends.add(build_snapshot(START + 10 * MARK_INTERVAL_S))
    assert [mark.at - START for mark in trends.marks] == [0.0, 600.0]


def test_after_a_pause_of_an_hour_nothing_old_is_left():
    trends = Trends()
    trends.add(build_snapshot(START))
    assert [mark.at for mark in trends.add(build_snapshot(START + 3600.0))] == [START + 3600.0]


def test_a_clock_that_is_set_back_takes_the_marks_of_the_future_away():
    trends = Trends()
    for minute in range(5):
        trends.add(build_snapshot(START + minute * MARK_INTERVAL_S))
    back = START + 2.5 * MARK_INTERVAL_S
    assert [mark.at for mark in trends.add(build_snapshot(back))][-1] == back
    assert all(mark.at <= back for mark in trends.marks)


def test_a_number_that_would_be_rounded_is_a_gap():
    trends = Trends()
    assert records(trends.add(build_snapshot(START, lag=2**53 + 1))) == [None]
    assert records(Trends().add(build_snapshot(START, lag=2**53))) == [2**53]


def test_a_source_is_reported_by_the_time_since_it_advanced():
    view = replace(FORGOTTEN, advanced_at=START - 42.0)
    (mark,) = Trends().add(replace(EMPTY_SNAPSHOT, at=START, source_partitions=(view,)))
    assert mark.connectors.keys == (("lab", "files"),)
    assert unpack_numbers(mark.connectors.quiet_seconds) == (42.0,)
    assert unpack_numbers(mark.connectors.lag_seconds) == (None,)


@pytest.mark.parametrize(("before_s", "quiet_s"), [(0.5, 0.5), (-7.0, 0.0)], ids=["just", "will"])
def test_what_is_yet_to_advance_by_our_clock_is_not_quiet(before_s, quiet_s):
    view = replace(FORGOTTEN, advanced_at=START - before_s)
    (mark,) = Trends().add(replace(EMPTY_SNAPSHOT, at=START, source_partitions=(view,)))
    assert unpack_numbers(mark.connectors.quiet_seconds) == (quiet_s,)


def test_subjects_are_reported_by_name():
    sinks = tuple(replace(SINK, connector=name) for name in "cab")
    (mark,) = Trends().add(replace(EMPTY_SNAPSHOT, at=START, sink_partitions=sinks))
    assert [name for _, name in mark.connectors.keys] == [*"abc"]


def test_beyond_the_bound_they_are_cut_and_counted(monkeypatch):
    monkeypatch.setattr(totals, "SUBJECTS_MAX", 3)
    sinks = tuple(replace(SINK, connector=f"out-{number}") for number in range(5))
    (mark,) = Trends().add(replace(EMPTY_SNAPSHOT, at=START, sink_partitions=sinks))
    assert (len(mark.connectors.keys), mark.left_out) == (3, 2)


def size_of(marks: TrendMarks) -> int:
    """Bytes, each object once."""
    observed: dict[int, int] = {}

    def count(result: object) -> None:
        if id(result) in observed:
            return
        observed[id(result)] = sys.getsizeof(result)
        if isinstance(result, tuple):
            for each in result:
                count(each)
        elif isinstance(result, TrendColumn):
            for field in fields(result):
                count(getattr(result, field.name))

    for mark in marks:
        count(mark)
        count(mark.connectors)
        count(mark.flows)
    return sum(observed.values())


@pytest.mark.parametrize("changing", [False, True], ids=["the same ones", "others each minute"])
def test_an_hour_of_2000_connectors_and_500_flows_takes_less_than_10_mib(changing):
    trends = Trends()
    sinks = tuple(replace(SINK, connector=f"out-{number}") for number in range(1500))
    flows = tuple(replace(MIRROR, connector=f"copy-{number}") for number in range(500))
    for minute in range(MARKS_MAX):
        # With one that comes and goes no two columns have the same keys.
        fresh = replace(SINK, connector=f"new-{minute if changing else 0}")
        moment = START + minute * MARK_INTERVAL_S
        trends.add(
            replace(
                EMPTY_SNAPSHOT, at=moment, sink_partitions=(*sinks, fresh), mirror_partitions=flows
            )
        )
    size = size_of(trends.marks)
    print(f"{size / MIB:.1f} MiB")  # noqa: T201 - pytest -rP
    assert size <= 10 * MIB
