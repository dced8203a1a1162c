"""A pytest plugin that writes the first failing test and its markers to a file.

The environment names the file. It has two lines: the node id, and markers separated by spaces.
"""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "PLANTED_FIRST_FAILURE"
MARKERS: Final = frozenset({"real", "spark", "image", "proof"})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _write(report.nodeid, MARKERS & set(report.keywords))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write(report.nodeid, frozenset())


def _write(nodeid: str, markers: AbstractSet[str]) -> None:
    path = Path(os.environ[VARIABLE])
    if not path.exists():
        path.write_text(f"{nodeid}\n{' '.join(sorted(markers))}\n")
