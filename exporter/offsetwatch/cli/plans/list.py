"""The verbs `plan list`, `show`, `recover` and `resolve`, and `journal tail` and `verify`.

Tables and JSON go to standard output, all else to standard error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from offsetwatch import config, documents
from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.offsets.arguments import OffsetStoreOptions
from offsetwatch.cli.offsets.open_store import open_offset_store
from offsetwatch.cli.plans.approve import build_unknown_plan_error
from offsetwatch.cli.plans.print import (
    OPEN_STATES,
    build_plan_document,
    describe_next_step,
    print_plan,
)
from offsetwatch.cli.plans.service_access import ServiceAccess, ServiceSession, open_service
from offsetwatch.errors import AccessDenied, ConfigError, JournalDamaged
from offsetwatch.model.moments import moment_of
from offsetwatch.remedy.drivers.delete_topic import add_topic_deletion
from offsetwatch.remedy.drivers.factory import open_remediation_driver
from offsetwatch.remedy.engine.progress import EngineLimits, replay_records
from offsetwatch.remedy.execute import runner
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import Journal, JournalEntry
from offsetwatch.remedy.model.approval import PlanHistory, PlanStatus, build_plan_history
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.journal_records import AnyRecord, OffsetsBackedUp, decode_record
from offsetwatch.remedy.model.plan import Plan
from offsetwatch.remedy.model.service_api import (
    ChangeRecorded,
    JournalCheckFailed,
    PlanRow,
    PlanState,
    RequestTargetNotFound,
)
from offsetwatch.remedy.views import plan_text as words

OK, WRONG, DENIED, OPEN = 0, 1, 3, 5
LINES_MAX = 1000  # of the journal in one request
_MOMENT_FIELDS = ("at", "expires_at", "until")  # of records
AT_WORK, CUT_OFF = "at work", "cut off"
_STATUSES_BEFORE_START = frozenset(
    {
        PlanStatus.PROPOSED,
        PlanStatus.APPROVED,
        PlanStatus.REJECTED,
        PlanStatus.EXPIRED,
        PlanStatus.VOID,
    }
)
_STATES_BEFORE_START = frozenset(
    {PlanState.PROPOSED, PlanState.APPROVED, PlanState.REJECTED, PlanState.EXPIRED}
)


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """Location of a journal with its backups, and the options for its plans' offset stores."""

    state_dir: Path | None
    where: OffsetStoreOptions

    @property
    def folder(self) -> Path:
        """Return the state folder as execute.find_state_folder chooses it."""
        path = self.where.config_path
        return execute.find_state_folder(
            self.state_dir, None if path is None else config.load(path)
        )


@contextmanager
def _open_journal(home: JournalOptions) -> Iterator[Journal]:
    with closing(Journal(execute.require_journal_folder(home.folder))) as journal:
        yield journal


def _read_plan_history(journal: Journal, plan_id: str) -> PlanHistory:
    found = build_plan_history(journal.records(plan_id))
    if found is None:
        raise build_unknown_plan_error(plan_id)
    return found


def list_plans(access: ServiceAccess, *, output_format: OutputFormat) -> int:
    """Print all plans, oldest first. Exit code 5 if one is open and no process works on it."""
    with open_service(access) as session:
        told = [(row, describe_status(session, row)) for row in reversed(session.desk.plans())]
    rows = [build_plan_document(row, standing) for row, standing in told]
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
                    standing,
                    row.created_by,
                    output.format_moment(row.expires_at),
                )
                for row, standing in told
            ),
        )
    return OPEN if any(_is_abandoned(row, standing) for row, standing in told) else OK


def _is_abandoned(row: PlanRow, standing: str) -> bool:
    """Return whether the plan is open and no process works on it.

    A running plan of a remote daemon counts as being worked on.
    """
    return row.state in OPEN_STATES and standing not in {AT_WORK, PlanState.RUNNING.value}


def describe_status(session: ServiceSession, row: PlanRow) -> str:
    """Return the plan's state.

    On the daemon's host it also tells for an open plan whether a process works on it.
    """
    if session.office is None or row.state not in OPEN_STATES:
        return row.state.value
    if session.office.busy(row):
        return AT_WORK
    return CUT_OFF if row.state is PlanState.RUNNING else row.state.value


