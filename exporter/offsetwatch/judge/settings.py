"""How verdicts and findings are timed: one rhythm, and nothing per connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ADDRESS_CHARS_MAX: Final = 80  # in a headline
INTERVALS_OF_EVIDENCE: Final = 3  # one missed flush is chance, two are bad luck, three are a fact


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """See the module.

    interval_s    how often progress is sampled; a connector is expected to flush its offsets at
                  least as often
    window        how many intervals of samples are kept
    addresses     of clusters, by "kafka" or "connect" and name
    runbooks_url  the address of the folder of runbooks; None: findings name no runbook
    """

    interval_s: float = 60.0
    window: int = 10
    runbooks_url: str | None = None
    addresses: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def address(self, kind: str, name: str) -> str:
        """Return ` (host:port)` of a cluster; nothing where it is not known or fills a line."""
        found = self.addresses.get((kind, name), "")
        return f" ({found})" if 0 < len(found) <= ADDRESS_CHARS_MAX else ""

    @property
    def patience_s(self) -> float:
        """How long nothing may happen before that means something."""
        return INTERVALS_OF_EVIDENCE * self.interval_s
