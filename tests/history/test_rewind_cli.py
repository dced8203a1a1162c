"""`offsets rewind`: from the tables to a worker in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.remedy.drivers.rest import driver
from tests.fakes import connect as fake
from tests.history.test_asof import IN, MORNING, OUT, Commit, lake

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


class Shell:
    """The program, with tables and a worker of the Connect cluster they are of."""

    def __init__(self, folder: Path, worker: fake.Connect, *commits: Commit) -> None:
        self.worker = worker
        self.config = folder / "offsetwatch.yaml"
        base = lake(folder / "history", *commits, read_at=60)
        self.config.write_text(
            'kafka: {east: {bootstrap: "127.0.0.1:1"}}\n'
            f'connect: [{{name: payments, kafka: east, url: "{worker.url}"}}]\n'
            f"history: {{path: {base}}}\nstate_dir: {folder / 'state'}\n"
        )

    def rewind(self, second: float, *more: str, status: int = 0) -> Result:
        where = ("--connect", "payments", "--config", str(self.config), "--watch", "0")
        to = ("--to", str(MORNING + second))
        result = CliRunner().invoke(cli, ["offsets", "rewind", "file", *to, *where, *more])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return result


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake.Connect]:
    monkeypatch.setattr(driver, "QUIET_S", 0.0)  # no task of this worker's commits late
    with fake.serving() as served:
        served.add("file", config={"connector.class": FILE_SOURCE})
        served.commit("file", IN, {"position": 9})
        yield served


@pytest.fixture
def shell(tmp_path: Path, worker: fake.Connect) -> Shell:
    return Shell(
        tmp_path,
        worker,
        Commit(0, '{"position":1}'),
        Commit(10, '{"position":2}'),
        Commit(20, '{"position":9}'),
    )


def offsets(worker: fake.Connect) -> dict[str, object]:
    return {json.loads(name)["filename"]: offset for name, offset in worker.offsets["file"].items()}


def test_a_connector_is_set_back_to_where_it_stood(shell, worker):
    done = shell.rewind(12, "--yes")
    assert offsets(worker) == {"/in": {"position": 2}}
    assert "set file back to" in done.stderr
    assert worker.connectors["file"].state == "RUNNING"


def test_what_came_since_is_taken_back(shell, worker):
    worker.commit("file", OUT, {"position": 1})
    shell.rewind(12, "--yes")
    assert offsets(worker) == {"/in": {"position": 2}}


def test_a_dry_run_changes_nothing(shell, worker):
    done = shell.rewind(12, "--dry-run")
    assert "step by step" in done.stdout
    assert worker.changes() == []


def test_what_stood_further_ahead_then_needs_a_word_of_its_own(shell, worker):
    worker.commit("file", IN, {"position": 1})
    refused = shell.rewind(25, "--yes", status=3)
    assert "say --allow-skip" in refused.stderr
    assert worker.changes() == []
    shell.rewind(25, "--yes", "--allow-skip")
    assert offsets(worker) == {"/in": {"position": 9}}


@pytest.mark.parametrize("second", [-1, 61], ids=["before", "after"])
def test_a_moment_that_the_tables_do_not_hold_is_refused(shell, worker, second):
    refused = shell.rewind(second, "--yes", status=3)
    assert "nothing was changed" in refused.stderr
    assert worker.changes() == []


def test_offsets_that_cannot_be_decoded_any_more_are_refused(tmp_path, worker):
    broken = Shell(
        tmp_path, worker, Commit(0, '{"position":1}'), Commit(1, "no JSON", partition=OUT)
    )
    refused = broken.rewind(12, "--yes", status=3)
    assert "cannot be decoded" in refused.stderr
    assert worker.changes() == []
