"""The daemon's loop beside other work: how long its ticks take, and how late they begin."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from offsetwatch.loop import Loop


@dataclass(slots=True)
class Ticks:
    """Seconds: what each tick took, and how much later than asked for it began."""

    took_s: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)

    def line(self) -> str:
        """As printed."""
        took = sorted(self.took_s)
        p99 = took[min(len(took) - 1, math.ceil(0.99 * len(took)) - 1)]
        return (
            f"{len(took)} ticks of {1000 * statistics.median(took):.0f} ms (median), "
            f"{1000 * p99:.0f} ms (p99), begun up to {1000 * max(self.late_s):.0f} ms late"
        )


@contextmanager
def ticking(loop: Loop) -> Iterator[Ticks]:
    """Run it until the end of the block, in a thread as in the daemon."""
    ticks = Ticks()
    stop = threading.Event()
    returned: list[float] = []

    def waited(tick_s: float) -> bool:
        now = time.perf_counter()
        if returned:
            ticks.took_s.append(now - returned[-1])
        stopped = stop.wait(tick_s)
        returned.append(time.perf_counter())
        ticks.late_s.append(returned[-1] - now - tick_s if not stopped else 0.0)
        return stopped

    thread = threading.Thread(target=loop.run, args=(waited,))
    thread.start()
    try:
        yield ticks
    finally:
        stop.set()
        thread.join()
