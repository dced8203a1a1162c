"""The text that answers a scrape: Prometheus text and OpenMetrics, of families. Called by http.py.

Why not prometheus-client's writer: it formats every label of every series each time, which at
100,000 series takes the better part of a second, over and over. Here `name{labels} ` is made once
per series and kept while the series exists, and a family whose numbers did not change is not
written again. `python -m bench.render` measures both.

An Encoder may be used by one thread at a time; http.py renders on a single worker thread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import compress

from prometheus_client import ProcessCollector

from exporter.serve.columns import Family, Labels
from exporter.serve.families import Build, Reload, collect
from exporter.serve.negotiate import Format
from exporter.serve.spec import Spec
from exporter.state.snapshot import Snapshot

_TOTAL = "_total"
_NON_FINITE = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}

# A lone surrogate cannot be written as UTF-8, and one odd string must not cost the whole scrape.
_TO_ESCAPE = re.compile(r'[\\"\n\ud800-\udfff]')
_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n"}


@dataclass(frozen=True, slots=True)
class _Block:
    """What a family looked like at the last render.

    labels      its label sets as they were given, to see whether they are still the same
    first       None, or for each label set whether its text is the first of its kind: two different
                source partitions may print the same label, and one series must not appear twice
    prefixes    `name{labels} ` for each row that is shown
    body        the sample lines, as long as neither labels nor numbers change
    """

    labels: list[Labels]
    numbers: list[float]
    first: list[bool] | None
    prefixes: list[str]
    body: bytes


class Encoder:
    """Families -> sample lines. What it keeps is exactly the families of the last render."""

    def __init__(self) -> None:
        self._blocks: dict[str, _Block] = {}
        self._compared: tuple[list[Labels], list[Labels], bool] = ([], [], True)

    def series(self) -> int:
        """How many line prefixes are kept."""
        return sum(len(block.prefixes) for block in self._blocks.values())

    def samples(self, family: Family) -> bytes:
        """The sample lines of a family, the same in every format."""
        name = family.spec.name
        last = self._blocks.get(name)
        if last is not None and self._same(last.labels, family.labels):
            if last.numbers == family.numbers:
                return last.body
            first, prefixes = last.first, last.prefixes
        else:
            first, prefixes = _prefixes(family, last)
        numbers = family.numbers if first is None else list(compress(family.numbers, first))
        body = _lines(prefixes, numbers)
        self._blocks[name] = _Block(
            labels=family.labels,
            numbers=family.numbers,
            first=first,
            prefixes=prefixes,
            body=body,
        )
        return body

    def _same(self, old: list[Labels], new: list[Labels]) -> bool:
        """Are these equal? The families of a group share a list, so it is compared once for all."""
        if old is not self._compared[0] or new is not self._compared[1]:
            self._compared = (old, new, old == new)
        return self._compared[2]


class Exposition:
    """A snapshot and our own process as the body of `/metrics`."""

    def __init__(self, build: Build, reloaded: Callable[[], Reload]) -> None:
        self._build = build
        self._reloaded = reloaded
        self._encoder = Encoder()
        self._process = ProcessCollector(registry=None)

    def series(self) -> int:
        """How many series the last render left in the cache."""
        return self._encoder.series()

    def render(
        self, snapshot: Snapshot, form: Format, names: frozenset[str] = frozenset()
    ) -> bytes:
        """The body. `names` restricts it to these metrics; none means all."""
        parts: list[bytes] = []
        for family in self._families(snapshot):
            spec = family.spec
            if names and spec.name not in names and _family_name(spec, form) not in names:
                continue
            body = self._encoder.samples(family)
            if body:
                parts += (_header(spec, form), body)
        if form.openmetrics:
            parts.append(b"# EOF\n")
        return b"".join(parts)

    def _families(self, snapshot: Snapshot) -> Iterator[Family]:
        yield from collect(snapshot, self._build, self._reloaded())
        yield from process_families(self._process)


def process_families(process: ProcessCollector) -> Iterator[Family]:
    """`process_*` of our own process. Nothing where the system has no /proc."""
    for metric in process.collect():
        counter = metric.type == "counter"
        spec = Spec(
            name=metric.name + _TOTAL if counter else metric.name,
            kind="counter" if counter else "gauge",
            help=metric.documentation,
            labels=(),
        )
        numbers = [sample.value for sample in metric.samples]
        yield Family(spec, [()] * len(numbers), numbers)


def _prefixes(family: Family, last: _Block | None) -> tuple[list[bool] | None, list[str]]:
    """Line prefixes, taken over from the last render where the series was there before."""
    known: dict[Labels, str] = {}
    if last is not None and last.first is None:
        known = dict(zip(last.labels, last.prefixes, strict=True))
    template = _template(family.spec)
    prefixes = [known.get(at) or template % _escaped(at) for at in family.labels]
    if len(set(prefixes)) == len(prefixes):
        return None, prefixes
    first_at: dict[str, int] = {}
    for row, prefix in enumerate(prefixes):
        first_at.setdefault(prefix, row)
    first = [first_at[prefix] == row for row, prefix in enumerate(prefixes)]
    return first, list(compress(prefixes, first))


def _template(spec: Spec) -> str:
    if not spec.labels:
        return spec.name + " "
    return spec.name + "{" + ",".join(f'{label}="%s"' for label in spec.labels) + "} "


def _escaped(labels: Labels) -> Labels:
    if _TO_ESCAPE.search("".join(labels)) is None:
        return labels
    return tuple(_TO_ESCAPE.sub(_escape, value) for value in labels)


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found.group(), "\N{REPLACEMENT CHARACTER}")


def _lines(prefixes: list[str], numbers: list[float]) -> bytes:
    """One line per row. `repr` is exact for integers and floats, and the shortest such text."""
    texts: Iterable[str] = map(repr, numbers)
    if not math.isfinite(sum(numbers)):  # families bound their numbers, so a sum cannot overflow
        texts = [_NON_FINITE.get(text, text) for text in texts]
    pieces = ["\n"] * (3 * len(prefixes))
    pieces[::3] = prefixes
    pieces[1::3] = texts
    return "".join(pieces).encode()


def _family_name(spec: Spec, form: Format) -> str:
    return spec.name.removesuffix(_TOTAL) if form.openmetrics else spec.name


def _header(spec: Spec, form: Format) -> bytes:
    name = _family_name(spec, form)
    text = spec.help.replace("\\", r"\\").replace("\n", r"\n")
    if form.openmetrics:
        text = text.replace('"', r"\"")
    return f"# HELP {name} {text}\n# TYPE {name} {spec.kind}\n".encode()
