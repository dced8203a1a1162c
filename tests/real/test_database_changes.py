"""Seeded changes of Debezium's offsets over databases; `make proofs` has two hundred."""

from __future__ import annotations

import pytest

from lab.kills import database_changes

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.full]

# Each database has a change that is done, and one that is refused; each verb occurs.
SEED = 36
CHANGES = 6


def test_a_change_is_done_only_if_its_task_goes_on_with_what_the_source_has() -> None:
    with database_changes.lab_and_folder() as (lab, directory):
        report = database_changes.run(lab, directory, seed=SEED, changes=CHANGES)

    assert report.sound, "\n".join(report.lines())
    assert report.changes.total() == CHANGES
    outcomes = {(name.split()[0], name.split()[-1]) for name in report.changes}
    assert len(outcomes) == 4, report.changes
    assert {name.split()[1] for name in report.changes} == set(database_changes.VERBS)
