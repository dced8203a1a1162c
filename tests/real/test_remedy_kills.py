"""Ten seeded kills of the daemon inside plans; `make proofs` has more, and kills of workers too."""

from __future__ import annotations

import pytest

from lab import remedy_kills

# Four to eight minutes: a request in doubt is waited for.
pytestmark = [pytest.mark.real, pytest.mark.slow]

# Its first ten come before, during and behind the settling, some of them to one plan.
SEED = 176
KILLS = 10


def test_no_record_is_lost_and_no_connector_forgotten_when_the_daemon_dies_inside_plans() -> None:
    with remedy_kills.bed() as (lab, directory):
        report = remedy_kills.run(lab, directory, seed=SEED, kills=KILLS, workers=0)
    assert report.kills == {remedy_kills.DAEMON: KILLS}, "\n".join(report.lines())
    assert report.sound, "\n".join(report.lines())
