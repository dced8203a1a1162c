"""Many things in few words."""

from __future__ import annotations

from offsetwatch.formatting import format_count
from offsetwatch.judge.text_formats import (
    EXAMPLES_MAX,
    OTHERS,
    build_examples,
    build_position_item,
    format_names,
)
from offsetwatch.model.findings import EvidenceItem


def test_one_is_one_and_any_other_number_is_several():
    assert [format_count(count, "record") for count in (0, 1, 2)] == [
        "0 records",
        "1 record",
        "2 records",
    ]


def test_of_many_names_the_first_five_are_told_and_how_many_more():
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
