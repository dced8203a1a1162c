"""The end of a process in which threads still wait for a cluster that does not answer.

Such a wait is in a library written in C, and ends by a timeout of its own; Python would wait for it
before the process ends, long after everything was printed.
"""

from __future__ import annotations

import os
import sys

_remaining_threads: list[str] = []


def record_remaining_threads(where: str) -> None:
    """Note that threads of this process may not end by themselves."""
    _remaining_threads.append(where)


def exit_if_threads_remain(code: object) -> None:
    """End the process with this code of a SystemExit if threads were left; return otherwise."""
    if not _remaining_threads:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)
