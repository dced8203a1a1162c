"""The engine, whatever it is told: what it wrote down is where it stands, nothing is asked for that
was not written down, nothing in doubt is asked for again too soon or too often, and it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetwatch.remedy import engine
from offsetwatch.remedy.engine import (
    AttemptCommand,
    AttemptEvent,
    BackUpCommand,
    BackupFailureEvent,
    EndCommand,
    Event,
    IdentifyCommand,
    IdentityEvent,
    InspectCommand,
    InterruptEvent,
    Move,
    RecheckCommand,
    RecheckEvent,
    TakeOverEvent,
    UnavailableEvent,
    WaitCommand,
    WaitOverEvent,
)
from offsetwatch.remedy.engine.progress import EngineLimits, PlanProgress, replay_records
from offsetwatch.remedy.model.driver import AttemptResult, Outcome, StepInspection, StepStatus
from offsetwatch.remedy.model.journal_records import AnyRecord, PlanFailureCause
from offsetwatch.remedy.model.plan import (
    Alter,
    Create,
    Delete,
    DeleteTopic,
    FrozenOffsets,
    PartitionOffset,
    Plan,
    PlanStatus,
    RequestedState,
    Reset,
    Restart,
    Write,
)
from tests.unit.remedy.plans import plan_of

LIMITS = EngineLimits()
FROZEN = FrozenOffsets((PartitionOffset("a", "1"), PartitionOffset("b", "2")), "file", "sha")
OF_THIS_PROCESS = {
    "since",
    "inspections",
    "waited_s",
    "failed_inspections",
    "identified",
    "taken_up",
}
MOVES_MAX = 5_000

changes = st.lists(
    st.sampled_from(
        [
            Alter((PartitionOffset("a", "5"), PartitionOffset("c", "6"))),
            Reset(),
            Write("k/t", (), (PartitionOffset("a", None),)),
            Delete(),
            Restart(),
            DeleteTopic("k", "t", "id"),
        ]
    ),
    min_size=1,
    max_size=3,
)
plans = st.builds(
    lambda steps, original, kind: of_kind(plan_of(*steps, original=original), kind),
    changes,
    st.sampled_from([*RequestedState, None]),
    st.sampled_from(["source", "sink"]),
)


def of_kind(plan: Plan, kind: str) -> Plan:
    return msgspec.structs.replace(plan, subject=msgspec.structs.replace(plan.subject, kind=kind))


def draw_inspection(data: st.DataObject, kind: Callable[[], StepStatus]) -> Event:
    match data.draw(st.integers(0, 9)):
        case 0:
            return UnavailableEvent(
                data.draw(
                    st.sampled_from([PlanFailureCause.UNREACHABLE, PlanFailureCause.UNAUTHORISED])
                ),
                "no",
            )
        case 1:
            return InterruptEvent()
        case _:
            return StepInspection(kind(), "seen")


def draw_answer(data: st.DataObject, move: Move) -> Event:
    """Anything that may come of a command."""
    match move.command:
        case IdentifyCommand():
            return IdentityEvent(data.draw(st.sampled_from(["cluster-1"] * 5 + ["other", None])))
        case InspectCommand():
            return draw_inspection(data, lambda: data.draw(st.sampled_from(StepStatus)))
        case AttemptCommand():
            return AttemptEvent(Outcome(data.draw(st.sampled_from(AttemptResult)), "said"))
        case BackUpCommand():
            return data.draw(st.sampled_from([FROZEN] * 4 + [BackupFailureEvent("full")]))
        case RecheckCommand():
            return RecheckEvent(data.draw(st.sampled_from([(), (), (), ("moved",)])))
        case WaitCommand():
            return WaitOverEvent()
    raise AssertionError(move.command)


def durable(progress: PlanProgress) -> dict[str, object]:
    names = {field.name for field in fields(PlanProgress)} - OF_THIS_PROCESS
    return {name: getattr(progress, name) for name in names}


class Run:
    """A plan under way, and what was written and asked for."""

    def __init__(self, move: Move, now: float) -> None:
        self.now = now
        self.records: tuple[AnyRecord, ...] = ()
        self.attempts: list[tuple[int, bool, int, float]] = []
        self.taken_up = 0
        self.take(move)

    def take(self, move: Move) -> None:
        self.move = move
        self.records += move.records
        progress = move.progress
        assert durable(replay_records(self.records, LIMITS)) == durable(progress)
        if isinstance(move.command, AttemptCommand):
            assert move.records, "asked for without a record"
            assert move.records[-1].__struct_config__.tag == "intended"
            doubted = progress.sent > 1 and self.attempts[-1][:2] == (
                progress.index,
                progress.undoing,
            )
            if doubted:
                assert self.now - self.attempts[-1][3] >= LIMITS.ack_s
            self.attempts.append((progress.index, progress.undoing, self.taken_up, self.now))
            assert progress.spent <= LIMITS.attempts

    def handle(self, event: Event) -> None:
        if isinstance(self.move.command, WaitCommand):
            self.now += self.move.command.seconds
        self.take(engine.compute_next_move(self.move.progress, event, self.now))

    @property
    def over(self) -> bool:
        return isinstance(self.move.command, EndCommand)


@settings(max_examples=300, deadline=None)
@given(plan=plans, data=st.data())
def test_whatever_it_is_reported_the_records_are_where_it_is_and_it_ends(plan, data):
    now = plan.created_at
    run = Run(engine.begin_plan(plan, now, LIMITS), now)
    for _ in range(60):
        if run.over:
            break
        if data.draw(st.integers(0, 19)) == 0:
            # Its process ends here, and another one stands where the records say.
            run.taken_up += 1
            run.now += data.draw(st.floats(0, 500))
            progress = replay_records(run.records, LIMITS)
            run.take(engine.compute_next_move(progress, TakeOverEvent(), run.now))
        else:
            run.handle(draw_answer(data, run.move))
    if not run.over:
        finish(run)
    progress = run.move.progress
    assert (progress.ended is None) != (progress.parked is None)
    judge(progress)


def finish(run: Run) -> None:
    """From here on the world only ever says that it is not there yet."""
    for _ in range(MOVES_MAX):
        if run.over:
            return
        match run.move.command:
            case InspectCommand():
                run.handle(StepInspection(StepStatus.NOT_YET, "not yet"))
            case AttemptCommand():
                run.handle(AttemptEvent(Outcome(AttemptResult.IN_DOUBT, "no answer")))
            case IdentifyCommand():
                run.handle(IdentityEvent("cluster-1"))
            case BackUpCommand():
                run.handle(FROZEN)
            case RecheckCommand():
                run.handle(RecheckEvent(()))
            case _:
                run.handle(WaitOverEvent())
    raise AssertionError("it never ends")


def judge(progress: PlanProgress) -> None:
    ended = progress.ended
    if ended is None:
        assert progress.parked.ending in {PlanStatus.PARKED, PlanStatus.IN_DOUBT}
    elif ended.ending is PlanStatus.UNCHANGED:
        assert not progress.touched
    elif ended.ending is PlanStatus.SUCCEEDED:
        assert (progress.index, progress.undoing) == (len(progress.plan.steps), False)
    else:
        assert ended.ending is PlanStatus.RESTORED
        assert progress.undoing
        gone = (Delete, DeleteTopic, Restart)
        steps = [progress.plan.steps[number] for number in progress.touched]
        assert not any(isinstance(step, gone[:2]) for step in steps), "that cannot be restored"


def test_a_change_without_a_backup_is_no_plan():
    bare = msgspec.structs.replace(plan_of(), steps=(Reset(),))
    with pytest.raises(AssertionError, match="backup"):
        engine.begin_plan(bare, 0.0, LIMITS)


def test_a_creation_may_begin_without_a_backup():
    assert isinstance(engine.begin_plan(plan_of(Create("c")), 0.0, LIMITS).command, IdentifyCommand)
