"""A Java stack trace -> the one line that tells one kind of failure from another.

    org.apache.kafka.common.errors.RecordTooLargeException in WorkerSourceTask.sendRecords

The last cause's class and where it came from (trace.py). Messages quote records, settings and
credentials: of lines that have the shape of a trace's own, only names of classes and methods are
kept. Pure and total. Called by the decoders of Connect's status.
"""

from __future__ import annotations

from typing import Final

from exporter.decode.trace import TRACE_CHARS_MAX, lines_of, origin

FAILURE_CHARS_MAX: Final = 200
__all__ = ["FAILURE_CHARS_MAX", "TRACE_CHARS_MAX", "failure_of"]


def failure_of(trace: object) -> str | None:
    """See the module; None if this is no trace, or holds no name that could be kept."""
    if not isinstance(trace, str):
        return None
    root, frame = origin(lines_of(trace))
    return None if root is None else _bounded(root, frame)


def _bounded(root: str, frame: str | None) -> str | None:
    """`frame` with its package; a line that would be too long goes without it, then not at all."""
    if len(root) > FAILURE_CHARS_MAX:
        return None
    if frame is None:
        return root
    line = f"{root} in {'.'.join(frame.split('.')[-2:])}"
    return line if len(line) <= FAILURE_CHARS_MAX else root
