"""Planted bugs of tests/sim: they are put into live objects of the simulation, not into files."""

from __future__ import annotations

from tests.planted.results import Row
from tests.planted.trial import NOT_CAUGHT, PER_PUSH
from tests.sim.bugs import BUGS, Bug, hunted

AREA = "remedy"
TEST = "tests/sim/test_campaign.py::test_a_bug_that_is_planted_is_caught_by_an_invariant"


def simulate(bug: Bug) -> Row:
    """Hunt one bug through schedules, as tests/sim/test_campaign.py does."""
    caught, name = hunted(bug), sentence(bug)
    if caught.by is None:
        return Row(name, AREA, NOT_CAUGHT, f"not in {caught.after} schedules")
    test = f"{TEST}[{bug.name.replace(' ', '_')}]"
    return Row(name, AREA, PER_PUSH, f"`{test}`, {caught.by} in schedule {caught.after}")


def sentence(bug: Bug) -> str:
    """Return the name of a bug as its row has it."""
    return bug.name[:1].upper() + bug.name[1:]


SENTENCES = tuple(map(sentence, BUGS))
