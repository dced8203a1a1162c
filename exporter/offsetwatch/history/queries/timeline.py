"""Timeline of one connector, merged from the tables, without a JVM.

Connect's own internal topics hold it: the config topic the requests, the status topic the states
that workers reported, the offsets topics the changes of position. The folds are in
connector_events.py.

Since the pipeline first read a topic, no record of it is missing. Before that, compaction has left
the newest record of each key: the timeline says so, and guesses nothing for the rest. Times are
Unix seconds, the records' own timestamps. "Usual" is the learned baseline; for a connector without
one, a pause is reported if it is far longer than those of the same window, no lag of a flow, and a
lag behind a source if it is longer than PAUSE_S_MIN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec

from offsetwatch.errors import HistoryError
from offsetwatch.formatting import format_count
from offsetwatch.history.queries.asof import UnanswerableQuery, format_iso
from offsetwatch.history.queries.connector_events import (
    FLUSH_S_MAX,
    Commit,
    ConnectorEventKind,
    Event,
    InternalTopicRecord,
    Origin,
    fold_commits,
    fold_configs,
    fold_statuses,
    format_duration,
    merge_events,
)
from offsetwatch.history.queries.source_lag import SAMPLE_AGE_S_MAX, read_lag_seconds
from offsetwatch.history.tables import pipeline_status, reader
from offsetwatch.history.tables.commit_changes import RESET
from offsetwatch.history.tables.config_topic_queries import build_connector_condition
from offsetwatch.history.tables.offsets_topic_queries import (
    convert_to_datetime,
    quote_text,
    quote_time,
    quote_value,
)
from offsetwatch.history.tables.pipeline_status import read_baselines
from offsetwatch.history.tables.schemas import (
    BRONZE_LOG_ENDS,
    BRONZE_RECORDS,
    CONFIGS,
    CONNECT_OFFSETS,
    SILVER_COMMITS,
    SILVER_LOGS,
    SILVER_SNAPSHOTS,
    STATUS,
    Table,
)
from offsetwatch.model.history_documents import TOO_OLD_S, Baseline
from offsetwatch.model.offsets import Order
from offsetwatch.model.topology import MirrorFlow

_KIND_CONTENTS: Final = {
    CONFIGS: "what was asked of it",
    STATUS: "which states it was in",
    CONNECT_OFFSETS: "how its offsets moved",
}

PAUSE_S_MIN: Final = 300.0
PAUSE_FACTOR_MIN: Final = 20.0  # so many times its usual pause
PAUSES_MIN: Final = 20  # fewer are no habit
PAUSE_LOOKBACK_S: Final = 60 * 86_400.0  # an earlier pause is told as one of so long at least


@dataclass(frozen=True, slots=True)
class TimelineQuery:
    """A connector, and the first and last time to report (both included), in Unix seconds."""

    connector: str
    connect_cluster: str | None
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Events of one connector.

    notes   what is missing from it, and why
    """

    connect_cluster: str
    connector: str
    events: tuple[Event, ...]
    notes: tuple[str, ...]


def read_timeline(base: Path, query: TimelineQuery) -> Timeline:
    """Return all events that are known.

    Raises UnanswerableQuery where no record is about such a connector, or connectors of several
    Connect clusters have its name; HistoryError where there are no tables.
    """
    cluster = query.connect_cluster
    clusters = _clusters(base, query.connector)
    if cluster is None and len(clusters) > 1:
        raise UnanswerableQuery(
            f"connectors of several Connect clusters are called {query.connector}; name one: "
            f"--connect {' | '.join(clusters)}"
        )
    if not clusters or (cluster is not None and cluster not in clusters):
        where = "" if cluster is None else f" of {cluster}"
        raise UnanswerableQuery(f"no record in the tables is about a connector{where} called so")
    cluster = cluster or clusters[0]
    subject = (cluster, query.connector)
    baseline, why = _find_baseline(base, subject, query.until)
    behind, unknown = find_lag_episodes(base, subject, query.since, query.until, baseline)
    lags = read_lag_seconds(base, subject, query.since, query.until)
    name = f"connect_cluster = {quote_text(cluster)} AND connector = {quote_text(query.connector)}"
    events = merge_events(
        fold_configs(_read_records(base, CONFIGS, cluster, query)),
        fold_statuses(_read_records(base, STATUS, cluster, query)),
        fold_commits(_commits(base, name, query)),
        find_pauses(base, subject, query.since, query.until, baseline),
        behind,
        find_source_lag_episodes(lags, baseline),
    )
    return Timeline(
        connect_cluster=cluster,
        connector=query.connector,
        events=tuple(
            event
            for event in events
            if event.at <= query.until and (event.until or event.at) >= query.since
        ),
        notes=(*_notes(base, cluster, query.since), *filter(None, (why, unknown))),
    )


