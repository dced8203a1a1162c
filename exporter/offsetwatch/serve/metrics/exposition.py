"""The exposition of metric families: the format that a client accepts, its text, and its bodies.

The encoder replaces prometheus-client's writer, which formats every label of every series at each
scrape: at 100,000 series that takes the better part of a second. Here `{labels} ` is formatted once
for all families with the same rows, and kept while the rows stay the same. `python -m bench.render`
measures both.

An Encoder may be used by one thread at a time; serve/http/read_listener.py renders on a single
worker thread.
"""

from __future__ import annotations

import asyncio
import math
import re
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from typing import Final

import msgspec
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from prometheus_client import ProcessCollector

from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus, collect_families
from offsetwatch.serve.metrics.metric import Family, LabelColumns, LabelRows, Labels, MetricSpec
from offsetwatch.state.snapshot import Snapshot

RANGES_MAX = 64  # media ranges looked at; Prometheus sends five, browsers up to ten

# Names and labels of ours need no escaping, so these schemes all leave them as they are and may be
# promised. `dots` would double every underscore; who asks for it gets the fallback.
_SUPPORTED_ESCAPING = frozenset({"allow-utf-8", "underscores", "values"})
_ESCAPING_FALLBACK = "underscores"

_QUALITY = re.compile(r"0(\.\d*)?|1(\.0*)?")


@dataclass(frozen=True, slots=True)
class Format:
    """Format of the exposition."""

    media: str
    version: str
    escaping: bool

    @property
    def openmetrics(self) -> bool:
        """Check for OpenMetrics.

        It differs in counter family names, help escaping and the end marker.
        """
        return self.media == "application/openmetrics-text"


TEXT_0_0_4 = Format(media="text/plain", version="0.0.4", escaping=False)
TEXT_1_0_0 = Format(media="text/plain", version="1.0.0", escaping=True)
OPENMETRICS_1_0_0 = Format(media="application/openmetrics-text", version="1.0.0", escaping=True)
OPENMETRICS_0_0_1 = Format(media="application/openmetrics-text", version="0.0.1", escaping=False)

# Best first, all else equal.
FORMATS = (TEXT_0_0_4, TEXT_1_0_0, OPENMETRICS_1_0_0, OPENMETRICS_0_0_1)


@dataclass(frozen=True, slots=True)
class Choice:
    """Chosen format, and its Content-Type header."""

    format: Format
    content_type: str


@dataclass(frozen=True, slots=True)
class _Range:
    """Entry of an Accept header."""

    media: str
    parameters: dict[str, str]
    quality: float

    def specificity(self, offer: Format) -> int:
        """Return how closely this entry names the format.

        0 is not at all, 1 `*/*`, 2 `type/*`, 3 the media type, 4 media type and version.
        """
        version = self.parameters.get("version")
        if version is not None and version != offer.version:
            return 0
        if self.media == offer.media:
            return 3 if version is None else 4
        if self.media == offer.media.split("/")[0] + "/*":
            return 2
        return int(self.media == "*/*")


def choose_format(accept: str) -> Choice:
    """Return the format with the highest quality.

    Stricter than prometheus-client's chooser on purpose: quality values count, and a version that
    is not written is never echoed back. (Prometheus marks a target down that claims OpenMetrics
    2.0.0 and sends 1.0 lines.) A client that accepts none of the formats still gets text 0.0.4, as
    the protocol demands.

    At a tie a named format precedes one that only a wildcard covers; then the order of the header
    decides.
    """
    ranges = _parse_ranges(accept)
    best: tuple[float, bool, int] | None = None
    chosen, chosen_range = TEXT_0_0_4, None
    for offer in FORMATS:
        matches = [
            (media_range.specificity(offer), media_range.quality, -n)
            for n, media_range in enumerate(ranges)
        ]
        closest, quality, order = max(matches, default=(0, 0.0, 0))
        rank = (quality, closest >= 3, order)
        if closest > 0 and quality > 0 and (best is None or rank > best):
            best, chosen, chosen_range = rank, offer, ranges[-order]
    return Choice(format=chosen, content_type=_format_content_type(chosen, chosen_range))


def is_gzip_accepted(accept_encoding: str) -> bool:
    """Check whether the client accepts gzip: by name, or by a wildcard if it is not named."""
    qualities = {coding.media: coding.quality for coding in _parse_ranges(accept_encoding)}
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


def _format_content_type(chosen: Format, media_range: _Range | None) -> str:
    text = f"{chosen.media}; version={chosen.version}; charset=utf-8"
    if not chosen.escaping:
        return text
    scheme = media_range.parameters.get("escaping", "") if media_range is not None else ""
    return f"{text}; escaping={scheme if scheme in _SUPPORTED_ESCAPING else _ESCAPING_FALLBACK}"


