"""The verbs `plan approve`, `reject` and `abort`: show a plan, send the decision and follow it.

The daemon carries the plan out; its progress is read from the journal.

Exit codes: 3 denied; 4 the plan has another hash, or it is too late; 6 not allowed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from offsetwatch.cli.common import output
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.plans.print import describe_next_step, print_plan
from offsetwatch.cli.plans.service_access import (
    ServiceAccess,
    ServiceSession,
    build_service_access,
    open_service,
)
from offsetwatch.daemon import state_dir
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import format_duration
from offsetwatch.remedy.execute.runner import compute_plan_exit_code
from offsetwatch.remedy.guards import AUTOMATIC_GUARDS
from offsetwatch.remedy.guards.daemon import APPROVED_TTL_S
from offsetwatch.remedy.model.journal_records import PlanFailureCause
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.service_api import (
    AlreadyDecided,
    ChangeRecorded,
    PlanDetails,
    PlanHashMismatch,
    PlanRow,
    ProposalExpired,
    RequestTargetNotFound,
    SelfApproval,
)

POLL_S: Final = 1.0
OK, DENIED, CHANGED, OPEN, UNAUTHORISED, UNREACHABLE = 0, 3, 4, 5, 6, 7
_SILENT_STATUSES: Final = frozenset({"not begun", "next"})

SleepFunction = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ApprovalOptions:
    """Options of an approval.

    sha256    hash of the plan to approve; None: the plan that is shown
    """

    plan_id: str
    sha256: str | None = None
    because: str | None = None
    yes: bool = False
    wait: bool = True


def approve_typed_plan(
    plan_id: str, *, sha256: str | None, because: str | None, yes: bool, no_wait: bool, **where: Any
) -> int:
    """Approve a plan as it was typed, and follow it; return the exit code."""
    options = ApprovalOptions(plan_id, sha256, because, yes=yes, wait=not no_wait)
    return approve_plan(build_service_access(**where), options)


def approve_plan(
    access: ServiceAccess, options: ApprovalOptions, *, pause: SleepFunction = time.sleep
) -> int:
    """Show the plan, have the connector's name typed, approve the plan and follow it."""
    with open_service(access) as session:
        plan_details = _read_plan(session, options.plan_id)
        row = plan_details.row
        print_plan(plan_details, row.state.value, brief=True)
        if options.sha256 not in {None, row.sha256}:
            return _report_stale_hash(row.sha256)
        if row.state is not PlanStatus.PROPOSED:
            return _report_late_decision(
                session, plan_details, AlreadyDecided(state=row.state, by=None)
            )
        if not execute.confirm_by_name(row.connector, yes=options.yes):
            return DENIED
        because = options.because or "approved at the command line"
        answer = session.service.approve(row.plan_id, row.sha256, session.by, because)
        match answer:
            case ChangeRecorded():
                output.print_error(f"plan {row.plan_id} is approved")
            case RequestTargetNotFound():
                raise build_unknown_plan_error(options.plan_id)
            case PlanHashMismatch():
                return _report_stale_hash(answer.sha256)
            case ProposalExpired():
                output.print_error(
                    f"the time for its approval ended at {output.format_moment(answer.at)}"
                )
                return CHANGED
            case SelfApproval():
                name = row.created_by
                output.print_error(
                    f"{name} is the author of this plan, and another operator has to approve it "
                    "(remedy.second_person: false lets one operator do both)"
                )
                return UNAUTHORISED
            case AlreadyDecided():
                return _report_late_decision(session, plan_details, answer)
        if not options.wait:
            output.print_error(
                describe_next_step(_read_plan(session, row.plan_id).row, session.options)
            )
            return OK
        return follow_plan(session, row.plan_id, pause=pause)


def reject_plan(plan_id: str, *, because: str, **where: Any) -> int:
    """Reject a plan that has not begun; return the exit code."""
    with open_service(build_service_access(**where)) as session:
        plan_details = _read_plan(session, plan_id)
        answer = session.service.reject(plan_id, session.by, because)
        match answer:
            case ChangeRecorded():
                output.print_error(
                    f"plan {plan_id} is rejected: {plan_details.row.connector} is left alone"
                )
                return OK
            case RequestTargetNotFound():
                raise build_unknown_plan_error(plan_id)
            case AlreadyDecided():
                return _report_late_decision(session, plan_details, answer)


