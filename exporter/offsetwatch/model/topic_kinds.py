"""Kinds of Kafka topics: names that the registry, the tables and the command line share."""

from __future__ import annotations

from enum import StrEnum


class TopicKind(StrEnum):
    """Kinds of topics: MM2's `offset_syncs`, `checkpoints` and `heartbeats`, and Connect's."""

    CONNECT_OFFSETS = "connect_offsets"
    OFFSET_SYNCS = "offset_syncs"
    CHECKPOINTS = "checkpoints"
    HEARTBEATS = "heartbeats"
    STATUS = "status"
    CONFIGS = "configs"
