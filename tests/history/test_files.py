"""Rows -> files as Delta describes them: what a reader would skip or count is what is in them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.history.tables import parquet
from offsetwatch.history.tables.schemas import Table, TableColumn
from tests.history.delta import lenient

THINGS = Table(
    path="things",
    columns=(
        TableColumn("kind", "STRING", required=True),
        TableColumn("name", "STRING"),
        TableColumn("number", "BIGINT"),
        TableColumn("at", "TIMESTAMP"),
        TableColumn("error", "STRING"),
        TableColumn("day", "DATE", required=True),
    ),
    partitioned_by=("kind", "day"),
    indexed=3,
)
DAY = date(2026, 10, 1)
Row = dict[str, Any]


def thing(**values: Any) -> Row:
    return {**dict.fromkeys(THINGS.names), "kind": "a", "day": DAY, **values}


def batch(rows: Iterable[Row]) -> pa.RecordBatch:
    # As Spark sends them: nothing is required there.
    return pa.RecordBatch.from_pylist(list(rows), schema=lenient(THINGS))


def stored(path: Path, *batches: list[Row]) -> list[Row]:
    results = []
    for described in parquet.write_files(map(batch, batches), THINGS, str(path)):
        for row in described.to_pylist():
            assert (path / row["path"]).stat().st_size == row["size"]
            rows = pq.ParquetFile(path / row["path"]).read()
            partition, stats = json.loads(row["partition"]), json.loads(row["stats"])
            results.append({"rows": rows, "path": row["path"], "in": partition, **stats})
    return results


def test_each_partition_gets_a_file_of_its_own_with_the_rows_in_their_order(tmp_path: Path) -> None:
    first = [thing(number=1), thing(number=2, kind="b"), thing(number=3)]
    result = stored(tmp_path, first, [thing(number=4), thing(number=5, day=date(2026, 10, 2))])
    assert [(file["in"], file["rows"]["number"].to_pylist()) for file in result] == [
        ({"kind": "a", "day": "2026-10-01"}, [1, 3, 4]),
        ({"kind": "b", "day": "2026-10-01"}, [2]),
        ({"kind": "a", "day": "2026-10-02"}, [5]),
    ]
    assert all(file["path"].startswith(f"kind={file['in']['kind']}/day=") for file in result)
    # What is in the path is not in the file.
    assert {*result[0]["rows"].column_names} == {"name", "number", "at", "error"}


@given(
    st.lists(
        st.tuples(
            st.none() | st.text(max_size=3),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
            st.none() | st.just("why"),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_the_statistics_are_those_of_the_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]
) -> None:
    path = tmp_path_factory.mktemp("things")
    names = ("name", "number", "at", "error")
    (file,) = stored(path, [thing(**dict(zip(names, row, strict=True))) for row in rows])
    assert file["numRecords"] == len(rows)
    for location, name in enumerate(names):
        values = [row[location] for row in rows if row[location] is not None]
        assert file["nullCount"][name] == len(rows) - len(values)
        if name == "error" or not values:
            assert name not in file["minValues"]
            assert name not in file["maxValues"]
            continue
        # Delta's order of texts is that of their bytes.
        ordered = sorted(values, key=str.encode) if name == "name" else sorted(values)
        bounds = [ordered[0], ordered[-1]]
        if name == "at":
            results = [
                datetime.fromisoformat(file[end][name]) for end in ("minValues", "maxValues")
            ]
        else:
            results = [file[end][name] for end in ("minValues", "maxValues")]
        assert results == bounds


def test_what_has_no_bounds_that_the_log_could_hold_gets_none(tmp_path: Path) -> None:
    long = "x" * (parquet.BOUND_CHARS_MAX + 1)
    far = 2**62  # microseconds: some hundred thousand years
    rows = batch([thing(name=long, number=1), thing(name="a", number=2)])
    field_index = rows.schema.get_field_index("at")
    moments = pa.array([far, 0]).cast(pa.timestamp("us", tz="UTC"))
    (described,) = parquet.write_files(
        [rows.set_column(field_index, "at", moments)], THINGS, str(tmp_path)
    )
    stats = json.loads(described["stats"][0].as_py())
    assert (stats["minValues"], stats["maxValues"]) == ({"number": 1}, {"number": 2})
    assert stats["nullCount"] == {"name": 0, "number": 0, "at": 0, "error": 2}


def test_a_column_that_is_never_null_stays_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kind is null"):
        stored(tmp_path, [thing(kind=None)])
    assert not list(tmp_path.rglob("*.parquet"))


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert stored(tmp_path) == stored(tmp_path, []) == []


def test_what_is_held_is_bounded_and_cut_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "BUFFER_BYTES_MAX", 1)
    result = stored(tmp_path, *([thing(number=number)] for number in range(3)))
    assert [file["rows"]["number"].to_pylist() for file in result] == [[0], [1], [2]]
