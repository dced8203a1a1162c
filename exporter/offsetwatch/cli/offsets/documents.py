"""The verbs `offsets list`, `export` and `diff`: offsets as tables, JSON, or against a document.

Results go to standard output, and notes to standard error.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.progress_bar import iterate_with_progress
from offsetwatch.cli.offsets.arguments import DocumentOptions, OffsetStoreOptions
from offsetwatch.cli.offsets.open_store import open_offset_store
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    ConfigError,
    NotFound,
    RemoteRefusal,
    TargetUnreachable,
)
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.offsets import Order
from offsetwatch.remedy.engine.requests import build_offset_entry
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.change import Change, OffsetChangeKind, compute_differences
from offsetwatch.toolbox.documents import (
    OffsetsDocument,
    format_kip199,
    parse_document,
    rename_document,
)
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.store.worker_storage import WorkerOffsetStore
from offsetwatch.toolbox.suggestions import explain_offsets_name, suggest_name

OK, DIFFERS, UNREAD = 0, 1, 1
ROWS_MAX: Final = 1000  # of a table that a person is to read; drawing more takes seconds
DOCUMENT_BYTES_MAX: Final = 256 * 1024 * 1024  # a million partitions; a mistaken path is longer


class OffsetRow(NamedTuple):
    """An offset of a connector.

    kind      source or sink
    source    the input that it was read from: storage, rest, topic or group
    """

    place: str
    connector: str
    kind: str
    pair: PartitionOffset
    source: str


def print_offsets(
    where: OffsetStoreOptions, connectors: frozenset[str] | None, *, output_format: OutputFormat
) -> int:
    """Print the offsets that tasks would receive now from one store.

    Exit code 1 if some of them could not be read.
    """
    unread: list[ClientError] = []
    rows = [*read_rows(where, connectors, unread)]
    if unread and not rows:
        raise unread[0]
    print_rows(rows, "", output_format=output_format)
    return UNREAD if unread else OK


def print_rows(rows: list[OffsetRow], by: str, *, output_format: OutputFormat) -> None:
    """Print the offsets as a table, or as a document by store."""
    if output_format is not OutputFormat.TABLE:
        output.print_document(output_format, _group_by_store(rows))
        return
    output.print_table(
        f"Offsets, by {by}" if by else "Offsets",
        ("cluster", "connector", "kind", "partition", "offset", "from"),
        (
            (row.place, row.connector, row.kind, row.pair.partition, row.pair.offset, row.source)
            for row in rows
        ),
    )


def read_rows(
    where: OffsetStoreOptions,
    connectors: frozenset[str] | None,
    unread: list[ClientError],
    *,
    alone: bool = True,
) -> Iterator[OffsetRow]:
    """Yield the offsets of a store.

    `alone`: the store was named, so it must have all requested connectors.
    """
    source = "storage" if where.worker_config is not None else "rest"
    with open_offset_store(where) as store:
        names = (
            choose_connectors(store, connectors) if alone else _list_connectors(store, connectors)
        )
        for name, pairs in _read_pairs(store, names, unread):
            kind = _find_kind(store, name)
            for pair in pairs:
                yield OffsetRow(store.name, name, kind, pair, source)


def _read_pairs(
    store: OffsetStore, names: Iterable[str], unread: list[ClientError]
) -> Iterator[tuple[str, tuple[PartitionOffset, ...]]]:
    """Yield the pairs of each connector; name one that cannot be read, and continue."""
    for name in _iterate_names(store, names):
        with _report_failure(name, unread):
            pairs, notes = store.pairs(name), store.notes(name)
            yield name, pairs
            for note in notes:
                output.print_error(f"{name}: {note}")


@contextmanager
def _report_failure(name: str, unread: list[ClientError]) -> Iterator[None]:
    """Report a connector whose offsets cannot be read inside the block, and continue.

    Raises TargetUnreachable, which is not about one connector.
    """
    try:
        yield
    except TargetUnreachable:
        raise
    except ClientError as exc:
        _print_unread(f"{name}: not read: {output.format_client_error(exc)}", exc, unread)


def _print_unread(said: str, error: ClientError, unread: list[ClientError]) -> None:
    output.print_error(said)
    unread.append(error)


def _iterate_names(store: OffsetStore, names: Iterable[str]) -> Iterator[str]:
    """Yield the names, with a progress bar if each of them is a request.

    A worker's storage is read once, with a bar of its own.
    """
    if isinstance(store, WorkerOffsetStore):
        return iter(tuple(names))
    return iterate_with_progress("asking for offsets", names)


def _find_kind(store: OffsetStore, connector: str) -> str:
    known = store.settings(connector)
    sink = known is not None and known.kind is ConnectorKind.SINK
    return "sink" if sink else "source"


def _group_by_store(
    rows: Iterable[OffsetRow],
) -> dict[str, dict[str, list[dict[str, msgspec.Raw]]]]:
    """Return store -> connector -> entries, which have the form of KIP-199."""
    found: dict[str, dict[str, list[dict[str, msgspec.Raw]]]] = {}
    for row in rows:
        entries = found.setdefault(row.place, {}).setdefault(row.connector, [])
        entries.append(build_offset_entry(row.pair.partition, row.pair.offset, row.pair.key))
    return found


def choose_connectors(store: OffsetStore, wanted: Collection[str] | None) -> tuple[str, ...]:
    """Return the wanted connectors of a store. Raises ConfigError if one does not exist."""
    there = store.connectors()
    if wanted is None:
        return there
    missing = sorted(set(wanted) - set(there))
    if missing:
        raise ConfigError(
            tuple(_describe_unknown_connector(store, name, there) for name in missing)
        )
    return tuple(name for name in there if name in wanted)


def _list_connectors(store: OffsetStore, wanted: frozenset[str] | None) -> tuple[str, ...]:
    return tuple(name for name in store.connectors() if wanted is None or name in wanted)


def _describe_unknown_connector(store: OffsetStore, name: str, there: tuple[str, ...]) -> str:
    return (
        f"{store.name}: no connector {name} "
        f"({suggest_name(name, there)}{explain_offsets_name(name)})"
    )


# --- export --------------------------------------------------------------------------------------


def export_offsets(
    where: OffsetStoreOptions,
    connectors: frozenset[str] | None,
    *,
    from_beginning: bool,
    into: Path | None,
) -> int:
    """Write the current offsets, or all past ones that can still be read, as KIP-199 JSON.

    Exit code 1 if a connector could not be read: it is named, and is not in the document.
    """
    unread: list[ClientError] = []
    with open_offset_store(where) as store:
        if from_beginning:
            text = format_kip199(_read_past_offsets(store, connectors).items())
        else:
            found = _read_present_offsets(store, choose_connectors(store, connectors), unread)
            if unread and not found:
                raise unread[0]
            text = format_kip199(found)
    if into is None:
        sys.stdout.write(text)
    else:
        _write_file(into, text)
    return UNREAD if unread else OK


def _read_present_offsets(
    store: OffsetStore, names: tuple[str, ...], unread: list[ClientError]
) -> list[tuple[str, list[PartitionOffset]]]:
    """Return the offsets without partitions that have none: an import would remove those."""
    return [
        (name, [pair for pair in pairs if pair.offset is not None])
        for name, pairs in _read_pairs(store, names, unread)
    ]


def _read_past_offsets(
    store: OffsetStore, connectors: frozenset[str] | None
) -> dict[str, list[PartitionOffset]]:
    found: dict[str, list[PartitionOffset]] = {}
    try:
        for record in store.from_beginning(connectors):
            found.setdefault(record.connector, []).append(record.pair)
    except AccessDenied:
        raise
    except RemoteRefusal as exc:
        raise ConfigError((f"--from-beginning: {exc}",)) from exc
    return dict(sorted(found.items()))


def _write_file(path: Path, text: str) -> None:
    """Write the file atomically: it is replaced once the new content is complete."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise ConfigError((f"--output: {path}: {exc.strerror}",)) from exc


