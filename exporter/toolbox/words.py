"""Words for people: what was probably meant, and how a list is told. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

TOLD_MAX = 5  # of a list that may be long


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that was probably meant; None if none is near."""
    found = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def told(names: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    listed = sorted(names)
    more = len(listed) - TOLD_MAX
    return ", ".join(listed[:TOLD_MAX]) + (f" and {more} more" if more > 0 else "")
