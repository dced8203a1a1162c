"""The threads that ask the desk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress


class ControlWorkers:
    """Each is one thread, started when it is first needed.

    hints   alerts
    slow    plans that are worked out, and the journal read from end to end
    rest    everything else: who stops, pauses or approves something
    """

    def __init__(self) -> None:
        self.hints = ThreadPoolExecutor(1, thread_name_prefix="control-hints")
        self.slow = ThreadPoolExecutor(1, thread_name_prefix="control-slow")
        self.rest = ThreadPoolExecutor(1, thread_name_prefix="control-desk")

    def end(self, at_end: Callable[[], None]) -> None:
        """Take nothing more; `at_end` is the last thing that each of them does. Safe to repeat."""
        for worker in (self.hints, self.slow, self.rest):
            with suppress(RuntimeError):  # it has been told before
                worker.submit(at_end)
            worker.shutdown(wait=False)