# --- documents -----------------------------------------------------------------------------------


def read_document(options: DocumentOptions, *, patch_of: str | None = None) -> OffsetsDocument:
    """Return the document with its renames applied. Raises ConfigError with all its mistakes."""
    raw = _read_raw_document(options)
    document = parse_document(raw, patch_of=patch_of)
    if isinstance(document, OffsetsDocument):
        document = rename_document(document, dict(options.rename), dict(options.rename_alias))
    if not isinstance(document, OffsetsDocument):
        raise ConfigError(tuple(str(problem) for problem in document))
    return document


def _read_raw_document(options: DocumentOptions) -> bytes:
    try:
        if options.from_stdin:
            raw = sys.stdin.buffer.read(DOCUMENT_BYTES_MAX + 1)
        else:
            assert options.document is not None  # else it is standard input
            with options.document.open("rb") as file:
                raw = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as exc:
        raise ConfigError((f"--offsets: {options.document}: {exc.strerror}",)) from exc
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise ConfigError((f"--offsets: longer than {DOCUMENT_BYTES_MAX} bytes",))
    return raw


def print_diff(
    where: OffsetStoreOptions, options: DocumentOptions, *, output_format: OutputFormat
) -> int:
    """Print the differences between current offsets and a document, for the document's connectors.

    Exit code 1 if something differs, or if a connector could not be read: it is named and not
    compared.
    """
    document = read_document(options)
    found: list[tuple[str, Change]] = []
    unread: list[ClientError] = []
    with open_offset_store(where) as store:
        for section in document.sections:
            name = section.connector
            with _report_failure(name, unread):
                now, known = _read_current_pairs(store, name), store.settings(name)
                class_name = "" if known is None else known.class_name
                found += (
                    (name, difference)
                    for difference in compute_differences(now, section.pairs, class_name)
                )
    if unread and len(unread) == len(document.sections):
        raise unread[0]
    if output_format is not OutputFormat.TABLE:
        output.print_document(
            output_format, [_build_change_document(name, change) for name, change in found]
        )
    elif found:
        print_changes("Differences", found, after="document")
    else:
        output.print_error("no differences in what could be read" if unread else "no differences")
    if found:
        return DIFFERS
    return UNREAD if unread else OK


