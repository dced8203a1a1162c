"""Documents of the history pipeline for the daemon: its status, and baselines of connectors.

The pipeline writes them (history/tables/pipeline_status.py, history/baselines/document.py). The
baselines, learned from history, are valid as a whole or not at all. The week has 168 hours; the
first is Monday 00:00 UTC. An advance is a commit of another offset than before.

Pauses are measured in expected advances, which are the same by night and by day: a pause that
misses forty means more than one of an hour. Where advances follow a timetable, seconds mean more.
So a pause is out of the ordinary by either measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
SOURCE_LAG_S_MIN: Final = 60.0  # four reads of an end at the default interval
_MONDAY_S: Final = 4 * 86_400.0  # the first Monday of Unix time


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Baseline of one connector.

    since, until        Unix seconds: the time that it was learned from
    advances            number of advances in that time
    per_hour            expected advances in each hour of the week
    pause_advances      missed advances beyond which a pause is out of the ordinary; None: no limit
                        in advances
    pause_s             seconds beyond which a pause is; None: no limit in seconds
    quantiles           0.5, 0.9 and 0.99 quantile of pauses, in expected advances
    commit_s            the same quantiles of the seconds between two commits, whether or not of
                        another offset
    lag                 of a flow: the same quantiles of the lag in records, for each hour of the
                        week; None if unknown
    source_lag_s        the same of the seconds for which changes wait in the source of a connector
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
    source_lag_s: tuple[tuple[float, float, float], ...] | None = None

    def expected(self, since: float, until: float) -> float:
        """Return the expected number of advances between two moments (Unix seconds)."""
        return self._total(until) - self._total(since)

    def out_of_the_ordinary(self, since: float, until: float) -> bool:
        """Check whether a pause between two moments exceeded the limit of advances or seconds."""
        if self.pause_s is not None and until - since > self.pause_s:
            return True
        return self.pause_advances is not None and self.missed(since, until) > self.pause_advances

    def missed(self, since: float, until: float) -> float:
        """Return the fewest advances that were expected between two moments.

        The clocks that the connector works by may have been set an hour forward or back since the
        baseline was learned.
        """
        return min(
            self.expected(since + moment, until + moment) for moment in (-HOUR_S, 0.0, HOUR_S)
        )

    def interval_s(self, moment: float, quantile: int) -> float | None:
        """Return a quantile of seconds between advances at this hour of the week, if expected."""
        rate = self.per_hour[_find_week_hour(moment)[1]]
        return None if rate <= 0 else self.quantiles[quantile] / rate * HOUR_S

    def lag_records(self, moment: float, quantile: int) -> float | None:
        """Return a quantile of the lag in records at this hour of the week; None if unknown."""
        return None if self.lag is None else self.lag[_find_week_hour(moment)[1]][quantile]

    def lag_at_most(self, moment: float) -> float | None:
        """Return the lag that one of a hundred samples of this hour exceeds; None if unknown."""
        return self.lag_records(moment, QUANTILES.index(0.99))

    def lag_limit(self, moment: float) -> float | None:
        """Return the lag in records that is out of the ordinary if exceeded; None if unknown.

        At each hour of the week the limit is LAG_FACTOR times `lag_at_most`, plus LAG_RECORDS_MIN.
        """
        most = self.lag_at_most(moment)
        return None if most is None else LAG_FACTOR * most + LAG_RECORDS_MIN

    def source_lag_at_most(self, moment: float) -> float | None:
        """Return the seconds behind its source that one of a hundred samples of this hour of the
        week exceeds; None if unknown.
        """
        if self.source_lag_s is None:
            return None
        return self.source_lag_s[_find_week_hour(moment)[1]][QUANTILES.index(0.99)]

    def source_lag_limit(self, moment: float) -> float | None:
        """Return the seconds behind its source that are out of the ordinary if exceeded; None if
        unknown.

        At each hour of the week the limit is LAG_FACTOR times `source_lag_at_most`, plus
        SOURCE_LAG_S_MIN.
        """
        most = self.source_lag_at_most(moment)
        return None if most is None else LAG_FACTOR * most + SOURCE_LAG_S_MIN

    def _total(self, moment: float) -> float:
        week, hour, part = *_find_week_hour(moment), ((moment - _MONDAY_S) % HOUR_S) / HOUR_S
        return week * self._sums[-1] + self._sums[hour] + self.per_hour[hour] * part

    @cached_property
    def _sums(self) -> tuple[float, ...]:
        """Return the sums of `per_hour` before each hour; every evaluation needs thousands."""
        return tuple(accumulate(self.per_hour, initial=0.0))


QUANTILES: Final = (0.5, 0.9, 0.99)


class InsufficientBaseline(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"required": "wanted"},
):
    """Connector without a baseline: history has `had` of the `required` whole weeks."""

    connect_cluster: str
    connector: str
    had: int
    required: int


class Baselines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of the document; `until` is the end of the time that it was learned from."""

    made_at: float
    until: float
    connectors: tuple[Baseline, ...] = ()
    insufficient: tuple[InsufficientBaseline, ...] = ()


