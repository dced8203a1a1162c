"""Journal of plans: what was planned, intended, done and verified, in SQLite.

It is append-only, and a record is on the disk before its action happens. SQLite is available
everywhere and survives crashes.

Each record has the hash of the one before it, and the newest hash is stored apart, so that a record
changed, lost or cut off is detected: then nothing is changed any more. An open plan locks its
connector. Whether a process works on it is shown by a lock of the kernel, which ends with its
process however that ends.

Replicas each have a copy of one journal, which is a topic (remedy/replicas/topic_copy.py). Then
records are written to the topic first, and what they lock follows from the records alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO, TypeVar

import msgspec

from offsetwatch.clock import to_utc
from offsetwatch.disk import acquire_file_lock, find_ownership_problem, sync_folder
from offsetwatch.errors import (
    ConnectorBusy,
    JournalDamaged,
    NotLeader,
    PlanStateConflict,
    PlanUnfinished,
)
from offsetwatch.remedy.model.approval import build_plan_history
from offsetwatch.remedy.model.journal_records import (
    AnyRecord,
    ControlRecord,
    LeadershipTaken,
    PlanEnded,
    PlanOpened,
    PlanProposed,
    RecordReplayed,
    StepIntended,
    decode_record,
    encode_record,
)
from offsetwatch.remedy.model.plan import Alter, Plan, PlanStatus

FILE_NAME: Final = "journal.sqlite"
LOCKS: Final = "locks"
_AT_ONCE: Final = 1000  # records read in one go
VERSION: Final = 3  # of Led, which replicas alone write
STANDALONE_VERSION: Final = 2  # of all other records: all that the journal of one daemon has
# Of pages, for each thread that reads the journal, which it does from where it stopped. By itself
# SQLite keeps 2 MiB: all that two hundred plans have written.
CACHE_KIB: Final = 256
CONTROL_PLAN_ID: Final = "control"  # where a plan's id would stand, of records of no plan
_FIRST_PREV_SHA256: Final = "0" * 64
PUBLISHED_BYTES_MAX: Final = (
    15 * 1024 * 1024
)  # the topic takes a little more, for what is around it
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
CREATE TABLE IF NOT EXISTS origin (one INTEGER PRIMARY KEY CHECK (one = 1), topic TEXT NOT NULL,
    topic_id TEXT NOT NULL, position INTEGER NOT NULL, seq INTEGER NOT NULL) STRICT;
CREATE TRIGGER IF NOT EXISTS never_changed BEFORE UPDATE ON records
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER IF NOT EXISTS never_deleted BEFORE DELETE ON records
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""


NotDecided = TypeVar("NotDecided")


class JournalEntry(NamedTuple):
    """Record with its position in the journal and its plan."""

    seq: int
    plan_id: str
    record: AnyRecord


class ChainLine(msgspec.Struct, frozen=True):
    """Line of the journal: the JSON of a record, with its position in the chain.

    The topic that replicas share has these lines as JSON.

    v       version of the journal that introduced this kind of record
    """

    seq: int
    v: int
    plan_id: str
    prev_sha256: str
    sha256: str
    record: msgspec.Raw


StartCheck = Callable[[], str | None]
"""Why something is not to be done, asked for right before it is; None where nothing speaks against
it.
"""

LinePublisher = Callable[[Sequence[ChainLine]], None]
"""Has lines written where all replicas read them, together, before they are on this disk. Raises
NotLeader if they are not known to be there.
"""


class Journal:
    """Journal of one state directory, which is created if it does not exist.

    Raises JournalDamaged if it cannot be written to, or is not what was written to it. A copy of a
    topic can be written only with `publish`; without it, a write raises NotLeader.
    """

    def __init__(self, folder: Path, publish: LinePublisher | None = None) -> None:
        self._publish = publish
        self._fresh: list[ChainLine] = []
        self.folder = folder = folder.absolute()  # backups are told by path
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / LOCKS).mkdir(exist_ok=True, mode=0o700)
            path = folder / FILE_NAME
            _require_private_files(path)
            _create_private_file(path)
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            self._db.executescript(_SCHEMA)
            sync_folder(folder)
        except (OSError, sqlite3.Error) as exc:
            raise JournalDamaged(f"{folder / FILE_NAME} cannot be used: {exc}") from exc
        self.verify()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def open(self, plan: Plan, record: PlanOpened, against: StartCheck = lambda: None) -> None:
        """Write a plan's first record, and lock its place and connector.

        Raises PlanUnfinished if another plan holds them. Raises PlanStateConflict if this plan was
        begun or refused by others meanwhile, or if `against` returns why it must not begin any
        more. Both are checked under the write lock, because this process may have been suspended
        for any time.
        """
        subject = plan.subject
        with self._writing():
            history = build_plan_history(self.records(plan.plan_id))
            status = None if history is None else history.status
            said = against() if status in {None, PlanStatus.APPROVED} else f"it is {status} by now"
            if said is not None:
                raise PlanStateConflict(f"plan {plan.plan_id} is not begun: {said}")
            other = self.open_plan(subject.store, subject.connector)
            if other is not None:
                raise PlanUnfinished(
                    other, f"plan {other} for {subject.connector} ({subject.store}) is still open"
                )
            self._append(plan.plan_id, record)

    def append(self, plan_id: str, records: Sequence[AnyRecord]) -> None:
        """Write these records; on return they are on the disk.

        The end of a plan also unlocks its connector. The intent to skip a record also claims that
        record: raises PlanUnfinished, naming the plan that has skipped it, or may have.
        """
        if not records:
            return
        with self._writing():
            for record in records:
                self._append(plan_id, record)

    def skipped_by(self, skip_key: str) -> str | None:
        """Return the plan that skipped this, or may have; None if none has."""
        rows = self._rows("SELECT plan_id FROM skips WHERE skip_key = ?", skip_key)
        return str(rows[0][0]) if rows else None

    def decide(
        self, plan_id: str, decided: Callable[[tuple[AnyRecord, ...]], AnyRecord | NotDecided]
    ) -> AnyRecord | NotDecided:
        """Read a plan's records and append one, under the write lock.

        `decided` returns the record to append, or why none is appended.
        """
        with self._writing():
            decision = decided(self.records(plan_id))
            if isinstance(decision, AnyRecord):
                self._append(plan_id, decision)
            return decision

    def control(self, record: ControlRecord) -> None:
        """Write a record that belongs to no single plan."""
        with self._writing():
            self._append(CONTROL_PLAN_ID, record)

    def since(self, seq: int, count: int) -> tuple[JournalEntry, ...]:
        """Return up to `count` records from this one on, in order."""
        return tuple(self._entries("WHERE seq >= ?", seq, count))

    def every(self, seq: int = 1) -> Iterator[JournalEntry]:
        """Yield all records from this one on, in order, with at most 1000 of them in memory."""
        while batch := self.since(seq, _AT_ONCE):
            seq = batch[-1].seq + 1
            yield from batch

    def lines(self, seq: int, count: int) -> tuple[ChainLine, ...]:
        """Return up to `count` lines from this one on, as they are written."""
        rows = self._rows(
            "SELECT seq, v, plan_id, prev_sha256, sha256, body FROM records WHERE seq >= ?"
            " ORDER BY seq LIMIT ?",
            seq,
            count,
        )
        return tuple(
            ChainLine(seq, v, plan_id, prev, sha256, msgspec.Raw(body))
            for seq, v, plan_id, prev, sha256, body in rows
        )

    def records(self, plan_id: str) -> tuple[AnyRecord, ...]:
        """Return all records of a plan, in order; none if there is no such plan."""
        return tuple(entry.record for entry in self.entries(plan_id))

    def entries(self, plan_id: str) -> tuple[JournalEntry, ...]:
        """Return all records of a plan with their positions, in order."""
        return tuple(self._entries("WHERE plan_id = ?", plan_id))

    def tail(self, count: int) -> tuple[JournalEntry, ...]:
        """Return the newest records of all plans, in order."""
        newest = self._rows("SELECT max(seq) FROM records")[0][0] or 0
        return tuple(self._entries("WHERE seq > ?", newest - count))

    def replays(self) -> dict[str, tuple[RecordReplayed, ...]]:
        """Return the replays of each quarantined record, in order, by the id of its receipt.

        A replay is one that was written, or may have been.
        """
        replays: dict[str, list[RecordReplayed]] = {}
        for entry in self.every():
            if isinstance(entry.record, RecordReplayed):
                times = replays.setdefault(entry.record.receipt, [])
                if not entry.record.failed:
                    times.append(entry.record)
                elif times:
                    times.pop()
        return {receipt: tuple(times) for receipt, times in replays.items() if times}

    def plans(self) -> tuple[str, ...]:
        """Return the ids of all plans, in order of their beginnings."""
        rows = self._rows("SELECT plan_id FROM records GROUP BY plan_id ORDER BY min(seq)")
        return tuple(plan_id for (plan_id,) in rows if plan_id != CONTROL_PLAN_ID)

    def open_plan(self, store_name: str, connector: str) -> str | None:
        """Return the id of the plan that locks this place and connector; None if none does."""
        rows = self._rows(
            "SELECT plan_id FROM open_plans WHERE place = ? AND connector = ?",
            store_name,
            connector,
        )
        return str(rows[0][0]) if rows else None

    def verify(self) -> int:
        """Return the number of records. Raises JournalDamaged if they are not those written."""
        try:
            self._db.execute("BEGIN")  # one view of records and head
            try:
                return self._verified()
            finally:
                self._db.execute("ROLLBACK")
        except (sqlite3.Error, msgspec.DecodeError) as exc:
            raise JournalDamaged(f"{self.folder / FILE_NAME} cannot be read: {exc}") from exc

    def _verified(self) -> int:
        before, count = _FIRST_PREV_SHA256, 0
        rows = self._db.execute(
            "SELECT seq, v, plan_id, body, prev_sha256, sha256 FROM records ORDER BY seq"
        )
        for seq, v, plan_id, body, prev, sha256 in rows:
            count += 1
            if (problem := find_version_problem(v)) is not None:
                raise self._damaged(seq, problem)
            if seq != count or prev != before or sha256 != hash_line(seq, v, plan_id, body, prev):
                raise self._damaged(seq, "is not what was written")
            before = sha256
        head = self._db.execute("SELECT seq, sha256 FROM head").fetchone() or (
            0,
            _FIRST_PREV_SHA256,
        )
        if head != (count, before):
            raise self._damaged(head[0], "is missing")
        return count

    @contextmanager
    def at_work(self, store_name: str, connector: str, since: str) -> Iterator[None]:
        """Lock the connector for this process.

        Raises ConnectorBusy naming the process that holds the lock, and JournalDamaged where file
        locks do not work.
        """
        path = self._build_lock_path(store_name, connector)
        with _open_lock_file(path) as handle:
            try:
                holder = acquire_file_lock(handle, since)
            except OSError as exc:  # a network file system
                raise _build_lock_error(path, exc) from exc
            if holder is not None:
                by = holder or "a process that has not said who it is"
                raise ConnectorBusy(
                    f"{connector} ({store_name}) is being changed by {by}: nothing was done"
                )
            yield

    def busy(self, store_name: str, connector: str) -> bool:
        """Check whether a process works on this connector now."""
        path = self._build_lock_path(store_name, connector)
        if not path.exists():
            return False
        with _open_lock_file(path) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            except OSError as exc:
                raise _build_lock_error(path, exc) from exc
        return False

    def _build_lock_path(self, store_name: str, connector: str) -> Path:
        name = hashlib.sha256(f"{store_name}\0{connector}".encode()).hexdigest()[:32]
        return self.folder / LOCKS / name

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._fresh.clear()
            try:
                self._ours_to_write()
                yield
                if self._publish is not None and self._fresh:
                    self._publish(tuple(self._fresh))
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as exc:
            raise JournalDamaged(f"{self.folder / FILE_NAME} cannot be written: {exc}") from exc

    @property
    def copy_of(self) -> str | None:
        """Return the topic that this journal is a copy of; None if it is no copy."""
        rows = self._rows("SELECT topic FROM origin")
        return str(rows[0][0]) if rows else None

    def holds(self, record: AnyRecord) -> bool:
        """Check whether the record is small enough to be written."""
        return self._publish is None or len(encode_record(record)) <= PUBLISHED_BYTES_MAX

    def _ours_to_write(self) -> None:
        if self._publish is None and (topic := self.copy_of) is not None:
            raise NotLeader(
                f"{self.folder / FILE_NAME} is a copy of the topic {topic}: nothing was done. "
                "Name the replica that leads with --url: it alone writes"
            )

    def _append(self, plan_id: str, record: AnyRecord) -> None:
        seq, prev = self._head()
        seq += 1
        body = encode_record(record)
        v = VERSION if isinstance(record, LeadershipTaken) else STANDALONE_VERSION
        if self._publish is not None and len(body) > PUBLISHED_BYTES_MAX:
            raise JournalDamaged(
                f"a record of {len(body)} bytes cannot be written: replicas share those of up to "
                f"{PUBLISHED_BYTES_MAX}"
            )
        sha256 = hash_line(seq, v, plan_id, body, prev)
        line = ChainLine(seq, v, plan_id, prev, sha256, msgspec.Raw(body))
        self._fresh.append(line)
        self._put(line, record)

    def _head(self) -> tuple[int, str]:
        head = self._db.execute("SELECT seq, sha256 FROM head").fetchone()
        return (0, _FIRST_PREV_SHA256) if head is None else (int(head[0]), str(head[1]))

    def _put(self, line: ChainLine, record: AnyRecord) -> None:
        """Insert the line after the others, and apply its effects on locks and skips."""
        plan_id = line.plan_id
        match record:
            case PlanOpened(plan=plan):
                row = (plan_id, *plan.connector_key)
                self._db.execute("INSERT INTO open_plans VALUES (?, ?, ?)", row)
            case PlanEnded():
                self._db.execute("DELETE FROM open_plans WHERE plan_id = ?", (plan_id,))
            case StepIntended() if (key := self._skips(plan_id, record)) is not None:
                other = self.skipped_by(key)
                if other not in {None, plan_id}:
                    said = f"this record was skipped by plan {other} already"
                    raise PlanUnfinished(str(other), said)
                self._db.execute("INSERT OR IGNORE INTO skips VALUES (?, ?)", (key, plan_id))
        self._db.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)",
            (line.seq, line.v, plan_id, bytes(line.record), line.prev_sha256, line.sha256),
        )
        self._db.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (line.seq, line.sha256))

    def _skips(self, plan_id: str, intended: StepIntended) -> str | None:
        """Return the skip key of a step that is about to be tried; None if it skips nothing."""
        if intended.undoing:
            return None
        first = next(self._entries("WHERE plan_id = ?", plan_id, 1), None)
        if first is None or not isinstance(first.record, PlanOpened | PlanProposed):
            return None
        plan = first.record.plan
        alters = isinstance(plan.steps[intended.index], Alter)
        return plan.remedy.skip_key if alters and plan.remedy is not None else None

    def _entries(self, where: str, value: str | int, count: int = -1) -> Iterator[JournalEntry]:
        rows = self._rows(
            f"SELECT seq, plan_id, body FROM records {where} ORDER BY seq LIMIT ?",  # noqa: S608 - ours
            value,
            count,
        )
        for seq, plan_id, body in rows:
            try:
                yield JournalEntry(seq, plan_id, decode_record(body))
            except msgspec.DecodeError as exc:
                raise self._damaged(seq, f"cannot be read ({exc})") from exc

    def _rows(self, query: str, *values: str | int) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as exc:
            raise JournalDamaged(f"{self.folder / FILE_NAME} cannot be read: {exc}") from exc

    def _damaged(self, seq: int, what: str) -> JournalDamaged:
        return JournalDamaged(
            f"{self.folder / FILE_NAME}: record {seq} {what}; no change is made with such a "
            "journal. "
            "Keep the file, inspect the connectors it names, and start with another --state-dir"
        )


def create_plan_id(now: float) -> str:
    """Create an id that sorts by time and is easy to read out."""
    return f"{to_utc(now):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def find_version_problem(v: int) -> str | None:
    """Return why a line of this version cannot be read; None if it can."""
    if v > VERSION:
        return f"was written by a newer offsetwatch (version {v})"
    if v < STANDALONE_VERSION:
        return f"has version {v} of the journal, and this reads {STANDALONE_VERSION} to {VERSION}"
    return None


def hash_line(seq: int, v: int, plan_id: str, body: bytes | msgspec.Raw, prev: str) -> str:
    """Return the hash of a line and, through the hash before it, of all lines before it."""
    return hashlib.sha256(
        b"%d %d %s %s " % (seq, v, plan_id.encode(), prev.encode()) + bytes(body)
    ).hexdigest()


def _create_private_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists.

    An existing one is not even opened. POSIX drops all locks of a process on a file when it closes
    any handle of it, those of SQLite's other connections among them. Then the next process to leave
    considers itself the last and deletes the log that this one is writing.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(FileExistsError):
        os.close(os.open(path, flags, 0o600))


def _require_private_files(path: Path) -> None:
    """Check that only the owner can write the file and those that SQLite keeps beside it.

    What they contain is carried out. Raises JournalDamaged.
    """
    for suffix in ("", "-wal", "-shm"):
        file = path.with_name(f"{path.name}{suffix}")
        problem = find_ownership_problem(file)
        if problem is not None:
            raise JournalDamaged(f"{file} cannot be used: {problem}")


def _open_lock_file(path: Path) -> TextIO:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise _build_lock_error(path, exc) from exc
    return os.fdopen(handle, "r+", encoding="utf-8")


def _build_lock_error(path: Path, exc: OSError) -> JournalDamaged:
    return JournalDamaged(f"{path} cannot be locked: {exc.strerror}: use another --state-dir")
