"""The verbs `plan` and `journal`: what is wanted, what was changed, by which steps, what is still
open, and how a person closes it. Tables and JSON go to standard output, all else to standard error.
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
from offsetwatch.cli.offsets.arguments import Where
from offsetwatch.cli.offsets.open_store import way_of
from offsetwatch.cli.plans.approve import unknown
from offsetwatch.cli.plans.print import OPEN as IS_OPEN
from offsetwatch.cli.plans.print import document, print_plan, to_do
from offsetwatch.cli.plans.service_access import Access, At, at_desk
from offsetwatch.errors import ConfigError, Denied, JournalDamaged
from offsetwatch.model.moments import moment_of
from offsetwatch.remedy.drivers.delete_topic import with_topics
from offsetwatch.remedy.drivers.factory import driver_of
from offsetwatch.remedy.engine.progress import Limits, replayed
from offsetwatch.remedy.execute import runner
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import Entry, Journal
from offsetwatch.remedy.model.approval import Dossier, Stands, dossier
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.journal_records import AnyRecord, Kept, decoded
from offsetwatch.remedy.model.plan import Plan
from offsetwatch.remedy.model.service_api import Damaged, Done, NotFound, PlanRow, PlanState
from offsetwatch.remedy.views import plan_text as words

OK, WRONG, DENIED, OPEN = 0, 1, 3, 5
LINES_MAX = 1000  # of the journal in one request
_MOMENTS = ("at", "expires_at", "until")  # of records
AT_WORK, CUT_OFF = "at work", "cut off"
_NOT_BEGUN = frozenset(
    {Stands.PROPOSED, Stands.APPROVED, Stands.REJECTED, Stands.EXPIRED, Stands.VOID}
)
_BEFORE = frozenset({PlanState.PROPOSED, PlanState.APPROVED, PlanState.REJECTED, PlanState.LAPSED})


@dataclass(frozen=True, slots=True)
class Home:
    """Where a journal and its backups are, and how the places of its plans are reached."""

    state_dir: Path | None
    where: Where

    @property
    def folder(self) -> Path:
        """See carrying.state_folder."""
        path = self.where.config_path
        return execute.state_folder(self.state_dir, None if path is None else config.load(path))


@contextmanager
def _journal(home: Home) -> Iterator[Journal]:
    with closing(Journal(execute.journal_folder(home.folder))) as journal:
        yield journal


def _dossier(journal: Journal, plan_id: str) -> Dossier:
    found = dossier(journal.records(plan_id))
    if found is None:
        raise unknown(plan_id)
    return found


def list_plans(access: Access, *, output_format: OutputFormat) -> int:
    """All plans, oldest first. Exit code 5 if one is open that nobody works on."""
    with at_desk(access) as at:
        told = [(row, stands(at, row)) for row in reversed(at.desk.plans())]
    rows = [document(row, standing) for row, standing in told]
    if output_format is not OutputFormat.TABLE:
        output.document(output_format, rows)
    else:
        output.table(
            "Plans",
            ("plan", "begun", "cluster", "connector", "what", "status", "by", "expires"),
            (
                (
                    row.plan_id,
                    output.moment(row.created_at),
                    row.connect_cluster,
                    row.connector,
                    row.verb or row.action,
                    standing,
                    row.created_by,
                    output.moment(row.expires_at),
                )
                for row, standing in told
            ),
        )
    return OPEN if any(_left_alone(row, standing) for row, standing in told) else OK


def _left_alone(row: PlanRow, standing: str) -> bool:
    """Open, and nobody works on it. From elsewhere that a daemon does is taken for granted."""
    return row.state in IS_OPEN and standing not in {AT_WORK, PlanState.RUNNING.value}


def stands(at: At, row: PlanRow) -> str:
    """How a plan stands; on its own host also whether anybody works on it."""
    if at.office is None or row.state not in IS_OPEN:
        return row.state.value
    if at.office.busy(row):
        return AT_WORK
    return CUT_OFF if row.state is PlanState.RUNNING else row.state.value


def show_plan(access: Access, where: Where, plan_id: str, *, output_format: OutputFormat) -> int:
    """All of a plan: what it is to do, what the guards say, what was done, and what a person must
    decide. Exit code 5 if it is open and nobody works on it.
    """
    with at_desk(access) as at:
        told = at.desk.plan(plan_id)
        if told is None:
            raise unknown(plan_id)
        standing = stands(at, told.row)
        entries = records_of(at, plan_id)
        said = _said(at, told.row, standing, entries, where)
    if output_format is not OutputFormat.TABLE:
        output.document(
            output_format,
            {
                **document(told.row, standing),
                "plan": told.plan,
                "steps": told.steps,
                "guards": told.guards,
                "second_person": told.second_person,
                "records": [_record(entry) for entry in entries],
                "said": said,
            },
        )
    else:
        kept = [entry.record.frozen.backup for entry in entries if isinstance(entry.record, Kept)]
        if at.office is not None:  # another replica, or this one before its folder was moved
            kept = [str(backups.here(at.office.folder, path)) for path in kept]
        print_plan(told, standing, ("backup", kept[0] if kept else None))
        _print_records(f"Journal of {plan_id}", entries)
        output.error(said)
    return OPEN if _left_alone(told.row, standing) else OK


def records_of(at: At, plan_id: str) -> tuple[Entry, ...]:
    """What the journal has of a plan; nothing where we are not allowed to read it."""
    if at.office is not None:
        return at.office.entries(plan_id)
    try:
        return tuple(entry for entry in _from(at, 1) if entry.plan_id == plan_id)
    except Denied as exc:
        output.error(f"its journal is not shown: {output.client_text(exc)}")
        return ()


def _from(at: At, seq: int) -> Iterator[Entry]:
    """Every record of the journal from this one on."""
    while lines := at.desk.journal(seq, LINES_MAX):
        seq = lines[-1].seq + 1
        for line in lines:
            yield Entry(line.seq, line.plan_id, decoded(bytes(line.record)))


def _said(at: At, row: PlanRow, standing: str, entries: tuple[Entry, ...], where: Where) -> str:
    """What to do about it, with the commands for that."""
    if standing == AT_WORK:
        return f"a process works on it. {to_do(row, at.options)}"
    if row.state in _BEFORE or at.office is None:
        return to_do(row, at.options)
    progress = replayed(tuple(entry.record for entry in entries), Limits())
    return words.ending(progress, runner.options_at(at.office.folder, where.options))


def _print_records(title: str, entries: Iterable[Entry]) -> None:
    output.table(
        title,
        ("record#", "at", "plan", "kind", "what"),
        (
            (
                entry.seq,
                output.moment(entry.record.at),
                entry.plan_id,
                _kind(entry.record),
                words.recorded(entry.record),
            )
            for entry in entries
        ),
    )


def _kind(record: AnyRecord) -> str:
    return str(record.__struct_config__.tag)


def _record(entry: Entry) -> dict[str, Any]:
    """Return a record of the journal as a document: there its moments are numbers."""
    shown = msgspec.json.decode(documents.encode(entry.record))
    moments = {name: moment_of(shown[name]) for name in _MOMENTS if name in shown}
    return {"seq": entry.seq, "plan_id": entry.plan_id, "record": {**shown, **moments}}


def recover(home: Home, plan_id: str, *, timeout_s: float) -> int:
    """Go on with a plan that is open. Exit code 0 once it is over, however it ended."""
    how = execute.How(home.folder, options=home.where.options, timeout_s=timeout_s)
    with _journal(home) as journal:
        found = _dossier(journal, plan_id)
        if found.stands in _NOT_BEGUN:
            output.error(f"plan {plan_id} was never begun ({found.stands.value})")
            return OK
        progress = replayed(journal.records(plan_id), Limits())
        if progress.ended is not None:
            output.error(f"plan {plan_id} is over: {words.ending(progress, '')}")
            return OK
        with driver_for(found.plan, home) as driver, execute.interruptible():
            result = execute.runner_of(how, journal, driver).recover(plan_id)
    output.error(result.said)
    return OK if result.over else OPEN


@contextmanager
def driver_for(plan: Plan, home: Home) -> Iterator[Driver]:
    """A driver for a plan that is in the journal. Raises ConfigError saying which option is missing
    to reach its place.
    """
    subject, where = plan.subject, home.where
    if subject.driver == "rest" or plan.remedy is not None:
        if where.config_path is None:
            raise ConfigError((f"--config: it names the Connect cluster {subject.place}",))
        if plan.remedy is not None:
            with driver_of(plan, config.load(where.config_path), home.folder) as driver:
                yield driver
            return
        where = replace(where, connect=subject.place, worker_config=None, strimzi=None)
    elif subject.driver == "strimzi":
        where = _through_strimzi(where, subject.place)
    elif where.worker_config is None:
        raise ConfigError((f"--worker-config: the file that names {subject.place}",))
    else:
        where = replace(where, connect=None, strimzi=None)
    clusters = {} if where.config_path is None else config.load(where.config_path).kafka
    with way_of(where) as way:
        place = way.lock(subject.connector)
        if place != subject.place:
            option = "--strimzi" if subject.driver == "strimzi" else "--worker-config"
            raise ConfigError((f"{option}: it names {place}, not {subject.place}",))
        yield with_topics(way.driver(subject.connector), clusters)


def _through_strimzi(where: Where, place: str) -> Where:
    """The resource is named by an option, by the entry that is linked to it, or is the place."""
    named = where.strimzi
    if named is None and where.config_path is not None:
        for connect in config.load(where.config_path).connect:
            if connect.name == place and connect.strimzi is not None:
                named = f"{connect.strimzi.namespace}/{connect.strimzi.name}"
    # What the plan has begun is to be brought to its end whoever else owns the resource.
    return replace(
        where, connect=None, worker_config=None, strimzi=named or place, even_if_gitops=True
    )


def resolve(access: Access, plan_id: str, *, because: str) -> int:
    """Close an open plan and leave everything as it is."""
    with at_desk(access) as at:
        answer = at.desk.resolve(plan_id, at.by, because)
        told = at.desk.plan(plan_id)
    if isinstance(answer, NotFound) or told is None:
        raise unknown(plan_id)
    row = told.row
    if isinstance(answer, Done):
        whose = f"{row.connector} ({row.connect_cluster})"
        output.error(f"plan {plan_id} is closed; {whose} was left as it is")
        return OK
    if row.state in IS_OPEN:
        output.error(f"another process works on plan {plan_id}: nothing was done")
        return DENIED
    over = row.state not in _BEFORE
    output.error(f"plan {plan_id} was {'over already' if over else 'never begun'} ({row.state})")
    return OK


def tail(access: Access, *, count: int, output_format: OutputFormat) -> int:
    """The newest records of all plans."""
    with at_desk(access) as at:
        health = at.desk.verify()
        if isinstance(health, Damaged):
            raise JournalDamaged(health.said)
        entries = list(_from(at, max(1, health.records - count + 1)))[-count:]
    if output_format is not OutputFormat.TABLE:
        output.document(output_format, [_record(entry) for entry in entries])
    else:
        _print_records("Journal", entries)
    return OK


def verify(access: Access) -> int:
    """Whether the journal and the backups it names are what was written; JournalDamaged says where
    the journal is not. Exit code 1 if a backup is not. From elsewhere the journal alone is looked
    at.
    """
    with at_desk(access) as at:
        health = at.desk.verify()
        if isinstance(health, Damaged):
            raise JournalDamaged(health.said)
        where = "the journal" if at.office is None else str(at.office.folder)
        output.error(f"{where}: {health.records} records, each as it was written")
        if at.office is None:
            return OK
        kept = [
            (backups.here(at.office.folder, frozen.backup), frozen.backup_sha256)
            for row in at.desk.plans()
            for entry in at.office.entries(row.plan_id)
            if isinstance(entry.record, Kept)
            for frozen in (entry.record.frozen,)
        ]
    wrong = [said for path, sha256 in kept for said in (backups.wrong(path, sha256),) if said]
    for said in wrong:
        output.error(said)
    output.error(f"{len(kept) - len(wrong)} of {len(kept)} backups are as they were written")
    return WRONG if wrong else OK
