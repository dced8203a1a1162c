"""When a connector stood still for longer than usual, and when a flow had more to copy than usual:
read from the tables, without a JVM. Called by timeline.py; the words are stories.py's.

What is usual is what history has taught (model/baselines.py). Of who has no baseline yet, a pause
is told that is far longer than those of the same window, and no lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from offsetwatch.history.queries.connector_events import TOGETHER_S, Behind, Silence
from offsetwatch.history.tables import flows as flows_table
from offsetwatch.history.tables import pipeline_status, reader
from offsetwatch.history.tables.commit_changes import RESET
from offsetwatch.history.tables.log_queries import exact, literal, moment, quoted
from offsetwatch.history.tables.schemas import (
    BRONZE_LOG_ENDS,
    CONNECT_OFFSETS,
    SILVER_COMMITS,
    SILVER_LOGS,
    SILVER_SNAPSHOTS,
)
from offsetwatch.model.baselines import Baseline
from offsetwatch.model.offsets import Order
from offsetwatch.model.topology import MirrorFlow

SILENT_S_MIN: Final = 300.0
SILENT_TIMES: Final = 20.0  # so many times its usual pause
SPANS_MIN: Final = 20  # fewer are no habit
BEFORE_S: Final = 60 * 86_400.0  # a pause that began earlier is told as one of so long at least

APART_S: Final = 900.0  # looks further apart say nothing of what was between them


def read_up_to(base: Path) -> float | None:
    """Until when the tables know all there was (Unix seconds): quiet after that is not quiet,
    nobody looked. None if nothing was read yet.
    """
    found = pipeline_status.read(base)
    if found is not None and found.batch_at is not None:
        return found.batch_at
    logs = reader.all_rows(base, SILVER_LOGS)
    moments = [row["last_read_at"] for row in logs if row["kind"] == CONNECT_OFFSETS]
    return max(moments, default=None)


def silences(
    base: Path, whose: tuple[str, str], since: float, until: float, usual: Baseline | None
) -> Iterator[Silence]:
    """Pauses of the connector as a whole that end after `since` and begin before `until`; the last
    of them may go on.
    """
    known = read_up_to(base)
    end = until if known is None else min(until, known)
    times = _moments(base, whose, since, until, advances=usual is not None)
    spans = [(one, other) for one, other in pairwise(times) if other - one > TOGETHER_S]
    often = _often(spans, since)
    last = (times[-1], end) if times and end - times[-1] > TOGETHER_S else None
    for begins, ends in [*spans, *(() if last is None else (last,))]:
        ongoing = (begins, ends) == last
        if usual is not None:
            if usual.out_of_the_ordinary(begins, ends):
                missed = usual.missed(begins, ends)
                yield Silence(begins, ends, missed=missed, ongoing=ongoing)
        elif often is not None and ends - begins > max(SILENT_S_MIN, SILENT_TIMES * often):
            yield Silence(begins, ends, usual_s=often, ongoing=ongoing)


def behind(
    base: Path, whose: tuple[str, str], since: float, until: float, usual: Baseline | None
) -> tuple[tuple[Behind, ...], str | None]:
    """When it had more to copy than usual; and why that cannot be told, of a flow."""
    everything = flows_table.stored(base)
    flow = next((at for at in everything if (at.connect_cluster, at.connector) == whose), None)
    if flow is None:
        return (), None
    if flow.upstream is None:
        return (), "where its source is, is not configured: how far it was behind is not known"
    if usual is None or usual.lag is None:
        return (), "its log ends were not sampled for four weeks: what lag is usual is not known"
    looks = _looks(base, flow, since, until)
    return tuple(fold(looks, usual)), None


def fold(looks: Iterable[tuple[float, int]], usual: Baseline) -> Iterator[Behind]:
    """Episodes, of (Unix seconds, records still to copy) in order. One look alone is none."""
    over: list[tuple[float, int]] = []
    before: float | None = None
    for at, lag in looks:
        much = lag > (usual.lag_limit(at) or 0.0)
        apart = before is not None and at - before > APART_S
        if over and (apart or not much):
            yield from _episode(over, usual, None if apart else at)
            over = []
        if much:
            over.append((at, lag))
        before = at
    yield from _episode(over, usual, None)


def _episode(
    over: list[tuple[float, int]], usual: Baseline, ended: float | None
) -> Iterator[Behind]:
    if len(over) < 2:
        return
    peak_at, peak = max(over, key=lambda look: look[1])
    most = usual.lag_at_most(peak_at) or 0.0
    yield Behind(over[0][0], over[-1][0] if ended is None else ended, peak, most, ended is not None)


def _often(spans: list[tuple[float, float]], since: float) -> float | None:
    """How long a pause usually is, by those that begin in the window; None of too few."""
    lasted = [ends - begins for begins, ends in spans if begins >= since]
    return median(lasted) if len(lasted) >= SPANS_MIN else None


def _moments(
    base: Path, whose: tuple[str, str], since: float, until: float, *, advances: bool
) -> list[float]:
    """When it committed, or advanced, in the window; and the last time before that."""
    moved = f"AND change NOT IN ('{Order.SAME.value}', '{RESET}')" if advances else ""
    mine = f"connect_cluster = {quoted(whose[0])} AND connector = {quoted(whose[1])} {moved}"
    begin = since - BEFORE_S
    query = f"""
        SELECT DISTINCT date_part('epoch', at) AS second FROM records
        WHERE {mine} AND at >= {moment(since)} AND at <= {moment(until)}
        UNION
        SELECT date_part('epoch', max(at)) AS second FROM records
        WHERE {mine} AND day >= {_day(begin)} AND at < {moment(since)}
        """  # noqa: S608 - quoted, and numbers
    rows = reader.queried(base, query, records=SILVER_COMMITS).to_pylist()
    return sorted(row["second"] for row in rows if row["second"] is not None)


def _looks(base: Path, flow: MirrorFlow, since: float, until: float) -> Iterator[tuple[float, int]]:
    """(Unix seconds, records still to copy) of each time that its log ends were sampled."""
    assert flow.upstream is not None
    before = [day for day in reader.days(base, SILVER_SNAPSHOTS) if day < exact(since).date()]
    pictured = max(before, default=None)
    after = "" if pictured is None else f"AND day > {literal(pictured)}"
    of_day = "FALSE" if pictured is None else f"day = {literal(pictured)}"
    mine = (
        f"connect_cluster = {quoted(flow.connect_cluster)} AND connector = {quoted(flow.connector)}"
    )
    query = f"""
        WITH events AS (
            SELECT source_partition AS place, at AS moment, 0 AS look, coalesce(pos, -1) AS pos,
                   NULL AS log_end
            FROM snapshots WHERE {mine} AND {of_day}
            UNION ALL
            SELECT source_partition, at AS moment, 0, coalesce(pos, -1), NULL AS log_end
            FROM commits WHERE {mine} AND at <= {moment(until)} {after}
            UNION ALL
            SELECT {_place(flow, "topic", "partition")}, at AS moment, 1, NULL AS pos, log_end
            FROM looks
            WHERE kafka = {quoted(flow.upstream)} AND day >= {_day(since)}
                  AND at >= {moment(since)} AND at <= {moment(until)}
        ), filled AS (
            SELECT moment, look, log_end,
                   last_value(pos) IGNORE NULLS OVER so_far AS pos
            FROM events
            WINDOW so_far AS (
                PARTITION BY place ORDER BY moment, look
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
        )
        SELECT date_part('epoch', moment) AS second,
               sum(greatest(0, log_end - 1 - pos)) AS lag
        FROM filled WHERE look = 1 AND pos >= 0
        GROUP BY moment ORDER BY moment
        """  # noqa: S608 - quoted, and numbers
    rows = reader.queried(
        base,
        query,
        commits=SILVER_COMMITS,
        snapshots=SILVER_SNAPSHOTS,
        looks=BRONZE_LOG_ENDS,
    )
    for row in rows.to_pylist():
        yield row["second"], int(row["lag"])


def _place(flow: MirrorFlow, topic: str, partition: str) -> str:
    """The source partition of a topic's partition, in SQL: JSON, keys sorted. Names of topics need
    no escaping.
    """
    begins = quoted(f'{{"cluster":{msgspec.json.encode(flow.source).decode()},"partition":')
    return f"concat({begins}, {partition}, ',\"topic\":\"', {topic}, '\"}}')"


def _day(at: float) -> str:
    return literal(exact(at).date())
