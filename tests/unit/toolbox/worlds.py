"""Small worlds: what is known of a connector, as facts.py would have gathered it."""

from __future__ import annotations

from typing import Any

from offsetwatch.model.connectors import ConnectorKind, MirrorSettings, SinkSettings
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.offset_shapes import ReadableRange
from offsetwatch.toolbox.validation import ValidationFacts

MIRROR_CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
FILE_CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def mirror_settings(**changed: Any) -> MirrorSettings:
    settings: dict[str, Any] = {
        "source": "west",
        "target": "east",
        "source_addresses": frozenset({"127.0.0.1:29192"}),
        "target_addresses": frozenset({"127.0.0.1:19092"}),
        "syncs_topic": "mm2-offset-syncs.east.internal",
        "syncs_on_source": True,
        "read_committed": False,
    }
    return MirrorSettings(**{**settings, **changed})


def mirror(**changed: Any) -> ValidationFacts:
    """Copies `orders` (0 to 4999) and `orders-eu` (0 to 299) from west."""
    facts: dict[str, Any] = {
        "connector": "mm2-source",
        "kind": ConnectorKind.MIRROR,
        "class_name": MIRROR_CLASS,
        "present": (
            PartitionOffset('{"cluster":"west","partition":0,"topic":"orders"}', '{"offset":4999}'),
            PartitionOffset(
                '{"cluster":"west","partition":0,"topic":"orders-eu"}', '{"offset":299}'
            ),
        ),
        "mirror": mirror_settings(),
        "topics": {"orders": 1, "orders-eu": 1, "payments": 2},
        "logs": {
            TopicPartition("orders", 0): ReadableRange(0, 5000),
            TopicPartition("orders-eu", 0): ReadableRange(0, 300),
            TopicPartition("payments", 0): ReadableRange(0, 10),
            TopicPartition("payments", 1): ReadableRange(0, 10),
        },
    }
    return ValidationFacts(**{**facts, **changed})


def sink(**changed: Any) -> ValidationFacts:
    """Reads `tlines`, whose records are 0 to 499."""
    facts: dict[str, Any] = {
        "connector": "t-sink",
        "kind": ConnectorKind.SINK,
        "class_name": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "present": (
            PartitionOffset('{"kafka_partition":0,"kafka_topic":"tlines"}', '{"kafka_offset":500}'),
        ),
        "sink": SinkSettings(
            group="connect-t-sink", addresses=frozenset(), topics=frozenset({"tlines"})
        ),
        "topics": {"tlines": 1, "lines": 1},
        "logs": {
            TopicPartition("tlines", 0): ReadableRange(0, 500),
            TopicPartition("lines", 0): ReadableRange(0, 500),
        },
    }
    return ValidationFacts(**{**facts, **changed})


def file_source(**changed: Any) -> ValidationFacts:
    """Reads /data/t.txt."""
    facts: dict[str, Any] = {
        "connector": "t-src",
        "kind": ConnectorKind.SOURCE,
        "class_name": FILE_CLASS,
        "present": (PartitionOffset('{"filename":"/data/t.txt"}', '{"position":4390}'),),
        "filename": "/data/t.txt",
    }
    return ValidationFacts(**{**facts, **changed})


def unknown_type(**changed: Any) -> ValidationFacts:
    """A connector of which nothing is known but what it wrote."""
    facts: dict[str, Any] = {
        "connector": "pg",
        "kind": ConnectorKind.SOURCE,
        "class_name": "com.example.Exotic",
        "present": (PartitionOffset('{"shard":"eu-1"}', '{"at":17,"mark":"a"}'),),
    }
    return ValidationFacts(**{**facts, **changed})
