"""Bugs, planted one at a time into the code that is simulated: each must be caught by an invariant.
A simulation that finds nothing proves nothing unless it would have found these.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.fakes.connect_model import Fault, How
from tests.sim import plants
from tests.sim.plants import Put
from tests.sim.schedule_runner import Run, carried_out, singles
from tests.sim.schedules import FAILOVER, Happening, Schedule, random_schedule

SINK, MIRROR = "skip at a sink", "skip at a mirror"
FILE, TABLE = "skip at a file", "skip at a table"
SCHEDULES_MAX: Final = 400
Plant = Callable[[Put], None]


@dataclass(frozen=True)
class Bug:
    """`first`: where it should show; then every single crash at a sink, then random schedules."""

    name: str
    plant: Plant
    first: tuple[Schedule, ...] = (Schedule(SINK),)


@dataclass(frozen=True)
class Caught:
    """By what, in the how manieth schedule; `by` None if it was not."""

    bug: str
    by: str | None
    after: int
    run: Run | None = None


def hunted(bug: Bug) -> Caught:
    """Look for it."""
    others = itertools.chain(singles(SINK), (random_schedule(seed) for seed in itertools.count()))
    schedules = itertools.islice(itertools.chain(bug.first, others), SCHEDULES_MAX)
    with _planted(bug):
        for number, schedule in enumerate(schedules, 1):
            run = carried_out(schedule)
            if run.broken is not None:
                return Caught(bug.name, run.broken.invariant, number, run)
            if (
                bug.plant is plants.not_the_same_twice
                and carried_out(schedule).digest != run.digest
            ):
                return Caught(bug.name, "I14", number, run)
    return Caught(bug.name, None, SCHEDULES_MAX)


@contextmanager
def _planted(bug: Bug) -> Iterator[None]:
    had: list[tuple[Any, str, Any]] = []

    def put(where: Any, name: str, value: Any) -> None:
        had.append((where, name, where.__dict__[name]))
        setattr(where, name, value)

    bug.plant(put)
    try:
        yield
    finally:
        for where, name, value in reversed(had):
            setattr(where, name, value)


def _faulty(
    number: int, fault: Fault, *more: Happening, case: str = SINK, **inputs: Any
) -> Schedule:
    return Schedule(case, faults=((number, fault),), happenings=more, **inputs)


_LATE = Fault(How.LATE, delay_s=60.0)
_DROPPED = tuple((number, Fault(How.DROPPED)) for number in (1, 2))
_ALTERED = tuple(
    Schedule(SINK, happenings=(Happening(moment, "alter", by),))
    for moment in (1.0, 5.0)
    for by in (-1, 2)
)
_PATCH_ERROR = tuple(
    _faulty(2, Fault(How.ANSWERED, applied, 500, b'{"message":"Request timed out"}'), case=case)
    for applied in (True, False)
    for case in (SINK, MIRROR)
)
_RESUMED = tuple(
    Schedule(SINK, happenings=(Happening(21.9 + number * 0.005, "resume"),)) for number in range(16)
)
_ABORTED = tuple(
    Schedule(SINK, want=(moment, "abort")) for moment in (1.0, 21.93, 21.95, 21.97, 21.98, 21.99)
)
_CLOCK_SET = tuple(
    _faulty(1, _LATE, deaths=(number,), skew=(0.0, 3600.0)) for number in range(26, 32)
)
_EARLY = (6, 7)  # when its guards were asked, and it is about to begin
_FROZEN_EARLY = tuple(Schedule(SINK, frozen=(number, 600.0)) for number in _EARLY)
_FROZEN_LATE = tuple(Schedule(SINK, frozen=(number, 600.0)) for number in (51, 53))
_LOST_FOR_GOOD = (
    Schedule(SINK, faults=tuple((number, Fault(How.DROPPED)) for number in (2, 3, 4))),
)
BUGS: Final = (
    Bug("the target is worked out anew on recovery", plants.target_recomputed_on_recovery),
    Bug("the plan is adjusted as it is opened", plants.plan_adjusted_as_it_is_opened),
    Bug("the copy is skipped", plants.copy_skipped),
    Bug("the copy of a line is skipped", plants.copy_skipped, (Schedule(FILE),)),
    Bug("the copy of a row is skipped", plants.copy_skipped, (Schedule(TABLE),)),
    Bug("the copy is not read back", plants.copy_not_read_back, (Schedule(SINK, torn_copy=True),)),
    Bug(
        "the backup is not verified",
        plants.backup_not_verified,
        (Schedule(SINK, torn_backup=True),),
    ),
    Bug("the comparison after the stop is skipped", plants.expect_skipped, _ALTERED),
    Bug("nothing is waited for after the stop", plants.settle_skipped),
    Bug("the wait after the stop is cut short", plants.settle_shorter_than_planned),
    Bug("the guards are not asked again", plants.recheck_forgotten),
    Bug(
        "another cluster is not noticed",
        plants.identity_not_compared,
        (Schedule(SINK, happenings=(Happening(0.0, "another cluster"),)),),
    ),
    Bug("the intent is written afterwards", plants.intent_written_afterwards),
    Bug("the skip is not claimed", plants.claim_forgotten),
    Bug("an error 500 is taken for a refusal", plants.error_is_a_refusal, _PATCH_ERROR),
    Bug(
        "what is in doubt is asked for again at once",
        plants.asked_again_at_once,
        (_faulty(1, _LATE),),
    ),
    Bug("another process's wait is gone on with", plants.waited_by_anothers_clock, _CLOCK_SET),
    Bug(
        "who wakes begins what others have refused",
        plants.begun_whatever_became_of_it,
        tuple(replace(schedule, want=(100.0, "reject")) for schedule in _FROZEN_EARLY),
    ),
    Bug(
        "who wakes begins what others have ended",
        plants.begun_whatever_became_of_it,
        _FROZEN_EARLY,
    ),
    Bug(
        "who wakes begins on what guards said before",
        plants.begun_on_old_answers,
        tuple(replace(schedule, full=(250.0, 1)) for schedule in _FROZEN_EARLY),
    ),
    Bug(
        "who wakes begins whatever people did meanwhile",
        plants.begun_whatever_people_did,
        tuple(Schedule(SINK, frozen=(number, 50.0), lowered_s=2.0) for number in _EARLY),
    ),
    Bug("who wakes goes by what was seen before", plants.old_looks_are_believed, _FROZEN_LATE),
    Bug("nobody is locked out by who stands still", plants.no_lock_while_at_work, _FROZEN_LATE),
    Bug("the client sends twice", plants.client_sends_twice, (_faulty(1, Fault(How.LOST)),)),
    Bug("a yes is taken for a verdict", plants.ack_is_a_verdict),
    Bug("foreign offsets are overwritten", plants.foreign_offsets_overwritten, _ALTERED),
    Bug("offsets of a connector that runs are altered", plants.altered_while_it_runs, _RESUMED),
    Bug("the way back is not written down", plants.turn_forgotten, _ABORTED),
    Bug("the way back leaves the offsets", plants.way_back_without_offsets, _ABORTED),
    Bug("the way back leaves it stopped", plants.way_back_without_resume, _ABORTED),
    Bug(
        "late requests are forgotten",
        plants.late_requests_forgotten,
        (_faulty(1, _LATE, want=(1.0, "abort")),),
    ),
    Bug("what is parked lets go of its lock", plants.parked_lets_go, _LOST_FOR_GOOD),
    Bug("what is parked is told as unchanged", plants.parked_is_an_end, _LOST_FOR_GOOD),
    Bug(
        "it is held stopped for as long as it takes",
        plants.stopped_for_as_long_as_it_takes,
        (Schedule(SINK, faults=_DROPPED, happenings=(Happening(0.0, "lingering", 600.0),)),),
    ),
    Bug(
        "the probation is skipped", plants.probation_skipped, (Schedule(SINK, second_poison=True),)
    ),
    Bug("the connector is left stopped after a skip", plants.skip_is_left_stopped),
    Bug(
        "an empty list allows everything",
        plants.empty_allow_list_is_all,
        (Schedule(SINK, allowed=False),),
    ),
    Bug(
        "to observe is to propose",
        plants.observing_is_proposing,
        (Schedule(SINK, mode="observe"),),
    ),
    Bug(
        "a budget is not held against what was done before",
        plants.budget_forgotten,
        (Schedule(SINK, skips_before=3),),
    ),
    Bug(
        "what is parked does not count",
        plants.parked_is_not_at_work,
        (Schedule(SINK, parked_elsewhere=1),),
    ),
    Bug("nobody is locked out", plants.no_lock_while_at_work, (Schedule(SINK, (40,), FAILOVER),)),
    Bug("the chain of the journal has a gap", plants.chain_broken),
    Bug("a wait is left to chance", plants.not_the_same_twice),
)
