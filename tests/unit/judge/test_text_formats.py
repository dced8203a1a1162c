"""Times and lengths as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.formatting import format_count, format_moment, format_timespan
from offsetwatch.judge.text_formats import (
    EXAMPLES_MAX,
    OTHERS,
    build_examples,
    build_position_item,
    format_names,
)
from offsetwatch.model.findings import EvidenceItem


@given(st.integers(0, 253_402_300_799))
def test_a_moment_is_what_the_calendar_says(at):
    assert format_moment(at + 0.5) == datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_799.9, "2000-02-29T23:59:59Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (1_709_164_800, "2024-02-29T00:00:00Z"),
        (1_740_787_200, "2025-03-01T00:00:00Z"),
        (4_107_542_399, "2100-02-28T23:59:59Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (13_574_563_200, "2400-02-29T00:00:00Z"),
        (13_574_649_600, "2400-03-01T00:00:00Z"),
    ],
)
def test_leap_days_come_every_four_years_but_for_three_centuries_of_four(at, words):
    assert format_moment(at) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (90_000, "1 d 1 h"),
        (86_400, "1 d"),
    ],
)
def test_a_length_has_its_two_largest_units(seconds, words):
    assert format_timespan(seconds) == words


# --- list phrases --------------------------------------------------------------------------------


def test_one_is_one_and_any_other_number_is_several():
    assert [format_count(count, "record") for count in (0, 1, 2)] == [
        "0 records",
        "1 record",
        "2 records",
    ]


def test_of_many_names_the_first_five_are_reported_and_how_many_more():
    names = [f"c{number}" for number in range(8)]
    assert format_names(names[:EXAMPLES_MAX]) == "c0, c1, c2, c3, c4"
    assert format_names(names) == "c0, c1, c2, c3, c4 and 3 more"
    assert format_names(names[: EXAMPLES_MAX + 1]) == "c0, c1, c2, c3, c4 and 1 more"


def test_of_many_rows_as_well():
    rows = [EvidenceItem(f"p{number}", "x") for number in range(7)]
    assert build_examples(rows[:EXAMPLES_MAX]) == tuple(rows[:EXAMPLES_MAX])
    assert build_examples(rows) == (*rows[:EXAMPLES_MAX], EvidenceItem("and more", 2, OTHERS))
    several = [(row, row) for row in rows[: EXAMPLES_MAX + 1]]
    assert build_examples(several)[-3:] == (
        rows[EXAMPLES_MAX - 1],
        rows[EXAMPLES_MAX - 1],
        EvidenceItem("and more", 1, OTHERS),
    )


def test_a_position_is_a_number_where_its_text_is_one():
    assert build_position_item("orders-0", "120") == EvidenceItem("orders-0", 120, "offset")
    assert build_position_item("file", '{"position":1}') == EvidenceItem("file", '{"position":1}')
