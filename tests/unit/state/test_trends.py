"""A mark a minute, for an hour, within bounds."""

from __future__ import annotations

import sys
from dataclasses import fields

import pytest

from offsetwatch.state import totals
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot, TrendColumn, TrendMarks
from offsetwatch.state.totals import MARK_INTERVAL_S, MARKS_MAX, Trends, unpack_numbers
from tests.changed import replace
from tests.unit.serve.worlds import FORGOTTEN, MIRROR, SINK

START = 1_763_712_000.0  # a full minute
MIB = 1024 * 1024


def seen(moment: float, *, lag: int | None = 15, name: str = "out") -> Snapshot:
    return replace(
        EMPTY_SNAPSHOT, at=moment, sink_partitions=(replace(SINK, connector=name, lag=lag),)
    )


def records(marks: TrendMarks) -> list[float | None]:
    return [unpack_numbers(mark.connectors.lag_records)[0] for mark in marks]


def test_within_a_minute_there_is_one_mark():
    trends = Trends()
    first = trends.add(seen(START, lag=1))
    assert trends.add(seen(START + 59.9, lag=2)) is first
    assert records(trends.add(seen(START + 60.0, lag=3))) == [1, 3]


def test_an_hour_is_kept_and_no_more():
    trends = Trends()
    for minute in range(200):
        trends.add(seen(START + minute * MARK_INTERVAL_S, lag=minute))
    assert records(trends.marks) == list(range(200 - MARKS_MAX, 200))


def test_what_is_not_known_is_a_gap_and_not_0():
    trends = Trends()
    for minute, lag in enumerate((4, None, 0)):
        trends.add(seen(START + minute * MARK_INTERVAL_S, lag=lag))
    assert records(trends.marks) == [4, None, 0]


def test_minutes_that_nobody_saw_are_not_filled():
    trends = Trends()
    trends.add(seen(START))
    trends.add(seen(START + 10 * MARK_INTERVAL_S))
    assert [mark.at - START for mark in trends.marks] == [0.0, 600.0]


def test_after_a_pause_of_an_hour_nothing_old_is_left():
    trends = Trends()
    trends.add(seen(START))
    assert [mark.at for mark in trends.add(seen(START + 3600.0))] == [START + 3600.0]


def test_a_clock_that_is_set_back_takes_the_marks_of_the_future_away():
    trends = Trends()
    for minute in range(5):
        trends.add(seen(START + minute * MARK_INTERVAL_S))
    back = START + 2.5 * MARK_INTERVAL_S
    assert [mark.at for mark in trends.add(seen(back))][-1] == back
    assert all(mark.at <= back for mark in trends.marks)


def test_a_number_that_would_be_rounded_is_a_gap():
    trends = Trends()
    assert records(trends.add(seen(START, lag=2**53 + 1))) == [None]
    assert records(Trends().add(seen(START, lag=2**53))) == [2**53]


def test_a_source_is_told_by_the_time_since_it_advanced():
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


def test_subjects_are_told_by_name():
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
