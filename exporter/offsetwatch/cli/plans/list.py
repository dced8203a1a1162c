"""The verbs `plan list` and `show`.

Tables and JSON go to standard output, all else to standard error.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.plans.approve import build_unknown_plan_error
from offsetwatch.cli.plans.journal import build_record_document, print_records, read_records
from offsetwatch.cli.plans.print import (
    build_details_document,
    build_plan_document,
    describe_next_step,
    print_plan,
)
from offsetwatch.cli.plans.service_access import ServiceSession, build_service_access, open_service
from offsetwatch.remedy.engine.progress import EngineLimits, replay_records
from offsetwatch.remedy.execute.runner import format_options
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import JournalEntry
from offsetwatch.remedy.model.journal_records import OffsetsBackedUp
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.service_api import PlanRow
from offsetwatch.remedy.views.plan_text import describe_ending

OK, OPEN = 0, 5
AT_WORK, CUT_OFF = "at work", "cut off"


def print_plans(*, output_format: OutputFormat, **where: Any) -> int:
    """Print all plans; return the exit code."""
    with open_service(build_service_access(**where)) as session:
        described = [
            (row, describe_status(session, row)) for row in reversed(session.service.plans())
        ]
    rows = [build_plan_document(row, status) for row, status in described]
    if output_format is not OutputFormat.TABLE:
        output.print_document(output_format, rows)
    else:
        output.print_table(
            "Plans",
            ("plan", "begun", "cluster", "connector", "what", "status", "by", "expires"),
            (
                (
                    row.plan_id,
                    output.format_moment(row.created_at),
                    row.connect_cluster,
                    row.connector,
                    row.verb or row.action,
                    status,
                    row.created_by,
                    output.format_moment(row.expires_at),
                )
                for row, status in described
            ),
        )
    return OPEN if any(_is_abandoned(row, status) for row, status in described) else OK


def _is_abandoned(row: PlanRow, status: str) -> bool:
    """Return whether the plan is open and no process works on it.

    A running plan of a remote daemon counts as being worked on.
    """
    return row.state.is_open and status not in {AT_WORK, PlanStatus.RUNNING.value}


def describe_status(session: ServiceSession, row: PlanRow) -> str:
    """Return the plan's state.

    On the daemon's host it also tells for an open plan whether a process works on it.
    """
    if session.local_service is None or not row.state.is_open:
        return row.state.value
    if session.local_service.busy(row):
        return AT_WORK
    return CUT_OFF if row.state is PlanStatus.RUNNING else row.state.value


def print_plan_details(plan_id: str, *, output_format: OutputFormat, **where: Any) -> int:
    """Print a plan and what to do about it; return the exit code."""
    with open_service(build_service_access(**where)) as session:
        plan_details = session.service.plan(plan_id)
        if plan_details is None:
            raise build_unknown_plan_error(plan_id)
        status = describe_status(session, plan_details.row)
        entries = read_records(session, plan_id)
        said = _suggest_commands(session, plan_details.row, status, entries, where["config_path"])
    if output_format is not OutputFormat.TABLE:
        output.print_document(
            output_format,
            {
                **build_details_document(plan_details, status),
                "records": [build_record_document(entry) for entry in entries],
                "said": said,
            },
        )
    else:
        backup_paths = [
            entry.record.frozen.backup
            for entry in entries
            if isinstance(entry.record, OffsetsBackedUp)
        ]
        if (
            session.local_service is not None
        ):  # another replica, or this one before its folder was moved
            backup_paths = [
                str(backups.resolve_backup_path(session.local_service.folder, path))
                for path in backup_paths
            ]
        print_plan(plan_details, status, ("backup", backup_paths[0] if backup_paths else None))
        print_records(f"Journal of {plan_id}", entries)
        output.print_error(said)
    return OPEN if _is_abandoned(plan_details.row, status) else OK


def _suggest_commands(
    session: ServiceSession,
    row: PlanRow,
    status: str,
    entries: tuple[JournalEntry, ...],
    config_path: Path | None,
) -> str:
    """Return what can be done about the plan, with the commands."""
    if status == AT_WORK:
        return f"a process works on it. {describe_next_step(row, session.options)}"
    if not row.state.has_begun or session.local_service is None:
        return describe_next_step(row, session.options)
    progress = replay_records(tuple(entry.record for entry in entries), EngineLimits())
    options = "" if config_path is None else shlex.join(("--config", str(config_path)))
    return describe_ending(progress, format_options(session.local_service.folder, options))
