"""The table of values in the chart's README, between two markers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from tools.chart.values import Value, leaves

BEGIN: Final = "<!-- values: made by python -m tools.chart -->"
END: Final = "<!-- end of values -->"


def render(text: str, tree: Sequence[Value]) -> str:
    """The README with a table that is current. Raises ValueError where a marker is missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the markers {BEGIN} and {END} are missing")
    return f"{before}{BEGIN}\n{table(tree)}{END}{after}"


def table(tree: Sequence[Value]) -> str:
    """In Markdown."""
    rows = ["| value | default | is |", "|---|---|---|"]
    rows += [
        f"| `{value.path}` | `{json.dumps(value.default)}` | {value.said.replace('|', '&#124;')} |"
        for value in leaves(tree)
    ]
    return "\n".join(rows) + "\n"
