"""Settings of the judge: one evaluation interval for all connectors, and texts of findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ADDRESS_CHARS_MAX: Final = 80  # in a headline
INTERVALS_OF_EVIDENCE: Final = 3  # one missed flush is chance, two are bad luck, three are a fact


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Settings of verdicts and findings.

    interval_s    how often progress is sampled; a connector is expected to flush its offsets at
                  least as often
    window        number of intervals for which samples are retained
    addresses     addresses of clusters, by "kafka" or "connect" and name
    runbooks_url  address of the folder of runbooks; None: findings name no runbook
    """

    interval_s: float = 60.0
    window: int = 10
    runbooks_url: str | None = None
    addresses: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def address(self, kind: str, name: str) -> str:
        """Return ` (host:port)` of a cluster; "" if unknown or over ADDRESS_CHARS_MAX."""
        address = self.addresses.get((kind, name), "")
        return f" ({address})" if 0 < len(address) <= ADDRESS_CHARS_MAX else ""

    @property
    def patience_s(self) -> float:
        """Return how many seconds without progress count as evidence: three intervals."""
        return INTERVALS_OF_EVIDENCE * self.interval_s
