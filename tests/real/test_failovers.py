"""Ten forced failovers while plans are carried out; `make proofs` has five hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failovers.run import CUT, run, strikes

# A broker and two small processes: two minutes.
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

SEED = 11
FAILOVERS = 10


def test_nothing_is_done_twice_when_leaders_die_freeze_or_are_cut_off(tmp_path: Path) -> None:
    report = run(tmp_path, seed=SEED, failovers=FAILOVERS)
    assert report.failovers.total() == FAILOVERS, "\n".join(report.lines())
    assert report.sound, "\n".join(report.lines())


def test_replicas_that_take_no_notice_of_the_broker_are_found_out(tmp_path: Path) -> None:
    away = next(seed for seed in range(100) if strikes(seed, 1)[0].kind == CUT)
    report = run(tmp_path, seed=away, failovers=1, plant="careless")
    assert any("without an intent of its own" in line for line in report.found.double), "\n".join(
        report.lines()
    )
