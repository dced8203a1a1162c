"""Gold: how far each source partition and each replicated partition is, at a cut through bronze.

Native Spark only, window functions over Kafka-offset order, so a whole recomputation is always the
right answer. The rules are the edge's (state/sources.py, state/mirrors.py) and a test holds them
together. Each transform is DataFrame -> DataFrame and opens and closes with a select.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from exporter.history.tables.schemas import (
    CONNECT_OFFSETS,
    GOLD_FLOW_PROGRESS,
    GOLD_PROGRESS,
    LOG,
    OFFSET_SYNCS,
    SOURCE,
)
from exporter.model.topology import MirrorFlow, Topology

_MIRROR = ("mirror_cluster", "mirror_topic", "mirror_partition")
_SYNCED = ("synced", "synced_at", "downstream")
_SYNC = ("kafka", "topic", "sync_topic", "sync_partition")


def within(bronze: DataFrame, cut: DataFrame) -> DataFrame:
    """The records before the cut. A partition that the cut does not name lies behind it entirely.

    `cut` has the columns of gold/cursor. Naming topic ids, it leaves out what was read from a topic
    of the same name that no longer exists.
    """
    return (
        bronze.join(sf.broadcast(cut.select(*LOG, "next_offset")), on=list(LOG))
        .where(sf.col("koffset") < sf.col("next_offset"))
        .select(bronze.columns)
    )


def source_partitions(records: DataFrame, topics: DataFrame) -> DataFrame:
    """The effective record of every source partition, and how many other raw keys claim to be it.

    `topics` has connect_cluster, connector, kafka, topic: where each Connect cluster keeps its
    offsets (connector null), and each connector that has a topic of its own. Connect reads that one
    topic: what only the cluster's own holds of such a connector has no offset (state/site.py).

    Connect finds an offset by the bytes of its key, so a record under any other bytes moves
    nothing; it counts as a variant until a tombstone takes it away.
    """
    readable = _placed(records, topics)
    used = readable.where("used")
    effective = _newest(used.where("canonical"), *SOURCE)
    variants = (
        _newest(used.where(~sf.col("canonical")), *SOURCE, "key")
        .where(~sf.col("tombstone"))
        .groupBy(*SOURCE)
        .agg(sf.count("*").alias("variants"), sf.min("dialect").alias("variant_dialect"))
    )
    whole = effective.join(variants, on=list(SOURCE), how="full_outer").select(
        *SOURCE,
        # The dialect is recognised by the partition's shape: all its raw keys have the same.
        sf.coalesce("dialect", "variant_dialect").alias("dialect"),
        # Bytes that hold JSON null are no tombstone, but Connect lists the partition with null.
        sf.nullif("source_offset", sf.lit("null")).alias("source_offset"),
        *("pos", "error"),
        sf.coalesce("tombstone", sf.lit(False)).alias("tombstone"),
        sf.coalesce("variants", sf.lit(0)).cast("bigint").alias("variants"),
        *LOG,
        "koffset",
        sf.col("kts").alias("committed_at"),
        *_MIRROR,
    )
    return whole.unionByName(_shadows(readable, whole), allowMissingColumns=True)


def _placed(records: DataFrame, topics: DataFrame) -> DataFrame:
    """Decoded records of offsets topics; `used` where Connect looks, `shadow` where it did once."""
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
        .select(
            *SOURCE,
            *LOG,
            *_MIRROR,
            *("key", "canonical", "koffset", "kts", "dialect", "source_offset", "pos"),
            *("tombstone", "error"),
            sf.when(has_own, in_own).otherwise(in_common).alias("used"),
            # A topic on a cluster that is not configured has no name here: nothing is known then.
            (has_own & ~in_own & in_common & (sf.col("own_topic") != "")).alias("shadow"),
        )
    )


def _shadows(readable: DataFrame, whole: DataFrame) -> DataFrame:
    """Source partitions that Connect lists with a null offset, as only the shared topic has one."""
    return (
        _newest(readable.where(sf.col("shadow") & sf.col("canonical")), *SOURCE)
        .where(sf.col("source_offset").isNotNull() & (sf.col("source_offset") != "null"))
        .join(whole.select(*SOURCE), on=list(SOURCE), how="left_anti")
        .select(
            *SOURCE,
            "dialect",
            sf.lit(False).alias("tombstone"),
            sf.lit(0).cast("bigint").alias("variants"),
        )
    )


def progress(partitions: DataFrame) -> DataFrame:
    """gold/progress, from source_partitions."""
    return partitions.select(*GOLD_PROGRESS.names)


def newest_syncs(records: DataFrame) -> DataFrame:
    """The newest sync of every upstream partition in every offset-syncs topic.

    An undecodable one is passed over: what is replicated, the commit alone says.
    """
    readable = records.where(
        (sf.col("kind") == OFFSET_SYNCS) & sf.col("sync_upstream").isNotNull()
    ).select(*LOG, *_SYNC[2:], "koffset", "kts", "sync_upstream", "sync_downstream")
    return _newest(readable, *_SYNC).select(
        *_SYNC,
        sf.col("sync_upstream").alias("synced"),
        sf.col("kts").alias("synced_at"),
        sf.col("sync_downstream").alias("downstream"),
    )


def flow_progress(partitions: DataFrame, syncs: DataFrame, flows: DataFrame) -> DataFrame:
    """gold/flow_progress: the committed offsets of each flow, joined with its newest syncs.

    `flows` has connect_cluster, connector, source, target, syncs_kafka, syncs_topic. An entry under
    another alias than the flow's is dead, the task never looks it up; a partition without a
    committed offset has no row, whatever its syncs say: it will be replicated from the start again.
    A sync does not say whose it is: where several flows that share a syncs topic have a position in
    one partition, none of them is given its syncs (the edge does the same, state/book.py).

    What is replicated is the commit: timestamps of two writers do not tell which syncs came after
    it. The edge, which reads both as they come, may know of more (state/sync_lead.py).
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
        .withColumns({name: sf.when(sf.col("claims") == 1, sf.col(name)) for name in _SYNCED})
        .withColumn("replicated", sf.col("committed"))
        .drop("topic")
        .withColumnsRenamed({"sync_topic": "topic", "sync_partition": "partition"})
        .select(*GOLD_FLOW_PROGRESS.names)
    )


