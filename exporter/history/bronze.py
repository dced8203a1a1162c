"""Bronze: every record of the offset topics, bytes and meaning, exactly once.

One stateless stream per Kafka cluster; nothing here keeps state, so a checkpoint is disposable and
the code may change under it. Good and undecodable rows go to one table in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from exporter.history.records import Role, decode_batches
from exporter.history.tables import BRONZE_RECORDS, DAYS_AHEAD_MAX, DAYS_BACK_MAX, RECORD

# A table of an older version is given the columns that came since; they are null in its old rows.
APPEND = {"mergeSchema": "true"}
COUNTED = "rows"  # by this name Spark tells how many rows a batch stored
_RECORD_DDL = ", ".join(f"{column.name} {column.type}" for column in RECORD)


def kafka_records(
    spark: SparkSession,
    options: Mapping[str, str],
    topics: Iterable[str],
    *,
    starting: Mapping[str, Mapping[str, int]],
    offsets_per_trigger_max: int,
) -> DataFrame:
    """The stream of raw records, from these offsets on if it has no checkpoint yet.

    failOnDataLoss stays on: a topic that was created again, or whose log start passed us, must stop
    the stream. Without it Spark goes on in silence, having lost what nobody can bring back.
    """
    return (
        spark.readStream.format("kafka")
        .options(**options)
        .option("subscribe", ",".join(sorted(topics)))
        .option("startingOffsets", json.dumps(starting))
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", str(offsets_per_trigger_max))
        .load()
    )


def bronze_rows(records: DataFrame, kafka: str, by_topic: Mapping[str, Role]) -> DataFrame:
    """Raw Kafka records -> rows of bronze/records.

    `day` is the record's own, clamped around the time of ingestion: producers' clocks are wrong by
    centuries at times, and each crazy date would be a folder of its own.
    """
    roles = dict(by_topic)  # pickled into the plan

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return decode_batches(batches, roles)

    today = sf.to_date("ingest_ts")
    return (
        records.select("key", "value", "topic", "partition", "offset", "timestamp")
        .mapInArrow(decode, _RECORD_DDL)
        .withColumns({"kafka": sf.lit(kafka), "ingest_ts": sf.current_timestamp()})
        .withColumn(
            "day",
            sf.least(
                sf.greatest(sf.to_date("kts"), sf.date_sub(today, DAYS_BACK_MAX)),
                sf.date_add(today, DAYS_AHEAD_MAX),
            ),
        )
        .select(*BRONZE_RECORDS.names)
        .observe(
            COUNTED,
            sf.count(sf.lit(1)).alias("stored"),
            sf.count("error").alias("undecodable"),
        )
    )
