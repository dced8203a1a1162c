"""What history has taught: a pause that is none of the usual ones is told without eight days."""

from __future__ import annotations

import pytest

from offsetwatch.model.findings import Verdict
from offsetwatch.model.history_documents import HOURS, TOO_OLD_S, Baseline, Baselines
from offsetwatch.model.observations import BaselinesRead
from tests.scenarios.simulation import HOUR, MINUTE, Estate, Rows, every

pytestmark = pytest.mark.slow


def taught(estate: Estate, *, ago_s: float = 0.0, **changes) -> None:
    """Every ten minutes, and never three missed."""
    until = estate.world.now - ago_s
    known = {
        "connect_cluster": "lab",
        "connector": "rows",
        "since": until - 8 * 7 * 24 * HOUR,
        "until": until,
        "advances": 8000,
        "per_hour": (6.0,) * HOURS,
        "pause_advances": 3.0,
        "pause_s": None,
        "quantiles": (1.0, 1.1, 2.0),
    }
    of = Baseline(**{**known, **changes})
    estate.world.see(BaselinesRead(Baselines(made_at=until, until=until, connectors=(of,))))


@pytest.fixture
def estate() -> Estate:
    return Estate(Rows(name="rows", rate=every(10 * MINUTE, 5.0))).go(HOUR)


def test_a_pause_that_misses_more_than_any_did_is_silent(estate):
    taught(estate)
    estate.go(HOUR)
    assert estate.verdict("rows").verdict is not Verdict.SILENT
    estate.actors[0].hangs = True
    took_s = estate.until("rows", Verdict.SILENT, HOUR)
    assert took_s > 20 * MINUTE
    assert "in its history no pause missed 3.0" in estate.verdict("rows").reason
    estate.actors[0].hangs = False
    estate.until("rows", Verdict.OK, 15 * MINUTE)


def test_a_pause_that_lasts_longer_than_any_did_is_silent_by_night_too(estate):
    taught(estate, per_hour=(0.0,) * HOURS, pause_s=45 * MINUTE)
    estate.actors[0].hangs = True
    assert estate.until("rows", Verdict.SILENT, HOUR) > 35 * MINUTE
    assert "no pause lasted for 45 min" in estate.verdict("rows").reason


@pytest.mark.parametrize("how", ["never taught", "too old", "of another", "damaged", "withdrawn"])
def test_without_a_usable_baseline_no_connector_is_silent(estate, how):
    match how:
        case "too old":
            taught(estate, ago_s=TOO_OLD_S + HOUR)
        case "of another":
            taught(estate, connector="others")
        case "damaged":
            taught(estate)
            estate.world.see(BaselinesRead(None, damaged=True))
        case "withdrawn":
            taught(estate)
            estate.world.see(BaselinesRead(None))
    estate.actors[0].hangs = True
    for _ in estate.run(3 * HOUR):
        assert estate.verdict("rows").verdict is not Verdict.SILENT


def test_what_an_operator_stopped_is_idle_however_long(estate):
    taught(estate)
    estate.actors[0].state = "stopped"
    for _ in estate.run(2 * HOUR):
        assert estate.verdict("rows").verdict is not Verdict.SILENT


def test_a_fresh_daemon_says_so_after_three_intervals_without_having_observed_it_move(estate):
    taught(estate)
    estate.actors[0].hangs = True
    estate.documents.clear()
    estate.restart_daemon(down_s=2 * HOUR)
    estate.until("rows", Verdict.SILENT, 5 * MINUTE)
