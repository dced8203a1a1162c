"""Reader of the pipeline's tables, without a JVM.

It must not import pyspark, and only ever reads: history/pipeline/commits.py writes. Times are Unix
seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    GOLD_CLASSES,
    GOLD_CURSOR,
    GOLD_FLOW_PROGRESS,
    GOLD_FLOWS,
    GOLD_PROGRESS,
    GOLD_TOPICS,
    OPS_GAPS,
    SILVER_LOGS,
    TABLES,
    Table,
)
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, OffsetsTopic, TopicRouter

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

LogPartition = tuple[str, str, int]
"""A topic, its id, and a partition: a log, of which there is only ever one."""


class GapReason(StrEnum):
    """Reasons why records are missing from bronze."""

    LOG_START_MOVED = "log_start_moved"
    TOPIC_CREATED_AGAIN = "topic_created_again"
    TIMESTAMP_OUT_OF_RANGE = "timestamp_out_of_range"


@dataclass(frozen=True, slots=True, order=True)
class BronzeGap:
    """Offsets from `from_offset` to below `to_offset` that were not read and will not be.

    to_offset is None where it is unknown: the topic was deleted.
    """

    topic: str
    topic_id: str
    kpartition: int
    from_offset: int
    to_offset: int | None
    reason: GapReason

    def __str__(self) -> str:
        end = "its end" if self.to_offset is None else str(self.to_offset)
        return (
            f"{self.topic} (id {self.topic_id or 'unknown'}) partition {self.kpartition} from "
            f"offset {self.from_offset} to {end}: {self.reason.value.replace('_', ' ')}"
        )


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """A source partition (tables/schemas.py, GOLD_PROGRESS).

    source_offset   JSON with sorted keys; None if a tombstone deleted it (`tombstone`), its value
                    could not be decoded (`error`) or is JSON null, it has no record that a task may
                    look up, or which of several it looks up is unknown (`unsure`)
    variants        other raw keys for this source partition that still hold a value
    key             the raw key that its task looks up; None if there is none, or none is known
    kafka ... koffset   coordinates of the effective record; None if there is none
    """

    connect_cluster: str
    connector: str
    source_partition: str
    dialect: str
    source_offset: str | None
    pos: int | None
    error: str | None
    tombstone: bool
    variants: int
    key: bytes | None
    unsure: bool
    kafka: str | None
    topic: str | None
    topic_id: str | None
    kpartition: int | None
    koffset: int | None
    committed_at: float | None


@dataclass(frozen=True, slots=True)
class FlowProgressRow:
    """A replicated upstream partition (tables/schemas.py, GOLD_FLOW_PROGRESS)."""

    connect_cluster: str
    connector: str
    source: str
    target: str
    topic: str
    partition: int
    committed: int
    committed_at: float
    synced: int | None
    synced_at: float | None
    downstream: int | None
    replicated: int


@dataclass(frozen=True, slots=True)
class BronzeTopic:
    """Counts of bronze for one topic. `first_at` and `last_at` are record timestamps."""

    at: KafkaTopic
    topic_id: str
    kind: str
    rows: int
    undecodable: int
    first_at: float
    last_at: float


class ConnectorClass(NamedTuple):
    """Class of a connector (tables/schemas.py, GOLD_CLASSES).

    since    Unix seconds; None if no run has found another
    """

    connect_cluster: str
    connector: str
    class_name: str
    since: float | None


def read_progress(base: Path) -> tuple[ProgressRow, ...]:
    """Return every source partition, in order."""
    rows = (ProgressRow(**row) for row in read_rows(base, GOLD_PROGRESS))
    return tuple(sorted(rows, key=attrgetter("connect_cluster", "connector", "source_partition")))


def read_flow_progress(base: Path) -> tuple[FlowProgressRow, ...]:
    """Return every replicated partition, in order."""
    rows = (FlowProgressRow(**row) for row in read_rows(base, GOLD_FLOW_PROGRESS))
    key = attrgetter("connect_cluster", "connector", "source", "target", "topic", "partition")
    return tuple(sorted(rows, key=key))


def read_cursor(base: Path) -> dict[KafkaTopic, dict[int, int]]:
    """Return the cut gold was computed at: the next offset of every partition of every topic."""
    cursor: dict[KafkaTopic, dict[int, int]] = {}
    for row in read_rows(base, GOLD_CURSOR):
        topic = KafkaTopic(kafka=row["kafka"], topic=row["topic"])
        cursor.setdefault(topic, {})[row["kpartition"]] = row["next_offset"]
    return cursor


def read_topics(base: Path) -> tuple[OffsetsTopic, ...]:
    """Return the offsets topics that the newest run found.

    Kafka cluster and topic are empty where it could not read them.
    """
    return tuple(
        OffsetsTopic(
            row["connect_cluster"], KafkaTopic(row["kafka"], row["topic"]), row["connector"]
        )
        for row in read_rows(base, GOLD_TOPICS)
    )


def read_classes(base: Path) -> tuple[ConnectorClass, ...]:
    """Return the class of every connector that a run knew it of, in order."""
    if not has_tables(base, (GOLD_CLASSES,)):
        return ()  # of an older version, and no run since
    return tuple(sorted(ConnectorClass(**row) for row in read_rows(base, GOLD_CLASSES)))


def summarize_bronze(base: Path) -> tuple[BronzeTopic, ...]:
    """Return counts per topic, in order; a topic that was created again appears once per id."""
    query = """
        SELECT kafka, topic, topic_id, kind, count(*) AS rows, count(error) AS undecodable,
               min(kts) AS first_at, max(kts) AS last_at
        FROM records GROUP BY kafka, topic, topic_id, kind ORDER BY kafka, topic, topic_id
    """
    return tuple(
        BronzeTopic(at=KafkaTopic(kafka=row.pop("kafka"), topic=row.pop("topic")), **row)
        for row in convert_rows(run_query(base, query, records=BRONZE_RECORDS))
    )


def read_bronze_next_offsets(base: Path, kafka: str) -> dict[LogPartition, int]:
    """Return the next offset of every log of this Kafka cluster; {} before the first run."""
    if not has_tables(base, (BRONZE_RECORDS,)):
        return {}
    query = """
        SELECT kafka, topic, topic_id, kpartition, max(koffset) + 1 AS next_offset
        FROM records GROUP BY kafka, topic, topic_id, kpartition
    """
    return {
        (row["topic"], row["topic_id"], row["kpartition"]): row["next_offset"]
        for row in convert_rows(run_query(base, query, records=BRONZE_RECORDS))
        if row["kafka"] == kafka
    }


def read_silver_next_offsets(base: Path) -> dict[tuple[str, str, str, int], int]:
    """Return (kafka, topic, topic id, partition) -> next offset in silver."""
    return {
        (row["kafka"], row["topic"], row["topic_id"], row["kpartition"]): row["next_offset"]
        for row in read_rows(base, SILVER_LOGS)
    }


def read_gaps(base: Path, kafka: str) -> frozenset[BronzeGap]:
    """Return the ranges of this Kafka cluster that are permanently missing from bronze."""
    names = ("topic", "topic_id", "kpartition", "from_offset", "to_offset")
    return frozenset(
        BronzeGap(**{name: row[name] for name in names}, reason=GapReason(row["reason"]))
        for row in read_rows(base, OPS_GAPS)
        if row["kafka"] == kafka
    )


def list_days(base: Path, table: Table) -> list[date]:
    """Return the days that a table partitioned by day has rows of, in order."""
    partitions = open_table(base, table).partitions()
    return sorted(date.fromisoformat(partition["day"]) for partition in partitions)


def has_tables(base: Path, tables: Iterable[Table] = TABLES) -> bool:
    """Check whether these tables exist. By default all: whether the pipeline has ever run here."""
    return all(DeltaTable.is_deltatable(str(table.at(base))) for table in tables)


def read_rows(base: Path, table: Table) -> Iterator[dict[str, Any]]:
    """Yield every row of a table, with times in Unix seconds. Raises HistoryError.

    A column that is newer than the version that wrote the table is null.
    """
    delta = open_table(base, table)
    with translate_damage(base, table):
        written = {field.name for field in delta.schema().fields}
        newer = dict.fromkeys(name for name in table.names if name not in written)
        names = [name for name in table.names if name in written]
        return ({**row, **newer} for row in convert_rows(delta.to_pyarrow_table(columns=names)))


def run_query(base: Path, query: str, **tables: Table) -> pa.Table:
    """Return the result of SQL on tables, under the names of the arguments. Raises HistoryError."""
    builder = QueryBuilder()
    for name, table in tables.items():
        builder = builder.register(name, open_table(base, table))
    with translate_damage(base, *tables.values()):
        return pa.table(builder.execute(query))


def open_table(base: Path, table: Table) -> DeltaTable:
    """Return the newest version of a table. Raises HistoryError where there is none."""
    try:
        with translate_damage(base, table):
            return DeltaTable(str(table.at(base)))
    except TableNotFoundError as exc:
        reason = (
            "other tables are there, so it was deleted, or an earlier version wrote them. "
            "`offsetwatch history run --available-now` creates it"
            if any(has_tables(base, (other,)) for other in TABLES)
            else "the history pipeline has not run there yet. "
            "`offsetwatch history run --available-now` fills it; history.path names the folder"
        )
        raise HistoryError(f"{base} holds no {table.path}: {reason}") from exc


@contextmanager
def translate_damage(base: Path, *tables: Table) -> Iterator[None]:
    """Translate errors of tables that are damaged, or were changed by hand, to HistoryError."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (DeltaError, OSError, pa.ArrowException) as exc:
        names = ", ".join(table.path for table in tables)
        raise HistoryError(f"{base}: {names} cannot be read: {format_error(exc)}") from exc


