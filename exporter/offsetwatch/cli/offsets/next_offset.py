"""The verb `offsets next`: the offset after a Debezium connector's next transaction. Read-only."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets.execute import DENIED, OK, UNAUTHORISED
from offsetwatch.cli.offsets.offset_store import (
    open_offset_store,
)
from offsetwatch.cli.offsets.store_options import (
    OffsetStoreOptions,
    take_store_options,
)
from offsetwatch.clients.databases.mysql import MysqlReader
from offsetwatch.decode.dialects import DEBEZIUM_POSTGRES, find_own_dialect
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.errors import AccessDenied, ClientError, RemoteRefusal, TargetUnreachable
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import ConnectorSettings
from offsetwatch.model.source_ends import SourceEndRequest
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.next_offset import BinlogTransaction, NextOffset, find_next_offset
from offsetwatch.toolbox.offset_shapes import parse_fields
from offsetwatch.toolbox.store.offset_store import OffsetStore, StateBeforeChange
from offsetwatch.toolbox.suggestions import suggest_name


def show_next_offset(
    connector: str,
    *,
    partition: str | None,
    count: int,
    events_max: int,
    output_format: OutputFormat,
    **options: Any,
) -> int:
    """Print the next offset, what it passes over, and how to set it; return the exit code."""
    where = take_store_options(options)
    try:
        with open_offset_store(where) as store:
            settings = _read_settings(store, connector)
            pair = _choose_pair(store.pairs(connector), connector, partition)
            source, found = _find(store, connector, settings, pair, count, events_max)
            state = store.read_state(connector)
    except TargetUnreachable:
        raise
    except ClientError as exc:
        output.print_client_error(exc)
        return UNAUTHORISED if isinstance(exc, AccessDenied) else DENIED
    notes = state.notes if isinstance(state, StateBeforeChange) else (str(state),)
    _print(connector, where, source, pair, found, (*notes, *found.notes), output_format)
    return OK


def _read_settings(store: OffsetStore, connector: str) -> ConnectorSettings:
    names = store.connectors()
    if connector not in names:
        raise RemoteRefusal(
            store.name, f"no connector {connector} ({suggest_name(connector, names)})"
        )
    settings = store.settings(connector)
    if settings is None:
        raise RemoteRefusal(connector, "its configuration cannot be read here", "use --connect")
    return settings


def _choose_pair(
    pairs: tuple[PartitionOffset, ...], connector: str, partition: str | None
) -> PartitionOffset:
    """Return the one pair with an offset, or that of the partition that was named."""
    chosen = [pair for pair in pairs if pair.offset is not None]
    if partition is not None:
        try:
            requested = parse_fields(partition)
        except msgspec.DecodeError:
            requested = None
        chosen = [pair for pair in chosen if parse_fields(pair.partition) == requested]
    if len(chosen) == 1:
        return chosen[0]
    there = ", ".join(pair.partition for pair in pairs) or "none"
    what = "several offsets" if chosen else "no such offset"
    raise RemoteRefusal(connector, f"it has {what}; its source partitions: {there}", "--partition")


def _find(
    store: OffsetStore,
    connector: str,
    settings: ConnectorSettings,
    pair: PartitionOffset,
    count: int,
    events_max: int,
) -> tuple[str, NextOffset]:
    """Return the name of the source that was read, and the next offset."""
    if find_own_dialect(settings.class_name) == DEBEZIUM_POSTGRES.name:
        raise RemoteRefusal(
            connector,
            "the next commit of a PostgreSQL connector is not computed",
            "pg_logical_slot_peek_binary_changes shows what its slot has, while no task runs",
        )
    source = store.sources.find(connector, settings)
    if isinstance(source, str):
        raise RemoteRefusal(connector, source, "name its database under sources: docs/sources.md")
    reader = store.sources.open(source)
    if not isinstance(reader, MysqlReader):
        raise RemoteRefusal(
            connector, "only of Debezium's MySQL and MariaDB connectors the next offset is computed"
        )
    end = reader.read(SourceEndRequest(source.name))
    offset = parse_fields(pair.offset) or {}
    found = find_next_offset(
        offset, end, reader, source=source.name, count=count, events_max=events_max
    )
    return source.name, found


def _print(
    connector: str,
    where: OffsetStoreOptions,
    source: str,
    pair: PartitionOffset,
    found: NextOffset,
    notes: tuple[str, ...],
    output_format: OutputFormat,
) -> None:
    then = encode_sorted(found.fields).decode()
    words = ("--partition", pair.partition, "--offset", then)
    command = (
        f"offsetwatch offsets alter {shlex.quote(connector)} {where.options} {shlex.join(words)}"
    )
    document = {
        "connector": connector,
        "source": source,
        "partition": msgspec.Raw(pair.partition.encode()),
        "now": msgspec.Raw((pair.offset or "null").encode()),
        "next": msgspec.Raw(then.encode()),
        "bytes": sum(each.bytes for each in found.transactions),
        "passes_over": [_encode(each) for each in found.transactions],
        "notes": notes,
        "command": command,
    }

    def draw() -> None:
        output.print_lines(
            f"Next offset of {connector}, by source {source}", _list_offsets(pair, then)
        )
        output.print_columns(
            "Passes over",
            found.transactions,
            {
                "file": lambda each: each.file,
                "from": lambda each: each.start,
                "to": lambda each: each.end,
                "GTID": lambda each: each.gtid,
                "events": lambda each: _format_events(each.events),
                "tables": lambda each: ", ".join(each.tables),
                "statements": lambda each: ", ".join(each.statements),
            },
        )
        for note in notes:
            output.print_error(f"{connector}: {note}")
        output.print_lines("If that is what you want:", [f"  {command}"])

    output.print_result(output_format, document, draw)


def _list_offsets(pair: PartitionOffset, then: str) -> Iterator[str]:
    yield f"  partition  {pair.partition}"
    yield f"  now        {pair.offset}"
    yield f"  next       {then}"


def _encode(transaction: BinlogTransaction) -> dict[str, object]:
    return {
        "file": transaction.file,
        "start": transaction.start,
        "end": transaction.end,
        "gtid": transaction.gtid,
        "server_id": transaction.server_id,
        "bytes": transaction.bytes,
        "events": dict(transaction.events),
        "tables": list(transaction.tables),
        "statements": transaction.statements,
    }


def _format_events(events: Counter[str]) -> str:
    return f"{format_count(events.total(), 'event')}: " + ", ".join(
        f"{count} {kind}" for kind, count in sorted(events.items())
    )
