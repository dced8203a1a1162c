"""Baseline of a connector, computed from the times at which it advanced. Arithmetic only; no Spark.

It has three steps, each on the remainder of the step before:

* Rates by hour of the week. Newer weeks weigh more, and each hour is drawn a little to the same
  hour of other days, as a week or two are few.
* A level for each week, so that a connector that grows or shrinks is measured by the level of that
  time, and expected to meet the level of now.
* Limits of pauses: from the longest of each day, counted in expected advances, and the longest of
  each week in seconds. The limit lies where, by the spread of these, one pause in a few months
  would lie. Quartiles decide, so one stall in the history changes little; what lies beyond the
  limit is left out, and all steps run again.

The longest of a number of pauses follows Gumbel's distribution, nearly whatever the pauses are: the
constants are Gumbel's.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from offsetwatch.model.history_documents import (
    HOUR_S,
    HOURS,
    QUANTILES,
    Baseline,
    InsufficientBaseline,
)

DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * DAY_S
WEEKS_MIN: Final = 4
WEEKS_MAX: Final = 8

_ROUNDS: Final = 3
_HALF_LIFE_WEEKS: Final = 2.0
_SHRINKAGE_WEEKS: Final = 1.0  # as strongly as one week of its own
_LEVEL_PRIOR_ADVANCES: Final = 10.0  # so many advances more or less do not make another level
_MONDAY_HOURS: Final = 96
# Gumbel: the median lies so many scales above the mode, quartiles so far apart, and half of that.
_GUMBEL_MEDIAN: Final = 0.3665
_GUMBEL_QUARTILE_RANGE: Final = 1.5725
_GUMBEL_MEDIAN_TO_QUARTILE: Final = 0.6931
# So many scales above: of daily maxima one in five months, of weekly ones one in a few.
_DAYS_LIMIT: Final = 5.0
_WEEKS_LIMIT: Final = 2.5
# However alike the longest pauses were.
_SCALE_MIN: Final = 0.05
_DAYS_FACTOR_MIN: Final = 1.2
_WEEKS_FACTOR_MIN: Final = 1.3
_DAYS_MIN: Final = 8

Floats = npt.NDArray[np.float64]
Lags = tuple[float, float, float]
"""By QUANTILES, in records."""


def fit_baseline(
    connect_cluster: str, connector: str, advances: Floats, until: float
) -> Baseline | InsufficientBaseline:
    """Return the baseline of one connector, or InsufficientBaseline.

    `advances` are Unix seconds in order, all before `until`. A baseline needs WEEKS_MIN whole
    weeks.
    """
    weeks = 0 if not len(advances) else int((until - advances[0]) // WEEK_S)
    begin = until - min(weeks, WEEKS_MAX) * WEEK_S
    times = advances[advances >= begin]
    if weeks >= WEEKS_MIN and len(times) >= 2:
        return _build_baseline(connect_cluster, connector, times, begin, until)
    had = weeks if weeks < WEEKS_MIN else 0
    return InsufficientBaseline(
        connect_cluster=connect_cluster, connector=connector, had=had, required=WEEKS_MIN
    )


def compute_commit_intervals(commits: Floats) -> tuple[float, float, float] | None:
    """Return QUANTILES of the seconds between commits, whose times are in order; None below two."""
    if len(commits) < 2:
        return None
    half, most, nearly_all = (float(item) for item in np.quantile(np.diff(commits), QUANTILES))
    return half, most, nearly_all


def compute_lag_baseline(times: Floats, lag: Floats, until: float) -> tuple[Lags, ...] | None:
    """Return QUANTILES of a flow's lag for each hour of the week.

    An hour counts together with the hours beside it. Each week has its own quantiles, and the
    result is their median over the weeks, so that a week of standstill changes little. None if an
    hour was not sampled in WEEKS_MIN weeks.

    times, lag    Unix seconds and records of each sample
    """
    begin = until - WEEKS_MAX * WEEK_S
    there = (times >= begin) & (times < until)
    times, lag = times[there], lag[there]
    week = ((until - times) // WEEK_S).astype(int)
    hour = ((times // HOUR_S).astype(int) - _MONDAY_HOURS) % HOURS
    baseline: list[Lags] = []
    for slot in range(HOURS):
        near = np.isin(hour, [(slot + beside) % HOURS for beside in (-1, 0, 1)])
        weeks = [lag[near & (week == number)] for number in range(WEEKS_MAX)]
        quantiles = [np.quantile(sampled, QUANTILES) for sampled in weeks if len(sampled)]
        if len(quantiles) < WEEKS_MIN:
            return None
        half, most, nearly_all = (float(number) for number in np.median(quantiles, axis=0))
        baseline.append((half, most, nearly_all))
    return tuple(baseline)


def _build_baseline(
    connect_cluster: str, connector: str, times: Floats, begin: float, until: float
) -> Baseline:
    silent = np.empty((0, 2))
    pauses = np.diff(times)
    week_edges = np.arange(begin, until + 1.0, WEEK_S)
    day_edges = np.arange(begin, until + 1.0, DAY_S)
    for _ in range(_ROUNDS):
        rates = _rates(times, begin, until, silent)
        levels = _levels(rates, times, week_edges, silent)
        level = levels[_locate_intervals(week_edges, times[:-1])]
        missed = np.diff(_sum_expected(rates, times)) * level
        limit = _limit_of_days(_find_longest_pauses(day_edges, times, missed))
        limit_s = _limit_of_weeks(_find_longest_pauses(week_edges, times, pauses))
        far = (missed > limit) | (pauses > limit_s)
        silent = np.column_stack((times[:-1][far], times[1:][far]))
    typical = missed[~far] if not far.all() else missed
    half, most, nearly_all = (float(item) for item in np.quantile(typical, QUANTILES))
    return Baseline(
        connect_cluster=connect_cluster,
        connector=connector,
        since=begin,
        until=until,
        advances=len(times),
        per_hour=tuple(float(rate) for rate in rates * levels[-1]),
        pause_advances=limit if np.isfinite(limit) else None,
        pause_s=limit_s if np.isfinite(limit_s) else None,
        quantiles=(half, most, nearly_all),
    )


def _rates(times: Floats, begin: float, until: float, silent: Floats) -> Floats:
    """Return advances per hour, for each hour of the week."""
    first, last = int(begin // HOUR_S), int(np.ceil(until / HOUR_S))
    hours = np.arange(first, last)
    count = np.bincount((times // HOUR_S).astype(int) - first, minlength=len(hours)).astype(float)
    watched = _overlap(hours, begin / HOUR_S, until / HOUR_S)
    for a, b in silent / HOUR_S:
        watched -= _overlap(hours, a, b)
    weight = 0.5 ** ((until / HOUR_S - hours) / HOURS / _HALF_LIFE_WEEKS)
    slot = (hours - _MONDAY_HOURS) % HOURS
    counts = np.bincount(slot, weight * count, HOURS).astype(np.float64)
    watched_weeks = np.bincount(slot, weight * np.clip(watched, 0.0, None), HOURS).astype(
        np.float64
    )
    typical = _average_like_days(counts, watched_weeks)
    rates: Floats = (counts + _SHRINKAGE_WEEKS * typical) / (watched_weeks + _SHRINKAGE_WEEKS)
    return rates


def _average_like_days(counts: Floats, times: Floats) -> Floats:
    """Return the rate of each hour, averaged over working days, and over Saturday and Sunday."""
    typical = np.zeros(HOURS)
    hour, weekend = np.arange(HOURS) % 24, np.arange(HOURS) // 24 >= 5
    for days in (weekend, ~weekend):
        for number in range(24):
            of_hour = days & (hour == number)
            typical[of_hour] = counts[of_hour].sum() / max(times[of_hour].sum(), 1e-9)
    return typical


def _levels(rates: Floats, times: Floats, edges: Floats, silent: Floats) -> Floats:
    """Return for each week the ratio of actual to expected advances."""
    counts = np.histogram(times, edges)[0]
    expected = np.diff(_sum_expected(rates, edges))
    for a, b in silent:
        expected -= np.diff(_sum_expected(rates, np.clip(edges, a, b)))
    expected = np.clip(expected, 0.0, None)
    levels: Floats = (counts + _LEVEL_PRIOR_ADVANCES) / (expected + _LEVEL_PRIOR_ADVANCES)
    return levels


def _sum_expected(rates: Floats, times: Floats) -> Floats:
    """Return the advances expected since the first Monday."""
    weeks, hours = np.divmod(times / HOUR_S - _MONDAY_HOURS, HOURS)
    whole = np.minimum(hours.astype(int), HOURS - 1)
    sums = np.concatenate(([0.0], np.cumsum(rates)))
    expected: Floats = weeks * sums[-1] + sums[whole] + rates[whole] * (hours - whole)
    return expected


def _locate_intervals(edges: Floats, times: Floats) -> npt.NDArray[np.int64]:
    """Return for each time the index of the interval between two edges that contains it."""
    indexes = np.searchsorted(edges, times, "right").astype(np.int64)
    return np.asarray(np.clip(indexes - 1, 0, len(edges) - 2), np.int64)


def _find_longest_pauses(edges: Floats, times: Floats, pauses: Floats) -> Floats:
    """Return the longest pause that begins between each two edges, if one does."""
    longest = np.full(len(edges) - 1, -np.inf)
    np.maximum.at(longest, _locate_intervals(edges, times[:-1]), pauses)
    there: Floats = longest[np.isfinite(longest)]
    return there


def _limit_of_days(longest: Floats) -> float:
    if len(longest) < _DAYS_MIN:
        return float("inf")
    low, middle, high = np.quantile(longest, (0.25, 0.5, 0.75))
    scale = max((high - low) / _GUMBEL_QUARTILE_RANGE, _SCALE_MIN * middle)
    beyond = middle + (_DAYS_LIMIT - _GUMBEL_MEDIAN) * scale
    return float(max(beyond, _DAYS_FACTOR_MIN * np.quantile(longest, 0.9)))


def _limit_of_weeks(longest: Floats) -> float:
    """Return the limit from the values below the median: of eight weeks, a stall is an eighth."""
    if len(longest) < WEEKS_MIN:
        return float("inf")
    low, middle = np.quantile(longest, (0.25, 0.5))
    scale = max((middle - low) / _GUMBEL_MEDIAN_TO_QUARTILE, _SCALE_MIN * middle)
    return float(max(middle + _WEEKS_LIMIT * scale, _WEEKS_FACTOR_MIN * middle))


def _overlap(hours: npt.NDArray[np.int64], begin: float, end: float) -> Floats:
    """Return the part of each hour that lies between two times, in hours since 1970."""
    overlap: Floats = np.clip(np.minimum(hours + 1, end) - np.maximum(hours, begin), 0.0, None)
    return overlap
