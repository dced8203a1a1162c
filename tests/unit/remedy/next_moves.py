"""Plans that stand somewhere, and the engine's next move from there."""

from __future__ import annotations

from dataclasses import replace

from offsetwatch.remedy import engine
from offsetwatch.remedy.engine import (
    EndCommand,
    Event,
    InspectCommand,
    Move,
    WaitCommand,
)
from offsetwatch.remedy.engine.progress import AWAKE_S, EngineLimits, PlanProgress
from offsetwatch.remedy.model.driver import StepInspection, StepStatus
from offsetwatch.remedy.model.journal_records import (
    PlanEnded,
    PlanFailureCause,
    PlanParked,
    RollbackStarted,
)
from offsetwatch.remedy.model.plan import (
    AnyStep,
    FrozenOffsets,
    PartitionOffset,
    Plan,
    PlanStatus,
    RequestedState,
    ToState,
)
from tests.unit.remedy.plans import ALTER, plan_of, skip_of

LIMITS = EngineLimits()
FROZEN = FrozenOffsets((PartitionOffset("a", "1"),), "file", "sha")
OWN, SKIP = plan_of(), skip_of()
STOPPING, FREEZING, ALTERING, RESUMING = 0, 2, 3, 4  # steps of OWN
COPYING, PROVING = 0, 7  # of SKIP, whose stop is step 1
NOW = 1_000.0
WAITED = {"since": NOW - LIMITS.step_s, "waited_s": AWAKE_S}
STOP_S = 180.0  # of SKIP


def at(index: int, plan: Plan = OWN, **more: object) -> PlanProgress:
    """Of a process that knows where it is, at a step that it has only just begun with."""
    messages = {"frozen": FROZEN, "identified": True, "since": NOW, **more}
    return PlanProgress(plan=plan, path=plan.steps, index=index, **messages)  # type: ignore[arg-type]


def back(index: int = 0, **more: object) -> PlanProgress:
    """On the way back from a change: first the offsets, and then the state."""
    answer = RollbackStarted(at=1.0, steps=(), cause=PlanFailureCause.REFUSED, said="404")
    touched = {"touched": frozenset({STOPPING, ALTERING}), "turned": answer, **more}
    return replace(
        at(index, **touched), path=(ALTER, ToState(RequestedState.RUNNING)), undoing=True
    )


def move(progress: PlanProgress, event: Event, now: float = NOW) -> Move:
    return engine.compute_next_move(progress, event, now)


def inspect(progress: PlanProgress, status: StepStatus, now: float = NOW) -> Move:
    return move(progress, StepInspection(status, "it is so"), now)


def over(command: Move) -> tuple[PlanStatus, PlanFailureCause | None, str]:
    """How a move ended the plan, or parked it."""
    last = command.records[-1]
    assert isinstance(last, PlanEnded | PlanParked)
    assert isinstance(command.command, EndCommand)
    return last.ending, last.cause, last.said


def list_rollback(command: Move) -> tuple[AnyStep, ...]:
    """The way back that a move takes."""
    last = command.records[-1]
    assert isinstance(last, RollbackStarted)
    assert command.command == InspectCommand(last.steps[0], command.progress.before)
    return last.steps


def waits(command: Move) -> bool:
    return isinstance(command.command, WaitCommand) and not command.records
