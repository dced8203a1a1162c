"""Tables that are damaged, empty or half written: the same answer as before, or none."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline import commits
from offsetwatch.history.tables.schemas import TABLES
from tests.history.delta import refine_plainly, write
from tests.history.past_hour import NOON, build_typical_hour

VERBS = {
    "as-of": ("--connector", "mm2", "--time", str(NOON + 600)),
    "timeline": ("mm2", "--since", str(NOON), "--until", str(NOON + 3600), "--json"),
    "report": ("--flow", "west->east", "--from", str(NOON), "--to", str(NOON + 1800), "--json"),
}


def run_verb(base: Path, verb: str) -> Result:
    path = base.parent / "offsetwatch.yaml"
    path.write_text(
        'kafka: {east: {bootstrap: "127.0.0.1:1"}, west: {bootstrap: "127.0.0.1:1"}}\n'
        "connect: [{name: lab, kafka: east, offsets_topic: connect-offsets}]\n"
        f"history: {{path: {base}}}\nstate_dir: {base.parent / 'state'}\n"
    )
    return CliRunner().invoke(cli, ["history", verb, *VERBS[verb], "--config", str(path)])


def answered(done: Result) -> dict[str, Any]:
    """Without the notes, in which it says what it cannot tell."""
    document: dict[str, Any] = json.loads(done.stdout)
    document.pop("notes", None)
    return document


def knows_nothing(report: dict[str, Any]) -> bool:
    """Not one minute of it."""
    reports = [report["flow"], *report["groups"]]
    return all(figure["known"] == 0 for one in reports for figure in one["figures"].values())


def contents(base: Path) -> dict[str, str]:
    return {
        str(path.relative_to(base)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(base.rglob("*"))
        if path.is_file()
    }


def _gone(path: Path) -> Iterator[Path]:
    yield from sorted(path.rglob("*"), reverse=True)
    yield path


def no_table(file: Path) -> None:
    for path in _gone(file):
        path.rmdir() if path.is_dir() else path.unlink()


def no_log(path: Path) -> None:
    no_table(path / "_delta_log")


def file_gone(path: Path) -> None:
    next(path.rglob("*.parquet")).unlink()


def file_cut(file: Path) -> None:
    path = next(file.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def file_of_zeros(file: Path) -> None:
    path = next(file.rglob("*.parquet"))
    path.write_bytes(bytes(path.stat().st_size))


def log_cut(file: Path) -> None:
    """As a disk leaves it that was full, or lost power."""
    path = max((file / "_delta_log").glob("*.json"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES: tuple[Callable[[Path], None], ...] = (
    no_table,
    no_log,
    file_gone,
    file_cut,
    file_of_zeros,
    log_cut,
)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = build_typical_hour().write(tmp_path / "tables")
    refine_plainly(path)
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_undamaged_they_answer(base: Path, verb: str) -> None:
    done = run_verb(base, verb)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_damaged_gives_the_same_answer_or_none_and_is_left_as_it_is(
    base: Path, verb: str, damage: Callable[[Path], None]
) -> None:
    whole = answered(run_verb(base, verb))
    refused = 0
    for number, table in enumerate(TABLES):
        if not any(table.at(base).rglob("*.parquet")):
            continue
        copied = base.parent / str(number) / "tables"
        shutil.copytree(base, copied)
        damage(table.at(copied))
        before = contents(copied)
        done = run_verb(copied, verb)
        assert contents(copied) == before, table.path
        if done.exit_code == 0:
            assert answered(done) == whole, table.path
            continue
        refused += 1
        assert done.stdout == "" or knows_nothing(json.loads(done.stdout)), table.path
        if not isinstance(done.exception, SystemExit):
            assert isinstance(done.exception, HistoryError), (table.path, done.exception)
            text = str(done.exception)
            assert table.path in text or str(copied) in text, text
    assert refused > 0


@pytest.mark.parametrize("verb", VERBS)
def test_tables_without_a_row_give_no_answer(tmp_path: Path, verb: str) -> None:
    base = tmp_path / "tables"
    for table in TABLES:
        write(base, table)
    before = contents(base)
    done = run_verb(base, verb)
    assert (done.exit_code != 0, done.stdout) == (True, "")
    assert contents(base) == before


@pytest.mark.parametrize("damage", [no_log, log_cut])
def test_a_run_puts_nothing_over_a_table_that_is_damaged(
    base: Path, damage: Callable[[Path], None]
) -> None:
    """The first thing that a run does to each of them, before anything is read."""
    for table in TABLES:
        if any(table.at(base).rglob("*.parquet")):
            damage(table.at(base))
            before = contents(base)
            with pytest.raises(HistoryError, match=table.path):
                commits.create(base, table)
            assert contents(base) == before
