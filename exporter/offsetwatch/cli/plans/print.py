"""Tables of a plan for the person who decides, and texts about the mode and a pause.

Tables go to standard output.
"""

from __future__ import annotations

from typing import Any, Final

from offsetwatch.cli.common import output
from offsetwatch.formatting import format_count
from offsetwatch.model.findings import format_value
from offsetwatch.remedy.model.plan import Plan, PlanStatus
from offsetwatch.remedy.model.plan_templates import DETECTOR
from offsetwatch.remedy.model.service_api import (
    GuardAnswerRow,
    Mode,
    PlanDetails,
    PlanRow,
    ProposalRefused,
    RemediationPause,
)
from offsetwatch.remedy.views.plan_text import COMMAND, format_pairs

PAIRS_MAX: Final = 20  # of a step in a table
MODE_MEANINGS: Final = {
    Mode.OBSERVE: "reports what would be done, and does nothing",
    Mode.PROPOSE: "proposes plans, and carries out what an operator approves",
    Mode.AUTO: "acts without approval where the configuration allows it, and proposes elsewhere",
}


def build_plan_document(row: PlanRow, status: str) -> dict[str, Any]:
    """Return a plan row as a document.

    open    it holds its connector, so that no other plan for it begins
    """
    return {
        "plan_id": row.plan_id,
        "created_at": row.created_at,
        "created_by": row.created_by,
        "place": row.connect_cluster,
        "connector": row.connector,
        "action": row.action,
        "verb": row.verb,
        "sha256": row.sha256,
        "open": row.state.is_open,
        "stands": status,
        "said": row.said,
        "cause": row.cause,
        "expires_at": row.expires_at,
        "not_before": row.not_before,
    }


def build_details_document(plan_details: PlanDetails, status: str) -> dict[str, Any]:
    """Return a plan with its steps and the answers of its guards as a document."""
    return {
        **build_plan_document(plan_details.row, status),
        "plan": plan_details.plan,
        "steps": plan_details.steps,
        "guards": plan_details.guards,
        "second_person": plan_details.second_person,
    }


def print_plan(
    plan_details: PlanDetails, status: str, *more: tuple[str, str | None], brief: bool = False
) -> None:
    """Print a plan, with `more` as further facts. `brief` omits the reasons of guards that pass."""
    row, plan = plan_details.row, plan_details.plan
    subject = plan.subject
    facts: list[tuple[str, str | None]] = [
        ("connector", f"{subject.connector} ({subject.kind})"),
        ("cluster", f"{subject.store} ({subject.driver})"),
        ("requested by", row.created_by),
        ("at", output.format_moment(row.created_at)),
        ("state", "no worker runs" if subject.driver == "storage" else _describe_states(plan)),
        *more,
    ]
    if row.expires_at is not None:
        facts.append(("expires", output.format_moment(row.expires_at)))
    if row.not_before is not None:
        facts.append(
            ("begins", f"after {output.format_moment(row.not_before)} (remedy.cool_down_s)")
        )
    if plan.remedy is not None:
        facts += [(item.name, format_value(item)) for item in plan.remedy.evidence]
        facts.append(("incident", plan.remedy.incident or None))
    facts += [("approval", _describe_approval(plan_details)), ("sha256", row.sha256)]
    output.print_table(
        f"Plan {row.plan_id}: {row.verb}: {status}",
        ("fact", "value"),
        [fact for fact in facts if fact[1] is not None],
    )
    _print_steps(plan_details)
    if plan_details.guards:
        print_guards("Guards", plan_details.guards, brief=brief)


def _describe_approval(plan_details: PlanDetails) -> str | None:
    """Return who may approve the plan; None if it no longer waits for approval."""
    if plan_details.row.state is not PlanStatus.PROPOSED:
        return None
    if plan_details.row.created_by == DETECTOR:
        return "by any approver"
    if plan_details.second_person:
        return (
            f"by another operator than {plan_details.row.created_by} (remedy.second_person: true)"
        )
    return f"by any operator, {plan_details.row.created_by} too (remedy.second_person: false)"


def _describe_states(plan: Plan) -> str:
    before, after = (state or "not there" for state in (plan.original, plan.final))
    return f"{before} before, {after} afterwards"


def _print_steps(plan_details: PlanDetails) -> None:
    """Print the steps as a table, and their requests below, which a table would wrap.

    Steps of a rollback follow those of the plan, and have no offsets of their own.
    """
    pairs = [_format_pairs(format_pairs(step)) for step in plan_details.plan.steps]
    rows = (
        (
            number,
            plan_step.step,
            pairs[number - 1] if number <= len(pairs) else "",
            plan_step.status,
        )
        for number, plan_step in enumerate(plan_details.steps, start=1)
    )
    output.print_table("Steps", ("step#", "what", "offsets", "status"), rows)
    requests = [
        f"  {number}. {_cut_request(request)}"
        for number, plan_step in enumerate(plan_details.steps, start=1)
        for request in plan_step.requests
    ]
    if requests:
        output.print_lines(f"Requests to {plan_details.row.connect_cluster}, by step", requests)