def format_error(exc: Exception) -> str:
    """Return the message in one line: delta-rs prints a tree of causes, in terminal colours."""
    lines = _COLOUR.sub("", str(exc)).splitlines()
    return ": ".join(text for line in lines if (text := line.strip(" \u21b3")))


def convert_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, with times in Unix seconds."""
    for row in table.to_pylist():
        yield {
            name: value.timestamp() if isinstance(value, datetime) else value
            for name, value in row.items()
        }


def build_rows(flows: Iterable[MirrorFlow]) -> list[tuple[str | bool | None, ...]]:
    """Return a row for each flow, in the order of the table's columns."""
    return [
        (
            *(flow.connect_cluster, flow.connector, flow.source, flow.target),
            *(flow.upstream, flow.downstream),
            None if flow.offset_syncs is None else flow.offset_syncs.kafka,
            None if flow.offset_syncs is None else flow.offset_syncs.topic,
            # Of an unknown isolation level only what is certainly copied is compared.
            *(flow.policy, flow.separator, flow.read_committed is not False, flow.from_start),
            msgspec.json.encode(flow.routers).decode() if flow.routers else None,
            msgspec.json.encode(flow.copies).decode() if flow.copies else None,
        )
        for flow in flows
    ]


def read_flows(base: Path) -> tuple[MirrorFlow, ...]:
    """Return every flow, in order. Raises HistoryError if no run has written them."""
    flows = []
    for row in read_rows(base, GOLD_FLOWS):
        kafka, topic = row.pop("syncs_kafka"), row.pop("syncs_topic")
        syncs = None if kafka is None or topic is None else KafkaTopic(kafka, topic)
        routers = msgspec.json.decode(row.pop("routers") or "[]", type=tuple[TopicRouter, ...])
        copies = msgspec.json.decode(row.pop("copies") or "[]", type=tuple[tuple[str, str], ...])
        flows.append(MirrorFlow(**row, offset_syncs=syncs, routers=routers, copies=copies))
    return tuple(sorted(flows, key=lambda flow: (flow.key, flow.connector)))


def find_flow(base: Path, name: str, connect_cluster: str | None) -> MirrorFlow:
    """Return the flow called `source->target`. Raises HistoryError if there is none, or several."""
    everything = [(f"{flow.source}->{flow.target}", flow) for flow in read_flows(base)]
    flows = [
        flow
        for known, flow in everything
        if known == name and connect_cluster in {None, flow.connect_cluster}
    ]
    where = "" if connect_cluster is None else f" of {connect_cluster}"
    if not flows:
        names = ", ".join(sorted({known for known, _ in everything})) or "none"
        raise HistoryError(f"no flow{where} is called {name}; the newest run found {names}")
    if len(flows) > 1:
        clusters = " | ".join(sorted({flow.connect_cluster for flow in flows}))
        raise HistoryError(
            f"several connectors copy {name}: a checkpoint does not say whose it is; of several "
            f"Connect clusters name one: --connect {clusters}"
        )
    return flows[0]
