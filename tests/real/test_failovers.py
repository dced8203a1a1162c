"""Ten forced failovers while plans are carried out; `make proofs` has five hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failovers.run import run

# A broker and two small processes: two minutes.
pytestmark = [pytest.mark.real, pytest.mark.slow]

SEED = 11
FAILOVERS = 10


def test_nothing_is_done_twice_when_leaders_die_freeze_or_are_cut_off(tmp_path: Path) -> None:
    report = run(tmp_path, seed=SEED, failovers=FAILOVERS)
    assert report.failovers.total() == FAILOVERS, "\n".join(report.lines())
    assert report.sound, "\n".join(report.lines())
