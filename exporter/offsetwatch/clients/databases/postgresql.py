"""Reader of the end of a PostgreSQL server's WAL and of its logical replication slots.

It works on PostgreSQL 10 and later, on a primary and on a standby. Rights: a login; for the
position that a walsender has sent, `pg_monitor`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from offsetwatch.clients.databases.settings import (
    ANSWER_TIMEOUT_S,
    APPLICATION,
    CONNECT_TIMEOUT_S,
    STATEMENT_TIMEOUT_S,
    TLS_ADVICE,
    StatementTimeout,
    call_library,
    check_same_server,
    closing_after_error,
    find_authorities_file,
    import_library,
    read_dsn,
    read_source_secret,
    shorten_server_text,
)
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    IncompleteResponse,
    MalformedResponse,
    NotFound,
    RemoteRefusal,
    ResponseTimeout,
    ServerError,
    SettingsRefused,
    TargetUnreachable,
    TooManyRequests,
)
from offsetwatch.model.source_ends import (
    PostgresqlEnd,
    ReplicationSlot,
    SlotMessage,
    SourceEndRequest,
)

if TYPE_CHECKING:
    import psycopg

_Result = TypeVar("_Result")

_LIBRARY: Final = "psycopg"
_SSL_MODES: Final = {"full": "verify-full", "ca": "verify-ca", "none": "require"}
SESSION_SETTINGS: Final = (
    f"SET statement_timeout = '{STATEMENT_TIMEOUT_S}s'",
    f"SET lock_timeout = '{STATEMENT_TIMEOUT_S}s'",
    "SET default_transaction_read_only = on",
)
# The end comes first: what a walsender has sent after it covers it.
_END: Final = """
SELECT pg_is_in_recovery(), current_database(),
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
        - '0/0'::pg_lsn,
    CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_lsn()) END
"""
_SLOTS: Final = """
SELECT slots.slot_name, slots.database, slots.active,
    slots.confirmed_flush_lsn - '0/0'::pg_lsn, slots.restart_lsn - '0/0'::pg_lsn,
    senders.sent_lsn - '0/0'::pg_lsn, {since_13}
FROM pg_catalog.pg_replication_slots AS slots
LEFT JOIN pg_catalog.pg_stat_replication AS senders ON senders.pid = slots.active_pid
WHERE slots.slot_type = 'logical'
"""
_PLUGIN: Final = "SELECT plugin FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"
_PGOUTPUT: Final = "pgoutput"
# Without the values of rows: of an insert, update and delete only the table.
_MESSAGES: Final = """
SELECT lsn - '0/0'::pg_lsn, xid::text::bigint,
    substring(data from 1 for CASE WHEN get_byte(data, 0) IN (68, 73, 85) THEN 5 ELSE 1024 END)
FROM pg_catalog.pg_logical_slot_peek_binary_changes(%s, NULL, %s,
    'proto_version', '1', 'publication_names', %s{since_14})
