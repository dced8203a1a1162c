"""Answers brought to a form in which a model's and a real worker's can be compared: each thing that
is left out says why.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

# Names of machines, versions and clusters: those of whoever recorded, not of Connect.
_PLACES: Final = {"worker_id": "WORKER", "version": "VERSION", "commit": "COMMIT"}
_CLUSTER: Final = "kafka_cluster_id"
_TEXTS: Final = (
    # Where in a body Jackson stopped: the recorder's spaces are not known.
    (re.compile(r"line: \d+, column: \d+"), "line: N, column: N"),
    # The names of a method's variables, which javac keeps or does not.
    (re.compile(r'because "[^"]*" is null'), 'because "…" is null'),
    # Which properties an entity has, in an order that nobody promises.
    (re.compile(r"\((?:one|\d+) known propert(?:y|ies): [^)]*\)"), "(known properties)"),
    # What was open when a body ended, and where.
    (re.compile(r"Unexpected end-of-input.*", re.DOTALL), "Unexpected end-of-input"),
    # How long Connect waited, and since when.
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    # What the worker did meanwhile: it is whatever came last.
    (re.compile(r"Request timed out\..*", re.DOTALL), "Request timed out."),
)
_LISTS_IN_NO_ORDER: Final = ("offsets",)


def body(text: str) -> Any:
    """The JSON of an answer without what cannot be compared; other text as it is."""
    try:
        return _cleaned(json.loads(text))
    except json.JSONDecodeError:
        return text


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _field(name, each) for name, each in value.items()}
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    return value


def _field(name: str, value: Any) -> Any:
    if name in _PLACES and isinstance(value, str):
        return _PLACES[name]
    if name == _CLUSTER:
        return "CLUSTER"
    if name in {"message", "trace"} and isinstance(value, str):
        return message(value)
    if name in _LISTS_IN_NO_ORDER and isinstance(value, list):
        return sorted((_cleaned(each) for each in value), key=_text)
    return _cleaned(value)


def message(text: str) -> str:
    """What Connect says, without what depends on the moment."""
    for pattern, put in _TEXTS:
        text = pattern.sub(put, text)
    return text


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
