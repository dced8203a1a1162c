"""The next move: one event at a time, and what the engine makes of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from offsetwatch.remedy import engine
from offsetwatch.remedy.engine import (
    AbortEvent,
    BackUpCommand,
    BackupFailureEvent,
    EndCommand,
    IdentifyCommand,
    IdentityEvent,
    InspectCommand,
    InterruptEvent,
    RecheckCommand,
    RecheckEvent,
    TakeOverEvent,
    WaitCommand,
    WaitOverEvent,
)
from offsetwatch.remedy.engine.progress import PlanProgress
from offsetwatch.remedy.model.driver import StepStatus
from offsetwatch.remedy.model.journal_records import (
    OffsetsBackedUp,
    PlanFailureCause,
    PlanOpened,
    PlanResumed,
    RollbackStarted,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Action,
    AnyStep,
    Create,
    Delete,
    Freeze,
    PlanStatus,
    RemediationContext,
    RequestedState,
    ToState,
)
from tests.unit.remedy.next_moves import (
    ALTERING,
    FREEZING,
    FROZEN,
    LIMITS,
    NOW,
    OWN,
    PROVING,
    RESUMING,
    SKIP,
    STOP_S,
    STOPPING,
    at,
    back,
    inspect,
    list_rollback,
    move,
    over,
)
from tests.unit.remedy.plans import ALTER, plan_of

# --- beginning ------------------------------------------------------------------------------------


def test_a_plan_begins_by_querying_which_place_this_is() -> None:
    command = engine.begin_plan(OWN, NOW, LIMITS)
    assert (command.command, command.records) == (
        IdentifyCommand(),
        (PlanOpened(at=NOW, plan=OWN),),
    )
    assert (command.progress.since, command.progress.identified) == (NOW, False)


@pytest.mark.parametrize(
    ("steps", "sound"),
    [
        pytest.param((Freeze(), ALTER), True, id="backed-up"),
        pytest.param((ALTER,), False, id="not-backed-up"),
        pytest.param((ALTER, Freeze()), False, id="backed-up-too-late"),
        pytest.param((Create("c"), Freeze(), ALTER), True, id="created-before"),
        pytest.param((ToState(RequestedState.STOPPED),), True, id="no-change"),
    ],
)
def test_no_plan_changes_what_is_not_backed_up(steps: tuple[AnyStep, ...], *, sound: bool) -> None:
    plan = msgspec.structs.replace(OWN, steps=steps)
    if sound:
        assert engine.begin_plan(plan, NOW, LIMITS).progress.path == steps
    else:
        with pytest.raises(AssertionError, match="backup"):
            engine.begin_plan(plan, NOW, LIMITS)


COPY, _, _, FREEZE, EXPECT, SET, *_ = SKIP.steps


@pytest.mark.parametrize(
    ("steps", "sound"),
    [
        pytest.param((COPY, FREEZE, EXPECT, SET), True, id="no-more-than-needed"),
        pytest.param((FREEZE, EXPECT, SET), False, id="no-copy"),
        pytest.param((COPY, FREEZE, SET, EXPECT), False, id="compared-too-late"),
        pytest.param((COPY, FREEZE, EXPECT, SET, SET), False, id="set-twice"),
    ],
)
def test_a_skip_is_of_what_is_copied_and_compared(
    steps: tuple[AnyStep, ...], *, sound: bool
) -> None:
    plan = msgspec.structs.replace(SKIP, steps=steps)
    if sound:
        assert engine.begin_plan(plan, NOW, LIMITS).progress.path == steps
    else:
        with pytest.raises(AssertionError, match="skip without"):
            engine.begin_plan(plan, NOW, LIMITS)


def test_a_plan_for_an_incident_that_skips_nothing_copies_nothing() -> None:
    plan = msgspec.structs.replace(
        SKIP, steps=(ToState(RequestedState.STOPPED),), remedy=RemediationContext(Action.STOP, "i1")
    )
    assert engine.begin_plan(plan, NOW, LIMITS).command == IdentifyCommand()


def test_what_is_next_is_inspected() -> None:
    assert move(at(STOPPING, identified=False), WaitOverEvent()).command == IdentifyCommand()
    assert move(at(STOPPING), WaitOverEvent()).command == InspectCommand(OWN.steps[0], FROZEN)
    assert move(at(FREEZING, frozen=None), WaitOverEvent()).command == BackUpCommand()
    assert move(at(FREEZING), WaitOverEvent()).command == RecheckCommand(FROZEN)


def test_who_takes_a_plan_up_queries_first_where_it_is() -> None:
    command = move(at(STOPPING, spent=2), TakeOverEvent())
    assert (command.command, command.records) == (IdentifyCommand(), (PlanResumed(at=NOW),))
    assert (command.progress.identified, command.progress.taken_up) == (False, True)
    assert command.progress.spent == 0


def test_another_place_is_left_alone() -> None:
    answer = "this is another Connect cluster than the plan's: x, not cluster-1"
    command = move(at(STOPPING, identified=False), IdentityEvent("x"))
    assert over(command) == (PlanStatus.UNCHANGED, PlanFailureCause.CHANGED, answer)
    begun = at(ALTERING, identified=False, touched=frozenset({STOPPING}))
    assert over(move(begun, IdentityEvent("x"))) == (
        PlanStatus.PARKED,
        PlanFailureCause.CHANGED,
        answer,
    )


def test_a_place_that_is_the_plans_or_of_no_name_is_worked_at() -> None:
    nameless = msgspec.structs.replace(OWN.subject, identity=None)
    for plan, identity in (
        (OWN, "cluster-1"),
        (msgspec.structs.replace(OWN, subject=nameless), "x"),
    ):
        worn = at(STOPPING, plan, identified=False, inspections=3, since=1.0)
        command = move(worn, IdentityEvent(identity))
        assert command.command == InspectCommand(OWN.steps[0], FROZEN)
        assert (command.progress.identified, command.progress.inspections) == (True, 0)
        assert command.progress.since == NOW


@pytest.mark.parametrize(
    ("progress", "goes_on"),
    [
        pytest.param(at(0, touched=frozenset({0})), False, id="asked-to-stop"),
        pytest.param(at(1, touched=frozenset({0})), False, id="only-stopped"),
        pytest.param(at(RESUMING, touched=frozenset({0, 3})), True, id="changed"),
        pytest.param(at(RESUMING, touched=frozenset({0})), False, id="at-the-last-unasked"),
        pytest.param(at(RESUMING, touched=frozenset({0, 4})), True, id="at-the-last-asked"),
        pytest.param(at(PROVING, SKIP, touched=frozenset({1})), True, id="proving"),
        pytest.param(back(), True, id="on-the-way-back"),
        pytest.param(
            replace(
                at(0, SKIP, touched=frozenset({1})),
                path=(ToState(RequestedState.RUNNING),),
                undoing=True,
            ),
            True,
            id="on-the-way-back-from-a-stop",
        ),
        pytest.param(
            at(3, plan_of(Create("c"), ALTER, original=None), touched=frozenset({2})),
            False,
            id="only-created",
        ),
    ],
)
def test_who_takes_a_plan_up_goes_on_where_a_change_may_have_begun(
    progress: PlanProgress, *, goes_on: bool
) -> None:
    command = move(replace(progress, identified=False, taken_up=True), IdentityEvent("cluster-1"))
    assert (not command.records) is goes_on
    assert goes_on or isinstance(command.records[-1], RollbackStarted)
    assert not command.progress.taken_up


# --- keeping --------------------------------------------------------------------------------------


def test_offsets_are_retained_and_rechecked_before_the_next_step() -> None:
    command = move(at(FREEZING, frozen=None), FROZEN)
    assert (command.command, command.records) == (
        RecheckCommand(FROZEN),
        (OffsetsBackedUp(at=NOW, frozen=FROZEN),),
    )
    command = move(command.progress, RecheckEvent(()))
    assert command.records == (StepVerified(at=NOW, index=FREEZING, undoing=False, said=""),)
    assert command.command == InspectCommand(ALTER, FROZEN)


def test_what_cannot_be_kept_or_has_moved_on_is_given_up() -> None:
    stopped = at(FREEZING, frozen=None, touched=frozenset({STOPPING}))
    assert list_rollback(move(stopped, BackupFailureEvent("disk full"))) == (
        ToState(RequestedState.RUNNING),
    )
    command = move(stopped, RecheckEvent(("one", "two")))
    assert list_rollback(command) == (ToState(RequestedState.RUNNING),)
    assert over(move(at(FREEZING), RecheckEvent(("one", "two")))) == (
        PlanStatus.UNCHANGED,
        PlanFailureCause.CHANGED,
        "one; two",
    )


# --- being called off -----------------------------------------------------------------------------

HALFWAY = frozenset({STOPPING})
CHANGED = frozenset({STOPPING, ALTERING})


@pytest.mark.parametrize(
    ("progress", "interrupted", "aborted"),
    [
        pytest.param(at(STOPPING), "ends", "ends", id="not-begun"),
        pytest.param(at(1, touched=HALFWAY), "turns", "turns", id="stopped"),
        pytest.param(at(ALTERING, touched=HALFWAY), "turns", "turns", id="before-the-change"),
        pytest.param(
            at(ALTERING, sent=1, touched=CHANGED), "goes on", "goes on", id="change-asked-for"
        ),
        pytest.param(at(RESUMING, touched=CHANGED), "goes on", "turns", id="changed"),
        pytest.param(
            at(RESUMING, sent=1, touched=CHANGED), "goes on", "goes on", id="asked-to-run-again"
        ),
        pytest.param(at(1, sent=1, touched=HALFWAY), "turns", "turns", id="a-look-asked-for"),
        pytest.param(back(), "goes on", "goes on", id="on-the-way-back"),
        pytest.param(at(STOPPING, identified=False), "ends", "goes on", id="nowhere-yet"),
        pytest.param(
            at(1, identified=False, touched=HALFWAY), "goes on", "goes on", id="nowhere-again"
        ),
        pytest.param(
            at(PROVING, SKIP, touched=frozenset({1, 5, 6})), "goes on", "goes on", id="proving"
        ),
        pytest.param(
            at(4, plan_of(Delete(), ALTER), touched=frozenset({0, 3})),
            "goes on",
            "goes on",
            id="deleted",
        ),
    ],
)
def test_a_plan_is_called_off_where_there_is_a_place_to_stop(
    progress: PlanProgress, interrupted: str, aborted: str
) -> None:
    for event, expected in ((InterruptEvent(), interrupted), (AbortEvent("by ada"), aborted)):
        command = move(progress, event)
        answer = "interrupted" if isinstance(event, InterruptEvent) else "by ada"
        if expected == "ends":
            assert over(command) == (PlanStatus.UNCHANGED, PlanFailureCause.INTERRUPTED, answer)
        elif expected == "turns":
            assert list_rollback(command)
            assert isinstance(command.records[-1], RollbackStarted)
            assert (command.records[-1].cause, command.records[-1].said) == (
                PlanFailureCause.INTERRUPTED,
                answer,
            )
        else:
            assert command.records == ()
            assert not isinstance(command.command, WaitCommand | EndCommand)


@pytest.mark.parametrize(
    ("more", "out_of_time"),
    [
        pytest.param({}, True, id="stopped-for-that-long"),
        pytest.param({"stopped_at": NOW - STOP_S + 0.1}, False, id="not-yet"),
        pytest.param({"stopped_at": 0.0}, False, id="never-stopped"),
        pytest.param({"touched": frozenset({1, 5})}, False, id="changed"),
    ],
)
def test_a_stop_for_an_incident_ends_in_time_while_nothing_is_changed(
    more: dict[str, object], *, out_of_time: bool
) -> None:
    messages = {"stopped_at": NOW - STOP_S, "touched": frozenset({1}), **more}
    stopped = at(3, SKIP, **messages)
    command = move(stopped, WaitOverEvent())
    if not out_of_time:
        assert command.records == ()
        return
    assert list_rollback(command) == (ToState(RequestedState.RUNNING),)
    assert isinstance(command.records[0], RollbackStarted)
    report = "it was asked to stop 180 s ago, and nothing has changed since"
    assert (command.records[0].cause, command.records[0].said) == (
        PlanFailureCause.TIMED_OUT,
        report,
    )
    unbounded = msgspec.structs.replace(SKIP.remedy, stop_total_s=None)
    plan = msgspec.structs.replace(SKIP, remedy=unbounded)
    assert move(replace(stopped, plan=plan), WaitOverEvent()).records == ()
    assert move(at(1, touched=HALFWAY, stopped_at=1.0), WaitOverEvent()).records == ()
    assert isinstance(
        inspect(replace(stopped, index=5), StepStatus.READY).records[0], RollbackStarted
    )
    again = replace(stopped, path=(ToState(RequestedState.RUNNING),), index=0, undoing=True)
    assert move(again, WaitOverEvent()).records == ()
