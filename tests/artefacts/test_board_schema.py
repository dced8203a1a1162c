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


def changed(given: Any, written: Any, where: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(written, dict):
        for key, value in given.items():
            if key in written:
                yield from changed(value, written[key], f"{where}.{key}")
            elif not (key in OF_PROMETHEUS and "annotations" in where):
                yield f"{where}.{key} is not known"
    elif isinstance(given, list) and isinstance(written, list):
        if len(given) != len(written):
            yield f"{where} has {len(written)} of {len(given)} members"
        for number, (one, other) in enumerate(zip(given, written, strict=False)):
            yield from changed(one, other, f"{where}[{number}]")
    elif given != written:
        yield f"{where} is {given!r}, read as {written!r}"


def mistyped(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, member in enumerate(value):
            yield from mistyped(member, f"{where}[{number}]")
    if not type(value).__module__.startswith("grafana_foundation_sdk.models"):
        return
    if isinstance(value, enum.Enum):
        return
    for name, wanted in typing.get_type_hints(type(value)).items():
        given = getattr(value, name)
        member = parsed(given, wanted)
        yield from changed(plain(given), plain(member), f"{where}.{name}")
        if not fits(member, wanted):
            yield f"{where}.{name} is {member!r}, not {wanted}"
        yield from mistyped(member, f"{where}.{name}")


def parsed(value: Any, wanted: Any) -> Any:
    """Return what the types leave as it was given as what they say it is."""
    arguments = typing.get_args(wanted)
    if isinstance(value, list):
        for at in (wanted, *arguments):
            if typing.get_origin(at) is list:
                return [parsed(member, typing.get_args(at)[0]) for member in value]
    if isinstance(value, dict):
        for at in (wanted, *arguments):
            if typing.get_origin(at) is dict:
                return {
                    key: parsed(member, typing.get_args(at)[1]) for key, member in value.items()
                }
        models = [at for at in (wanted, *arguments) if hasattr(at, "from_json")]
        if len(models) == 1:
            return models[0].from_json(copy.deepcopy(value))
    return value


def fits(value: Any, wanted: Any) -> bool:
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in {typing.Union, types.UnionType}:
        return any(fits(value, at) for at in arguments)
    if origin is list:
        return isinstance(value, list) and all(fits(at, arguments[0]) for at in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(at, arguments[1]) for at in value.values())
    if origin is typing.Literal:
        return value in arguments
    if wanted in {object, typing.Any} or not isinstance(wanted, type):
        return True
    if wanted is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if wanted is int and isinstance(value, bool):
        return False
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return value in {at.value for at in wanted}
    return isinstance(value, wanted)


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_what_grafana_s_own_types_describe(name):
    assert problems(BOARDS[name]) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("fieldConfig", "defaults", "units"), "s"),
        (("fieldConfig", "defaults", "unit"), 7),
        (("gridPos", "w"), "wide"),
        (("options", "textmode"), "value"),
        (("options", "colorMode"), "foreground"),
        (("titel",), "Lag"),
    ],
    ids=lambda at: ".".join(at) if isinstance(at, tuple) else str(at),
)
def test_a_mistake_in_a_panel_is_noticed(place, value):
    board = copy.deepcopy(BOARDS["fleet"])
    panel = next(at for at in board["panels"] if at["type"] == "stat")
    *path, last = place
    for key in path:
        panel = panel[key]
    panel[last] = value
    assert problems(board) != []
