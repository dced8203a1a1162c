"""Commands of the runbooks, pasted into a shell whose variables hold an alert's labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster.connector_configs import FILE_SOURCE
from lab.product.offsetwatch import Product
from tests.artefacts.readme import Shell
from tests.artefacts.test_runbooks import RUNBOOKS, commands

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

# What only reads, beside --dry-run. The history pipeline has tests of its own.
READING = (
    "backup list",
    "breaker list",
    "check",
    "connectors status",
    "doctor",
    "explain",
    "healthcheck",
    "journal tail",
    "mode",
    "offsets export",
    "offsets list",
    "plan list",
    "quarantine list",
    "status",
)
OK, FOUND, DENIED = 0, 1, 3


def read_only() -> list[str]:
    """Return each such command once, with its line breaks taken out."""
    results = {
        " ".join(command.split()) for text in RUNBOOKS.values() for command in commands(text)
    }
    begins = tuple(f"offsetwatch {verb}" for verb in READING)
    return sorted(name for name in results if name.startswith(begins) or "--dry-run" in name)


@pytest.fixture
def shell(product: Product, tmp_path: Path) -> Shell:
    """Return a shell on the host of a daemon, with the labels of an alert in variables."""
    built = Shell(tmp_path)
    built.environment |= {
        "OFFSETWATCH_CONFIG": str(product.config),
        "CONNECT_CLUSTER": "lab",
        "CONNECTOR": FILE_SOURCE,
        "FLOW": "west->east",
        "TOPIC": "orders",
    }
    return built


def test_commands_that_only_read_answer_as_they_stand(shell: Shell) -> None:
    tried = read_only()
    assert len(tried) > 15
    failed = {}
    for command in tried:
        done = shell.run(command)
        refused = {DENIED} if "--dry-run" in command else set()  # as the run itself would be
        if done.returncode not in {OK, FOUND} | refused:
            failed[command] = (done.returncode, done.stderr[-500:])
    assert failed == {}
