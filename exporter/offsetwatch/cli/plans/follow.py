"""Following a plan that was approved, until it is over or a person is needed: the daemon carries it
out, and here is told what its journal says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from offsetwatch.cli.common import output
from offsetwatch.cli.plans.print import to_do
from offsetwatch.cli.plans.service_access import At
from offsetwatch.config.durations import format_duration
from offsetwatch.daemon import state_dir
from offsetwatch.remedy.execute.runner import exit_code
from offsetwatch.remedy.guards.daemon import APPROVED_TTL_S
from offsetwatch.remedy.guards.table import AUTOMATIC
from offsetwatch.remedy.model.journal_records import Cause, Ending
from offsetwatch.remedy.model.service_api import PlanRow, PlanState, PlanTold

LOOK_S: Final = 1.0
OK, DENIED, CHANGED, OPEN, UNREACHABLE = 0, 3, 4, 5, 7
_GOING: Final = frozenset({PlanState.PROPOSED, PlanState.APPROVED, PlanState.RUNNING})
_SILENT: Final = frozenset({"not begun", "next"})

Pause = Callable[[float], None]


def follow(at: At, plan_id: str, *, pause: Pause = time.sleep) -> int:
    """Until then; the exit code. Ctrl-C stops the looking, and not the plan."""
    known: set[str] = set()
    try:
        while True:
            told = at.desk.plan(plan_id)
            assert told is not None, "nothing is ever taken out of a journal"
            for line in _lines(told):
                if line not in known:
                    known.add(line)
                    output.error(line)
            if told.row.state not in _GOING:
                return _over(told.row, at.options)
            if told.row.state is PlanState.APPROVED and _nobody_at_work(at):
                output.error(
                    "no daemon runs on this state directory: the plan is approved, and is not "
                    "begun before one does"
                )
                return UNREACHABLE
            pause(LOOK_S)
    except KeyboardInterrupt:
        output.error(f"the plan continues without this command: see plan show {plan_id}")
        return OPEN


def _nobody_at_work(at: At) -> bool:
    return at.office is not None and not state_dir.in_use(Path(at.office.folder))


def _lines(told: PlanTold) -> list[str]:
    """All there is to say by now; what was said before is not repeated."""
    found = [
        f"{number}. {at.step}: {at.standing}"
        for number, at in enumerate(told.steps, start=1)
        if at.standing not in _SILENT
    ]
    if told.row.state is PlanState.APPROVED:
        since = "the approval"
        if told.row.not_before is not None:
            since = output.moment(told.row.not_before) or since
            found.append(f"it begins after {since}, when the cool-down of the last plan is over")
        found += [
            f"not begun yet: {at.guard}: {at.said}; it begins by itself if this passes within "
            f"{format_duration(APPROVED_TTL_S)} of {since}; the approval expires then"
            for at in told.guards
            if at.answer != "pass" and at.guard not in AUTOMATIC
        ]
    return found


def _over(row: PlanRow, options: str) -> int:
    output.error(to_do(row, options))
    return code_of(row)


def code_of(row: PlanRow) -> int:
    """What a plan that was approved has come to, as an exit code."""
    match row.state:
        case PlanState.REJECTED:
            return CHANGED
        case PlanState.LAPSED:
            return DENIED  # the guards have not let it begin, or not in time
        case _:
            cause = None if row.cause is None else Cause(row.cause)
            return exit_code(Ending(row.state.value), cause)
