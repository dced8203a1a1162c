"""What is usual of a connector, as history has taught it: one document, whole or not at all.

Written by the pipeline (history/baselines.py), read by the daemon. The week has 168 hours, the
first of Monday 00:00 UTC. An advance is a commit of another offset than before.

What is measured in advances, and not in seconds, is the same by night and by day: a pause in which
forty were to be expected says more than one of an hour. Where advances come by a timetable, seconds
say more. So a pause is out of the ordinary by either.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from typing import Final

import msgspec

HOURS: Final = 168
HOUR_S: Final = 3600.0
VERSION: Final = 1
TOO_OLD_S: Final = 14 * 86_400.0  # what was usual half a month ago may not be any more
LAG_FACTOR: Final = 2.0
LAG_RECORDS_MIN: Final = 100
_MONDAY_S: Final = 4 * 86_400.0  # the first Monday of Unix time


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One connector.

    since, until        Unix seconds: what it was learned from
    advances            how many there were
    per_hour            advances to be expected in each hour of the week
    pause_advances      so many advances may be missed before a pause is out of the ordinary; None:
                        it cannot be told by that
    pause_s             so long may a pause be before it is; likewise
    quantiles           of pauses, in advances that were to be expected: 0.5, 0.9 and 0.99
    commit_s            the same quantiles of the seconds from one commit to the next, whether or
                        not it was of another offset
    lag                 of a flow: the same quantiles of the records that it had still to copy, for
                        each hour of the week; None where that is not known
    """

    connect_cluster: str
    connector: str
    since: float
    until: float
    advances: int
    per_hour: tuple[float, ...]
    pause_advances: float | None
    pause_s: float | None
    quantiles: tuple[float, float, float]
    commit_s: tuple[float, float, float] | None = None
    lag: tuple[tuple[float, float, float], ...] | None = None

    def expected(self, since: float, until: float) -> float:
        """Advances to be expected between two moments (Unix seconds)."""
        return self._total(until) - self._total(since)

    def out_of_the_ordinary(self, since: float, until: float) -> bool:
        """Was a pause between these moments longer than any usual one?"""
        if self.pause_s is not None and until - since > self.pause_s:
            return True
        return self.pause_advances is not None and self.missed(since, until) > self.pause_advances

    def missed(self, since: float, until: float) -> float:
        """The fewest advances that were to be expected between two moments, if the clocks that it
        works by may have been set an hour forward or back since it was learned.
        """
        return min(
            self.expected(since + moment, until + moment) for moment in (-HOUR_S, 0.0, HOUR_S)
        )

    def interval_s(self, moment: float, quantile: int) -> float | None:
        """How long it usually is between two advances at this hour of the week, by the number of a
        quantile; None where none are to be expected.
        """
        rate = self.per_hour[_find_week_hour(moment)[1]]
        return None if rate <= 0 else self.quantiles[quantile] / rate * HOUR_S

    def lag_records(self, moment: float, quantile: int) -> float | None:
        """How many records it usually has still to copy at this hour of the week, by the number of
        a quantile; None where that is not known.
        """
        return None if self.lag is None else self.lag[_find_week_hour(moment)[1]][quantile]

    def lag_at_most(self, moment: float) -> float | None:
        """How many it hardly ever has more of: exceeded once in a hundred looks."""
        return self.lag_records(moment, QUANTILES.index(0.99))

    def lag_limit(self, moment: float) -> float | None:
        """More than so many records still to copy are out of the ordinary at this hour: twice what
        is exceeded once in a hundred looks, and a few.
        """
        most = self.lag_at_most(moment)
        return None if most is None else LAG_FACTOR * most + LAG_RECORDS_MIN

    def _total(self, moment: float) -> float:
        week, hour, part = *_find_week_hour(moment), ((moment - _MONDAY_S) % HOUR_S) / HOUR_S
        return week * self._sums[-1] + self._sums[hour] + self.per_hour[hour] * part

    @cached_property
    def _sums(self) -> tuple[float, ...]:
        """Before each hour of the week; thousands are asked for at every look."""
        return tuple(accumulate(self.per_hour, initial=0.0))


QUANTILES: Final = (0.5, 0.9, 0.99)


class InsufficientBaseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A connector of which too little is known: `had` of `wanted` whole weeks."""

    connect_cluster: str
    connector: str
    had: int
    wanted: int


class Baselines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document. `until`: all that it was learned from is of before."""

    made_at: float
    until: float
    connectors: tuple[Baseline, ...] = ()
    insufficient: tuple[InsufficientBaseline, ...] = ()


class DamagedBaselines(ValueError):
    """No document of ours, or not all of one. The message says what is wrong with it."""


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    sha256: str
    body: msgspec.Raw


def encode_baselines(found: Baselines) -> bytes:
    """With its version and the checksum of its bytes."""
    body = msgspec.json.encode(found)
    return msgspec.json.encode(_Envelope(VERSION, _compute_checksum(body), msgspec.Raw(body)))


def decode_baselines(document: bytes) -> Baselines:
    """Raises Damaged."""
    try:
        envelope = msgspec.json.decode(document, type=_Envelope)
        body = bytes(envelope.body)
        if envelope.version != VERSION:
            raise DamagedBaselines(f"version {envelope.version}; this one reads {VERSION}")
        if envelope.sha256 != _compute_checksum(body):
            raise DamagedBaselines("its checksum is not that of its content")
        found = msgspec.json.decode(body, type=Baselines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise DamagedBaselines(f"no document of baselines: {exc}") from exc
    for wrong in _find_errors(found):
        raise DamagedBaselines(wrong)
    return found


def _find_errors(found: Baselines) -> Iterator[str]:
    for connector in found.connectors:
        limits = (
            connector.pause_advances or 0.0,
            connector.pause_s or 0.0,
            *(connector.commit_s or ()),
        )
        numbers = (*connector.per_hour, *limits, *connector.quantiles)
        if len(connector.per_hour) != HOURS or any(number < 0 for number in numbers):
            yield f"{connector.connector}: rates of {len(connector.per_hour)} hours, or below 0"
        if connector.lag is not None and (
            len(connector.lag) != HOURS or any(min(hour) < 0 for hour in connector.lag)
        ):
            yield f"{connector.connector}: lags of {len(connector.lag)} hours, or below 0"


def _find_week_hour(moment: float) -> tuple[int, int]:
    """(weeks since the first Monday, hour of the week)."""
    hours = int((moment - _MONDAY_S) // HOUR_S)
    return divmod(hours, HOURS)


def _compute_checksum(body: bytes) -> str:
    return sha256(body).hexdigest()
