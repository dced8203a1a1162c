"""The verbs `plan`, `journal` and `backup`: what was changed, by which steps, what is still open,
and how a person closes it. Tables and JSON go to standard output, all else to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from exporter import config
from exporter.cli import carrying, output
from exporter.cli.asked import Where
from exporter.cli.reading import way_of
from exporter.clock import SystemClock
from exporter.errors import ConfigError
from exporter.remedy import backups, runner, words
from exporter.remedy.driver import Driver
from exporter.remedy.drivers.topics import with_topics
from exporter.remedy.journal import NAME, Entry, Journal
from exporter.remedy.plan import Plan, Subject
from exporter.remedy.progress import Limits, Progress, replayed
from exporter.remedy.records import AnyRecord, Kept

OK, WRONG, OPEN = 0, 1, 5
PAIRS_MAX = 20  # of a step in a table
AT_WORK, CUT_OFF = "at work", "cut off"


@dataclass(frozen=True, slots=True)
class Home:
    """Where a journal and its backups are, and how the places of its plans are reached."""

    state_dir: Path | None
    where: Where

    @property
    def folder(self) -> Path:
        """See carrying.state_folder."""
        path = self.where.config_path
        return carrying.state_folder(self.state_dir, None if path is None else config.load(path))

    @property
    def there(self) -> bool:
        """Whether there is a journal: to look at one must not make one."""
        return (self.folder / NAME).exists()


@contextmanager
def _journal(home: Home) -> Iterator[Journal]:
    if not home.there:
        raise ConfigError((f"there is no journal in {home.folder}: say --state-dir or --config",))
    with closing(Journal(home.folder)) as journal:
        yield journal


def _plan(journal: Journal, plan_id: str) -> Plan:
    try:
        return runner.planned(journal, plan_id)
    except KeyError as exc:
        raise ConfigError((f"{journal.folder} has no plan {plan_id}: see plan list",)) from exc


def list_plans(home: Home, *, as_json: bool) -> int:
    """All plans, oldest first. Exit code 5 if one is open that nobody works on."""
    if not home.there:
        output.json_text([]) if as_json else output.error(f"no plans in {home.folder}")
        return OK
    with _journal(home) as journal:
        progresses = [replayed(journal.records(name), Limits()) for name in journal.plans()]
        rows = [_row(journal, progress) for progress in progresses]
    if as_json:
        output.json_text(rows)
    else:
        names = ("plan_id", "created_at", "place", "connector", "verb", "stands")
        output.table(
            "Plans",
            ("plan", "begun", "place", "connector", "what", "stands"),
            ([_moment(row[name]) for name in names] for row in rows),
        )
    return OPEN if any(row["open"] and row["stands"] != AT_WORK for row in rows) else OK


def _moment(cell: Any) -> Any:
    return output.moment(cell) if isinstance(cell, float) else cell


def _row(journal: Journal, progress: Progress) -> dict[str, Any]:
    plan = progress.plan
    return {
        "plan_id": plan.plan_id,
        "created_at": plan.created_at,
        "created_by": plan.created_by,
        "place": plan.subject.place,
        "connector": plan.subject.connector,
        "verb": plan.verb,
        "sha256": plan.sha256,
        "open": progress.ended is None,
        "stands": _stands(journal, progress),
    }


def _stands(journal: Journal, progress: Progress) -> str:
    if progress.ended is not None:
        return progress.ended.ending.value
    at = progress.plan.subject
    if journal.busy(at.place, at.connector):
        return AT_WORK
    return CUT_OFF if progress.parked is None else progress.parked.ending.value


def show_plan(home: Home, plan_id: str, *, as_json: bool) -> int:
    """All of a plan: what it is to do, what was done, and what a person must decide. Exit code 5 if
    it is open and nobody works on it.
    """
    with _journal(home) as journal:
        plan = _plan(journal, plan_id)
        entries = journal.entries(plan_id)
        progress = replayed(tuple(entry.record for entry in entries), Limits())
        row = _row(journal, progress)
    options = runner.options_at(home.folder, home.where.options)
    at_work = row["stands"] == AT_WORK
    said = "somebody works on it" if at_work else words.ending(progress, options)
    if as_json:
        told = [_record(entry) for entry in entries]
        output.json_text({**row, "plan": plan, "records": told, "said": said})
    else:
        _print_plan(plan, progress, row)
        _print_records(f"Journal of {plan_id}", entries)
        output.error(said)
    return OPEN if row["open"] and not at_work else OK


def _print_plan(plan: Plan, progress: Progress, row: dict[str, Any]) -> None:
    subject = plan.subject
    facts = (
        ("connector", f"{subject.connector} ({subject.kind})"),
        ("place", f"{subject.place} ({subject.driver})"),
        ("asked for by", plan.created_by),
        ("at", output.moment(plan.created_at)),
        ("state", _states(plan)),
        ("backup", None if progress.frozen is None else progress.frozen.backup),
        ("sha256", plan.sha256),
    )
    output.table(f"Plan {plan.plan_id}: {plan.verb}: {row['stands']}", ("fact", "value"), facts)
    steps = (
        (at + 1, words.doing(each), _shown(words.pairs_of(each)))
        for at, each in enumerate(plan.steps)
    )
    output.table("Steps", ("step#", "what", "offsets"), steps)


def _states(plan: Plan) -> str:
    if plan.subject.driver == "storage":
        return "no worker runs"
    before, after = (state or "not there" for state in (plan.original, plan.final))
    return f"{before} before, {after} afterwards"


def _shown(pairs: tuple[str, ...]) -> str:
    more = len(pairs) - PAIRS_MAX
    return "; ".join((*pairs[:PAIRS_MAX], *([f"and {more} more: --json"] if more > 0 else [])))


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
    return {"seq": entry.seq, "plan_id": entry.plan_id, "record": entry.record}


def recover(home: Home, plan_id: str, *, timeout_s: float) -> int:
    """Go on with a plan that is open. Exit code 0 once it is over, however it ended."""
    how = carrying.How(home.folder, options=home.where.options, timeout_s=timeout_s)
    with _journal(home) as journal:
        subject = _plan(journal, plan_id).subject
        progress = replayed(journal.records(plan_id), Limits())
        if progress.ended is not None:
            output.error(f"plan {plan_id} is over: {words.ending(progress, '')}")
            return OK
        with driver_for(subject, home.where) as driver, carrying.interruptible():
            result = carrying.runner_of(how, journal, driver).recover(plan_id)
    output.error(result.said)
    return OK if result.over else OPEN


@contextmanager
def driver_for(subject: Subject, where: Where) -> Iterator[Driver]:
    """A driver for a plan that is in the journal. Raises ConfigError saying which option is missing
    to reach its place.
    """
    if subject.driver == "rest":
        if where.config_path is None:
            raise ConfigError((f"--config: it names the Connect cluster {subject.place}",))
        where = replace(where, connect=subject.place, worker_config=None)
    elif where.worker_config is None:
        raise ConfigError((f"--worker-config: the file that names {subject.place}",))
    else:
        where = replace(where, connect=None)
    clusters = {} if where.config_path is None else config.load(where.config_path).kafka
    with way_of(where) as way:
        place = way.lock(subject.connector)
        if place != subject.place:
            raise ConfigError((f"--worker-config: it names {place}, not {subject.place}",))
        yield with_topics(way.driver(subject.connector), clusters)


def resolve(home: Home, plan_id: str, *, because: str) -> int:
    """Close an open plan and leave everything as it is."""
    with _journal(home) as journal:
        subject = _plan(journal, plan_id).subject
        if not runner.resolve(journal, plan_id, because=because, now=SystemClock().now()):
            output.error(f"plan {plan_id} was over already")
            return OK
    output.error(
        f"plan {plan_id} is closed; {subject.connector} ({subject.place}) was left as it is"
    )
    return OK


def tail(home: Home, *, count: int, as_json: bool) -> int:
    """The newest records of all plans."""
    with _journal(home) as journal:
        entries = journal.tail(count)
    if as_json:
        output.json_text([_record(entry) for entry in entries])
    else:
        _print_records("Journal", entries)
    return OK


def verify(home: Home) -> int:
    """Whether the journal and the backups it names are what was written; JournalDamaged says where
    the journal is not. Exit code 1 if a backup is not.
    """
    with _journal(home) as journal:
        count = journal.verify()
        kept = [
            record.frozen
            for plan_id in journal.plans()
            for record in journal.records(plan_id)
            if isinstance(record, Kept)
        ]
    output.error(f"{home.folder}: {count} records, each as it was written")
    wrong = [
        said for at in kept for said in (backups.wrong(Path(at.backup), at.backup_sha256),) if said
    ]
    for said in wrong:
        output.error(said)
    output.error(f"{len(kept) - len(wrong)} of {len(kept)} backups are as they were written")
    return WRONG if wrong else OK


def list_backups(home: Home, *, as_json: bool) -> int:
    """All backups, oldest first."""
    found = backups.found(home.folder)
    if as_json:
        output.json_text(
            [
                {
                    "path": str(kept.path),
                    "written_at": kept.at,
                    "sha256": kept.sha256,
                    "connectors": dict(kept.connectors),
                }
                for kept in found
            ]
        )
        return OK
    rows = (
        (
            output.moment(kept.at),
            ", ".join(name for name, _ in kept.connectors) or "cannot be read",
            sum(count for _, count in kept.connectors),
            kept.path,
        )
        for kept in found
    )
    output.table("Backups", ("written", "connector", "offsets#", "file"), rows)
    return OK


def show_backup(home: Home, file: Path, *, as_json: bool) -> int:
    """What a backup holds; with JSON the file itself, to be imported."""
    path = file if file.exists() else home.folder / backups.FOLDER / file
    try:
        body = path.read_bytes()
        held = backups.entries(body)
    except (OSError, msgspec.DecodeError) as exc:
        raise ConfigError((f"{file} cannot be read as a backup: {exc}",)) from exc
    if as_json:
        sys.stdout.write(body.decode())
        return OK
    output.table(f"Backup {path}", ("connector", "source partition", "offset"), held)
    return OK