def _format_pairs(pairs: tuple[str, ...]) -> str:
    more = len(pairs) - PAIRS_MAX
    return "; ".join((*pairs[:PAIRS_MAX], *([f"and {more} more: --json"] if more > 0 else [])))


_REQUEST_MAX: Final = 500  # a PATCH of thousands of offsets


def _cut_request(request: str) -> str:
    more = len(request) - _REQUEST_MAX
    return (
        request
        if more <= 0
        else f"{request[:_REQUEST_MAX]}… {format_count(more, 'more character')}: --json"
    )


def print_guards(title: str, guards: tuple[GuardAnswerRow, ...], *, brief: bool = False) -> None:
    """Print guards: those that deny, then those that ask for approval, then those that pass.

    `brief` prints only the names of guards that pass.
    """
    rows = [
        (_rank_guard(guard), guard)
        for guard in sorted(guards, key=lambda answer: (_rank_guard(answer), answer.number))
    ]
    output.print_table(
        title,
        ("", "guard", "answer", "why"),
        (
            (
                f"G{answer.number:02}",
                answer.guard,
                _ANSWER_WORDS.get(weight, answer.answer),
                answer.said,
            )
            for weight, answer in rows
            if weight < _PASSES or not brief
        ),
    )
    passing = [answer.guard for weight, answer in rows if weight == _PASSES]
    if brief and passing:
        output.print_lines(
            f"{format_count(len(passing), 'guard lets', 'guards let')} it pass: "
            f"{', '.join(passing)}",
            (),
        )


_DENIES, _ASKS, _PASSES = range(3)
_ANSWER_WORDS: Final = {_ASKS: "asks for approval"}


def _rank_guard(answer: GuardAnswerRow) -> int:
    if answer.answer == "pass":
        return _PASSES
    from offsetwatch.remedy.guards import AUTOMATIC_GUARDS  # noqa: PLC0415 - a tenth of `explain`

    return _ASKS if answer.guard in AUTOMATIC_GUARDS else _DENIES


def select_denying_guards(guards: tuple[GuardAnswerRow, ...]) -> tuple[GuardAnswerRow, ...]:
    """Return the guards that hold a plan back even if an operator approves it."""
    return tuple(guard for guard in guards if _rank_guard(guard) == _DENIES)


def print_refusal(refusal: ProposalRefused) -> None:
    """Print why there is no plan."""
    if select_denying_guards(refusal.guards):
        print_guards("Guards that do not let it", select_denying_guards(refusal.guards))
    output.print_error(refusal.said)


def describe_next_step(row: PlanRow, options: str) -> str:
    """Return what can be done about a plan, by its state."""
    on = f" {options}" if options else ""
    reject = f'`{COMMAND} plan reject {row.plan_id} --because "..."{on}`'
    begins = (
        ""
        if row.not_before is None
        else (
            f" after {output.format_moment(row.not_before)}, when the cool-down of the last plan "
            "is over,"
        )
    )
    match row.state:
        case PlanStatus.PROPOSED:
            return (
                f"It waits until {output.format_moment(row.expires_at)} to be approved: "
                f"`{COMMAND} plan approve {row.plan_id} --sha256 {row.sha256}{on}`, or {reject}."
                f"{begins and f' If it is approved, it begins{begins[:-1]}.'}"
            )
        case PlanStatus.APPROVED:
            return (
                f"The daemon begins with it{begins} as soon as its guards let it; until then "
                f"{reject} takes it back."
            )
        case PlanStatus.RUNNING:
            return (
                "It is being carried out; to roll it back as far as possible: "
                f'`{COMMAND} plan abort {row.plan_id} --because "..."{on}`.'
            )
        case PlanStatus.PARKED | PlanStatus.IN_DOUBT:
            return (
                f"A person must decide: {row.said}. Inspect {row.connector}, then "
                f'`{COMMAND} plan resolve {row.plan_id} --because "..."{on}` closes it and leaves '
                f"everything as it is; on the daemon's host, `{COMMAND} plan recover` goes on."
            )
        case _:
            why = "" if row.said in {"done", row.verb} else f": {row.said}"
            return f"{row.verb or row.action}: {row.state.value}{why}"


def describe_pause(pause: RemediationPause) -> str:
    """Return until when remediation is paused, by whom, since when and why."""
    until = (
        "until an operator ends it"
        if pause.until is None
        else f"until {output.format_moment(pause.until)}"
    )
    return f"{until}, by {pause.by} since {output.format_moment(pause.at)}: {pause.because}"
