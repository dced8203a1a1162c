"""The boards against the types that Grafana publishes of its dashboards."""

from __future__ import annotations

import copy
import enum
import json
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from .boards import BOARDS

# What Grafana's Prometheus plugin reads of an annotation and Grafana's own types leave out.
OF_PROMETHEUS = {"step", "tagKeys", "textFormat", "titleFormat"}

plugins.register_default_plugins()


def problems(board: dict[str, Any]) -> list[str]:
    """Return what the types do not know, and what is of another type than they say."""
    model = Dashboard.from_json(copy.deepcopy(board))
    return [*changed(board, plain(model), "board"), *mistyped(model, "board")]


def plain(model: Any) -> Any:
    """Return it as it would be written."""
    return json.loads(json.dumps(model, cls=JSONEncoder))


def changed(inputs: Any, written: Any, where: str) -> Iterator[str]:
    if isinstance(inputs, dict) and isinstance(written, dict):
        for key, value in inputs.items():
            if key in written:
                yield from changed(value, written[key], f"{where}.{key}")
            elif not (key in OF_PROMETHEUS and "annotations" in where):
                yield f"{where}.{key} is not known"
    elif isinstance(inputs, list) and isinstance(written, list):
        if len(inputs) != len(written):
            yield f"{where} has {len(written)} of {len(inputs)} members"
        for number, (one, other) in enumerate(zip(inputs, written, strict=False)):
            yield from changed(one, other, f"{where}[{number}]")
    elif inputs != written:
        yield f"{where} is {inputs!r}, read as {written!r}"


def mistyped(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, member in enumerate(value):
            yield from mistyped(member, f"{where}[{number}]")
    if not type(value).__module__.startswith("grafana_foundation_sdk.models"):
        return
    if isinstance(value, enum.Enum):
        return
    for name, expected in typing.get_type_hints(type(value)).items():
        inputs = getattr(value, name)
        member = parsed(inputs, expected)
        yield from changed(plain(inputs), plain(member), f"{where}.{name}")
        if not fits(member, expected):
            yield f"{where}.{name} is {member!r}, not {expected}"
        yield from mistyped(member, f"{where}.{name}")


def parsed(value: Any, expected: Any) -> Any:
    """Return what the types leave as it was given as what they say it is."""
    arguments = typing.get_args(expected)
    if isinstance(value, list):
        for item in (expected, *arguments):
            if typing.get_origin(item) is list:
                return [parsed(member, typing.get_args(item)[0]) for member in value]
    if isinstance(value, dict):
        for item in (expected, *arguments):
            if typing.get_origin(item) is dict:
                return {
                    key: parsed(member, typing.get_args(item)[1]) for key, member in value.items()
                }
        models = [entry for entry in (expected, *arguments) if hasattr(entry, "from_json")]
        if len(models) == 1:
            return models[0].from_json(copy.deepcopy(value))
    return value


def fits(value: Any, expected: Any) -> bool:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin in {typing.Union, types.UnionType}:
        return any(fits(value, argument) for argument in arguments)
    if origin is list:
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, arguments[1]) for item in value.values())
    if origin is typing.Literal:
        return value in arguments
    if expected in {object, typing.Any} or not isinstance(expected, type):
        return True
    if expected is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if expected is int and isinstance(value, bool):
        return False
    if isinstance(expected, type) and issubclass(expected, enum.Enum):
        return value in {item.value for item in expected}
    return isinstance(value, expected)


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_what_grafana_s_own_types_describe(name):
    assert problems(BOARDS[name]) == []


@pytest.mark.parametrize(
    ("location", "value"),
    [
        (("fieldConfig", "defaults", "units"), "s"),
        (("fieldConfig", "defaults", "unit"), 7),
        (("gridPos", "w"), "wide"),
        (("options", "textmode"), "value"),
        (("options", "colorMode"), "foreground"),
        (("titel",), "Lag"),
    ],
    ids=lambda item: ".".join(item) if isinstance(item, tuple) else str(item),
)
def test_a_mistake_in_a_panel_is_noticed(location, value):
    board = copy.deepcopy(BOARDS["fleet"])
    panel = next(item for item in board["panels"] if item["type"] == "stat")
    *path, last = location
    for key in path:
        panel = panel[key]
    panel[last] = value
    assert problems(board) != []
