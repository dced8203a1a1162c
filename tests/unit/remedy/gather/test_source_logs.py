"""Files and tables of configured sources, read as logs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import NotFound, RemoteRefusal
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.live_queries import Brokers
from offsetwatch.remedy.gather.source_logs import SourceLog, SourceLogs, find_reading_sources

FILE_STREAM = "org.apache.kafka.connect.file.FileStreamSourceConnector"
JDBC = "io.aiven.connect.jdbc.JdbcSourceConnector"


def build_source(kind: str, **settings: object) -> Source:
    connectors = [{"connect": "lab", "include": ["a-.*"]}]
    return Source.model_validate({"name": "s", "kind": kind, "connectors": connectors} | settings)


@pytest.fixture
def table(tmp_path: Path) -> Source:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
        rows = [(1, "one"), (2, None), (5, "five")]
        connection.executemany("INSERT INTO orders VALUES (?, ?)", rows)
    return build_source("sql", dsn=f"sqlite:///{path}")


def test_a_file_is_a_log_whose_offsets_are_the_last_bytes_of_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"one\ntwo\r\nthree\nfour")
    brokers = Brokers({}, sources=[build_source("file")])
    name, partition = "source:s", TopicPartition(str(file), 0)
    assert brokers.bounds(name, partition) == LogBounds(0, 15, 15)
    assert [brokers.first(name, partition, offset, committed=True) for offset in (0, 4, 9, 15)] == [
        3,
        8,
        14,
        None,
    ]
    with SourceLog(build_source("file")) as log:
        window = log.window(partition, 4, count_max=2)
        assert [(record.offset, record.value) for record in window.records] == [
            (8, b"two\r\n"),
            (14, b"three\n"),
        ]
        assert (window.next_offset, window.end, window.log_start) == (15, 15, 0)
        # From inside of a line on, and from its last byte, it is that line.
        assert log.window(partition, 5, 9).records == log.window(partition, 8, 9).records
        assert log.window(partition, 4, 8).records == ()


def test_a_table_is_a_log_whose_offsets_are_the_values_of_its_column(table: Source) -> None:
    brokers = Brokers({}, sources=[table])
    name, partition = "source:s", TopicPartition("orders(id)", 0)
    assert brokers.bounds(name, partition) == LogBounds(0, 6, 6)
    assert [brokers.first(name, partition, offset, committed=True) for offset in (0, 3, 6)] == [
        1,
        5,
        None,
    ]
    with SourceLog(table) as log:
        (record,) = log.window(partition, 2).records
    assert (record.offset, record.key, record.timestamp_ms) == (2, None, None)
    assert record.value == (
        b'{"table":"orders","columns":[{"name":"id","type":"INTEGER","value":2},'
        b'{"name":"note","type":"TEXT","value":null}]}'
    )


def test_another_file_and_other_columns_are_another_log(table: Source, tmp_path: Path) -> None:
    file, other = tmp_path / "lines", tmp_path / "others"
    file.write_bytes(b"one\n")
    other.write_bytes(b"one\n")
    files, tables = SourceLog(build_source("file")), SourceLog(table)
    before = files.topic_id(str(file)), tables.topic_id("orders(id)")
    assert files.topic_id(str(file)) == before[0]
    file.write_bytes(b"two\n")
    assert files.topic_id(str(file)) == before[0]
    other.replace(file)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("ALTER TABLE orders ADD COLUMN price REAL")
    assert files.topic_id(str(file)) != before[0]
    assert tables.topic_id("orders(id)") != before[1]
    files.close()
    tables.close()


def test_a_source_without_records_that_could_be_read_is_refused() -> None:
    with pytest.raises(RemoteRefusal, match="its records cannot be read"):
        SourceLog(build_source("postgresql", dsn="postgresql://u:p@h/d"))
    with pytest.raises(RemoteRefusal, match="no source of this name"):
        SourceLogs().find("source:gone")
    assert SourceLogs().find("east") is None


def test_a_table_that_does_not_exist_is_an_error(table: Source) -> None:
    with SourceLog(table) as log, pytest.raises(RemoteRefusal, match=r"gone: .*no such table"):
        log.topic_id("gone(id)")
    with SourceLog(build_source("file")) as log, pytest.raises(NotFound, match="No such file"):
        log.topic_id("/no/such/file")


def test_a_connector_reads_the_sources_of_its_class_that_name_it(table: Source) -> None:
    sources = [table, build_source("file")]
    assert find_reading_sources(sources, "lab", "a-b", JDBC) == (table,)
    assert find_reading_sources(sources, None, "a-b", FILE_STREAM) == (sources[1],)
    assert find_reading_sources(sources, "other", "a-b", JDBC) == ()
    assert find_reading_sources(sources, "lab", "c", JDBC) == ()
