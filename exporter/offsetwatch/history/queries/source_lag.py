"""Lag of source partitions behind the ends of their sources, from the samples in the tables.

A sample is what the daemon knew when it had read the end of a source. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

from offsetwatch.history.tables import reader
from offsetwatch.history.tables.offsets_topic_queries import (
    convert_to_datetime,
    quote_text,
    quote_time,
    quote_value,
)
from offsetwatch.history.tables.schemas import BRONZE_SOURCE_ENDS
from offsetwatch.history.tables.source_end_rows import build_sample
from offsetwatch.model.source_ends import SourceEndSample
from offsetwatch.state.mirror.lag import compute_lag_seconds

# A sample says nothing of a moment that is longer after it: as much as a run every ten minutes
# leaves between two.
SAMPLE_AGE_S_MAX: Final = 900.0


def read_newest_samples(
    base: Path, connect_cluster: str, connector: str | None, moment: float
) -> dict[tuple[str, str], SourceEndSample]:
    """Return by connector and source partition the newest sample of a moment, of one connector, or
    of all for None. What was not sampled within SAMPLE_AGE_S_MAX before is left out.
    """
    samples = _read_samples(base, connect_cluster, connector, moment - SAMPLE_AGE_S_MAX, moment)
    return {(sample.connector, sample.source_partition): sample for sample in samples}


def read_lag_seconds(
    base: Path, key: tuple[str, str], since: float, until: float
) -> Iterator[tuple[float, float]]:
    """Yield (Unix seconds, lag in seconds) for each read of the end of a connector's source.

    The lag is the greatest of its source partitions. Those whose lag is not known are left out.
    """
    samples = _read_samples(base, *key, since, until)
    for moment, same in groupby(samples, key=attrgetter("read_at")):
        lags = [
            lag
            for sample in same
            if (lag := compute_sample_lag_seconds(sample, moment)) is not None
        ]
        if lags:
            yield moment, max(lags)


def compute_sample_lag_seconds(sample: SourceEndSample, moment: float) -> float | None:
    """Return for how long changes had waited at a moment; None if that is not known."""
    return compute_lag_seconds(sample.behind_since, moment, caught_up=sample.caught_up)


def _read_samples(
    base: Path, connect_cluster: str, connector: str | None, since: float, until: float
) -> Iterator[SourceEndSample]:
    """Yield samples in the order of their times; none where no run has taken any."""
    if not reader.has_tables(base, (BRONZE_SOURCE_ENDS,)):
        return
    only = "" if connector is None else f"AND connector = {quote_text(connector)}"
    query = f"""
        SELECT * FROM samples
        WHERE connect_cluster = {quote_text(connect_cluster)} {only}
              AND day >= {quote_value(convert_to_datetime(since).date())}
              AND at >= {quote_time(since)} AND at <= {quote_time(until)}
        ORDER BY at
        """  # noqa: S608 - quoted
    result = reader.run_query(base, query, samples=BRONZE_SOURCE_ENDS)
    yield from map(build_sample, reader.convert_rows(result))
