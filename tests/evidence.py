"""Evidence as a person reads it."""

from __future__ import annotations

from offsetwatch.model.findings import Evidence, format_value


def pairs(evidence: Evidence) -> list[tuple[str, str]]:
    """Return each name with its value and unit."""
    return [(item.name, format_value(item)) for item in evidence]


def texts(evidence: Evidence) -> dict[str, str]:
    """Return the values by their names."""
    return dict(pairs(evidence))
