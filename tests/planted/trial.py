"""One bug in a copy of the source tree, and the tests that are run against it.

A failure counts only if the same test passes in a copy without the bug.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.planted.catalogue import ROOT, Bug
from tests.planted.first_failure import VARIABLE

PER_PUSH, FULL, NOT_CAUGHT = "make test", "make full", "not caught"
RUN_S_MAX: Final = 4 * 3600.0  # one run of pytest; a bug may also show as a test that never ends
_NOTHING_COLLECTED: Final = 5  # pytest's exit code
_SELF: Final = "--ignore=tests/planted"  # its own test fails with every bug, by design

# The arguments of pytest for each group of tests, in the order in which they are tried.
_PYTHON: Final = ("-m", "not real and not spark and not image and not proof", _SELF)
_SPARK: Final = ("-m", "spark and not real and not image and not proof", "tests/history")
_REAL: Final = ("-m", "real and not image and not proof", "tests/real", "tests/history")
SELECTIONS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "first": (),
    "fast": (_PYTHON, _SPARK),
    "full": (_PYTHON, _SPARK, _REAL),
}


@dataclass(frozen=True)
class FirstFailure:
    """The first test that failed. `ended` is false if it was stopped after RUN_S_MAX."""

    nodeid: str
    markers: frozenset[str] = frozenset()
    ended: bool = True

    @property
    def tier(self) -> str:
        """Return the command that runs the test."""
        return FULL if "full" in self.markers else PER_PUSH


@dataclass(frozen=True)
class Measurement:
    """The result of one bug. `failure` is None if no test failed."""

    bug: Bug
    failure: FirstFailure | None
    seconds: float


def measure(bug: Bug, selection: str) -> Measurement:
    """Plant the bug, and run its own tests, then the groups of the selection, up to the first
    failure. Raise RuntimeError if that failure has nothing to do with the bug.
    """
    began = time.monotonic()
    failure: FirstFailure | None = None
    with copy_tree() as root:
        bug.plant(root)
        for arguments in (bug.first, *SELECTIONS[selection]):
            failure = run_tests(root, arguments)
            if failure is not None:
                break
    if failure is not None and is_unrelated(failure):
        raise RuntimeError(f"{failure.nodeid} fails without any bug as well")
    return Measurement(bug, failure, time.monotonic() - began)


def is_unrelated(failure: FirstFailure) -> bool:
    """Run the same test again in a copy that nothing is planted in, and return if it fails."""
    if not failure.ended:
        return False
    with copy_tree() as root:
        return run_tests(root, (failure.nodeid,)) is not None


@contextmanager
def copy_tree() -> Iterator[Path]:
    """Copy every file that git knows, as it is in the working tree, into a temporary folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    with tempfile.TemporaryDirectory(prefix="offsetwatch-planted-") as folder:
        root = Path(folder) / "tree"
        for name in listed.split("\0"):
            if name and (ROOT / name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                # The links in the tree are relative: in the copy they lead to the copy.
                shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
        yield root


def run_tests(root: Path, arguments: Sequence[str]) -> FirstFailure | None:
    """Run pytest in a copy of the tree up to the first failure, and return that. Raise RuntimeError
    if pytest itself fails.
    """
    path, output_path = root.parent / "first-failure", root.parent / "output"
    path.unlink(missing_ok=True)
    words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "tests.planted.first_failure"]
    environment = {
        "PYTHONPATH": f"{root / 'exporter'}:{root}",
        "PYTHONDONTWRITEBYTECODE": "1",
        VARIABLE: str(path),
    }
    with output_path.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *words, *arguments],
            cwd=root,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(RUN_S_MAX)
        except subprocess.TimeoutExpired:
            return FirstFailure(" ".join(arguments), ended=False)
        finally:
            _end(process)
    if path.exists():
        nodeid, markers, *_ = path.read_text().split("\n")
        return FirstFailure(nodeid, frozenset(markers.split()))
    if code not in {0, _NOTHING_COLLECTED}:
        tail = output_path.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"pytest ended with {code} and named no test:\n{tail}")
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a run that has not ended, and all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
