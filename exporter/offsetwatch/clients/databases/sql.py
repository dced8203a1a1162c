"""Reader of tables' columns and rows, as the JDBC source connector reads them.

Any database that SQLAlchemy has a dialect for, and whose driver is installed. On PostgreSQL and
MySQL a statement is bounded by the server and by us; other drivers have bounds of their own.
Rights: SELECT on the columns.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from offsetwatch.clients.databases import mysql, postgresql
from offsetwatch.clients.databases.row_times import RowTimes, count_nanos, read_clock
from offsetwatch.clients.databases.settings import (
    ANSWER_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    DRIVER_ERRORS,
    STATEMENT_TIMEOUT_S,
    StatementTimeout,
    call_library,
    closing_after_error,
    import_library,
    read_dsn,
    shorten_server_text,
    translate_driver_error,
)
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import (
    ClientError,
    IncompleteResponse,
    MalformedResponse,
    NotFound,
    RemoteRefusal,
    SettingsRefused,
    TargetUnreachable,
)
from offsetwatch.formatting import format_count
from offsetwatch.model.row_positions import ID_SPAN, RowOrder, format_log_offset
from offsetwatch.model.source_ends import (
    ColumnEnd,
    ColumnQuery,
    SourceEndRequest,
    SourceRange,
    SourceRow,
    SqlEnd,
)
from offsetwatch.model.time_units import NANOS_PER_MILLI

if TYPE_CHECKING:
    import sqlalchemy

_Result = TypeVar("_Result")
_Rows = tuple[list[tuple[str, str]], int, tuple[SourceRow, ...]]  # types of columns, end, records

_LIBRARY: Final = "sqlalchemy"
_DRIVERS: Final = {
    "postgresql": "psycopg",
    "postgres": "psycopg",
    "mysql": "pymysql",
    "mariadb": "pymysql",
}
_DIALECT_SETTINGS: Final = {
    "postgresql": postgresql.SESSION_SETTINGS,
    "mysql": ("SET SESSION time_zone = '+00:00'", *mysql.SESSION_SETTINGS, mysql.MYSQL_TIMEOUT),
    "mariadb": ("SET SESSION time_zone = '+00:00'", *mysql.SESSION_SETTINGS, mysql.MARIADB_TIMEOUT),
    "sqlite": ("PRAGMA query_only = ON",),
}
_NAME_PARTS_MAX: Final = 3  # catalog, schema, table
# Of all rows of one answer, as text: a row takes several times as much until it is written.
ROWS_BYTES_MAX: Final = 16 * 1024 * 1024
# Size in bytes of a value. Of PostgreSQL and SQLite these are the types that have one.
_SIZE_EXPRESSIONS: Final = {
    "postgresql": "octet_length(CAST({} AS text))",
    "mysql": "length({})",
    "mariadb": "length({})",
    "sqlite": "length(CAST({} AS blob))",
}
_IDENTITY_CHARS: Final = 32
# An error of one column; any other is of the connection.
_OF_ONE_COLUMN: Final = (StatementTimeout, RemoteRefusal, MalformedResponse)


class SqlReader:
    """Reader of the greatest values of columns, and of rows, in one database.

    All statements of a read share a time limit, its interval; each read begins with another column,
    so that no column waits for ever.
    """

    def __init__(self, source: Source, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._monotonic = monotonic
        self._statements = {column.table: column.statement for column in source.columns}
        self._limit_s = max(source.interval, CONNECT_TIMEOUT_S + STATEMENT_TIMEOUT_S)
        self._connection: sqlalchemy.Connection | None = None
        self._reads = 0

    def read(self, request: SourceEndRequest) -> SqlEnd:
        """Return the ends of the requested columns now. Raises ClientError."""
        with closing_after_error(self.close):
            return self._read(request.columns)

    def read_records(self, table: str, order: RowOrder, start: int, count_max: int) -> SourceRange:
        """Return the rows at or after a position, in this order. Raises ClientError.

        It ends before the rows that the connector leaves for later.
        """
        with closing_after_error(self.close):
            connection = self._connection or self._connect()
            if _name_server(connection) not in _DIALECT_SETTINGS:
                what = "rows are read of PostgreSQL, MySQL, MariaDB and SQLite only"
                raise RemoteRefusal(self._source.name, what)
            if connection.dialect.name == "postgresql" and "." not in table:
                # Our search_path may lead to another table than the connector's does.
                raise RemoteRefusal(self._source.name, f"{table} is named without a schema")
            # One more than requested shows whether two are at one position.
            limit = count_max + 1 if count_max else 0
            if order.times:
                types, end, records = self._read_by_time(connection, table, order, start, limit)
            else:
                types, end, records = self._read_by_value(
                    connection, ColumnQuery(table, order.column), start, limit
                )
        for one, other in itertools.pairwise(records):
            if one.offset == other.offset:
                what = f"{table} has two rows at {format_log_offset(one.offset)}"
                raise MalformedResponse(self._source.name, what)
        identity = hashlib.sha256(msgspec.json.encode(types)).hexdigest()[:_IDENTITY_CHARS]
        # Past the last row, which may have been deleted or changed, there is nothing to read.
        return SourceRange(identity, max(end, start), records[:count_max])

    def _read_by_value(
        self, connection: sqlalchemy.Connection, query: ColumnQuery, start: int, limit: int
    ) -> _Rows:
        end = self._read_column(connection, query)
        if end.error is not None or end.is_time:
            why = end.error or f"its column {query.column} is a time"
            raise RemoteRefusal(self._source.name, f"{query.table}: {why}")
        types = self._read_types(connection, query.table)
        table, column = _quote_names(connection, query)
        statement = f"SELECT * FROM {table} WHERE {column} >= {start} ORDER BY {column}"  # noqa: S608 - quoted
        rows = self._read_rows(connection, types, statement, limit)
        records = tuple(
            self._build_record(query, types, row, self._read_value(query, types, row))
            for row in rows
        )
        return types, 0 if end.value is None else end.value + 1, records

    def _read_by_time(
        self,
        connection: sqlalchemy.Connection,
        table: str,
        order: RowOrder,
        start: int,
        limit: int,
    ) -> _Rows:
        """Read rows as TimestampIncrementingCriteria does; those without a time it never reads."""
        query = ColumnQuery(table, order.column)
        try:
            quoted, column = _quote_names(connection, query)
            columns = [
                _quote_names(connection, ColumnQuery(table, name))[1] for name in order.times
            ]
            time = columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"
            types = self._read_types(connection, table)
            names = [name for name, _ in types]
            times = RowTimes(_name_server(connection), dict(types), order)
            ((clock,),) = self._execute(connection, "SELECT CURRENT_TIMESTAMP")
            until = read_clock(clock) - order.delay_ms * NANOS_PER_MILLI
            begin, first = divmod(start, ID_SPAN)
            begin_text = times.write_literal(begin)
            old = f"{time} < {times.write_literal(until, is_bound=True)}"
            after = f"({time} = {begin_text} AND {column} >= {first} OR {time} > {begin_text})"
            select = f"SELECT * FROM {quoted} WHERE {old}"  # noqa: S608 - quoted
            rows = self._read_rows(
                connection, types, f"{select} AND {after} ORDER BY {time}, {column}", limit
            )
            # The last row of a page is the table's last one, or others follow.
            last = rows[-1:] or self._read_rows(
                connection, types, f"{select} ORDER BY {time} DESC, {column} DESC", 1
            )

            def find_position(row: Any) -> int:
                value = self._read_value(query, types, row)
                if not 0 <= value < ID_SPAN:
                    raise ValueError(f"{query.column} is {value}")
                moment = times.read(row[names.index(name)] for name in order.times)
                return moment * ID_SPAN + value

            end = find_position(last[0]) + 1 if last else 0
            records = tuple(
                self._build_record(query, types, row, find_position(row)) for row in rows
            )
        except ValueError as exc:
            raise RemoteRefusal(self._source.name, f"{table}: {exc}") from exc
        return types, end, records

    def _read_rows(
        self,
        connection: sqlalchemy.Connection,
        types: list[tuple[str, str]],
        statement: str,
        limit: int,
    ) -> list[Any]:
        """Return rows whose columns have these types. Ask for their size first: a driver reads all.

        Raises RemoteRefusal if they are too large.
        """
        if not limit:
            return []
        page = f"{statement} LIMIT {limit}"
        quote = connection.dialect.identifier_preparer.quote_identifier
        size_of = _SIZE_EXPRESSIONS[_name_server(connection)]
        sizes = " + ".join(f"coalesce({size_of.format(quote(name))}, 0)" for name, _ in types)
        ((size,),) = self._execute(connection, f"SELECT sum({sizes}) FROM ({page}) AS page")  # noqa: S608 - quoted
        if size is not None and size > ROWS_BYTES_MAX:
            count = format_count(int(size), "byte")
            what = f"its next rows have {count}, and {ROWS_BYTES_MAX} at most are read"
            raise RemoteRefusal(self._source.name, what)
        return self._execute(connection, page, limit)

    def _read_types(self, connection: sqlalchemy.Connection, table: str) -> list[tuple[str, str]]:
        """Return names and types of a table's columns, in their order."""
        *schema, name = table.split(".")
        library = import_library(self._source, _LIBRARY)

        def format_type(type_: Any) -> str:
            if isinstance(type_, library.types.NullType):
                return "unknown"  # to SQLAlchemy
            return str(type_.compile(dialect=connection.dialect))

        def read() -> list[tuple[str, str]]:
            inspector = library.inspect(connection)
            columns = inspector.get_columns(name, schema=schema[-1] if schema else None)
            return [(column["name"], format_type(column["type"])) for column in columns]

        return self._attempt(read)

    def _read_value(self, query: ColumnQuery, types: list[tuple[str, str]], row: Any) -> int:
        """Return the whole number that a row has in a column."""
        names = [name for name, _ in types]
        if list(row._fields) != names or names.count(query.column) != 1:
            what = f"the columns of {query.table} are not those that its catalog has"
            raise MalformedResponse(self._source.name, what)
        value = row[names.index(query.column)]
        if isinstance(value, Decimal) and value == value.to_integral_value():
            value = int(value)
        if not isinstance(value, int):
            what = f"{query.column} of {query.table} is no whole number"
            raise MalformedResponse(self._source.name, what)
        return value

    def _build_record(
        self, query: ColumnQuery, types: list[tuple[str, str]], row: Any, offset: int
    ) -> SourceRow:
        columns = [
            {"name": name, "type": type_name, "value": _prepare_value(value)}
            for (name, type_name), value in zip(types, row, strict=True)
        ]
        content = msgspec.json.encode({"table": query.table, "columns": columns}, enc_hook=str)
        return SourceRow(offset, content)

    def close(self) -> None:
        """Close the connection; the next read opens one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()  # without a statement more, which might wait
            connection.close()

    def _read(self, columns: tuple[ColumnQuery, ...]) -> SqlEnd:
        if self._connection is None:
            self._connection = self._connect()
        began = self._monotonic()
        first = self._reads % len(columns) if columns else 0
        self._reads += 1
        ends = {}
        for query in (*columns[first:], *columns[:first]):
            if self._monotonic() - began > self._limit_s:
                late = f"the statements before it took {self._limit_s:g} s"
                ends[query] = ColumnEnd(None, error=late)
            else:
                ends[query] = self._read_column(self._connection, query)
        return SqlEnd(ends)

    def _read_column(self, connection: sqlalchemy.Connection, query: ColumnQuery) -> ColumnEnd:
        try:
            statement = self._statements.get(query.table) or _build_statement(connection, query)
            rows = self._execute(connection, statement)
        except _OF_ONE_COLUMN as exc:
            return ColumnEnd(None, error=exc.detail)
        except ValueError as exc:
            return ColumnEnd(None, error=str(exc))
        if len(rows) != 1 or len(rows[0]) != 1:
            return ColumnEnd(None, error="its statement returns more or less than one value")
        return _build_end(rows[0][0])

    def _execute(
        self, connection: sqlalchemy.Connection, statement: str, count_max: int = 2
    ) -> list[Any]:
        def execute() -> list[Any]:
            result = connection.exec_driver_sql(
                statement, execution_options={"no_parameters": True}
            )
            rows = list(result.fetchmany(count_max)) if result.returns_rows else []
            connection.rollback()  # where a driver has no autocommit it has begun a transaction
            return rows

        return self._attempt(execute)

    def _connect(self) -> sqlalchemy.Connection:
        library = import_library(self._source, _LIBRARY)
        dsn = read_dsn(self._source)
        assert dsn is not None, "config/checks.py requires one"
        dialect, _, driver = dsn[1].scheme.partition("+")
        driver = driver or _DRIVERS.get(dialect, "")
        named: dict[str, Any] = {}
        if dialect in _DRIVERS and driver in _DRIVERS.values():
            # Its connection is our own, with the time limits; the dialect is SQLAlchemy's.
            named["creator"] = self._creator(driver)
            url = f"{'postgresql' if driver == 'psycopg' else dialect}+{driver}://"
        else:
            url = dsn[0]
            _check_file(self._source, dsn[1].scheme, dsn[1].database)

        def connect() -> sqlalchemy.Connection:
            pool = library.pool.NullPool
            engine = library.create_engine(url, poolclass=pool, **named)
            connection: sqlalchemy.Connection = engine.connect()
            return connection.execution_options(isolation_level="AUTOCOMMIT")

        connection = self._attempt(connect, connecting=True)
        self._connection = connection
        for statement in _DIALECT_SETTINGS.get(_name_server(connection), ()):
            self._execute(connection, statement)
        return connection

    def _creator(self, driver: str) -> Callable[[], Any]:
        library = import_library(self._source, driver)
        if driver == "pymysql":
            settings = mysql.build_settings(self._source)
            return lambda: library.connect(**settings)
        from offsetwatch.clients.databases import bounded_psycopg  # noqa: PLC0415 - of an extra

        named = postgresql.build_settings(self._source)
        return lambda: bounded_psycopg.connect(named, ANSWER_TIMEOUT_S)

    def _attempt(self, call: Callable[[], _Result], *, connecting: bool = False) -> _Result:
        return call_library(
            call,
            # ImportError: the driver of a dialect. RuntimeError: as in the reader of MySQL.
            (
                import_library(self._source, _LIBRARY).exc.SQLAlchemyError,
                ImportError,
                OSError,
                RuntimeError,
                *DRIVER_ERRORS,
            ),
            lambda exc: _translate(self._source.name, exc, connecting=connecting),
        )


def _translate(name: str, error: Exception, *, connecting: bool) -> ClientError:
    import sqlalchemy  # noqa: PLC0415 - of an extra

    if not isinstance(error, sqlalchemy.exc.DBAPIError) or error.orig is None:
        if isinstance(error, DRIVER_ERRORS) and not isinstance(
            error, OSError | sqlalchemy.exc.SQLAlchemyError
        ):
            return translate_driver_error(name, error, connecting=connecting)
        if isinstance(error, RuntimeError | OSError):
            return mysql.translate_error(name, error, connecting=connecting)
        text = shorten_server_text(str(error)) if isinstance(error, ImportError) else ""
        why = text or "SQLAlchemy does not accept its address"
        advice = "write it as SQLAlchemy has it for this database, and install the driver"
        return SettingsRefused(name, why, advice)
    original = error.orig
    libraries = {base.__module__.partition(".")[0] for base in type(original).__mro__}
    if "psycopg" in libraries and isinstance(original, Exception):
        return postgresql.translate_error(name, original, connecting=connecting)
    if "pymysql" in libraries and isinstance(original, Exception):
        return mysql.translate_error(name, original, connecting=connecting)
    text = shorten_server_text(str(original))
    if connecting:
        return TargetUnreachable(name, text)
    if error.connection_invalidated:
        return IncompleteResponse(name, f"the connection broke: {text}")
    return MalformedResponse(name, text)


def _check_file(source: Source, scheme: str, database: str | None) -> None:
    """Raise NotFound for a file of SQLite that does not exist: SQLite would create it."""
    if scheme.partition("+")[0] == "sqlite" and not (database and Path(database).is_file()):
        raise NotFound(source.name, "its file does not exist", "correct the path in dsn")


def _name_server(connection: sqlalchemy.Connection) -> str:
    if connection.dialect.name == "mysql" and getattr(connection.dialect, "is_mariadb", False):
        return "mariadb"
    return connection.dialect.name


def _build_statement(connection: sqlalchemy.Connection, query: ColumnQuery) -> str:
    """Return the statement of a column. Raises ValueError if the table's name is ambiguous."""
    table, column = _quote_names(connection, query)
    return f"SELECT max({column}) FROM {table}"  # noqa: S608 - quoted


