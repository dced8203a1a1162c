"""Copy of the journal's topic in a replica's own file, line by line.

The file can be deleted at any time and is made again from the topic's first record. The chain is
the same on all replicas, byte for byte. A line is accepted only if it follows the one before it;
one that is already in the copy must be the same. Backups are part of the copy: a replica that
continues a plan has the file that another has written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from offsetwatch.errors import JournalDamaged
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import (
    FILE_NAME,
    ChainLine,
    Journal,
    find_version_problem,
    hash_line,
)
from offsetwatch.remedy.model.journal_records import (
    OffsetsBackedUp,
    PlanOpened,
    PlanProposed,
    decode_record,
)


class TopicCopyPosition(NamedTuple):
    """Position up to which the topic was read.

    position    offset of the next record
    seq         newest line before it
    """

    position: int
    seq: int


class JournalTopicCopy(Journal):
    """Copy of one topic in one state directory, for the one thread that reads the topic.

    Raises JournalDamaged if the file has another journal.
    """

    def __init__(self, folder: Path, topic: str, topic_id: str, *, begin: bool = False) -> None:
        """Open or create the copy.

        begin   the content of the file was just written to the topic, as its beginning
        """
        super().__init__(folder)
        self._topic = topic
        try:
            found = self._db.execute("SELECT topic, topic_id FROM origin").fetchone()
            if found is None:
                if self._head()[0] and not begin:
                    raise self._other("it is the journal of a daemon that was alone")
                self._db.execute("INSERT INTO origin VALUES (1, ?, ?, 0, 0)", (topic, topic_id))
            elif found != (topic, topic_id):
                raise self._other(f"it is a copy of the topic {found[0]} ({found[1]})")
        except sqlite3.Error as exc:
            raise JournalDamaged(f"{self.folder / FILE_NAME} cannot be read: {exc}") from exc

    def _other(self, what: str) -> JournalDamaged:
        return JournalDamaged(
            f"{self.folder / FILE_NAME}: {what}, and no copy of the topic {self._topic} as it "
            "is now. "
            "What it says was skipped would be forgotten: see docs/high-availability.md"
        )

    @property
    def place(self) -> TopicCopyPosition:
        """Return the position up to which the topic was read."""
        return TopicCopyPosition(*self._db.execute("SELECT position, seq FROM origin").fetchone())

    @property
    def head(self) -> tuple[int, str]:
        """Return the newest line: its position in the chain, and its hash."""
        return self._head()

    def take(self, values: Sequence[bytes | None], position: int) -> None:
        """Append records of the topic, in order; `position` is the offset after them.

        Raises JournalDamaged, having appended none of them.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                seq = self.place.seq
                for value in values:
                    seq = self._taken(value, seq)
                self._db.execute("UPDATE origin SET position = ?, seq = ?", (position, seq))
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as exc:
            raise JournalDamaged(f"{self.folder / FILE_NAME} cannot be written: {exc}") from exc

    def _taken(self, value: bytes | None, before: int) -> int:
        try:
            line = decode_line(value)
            record = decode_record(line.body)
        except (msgspec.DecodeError, UnicodeEncodeError) as exc:
            raise self._not_in_order(before + 1, f"cannot be read ({exc})") from exc
        if (problem := find_version_problem(line.v)) is not None:
            raise self._not_in_order(line.seq, problem)
        if line.seq != before + 1:
            raise self._not_in_order(before + 1, f"is missing: {line.seq} comes next")
        head, newest = self._head()
        if line.seq <= head:  # written by this very process, or read before
            if self.lines(line.seq, 1) != (line,):
                raise self._not_in_order(line.seq, "is another one than in the copy")
            return line.seq
        told = hash_line(line.seq, line.v, line.plan_id, line.body, line.prev_sha256)
        if line.prev_sha256 != newest or line.sha256 != told:
            raise self._not_in_order(line.seq, "is not what was written")
        if isinstance(record, OffsetsBackedUp):
            self._back_up(line.plan_id, record)
        self._put(line, record)
        return line.seq

    def _back_up(self, plan_id: str, kept: OffsetsBackedUp) -> None:
        opened = next(self._entries("WHERE plan_id = ?", plan_id, 1), None)
        if opened is None or not isinstance(opened.record, PlanOpened | PlanProposed):
            return
        connector = opened.record.plan.subject.connector
        try:
            backups.copy_backup(self.folder, connector=connector, frozen=kept.frozen)
        except OSError as exc:
            raise JournalDamaged(f"a backup cannot be written: {exc}") from exc

    def _not_in_order(self, seq: int, what: str) -> JournalDamaged:
        return JournalDamaged(
            f"topic {self._topic}: record {seq} {what}; no change is made with such a journal. "
            "See docs/high-availability.md"
        )


class _TopicLine(msgspec.Struct, frozen=True):
    seq: int
    v: int
    plan_id: str
    prev_sha256: str
    sha256: str
    record: msgspec.Raw


def encode_line(line: ChainLine) -> bytes:
    """Return a line as JSON, as it is in the topic."""
    return msgspec.json.encode(
        _TopicLine(
            seq=line.seq,
            v=line.v,
            plan_id=line.plan_id,
            prev_sha256=line.prev_sha256,
            sha256=line.sha256,
            record=msgspec.Raw(line.body),
        )
    )


def decode_line(value: bytes | None) -> ChainLine:
    """Decode a line of the topic. Raises msgspec.DecodeError for any other value."""
    if value is None:
        raise msgspec.DecodeError("it is empty")
    try:
        topic_line = msgspec.json.decode(value, type=_TopicLine)
    except (UnicodeDecodeError, RecursionError) as exc:
        raise msgspec.DecodeError(str(exc)) from exc
    return ChainLine(
        topic_line.seq,
        topic_line.plan_id,
        topic_line.prev_sha256,
        topic_line.sha256,
        bytes(topic_line.record),
        topic_line.v,
    )
