"""Forks of this process: one question each, and nothing of its answer's making is left here."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import pickle
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

SLEEPS_TIMES: Final = 20  # as long as it may compute may it take in all: others compute as well
MEMORY_BYTES_MAX: Final = 2 << 30  # more than before: a change may fill all there is
_ANSWER = TypeVar("_ANSWER")
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_PAUSE_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class _Running:
    until: float  # monotonic
    home: Path
    then: Callable[[bool | None], None]


class Forks:
    """Several at a time. Each ends with yes or no; one that computes too long, with None."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._running: dict[int, _Running] = {}

    def start(
        self, question: Callable[[], bool], *, limit_s: float, then: Callable[[bool | None], None]
    ) -> None:
        """As soon as there is room for it; `then` is called by a later start, or by finish."""
        while len(self._running) >= self._count:
            self._reap()
        home = Path(tempfile.mkdtemp(prefix="mutant-"))
        child = os.fork()
        if child == 0:
            _ask(question, home, limit_s)
        until = time.monotonic() + SLEEPS_TIMES * limit_s
        self._running[child] = _Running(until, home, then)

    def finish(self) -> None:
        """Wait for those that run."""
        while self._running:
            self._reap()

    def _reap(self) -> None:
        for child, running in list(self._running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            hangs = not ended and time.monotonic() > running.until
            if not ended and not hangs:
                continue
            # What a test started is of the fork's own group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            if hangs:
                os.waitpid(child, 0)
            del self._running[child]
            shutil.rmtree(running.home, ignore_errors=True)
            code = -signal.SIGXCPU if hangs else os.waitstatus_to_exitcode(status)
            running.then(None if code == -signal.SIGXCPU else code == 0)
            return
        time.sleep(_PAUSE_S)


def answer_of(question: Callable[[], _ANSWER]) -> _ANSWER:
    """Anything that can be pickled, from a fork that may take its time."""
    home = Path(tempfile.mkdtemp(prefix="mutant-"))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _be_silent(home)
            (home / "answer").write_bytes(pickle.dumps(question()))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    try:
        assert os.waitstatus_to_exitcode(status) == 0, "the tests cannot be run unchanged"
        found: _ANSWER = pickle.loads((home / "answer").read_bytes())  # noqa: S301 - our fork's
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return found


def _ask(question: Callable[[], bool], home: Path, limit_s: float) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        _be_silent(home)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + MEMORY_BYTES_MAX
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        computing = math.ceil(limit_s)
        resource.setrlimit(resource.RLIMIT_CPU, (computing, computing + 5))
        code = 0 if question() else 1
    finally:
        os._exit(code)


def _be_silent(home: Path) -> None:
    """What tests write is of no interest, and goes with the fork's own folder; the fork itself goes
    with its parent.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(home)
    tempfile.tempdir = str(home)
