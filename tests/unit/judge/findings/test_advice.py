"""The next command and the runbook of a finding."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from offsetwatch.cli import cli
from offsetwatch.judge.findings.advice import RUNBOOKS, add_advice, build_next_command
from offsetwatch.model.findings import Finding, FindingName, Severity

RUNBOOKS_FOLDER = Path(__file__).parents[4] / "alerts" / "runbooks"
ODD = ("invoices-sink", "-only", "a, b", "it's; rm -rf /", "back\\slash")


def finding(name: FindingName, connector: str | None = "files") -> Finding:
    return Finding(name, Severity.WARNING, "lab", connector, "", "files is so.", 0.0)


def test_every_finding_has_a_runbook_that_exists():
    assert RUNBOOKS.keys() == set(FindingName)
    for page in RUNBOOKS.values():
        assert (RUNBOOKS_FOLDER / f"{page}.md").is_file()


@pytest.mark.parametrize(
    "base", ["https://docs.example/runbooks", "https://docs.example/runbooks/"]
)
def test_a_runbook_is_named_where_they_are_published_and_only_then(base):
    report = add_advice(finding(FindingName.TASK_FAILED), base, frozenset())
    assert report.runbook_url == "https://docs.example/runbooks/ConnectorOrTaskFailed.md"
    assert add_advice(finding(FindingName.TASK_FAILED), None, frozenset()).runbook_url is None


@pytest.mark.parametrize("has_rest", [True, False])
@pytest.mark.parametrize("connector", [*ODD, None])
@pytest.mark.parametrize("name", FindingName)
def test_the_next_command_is_one_of_ours_and_names_the_connector(
    name, connector, has_rest, tmp_path
):
    command, *words = shlex.split(build_next_command(finding(name, connector), has_rest=has_rest))
    assert command == "offsetwatch"
    inputs = parsed(cli, words, tmp_path)
    if inputs.keys() & {"connector", "name"} and connector is not None:
        assert inputs.get("connector", inputs.get("name")) == connector
        assert "lab" in inputs.values()


def parsed(command: click.Command, words: list[str], folder: Path) -> dict[str, object]:
    """Return what a command line gives to its command; raise click's errors."""
    while isinstance(command, click.Group):
        result = command.commands[words[0]]
        command, words = result, words[1:]
    config = folder / "offsetwatch.yaml"
    config.touch()
    return command.make_context("", ["--config", str(config), *words]).params


def test_what_has_no_rest_api_is_not_restarted():
    failed = finding(FindingName.TASK_FAILED)
    assert build_next_command(failed, has_rest=True) == (
        "offsetwatch connectors restart files --only-failed --connect lab"
    )
    assert build_next_command(failed, has_rest=False) == "offsetwatch explain files --connect lab"
    assert add_advice(failed, None, frozenset({"lab"})).next_command.startswith(
        "offsetwatch explain"
    )
