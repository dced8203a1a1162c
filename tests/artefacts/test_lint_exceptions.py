"""What ruff's security rules (`S`) are told to pass over has its reason beside it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = ("exporter", "dashboards", "tools")
EXCEPTED = re.compile(r"# noqa: (?:\w+, )*S\d{3}\b.*")
REASON = re.compile(r"# noqa: [A-Z0-9, ]+ - \w.+")


def exceptions() -> list[str]:
    return [
        result
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for result in EXCEPTED.findall(path.read_text())
    ]


@pytest.mark.parametrize("comment", sorted(set(exceptions())))
def test_an_exception_of_a_security_rule_says_why(comment: str):
    assert REASON.fullmatch(comment)


def test_security_rules_are_on_but_for_assertions():
    lint = PYPROJECT["tool"]["ruff"]["lint"]
    assert lint["select"] == ["ALL"]
    assert {rule for rule in lint["ignore"] if re.match(r"S\d*$", rule)} == {"S101"}
    for pattern, rules in lint["per-file-ignores"].items():
        if pattern.startswith(FOLDERS):
            assert not [rule for rule in rules if re.match(r"S\d*$", rule)], pattern


def test_bandit_leaves_out_what_ruff_has_exceptions_of_and_imports():
    """Of anything else ruff might be told to pass over, nobody would look at it."""
    skips = set(PYPROJECT["tool"]["bandit"]["skips"])
    excepted = {f"B{number}" for line in exceptions() for number in re.findall(r"S(\d{3})", line)}
    imports = {item for item in skips if item.startswith("B4")}
    assert skips == excepted | imports | {"B101"}
    lint = re.search(r"bandit -q -c pyproject.toml -r (.+)", (ROOT / "Makefile").read_text())
    assert lint is not None
    assert set(lint[1].split()) == set(FOLDERS)
