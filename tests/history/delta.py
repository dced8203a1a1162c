"""Tables of the pipeline made without Spark, for tests of what reads them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from offsetwatch.decode.dialects import is_lookup_key
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.commit_changes import change_of
from offsetwatch.history.tables.reader import read_classes
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    CONFIGS,
    CONNECT_OFFSETS,
    SILVER_COMMITS,
    SILVER_LOGS,
    SILVER_NEWEST,
    SILVER_SNAPSHOTS,
    TABLES,
    Table,
)
from offsetwatch.model.offsets import SourceKey

Row = dict[str, Any]


def lenient(table: Table) -> pa.Schema:
    """Its columns with nothing required: tests leave out what their question does not touch."""
    return pa.schema([pa.field(field.name, field.type) for field in table.schema])


def write(base: Path, table: Table, *rows: Row, mode: Any = "append") -> None:
    """Make a table, or add to it, in one transaction."""
    full = [dict.fromkeys(table.names) | row for row in rows]
    path = table.at(base)
    path.mkdir(parents=True, exist_ok=True)
    write_deltalake(
        str(path),
        pa.Table.from_pylist(full, schema=lenient(table)),
        mode=mode,
        partition_by=list(table.partitioned_by) or None,
        configuration=table.properties,
    )


def stored(base: Path, table: Table, *, by: str | None = None) -> list[Row]:
    """Every row, in order of a column if one is named."""
    pyarrow_table = DeltaTable(str(table.at(base))).to_pyarrow_table(columns=list(table.names))
    rows: list[Row] = (pyarrow_table if by is None else pyarrow_table.sort_by(by)).to_pylist()
    return rows


def create_missing(base: Path) -> None:
    """Create every table that is not there, empty, as a run does before it reads."""
    for table in TABLES:
        if not reader.has_tables(base, (table,)):
            write(base, table)


def refine_plainly(base: Path, *, pictured: bool = True) -> None:
    """Silver of all of bronze, made anew, row by row: what the pipeline's has to be equal to.

    `pictured`: with a snapshot of every day but the last.
    """
    create_missing(base)
    records = sorted(stored(base, BRONZE_RECORDS), key=lambda row: (_log(row), row["koffset"]))
    found = {(row.connect_cluster, row.connector): row.class_name for row in read_classes(base)}
    commits = list(_commits(records, found))
    days = sorted({row["day"] for row in commits})[:-1] if pictured else []
    write(base, SILVER_COMMITS, *map(_named(SILVER_COMMITS), commits), mode="overwrite")
    snapshots = [row for day in days for row in snapshot(commits, day)]
    write(base, SILVER_SNAPSHOTS, *map(_named(SILVER_SNAPSHOTS), snapshots), mode="overwrite")
    newest = {(_log(row), row["key"]): row for row in records}
    write(base, SILVER_NEWEST, *newest.values(), mode="overwrite")
    write(base, SILVER_LOGS, *_logs(records), mode="overwrite")


def snapshot(commits: list[Row], day: date) -> list[Row]:
    """The newest commit under each raw key in each log among those of that day or before."""
    last: dict[tuple[Any, ...], Row] = {}
    for row in commits:
        if row["day"] <= day:
            last[_log(row), row["key"]] = row
    return [{**row, "day": day} for row in last.values()]


def _commits(records: list[Row], found: dict[tuple[str, str], str]) -> Any:
    last: dict[tuple[Any, ...], Row] = {}
    classes = _classes(records)
    for row in records:
        if row["kind"] != CONNECT_OFFSETS or row["connector"] is None:
            continue
        subject = (row["connect_cluster"], row["connector"])
        key = decode_key(row["key"])
        assert isinstance(key, SourceKey)
        if not is_lookup_key(key, found.get(subject) or classes.get(subject) or ""):
            continue
        where = (_log(row), row["key"])
        before = last.get(where)
        last[where] = row
        stated = (row[name] for name in ("dialect", "source_offset", "tombstone", "error"))
        yield {
            **row,
            "at": min(row["kts"], _end_of(row["day"])),
            "change": change_of(
                *stated,
                before and True,
                before and before["source_offset"],
                classes.get(subject),
            ),
            "step": before and _minus(row["pos"], before["pos"]),
            "pause_s": before and (row["kts"] - before["kts"]).total_seconds(),
        }


def _classes(records: list[Row]) -> dict[tuple[str, str], str]:
    """Return the class of each connector that has had one, as its config topic tells."""
    results: dict[tuple[str, str], set[str]] = {}
    for row in records:
        if row["kind"] != CONFIGS or row["observation"] is None:
            continue
        document = json.loads(row["observation"])
        name = (document.get("settings") or {}).get("class_name")
        if name and document.get("connector"):
            results.setdefault((row["connect_cluster"], document["connector"]), set()).add(name)
    return {connector: names.pop() for connector, names in results.items() if len(names) == 1}


def _logs(records: list[Row]) -> list[Row]:
    results: dict[tuple[Any, ...], list[Row]] = {}
    for row in records:
        results.setdefault(_log(row), []).append(row)
    return [
        {
            **{name: rows[0][name] for name in ("kind", "connect_cluster")},
            **dict(zip(("kafka", "topic", "topic_id", "kpartition"), log, strict=True)),
            "first_offset": rows[0]["koffset"],
            "next_offset": rows[-1]["koffset"] + 1,
            "records": len(rows),
            "holes": rows[-1]["koffset"] + 1 - rows[0]["koffset"] - len(rows),
            "undecodable": sum(row["error"] is not None for row in rows),
            "first_at": min(row["kts"] for row in rows),
            "last_at": max(row["kts"] for row in rows),
            "first_read_at": min(row["ingest_ts"] for row in rows),
            "last_read_at": max(row["ingest_ts"] for row in rows),
        }
        for log, rows in results.items()
    ]


def _named(table: Table) -> Any:
    return lambda row: {name: row[name] for name in table.names}


def _log(row: Row) -> tuple[Any, ...]:
    return (row["kafka"], row["topic"], row["topic_id"], row["kpartition"])


def _minus(now: int | None, before: int | None) -> int | None:
    if now is None or before is None:
        return None
    return now - before if -(2**63) <= now - before < 2**63 else None


def _end_of(day: date) -> datetime:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return midnight + timedelta(days=1) - timedelta(microseconds=1)
