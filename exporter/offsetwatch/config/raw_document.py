"""Helpers to read a raw configuration document, which may have any shape."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, Final

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
