"""Timeline of one connector, merged from the tables, without a JVM.

Connect's own internal topics hold it: the config topic the requests, the status topic the states
that workers reported, the offsets topics the changes of position. The folds are in
connector_events.py.

Since the pipeline first read a topic, no record of it is missing. Before that, compaction has left
the newest record of each key: the timeline says so, and guesses nothing for the rest. Times are
Unix seconds, the records' own timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from offsetwatch.errors import HistoryError
from offsetwatch.history.baselines.document import read_baselines
from offsetwatch.history.queries import gaps
from offsetwatch.history.queries.asof import UnanswerableQuery, format_iso
from offsetwatch.history.queries.connector_events import (
    Commit,
    Event,
    InternalTopicRecord,
    describe_lag_episodes,
    describe_pauses,
    fold_commits,
    fold_configs,
    fold_statuses,
    merge_events,
)
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.log_queries import quote_text, quote_time
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    CONFIGS,
    CONNECT_OFFSETS,
    SILVER_COMMITS,
    SILVER_LOGS,
    STATUS,
    Table,
)
from offsetwatch.model.baselines import TOO_OLD_S, Baseline

_KIND_CONTENTS: Final = {
    CONFIGS: "what was asked of it",
    STATUS: "which states it was in",
    CONNECT_OFFSETS: "how its offsets moved",
}


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
    found = _clusters(base, query.connector)
    if cluster is None and len(found) > 1:
        raise UnanswerableQuery(
            f"connectors of several Connect clusters are called {query.connector}; name one: "
            f"--connect {' | '.join(found)}"
        )
    if not found or (cluster is not None and cluster not in found):
        where = "" if cluster is None else f" of {cluster}"
        raise UnanswerableQuery(f"no record in the tables is about a connector{where} called so")
    cluster = cluster or found[0]
    subject = (cluster, query.connector)
    usual, why = _find_baseline(base, subject, query.until)
    behind, unknown = gaps.find_lag_episodes(base, subject, query.since, query.until, usual)
    name = f"connect_cluster = {quote_text(cluster)} AND connector = {quote_text(query.connector)}"
    events = merge_events(
        fold_configs(_read_records(base, CONFIGS, cluster, query)),
        fold_statuses(_read_records(base, STATUS, cluster, query)),
        fold_commits(_commits(base, name, query)),
        describe_pauses(gaps.find_pauses(base, subject, query.since, query.until, usual)),
        describe_lag_episodes(behind),
    )
    return Timeline(
        connect_cluster=cluster,
        connector=query.connector,
        events=tuple(event for event in events if _is_within(event, query)),
        notes=(*_notes(base, cluster, query.since), *filter(None, (why, unknown))),
    )


def _is_within(event: Event, query: TimelineQuery) -> bool:
    """Check whether the event, or any part of its span, lies in the window of the query."""
    ends = event.at if event.until is None else event.until
    return event.at <= query.until and ends >= query.since


def _find_baseline(
    base: Path, key: tuple[str, str], until: float
) -> tuple[Baseline | None, str | None]:
    """Return the baseline of the connector, if one applies to this time; otherwise why not."""
    try:
        found = read_baselines(base)
    except HistoryError as exc:
        return None, f"what is usual is not known: {exc}"
    if found is None:
        return None, None
    if abs(until - found.until) > TOO_OLD_S:
        return (
            None,
            f"what is usual was learned from before {format_iso(found.until)}: not of that time",
        )
    for connector in found.connectors:
        if (connector.connect_cluster, connector.connector) == key:
            return connector, None
    return None, "history is too short for its baseline"


def _clusters(base: Path, connector: str) -> list[str]:
    """Return the Connect clusters whose topics have records of a connector of this name."""
    told = f"kind IN ('{STATUS}', '{CONFIGS}') AND {_build_connector_condition(connector)}"
    own = f"kind = '{CONNECT_OFFSETS}' AND connector = {quote_text(connector)}"
    query = f"""
        SELECT DISTINCT connect_cluster FROM records
        WHERE connect_cluster IS NOT NULL AND (({told}) OR ({own}))
        """  # noqa: S608 - quoted
    return sorted(row["connect_cluster"] for row in _rows(base, BRONZE_RECORDS, query))


def _build_connector_condition(connector: str) -> str:
    """Return SQL that selects observations of this connector. Their JSON is compact."""
    return f"strpos(observation, {quote_text(_format_connector_field(connector))}) > 0"


def _format_connector_field(connector: str) -> str:
    return f'"connector":{msgspec.json.encode(connector).decode()}'


def _read_records(
    base: Path, kind: str, cluster: str, asked: TimelineQuery
) -> Iterator[InternalTopicRecord]:
    """Yield all records up to the end of the window.

    The effect of a record depends on those before it.
    """
    query = f"""
        SELECT kts, observation FROM records
        WHERE kind = '{kind}' AND connect_cluster = {quote_text(cluster)} AND error IS NULL
              AND {_build_connector_condition(asked.connector)} AND kts <= {quote_time(asked.until)}
        ORDER BY kts, kafka, topic, topic_id, kpartition, koffset
        """  # noqa: S608 - quoted
    for row in _rows(base, BRONZE_RECORDS, query):
        yield InternalTopicRecord(at=row["kts"], noun=msgspec.json.decode(row["observation"]))


def _commits(base: Path, name: str, asked: TimelineQuery) -> Iterator[Commit]:
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
        WHERE {name} AND at >= {quote_time(asked.since)} AND at <= {quote_time(asked.until)}
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
    for kind, told in _KIND_CONTENTS.items():
        topic = f"{kind.removeprefix('connect_')} topic"
        if kind not in read_at:
            yield f"no {topic} of {cluster} was read: {told} is not known"
        elif since < read_at[kind]:
            yield (
                f"the {topic} is read since {format_iso(read_at[kind])}: of before that is "
                "known only "
                "what compaction had left of it"
            )


def _rows(base: Path, table: Table, query: str) -> Iterator[dict[str, Any]]:
    return reader.convert_rows(reader.run_query(base, query, records=table))
