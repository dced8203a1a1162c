"""A Java stack trace -> the one line that tells one kind of failure from another.

    org.apache.kafka.common.errors.RecordTooLargeException in WorkerSourceTask.sendRecords
    org.apache.kafka.common.config.ConfigException in RowSinkTask.start while starting

The last cause's class, where it came from (stack_trace.py), and whether the task had read nothing
yet. Messages quote records, settings and credentials: of lines that have the shape of a trace's
own, only names of classes and methods are kept. Pure and total.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from offsetwatch.decode.stack_trace import (
    RUNTIME_PACKAGE,
    TASK_STARTS,
    TRACE_CHARS_MAX,
    StackFrame,
    TraceLine,
    find_origin,
    lines_of,
)

FAILURE_CHARS_MAX: Final = 200
WHILE_STARTING: Final = " while starting"
__all__ = [
    "FAILURE_CHARS_MAX",
    "TRACE_CHARS_MAX",
    "failure_of",
    "is_start_failure",
    "parse_exception_class",
]

# WorkerTask.doRun calls `initializeAndStart`, then `execute`, which holds the loop over records.
_EXECUTE: Final = ".execute"


def failure_of(trace: object) -> str | None:
    """Return `class in Class.method` with WHILE_STARTING where it applies; None if `trace` is none
    or holds no name that could be kept.
    """
    if not isinstance(trace, str):
        return None
    lines = tuple(lines_of(trace))
    root, frame = find_origin(lines)
    if root is None:
        return None
    return _format_failure(root, frame, WHILE_STARTING if _is_at_start(lines) else "")


def parse_exception_class(failure: str) -> str:
    """Return the exception's class of what `failure_of` returned."""
    return failure.partition(" ")[0]


def is_start_failure(failure: str) -> bool:
    """Return whether the task failed before it read its first record, so that none is to blame."""
    return failure.endswith(WHILE_STARTING)


def _is_at_start(lines: Iterable[TraceLine]) -> bool:
    """Return whether a frame of Connect's start is there and none of its loop over records.

    A message may hold lines that look like frames, but takes away none of Java's (stack_trace.py):
    made up lines cannot make a failure in the loop look like one at start.
    """
    methods = {
        frame.method or ""
        for frame in lines
        if isinstance(frame, StackFrame) and frame.package == RUNTIME_PACKAGE
    }
    return not methods.isdisjoint(TASK_STARTS) and not any(
        method.endswith(_EXECUTE) for method in methods
    )


def _format_failure(root: str, frame: str | None, stage: str) -> str | None:
    """Return `root`, with `frame` unless the line would be too long, with `stage`; None where the
    class alone is too long.
    """
    if len(root) + len(stage) > FAILURE_CHARS_MAX:
        return None
    if frame is None:
        return root + stage
    line = f"{root} in {'.'.join(frame.split('.')[-2:])}{stage}"
    return line if len(line) <= FAILURE_CHARS_MAX else root + stage