def _newest(records: DataFrame, *subject: str) -> DataFrame:
    """The newest record of each subject.

    In one log that is the highest offset, whatever the timestamps say. One subject in two logs (a
    changed partition count, a foreign writer) has no order; the newer timestamp is a better guess
    than none.
    """
    in_log = Window.partitionBy(*subject, *LOG).orderBy(sf.col("koffset").desc())
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


FLOWS_DDL = (
    "connect_cluster STRING, connector STRING, source STRING, target STRING, "
    "syncs_kafka STRING, syncs_topic STRING"
)


def topic_rows(topology: Topology) -> list[tuple[str | None, ...]]:
    """gold/topics."""
    found: list[tuple[str | None, ...]] = [
        (topic.connect_cluster, topic.connector, topic.at.kafka, topic.at.topic)
        for topic in topology.offsets_topics
    ]
    return found + [(cluster, connector, "", "") for cluster, connector in topology.elsewhere]


def flow_rows(flows: Iterable[MirrorFlow]) -> list[tuple[str | None, ...]]:
    """Of FLOWS_DDL, as `flow_progress` takes them."""
    return [
        (
            flow.connect_cluster,
            flow.connector,
            flow.source,
            flow.target,
            None if flow.offset_syncs is None else flow.offset_syncs.kafka,
            None if flow.offset_syncs is None else flow.offset_syncs.topic,
        )
        for flow in flows
    ]