def _read_current_pairs(store: OffsetStore, connector: str) -> tuple[PartitionOffset, ...]:
    try:
        return store.pairs(connector)
    except NotFound:
        output.print_error(
            f"{store.name}: no connector {connector}{explain_offsets_name(connector)}"
        )
        return ()


def _build_change_document(connector: str, change: Change) -> dict[str, object]:
    return {
        "connector": connector,
        "partition": msgspec.Raw(change.partition.encode()),
        "now": msgspec.Raw((change.before or "null").encode()),
        "document": msgspec.Raw((change.after or "null").encode()),
        "change": change.kind.value,
    }


def print_changes(title: str, changes: Iterable[tuple[str, Change]], *, after: str) -> None:
    """Print a table of changes, with their distance if it is a number."""
    listed = [*changes]
    counted = Counter(change.kind.value for _, change in listed)
    sums = ", ".join(f"{count} {kind}" for kind, count in sorted(counted.items()))
    output.print_table(
        f"{title}: {sums}" if sums else title,
        ("connector", "partition", "now", after, "change"),
        (
            (name, change.partition, change.before, change.after, _describe_change(change))
            for name, change in listed[:ROWS_MAX]
        ),
    )
    if len(listed) > ROWS_MAX:
        output.print_error(
            f"{len(listed) - ROWS_MAX} more are not shown; `offsets diff --json` has all"
        )


def _describe_change(change: Change) -> str:
    if change.kind is not OffsetChangeKind.CHANGED:
        return change.kind.value
    if change.distance is not None:
        return f"{change.distance:+d}"
    return {Order.AHEAD: "forward", Order.BEHIND: "back"}.get(
        change.order or Order.UNORDERED, change.kind.value
    )
