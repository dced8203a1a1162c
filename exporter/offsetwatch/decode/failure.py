"""Failure kind: one line that classifies a Java stack trace.

    org.apache.kafka.common.errors.RecordTooLargeException in WorkerSourceTask.sendRecords
    org.apache.kafka.common.config.ConfigException in RowSinkTask.start while starting

It holds the last cause's class, where it came from (stack_trace.py), and whether the task had read
nothing yet. Messages quote records, settings and credentials: of lines with the shape of a trace,
only the names of classes and methods are retained. Pure and total.
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
    """Return the failure kind of a trace: `class in Class.method`, with WHILE_STARTING if so.

    None if `trace` is no trace, or holds no name that may be retained.
    """
    if not isinstance(trace, str):
        return None
    lines = tuple(lines_of(trace))
    root, frame = find_origin(lines)
    if root is None:
        return None
    return _format_failure(root, frame, WHILE_STARTING if _is_at_start(lines) else "")


def parse_exception_class(failure: str) -> str:
    """Return the exception class of a failure kind that `failure_of` returned."""
    return failure.partition(" ")[0]


def is_start_failure(failure: str) -> bool:
    """Check whether a task failed before it read its first record, so that no record caused it."""
    return failure.endswith(WHILE_STARTING)


def _is_at_start(lines: Iterable[TraceLine]) -> bool:
    """Check whether a trace has a frame of Connect's start and none of its loop over records.

    A message may hold lines that look like frames, but it removes none of Java's (stack_trace.py):
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
    """Return `root`, `frame` and `stage` as one line, without `frame` if that is too long.

    None where the class alone is too long.
    """
    if len(root) + len(stage) > FAILURE_CHARS_MAX:
        return None
    if frame is None:
        return root + stage
    line = f"{root} in {'.'.join(frame.split('.')[-2:])}{stage}"
    return line if len(line) <= FAILURE_CHARS_MAX else root + stage