class DamagedBaselines(ValueError):
    """Error of a document that is not a complete document of baselines; the message says why."""


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    sha256: str
    body: msgspec.Raw


def encode_baselines(baselines: Baselines) -> bytes:
    """Return the document with its version and the checksum of its bytes."""
    body = msgspec.json.encode(baselines)
    return msgspec.json.encode(_Envelope(VERSION, _compute_checksum(body), msgspec.Raw(body)))


def decode_baselines(document: bytes) -> Baselines:
    """Decode a document of baselines. Raise DamagedBaselines."""
    try:
        envelope = msgspec.json.decode(document, type=_Envelope)
        body = bytes(envelope.body)
        if envelope.version != VERSION:
            raise DamagedBaselines(f"version {envelope.version}; this one reads {VERSION}")
        if envelope.sha256 != _compute_checksum(body):
            raise DamagedBaselines("its checksum is not that of its content")
        baselines = msgspec.json.decode(body, type=Baselines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise DamagedBaselines(f"no document of baselines: {exc}") from exc
    for wrong in _find_errors(baselines):
        raise DamagedBaselines(wrong)
    return baselines


def _find_errors(baselines: Baselines) -> Iterator[str]:
    for connector in baselines.connectors:
        limits = (
            connector.pause_advances or 0.0,
            connector.pause_s or 0.0,
            *(connector.commit_s or ()),
        )
        numbers = (*connector.per_hour, *limits, *connector.quantiles)
        if len(connector.per_hour) != HOURS or any(number < 0 for number in numbers):
            yield f"{connector.connector}: rates of {len(connector.per_hour)} hours, or below 0"
        for lags in (connector.lag, connector.source_lag_s):
            if lags is not None and (len(lags) != HOURS or any(min(hour) < 0 for hour in lags)):
                yield f"{connector.connector}: lags of {len(lags)} hours, or below 0"


def _find_week_hour(moment: float) -> tuple[int, int]:
    """Return (weeks since the first Monday, hour of the week)."""
    hours = int((moment - _MONDAY_S) // HOUR_S)
    return divmod(hours, HOURS)


def _compute_checksum(body: bytes) -> str:
    return sha256(body).hexdigest()


BRONZE, SILVER, GOLD = "bronze", "silver", "gold"


@dataclass(frozen=True, slots=True)
class FeedStatus:
    """Status of the stream of one Kafka cluster.

    decoded, undecodable    rows in bronze
    behind  records between the position and the log ends of the newest batch; None if not reported
    gaps    ranges of offsets that are missing for ever
    """

    kafka: str
    decoded: int = 0
    undecodable: int = 0
    behind: int | None = None
    gaps: int = 0


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """Status of the pipeline.

    batch_at    time by which every stream had ended a batch, or found nothing new; None before the
                first
    errors      failed runs, and streams that were restarted, by reason
    tables      the newest batch_at that is in the tables of a layer
    """

    batch_at: float | None = None
    feeds: tuple[FeedStatus, ...] = ()
    errors: tuple[tuple[str, int], ...] = ()
    tables: tuple[tuple[str, float], ...] = ()
