"""A clock that a test moves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class VirtualClock:
    """Unix seconds, standing still until told otherwise."""

    at: float = 1_800_000_000.0

    def now(self) -> float:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class SetClock:
    """One that somebody has set: it is ahead of another by so much."""

    of: VirtualClock
    by_s: float = 0.0

    def now(self) -> float:
        return self.of.now() + self.by_s
