"""Our commands and options that the program itself names, in messages, help, pages and templates,
are there. Documents and runbooks have tests of their own (test_pages.py, test_runbooks.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from offsetwatch.cli import cli

ROOT = Path(__file__).parents[2]
# Of other programs: git, kubectl, keytool, openssl, pip, spark-submit, and Kafka's own.
FOREIGN = {
    "--add-config",
    "--alter",
    "--describe",
    "--jars",
    "--py-files",
    "--archives",
    "--master",
}


def tree(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from tree(inner, (*path, name))


COMMANDS = dict(tree(cli))
OPTIONS = {
    path: {"--help", "-h"}.union(
        *((*parameter.opts, *parameter.secondary_opts) for parameter in command.params)
    )
    for path, command in COMMANDS.items()
}
ALL_OPTIONS = set().union(*OPTIONS.values()) | {"--version"}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module, with what is filled in as X; of any other file, its lines."""
    if path.suffix != ".py":
        yield from enumerate(path.read_text().splitlines(), start=1)
        return
    parsed = ast.parse(path.read_text())
    within: set[int] = set()
    for node in ast.walk(parsed):
        if isinstance(node, ast.JoinedStr):
            within |= {id(part) for part in ast.walk(node)} - {id(node)}
    for node in ast.walk(parsed):
        if id(node) in within:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_part(part) for part in node.values)


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    named = part.value if isinstance(part, ast.FormattedValue) else part
    return "offsetwatch" if isinstance(named, ast.Name) and named.id == "COMMAND" else "X"


FILES = sorted(
    path
    for folder, pattern in (
        ("exporter", "*.py"),
        ("exporter/offsetwatch/serve", "*.js"),
        ("exporter/offsetwatch/serve", "*.html"),
        ("helm", "*.txt"),
        ("helm", "*.yaml"),
        ("alerts/alertmanager", "*"),
        ("dashboards", "*.json"),
    )
    for path in (ROOT / folder).rglob(pattern)
    if path.is_file()
)


def commands(text: str) -> Iterator[str]:
    """Commands of ours in a text: in backticks, or as a text of their own."""
    yield from re.findall(r"`offsetwatch ([^`]+)`", text)
    alone = re.findall(r"^offsetwatch ((?:[a-z-]+)(?: .*)?)$", text)
    yield from (command for command in alone if (command.split()[0],) in COMMANDS)


def problem(command: str) -> str | None:
    """Return what does not exist in a command, None if all of it does."""
    path: tuple[str, ...] = ()
    words = command.split()
    while words and isinstance(COMMANDS[path], click.Group):
        if (*path, words[0]) not in COMMANDS:
            return f"no command {' '.join((*path, words[0]))}"
        path = (*path, words.pop(0))
    named = {
        word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)
    }
    missing = named - OPTIONS[path]
    return f"{' '.join(path)} has no {', '.join(sorted(missing))}" if missing else None


def test_every_command_that_the_program_names_exists_with_its_options():
    wrong, result = [], 0
    for path in FILES:
        for line, text in texts(path):
            for command in commands(text):
                result += 1
                answer = problem(command)
                if answer is not None:
                    wrong.append(f"{path.relative_to(ROOT)}:{line}: {answer}")
    assert not wrong, "\n".join(wrong)
    assert result > 20


def test_every_option_that_a_message_of_the_command_line_names_exists():
    wrong = []
    for path in FILES:
        parts = path.relative_to(ROOT).parts
        if path.suffix != ".py" or parts[1] not in {"cli", "toolbox", "remedy"}:
            continue
        for line, text in texts(path):
            named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+\b", text))
            wrong += [
                f"{path.relative_to(ROOT)}:{line}: {option}"
                for option in sorted(named - ALL_OPTIONS - FOREIGN)
            ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("statsu", "no command statsu"),
        ("offsets lst c", "no command offsets lst"),
        ("status --conf f", "status has no --conf"),
        ("explain X --connect lab --config f", None),
    ],
)
def test_what_does_not_exist_would_be_noticed(command: str, answer: str | None):
    assert problem(command) == answer
