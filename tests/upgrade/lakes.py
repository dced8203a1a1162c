"""The pipeline's tables, as the code that it is run with makes them: its decoding, its columns, its
silver. Without Spark, so gold has only what readers need. Run by make.py.

A table is kept as text: its Delta log as it is, and the rows of each file. `rebuilt` makes the
files again, under the same names; of another size, which is all that changes in the log.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from offsetwatch.history.pipeline import commits
from offsetwatch.history.queries.asof import AsOfQuery, read_as_of
from offsetwatch.history.tables import schemas
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, TABLES, Table
from tests.history.delta import refine_plainly, stored, write
from tests.history.rows import (
    OFFSETS_TOPIC,
    SYNCS_TOPIC,
    Raw,
    at,
    decoded,
    mirror_key,
    offset_key,
    sync_key,
    sync_value,
)

MORNING = 1_795_243_200  # 2026-11-21T06:40:00Z
DAY = 86_400
IN, OUT = {"filename": "/in"}, {"filename": "/out"}
MOMENTS = {"first day": 500, "second day": DAY + 100}  # seconds after MORNING, both after a run
FOLLOWING = b'{"position":77}'  # committed after the upgrade
_TYPES = {
    str(kind): kind
    for kind in (
        *(pa.string(), pa.binary(), pa.bool_(), pa.int32(), pa.int64(), pa.float64()),
        *(pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.date32()),
    )
}

Row = dict[str, Any]


def _records(second: float, first: int, *values: tuple[bytes, bytes | None]) -> Iterator[Raw]:
    for number, (key, value) in enumerate(values):
        ms = round((MORNING + second + number) * 1000)
        yield Raw(key=key, value=value, offset=first + number, ms=ms)


def _runs() -> tuple[tuple[Raw, ...], ...]:
    """What two runs read: a commit of everything that a commit can be."""
    file_in, file_out = offset_key("file", IN), offset_key("file", OUT)
    mirror = mirror_key("mm2", "west", "orders", 0)
    spaced = file_in.replace(b",", b", ")  # other bytes for the same source partition
    one = _records(
        0,
        0,
        (file_in, b'{"position":5}'),
        (file_out, b'{"position":340282366920938463463374607431768211457}'),
        (mirror, b'{"offset":41}'),
        (spaced, b'{"position":3}'),
        (file_in, b'{"position":9}'),
        (file_out, None),
        (b"no key of Connect's", b"{}"),
    )
    two = _records(
        DAY, 7, (file_in, b'{"position":12}'), (file_out, b"{"), (mirror, b'{"offset":99}')
    )
    syncs = Raw(
        key=sync_key("orders", 0),
        value=sync_value(42, 40),
        topic=SYNCS_TOPIC,
        ms=(MORNING + 20) * 1000,
    )
    return (*one, syncs), tuple(two)


def following() -> tuple[Raw, ...]:
    """What is read next, by whichever code."""
    return tuple(_records(DAY + 200, 10, (offset_key("file", IN), FOLLOWING)))


def bronze_rows(raw: Iterable[Raw], read_at: float) -> list[Row]:
    """As bronze holds them."""
    read = at(round((MORNING + read_at) * 1000))
    rows = decoded(*raw)
    return [{**row, "kafka": "east", "ingest_ts": read, "day": row["kts"].date()} for row in rows]


def make(work: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tables by their paths, and what this code says of them."""
    base = work / "tables"
    for table in TABLES:
        commits.create(base, table)
    rows = []
    for raw, read_at in zip(_runs(), (60, DAY + 60), strict=True):
        rows.append(bronze_rows(raw, read_at))
        append(base, BRONZE_RECORDS, rows[-1])
    location = {"connect_cluster": "payments", "kafka": "east", "topic": OFFSETS_TOPIC}
    append(base, schemas.GOLD_TOPICS, [location])
    for table, result in silver(work / "plainly", [row for run in rows for row in run]).items():
        append(base, table, result)
    built = {table.path: _read_log(table.at(base)) for table in TABLES}
    return built, {"as of": answers(base)}