LIMIT %s
"""
_FIRST_WITH_MESSAGES: Final = 140000
_SYSTEM_ID: Final = "SELECT system_identifier FROM pg_control_system()"
_TIMELINE: Final = "SELECT timeline_id FROM pg_control_checkpoint()"
# Schema, table, column, publication.
_NOT_FOUND: Final = frozenset({"3F000", "42P01", "42703", "42704"})
_NOT_NOW: Final = frozenset({"55000", "55006"})  # a slot that is invalidated, or in use
_FIRST_WITH_WAL_STATUS: Final = 130000

# libpq tells no SQLSTATE of a connection that was refused. Where the server speaks another language
# than English, the refusal has no class of its own.
_REFUSALS: Final[tuple[tuple[str, type[ClientError]], ...]] = (
    (r"authentication failed|no pg_hba\.conf entry|permission denied|not permitted", AccessDenied),
    (r'role ".*" does not exist|no password supplied|pg_hba\.conf rejects', AccessDenied),
    (r'database ".*" does not exist', NotFound),
    (r"too many (clients|connections)|connection slots are reserved", TooManyRequests),
    (r"is starting up|is shutting down|in recovery mode|not accepting connections", ServerError),
)
_ADVICE: Final[dict[type[ClientError], str]] = {
    AccessDenied: "check user and password, and the server's pg_hba.conf; docs/acls.md has the "
    "rights of this user",
    NotFound: "correct the name of the database",
    TooManyRequests: "this user needs one connection: free one, or raise max_connections",
}


class PostgresqlReader:
    """Reader of the end of one PostgreSQL server."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._connection: psycopg.Connection[Any] | None = None
        self._secrets: tuple[str | None, ...] = ()
        self._system_id: str | None = None

    def read(self, _request: SourceEndRequest) -> PostgresqlEnd:
        """Return the end of the WAL now. Raises ClientError."""
        with closing_after_error(self.close):
            return self._read()

    def close(self) -> None:
        """Close the connection; the next read opens one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def read_messages(self, slot: str, publication: str, count_max: int) -> tuple[SlotMessage, ...]:
        """Return the first messages that a slot has for its consumer, at most `count_max`.

        They remain there. While it is read the slot is in use, and it has to be in no other. Raises
        ClientError: RemoteRefusal if it cannot be read now, or is of another output plugin.
        """
        with closing_after_error(self.close):
            connection = self._open()
            found = self._execute(connection, _PLUGIN, slot)
            if not found or found[0][0] != _PGOUTPUT:
                raise RemoteRefusal(
                    self._source.name, f"its slot {slot} is not of the output plugin {_PGOUTPUT}"
                )
            since_14 = ""
            if connection.info.server_version >= _FIRST_WITH_MESSAGES:
                since_14 = ", 'messages', 'true'"
            name = '"' + publication.replace('"', '""') + '"'
            statement = _MESSAGES.format(since_14=since_14)
            rows = self._execute(connection, statement, slot, count_max, name, count_max)
            return tuple(SlotMessage(int(row[0]), int(row[1]), bytes(row[2])) for row in rows)

    def _open(self) -> psycopg.Connection[Any]:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect()
            for setting in SESSION_SETTINGS:
                self._execute(connection, setting)
            self._system_id = self._read_permitted(connection, _SYSTEM_ID)
        return connection

    def _read(self) -> PostgresqlEnd:
        connection = self._open()
        in_recovery, database, wal_end, wal_file = self._execute(connection, _END)[0]
        if wal_end is None:
            raise ServerError(
                self._source.name, "it is a standby that has not replayed anything yet"
            )
        if in_recovery:
            timeline = self._read_permitted(connection, _TIMELINE)
        else:  # the newest checkpoint may be from before a promotion
            timeline = str(int(wal_file[:8], 16))
        since_13 = "NULL, NULL"
        if connection.info.server_version >= _FIRST_WITH_WAL_STATUS:
            since_13 = "slots.wal_status, slots.safe_wal_size"
        rows = self._execute(connection, _SLOTS.format(since_13=since_13))
        # Last: a pooler such as PgBouncer may lead a connection to another server at any statement.
        if self._system_id is not None:
            check_same_server(
                self._source.name, self._system_id, self._read_permitted(connection, _SYSTEM_ID)
            )
        return PostgresqlEnd(
            wal_end=int(wal_end),
            slots={row[0]: _build_slot(row) for row in rows},
            system_id=self._system_id,
            timeline=None if timeline is None else int(timeline),
            in_recovery=in_recovery,
            database=database,
        )

    def _connect(self) -> psycopg.Connection[Any]:
        import_library(self._source, _LIBRARY)
        from offsetwatch.clients.databases import bounded_psycopg  # noqa: PLC0415 - of an extra

        settings = build_settings(self._source)
        self._secrets = (settings.get("password"), settings.get("conninfo"))
        return self._attempt(
            lambda: bounded_psycopg.connect(settings, ANSWER_TIMEOUT_S), connecting=True
        )

    def _execute(
        self, connection: psycopg.Connection[Any], statement: str, *values: object
    ) -> list[Sequence[Any]]:
        def execute() -> list[Sequence[Any]]:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

        return self._attempt(execute)

    def _read_permitted(self, connection: psycopg.Connection[Any], statement: str) -> str | None:
        """Return the one value of a statement; None without the right to read it."""
        try:
            return str(self._execute(connection, statement)[0][0])
        except AccessDenied:
            return None

    def _attempt(self, call: Callable[[], _Result], *, connecting: bool = False) -> _Result:
        import psycopg  # noqa: PLC0415 - of an extra

        return call_library(
            call,
            psycopg.Error,
            lambda exc: translate_error(
                self._source.name, exc, *self._secrets, connecting=connecting
            ),
        )


def translate_error(
    name: str, error: Exception, *secrets: str | None, connecting: bool
) -> ClientError:
    """Return the ClientError of an error of psycopg. `name` is of the source."""
    import psycopg  # noqa: PLC0415 - of an extra

    from offsetwatch.clients.databases.bounded_psycopg import AnswerTimeout  # noqa: PLC0415 - as above

    assert isinstance(error, psycopg.Error)
    # The first line: after it come hints, and attempts without TLS or on other addresses.
    said = (error.diag.message_primary or str(error)).partition("\n")[0]
    text = shorten_server_text(said, *secrets)
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return ResponseTimeout(name, f"no connection within {CONNECT_TIMEOUT_S} s")
    if isinstance(error, psycopg.errors.QueryCanceled):
        return StatementTimeout(name)
    if isinstance(error, AnswerTimeout):
        return ResponseTimeout(name, f"no answer within {ANSWER_TIMEOUT_S:g} s")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return AccessDenied(name, text, _ADVICE[AccessDenied])
    if error.sqlstate in _NOT_FOUND:
        return NotFound(name, text)
    if error.sqlstate in _NOT_NOW:
        return RemoteRefusal(name, text)
    if connecting:
        return _classify_connection_error(name, error, text)
    if isinstance(error, psycopg.OperationalError):
        return IncompleteResponse(name, f"the connection broke: {text}")
    return MalformedResponse(name, f"{type(error).__name__}: {text}")


def _classify_connection_error(name: str, error: Exception, text: str) -> ClientError:
    import psycopg  # noqa: PLC0415 - of an extra

    if not isinstance(error, psycopg.OperationalError):
        return SettingsRefused(
            name,
            "libpq does not accept its address",
            "write it as postgresql://user:password@host:5432/database",
        )
    refusal = re.search(r"(?:FATAL|PANIC|fe_sendauth): +(.*)", text)
    if refusal is None:
        advice = TLS_ADVICE if re.search("certificate|SSL", text) else None
        return TargetUnreachable(name, text.removeprefix("connection failed: "), advice)
    for pattern, kind in _REFUSALS:
        if re.search(pattern, refusal[1]):
            return kind(name, refusal[1], _ADVICE.get(kind))
    return RemoteRefusal(name, refusal[1])


def build_settings(source: Source) -> dict[str, str]:
    """Return the settings of a connection, by their names in libpq, and the address as conninfo."""
    settings = {
        "connect_timeout": str(CONNECT_TIMEOUT_S),
        "application_name": APPLICATION,
        "client_encoding": "UTF8",
    }
    dsn = read_dsn(source)
    if dsn is not None:
        settings["conninfo"] = f"postgresql{dsn[0][dsn[0].index('://') :]}"
    for name, value in (
        ("host", source.host),
        ("port", source.port),
        ("dbname", source.database),
        ("user", source.user),
        ("password", read_source_secret(source, "password")),
    ):
        if value is not None:
            settings[name] = str(value)
    tls = source.tls
    if tls is not None:
        settings["sslmode"] = _SSL_MODES[tls.verify]
        if tls.verify != "none":
            settings["sslrootcert"] = str(tls.ca_file or find_authorities_file() or "system")
        if tls.cert_file is not None:
            settings["sslcert"] = str(tls.cert_file)
            settings["sslkey"] = str(tls.key_file or tls.cert_file)
    return settings


def _build_slot(row: Sequence[Any]) -> ReplicationSlot:
    name, database, active, confirmed, restart, sent, wal_status, safe_wal_size = row
    return ReplicationSlot(
        name=name,
        database=database,
        active=active,
        confirmed_flush=_read_number(confirmed),
        restart=_read_number(restart),
        wal_status=wal_status,
        safe_wal_size=_read_number(safe_wal_size),
        sent=_read_number(sent),
    )


def _read_number(value: Any) -> int | None:
    return None if value is None else int(value)