def _parse_ranges(header: str) -> list[_Range]:
    ranges = []
    for entry in header.split(",", RANGES_MAX)[:RANGES_MAX]:
        media, *rest = (part.strip() for part in entry.lower().split(";"))
        parameters = {}
        for parameter in rest:
            name, _, value = parameter.partition("=")
            parameters[name.strip()] = value.strip().strip('"')
        ranges.append(_Range(media, parameters, _parse_quality(parameters.get("q"))))
    return ranges


def _parse_quality(text: str | None) -> float:
    """Return the quality: 1 if there is none, 0 if it is invalid, which counts as a refusal."""
    if text is None:
        return 1.0
    return float(text) if _QUALITY.fullmatch(text) else 0.0


LINES_AT_ONCE: Final = 1_000  # what they are made of is small enough to be taken up again

_TOTAL = "_total"
_NON_FINITE = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}

# A lone surrogate cannot be written as UTF-8, and one odd string must not cost the whole scrape.
_TO_ESCAPE = re.compile(r'[\\"\n\ud800-\udfff]')
_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n"}


@dataclass(frozen=True, slots=True)
class _FormattedRows:
    """Label sets and their formatted text, shared by all families with the same rows.

    labels      the label sets as they were given, to compare them at the next render
    texts       `{labels} ` for each of them
    first       None, or for each label set whether its text is the first of its kind: two different
                source partitions may print the same label, and one series must not appear twice
    """

    labels: LabelRows
    texts: list[str]
    first: list[bool] | None

    @property
    def line_count(self) -> int:
        """Return the number of lines."""
        return len(self.texts) if self.first is None else sum(self.first)


class Encoder:
    """Encoder of metric families as sample lines.

    It caches exactly the rows of the last render, by the name of the family, with their label
    names.
    """

    def __init__(self) -> None:
        self._rows: dict[str, tuple[tuple[str, ...], _FormattedRows]] = {}

    def series(self) -> int:
        """Return the number of lines whose labels are cached."""
        return sum(rows.line_count for _, rows in self._rows.values())

    def bodies(self, families: Iterable[Family]) -> Iterator[tuple[MetricSpec, Iterator[bytes]]]:
        """Yield each family that has rows with its sample lines, the same in every format."""
        # By what gave them; it is kept, or another one could have its id.
        formatted: dict[tuple[int, tuple[str, ...]], tuple[LabelRows, _FormattedRows]] = {}
        known: dict[tuple[str, ...], _LabelTextCache] = {}
        for family in families:
            name, names = family.spec.name, family.spec.labels
            _, last = self._rows.get(name, (names, None))
            if (id(family.labels), names) in formatted:
                _, rows = formatted[id(family.labels), names]
            elif last is not None and last.labels == family.labels:
                rows = last
            else:
                if names not in known:
                    known[names] = _LabelTextCache(self._last(names))
                written = known[names].texts(names, family.labels)
                rows = _FormattedRows(family.labels, written, _mark_first_rows(written))
            formatted[id(family.labels), names] = (family.labels, rows)
            self._rows[name] = (names, rows)
            if rows.labels:
                yield family.spec, _encode_lines(name, rows, family.numbers)

    def _last(self, names: tuple[str, ...]) -> list[_FormattedRows]:
        """Return the rows of the last render with these label names."""
        last = {id(rows): rows for key, rows in self._rows.values() if key == names}
        return list(last.values())


class _LabelTextCache:
    """Cache of the formatted label sets of the last render.

    Rows are indexed one by one only when a label set is looked up: a first render never does that.
    """

    def __init__(self, last: list[_FormattedRows]) -> None:
        self._whole: list[tuple[LabelRows, list[str]]] = [
            (formatted_rows.labels, formatted_rows.texts) for formatted_rows in last
        ]
        self._texts: dict[Labels, str] = {}

    def texts(self, names: tuple[str, ...], rows: LabelRows) -> list[str]:
        """Return `{labels} ` of each row, and cache them."""
        for labels, texts in self._whole:
            self._texts.update(zip(labels, texts, strict=True))
        self._whole.clear()
        if not self._texts:
            written = _format_labels(names, rows)
            self._whole.append((rows, written))
            return written
        rows_of_texts = list(rows)
        new = [key for key in rows_of_texts if key not in self._texts]
        self._texts.update(zip(new, _format_labels(names, new), strict=True))
        return list(map(self._texts.__getitem__, rows_of_texts))


