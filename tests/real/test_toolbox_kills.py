"""Six seeded kills of the toolbox; `make proofs` has one at every step of every verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import Lab
from lab.kills import toolbox

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

SEED = 1
KILLS = 6
CASES = ("rewind", "removal", "creation")


def test_a_verb_killed_at_any_step_leaves_nothing_half_done_after_the_next_one(
    lab: Lab, tmp_path: Path
) -> None:
    report = toolbox.run(lab, tmp_path, seed=SEED, kills=KILLS, expected=CASES)
    assert report.kills.total() == KILLS, "\n".join(report.lines())
    assert report.sound, "\n".join(report.lines())
