"""Gold: position of each source partition and each replicated partition, at a cut through bronze.

It uses window functions over Kafka-offset order, so a whole recomputation is always right; only
source partitions with several raw keys are decided in Python. The rules are the daemon's
(state/connect/source_offsets.py, state/mirror/replicated_partitions.py), and a test compares both.
Each transform is DataFrame -> DataFrame and opens and closes with a select.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from offsetwatch.clock import to_utc
from offsetwatch.history.pipeline.lookup_keys import build_lookup_condition
from offsetwatch.history.tables.offsets_topic_queries import EVIDENCE_RECORDS_MAX, find_keys_in_use
from offsetwatch.history.tables.reader import ConnectorClass, convert_rows
from offsetwatch.history.tables.schemas import (
    CONNECT_OFFSETS,
    GOLD_FLOW_PROGRESS,
    GOLD_PROGRESS,
    LOG_COLUMN_NAMES,
    OFFSET_SYNCS,
    SOURCE_COLUMN_NAMES,
)
from offsetwatch.model.topology import MirrorFlow, Topology
from offsetwatch.state.clock_skew import SKEW_S_MAX

_MIRROR = ("mirror_cluster", "mirror_topic", "mirror_partition")
_SYNC_VALUE_COLUMNS = ("synced", "synced_at", "downstream")
_SYNC = ("kafka", "topic", "sync_topic", "sync_partition")

_VALUE_COLUMNS = ("source_offset", "pos", "error")
_EVIDENCE_COLUMNS = (
    *(*SOURCE_COLUMN_NAMES, "key", "kpartition", "koffset", "kts"),
    *("source_offset", "tombstone", "error", "class_name"),
)
_CHOICE_DDL = (
    "connect_cluster STRING, connector STRING, source_partition STRING, key BINARY, "
    "unsure BOOLEAN, others INT"
)
_CHOICE_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in SOURCE_COLUMN_NAMES),
        ("key", pa.binary()),
        ("unsure", pa.bool_()),
        ("others", pa.int32()),
    ]
)
CLASSES_DDL = "connect_cluster STRING, connector STRING, class_name STRING"
FLOWS_DDL = (
    "connect_cluster STRING, connector STRING, source STRING, target STRING, "
    "syncs_kafka STRING, syncs_topic STRING"
)


def select_before_cut(bronze: DataFrame, cut: DataFrame) -> DataFrame:
    """Return the records before the cut. A partition that the cut does not name lies behind it.

    `cut` has the columns of gold/cursor. As it names topic ids, records of a deleted topic of the
    same name are left out.
    """
    return (
        bronze.join(
            sf.broadcast(cut.select(*LOG_COLUMN_NAMES, "next_offset")), on=list(LOG_COLUMN_NAMES)
        )
        .where(sf.col("koffset") < sf.col("next_offset"))
        .select(bronze.columns)
    )


def compute_source_partitions(
    records: DataFrame, topics: DataFrame, classes: DataFrame
) -> DataFrame:
    """Return the record of every source partition that its task looks up, and its variants.

    `variants` counts other raw keys that hold an offset of the source partition.

    `topics` has connect_cluster, connector, kafka, topic: the offsets topic of each Connect cluster
    (connector null), and of each connector that has a topic of its own. Connect reads that one
    topic: an offset of such a connector that only the cluster's own topic holds does not count
    (state/connect/connect_cluster.py).

    `classes` has connect_cluster, connector, class_name, of connectors whose class is known.

    Connect finds an offset by the bytes of its key. Bytes that no worker writes are never looked
    up: they count as a variant until a tombstone deletes them.
    """
    readable = _mark_used_records(records, topics, classes)
    used = readable.where("used")
    effective = _select_effective_records(used.where("canonical"))
    has_offset = sf.coalesce("source_offset", sf.lit("null")) != "null"
    # Of a class that is not known an unreadable value may be the connector's own.
    counts = (sf.col("key_form") != "ordered") | sf.col("class_name").isNull() | has_offset
    variants = (
        _select_newest(used.where(~sf.col("canonical")), *SOURCE_COLUMN_NAMES, "key")
        .where(~sf.col("tombstone") & counts)
        .groupBy(*SOURCE_COLUMN_NAMES)
        .agg(sf.count("*").alias("variants"), sf.min("dialect").alias("variant_dialect"))
    )
    whole = effective.join(variants, on=list(SOURCE_COLUMN_NAMES), how="full_outer").select(
        *SOURCE_COLUMN_NAMES,
        # The dialect is recognised by the partition's shape: all its raw keys have the same.
        sf.coalesce("dialect", "variant_dialect").alias("dialect"),
        # Bytes that hold JSON null are no tombstone, but Connect lists the partition with null.
        sf.nullif("source_offset", sf.lit("null")).alias("source_offset"),
        *("pos", "error"),
        sf.coalesce("tombstone", sf.lit(False)).alias("tombstone"),
        (sf.coalesce("variants", sf.lit(0)) + sf.coalesce("others", sf.lit(0)))
        .cast("bigint")
        .alias("variants"),
        sf.when(~sf.col("unsure"), sf.col("key")).alias("key"),
        sf.coalesce("unsure", sf.lit(False)).alias("unsure"),
        *LOG_COLUMN_NAMES,
        "koffset",
        sf.col("kts").alias("committed_at"),
        *_MIRROR,
    )
    return whole.unionByName(_select_shadowed_partitions(readable, whole), allowMissingColumns=True)


def _mark_used_records(records: DataFrame, topics: DataFrame, classes: DataFrame) -> DataFrame:
    """Return decoded records of offsets topics, marked by whether Connect reads them.

    used        Connect reads this topic for the connector
    shadow      Connect's shared topic, of a connector with a topic of its own
    canonical   its tasks may look these bytes up
    """
    own = topics.where(sf.col("connector").isNotNull()).withColumnsRenamed(
        {"kafka": "own_kafka", "topic": "own_topic"}
    )
    common = topics.where(sf.col("connector").isNull()).select(
        "connect_cluster",
        sf.col("kafka").alias("common_kafka"),
        sf.col("topic").alias("common_topic"),
    )
    has_own = sf.col("own_topic").isNotNull()
    in_own = (sf.col("kafka") == sf.col("own_kafka")) & (sf.col("topic") == sf.col("own_topic"))
    in_common = (sf.col("kafka") == sf.col("common_kafka")) & (
        sf.col("topic") == sf.col("common_topic")
    )
    return (
        records.where((sf.col("kind") == CONNECT_OFFSETS) & sf.col("connector").isNotNull())
        .join(sf.broadcast(own), on=["connect_cluster", "connector"], how="left")
        .join(sf.broadcast(common), on=["connect_cluster"], how="left")
        .join(sf.broadcast(classes), on=["connect_cluster", "connector"], how="left")
        .withColumn("canonical", build_lookup_condition(sf.col("class_name")))
        .select(
            *SOURCE_COLUMN_NAMES,
            *LOG_COLUMN_NAMES,
            *_MIRROR,
            "class_name",
            *("key", "key_form", "canonical", "koffset", "kts", "dialect", "source_offset", "pos"),
            *("tombstone", "error"),
            sf.when(has_own, in_own).otherwise(in_common).alias("used"),
            # A topic on a cluster that is not configured has no name here: nothing is known then.
            (has_own & ~in_own & in_common & (sf.col("own_topic") != "")).alias("shadow"),
        )
    )


def _select_effective_records(records: DataFrame) -> DataFrame:
    """Return the newest record under the raw key that the task looks up.

    unsure    several raw keys may be that key; or several logs hold different offsets under it, and
              no timestamps tell the newer. Then the record is the newest, without its contents
    others    how many other raw keys hold an offset
    """
    by_key = _select_newest(records, *SOURCE_COLUMN_NAMES, "key").withColumn(
        "keys", sf.count("*").over(Window.partitionBy(*SOURCE_COLUMN_NAMES))
    )
    says = {name: sf.when(~sf.col("unsure"), sf.col(name)) for name in _VALUE_COLUMNS}
    alone = (
        by_key.where("keys = 1")
        .join(_find_contested_keys(records), [*SOURCE_COLUMN_NAMES, "key"], "left")
        .withColumn("unsure", sf.coalesce("unsure", sf.lit(False)))
        .withColumns(says)
        .withColumn("tombstone", sf.col("tombstone") & ~sf.col("unsure"))
        .select(*records.columns, "unsure", sf.lit(0).alias("others"))
    )
    several = by_key.where("keys > 1").select(*records.columns)
    of_connectors = several.select("connect_cluster", "connector").distinct()
    newest = Window.partitionBy(*SOURCE_COLUMN_NAMES, "key", *LOG_COLUMN_NAMES).orderBy(
        sf.col("koffset").desc()
    )
    evidence = (
        records.join(sf.broadcast(of_connectors), ["connect_cluster", "connector"], "left_semi")
        .withColumn("_place", sf.row_number().over(newest))
        .where(sf.col("_place") <= EVIDENCE_RECORDS_MAX)
        .select(*_EVIDENCE_COLUMNS)
    )
    chosen = evidence.groupBy("connect_cluster", "connector").applyInArrow(
        _choose_keys, _CHOICE_DDL
    )
    effective = (
        several.join(chosen, [*SOURCE_COLUMN_NAMES, "key"])
        .withColumns(says)
        .withColumn("tombstone", sf.col("tombstone") & ~sf.col("unsure"))
        .select(*alone.columns)
    )
    return alone.unionByName(effective)


def _find_contested_keys(records: DataFrame) -> DataFrame:
    """Return raw keys whose newest records in several logs give a task different offsets.

    Their timestamps differ by no more than clocks may (SKEW_S_MAX).
    """
    in_log = Window.partitionBy(*SOURCE_COLUMN_NAMES, "key", *LOG_COLUMN_NAMES).orderBy(
        sf.col("koffset").desc()
    )
    everywhere = Window.partitionBy(*SOURCE_COLUMN_NAMES, "key")
    column = sf.when(~sf.col("tombstone"), sf.nullif("source_offset", sf.lit("null")))
    return (
        records.withColumn("_place", sf.row_number().over(in_log))
        .where("_place = 1")
        .withColumn("_newest", sf.max(sf.unix_micros("kts")).over(everywhere))
        .where(sf.col("_newest") - sf.unix_micros("kts") <= int(SKEW_S_MAX * 1e6))
        .groupBy(*SOURCE_COLUMN_NAMES, "key")
        .agg(sf.count_distinct(sf.coalesce(column, sf.lit(""))).alias("_offsets"))
        .where("_offsets > 1")
        .select(*SOURCE_COLUMN_NAMES, "key", sf.lit(True).alias("unsure"))
    )


def _choose_keys(records: pa.Table) -> pa.Table:
    """Return the raw key that counts, for source partitions of one connector that have several."""
    rows = list(convert_rows(records))
    keys: dict[str, set[bytes]] = {}
    for row in rows:
        keys.setdefault(row["source_partition"], set()).add(row["key"])
    key_columns = [
        {
            "connect_cluster": rows[0]["connect_cluster"],
            "connector": rows[0]["connector"],
            "source_partition": identity,
            "key": use.unsure[0].raw_key if use.spelling is None else use.spelling.raw_key,
            "unsure": use.spelling is None,
            "others": len(use.unsure) if use.spelling is None else use.others,
        }
        for identity, use in find_keys_in_use(rows, rows[0]["class_name"] or "").items()
        if len(keys[identity]) > 1
    ]
    return pa.Table.from_pylist(key_columns, schema=_CHOICE_SCHEMA)


def _select_shadowed_partitions(readable: DataFrame, whole: DataFrame) -> DataFrame:
    """Return partitions that Connect lists with a null offset: only the shared topic has one."""
    return (
        _select_newest(readable.where(sf.col("shadow") & sf.col("canonical")), *SOURCE_COLUMN_NAMES)
        .where(sf.col("source_offset").isNotNull() & (sf.col("source_offset") != "null"))
        .join(whole.select(*SOURCE_COLUMN_NAMES), on=list(SOURCE_COLUMN_NAMES), how="left_anti")
        .select(
            *SOURCE_COLUMN_NAMES,
            "dialect",
            sf.lit(False).alias("tombstone"),
            sf.lit(0).cast("bigint").alias("variants"),
            sf.lit(False).alias("unsure"),
        )
    )


def select_progress(partitions: DataFrame) -> DataFrame:
    """Return gold/progress, from compute_source_partitions."""
    return partitions.select(*GOLD_PROGRESS.names)


def select_newest_syncs(records: DataFrame) -> DataFrame:
    """Return the newest sync of every upstream partition in every offset-syncs topic.

    An undecodable one is left out: the commit alone gives the replicated offset.
    """
    readable = records.where(
        (sf.col("kind") == OFFSET_SYNCS) & sf.col("sync_upstream").isNotNull()
    ).select(*LOG_COLUMN_NAMES, *_SYNC[2:], "koffset", "kts", "sync_upstream", "sync_downstream")
    return _select_newest(readable, *_SYNC).select(
        *_SYNC,
        sf.col("sync_upstream").alias("synced"),
        sf.col("kts").alias("synced_at"),
        sf.col("sync_downstream").alias("downstream"),
    )


def compute_flow_progress(partitions: DataFrame, syncs: DataFrame, flows: DataFrame) -> DataFrame:
    """Return gold/flow_progress: the committed offsets of each flow, joined with its newest syncs.

    `flows` has connect_cluster, connector, source, target, syncs_kafka, syncs_topic. An offset
    under another alias than the flow's is never looked up by the task. A partition without a
    committed offset has no row, whatever its syncs say: it will be replicated from the start again.
    A sync does not name its flow: where several flows that share a syncs topic have a position in
    one partition, none of them gets its syncs (the daemon does the same, state/book.py).

    The replicated offset is the commit: timestamps of two writers do not tell which syncs came
    after it. The daemon, which reads both as they come, may know of more
    (state/mirror/offset_syncs.py).
    """
    committed = partitions.where(
        sf.col("mirror_cluster").isNotNull() & sf.col("pos").isNotNull()
    ).select(
        *("connect_cluster", "connector"),
        sf.col("mirror_cluster").alias("source"),
        sf.col("mirror_topic").alias("sync_topic"),
        sf.col("mirror_partition").alias("sync_partition"),
        sf.col("pos").alias("committed"),
        "committed_at",
    )
    return (
        committed.join(sf.broadcast(flows), on=["connect_cluster", "connector", "source"])
        .withColumnsRenamed({"syncs_kafka": "kafka", "syncs_topic": "topic"})
        .withColumn("claims", sf.count("*").over(Window.partitionBy(*_SYNC)))
        .join(syncs, on=list(_SYNC), how="left")
        .withColumns(
            {name: sf.when(sf.col("claims") == 1, sf.col(name)) for name in _SYNC_VALUE_COLUMNS}
        )
        .withColumn("replicated", sf.col("committed"))
        .drop("topic")
        .withColumnsRenamed({"sync_topic": "topic", "sync_partition": "partition"})
        .select(*GOLD_FLOW_PROGRESS.names)
    )


def _select_newest(records: DataFrame, *subject: str) -> DataFrame:
    """Return the newest record of each subject.

    In one log that is the highest offset, whatever the timestamps say. One subject in two logs (a
    changed partition count, a foreign writer) is ordered by its timestamps. Where these differ by
    no more than clocks do, the order is arbitrary (see _find_contested_keys).
    """
    in_log = Window.partitionBy(*subject, *LOG_COLUMN_NAMES).orderBy(sf.col("koffset").desc())
    across = Window.partitionBy(*subject).orderBy(
        sf.col("kts").desc(),
        sf.col("kpartition").desc(),
        sf.col("kafka").desc(),
        sf.col("topic").desc(),
    )
    return (
        records.withColumn("_place", sf.row_number().over(in_log))
        .where("_place = 1")
        .withColumn("_place", sf.row_number().over(across))
        .where("_place = 1")
        .select(records.columns)
    )


def build_topic_rows(topology: Topology) -> list[tuple[str | None, ...]]:
    """Return the rows of gold/topics."""
    rows: list[tuple[str | None, ...]] = [
        (topic.connect_cluster, topic.connector, topic.at.kafka, topic.at.topic)
        for topic in topology.offsets_topics
    ]
    return rows + [(cluster, connector, "", "") for cluster, connector in topology.elsewhere]


def build_class_rows(classes: Mapping[tuple[str, str], str]) -> list[tuple[str, str, str]]:
    """Return rows of CLASSES_DDL, an input of `compute_source_partitions`."""
    return [(*connector, class_name) for connector, class_name in sorted(classes.items())]


def merge_classes(
    known: Iterable[ConnectorClass], classes: Mapping[tuple[str, str], str], now: float
) -> tuple[ConnectorClass, ...]:
    """Return gold/classes after a run at `now` that found these classes, in order.

    Connectors that the run did not find remain.
    """
    merged = {(row.connect_cluster, row.connector): row for row in known}
    for connector, class_name in classes.items():
        before = merged.get(connector)
        if before is None or before.class_name != class_name:
            since = None if before is None else now
            merged[connector] = ConnectorClass(*connector, class_name, since)
    return tuple(sorted(merged.values()))


def build_stored_class_rows(classes: Iterable[ConnectorClass]) -> list[tuple[object, ...]]:
    """Return the rows of gold/classes."""
    return [(*row[:3], None if row.since is None else to_utc(row.since)) for row in classes]


def build_flow_rows(flows: Iterable[MirrorFlow]) -> list[tuple[str | None, ...]]:
    """Return rows of FLOWS_DDL, the input of `compute_flow_progress`."""
    return [
        (
            *(flow.connect_cluster, flow.connector, flow.source, flow.target),
            None if flow.offset_syncs is None else flow.offset_syncs.kafka,
            None if flow.offset_syncs is None else flow.offset_syncs.topic,
        )
        for flow in flows
    ]
