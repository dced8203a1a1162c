"""The verb `journal create`: create the topic in which several replicas share a journal.

The records of a daemon that acted alone here are written to the topic first, so that no skip is
forgotten.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.clients.kafka import journal_topic
from offsetwatch.clients.kafka.journal_topic import find_unmet_requirements
from offsetwatch.daemon import state_dir
from offsetwatch.daemon.replicas import build_replica_settings
from offsetwatch.errors import ConfigError, RemedyError
from offsetwatch.remedy.drivers.journal_topic import create_topic, open_writer
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal
from offsetwatch.remedy.replicas.replica import ReplicaSettings
from offsetwatch.remedy.replicas.topic_copy import JournalTopicCopy, encode_line

OK, WRONG = 0, 1
_LINES_PER_WRITE: Final = 200  # lines in a transaction


def create_journal(config_path: Path) -> int:
    """Create the topic; return 0 if it now exists and is fit, 1 if an existing one is not."""
    loaded = config.load(config_path)
    settings = build_replica_settings(loaded)
    if settings is None:
        raise ConfigError(("remedy.journal: missing: without it the journal is a file",))
    folder, requirements = Path(loaded.state_dir), settings.wanted
    where = f"{settings.kafka}/{requirements.topic}"
    found = journal_topic.read_journal_topic(
        settings.kafka, settings.properties, requirements.topic
    )
    alone = _count_local_records(folder)
    if found is not None:
        wrong = list(find_unmet_requirements(found, requirements))
        if alone:  # moved, the file would say of which topic it is a copy
            wrong.append(
                f"it was made without the {alone} records of {folder / FILE_NAME}, or without "
                "some of "
                "them: what these have skipped is not known there. Where no replica was started "
                "since, delete the topic and run this again"
            )
        for said in wrong:
            output.print_error(f"{where}: {said}")
        if not wrong:
            output.print_error(f"{where} is there, and fit: nothing was done")
        return WRONG if wrong else OK
    if alone and state_dir.is_in_use(folder):
        raise RemedyError(f"a daemon uses {folder}, and its journal is to be moved: stop it first")
    create_topic(settings.kafka, settings.properties, requirements)
    output.print_error(f"{where} was made")
    if alone:
        _move_journal(folder, settings)
        output.print_error(f"it begins with the {alone} records of {folder / FILE_NAME}")
    return OK


def _count_local_records(folder: Path) -> int:
    """Return how many records a daemon that acted alone has left here."""
    if not (folder / FILE_NAME).exists():
        return 0
    with closing(Journal(folder)) as journal:
        return 0 if journal.copy_of is not None else journal.verify()


def _move_journal(folder: Path, settings: ReplicaSettings) -> None:
    made = journal_topic.read_journal_topic(
        settings.kafka, settings.properties, settings.wanted.topic
    )
    assert made is not None
    writer = open_writer(settings.kafka, settings.properties, settings.wanted.topic)
    with closing(Journal(folder)) as journal:
        seq = 1
        while lines := journal.lines(seq, _LINES_PER_WRITE):
            writer.write([encode_line(line) for line in lines])
            seq = lines[-1].seq + 1
    # From here on the file is a copy, and each of its lines is held against the topic's.
    JournalTopicCopy(folder, settings.wanted.topic, made.topic_id, begin=True).close()
