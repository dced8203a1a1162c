"""Files and tables of configured sources, read as logs."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import ClientError, MalformedResponse, NotFound, RemoteRefusal
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.row_positions import ID_SPAN, RowOrder
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


SECOND = 1_700_000_000
DAY_S = 86_400
ORDER = RowOrder("id", ("changed_at", "made_at"))
TIMED = TopicPartition(ORDER.name_log("changes"), 0)
Row = tuple[object, object, object]  # id, changed_at, made_at in s


def place(seconds: int, number: int) -> int:
    return seconds * 10**9 * ID_SPAN + number


@pytest.fixture
def changes(tmp_path: Path) -> Callable[..., Source]:
    def build(*rows: Row) -> Source:
        path = tmp_path / "changes.db"
        with sqlite3.connect(path) as connection:
            columns = "id BIGINT, changed_at TIMESTAMP, made_at TIMESTAMP"
            connection.execute(f"CREATE TABLE changes ({columns})")
            connection.executemany("INSERT INTO changes VALUES (?, ? * 1000, ? * 1000)", rows)
        return build_source("sql", dsn=f"sqlite:///{path}")

    return build


def test_a_table_with_times_is_a_log_in_the_order_of_time_and_number(
    changes: Callable[..., Source],
) -> None:
    rows: list[Row] = [
        (9, None, SECOND),  # the first of its columns that is not NULL counts
        (1, SECOND + 2, SECOND - 5),
        (2, SECOND + 1, SECOND),
        (4, SECOND + 1, SECOND),
        (3, None, None),  # the connector never reads it
    ]
    in_order = [(0, 9), (1, 2), (1, 4), (2, 1)]
    expected = [place(SECOND + seconds, number) for seconds, number in in_order]
    brokers = Brokers({}, sources=[source := changes(*rows)])
    end = expected[-1] + 1
    assert brokers.bounds("source:s", TIMED) == LogBounds(0, end, end)
    assert brokers.first("source:s", TIMED, expected[1] + 1, committed=True) == expected[2]
    assert brokers.first("source:s", TIMED, end, committed=True) is None
    with SourceLog(source) as log:
        window = log.window(TIMED, 0, count_max=9)
        assert [record.offset for record in window.records] == expected
        assert log.window(TIMED, expected[2]).records == window.records[2:3]
        assert (
            log.window(TIMED, expected[1], expected[2], count_max=2).records
            == (window.records[1:2])
        )
        past = log.window(TIMED, end + 7)
        assert (past.records, past.end) == ((), end + 7)
    assert json.loads(window.records[0].value or b"")["columns"] == [
        {"name": "id", "type": "BIGINT", "value": 9},
        {"name": "changed_at", "type": "TIMESTAMP", "value": None},
        {"name": "made_at", "type": "TIMESTAMP", "value": SECOND * 1000},
    ]


def test_a_row_that_the_connector_leaves_for_later_is_not_the_next(
    changes: Callable[..., Source],
) -> None:
    now = int(time.time())
    source = changes((1, SECOND, None), (2, now - DAY_S // 2, None), (3, now + DAY_S, None))
    with SourceLog(source) as log:
        for delay_s, numbers in ((0, [1, 2]), (DAY_S, [1])):
            topic = ORDER._replace(delay_ms=delay_s * 1000).name_log("changes")
            window = log.window(TopicPartition(topic, 0), 0, count_max=9)
            assert [record.offset % ID_SPAN for record in window.records] == numbers
            assert window.end == window.records[-1].offset + 1


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([(1, SECOND, 0), (1, SECOND, 5)], "changes has two rows at 2023-11-14T22:13:20Z/1"),
        ([(-1, SECOND, 0)], "changes: id is -1"),
        ([(None, SECOND, 0)], "id of changes is no whole number"),
        ([(1, -5, 0)], "changes: -5000 is before 1970"),
        ([(1, 0.0005, 0)], "changes: 0.5 is no time in milliseconds"),
    ],
    ids=["twice", "negative", "null", "before-1970", "fraction"],
)
def test_rows_without_one_order_are_refused(
    changes: Callable[..., Source], rows: list[Row], why: str
) -> None:
    with SourceLog(changes(*rows)) as log, pytest.raises(ClientError, match=why):
        log.window(TIMED, 0)


def test_a_row_without_an_order_far_behind_the_position_does_not_matter(
    changes: Callable[..., Source],
) -> None:
    with SourceLog(changes((1, -5, None), (2, SECOND, None))) as log:
        assert log.topic_id(TIMED.topic)
        assert log.bounds(TIMED.topic).end == place(SECOND, 2) + 1
        assert log.first(TIMED.topic, place(SECOND, 0)) == place(SECOND, 2)


def test_two_rows_of_one_number_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
        connection.execute("INSERT INTO orders VALUES (1), (2), (2)")
    with SourceLog(build_source("sql", dsn=f"sqlite:///{path}")) as log:
        assert len(log.window(TopicPartition("orders(id)", 0), 1).records) == 1
        with pytest.raises(MalformedResponse, match="orders has two rows at 2"):
            log.window(TopicPartition("orders(id)", 0), 2)


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
