"""Where commands find their configuration, their daemon and their token, from any folder."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from offsetwatch.cli import cli
from offsetwatch.cli.common import options
from offsetwatch.cli.plans.service_access import (
    ServiceAccess,
    build_service_access,
    service_options,
)
from offsetwatch.errors import ConfigError
from tests.unit.remedy.offices import Bureau

TOKEN = "0123456789abcdef" * 2


@click.command()
@service_options
@click.pass_context
def reach(context: click.Context, **where: object) -> None:
    """Print nothing; hand over what the options come to."""
    context.obj.append(build_service_access(**where))


def reached(*arguments: str, env: dict[str, str] | None = None) -> ServiceAccess:
    results: list[ServiceAccess] = []
    done = CliRunner().invoke(reach, arguments, env=env or {}, obj=results)
    assert done.exit_code == 0, done.output
    return results[0]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "offsetwatch.yaml"
    path.parent.mkdir()
    path.write_text('connect: [{name: lab, url: "http://127.0.0.1:1"}]\nremedy: {mode: propose}\n')
    return path


@pytest.mark.parametrize("how", ["-c", "--config", "environment", "default"])
def test_the_configuration_is_found(config, monkeypatch, how):
    monkeypatch.setattr(options, "CONFIG_DEFAULT", config if how == "default" else config / "none")
    typed = [how, str(config)] if how.startswith("-") else []
    env = {"OFFSETWATCH_CONFIG": str(config)} if how == "environment" else {}
    done = CliRunner().invoke(cli, ["check", *typed], env=env)
    assert (done.exit_code, "offsetwatch.yaml: ok" in done.output) == (0, True)


def test_without_any_the_three_ways_are_named(tmp_path, monkeypatch):
    default = str(options.CONFIG_DEFAULT)
    monkeypatch.setattr(options, "CONFIG_DEFAULT", tmp_path / "none")
    done = CliRunner().invoke(cli, ["check"])
    assert done.exit_code == 2
    for way in ("-c", "OFFSETWATCH_CONFIG", default):
        assert way in done.output


def test_state_is_the_same_from_every_folder(config, tmp_path, monkeypatch):
    """Plans were looked for in the folder of whoever asked, and `pause` found no daemon."""
    bureau = Bureau(config.parent / "state")
    bureau.proposed()
    for folder in (config.parent, tmp_path, Path("/")):
        monkeypatch.chdir(folder)
        done = CliRunner().invoke(cli, ["plan", "list", "-c", str(config)])
        assert (done.exit_code, "p1" in done.stdout) == (0, True)
        pause = ["pause", "--indefinitely", "--because", "stop", "-c", str(config)]
        assert CliRunner().invoke(cli, pause).exit_code == 0
    assert bureau.office.switches().pause is not None


def test_a_folder_that_no_daemon_used_is_named(config, monkeypatch):
    monkeypatch.chdir(config.parent)
    done = CliRunner().invoke(cli, ["plan", "list", "-c", config.name])
    assert isinstance(done.exception, ConfigError)
    assert str(config.parent / "state") in str(done.exception)


def test_the_daemon_and_the_token_of_the_environment(tmp_path):
    url = {"OFFSETWATCH_CONTROL_URL": "https://watch:9641"}
    result = reached(env={**url, "OFFSETWATCH_TOKEN": TOKEN})
    assert (result.listener.url, result.listener.token) == ("https://watch:9641", TOKEN)
    assert TOKEN not in repr(result)
    file = tmp_path / "token"
    assert reached(env={**url, "OFFSETWATCH_TOKEN_FILE": str(file)}).listener.token_file == file
    typed = reached("--token-file", str(file), env={**url, "OFFSETWATCH_TOKEN": TOKEN})
    assert (typed.listener.token, typed.listener.token_file) == (None, file)


def test_what_is_typed_goes_before_the_environment(config):
    env = {"OFFSETWATCH_CONTROL_URL": "https://watch:9641", "OFFSETWATCH_CONFIG": "/nowhere"}
    assert reached("-c", str(config), env=env).listener is None
    assert reached("--state-dir", str(config.parent), env=env).listener is None
    assert reached(env=env).listener.url == "https://watch:9641"
    assert reached("--url", "https://other:1", env=env).listener.url == "https://other:1"


def test_a_token_file_of_the_environment_is_no_mistake_without_a_daemon_elsewhere(config):
    env = {"OFFSETWATCH_TOKEN_FILE": "/nowhere"}
    assert reached("-c", str(config), env=env).listener is None


def test_a_workers_own_file_goes_without_the_configuration_of_the_environment(tmp_path):
    worker = tmp_path / "worker.properties"
    worker.write_text("offset.storage.file.filename=/nowhere\n")
    env = {"OFFSETWATCH_CONFIG": str(tmp_path / "none.yaml")}
    done = CliRunner().invoke(cli, ["offsets", "list", "--worker-config", str(worker)], env=env)
    assert "none.yaml" not in f"{done.output}{done.exception}"
