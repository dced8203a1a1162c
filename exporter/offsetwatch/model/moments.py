"""Moments of documents: Unix seconds inside, RFC 3339 where a document leaves (documents.py)."""

from __future__ import annotations

from typing import overload


class Moment(float):
    """A moment in Unix seconds that a document has. Its JSON is `2026-01-31T23:59:59.5Z`."""

    __slots__ = ()


@overload
def moment_of(moment: float) -> Moment: ...
@overload
def moment_of(moment: float | None) -> Moment | None: ...
def moment_of(moment: float | None) -> Moment | None:
    """Return Unix seconds as a document has them; None stays None."""
    return None if moment is None else Moment(moment)


def read_moment(kind: type, stored: object) -> Moment:
    """Return a moment that is on disk, where it is a number: a `dec_hook` of msgspec, as `float` is
    the `enc_hook` that writes it. Raises TypeError.
    """
    if kind is Moment and isinstance(stored, int | float):
        return Moment(stored)
    raise TypeError(f"{stored!r} is no {kind.__name__}")
