"""How the process deals with memory. `settle` is called once, before anything that takes some is
loaded, and by what measures the daemon's parts; the edge has `Tidying` look again and again.
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
    """For the rest of the process."""
    gc.set_threshold(GARBAGE_MIN)
    _set_mmap_threshold()


class PeriodicGarbageCollector:
    """Looks for cycles by the clock as well, once in TIDY_S, as Python does by the number of
    objects: the young ones each time, the older ones in one of OLDER_TURNS, all of them in one of
    as many of these. Then what is free goes back to the system. For one thread at a time.
    """

    def __init__(self) -> None:
        self._turns = 0

    def look(self) -> None:
        """One turn."""
        self._turns += 1
        older, oldest = (
            not self._turns % turns for turns in (GENERATION_TURNS, GENERATION_TURNS**2)
        )
        gc.collect(older + oldest)
        if older:
            _trim_heap()


def _set_mmap_threshold() -> None:
    """Large blocks of memory go back to the system when they are freed. Left to itself, glibc
    learns from the first one of 32 MiB (an answer, what is saved) to keep all of that size, in an
    arena for each thread that met one (mallopt(3)). Nothing where there is no glibc.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def _trim_heap() -> None:
    """Of each arena (there is one for each of the many threads of librdkafka, up to eight for each
    core) glibc keeps the most that ever was in use, unless it is asked. Nothing without a glibc.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
