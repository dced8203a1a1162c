"""world.yaml and expectation.yaml as they are written: lengths of time, rates, and strict maps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

BEGINNING = 1_800_000_000.0  # of every story, in Unix seconds

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*([smhd])")

TRACE = """\
org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSourceTask due to exception
\tat org.apache.kafka.connect.runtime.WorkerTask.doRun(WorkerTask.java:1)
Caused by: {failure}: it did not work
\tat {place}(Place.java:1)
"""


class ScriptError(Exception):
    """A file of a story says something that means nothing; the message says where."""


def seconds(text: object) -> float:
    """`30s`, `5m`, `1h30m`, `8d`."""
    if not isinstance(text, str) or not _LENGTH.fullmatch(text):
        raise ScriptError(f"{text!r} is no length of time: write 30s, 5m, 1h30m or 8d")
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(\D)", text))


def rate(text: object) -> float:
    """`20/s`, `3/m`: how many in a second."""
    match = _RATE.fullmatch(str(text))
    if match is None:
        raise ScriptError(f"{text!r} is no rate: write 20/s, 3/m or 1/h")
    return float(match[1]) / _UNITS[match[2]]


def moments(text: object) -> tuple[float, float]:
    """`5m..8m`, or one moment for both."""
    first, dots, last = str(text).partition("..")
    results = seconds(first), seconds(last if dots else first)
    if results[0] > results[1]:
        raise ScriptError(f"{text!r} ends before it begins")
    return results


def only(where: str, inputs: object, *names: str) -> Mapping[str, Any]:
    """A map that says nothing but these."""
    if not isinstance(inputs, dict):
        raise ScriptError(f"{where}: expected a map, got {inputs!r}")
    for name in inputs:
        if name not in names:
            raise ScriptError(f"{where}: unknown word {name!r} (known: {', '.join(names)})")
    return inputs


def several(inputs: object) -> list[str]:
    """One name or a list of them."""
    return [inputs] if isinstance(inputs, str) else list(inputs) if isinstance(inputs, list) else []


def read(path: Path) -> Any:
    """The file."""
    try:
        return yaml.load(path.read_text(), yaml.CSafeLoader)
    except yaml.YAMLError as exc:
        raise ScriptError(f"{path}: {exc}") from exc


def load_of(where: str, report: Any) -> Callable[[float], float]:
    """Records a second: `20/s`, or a list of phases that add up."""
    phases = [_phase(where, item) for item in (report if isinstance(report, list) else [report])]
    return lambda now: sum(phase(now) for phase in phases)


def _phase(where: str, report: Any) -> Callable[[float], float]:
    if isinstance(report, str):
        always = rate(report)
        return lambda _: always
    inputs = only(where, report, "rate", "from", "for", "every")
    per_s, active = rate(inputs["rate"]), active_of(where, {**inputs, "rate": None})
    return lambda now: per_s if active(now) else 0.0


def active_of(where: str, report: Any) -> Callable[[float], bool]:
    """`from` a moment, `for` a while, again `every` so often; always, if nothing is said."""
    if report is None:
        return lambda _: True
    inputs = only(where, report, "rate", "from", "for", "every")
    start = seconds(inputs.get("from", "0s"))
    for_s = seconds(inputs["for"]) if "for" in inputs else float("inf")
    every_s = seconds(inputs["every"]) if "every" in inputs else float("inf")

    def active(now: float) -> bool:
        since = now - BEGINNING - start
        return since >= 0 and since % every_s < for_s

    return active


def trace_of(text: str) -> str:
    """`org.example.SomeException in org.example.Task.poll` as a worker would print it."""
    failure, _, location = text.partition(" in ")
    return TRACE.format(failure=failure, place=location or "org.example.Task.poll")
