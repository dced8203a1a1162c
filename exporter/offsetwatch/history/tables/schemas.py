"""Schemas of the pipeline's tables: names, columns, partitioning. Contract of writers and readers.

Written by history/pipeline/commits.py, and sorted by history/pipeline/maintenance.py, one run at a
time; read by tables/reader.py, or by anything that speaks Delta. It does not import pyspark,
because readers run without a JVM.

Columns are only ever added. Every table stays at Delta reader version 1, which all readers know: no
deletion vectors, no column mapping, no variant type; JSON is stored as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from offsetwatch.model.topology import TopicKind

CONNECT_OFFSETS = TopicKind.CONNECT_OFFSETS.value
OFFSET_SYNCS = TopicKind.OFFSET_SYNCS.value
CHECKPOINTS = TopicKind.CHECKPOINTS.value
HEARTBEATS = TopicKind.HEARTBEATS.value
STATUS = TopicKind.STATUS.value
CONFIGS = TopicKind.CONFIGS.value

# Inside one log, the offset is a total order.
LOG_COLUMN_NAMES = ("kafka", "topic", "topic_id", "kpartition")

SOURCE_COLUMN_NAMES = ("connect_cluster", "connector", "source_partition")

# How far `day` may lie from the day a record was read.
DAYS_BACK_MAX = 400
DAYS_AHEAD_MAX = 1

# What the types below are in Arrow.
ARROW = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),  # Kafka's milliseconds fit exactly
    "DATE": pa.date32(),
}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column; `type` is Spark's SQL name of it. A required one is never null."""

    name: str
    type: str
    required: bool = False

    def ddl(self) -> str:
        """Return the column as Spark DDL."""
        return f"{self.name} {self.type}{' NOT NULL' if self.required else ''}"


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table below the base path.

    indexed       how many of the first columns have statistics in files, by which files are skipped
    ordered_by    the order of rows in the files of a day that maintenance has sorted
    """

    path: str
    columns: tuple[TableColumn, ...]
    partitioned_by: tuple[str, ...] = ()
    indexed: int = 8
    ordered_by: tuple[str, ...] = ()
    append_only: bool = False

    def at(self, base: Path) -> Path:
        """Return the folder of the table."""
        return base / self.path

    @property
    def names(self) -> tuple[str, ...]:
        """Return the column names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def indexed_names(self) -> tuple[str, ...]:
        """Return the columns with statistics.

        Delta counts the columns in the files; the columns that the table is partitioned by are not
        there.
        """
        within = [name for name in self.names if name not in self.partitioned_by]
        return tuple(within[: self.indexed])

    @property
    def properties(self) -> dict[str, str]:
        """Return Delta's table properties, which other engines follow too."""
        named = {"delta.dataSkippingNumIndexedCols": str(self.indexed)}
        return {**named, "delta.appendOnly": "true"} if self.append_only else named

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema."""
        return pa.schema(
            [
                pa.field(column.name, ARROW[column.type], nullable=not column.required)
                for column in self.columns
            ]
        )

    def ddl(self) -> str:
        """Return the columns as a Spark schema string."""
        return ", ".join(column.ddl() for column in self.columns)


_LOG_COLUMNS = tuple(
    TableColumn(name, "INT" if name == "kpartition" else "STRING", required=True)
    for name in LOG_COLUMN_NAMES
)
_SOURCE_COLUMNS = tuple(TableColumn(name, "STRING", required=True) for name in SOURCE_COLUMN_NAMES)
_FLOW_COLUMNS = tuple(
    TableColumn(name, "STRING", required=True)
    for name in ("connect_cluster", "connector", "source", "target")
)

# What history/pipeline/bronze_rows.py makes of a Kafka record, without knowing which cluster it
# came from or when.
RECORD = (
    TableColumn("kind", "STRING", required=True),  # a TopicRole
    TableColumn("connect_cluster", "STRING"),  # null for syncs: their topic may serve several flows
    TableColumn("topic", "STRING", required=True),
    TableColumn("topic_id", "STRING", required=True),  # a topic created again is another topic
    TableColumn("kpartition", "INT", required=True),
    TableColumn("koffset", "BIGINT", required=True),
    TableColumn("kts", "TIMESTAMP", required=True),  # the Kafka record's own timestamp
    TableColumn("key", "BINARY"),
    TableColumn("value", "BINARY"),  # null for status and configs too: those values hold secrets
    # connect_offsets only
    TableColumn("connector", "STRING"),
    TableColumn("source_partition", "STRING"),  # JSON, keys sorted
    # may its task look up these very key bytes, if its class is not known?
    TableColumn("canonical", "BOOLEAN"),
    TableColumn("dialect", "STRING"),
    TableColumn("source_offset", "STRING"),  # JSON, keys sorted, exact; null for a tombstone
    TableColumn("tombstone", "BOOLEAN"),
    TableColumn("pos", "BIGINT"),  # null where there is none, or it does not fit 64 bits
    TableColumn("mirror_cluster", "STRING"),
    TableColumn("mirror_topic", "STRING"),
    TableColumn("mirror_partition", "INT"),
    TableColumn("key_form", "STRING"),  # canonical | ordered | variant | legacy_envelope
    # when the source made the last change, if the offset tells
    TableColumn("event_at", "TIMESTAMP"),
    # offset_syncs only
    TableColumn("sync_topic", "STRING"),
    TableColumn("sync_partition", "INT"),
    TableColumn("sync_upstream", "BIGINT"),
    TableColumn("sync_downstream", "BIGINT"),
    # checkpoints, heartbeats, status, configs
    # JSON, keys sorted: what decode/topic_records.py says of the record
    TableColumn("observation", "STRING"),
    # why the record, or its value, could not be decoded; the bytes above are kept all the same
    TableColumn("error", "STRING"),
)

# Every record ever seen, once. Identity: kafka, topic_id, kpartition, koffset.
BRONZE_RECORDS = Table(
    path="bronze/records",
    columns=(
        TableColumn("kafka", "STRING", required=True),
        *RECORD,
        TableColumn("ingest_ts", "TIMESTAMP", required=True),
        TableColumn("day", "DATE", required=True),  # of kts, clamped around ingest_ts
    ),
    partitioned_by=("kind", "day"),
    indexed=7,  # up to kts
    ordered_by=(*LOG_COLUMN_NAMES, "koffset"),
    append_only=True,
)

# Where the logs of replicated topics began and ended when a run asked: upstream topics on the
# source of a flow, and their copies on its target. What could not be asked has no row.
BRONZE_LOG_ENDS = Table(
    path="bronze/log_ends",
    columns=(
        TableColumn("at", "TIMESTAMP", required=True),  # when it was asked for, by the run's clock
        TableColumn("kafka", "STRING", required=True),
        TableColumn("topic", "STRING", required=True),
        TableColumn("partition", "INT", required=True),
        TableColumn("log_start", "BIGINT", required=True),
        TableColumn("log_end", "BIGINT", required=True),
        TableColumn("day", "DATE", required=True),  # of `at`
    ),
    partitioned_by=("day",),
    indexed=4,
    ordered_by=("kafka", "topic", "partition", "at"),
    append_only=True,
)

# Where consumer groups stood in the same topics, on both sides. No row: it has committed nothing
# there. A group that could not be asked on one side has no row on the other either.
BRONZE_GROUP_OFFSETS = Table(
    path="bronze/group_offsets",
    columns=(
        TableColumn("at", "TIMESTAMP", required=True),  # when it was asked for, by the run's clock
        TableColumn("kafka", "STRING", required=True),
        TableColumn("group_id", "STRING", required=True),
        TableColumn("topic", "STRING", required=True),
        TableColumn("partition", "INT", required=True),
        TableColumn("committed", "BIGINT", required=True),  # the NEXT record
        TableColumn("day", "DATE", required=True),  # of `at`
    ),
    partitioned_by=("day",),
    indexed=5,
    ordered_by=("kafka", "group_id", "topic", "partition", "at"),
    append_only=True,
)

# How far source partitions were behind the ends of their sources, by the daemon, each time that a
# run asked it (model/source_ends.SourceEndSample). What it did not read has no row.
BRONZE_SOURCE_ENDS = Table(
    path="bronze/source_ends",
    columns=(
        TableColumn("at", "TIMESTAMP", required=True),  # when the daemon read the end
        *_SOURCE_COLUMNS,
        TableColumn("source", "STRING", required=True),
        TableColumn("kind", "STRING", required=True),
        TableColumn("server", "STRING"),  # which server it was; null where it does not tell
        TableColumn("source_end", "STRING"),  # as the source writes it
        # null where there is none, or it does not fit 64 bits
        TableColumn("position", "BIGINT"),
        TableColumn("end_position", "BIGINT"),
        TableColumn("lag_bytes", "BIGINT"),
        TableColumn("lag_transactions", "BIGINT"),
        TableColumn("lag_rows", "BIGINT"),
        TableColumn("behind_since", "TIMESTAMP"),
        TableColumn("caught_up", "BOOLEAN"),  # null: not known, and the lags are upper bounds
        TableColumn("problem", "STRING"),  # why there are no numbers, or what is lost
        TableColumn("day", "DATE", required=True),  # of `at`
    ),
    partitioned_by=("day",),
    indexed=4,
    ordered_by=(*SOURCE_COLUMN_NAMES, "at"),
    append_only=True,
)

# One row per commit of a source partition under a raw key that a task may look up, by its class as
# far as a run knew it, with what changed since the one before it under the same raw key in that
# log. Never changed once written.
SILVER_COMMITS = Table(
    path="silver/commits",
    columns=(
        *_SOURCE_COLUMNS,
        # kts; of a record stamped more than a day ahead of its reading, the end of the next day
        TableColumn("at", "TIMESTAMP", required=True),
        TableColumn("koffset", "BIGINT", required=True),
        *_LOG_COLUMNS,
        TableColumn("kts", "TIMESTAMP", required=True),
        TableColumn("ingest_ts", "TIMESTAMP", required=True),
        TableColumn("key", "BINARY"),  # null in older rows, all of which have the key of a HashMap
        TableColumn("dialect", "STRING", required=True),
        TableColumn("source_offset", "STRING"),
        TableColumn("tombstone", "BOOLEAN", required=True),
        TableColumn("error", "STRING"),
        TableColumn("pos", "BIGINT"),
        TableColumn("event_at", "TIMESTAMP"),
        # first | ahead | behind | same | unordered | reset (commit_changes.py); null if undecodable
        TableColumn("change", "STRING"),
        TableColumn("step", "BIGINT"),  # pos minus the previous pos
        # kts minus the previous kts; negative where a clock was set back
        TableColumn("pause_s", "DOUBLE"),
        TableColumn("day", "DATE", required=True),  # as in bronze
    ),
    partitioned_by=("day",),
    indexed=5,
    ordered_by=(*SOURCE_COLUMN_NAMES, "koffset"),
)

# The newest commit under every raw key of a source partition in every log, at the end of a day that
# is over. With the commits of the days after it, this is all that a question about a moment has to
# read, but for source partitions with several raw keys.
SILVER_SNAPSHOTS = Table(
    path="silver/snapshots",
    columns=tuple(
        column
        for column in SILVER_COMMITS.columns
        if column.name not in {"change", "step", "pause_s", "ingest_ts"}
    ),
    partitioned_by=("day",),
    indexed=3,
    ordered_by=SOURCE_COLUMN_NAMES,
)

# The newest bronze record under each raw key of every log (of syncs, that can be decoded): what
# Kafka's compaction would leave, and what the next run goes on from.
SILVER_NEWEST = Table(path="silver/newest", columns=BRONZE_RECORDS.columns)

# Progress by source partition in steps of RATE_S seconds, of days that are over.
SILVER_RATES = Table(
    path="silver/rates",
    columns=(
        *_SOURCE_COLUMNS,
        TableColumn("begins", "TIMESTAMP", required=True),
        TableColumn("commits", "BIGINT", required=True),
        TableColumn("advances", "BIGINT", required=True),  # commits of another offset than before
        TableColumn("rewinds", "BIGINT", required=True),
        TableColumn("resets", "BIGINT", required=True),
        TableColumn("undecodable", "BIGINT", required=True),
        TableColumn("advanced", "BIGINT"),  # by how much pos grew; null where there is none
        TableColumn("per_second", "DOUBLE"),
        # the longest between a commit in here and its predecessor
        TableColumn("pause_s_max", "DOUBLE"),
        TableColumn("day", "DATE", required=True),  # of the commits
    ),
    partitioned_by=("day",),
    indexed=3,
    ordered_by=SOURCE_COLUMN_NAMES,
)
RATE_S = 300

# One row per log that bronze has a record of, as far as silver has come.
SILVER_LOGS = Table(
    path="silver/logs",
    columns=(
        TableColumn("kind", "STRING", required=True),
        TableColumn("connect_cluster", "STRING"),
        *_LOG_COLUMNS,
        TableColumn("first_offset", "BIGINT", required=True),
        TableColumn("next_offset", "BIGINT", required=True),  # behind the newest record
        TableColumn("records", "BIGINT", required=True),
        # Offsets in between without a record: markers and aborted ones of transactions, or
        # compaction was faster than the pipeline.
        TableColumn("holes", "BIGINT", required=True),
        TableColumn("undecodable", "BIGINT", required=True),
        TableColumn("first_at", "TIMESTAMP", required=True),  # of the records' own timestamps
        TableColumn("last_at", "TIMESTAMP", required=True),
        TableColumn("first_read_at", "TIMESTAMP", required=True),  # when they came into bronze
        TableColumn("last_read_at", "TIMESTAMP", required=True),
    ),
)

# One row per source partition. Its offset, error, place and time are those of the newest record
# under the raw key that its task looks up, and null if there never was one. Where several raw keys
# may be the one, or the newest record is in one of several Kafka partitions and no clock tells in
# which (`unsure`), there is no key and no offset; place and time are of the newest.
GOLD_PROGRESS = Table(
    path="gold/progress",
    columns=(
        *_SOURCE_COLUMNS,
        TableColumn("dialect", "STRING", required=True),
        # null: a tombstone, undecodable, or it holds JSON null
        TableColumn("source_offset", "STRING"),
        TableColumn("pos", "BIGINT"),
        TableColumn("error", "STRING"),
        TableColumn("tombstone", "BOOLEAN", required=True),
        TableColumn("variants", "BIGINT", required=True),  # other raw keys that still hold a value
        TableColumn("key", "BINARY"),  # the raw key that its task looks up
        TableColumn("unsure", "BOOLEAN", required=True),  # it is not known which of several that is
        TableColumn("kafka", "STRING"),
        TableColumn("topic", "STRING"),
        TableColumn("topic_id", "STRING"),
        TableColumn("kpartition", "INT"),
        TableColumn("koffset", "BIGINT"),
        TableColumn("committed_at", "TIMESTAMP"),
    ),
)

# One row per upstream partition that a MirrorSourceConnector has a committed offset for.
GOLD_FLOW_PROGRESS = Table(
    path="gold/flow_progress",
    columns=(
        *_FLOW_COLUMNS,
        TableColumn("topic", "STRING", required=True),
        TableColumn("partition", "INT", required=True),
        TableColumn("committed", "BIGINT", required=True),
        TableColumn("committed_at", "TIMESTAMP", required=True),
        TableColumn("synced", "BIGINT"),
        TableColumn("synced_at", "TIMESTAMP"),
        TableColumn("downstream", "BIGINT"),
        TableColumn("replicated", "BIGINT", required=True),  # the commit: a sync names no writer
    ),
)

# Up to which offsets the other gold tables were computed. Written after them.
GOLD_CURSOR = Table(
    path="gold/cursor",
    columns=(
        *_LOG_COLUMNS,
        TableColumn("next_offset", "BIGINT", required=True),  # every record below it was considered
    ),
)

# Where the topology of the newest run says that offsets are kept, so that readers need no network.
GOLD_TOPICS = Table(
    path="gold/topics",
    columns=(
        TableColumn("connect_cluster", "STRING", required=True),
        TableColumn("connector", "STRING"),  # null: the topic of the whole Connect cluster
        # Both empty for a connector whose offsets lie on a Kafka cluster that is not configured.
        TableColumn("kafka", "STRING", required=True),
        TableColumn("topic", "STRING", required=True),
    ),
)

# The class of each connector, by the newest run that knew it: it decides which raw keys count.
GOLD_CLASSES = Table(
    path="gold/classes",
    columns=(
        TableColumn("connect_cluster", "STRING", required=True),
        TableColumn("connector", "STRING", required=True),
        TableColumn("class_name", "STRING", required=True),
        # when a run found it in place of another class; null: no run has found another
        TableColumn("since", "TIMESTAMP"),
    ),
)

# The flows of that topology (model/topology.MirrorFlow).
GOLD_FLOWS = Table(
    path="gold/flows",
    columns=(
        *_FLOW_COLUMNS,
        TableColumn("upstream", "STRING"),  # null where no configured Kafka cluster is it
        TableColumn("downstream", "STRING"),
        TableColumn("syncs_kafka", "STRING"),
        TableColumn("syncs_topic", "STRING"),
        TableColumn("policy", "STRING"),
        TableColumn("separator", "STRING", required=True),
        TableColumn("read_committed", "BOOLEAN", required=True),
        TableColumn("from_start", "BOOLEAN", required=True),
        TableColumn("routers", "STRING"),  # model/topology.TopicRouter, a JSON array; null for none
        # those that the configuration names, a JSON array of pairs
        TableColumn("copies", "STRING"),
    ),
)

# Records that are missing from bronze for ever, and why (reader.GapReason).
OPS_GAPS = Table(
    path="ops/gaps",
    columns=(
        *_LOG_COLUMNS,
        TableColumn("from_offset", "BIGINT", required=True),
        # the first that is not missing; null: not known
        TableColumn("to_offset", "BIGINT"),
        TableColumn("reason", "STRING", required=True),
        TableColumn("at", "TIMESTAMP", required=True),  # when it was noticed
    ),
)

# In the order in which a run adds to them.
SILVER = (SILVER_COMMITS, SILVER_NEWEST, SILVER_RATES, SILVER_SNAPSHOTS, SILVER_LOGS)
TABLES = (
    BRONZE_RECORDS,
    BRONZE_LOG_ENDS,
    BRONZE_GROUP_OFFSETS,
    BRONZE_SOURCE_ENDS,
    *SILVER,
    GOLD_PROGRESS,
    GOLD_FLOW_PROGRESS,
    GOLD_CURSOR,
    GOLD_TOPICS,
    GOLD_CLASSES,
    GOLD_FLOWS,
    OPS_GAPS,
)
