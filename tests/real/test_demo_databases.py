"""The demonstration of source ends as people start it who have no terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from lab.cluster.connector_configs import MARIADB_SHOP, POSTGRES_SHOP
from lab.demo.databases import FINDING
from lab.processes.child import finished

# Its story is that of test_source_ends.py, which `make full` has.
pytestmark = [pytest.mark.real, pytest.mark.proof]

ROOT = Path(__file__).parents[2]
ONCE_S_MAX = 600.0
# In this order.
STEPS = (
    "rows a second flow from each database into its topic",
    f"{POSTGRES_SHOP}  RUNNING RUNNING  ok",
    f"{MARIADB_SHOP}   RUNNING RUNNING  ok",
    "is stopped (SIGSTOP); rows go on",
    "offsetwatch finds it within three intervals",
    f"critical  {FINDING}",
    f"Connect REST says of {POSTGRES_SHOP}: RUNNING RUNNING",
    f"$ offsetwatch explain {POSTGRES_SHOP} --config ",
    "the process goes on, and no more rows are written",
    "every row is in its topic; nothing waits, and nothing is found wrong",
)


@pytest.fixture(scope="module")
def demo() -> CompletedProcess[str]:
    command = (sys.executable, "-m", "lab", "demo", "--databases", "--once", "--free-ports")
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
