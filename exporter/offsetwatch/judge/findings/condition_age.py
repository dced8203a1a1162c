"""Ages of conditions: since when each condition of a rule has held without a break.

Rules use them to distinguish chance from fact. An unavailable input is no break.
"""

from __future__ import annotations

from collections.abc import Callable

ConditionKey = tuple[str, str, str, str]  # rule or finding, Connect cluster, connector, subject


class ConditionAges:
    """Ages of conditions, by rule or finding, Connect cluster, connector and subject."""

    def __init__(self) -> None:
        self._since: dict[ConditionKey, tuple[float, float]] = {}
        self._touched: set[ConditionKey] = set()

    def since(self, key: ConditionKey, now: float, level: float = 0.0) -> tuple[float, float]:
        """Return since when a condition holds, and the level that was given then.

        Mark the condition as checked.
        """
        self._touched.add(key)
        moment, was = self._since.get(key, (now, level))
        self._since[key] = (min(moment, now), was)  # the clock may have been set back
        return self._since[key]

    def has(self, key: ConditionKey) -> bool:
        """Check whether a condition is recorded: it held when it was last checked."""
        return key in self._since

    def settle(self, blind: Callable[[ConditionKey], bool]) -> None:
        """Remove the conditions that were not checked since the last call, except hidden ones.

        `blind` says whether an unavailable input hides a condition.
        """
        self._since = {
            key: told for key, told in self._since.items() if key in self._touched or blind(key)
        }
        self._touched = set()

    def remembered(self) -> tuple[tuple[ConditionKey, float, float], ...]:
        """Return all conditions, to persist across restarts."""
        return tuple((key, moment, level) for key, (moment, level) in sorted(self._since.items()))

    def recall(self, told: tuple[tuple[ConditionKey, float, float], ...]) -> None:
        """Restore persisted conditions."""
        self._since = {key: (moment, level) for key, moment, level in told}
