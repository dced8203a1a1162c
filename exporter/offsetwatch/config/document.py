"""Readers of a raw document of the configuration, and messages for schema errors.

No message repeats a value of the file, which may be a password.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from datetime import date
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from offsetwatch.config.schema.types import ConfigSection
from offsetwatch.formatting import PlainNumber

# By the names that pydantic has for errors; its own words are of Python.
_EXPECTED_KINDS: Final = {
    "string_type": "expected a text",
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping",
    "list_type": "expected a list",
    "path_type": "expected the path of a file",
}
_MESSAGES: Final = {
    "missing": "required, and not given",
    "bool_type": "expected true or false, without quotes",
    "int_type": "expected a whole number, without quotes",
    "int_from_float": "expected a whole number",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "too_short": "expected at least {min_length} in the list, and it has {actual_length}",
    "string_too_short": "it is empty",
    "string_too_long": "longer than {max_length} characters",
}
_BOUND_WORDS: Final = {"greater_than_equal": "less than", "less_than_equal": "more than"}


def format_mistakes(errors: Iterable[dict[str, Any]], top: type[ConfigSection]) -> list[str]:
    """Return a line for each mistake; a misspelt key is not reported as missing as well."""
    errors = tuple(errors)
    misspelt = {
        (*error["loc"][:-1], _find_similar_key(error["loc"], top))
        for error in errors
        if error["type"] == "extra_forbidden"
    }
    return [
        format_mistake(error, top)
        for error in errors
        if error["type"] != "missing" or error["loc"] not in misspelt
    ]


def format_mistake(error: dict[str, Any], top: type[ConfigSection]) -> str:
    """Return one line: the path, the mistake, and a suggestion if a similar name exists."""
    location = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == "invalid_key" or (
        "[key]" in error["loc"] and not isinstance(error["input"], str)
    ):
        return f"{_format_path(location[:-1])}: {_describe_bad_key(error['input'])}"
    path = _format_path(location)
    if error["type"] in _EXPECTED_KINDS:
        kind, value = error["type"], error["input"]
        return (
            f"{path}: {_EXPECTED_KINDS[kind]}, not "
            f"{_describe_kind(value, location)}{_suggest_fix(kind, value)}"
        )
    if error["type"] in _BOUND_WORDS:
        section = _find_section(location[:-1], top)
        plain = plain_number_of(section.model_fields.get(str(location[-1])))
        if plain is not None:
            (bound,) = error["ctx"].values()
            than = f"{_BOUND_WORDS[error['type']]} {plain.written(bound)}"
            value = error["input"]  # the text itself below an optional, a number elsewhere
            text_of_value = value if isinstance(value, str) else plain.written(value)
            return f"{path}: {text_of_value} is {than}"
    if error["type"] in _MESSAGES:
        return f"{path}: {_MESSAGES[error['type']].format(**error.get('ctx', {}))}"
    if error["type"] == "literal_error":
        return f"{path}: {_describe_choices(error['ctx']['expected'], error['input'])}"
    if error["type"] != "extra_forbidden":
        return f"{path}: {error['msg'][0].lower()}{error['msg'][1:]}"
    near = _find_similar_key(location, top)
    known = ", ".join(_list_keys(location[:-1], top))
    hint = f', did you mean "{near}"?' if near else f" (known: {known})"
    return f"{path}: unknown key{hint}"


def _list_keys(location: tuple[str | int, ...], top: type[ConfigSection]) -> tuple[str, ...]:
    fields = _find_section(location, top).model_fields
    return tuple(field.alias or name for name, field in fields.items())


def _find_similar_key(location: tuple[str | int, ...], top: type[ConfigSection]) -> str | None:
    """Return the key that an unknown key probably stands for."""
    near = difflib.get_close_matches(str(location[-1]), _list_keys(location[:-1], top), n=1)
    return near[0] if near else None


def _describe_choices(expected: str, value: object) -> str:
    """Return the values that a setting takes, and the one that was probably meant."""
    words = re.findall("'([^']*)'", expected)
    text = value.strip().lower() if isinstance(value, str) else ""
    near = [word for word in words if word.lower() == text]
    near = near or difflib.get_close_matches(text, words, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"expected {expected.replace(chr(39), '')}{hint}"


def _describe_bad_key(key: object) -> str:
    if isinstance(key, bool):
        said = f"the key {str(key).lower()} is no text: so YAML reads no, yes, on and off as well"
    elif isinstance(key, int | float):
        said = f"the key {key} is a number"
    else:
        said = "a key is no text"
    return f"{said}; put it in quotes"


def _describe_kind(value: object, location: tuple[str | int, ...]) -> str:
    """Return the kind of a value, without any part of it."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, list) and location[-1:] == ("bootstrap",):
        return "a list: write the addresses in one text, with commas between them"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, date):
        return "a date"
    if isinstance(value, dict) and location[-2:-1] == ("properties",):
        return "a mapping: write the whole name of the property, as in sasl.mechanism"
    kinds: dict[type, str] = {list: "a list", dict: "a mapping", type(None): "nothing"}
    return kinds.get(type(value), "a value of another kind")


