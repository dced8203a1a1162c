"""The YAML reference file: every key with meaning, type and default, generated from the schema.

A line that begins with ## explains; one that begins with # is a setting that is not given.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final, get_origin

from pydantic.fields import FieldInfo

from offsetwatch.config.document import find_section_type
from offsetwatch.config.schema.root import Config
from offsetwatch.config.schema.types import ConfigSection
from tools.references.settings import (
    EXAMPLES,
    default_of,
    describe_default,
    describe_type,
    find_docstring_key,
    read_docstrings,
)

_HEAD: Final = """\
## Every setting of offsetwatch. Made from the code: python -m tools.references
##
## A line that begins with ## explains; one that begins with # is a setting that is not given.
## ${NAME} inside a string is the environment variable NAME. Paths are relative to this file.
"""
_UNCOMMENTED_KEYS: Final = frozenset(
    {"Config.kafka", "Connect.kafka", "Connect.url"}
)  # mostly there
_WIDTH: Final = 96


def render_reference() -> str:
    """Return the whole file."""
    return "\n".join((_HEAD, *_render_section(Config, read_docstrings(), on=True))) + "\n"


def _render_section(of: type[ConfigSection], report: dict[str, str], *, on: bool) -> Iterator[str]:
    """Yield the lines of every field of a section, not indented."""
    for name, field in of.model_fields.items():
        key = f"{of.__name__}.{name}"
        inner = find_section_type(field.annotation)
        empty = default_of(field) in ((None, {}) if inner is None else (None, []))
        inputs = on and (key in _UNCOMMENTED_KEYS or field.is_required() or not empty)
        yield from _wrap_prose(f"{report[find_docstring_key(of, name)]} ({_describe_field(field)})")
        if inner is None:
            yield from _render_setting(name, _choose_value(key, field), on=inputs)
            continue
        inputs = inputs and any(
            _is_uncommented(line) for line in _render_section(inner, report, on=inputs)
        )
        lines = [_comment_out(f"{name}:", on=inputs)]
        if get_origin(field.annotation) is dict:
            lines.append(_comment_out(f"  {EXAMPLES[key]}:", on=inputs))
            lines += _indent_lines(_render_section(inner, report, on=inputs), 4)
        elif get_origin(field.annotation) is list:
            lines.append(_comment_out("  -", on=inputs))
            lines += _indent_lines(_render_section(inner, report, on=inputs), 4)
        else:
            lines += _indent_lines(_render_section(inner, report, on=inputs), 2)
        yield from lines
        if of is Config:
            yield ""


def _indent_lines(lines: Iterator[str], by: int) -> Iterator[str]:
    """Indent lines; the # of a commented setting stays first, so that removing it is enough."""
    for line in lines:
        off = re.match(r"#(?!#)", line)
        yield f"#{' ' * by}{line[1:]}" if off else f"{' ' * by}{line}" if line else line


def _is_uncommented(line: str) -> bool:
    """Return whether the line is a setting that is given: a section without one would be empty."""
    return bool(line) and not line.lstrip().startswith("#")


def _comment_out(line: str, *, on: bool) -> str:
    return line if on else f"#{line}"


def _render_setting(name: str, value: Any, *, on: bool) -> Iterator[str]:
    """Yield a setting with its value as JSON, which is YAML and leaves no doubt about strings."""
    if not isinstance(value, dict):
        yield _comment_out(f"{name}: {json.dumps(value)}", on=on)
        return
    yield _comment_out(f"{name}:", on=on)
    for key, item in value.items():
        yield _comment_out(f"  {key}: {json.dumps(item)}", on=on)


def _wrap_prose(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDTH - 10, initial_indent="## ", subsequent_indent="## ")


def _choose_value(key: str, field: FieldInfo) -> Any:
    if key in EXAMPLES:
        return EXAMPLES[key]
    return default_of(field)


def _describe_field(field: FieldInfo) -> str:
    """Return the type, its bounds and its default in words."""
    default = describe_default(field)
    if field.is_required():
        return f"{describe_type(field)}, required"
    return describe_type(field) if default is None else f"{describe_type(field)}, default {default}"
