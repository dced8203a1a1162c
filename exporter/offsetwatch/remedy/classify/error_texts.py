"""Classification of an exception by its text, where its class stands for every error of a server.

PostgreSQL's driver throws one class for a value that is too long and for a lost connection, and
its stack trace lacks the SQLState. error_texts.toml has the texts by which a server or a client
words an error of a certain SQLState or HTTP status. An exception with such a text is classified by
another class: one of SQLState 22 or 23 by the class that JDBC has for it (java.sql, JDBC 4.3), any
other by its code, as SQLSTATE.40P01, HTTP.403 or MONGODB.13.

A text may quote a record, so what allows is stricter than what forbids. Of SQLState 22 and 23 the
whole text has to be the server's: one line, and below it no lines but those that PostgreSQL's
driver adds (Detail, Hint, Position, Where).

The JDBC sinks of Confluent and Aiven put all exceptions of a batch into the text of an SQLException
of their own, one after the other, each with its class at the beginning of a line. What allows there
is stricter again: the last of them has to mean bad data, and none of the trace anything else.
A record may add such a line, but removes none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

from offsetwatch.decode.stack_trace import ExceptionHeader, TraceLine
from offsetwatch.remedy.classify.trace_meanings import FailureKind, ThrowableHint, find_meaning

DATA_CLASSES: Final = {
    "22": "java.sql.SQLDataException",
    "23": "java.sql.SQLIntegrityConstraintViolationException",
}
SQLSTATE: Final = "SQLSTATE"
_SQL_EXCEPTION: Final = "java.sql.SQLException"
_CHAIN_TITLE: Final = "Exception chain:"  # the first line of Confluent's text
_QUOTED: Final = re.compile(r"((?:[a-z_][\w$]*\.)+[A-Z][\w$]*)(?:: (.*))?", re.ASCII)
# org.postgresql.util.ServerErrorMessage.toString
_DRIVER_LINE: Final = re.compile(r"  (?:Detail|Hint|Position|Where): .*")


class ErrorText(NamedTuple):
    """Text of an error of a server.

    pattern     matches the beginning of the text's first line
    code        None if the pattern's group `code` has it
    """

    pattern: re.Pattern[str]
    scheme: str
    code: str | None


def _read_texts(table: dict[str, Any]) -> Iterator[ErrorText]:
    scheme = table.get("scheme", SQLSTATE)
    for code, patterns in table.get("code", {}).items():
        yield from (ErrorText(re.compile(pattern), scheme, code) for pattern in patterns)
    yield from (ErrorText(re.compile(pattern), scheme, None) for pattern in table.get("shows", ()))


def _read_servers() -> dict[str, tuple[ErrorText, ...]]:
    text = files(__package__).joinpath("error_texts.toml").read_text(encoding="utf-8")
    texts: dict[str, tuple[ErrorText, ...]] = {}
    for table in tomllib.loads(text)["server"]:
        for name in table["classes"]:
            texts[name] = (*texts.get(name, ()), *_read_texts(table))
    return texts


TEXTS: Final = _read_servers()


def find_class_by_text(name: str, message: Sequence[str]) -> str | None:
    """Return the class by which this exception is classified; None if its text is unknown.

    `message` has the lines of its text.
    """
    for text in TEXTS.get(name, ()):
        match = text.pattern.match(message[0])
        if match is None:
            continue
        code = text.code or match["code"]
        data_class = DATA_CLASSES.get(code[:2]) if text.scheme == SQLSTATE else None
        if data_class is None:
            return f"{text.scheme}.{code}"
        whole = match.end() == len(message[0])
        if whole and all(_DRIVER_LINE.fullmatch(line) for line in message[1:] if line):
            return data_class
    return None


def rename_by_text(trace: str, lines: Sequence[TraceLine]) -> tuple[TraceLine, ...]:
    """Return the lines of a trace with the classes by which its exceptions are classified."""
    if not any(isinstance(line, ExceptionHeader) and line.name in TEXTS for line in lines):
        return tuple(lines)
    texts = trace.split("\n")
    return tuple(
        _rename(line, texts, lines, number) if isinstance(line, ExceptionHeader) else line
        for number, line in enumerate(lines)
    )


def _rename(
    header: ExceptionHeader, texts: Sequence[str], lines: Sequence[TraceLine], number: int
) -> ExceptionHeader:
    if header.name is None or header.name not in TEXTS:
        return header
    message = [header.said, *_read_words(texts, lines, number + 1)]
    name = find_class_by_text(header.name, message)
    if name is None and header.name == _SQL_EXCEPTION:
        name = _find_class_by_chain(message, texts, lines)
    return header if name is None else header._replace(name=name)


def _read_words(texts: Sequence[str], lines: Sequence[TraceLine], start: int) -> list[str]:
    """Return the lines from here on that are no part of a stack, without blank last ones."""
    end = start
    while end < len(lines) and lines[end] is None:
        end += 1
    words = [text.rstrip("\r") for text in texts[start:end]]
    while words and not words[-1]:
        words.pop()
    return words


def _find_class_by_chain(
    message: Sequence[str], texts: Sequence[str], lines: Sequence[TraceLine]
) -> str | None:
    """Return the class of the last exception that this text quotes, or of the first that forbids.

    None if it quotes none, or one of unknown meaning.
    """
    names = _read_quoted(message[1:] if message[0] == _CHAIN_TITLE else message)
    if not names:
        return None
    meanings = {name: find_meaning(name) for name in (*names, *_read_all_quoted(texts, lines))}
    for name, meaning in meanings.items():
        if isinstance(meaning, FailureKind) and meaning is not FailureKind.UNKNOWN:
            return name
    allowed = set(meanings.values()) <= {ThrowableHint.WRAPS, ThrowableHint.VALUE}
    return names[-1] if allowed and meanings[names[-1]] is ThrowableHint.VALUE else None


def _read_all_quoted(texts: Sequence[str], lines: Sequence[TraceLine]) -> Iterator[str]:
    """Yield the classes of all exceptions that texts of this trace quote at a line's beginning."""
    for number, line in enumerate(lines):
        if line is None and (number == 0 or lines[number - 1] is not None):
            yield from _read_quoted(_read_words(texts, lines, number))


def _read_quoted(words: Iterable[str]) -> list[str]:
    """Return the classes by which exceptions are classified that are quoted one after the other."""
    quoted: list[tuple[str, list[str]]] = []
    for text in words:
        match = _QUOTED.fullmatch(text)
        if match is not None:
            quoted.append((match[1], [match[2] or ""]))
        elif quoted:
            quoted[-1][1].append(text)
    return [find_class_by_text(name, message) or name for name, message in quoted]
