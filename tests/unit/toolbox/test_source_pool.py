from __future__ import annotations

from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import TargetUnreachable
from offsetwatch.model.connectors import ConnectorKind, ConnectorSettings, DatabaseSettings
from offsetwatch.model.source_ends import (
    ColumnQuery,
    PostgresqlEnd,
    SourceEnd,
    SourceEndRequest,
    SqlEnd,
)
from offsetwatch.toolbox.source_pool import SourcePool

POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
JDBC = "io.aiven.connect.jdbc.JdbcSourceConnector"
WAL = PostgresqlEnd(1000, {})


class Reader:
    """A reader that returns an end, or raises."""

    def __init__(self, end: SourceEnd | None) -> None:
        self.end = end
        self.requests: list[SourceEndRequest] = []
        self.closed = False

    def read(self, request: SourceEndRequest, /) -> SourceEnd:
        self.requests.append(request)
        if self.end is None:
            raise TargetUnreachable("db", "connection refused")
        return self.end

    def close(self) -> None:
        self.closed = True


def source(name: str, kind: str = "postgresql", connect: str = "prod", **fields) -> Source:
    connectors = [{"connect": connect, "include": ["shop-.*"]}]
    return Source.model_validate(
        {"name": name, "kind": kind, "host": "db", "connectors": connectors, **fields}
    )


def settings(class_name: str, **database) -> ConnectorSettings:
    return ConnectorSettings(
        ConnectorKind.SOURCE, class_name, database=DatabaseSettings(**database)
    )


def test_the_source_of_a_connector_is_read_by_class_and_name():
    reader = Reader(WAL)
    pool = SourcePool([source("db"), source("ids", "sql")], "prod", lambda _source: reader)
    known = pool.read("shop-eu", settings(POSTGRES), [{"server": "shop"}])
    assert (known.name, known.end, known.unknown) == ("db", WAL, "")
    assert reader.requests == [SourceEndRequest("db")]
    for connector, class_name in (("other", POSTGRES), ("shop-eu", "com.example.Exotic")):
        none = pool.read(connector, settings(class_name), [])
        assert (none.name, none.end, none.unknown) == ("", None, "no entry under sources reads it")
    pool.close()
    assert reader.closed


def test_a_connector_of_another_connect_cluster_reads_another_source():
    pool = SourcePool([source("db")], "stage", lambda _source: Reader(WAL))
    assert pool.read("shop-eu", settings(POSTGRES), []).end is None
    everywhere = SourcePool([source("db")], None, lambda _source: Reader(WAL))
    assert everywhere.read("shop-eu", settings(POSTGRES), []).end is WAL


def test_two_sources_of_one_connector_are_not_guessed_between():
    pool = SourcePool([source("a"), source("b")], "prod", lambda _source: Reader(WAL))
    known = pool.read("shop-eu", settings(POSTGRES), [])
    assert (known.end, known.unknown) == (None, "it reads several of sources: a, b")


def test_a_source_that_does_not_answer_leaves_its_bounds_unknown():
    pool = SourcePool([source("db")], "prod", lambda _source: Reader(None))
    known = pool.read("shop-eu", settings(POSTGRES), [])
    assert known.name == "db"
    assert "connection refused" in known.unknown


def test_tables_and_files_are_named_in_the_request():
    reader = Reader(SqlEnd({}))
    pool = SourcePool([source("ids", "sql")], "prod", lambda _source: reader)
    by_id = settings(JDBC, mode="incrementing", incrementing_column="id")
    pool.read("shop-eu", by_id, [{"protocol": "1", "table": "t"}, {"query": "query"}])
    assert reader.requests == [SourceEndRequest("ids", (ColumnQuery("t", "id"),))]
