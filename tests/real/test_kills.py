"""Ten seeded kills under load; `make proofs` has fifty, of any seed."""

from __future__ import annotations

import pytest

from lab import chaos

pytestmark = [pytest.mark.real, pytest.mark.slow]

# Its first ten blows meet both brokers, both workers and the daemon.
SEED = 3
KILLS = 10


def test_no_value_that_was_not_true_is_served_while_brokers_workers_and_the_daemon_are_killed() -> (
    None
):
    with chaos.bed() as (lab, product):
        report = chaos.run(lab, product, seed=SEED, kills=KILLS)
    assert set(report.kills) == set(chaos.VICTIMS)
    assert report.sound, "\n".join(report.lines())
