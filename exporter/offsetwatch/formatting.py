"""Times, durations, counts and commands as text, and durations such as 1h30m read from text.

Moments are formatted by arithmetic alone: the judge, which uses this, knows no clock.
"""

from __future__ import annotations

import math
import re
import shlex
from functools import lru_cache
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
_ERA_DAYS: Final = 146_097  # 400 years of the Gregorian calendar


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
    match = _DURATION.fullmatch(bare) if short else None
    if match is None:
        prefix = f'"{bare}" is ' if short and _ATTEMPT.fullmatch(bare) else ""
        raise ValueError(f"{prefix}not a duration: write {forms}")
    numbers = match.groupdict("0").items()
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


def format_timespan(seconds: float, *, with_zeros: bool = False, hours_max: int = 24) -> str:
    """Return a duration in its two largest units: `2 h 5 min`.

    with_zeros    whether the smaller unit is shown if there are none of it: `2 h 0 min`
    hours_max     from so many hours on, days are shown
    """
    whole = max(0, round(seconds))
    for unit, size, smaller_unit, smaller, least in (
        ("d", 86_400, "h", 3600, hours_max * 3600),
        ("h", 3600, "min", 60, 3600),
        ("min", 60, "s", 1, 60),
    ):
        if whole >= least:
            rest = whole % size // smaller
            first = f"{whole // size} {unit}"
            return f"{first} {rest} {smaller_unit}" if rest or with_zeros else first
    return f"{whole} s"


def format_moment(moment: float) -> str:
    """Return Unix seconds in RFC 3339: `2026-01-31T23:59:59Z`."""
    return _format_second(int(moment // 1))


@lru_cache(maxsize=4096)  # a flush commits thousands of partitions within one second
def _format_second(position: int) -> str:
    days, second = divmod(position, 86_400)
    year, month, day = _compute_date(days)
    minute, second = divmod(second, 60)
    return f"{year:04}-{month:02}-{day:02}T{minute // 60:02}:{minute % 60:02}:{second:02}Z"


def _compute_date(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day that is counted from 1970-01-01.

    Years begin in March in this arithmetic, so that a leap day is the last day of its year.
    """
    era, of_era = divmod(days + 719_468, _ERA_DAYS)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    months = (5 * of_year + 2) // 153
    month = months + 3 if months < 10 else months - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * months + 2) // 5 + 1


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 partition`, `3 partitions`.

    plural      of a noun that does not get an `s`, or of a noun with a verb: `records are`
    """
    return f"{count} {noun}" if count == 1 else f"{count} {plural or f'{noun}s'}"


PROGRAM: Final = "offsetwatch"


def format_command(*words: str) -> str:
    """Return the command line with these words."""
    return shlex.join((PROGRAM, *words))


def format_extra_installation(extra: str) -> str:
    """Return how to install an extra of offsetwatch, which is on no package index.

    An index would install whatever is registered there under the name.
    """
    return (
        f"install the extra {extra}: `pip install '.[{extra}]'` in a checkout; the images have it"
    )


def format_connector_command(verb: str, connector: str, *options: str) -> str:
    """Return the command line of a verb, such as `connectors restart`, on a connector.

    A name that begins with a dash comes last, after `--`: otherwise it would be read as an option.
    """
    if connector.startswith("-"):
        return format_command(*verb.split(), *options, "--", connector)
    return format_command(*verb.split(), connector, *options)
