"""Positions of rows in the order of a time and a number, and the names of such orders."""

from __future__ import annotations

from itertools import pairwise

import pytest

from offsetwatch.model.row_positions import (
    ID_SPAN,
    RowOrder,
    build_row_offset,
    format_log_offset,
    parse_log_name,
    read_row_position,
)

OFFSET = {"timestamp": 1_767_323_045_678, "timestamp_nanos": 678_901_000, "incrementing": 7}
MOMENT = 1_767_323_045_678_901_000


@pytest.mark.parametrize(
    ("order", "name"),
    [
        (RowOrder("id"), "public.orders(id)"),
        (RowOrder("id", ("at",)), "public.orders(at+id in UTC, 0 ms)"),
        (
            RowOrder("id", ("changed_at", "made_at"), "Europe/Berlin", 5000),
            "public.orders(changed_at,made_at+id in Europe/Berlin, 5000 ms)",
        ),
    ],
)
def test_the_name_of_a_log_has_all_of_its_order(order: RowOrder, name: str) -> None:
    assert order.name_log("public.orders") == name
    assert parse_log_name(name) == ("public.orders", order)


def test_names_with_other_characters_are_known() -> None:
    assert RowOrder("id", ("at", "größe_1$")).has_plain_names
    assert not RowOrder("id", ("a,b",)).has_plain_names
    assert not RowOrder("id+", ("a",)).has_plain_names


def test_a_position_has_all_fields_of_an_offset() -> None:
    position = read_row_position(OFFSET)
    assert position == MOMENT * ID_SPAN + 7
    assert build_row_offset(position) == OFFSET
    without_nanos = {"timestamp": 1_767_323_045_678, "incrementing": 7}
    assert read_row_position(without_nanos) == MOMENT // 10**6 * 10**6 * ID_SPAN + 7


def test_positions_compare_as_rows_are_read() -> None:
    greatest = ID_SPAN - 1
    rows = [(0, 0), (0, greatest), (1_000_000, 0), (1_000_001, 5), (1_000_001, 6), (2_000_000, 1)]
    positions = [
        read_row_position(
            {"timestamp": nanos // 10**6, "timestamp_nanos": nanos, "incrementing": number}
        )
        for nanos, number in rows
    ]
    assert None not in positions
    assert all(before < after for before, after in pairwise(positions))  # type: ignore[operator]


@pytest.mark.parametrize(
    "changed",
    [
        {"timestamp": None},
        {"timestamp": True},
        {"timestamp": -1000, "timestamp_nanos": 0},
        {"timestamp": 10**13, "timestamp_nanos": 0},
        {"timestamp_nanos": 677_901_000},
        {"timestamp_nanos": 1_678_901_000},
        {"timestamp_nanos": "678901000"},
        {"incrementing": -1},
        {"incrementing": ID_SPAN},
        {"incrementing": "7"},
        {"other": 1},
    ],
    ids=str,
)
def test_an_offset_that_no_row_has_is_no_position(changed: dict[str, object]) -> None:
    assert read_row_position(OFFSET | changed) is None


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (7, "7"),
        (-1, "-1"),
        (10**60, f"{10**60}"),
        (MOMENT * ID_SPAN + 7, "2026-01-02T03:04:05.678901Z/7"),
        (MOMENT // 10**9 * 10**9 * ID_SPAN, "2026-01-02T03:04:05Z/0"),
    ],
)
def test_a_position_is_shown_as_time_and_number(offset: int, text: str) -> None:
    assert format_log_offset(offset) == text
