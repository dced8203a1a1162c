"""What was sent here, and what of it was refused, since this process started. For one thread."""

from __future__ import annotations

from collections import Counter

from offsetwatch.model.observations import ControlRequestsCounted


class ControlRequestCounters:
    """hooks: alerts by what became of them, and requests with alerts that were refused, by reason.
    refused: all other requests and connections that were refused, by reason.
    """

    def __init__(self) -> None:
        self.hooks: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def seen(self) -> ControlRequestsCounted:
        """As of now."""
        return ControlRequestsCounted(
            tuple(sorted(self.hooks.items())), tuple(sorted(self.refused.items()))
        )
