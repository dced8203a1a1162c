"""Output of the commands: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, TypeVar

import msgspec

from offsetwatch import documents
from offsetwatch.clock import format_utc
from offsetwatch.errors import ClientError, NoReadableCluster
from offsetwatch.formatting import format_timespan

# Of cells in columns that hold a condition, by their first word. Only a terminal shows them.
_CONDITION_COLUMNS: Final = frozenset({"state", "verdict", "severity"})
_STYLES: Final = {
    **dict.fromkeys(("FAILED", "critical"), "bold red"),
    **dict.fromkeys(("failed", "stalled", "silent", "rewound"), "red"),
    **dict.fromkeys(("unassigned", "restarting", "slow", "warning"), "yellow"),
    **dict.fromkeys(("unknown", "paused", "stopped"), "bright_black"),
    "ok": "green",
}


T = TypeVar("T")

_ERROR_NUMBER: Final = re.compile(r"\[Errno -?\d+\] ")
_PATH_OF_ERROR: Final = re.compile(r": '(/[^']*)'")


class OutputFormat(StrEnum):
    """Output format of a command: tables, or one document with the same content."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def escape_controls(text: str) -> str:
    """Return the text with characters escaped that move a terminal's cursor or reverse its text.

    Much of what is printed here was written by others.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )


def print_error(*texts: str) -> None:
    """Print each text as one line on standard error.

    Remove the error number and the quotes that Python puts around an operating system's message.
    """
    for text in texts:
        plain = _PATH_OF_ERROR.sub(r": \1", _ERROR_NUMBER.sub("", text))
        sys.stderr.write(f"{escape_controls(plain)}\n")


def format_client_error(failed: ClientError, then: str = "") -> str:
    """Return one line: what a cluster or server failed to do, `then`, and advice.

    `then` says what became of the command.
    """
    said = ": ".join(filter(None, (failed.reason, str(failed), then)))
    return f"{said}; {failed.advice}" if failed.advice else said


def print_client_error(failed: ClientError, then: str = "") -> None:
    """Print the error as format_client_error returns it.

    If nothing was read, print a line for each cluster.
    """
    if isinstance(failed, NoReadableCluster):
        for line in failed.lines:
            print_error(line)
        print_error(f"{failed.target}: {failed.advice}")
        return
    print_error(format_client_error(failed, then))


def print_lines(title: str, rows: Iterable[str]) -> None:
    """Print a title and lines without wrapping them, so that they can be copied."""
    sys.stdout.write("".join(f"{escape_controls(line)}\n" for line in (title, *rows)))


def escape_unencodable_output() -> None:
    """Make standard output escape characters that its encoding (from the locale) does not have.

    A connector's name would otherwise end a command.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def is_utf8() -> bool:
    """Return whether the encoding of standard output is UTF-8, which has every character."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def print_json(value: Any) -> None:
    """Print indented JSON, with exact integers of any size and moments in RFC 3339.

    Characters beyond ASCII are escaped if standard output is not UTF-8.
    """
    encoded = documents.encode(value)
    text = msgspec.json.format(encoded, indent=2).decode()
    if not is_utf8():
        text = "".join(char if char.isascii() else json.dumps(char)[1:-1] for char in text)
    sys.stdout.write(f"{text}\n")


def print_document(output_format: OutputFormat, value: Any) -> None:
    """Print a value as JSON or YAML; numbers stay exact."""
    if output_format is OutputFormat.YAML:
        _print_yaml(value)
    else:
        print_json(value)


def print_result(output_format: OutputFormat, document: Any, draw: Callable[[], object]) -> None:
    """Print the document, or for a person call `draw`, which prints the same as tables."""
    if output_format is OutputFormat.TABLE:
        draw()
    else:
        print_document(output_format, document)


class _Number(str):
    """A number with a point or an exponent, kept as it was written."""

    __slots__ = ()


def _print_yaml(value: Any) -> None:
    """Print a value that JSON can hold as YAML, with its keys in their order."""
    import yaml  # noqa: PLC0415 - a tenth of a verb's start

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(
        _Number,
        lambda dumper, number: dumper.represent_scalar("tag:yaml.org,2002:float", str(number)),
    )
    plain = msgspec.json.Decoder(float_hook=_Number).decode(documents.encode(value))
    yaml.dump(plain, sys.stdout, Dumper, sort_keys=False, allow_unicode=is_utf8(), width=math.inf)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str = "none",
) -> None:
    """Print a table; without rows, print the title and `empty`.

    A column whose name ends in `#` holds numbers and is aligned right. On a terminal, states,
    verdicts and severities have colours.
    """
    rows = list(rows)
    if not rows:
        sys.stdout.write(f"{escape_controls(title)}: {empty}\n")
        return
    from rich.console import Console  # noqa: PLC0415 - a third of a verb's start
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # As text and not as markup: what stands in square brackets would vanish.
    drawn = Table(
        title=Text(escape_controls(title), style="table.title"),
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_header=any(columns),
    )
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.endswith("#") else "left"
        drawn.add_column(column.removesuffix("#"), justify=justify, overflow="fold")
    for row in rows:
        cells = []
        for column, cell in zip(columns, row, strict=True):
            text = _format_cell(cell)
            style = _STYLES.get(text.partition(" ")[0], "") if column in _CONDITION_COLUMNS else ""
            cells.append(Text(text, style=style))
        drawn.add_row(*cells)
    console = Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 200)
    console.print(drawn)


def print_columns(
    title: str, rows: Iterable[T], columns: Mapping[str, Callable[[T], object]]
) -> None:
    """Print a table by its columns: each a heading, as in print_table, and its cell of a row."""
    cells = columns.values()
    print_table(title, tuple(columns), ([cell(row) for cell in cells] for row in rows))


def print_entry(condition: str, headline: str, details: Iterable[str]) -> None:
    """Print a condition with its headline, and its details below, one unwrapped line each.

    A command among the details can be copied from a terminal of any width.
    """
    from rich.console import Console  # noqa: PLC0415 - a third of a verb's start
    from rich.text import Text  # noqa: PLC0415

    drawn = Text()
    drawn.append(f"{escape_controls(condition):<8}", style=_STYLES.get(condition, ""))
    drawn.append(f"  {escape_controls(headline)}")
    for detail in details:
        drawn.append(f"\n{' ' * 10}{escape_controls(detail)}")
    Console(soft_wrap=True).print(drawn, highlight=False)


def _format_cell(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return escape_controls(str(cell))


def format_age(seconds: float | None) -> str | None:
    """Return a time span in seconds in its two largest units; None for None."""
    return None if seconds is None else format_timespan(seconds, with_zeros=True)


def format_moment(moment: float | None) -> str | None:
    """Return Unix seconds as UTC in the form 2030-01-31 12:00:00Z; None for None."""
    return None if moment is None else format_utc(moment)
