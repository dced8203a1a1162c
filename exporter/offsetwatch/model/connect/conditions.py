"""Condition of a connector: its state as Connect reports it, before the verdict on its progress.

A connector runs while a task of it has failed, so its condition is the worst state of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from offsetwatch.model.connect.connectors import STATES

# The most urgent first. A paused or stopped connector may have lag that grows, so it comes before
# what makes progress.
STATE_ORDER: Final = ("failed", "unassigned", "restarting", "paused", "stopped", "running")
CONDITION_ORDER: Final = (
    *("failed", "stalled", "silent", "rewound", "unassigned", "slow", "unknown", "restarting"),
    *("paused", "stopped", "ok", "idle", "running"),
)
_UNKNOWN_RANK: Final = CONDITION_ORDER.index("unknown")


def find_worst_state(connector: str | None, tasks: Iterable[str]) -> str | None:
    """Return the most urgent state of a connector and its tasks; None if none is known.

    Tasks of a paused or stopped connector are late, so its own state counts unless a task has
    failed.
    """
    if connector is None:
        return None
    known = {connector, *tasks}
    if "failed" in known or connector not in STATES:
        return "failed" if "failed" in known else connector
    if connector in {"paused", "stopped"}:
        return connector
    return min(known & {*STATE_ORDER}, key=STATE_ORDER.index)


def compute_urgency(state: str | None, verdict: str | None) -> int:
    """Return the rank in CONDITION_ORDER of the worse of state and verdict: 0 is most urgent."""
    words = (state, "unknown" if verdict is None and state in {None, "running"} else verdict)
    return min(_rank_condition(word) for word in words if word is not None)


def format_condition(state: str | None, verdict: str | None) -> str | None:
    """Return state and verdict as one text: `FAILED (stalled)`, `paused`, `ok`.

    None if neither is known.
    """
    if state in {None, "running"}:
        return verdict or state
    shown = format_state(state)
    return shown if verdict in {None, state} else f"{shown} ({verdict})"


def format_state(state: str | None) -> str | None:
    """Return the state for people: a failure stands out without colours, too."""
    return "FAILED" if state == "failed" else state


def _rank_condition(word: str) -> int:
    return CONDITION_ORDER.index(word) if word in CONDITION_ORDER else _UNKNOWN_RANK
