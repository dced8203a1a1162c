"""How long something has been so, without a break: what a rule needs to tell chance from fact.

Not being able to look is no break.
"""

from __future__ import annotations

from collections.abc import Callable

ConditionKey = tuple[str, str, str, str]  # rule or finding, Connect cluster, connector, subject


class ConditionAges:
    """See the module."""

    def __init__(self) -> None:
        self._since: dict[ConditionKey, tuple[float, float]] = {}
        self._touched: set[ConditionKey] = set()

    def since(self, key: ConditionKey, now: float, level: float = 0.0) -> tuple[float, float]:
        """From when on it has been so, and the level that was given then."""
        self._touched.add(key)
        moment, was = self._since.get(key, (now, level))
        self._since[key] = (min(moment, now), was)  # the clock may have been set back
        return self._since[key]

    def has(self, key: ConditionKey) -> bool:
        """Was it so the last time?"""
        return key in self._since

    def settle(self, blind: Callable[[ConditionKey], bool]) -> None:
        """What nobody asked for since the last time is so no longer, unless nobody could see."""
        self._since = {
            key: told for key, told in self._since.items() if key in self._touched or blind(key)
        }
        self._touched = set()

    def remembered(self) -> tuple[tuple[ConditionKey, float, float], ...]:
        """All of it."""
        return tuple((key, moment, level) for key, (moment, level) in sorted(self._since.items()))

    def recall(self, told: tuple[tuple[ConditionKey, float, float], ...]) -> None:
        """Go on from there."""
        self._since = {key: (moment, level) for key, moment, level in told}
