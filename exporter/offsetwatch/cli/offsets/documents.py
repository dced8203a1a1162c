"""`offsets list`, `export` and `diff`: what is there, as tables, as JSON, or against a document.

What is asked for goes to standard output, and all there is to say about it to standard error.
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
from offsetwatch.cli.common.progress_bar import each
from offsetwatch.cli.offsets.arguments import Wanted, Where
from offsetwatch.cli.offsets.open_store import way_of
from offsetwatch.errors import ClientError, ConfigError, Denied, NotFound, Refused, Unreachable
from offsetwatch.model.connectors import Connector, ConnectorKind, ConnectorSettings
from offsetwatch.model.offsets import Order
from offsetwatch.remedy.engine.requests import entry_of
from offsetwatch.remedy.model.plan import Pair
from offsetwatch.toolbox.differences import Change, Kind, between
from offsetwatch.toolbox.documents import Document, kip199, parse
from offsetwatch.toolbox.rename import rename
from offsetwatch.toolbox.store.reader import Place
from offsetwatch.toolbox.store.rest import RestPlace
from offsetwatch.toolbox.store.strimzi import StrimziPlace
from offsetwatch.toolbox.store.worker_storage import StoragePlace
from offsetwatch.toolbox.suggestions import body_hint, suggestion

OK, DIFFERS, UNREAD = 0, 1, 1
ROWS_MAX: Final = 1000  # of a table that a person is to read; drawing more takes seconds
DOCUMENT_BYTES_MAX: Final = 256 * 1024 * 1024  # a million partitions; a mistaken path is longer


class Row(NamedTuple):
    """An offset of a connector; kind is source or sink, source is what told it."""

    place: str
    connector: str
    kind: str
    pair: Pair
    source: str


def show(where: Where, connectors: frozenset[str] | None, *, output_format: OutputFormat) -> int:
    """What a task would be handed now, by one place. Exit code 1 where some of it could not be
    read.
    """
    unread: list[ClientError] = []
    rows = [*rows_of(where, connectors, unread)]
    if unread and not rows:
        raise unread[0]
    print_rows(rows, "", output_format=output_format)
    return UNREAD if unread else OK


def print_rows(rows: list[Row], by: str, *, output_format: OutputFormat) -> None:
    """As a table, or as JSON by place."""
    if output_format is not OutputFormat.TABLE:
        output.document(output_format, _by_place(rows))
        return
    output.table(
        f"Offsets, by {by}" if by else "Offsets",
        ("cluster", "connector", "kind", "partition", "offset", "from"),
        (
            (at.place, at.connector, at.kind, at.pair.partition, at.pair.offset, at.source)
            for at in rows
        ),
    )


def rows_of(
    where: Where,
    connectors: frozenset[str] | None,
    unread: list[ClientError],
    *,
    alone: bool = True,
) -> Iterator[Row]:
    """Yield what a place tells. alone: it was named, so it must have all connectors."""
    source = "storage" if where.worker_config is not None else "rest"
    with way_of(where) as way:
        place = way.place
        names = chosen(place, connectors) if alone else _known(place, connectors)
        for name, pairs in _read(place, names, unread):
            kind = _kind(place, name)
            for pair in pairs:
                yield Row(place.name, name, kind, pair, source)


def _read(
    place: Place, names: Iterable[str], unread: list[ClientError]
) -> Iterator[tuple[str, tuple[Pair, ...]]]:
    """The pairs of each connector. One that cannot be read is named, and the others are read."""
    for name in _one_by_one(place, names):
        with _named(name, unread):
            pairs, notes = place.pairs(name), place.notes(name)
            yield name, pairs
            for note in notes:
                output.error(f"{name}: {note}")


@contextmanager
def _named(name: str, unread: list[ClientError]) -> Iterator[None]:
    """Name a connector whose reading fails inside, and go on. Raises Unreachable, which is not
    about one connector.
    """
    try:
        yield
    except Unreachable:
        raise
    except ClientError as exc:
        _tell(f"{name}: not read: {output.client_text(exc)}", exc, unread)


def _tell(said: str, error: ClientError, unread: list[ClientError]) -> None:
    output.error(said)
    unread.append(error)


def _one_by_one(place: Place, names: Iterable[str]) -> Iterator[str]:
    """Over REST each connector is asked for; a storage is read once, with a bar of its own."""
    rest = isinstance(place, RestPlace | StrimziPlace)
    return each("asking for offsets", names) if rest else iter(tuple(names))


def _settings(place: Place, connector: str) -> Connector | ConnectorSettings | None:
    if isinstance(place, RestPlace):
        return place.connector(connector)
    if isinstance(place, StrimziPlace | StoragePlace):
        return place.settings(connector)
    return None


def _class_of(place: Place, connector: str) -> str:
    """Return the class of a connector, "" where nothing tells: it says what its offsets mean."""
    known = _settings(place, connector)
    return "" if known is None else known.class_name


def _kind(place: Place, connector: str) -> str:
    known = _settings(place, connector)
    sink = known is not None and known.kind is ConnectorKind.SINK
    return "sink" if sink else "source"


def _by_place(rows: Iterable[Row]) -> dict[str, dict[str, list[dict[str, msgspec.Raw]]]]:
    """Place -> connector -> entries, the inner part as KIP-199."""
    found: dict[str, dict[str, list[dict[str, msgspec.Raw]]]] = {}
    for at in rows:
        entries = found.setdefault(at.place, {}).setdefault(at.connector, [])
        entries.append(entry_of(at.pair.partition, at.pair.offset, at.pair.key))
    return found


def chosen(place: Place, wanted: Collection[str] | None) -> tuple[str, ...]:
    """The connectors of a place that are wanted. Raises ConfigError for one that is not there."""
    there = place.connectors()
    if wanted is None:
        return there
    missing = sorted(set(wanted) - set(there))
    if missing:
        raise ConfigError(tuple(_not_there(place, name, there) for name in missing))
    return tuple(name for name in there if name in wanted)


def _known(place: Place, wanted: frozenset[str] | None) -> tuple[str, ...]:
    return tuple(name for name in place.connectors() if wanted is None or name in wanted)


def _not_there(place: Place, name: str, there: tuple[str, ...]) -> str:
    return f"{place.name}: no connector {name} ({suggestion(name, there)}{body_hint(name)})"


# --- export --------------------------------------------------------------------------------------


def export(
    where: Where,
    connectors: frozenset[str] | None,
    *,
    from_beginning: bool,
    into: Path | None,
) -> int:
    """KIP-199 JSON of what is there, or of all that ever was and still can be read. Exit code 1
    where a connector could not be read: it is named, and is not in the document.
    """
    unread: list[ClientError] = []
    with way_of(where) as way:
        if from_beginning:
            text = kip199(_past(way.place, connectors).items())
        else:
            found = _present(way.place, chosen(way.place, connectors), unread)
            if unread and not found:
                raise unread[0]
            text = kip199(found)
    if into is None:
        sys.stdout.write(text)
    else:
        _write(into, text)
    return UNREAD if unread else OK


def _present(
    place: Place, names: tuple[str, ...], unread: list[ClientError]
) -> list[tuple[str, list[Pair]]]:
    """Without partitions that have no offset: put back, they would be removed."""
    return [
        (name, [pair for pair in pairs if pair.offset is not None])
        for name, pairs in _read(place, names, unread)
    ]


def _past(place: Place, connectors: frozenset[str] | None) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    try:
        for record in place.from_beginning(connectors):
            found.setdefault(record.connector, []).append(record.pair)
    except Denied:
        raise
    except Refused as exc:
        raise ConfigError((f"--from-beginning: {exc}",)) from exc
    return dict(sorted(found.items()))


def _write(path: Path, text: str) -> None:
    """The file is there when it is complete, and as it was before."""
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


def read_document(wanted: Wanted, *, patch_of: str | None = None) -> Document:
    """The document, with its new names. Raises ConfigError with all that is wrong with it."""
    raw = _raw(wanted)
    document = parse(raw, patch_of=patch_of)
    if isinstance(document, Document):
        document = rename(document, dict(wanted.rename), dict(wanted.rename_alias))
    if not isinstance(document, Document):
        raise ConfigError(tuple(str(problem) for problem in document))
    return document


def _raw(wanted: Wanted) -> bytes:
    try:
        if wanted.from_stdin:
            raw = sys.stdin.buffer.read(DOCUMENT_BYTES_MAX + 1)
        else:
            assert wanted.document is not None  # else it is standard input
            with wanted.document.open("rb") as file:
                raw = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as exc:
        raise ConfigError((f"--offsets: {wanted.document}: {exc.strerror}",)) from exc
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise ConfigError((f"--offsets: longer than {DOCUMENT_BYTES_MAX} bytes",))
    return raw


def diff(where: Where, wanted: Wanted, *, output_format: OutputFormat) -> int:
    """Compare what is there with a document, of the connectors that it names. Exit code 1 where
    something differs, or where a connector could not be read: it is named and not compared.
    """
    document = read_document(wanted)
    found: list[tuple[str, Change]] = []
    unread: list[ClientError] = []
    with way_of(where) as way:
        for section in document.sections:
            name = section.connector
            with _named(name, unread):
                now, class_name = _now(way.place, name), _class_of(way.place, name)
                found += ((name, at) for at in between(now, section.pairs, class_name))
    if unread and len(unread) == len(document.sections):
        raise unread[0]
    if output_format is not OutputFormat.TABLE:
        output.document(output_format, [_change_json(name, change) for name, change in found])
    elif found:
        print_changes("Differences", found, after="document")
    else:
        output.error("no differences in what could be read" if unread else "no differences")
    if found:
        return DIFFERS
    return UNREAD if unread else OK


def _now(place: Place, connector: str) -> tuple[Pair, ...]:
    try:
        return place.pairs(connector)
    except NotFound:
        output.error(f"{place.name}: no connector {connector}{body_hint(connector)}")
        return ()


def _change_json(connector: str, change: Change) -> dict[str, object]:
    return {
        "connector": connector,
        "partition": msgspec.Raw(change.partition.encode()),
        "now": msgspec.Raw((change.before or "null").encode()),
        "document": msgspec.Raw((change.after or "null").encode()),
        "change": change.kind.value,
    }


def print_changes(title: str, changes: Iterable[tuple[str, Change]], *, after: str) -> None:
    """A table of what differs, and how far it lies apart where that is a number."""
    listed = [*changes]
    counted = Counter(change.kind.value for _, change in listed)
    sums = ", ".join(f"{count} {kind}" for kind, count in sorted(counted.items()))
    output.table(
        f"{title}: {sums}" if sums else title,
        ("connector", "partition", "now", after, "change"),
        (
            (name, change.partition, change.before, change.after, _in_words(change))
            for name, change in listed[:ROWS_MAX]
        ),
    )
    if len(listed) > ROWS_MAX:
        output.error(f"{len(listed) - ROWS_MAX} more are not shown; `offsets diff --json` has all")


def _in_words(change: Change) -> str:
    if change.kind is not Kind.CHANGED:
        return change.kind.value
    if change.distance is not None:
        return f"{change.distance:+d}"
    return {Order.AHEAD: "forward", Order.BEHIND: "back"}.get(
        change.order or Order.UNORDERED, change.kind.value
    )
