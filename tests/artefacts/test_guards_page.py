"""The page of guards says what the code says."""

from __future__ import annotations

from pathlib import Path

from tools.references import guards

PAGE = Path(__file__).parents[2] / "docs" / "guards.md"


def test_the_page_is_what_the_code_makes_of_it():
    assert PAGE.read_text() == guards.render(), "run: python -m tools.references"
