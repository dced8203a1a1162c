"""README and the pages under docs: what they show can be typed, what they name is there.

Runbooks have tests of their own (test_runbooks.py), as has what is made from the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from tools.references.settings import Setting, describe_settings

from .promql import known_metrics
from .test_runbooks import parse

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WHERE = "--connect lab --config offsetwatch.yaml"  # what offsets-toolbox.md says that it stands for

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def list_commands(text: str) -> Iterator[str]:
    """Our commands: alone on a line of code, indented or fenced, continued lines in one."""
    text = re.sub(r"\\\n\s+", "", text)
    fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    lines = re.findall(r"^ {4,}(?:\$ )?(offsetwatch .*)$", text, re.MULTILINE)
    lines += re.findall(r"^(offsetwatch .*)$", fenced, re.MULTILINE)
    for line in lines:
        yield re.sub(r" {2,}[(#].*", "", line).replace(" WHERE", f" {WHERE}")


def usages(page: Path) -> Iterator[str]:
    """Of pages whose code lines are not all commands to type."""
    if page.name != "cli.md":  # there they are usages, made from the declarations
        yield from list_commands(page.read_text())


COMMANDS = sorted({(page.name, line) for page in PAGES for line in usages(page)})


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda item: item[:60])
def test_a_command_that_is_shown_can_be_typed(page: str, command: str):
    parse(command)


@pytest.mark.parametrize("page", ["README.md", "operations.md", "acls.md", "offsets-toolbox.md"])
def test_commands_are_found_where_there_are_some(page: str):
    (path,) = (file for file in PAGES if file.name == page)
    assert page == "acls.md" or list(list_commands(path.read_text()))


def test_a_command_that_cannot_be_typed_would_be_noticed():
    for line in list_commands("    offsetwatch offsets lst WHERE   (what is there)\n"):
        with pytest.raises(click.UsageError):
            parse(line)


def test_what_is_handed_to_spark_is_a_command_of_ours_as_well():
    text = (ROOT / "docs" / "history-on-a-cluster.md").read_text()
    submitted = re.findall(r"^ .*\bmain\.py (.+)$", text, re.MULTILINE)
    assert submitted
    for arguments in submitted:
        parse(f"offsetwatch {arguments}")


@every_page
def test_a_verb_that_is_named_with_options_is_there_and_has_them(page: Path):
    for command in re.findall(r"`(offsetwatch \w[^`]*--\w[^`]*)`", page.read_text()):
        typed = re.sub(r"[\[\]]", "", command).replace(" WHERE", f" {WHERE}")
        with suppress(click.BadParameter):  # in a sentence not all is said, and values are letters
            parse(typed)


@every_page
def test_a_link_leads_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in headings(file.read_text()), target


def headings(text: str) -> set[str]:
    """As GitHub makes anchors of them."""
    return {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }


@every_page
def test_a_metric_that_is_named_is_there(page: Path):
    # With a colon it is the name of a rule.
    named = set(re.findall(r"(?<!:)\boffsetwatch_[a-z0-9_]*[a-z0-9]\b(?![*:])", page.read_text()))
    groups = {
        item for item in named if any(name.startswith(f"{item}_") for name in known_metrics())
    }
    assert named - groups <= known_metrics().keys()


def every(results: tuple[Setting, ...]) -> Iterator[str]:
    for setting in results:
        yield setting.path.replace("[]", "").replace(".NAME", "")
        yield from every(setting.inner)


@pytest.mark.parametrize("name", ["acls.md", "operations.md", "alternatives.md"])
def test_a_setting_that_is_named_by_its_path_is_there(name: str):
    known = set(every(describe_settings()))
    sections = r"(?:judge|limits|notify|history|remedy|probes|connect\[\]|control)"
    text = (ROOT / "docs" / name).read_text()
    for path in re.findall(rf"`({sections}\.(?!json)[a-z_.\[\]]+)`", text):
        assert path.replace("[]", "") in known, path
