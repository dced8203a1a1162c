"""The command line without anything to talk to: exit codes, messages, what needs no network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from offsetwatch.cli.history.pipeline import read_cut
from offsetwatch.errors import ConfigError
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.serve.metrics.catalog import CATALOG

GOOD = """\
kafka:
  east: {bootstrap: "127.0.0.1:1"}
connect:
  - {name: lab, kafka: east, url: "http://127.0.0.1:1", poll: {timeout_s: 5.0}}
listen: "127.0.0.1:1"
"""
BAD = """\
kafka:
  east: {bootstrap: "127.0.0.1:1", propertis: {}}
connect:
  - {name: lab, kafka: eest, url: "http://127.0.0.1:1"}
lisen: "127.0.0.1:1"
"""


def offsetwatch(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: exit codes are part of the contract."""
    return subprocess.run(
        [sys.executable, "-m", "offsetwatch", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(GOOD)
    return str(path)


def test_check_accepts_a_sound_file_and_says_what_it_holds(good: str) -> None:
    done = offsetwatch("check", "--config", good)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 Kafka and 1 Connect cluster(s), listening on 127.0.0.1:1" in done.stdout


def test_check_prints_every_mistake_on_a_line_of_its_own_and_exits_2(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    done = offsetwatch("check", "--config", str(path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 3
    for part in ("kafka.east.propertis", "connect[0].kafka", "lisen"):
        assert part in done.stderr
    assert done.stderr.count("did you mean") == 3


def test_a_missing_file_is_a_configuration_mistake(tmp_path: Path) -> None:
    done = offsetwatch("run", "--config", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert "cannot be read" in done.stderr


def test_metrics_prints_the_whole_catalogue() -> None:
    done = offsetwatch("metrics", "--json")
    assert done.returncode == 0
    assert [row["name"] for row in json.loads(done.stdout)] == [spec.name for spec in CATALOG]


def test_connectors_status_of_an_unreachable_worker_exits_7_and_names_the_cluster(
    good: str,
) -> None:
    done = offsetwatch("connectors", "status", "--config", good)
    assert done.returncode == 7
    assert "not read: Connect cluster lab (http://127.0.0.1:1): " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    done = offsetwatch("completion", shell)
    assert done.returncode == 0
    assert f"{shell}_complete" in done.stdout


def test_healthcheck_without_a_daemon_exits_7(good: str) -> None:
    assert offsetwatch("healthcheck", "--config", good).returncode == 7


def test_status_that_cannot_catch_up_says_what_it_waits_for_and_exits_7(good: str) -> None:
    done = offsetwatch("status", "--config", good, "--timeout", "2")
    assert done.returncode == 7
    assert "Connect cluster lab (http://127.0.0.1:1)" in done.stderr
    assert "Kafka cluster east (127.0.0.1:1)" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("history", "run"), id="no mode"),
        pytest.param(("history", "run", "--continuous", "--up-to", __file__), id="cut for ever"),
        pytest.param(("offsets", "list", "--connect", "nowhere"), id="unknown Connect cluster"),
    ],
)
def test_wrong_usage_exits_2(good: str, arguments: tuple[str, ...]) -> None:
    assert offsetwatch(*arguments, "--config", good).returncode == 2


def test_a_log_end_file_becomes_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "end.json"
    path.write_text('{"east/connect-offsets": {"0": 12, "24": 0}}')
    assert read_cut(path) == {KafkaTopic("east", "connect-offsets"): {0: 12, 24: 0}}


@pytest.mark.parametrize("text", ["", "[]", '{"no-slash": {"0": 1}}', '{"a/b": {"x": 1}}'])
def test_a_log_end_file_that_is_none_is_a_mistake_of_the_user(tmp_path: Path, text: str) -> None:
    path = tmp_path / "end.json"
    path.write_text(text)
    with pytest.raises(ConfigError):
        read_cut(path)
