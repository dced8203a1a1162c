"""Moments and spans of time, as people type them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from exporter.errors import ConfigError

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])\s+ago")
_SPAN: Final = re.compile(r"([+-]?)\s*(\d+(?:\.\d+)?)\s*([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_time(text: str, now: float, option: str = "--time") -> float:
    """Unix seconds. Raises ConfigError for what is no time, or none without a zone."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now - float(ago[1]) * _SECONDS[ago[2]]
    try:
        return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else _moment(text)
    except ValueError as exc:
        raise ConfigError((f"{option} {text}: {exc}",)) from exc


def _moment(text: str) -> float:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("say the zone: Z, +02:00")
    return moment.timestamp()


def parse_span(text: str, option: str) -> float:
    """Seconds, below 0 unless a + says forward. Raises ConfigError."""
    span = _SPAN.fullmatch(text.strip())
    if span is None:
        raise ConfigError((f"{option} {text}: a number with s, m, h or d; + in front is forward",))
    seconds = float(span[2]) * _SECONDS[span[3]]
    return seconds if span[1] == "+" else -seconds
