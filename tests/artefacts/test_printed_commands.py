"""Every command of ours that is printed to be typed, in one test: in runbooks, README and docs, the
next command of alerts and of findings.

Each is run until it reads its configuration, which is not there: arguments, options and what goes
together are right then.
"""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from offsetwatch.cli import cli
from offsetwatch.errors import ClientError, ConfigError, HistoryError, RemedyError
from offsetwatch.judge.findings.advice import build_next_command
from offsetwatch.model.findings import Finding, FindingName, Severity

from .test_alerts import FIRED
from .test_pages import COMMANDS
from .test_runbooks import RUNBOOKS, commands

# What runbooks take from the alert, and pages have in place of a value.
VALUES = {
    "CONNECTOR": "invoices sink",
    "CONNECT_CLUSTER": "lab",
    "FLOW": "west->east",
    "TOPIC": "orders",
    "UPSTREAM": "west",
    "KAFKA": "east",
}
# They need no configuration, and write files or load Spark.
OFFLINE = ("history package", "completion", "metrics")


def printed() -> Iterator[tuple[str, str]]:
    for name, text in RUNBOOKS.items():
        yield from ((name, command) for command in commands(text))
    yield from COMMANDS
    for fired in FIRED:
        name, alert = fired.values
        yield name, alert["exp_annotations"]["next"]
    for finding_name in FindingName:
        for connector in ("files", "-x", "it's; a, b", None):
            for has_rest in (True, False):
                finding = Finding(finding_name, Severity.WARNING, "lab", connector, "", "", 0.0)
                yield finding_name.value, build_next_command(finding, has_rest=has_rest)


PRINTED = sorted({(command.replace("\n", " "), place) for place, command in printed()})
ONCE = dict(PRINTED)


def begin(command: str) -> None:
    """Run a command. Raises UsageError, or what is wrong with an environment without a cluster."""
    program, *words = shlex.split(os.path.expandvars(command))
    assert program == "offsetwatch"
    cli.main(words, prog_name=program, standalone_mode=False)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    for variable, value in (VALUES | {"OFFSETWATCH_CONFIG": "none.yaml"}).items():
        monkeypatch.setenv(variable, value)
    for variable in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))


@pytest.mark.parametrize("command", sorted(ONCE), ids=lambda command: command[12:72])
def test_a_printed_command_begins(command: str):
    words = command.removeprefix("offsetwatch ")
    if words.startswith(OFFLINE):
        pytest.skip("it would do its work here; test_pages.py parses it")
    # All of these are of its environment, not of its words.
    with suppress(ConfigError, ClientError, HistoryError, RemedyError, SystemExit):
        begin(command)


def test_commands_are_found_in_every_place():
    assert len(ONCE) > 100
    assert {place for _, place in PRINTED} >= {*RUNBOOKS, *map(str, FindingName), "README.md"}


@pytest.mark.parametrize(
    "command",
    [
        "offsetwatch statsu",
        "offsetwatch offsets alter c --connect lab",
        "offsetwatch offsets reset c --connect lab --to-offset 0",
        "offsetwatch connectors restart c --because x",
        "offsetwatch pause --because x",
        "offsetwatch status --direct --url http://127.0.0.1:1",
        "offsetwatch status --interval 5s",
    ],
)
def test_a_command_that_cannot_begin_would_be_noticed(command: str):
    with pytest.raises(click.UsageError):
        begin(command)
