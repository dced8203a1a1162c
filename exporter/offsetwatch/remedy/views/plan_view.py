"""Views of plans in the remediation API: rows for lists, and details with each step in words.

Each step has the requests that it makes, and its status. Pure.
"""

from __future__ import annotations

from offsetwatch.model.moments import moment_of
from offsetwatch.remedy.engine.progress import EngineLimits, PlanProgress, replay_records
from offsetwatch.remedy.engine.requests import build_step_request
from offsetwatch.remedy.model.approval import PlanHistory, PlanStatus
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.guard_answer import GuardAnswer
from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    AnyRecord,
    PlanEnding,
    PlanOpened,
)
from offsetwatch.remedy.model.plan import AnyStep, Plan
from offsetwatch.remedy.model.service_api import (
    GuardAnswerRow,
    PlanDetails,
    PlanRow,
    PlanState,
    PlanStepRow,
)
from offsetwatch.remedy.views import plan_text as words

_STATES = {
    PlanStatus.PROPOSED: PlanState.PROPOSED,
    PlanStatus.APPROVED: PlanState.APPROVED,
    PlanStatus.REJECTED: PlanState.REJECTED,
    PlanStatus.EXPIRED: PlanState.LAPSED,
    PlanStatus.VOID: PlanState.LAPSED,
    PlanStatus.RUNNING: PlanState.RUNNING,
}


def compute_plan_state(found: PlanHistory, now: float) -> PlanState:
    """Return the state of a plan as reported.

    An expired proposal has lapsed, whether that was recorded yet or not.
    """
    if found.stands is PlanStatus.PARKED:
        assert found.parked is not None
        return PlanState(found.parked.ending.value)
    if found.stands is PlanStatus.ENDED:
        assert found.ended is not None
        return PlanState(found.ended.ending.value)
    late = found.expires_at is not None and now >= found.expires_at
    if late and found.stands is PlanStatus.PROPOSED:
        return PlanState.LAPSED
    return _STATES[found.stands]


def find_decider(found: PlanHistory) -> str | None:
    """Return who approved or rejected the plan; None if no one has."""
    return found.rejected_by or found.approved_by


def build_plan_row(found: PlanHistory, now: float, not_before: float = 0.0) -> PlanRow:
    """Build the row of a plan. not_before: when its cool-down ends; see FleetState.not_before."""
    plan = found.plan
    waits = found.stands in {PlanStatus.PROPOSED, PlanStatus.APPROVED} and not_before > now
    return PlanRow(
        plan_id=plan.plan_id,
        sha256=plan.sha256,
        state=compute_plan_state(found, now),
        action=plan.verb if plan.remedy is None else plan.remedy.action.value,
        connect_cluster=plan.subject.place,
        connector=plan.subject.connector,
        created_at=plan.created_at,
        created_by=plan.created_by,
        said=_summarize_plan(found),
        verb=plan.verb,
        cause=_find_cause(found),
        expires_at=moment_of(found.expires_at) if found.stands is PlanStatus.PROPOSED else None,
        not_before=moment_of(not_before) if waits else None,
    )


def _summarize_plan(found: PlanHistory) -> str:
    if found.said:
        return found.said
    because = "" if found.proposed is None else found.proposed.because
    return f"{found.plan.verb}: {because}" if because else found.plan.verb


def _find_cause(found: PlanHistory) -> str | None:
    last = found.ended or found.parked
    return None if last is None or last.cause is None else last.cause.value


def build_plan_details(
    found: PlanHistory,
    records: tuple[AnyRecord, ...],
    now: float,
    refused: ActionRefused | None = None,
    *,
    not_before: float = 0.0,
) -> PlanDetails:
    """Build the details of a plan.

    records    all of the plan
    refused    the last refusal for its incident and action
    """
    return PlanDetails(
        row=build_plan_row(found, now, not_before),
        plan=found.plan,
        steps=build_step_rows(found.plan, records),
        guards=tuple(map(build_guard_row, find_guard_answers(found, refused))),
    )


def find_guard_answers(
    found: PlanHistory, refused: ActionRefused | None
) -> tuple[GuardAnswer, ...]:
    """Return the newest guard answers about a plan: of its proposal, or of what holds it back."""
    if refused is not None and found.stands is PlanStatus.APPROVED and refused.at > found.at:
        return refused.answers
    return () if found.proposed is None else found.proposed.answers


def build_guard_row(answer: GuardAnswer) -> GuardAnswerRow:
    """Build the row of a guard's answer."""
    return GuardAnswerRow(
        guard=answer.guard, number=answer.number, answer=answer.answer, said=answer.said
    )


def build_step_rows(plan: Plan, records: tuple[AnyRecord, ...]) -> tuple[PlanStepRow, ...]:
    """Build the rows of the plan's steps, then those of its rollback, if there is one."""
    if not any(isinstance(record, PlanOpened) for record in records):
        return tuple(_build_step_row(plan, each, "not begun") for each in plan.steps)
    progress = replay_records(records, EngineLimits())
    forth = [
        _build_step_row(plan, each, _describe_forward_step(progress, index))
        for index, each in enumerate(plan.steps)
    ]
    if progress.undoing:
        back = ((index, each) for index, each in enumerate(progress.path))
        forth += [
            _build_step_row(plan, each, _describe_path_step(progress, number), "roll back: ")
            for number, each in back
        ]
    return tuple(forth)


def _build_step_row(plan: Plan, step: AnyStep, standing: str, way: str = "") -> PlanStepRow:
    request = build_step_request(plan.subject.connector, step)
    over_rest = plan.subject.driver == "rest"
    return PlanStepRow(
        step=f"{way}{words.describe_step(step)}",
        requests=(request.said,) if request is not None and over_rest else (),
        standing=standing,
    )


def _describe_forward_step(progress: PlanProgress, position: int) -> str:
    if not progress.undoing:
        return _describe_path_step(progress, position)
    return "begun" if position in progress.touched else "not begun"


def _describe_path_step(progress: PlanProgress, position: int) -> str:
    """Describe the status of a step of the current path."""
    if position < progress.index:
        return "done"
    if position > progress.index:
        return "not begun"
    over = progress.ended is not None
    if progress.parked is not None:
        return "in doubt" if progress.parked.ending is PlanEnding.IN_DOUBT else "stopped here"
    if not progress.sent:
        return "not done" if over else "next"
    if progress.answer is AttemptResult.IN_DOUBT:
        return "requested, in doubt"
    return "requested, no effect seen" if over else "requested"