def _quote_names(connection: sqlalchemy.Connection, query: ColumnQuery) -> tuple[str, str]:
    """Return the table and the column as a statement has them. Raises ValueError as above.

    Connectors take names from the database as they are, so each part is quoted.
    """
    parts = query.table.split(".")
    if len(parts) > _NAME_PARTS_MAX or not all(parts):
        raise ValueError("its name has dots: give its statement under columns")
    quote = connection.dialect.identifier_preparer.quote_identifier
    return ".".join(quote(part) for part in parts), quote(query.column)


def _prepare_value(value: object) -> object:
    """Return a value of a row as JSON can have it without loss."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return bytes(value) if isinstance(value, memoryview) else value


def _build_end(value: object) -> ColumnEnd:
    """Return the end that a value is. A time without a zone is in UTC, as the connector has it."""
    if value is None:
        return ColumnEnd(None)
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return ColumnEnd(value)
    if isinstance(value, datetime):
        return ColumnEnd(count_nanos(value), is_time=True)
    if isinstance(value, date):
        return ColumnEnd(count_nanos(datetime(value.year, value.month, value.day)), is_time=True)  # noqa: DTZ001 - in UTC
    return ColumnEnd(
        None,
        error=f"its greatest value is neither a whole number nor a time: {type(value).__name__}",
    )
