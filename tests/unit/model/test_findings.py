"""Evidence as text and as a document."""

from __future__ import annotations

import json

import msgspec
import pytest

from offsetwatch.model.findings import OFFSET, RECORDS, TIME, Evidence, EvidenceItem, format_item

AT = "2026-11-28T18:49:45Z"


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (EvidenceItem("lag", 3, RECORDS), "lag: 3 records"),
        (EvidenceItem("lag", 1, RECORDS), "lag: 1 record"),
        (EvidenceItem("lag", 0, RECORDS), "lag: 0 records"),
        (EvidenceItem("position", 120, OFFSET), "position: 120"),
        (EvidenceItem("position", None, OFFSET), "position: none"),
        (EvidenceItem("last commit", AT, TIME), f"last commit: {AT}"),
        (EvidenceItem("states", "connector running"), "states: connector running"),
        (EvidenceItem("lag", "100 to 150", RECORDS), "lag: 100 to 150"),
    ],
)
def test_a_value_is_read_with_its_unit(item: EvidenceItem, text: str):
    assert format_item(item) == text


def test_a_document_has_numbers_as_numbers_and_is_read_as_it_was():
    evidence = (EvidenceItem("lag", 3, RECORDS), EvidenceItem("states", "connector running"))
    body = msgspec.json.encode(evidence)
    assert json.loads(body) == [
        {"name": "lag", "value": 3, "unit": "records"},
        {"name": "states", "value": "connector running", "unit": None},
    ]
    assert msgspec.json.decode(body, type=Evidence) == evidence
