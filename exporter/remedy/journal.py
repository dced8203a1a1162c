"""The journal: what was planned, about to be done, done and seen. Append-only, on the disk before
anything happens; SQLite, because it is there and knows how to survive a crash.

Each record carries the hash of the one before it, and the newest hash is kept apart, so that one
changed, lost or cut off is noticed: then nothing is changed any more. A plan that is open locks its
place and connector. Whether somebody is at work on it is told by a lock of the kernel, which ends
with its process however that ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO, TypeVar

import msgspec

from exporter.disk import claim, not_ours, sync_folder
from exporter.errors import Busy, JournalDamaged, Overtaken, Unfinished
from exporter.remedy.decisions import Stands, dossier
from exporter.remedy.plan import Plan
from exporter.remedy.records import (
    AnyRecord,
    ControlRecord,
    Ended,
    Opened,
    decoded,
    encoded,
)

NAME: Final = "journal.sqlite"
_AT_ONCE: Final = 1000  # records read in one go
VERSION: Final = 2  # 1 knew no records but those of steps
CONTROL: Final = "control"  # where a plan's id would stand, of records of no plan
_NOTHING: Final = "0" * 64
_BUSY_S: Final = 30.0  # another process writes a record: a matter of milliseconds

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    seq INTEGER PRIMARY KEY, v INTEGER NOT NULL, plan_id TEXT NOT NULL, body BLOB NOT NULL,
    prev_sha256 TEXT NOT NULL, sha256 TEXT NOT NULL UNIQUE) STRICT;
CREATE INDEX IF NOT EXISTS by_plan ON records (plan_id, seq);
CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL,
    sha256 TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS open_plans (plan_id TEXT PRIMARY KEY, place TEXT NOT NULL,
    connector TEXT NOT NULL, UNIQUE (place, connector)) STRICT;
CREATE TABLE IF NOT EXISTS skips (skip_key TEXT PRIMARY KEY, plan_id TEXT NOT NULL) STRICT;
CREATE TRIGGER IF NOT EXISTS never_changed BEFORE UPDATE ON records
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER IF NOT EXISTS never_deleted BEFORE DELETE ON records
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""


Why = TypeVar("Why")


class Entry(NamedTuple):
    """A record and where it stands."""

    seq: int
    plan_id: str
    record: AnyRecord


class Line(NamedTuple):
    """A record as it is written, with its place in the chain; `body` is its JSON."""

    seq: int
    plan_id: str
    prev_sha256: str
    sha256: str
    body: bytes


class Journal:
    """Of one state directory, which is made if it is not there. Raises JournalDamaged if it cannot
    be written to or is not what was written to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder = folder.absolute()  # backups are told by path
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / "locks").mkdir(exist_ok=True, mode=0o700)
            path = folder / NAME
            _keep_to_ourselves(path)
            _made(path)
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)
            sync_folder(folder)
        except (OSError, sqlite3.Error) as exc:
            raise JournalDamaged(f"{folder / NAME} cannot be used: {exc}") from exc
        self.verify()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def open(self, plan: Plan, record: Opened) -> None:
        """Write a plan's first record, and lock its place and connector. Raises Unfinished if
        another plan has them, and Overtaken if this one was begun or refused by others meanwhile:
        who was about to begin it may have stood still for any time.
        """
        at = plan.subject
        with self._writing():
            stands = self._stands(plan.plan_id)
            if stands not in {None, Stands.APPROVED}:
                raise Overtaken(f"plan {plan.plan_id} is not begun: it is {stands} by now")
            other = self.open_plan(at.place, at.connector)
            if other is not None:
                raise Unfinished(
                    other, f"plan {other} for {at.connector} ({at.place}) is still open"
                )
            self._db.execute(
                "INSERT INTO open_plans VALUES (?, ?, ?)", (plan.plan_id, at.place, at.connector)
            )
            self._append(plan.plan_id, record)

    def append(self, plan_id: str, records: Sequence[AnyRecord]) -> None:
        """Write these down; when this returns they are on the disk. A plan that ends lets go of its
        place and connector in the same moment.
        """
        if not records:
            return
        with self._writing():
            for record in records:
                self._append(plan_id, record)
                if isinstance(record, Ended):
                    self._db.execute("DELETE FROM open_plans WHERE plan_id = ?", (plan_id,))

    def claim(self, plan_id: str, skip_key: str) -> None:
        """Make sure that nobody else ever skips what this plan skips. Raises Unfinished naming the
        plan that has, or may have.
        """
        with self._writing():
            self._db.execute("INSERT OR IGNORE INTO skips VALUES (?, ?)", (skip_key, plan_id))
            other = self.skipped_by(skip_key)
            if other != plan_id:
                raise Unfinished(str(other), f"this record was skipped by plan {other} already")

    def skipped_by(self, skip_key: str) -> str | None:
        """The plan that skipped this, or may have; None if none has."""
        found = self._rows("SELECT plan_id FROM skips WHERE skip_key = ?", skip_key)
        return str(found[0][0]) if found else None

    def decide(
        self, plan_id: str, decided: Callable[[tuple[AnyRecord, ...]], AnyRecord | Why]
    ) -> AnyRecord | Why:
        """Look at a plan's records and append one, with nobody else in between. `decided` gives
        what to append, or why nothing is.
        """
        with self._writing():
            found = decided(self.records(plan_id))
            if isinstance(found, AnyRecord):
                self._append(plan_id, found)
            return found

    def control(self, record: ControlRecord) -> None:
        """Write down what concerns no single plan."""
        with self._writing():
            self._append(CONTROL, record)

    def since(self, seq: int, count: int) -> tuple[Entry, ...]:
        """Up to so many records from this one on, in order."""
        return tuple(self._entries("WHERE seq >= ?", seq, count))

    def every(self) -> Iterator[Entry]:
        """All records, in order; no more of them in memory than one reading takes."""
        seq = 1
        while found := self.since(seq, _AT_ONCE):
            seq = found[-1].seq + 1
            yield from found

    def lines(self, seq: int, count: int) -> tuple[Line, ...]:
        """The same, as they are written."""
        rows = self._rows(
            "SELECT seq, plan_id, prev_sha256, sha256, body FROM records WHERE seq >= ?"
            " ORDER BY seq LIMIT ?",
            seq,
            count,
        )
        return tuple(Line(*row) for row in rows)

    def records(self, plan_id: str) -> tuple[AnyRecord, ...]:
        """All of a plan, in order; none if there is no such plan."""
        return tuple(entry.record for entry in self.entries(plan_id))

    def entries(self, plan_id: str) -> tuple[Entry, ...]:
        """The same, with where they stand."""
        return tuple(self._entries("WHERE plan_id = ?", plan_id))

    def tail(self, count: int) -> tuple[Entry, ...]:
        """The newest records of all plans, in order."""
        newest = self._rows("SELECT max(seq) FROM records")[0][0] or 0
        return tuple(self._entries("WHERE seq > ?", newest - count))

    def plans(self) -> tuple[str, ...]:
        """The ids of all plans, in order of their beginnings."""
        found = self._rows("SELECT plan_id FROM records GROUP BY plan_id ORDER BY min(seq)")
        return tuple(plan_id for (plan_id,) in found if plan_id != CONTROL)

    def open_plan(self, place: str, connector: str) -> str | None:
        """The id of the plan that has this place and connector."""
        found = self._rows(
            "SELECT plan_id FROM open_plans WHERE place = ? AND connector = ?", place, connector
        )
        return str(found[0][0]) if found else None

    def verify(self) -> int:
        """How many records there are. Raises JournalDamaged if they are not those written."""
        try:
            self._db.execute("BEGIN")  # one view of records and head
            try:
                return self._verified()
            finally:
                self._db.execute("ROLLBACK")
        except (sqlite3.Error, msgspec.DecodeError) as exc:
            raise JournalDamaged(f"{self.folder / NAME} cannot be read: {exc}") from exc

    def _verified(self) -> int:
        before, count = _NOTHING, 0
        rows = self._db.execute(
            "SELECT seq, v, plan_id, body, prev_sha256, sha256 FROM records ORDER BY seq"
        )
        for seq, v, plan_id, body, prev, sha256 in rows:
            count += 1
            if v > VERSION:
                raise self._damaged(seq, f"was written by a newer offsetwatch (version {v})")
            if seq != count or prev != before or sha256 != _hash(seq, v, plan_id, body, prev):
                raise self._damaged(seq, "is not what was written")
            before = sha256
        head = self._db.execute("SELECT seq, sha256 FROM head").fetchone() or (0, _NOTHING)
        if head != (count, before):
            raise self._damaged(head[0], "is missing")
        return count

    @contextmanager
    def at_work(self, place: str, connector: str, since: str) -> Iterator[None]:
        """Be the one process that works on this connector. Raises Busy naming the one that does,
        and JournalDamaged where locks do not work.
        """
        path = self._lock_of(place, connector)
        with _opened(path) as handle:
            try:
                holder = claim(handle, since)
            except OSError as exc:  # a network file system
                raise _unlockable(path, exc) from exc
            if holder is not None:
                by = holder or "a process that has not said who it is"
                raise Busy(f"{connector} ({place}) is being changed by {by}: nothing was done")
            yield

    def busy(self, place: str, connector: str) -> bool:
        """Whether a process works on this connector now."""
        path = self._lock_of(place, connector)
        if not path.exists():
            return False
        with _opened(path) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            except OSError as exc:
                raise _unlockable(path, exc) from exc
        return False

    def _lock_of(self, place: str, connector: str) -> Path:
        name = hashlib.sha256(f"{place}\0{connector}".encode()).hexdigest()[:32]
        return self.folder / "locks" / name

    def _stands(self, plan_id: str) -> Stands | None:
        found = dossier(self.records(plan_id))
        return None if found is None else found.stands

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as exc:
            raise JournalDamaged(f"{self.folder / NAME} cannot be written: {exc}") from exc

    def _append(self, plan_id: str, record: AnyRecord) -> None:
        seq, prev = self._db.execute("SELECT seq, sha256 FROM head").fetchone() or (0, _NOTHING)
        body = encoded(record)
        sha256 = _hash(seq + 1, VERSION, plan_id, body, prev)
        self._db.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)",
            (seq + 1, VERSION, plan_id, body, prev, sha256),
        )
        self._db.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (seq + 1, sha256))

    def _entries(self, where: str, value: str | int, count: int = -1) -> Iterator[Entry]:
        rows = self._rows(
            f"SELECT seq, plan_id, body FROM records {where} ORDER BY seq LIMIT ?",  # noqa: S608 - ours
            value,
            count,
        )
        for seq, plan_id, body in rows:
            try:
                yield Entry(seq, plan_id, decoded(body))
            except msgspec.DecodeError as exc:
                raise self._damaged(seq, f"cannot be read ({exc})") from exc

    def _rows(self, query: str, *values: str | int) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as exc:
            raise JournalDamaged(f"{self.folder / NAME} cannot be read: {exc}") from exc

    def _damaged(self, seq: int, what: str) -> JournalDamaged:
        return JournalDamaged(
            f"{self.folder / NAME}: record {seq} {what}; no change is made with such a journal. "
            "Keep the file, look at the connectors it names, and start with another --state-dir"
        )


