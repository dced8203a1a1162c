"""View of remediation for the status page: open plans, and refusals of other actions.

Pure, and bounded: the page shows what is to be decided now; the journal has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from offsetwatch.model.moments import Moment
from offsetwatch.model.remediation import GuardRow, OpenPlan, RefusalRow, StepRow
from offsetwatch.remedy.guards.table import AUTOMATIC_GUARDS
from offsetwatch.remedy.model.approval import PlanHistory, PlanStatus
from offsetwatch.remedy.model.guard_answer import GuardAnswer, GuardResult
from offsetwatch.remedy.model.journal_records import ActionRefused
from offsetwatch.remedy.model.plan import Plan
from offsetwatch.remedy.views import plan_view

ROWS_MAX: Final = 20  # of each of the two
STEPS_MAX: Final = 50  # a plan has eight; one that alters piece by piece may have any number
REQUEST_CHARS_MAX: Final = 500  # a PATCH of thousands of offsets; `plan show` has all of it
_OPEN_STATUSES: Final = frozenset(
    {PlanStatus.PROPOSED, PlanStatus.APPROVED, PlanStatus.RUNNING, PlanStatus.PARKED}
)
_WAITING_STATUSES: Final = frozenset({PlanStatus.PROPOSED, PlanStatus.APPROVED})


def list_open_plans(
    dossiers: Iterable[PlanHistory], refused: Callable[[Plan], ActionRefused | None], now: float
) -> tuple[tuple[OpenPlan, ...], int]:
    """List the remediation plans that are not over, newest first, and how many more there are.

    refused    returns the last refusal for a plan's incident and action
    """
    found = [
        history
        for history in dossiers
        if history.plan.remedy is not None and history.stands in _OPEN_STATUSES
    ]
    found.sort(key=lambda history: history.plan.created_at, reverse=True)
    return tuple(
        _build_open_plan(history, refused(history.plan), now) for history in found[:ROWS_MAX]
    ), _count_omitted(found)


def list_refusals(
    found: Iterable[ActionRefused], planned: Iterable[OpenPlan]
) -> tuple[tuple[RefusalRow, ...], int]:
    """List the refusals, newest first, and how many more there are.

    Connectors with an open plan are left out.
    """
    waiting = {(open_plan.connect_cluster, open_plan.connector) for open_plan in planned}
    told = [
        action_refused
        for action_refused in found
        if (action_refused.connect_cluster, action_refused.connector) not in waiting
    ]
    newest = sorted(told, key=lambda refusal: refusal.at, reverse=True)
    return tuple(
        _build_refusal_row(action_refused) for action_refused in newest[:ROWS_MAX]
    ), _count_omitted(newest)


def _count_omitted(found: Collection[object]) -> int:
    return max(0, len(found) - ROWS_MAX)


def _build_open_plan(found: PlanHistory, refused: ActionRefused | None, now: float) -> OpenPlan:
    plan_details = plan_view.build_plan_details(found, (), now, refused)
    row = plan_details.row
    waits = found.stands in _WAITING_STATUSES
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
            for step in (plan_details.steps[:STEPS_MAX] if waits else ())
        ),
        guards=_build_guard_rows(plan_view.find_guard_answers(found, refused)),
    )


def _build_refusal_row(found: ActionRefused) -> RefusalRow:
    return RefusalRow(
        at=Moment(found.at),
        connect_cluster=found.connect_cluster,
        connector=found.connector,
        action=found.action,
        would=found.would,
        guards=_build_guard_rows(found.answers),
        recommend=found.recommend,
    )


def _build_guard_rows(answers: Iterable[GuardAnswer]) -> tuple[GuardRow, ...]:
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
    return request if more <= 0 else f"{request[:REQUEST_CHARS_MAX]}… ({more} characters more)"
