"""Worker threads that call the remediation API for the control listener."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress


class ControlWorkers:
    """Three workers of one thread each, started when first needed.

    hints   alerts
    slow    plans to be made, and the journal verified from start to end
    rest    all other requests: those that stop, pause or approve something
    """

    def __init__(self) -> None:
        self.hints = ThreadPoolExecutor(1, thread_name_prefix="control-hints")
        self.slow = ThreadPoolExecutor(1, thread_name_prefix="control-slow")
        self.rest = ThreadPoolExecutor(1, thread_name_prefix="control-desk")

    def end(self, at_end: Callable[[], None]) -> None:
        """Accept no more work; each worker calls `at_end` last. Idempotent."""
        for worker in (self.hints, self.slow, self.rest):
            with suppress(RuntimeError):  # it has been told before
                worker.submit(at_end)
            worker.shutdown(wait=False)
