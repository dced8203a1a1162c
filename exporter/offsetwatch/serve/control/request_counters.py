"""Counters of control requests and of refused ones since this process started. For one thread."""

from __future__ import annotations

from collections import Counter

from offsetwatch.model.observations import ControlRequestsCounted


class ControlRequestCounters:
    """Counters of the control listener.

    hooks     alerts by outcome, and refused requests with alerts by reason
    refused   all other refused requests and connections, by reason
    """

    def __init__(self) -> None:
        self.hooks: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def seen(self) -> ControlRequestsCounted:
        """Return the current counts."""
        return ControlRequestsCounted(
            tuple(sorted(self.hooks.items())), tuple(sorted(self.refused.items()))
        )
