"""Tables of the pipeline made without Spark, for tests of what reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from exporter.history.tables import Table

ARROW = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "DATE": pa.date32(),
}


def write(base: Path, table: Table, *rows: dict[str, Any]) -> None:
    """Make a table, or add to it, in one transaction."""
    schema = pa.schema([(column.name, ARROW[column.type]) for column in table.columns])
    full = [dict.fromkeys(table.names) | row for row in rows]
    path = table.at(base)
    path.mkdir(parents=True, exist_ok=True)
    write_deltalake(
        str(path),
        pa.Table.from_pylist(full, schema=schema),
        mode="append",
        partition_by=list(table.partitioned_by) or None,
        configuration=dict(table.properties),
    )
