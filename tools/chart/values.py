"""The chart's values.yaml as a tree: what each value is called, its default, what is said of it.

`# --` above a key begins what is said of it, as for helm-docs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

_SAID: Final = "# --"


@dataclass(frozen=True, slots=True)
class Value:
    """One key. `within` is empty for what is given as a whole."""

    path: str
    default: Any
    said: str
    within: tuple[Value, ...]


def values(text: str) -> tuple[Value, ...]:
    """Of a values.yaml, in its order."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(node, yaml.MappingNode)
    return _of(node, yaml.safe_load(text), "", text.splitlines())


def leaves(tree: Sequence[Value]) -> Iterator[Value]:
    """Those that have a line of their own in a table."""
    for value in tree:
        if value.said or not value.within:
            yield value
        else:
            yield from leaves(value.within)


def _of(
    node: yaml.MappingNode, defaults: dict[str, Any], above: str, lines: Sequence[str]
) -> tuple[Value, ...]:
    results = []
    for key, child in node.value:
        path = f"{above}.{key.value}" if above else str(key.value)
        default = defaults[key.value]
        deeper = isinstance(child, yaml.MappingNode) and bool(default)
        results.append(
            Value(
                path=path,
                default=default,
                said=_said(key.start_mark.line, lines),
                within=_of(child, default, path, lines) if deeper else (),
            )
        )
    return tuple(results)


def _said(line: int, lines: Sequence[str]) -> str:
    """The comment that ends just above a line, if it is one about a value."""
    words: list[str] = []
    for text in reversed([item.strip() for item in lines[:line]]):
        if not text.startswith("#"):
            return ""
        if text.startswith(_SAID):
            return " ".join([text.removeprefix(_SAID).strip(), *words])
        words.insert(0, text.removeprefix("#").strip())
    return ""
