"""Memory tuning of the process: garbage collector thresholds and glibc malloc.

`tune_memory` is called once, before anything large is loaded, and by measurements of the daemon's
parts. The ClusterMonitor runs PeriodicGarbageCollector again and again.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from typing import Final

M_MMAP_THRESHOLD: Final = -3  # malloc.h
LARGE_BLOCK_BYTES: Final = 1024 * 1024
# What is read and kept is hardly ever in a cycle. Looking for cycles after every 700 objects, as
# Python does by itself, is a quarter of what reading an offsets topic costs.
GARBAGE_MIN: Final = 50_000
# Where little is read, so many take minutes to come together: an HTTP exchange leaves a loop and
# its parts behind, which know each other, a hundred objects and 20 KiB.
GC_PERIOD_S: Final = 60.0
# What was in use at a turn, as an exchange that waits is, is looked through in one of so many, and
# what was at that one in one of as many of these: after five minutes, and after twenty-five.
GENERATION_TURNS: Final = 5


def tune_memory() -> None:
    """Set the thresholds for the rest of the process."""
    gc.set_threshold(GARBAGE_MIN)
    _set_mmap_threshold()


class PeriodicGarbageCollector:
    """Garbage collector by the clock, once in GC_PERIOD_S, beside Python's by object count.

    Each run collects the young generation, one in GENERATION_TURNS the older one, and one in as
    many of these everything. An older run also returns free memory to the system. Not thread-safe.
    """

    def __init__(self) -> None:
        self._rounds = 0

    def collect(self) -> None:
        """Run once."""
        self._rounds += 1
        older, oldest = (
            not self._rounds % turns for turns in (GENERATION_TURNS, GENERATION_TURNS**2)
        )
        gc.collect(older + oldest)
        if older:
            _trim_heap()


def _set_mmap_threshold() -> None:
    """Make malloc release large blocks to the system when they are freed; no effect without glibc.

    By default glibc learns from the first block of 32 MiB (an answer, a saved document) to keep all
    of that size, in an arena for each thread that had one (mallopt(3)).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def _trim_heap() -> None:
    """Release the free memory of all arenas to the system; no effect without glibc.

    By default glibc keeps the most that each arena ever used. There is one arena for each of the
    many threads of librdkafka, up to eight for each core.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
