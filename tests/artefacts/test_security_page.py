"""docs/security.md: each claim names tests that hold it, and these are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.unit.serve.control.test_routes import ROWS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
BAD_INPUTS = {row.number for row in ROWS}


@cache
def named_in(path: str) -> frozenset[str]:
    """Without importing it, which may take a browser or a JVM."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(
        item.name
        for item in ast.walk(tree)
        if isinstance(item, ast.FunctionDef) and item.name.startswith("test_")
    )


def claims() -> list[tuple[str, str]]:
    """What is claimed and what is said to hold it, of each table that says so."""
    results: list[tuple[str, str]] = []
    held = False
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("|"):
            held = False
        elif cells[-1] == "held by":
            held = True
        elif held and not set(line) <= set("|-"):
            results.append((cells[0], cells[-1]))
    return results


def bad_inputs(text: str) -> set[int]:
    names: set[int] = set()
    for listed in re.findall(r"bad inputs? (\d+(?:(?:, | to )\d+)*)", text):
        for part in listed.split(", "):
            first, _, last = part.partition(" to ")
            names |= set(range(int(first), int(last or first) + 1))
    return names


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda item: item[-60:])
def test_a_test_that_is_named_is_there(path: str, name: str):
    assert name in named_in(path)


def test_a_bad_input_that_is_named_is_there():
    named = bad_inputs(PAGE)
    assert len(named) > 20
    assert named <= BAD_INPUTS


@pytest.mark.parametrize(("claim", "held_by"), claims(), ids=lambda item: item[:60])
def test_a_claim_names_what_holds_it(claim: str, held_by: str):
    assert re.search(r"`tests/[\w/]+\.py::test_\w+`", held_by) or bad_inputs(held_by), claim


def test_every_part_has_claims():
    defended = PAGE.partition("## What is defended\n")[2].partition("\n## ")[0]
    parts = re.findall(r"^### (.+)$", defended, re.MULTILINE)
    assert len(parts) == defended.count("| held by |") > 0
    assert len(claims()) >= 3 * len(parts)
