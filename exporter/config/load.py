"""From a file to a Config, or to every mistake in it at once, each with its path.

Environment enters in one way only: `${NAME}` inside a string.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import ValidationError

from exporter.config.checks import cross_checks, fill_from_files
from exporter.config.section import Section
from exporter.config.shape import Config
from exporter.config.types import FOLDER
from exporter.errors import ConfigError

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_QUOTED = re.compile(r"(['\"]).*\1", re.DOTALL)


def load(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Read a file. Raises ConfigError with every mistake in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError((f"{path}: cannot be read: {exc}",)) from exc
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as exc:
        raise ConfigError((f"{path}: not YAML: {_yaml_problem(exc)}",)) from None
    return parse(
        document,
        os.environ if environment is None else environment,
        source=path.name,
        folder=path.parent,
    )


class _Loader(yaml.SafeLoader):
    """A key given twice is a mistake; PyYAML would quietly take the last."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's own signature
    ) -> dict[Any, Any]:
        """See the class."""
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in names:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value} is given twice", problem_mark=key.start_mark
                )
            names.add(key.value)
        return super().construct_mapping(node, deep)


def _yaml_problem(error: yaml.YAMLError) -> str:
    """Where and what, without the text around it that PyYAML quotes: it may hold a password."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "it holds characters that YAML does not allow"
    what = _QUOTED.sub("...", str(getattr(error, "problem", None) or "cannot be parsed"))
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}"


def parse(
    document: object,
    environment: Mapping[str, str],
    *,
    source: str = "config",
    folder: Path = Path(),
) -> Config:
    """Check a parsed document. Raises ConfigError with every mistake in it.

    Files that it names are relative to `folder`.
    """
    if not isinstance(document, dict):
        raise ConfigError((f"{source}: expected a mapping at the top level",))
    mistakes: list[str] = []
    filled = _fill(document, environment, "", mistakes)
    complete = fill_from_files(filled, folder, mistakes)
    config: Config | None = None
    try:
        config = Config.model_validate(complete, context={FOLDER: folder})
    except ValidationError as exc:
        mistakes.extend(_mistake(dict(error)) for error in exc.errors())
    mistakes.extend(cross_checks(filled, folder))
    if config is None or mistakes:
        raise ConfigError(tuple(f"{source}: {mistake}" for mistake in mistakes))
    return config


def _fill(value: Any, environment: Mapping[str, str], path: str, mistakes: list[str]) -> Any:
    """Replace `${NAME}` in every string; a missing name is a mistake."""
    if isinstance(value, dict):
        return {
            key: _fill(item, environment, f"{path}.{key}" if path else str(key), mistakes)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _fill(item, environment, f"{path}[{number}]", mistakes)
            for number, item in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environment:
            mistakes.append(f"{path}: environment variable {name} is not set")
            return match.group(0)
        return environment[name]

    return _PLACEHOLDER.sub(replace, value)


def _mistake(error: dict[str, Any]) -> str:
    """One line: the path, what is wrong, and a suggestion where there is a near name."""
    location = tuple(part for part in error["loc"] if part != "[key]")
    path = _path(location)
    if error["type"] != "extra_forbidden":
        return f"{path}: {error['msg'][0].lower()}{error['msg'][1:]}"
    known = tuple(_section_at(location[:-1]).model_fields)
    near = difflib.get_close_matches(str(location[-1]), known, n=1)
    hint = f', did you mean "{near[0]}"?' if near else f" (known: {', '.join(known)})"
    return f"{path}: unknown key{hint}"


def _path(location: tuple[str | int, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "(top level)"


def _section_at(location: tuple[str | int, ...]) -> type[Section]:
    """The section that a location lies in, for the names it knows.

    A part of a location is a field's name, or a key or a number that leads into a dict or a list.
    """
    found: type[Section] = Config
    for part in location:
        field = found.model_fields.get(str(part))
        inner = None if field is None else section_in(field.annotation)
        found = found if inner is None else inner
    return found


def section_in(annotation: Any) -> type[Section] | None:
    """The section that a type is, or is a list, a dict or an optional of."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    if get_origin(annotation) not in {list, dict, Union, UnionType, Annotated}:
        return None
    inner = (section_in(argument) for argument in get_args(annotation))
    return next((section for section in inner if section is not None), None)
