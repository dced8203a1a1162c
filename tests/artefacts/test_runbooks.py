"""The runbooks: one for each alert, and no step in them that cannot be taken."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from offsetwatch.cli import cli

from .promql import known_metrics
from .test_alerts import ALERTS, EVERY_ALERT, FIRED, RECORDED

RUNBOOKS = {path.stem: path.read_text(encoding="utf-8") for path in ALERTS.glob("runbooks/*.md")}
HEADINGS = ["Meaning", "First look", "Decide", "Fix", "After"]

every_runbook = pytest.mark.parametrize("name", sorted(RUNBOOKS))


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell in which the configuration needs no naming."""
    monkeypatch.setenv("OFFSETWATCH_CONFIG", "offsetwatch.yaml")


def commands(text: str) -> list[str]:
    """Our commands: alone on an indented line, or in backticks with an argument."""
    alone = re.findall(r"^ {4,}(offsetwatch .*)$", text, re.MULTILINE)
    return alone + re.findall(r"`(offsetwatch \w[^`]*)`", text)


def parse(command: str) -> click.Context:
    """The context of the innermost command. Raises click.UsageError for what does not exist."""
    context = click.Context(cli)
    current: click.Command = cli
    arguments = shlex.split(command)[1:]
    while isinstance(current, click.Group):
        _, result, arguments = current.resolve_command(context, arguments)
        assert result is not None
        current = result
    return current.make_context(command, arguments)


def test_every_alert_has_a_runbook_and_every_runbook_an_alert():
    assert RUNBOOKS.keys() == EVERY_ALERT.keys()


@every_runbook
def test_a_runbook_has_the_parts_that_operators_search_for_in_their_order(name):
    text = RUNBOOKS[name]
    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert f"Severity: {EVERY_ALERT[name]['labels']['severity']}." in text


@every_runbook
def test_the_first_poll_and_what_comes_after_have_a_command_to_type(name):
    first_poll = RUNBOOKS[name].split("## First look")[1].split("##")[0]
    assert commands(first_poll)


@every_runbook
def test_the_commands_exist_with_these_options(name):
    for command in commands(RUNBOOKS[name]):
        parse(command)


@pytest.mark.parametrize(("name", "alert"), FIRED)
def test_the_command_of_an_alert_exists_and_its_runbook_has_it(name, alert):
    command = parse(alert["exp_annotations"]["next"]).command
    assert command in {parse(known).command for known in commands(RUNBOOKS[name])}


@every_runbook
def test_commands_take_their_values_from_the_alert_and_the_file_from_its_default_place(name):
    text = RUNBOOKS[name]
    first_poll = text.split("## First look")[1].split("## Decide")[0]
    assert "alias offsetwatch='kubectl exec" in first_poll
    named = set(
        re.findall(
            r"\$([A-Z_]{2,})", " ".join(re.findall(r"^ {4,}.*$|`[^`]*`", text, re.MULTILINE))
        )
    )
    assert named - {"UPSTREAM", "KAFKA"} <= set(re.findall(r"([A-Z_]{2,})=\.\.\.", first_poll))
    assert "--config" not in " ".join(commands(text))
    assert "curl -X" not in text
    assert not re.search(r"`(PATCH|PUT|POST|DELETE) /connectors", text)


@every_runbook
def test_metrics_thresholds_and_other_runbooks_that_are_named_exist(name):
    text = RUNBOOKS[name]
    assert set(re.findall(r"\boffsetwatch_\w+", text)) <= known_metrics().keys()
    assert set(re.findall(r"\boffsetwatch:\w+:\w+", text)) <= RECORDED.keys()
    for target in re.findall(r"\]\(([^)]*)\)", text):
        assert (ALERTS / "runbooks" / target).is_file()


@every_runbook
def test_a_table_of_decisions_leads_to_fixes_that_are_written(name):
    text = RUNBOOKS[name]
    fixes = set(re.findall(r"^(\d+)\. ", text.split("## Fix")[1], re.MULTILINE))
    decide = text.split("## Decide")[1].split("## Fix")[0]
    named = set(re.findall(r"fix (\d+)", decide)) | set(re.findall(r"then (\d+)", decide))
    assert named <= fixes
    assert fixes <= named | set(re.findall(r"fix (\d+)", text))


@pytest.mark.parametrize(
    "command",
    [
        "offsetwatch stat --config f",
        "offsetwatch status --conf f",
        "offsetwatch offsets --config f",
    ],
)
def test_a_command_that_does_not_exist_would_be_noticed(command):
    with pytest.raises(click.UsageError):
        parse(command)
