"""Plans that stand somewhere, and the engine's next move from there."""

from __future__ import annotations

from dataclasses import replace

from offsetwatch.remedy import engine
from offsetwatch.remedy.engine.progress import AWAKE_S, Limits, Progress
from offsetwatch.remedy.engine.protocol import End, Event, LookAt, Looked, Move, Pause
from offsetwatch.remedy.model.driver import Look, Standing
from offsetwatch.remedy.model.journal_records import Cause, Ended, Ending, Parked, Turned
from offsetwatch.remedy.model.plan import AnyStep, Frozen, Pair, Plan, State, ToState

from tests.unit.remedy.plans import ALTER, plan_of, skip_of

LIMITS = Limits()
FROZEN = Frozen((Pair("a", "1"),), "file", "sha")
OWN, SKIP = plan_of(), skip_of()
STOPPING, FREEZING, ALTERING, RESUMING = 0, 2, 3, 4  # steps of OWN
COPYING, PROVING = 0, 7  # of SKIP, whose stop is step 1
NOW = 1_000.0
WAITED = {"since": NOW - LIMITS.step_s, "waited_s": AWAKE_S}
STOP_S = 180.0  # of SKIP


def at(index: int, plan: Plan = OWN, **more: object) -> Progress:
    """Of a process that knows where it is, at a step that it has only just begun with."""
    said = {"frozen": FROZEN, "identified": True, "since": NOW, **more}
    return Progress(plan=plan, path=plan.steps, index=index, **said)  # type: ignore[arg-type]


def back(index: int = 0, **more: object) -> Progress:
    """On the way back from a change: first the offsets, and then the state."""
    said = Turned(at=1.0, steps=(), cause=Cause.REFUSED, said="404")
    touched = {"touched": frozenset({STOPPING, ALTERING}), "turned": said, **more}
    return replace(at(index, **touched), path=(ALTER, ToState(State.RUNNING)), undoing=True)


def move(progress: Progress, event: Event, now: float = NOW) -> Move:
    return engine.step(progress, event, now)


def seen(progress: Progress, standing: Standing, now: float = NOW) -> Move:
    return move(progress, Looked(Look(standing, "it is so")), now)


def over(found: Move) -> tuple[Ending, Cause | None, str]:
    """How a move ended the plan, or parked it."""
    last = found.records[-1]
    assert isinstance(last, Ended | Parked)
    assert isinstance(found.command, End)
    return last.ending, last.cause, last.said


def turns(found: Move) -> tuple[AnyStep, ...]:
    """The way back that a move takes."""
    last = found.records[-1]
    assert isinstance(last, Turned)
    assert found.command == LookAt(last.steps[0], found.progress.before)
    return last.steps


def waits(found: Move) -> bool:
    return isinstance(found.command, Pause) and not found.records
