"""How long each part of a run took: recorded by pytest in each part, and shown as one table.

A part is one pytest process. Where OFFSETWATCH_TIMINGS names a folder, each writes `PART.json` into
it. `python -m tests.timing FOLDER` prints what these hold, beside the last committed table
(`timing.md`); with `--write` it replaces that table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

COMMITTED: Final = Path(__file__).with_name("timing.md")
FOLDER_VARIABLE: Final = "OFFSETWATCH_TIMINGS"
PART_VARIABLE: Final = "OFFSETWATCH_PART"
SLOWEST: Final = 20
_ROW: Final = re.compile(r"^\| ([\w-]+) \| (\d+) \| (\d+) \| (\d+) \|", re.MULTILINE)


class Part(NamedTuple):
    """One pytest process of a run.

    tests       how many ran, skipped ones left out
    seconds     from the start of the session to its end, collection included
    labs        labs that were started, by this process or by those it started
    """

    name: str
    tests: int
    seconds: float
    labs: int


class Recorder:
    """Adds up what each test took, its fixtures included. A pytest plugin."""

    def __init__(self, folder: Path, part: str) -> None:
        self._file = folder / f"{part}.json"
        self._starts = folder / f"{part}.labs"
        self._part = part
        self._began = time.monotonic()
        self._seconds: dict[str, float] = {}
        self._ran: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self._starts.unlink(missing_ok=True)
        os.environ["OFFSETWATCH_LAB_STARTS"] = str(self._starts)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.when == "call" or report.failed:
            self._ran.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write what this part took."""
        starts = self._starts.read_text().splitlines() if self._starts.exists() else []
        document = {
            "part": self._part,
            "tests": len(self._ran),
            "seconds": round(time.monotonic() - self._began, 1),
            "labs": len(starts),
            "slowest": _most(self._seconds),
        }
        self._file.write_text(json.dumps(document, indent=1))


def register(config: pytest.Config) -> None:
    """Record this session if a run wants it. Workers of xdist report to their controller."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and not hasattr(config, "workerinput"):
        recorder = Recorder(Path(folder).resolve(), os.environ.get(PART_VARIABLE, "tests"))
        config.pluginmanager.register(recorder)


def _most(seconds: Mapping[str, float]) -> dict[str, float]:
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return {name: round(taken, 1) for name, taken in ordered[:SLOWEST]}


def read(folder: Path) -> tuple[list[Part], dict[str, float]]:
    """Return the parts of a run, in the order in which they ended, and its slowest tests."""
    parts, slowest = [], {}
    for file in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
        document: dict[str, Any] = json.loads(file.read_text())
        slowest.update(document.pop("slowest"))
        document["name"] = document.pop("part")
        parts.append(Part(**document))
    return parts, _most(slowest)


def committed(text: str) -> dict[str, Part]:
    """Return the parts of a committed table, by name."""
    return {
        name: Part(name, int(tests), float(seconds), int(labs))
        for name, tests, seconds, labs in _ROW.findall(text)
    }


def table(parts: list[Part], slowest: Mapping[str, float], before: Mapping[str, Part]) -> str:
    """Return the run as Markdown; the last two columns compare it with the committed table."""
    lines = [
        "| part | tests | seconds | labs | tests before | seconds before |",
        "|---|---|---|---|---|---|",
    ]
    for part in parts:
        old = before.get(part.name)
        compared = ("-", "-") if old is None else (f"{old.tests}", f"{old.seconds:.0f}")
        lines.append(
            f"| {part.name} | {part.tests} | {part.seconds:.0f} | {part.labs} | "
            f"{compared[0]} | {compared[1]} |"
        )
    lines += ["", f"The {len(slowest)} slowest tests, fixtures included:", ""]
    lines += ["| seconds | test |", "|---|---|"]
    lines += [f"| {taken:.0f} | `{name}` |" for name, taken in slowest.items()]
    return "\n".join(lines)


def main() -> None:
    """Print the table of a run, and write it if asked."""
    reader = argparse.ArgumentParser(prog="python -m tests.timing", description=__doc__)
    reader.add_argument("folder", type=Path)
    reader.add_argument("--write", action="store_true", help=f"replace {COMMITTED.name}")
    options = reader.parse_args()
    before = committed(COMMITTED.read_text()) if COMMITTED.exists() else {}
    result = table(*read(options.folder), before)
    print(result)  # noqa: T201 - this is what the command is for
    if options.write:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        COMMITTED.write_text(
            f"# How long the tests take\n\nCommit {described}, {os.cpu_count()} cores, Python "
            f"{platform.python_version()}. Written by `python -m tests.timing --write`; the last "
            f"two columns are the table before it.\n\n{result}\n"
        )


if __name__ == "__main__":
    main()
