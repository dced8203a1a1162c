"""The reference file: every key with its meaning, type and default, made from the shape itself.

`python -m offsetwatch.config.reference > config-reference.yaml` makes it, and a test holds it to
the code. A line that begins with ## explains, one that begins with # is a setting that is not
given.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Final, get_origin

from pydantic.fields import FieldInfo

from offsetwatch.config.descriptions import (
    EXAMPLES,
    default_in_words,
    default_of,
    docstrings,
    takes,
    told_at,
)
from offsetwatch.config.document import section_in
from offsetwatch.config.schema.root import Config
from offsetwatch.config.schema.section import Section

_HEAD: Final = """\
## Every setting of offsetwatch. Made from the code: python -m offsetwatch.config.reference
##
## A line that begins with ## explains; one that begins with # is a setting that is not given.
## ${NAME} inside a string is the environment variable NAME. Paths are relative to this file.
"""
_ON: Final = frozenset({"Config.kafka", "Connect.kafka", "Connect.url"})  # mostly there
_WIDTH: Final = 96


def render() -> str:
    """The whole file."""
    return "\n".join((_HEAD, *_section(Config, docstrings(), on=True))) + "\n"


def _section(of: type[Section], told: dict[str, str], *, on: bool) -> Iterator[str]:
    """Every field of a section, not indented."""
    for name, field in of.model_fields.items():
        key = f"{of.__name__}.{name}"
        inner = section_in(field.annotation)
        empty = default_of(field) in ((None, {}) if inner is None else (None, []))
        given = on and (key in _ON or field.is_required() or not empty)
        yield from _prose(f"{told[told_at(of, name)]} ({_kind(field)})")
        if inner is None:
            yield from _setting(name, _value(key, field), on=given)
            continue
        given = given and any(_on(line) for line in _section(inner, told, on=given))
        lines = [_off(f"{name}:", on=given)]
        if get_origin(field.annotation) is dict:
            lines.append(_off(f"  {EXAMPLES[key]}:", on=given))
            lines += _indented(_section(inner, told, on=given), 4)
        elif get_origin(field.annotation) is list:
            lines.append(_off("  -", on=given))
            lines += _indented(_section(inner, told, on=given), 4)
        else:
            lines += _indented(_section(inner, told, on=given), 2)
        yield from lines
        if of is Config:
            yield ""


def _indented(lines: Iterator[str], by: int) -> Iterator[str]:
    """Deeper; a setting that is not given keeps its # first, so that taking it away is enough."""
    for line in lines:
        off = re.match(r"#(?!#)", line)
        yield f"#{' ' * by}{line[1:]}" if off else f"{' ' * by}{line}" if line else line


def _on(line: str) -> bool:
    """Whether it is a setting that is given: a section without one would be none at all."""
    return bool(line) and not line.lstrip().startswith("#")


def _off(line: str, *, on: bool) -> str:
    return line if on else f"#{line}"


def _setting(name: str, value: Any, *, on: bool) -> Iterator[str]:
    """JSON is YAML, and leaves no doubt about what is a string."""
    if not isinstance(value, dict):
        yield _off(f"{name}: {json.dumps(value)}", on=on)
        return
    yield _off(f"{name}:", on=on)
    for key, item in value.items():
        yield _off(f"  {key}: {json.dumps(item)}", on=on)


def _prose(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDTH - 10, initial_indent="## ", subsequent_indent="## ")


def _value(key: str, field: FieldInfo) -> Any:
    if key in EXAMPLES:
        return EXAMPLES[key]
    return default_of(field)


def _kind(field: FieldInfo) -> str:
    """The type, its bound and its default, in a reader's words."""
    default = default_in_words(field)
    if field.is_required():
        return f"{takes(field)}, required"
    return takes(field) if default is None else f"{takes(field)}, default {default}"


if __name__ == "__main__":
    sys.stdout.write(render())
