"""What all tests share: this repository on the path, and no chance in their course."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]

# `pytest` alone does not look for packages where it was started; `lab` is never installed.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests import timing  # noqa: E402

# The same examples in every run: a failure is one of the change, not of the day.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=40)
# Other examples in every run, and many: HYPOTHESIS_PROFILE=proofs pytest tests/properties. The seed
# that it prints repeats it: --hypothesis-seed.
settings.register_profile(
    "proofs",
    deadline=None,
    database=None,
    max_examples=10_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fixed")
settings.load_profile(PROFILE)


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads it
def pytest_configure(config: pytest.Config) -> None:
    timing.register(config)
    # Rich draws a trace with its source and colours: an eighth of what the unit tests took.
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], renderer])
    if PROFILE == "proofs" and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_collection() -> None:
    """Collect tests without collecting garbage: that took a third of the 35 s of 20,000 tests."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was collected out of every later collection of garbage: 18,000 tests took 46 s of
    processor time for that.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if PROFILE == "proofs":
        terminalreporter.line(f"repeat with --hypothesis-seed={config.option.hypothesis_seed}")


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """Every verb sets up the logs of its process; here the next test is in the same one."""
    before = structlog.get_config()
    yield
    if structlog.get_config() != before:
        structlog.configure(**before)
