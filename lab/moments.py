"""Moments of the product's documents, which are RFC 3339."""

from datetime import datetime


def seconds(moment: str) -> float:
    """Return a moment in Unix seconds."""
    return datetime.fromisoformat(moment).timestamp()
