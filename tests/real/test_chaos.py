"""Twenty seeded rounds of faults under load; `make proofs` has two hundred, of any seed."""

from __future__ import annotations

import pytest

from lab.faults import chaos
from lab.faults.kinds import Kind

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

# Begins with the death of the daemon, so that one process lives through all others, and sets its
# clock forward by a year; a broker is away for half a minute.
SEED = 184
ROUNDS = 20


def test_whatever_goes_wrong_nothing_untrue_is_served_and_all_comes_back_by_itself() -> None:
    with chaos.run_arena() as environment:
        report = chaos.run(environment, seed=SEED, rounds=ROUNDS)
    assert set(report.rounds) == set(Kind), "\n".join(report.lines())
    assert report.sound, "\n".join(report.lines())
