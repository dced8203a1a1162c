"""Memo that joins tuples of views without building the same tuple twice.

A snapshot a second over 100,000 views would otherwise copy them every second, and a cache by
identity would never find its tuple again.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class TupleMemo(Generic[T]):
    """Memo of the last join."""

    def __init__(self) -> None:
        self._parts: tuple[tuple[T, ...], ...] = ()
        self._whole: tuple[T, ...] = ()

    def of(self, parts: tuple[tuple[T, ...], ...]) -> tuple[T, ...]:
        """Join the parts in order. Return the same tuple while the parts are the same objects."""
        if len(parts) == 1:
            return parts[0]
        same = len(parts) == len(self._parts) and all(
            new is old for new, old in zip(parts, self._parts, strict=True)
        )
        if not same:
            self._parts = parts
            self._whole = tuple(member for part in parts for member in part)
        return self._whole
