"""Copy of the journal's topic in a replica's own file, line by line, and the reader that fills it.

The file can be deleted at any time and is made again from the topic's first record. The chain is
the same on all replicas, byte for byte. A line is accepted only if it follows the one before it;
one that is already in the copy must be the same. Backups are part of the copy: a replica that
continues a plan has the file that another has written.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from offsetwatch.clients.kafka.clients import KafkaAdmin, parse_end_of_partition
from offsetwatch.clients.kafka.journal_topic import JournalReader
from offsetwatch.errors import (
    JournalDamaged,
    LeaderNotAvailable,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import (
    FILE_NAME,
    ChainLine,
    Journal,
    find_version_problem,
    hash_line,
)
from offsetwatch.remedy.model.journal_records import (
    LeadershipTaken,
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
            origin = self._db.execute("SELECT topic, topic_id FROM origin").fetchone()
            if origin is None:
                if self._head()[0] and not begin:
                    raise self._build_mismatch_error("it is the journal of a daemon that was alone")
                self._db.execute("INSERT INTO origin VALUES (1, ?, ?, 0, 0)", (topic, topic_id))
            elif origin != (topic, topic_id):
                raise self._build_mismatch_error(
                    f"it is a copy of the topic {origin[0]} ({origin[1]})"
                )
        except sqlite3.Error as exc:
            raise JournalDamaged(f"{self.folder / FILE_NAME} cannot be read: {exc}") from exc

    def _build_mismatch_error(self, what: str) -> JournalDamaged:
        return JournalDamaged(
            f"{self.folder / FILE_NAME}: {what}, and no copy of the topic {self._topic} as it is "
            "now. What it says was skipped would be forgotten: see docs/high-availability.md"
        )

    @property
    def progress(self) -> TopicCopyPosition:
        """Return the position up to which the topic was read."""
        return TopicCopyPosition(*self._db.execute("SELECT position, seq FROM origin").fetchone())

    @property
    def head(self) -> tuple[int, str]:
        """Return the newest line: its position in the chain, and its hash."""
        return self._head()

    def append_lines(self, values: Sequence[bytes | None], position: int) -> None:
        """Append records of the topic, in order; `position` is the offset after them.

        Raises JournalDamaged, having appended none of them.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                seq = self.progress.seq
                for value in values:
                    seq = self._append_line(value, seq)
                self._db.execute("UPDATE origin SET position = ?, seq = ?", (position, seq))
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as exc:
            raise JournalDamaged(f"{self.folder / FILE_NAME} cannot be written: {exc}") from exc

    def _append_line(self, value: bytes | None, before: int) -> int:
        try:
            line = decode_line(value)
            record = decode_record(bytes(line.record))
        except (msgspec.DecodeError, UnicodeEncodeError) as exc:
            raise self._build_line_error(before + 1, f"cannot be read ({exc})") from exc
        if (problem := find_version_problem(line.v)) is not None:
            raise self._build_line_error(line.seq, problem)
        if line.seq != before + 1:
            raise self._build_line_error(before + 1, f"is missing: {line.seq} comes next")
        head, newest = self._head()
        if line.seq <= head:  # written by this very process, or read before
            if self.lines(line.seq, 1) != (line,):
                raise self._build_line_error(line.seq, "is another one than in the copy")
            return line.seq
        sha256 = hash_line(line.seq, line.v, line.plan_id, line.record, line.prev_sha256)
        if line.prev_sha256 != newest or line.sha256 != sha256:
            raise self._build_line_error(line.seq, "is not what was written")
        if isinstance(record, OffsetsBackedUp):
            self._write_backup(line.plan_id, record)
        self._put(line, record)
        return line.seq

    def _write_backup(self, plan_id: str, backed_up: OffsetsBackedUp) -> None:
        opened = next(self._entries("WHERE plan_id = ?", plan_id, 1), None)
        if opened is None or not isinstance(opened.record, PlanOpened | PlanProposed):
            return
        connector = opened.record.plan.subject.connector
        try:
            backups.copy_backup(self.folder, connector=connector, frozen=backed_up.frozen)
        except OSError as exc:
            raise JournalDamaged(f"a backup cannot be written: {exc}") from exc

    def _build_line_error(self, seq: int, what: str) -> JournalDamaged:
        return JournalDamaged(
            f"topic {self._topic}: record {seq} {what}; no change is made with such a journal. "
            "See docs/high-availability.md"
        )


