"""Plans as the desk tells them: a row for a list, and each step in words, with the requests that it
makes and what has become of it. Pure.
"""

from __future__ import annotations

from offsetwatch.model.moments import moment_of
from offsetwatch.remedy.engine.progress import Limits, Progress, replayed
from offsetwatch.remedy.engine.requests import of_step
from offsetwatch.remedy.model.approval import Dossier, Stands
from offsetwatch.remedy.model.driver import Answer
from offsetwatch.remedy.model.journal_records import AnyRecord, Ending, Opened, Refused, Told
from offsetwatch.remedy.model.plan import AnyStep, Plan
from offsetwatch.remedy.model.service_api import GuardTold, PlanRow, PlanState, PlanTold, StepTold
from offsetwatch.remedy.views import plan_text as words

_STATES = {
    Stands.PROPOSED: PlanState.PROPOSED,
    Stands.APPROVED: PlanState.APPROVED,
    Stands.REJECTED: PlanState.REJECTED,
    Stands.EXPIRED: PlanState.LAPSED,
    Stands.VOID: PlanState.LAPSED,
    Stands.RUNNING: PlanState.RUNNING,
}


def state(found: Dossier, now: float) -> PlanState:
    """How it stands. A proposal whose time is over has lapsed, whether that was written down yet or
    not.
    """
    if found.stands is Stands.PARKED:
        assert found.parked is not None
        return PlanState(found.parked.ending.value)
    if found.stands is Stands.ENDED:
        assert found.ended is not None
        return PlanState(found.ended.ending.value)
    late = found.expires_at is not None and now >= found.expires_at
    if late and found.stands is Stands.PROPOSED:
        return PlanState.LAPSED
    return _STATES[found.stands]


def decided_by(found: Dossier) -> str | None:
    """Who approved or rejected it; None where nobody had to."""
    return found.rejected_by or found.approved_by


def row(found: Dossier, now: float, not_before: float = 0.0) -> PlanRow:
    """One plan in a list. not_before: when its cool-down is over; see Fleet.not_before."""
    plan = found.plan
    waits = found.stands in {Stands.PROPOSED, Stands.APPROVED} and not_before > now
    return PlanRow(
        plan_id=plan.plan_id,
        sha256=plan.sha256,
        state=state(found, now),
        action=plan.verb if plan.remedy is None else plan.remedy.action.value,
        connect_cluster=plan.subject.place,
        connector=plan.subject.connector,
        created_at=plan.created_at,
        created_by=plan.created_by,
        said=_said(found),
        verb=plan.verb,
        cause=_cause(found),
        expires_at=moment_of(found.expires_at) if found.stands is Stands.PROPOSED else None,
        not_before=moment_of(not_before) if waits else None,
    )


def _said(found: Dossier) -> str:
    if found.said:
        return found.said
    because = "" if found.proposed is None else found.proposed.because
    return f"{found.plan.verb}: {because}" if because else found.plan.verb


def _cause(found: Dossier) -> str | None:
    last = found.ended or found.parked
    return None if last is None or last.cause is None else last.cause.value


def told(
    found: Dossier,
    records: tuple[AnyRecord, ...],
    now: float,
    refused: Refused | None = None,
    *,
    not_before: float = 0.0,
) -> PlanTold:
    """Everything about one plan; `records` are all of its own, `refused` is why nothing was done
    about its incident when that was last looked at.
    """
    answers = () if found.proposed is None else found.proposed.answers
    if refused is not None and found.stands is Stands.APPROVED and refused.at > found.at:
        answers = refused.answers
    return PlanTold(
        row=row(found, now, not_before),
        plan=found.plan,
        steps=steps(found.plan, records),
        guards=tuple(guard(at) for at in answers),
    )


def guard(answer: Told) -> GuardTold:
    """As the journal has it, for people."""
    return GuardTold(
        guard=answer.guard, number=answer.number, answer=answer.answer, said=answer.said
    )


def steps(plan: Plan, records: tuple[AnyRecord, ...]) -> tuple[StepTold, ...]:
    """The plan's, then those of the way back if it had to turn."""
    if not any(isinstance(record, Opened) for record in records):
        return tuple(_step(plan, each, "not begun") for each in plan.steps)
    progress = replayed(records, Limits())
    forth = [_step(plan, each, _forth(progress, at)) for at, each in enumerate(plan.steps)]
    if progress.undoing:
        back = ((at, each) for at, each in enumerate(progress.path))
        forth += [_step(plan, each, _along(progress, at), "roll back: ") for at, each in back]
    return tuple(forth)


def _step(plan: Plan, step: AnyStep, standing: str, way: str = "") -> StepTold:
    request = of_step(plan.subject.connector, step)
    over_rest = plan.subject.driver == "rest"
    return StepTold(
        step=f"{way}{words.doing(step)}",
        requests=(request.said,) if request is not None and over_rest else (),
        standing=standing,
    )


def _forth(progress: Progress, at: int) -> str:
    if not progress.undoing:
        return _along(progress, at)
    return "begun" if at in progress.touched else "not begun"


def _along(progress: Progress, at: int) -> str:
    """Of a step of the path that is being gone."""
    if at < progress.index:
        return "done"
    if at > progress.index:
        return "not begun"
    over = progress.ended is not None
    if progress.parked is not None:
        return "in doubt" if progress.parked.ending is Ending.IN_DOUBT else "stopped here"
    if not progress.sent:
        return "not done" if over else "next"
    if progress.answer is Answer.IN_DOUBT:
        return "requested, in doubt"
    return "requested, no effect seen" if over else "requested"
