"""Exit of a process whose threads still wait for a cluster that does not answer.

librdkafka waits in C code until its own timeout. Python would wait for that before the process
ends, long after everything was printed.
"""

from __future__ import annotations

import os
import sys

_remaining_threads: list[str] = []


def record_remaining_threads(where: str) -> None:
    """Record that threads of this process may not end by themselves."""
    _remaining_threads.append(where)


def exit_if_threads_remain(code: object) -> None:
    """End the process with the code of a SystemExit if threads remain; otherwise return."""
    if not _remaining_threads:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)
