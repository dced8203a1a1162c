"""`mode`, `pause`, `unpause` and `breaker`, as they are typed on the daemon's host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from offsetwatch.cli import cli
from offsetwatch.cli.plans import switches
from offsetwatch.cli.plans.service_access import ServiceAccess, find_operator_name
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.model.driver import StepInspection, StepStatus
from offsetwatch.remedy.model.journal_records import ModeSet, PauseSet
from offsetwatch.remedy.model.service_api import Mode
from tests.fakes.clock import VirtualClock
from tests.unit.cli.journal_host import configure, typed
from tests.unit.remedy.plans import AT, PARTITION, skip_of
from tests.unit.remedy.services import ServiceBench

NOW = 1_800_000_000.0


@pytest.fixture
def bench(tmp_path: Path) -> ServiceBench:
    built = ServiceBench(tmp_path / "state", mode=Mode.PROPOSE)
    configure(tmp_path)
    return built


def newest(bureau: ServiceBench) -> object:
    (entry,) = bureau.bench.journal.tail(1)
    return entry.record


def test_the_mode_is_reported_with_what_it_means(bench):
    result = typed("mode", bureau=bench)
    assert result.exit_code == 0
    assert "propose: proposes plans, and carries out what an operator approves" in result.stdout
    assert json.loads(typed("mode", "--json", bureau=bench).stdout) == {
        "mode": "propose",
        "pause": None,
        "breakers": [],
    }


def test_a_mode_is_set_with_who_and_why(bench):
    done = typed("mode", "observe", "--because", "a release", bureau=bench)
    assert "the mode is observe" in done.stderr
    record = newest(bench)
    assert isinstance(record, ModeSet)
    assert (record.mode, record.by, record.because) == (
        "observe",
        find_operator_name(),
        "a release",
    )


def test_a_mode_above_what_is_configured_is_said_to_have_no_effect(bench):
    done = typed("mode", "auto", "--because", "try", bureau=bench)
    assert done.exit_code == 3
    assert "the mode is still propose" in done.stderr
    assert "auto is above what the configuration allows (remedy.mode: propose)" in done.stderr
    assert "`offsetwatch mode propose`" in done.stderr
    assert bench.bench.journal.tail(1) == ()


@pytest.mark.parametrize(
    "arguments",
    [
        ("mode", "observe"),
        ("mode", "sometimes", "--because", "x"),
        ("pause", "--because", "x"),
        ("pause", "--for", "2h", "--indefinitely", "--because", "x"),
        ("pause", "--for", "2h"),
        ("unpause",),
        ("breaker", "ack", "lab/orders"),
        ("pause", "--for", "2h", "--because", "x", "--token-file", "t"),
        (
            "pause",
            "--for",
            "2h",
            "--because",
            "x",
            "--url",
            "http://127.0.0.1:1",
            "--state-dir",
            "s",
        ),
        ("mode", "--url", "http://127.0.0.1:1", "--key-file", "k"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_a_usage_error_and_changes_nothing(bench, arguments):
    done = typed(*arguments, bureau=bench)
    assert done.exit_code == 2
    assert "Usage:" in done.stderr
    assert bench.bench.journal.tail(1) == ()


def test_the_mode_needs_the_configuration_that_limits_it(bench):
    done = CliRunner().invoke(cli, ["mode", "--state-dir", str(bench.folder)])
    assert done.exit_code == 2


@pytest.mark.parametrize(
    ("inputs", "until"),
    [
        ({"span_s": 7200.0}, NOW + 7200.0),
        ({"until": "2027-01-15T10:00:00Z"}, NOW + 7200.0),
        ({}, None),
    ],
    ids=["for", "until", "indefinitely"],
)
def test_a_pause_ends_when_it_is_said_to(bench, inputs, until, capsys):
    here, how = ServiceAccess(state_dir=bench.folder), {"span_s": None, "until": None, **inputs}
    switches.pause_remediation(here, because="a release", clock=VirtualClock(NOW), **how)
    record = newest(bench)
    assert isinstance(record, PauseSet)
    assert (record.paused, record.until) == (True, until)
    when = "until an operator ends it" if until is None else "until 2027-01-15 10:00:00Z"
    assert f"no new plan begins {when}" in capsys.readouterr().err


def test_a_pause_that_replaces_another_one_says_so(bench):
    typed("pause", "--indefinitely", "--because", "a release", bureau=bench)
    done = typed("pause", "--for", "10m", "--because", "try", bureau=bench)
    assert "this replaces the pause until an operator ends it" in done.stderr
    assert "a release" in done.stderr


@pytest.mark.parametrize(
    "inputs",
    [{"span_s": -7200.0}, {"span_s": 0.0}, {"until": "1000"}],
    ids=lambda inputs: str(*inputs.values()),
)
def test_a_pause_that_would_be_over_or_is_none_is_refused(bench, inputs):
    here, how = ServiceAccess(state_dir=bench.folder), {"span_s": None, "until": None, **inputs}
    with pytest.raises(ConfigError):
        switches.pause_remediation(here, because="x", clock=VirtualClock(NOW), **how)
    assert bench.bench.journal.tail(1) == ()


@pytest.mark.parametrize("span", ["-2h", "+2h", "soon", ""])
def test_the_length_of_a_pause_is_a_duration(bench, span):
    done = typed("pause", "--for", span, "--because", "x", bureau=bench)
    assert done.exit_code == 2
    assert "not a duration: write 30s, 5m, 1h30m or 500ms" in done.stderr
    assert bench.bench.journal.tail(1) == ()


def test_a_pause_is_reported_and_ended(bench):
    typed("pause", "--indefinitely", "--because", "a release", bureau=bench)
    stdout = typed("mode", bureau=bench).stdout
    assert f"until an operator ends it, by {find_operator_name()}" in stdout
    assert "the pause is over" in typed("unpause", "--because", "done", bureau=bench).stderr
    assert "there was no pause" in typed("unpause", "--because", "done", bureau=bench).stderr


def tripped(bureau: ServiceBench) -> None:
    bureau.bench.world.offsets = {PARTITION: AT}
    bureau.bench.world.proven = StepInspection(StepStatus.FOREIGN, "it failed again, still at 8")
    bureau.bench.runner().run(skip_of())


def test_an_open_breaker_is_listed_until_it_is_acknowledged(bench):
    assert "no breaker is open" in typed("breaker", "list", bureau=bench).stderr
    tripped(bench)
    listed = typed("breaker", "list", "--json", bureau=bench)
    assert listed.exit_code == 1
    assert [load["scope"] for load in json.loads(listed.stdout)] == ["lab/orders"]
    assert "did not help" in typed("breaker", "list", bureau=bench).stdout
    assert "lab/orders" in typed("mode", bureau=bench).stdout
    closed = typed("breaker", "ack", "lab/orders", "--because", "mended", bureau=bench)
    assert (closed.exit_code, closed.stderr) == (0, "the breaker of lab/orders is closed\n")
    assert typed("breaker", "list", bureau=bench).exit_code == 0


def test_a_breaker_that_is_not_open_is_a_mistake_that_names_those_that_are(bench):
    tripped(bench)
    with pytest.raises(ConfigError, match=r"no breaker of lab/order is open: .*open: lab/orders"):
        typed("breaker", "ack", "lab/order", "--because", "x", bureau=bench)