def encode_line(line: ChainLine) -> bytes:
    """Return a line as JSON, as it is in the topic."""
    return msgspec.json.encode(line)


def decode_line(value: bytes | None) -> ChainLine:
    """Decode a line of the topic. Raises msgspec.DecodeError for any other value."""
    if value is None:
        raise msgspec.DecodeError("it is empty")
    try:
        return msgspec.json.decode(value, type=ChainLine)
    except (UnicodeDecodeError, RecursionError) as exc:
        raise msgspec.DecodeError(str(exc)) from exc


WAIT_S: Final = 0.05  # for a record, and for news of the election: a turn of the thread has both
READ_MAX: Final = 1000
CATCH_UP_S: Final = 60.0  # to the journal's end, once chosen; then others are let try


class JournalTopicFollower:
    """Follower that reads the journal's topic into the copy."""

    def __init__(self, copy: JournalTopicCopy, reader: JournalReader) -> None:
        self.copy = copy
        self._reader = reader
        self._position = copy.progress.position
        self.caught_up = False
        self.busy = False
        self.problem = ""
        self.leader = _find_last_leader(copy, 1)
        self._scanned_seq = copy.head[0]

    def read(self, wait_s: float) -> None:
        """Read the records that have arrived. Raises JournalDamaged, ClientError."""
        values: list[bytes | None] = []
        position = self._position
        try:
            messages = self._reader.read(READ_MAX, wait_s)
        except (ResponseTimeout, TargetUnreachable, LeaderNotAvailable) as exc:
            # A connection that comes again by itself. Who leads may go on meanwhile: whether that
            # is so, its writing tells.
            self.problem, messages = str(exc), []
        else:
            self.problem = ""
        for message in messages:
            ended = parse_end_of_partition(message)
            if ended is None:
                values.append(message.value())
                offset = message.offset()
                assert offset is not None
                position = offset + 1
            else:
                position = max(position, ended)
                self.caught_up = True
        self.busy = bool(values)
        if values or position > self._position:
            self.copy.append_lines(values, position)
            self._position = position
        head = self.copy.head[0]
        if head > self._scanned_seq:
            self.leader = _find_last_leader(self.copy, self._scanned_seq + 1) or self.leader
            self._scanned_seq = head

    def read_to_end(
        self, kafka: str, properties: Mapping[str, Any], give_up: Callable[[], bool]
    ) -> None:
        """Read to the present end of the topic, to which only the caller can write now."""
        deadline = time.monotonic() + CATCH_UP_S
        admin = KafkaAdmin(kafka, properties)
        try:
            while True:
                ends = admin.readable_ends([self._reader.at])[self._reader.at]
                if ends.stable == ends.high:
                    break
                self._check_deadline(deadline, give_up)
                self.read(WAIT_S)
        finally:
            admin.close()
        while self._position < ends.high:
            self._check_deadline(deadline, give_up)
            self.read(WAIT_S)
        seq, head = self.copy.progress.seq, self.copy.head[0]
        if seq != head:
            raise JournalDamaged(
                f"topic {self._reader.at.topic} ends with record {seq}, and this replica has seen "
                f"{head}: it has lost records. See docs/high-availability.md"
            )

    def _check_deadline(self, deadline: float, give_up: Callable[[], bool]) -> None:
        if give_up() or time.monotonic() > deadline:
            raise ResponseTimeout("journal", "its end was not reached")


def _find_last_leader(copy: JournalTopicCopy, since: int) -> tuple[str, float] | None:
    leader: tuple[str, float] | None = None
    for entry in copy.every(since):
        if isinstance(entry.record, LeadershipTaken):
            leader = (entry.record.name, entry.record.at)
    return leader
