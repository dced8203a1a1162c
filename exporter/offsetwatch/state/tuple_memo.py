"""Join tuples of views without making the same tuple twice.

A snapshot a second over 100,000 views would otherwise copy them a second, and whoever caches by
identity would never find its tuple again.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class TupleMemo(Generic[T]):
    """Remembers the last join."""

    def __init__(self) -> None:
        self._parts: tuple[tuple[T, ...], ...] = ()
        self._whole: tuple[T, ...] = ()

    def of(self, parts: tuple[tuple[T, ...], ...]) -> tuple[T, ...]:
        """The parts one after the other: the same tuple as before if they are the same objects."""
        if len(parts) == 1:
            return parts[0]
        same = len(parts) == len(self._parts) and all(
            new is old for new, old in zip(parts, self._parts, strict=True)
        )
        if not same:
            self._parts = parts
            self._whole = tuple(member for part in parts for member in part)
        return self._whole
