"""How well pauses are told from stalls: by what was learned, and by one threshold for all.

python -m tests.history.scoring --seeds 200 --first 5000
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import click
import numpy as np

from offsetwatch.history.baselines.model import fit_baseline
from offsetwatch.model.history_documents import Baseline
from tests.history.months import (
    JUDGED_WEEKS,
    KINDS,
    LEARNED_WEEKS,
    MONDAY,
    WEEK_S,
    ConnectorHistory,
    generate_history,
)

MONTH_S: Final = 30 * 86_400.0
FIXED_S: Final = {
    "5 min": 300.0,
    "30 min": 1800.0,
    "2 h": 7200.0,
    "6 h": 21_600.0,
    "24 h": 86_400.0,
}
LEARNED: Final = "learned"

Pause = tuple[float, float]


@dataclass
class Score:
    """Of some connectors: stalls there were, stalls found, and alarms without one."""

    stalls: int = 0
    found: int = 0
    false: int = 0
    connectors: int = 0

    def add(self, alarms: list[Pause], of: ConnectorHistory) -> None:
        self.connectors += 1
        self.stalls += len(of.stalls)
        self.found += sum(any(_meet(stall, alarm) for alarm in alarms) for stall in of.stalls)
        self.false += sum(not any(_meet(stall, alarm) for stall in of.stalls) for alarm in alarms)

    @property
    def recall(self) -> float:
        return self.found / self.stalls

    @property
    def false_a_month(self) -> float:
        """Per connector."""
        return self.false / self.connectors / (JUDGED_WEEKS * WEEK_S / MONTH_S)


def scores(first: int, seeds: int) -> dict[str, dict[str, Score]]:
    """By way of judging, and kind of connector. Learned anew each week, as `history baselines` is
    to be run at least that often.
    """
    results = {way: {kind: Score() for kind in KINDS} for way in (LEARNED, *FIXED_S)}
    for seed in range(first, first + seeds):
        for kind in KINDS:
            one = generate_history(kind, seed)
            results[LEARNED][kind].add(list(_learned(one)), one)
            for way, limit_s in FIXED_S.items():
                alarms = [item for item in _judged(one) if item[1] - item[0] > limit_s]
                results[way][kind].add(alarms, one)
    return results


def _judged(of: ConnectorHistory) -> Iterator[Pause]:
    """Pauses that end in the weeks that are judged."""
    begin = MONDAY + LEARNED_WEEKS * WEEK_S
    end = begin + JUDGED_WEEKS * WEEK_S
    times = of.advances.tolist()
    offset = int(np.searchsorted(of.advances, begin)) - 1
    yield from zip(times[offset:], [*times[offset + 1 :], end], strict=True)


def _learned(of: ConnectorHistory) -> Iterator[Pause]:
    begin = MONDAY + LEARNED_WEEKS * WEEK_S
    weeks: dict[int, Baseline] = {}
    for week in range(JUDGED_WEEKS):
        known = begin + week * WEEK_S
        built = fit_baseline("lab", of.kind, of.advances[of.advances < known], known)
        assert isinstance(built, Baseline)
        weeks[week] = built
    for since, until in _judged(of):
        if until - since < 60.0:
            continue
        # What is valid when it has lasted too long is what was learned last by then.
        of_weeks = {
            min(max(int((moment - begin) // WEEK_S), 0), JUDGED_WEEKS - 1)
            for moment in (since, until)
        }
        if any(weeks[week].out_of_the_ordinary(since, until) for week in of_weeks):
            yield since, until


def _meet(one: Pause, other: Pause) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def summed(result: dict[str, Score]) -> Score:
    return Score(
        *(
            sum(getattr(score, name) for score in result.values())
            for name in ("stalls", "found", "false", "connectors")
        )
    )


def lines(result: dict[str, dict[str, Score]]) -> Iterator[str]:
    """A table for people: recall, and false alarms per connector and month."""
    yield f"{'':10}{'all':>14}" + "".join(f"{kind:>14}" for kind in KINDS)
    for way, kinds in result.items():
        row = [summed(kinds), *kinds.values()]
        yield f"{way:10}" + "".join(
            f"{score.recall:>8.3f} {score.false_a_month:>5.{2 if score.false_a_month < 10 else 0}f}"
            for score in row
        )


@click.command()
@click.option("--first", default=5000, show_default=True, help="The first seed.")
@click.option("--seeds", default=100, show_default=True, help="How many.")
def main(first: int, seeds: int) -> None:
    """Score what is learned against fixed thresholds, on months with stalls that are known."""
    result = scores(first, seeds)
    total, last = summed(result[LEARNED]), first + seeds - 1
    click.echo(f"seeds {first} to {last}: {total.connectors} connectors, {total.stalls} stalls")
    for line in lines(result):
        click.echo(line)


if __name__ == "__main__":
    main()
