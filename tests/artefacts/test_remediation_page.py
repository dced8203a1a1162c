"""docs/remediation.md: what it tells people to type can be typed, and leads to what is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from offsetwatch.cli import cli
from offsetwatch.serve.metrics.catalog import CATALOG

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "remediation.md").read_text()
SHOWN = re.findall(r"^    (?:\$ )?offsetwatch (.*)$", PAGE, flags=re.MULTILINE)
NAMED = re.findall(r"`(?:offsetwatch )?((?:plan|breaker|quarantine|backup|journal) [a-z]+)", PAGE)


def verb_of(words: list[str]) -> tuple[click.Command, list[str]]:
    result: click.Command = cli
    while isinstance(result, click.Group):
        result = result.commands[words.pop(0)]
    return result, words


@pytest.mark.parametrize("line", sorted(set(SHOWN)))
def test_a_command_that_is_shown_can_be_typed(line: str) -> None:
    verb, words = verb_of(shlex.split(line))
    verb.make_context(line, words)  # raises where it cannot be typed so


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_a_verb_that_is_named_is_there(name: str) -> None:
    verb, rest = verb_of(name.split())
    assert not isinstance(verb, click.Group)
    assert rest == []


def test_a_link_leads_somewhere() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = target.partition("#")
        if path:
            assert (ROOT / "docs" / path).resolve().exists(), target
        else:
            assert anchor in headings, target


def test_a_metric_that_is_named_is_there() -> None:
    names = {spec.name for spec in CATALOG}
    for name in re.findall(r"`(remediation_\w+)`", PAGE):
        assert any(known.endswith(name) for known in names), name
