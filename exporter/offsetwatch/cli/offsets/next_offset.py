"""The verb `offsets next`: the offset after a Debezium connector's next transaction. Read-only."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets.execute import DENIED, OK, UNAUTHORISED
from offsetwatch.cli.offsets.offset_store import open_offset_store, require_connector
from offsetwatch.cli.offsets.store_options import OffsetStoreOptions, take_store_options
from offsetwatch.clients.databases.mysql import MysqlReader
from offsetwatch.clients.databases.postgresql import PostgresqlReader
from offsetwatch.clock import to_utc
from offsetwatch.decode.dialects import DEBEZIUM_MYSQL, DEBEZIUM_POSTGRES, find_own_dialect
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.errors import AccessDenied, ClientError, RemoteRefusal, TargetUnreachable
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import ConnectorSettings
from offsetwatch.model.source_ends import SourceEndRequest
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.state.sources.distances import format_wal_position
from offsetwatch.toolbox.next_commit import SlotTransaction, find_next_commit
from offsetwatch.toolbox.next_offset import BinlogTransaction, NextOffset, find_next_offset
from offsetwatch.toolbox.offset_shapes import parse_fields
from offsetwatch.toolbox.store.offset_store import OffsetStore, StateBeforeChange

_Found = NextOffset[BinlogTransaction] | NextOffset[SlotTransaction]


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
    require_connector(store, connector)
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
) -> tuple[str, _Found]:
    """Return the name of the source that was read, and the next offset."""
    source = store.sources.find(connector, settings)
    if isinstance(source, str):
        raise RemoteRefusal(connector, source, "name its database under sources: docs/sources.md")
    name, reader = source.name, store.sources.open(source)
    offset = parse_fields(pair.offset) or {}
    dialect = find_own_dialect(settings.class_name)
    if isinstance(reader, PostgresqlReader) and dialect == DEBEZIUM_POSTGRES.name:
        return name, find_next_commit(
            offset,
            reader.read(SourceEndRequest(name)),
            reader,
            settings.database,
            source=name,
            count=count,
            messages_max=events_max,
        )
    if isinstance(reader, MysqlReader) and dialect == DEBEZIUM_MYSQL.name:
        end = reader.read(SourceEndRequest(name))
        return name, find_next_offset(
            offset, end, reader, source=name, count=count, events_max=events_max
        )
    raise RemoteRefusal(
        connector,
        "the next offset is computed only of Debezium's MySQL, MariaDB and PostgreSQL connectors",
    )


def _print(
    connector: str,
    where: OffsetStoreOptions,
    source: str,
    pair: PartitionOffset,
    found: _Found,
    notes: tuple[str, ...],
    output_format: OutputFormat,
) -> None:
    then = encode_sorted(found.fields).decode()
    words = ("--partition", pair.partition, "--offset", then)
    command = (
        f"offsetwatch offsets alter {shlex.quote(connector)} {where.options} {shlex.join(words)}"
    )
    binlog = [each for each in found.transactions if isinstance(each, BinlogTransaction)]
    slot = [each for each in found.transactions if isinstance(each, SlotTransaction)]
    document = {
        "connector": connector,
        "source": source,
        "partition": msgspec.Raw(pair.partition.encode()),
        "now": msgspec.Raw((pair.offset or "null").encode()),
        "next": msgspec.Raw(then.encode()),
        **({"bytes": sum(each.bytes for each in binlog)} if binlog else {}),
        "passes_over": [_encode(each) for each in found.transactions],
        "notes": notes,
        "command": command,
    }

    def draw() -> None:
        output.print_lines(
            f"Next offset of {connector}, by source {source}", _list_offsets(pair, then)
        )
        if binlog:
            output.print_columns("Passes over", binlog, _BINLOG_COLUMNS)
        if slot:
            output.print_columns("Passes over", slot, _SLOT_COLUMNS)
        for note in notes:
            output.print_error(f"{connector}: {note}")
        output.print_lines("If that is what you want:", [f"  {command}"])

    output.print_result(output_format, document, draw)


def _list_offsets(pair: PartitionOffset, then: str) -> Iterator[str]:
    yield f"  partition  {pair.partition}"
    yield f"  now        {pair.offset}"
    yield f"  next       {then}"


def _encode(transaction: BinlogTransaction | SlotTransaction) -> dict[str, object]:
    if isinstance(transaction, SlotTransaction):
        return {
            "xid": transaction.xid,
            "start": transaction.begin,
            "end": transaction.end,
            "committed_at": to_utc(transaction.time_us / 1e6),
            "changes": dict(transaction.operations),
            "delivered": transaction.delivered,
            "tables": list(transaction.tables),
        }
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


def _format_counts(noun: str, counts: Counter[str]) -> str:
    return f"{format_count(counts.total(), noun)}: " + ", ".join(
        f"{count} {kind}" for kind, count in sorted(counts.items())
    )


_BINLOG_COLUMNS: Final[dict[str, Callable[[BinlogTransaction], object]]] = {
    "file": lambda each: each.file,
    "from": lambda each: each.start,
    "to": lambda each: each.end,
    "GTID": lambda each: each.gtid,
    "events": lambda each: _format_counts("event", each.events),
    "tables": lambda each: ", ".join(each.tables),
    "statements": lambda each: ", ".join(each.statements),
}
_SLOT_COLUMNS: Final[dict[str, Callable[[SlotTransaction], object]]] = {
    "xid": lambda each: each.xid,
    "from": lambda each: format_wal_position(each.begin),
    "to": lambda each: format_wal_position(each.end),
    "changes": lambda each: _format_counts("change", each.operations),
    "delivered": lambda each: each.delivered,
    "tables": lambda each: ", ".join(each.tables),
}
