"""Upkeep: fewer files, the same rows, and a doubled record is found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, SILVER_COMMITS
from tests.history.delta import stored, write
from tests.history.test_asof import DAY, MORNING, Commit, lake, then

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class AfterFourDays:
    def now(self) -> float:
        return MORNING + 3 * DAY


@pytest.mark.full
def test_closed_days_get_one_file_each_and_every_row_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    from offsetwatch.history.pipeline.maintenance import maintain

    for number in range(8):
        day = number // 2
        lake(tmp_path, Commit(day * DAY + number, f'{{"position":{number}}}'), first=number)
    commits = stored(tmp_path, SILVER_COMMITS, by="koffset")
    write(tmp_path, SILVER_COMMITS, mode="overwrite")
    for commit in reversed(commits):  # as runs leave them
        write(tmp_path, SILVER_COMMITS, commit)
    before = then(tmp_path, 2 * DAY)
    done = maintain(tmp_path, master="local[1]", heap="1g", clock=AfterFourDays())
    assert spark is not None  # the session that it used
    files = {table.path: (table.files_before, table.files_after) for table in done.tables}
    assert files["bronze/records"] == files["silver/commits"] == (8, 5)
    assert (done.rows, done.doubled) == (8, 0)
    assert then(tmp_path, 2 * DAY) == before
    assert stored(tmp_path, SILVER_COMMITS, by="koffset") == commits
    assert DeltaTable(str(BRONZE_RECORDS.at(tmp_path))).protocol().min_reader_version == 1
    again = maintain(tmp_path, master="local[1]", heap="1g", clock=AfterFourDays())
    assert all(table.files_before == table.files_after for table in again.tables)


def test_a_record_that_is_stored_twice_is_found(tmp_path: Path) -> None:
    from offsetwatch.history.pipeline.maintenance import count_rows

    for _ in range(2):
        lake(tmp_path, Commit(0, '{"position":1}'), Commit(1, '{"position":2}'))
    lake(tmp_path, Commit(0, '{"position":1}'), topic_id="another log")
    assert count_rows(tmp_path) == (5, 2)


def test_where_nothing_was_read_there_is_nothing_to_maintain(tmp_path: Path) -> None:
    from offsetwatch.history.pipeline.maintenance import maintain

    with pytest.raises(HistoryError, match="nothing to maintain"):
        maintain(tmp_path, master="local[1]", heap="1g")
