"""Months of connectors that never were: when they advanced, and where they stalled.

What each is like is drawn, and so are its stalls; a seed says everything. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * DAY_S
MONDAY: Final = 1_699_833_600.0  # 2023-11-13
LEARNED_WEEKS: Final = 8
JUDGED_WEEKS: Final = 5

Floats = npt.NDArray[np.float64]
Rate = Callable[[Floats], Floats]


@dataclass(frozen=True)
class ConnectorHistory:
    """One connector: its advances, and its stalls while it was judged, which are known here."""

    kind: str
    advances: Floats
    stalls: tuple[tuple[float, float], ...]


def generate_history(kind: str, seed: int) -> ConnectorHistory:
    """Thirteen weeks. It also stalled while it was learned from, and nobody says when."""
    rng = np.random.default_rng([seed, sorted(KINDS).index(kind)])
    learned, end = LEARNED_WEEKS * WEEK_S, (LEARNED_WEEKS + JUDGED_WEEKS) * WEEK_S
    advances = KINDS[kind](rng, end) + MONDAY
    advances, _ = _stalled(rng, kind, advances, MONDAY, MONDAY + learned)
    advances, stalls = _stalled(rng, kind, advances, MONDAY + learned, MONDAY + end)
    return ConnectorHistory(kind, advances, tuple(stalls))


def _stalled(
    rng: np.random.Generator, kind: str, advances: Floats, begin: float, end: float
) -> tuple[Floats, list[tuple[float, float]]]:
    """One to three, each long enough to matter: fifteen advances and more are missing, or ten of
    one that has few, a night of a nightly one, half a day of one that comes in bursts.
    """
    stalls: list[tuple[float, float]] = []
    for _ in range(int(rng.integers(1, 4))):
        for _ in range(50):
            offset = int(rng.integers(0, len(advances) - 1))
            since = advances[offset] + 1e-3
            until = _until(rng, kind, advances, offset)
            apart = all(b + DAY_S < since or until < a - DAY_S for a, b in stalls)
            if begin <= since <= end - 3 * DAY_S and until <= end and apart:
                stalls.append((since, until))
                break
    retained = np.ones(len(advances), bool)
    for since, until in stalls:
        retained &= ~((advances > since) & (advances < until))
    return advances[retained], sorted(stalls)


def _until(rng: np.random.Generator, kind: str, advances: Floats, offset: int) -> float:
    since = advances[offset]
    if kind == "nightly":
        return float(since + rng.uniform(1.3, 2.5) * DAY_S)
    if kind == "bursty":
        return float(since + rng.uniform(12, 48) * HOUR_S)
    missing = int(rng.integers(10, 25) if kind == "sparse" else rng.integers(15, 60))
    if offset + 1 + missing >= len(advances):
        return float("inf")
    until = max(advances[offset + 1 + missing], since + 600.0)
    if rng.uniform() < 0.3:
        until = max(until, since + rng.uniform(1, 24) * HOUR_S)
    return float(until)


# --- how they advance, seconds from a Monday -----------------------------------------------------


def _thinned(rng: np.random.Generator, end: float, rate: Rate, most: float) -> Floats:
    """By chance, so many an hour."""
    times = np.sort(rng.uniform(0, end, rng.poisson(most * end / HOUR_S)))
    return times[rng.uniform(0, 1, len(times)) < rate(times) / most]


def _by_day(times: Floats, peak: float, low: float, weekend: float) -> Floats:
    hour, day = (times / HOUR_S) % 24, (times // DAY_S) % 7
    result = low + (peak - low) * np.clip(np.sin((hour - 6) / 14 * np.pi), 0, None)
    return np.where(day >= 5, result * weekend, result)


def _steady(rng: np.random.Generator, end: float) -> Floats:
    step = float(rng.choice([10, 30, 60]))
    count = int(end / step)
    return np.sort(np.arange(count) * step + rng.normal(0, step * 0.05, count)).clip(0)


def _seasonal(rng: np.random.Generator, end: float) -> Floats:
    peak, low, weekend = rng.uniform(30, 60), rng.uniform(0.5, 3), rng.uniform(0.1, 0.6)
    return _thinned(rng, end, lambda item: _by_day(item, peak, low, weekend), peak)


def _generate_office_hours(rng: np.random.Generator, end: float) -> Floats:
    peak = rng.uniform(6, 20)
    return _thinned(rng, end, lambda item: _by_day(item, peak, 0.0, 0.0), peak)


def _nightly(rng: np.random.Generator, end: float) -> Floats:
    hour = rng.uniform(0, 24) * HOUR_S
    runs = []
    for day in range(int(end / DAY_S)):
        begin = day * DAY_S + hour + abs(rng.normal(0, 900))
        runs.append(begin + np.sort(rng.uniform(0, 900, rng.integers(3, 30))))
    times = np.sort(np.concatenate(runs))
    return times[times < end]


def _sparse(rng: np.random.Generator, end: float) -> Floats:
    rate = rng.uniform(3, 10) / 24
    return _thinned(rng, end, lambda item: np.full(item.shape, rate), rate)


def _bursty(rng: np.random.Generator, end: float) -> Floats:
    rate = rng.uniform(0.5, 3)
    begins = _thinned(rng, end, lambda item: np.full(item.shape, rate), rate)
    bursts = [begin + np.cumsum(rng.exponential(20, rng.geometric(1 / 30))) for begin in begins]
    times = np.sort(np.concatenate(bursts))
    return times[times < end]


def _drifting(rng: np.random.Generator, end: float) -> Floats:
    first, weekly = rng.uniform(4, 20), float(rng.choice([0.85, 1.15, 1.25]))
    most = float(max(first, first * weekly ** (end / WEEK_S)))
    return _thinned(rng, end, lambda item: first * weekly ** (item / WEEK_S), most)


KINDS: Final[dict[str, Callable[[np.random.Generator, float], Floats]]] = {
    "steady": _steady,
    "seasonal": _seasonal,
    "office": _generate_office_hours,
    "nightly": _nightly,
    "sparse": _sparse,
    "bursty": _bursty,
    "drifting": _drifting,
}
