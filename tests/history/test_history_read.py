"""What the readers without a JVM make of the tables, and what they say where there are none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    GOLD_CURSOR,
    GOLD_FLOW_PROGRESS,
    GOLD_PROGRESS,
    GOLD_TOPICS,
    TABLES,
)
from offsetwatch.model.topology import KafkaTopic, OffsetsTopic
from tests.history.delta import write

NOON = datetime(2026, 11, 21, 12, 0, 0, 785000, tzinfo=UTC)
OFFSETS = {"kafka": "east", "topic": "connect-offsets", "topic_id": "id"}


def test_progress_comes_sorted_with_times_in_unix_seconds(tmp_path: Path) -> None:
    first = {
        "connect_cluster": "payments",
        "connector": "a",
        "source_partition": '{"filename":"/in"}',
        "dialect": "file_stream",
        "source_offset": '{"position":7}',
        "pos": 7,
        "tombstone": False,
        "variants": 0,
        "key": b"the key",
        "unsure": False,
        **OFFSETS,
        "kpartition": 3,
        "koffset": 12,
        "committed_at": NOON,
    }
    last = {**first, "connector": "b", "committed_at": None}
    write(tmp_path, GOLD_PROGRESS, last, first)
    rows = reader.read_progress(tmp_path)
    assert [row.connector for row in rows] == ["a", "b"]
    assert rows[0] == reader.ProgressRow(
        **(first | {"error": None, "committed_at": 1795262400.785})
    )
    assert rows[1].committed_at is None


def test_flow_progress_comes_sorted_by_partition_number(tmp_path: Path) -> None:
    row = {
        "connect_cluster": "payments",
        "connector": "mm2",
        "source": "west",
        "target": "east",
        "topic": "orders",
        "committed": 5,
        "committed_at": NOON,
        "replicated": 5,
    }
    write(tmp_path, GOLD_FLOW_PROGRESS, *({**row, "partition": n} for n in (10, 9)))
    rows = reader.read_flow_progress(tmp_path)
    assert [(it.partition, it.committed_at, it.synced_at) for it in rows] == [
        (9, 1795262400.785, None),
        (10, 1795262400.785, None),
    ]


def test_the_cursor_is_a_vector_by_topic_and_partition(tmp_path: Path) -> None:
    rows = [{**OFFSETS, "kpartition": n, "next_offset": n * 10} for n in range(2)]
    write(tmp_path, GOLD_CURSOR, *rows, {**rows[0], "topic": "other"})
    assert reader.read_cursor(tmp_path) == {
        KafkaTopic("east", "connect-offsets"): {0: 0, 1: 10},
        KafkaTopic("east", "other"): {0: 0},
    }


def test_bronze_is_counted_by_topic_and_topic_id(tmp_path: Path) -> None:
    row = {"kind": "connect_offsets", **OFFSETS, "kts": NOON}
    old = {**row, "topic_id": "older", "kts": NOON.replace(year=2020)}
    write(tmp_path, BRONZE_RECORDS, row, {**row, "error": "key_null"}, old)
    topic = KafkaTopic("east", "connect-offsets")
    now, then = 1795262400.785, NOON.replace(year=2020).timestamp()
    assert reader.summarize_bronze(tmp_path) == (
        reader.BronzeTopic(topic, "id", "connect_offsets", 2, 1, now, now),
        reader.BronzeTopic(topic, "older", "connect_offsets", 1, 0, then, then),
    )


def test_the_topics_are_those_of_the_newest_run(tmp_path: Path) -> None:
    row = {"connect_cluster": "payments", "kafka": "east", "topic": "connect-offsets"}
    write(tmp_path, GOLD_TOPICS, row)
    assert reader.read_topics(tmp_path) == (
        OffsetsTopic("payments", KafkaTopic("east", "connect-offsets")),
    )


def test_a_history_exists_when_every_table_of_it_does(tmp_path: Path) -> None:
    for table in TABLES:
        assert not reader.has_tables(tmp_path)
        write(tmp_path, table)
    assert reader.has_tables(tmp_path)


@pytest.mark.parametrize(
    "ask",
    [
        reader.read_progress,
        reader.read_flow_progress,
        reader.read_cursor,
        reader.read_topics,
        reader.summarize_bronze,
    ],
)
def test_where_the_pipeline_has_not_run_a_reader_says_so(ask: Any, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="has not run there yet"):
        ask(tmp_path)


def test_where_one_table_alone_is_missing_the_pipeline_is_not_said_to_have_never_run(
    tmp_path: Path,
) -> None:
    write(tmp_path, GOLD_CURSOR)
    with pytest.raises(HistoryError, match="holds no gold/progress: other tables are there"):
        reader.read_progress(tmp_path)
    assert list(reader.read_cursor(tmp_path)) == []


def test_a_tree_of_causes_is_reported_in_one_line_without_colours() -> None:
    arrow = "\x1b[31m\u21b3\x1b[0m"
    tree = f"Generic error\n     {arrow} Unable to copy\n      {arrow} No space\n"
    assert reader.format_error(OSError(tree)) == "Generic error: Unable to copy: No space"
