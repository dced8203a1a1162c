"""The demonstration of alerts as people start it who have no terminal, and what they are shown."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from lab.demo.alerts import NAME
from lab.processes.child import finished
from lab.stories.alerted_poison import FAILED, GOOD_AFTER, GOOD_BEFORE, POISON
from lab.stories.sinks import NOT_JSON

# Its story is that of test_alerts_remedy.py, which runs each time.
pytestmark = [pytest.mark.real, pytest.mark.proof]

ROOT = Path(__file__).parents[2]
ONCE_S_MAX = 900.0
CONNECTOR = f"{NAME}-sink"
# In this order.
STEPS = (
    f"{CONNECTOR} expects JSON, and is given: {NOT_JSON}",
    f"Prometheus: {FAILED} of {CONNECTOR} is firing",
    f"Alertmanager: {FAILED} of {CONNECTOR} is active",
    "offsetwatch_hooks_received_total: new 1",
    "it has failed 3 times by now",
    f"Prometheus: {POISON} is firing",
    "$ offsetwatch plan list --url http://127.0.0.1:",
    f"skip the record at offset {GOOD_BEFORE} of east/{NAME}-0 for {CONNECTOR}  proposed",
    "$ offsetwatch plan approve ",
    f"6. PATCH /connectors/{CONNECTOR}/offsets",
    f"{GOOD_BEFORE + GOOD_AFTER} of {GOOD_BEFORE + GOOD_AFTER + 1} records: all but offset",
    "$ offsetwatch quarantine list --config ",
    f"{CONNECTOR}  east/{NAME}-0@{GOOD_BEFORE}",
    "--raw --config ",
    NOT_JSON,
    f"{FAILED} has ended in Prometheus and in Alertmanager",
    "is over: the connector runs",
)


@pytest.fixture(scope="module")
def demo() -> CompletedProcess[str]:
    command = (sys.executable, "-m", "lab", "demo", "--alerts", "--once", "--free-ports")
    return finished(command, called="the demonstration", directory=ROOT, timeout_s=ONCE_S_MAX)


def test_it_ends_well(demo: CompletedProcess[str]) -> None:
    assert demo.returncode == 0, f"{demo.stdout[-6000:]}\n{demo.stderr[-4000:]}"
    assert "not as it should be" not in demo.stdout


def test_each_step_is_shown_in_its_order(demo: CompletedProcess[str]) -> None:
    offset = 0
    for step in STEPS:
        result = demo.stdout.find(step, offset)
        assert result >= 0, f"no {step!r} after\n{demo.stdout[:offset][-2000:]}"
        offset = result + len(step)


def test_the_plan_is_carried_out_to_its_end(demo: CompletedProcess[str]) -> None:
    assert f"skip the record at offset {GOOD_BEFORE} of east/{NAME}-0" in demo.stderr
    assert f"for {CONNECTOR}: succeeded" in demo.stderr


def test_no_token_is_shown(demo: CompletedProcess[str]) -> None:
    assert re.search(r"\b[0-9a-f]{64}\b", re.sub(r"sha256 +[0-9a-f]{64}", "", demo.stdout)) is None
