"""How the process deals with memory. Called once, before anything that takes some is loaded, and by
what measures the daemon's parts.
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


def settle() -> None:
    """For the rest of the process."""
    gc.set_threshold(GARBAGE_MIN)
    _give_back_at_once()


def _give_back_at_once() -> None:
    """Large blocks of memory go back to the system when they are freed. Left to itself, glibc
    learns from the first one of 32 MiB (an answer, what is saved) to keep all of that size, in an
    arena for each thread that met one (mallopt(3)). Nothing where there is no glibc.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
