"""The reader of columns, on SQLite: one statement a column, and one bad table hides no other."""

from __future__ import annotations

import itertools
import sqlite3
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy

from offsetwatch.clients.databases import bounded_psycopg
from offsetwatch.clients.databases.settings import StatementTimeout
from offsetwatch.clients.databases.sql import (
    ROWS_BYTES_MAX,
    SqlReader,
    _build_end,
    _build_statement,
    _translate,
)
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import (
    ClientError,
    MalformedResponse,
    NotFound,
    RemoteRefusal,
    ResponseTimeout,
    SettingsRefused,
)
from offsetwatch.model.row_positions import ID_SPAN, RowOrder
from offsetwatch.model.source_ends import ColumnEnd, ColumnQuery, SourceEndRequest, SqlEnd
from offsetwatch.model.time_units import NANOS_PER_MILLI


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute('CREATE TABLE "Or""ders" ("Id" INTEGER, name TEXT)')
        connection.execute('INSERT INTO "Or""ders" VALUES (9007199254741001, \'x\')')
        connection.execute("CREATE TABLE empty (id INTEGER)")
    connection.close()
    return file


def source(dsn: str, **settings: Any) -> Source:
    fields = {"name": "shop", "kind": "sql", "connectors": [{"connect": "lab"}], "dsn": dsn}
    return Source.model_validate({**fields, **settings})


def request(*columns: tuple[str, str]) -> SourceEndRequest:
    return SourceEndRequest("shop", tuple(ColumnQuery(*column) for column in columns))


def test_each_column_has_its_end_or_its_error(database: Path) -> None:
    statements = [
        {"table": "query", "statement": "SELECT count(*) FROM empty WHERE id % 2 = ':x'"},
        {"table": "two", "statement": "SELECT 1, 2"},
        {"table": "write", "statement": "INSERT INTO empty VALUES (1)"},
    ]
    reader = SqlReader(source(f"sqlite:///{database}", columns=statements))
    end = reader.read(
        request(
            ('main.Or"ders', "Id"),
            ('Or"ders', "name"),
            ("empty", "id"),
            ("gone", "id"),
            ("a.b.c.d", "id"),
            ("query", ""),
            ("two", ""),
            ("write", ""),
        )
    )
    reader.close()
    ends = {query.table: column for query, column in end.columns.items()}
    neither = "its greatest value is neither a whole number nor a time: str"
    assert ends == {
        'main.Or"ders': ColumnEnd(9007199254741001),
        'Or"ders': ColumnEnd(None, error=neither),
        "empty": ColumnEnd(None),
        "gone": ColumnEnd(None, error="no such table: gone"),
        "a.b.c.d": ColumnEnd(None, error="its name has dots: give its statement under columns"),
        "query": ColumnEnd(0),
        "two": ColumnEnd(None, error="its statement returns more or less than one value"),
        "write": ColumnEnd(None, error="attempt to write a readonly database"),
    }


def test_a_read_without_columns_shows_that_the_database_answers(database: Path) -> None:
    reader = SqlReader(source(f"sqlite:///{database}"))
    assert reader.read(request()) == SqlEnd({})
    reader.close()


def test_a_file_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="its file does not exist"):
        SqlReader(source(f"sqlite:///{tmp_path}/none.db")).read(request())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dsn", "why"),
    [
        ("nodialect://u:s3cret@h/x", "SQLAlchemy does not accept its address"),
        ("oracle+oracledb://u:s3cret@h/x", "No module named 'oracledb'"),
        ("postgresql://u:s3/cret@h/x", "dsn: write %40"),
        ("mysql+aiomysql://u:s3cret@h/x", "No module named 'aiomysql'"),
    ],
)
def test_addresses_that_cannot_be_used(dsn: str, why: str) -> None:
    with pytest.raises(SettingsRefused, match=why) as raised:
        SqlReader(source(dsn)).read(request())
    assert "cret" not in str(raised.value)


def test_an_option_that_a_driver_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    def connect(*_: object, **__: object) -> None:
        raise TypeError("'s3cret' is an invalid keyword argument for connect()")

    monkeypatch.setattr("sqlite3.dbapi2.connect", connect)
    with pytest.raises(SettingsRefused, match="does not take an option of its address") as raised:
        SqlReader(source(f"sqlite:///{database}")).read(request())
    assert "cret" not in str(raised.value)


def test_columns_share_a_time_limit_and_take_turns(database: Path) -> None:
    clock = itertools.count(step=10)
    reader = SqlReader(source(f"sqlite:///{database}", interval=15), lambda: float(next(clock)))
    columns = request(("empty", "id"), ('Or"ders', "Id"))
    late = ColumnEnd(None, error="the statements before it took 15 s")
    first, second = (reader.read(columns).columns for _ in range(2))
    reader.close()
    assert first == {columns.columns[0]: ColumnEnd(None), columns.columns[1]: late}
    assert second == {columns.columns[1]: ColumnEnd(9007199254741001), columns.columns[0]: late}


