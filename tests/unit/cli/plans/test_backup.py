"""`backup create`, from the command line to a worker in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.errors import ConfigError
from tests.fakes import connect as fake


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving() as served:
        served.add("src")
        served.commit("src", {"shard": "a"}, {"position": 40})
        served.commit("src", {"shard": "b"}, {"position": 2**63 - 1})
        yield served


def typed(folder: Path, worker: fake.Connect, *arguments: str) -> Result:
    config = folder / "config.yaml"
    config.write_text(
        'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
        f"connect: [{{name: cc, kafka: k, url: '{worker.url}'}}]\n"
        f"state_dir: {folder / 'state'}\n"
    )
    result = CliRunner().invoke(cli, ["backup", *arguments, "--config", str(config)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_every_offset_is_retained_and_the_connector_is_left_alone(tmp_path, worker):
    done = typed(tmp_path, worker, "create", "src", "--connect", "cc")
    assert done.exit_code == 0, done.output
    path = Path(done.stdout.strip())
    assert path.parent == tmp_path / "state" / "backups"
    retained = {
        item["partition"]["shard"]: item["offset"] for item in json.loads(path.read_text())["src"]
    }
    assert retained == {"a": {"position": 40}, "b": {"position": 2**63 - 1}}
    assert worker.changes() == []
    (listed,) = json.loads(typed(tmp_path, worker, "list", "--json").stdout)
    assert (listed["path"], listed["connectors"]) == (str(path), {"src": 2})


def test_a_connector_that_is_not_there_has_no_backup(tmp_path, worker):
    with pytest.raises(ConfigError, match="did you mean src"):
        typed(tmp_path, worker, "create", "scr", "--connect", "cc")
    assert not (tmp_path / "state").exists()


def test_a_backup_needs_to_know_where_the_connector_is(tmp_path, worker):
    assert typed(tmp_path, worker, "create", "src").exit_code == 2
