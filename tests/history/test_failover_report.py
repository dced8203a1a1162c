"""What the report says of past minutes, by what the tables hold. The tables are written without
Spark.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import HistoryError
from exporter.history import flows, moves_read
from exporter.history.moves import Moment, Why, replayed
from exporter.history.moves_told import Report, minutes_of, report
from tests.history.pasts import CHECKED, FLOW, NOON, SYNCS, Past, usual


def told(base: Path, *, since: float = 0, until: float = 600, groups: str = "") -> Report:
    minutes = minutes_of(NOON + since, NOON + until)
    flow = flows.named(base, "west->east", None)
    window = moves_read.Window(minutes[0], minutes[-1], frozenset(groups.split()))
    known = moves_read.known(base, flow, window)
    return report(known, minutes, *replayed(known, window.since, window.until))


def moments(found: Report, group: str = "billing", partition: int = 0) -> list[Moment | None]:
    (of,) = (at for at in found.partitions if (at.group, at.partition) == (group, partition))
    return [None if at is None else at[1] for at in of.moments]


def first(past: Past, base: Path) -> Moment:
    (at, *_) = moments(told(past.write(base)))
    assert at is not None
    return at


def test_a_group_that_only_an_early_sync_translates_would_have_read_nearly_everything_again(
    tmp_path: Path,
) -> None:
    found = told(usual().write(tmp_path))
    (billing,) = found.groups
    assert billing.curves.reread == [2699] * 11
    assert billing.curves.skip == [0] * 11
    assert billing.curves.missing == [0] * 11
    assert billing.figures["reread"].known == billing.figures["reread"].of == 11
    assert billing.unknown == {}
    at = first(usual(), tmp_path / "again")
    assert (at.landing, at.landing_from, at.met.best) == (1, "checkpoint", 2700)
