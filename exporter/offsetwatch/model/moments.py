"""Moments in documents: Unix seconds inside, RFC 3339 in encoded documents (documents.py)."""

from __future__ import annotations

from typing import overload


class Moment(float):
    """Moment of a document in Unix seconds. Its JSON is `2026-01-31T23:59:59.5Z`."""

    __slots__ = ()


@overload
def moment_of(moment: float) -> Moment: ...
@overload
def moment_of(moment: float | None) -> Moment | None: ...
def moment_of(moment: float | None) -> Moment | None:
    """Return Unix seconds as a Moment; None stays None."""
    return None if moment is None else Moment(moment)


def read_moment(kind: type, stored: object) -> Moment:
    """Return a moment from disk, where it is a number. Raise TypeError for any other value.

    It is a `dec_hook` of msgspec; the `enc_hook` that writes it is `float`.
    """
    if kind is Moment and isinstance(stored, int | float):
        return Moment(stored)
    raise TypeError(f"{stored!r} is no {kind.__name__}")