def _find_baseline(
    base: Path, key: tuple[str, str], until: float
) -> tuple[Baseline | None, str | None]:
    """Return the baseline of the connector, if one applies to this time; otherwise why not."""
    try:
        baselines = read_baselines(base)
    except HistoryError as exc:
        return None, f"what is usual is not known: {exc}"
    if baselines is None:
        return None, None
    if abs(until - baselines.until) > TOO_OLD_S:
        before = format_iso(baselines.until)
        return None, f"what is usual was learned from before {before}: not of that time"
    known = {(each.connect_cluster, each.connector): each for each in baselines.connectors}
    return known.get(key), None if key in known else "history is too short for its baseline"


def _clusters(base: Path, connector: str) -> list[str]:
    """Return the Connect clusters whose topics have records of a connector of this name."""
    internal = f"kind IN ('{STATUS}', '{CONFIGS}') AND {build_connector_condition(connector)}"
    own = f"kind = '{CONNECT_OFFSETS}' AND connector = {quote_text(connector)}"
    query = f"""
        SELECT DISTINCT connect_cluster FROM records
        WHERE connect_cluster IS NOT NULL AND (({internal}) OR ({own}))
        """  # noqa: S608 - quoted
    return sorted(row["connect_cluster"] for row in _rows(base, BRONZE_RECORDS, query))


def _read_records(
    base: Path, kind: str, cluster: str, request: TimelineQuery
) -> Iterator[InternalTopicRecord]:
    """Yield all records up to the end of the window.

    The effect of a record depends on those before it.
    """
    query = f"""
        SELECT kts, observation FROM records
        WHERE kind = '{kind}' AND connect_cluster = {quote_text(cluster)} AND error IS NULL
              AND {build_connector_condition(request.connector)}
              AND kts <= {quote_time(request.until)}
        ORDER BY kts, kafka, topic, topic_id, kpartition, koffset
        """  # noqa: S608 - quoted
    for row in _rows(base, BRONZE_RECORDS, query):
        yield InternalTopicRecord(at=row["kts"], noun=msgspec.json.decode(row["observation"]))


def _commits(base: Path, name: str, request: TimelineQuery) -> Iterator[Commit]:
    query = f"""
        WITH begun AS (
            SELECT source_partition, key AS first_key, at AS first_at, row_number()
                       OVER (PARTITION BY source_partition ORDER BY at, kpartition) AS place
            FROM records WHERE {name} AND change = 'first'
        )
        SELECT at, records.source_partition, change, source_offset, pos, step, error,
               key AS raw_key, coalesce(key <> first_key AND at > first_at, false) AS respelled
        FROM records LEFT JOIN begun
             ON records.source_partition = begun.source_partition AND place = 1
        WHERE {name} AND at >= {quote_time(request.since)} AND at <= {quote_time(request.until)}
              AND (change IS NULL OR change IN ('first', 'behind', 'reset'))
        ORDER BY at, kafka, topic, topic_id, kpartition, koffset
        """  # noqa: S608 - quoted
    for row in _rows(base, SILVER_COMMITS, query):
        yield Commit(**row)


def _notes(base: Path, cluster: str, since: float) -> Iterator[str]:
    query = f"""
        SELECT kind, min(first_read_at) AS first_read_at FROM records
        WHERE connect_cluster = {quote_text(cluster)} GROUP BY kind
        """  # noqa: S608 - quoted
    read_at = {row["kind"]: row["first_read_at"] for row in _rows(base, SILVER_LOGS, query)}
    for kind, contents in _KIND_CONTENTS.items():
        topic = f"{kind.removeprefix('connect_')} topic"
        if kind not in read_at:
            yield f"no {topic} of {cluster} was read: {contents} is not known"
        elif since < read_at[kind]:
            yield (
                f"the {topic} is read since {format_iso(read_at[kind])}: of before that is known "
                "only what compaction had left of it"
            )


def _rows(base: Path, table: Table, query: str) -> Iterator[dict[str, Any]]:
    return reader.convert_rows(reader.run_query(base, query, records=table))


def find_last_read_time(base: Path) -> float | None:
    """Return the time until which the tables are complete (Unix seconds); None if nothing was read.

    A pause after that time is no pause: nothing was read.
    """
    status = pipeline_status.read_status(base)
    if status is not None and status.batch_at is not None:
        return status.batch_at
    logs = reader.read_rows(base, SILVER_LOGS)
    moments = [row["last_read_at"] for row in logs if row["kind"] == CONNECT_OFFSETS]
    return max(moments, default=None)


