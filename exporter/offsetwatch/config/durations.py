"""Durations of the configuration and the command line: text such as 1h30m, converted to seconds."""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

DAY_S: Final = 86_400.0
DURATION_MAX_S: Final = 36_500 * DAY_S  # beyond it, dates and timers of Python overflow
DURATION_FORMS: Final = "30s, 5m, 1h30m or 500ms; a plain number is seconds"
_SECONDS: Final = {"d": DAY_S, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER: Final = r"\d+(?:\.\d+)?"
_PLAIN_NUMBER: Final = re.compile(rf"[+-]?{_NUMBER}")
_DURATION: Final = re.compile(
    r"\s*".join(rf"(?:(?P<{unit}>{_NUMBER})\s*{unit}(?![a-z]))?" for unit in _SECONDS)
)
# A number and a word, three times at most: nothing else is repeated, as it may be a password.
_ATTEMPT: Final = re.compile(rf"[+-]?\s*(?:{_NUMBER}\s*[A-Za-z]{{0,12}}\s*){{1,3}}")
_LENGTH_MAX: Final = 40


class PlainNumber(NamedTuple):
    """Unit of a plain number in a duration setting, in seconds."""

    seconds: float

    def written(self, number: float) -> str:
        """Return so many units as a duration text."""
        return format_duration(number * self.seconds)


def parse_duration(text: str, forms: str = DURATION_FORMS) -> float:
    """Return the seconds of a duration text or a plain number of seconds.

    Units are d, h, m, s and ms, each at most once, the largest first. Raises ValueError with the
    mistake and the right forms.
    """
    bare = text.strip()
    if _PLAIN_NUMBER.fullmatch(bare):
        return _check_bounds(float(bare), forms)
    short = 0 < len(bare) <= _LENGTH_MAX
    found = _DURATION.fullmatch(bare) if short else None
    if found is None:
        shown = f'"{bare}" is ' if short and _ATTEMPT.fullmatch(bare) else ""
        raise ValueError(f"{shown}not a duration: write {forms}")
    numbers = found.groupdict("0").items()
    return _check_bounds(sum(_SECONDS[unit] * float(number) for unit, number in numbers), forms)


def _check_bounds(seconds: float, forms: str) -> float:
    if not math.isfinite(seconds) or seconds > DURATION_MAX_S:
        raise ValueError(f"a duration is at most {format_duration(DURATION_MAX_S)}: write {forms}")
    return seconds


def format_duration(seconds: float) -> str:
    """Return seconds in the form that `parse_duration` reads, in the largest units: 1h30m."""
    sign, rest_s = "-" if seconds < 0 else "", abs(seconds)
    if 0 < rest_s < 1:
        return f"{sign}{rest_s * 1000:g}ms"
    parts = []
    for unit in ("d", "h", "m"):
        whole, rest_s = divmod(rest_s, _SECONDS[unit])
        parts += [f"{whole:.0f}{unit}"] if whole else []
    parts += [f"{round(rest_s, 3):g}s"] if rest_s or not parts else []
    return sign + "".join(parts)
