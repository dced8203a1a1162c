"""Seeded kills of the daemon inside plans; `make proofs` has more, and kills of workers too."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import Lab
from lab.kills import remediation

pytestmark = [pytest.mark.real, pytest.mark.slow]

# The first ten of this seed come before, during and behind the settling, some to one plan.
SEED = 176


def check(lab: Lab, directory: Path, kills: int) -> None:
    report = remediation.run(lab, directory, seed=SEED, kills=kills, workers=0)

    assert report.kills == {remediation.DAEMON: kills}, "\n".join(report.lines())
    assert report.sound, "\n".join(report.lines())


def test_no_record_is_lost_when_the_daemon_dies_inside_a_plan(lab: Lab, tmp_path: Path) -> None:
    check(lab, tmp_path, 1)


# Four to eight minutes: a request in doubt is waited for.
@pytest.mark.full
def test_no_record_is_lost_and_no_connector_forgotten_when_the_daemon_dies_inside_plans() -> None:
    with remediation.lab_and_folder() as (lab, directory):
        check(lab, directory, 10)


# It dies at the copy of the row, and as the connector is to run again.
ROW_SEED = 15


@pytest.mark.full
def test_no_row_of_a_table_is_lost_when_the_daemon_dies_inside_plans() -> None:
    with remediation.lab_and_folder(table=True) as (lab, directory):
        report = remediation.run(lab, directory, seed=ROW_SEED, kills=2, workers=0, table=True)

    assert report.kills == {remediation.DAEMON: 2}, "\n".join(report.lines())
    assert report.sound, "\n".join(report.lines())
