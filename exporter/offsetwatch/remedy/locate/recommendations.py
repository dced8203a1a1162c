"""Recommendations that are better than altering an offset: settings of Connect and Kafka.

They handle every record of that kind without an operator. Each is one sentence that names the
settings. Pure.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.remedy.classify.trace_meanings import PUT
from offsetwatch.remedy.model.policy import SinkProfile

# KAFKA-16087: before it, a source that tolerates errors could drop another record than the bad one.
TOLERANT_SOURCES_FROM: Final = (3, 7)

DEAD_LETTERS: Final = (
    "Set errors.tolerance=all and errors.deadletterqueue.topic.name (and "
    "errors.deadletterqueue.context.headers.enable=true): Connect then puts records that it cannot "
    "convert or transform aside by itself, this one and those that follow."
)
ERRANT_RECORDS: Final = (
    "If this sink reports bad records (ErrantRecordReporter, its documentation says so), "
    "errors.tolerance=all with errors.deadletterqueue.topic.name puts them aside."
)
REPORTED_RECORDS: Final = (
    "Set errors.tolerance=all and errors.deadletterqueue.topic.name: this sink puts records aside "
    "that its target refuses."
)
# By class: what it has for records that its target refuses, by its documentation or its code.
# Empty: nothing.
SINK_SETTINGS: Final = {
    "com.clickhouse.kafka.connect.ClickHouseSinkConnector": REPORTED_RECORDS,
    "com.mongodb.kafka.connect.MongoSinkConnector": (
        "Set mongo.errors.tolerance=all and errors.deadletterqueue.topic.name: this sink puts "
        "documents aside that MongoDB refuses."
    ),
    "com.snowflake.kafka.connector.SnowflakeSinkConnector": REPORTED_RECORDS,
    "com.wepay.kafka.connect.bigquery.BigQuerySinkConnector": REPORTED_RECORDS,
    "io.aiven.connect.jdbc.JdbcSinkConnector": "",
    "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector": (
        "Set behavior.on.malformed.documents=report or warn, and behavior.on.version.conflict for "
        "conflicts of versions: this sink then passes over documents that OpenSearch refuses."
    ),
    "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector": (
        "Set behavior.on.malformed.documents=warn: this sink then passes over documents that "
        "Elasticsearch refuses; errors.deadletterqueue.topic.name puts them aside."
    ),
    "io.confluent.connect.http.HttpSinkConnector": (
        "Set behavior.on.error=log and reporter.error.topic.name: this sink then writes requests "
        "there that the service refuses."
    ),
    "io.confluent.connect.jdbc.JdbcSinkConnector": REPORTED_RECORDS,
    "io.confluent.connect.s3.S3SinkConnector": REPORTED_RECORDS,
    # Up to 3.6.1.
    "io.debezium.connector.jdbc.JdbcSinkConnector": "",
}
SHOW_RECORDS: Final = (
    "Set errors.log.enable=true and errors.log.include.messages=true: the worker's log then names "
    "the topic, partition and offset of each record that fails."
)
GIVE_WORKER_PROPERTIES: Final = (
    "If this connector goes by its worker's converters, give worker_properties_file under connect "
    "in the configuration of offsetwatch: Connect does not return them."
)
ONE_AT_A_TIME: Final = (
    "Set consumer.override.max.poll.records=1, and restart its failed task until it has failed "
    "three times since: what is committed is then the record itself."
)
DECLARE_SAFE: Final = (
    "If this sink has written a record when put() returns, and continues from its group's offset, "
    "add its class to remedy.skip_safe_sinks: only then what it fails with is about that record."
)
CHECK_PRODUCER: Final = (
    "Look at who writes this topic and with which schema, and at the converters of this connector, "
    "before any record is skipped: more than one fails."
)
LARGER_REQUESTS: Final = (
    "Raise producer.override.max.request.size of the connector and max.message.bytes of the topic "
    "that it copies to: the record is then copied instead of lost."
)
TOLERATE_AT_SOURCE: Final = (
    "errors.tolerance=all would let it pass over what it cannot write, but without a copy: sources "
    "have no dead letters."
)
NOT_TOLERATE_AT_SOURCE: Final = (
    "Do not set errors.tolerance=all before Kafka Connect 3.7: it may drop another record than the "
    "bad one (KAFKA-16087)."
)
OTHER_REPLICAS: Final = (
    "Look at the disks of the brokers, and move the leadership of the partition to a replica whose "
    "copy is sound: the record is then read instead of lost."
)
DEBEZIUM_MODE: Final = (
    "Set event.processing.failure.handling.mode=warn for a while: it then passes over events that "
    "it cannot decode by itself, and logs each."
)
BOUND_THE_QUERY: Final = (
    "Fix or move the row in the database, or leave it out by a view or a query: rows that share "
    "its timestamp are lost with every offset that passes over it."
)
FIX_THE_FILE: Final = "Fix the line in the file, without changing its length."
CONFIGURE_THE_SOURCE: Final = (
    "Add its file or its database under sources in the configuration of offsetwatch, which then "
    "finds the record and copies it before it is skipped."
)
NAME_THE_RECORD: Final = (
    "Find the record that fails, and skip it with `offsetwatch plan create skip` and the offset "
    "right after it: it is copied first."
)
GIVE_WORKER_DELIVERY: Final = (
    "Give worker_properties_file under connect in the configuration of offsetwatch: it says "
    "whether the worker delivers exactly once, which Connect does not return."
)
ASK_THE_CONNECTOR: Final = (
    "Look for a setting of this connector that passes over what it cannot process: what its "
    "offsets mean only it knows."
)


# To identify a record is no use where none is skipped.
_IDENTIFYING: Final = {
    SinkProfile.SAFE: (ONE_AT_A_TIME,),
    SinkProfile.UNKNOWN: (ONE_AT_A_TIME, DECLARE_SAFE),
    SinkProfile.UNSAFE: (),
}


def recommend_for_sink(
    stage: str | None, class_name: str = "", profile: SinkProfile = SinkProfile.UNKNOWN
) -> tuple[str, ...]:
    """Return the recommendations for a sink of this class that fails at this stage."""
    if stage != PUT:
        return (DEAD_LETTERS, SHOW_RECORDS)
    settings = SINK_SETTINGS.get(class_name, ERRANT_RECORDS)
    return (*([settings] if settings else []), *_IDENTIFYING[profile])


def recommend_for_size(connect_version: tuple[int, ...] | None) -> tuple[str, ...]:
    """Return the recommendations for a record that is too large for a mirror to write."""
    modern = connect_version is not None and connect_version >= TOLERANT_SOURCES_FROM
    return (LARGER_REQUESTS, TOLERATE_AT_SOURCE if modern else NOT_TOLERATE_AT_SOURCE)
