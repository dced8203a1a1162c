"""PostgreSQL with logical replication, as Debian has it."""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from lab.databases.server import (
    ADMINISTRATOR,
    ARCHIVE,
    CONNECT_S_MAX,
    DEBEZIUM,
    NOTE_CHARS,
    ORDERS,
    SHOP,
    WATCHER,
    DatabaseServer,
    Row,
    as_other_user,
)
from lab.errors import LabError
from lab.processes.child import Child
from lab.processes.ports import LOOPBACK
from lab.waiting import NotYet

PUBLICATION: Final = "shop"

_DEBIAN: Final = Path("/usr/lib/postgresql")
_MAINTENANCE: Final = "postgres"
_SETTINGS: Final = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "wal_level": "logical",
    # Nobody loses anything with a lab.
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_connections": "50",
}
_SERVER: Final = (
    f"create role {DEBEZIUM} login replication",
    f"create role {WATCHER} login",
    f"grant pg_monitor to {WATCHER}",
    f"create database {SHOP}",
    f"create database {ARCHIVE}",
)
_TABLE: Final = (
    f"create table {ORDERS} (id bigint generated always as identity primary key, note text, "
    "written_at timestamptz default clock_timestamp())"
)
# As Debezium recommends it: its user owns nothing, and may read what is captured.
_CAPTURE: Final = (
    f"create publication {PUBLICATION} for table {ORDERS}",
    f"grant select on {ORDERS} to {DEBEZIUM}",
)


class PostgresqlServer(DatabaseServer):
    """A PostgreSQL server whose process is its postmaster."""

    name = "postgres"
    scheme = "postgresql"
    watcher_database = SHOP
    errors = (psycopg.Error,)

    def _creation(self) -> Sequence[str]:
        self.password(ADMINISTRATOR)
        return (
            *(str(_find_program("initdb")), "--pgdata", str(self.data)),
            *("--username", ADMINISTRATOR, "--auth", "scram-sha-256"),
            *("--pwfile", str(self.directory / f"{ADMINISTRATOR}.password")),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )

    def _process(self) -> Child:
        settings = {**_SETTINGS, "port": str(self.port)}
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = (str(_find_program("postgres")), "-D", str(self.data), *flags)
        return Child(
            self.name,
            (*as_other_user(), *command),
            directory=self._lab_directory,
            # A fast shutdown: SIGTERM would wait until all clients have left by themselves.
            end_signal=signal.SIGINT,
        )

    def check_ready(self) -> None:
        """Raise NotYet until it takes a connection."""
        try:
            self.query("select 1", database=_MAINTENANCE)
        except psycopg.OperationalError as exc:
            raise NotYet(str(exc)) from exc

    def _is_prepared(self) -> bool:
        statement = f"select 1 from pg_database where datname = '{ARCHIVE}'"
        return bool(self.query(statement, database=_MAINTENANCE))

    def _prepare(self) -> None:
        with self.connect(_MAINTENANCE) as connection:
            for statement in _SERVER:
                connection.execute(statement)
            for user in (DEBEZIUM, WATCHER):
                connection.execute(f"alter role {user} password '{self.password(user)}'")
        for database, more in ((SHOP, _CAPTURE), (ARCHIVE, ())):
            with self.connect(database) as connection:
                for statement in (_TABLE, *more):
                    connection.execute(statement)

    def connect(self, database: str = SHOP) -> psycopg.Connection[Row]:
        """Open a connection of the lab's own user, a superuser; each statement commits."""
        return psycopg.connect(
            self.url(ADMINISTRATOR, database), autocommit=True, connect_timeout=CONNECT_S_MAX
        )

    def query(self, statement: str, *, database: str = SHOP) -> list[Row]:
        """Run one statement: its rows, none where it returns none."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def insert(self, rows: int, *, database: str = SHOP) -> None:
        """Insert rows, each in a transaction of its own."""
        with self.connect(database) as connection:
            for _ in range(rows):
                connection.execute(f"insert into {ORDERS} (note) values (%s)", ["x" * NOTE_CHARS])

    def fill(self, rows: int) -> None:
        """Insert rows into the captured table, all in one transaction."""
        self.query(
            f"insert into {ORDERS} (note) select repeat('x', {NOTE_CHARS}) "
            f"from generate_series(1, {rows})"
        )

    def wal_end(self) -> int:
        """Return the end of the WAL in bytes."""
        ((result,),) = self.query("select pg_current_wal_lsn() - '0/0'")
        return int(result)

    def slot(self, name: str) -> dict[str, Any]:
        """Return the row of a replication slot, positions in bytes; empty if there is none."""
        positions = ("confirmed_flush_lsn", "restart_lsn")
        columns = ("active", "active_pid", "wal_status", "safe_wal_size")
        expressions = (*columns, *(f"{position} - '0/0'" for position in positions))
        rows = self.query(
            f"select {', '.join(expressions)} from pg_replication_slots where slot_name = '{name}'"
        )
        if not rows:
            return {}
        numbers = (None if value is None else int(value) for value in rows[0][len(columns) :])
        return dict(zip((*columns, *positions), (*rows[0][: len(columns)], *numbers), strict=True))

    def sent(self, slot: str) -> int | None:
        """Return the position up to which the walsender of a slot has sent; None without one."""
        rows = self.query(
            "select sent_lsn - '0/0' from pg_stat_replication join pg_replication_slots "
            f"on pid = active_pid where slot_name = '{slot}'"
        )
        return int(rows[0][0]) if rows and rows[0][0] is not None else None

    @contextmanager
    def frozen_walsender(self, slot: str) -> Iterator[int]:
        """Stop the process that streams a slot (SIGSTOP), and let it go on in the end: its pid."""
        pid = self.slot(slot).get("active_pid")
        if pid is None:
            raise LabError(f"nothing streams the slot {slot}")
        with frozen(int(pid)):
            yield int(pid)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process that is no child of ours, and let it go on in the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        # It may have been ended meanwhile, as what is frozen can still be killed.
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGCONT)


def _find_program(name: str) -> Path:
    """Return the newest one of a server program; Debian has none of them on the PATH."""
    found = [path for path in _DEBIAN.glob(f"*/bin/{name}") if path.parts[-3].isdigit()]
    if found:
        return max(found, key=lambda path: int(path.parts[-3]))
    on_path = shutil.which(name)
    if on_path is None:
        raise LabError(f"there is no {name}: apt-get install postgresql (or make databases)")
    return Path(on_path)
