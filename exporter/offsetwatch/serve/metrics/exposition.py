"""The exposition of metric families as Prometheus text and OpenMetrics.

It replaces prometheus-client's writer, which formats every label of every series at each scrape: at
100,000 series that takes the better part of a second. Here `{labels} ` is formatted once for all
families with the same rows, and kept while the rows stay the same. `python -m bench.render`
measures both.

An Encoder may be used by one thread at a time; serve/http/read_listener.py renders on a single
worker thread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from typing import Final

import msgspec
from prometheus_client import ProcessCollector

from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus, collect_families
from offsetwatch.serve.metrics.metric import Family, LabelColumns, LabelRows, Labels, MetricSpec
from offsetwatch.serve.metrics.negotiate import Format
from offsetwatch.state.snapshot import Snapshot

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
    def shown(self) -> int:
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
        return sum(rows.shown for _, rows in self._rows.values())

    def bodies(self, families: Iterable[Family]) -> Iterator[tuple[MetricSpec, Iterator[bytes]]]:
        """Yield each family that has rows with its sample lines, the same in every format."""
        # By what gave them; it is kept, or another one could have its id.
        seen: dict[tuple[int, tuple[str, ...]], tuple[LabelRows, _FormattedRows]] = {}
        known: dict[tuple[str, ...], _LabelTextCache] = {}
        for family in families:
            name, names = family.spec.name, family.spec.labels
            _, last = self._rows.get(name, (names, None))
            if (id(family.labels), names) in seen:
                _, rows = seen[id(family.labels), names]
            elif last is not None and last.labels == family.labels:
                rows = last
            else:
                if names not in known:
                    known[names] = _LabelTextCache(self._last(names))
                written = known[names].texts(names, family.labels)
                rows = _FormattedRows(family.labels, written, _mark_first_rows(written))
            seen[id(family.labels), names] = (family.labels, rows)
            self._rows[name] = (names, rows)
            if rows.labels:
                yield family.spec, _encode_lines(name, rows, family.numbers)

    def _last(self, names: tuple[str, ...]) -> list[_FormattedRows]:
        """Return the rows of the last render with these label names."""
        found = {id(rows): rows for key, rows in self._rows.values() if key == names}
        return list(found.values())


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
        wanted = list(rows)
        new = [key for key in wanted if key not in self._texts]
        self._texts.update(zip(new, _format_labels(names, new), strict=True))
        return list(map(self._texts.__getitem__, wanted))


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
        def wanted(spec: MetricSpec) -> bool:
            return not names or spec.name in names or _family_name_of(spec, form) in names

        yield from collect_families(snapshot, self._build, self._reloaded(), wanted)
        for family in collect_process_families(self._process):
            if wanted(family.spec):
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


def _escape_character(found: re.Match[str]) -> str:
    return _ESCAPES.get(found.group(), "\N{REPLACEMENT CHARACTER}")


def _encode_lines(name: str, rows: _FormattedRows, numbers: list[float]) -> Iterator[bytes]:
    """Yield one line per row, LINES_AT_ONCE of them at a time."""
    texts, shown = rows.texts, numbers
    if rows.first is not None:
        texts, shown = list(compress(texts, rows.first)), list(compress(shown, rows.first))
    for start in range(0, len(texts), LINES_AT_ONCE):
        until = start + LINES_AT_ONCE
        yield _encode_piece(name, texts[start:until], shown[start:until])


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
