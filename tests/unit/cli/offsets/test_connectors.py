"""The verbs of connectors, from the command line to a worker in memory."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lab.processes.ports import free_port
from offsetwatch.cli import cli
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.errors import ResponseTimeout
from offsetwatch.remedy.drivers.rest import driver
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.execute.runner import Runner
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.driver import Outcome
from offsetwatch.remedy.model.plan import AnyStep, FrozenOffsets
from offsetwatch.toolbox.change import Author
from offsetwatch.toolbox.lifecycle import prepare_delete
from offsetwatch.toolbox.store.rest import RestOffsetStore
from tests.fakes import connect as fake


class Shell:
    """The program, with a configuration that names one fake Connect cluster."""

    def __init__(self, folder: Path, worker: fake.Connect) -> None:
        self.folder, self.worker = folder, worker
        self.config = folder / "config.yaml"
        self.config.write_text(
            'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
            f"connect: [{{name: cc, kafka: k, url: '{worker.url}'}}]\n"
            f"state_dir: {folder / 'state'}\n"
        )

    def run(self, *arguments: str, stdin: str = "") -> Result:
        result = CliRunner().invoke(cli, [*arguments, "--config", str(self.config)], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def change(self, *arguments: str) -> Result:
        watch = ("--watch", "0") if arguments[1] == "create" else ()
        return self.run(*arguments, "--yes", *watch)


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving(topics={"t": 2}) as served:
        yield served


@pytest.fixture
def shell(tmp_path: Path, worker: fake.Connect) -> Shell:
    return Shell(tmp_path, worker)


@pytest.mark.parametrize(
    ("verb", "state"), [("stop", "STOPPED"), ("pause", "PAUSED"), ("resume", "RUNNING")]
)
def test_a_connector_comes_into_the_state_that_is_requested(shell, worker, verb, state):
    worker.add("src", state="PAUSED" if verb == "resume" else "RUNNING")
    watch = ("--watch", "0") if verb == "resume" else ()
    done = shell.change("connectors", verb, "src", *watch)
    assert done.exit_code == 0, done.output
    assert worker.connectors["src"].state == state
    assert f"{verb} src: done" in done.stderr


def test_what_is_so_already_is_not_requested(shell, worker):
    worker.add("src", state="STOPPED", tasks=0)
    done = shell.change("connectors", "stop", "src")
    assert done.exit_code == 0
    assert "nothing to do" in done.stderr
    assert worker.changes() == []


def test_a_resumed_connector_whose_task_fails_is_resumed_and_ordered_to_be_restarted(shell, worker):
    worker.add("src", failing=True)
    done = shell.change("connectors", "resume", "src")
    assert done.exit_code == 0
    assert "connectors restart src" in done.stderr


@pytest.mark.parametrize("verb", ["stop", "pause", "resume", "restart", "delete"])
def test_a_connector_that_is_not_there_is_named_with_those_that_are(shell, worker, verb):
    worker.add("src")
    done = shell.change("connectors", verb, "no-such")
    assert done.exit_code == 2
    assert "no-such" in done.stderr
    assert "it has: src" in done.stderr
    assert worker.changes() == []
    assert not (shell.folder / "state").exists()


@pytest.mark.parametrize("verb", ["stop", "pause", "restart", "delete"])
def test_without_a_confirmation_nothing_is_done(shell, worker, verb):
    worker.add("src")
    done = shell.run("connectors", verb, "src", stdin="src\n")
    assert done.exit_code == 3
    assert "--yes" in done.stderr
    assert worker.changes() == []


@pytest.mark.parametrize("verb", ["stop", "restart", "delete", "create"])
def test_connections_of_a_verb_are_closed(shell, worker, monkeypatch, verb):
    closed = []
    monkeypatch.setattr(RestOffsetStore, "close", lambda store: closed.append(store.name))
    worker.add("src")
    settings = shell.folder / "settings.json"
    settings.write_text('{"connector.class": "com.example.None"}')
    more = ("--config-file", str(settings)) if verb == "create" else ()
    shell.change("connectors", verb, "src", *more)
    assert closed == ["cc"]


@pytest.mark.parametrize("verb", ["stop", "restart", "delete"])
def test_a_dry_run_says_the_steps_and_writes_nothing(shell, worker, verb):
    worker.add("src")
    done = shell.run("connectors", verb, "src", "--dry-run")
    assert done.exit_code == 0
    assert done.stdout.startswith("1. ")
    assert worker.changes() == []
    assert not (shell.folder / "state").exists()


@pytest.mark.parametrize(
    ("verb", "version", "instead"),
    [
        ("stop", "3.4.1", "`offsetwatch connectors pause src` until then: its tasks do nothing"),
        ("delete", "3.4.1", "without a backup of its offsets, by DELETE /connectors/src"),
        ("restart", "2.8.2", "restart each task by POST /connectors/src/tasks/N/restart"),
    ],
)
def test_a_worker_that_is_too_old_is_asked_for_nothing(shell, worker, verb, version, instead):
    worker.add("src")
    worker.version = version
    done = shell.change("connectors", verb, "src")
    assert done.exit_code == 3
    assert f"has version {version}, and this needs Kafka 3." in done.stderr
    assert f"upgrade it first, or {instead}" in done.stderr
    assert worker.changes() == []


def test_a_deleted_connector_leaves_a_backup_and_words_about_what_stays(shell, worker):
    worker.add("src")
    worker.commit("src", {"filename": "/a"}, {"position": 10})
    done = shell.change("connectors", "delete", "src")
    assert done.exit_code == 0, done.output
    assert "src" not in worker.connectors
    assert "1 offset stays behind" in done.stderr
    (retained,) = (shell.folder / "state" / "backups").glob("*.json")
    assert json.loads(retained.read_text()) == {
        "src": [{"partition": {"filename": "/a"}, "offset": {"position": 10}}]
    }


def test_a_restart_that_only_concerns_what_failed_says_so_to_connect(shell, worker):
    worker.add("src", failing=True)
    assert (
        shell.change("connectors", "restart", "src", "--only-failed", "--watch", "0").exit_code == 0
    )
    assert worker.changes() == [
        ("POST", "/connectors/src/restart?includeTasks=true&onlyFailed=true")
    ]


def test_a_restart_of_what_failed_changes_nothing_while_no_task_is_failed(shell, worker):
    worker.add("src")
    for more in ((), ("--dry-run",)):
        done = shell.run("connectors", "restart", "src", "--only-failed", *more)
        assert done.exit_code == 0
        assert "no task is failed: there is nothing to restart" in done.stderr
        assert done.stdout == ""
    assert worker.changes() == []
    assert not (shell.folder / "state").exists()


@pytest.mark.parametrize("verb", ["restart", "resume"])
def test_what_fails_again_is_no_success(shell, worker, monkeypatch, verb):
    monkeypatch.setattr(driver, "RESTART_S", 0.0)  # the fake fails at once
    worker.add("src", failing=True, state="PAUSED" if verb == "resume" else "RUNNING")
    done = shell.change("connectors", verb, "src", "--watch", "1")
    assert done.exit_code == 1
    assert f"{verb} src: done, and it did not help: it failed again" in done.stderr
    assert "offsetwatch explain src" in done.stderr
    (row,) = json.loads(shell.run("plan", "list", "--json").stdout)
    assert row["stands"] == "ineffective"


def test_a_restart_of_what_is_stopped_is_refused(shell, worker):
    worker.add("src", state="STOPPED", tasks=0)
    done = shell.change("connectors", "restart", "src", "--watch", "0")
    assert done.exit_code == 3
    assert "connectors resume" in done.stderr


def test_a_refused_login_ends_with_6(shell, worker):
    worker.add("src")
    worker.fail("PUT", "/stop", 403, raw=b"Forbidden")
    assert shell.change("connectors", "stop", "src").exit_code == 6
    worker.fail("GET", "/connectors", 401, raw=b"User cannot access the resource.")
    assert shell.change("connectors", "stop", "src").exit_code == 6


def test_an_unreachable_worker_ends_with_exit_code_7(shell, worker):
    shell.config.write_text(shell.config.read_text().replace(worker.url, "http://127.0.0.1:1"))
    result = shell_exit(shell, "connectors", "stop", "src", "--yes")
    assert result == 7


def shell_exit(shell: Shell, *arguments: str) -> Any:
    """As the entry point ends."""
    import sys
    from unittest.mock import patch

    from offsetwatch.cli import main

    with (
        patch.object(sys, "argv", ["offsetwatch", *arguments, "--config", str(shell.config)]),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return ended.value.code


# --- what an earlier run has left ----------------------------------------------------------------


class Cut(BaseException):
    """The process ends here."""


class Mortal(RestDriver):
    """Dies before anybody hears of an answer."""

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        super().carry_out(step, frozen)
        raise Cut


def dies_deleting(shell: Shell) -> None:
    connect = Connect(name="cc", kafka="k", url=shell.worker.url)
    config = Config(kafka={"k": Kafka(bootstrap="k:1")}, connect=[connect])
    prepared = prepare_delete(RestOffsetStore(config, connect), "src", Author("p-1", 0.0, "me"))
    assert prepared.plan is not None
    with closing(Journal(shell.folder / "state")) as journal, pytest.raises(Cut):
        Runner(
            journal=journal,
            driver=Mortal(connect, "src", None),
            clock=SystemClock(),
            report=lambda _said: None,
        ).run(prepared.plan)


def test_a_deletion_that_was_cut_off_is_found_done_by_the_next_one(shell, worker):
    worker.add("src")
    dies_deleting(shell)
    done = shell.change("connectors", "delete", "src")
    assert done.exit_code == 0, done.output
    assert "delete src: done" in done.stderr
    assert len(worker.changes()) == 1


def test_another_verb_after_it_finishes_it_and_then_finds_nothing(shell, worker):
    worker.add("src")
    dies_deleting(shell)
    done = shell.change("connectors", "stop", "src")
    assert done.exit_code == 2
    assert "delete src: done" in done.stderr
    assert "no such connector" in done.stderr


# --- creating ------------------------------------------------------------------------------------


def files(shell: Shell, offset: Any = 7) -> tuple[str, ...]:
    config, offsets = shell.folder / "new.json", shell.folder / "offsets.json"
    class_name = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    settings = {"connector.class": class_name, "file": "/a", "password": "hunter2"}
    config.write_text(json.dumps(settings))
    pair = {"partition": {"filename": "/a"}, "offset": {"position": offset}}
    offsets.write_text(json.dumps({"new": [pair]}))
    return ("--config-file", str(config), "--initial-offsets", str(offsets))


def test_a_rehearsed_creation_shows_offsets_and_steps_and_no_configuration(shell, worker):
    done = shell.run("connectors", "create", "new", *files(shell), "--dry-run")
    assert done.exit_code == 0, done.output
    assert '{"position":7}' in done.stdout
    assert "1. create the connector, stopped" in done.stdout
    assert "hunter2" not in done.output
    assert worker.changes() == []


def test_a_creation_with_wrong_offsets_is_refused_with_all_that_is_wrong(shell, worker):
    done = shell.change("connectors", "create", "new", *files(shell, offset="x"))
    assert done.exit_code == 3
    assert "position" in done.stderr
    assert worker.changes() == []


@pytest.mark.parametrize(
    "more", [(), ("--config-file", "/nowhere"), ("--initial-offsets", "/nowhere")]
)
def test_a_creation_without_its_files_is_a_wrong_use(shell, more):
    assert shell_exit(shell, "connectors", "create", "new", *more) == 2


def test_one_document_says_all_of_a_creation(shell, worker):
    inputs = files(shell)
    body = {
        "name": "new",
        "config": json.loads((shell.folder / "new.json").read_text()),
        "initial_state": "PAUSED",
        "initial_offsets": [{"partition": {"filename": "/a"}, "offset": {"position": 7}}],
    }
    (shell.folder / "new.json").write_text(json.dumps(body))
    done = shell.change("connectors", "create", "new", *inputs[:2])
    assert done.exit_code == 0, done.output
    assert worker.connectors["new"].state == "PAUSED"
    assert worker.offsets["new"] == {'{"filename":"/a"}': {"position": 7}}


@pytest.mark.parametrize("twice", [(), ("--initial-state", "running")])
def test_what_is_said_twice_is_a_wrong_use(shell, worker, twice):
    inputs = files(shell)
    body = {
        "config": json.loads((shell.folder / "new.json").read_text()),
        "initial_state": "PAUSED",
    }
    if not twice:
        body["initial_offsets"] = [{"partition": {"filename": "/a"}, "offset": {"position": 7}}]
    (shell.folder / "new.json").write_text(json.dumps(body))
    assert shell_exit(shell, "connectors", "create", "new", *inputs, *twice, "--yes") == 2
    assert worker.changes() == []


def test_a_configuration_that_cannot_be_read_is_a_wrong_use_without_its_text(shell, worker):
    inputs = files(shell)
    (shell.folder / "new.json").write_text("password=hunter2")
    assert shell_exit(shell, "connectors", "create", "new", *inputs, "--yes") == 2
    assert worker.changes() == []


def test_a_worker_that_gives_no_answer_is_named_before_an_operator_says_yes(shell, worker):
    worker.add("src")
    unauthenticated = f"http://127.0.0.1:{free_port()}"
    text = shell.config.read_text().replace(
        f"url: '{worker.url}'", f"urls: ['{worker.url}', '{unauthenticated}']"
    )
    shell.config.write_text(text)
    done = shell.change("connectors", "stop", "src")
    assert done.exit_code == 0, done.output
    assert f"the worker at {unauthenticated} gives no answer" in done.stderr


def test_a_short_timeout_counts_for_a_worker_that_never_answers(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=8)) as silent:
        config = tmp_path / "config.yaml"
        config.write_text(
            'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
            "connect: [{name: cc, kafka: k, "
            f"url: 'http://127.0.0.1:{silent.getsockname()[1]}'}}]\n"
        )
        words = ["connectors", "stop", "c", "--yes", "--timeout", "1s", "--config", str(config)]
        found = CliRunner().invoke(cli, words)
    assert isinstance(found.exception, ResponseTimeout)
    assert "no whole answer within 1 s" in str(found.exception)
