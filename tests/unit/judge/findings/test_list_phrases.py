"""Many things in few words."""

from __future__ import annotations

from offsetwatch.judge.findings.list_phrases import (
    EXAMPLES,
    OTHERS,
    examples,
    few,
    position_of,
    several,
)
from offsetwatch.model.evidence import EvidenceItem


def test_one_is_one_and_any_other_number_is_several():
    assert [several(count, "record") for count in (0, 1, 2)] == [
        "0 records",
        "1 record",
        "2 records",
    ]


def test_of_many_names_the_first_five_are_told_and_how_many_more():
    names = [f"c{number}" for number in range(8)]
    assert few(names[:EXAMPLES]) == "c0, c1, c2, c3, c4"
    assert few(names) == "c0, c1, c2, c3, c4 and 3 more"
    assert few(names[: EXAMPLES + 1]) == "c0, c1, c2, c3, c4 and 1 more"


def test_of_many_rows_as_well():
    rows = [EvidenceItem(f"p{number}", "x") for number in range(7)]
    assert examples(rows[:EXAMPLES]) == tuple(rows[:EXAMPLES])
    assert examples(rows) == (*rows[:EXAMPLES], EvidenceItem("and more", 2, OTHERS))
    several = [(row, row) for row in rows[: EXAMPLES + 1]]
    assert examples(several)[-3:] == (
        rows[EXAMPLES - 1],
        rows[EXAMPLES - 1],
        EvidenceItem("and more", 1, OTHERS),
    )


def test_a_position_is_a_number_where_its_text_is_one():
    assert position_of("orders-0", "120") == EvidenceItem("orders-0", 120, "offset")
    assert position_of("file", '{"position":1}') == EvidenceItem("file", '{"position":1}')
