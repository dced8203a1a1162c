"""The demonstration as people start it who have no terminal, and what they are shown."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from lab.demo.poison import FLOW, GOOD_AFTER, GOOD_BEFORE, SINK
from lab.processes.child import finished
from lab.product.remediating_daemon import SHORTENED
from lab.stories.sinks import NOT_JSON
from offsetwatch.config.schema.remediation import RemedyConfig

pytestmark = [pytest.mark.real, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
ONCE_S_MAX = 900.0
CONNECTORS = {f"{SINK}-sink": f"east/{SINK}-0", f"{FLOW}-mirror": f"west/{FLOW}-0"}


@pytest.fixture(scope="module")
def demo() -> CompletedProcess[str]:
    command = (sys.executable, "-m", "lab", "demo", "--once", "--free-ports")
    return finished(command, called="the demonstration", directory=ROOT, timeout_s=ONCE_S_MAX)


@pytest.fixture(scope="module")
def acts(demo: CompletedProcess[str]) -> dict[str, str]:
    """What each command has printed to standard output, by the command as it is shown; what comes
    before the first stands under nothing.
    """
    results = {"": ""}
    command = ""
    for line in demo.stdout.splitlines():
        if line.startswith("$ offsetwatch "):
            command = line.removeprefix("$ offsetwatch ")
            results[command] = ""
        else:
            results[command] += f"{line}\n"
    return results


def rows(text: str, connector: str) -> list[list[str]]:
    """The rows of tables that begin with this connector, in cells."""
    return [line.split() for line in text.splitlines() if line.startswith(f"{connector} ")]


def test_it_ends_well(demo: CompletedProcess[str]) -> None:
    assert demo.returncode == 0, f"{demo.stdout[-6000:]}\n{demo.stderr[-4000:]}"


def test_something_is_compared_and_nothing_differs(demo: CompletedProcess[str]) -> None:
    match = re.search(r"^compared (\d+), mismatched (\d+), ", demo.stdout, re.MULTILINE)
    assert match is not None
    compared, mismatched = match.groups()
    assert int(compared) > 20
    assert mismatched == "0"


def test_it_says_which_waiting_guards_are_shortened_and_what_they_are_by_default(
    acts: Mapping[str, str],
) -> None:
    report = dict(re.findall(r"^ +remedy\.(\S+) +(\d+ instead of \S+)$", acts[""], re.MULTILINE))
    config = RemedyConfig()
    assert report.pop("repeat.failures") == f"2 instead of {config.repeat.failures}"
    assert report.pop("repeat.span_s") == f"0 instead of {config.repeat.span_s:g}"
    assert report.pop("repeat.restarts") == f"1 instead of {config.repeat.restarts}"
    assert report == {
        name: f"{here} instead of {getattr(config, name):g}"
        for name, here in SHORTENED.items()
        if name != "repeat"
    }
    assert "remedy.probation_s" in acts[""]


def test_both_connectors_are_shown_failed_before_anything_is_done(acts: Mapping[str, str]) -> None:
    for connector in CONNECTORS:
        (row,) = rows(acts[""], connector)
        assert row[1:4:2] == ["running", "failed"]


def test_a_skip_of_each_record_is_proposed_before_it_is_approved(acts: Mapping[str, str]) -> None:
    before, _ = acts["plan list"].split(maxsplit=1)
    assert before == "Plans"
    for connector, location in CONNECTORS.items():
        answer = f"skip the record at offset {GOOD_BEFORE} of {location} for {connector}"
        assert re.search(rf"{answer} +proposed +detector", acts["plan list"])


def test_each_plan_is_shown_and_approved_and_carried_out_to_its_end(
    demo: CompletedProcess[str], acts: Mapping[str, str]
) -> None:
    approvals = {
        name.split()[2]: report for name, report in acts.items() if name.startswith("plan approve")
    }
    assert len(approvals) == len(CONNECTORS)
    for (plan, output), connector in zip(approvals.items(), CONNECTORS, strict=True):
        assert f"Plan {plan}: skip the record at offset {GOOD_BEFORE}" in output
        assert f"2. PUT /connectors/{connector}/stop" in output
        assert f"6. PATCH /connectors/{connector}/offsets" in output
        assert f"plan {plan} is approved" in demo.stderr
        assert f"for {connector}: succeeded" in demo.stderr


def test_both_records_are_in_quarantine_and_the_readable_one_is_read(
    acts: Mapping[str, str],
) -> None:
    for connector, location in CONNECTORS.items():
        assert re.search(rf"{connector} +{location}@{GOOD_BEFORE} ", acts["quarantine list"])
    (got,) = (report for name, report in acts.items() if name.startswith("quarantine get"))
    assert got.splitlines()[0] == NOT_JSON


def test_both_connectors_run_again_and_all_other_records_have_arrived(
    demo: CompletedProcess[str], acts: Mapping[str, str]
) -> None:
    every = GOOD_BEFORE + 1 + GOOD_AFTER
    assert len(re.findall(rf"runs, and has .+ {every - 1} of {every} records", demo.stdout)) == 2
    last = list(acts.values())[-1]
    for connector in CONNECTORS:
        (row,) = rows(last, connector)
        assert row[1:4:2] == ["running", "running"]
