"""The verbs `offsets export` and `diff`: offsets as tables, JSON, or against a document.

Results go to standard output, and notes to standard error.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.live_output import iterate_with_progress
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets.offset_rows import OffsetRow, parse_names
from offsetwatch.cli.offsets.offset_store import open_offset_store
from offsetwatch.cli.offsets.store_options import OffsetStoreOptions, take_store_options
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
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.change import Change, compute_differences
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


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """A document of offsets, and how to read it.

    document    its path; `-` or None for standard input
    connectors  only these, by their new names; None for all
    """

    document: Path | None
    connectors: frozenset[str] | None = None
    rename: tuple[tuple[str, str], ...] = ()
    rename_alias: tuple[tuple[str, str], ...] = ()

    @property
    def from_stdin(self) -> bool:
        """Return whether standard input has the document, so that nothing can be typed there."""
        return self.document is None or str(self.document) == "-"


def _parse_renames(
    option: str, key: tuple[str, ...], *, empty: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return pairs of old and new names; with `empty` one of the two may be empty."""
    renames: dict[str, str] = {}
    for text in key:
        old, equals, new = text.partition("=")
        nameless = not (old or new) if empty else not (old and new)
        if not equals or nameless or renames.setdefault(old, new) != new:
            raise click.UsageError(f"{option} {text}: OLD=NEW, each OLD once")
    return tuple(renames.items())


def take_document_options(options: dict[str, Any]) -> DocumentOptions:
    """Remove the options of a document from `options` and return them. Raises UsageError."""
    return DocumentOptions(
        document=options.pop("offsets", None),
        connectors=parse_names(options.pop("connectors", None)),
        rename=_parse_renames("--rename", options.pop("rename", ())),
        rename_alias=_parse_renames("--rename-alias", options.pop("rename_alias", ()), empty=True),
    )


def read_rows(
    where: OffsetStoreOptions,
    connectors: frozenset[str] | None,
    unread: list[ClientError],
    *,
    known: set[str] | None = None,
) -> Iterator[OffsetRow]:
    """Yield the offsets of a store.

    `known` receives the names of its connectors. None: the store was named, so it must have all
    requested connectors.
    """
    source = "storage" if where.worker_config is not None else "rest"
    with open_offset_store(where) as store:
        for name, pairs in _read_pairs(store, connectors, unread, known):
            settings = store.settings(name)
            sink = settings is not None and settings.kind is ConnectorKind.SINK
            for pair in pairs:
                yield OffsetRow(store.name, name, "sink" if sink else "source", pair, source)


def _read_pairs(
    store: OffsetStore,
    connectors: frozenset[str] | None,
    unread: list[ClientError],
    known: set[str] | None = None,
) -> Iterator[tuple[str, tuple[PartitionOffset, ...]]]:
    """Yield the pairs of each connector; name one that cannot be read, and continue.

    Raises ConfigError if one does not exist and `known` is None.
    """
    names = store.connectors()
    if known is not None:
        known.update(names)
    if connectors is not None:
        missing = sorted(connectors - set(names))
        if missing and known is None:
            raise ConfigError(
                tuple(
                    f"{store.name}: no connector {name} "
                    f"({suggest_name(name, names)}{explain_offsets_name(name)})"
                    for name in missing
                )
            )
        names = tuple(name for name in names if name in connectors)
    # A worker's storage is read once, with a bar of its own; elsewhere each name is a request.
    requests = not isinstance(store, WorkerOffsetStore)
    for name in iterate_with_progress("asking for offsets", names) if requests else names:
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
        output.print_error(f"{name}: not read: {output.format_client_error(exc)}")
        unread.append(exc)


# --- export --------------------------------------------------------------------------------------


def export_offsets(
    connectors: str | None, *, from_beginning: bool, into: Path | None, **options: Any
) -> int:
    """Print offsets as KIP-199 JSON; return the exit code."""
    where, names = take_store_options(options), parse_names(connectors)
    if from_beginning and where.connect is not None:
        raise click.UsageError(
            "--from-beginning: Connect returns only current offsets; its storage has the past: "
            "--worker-config"
        )
    unread: list[ClientError] = []
    with open_offset_store(where) as store:
        if from_beginning:
            text = format_kip199(_read_past_offsets(store, names))
        else:
            # Without partitions that have no offset: an import would remove those.
            exported_pairs = [
                (name, [pair for pair in pairs if pair.offset is not None])
                for name, pairs in _read_pairs(store, names, unread)
            ]
            if unread and not exported_pairs:
                raise unread[0]
            text = format_kip199(exported_pairs)
    if into is None:
        sys.stdout.write(text)
    else:
        _write_file(into, text)
    return UNREAD if unread else OK


def _read_past_offsets(
    store: OffsetStore, connectors: frozenset[str] | None
) -> list[tuple[str, list[PartitionOffset]]]:
    past_offsets: dict[str, list[PartitionOffset]] = {}
    try:
        for record in store.from_beginning(connectors):
            past_offsets.setdefault(record.connector, []).append(record.pair)
    except AccessDenied:
        raise
    except RemoteRefusal as exc:
        raise ConfigError((f"--from-beginning: {exc}",)) from exc
    return sorted(past_offsets.items())


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
    name = "standard input" if options.from_stdin else str(options.document)
    document = parse_document(raw, name=name, patch_of=patch_of)
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


def compare_offsets(*, output_format: OutputFormat, **options: Any) -> int:
    """Compare a document with the current offsets; return the exit code."""
    where, source = take_store_options(options), take_document_options(options)
    if source.document is None:
        raise click.UsageError("--offsets is missing: the document, or -")
    document = read_document(source)
    changed: list[tuple[str, Change]] = []
    unread: list[ClientError] = []
    with open_offset_store(where) as store:
        for section in document.sections:
            name = section.connector
            with _report_failure(name, unread):
                now, known = _read_current_pairs(store, name), store.settings(name)
                class_name = "" if known is None else known.class_name
                changes = compute_differences(now, section.pairs, class_name)
                changed += ((name, change) for change in changes)
    if unread and len(unread) == len(document.sections):
        raise unread[0]
    if output_format is not OutputFormat.TABLE:
        output.print_document(
            output_format,
            [
                {
                    "connector": name,
                    "partition": msgspec.Raw(change.partition.encode()),
                    "now": msgspec.Raw((change.before or "null").encode()),
                    "document": msgspec.Raw((change.after or "null").encode()),
                    "change": change.kind.value,
                }
                for name, change in changed
            ],
        )
    elif changed:
        print_changes("Differences", changed, after="document")
    else:
        output.print_error("no differences in what could be read" if unread else "no differences")
    if changed:
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
    if change.distance is not None:
        return f"{change.distance:+d}"
    words = {Order.AHEAD: "forward", Order.BEHIND: "back"}
    return words.get(change.order or Order.UNORDERED, change.kind.value)
