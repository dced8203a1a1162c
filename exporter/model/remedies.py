"""What guarded remediation says of itself, for metrics and pages. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RemedySeen:
    """As of one round of its loop; an observation like those of observations.py.

    at              when that was
    mode            observe, propose or auto, as it is in force
    plans           (state, how many)
    actions         (Connect cluster, connector, action, how it ended, how often) since the start
    blocked         (Connect cluster, connector, action, guard, how often) since the start
    stopped_by_us   (Connect cluster, connector, since when) of those that we hold stopped
    """

    at: float
    mode: str
    plans: tuple[tuple[str, int], ...] = ()
    actions: tuple[tuple[str, str, str, str, int], ...] = ()
    blocked: tuple[tuple[str, str, str, str, int], ...] = ()
    stopped_by_us: tuple[tuple[str, str, float], ...] = ()
