"""README.md, followed: every command that it shows is run here as it stands, or there is a reason.

That all of them can be typed, and that links lead somewhere, is in test_pages.py.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import httpx
import pytest
import yaml
from click.testing import CliRunner

from lab.__main__ import main as lab_commands
from lab.cluster.certificates import Authority
from lab.http import NO_AUTHORITIES
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import NotYet, until
from offsetwatch.cli import cli
from offsetwatch.errors import ConfigError
from tests.fakes import connect as fake
from tests.fakes.broker import MockBroker

from .readme import (
    CONFIG_NAME,
    README,
    RESET_FLOW,
    RESET_STORED,
    ROOT,
    Shell,
    commands,
    configurations,
    smallest,
)
from .test_pages import PAGES

CHECK = "offsetwatch check --config offsetwatch.yaml"
RUN = "offsetwatch run --config offsetwatch.yaml"
EXPORT = "offsetwatch offsets export --connect lab --config F --connectors c --output kept.json"
ALTER = (
    "offsetwatch offsets alter c --connect lab --config F "
    """--partition '{"filename": "/in.txt"}' --offset '{"position": 120}'"""
)
IMPORT = "offsetwatch offsets import --connect lab --config F --offsets kept.json"
CREATE = (
    "offsetwatch connectors create c --config-file c.json --initial-offsets kept.json "
    "--connect lab --config F"
)
RUN_HERE = {CHECK, RUN, EXPORT, ALTER, IMPORT, CREATE}

RUN_ELSEWHERE = {  # and why not here
    "make demo": ("test_demo.py", "it needs brokers, Connect and Spark"),
    RESET_FLOW: ("test_readme.py", "it asks two Kafka clusters for the ends of logs"),
    RESET_STORED: ("test_readme.py", "it writes into topics that MirrorMaker has made"),
}
NOT_RUN = {
    "pip install .": "it needs a network; what it would install is looked at below",
}

READY_S_MAX = 240.0
POSITION = {"position": 40}
PLACE = {"filename": "/in.txt"}
STORED = '{"filename":"/in.txt"}'
WORDS_MAX = 1_500


def test_it_is_read_in_one_go() -> None:
    assert len(README.split()) <= WORDS_MAX


def test_every_command_of_a_block_is_run_or_has_a_reason_why_not() -> None:
    assert set(commands()) == RUN_HERE | RUN_ELSEWHERE.keys() | NOT_RUN.keys()


def test_what_is_left_to_real_tests_is_there() -> None:
    real = ROOT / "tests" / "real"
    assert all((real / name).is_file() for name, _ in RUN_ELSEWHERE.values())
    assert '"-m", "lab", "demo", "--once"' in (real / "test_demo.py").read_text()
    taken = (real / "test_readme.py").read_text()
    assert "followed(RESET_FLOW, " in taken
    assert "shell.run(RESET_STORED, " in taken


# --- configuration ----------------------------------------------------------------------------


def write_config(folder: Path, text: str) -> str:
    """A configuration, with the files that it names in this folder."""
    for number, name in enumerate(sorted(set(re.findall(r"/run/secrets/[\w-]+", text)))):
        secret = folder / name.rpartition("/")[2]
        url = secret.name.endswith("-url")
        secret.write_text(f"https://127.0.0.1:1/{number}" if url else f"{number}" * 32)
        secret.chmod(0o600)
    names = re.findall(r"(?:(?<![/\w])|/etc/offsetwatch/)([\w-]+\.(?:pem|key))\b", text)
    pair = Authority(folder / "authority").issue("client") if names else None
    for name in names:
        if pair is not None:
            file = pair.key if name.endswith("key") else pair.cert
            (folder / name).write_text(file.read_text())
    here = text.replace("/etc/offsetwatch/", f"{folder}/")
    return here.replace("/run/secrets/", f"{folder}/")


@pytest.mark.parametrize("number", range(len(configurations())))
def test_every_configuration_that_is_shown_passes_the_check(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = yaml.safe_load(configurations()[0])
    output = yaml.safe_load(configurations()[number])
    # Flows are named of a MirrorMaker that was named just before.
    before = yaml.safe_load(configurations()[number - 1]) if "flows" in output else {}
    text = write_config(tmp_path, yaml.safe_dump({**whole, **before, **output}, width=1000))
    path = tmp_path / CONFIG_NAME
    path.write_text(text)
    monkeypatch.chdir(tmp_path)  # a path in a property is librdkafka's
    result = CliRunner().invoke(cli, ["check", "--config", str(path)])
    assert result.exit_code == 0, result.exception


def test_a_configuration_with_a_mistake_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / CONFIG_NAME).write_text(configurations()[0].replace("url:", "uri:"))
    result = CliRunner().invoke(cli, ["check", "--config", str(tmp_path / CONFIG_NAME)])
    assert isinstance(result.exception, ConfigError)


# --- check, run -------------------------------------------------------------------------------


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving() as served:
        file = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
        served.add("c", config={**file, "file": PLACE["filename"], "topic": "lines"})
        served.commit("c", PLACE, POSITION)
        yield served


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_smallest_configuration_is_checked_as_it_stands(shell: Shell) -> None:
    (shell.folder / CONFIG_NAME).write_text(configurations()[0])
    done = shell.run(CHECK)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 Kafka and 1 Connect cluster" in done.stdout


def test_the_daemon_runs_with_it_and_ends_when_it_is_reported_to(
    shell: Shell, worker: fake.Connect
) -> None:
    east, west, port = MockBroker(), MockBroker(), free_port()
    address = f"{LOOPBACK}:{port}"
    (shell.folder / CONFIG_NAME).write_text(
        smallest(east=east.bootstrap, west=west.bootstrap, connect=worker.url, listen=address)
    )
    log = shell.folder / "log"
    daemon = shell.begin(RUN, log)

    def sees() -> None:
        try:
            response = httpx.get(
                f"http://{address}/metrics", trust_env=False, verify=NO_AUTHORITIES
            )
        except httpx.TransportError as exc:
            raise NotYet(str(exc)) from exc
        up = r'offsetwatch_input_up\{kind="connect_rest",[^}]*connect_cluster="lab",[^}]*\} 1'
        if re.search(up, response.text) is None:
            raise NotYet(response.text[-2000:])

    try:
        until("what it sees of Connect", sees, timeout_s=READY_S_MAX, evidence=log.read_text)
        healthy = shell.run("offsetwatch healthcheck --config offsetwatch.yaml")
        assert healthy.returncode == 0, healthy.stderr
        reloaded = httpx.post(
            f"http://{address}/-/reload",
            trust_env=False,
            timeout=READY_S_MAX,
            verify=NO_AUTHORITIES,
        )
        assert reloaded.status_code == 200, reloaded.text
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(READY_S_MAX) == 0, log.read_text()
    finally:
        daemon.kill()
        daemon.wait()
        east.stop()
        west.stop()
    assert (shell.folder / "state").is_dir()


# --- changing offsets -------------------------------------------------------------------------


@pytest.fixture
def configured_shell(shell: Shell, worker: fake.Connect) -> Shell:
    """A shell where F is a configuration that leads to the worker."""
    nowhere = f"{LOOPBACK}:1"  # no Kafka is asked for what Connect keeps
    (shell.folder / "F").write_text(
        smallest(east=nowhere, west=nowhere, connect=worker.url, listen=nowhere)
    )
    return shell


@pytest.mark.slow  # before it writes, a verb waits until offsets have stood still
def test_offsets_are_kept_altered_and_put_back_by_the_commands_as_they_stand(
    configured_shell: Shell, worker: fake.Connect
) -> None:
    done = configured_shell.run(EXPORT)
    assert done.returncode == 0, done.stderr
    retained = json.loads((configured_shell.folder / "kept.json").read_text())
    assert retained == {"c": [{"partition": PLACE, "offset": POSITION}]}

    done = configured_shell.run(ALTER, typed="c")
    assert done.returncode == 0, done.stderr
    assert worker.offsets["c"] == {STORED: {"position": 120}}

    done = configured_shell.run(IMPORT, typed="c")
    assert done.returncode == 0, done.stderr
    assert worker.offsets["c"] == {STORED: POSITION}
    assert worker.connectors["c"].state == "RUNNING"


def test_nothing_is_altered_where_another_name_is_typed(
    configured_shell: Shell, worker: fake.Connect
) -> None:
    assert configured_shell.run(ALTER, typed="d").returncode == 3
    assert worker.changes() == []


@pytest.mark.slow
def test_a_connector_is_created_at_offsets_that_were_retained(
    configured_shell: Shell, worker: fake.Connect
) -> None:
    assert configured_shell.run(EXPORT).returncode == 0
    config = worker.connectors.pop("c").config
    worker.offsets["c"] = {}
    (configured_shell.folder / "c.json").write_text(json.dumps(config))
    done = configured_shell.run(CREATE, typed="c")
    assert done.returncode == 0, done.stderr
    assert worker.offsets["c"] == {STORED: POSITION}
    assert worker.connectors["c"].state == "RUNNING"


# --- what is installed, made and named ---------------------------------------------------------


def test_an_install_has_the_command_and_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"offsetwatch": "offsetwatch.cli:entry"}
    assert set(re.findall(r"'\.\[(\w+)\]'", README)) == {"history"}
    assert "history" in project["optional-dependencies"]


MADE = [ROOT / "CONTRIBUTING.md", *PAGES]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", MADE, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_to_be_made_has_a_target_and_what_is_to_be_run_a_module(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"`make ([\w-]+)", text)) <= TARGETS
    assert set(re.findall(r"^make ([\w-]+)$", text, re.MULTILINE)) <= TARGETS
    for module in re.findall(r"python -m ((?:tests|lab|bench|tools)[\w.]*)", text):
        assert importlib.util.find_spec(module) is not None, module


def test_what_the_lab_is_requested_it_can_do() -> None:
    output = re.findall(r'`make (lab|demo) ARGS="?([^`"]*)"?`', README.replace("\n", " "))
    assert {target for target, _ in output} == {"lab", "demo"}
    assert "\n\t@$(BIN)/python -m lab up $(ARGS)\n" in (ROOT / "Makefile").read_text()
    assert "\n\t@$(BIN)/python -m lab demo $(ARGS)\n" in (ROOT / "Makefile").read_text()
    for target, arguments in output:
        verb = lab_commands.commands[{"lab": "up"}.get(target, target)]
        verb.make_context(target, shlex.split(arguments))


# --- the table of commands ----------------------------------------------------------------------


def verbs(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from verbs(command, (*path, name))
        else:
            yield (*path, name)


VERBS = set(verbs(cli))
GROUPS = {path[:1] for path in VERBS if len(path) > 1}


def rows() -> list[str]:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    table = page.split("| command | does |")[1].split("\n\n")[0]
    return [re.split(r"(?<!\\)\|", line)[1] for line in table.splitlines()[2:]]


def list_verbs(row: str) -> Iterator[tuple[str, ...]]:
    """Verbs of a row. One without its group belongs to the one before it."""
    group: tuple[str, ...] = ()
    for item in re.findall(r"`([^`]+)`", row):
        words = tuple(item.removeprefix("offsetwatch ").split())
        if item.startswith("offsetwatch "):
            group = words[:1] if words[:1] in GROUPS else ()
        elif words[:1] not in GROUPS:
            words = (*group, *words)
        if words in GROUPS:
            yield from (path for path in VERBS if path[:1] == words)
            continue
        entry = next((words[:n] for n in (2, 1) if words[:n] in VERBS), None)
        # An option, or a value of the verb before it.
        if entry is None and not item.startswith("offsetwatch "):
            continue
        assert entry is not None, item
        yield entry


def test_the_table_of_commands_has_every_verb_and_none_that_is_not_there() -> None:
    assert {path for row in rows() for path in list_verbs(row)} == VERBS