def show_plan(
    access: ServiceAccess, where: OffsetStoreOptions, plan_id: str, *, output_format: OutputFormat
) -> int:
    """Print a plan with its guards, its records and the next commands.

    Exit code 5 if it is open and no process works on it.
    """
    with open_service(access) as session:
        plan_details = session.desk.plan(plan_id)
        if plan_details is None:
            raise build_unknown_plan_error(plan_id)
        standing = describe_status(session, plan_details.row)
        entries = read_records(session, plan_id)
        said = _suggest_commands(session, plan_details.row, standing, entries, where)
    if output_format is not OutputFormat.TABLE:
        output.print_document(
            output_format,
            {
                **build_plan_document(plan_details.row, standing),
                "plan": plan_details.plan,
                "steps": plan_details.steps,
                "guards": plan_details.guards,
                "second_person": plan_details.second_person,
                "records": [_build_record_document(entry) for entry in entries],
                "said": said,
            },
        )
    else:
        kept = [
            entry.record.frozen.backup
            for entry in entries
            if isinstance(entry.record, OffsetsBackedUp)
        ]
        if session.office is not None:  # another replica, or this one before its folder was moved
            kept = [str(backups.resolve_backup_path(session.office.folder, path)) for path in kept]
        print_plan(plan_details, standing, ("backup", kept[0] if kept else None))
        _print_records(f"Journal of {plan_id}", entries)
        output.print_error(said)
    return OPEN if _is_abandoned(plan_details.row, standing) else OK


def read_records(session: ServiceSession, plan_id: str) -> tuple[JournalEntry, ...]:
    """Return the journal records of a plan; none if they may not be read."""
    if session.office is not None:
        return session.office.entries(plan_id)
    try:
        return tuple(entry for entry in _read_journal_from(session, 1) if entry.plan_id == plan_id)
    except AccessDenied as exc:
        output.print_error(f"its journal is not shown: {output.format_client_error(exc)}")
        return ()


def _read_journal_from(session: ServiceSession, seq: int) -> Iterator[JournalEntry]:
    """Yield every record of the journal from this sequence number on."""
    while lines := session.desk.journal(seq, LINES_MAX):
        seq = lines[-1].seq + 1
        for line in lines:
            yield JournalEntry(line.seq, line.plan_id, decode_record(bytes(line.record)))


def _suggest_commands(
    session: ServiceSession,
    row: PlanRow,
    standing: str,
    entries: tuple[JournalEntry, ...],
    where: OffsetStoreOptions,
) -> str:
    """Return what can be done about the plan, with the commands."""
    if standing == AT_WORK:
        return f"a process works on it. {describe_next_step(row, session.options)}"
    if row.state in _STATES_BEFORE_START or session.office is None:
        return describe_next_step(row, session.options)
    progress = replay_records(tuple(entry.record for entry in entries), EngineLimits())
    return words.describe_ending(
        progress, runner.format_options(session.office.folder, where.options)
    )


def _print_records(title: str, entries: Iterable[JournalEntry]) -> None:
    output.print_table(
        title,
        ("record#", "at", "plan", "kind", "what"),
        (
            (
                entry.seq,
                output.format_moment(entry.record.at),
                entry.plan_id,
                _get_kind(entry.record),
                words.describe_past_record(entry.record),
            )
            for entry in entries
        ),
    )


def _get_kind(record: AnyRecord) -> str:
    return str(record.__struct_config__.tag)


def _build_record_document(entry: JournalEntry) -> dict[str, Any]:
    """Return a record of the journal as a document, with its moments as Moment.

    In the journal they are numbers.
    """
    shown = msgspec.json.decode(documents.encode(entry.record))
    moments = {name: moment_of(shown[name]) for name in _MOMENT_FIELDS if name in shown}
    return {"seq": entry.seq, "plan_id": entry.plan_id, "record": {**shown, **moments}}


def recover_plan(home: JournalOptions, plan_id: str, *, timeout_s: float) -> int:
    """Continue an open plan. Exit code 0 once it is over, however it ended."""
    how = execute.ExecutionOptions(home.folder, options=home.where.options, timeout_s=timeout_s)
    with _open_journal(home) as journal:
        found = _read_plan_history(journal, plan_id)
        if found.stands in _STATUSES_BEFORE_START:
            output.print_error(f"plan {plan_id} was never begun ({found.stands.value})")
            return OK
        progress = replay_records(journal.records(plan_id), EngineLimits())
        if progress.ended is not None:
            output.print_error(f"plan {plan_id} is over: {words.describe_ending(progress, '')}")
            return OK
        with open_driver(found.plan, home) as driver, execute.interrupt_on_signals():
            result = execute.build_runner(how, journal, driver).recover(plan_id)
    output.print_error(result.said)
    return OK if result.over else OPEN


