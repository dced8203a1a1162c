"""A small part of what `make proofs` simulates (python -m tests.sim), and that the simulation would
find what is to be found.
"""

from __future__ import annotations

import pytest

from tests.fakes.connect_model import Fault, How
from tests.sim.bugs import BUGS, hunted
from tests.sim.campaign import at_random, crashes
from tests.sim.schedule_runner import carried_out
from tests.sim.schedules import Happening, Schedule, named, random_schedule
from tests.sim.world import CASES

SEED = 8


@pytest.mark.parametrize("case", CASES)
def test_left_alone_every_plan_succeeds_and_is_the_same_run_twice(case):
    run = carried_out(Schedule(case))
    assert run.broken is None
    assert run.ending == "succeeded"
    assert carried_out(Schedule(case)).digest == run.digest


def test_a_schedule_is_found_again_by_its_name():
    for schedule in (
        random_schedule(5),
        Schedule(CASES[0], (7, 9)),
        Schedule(CASES[3]),
        Schedule(CASES[1], frozen=(55, 600.0)),
    ):
        assert named(schedule.name) == schedule


LATE = ((1, Fault(How.LATE, delay_s=60.0)),)
DOUBLED = (
    Schedule(CASES[0], faults=LATE, happenings=(Happening(1.0, "stop"),)),
    Schedule(CASES[3], faults=LATE, happenings=(Happening(1.0, "stop"),)),
    Schedule(
        CASES[1],
        faults=((2, Fault(How.LATE, delay_s=60.0)),),
        happenings=(Happening(45.0, "resume"),),
        want=(2.5, "abort"),
    ),
)


@pytest.mark.parametrize("schedule", DOUBLED)
def test_a_request_in_doubt_is_waited_for_where_an_operator_has_done_the_same_meanwhile(schedule):
    assert carried_out(schedule).broken is None


@pytest.mark.parametrize("moment", [7, 53, 63, 76])
def test_who_stands_still_and_wakes_after_all_deadlines_leaves_nothing_stopped(moment):
    run = carried_out(Schedule(CASES[0], frozen=(moment, 600.0)))
    assert run.broken is None
    assert run.ending == ("restored" if moment == 53 else "succeeded")


@pytest.mark.slow
def test_wherever_processes_end_or_stand_still_nothing_is_lost_or_left_without_an_open_plan():
    report = crashes(SEED, share=20)
    assert report.broken == []
    assert all(count > 10 for count in report.points.values())
    assert report.runs.total() > 400


@pytest.mark.slow
def test_whatever_goes_wrong_beside_that_nothing_is_lost_either():
    report = at_random(SEED, 500)
    assert report.broken == []
    assert set(report.endings) >= {"succeeded", "restored", "unchanged", "parked", "ineffective"}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "_"))
def test_a_bug_that_is_planted_is_caught_by_an_invariant(bug):
    caught = hunted(bug)
    assert caught.by is not None, f"{bug.name}: not in {caught.after} schedules"
