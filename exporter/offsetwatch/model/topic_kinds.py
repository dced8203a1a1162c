"""What a Kafka topic is for: the names that the registry, the tables and the command line share."""

from __future__ import annotations

from enum import StrEnum


class TopicKind(StrEnum):
    """`offset_syncs`, `checkpoints` and `heartbeats` are MM2's, the others are Connect's."""

    CONNECT_OFFSETS = "connect_offsets"
    OFFSET_SYNCS = "offset_syncs"
    CHECKPOINTS = "checkpoints"
    HEARTBEATS = "heartbeats"
    STATUS = "status"
    CONFIGS = "configs"
