"""What the journal's topic says was intended, held against what the world was asked and what that
changed. Every request must have an intent of its own, committed before it by the very replica that
made it; and of a replica that was followed nothing may change the world any more once another one
has begun to act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from offsetwatch.remedy.journal.journal import JournalEntry
from offsetwatch.remedy.model.journal_records import (
    LeadershipTaken,
    PlanEnded,
    PlanOpened,
    PlanParked,
    RollbackStarted,
    StepIntended,
)
from offsetwatch.remedy.model.plan import Alter, AnyStep, Plan, RequestedState, ToState
from tests.failovers.world import Request, offset_of

SLOP_S = 0.05  # between two processes' clocks on one machine


@dataclass
class Intent:
    """Of one step of one plan, in the n-th term."""

    at: float
    term: int
    who: str
    step: tuple[str, int, bool]
    what: str
    used: bool = False


@dataclass
class FailoverResult:
    """What there was. `double` must be empty."""

    terms: int = 0
    plans: int = 0
    steps: int = 0
    effects: int = 0
    repeats: int = 0
    late: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    double: list[str] = field(default_factory=list)


def judged(entries: Sequence[JournalEntry], requests: Sequence[Request]) -> FailoverResult:
    """See the module."""
    result = FailoverResult()
    intents = list(_intents(entries, result))
    newest, counter, skipped = 0, Counter[tuple[str, int, bool]](), Counter[int]()
    for request in requests:
        intent = _intent_of(request, intents)
        if intent is None:
            result.double.append(f"{request.who} asked without an intent of its own: {request}")
            continue
        intent.used = True
        result.effects += 1
        counter[intent.step] += 1
        if intent.term < newest:
            result.late += 1
            if request.changed:
                result.double.append(
                    f"{request.who} was followed, and changed the world: {request}"
                )
        newest = max(newest, intent.term)
        offset = offset_of(request.what.partition(" offsets ")[2])
        if offset is not None and request.changed:
            skipped[offset] += 1
    result.steps = len({item.step for item in intents})
    result.repeats = sum(count - 1 for count in counter.values())
    result.double += [f"skipped {n} times: to {index}" for index, n in skipped.items() if n > 1]
    return result


def _intent_of(request: Request, intents: Sequence[Intent]) -> Intent | None:
    """The newest that it can have come of."""
    for intent in reversed(intents):
        if intent.used or intent.who != request.who or intent.at > request.at + SLOP_S:
            continue
        if _same(intent.what, request.what):
            return intent
    return None


def _same(intended: str, request: str) -> bool:
    if intended.startswith("PATCH"):
        return intended == f"PATCH {offset_of(request.partition(' offsets ')[2])}"
    return intended == request


def _intents(entries: Sequence[JournalEntry], result: FailoverResult) -> Iterator[Intent]:
    plans: dict[str, Plan] = {}
    back: dict[str, tuple[AnyStep, ...]] = {}
    who = ""
    for entry in entries:
        match entry.record:
            case LeadershipTaken(name=name):
                who, result.terms = name, result.terms + 1
            case PlanOpened(plan=plan):
                plans[entry.plan_id] = plan
                result.plans += 1
            case RollbackStarted(steps=steps):
                back[entry.plan_id] = steps
            case PlanParked(ending=ending) | PlanEnded(ending=ending):
                result.endings[ending.value] += 1
            case StepIntended(at=at, index=index, undoing=undoing):
                steps = back[entry.plan_id] if undoing else plans[entry.plan_id].steps
                what = _what(steps[index])
                step = (entry.plan_id, index, undoing)
                yield Intent(at, result.terms, who, step, what, used=not what)


def _what(step: AnyStep) -> str:
    match step:
        case ToState(state=RequestedState.STOPPED):
            return "PUT stop"
        case ToState(state=RequestedState.RUNNING):
            return "PUT resume"
        case Alter(pairs=(pair,)):
            assert pair.offset is not None
            return f"PATCH {int(pair.offset.partition(':')[2].rstrip('}'))}"
        case _:
            return ""  # nothing is asked for over REST
