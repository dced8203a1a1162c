"""MariaDB with a binlog in rows, as Debian has it."""

import shutil
from collections.abc import Sequence
from typing import Final

import pymysql

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

SERVER_ID: Final = 7

_TABLE: Final = (
    f"create table {ORDERS} (id bigint auto_increment primary key, note text, "
    "written_at timestamp(6) default current_timestamp(6))"
)
# Rights as Debezium's documentation and docs/acls.md have them.
_RIGHTS: Final = {
    ADMINISTRATOR: "all privileges",
    DEBEZIUM: "select, reload, show databases, lock tables, replication slave, binlog monitor",
    WATCHER: "binlog monitor, process",
}
_FLAGS: Final = (
    f"--bind-address={LOOPBACK}",
    "--skip-name-resolve",
    # In its own folder, as the path of a socket may have 107 bytes.
    "--socket=mariadb.sock",
    "--pid-file=mariadb.pid",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-metadata=FULL",
    f"--server-id={SERVER_ID}",
    # Nobody loses anything with a lab.
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=32M",
    "--performance-schema=OFF",
)


class MariadbServer(DatabaseServer):
    """A MariaDB server with GTIDs of domain 0."""

    name = "mariadb"
    scheme = "mysql"
    watcher_database = ""
    errors = (pymysql.Error,)

    def _creation(self) -> Sequence[str]:
        return (
            *(_find_program("mariadb-install-db"), "--no-defaults", f"--datadir={self.data}"),
            *("--auth-root-authentication-method=socket", "--skip-test-db", "--skip-name-resolve"),
            *("--innodb-log-file-size=32M",),
        )

    def _process(self) -> Child:
        users = self.directory / "users.sql"
        users.touch(mode=0o644)
        # The server reads it as another user, and only the folder hides it.
        users.write_text("".join(f"{statement};\n" for statement in self._create_users()))
        command = (
            *(_find_program("mariadbd"), "--no-defaults", f"--datadir={self.data}"),
            *(f"--port={self.port}", f"--init-file={users}", *_FLAGS),
        )
        return Child(self.name, (*as_other_user(), *command), directory=self._lab_directory)

    def _create_users(self) -> Sequence[str]:
        statements = ["set session sql_log_bin = 0"]
        for user, rights in _RIGHTS.items():
            account = f"'{user}'@'{LOOPBACK}'"
            password = self.password(user)
            statements += [
                f"create user if not exists {account} identified by '{password}'",
                f"grant {rights} on *.* to {account}",
            ]
        # ALL PRIVILEGES is all but this one.
        statements.append(f"grant grant option on *.* to '{ADMINISTRATOR}'@'{LOOPBACK}'")
        return statements

    def check_ready(self) -> None:
        """Raise NotYet until it takes a connection."""
        try:
            self.query("select 1", database="mysql")
        except pymysql.OperationalError as exc:
            raise NotYet(str(exc)) from exc

    def _is_prepared(self) -> bool:
        return bool(self.query(f"show databases like '{ARCHIVE}'", database="mysql"))

    def _prepare(self) -> None:
        for database in (SHOP, ARCHIVE):
            self.query(f"create database {database}", database="mysql")
            self.query(_TABLE, database=database)

    def connect(self, database: str = SHOP) -> pymysql.connections.Connection:
        """Open a connection of the lab's own user, who may do everything; statements commit."""
        return pymysql.connect(
            host=LOOPBACK,
            port=self.port,
            user=ADMINISTRATOR,
            password=self.password(ADMINISTRATOR),
            database=database,
            autocommit=True,
            connect_timeout=CONNECT_S_MAX,
        )

    def query(self, statement: str, *, database: str = SHOP) -> list[Row]:
        """Run one statement: its rows, none where it returns none."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def insert(self, rows: int, *, database: str = SHOP) -> None:
        """Insert rows, each in a transaction of its own."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            for _ in range(rows):
                cursor.execute(f"insert into {ORDERS} (note) values (%s)", ["x" * NOTE_CHARS])

    def gtids(self) -> str:
        """Return the newest GTID of each domain in the binlog."""
        ((result,),) = self.query("select @@gtid_binlog_pos")
        return str(result)


def _find_program(name: str) -> str:
    # Servers are in /usr/sbin, which the PATH of other users may lack.
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise LabError(f"there is no {name}: apt-get install mariadb-server (or make databases)")
    return found
