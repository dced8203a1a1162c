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
    found = {"": ""}
    command = ""
    for line in demo.stdout.splitlines():
        if line.startswith("$ offsetwatch "):
            command = line.removeprefix("$ offsetwatch ")
            found[command] = ""
        else:
            found[command] += f"{line}\n"
    return found


def rows(text: str, connector: str) -> list[list[str]]:
    """The rows of tables that begin with this connector, in cells."""
    return [line.split() for line in text.splitlines() if line.startswith(f"{connector} ")]


def test_it_ends_well(demo: CompletedProcess[str]) -> None:
    assert demo.returncode == 0, f"{demo.stdout[-6000:]}\n{demo.stderr[-4000:]}"


def test_something_is_compared_and_nothing_differs(demo: CompletedProcess[str]) -> None:
    said = re.search(r"^compared (\d+), mismatched (\d+), ", demo.stdout, re.MULTILINE)
    assert said is not None
    compared, mismatched = said.groups()
    assert int(compared) > 20
    assert mismatched == "0"


def test_it_says_which_waiting_guards_are_shortened_and_what_they_are_by_default(
    acts: Mapping[str, str],
) -> None:
    told = dict(re.findall(r"^ +remedy\.(\S+) +(\d+ instead of \S+)$", acts[""], re.MULTILINE))
    usual = RemedyConfig()
    assert told.pop("repeat.failures") == f"2 instead of {usual.repeat.failures}"
    assert told.pop("repeat.span_s") == f"0 instead of {usual.repeat.span_s:g}"
    assert told.pop("repeat.restarts") == f"1 instead of {usual.repeat.restarts}"
    assert told == {
        name: f"{here} instead of {getattr(usual, name):g}"
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
    for connector, place in CONNECTORS.items():
        said = f"skip the record at offset {GOOD_BEFORE} of {place} for {connector}"
        assert re.search(rf"{said} +proposed +detector", acts["plan list"])


def test_each_plan_is_shown_and_approved_and_carried_out_to_its_end(
    demo: CompletedProcess[str], acts: Mapping[str, str]
) -> None:
    approvals = {at.split()[2]: told for at, told in acts.items() if at.startswith("plan approve")}
    assert len(approvals) == len(CONNECTORS)
    for (plan, shown), connector in zip(approvals.items(), CONNECTORS, strict=True):
        assert f"Plan {plan}: skip the record at offset {GOOD_BEFORE}" in shown
        assert f"2. PUT /connectors/{connector}/stop" in shown
        assert f"6. PATCH /connectors/{connector}/offsets" in shown
        assert f"plan {plan} is approved" in demo.stderr
        assert f"for {connector}: succeeded" in demo.stderr


def test_both_records_are_in_quarantine_and_the_readable_one_is_read(
    acts: Mapping[str, str],
) -> None:
    for connector, place in CONNECTORS.items():
        assert re.search(rf"{connector} +{place}@{GOOD_BEFORE} ", acts["quarantine list"])
    (got,) = (told for at, told in acts.items() if at.startswith("quarantine get"))
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