class Exposition:
    """Exposition of a snapshot and of our own process: the body of `/metrics`."""

    def __init__(self, build: BuildInfo, reloaded: Callable[[], ConfigReloadStatus]) -> None:
        self._build = build
        self._reloaded = reloaded
        self._encoder = Encoder()
        self._process = ProcessCollector(registry=None)

    def series(self) -> int:
        """Return the number of series that the last render left in the cache."""
        return self._encoder.series()

    def render(
        self, snapshot: Snapshot, form: Format, names: frozenset[str] = frozenset()
    ) -> bytes:
        """Return the body. `names` restricts it to these metrics; empty means all."""
        return b"".join(self.parts(snapshot, form, names))

    def parts(
        self, snapshot: Snapshot, form: Format, names: frozenset[str] = frozenset()
    ) -> Iterator[bytes]:
        """Yield the body part by part.

        The body of a million series has 160 MB, which need not exist before it is compressed.
        """
        for spec, lines in self._encoder.bodies(self._families(snapshot, form, names)):
            yield _format_header(spec, form)
            yield from lines
        if form.openmetrics:
            yield b"# EOF\n"

    def _families(
        self, snapshot: Snapshot, form: Format, names: frozenset[str]
    ) -> Iterator[Family]:
        def is_requested(spec: MetricSpec) -> bool:
            return not names or spec.name in names or _family_name_of(spec, form) in names

        yield from collect_families(snapshot, self._build, self._reloaded(), is_requested)
        for family in collect_process_families(self._process):
            if is_requested(family.spec):
                yield family


def collect_process_families(process: ProcessCollector) -> Iterator[Family]:
    """Yield `process_*` of our own process; nothing if the system has no /proc."""
    for metric in process.collect():
        counter = metric.type == "counter"
        spec = MetricSpec(
            name=metric.name + _TOTAL if counter else metric.name,
            kind="counter" if counter else "gauge",
            help=metric.documentation,
            labels=(),
        )
        numbers = [sample.value for sample in metric.samples]
        yield Family(spec, [()] * len(numbers), numbers)


def _mark_first_rows(texts: list[str]) -> list[bool] | None:
    if len(set(texts)) == len(texts):
        return None
    first_at: dict[str, int] = {}
    for row, text in enumerate(texts):
        first_at.setdefault(text, row)
    return [first_at[text] == row for row, text in enumerate(texts)]


def _format_labels(names: tuple[str, ...], rows: LabelRows) -> list[str]:
    """Return `{labels} ` of each row.

    Strings are joined, as formatting takes three times as long. They are joined label by label, as
    a million tuples kept the garbage collector busy.
    """
    if not names or not rows:
        return [" "] * len(rows)
    columns = rows.columns if isinstance(rows, LabelColumns) else list(zip(*rows, strict=True))
    parts: list[Iterable[str]] = []
    for number, (name, values) in enumerate(zip(names, columns, strict=True)):
        parts += (repeat(f'",{name}="' if number else f'{{{name}="'), _escape_values(values))
    return list(map("".join, zip(*parts, repeat('"} '), strict=False)))


def _escape_values(values: Sequence[str]) -> Sequence[str]:
    """Return the values of one label, escaped. Seldom is there anything to escape."""
    if not _has_to_escape("".join(set(values))):
        return values
    return [_TO_ESCAPE.sub(_escape_character, value) for value in values]


def _has_to_escape(text: str) -> bool:
    """Check whether a text has characters to escape.

    Searching it for a class of characters took a third of the time of writing the text.
    """
    if any(map(text.__contains__, _ESCAPES)):
        return True
    return not text.isascii() and _TO_ESCAPE.search(text) is not None


def _escape_character(match: re.Match[str]) -> str:
    return _ESCAPES.get(match.group(), "\N{REPLACEMENT CHARACTER}")


def _encode_lines(name: str, rows: _FormattedRows, numbers: list[float]) -> Iterator[bytes]:
    """Yield one line per row, LINES_AT_ONCE of them at a time."""
    texts, values = rows.texts, numbers
    if rows.first is not None:
        texts, values = (
            list(compress(texts, rows.first)),
            list(compress(values, rows.first)),
        )
    for start in range(0, len(texts), LINES_AT_ONCE):
        until = start + LINES_AT_ONCE
        yield _encode_piece(name, texts[start:until], values[start:until])


def _encode_piece(name: str, texts: list[str], numbers: list[float]) -> bytes:
    # What ends a line and begins the next is one piece; the first begins with nothing to end.
    pieces = ["\n" + name] * (3 * len(texts))
    pieces[0] = name
    pieces[1::3] = texts
    pieces[2::3] = _format_numbers(numbers)
    pieces.append("\n")
    return "".join(pieces).encode()


def _format_numbers(numbers: list[float]) -> list[str]:
    """Return the shortest exact text of each number.

    msgspec's JSON encoder takes a quarter of the time that `repr` takes for a float, and two thirds
    for an integer. JSON has no text for NaN and infinity: then `repr` is used.
    """
    if math.isfinite(sum(numbers)):  # families bound their numbers, so a sum cannot overflow
        return msgspec.json.encode(numbers)[1:-1].decode().split(",")
    return [_NON_FINITE.get(text, text) for text in map(repr, numbers)]


