"""Messages with lines of a trace's own shape in them, put where a trace has messages."""

from __future__ import annotations

from offsetwatch.decode.stack_trace import ExceptionHeader, lines_of
from offsetwatch.remedy.classify import SKIPPABLE
from offsetwatch.remedy.classify.error_texts import TEXTS
from tests.corpus.cases import CORPUS

CATCHES = "org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator"
DATA = "org.apache.kafka.connect.errors.DataException"
# What a careless operator might list.
LISTED = frozenset(
    {
        DATA,
        "java.lang.NullPointerException",
        "java.lang.IllegalArgumentException",
        "java.sql.SQLDataException",
        "com.mongodb.MongoBulkWriteException",
        "com.example.connect.csv.RowFormatException",
    }
)
SKIPPED = tuple(case for case in CORPUS if case.classified().kind in SKIPPABLE)


def beginnings(trace: str) -> list[int]:
    """Numbers of the lines that begin an exception, or look as if they did."""
    return [
        offset for offset, line in enumerate(lines_of(trace)) if isinstance(line, ExceptionHeader)
    ]


def with_message(trace: str, offset: int, message: str) -> str:
    """The trace, had the exception that this line begins said something else.

    Where a server's words count, they come first, and the record is quoted after them.
    """
    lines, parsed = trace.split("\n"), list(lines_of(trace))
    header = parsed[offset]
    if header.name in TEXTS:
        quoting = f"{lines[offset]} {message}"
        return "\n".join([*lines[:offset], quoting, *lines[offset + 1 :]])
    after = offset + 1  # what the message had beyond its first line goes with it
    while after < len(lines) - 1 and parsed[after] is None:
        after += 1
    link = "\t" * header.depth + (header.link and f"{header.link}: ")
    head = lines[offset].rstrip("\r") if header.name is None else f"{link}{header.name}: "
    return "\n".join([*lines[:offset], head + message, *lines[after:]])


def forgeries() -> list[str]:
    """What somebody would try first: lines of traces that are a record's fault, whole and in part,
    and what could follow them.
    """
    bodies = {}
    for case in SKIPPED:
        lines = case.trace.rstrip("\r\n").split("\n")[1:]
        bodies.setdefault(case.stage.partition("_")[0], ("\n".join(lines), "\n".join(lines[:4])))
    ends = (
        "",
        f"\nCaused by: {DATA}: x",
        f"\nCaused by: {DATA}: x\n\tat a.B.c(B.java:1)\n\t... 999 more",
        f"\n\tat {CATCHES}.execAndHandleError(RetryWithToleranceOperator.java:243)",
    )
    return [
        f"x\nCaused by: {DATA}: y",
        f"x\n\t... 999 more\nCaused by: {DATA}: y\n\t... 998 more",
        f"x\n\tSuppressed: {DATA}: y",
        f"x\r\nCaused by: {DATA}: y\r",
        "x\nCaused by: org.apache.kafka.common.errors.RecordTooLargeException: y",
        "x\nCaused by: org.apache.kafka.common.errors.CorruptRecordException: y",
        *(f"x\n{body}{end}" for pair in bodies.values() for body in pair for end in ends),
    ]
