"""
A database server of a lab: data and passwords in a folder of its own, on loopback, with users for
Debezium, for offsetwatch, and for the lab itself.

Neither PostgreSQL nor MariaDB runs as root. Where the lab does, its servers run as `nobody`.
"""

import grp
import os
import pwd
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lab.errors import LabError
from lab.processes.child import Child, finished
from lab.processes.ports import LOOPBACK

SHOP: Final = "shop"
"""The database with the table that is captured."""
ARCHIVE: Final = "archive"
"""Another database of the same server, which no connector reads."""
ORDERS: Final = "orders"
ADMINISTRATOR: Final = "lab"
DEBEZIUM: Final = "debezium"
WATCHER: Final = "offsetwatch"

CREATE_S_MAX: Final = 120.0
CONNECT_S_MAX: Final = 5
NOTE_CHARS: Final = 40

_USER: Final = "nobody"

Row = tuple[Any, ...]


class DatabaseServer(ABC):
    """
    A server with databases `shop`, whose table `orders` is captured, and `archive`.

    Not for use from several threads at once, except `insert`.
    """

    name: str
    """Name of the process."""
    scheme: str
    """Scheme of its URLs."""
    watcher_database: str
    """The database that the user who only reads connects to; on MariaDB it may read none."""
    errors: tuple[type[Exception], ...]
    """What its driver raises when the server does not answer, or refuses."""

    def __init__(self, directory: Path, port: int) -> None:
        self.port = port
        self.directory = directory / self.name
        self.data = self.directory / "data"
        self._lab_directory = directory

    # ---- life ---------------------------------------------------------------------------------

    def child(self) -> Child:
        """Create its data unless they are there, and return its process, which is not started."""
        self._own_directory()
        if not self.data.exists():
            self._finish("creation", self._creation())
        return self._process()

    @abstractmethod
    def check_ready(self) -> None:
        """Raise NotYet until it answers."""

    def prepare(self) -> None:
        """Create users, databases and tables, unless they are there."""
        if not self._is_prepared():
            self._prepare()

    @abstractmethod
    def _creation(self) -> Sequence[str]: ...

    @abstractmethod
    def _process(self) -> Child: ...

    @abstractmethod
    def _is_prepared(self) -> bool: ...

    @abstractmethod
    def _prepare(self) -> None: ...

    # ---- use ----------------------------------------------------------------------------------

    @abstractmethod
    def query(self, statement: str, *, database: str = SHOP) -> list[Row]:
        """Run one statement as the lab's own user, in a connection of its own: its rows."""

    @abstractmethod
    def insert(self, rows: int, *, database: str = SHOP) -> None:
        """Insert rows into `orders` of a database, each in a transaction of its own."""

    def count(self) -> int:
        """Return the number of rows of `orders` that are captured."""
        ((result,),) = self.query(f"select count(*) from {ORDERS}")
        return int(result)

    def password(self, user: str) -> str:
        """Return the password of one of the three users; a lab that goes on keeps it."""
        file = self.directory / f"{user}.password"
        if not file.exists():
            _write_secret(file, secrets.token_urlsafe(16))
            _hand_over(file)
        return file.read_text()

    def url(self, user: str, database: str = SHOP) -> str:
        """Return the URL by which a user connects."""
        return f"{self.scheme}://{user}:{self.password(user)}@{LOOPBACK}:{self.port}/{database}"

    @property
    def watcher_file(self) -> Path:
        """The file with the URL of the user that reads and nothing else (`dsn_file`)."""
        file = self._lab_directory / f"{self.name}.dsn"
        _write_secret(file, self.url(WATCHER, self.watcher_database))
        return file

    # ---- small help ---------------------------------------------------------------------------

    def _own_directory(self) -> None:
        if not self.directory.exists():
            self.directory.mkdir(mode=0o700)
            _hand_over(self.directory)
        if is_root():
            # So that another user gets to what is its own. Names cannot be listed.
            self._lab_directory.chmod(self._lab_directory.stat().st_mode | 0o011)

    def _finish(self, what: str, command: Sequence[str]) -> None:
        done = finished(
            (*as_other_user(), *command),
            called=f"{what} of {self.name}",
            directory=self.directory,
            timeout_s=CREATE_S_MAX,
        )
        if done.returncode != 0:
            raise LabError(f"{what} of {self.name} failed\n{(done.stdout + done.stderr)[-4000:]}")


def is_root() -> bool:
    """Check whether this process may do everything."""
    return os.geteuid() == 0


def as_other_user() -> tuple[str, ...]:
    """Return what a command begins with that refuses to run as root; nothing for other users.

    The kernel forgets the parent-death signal with a change of user, so it is set again.
    """
    if not is_root():
        return ()
    entry = pwd.getpwnam(_USER)
    group = grp.getgrgid(entry.pw_gid).gr_name
    user = ("--reuid", _USER, "--regid", group, "--clear-groups")
    return ("setpriv", *user, "--pdeathsig", "KILL", "--")


def _hand_over(path: Path) -> None:
    if is_root():
        entry = pwd.getpwnam(_USER)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
