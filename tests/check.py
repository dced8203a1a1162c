"""`make check`: the inner loop, in two lanes of processes, in less than a minute.

One lane lints and types; the other runs the unit tests of what differs from the last commit, and
a core of quick tests. Everything runs, whichever fails; what failed is printed at the end.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = "exporter"
BIN: Final = Path(sys.executable).parent
QUICK: Final = "not real and not spark and not slow and not full and not proof and not image"
# What a slip in the core breaks first: decoding, lag, verdicts, guards and the engine.
CORE: Final = (
    "tests/unit/decode",
    "tests/unit/judge",
    "tests/unit/remedy/engine/test_engine.py",
    "tests/unit/remedy/guards/test_guards.py",
    "tests/unit/test_loop.py",
)


class Done(NamedTuple):
    """A command that has ended."""

    name: str
    failed: bool
    seconds: float
    output: str


def changed_files() -> list[str]:
    """Return what differs from the last commit, untracked files included, deleted ones not."""
    listed: list[str] = []
    for words in (
        ("diff", "--name-only", "--diff-filter=d", "HEAD"),
        ("ls-files", "--others", "--exclude-standard"),
    ):
        listed += subprocess.run(
            ["git", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
    return listed


def tests_of(changed: Iterable[str], tests: Iterable[Path]) -> Iterator[Path]:
    """Yield the test files that changed, and those that import a module that changed."""
    paths = [Path(path) for path in changed if path.endswith(".py")]
    modules = [
        path.with_suffix("").parts[path.parts[0] == SOURCES :]
        for path in paths
        if path.parts[0] != "tests"
    ]
    imports = [
        rf"{re.escape('.'.join(parts))}\b"
        rf"|from {re.escape('.'.join(parts[:-1]))} import [^#]*?\b{parts[-1]}\b"
        for parts in (
            parts[:-1] if parts[-1] == "__init__" else parts for parts in modules if len(parts) > 1
        )
    ]
    expected = re.compile("|".join(imports)) if imports else None
    for test in tests:
        changed_itself = test.relative_to(ROOT) in paths
        if changed_itself or (expected is not None and expected.search(test.read_text())):
            yield test


def run(name: str, *words: str) -> Done:
    """Run a command to its end."""
    began = time.monotonic()
    done = subprocess.run(
        [str(BIN / words[0]), *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return Done(
        name, done.returncode != 0, time.monotonic() - began, f"{done.stdout}{done.stderr}".strip()
    )


def static() -> Iterator[Done]:
    """Yield what looks at the source alone."""
    yield run("format", "ruff", "format", "--check", ".")
    yield run("lint", "ruff", "check", ".")
    yield run("contracts", "lint-imports", "--no-logo")
    yield run("types", "mypy")


def tests() -> Iterator[Done]:
    """Yield the quick tests."""
    unit = sorted((ROOT / "tests" / "unit").rglob("test_*.py"))
    own = [str(test.relative_to(ROOT)) for test in tests_of(changed_files(), unit)]
    if own:
        yield run("tests of what changed", "pytest", "-q", "-m", QUICK, *own)
    rest = [f"--deselect={test}" for test in own]
    yield run("core tests", "pytest", "-q", "-m", QUICK, *CORE, *rest)


def main() -> None:
    """Run both lanes, print a line for each command, and the output of those that failed."""
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        lanes = [pool.submit(lambda lane=lane: list(lane())) for lane in (static, tests)]
        done = [command for lane in lanes for command in lane.result()]
    for command in done:
        outcome = "FAILED" if command.failed else "ok"
        last = command.output.splitlines()[-1:] if command.name.endswith("tests") else []
        print(f"{command.name:22} {outcome:6} {command.seconds:5.1f} s  {''.join(last)}")  # noqa: T201
    for command in done:
        if command.failed:
            print(f"\n--- {command.name}\n{command.output}")  # noqa: T201
    print(f"{time.monotonic() - began:.0f} s")  # noqa: T201
    sys.exit(any(command.failed for command in done))


if __name__ == "__main__":
    main()
