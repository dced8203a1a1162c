"""What a plan on the daemon's host is made of, as far as that goes without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetwatch.cli.plans import create
from offsetwatch.cli.plans.service_access import ServiceAccess
from offsetwatch.cli.remote.control_client import ControlEndpoint
from offsetwatch.errors import ConfigError, ResponseTimeout
from tests.unit.remedy.services import ServiceBench

KEY = ("lab", "files")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(
        'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
        'connect: [{name: lab, kafka: k, url: "http://127.0.0.1:1", poll: {timeout_s: 0.5}}]\n'
        f"state_dir: {tmp_path / 'state'}\n"
    )
    return path


def test_elsewhere_the_daemon_makes_the_plan(config):
    with create.open_plan_inputs(
        ServiceAccess(listener=ControlEndpoint("http://127.0.0.1:1")), 1.0, KEY
    ) as plan:
        assert plan is None


def test_without_a_configuration_there_is_nothing_to_plan_with(tmp_path):
    ServiceBench(tmp_path / "state")
    with (
        pytest.raises(ConfigError, match="--config"),
        create.open_plan_inputs(ServiceAccess(state_dir=tmp_path / "state"), 1.0, KEY),
    ):
        pass


def test_where_no_daemon_has_ever_run_no_plan_is_made_and_no_journal(config, tmp_path):
    with (
        pytest.raises(ConfigError, match="no daemon has run there"),
        create.open_plan_inputs(ServiceAccess(config_path=config), 1.0, KEY),
    ):
        pass
    assert not (tmp_path / "state").exists()


def test_what_cannot_be_inspected_is_not_planned_for(config, tmp_path):
    ServiceBench(tmp_path / "state")
    with (
        pytest.raises(ResponseTimeout),
        create.open_plan_inputs(ServiceAccess(config_path=config), 0.1, KEY),
    ):
        pass
