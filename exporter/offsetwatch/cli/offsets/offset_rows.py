"""Rows of `offsets list`: an offset each, as a table or as a document by store."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.remedy.engine.requests import build_offset_entry
from offsetwatch.remedy.model.plan import PartitionOffset


def parse_names(connectors: str | None) -> frozenset[str] | None:
    r"""Return names separated by commas; a comma in a name is written as `\,`."""
    if connectors is None:
        return None
    parts = re.split(r"(?<!\\),", connectors)
    return frozenset(part.replace("\\,", ",") for part in parts) - {""}


class OffsetRow(NamedTuple):
    """An offset of a connector.

    kind      source or sink
    source    the input that it was read from: storage, rest, topic or group
    """

    store: str
    connector: str
    kind: str
    pair: PartitionOffset
    source: str


def print_rows(rows: list[OffsetRow], by: str, *, output_format: OutputFormat) -> None:
    """Print the offsets as a table, or as a document by store."""
    document: dict[str, dict[str, list[dict[str, msgspec.Raw]]]] = {}  # store -> connector -> pairs
    for row in rows:
        entries = document.setdefault(row.store, {}).setdefault(row.connector, [])
        entries.append(build_offset_entry(row.pair.partition, row.pair.offset, row.pair.key))
    output.print_result(
        output_format,
        document,
        lambda: output.print_columns(
            f"Offsets, by {by}" if by else "Offsets",
            rows,
            {
                "cluster": lambda row: row.store,
                "connector": lambda row: row.connector,
                "kind": lambda row: row.kind,
                "partition": lambda row: row.pair.partition,
                "offset": lambda row: row.pair.offset,
                "from": lambda row: row.source,
            },
        ),
    )
