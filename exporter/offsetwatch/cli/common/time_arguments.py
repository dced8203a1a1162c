"""Parsers of points in time and time spans on the command line."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from offsetwatch.config.durations import parse_duration
from offsetwatch.errors import ConfigError

_FORMS: Final = "ISO 8601 with a zone, Unix seconds, or how long ago: 10m ago"


def parse_time(text: str, now: float, option: str = "--time") -> float:
    """Return Unix seconds. Raises ConfigError for a text that is no time or has no time zone."""
    bare = text.strip()
    try:
        if bare.endswith("ago"):
            return now - parse_duration(bare.removesuffix("ago"))
        return float(bare) if re.fullmatch(r"\d+(\.\d+)?", bare) else _parse_moment(bare)
    except ValueError as exc:
        raise ConfigError((f"{option} {text}: {exc}",)) from exc


def _parse_moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"not a time: write {_FORMS}") from None
    if moment.tzinfo is None:
        raise ValueError("say the zone: Z, +02:00")
    return moment.timestamp()


def parse_span(text: str, option: str) -> float:
    """Return seconds: negative, or positive if the text begins with +. Raises ConfigError."""
    bare = text.strip()
    signed = bare[:1] in {"+", "-"}
    try:
        seconds = parse_duration(bare[1:] if signed else bare)
        if seconds < 0:
            raise ValueError("one sign in front of a duration")
    except ValueError as exc:
        raise ConfigError((f"{option} {text}: {exc}; + in front is forward",)) from exc
    return seconds if bare.startswith("+") else -seconds