def find_pauses(
    base: Path, key: tuple[str, str], since: float, until: float, baseline: Baseline | None
) -> Iterator[Event]:
    """Yield pauses of the whole connector that end after `since` and begin before `until`.

    Only those that are longer than usual: by the baseline, or by the window itself without one. The
    last of them may be ongoing.
    """
    known = find_last_read_time(base)
    end = until if known is None else min(until, known)
    times = _read_commit_times(base, key, since, until, advances=baseline is not None)
    spans = [(one, other) for one, other in pairwise(times) if other - one > FLUSH_S_MAX]
    lasted = [ends - begins for begins, ends in spans if begins >= since]
    often = median(lasted) if len(lasted) >= PAUSES_MIN else None
    ongoing = (times[-1], end) if times and end - times[-1] > FLUSH_S_MAX else None
    for begins, ends in [*spans, *(() if ongoing is None else (ongoing,))]:
        duration = format_duration(ends - begins)
        if baseline is not None and baseline.out_of_the_ordinary(begins, ends):
            said = f"nothing advanced for {duration}"
            more = f"{baseline.missed(begins, ends):.1f} advances were to be expected"
        elif (
            baseline is None
            and often is not None
            and ends - begins > max(PAUSE_S_MIN, PAUSE_FACTOR_MIN * often)
        ):
            said = f"no commit for {duration}"
            more = f"usually there is one every {format_duration(often)}"
        else:
            continue
        said = f"{said}{', and it goes on' if (begins, ends) == ongoing else ''}; {more}"
        yield Event(begins, Origin.OFFSETS, ConnectorEventKind.SILENT, said, until=ends)


def find_lag_episodes(
    base: Path, key: tuple[str, str], since: float, until: float, baseline: Baseline | None
) -> tuple[tuple[Event, ...], str | None]:
    """Return times when the lag was higher than usual; and, for a flow, why that is unknown."""
    flows = {(flow.connect_cluster, flow.connector): flow for flow in reader.read_flows(base)}
    flow = flows.get(key)
    if flow is None:
        return (), None
    if flow.upstream is None:
        return (), "where its source is, is not configured: how far it was behind is not known"
    if baseline is None or baseline.lag is None:
        return (), "its log ends were not sampled for four weeks: what lag is usual is not known"
    samples = list(_read_lag_samples(base, flow, since, until))
    if not samples:
        return (), (
            "how far it was behind is not known: of that time there is no sample of its log ends, "
            "or no position"
        )
    episodes = _group_lag_samples(samples, lambda moment: baseline.lag_limit(moment) or 0.0)
    return tuple(_build_lag_event(episode, baseline) for episode in episodes), None


def find_source_lag_episodes(
    samples: Iterable[tuple[float, float]], baseline: Baseline | None
) -> Iterator[Event]:
    """Yield times when changes waited in a source for longer than usual.

    samples    Unix seconds and lag in seconds, in order
    """

    def find_limit(moment: float) -> float:
        limit = None if baseline is None else baseline.source_lag_limit(moment)
        return PAUSE_S_MIN if limit is None else limit

    for episode in _group_lag_samples(samples, find_limit):
        yield _build_source_lag_event(episode, baseline)


class _LagEpisode(NamedTuple):
    """Samples above the limit: Unix seconds and lag. `ended` is None if that was not seen."""

    samples: list[tuple[float, float]]
    ended: float | None

    @property
    def peak(self) -> tuple[float, float]:
        """Return the sample with the greatest lag."""
        return max(self.samples, key=lambda sample: sample[1])

    @property
    def until(self) -> float:
        """Return the last time at which it was seen, or its end."""
        return self.samples[-1][0] if self.ended is None else self.ended

    @property
    def going(self) -> str:
        """Return in words that its end was not seen; "" if it was."""
        return ", not seen to end" if self.ended is None else ""


def _group_lag_samples(
    samples: Iterable[tuple[float, float]], find_limit: Callable[[float], float]
) -> Iterator[_LagEpisode]:
    """Yield times of high lag, from samples (Unix seconds, lag) in order.

    One sample alone is none.
    """
    over: list[tuple[float, float]] = []
    before: float | None = None
    for moment, lag in samples:
        much = lag > find_limit(moment)
        apart = before is not None and moment - before > SAMPLE_AGE_S_MAX
        if apart or not much:
            if len(over) > 1:
                yield _LagEpisode(over, None if apart else moment)
            over = []
        if much:
            over.append((moment, lag))
        before = moment
    if len(over) > 1:
        yield _LagEpisode(over, None)