def abort_plan(plan_id: str, *, because: str, **where: Any) -> int:
    """Roll a plan back, or reject it; return the exit code."""
    with open_service(build_service_access(**where)) as session:
        plan_details = _read_plan(session, plan_id)
        if isinstance(session.service.reject(plan_id, session.by, because), ChangeRecorded):
            output.print_error(f"plan {plan_id} had not begun, and is rejected")
            return OK
        answer = session.service.abort(plan_id, session.by, because)
        match answer:
            case ChangeRecorded():
                output.print_error(
                    f"plan {plan_id} will roll back as far as possible: plan show {plan_id} "
                    "shows its progress"
                )
                return OK
            case RequestTargetNotFound():
                raise build_unknown_plan_error(plan_id)
            case AlreadyDecided(state=PlanStatus.RUNNING):
                output.print_error(
                    f"{answer.by or 'an operator'} has already aborted plan {plan_id}"
                )
                return CHANGED
            case AlreadyDecided():
                return _report_late_decision(session, plan_details, answer)


def _read_plan(session: ServiceSession, plan_id: str) -> PlanDetails:
    plan_details = session.service.plan(plan_id)
    if plan_details is None:
        raise build_unknown_plan_error(plan_id)
    return plan_details


def build_unknown_plan_error(plan_id: str) -> ConfigError:
    """Build the error for a plan that the journal does not have."""
    return ConfigError((f"the journal has no plan {plan_id}: `offsetwatch plan list` lists all",))


def _report_stale_hash(sha256: str) -> int:
    output.print_error(
        f"--sha256: the plan now has another hash, {sha256}: nothing was approved. Read it again, "
        "above, before you approve it"
    )
    return CHANGED


def _report_late_decision(
    session: ServiceSession, plan_details: PlanDetails, answer: AlreadyDecided
) -> int:
    is_named = answer.state in {PlanStatus.APPROVED, PlanStatus.REJECTED}
    by = f" by {answer.by}" if answer.by is not None and is_named else ""
    output.print_error(
        f"too late: plan {plan_details.row.plan_id} is {answer.state.value} already{by}"
    )
    output.print_error(
        describe_next_step(_read_plan(session, plan_details.row.plan_id).row, session.options)
    )
    return CHANGED


# --- following ----------------------------------------------------------------------------------


def follow_plan(session: ServiceSession, plan_id: str, *, pause: SleepFunction = time.sleep) -> int:
    """Print the plan's progress until it is over or a person is needed; return the exit code.

    Ctrl-C ends the printing, and not the plan.
    """
    known: set[str] = set()
    try:
        while True:
            plan_details = session.service.plan(plan_id)
            assert plan_details is not None, "nothing is ever taken out of a journal"
            for line in _describe_progress(plan_details):
                if line not in known:
                    known.add(line)
                    output.print_error(line)
            if plan_details.row.state.is_over or plan_details.row.state.is_parked:
                output.print_error(describe_next_step(plan_details.row, session.options))
                return compute_exit_code(plan_details.row)
            if (
                plan_details.row.state is PlanStatus.APPROVED
                and session.local_service is not None
                and not state_dir.is_in_use(Path(session.local_service.folder))
            ):
                output.print_error(
                    "no daemon runs on this state directory: the plan is approved, and is not "
                    "begun before one does"
                )
                return UNREACHABLE
            pause(POLL_S)
    except KeyboardInterrupt:
        output.print_error(f"the plan continues without this command: see plan show {plan_id}")
        return OPEN


def _describe_progress(plan_details: PlanDetails) -> list[str]:
    """Return all lines on the current progress; the caller does not repeat printed ones."""
    lines = [
        f"{number}. {plan_step.step}: {plan_step.status}"
        for number, plan_step in enumerate(plan_details.steps, start=1)
        if plan_step.status not in _SILENT_STATUSES
    ]
    if plan_details.row.state is PlanStatus.APPROVED:
        since = "the approval"
        if plan_details.row.not_before is not None:
            since = output.format_moment(plan_details.row.not_before) or since
            lines.append(f"it begins after {since}, when the cool-down of the last plan is over")
        lines += [
            f"not begun yet: {guard.guard}: {guard.said}; it begins by itself if this passes "
            f"within {format_duration(APPROVED_TTL_S)} of {since}; the approval expires then"
            for guard in plan_details.guards
            if guard.answer != "pass" and guard.guard not in AUTOMATIC_GUARDS
        ]
    return lines


def compute_exit_code(row: PlanRow) -> int:
    """Return the exit code of an approved plan by its state."""
    match row.state:
        case PlanStatus.REJECTED:
            return CHANGED
        case PlanStatus.EXPIRED:
            return DENIED  # the guards have not let it begin, or not in time
        case _:
            cause = None if row.cause is None else PlanFailureCause(row.cause)
            return compute_plan_exit_code(row.state, cause)
