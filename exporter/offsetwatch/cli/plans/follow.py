"""Progress of an approved plan, printed until the plan is over or a person is needed.

The daemon carries the plan out. Its progress is read from the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from offsetwatch.cli.common import output
from offsetwatch.cli.plans.print import describe_next_step
from offsetwatch.cli.plans.service_access import ServiceSession
from offsetwatch.config.durations import format_duration
from offsetwatch.daemon import state_dir
from offsetwatch.remedy.execute.runner import compute_plan_exit_code
from offsetwatch.remedy.guards import AUTOMATIC_GUARDS
from offsetwatch.remedy.guards.daemon import APPROVED_TTL_S
from offsetwatch.remedy.model.journal_records import PlanEnding, PlanFailureCause
from offsetwatch.remedy.model.service_api import PlanDetails, PlanRow, PlanState

POLL_S: Final = 1.0
OK, DENIED, CHANGED, OPEN, UNREACHABLE = 0, 3, 4, 5, 7
_ONGOING_STATES: Final = frozenset({PlanState.PROPOSED, PlanState.APPROVED, PlanState.RUNNING})
_SILENT_STATUSES: Final = frozenset({"not begun", "next"})

SleepFunction = Callable[[float], None]


def follow_plan(session: ServiceSession, plan_id: str, *, pause: SleepFunction = time.sleep) -> int:
    """Print the plan's progress until it is over or a person is needed; return the exit code.

    Ctrl-C ends the printing, and not the plan.
    """
    known: set[str] = set()
    try:
        while True:
            plan_details = session.desk.plan(plan_id)
            assert plan_details is not None, "nothing is ever taken out of a journal"
            for line in _describe_progress(plan_details):
                if line not in known:
                    known.add(line)
                    output.print_error(line)
            if plan_details.row.state not in _ONGOING_STATES:
                return _report_end(plan_details.row, session.options)
            if plan_details.row.state is PlanState.APPROVED and _is_daemon_missing(session):
                output.print_error(
                    "no daemon runs on this state directory: the plan is approved, and is not "
                    "begun before one does"
                )
                return UNREACHABLE
            pause(POLL_S)
    except KeyboardInterrupt:
        output.print_error(f"the plan continues without this command: see plan show {plan_id}")
        return OPEN


def _is_daemon_missing(session: ServiceSession) -> bool:
    return session.office is not None and not state_dir.is_in_use(Path(session.office.folder))


def _describe_progress(plan_details: PlanDetails) -> list[str]:
    """Return all lines on the current progress; the caller does not repeat printed ones."""
    found = [
        f"{number}. {plan_step.step}: {plan_step.standing}"
        for number, plan_step in enumerate(plan_details.steps, start=1)
        if plan_step.standing not in _SILENT_STATUSES
    ]
    if plan_details.row.state is PlanState.APPROVED:
        since = "the approval"
        if plan_details.row.not_before is not None:
            since = output.format_moment(plan_details.row.not_before) or since
            found.append(f"it begins after {since}, when the cool-down of the last plan is over")
        found += [
            f"not begun yet: {guard.guard}: {guard.said}; it begins by itself if this passes "
            "within "
            f"{format_duration(APPROVED_TTL_S)} of {since}; the approval expires then"
            for guard in plan_details.guards
            if guard.answer != "pass" and guard.guard not in AUTOMATIC_GUARDS
        ]
    return found


def _report_end(row: PlanRow, options: str) -> int:
    output.print_error(describe_next_step(row, options))
    return compute_exit_code(row)


def compute_exit_code(row: PlanRow) -> int:
    """Return the exit code of an approved plan by its state."""
    match row.state:
        case PlanState.REJECTED:
            return CHANGED
        case PlanState.EXPIRED:
            return DENIED  # the guards have not let it begin, or not in time
        case _:
            cause = None if row.cause is None else PlanFailureCause(row.cause)
            return compute_plan_exit_code(PlanEnding(row.state.value), cause)