@contextmanager
def open_driver(plan: Plan, home: JournalOptions) -> Iterator[Driver]:
    """Yield a driver for a plan of the journal.

    Raises ConfigError that names the missing option.
    """
    subject, where = plan.subject, home.where
    if subject.driver == "rest" or plan.remedy is not None:
        if where.config_path is None:
            raise ConfigError((f"--config: it names the Connect cluster {subject.place}",))
        if plan.remedy is not None:
            with open_remediation_driver(
                plan, config.load(where.config_path), home.folder
            ) as driver:
                yield driver
            return
        where = replace(where, connect=subject.place, worker_config=None, strimzi=None)
    elif subject.driver == "strimzi":
        where = _choose_strimzi(where, subject.place)
    elif where.worker_config is None:
        raise ConfigError((f"--worker-config: the file that names {subject.place}",))
    else:
        where = replace(where, connect=None, strimzi=None)
    clusters = {} if where.config_path is None else config.load(where.config_path).kafka
    with open_offset_store(where) as store:
        place = store.lock_name(subject.connector)
        if place != subject.place:
            option = "--strimzi" if subject.driver == "strimzi" else "--worker-config"
            raise ConfigError((f"{option}: it names {place}, not {subject.place}",))
        yield add_topic_deletion(store.driver(subject.connector), clusters)


def _choose_strimzi(where: OffsetStoreOptions, place: str) -> OffsetStoreOptions:
    """Return the options with the plan's Strimzi resource.

    It is named by --strimzi, by the linked entry under connect, or by the plan itself.
    """
    named = where.strimzi
    if named is None and where.config_path is not None:
        for connect in config.load(where.config_path).connect:
            if connect.name == place and connect.strimzi is not None:
                named = f"{connect.strimzi.namespace}/{connect.strimzi.name}"
    # What the plan has begun is to be brought to its end whoever else owns the resource.
    return replace(
        where, connect=None, worker_config=None, strimzi=named or place, even_if_gitops=True
    )


def resolve_plan(access: ServiceAccess, plan_id: str, *, because: str) -> int:
    """Close an open plan and change nothing else."""
    with open_service(access) as session:
        answer = session.desk.resolve(plan_id, session.by, because)
        plan_details = session.desk.plan(plan_id)
    if isinstance(answer, RequestTargetNotFound) or plan_details is None:
        raise build_unknown_plan_error(plan_id)
    row = plan_details.row
    if isinstance(answer, ChangeRecorded):
        name = f"{row.connector} ({row.connect_cluster})"
        output.print_error(f"plan {plan_id} is closed; {name} was left as it is")
        return OK
    if row.state in OPEN_STATES:
        output.print_error(f"another process works on plan {plan_id}: nothing was done")
        return DENIED
    over = row.state not in _STATES_BEFORE_START
    output.print_error(
        f"plan {plan_id} was {'over already' if over else 'never begun'} ({row.state})"
    )
    return OK


def print_journal_tail(access: ServiceAccess, *, count: int, output_format: OutputFormat) -> int:
    """Print the newest records of all plans."""
    with open_service(access) as session:
        health = session.desk.verify()
        if isinstance(health, JournalCheckFailed):
            raise JournalDamaged(health.said)
        entries = list(_read_journal_from(session, max(1, health.records - count + 1)))[-count:]
    if output_format is not OutputFormat.TABLE:
        output.print_document(output_format, [_build_record_document(entry) for entry in entries])
    else:
        _print_records("Journal", entries)
    return OK


def verify_journal(access: ServiceAccess) -> int:
    """Verify the journal and the backups that it names. Exit code 1 if a backup is damaged.

    Raises JournalDamaged that locates the damage. Of a remote daemon only the journal is verified.
    """
    with open_service(access) as session:
        health = session.desk.verify()
        if isinstance(health, JournalCheckFailed):
            raise JournalDamaged(health.said)
        where = "the journal" if session.office is None else str(session.office.folder)
        output.print_error(f"{where}: {health.records} records, each as it was written")
        if session.office is None:
            return OK
        kept = [
            (
                backups.resolve_backup_path(session.office.folder, frozen.backup),
                frozen.backup_sha256,
            )
            for row in session.desk.plans()
            for entry in session.office.entries(row.plan_id)
            if isinstance(entry.record, OffsetsBackedUp)
            for frozen in (entry.record.frozen,)
        ]
    wrong = [
        said
        for path, sha256 in kept
        for said in (backups.find_backup_problem(path, sha256),)
        if said
    ]
    for said in wrong:
        output.print_error(said)
    output.print_error(f"{len(kept) - len(wrong)} of {len(kept)} backups are as they were written")
    return WRONG if wrong else OK
