"""Reader of the end of the binlog of a MySQL or MariaDB server.

Each statement that a right is missing for leaves its fields None. Rights: none for the GTIDs;
REPLICATION CLIENT (BINLOG MONITOR on MariaDB) for the files; PROCESS for the connections that read
the binlog; REPLICATION SLAVE on MySQL for the events of a binlog file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from offsetwatch.clients.databases.settings import (
    ANSWER_TIMEOUT_S,
    APPLICATION,
    CONNECT_TIMEOUT_S,
    DRIVER_ERRORS,
    STATEMENT_TIMEOUT_S,
    TLS_ADVICE,
    StatementTimeout,
    build_tls_context,
    call_library,
    check_same_server,
    closing_after_error,
    import_library,
    read_dsn,
    read_source_secret,
    shorten_server_text,
    translate_driver_error,
)
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    IncompleteResponse,
    MalformedResponse,
    NotFound,
    ResponseTimeout,
    SettingsRefused,
    TargetUnreachable,
    TooManyRequests,
)
from offsetwatch.model.source_ends import (
    BinlogEvent,
    BinlogFile,
    BinlogReader,
    MysqlEnd,
    SourceEndRequest,
)

if TYPE_CHECKING:
    import pymysql

_Result = TypeVar("_Result")

_LIBRARY: Final = "pymysql"
_PORT: Final = 3306
_LOG_START: Final = 4  # the first event of a binlog file comes after four bytes
_ALL_SENT: Final = "has sent all binlog"
SESSION_SETTINGS: Final = (
    f"SET SESSION lock_wait_timeout = {STATEMENT_TIMEOUT_S}",
    "SET SESSION TRANSACTION READ ONLY",
)
MARIADB_TIMEOUT: Final = f"SET SESSION max_statement_time = {STATEMENT_TIMEOUT_S}"
MYSQL_TIMEOUT: Final = f"SET SESSION max_execution_time = {1000 * STATEMENT_TIMEOUT_S}"
# Without PROCESS a user sees its own connections, and no error. This table needs the same right,
# says so, and has a row for each of five page sizes.
_NEEDS_PROCESS: Final = "SELECT COUNT(*) FROM information_schema.innodb_cmp"
_READERS: Final = (
    "SELECT user, host, state FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
)
_EVENTS: Final = "SHOW BINLOG EVENTS IN %s FROM %s LIMIT %s"
_ANY_BYTES: Final = "latin1"

# Codes of servers, and from 2000 on those of the client (mysqld_error.h, errmsg.h).
_DENIED: Final = frozenset({1044, 1045, 1130, 1142, 1129, 1227, 1370, 1698, 1820, 1862, 3118, 4151})
_NOT_SUPPORTED: Final = frozenset({1064, 1109, 1193, 1146, 1235})
_NO_BINLOG: Final = 1381
_TOO_MANY: Final = frozenset({1040, 1203, 1226})
_NOT_FOUND: Final = frozenset({1049, 1054, 1146, 1220})  # database, column, table, event
_TOO_SLOW: Final = frozenset({1969, 3024, 1205})
_NO_PLUGIN: Final = 2059
# The server, an operator or the network ended the connection, or the statement (1317).
_LOST: Final = frozenset({1053, 1158, 1159, 1160, 1161, 1317, 1927, 2006, 2013, 2055, 3169, 4031})
_RIGHTS_ADVICE: Final = (
    "check user and password, and from which hosts it may come; docs/acls.md has its rights"
)


class MysqlReader:
    """Reader of the end of one server's binlog."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._connection: pymysql.connections.Connection[Any] | None = None
        self._secrets: tuple[str | None, ...] = ()
        self._mariadb = False
        self._server_id: int | None = None
        self._sees_readers = False
        self._purged: tuple[str, str | None] | None = None  # the oldest file, and what is before it

    def read(self, _request: SourceEndRequest) -> MysqlEnd:
        """Return the end of the binlog now. Raises ClientError."""
        with closing_after_error(self.close):
            return self._read()

    def close(self) -> None:
        """Close the connection; the next read opens one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def read_events(self, file: str, position: int, count_max: int) -> tuple[BinlogEvent, ...]:
        """Return at most `count_max` events of a binlog file, of which one begins at `position`.

        Raises ClientError: NotFound if the server has no such file, or no event begins there.
        """
        with closing_after_error(self.close):
            if self._connection is None:
                self._open()
            rows = self._read_event_rows(file, position, count_max)
            if rows is None:
                raise AccessDenied(
                    self._source.name, "its user may not read events of the binlog", _RIGHTS_ADVICE
                )
            return tuple(
                BinlogEvent(name, int(start), kind, int(server), int(end), _decode_info(info))
                for name, start, kind, server, end, info in rows
            )

    def _read_event_rows(self, file: str, position: int, count_max: int) -> list[Any] | None:
        connection = self._connection
        assert connection is not None
        # Statements have values of any bytes, and PyMySQL fails at those that are no UTF-8.
        encoding, connection.encoding = connection.encoding, _ANY_BYTES
        try:
            return self._rows(_EVENTS, file, position, count_max)
        finally:
            connection.encoding = encoding

    def read_gtids_before(self, file: str, position: int) -> str | None:
        """Return MariaDB's GTIDs of what comes before a position of the binlog.

        None on MySQL, without the file, and if the server takes too long: it reads the file up to
        there. Raises ClientError.
        """
        with closing_after_error(self.close):
            if self._connection is None:
                self._open()
            if not self._mariadb:
                return None
            try:
                gtids = self._value("SELECT BINLOG_GTID_POS(%s, %s)", file, position)
            except StatementTimeout:
                return None
            return None if gtids is None else _join_lines(gtids)

    def _read(self) -> MysqlEnd:
        if self._connection is None:
            self._open()
        # In this order: the files are those up to the end, and what has been sent covers it.
        if self._mariadb:
            gtids, purged = self._value("SELECT @@gtid_binlog_pos"), None
        else:
            rows = self._rows("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged") or ()
            gtids, purged = next(iter(rows), (None, None))
        status = self._rows("SHOW MASTER STATUS")
        if status is None:  # MySQL 8.4 has no other one
            status = self._rows("SHOW BINARY LOG STATUS")
        file, position = (status[0][0], int(status[0][1])) if status else (None, None)
        listed = self._rows("SHOW BINARY LOGS")
        logs = None if listed is None else tuple(BinlogFile(row[0], int(row[1])) for row in listed)
        if self._mariadb and logs:
            purged = self._read_purged(logs[0].name)
        readers = self._read_readers()
        # Last: a proxy such as ProxySQL may lead a connection to another server at any statement.
        check_same_server(
            self._source.name, self._server_id, int(self._value("SELECT @@server_id"))
        )
        return MysqlEnd(
            mariadb=self._mariadb,
            server_id=self._server_id,
            gtids=None if gtids is None else _join_lines(gtids),
            purged=None if purged is None else _join_lines(purged),
            file=file,
            position=position,
            logs=logs,
            readers=readers,
        )

    def _read_purged(self, oldest: str) -> str | None:
        """Return the GTIDs up to the start of the oldest file: those the binlog no longer has."""
        if self._purged is None or self._purged[0] != oldest:
            position = self._value("SELECT BINLOG_GTID_POS(%s, %s)", oldest, _LOG_START)
            self._purged = (oldest, position)
        return self._purged[1]

    def _read_readers(self) -> tuple[BinlogReader, ...] | None:
        rows = self._rows(_READERS) if self._sees_readers else None
        if rows is None:
            return None
        return tuple(
            BinlogReader(user=user, host=host or "", sent_all=_ALL_SENT in (state or ""))
            for user, host, state in rows
        )

    def _open(self) -> None:
        self._connection = self._connect()
        version, server_id = next(iter(self._rows("SELECT @@version, @@server_id") or ()), ("", 0))
        self._mariadb = "mariadb" in str(version).lower()
        self._server_id = int(server_id)
        for statement in (MARIADB_TIMEOUT if self._mariadb else MYSQL_TIMEOUT, *SESSION_SETTINGS):
            self._rows(statement)
        self._sees_readers = self._rows(_NEEDS_PROCESS) is not None
        self._purged = None

    def _connect(self) -> pymysql.connections.Connection[Any]:
        library = import_library(self._source, _LIBRARY)
        settings = build_settings(self._source)
        self._secrets = (settings.get("password"),)
        return self._attempt(lambda: library.connect(**settings), connecting=True)

    def _value(self, statement: str, *values: object) -> Any:
        rows = self._rows(statement, *values)
        return rows[0][0] if rows else None

    def _rows(self, statement: str, *values: object) -> list[Any] | None:
        """Return the rows; None where the right is missing, or the server knows no such thing."""
        connection = self._connection
        assert connection is not None

        def execute() -> list[Any] | None:
            with connection.cursor() as cursor:
                try:
                    cursor.execute(statement, values or None)
                except import_library(self._source, _LIBRARY).MySQLError as exc:
                    if _read_code(exc) in {*_DENIED, *_NOT_SUPPORTED, _NO_BINLOG}:
                        return None
                    raise
                return list(cursor.fetchall())

        return self._attempt(execute)

    def _attempt(self, call: Callable[[], _Result], *, connecting: bool = False) -> _Result:
        # RuntimeError: a way to authenticate needs another package.
        return call_library(
            call,
            (
                import_library(self._source, _LIBRARY).MySQLError,
                OSError,
                RuntimeError,
                *DRIVER_ERRORS,
            ),
            lambda exc: translate_error(
                self._source.name, exc, *self._secrets, connecting=connecting
            ),
        )


def translate_error(
    name: str, error: Exception, *secrets: str | None, connecting: bool
) -> ClientError:
    """Return the ClientError of an error of PyMySQL. `name` is of the source."""
    if isinstance(error, DRIVER_ERRORS) and not isinstance(error, OSError):
        return translate_driver_error(name, error, connecting=connecting)
    code = _read_code(error)
    text = shorten_server_text(str(error.args[1] if code is not None else error), *secrets)
    if isinstance(error, RuntimeError) or code == _NO_PLUGIN:
        return SettingsRefused(
            name,
            f"the server wants a way to authenticate that needs more: {text}",
            "give tls, with which no other package is needed, or a user with another plugin",
        )
    if code in _DENIED:
        return AccessDenied(name, text, _RIGHTS_ADVICE)
    if code in _TOO_MANY:
        advice = "this user needs one connection: free one, or raise max_connections"
        return TooManyRequests(name, text, advice)
    if code in _NOT_FOUND:
        return NotFound(name, text, "correct the name of the database" if connecting else None)
    if code in _TOO_SLOW:
        return StatementTimeout(name)
    if "timed out" in text:
        if connecting:
            return ResponseTimeout(name, f"no connection within {CONNECT_TIMEOUT_S} s")
        return ResponseTimeout(name, f"no answer within {ANSWER_TIMEOUT_S:g} s")
    if connecting:
        return TargetUnreachable(
            name, text, TLS_ADVICE if re.search("certificate|SSL", text) else None
        )
    if code in _LOST or isinstance(error, OSError):
        return IncompleteResponse(name, f"the connection broke: {text}")
    return MalformedResponse(name, f"{type(error).__name__}: {text}")


def _read_code(error: Exception) -> int | None:
    code = error.args[0] if len(error.args) > 1 else None
    return code if isinstance(code, int) and not isinstance(error, OSError) else None


def build_settings(source: Source) -> dict[str, Any]:
    """Return the arguments of `pymysql.connect`."""
    dsn = read_dsn(source)
    url = None if dsn is None else dsn[1]
    tls = source.tls
    named: Iterable[tuple[str, Any]] = (
        ("host", source.host or (url and url.host)),
        ("port", source.port or (url and url.port) or _PORT),
        ("user", source.user or (url and url.user)),
        ("password", read_source_secret(source, "password") or (url and url.password)),
        ("database", source.database or (url and url.database)),
        ("ssl", None if tls is None else build_tls_context(source, tls)),
    )
    return {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "read_timeout": ANSWER_TIMEOUT_S,
        "write_timeout": ANSWER_TIMEOUT_S,
        "autocommit": True,
        "charset": "utf8mb4",
        "program_name": APPLICATION,
        **{name: value for name, value in named if value is not None},
    }


def _decode_info(info: str) -> str:
    return info.encode(_ANY_BYTES).decode(errors="replace")


def _join_lines(gtids: object) -> str:
    """Return GTIDs on one line, as MySQL writes each server on a line of its own."""
    text = gtids.decode() if isinstance(gtids, bytes) else str(gtids)
    return "".join(text.split())