def _suggest_fix(kind: str, value: object) -> str:
    """Return how to correct a value of the wrong kind; "" if a few characters do not do it."""
    if kind == "string_type" and isinstance(value, int | float | date):
        return ": put it in quotes"
    if kind == "list_type" and isinstance(value, dict):
        return ": begin each entry with -"
    if kind == "list_type" and isinstance(value, str):
        return ": put [ ] around it"
    return ""


def _format_path(location: tuple[str | int, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "(top level)"


def _find_section(location: tuple[str | int, ...], top: type[ConfigSection]) -> type[ConfigSection]:
    """Return the section that a location lies in.

    A part of a location is a field's name, or a key of a dict, or an index of a list.
    """
    section = top
    for part in location:
        field = section.model_fields.get(str(part))
        inner = None if field is None else find_section_type(field.annotation)
        section = section if inner is None else inner
    return section


def plain_number_of(field: FieldInfo | None) -> PlainNumber | None:
    """Return the unit of a plain number for a duration field; None for any other field."""
    if field is None:
        return None
    optional = (getattr(arg, "__metadata__", ()) for arg in get_args(field.annotation))
    marks = (*field.metadata, *(mark for inner in optional for mark in inner))
    return next((mark for mark in marks if isinstance(mark, PlainNumber)), None)


def find_section_type(annotation: Any) -> type[ConfigSection] | None:
    """Return the section that a type is, or is a list, a dict or an optional of; else None."""
    if isinstance(annotation, type) and issubclass(annotation, ConfigSection):
        return annotation
    if get_origin(annotation) not in {list, dict, Union, UnionType, Annotated}:
        return None
    inner = (find_section_type(argument) for argument in get_args(annotation))
    return next((section for section in inner if section is not None), None)


_FILE_SUFFIX: Final = "_file"


def as_mapping(value: object) -> dict[Any, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def iterate_mappings(value: object, path: str) -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yield the mappings of a list, each with its path."""
    for number, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict):
            yield f"{path}[{number}]", item


def check_exclusive(path: str, section: dict[Any, Any]) -> Iterator[str]:
    """Yield a mistake for each setting that is also given as a file."""
    for name in section:
        if (
            isinstance(name, str)
            and name.endswith(_FILE_SUFFIX)
            and name.removesuffix(_FILE_SUFFIX) in section
        ):
            yield f"{path}: give {name.removesuffix(_FILE_SUFFIX)} or {name}, not both"


def check_cluster_name(
    name: object, those: Iterable[str], path: str, *, under: str = "kafka"
) -> Iterator[str]:
    """Yield a mistake with a suggestion if no cluster has this name."""
    names = tuple(those)
    if not isinstance(name, str) or name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    those_known = f"known: {', '.join(names)}" if names else "none is named there"
    hint = f', did you mean "{near[0]}"?' if near else f" ({those_known})"
    yield f'{path}: no cluster "{name}" under {under}{hint}'
