"""A misspelt connector is wrong usage for every verb: exit code 2, and the name that is near."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from offsetwatch.cli import cli, main
from tests.fakes import connect as fake
from tests.unit.remedy.services import ServiceBench

MISSPELT = "order"
PARTITION, OFFSET = '{"filename":"a"}', '{"position":1}'
STORE = ("--connect", "cc")
BECAUSE = ("--because", "x")
VERBS = {
    "backup create": (MISSPELT, *STORE),
    "connectors delete": (MISSPELT, "--yes"),
    "connectors pause": (MISSPELT, "--yes"),
    "connectors restart": (MISSPELT, "--yes"),
    "connectors resume": (MISSPELT, "--yes"),
    "connectors status": (MISSPELT,),
    "connectors stop": (MISSPELT, "--yes"),
    "explain": (MISSPELT,),
    "offsets alter": (MISSPELT, "--partition", PARTITION, "--offset", OFFSET, *STORE, "--yes"),
    "offsets export": ("--connectors", MISSPELT, *STORE),
    "offsets import": ("--offsets", "document.json", *STORE, "--yes"),
    "offsets list": ("--connectors", MISSPELT),
    "offsets next": (MISSPELT, *STORE),
    "offsets reset": (MISSPELT, *STORE, "--yes"),
    "offsets rewind": (MISSPELT, "--to", "1h ago", *STORE, "--yes"),
    "plan create": ("restart", "--connector", MISSPELT, *STORE, *BECAUSE),
    "restore": ("--from", "b.json", "--connector", MISSPELT, *STORE, *BECAUSE),
}
# A new connector has a new name, and the tables of the pipeline have connectors that are no more.
OTHERS = {"connectors create", "history as-of", "history timeline"}


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving() as served:
        served.add("orders")
        yield served


def configuration(folder: Path, worker: fake.Connect) -> Path:
    ServiceBench(folder / "state")
    (folder / "document.json").write_text(
        json.dumps({MISSPELT: [{"partition": json.loads(PARTITION), "offset": json.loads(OFFSET)}]})
    )
    path = folder / "config.yaml"
    path.write_text(f"connect: [{{name: cc, url: '{worker.url}'}}]\nstate_dir: state\n")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["offsetwatch", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


@pytest.mark.parametrize("verb", VERBS)
def test_a_misspelt_connector_exits_2_with_the_right_name(
    tmp_path: Path,
    worker: fake.Connect,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = configuration(tmp_path, worker)
    code = run(monkeypatch, *verb.split(), *VERBS[verb], "--config", str(path))
    printed = capsys.readouterr()
    assert code == 2, printed.err
    assert "did you mean" in printed.err
    assert "orders" in printed.err
    assert worker.changes() == []


def list_verbs(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the verbs that take the name of a connector."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from list_verbs(command, (*path, name))
        elif {"connector", "connectors", "name"} & {param.name for param in command.params}:
            yield " ".join((*path, name))


def test_every_verb_that_takes_a_connector_is_tried() -> None:
    assert {*list_verbs(cli)} == {*VERBS, *OTHERS}
