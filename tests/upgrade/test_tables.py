"""Tables of earlier versions: brought up to date, read, and added to. Without Spark, which is held
against the same plain computation of silver elsewhere (tests/history).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline import commits
from offsetwatch.history.queries.timeline import TimelineQuery, read_timeline
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, TABLES
from tests.history.delta import refine_plainly, stored
from tests.upgrade import lakes, opened


@pytest.fixture(scope="module", params=opened.milestones("tables"))
def milestone(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def milestone_tables(milestone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return opened.tables(milestone, tmp_path_factory.mktemp(milestone))


@pytest.fixture
def base(milestone_tables: Path, tmp_path: Path) -> Path:
    """A copy, brought up to date as each run does first."""
    base = Path(shutil.copytree(milestone_tables, tmp_path / "tables"))
    for table in TABLES:
        commits.create(base, table)
    return base


def expected(milestone: str) -> Any:
    """The offsets at two moments, as the milestone's own code told them."""
    return opened.expected(milestone, "tables")["as of"]


def count_records(milestone: str) -> int:
    """How many records bronze had."""
    files = opened.table(milestone, BRONZE_RECORDS.path)["files"].values()
    return sum(len(file["rows"]) for file in files)


def test_older_tables_get_the_columns_that_came_since_and_lose_no_row(milestone, base):
    for table in TABLES:
        there = DeltaTable(str(table.at(base)))
        assert {field.name for field in there.schema().fields} >= set(table.names), table.path
    assert len(stored(base, BRONZE_RECORDS)) == count_records(milestone) == 11


def test_a_table_that_was_brought_up_to_date_is_not_touched_again(base):
    before = {table.path: DeltaTable(str(table.at(base))).version() for table in TABLES}
    for table in TABLES:
        commits.create(base, table)
    assert {table.path: DeltaTable(str(table.at(base))).version() for table in TABLES} == before


def test_older_silver_answers_for_every_moment_as_it_did_then(milestone, base):
    assert lakes.answers(base) == expected(milestone)


def test_silver_that_is_made_of_older_bronze_answers_as_it_did_then(milestone, base):
    shutil.rmtree(base / "silver")
    refine_plainly(base)
    assert lakes.answers(base) == expected(milestone)


def test_older_bronze_is_added_to_and_the_old_rows_stay_as_they_are(base):
    before = stored(base, BRONZE_RECORDS, by="koffset")
    lakes.append(base, BRONZE_RECORDS, lakes.bronze_rows(lakes.following(), lakes.DAY + 260))
    after = stored(base, BRONZE_RECORDS, by="koffset")
    assert [row for row in after if row["value"] != lakes.FOLLOWING] == before
    assert len(after) == len(before) + 1


def test_the_timeline_of_a_connector_is_distinguished_from_older_tables(base):
    shutil.rmtree(base / "silver")
    refine_plainly(base)
    until = lakes.MORNING + 10.0 * lakes.DAY
    query = TimelineQuery(connector="file", connect_cluster="payments", since=0.0, until=until)
    assert read_timeline(base, query).events


def test_a_table_whose_column_has_another_type_is_refused_by_name_and_left(base):
    path = BRONZE_RECORDS.at(base)
    first = path / "_delta_log" / "00000000000000000000.json"
    text = first.read_text()
    assert '\\"name\\":\\"pos\\",\\"type\\":\\"long\\"' in text
    shutil.rmtree(path / "_delta_log")
    (path / "_delta_log").mkdir()
    changed = text.replace(
        '\\"name\\":\\"pos\\",\\"type\\":\\"long\\"', '\\"name\\":\\"pos\\",\\"type\\":\\"string\\"'
    )
    first.write_text(changed)
    with pytest.raises(HistoryError, match="column pos holds"):
        commits.create(base, BRONZE_RECORDS)
    assert [file.name for file in (path / "_delta_log").iterdir()] == [first.name]
    assert first.read_text() == changed
