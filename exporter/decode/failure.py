"""A Java stack trace -> the one line that tells one kind of failure from another.

    org.apache.kafka.common.errors.RecordTooLargeException in WorkerSourceTask.sendRecords

The last cause's class and the first of its frames outside the JDK; a cause without frames (Kafka's
own errors have none) borrows those of what it was wrapped in. Messages quote records, settings and
credentials: only lines of the exact shape of a trace's own are looked at, and of those only names
of classes and methods are kept. Pure and total. Called by the decoders of Connect's status.
"""

from __future__ import annotations

import re
from typing import Final

FAILURE_CHARS_MAX: Final = 200
TRACE_CHARS_MAX: Final = 262_144  # the last cause stands at the end; a deep recursion is longer

_EXCEPTION = re.compile(r"(Caused by: )?((?:[a-z_][\w$]*\.)+[A-Z][\w$]*)(?::.*)?", re.ASCII)
# `at [loader/][module@version/]package.Class.method(File.java:1)`; what was suppressed is indented.
_FRAME = re.compile(
    r"\tat (?:[\w.@+-]*/)*((?:[\w$]+\.)*)([\w$]+\.[\w$<>]+)\([\w$. :-]*\)(?: ~?\[[^\[\]]*\])?",
    re.ASCII,
)
_JDK: Final = ("java.", "javax.", "jdk.", "sun.")


def failure_of(trace: object) -> str | None:
    """See the module; None if this is no trace, or holds no name that could be kept."""
    if not isinstance(trace, str):
        return None
    root, own, inherited = None, None, None
    for number, line in enumerate(trace[:TRACE_CHARS_MAX].split("\n")):
        text = line.rstrip("\r")
        found = _EXCEPTION.fullmatch(text)
        if found is not None and (found[1] is not None) == (number > 0):
            root, own, inherited = found[2], None, own or inherited
        elif own is None or own.startswith(_JDK):
            frame = _FRAME.fullmatch(text)
            if frame is not None and (own is None or not frame[1].startswith(_JDK)):
                own = frame[1] + frame[2]
    return None if root is None else _bounded(root, own or inherited)


def _bounded(root: str, frame: str | None) -> str | None:
    """`frame` with its package; a line that would be too long goes without it, then not at all."""
    if len(root) > FAILURE_CHARS_MAX:
        return None
    if frame is None:
        return root
    line = f"{root} in {'.'.join(frame.split('.')[-2:])}"
    return line if len(line) <= FAILURE_CHARS_MAX else root