def _build_lag_event(episode: _LagEpisode, baseline: Baseline) -> Event:
    peak_at, peak = episode.peak
    begins = episode.samples[0][0]
    said = (
        f"behind by up to {format_count(round(peak), 'record')} for "
        f"{format_duration(episode.until - begins)}{episode.going}; at that hour it is hardly ever "
        f"more than {baseline.lag_at_most(peak_at) or 0.0:.0f}"
    )
    return Event(begins, Origin.LOG_ENDS, ConnectorEventKind.BEHIND, said, until=episode.until)


def _build_source_lag_event(episode: _LagEpisode, baseline: Baseline | None) -> Event:
    """Return the event, which begins when the end of the source was last at the position."""
    peak_at, peak = episode.peak
    first_at, first = episode.samples[0]
    most = None if baseline is None else baseline.source_lag_at_most(peak_at)
    most_text = (
        ""
        if most is None
        else f"; at that hour it is hardly ever more than {format_duration(most)}"
    )
    said = f"behind its source by up to {format_duration(peak)}{episode.going}{most_text}"
    return Event(
        first_at - first,
        Origin.SOURCE_ENDS,
        ConnectorEventKind.BEHIND,
        said,
        until=episode.until,
    )


def _read_commit_times(
    base: Path, key: tuple[str, str], since: float, until: float, *, advances: bool
) -> list[float]:
    """Return the times of commits, or of advances, in the window; and the last time before it."""
    moved = f"AND change NOT IN ('{Order.SAME.value}', '{RESET}')" if advances else ""
    mine = f"connect_cluster = {quote_text(key[0])} AND connector = {quote_text(key[1])} {moved}"
    begin = since - PAUSE_LOOKBACK_S
    query = f"""
        SELECT DISTINCT date_part('epoch', at) AS second FROM records
        WHERE {mine} AND at >= {quote_time(since)} AND at <= {quote_time(until)}
        UNION
        SELECT date_part('epoch', max(at)) AS second FROM records
        WHERE {mine} AND day >= {_day(begin)} AND at < {quote_time(since)}
        """  # noqa: S608 - quoted, and numbers
    rows = reader.run_query(base, query, records=SILVER_COMMITS).to_pylist()
    return sorted(row["second"] for row in rows if row["second"] is not None)


def _read_lag_samples(
    base: Path, flow: MirrorFlow, since: float, until: float
) -> Iterator[tuple[float, int]]:
    """Yield (Unix seconds, lag in records) for each time when the flow's log ends were sampled.

    There is nothing where no run has taken any.
    """
    assert flow.upstream is not None
    if not reader.has_tables(base, (BRONZE_LOG_ENDS,)):
        return
    today = convert_to_datetime(since).date()
    days = [day for day in reader.list_days(base, SILVER_SNAPSHOTS) if day < today]
    snapshot_day = quote_value(max(days, default=date.min))
    cluster, connector = quote_text(flow.connect_cluster), quote_text(flow.connector)
    mine = f"connect_cluster = {cluster} AND connector = {connector}"
    # JSON with sorted keys; topic names need no escaping.
    source = quote_text(f'{{"cluster":{msgspec.json.encode(flow.source).decode()},"partition":')
    query = f"""
        WITH events AS (
            SELECT source_partition AS place, at AS moment, 0 AS sampled, coalesce(pos, -1) AS pos,
                   NULL AS log_end
            FROM snapshots WHERE {mine} AND day = {snapshot_day}
            UNION ALL
            SELECT source_partition, at AS moment, 0, coalesce(pos, -1), NULL AS log_end
            FROM commits WHERE {mine} AND at <= {quote_time(until)} AND day > {snapshot_day}
            UNION ALL
            SELECT concat({source}, partition, ',"topic":"', topic, '"}}'), at AS moment, 1,
                NULL AS pos, log_end
            FROM samples
            WHERE kafka = {quote_text(flow.upstream)} AND day >= {_day(since)}
                  AND at >= {quote_time(since)} AND at <= {quote_time(until)}
        ), filled AS (
            SELECT moment, sampled, log_end,
                   last_value(pos) IGNORE NULLS OVER so_far AS pos
            FROM events
            WINDOW so_far AS (
                PARTITION BY place ORDER BY moment, sampled
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
        )
        SELECT date_part('epoch', moment) AS second,
               sum(greatest(0, log_end - 1 - pos)) AS lag
        FROM filled WHERE sampled = 1 AND pos >= 0
        GROUP BY moment ORDER BY moment
        """  # noqa: S608 - quoted, and numbers
    tables = {"snapshots": SILVER_SNAPSHOTS, "samples": BRONZE_LOG_ENDS}
    for row in reader.run_query(base, query, commits=SILVER_COMMITS, **tables).to_pylist():
        yield row["second"], int(row["lag"])


def _day(moment: float) -> str:
    return quote_value(convert_to_datetime(moment).date())
