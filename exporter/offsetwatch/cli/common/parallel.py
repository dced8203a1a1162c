"""Parallel requests within one time limit, and the exit of a process that has abandoned some.

librdkafka waits in C code until its own timeout. Python would wait for that before the process
ends, long after everything was printed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from typing import Final, TypeVar

from offsetwatch.errors import ClientError, ResponseTimeout
from offsetwatch.formatting import format_duration

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


PARALLEL_MAX: Final = 8

Reply = TypeVar("Reply")


def ask_all(
    requests: Iterable[tuple[str, Callable[[], Reply]]], timeout_s: float
) -> Iterator[tuple[str, Reply | ClientError]]:
    """Yield the name and the reply of each request, or the error that it raised, in order.

    A request without a reply `timeout_s` after the start of all yields ResponseTimeout.
    """
    deadline = time.monotonic() + timeout_s
    free = threading.BoundedSemaphore(PARALLEL_MAX)
    sent = [(name, _send(name, request, free)) for name, request in requests]
    for name, future in sent:
        wait([future], max(0.0, deadline - time.monotonic()))
        if not future.done():
            record_remaining_threads(name)
            yield name, ResponseTimeout(name, f"no answer within {format_duration(timeout_s)}")
            continue
        error = future.exception()
        if error is not None and not isinstance(error, ClientError):
            raise error
        yield name, future.result() if error is None else error


def _send(
    name: str, request: Callable[[], Reply], free: threading.BoundedSemaphore
) -> Future[Reply]:
    """Run a request in a daemon thread, which does not keep the process from ending."""
    future: Future[Reply] = Future()

    def run() -> None:
        with free:
            try:
                future.set_result(request())
            except Exception as exc:  # noqa: BLE001 - raised again where the reply is taken
                future.set_exception(exc)

    threading.Thread(target=run, name=f"ask-{name}", daemon=True).start()
    return future
