"""The runner in a world that fails: requests that are lost, carried out late, by halves or in vain,
looks that see nothing, and processes that end at any record they write and any request they make.

Whatever happens, offsets are all as before or all as asked for, nothing was asked for that was not
written down first, and once the world behaves a recovery ends the plan and the connector runs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsetwatch.errors import ClientError, IncompleteResponse, ResponseTimeout, TargetUnreachable
from offsetwatch.remedy.engine.progress import EngineLimits, replay_records
from offsetwatch.remedy.execute.runner import PlanResult
from offsetwatch.remedy.model.driver import AttemptResult, Outcome
from offsetwatch.remedy.model.journal_records import StepIntended
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Delete,
    Plan,
    PlanStatus,
    RequestedState,
    Reset,
    ToState,
)
from tests.unit.remedy.killed_processes import FragileJournal, Fuse, Killed
from tests.unit.remedy.plans import AFTER, ALTER, NEW, OLD, Bench, plan_of

pytestmark = pytest.mark.slow

SEEDS = 120
GONE_S = 10_000.0


class Ruin(Bench):
    """A bench on which processes end."""

    fuse: Fuse
    requests: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.requests = 0
        self.use(Fuse())

    def use(self, fuse: Fuse) -> None:
        self.fuse = fuse
        self.journal.close()
        self.journal = FragileJournal(self.folder)
        self.journal.fuse = fuse

    def died(self) -> None:
        self.use(Fuse())

    def verify_requests(self, plan: Plan) -> None:
        """Hold every request against the journal, and let the process end before and after it."""
        carry_out = self.driver.carry_out

        def watched(step: AnyStep, frozen: object) -> Outcome:
            self.requests += 1
            progress = replay_records(self.journal.records(plan.plan_id), EngineLimits())
            last = self.journal.records(plan.plan_id)[-1]
            assert isinstance(last, StepIntended), "asked for before it was written down"
            assert progress.step == step
            self.fuse.burn()
            outcome = carry_out(step, frozen)
            self.fuse.burn()
            return outcome

        self.driver.carry_out = watched

    def until_it_ends(self, plan: Plan, *fuses: int | None, recheck=None) -> PlanResult | None:
        """Run the plan, and recover it each time the process ends; None if it never began."""
        for number, fuse in enumerate((*fuses, None)):
            self.use(Fuse(fuse))
            try:
                if number == 0:
                    return self.runner().run(plan, recheck)
                return self._next(plan)
            except Killed:
                self.clock.advance(1.0)
        raise AssertionError("the last process is not ended")

    def _next(self, plan: Plan) -> PlanResult | None:
        result = self.runner().finish_earlier("lab", "orders")
        if result is None and self.journal.records(plan.plan_id):
            self.use(Fuse())
            return self.runner().recover(plan.plan_id)  # it had ended, and says how
        return result

    def settle(self) -> None:
        self.clock.advance(GONE_S)
        self.world.settle()


def judge(ruin: Ruin, plan: Plan, result: PlanResult | None) -> None:
    """What must hold of every run once all is quiet."""
    ruin.settle()
    assert ruin.journal.verify() == len(ruin.journal.tail(10_000))
    assert ruin.world.offsets in (OLD, AFTER), "half of it is changed"
    if result is None or result.ending in {PlanStatus.RESTORED, PlanStatus.UNCHANGED}:
        assert ruin.world.offsets == OLD
        assert ruin.world.state is plan.original
    elif result.ending is PlanStatus.SUCCEEDED:
        assert ruin.world.offsets == AFTER
        assert ruin.world.state is plan.original
    else:
        assert f"offsetwatch plan recover {plan.plan_id} --config F --state-dir" in result.said
        assert f"offsetwatch plan resolve {plan.plan_id} --because" in result.said
    is_open = ruin.journal.open_plan("lab", "orders") is not None
    assert is_open == (result is not None and not result.over)


def moments(tmp_path: Path, plan: Plan, recheck=None) -> int:
    ruin = Ruin(tmp_path / "count")
    ruin.verify_requests(plan)
    ruin.until_it_ends(plan, None, recheck=recheck)
    return ruin.fuse.count


@pytest.fixture
def ruins(tmp_path: Path) -> Iterator[Ruin]:
    def fresh() -> Iterator[Ruin]:
        number = 0
        while True:
            number += 1
            ruin = Ruin(tmp_path / str(number))
            yield ruin
            ruin.journal.close()

    return fresh()


@pytest.mark.parametrize(
    "original", [RequestedState.RUNNING, RequestedState.PAUSED, RequestedState.STOPPED]
)
def test_a_process_that_ends_anywhere_leaves_what_the_next_one_finishes_or_puts_back(
    ruins, tmp_path, original
):
    plan = plan_of(original=original)
    endings = set()
    for moment in range(1, moments(tmp_path, plan) + 1):
        ruin = next(ruins)
        ruin.world.state = original
        ruin.verify_requests(plan)
        result = ruin.until_it_ends(plan, moment)
        judge(ruin, plan, result)
        assert result is None or result.over
        endings.add(None if result is None else result.ending)
    assert endings >= {None, PlanStatus.SUCCEEDED, PlanStatus.UNCHANGED}


@pytest.mark.full
def test_two_processes_that_end_anywhere_one_after_the_other_leave_no_half(ruins, tmp_path):
    plan = plan_of()
    for first in range(1, moments(tmp_path, plan) + 1):
        second = 0
        while True:
            second += 1
            ruin = next(ruins)
            ruin.verify_requests(plan)
            result = ruin.until_it_ends(plan, first, second)
            judge(ruin, plan, result)
            assert result is None or result.over
            if ruin.fuse.at == second or (ruin.fuse.at is None and ruin.fuse.count == 0):
                break


def test_a_process_that_ends_on_its_way_back_is_followed_by_one_that_goes_on_back(ruins, tmp_path):
    plan = plan_of()
    refusal = lambda frozen: ("no",)  # noqa: E731
    for moment in range(1, moments(tmp_path, plan, refusal) + 1):
        ruin = next(ruins)
        ruin.verify_requests(plan)
        result = ruin.until_it_ends(plan, moment, recheck=refusal)
        judge(ruin, plan, result)
        assert result is None or result.ending in {PlanStatus.RESTORED, PlanStatus.UNCHANGED}


@dataclass
class Weather:
    """How the world fails: by chance, from a seed."""

    ruin: Ruin
    chance: random.Random
    badness: float
    calm: bool = False

    def request(self, step: AnyStep) -> Outcome | ClientError | None:
        if self.calm or self.chance.random() > self.badness:
            return None
        world = self.ruin.world
        match self.chance.randrange(8):
            case 0:
                return ResponseTimeout("lab", "nothing came of it")
            case 1:
                world.do(step)
                return IncompleteResponse("lab", "done, and nobody told")
            case 2 | 3:
                world.do_later(self.chance.uniform(1.0, 119.0), lambda: world.do(step))
                return ResponseTimeout("lab", "done later")
            case 4:
                return Outcome(AttemptResult.RETRY, "rebalancing")
            case 5:
                return TargetUnreachable("lab", "refused")
            case 6 if isinstance(step, Alter) and len(step.pairs) > 1:
                world.do(Alter(step.pairs[:1]))
                return Outcome(AttemptResult.IN_DOUBT, "HTTP 500: half of it")
            case _:
                return Outcome(AttemptResult.NACK, "no") if self.chance.random() < 0.3 else None

    def draw_error(self) -> ClientError | None:
        if self.calm or self.chance.random() > self.badness / 3:
            return None
        return TargetUnreachable("lab", "not now")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_in_any_weather_nothing_is_left_half_done_without_a_word(tmp_path, seed):
    chance = random.Random(seed)
    ruin = Ruin(tmp_path)
    original = chance.choice(
        [
            RequestedState.RUNNING,
            RequestedState.RUNNING,
            RequestedState.PAUSED,
            RequestedState.STOPPED,
        ]
    )
    ruin.world.state = original
    weather = Weather(ruin, chance, badness=chance.choice([0.1, 0.4, 0.8, 1.0]))
    ruin.driver.misbehave, ruin.driver.blind = weather.request, weather.draw_error
    plan = plan_of(original=original)
    ruin.verify_requests(plan)
    fuses = [chance.randrange(1, 40) for _ in range(chance.randrange(4))]
    recheck = (lambda frozen: ("no",)) if chance.random() < 0.1 else None
    result = ruin.until_it_ends(plan, *fuses, recheck=recheck)
    if result is None or result.over:
        judge(ruin, plan, result)
    else:
        assert f"plan recover {plan.plan_id}" in result.said
    # At most three requests for each of the plan's steps, and for each on the way back.
    assert ruin.requests - put_off(ruin, plan) <= 3 * 2 * 3 * (len(fuses) + 1)
    assert steps_done(ruin) <= {*plan.steps, *list_rollback(plan), *halves(plan)}
    recovered_in_calm(ruin, weather, plan)


def put_off(ruin: Ruin, plan: Plan) -> int:
    records = ruin.journal.records(plan.plan_id)
    return sum(getattr(record, "answer", None) is AttemptResult.RETRY for record in records)


def steps_done(ruin: Ruin) -> set[AnyStep]:
    return {step for _, step in ruin.world.writes}


def list_rollback(plan: Plan) -> tuple[AnyStep, ...]:
    pairs = tuple(replace_offset(pair) for pair in ALTER.pairs)
    return (Alter(pairs), ToState(plan.original))


def replace_offset(pair):
    return type(pair)(pair.partition, OLD.get(pair.partition))


def halves(plan: Plan) -> tuple[AnyStep, ...]:
    back = list_rollback(plan)[0]
    return (Alter(ALTER.pairs[:1]), Alter(back.pairs[:1]))


def recovered_in_calm(ruin: Ruin, weather: Weather, plan: Plan) -> None:
    """Once the world behaves, whoever goes on ends it."""
    weather.calm = True
    ruin.settle()
    ruin.died()
    for _ in range(2):
        result = ruin.runner().finish_earlier("lab", "orders")
        if result is None:
            break
        assert result.over, result.said
    ruin.settle()
    assert ruin.world.offsets in (OLD, AFTER)
    assert ruin.world.state is plan.original
    assert ruin.journal.open_plan("lab", "orders") is None


# --- a connector that is created -----------------------------------------------------------------

CREATED = "c" * 64


def creation() -> Plan:
    steps = plan_of(original=RequestedState.STOPPED).steps
    first, settle, freeze, alter, _ = steps
    return replace_steps(
        (Create(CREATED), first, settle, freeze, Reset(), alter, ToState(RequestedState.RUNNING))
    )


def replace_steps(steps: tuple[AnyStep, ...]) -> Plan:
    plan = plan_of()
    return Plan(
        plan_id=plan.plan_id,
        verb="create orders",
        subject=plan.subject,
        steps=steps,
        original=None,
        final=RequestedState.RUNNING,
        created_at=plan.created_at,
        created_by=plan.created_by,
    )


def test_a_creation_that_ends_anywhere_is_finished_or_leaves_nothing_but_the_remnants(ruins):
    plan, moment, endings = creation(), 0, set()
    while True:
        moment += 1
        ruin = next(ruins)
        ruin.world.state = None
        ruin.verify_requests(plan)
        result = ruin.until_it_ends(plan, moment)
        ruin.settle()
        endings.add(None if result is None else result.ending)
        if result is None or result.ending in {PlanStatus.RESTORED, PlanStatus.UNCHANGED}:
            assert (ruin.world.state, ruin.world.offsets) == (None, OLD)
        else:
            assert (ruin.world.state, ruin.world.offsets) == (RequestedState.RUNNING, NEW)
        if ruin.fuse.at == moment:
            break
    assert endings == {None, PlanStatus.UNCHANGED, PlanStatus.RESTORED, PlanStatus.SUCCEEDED}


def test_a_namesake_that_another_client_created_is_not_deleted_in_a_rollback(tmp_path):
    ruin = Ruin(tmp_path)
    ruin.world.state = None
    plan = creation()

    def cut_off(step):
        ruin.world.do(Create("d" * 64))
        raise Killed

    ruin.driver.misbehave = cut_off
    with pytest.raises(Killed):
        ruin.runner().run(plan)
    ruin.driver.misbehave = lambda step: None
    ruin.died()
    assert ruin.runner().recover(plan.plan_id).ending is PlanStatus.PARKED
    assert ruin.world.state is RequestedState.STOPPED


@pytest.mark.parametrize("refused", [Create, Reset, Alter, ToState])
def test_a_creation_that_is_refused_at_any_step_is_undone(tmp_path, refused):
    ruin = Ruin(tmp_path)
    ruin.world.state = None
    plan = creation()
    once = [Outcome(AttemptResult.NACK, "no")]
    ruin.driver.misbehave = lambda step: once.pop() if once and isinstance(step, refused) else None
    result = ruin.runner().run(plan)
    assert (ruin.world.state, ruin.world.offsets) == (None, OLD)
    assert result.ending is (PlanStatus.UNCHANGED if refused is Create else PlanStatus.RESTORED)
    assert Delete(CREATED) in steps_done(ruin) or refused is Create
