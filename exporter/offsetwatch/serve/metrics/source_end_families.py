"""Metrics of source ends: their definitions, and snapshot -> their families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from offsetwatch.model.source_ends import SourceKind
from offsetwatch.serve.metrics.metric import (
    SOURCE_PARTITION,
    Family,
    LabelColumns,
    MetricSpec,
    build_family,
    build_family_of_rows,
    gauge,
)
from offsetwatch.serve.metrics.mirror_families import FamilyGroup
from offsetwatch.state.mirror.lag import compute_lag_seconds
from offsetwatch.state.snapshot import SeriesGroup, Snapshot, SourceEndView

_UPPER_BOUND: Final = (
    "An upper bound on a database: it also counts what the connector does not capture."
)

SOURCE_END_METRICS: tuple[MetricSpec, ...] = (
    END_POSITION := gauge(
        "source_end_position",
        (*SOURCE_PARTITION, "field"),
        "Each number of the end that the source itself reports, named as the field of the source "
        "offset that it is compared with: lsn, pos, incrementing, timestamp, position.",
    ),
    LAG_BYTES := gauge(
        "source_lag_bytes",
        SOURCE_PARTITION,
        "Bytes of WAL, binlog or file between the source offset and the end of its source. "
        + _UPPER_BOUND,
    ),
    LAG_TRANSACTIONS := gauge(
        "source_lag_transactions",
        SOURCE_PARTITION,
        "Transactions, by GTID, that the source has executed and the source offset does not cover. "
        + _UPPER_BOUND,
    ),
    LAG_ROWS := gauge(
        "source_lag_rows",
        SOURCE_PARTITION,
        "Greatest value of the column that orders a table's rows minus that of the source offset: "
        "rows, at most, as ids have gaps.",
    ),
    LAG_SECONDS := gauge(
        "source_lag_seconds",
        SOURCE_PARTITION,
        "Time since the end of the source was last seen at or below the position, by the daemon's "
        "own reads of the end: exact to one interval, and growing while the connector stands "
        "still. 0 when caught up. Of a stopped connector it also counts what others write. Absent "
        "where the source does not say how much it has sent to an open connection.",
    ),
    CAUGHT_UP := gauge(
        "source_caught_up",
        SOURCE_PARTITION,
        "1 if all is done that the source had at the read of its end before the newest, 0 if "
        "something certainly waits. Absent where that is not known: without a connection to the "
        "source, or without the right to see how much it was sent (pg_monitor, PROCESS).",
    ),
    HEADROOM_BYTES := gauge(
        "source_retention_headroom_bytes",
        SOURCE_PARTITION,
        "Bytes until the source may remove what the connector has not read: safe_wal_size of the "
        "replication slot, or binlog older than the file of the source offset. Absent without a "
        "limit.",
    ),
    SLOT_ACTIVE := gauge(
        "source_slot_active",
        SOURCE_PARTITION,
        "1 while a connection streams from the connector's replication slot (PostgreSQL), 0 while "
        "none does: then the server retains WAL for it.",
    ),
    IN_SNAPSHOT := gauge(
        "source_snapshot_in_progress",
        SOURCE_PARTITION,
        "1 while the source offset is of an initial snapshot (Debezium) and no position is "
        "compared, else 0.",
    ),
    AHEAD := gauge(
        "source_ahead",
        SOURCE_PARTITION,
        "How far the source offset lies beyond the end of its source, in the unit of its lag: "
        "normally 0. The source was restored or replaced, or an operator altered the offset.",
    ),
)

_SNAPSHOT_KINDS: Final = frozenset({SourceKind.POSTGRESQL, SourceKind.MYSQL})


def collect_source_ends(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the lag of source partitions behind the ends of their sources."""
    views = _select_exported(snapshot)
    labels = LabelColumns(
        [view.connect_cluster for view in views],
        [view.connector for view in views],
        [view.label for view in views],
    )
    yield build_family_of_rows(
        END_POSITION,
        (
            ((view.connect_cluster, view.connector, view.label, field), number)
            for view in views
            for field, number in view.fields
        ),
    )
    yield build_family(LAG_BYTES, labels, [view.lag_bytes for view in views])
    yield build_family(LAG_TRANSACTIONS, labels, [view.lag_transactions for view in views])
    yield build_family(LAG_ROWS, labels, [view.lag_rows for view in views])
    seconds = [
        compute_lag_seconds(view.behind_since, snapshot.at, caught_up=view.caught_up)
        for view in views
    ]
    yield build_family(LAG_SECONDS, labels, seconds)
    caught_up = [None if view.caught_up is None else int(view.caught_up) for view in views]
    yield build_family(CAUGHT_UP, labels, caught_up)
    yield build_family(HEADROOM_BYTES, labels, [view.headroom_bytes for view in views])
    active = [
        None
        if view.connected is None or view.kind != SourceKind.POSTGRESQL
        else int(view.connected)
        for view in views
    ]
    yield build_family(SLOT_ACTIVE, labels, active)
    snapshots = [
        int(view.in_snapshot) if view.kind in _SNAPSHOT_KINDS and view.problem is None else None
        for view in views
    ]
    yield build_family(IN_SNAPSHOT, labels, snapshots)
    ahead = [None if view.end_position is None else view.ahead for view in views]
    yield build_family(AHEAD, labels, ahead)


def _select_exported(snapshot: Snapshot) -> Sequence[SourceEndView]:
    """Return the ends of the source partitions that have series."""
    without = snapshot.left_out_of(SeriesGroup.SOURCE_PARTITIONS)
    if not snapshot.not_exported and not without:
        return snapshot.source_ends
    return [
        view
        for view in snapshot.source_ends
        if (view.connect_cluster, view.connector, view.identity) not in snapshot.not_exported
        and (view.connect_cluster, view.connector) not in without
    ]


SOURCE_END_GROUPS: Final[Mapping[FamilyGroup, tuple[MetricSpec, ...]]] = {
    collect_source_ends: SOURCE_END_METRICS
}