def _made(path: Path) -> None:
    """An empty file that nobody else can read, where there is none. One that is there is not so
    much as opened: POSIX drops all locks of a process on a file when it closes any handle of it,
    those of SQLite's other connections among them, and then the next process to leave takes itself
    for the last and deletes the log that this one is writing.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(FileExistsError):
        os.close(os.open(path, flags, 0o600))


def _keep_to_ourselves(path: Path) -> None:
    """The file, and those that SQLite keeps beside it: what they say is carried out."""
    for at in (path, path.with_name(f"{NAME}-wal"), path.with_name(f"{NAME}-shm")):
        problem = not_ours(at)
        if problem is not None:
            raise JournalDamaged(f"{at} cannot be used: {problem}")


def _hash(seq: int, v: int, plan_id: str, body: bytes, prev: str) -> str:
    return hashlib.sha256(
        b"%d %d %s %s " % (seq, v, plan_id.encode(), prev.encode()) + body
    ).hexdigest()


def _opened(path: Path) -> TextIO:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise _unlockable(path, exc) from exc
    return os.fdopen(handle, "r+", encoding="utf-8")


def _unlockable(path: Path, exc: OSError) -> JournalDamaged:
    return JournalDamaged(f"{path} cannot be locked: {exc.strerror}: use another --state-dir")
