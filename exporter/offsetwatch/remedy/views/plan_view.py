"""Views of plans in the remediation API: rows for lists, and details with each step in words.

Each step has the requests that it makes, and its status. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from offsetwatch.formatting import format_count
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.model.remediation import GuardRow, OpenPlan, RefusalRow, StepRow
from offsetwatch.remedy.engine.progress import EngineLimits, PlanProgress, replay_records
from offsetwatch.remedy.engine.requests import build_step_request
from offsetwatch.remedy.model.approval import PlanHistory
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.fleet_state import FleetState
from offsetwatch.remedy.model.guard_answer import GuardAnswer, GuardResult
from offsetwatch.remedy.model.journal_records import ActionRefused, AnyRecord, PlanOpened
from offsetwatch.remedy.model.plan import AnyStep, Plan, PlanStatus
from offsetwatch.remedy.model.service_api import (
    GuardAnswerRow,
    PlanDetails,
    PlanRow,
    PlanStepRow,
    RemediationPause,
)
from offsetwatch.remedy.views import plan_text as words


def find_decider(history: PlanHistory) -> str | None:
    """Return who approved or rejected the plan; None if no one has."""
    return history.rejected_by or history.approved_by


def build_plan_row(history: PlanHistory, now: float, not_before: float = 0.0) -> PlanRow:
    """Build the row of a plan. not_before: when its cool-down ends; see FleetState.not_before."""
    plan = history.plan
    waits = history.status.is_waiting and not_before > now
    last = history.ended or history.parked
    return PlanRow(
        plan_id=plan.plan_id,
        sha256=plan.sha256,
        state=history.status_at(now),
        action=plan.verb if plan.remedy is None else plan.remedy.action.value,
        connect_cluster=plan.subject.store,
        connector=plan.subject.connector,
        created_at=plan.created_at,
        created_by=plan.created_by,
        said=_summarize_plan(history),
        verb=plan.verb,
        cause=None if last is None or last.cause is None else last.cause.value,
        expires_at=moment_of(history.expires_at) if history.status is PlanStatus.PROPOSED else None,
        not_before=moment_of(not_before) if waits else None,
    )


def _summarize_plan(history: PlanHistory) -> str:
    if history.said:
        return history.said
    because = "" if history.proposed is None else history.proposed.because
    return f"{history.plan.verb}: {because}" if because else history.plan.verb


def build_plan_details(
    history: PlanHistory,
    records: tuple[AnyRecord, ...],
    now: float,
    refused: ActionRefused | None = None,
    *,
    not_before: float = 0.0,
    second_person: bool = True,
) -> PlanDetails:
    """Build the details of a plan.

    records    all of the plan
    refused    the last refusal for its incident and action
    """
    return PlanDetails(
        row=build_plan_row(history, now, not_before),
        plan=history.plan,
        steps=build_step_rows(history.plan, records),
        guards=tuple(map(build_guard_row, find_guard_answers(history, refused))),
        second_person=second_person,
    )


def find_guard_answers(
    history: PlanHistory, refused: ActionRefused | None
) -> tuple[GuardAnswer, ...]:
    """Return the newest guard answers about a plan: of its proposal, or of what holds it back."""
    if refused is not None and history.status is PlanStatus.APPROVED and refused.at > history.at:
        return refused.answers
    return () if history.proposed is None else history.proposed.answers


def build_pause(fleet: FleetState, now: float) -> RemediationPause | None:
    """Build the view of the pause that is in force; None if there is none."""
    pause = fleet.paused(now)
    if pause is None:
        return None
    return RemediationPause(
        until=moment_of(pause.until), by=pause.by, at=Moment(pause.at), because=pause.because
    )


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


def _build_step_row(plan: Plan, step: AnyStep, status: str, prefix: str = "") -> PlanStepRow:
    request = build_step_request(plan.subject.connector, step)
    over_rest = plan.subject.driver == "rest"
    return PlanStepRow(
        step=f"{prefix}{words.describe_step(step)}",
        requests=(request.said,) if request is not None and over_rest else (),
        status=status,
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
        return "in doubt" if progress.parked.ending is PlanStatus.IN_DOUBT else "stopped here"
    if not progress.sent:
        return "not done" if over else "next"
    if progress.answer is AttemptResult.IN_DOUBT:
        return "requested, in doubt"
    return "requested, no effect seen" if over else "requested"


ROWS_MAX: Final = 20  # of each of the two
STEPS_MAX: Final = 50  # a plan has eight; one that alters piece by piece may have any number
REQUEST_CHARS_MAX: Final = 500  # a PATCH of thousands of offsets; `plan show` has all of it


def list_open_plans(
    dossiers: Iterable[PlanHistory], refused: Callable[[Plan], ActionRefused | None], now: float
) -> tuple[tuple[OpenPlan, ...], int]:
    """List the remediation plans that are not over, newest first, and how many more there are.

    refused    returns the last refusal for a plan's incident and action
    """
    histories = [
        history
        for history in dossiers
        if history.plan.remedy is not None and not history.status.is_over
    ]
    histories.sort(key=lambda history: history.plan.created_at, reverse=True)
    return tuple(
        _build_open_plan(history, refused(history.plan), now) for history in histories[:ROWS_MAX]
    ), _count_omitted(histories)


def list_refusals(
    refusals: Iterable[ActionRefused], planned: Iterable[OpenPlan]
) -> tuple[tuple[RefusalRow, ...], int]:
    """List the refusals, newest first, and how many more there are.

    Connectors with an open plan are left out.
    """
    waiting = {(open_plan.connect_cluster, open_plan.connector) for open_plan in planned}
    unplanned = [
        action_refused
        for action_refused in refusals
        if (action_refused.connect_cluster, action_refused.connector) not in waiting
    ]
    newest = sorted(unplanned, key=lambda refusal: refusal.at, reverse=True)
    return tuple(
        _build_refusal_row(action_refused) for action_refused in newest[:ROWS_MAX]
    ), _count_omitted(newest)


def _count_omitted(items: Collection[object]) -> int:
    return max(0, len(items) - ROWS_MAX)


def _build_open_plan(history: PlanHistory, refused: ActionRefused | None, now: float) -> OpenPlan:
    plan_details = build_plan_details(history, (), now, refused)
    row = plan_details.row
    return OpenPlan(
        plan_id=row.plan_id,
        sha256=row.sha256,
        state=row.state.value,
        connect_cluster=row.connect_cluster,
        connector=row.connector,
        verb=row.verb,
        said=row.said,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        steps=tuple(
            StepRow(step.step, tuple(map(_shorten_request, step.requests)))
            for step in (plan_details.steps[:STEPS_MAX] if history.status.is_waiting else ())
        ),
        guards=_build_guard_rows(find_guard_answers(history, refused)),
    )


def _build_refusal_row(refusal: ActionRefused) -> RefusalRow:
    return RefusalRow(
        at=Moment(refusal.at),
        connect_cluster=refusal.connect_cluster,
        connector=refusal.connector,
        action=refusal.action,
        would=refusal.would,
        guards=_build_guard_rows(refusal.answers),
        recommend=refusal.recommend,
    )


def _build_guard_rows(answers: Iterable[GuardAnswer]) -> tuple[GuardRow, ...]:
    from offsetwatch.remedy.guards import AUTOMATIC_GUARDS  # noqa: PLC0415 - a tenth of `explain`

    return tuple(
        GuardRow(
            answer.number,
            answer.guard,
            answer.answer,
            answer.said,
            asks=answer.answer != GuardResult.PASS and answer.guard in AUTOMATIC_GUARDS,
        )
        for answer in answers
    )


def _shorten_request(request: str) -> str:
    more = len(request) - REQUEST_CHARS_MAX
    return (
        request
        if more <= 0
        else f"{request[:REQUEST_CHARS_MAX]}… ({format_count(more, 'more character')})"
    )
