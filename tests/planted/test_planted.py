"""The catalogue of bugs fits the source tree, and the table of results fits the catalogue."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
import yaml

from tests.planted import simulation
from tests.planted.catalogue import AREAS, ROOT, Bug, read_bugs
from tests.planted.results import FILE, read_rows, render

BUGS = read_bugs()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "_"))
def test_a_bug_replaces_text_that_occurs_once_and_leaves_a_file_that_parses(bug: Bug):
    path = ROOT / bug.file
    planted = bug.apply(path.read_text())
    assert planted != path.read_text()
    if path.suffix == ".py":
        ast.parse(planted)
    elif path.name == "values.yaml":
        yaml.safe_load(planted)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "_"))
def test_the_tests_that_should_catch_a_bug_exist(bug: Bug):
    assert bug.first
    assert all((ROOT / name).exists() for name in bug.first)


def test_every_area_has_at_least_four_bugs_and_no_two_have_one_name():
    counts = Counter(bug.area for bug in BUGS)
    assert set(counts) == set(AREAS)
    assert min(counts.values()) >= 4
    assert len({bug.name for bug in BUGS}) == len(BUGS)


def test_a_text_that_occurs_twice_is_refused():
    bug = Bug("twice", "decode", "a.py", "x", "y", ("tests",))
    with pytest.raises(ValueError, match="occurs 2 times"):
        bug.apply("x x")


def test_the_results_have_a_row_for_every_bug_and_for_no_other():
    rows = read_rows()
    assert list(rows) == [*(bug.name for bug in BUGS), *simulation.SENTENCES]
    assert render(list(rows.values())) == FILE.read_text()
