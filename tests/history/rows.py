"""Bronze rows for the tests: made from raw records by the pipeline's own decoding."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic, decode_batches
from offsetwatch.history.pipeline.stream_plan import Feed
from offsetwatch.history.spark.security import kafka_options
from offsetwatch.history.tables.schemas import (
    CHECKPOINTS,
    CONFIGS,
    CONNECT_OFFSETS,
    HEARTBEATS,
    OFFSET_SYNCS,
    STATUS,
)
from offsetwatch.model.offsets import Scalar

GOLDEN = Path(__file__).parent.parent / "golden"
RAW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
OFFSETS_TOPIC = "connect-offsets"
OWN_TOPIC = "ledger-offsets"  # of one connector alone
SYNCS_TOPIC = "mm2-offset-syncs.east.internal"
ROLES = {
    OFFSETS_TOPIC: RecordedTopic(CONNECT_OFFSETS, "payments", "id-1"),
    OWN_TOPIC: RecordedTopic(CONNECT_OFFSETS, "payments", "id-3"),
    SYNCS_TOPIC: RecordedTopic(OFFSET_SYNCS, None, "id-2"),
}
OBSERVED_ROLES = {
    "west.checkpoints.internal": RecordedTopic(CHECKPOINTS, None, "id-3"),
    "heartbeats": RecordedTopic(HEARTBEATS, None, "id-4"),
    "connect-status": RecordedTopic(STATUS, "payments", "id-5"),
    "connect-configs": RecordedTopic(CONFIGS, "payments", "id-6"),
}


@dataclass(frozen=True)
class Raw:
    """A Kafka record as Spark's source gives it; `ms` is its timestamp."""

    key: bytes | None
    value: bytes | None
    topic: str = OFFSETS_TOPIC
    partition: int = 0
    offset: int = 0
    ms: int = 0


def raw_batch(*records: Raw) -> pa.RecordBatch:
    columns = [
        [record.key for record in records],
        [record.value for record in records],
        [record.topic for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [record.ms * 1000 for record in records],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, RAW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW)


def decoded(*records: Raw, roles: dict[str, RecordedTopic] = ROLES) -> list[dict[str, object]]:
    """Through the pipeline's decoding, without Spark."""
    return [
        row for batch in decode_batches([raw_batch(*records)], roles) for row in batch.to_pylist()
    ]


def offset_key(connector: str, partition: dict[str, Scalar]) -> bytes:
    """The canonical key."""
    key = build_connect_key(connector, partition)
    assert key is not None
    return key


def mirror_key(connector: str, cluster: str, topic: str, partition: int) -> bytes:
    return offset_key(connector, {"cluster": cluster, "topic": topic, "partition": partition})


def sync_key(topic: str, partition: int) -> bytes:
    name = topic.encode()
    return struct.pack(f">h{len(name)}si", len(name), name, partition)


def sync_value(upstream: int, downstream: int) -> bytes:
    return struct.pack(">qq", upstream, downstream)


def checkpoint_key(group: str, topic: str, partition: int) -> bytes:
    """CheckpointKey: the topic is the one on the target."""
    return b"".join((_string(group), _string(topic), struct.pack(">i", partition)))


def checkpoint_value(upstream: int, downstream: int) -> bytes:
    """CheckpointValue, which has a version before it."""
    return struct.pack(">hqq", 0, upstream, downstream) + _string("")


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def golden(name: str) -> list[Raw]:
    """Bytes that real Kafka Connect and MirrorMaker 2 wrote."""
    return [
        Raw(
            key=None if it["key"] is None else bytes.fromhex(it["key"]),
            value=None if it["value"] is None else bytes.fromhex(it["value"]),
            topic=it["topic"],
            partition=it["partition"],
            offset=it["offset"],
            ms=it["ts"],
        )
        for it in json.loads((GOLDEN / name).read_text())
    ]


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(0, tz=UTC) + timedelta(milliseconds=ms)  # exact, unlike a float


def feed_of(bootstrap: str, topic: str, topic_id: str) -> Feed:
    """One offsets topic of the cluster `east`, as the pipeline is given it."""
    properties = {"bootstrap.servers": bootstrap}
    return Feed(
        kafka="east",
        properties=properties,
        options=kafka_options("east", properties),
        by_topic={topic: RecordedTopic(CONNECT_OFFSETS, "lab", topic_id)},
        offsets_per_trigger_max=1000,
    )
