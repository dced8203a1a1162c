"""Sink connector classes that continue from their group's offset, and those that do not.

A record is skipped by moving that offset. The sink must write a record before it commits past it,
and must continue from the group's offset.
"""

from __future__ import annotations

from typing import Final

# put() returns once everything is written, nothing overrides preCommit(), nothing seeks.
SAFE_SINK_CLASSES: Final = (
    "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "FileStreamSinkConnector",
    "FileStreamSink",
    "io.confluent.connect.jdbc.JdbcSinkConnector",
    "io.aiven.connect.jdbc.JdbcSinkConnector",
)
# They resume from what they find in the target, or commit before it is written: an offset that is
# moved is ignored, or tells nothing of what was delivered. By simple name, whoever the vendor is.
UNSAFE_SINK_NAMES: Final = (
    "AivenKafkaConnectS3Sink",
    "AzureBlobStorageSink",
    "BigQuerySink",
    "BigQueryStorageSink",
    "ClickHouseSink",
    "ElasticsearchSink",
    "GcsSink",
    "Hdfs2Sink",
    "Hdfs3Sink",
    "HdfsSink",
    "IcebergSink",
    "OpenSearchSink",
    "OpensearchSink",
    "S3Sink",
    "SnowflakeSink",
    "SnowflakeStreamingSink",
)


def is_unsafe_sink(class_name: str) -> bool:
    """Return whether no configuration can make a skip safe for this class.

    Connect accepts aliases: the simple name, with or without `Connector`.
    """
    return class_name.rpartition(".")[2].removesuffix("Connector") in UNSAFE_SINK_NAMES
