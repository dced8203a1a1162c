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
    found = _RATE.fullmatch(str(text))
    if found is None:
        raise ScriptError(f"{text!r} is no rate: write 20/s, 3/m or 1/h")
    return float(found[1]) / _UNITS[found[2]]


def moments(text: object) -> tuple[float, float]:
    """`5m..8m`, or one moment for both."""
    first, dots, last = str(text).partition("..")
    found = seconds(first), seconds(last if dots else first)
    if found[0] > found[1]:
        raise ScriptError(f"{text!r} ends before it begins")
    return found


def only(where: str, given: object, *names: str) -> Mapping[str, Any]:
    """A map that says nothing but these."""
    if not isinstance(given, dict):
        raise ScriptError(f"{where}: expected a map, got {given!r}")
    for name in given:
        if name not in names:
            raise ScriptError(f"{where}: unknown word {name!r} (known: {', '.join(names)})")
    return given


def several(given: object) -> list[str]:
    """One name or a list of them."""
    return [given] if isinstance(given, str) else list(given) if isinstance(given, list) else []


def read(path: Path) -> Any:
    """The file."""
    try:
        return yaml.safe_load(path.read_text())
    except yaml.YAMLError as exc:
        raise ScriptError(f"{path}: {exc}") from exc


def load_of(where: str, told: Any) -> Callable[[float], float]:
    """Records a second: `20/s`, or a list of phases that add up."""
    phases = [_phase(where, at) for at in (told if isinstance(told, list) else [told])]
    return lambda now: sum(phase(now) for phase in phases)


def _phase(where: str, told: Any) -> Callable[[float], float]:
    if isinstance(told, str):
        always = rate(told)
        return lambda _: always
    given = only(where, told, "rate", "from", "for", "every")
    per_s, active = rate(given["rate"]), active_of(where, {**given, "rate": None})
    return lambda now: per_s if active(now) else 0.0


def active_of(where: str, told: Any) -> Callable[[float], bool]:
    """`from` a moment, `for` a while, again `every` so often; always, if nothing is said."""
    if told is None:
        return lambda _: True
    given = only(where, told, "rate", "from", "for", "every")
    start = seconds(given.get("from", "0s"))
    for_s = seconds(given["for"]) if "for" in given else float("inf")
    every_s = seconds(given["every"]) if "every" in given else float("inf")

    def active(now: float) -> bool:
        since = now - BEGINNING - start
        return since >= 0 and since % every_s < for_s

    return active


def trace_of(text: str) -> str:
    """`org.example.SomeException in org.example.Task.poll` as a worker would print it."""
    failure, _, place = text.partition(" in ")
    return TRACE.format(failure=failure, place=place or "org.example.Task.poll")