def _family_name_of(spec: MetricSpec, form: Format) -> str:
    return spec.name.removesuffix(_TOTAL) if form.openmetrics else spec.name


def _format_header(spec: MetricSpec, form: Format) -> bytes:
    name = _family_name_of(spec, form)
    text = spec.help.replace("\\", r"\\").replace("\n", r"\n")
    if form.openmetrics:
        text = text.replace('"', r"\"")
    return f"# HELP {name} {text}\n# TYPE {name} {spec.kind}\n".encode()


PIECE_BYTES: Final = 64 * 1024  # what is smaller goes out with its neighbours

Body = tuple[bytes, ...]


def merge_small_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer parts, as each part is a system call.

    Parts smaller than PIECE_BYTES are joined; larger ones are not copied.
    """
    small: list[bytes] = []
    size = 0
    for part in parts:
        large = len(part) >= PIECE_BYTES
        if small and (large or size + len(part) > PIECE_BYTES):
            yield b"".join(small)
            small, size = [], 0
        if large:
            yield part
        elif part:
            small.append(part)
            size += len(part)
    if small:
        yield b"".join(small)


class ChunkedBody(Payload):
    """Body of an aiohttp response, sent part by part. Several responses may share its parts.

    They are never joined. A body of a million series has 160 MB: joining it took a fifth of the
    time of a scrape, and a transport that is given all of it at once keeps a copy for each client
    that has not read it yet.
    """

    def __init__(self, body: Body, content_type: str) -> None:
        super().__init__(body, content_type=content_type)
        self._body = body
        self._size = sum(map(len, body))
        self.on_release: Callable[[], object] = lambda: None

    def release(self) -> None:
        """Release the bytes, after the response was sent or has failed.

        A connection keeps its last response until the next one, and a million series are 160 MB.
        """
        self._body = ()
        self.on_release()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the whole body as text."""
        return b"".join(self._body).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write part by part, each when the transport has accepted the one before."""
        for piece in self._body:
            await writer.write(piece)


# What clients may leave untaken, each for a minute and a half: beyond it nothing is made. A body of
# 500,000 series has 50 MiB.
UNTAKEN_BYTES_MAX = 128 * 1024 * 1024
RENDERS_MAX = 16  # two snapshots x two formats x gzip or not, twice over; beyond that it is abuse


class TooManyRenders(Exception):
    """Refusal of one more body. It never leaves serve.

    RENDERS_MAX bodies are being made or wait for the worker thread, or clients have not read
    UNTAKEN_BYTES_MAX bytes of those made.
    """


class RenderCache:
    """Bodies being made, at most RENDERS_MAX. `asyncio.to_thread` decides how many run at once.

    All clients that request the same body while it is being made get that one. Writing 100,000
    series takes tens of milliseconds of processor time: too long for the event loop, and a waste to
    do twice for a pair of Prometheus servers. A finished body is not cached. So it is never older
    than the oldest request that waits for it, process metrics included.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[int, Hashable], tuple[asyncio.Task[Body], Snapshot]] = {}
        self._untaken: dict[object, tuple[int, int]] = {}  # an answer -> id and bytes of its body

    async def body(self, snapshot: Snapshot, form: Hashable, make: Callable[[], Body]) -> Body:
        """Return the result of `make`, which `snapshot` and `form` must determine.

        Snapshots are distinguished by identity: comparing two would cost more than a render. Raises
        TooManyRenders.
        """
        key = (id(snapshot), form)  # no other object can have this id while we hold the snapshot
        if key not in self._pending:
            if len(self._pending) >= RENDERS_MAX or self._untaken_bytes() >= UNTAKEN_BYTES_MAX:
                raise TooManyRenders
            task = asyncio.create_task(asyncio.to_thread(make))
            self._pending[key] = (task, snapshot)
            task.add_done_callback(lambda _: self._pending.pop(key))
        # A client that hangs up must not take the body away from the others.
        return await asyncio.shield(self._pending[key][0])

    def answer(self, body: Body, content_type: str) -> ChunkedBody:
        """Return the payload that sends a body.

        Its bytes count as unread until the payload is released or no longer exists.
        """
        rendered, token = ChunkedBody(body, content_type), object()
        self._untaken[token] = (id(body), rendered.size or 0)  # held by `rendered`
        release = weakref.finalize(rendered, self._untaken.pop, token)
        release.atexit = False
        rendered.on_release = release
        return rendered

    def _untaken_bytes(self) -> int:
        """Return the number of unread bytes. A body that several clients read counts once."""
        return sum(dict(list(self._untaken.values())).values())
