"""The verbs `journal tail`, `verify` and `create`, and tables of journal records.

Tables and JSON go to standard output, all else to standard error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from offsetwatch import config, documents
from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.plans.service_access import ServiceSession, build_service_access, open_service
from offsetwatch.clients.kafka import journal_topic
from offsetwatch.clients.kafka.journal_topic import find_unmet_requirements
from offsetwatch.daemon import state_dir
from offsetwatch.daemon.remediation import build_replica_settings
from offsetwatch.errors import AccessDenied, ConfigError, JournalDamaged, RemedyError
from offsetwatch.formatting import format_count
from offsetwatch.model.moments import moment_of
from offsetwatch.remedy.drivers.journal_topic import create_journal_topic, open_writer
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal, JournalEntry
from offsetwatch.remedy.model.journal_records import OffsetsBackedUp, decode_record
from offsetwatch.remedy.model.service_api import JournalCheckFailed, JournalCheckPassed
from offsetwatch.remedy.replicas.replica import ReplicaSettings
from offsetwatch.remedy.replicas.topic_copy import JournalTopicCopy, encode_line
from offsetwatch.remedy.views.plan_text import describe_past_record

OK, WRONG = 0, 1
LINES_MAX: Final = 1000  # of the journal in one request
_LINES_PER_WRITE: Final = 200  # lines in a transaction
_MOMENT_FIELDS: Final = ("at", "expires_at", "until")  # of records


def print_newest_records(*, count: int, output_format: OutputFormat, **where: Any) -> None:
    """Print the newest records of all plans."""
    with open_service(build_service_access(**where)) as session:
        health = _check_journal(session)
        entries = list(_read_journal_from(session, max(1, health.records - count + 1)))[-count:]
    document = [build_record_document(entry) for entry in entries]
    output.print_result(output_format, document, lambda: print_records("Journal", entries))


def _check_journal(session: ServiceSession) -> JournalCheckPassed:
    """Return the number of records. Raises JournalDamaged that locates the damage."""
    health = session.service.verify()
    if isinstance(health, JournalCheckFailed):
        raise JournalDamaged(health.said)
    return health


def verify_journal(**options: Any) -> int:
    """Check all records and backups; return the exit code."""
    with open_service(build_service_access(**options)) as session:
        health = _check_journal(session)
        where = (
            "the journal" if session.local_service is None else str(session.local_service.folder)
        )
        output.print_error(
            f"{where}: {format_count(health.records, 'record')}, each as it was written"
        )
        if session.local_service is None:
            return OK
        backup_files = [
            (
                backups.resolve_backup_path(session.local_service.folder, frozen.backup),
                frozen.backup_sha256,
            )
            for row in session.service.plans()
            for entry in session.local_service.entries(row.plan_id)
            if isinstance(entry.record, OffsetsBackedUp)
            for frozen in (entry.record.frozen,)
        ]
    wrong = [
        said
        for path, sha256 in backup_files
        for said in (backups.find_backup_problem(path, sha256),)
        if said
    ]
    for said in wrong:
        output.print_error(said)
    output.print_error(
        f"as written: {len(backup_files) - len(wrong)} of "
        f"{format_count(len(backup_files), 'backup')}"
    )
    return WRONG if wrong else OK


def read_records(session: ServiceSession, plan_id: str) -> tuple[JournalEntry, ...]:
    """Return the journal records of a plan; none if they may not be read."""
    if session.local_service is not None:
        return session.local_service.entries(plan_id)
    try:
        return tuple(entry for entry in _read_journal_from(session, 1) if entry.plan_id == plan_id)
    except AccessDenied as exc:
        output.print_error(f"its journal is not shown: {output.format_client_error(exc)}")
        return ()


def _read_journal_from(session: ServiceSession, seq: int) -> Iterator[JournalEntry]:
    """Yield every record of the journal from this sequence number on."""
    while lines := session.service.journal(seq, LINES_MAX):
        seq = lines[-1].seq + 1
        for line in lines:
            yield JournalEntry(line.seq, line.plan_id, decode_record(bytes(line.record)))


def print_records(title: str, entries: Iterable[JournalEntry]) -> None:
    """Print the records as a table."""
    output.print_table(
        title,
        ("record#", "at", "plan", "kind", "what"),
        (
            (
                entry.seq,
                output.format_moment(entry.record.at),
                entry.plan_id,
                entry.record.__struct_config__.tag,
                describe_past_record(entry.record),
            )
            for entry in entries
        ),
    )


def build_record_document(entry: JournalEntry) -> dict[str, Any]:
    """Return a record of the journal as a document, with its moments as Moment.

    In the journal they are numbers.
    """
    document = msgspec.json.decode(documents.encode(entry.record))
    moments = {name: moment_of(document[name]) for name in _MOMENT_FIELDS if name in document}
    return {"seq": entry.seq, "plan_id": entry.plan_id, "record": {**document, **moments}}


# --- create --------------------------------------------------------------------------------------


def create_journal(config_path: Path) -> int:
    """Create the topic of a shared journal; return the exit code."""
    loaded = config.load(config_path)
    settings = build_replica_settings(loaded)
    if settings is None:
        raise ConfigError(("remedy.journal: missing: without it the journal is a file",))
    folder, requirements = Path(loaded.state_dir), settings.requirements
    where = f"{settings.kafka}/{requirements.topic}"
    existing = journal_topic.read_journal_topic(
        settings.kafka, settings.properties, requirements.topic
    )
    alone = _count_local_records(folder)
    if existing is not None:
        wrong = list(find_unmet_requirements(existing, requirements))
        if alone:  # moved, the file would say of which topic it is a copy
            wrong.append(
                f"it was made without all of the {format_count(alone, 'record')} of "
                f"{folder / FILE_NAME}: what these have skipped is not known there. Where no "
                "replica was started since, delete the topic and run this again"
            )
        for said in wrong:
            output.print_error(f"{where}: {said}")
        if not wrong:
            output.print_error(f"{where} is there, and fit: nothing was done")
        return WRONG if wrong else OK
    if alone and state_dir.is_in_use(folder):
        raise RemedyError(f"a daemon uses {folder}, and its journal is to be moved: stop it first")
    create_journal_topic(settings.kafka, settings.properties, requirements)
    output.print_error(f"{where} was made")
    if alone:
        _move_journal(folder, settings)
        output.print_error(
            f"it begins with {format_count(alone, 'record')} of {folder / FILE_NAME}"
        )
    return OK


def _count_local_records(folder: Path) -> int:
    """Return how many records a daemon that acted alone has left here."""
    if not (folder / FILE_NAME).exists():
        return 0
    with closing(Journal(folder)) as journal:
        return 0 if journal.copy_of is not None else journal.verify()


def _move_journal(folder: Path, settings: ReplicaSettings) -> None:
    created = journal_topic.read_journal_topic(
        settings.kafka, settings.properties, settings.requirements.topic
    )
    assert created is not None
    writer = open_writer(settings.kafka, settings.properties, settings.requirements.topic)
    with closing(Journal(folder)) as journal:
        seq = 1
        while lines := journal.lines(seq, _LINES_PER_WRITE):
            writer.write([encode_line(line) for line in lines])
            seq = lines[-1].seq + 1
    # From here on the file is a copy, and each of its lines is held against the topic's.
    JournalTopicCopy(folder, settings.requirements.topic, created.topic_id, begin=True).close()
