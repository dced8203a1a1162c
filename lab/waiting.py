"""Waiting for a condition, never for an amount of time."""

import time
from collections.abc import Callable
from typing import TypeVar

from lab.errors import LabError

T = TypeVar("T")

POLL_INTERVAL_S = 0.1


class NotYet(Exception):
    """Raised by a probe whose condition does not hold; its text is what the probe saw."""


def until(
    what: str,
    probe: Callable[[], T],
    *,
    timeout_s: float,
    evidence: Callable[[], str] = lambda: "",
) -> T:
    """
    Call the probe until it returns instead of raising NotYet, and hand on what it returned.

    At the deadline a LabError says what was awaited, what was seen last, and the evidence (as a
    rule the end of a log). Any other exception of the probe ends the wait at once.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return probe()
        except NotYet as exc:
            observed = str(exc)
        if time.monotonic() >= deadline:
            message = f"{what}: not within {timeout_s:.0f} s; last seen: {observed}"
            raise LabError("\n".join(filter(None, (message, evidence()))))
        time.sleep(POLL_INTERVAL_S)