def silver(work: Path, bronze: list[Row]) -> dict[Table, list[Row]]:
    """Of these records, worked out row by row: what Spark is held against elsewhere."""
    write(work, BRONZE_RECORDS, *bronze)
    refine_plainly(work, pictured=True)
    return {
        table: stored(work, table)
        for table in schemas.SILVER
        if (table.at(work) / "_delta_log").is_dir()
    }


def answers(base: Path) -> dict[str, Any]:
    """Every offset as it was, at each of the moments. Older specimens tell no raw keys."""
    results = {}
    for name, second in MOMENTS.items():
        report = asdict(read_as_of(base, AsOfQuery(at=MORNING + second)))
        for connector in report["connectors"]:
            for entry in (*connector["then"], *connector["now"]):
                del entry["raw_key"]
        results[name] = {"connectors": report["connectors"], "unknown": report["unknown"]}
    return json.loads(json.dumps(results))


def append(base: Path, table: Table, rows: list[Row]) -> None:
    """One commit."""
    if not rows:
        return
    names = [column.name for column in table.columns]
    values = [tuple(row.get(name) for name in names) for row in rows]
    commits.append(
        commits.write_batches([commits.build_batch(values, table)], base, table), base, table
    )


# ---- as text, and back --------------------------------------------------------------------------


def _read_log(path: Path) -> dict[str, Any]:
    log = {
        file.name: file.read_text().splitlines()
        for file in sorted((path / "_delta_log").glob("*.json"))
    }
    files = {
        str(file.relative_to(path)): _file(pq.ParquetFile(file).read())
        for file in sorted(path.rglob("*.parquet"))
        if "_delta_log" not in file.parts
    }
    return {"log": log, "files": files}


def _file(rows: pa.Table) -> dict[str, Any]:
    plain = [
        {name: _plain(value) for name, value in row.items() if value is not None}
        for row in _numbered(rows).to_pylist()
    ]
    return {
        "columns": [[item.name, str(item.type), item.nullable] for item in rows.schema],
        "rows": plain,
    }


def _numbered(rows: pa.Table) -> pa.Table:
    """Moments and days as numbers, which JSON keeps exactly."""
    for number, field in enumerate(rows.schema):
        kind = pa.int64() if pa.types.is_timestamp(field.type) else None
        kind = pa.int32() if pa.types.is_date(field.type) else kind
        if kind is not None:
            rows = rows.set_column(number, field.name, rows.column(number).cast(kind))
    return rows


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def rebuilt(retained: dict[str, Any], path: Path) -> None:
    """The folder of a table."""
    sizes = {}
    for name, file in retained["files"].items():
        at_path = path / name
        at_path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(_table(file), at_path)
        sizes[name] = at_path.stat().st_size
    (path / "_delta_log").mkdir(parents=True, exist_ok=True)
    for name, lines in retained["log"].items():
        text = "".join(_sized(line, sizes) + "\n" for line in lines)
        (path / "_delta_log" / name).write_text(text)


def _sized(line: str, sizes: dict[str, int]) -> str:
    action = json.loads(line)
    for kind in ("add", "remove"):
        if kind in action and "size" in action[kind]:
            action[kind]["size"] = sizes[action[kind]["path"]]
    return json.dumps(action)


def _table(file: dict[str, Any]) -> pa.Table:
    arrays, fields = [], []
    for name, kind, nullable in file["columns"]:
        field = pa.field(name, _TYPES[kind], nullable=nullable)
        values = [row.get(name) for row in file["rows"]]
        if pa.types.is_binary(field.type):
            values = [None if value is None else base64.b64decode(value) for value in values]
        numbers = pa.int64() if pa.types.is_timestamp(field.type) else field.type
        numbers = pa.int32() if pa.types.is_date(field.type) else numbers
        arrays.append(pa.array(values, numbers).cast(field.type))
        fields.append(field)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