@pytest.mark.parametrize("order", [RowOrder("id"), RowOrder("id", ("at",))])
def test_rows_that_are_too_large_are_not_read(database: Path, order: RowOrder) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE files (id INTEGER, at TIMESTAMP, content BLOB)")
        connection.execute("INSERT INTO files VALUES (1, 1001, 'small')")
        connection.execute(f"INSERT INTO files VALUES (2, 1002, zeroblob({ROWS_BYTES_MAX + 1}))")
        connection.execute("INSERT INTO files VALUES (3, 1003, NULL)")
    connection.close()
    reader = SqlReader(source(f"sqlite:///{database}"))
    with pytest.raises(RemoteRefusal, match="bytes") as raised:
        reader.read_records("files", order, 0, 1)
    assert str(ROWS_BYTES_MAX + 1)[:5] in str(raised.value)
    third = 1003 * NANOS_PER_MILLI * ID_SPAN + 3 if order.times else 3
    found = reader.read_records("files", order, third, 1)
    assert [record.offset for record in found.records] == [third]
    reader.close()


def test_the_last_row_is_read_only_where_a_page_has_no_row(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE changes (id INTEGER, at TIMESTAMP)")
        connection.executemany(
            "INSERT INTO changes VALUES (?, ?)", [(number, 1000 + number) for number in range(5)]
        )
    connection.close()
    reader, statements = SqlReader(source(f"sqlite:///{database}")), list[str]()
    execute = reader._execute

    def record(connection: Any, statement: str, *limit: int) -> Any:
        statements.append(statement)
        return execute(connection, statement, *limit)

    monkeypatch.setattr(reader, "_execute", record)

    def read(start: int, count: int) -> tuple[int, list[int], int]:
        statements.clear()
        found = reader.read_records("changes", RowOrder("id", ("at",)), start, count)
        last_reads = sum(
            statement.startswith("SELECT *") and " DESC" in statement for statement in statements
        )
        return found.end, [record.offset for record in found.records], last_reads

    positions = [(1000 + number) * NANOS_PER_MILLI * ID_SPAN + number for number in range(5)]
    end = positions[-1] + 1
    assert read(positions[1], 2) == (positions[3] + 1, positions[1:3], 0)
    assert read(positions[1], 9) == (end, positions[1:], 0)
    assert read(end, 2) == (end, [], 1)
    assert read(0, 0) == (end, [], 1)
    reader.close()


@pytest.mark.parametrize(
    ("value", "end"),
    [
        (7, ColumnEnd(7)),
        (Decimal(9007199254741001), ColumnEnd(9007199254741001)),
        (
            datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
            ColumnEnd(1767323045678901000, is_time=True),
        ),
        (datetime(2026, 1, 2, 3, 4, 5, 678901), ColumnEnd(1767323045678901000, is_time=True)),  # noqa: DTZ001
        (
            datetime(2026, 1, 2, 4, 4, 5, 678901, timezone(timedelta(hours=1))),
            ColumnEnd(1767323045678901000, is_time=True),
        ),
        (date(1970, 1, 2), ColumnEnd(86_400_000_000_000, is_time=True)),
        (datetime(1969, 12, 31, 23, 59, 59, 500000, UTC), ColumnEnd(-500_000_000, is_time=True)),
    ],
)
def test_values_that_are_ends(value: object, end: ColumnEnd) -> None:
    assert _build_end(value) == end


@pytest.mark.parametrize("value", ["7", 7.0, Decimal("7.5"), Decimal("NaN"), True, b"7"])
def test_values_that_are_no_ends(value: object) -> None:
    assert _build_end(value).error is not None


def test_postgresql_is_reached_with_our_own_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def connect(settings: dict[str, str], timeout_s: float) -> Any:
        calls.append((settings, timeout_s))
        raise RuntimeError

    monkeypatch.setattr(bounded_psycopg, "connect", connect)
    with pytest.raises(SettingsRefused):
        SqlReader(source("postgresql+psycopg://u:p@h/x")).read(request())
    assert calls[0][0]["conninfo"] == "postgresql://u:p@h/x"
    assert calls[0][1] == 4.0


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (bounded_psycopg.AnswerTimeout("no answer in time"), ResponseTimeout),
        (psycopg.errors.UndefinedTable("no such relation"), NotFound),
        (pymysql.err.OperationalError(1969, "interrupted"), StatementTimeout),
        (sqlite3.OperationalError("no such table"), MalformedResponse),
    ],
)
def test_errors_are_those_of_their_driver(error: Exception, kind: type[ClientError]) -> None:
    wrapped = sqlalchemy.exc.DBAPIError("SELECT 1", None, error)
    assert type(_translate("shop", wrapped, connecting=False)) is kind


@pytest.mark.parametrize(
    ("dialect", "statement"),
    [
        ("postgresql", 'SELECT max("Id") FROM "public"."orders"'),
        ("mysql", "SELECT max(`Id`) FROM `public`.`orders`"),
        ("mssql", "SELECT max([Id]) FROM [public].[orders]"),
    ],
)
def test_names_are_quoted_as_the_dialect_has_it(dialect: str, statement: str) -> None:
    connection: Any = SimpleNamespace(dialect=sqlalchemy.make_url(f"{dialect}://").get_dialect()())
    assert _build_statement(connection, ColumnQuery("public.orders", "Id")) == statement
