"""Waiting until something is so, never for an amount of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

DEADLINE_S = 60.0  # beside whatever else this machine does
POLL_S = 0.005


def until(
    condition: Callable[[], Any],
    what: str,
    *,
    timeout_s: float = DEADLINE_S,
    evidence: Callable[[], str] = lambda: "",
) -> None:
    """Ask again and again; at the deadline the test fails with what was awaited, and the evidence.

    Of a broker or a daemon, lab.waiting.until also tells what was seen last.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout_s} s: {what}\n{evidence()}")
        time.sleep(POLL_S)
