"""The tiers of tests: nothing that `make test` leaves out is left out of all six sixths."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).parents[2]
MARK = "pytest.mark.full"


def files_with_marks() -> set[str]:
    result = (ROOT / "tests").rglob("test_*.py")
    own = Path(__file__)
    return {
        str(path.relative_to(ROOT)) for path in result if path != own and MARK in path.read_text()
    }


def selected(sixth: str, changed: list[str]) -> list[str]:
    return [file for group in tiers.selected(sixth, changed) for file in group]


def test_every_file_with_tests_of_make_full_alone_is_in_exactly_one_group_of_one_sixth():
    counts = Counter(file for groups in tiers.SIXTHS for group in groups for file in group)

    assert counts == dict.fromkeys(files_with_marks(), 1)
    assert Counter(selected("all", [])) == counts


def test_six_consecutive_runs_cover_all_sixths():
    assert {tiers.sixth_of(commits) for commits in range(948, 954)} == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("prefix", tiers.TOUCHED)
def test_what_a_change_touches_is_there_and_is_run_whatever_the_sixth(prefix: str):
    assert (ROOT / prefix).exists()
    expected = set(tiers.TOUCHED[prefix])
    assert expected <= files_with_marks()
    for number in range(1, 7):
        files = selected(str(number), [f"{prefix}x"])
        assert expected <= set(files)
        assert len(files) == len(set(files))


def test_a_change_elsewhere_adds_nothing():
    changed = ["README.md", "exporter/offsetwatch/state/book.py"]

    files = [file for group in tiers.SIXTHS[1] for file in group]
    assert sorted(selected("2", changed)) == sorted(files)


@pytest.mark.parametrize("sixth", ["1", "2", "3", "4", "5", "6", "all"])
def test_the_longest_group_starts_first_whatever_the_sixth(sixth: str):
    changed = [f"{prefix}x" for prefix in tiers.TOUCHED]
    seconds = {
        file: seconds
        for groups in tiers.SIXTHS
        for group in groups
        for file, seconds in group.items()
    }

    taken = [sum(seconds[file] for file in group) for group in tiers.selected(sixth, changed)]
    assert taken == sorted(taken, reverse=True)
