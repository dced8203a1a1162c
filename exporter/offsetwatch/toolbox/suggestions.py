"""Suggestions for misspelt names, and short lists of names for users. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

NAMES_LISTED_MAX: Final = 5  # of a list that may be long
LENGTHS_APART_MAX: Final = 8
CANDIDATES_MAX: Final = 500


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the nearest name in `known`; None if none is near.

    At most CANDIDATES_MAX names of similar length are compared, because each comparison takes long.
    """
    similar = (other for other in known if abs(len(other) - len(name)) <= LENGTHS_APART_MAX)
    nearest = get_close_matches(name, sorted(islice(similar, CANDIDATES_MAX)), n=1, cutoff=0.6)
    return nearest[0] if nearest else None


def suggest_name(name: str, known: Iterable[str], otherwise: str = "it has") -> str:
    """Return what to name in place of an unknown name: the nearest of `known`, else the first."""
    listed = tuple(known)
    meant = find_nearest(name, listed)
    return f"did you mean {meant}?" if meant else f"{otherwise}: {format_names(listed) or 'none'}"


def explain_offsets_name(name: str) -> str:
    """Return what to do about a connector called `offsets`, which may be no name at all."""
    if name != "offsets":
        return ""
    return (
        "; the body of GET /connectors/NAME/offsets has no name in it: give it to "
        "`offsets alter NAME --offsets FILE`"
    )


def format_names(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    listed = sorted(names)
    more = len(listed) - NAMES_LISTED_MAX
    return ", ".join(listed[:NAMES_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
