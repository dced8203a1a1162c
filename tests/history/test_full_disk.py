"""The disk of the tables is full in the middle of a run of the pipeline."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, LabOptions
from lab.check.steady_commits import Commits
from lab.errors import LabError
from lab.faults.small_disk import small_disk
from lab.kills import history
from lab.kills.history import BUG, RATE_PER_S, Report, config_of
from lab.kills.seeded_kills import commit
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product

pytestmark = [
    pytest.mark.full,
    pytest.mark.real,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk"),
]

COMMITS = 600


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(LabOptions(connectors=False)) as running:
        yield running


def test_a_run_on_a_full_disk_loses_nothing_and_the_next_one_has_it_all(
    lab: Lab, tmp_path: Path
) -> None:
    name = f"full-{time.time_ns()}"
    commits = Commits(lab, offsets=f"{name}-offsets", syncs=f"{name}-syncs", rate_per_s=RATE_PER_S)
    with small_disk(tmp_path / "disk") as disk:
        assert disk.mounted
        base = disk.folder / "history"
        product = Product(
            lab,
            directory=tmp_path / "product",
            port=free_port(),
            config=config_of(lab, commits),
            extra=f'history: {{path: "{base}", heap: 700m}}\n',
        )
        with commits:
            commits.await_acknowledged(COMMITS)
            product.run_pipeline()
            commits.await_acknowledged(2 * COMMITS)
        disk.fill(None)
        with pytest.raises(LabError, match="No space left on device") as failed:
            product.run_pipeline()
        assert BUG not in str(failed.value)
        disk.free(None)
        product.run_pipeline()
        report = Report(seed=0, commit=commit())
        history.judge_bronze(report, lab, base, commits)
    assert report.acknowledged >= 2 * COMMITS
    results = (report.lost, report.doubled, report.strange, report.unsound)
    assert results == ([], 0, [], []), results
