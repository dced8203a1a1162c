"""Two seeded kills of the pipeline; `make proofs` has twenty, of any seed, and outages."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import Lab
from lab.kills import history

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.proof]

# One in a batch, one when Delta has a batch that Spark does not know to be done.
SEED = 5
KILLS = 2


def test_no_record_is_lost_or_doubled_when_the_pipeline_is_killed_in_the_middle_of_a_batch(
    lab: Lab, tmp_path: Path
) -> None:
    report = history.run(lab, tmp_path, seed=SEED, kills=KILLS)
    assert set(report.kills) == {history.IN_BATCH, history.AT_WRITE}
    assert report.sound, "\n".join(report.lines())
