"""MILESTONES names the commit of each milestone that has left something."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.upgrade.opened import MADE

ROOT = Path(__file__).parents[2]
NAMED = dict(
    line.split(" ", 1) for line in (MADE.parent / "MILESTONES").read_text().splitlines() if line
)


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_whatever_has_left_something_is_named_and_nothing_else():
    assert set(NAMED) == {path.name for path in MADE.iterdir()}


def test_commits_are_those_of_this_history_and_in_the_order_of_the_names():
    if git("rev-parse", "--is-shallow-repository").stdout != "false\n":
        pytest.skip("there is no history here, or a part of it alone")
    for before, after in zip(NAMED.values(), [*list(NAMED.values())[1:], "HEAD"], strict=True):
        assert len(before) == 40
        assert git("merge-base", "--is-ancestor", before, after).returncode == 0, before
    assert list(NAMED) == sorted(NAMED, key=lambda name: int(name.partition("-")[0]))
