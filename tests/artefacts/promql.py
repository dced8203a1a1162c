"""As much PromQL as these checks need: what an expression selects, and which labels it names.

promtool says whether an expression is valid; this says whether it speaks of things that exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import ProcessCollector

from offsetwatch.serve.metrics.catalog import CATALOG
from offsetwatch.serve.metrics.exposition import collect_process_families

TARGET = frozenset({"job", "instance", "pod"})  # put there by the scrape, not by us
SCRAPE = ("up", "scrape_duration_seconds", "scrape_samples_scraped")  # Prometheus' own, of a target
KEYWORDS = frozenset({"and", "or", "unless", "bool", "inf", "nan"})

_COMMENT = re.compile(r"#.*")
_STRING = re.compile(r'"[^"]*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
_WINDOW = re.compile(r"\[[^\]]*\]|\boffset\s+[$\w]+")
_GROUPING = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NAME = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])")
_REPLACED = re.compile(r'"(\w+)", "[^"]*", "", ""')
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")


def known_metrics() -> dict[str, frozenset[str]]:
    """Every metric that a scrape of ours can hold, or leaves behind, with its labels."""
    own = {spec.name: frozenset(spec.labels) for spec in CATALOG}
    process = [
        family.spec.name for family in collect_process_families(ProcessCollector(registry=None))
    ]
    return {**own, **dict.fromkeys((*process, *SCRAPE), frozenset())}


@dataclass(frozen=True, slots=True)
class Expression:
    """What an expression names.

    selectors   metric, then (label, operator, value) of each matcher
    grouped     labels of by, without, on and ignoring clauses
    made        labels that a label_replace adds
    numbers     numbers outside strings and windows
    """

    selectors: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...]
    grouped: frozenset[str]
    made: frozenset[str]
    numbers: frozenset[float]

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.selectors)


def read(text: str) -> Expression:
    """Take an expression apart."""
    text = _COMMENT.sub("", text)
    built = frozenset(_REPLACED.findall(text))
    selectors = [
        (name, tuple(_MATCHER.findall(matchers))) for name, matchers in _SELECTOR.findall(text)
    ]
    text = _WINDOW.sub("", _STRING.sub("", _SELECTOR.sub("", text)))
    grouped = frozenset(
        label.strip() for _, labels in _GROUPING.findall(text) for label in labels.split(",")
    )
    text = _GROUPING.sub("", text)
    selectors += [(name, ()) for name in _NAME.findall(text) if name.lower() not in KEYWORDS]
    return Expression(
        selectors=tuple(selectors),
        grouped=grouped - {""},
        made=built,
        numbers=frozenset(map(float, _NUMBER.findall(text))),
    )


def unknown_names(text: str, recorded: Iterable[str] = ()) -> list[str]:
    """Metrics that nobody exports, and labels that the expression's metrics do not have."""
    known = known_metrics() | dict.fromkeys(recorded, frozenset())
    expression = read(text)
    problems = [f"no metric {name}" for name in sorted(expression.metrics - known.keys())]
    for name, matchers in expression.selectors:
        labels = known.get(name, frozenset()) | TARGET
        problems += [
            f"{name} has no label {value}" for value, _, _ in matchers if value not in labels
        ]
    have = TARGET | expression.made
    have = have.union(*(known.get(name, frozenset()) for name in expression.metrics))
    problems += [f"nothing here has a label {name}" for name in sorted(expression.grouped - have)]
    return problems


def misused_counters(text: str) -> list[str]:
    """Counters that are shown raw, and gauges that are treated as counters."""
    counters = {spec.name for spec in CATALOG if spec.kind == "counter"}
    counters.add("process_cpu_seconds_total")
    rated = set(re.findall(r"\b(?:rate|irate|increase)\(\s*([a-zA-Z_:][\w:]*)", text))
    used = read(text).metrics
    return [f"{name} is not rated" for name in sorted((counters & used) - rated)] + [
        f"{name} is no counter" for name in sorted(rated - counters)
    ]


def plain_regexes(text: str) -> list[str]:
    """Regular expressions that are none: `=~` where `=` is meant."""
    return [
        f'{name}{{{label}{operator}"{value}"}}'
        for name, matchers in read(text).selectors
        for label, operator, value in matchers
        if operator in {"=~", "!~"} and re.fullmatch(r"[\w ]*", value)
    ]
