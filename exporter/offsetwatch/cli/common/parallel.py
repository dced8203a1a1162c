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
from typing import Final, Generic, TypeVar

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
    asks: Iterable[tuple[str, Callable[[], Reply]]], timeout_s: float
) -> Iterator[tuple[str, Reply | ClientError]]:
    """Yield the name and the reply of each request, or the error that it raised, in order.

    A request without a reply `timeout_s` after the start of all yields ResponseTimeout.
    """
    deadline = time.monotonic() + timeout_s
    free = threading.BoundedSemaphore(PARALLEL_MAX)
    asked = [(name, _Question(name, ask, free)) for name, ask in asks]
    for name, question in asked:
        question.done.wait(max(0.0, deadline - time.monotonic()))
        if not question.done.is_set():
            record_remaining_threads(name)
            yield name, ResponseTimeout(name, f"no answer within {format_duration(timeout_s)}")
            continue
        if question.bug is not None:
            raise question.bug
        assert question.reply is not None
        yield name, question.reply


class _Question(Generic[Reply]):
    """A request in a daemon thread, which does not keep the process from ending."""

    def __init__(
        self, name: str, ask: Callable[[], Reply], free: threading.BoundedSemaphore
    ) -> None:
        self.reply: Reply | ClientError | None = None
        self.bug: Exception | None = None
        self.done = threading.Event()
        self._free = free
        threading.Thread(target=self._run, args=(ask,), name=f"ask-{name}", daemon=True).start()

    def _run(self, ask: Callable[[], Reply]) -> None:
        with self._free:
            try:
                self.reply = ask()
            except ClientError as exc:
                self.reply = exc
            except Exception as exc:  # noqa: BLE001 - raised again where the reply is taken
                self.bug = exc
            finally:
                self.done.set()
