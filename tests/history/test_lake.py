"""The way into the tables: what counts once, what takes whose place, and what is refused."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline import commits
from offsetwatch.history.pipeline.commits import IdempotentWrite
from offsetwatch.history.tables.parquet import ORDERED_PREFIX
from offsetwatch.history.tables.schemas import Table, TableColumn
from tests.history.delta import stored

DAYS = Table(
    path="days",
    columns=(
        TableColumn("number", "BIGINT", required=True),
        TableColumn("error", "STRING"),
        TableColumn("day", "DATE", required=True),
    ),
    partitioned_by=("day",),
)
FIRST, SECOND = date(2026, 10, 1), date(2026, 10, 2)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    commits.create(tmp_path, DAYS)
    return tmp_path


def files(
    base: Path, *numbers: int, day: date = FIRST, error: str | None = None, table: Table = DAYS
) -> Any:
    rows = [(number, error, day) for number in numbers]
    return commits.write_batches([commits.build_batch(rows, table)], base, table)


def numbers(base: Path) -> list[int]:
    return [row["number"] for row in stored(base, DAYS, by="number")]


def test_a_turn_counts_once_and_says_what_it_added(base: Path) -> None:
    first = files(base, 1, 2, error="why"), files(base, 3)
    added = commits.append([*first[0], *first[1]], base, DAYS, IdempotentWrite("reader", 4))
    assert added == commits.AddedRows(rows=3, undecodable=2)
    for number in (3, 4):
        again = commits.append(files(base, 9), base, DAYS, IdempotentWrite("reader", number))
        assert again == commits.AddedRows(0, 0)
    commits.append(files(base, 4), base, DAYS, IdempotentWrite("another", 1))
    commits.append(files(base, 5), base, DAYS, IdempotentWrite("reader", 5))
    assert numbers(base) == [1, 2, 3, 4, 5]
    assert commits.read_last_committed(base, DAYS, "reader") == 5
    assert commits.read_last_committed(base, DAYS, "nobody") is None


def test_a_turn_without_rows_is_taken_in_and_nothing_without_a_turn_is_no_commit(
    base: Path,
) -> None:
    before = DeltaTable(str(DAYS.at(base))).version()
    commits.append([], base, DAYS)
    assert DeltaTable(str(DAYS.at(base))).version() == before
    commits.append([], base, DAYS, IdempotentWrite("reader", 0))
    assert IdempotentWrite("reader", 0).done(base, DAYS)


def test_all_rows_are_replaced_or_those_of_some_days(base: Path) -> None:
    commits.append([*files(base, 1), *files(base, 2, day=SECOND)], base, DAYS)
    commits.replace(files(base, 3), base, DAYS, days=[FIRST])
    assert numbers(base) == [2, 3]
    commits.replace([], base, DAYS, days=[SECOND])
    assert numbers(base) == [3]
    commits.replace(files(base, 4), base, DAYS, IdempotentWrite("reader", 1))
    commits.replace(files(base, 5), base, DAYS, IdempotentWrite("reader", 1))
    assert numbers(base) == [4]
    commits.replace([], base, DAYS)
    assert numbers(base) == []


def test_a_day_put_in_order_holds_the_same_rows_and_changes_nothing(base: Path) -> None:
    for number in (2, 1):
        commits.append(files(base, number), base, DAYS)
    commits.append(files(base, 3, day=SECOND), base, DAYS)
    (crowd,) = commits.find_fragmented_partitions(base, DAYS, SECOND)
    assert crowd == commits.FragmentedPartition(
        partition={"day": FIRST.isoformat()}, target_files=1
    )
    # However many they are: rows that lie in order are left alone.
    ordered = [
        file
        for number in (1, 2)
        for file in commits.write_batches(
            [commits.build_batch([(number, None, FIRST)], DAYS)], base, DAYS, ORDERED_PREFIX
        )
    ]
    commits.rearrange(ordered, base, DAYS, crowd.partition)
    assert commits.find_fragmented_partitions(base, DAYS, SECOND) == []
    assert numbers(base) == [1, 2, 3]
    table = DeltaTable(str(DAYS.at(base)))
    assert len(table.file_uris()) == 3
    before = table.version()
    commits.vacuum(base, DAYS)
    # The files of before stay until no reader can be in the middle of them.
    assert len(list(DAYS.at(base).rglob("*.parquet"))) == 5
    assert DeltaTable(str(DAYS.at(base))).version() == before


def test_the_day_that_is_not_over_is_left_alone(base: Path) -> None:
    for number in (2, 1):
        commits.append(files(base, number, day=SECOND), base, DAYS)
    assert commits.find_fragmented_partitions(base, DAYS, SECOND) == []
    assert len(commits.find_fragmented_partitions(base, DAYS, date(2026, 10, 3))) == 1


def test_a_table_without_days_is_one_pile_of_small_files(tmp_path: Path) -> None:
    whole = replace(DAYS, partitioned_by=())
    commits.create(tmp_path, whole)
    for number in (2, 1):
        commits.append(files(tmp_path, number, table=whole), tmp_path, whole)
    assert commits.find_fragmented_partitions(tmp_path, whole, SECOND) == [
        commits.FragmentedPartition({}, target_files=1)
    ]
    commits.rearrange(files(tmp_path, 3, table=whole), tmp_path, whole, {})
    assert numbers(tmp_path) == [3]


def test_what_a_killed_run_left_goes_when_it_is_old(base: Path) -> None:
    commits.append(files(base, 1), base, DAYS)
    young, old = files(base, 2), files(base, 3)
    long_ago = time.time() - 3600 * (commits.RETAIN_HOURS + 1)
    os.utime(DAYS.at(base) / old[0].path, (long_ago, long_ago))
    commits.vacuum(base, DAYS)
    assert (DAYS.at(base) / young[0].path).exists()
    assert not (DAYS.at(base) / old[0].path).exists()
    assert numbers(base) == [1]


def test_a_table_that_only_grows_cannot_be_replaced(tmp_path: Path) -> None:
    growing = replace(DAYS, append_only=True)
    commits.create(tmp_path, growing)
    commits.append(files(tmp_path, 1), tmp_path, growing)
    with pytest.raises(HistoryError, match="writing days failed"):
        commits.replace(files(tmp_path, 2), tmp_path, growing)
    assert numbers(tmp_path) == [1]


def test_an_older_table_gets_the_columns_that_came_since(tmp_path: Path) -> None:
    commits.create(tmp_path, replace(DAYS, columns=(DAYS.columns[0], DAYS.columns[2])))
    commits.create(tmp_path, DAYS)
    commits.create(tmp_path, DAYS)
    commits.append(files(tmp_path, 1, error="why"), tmp_path, DAYS)
    assert [row["error"] for row in stored(tmp_path, DAYS)] == ["why"]
    assert DeltaTable(str(DAYS.at(tmp_path))).version() == 2


def test_a_table_with_other_types_is_refused(tmp_path: Path) -> None:
    other = TableColumn("number", "STRING")
    commits.create(tmp_path, replace(DAYS, columns=(other, *DAYS.columns[1:])))
    with pytest.raises(HistoryError, match=r"its column number holds .*string.*, not long"):
        commits.create(tmp_path, DAYS)
    assert DeltaTable(str(DAYS.at(tmp_path))).version() == 0


def test_what_cannot_be_written_is_said(base: Path) -> None:
    result = files(base, 1)
    (DAYS.at(base) / "_delta_log" / f"{0:020}.json").write_text("{")
    with pytest.raises(HistoryError):
        commits.append(result, base, DAYS)
