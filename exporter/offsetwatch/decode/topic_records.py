"""Records of all decoded topics: decoding by the topic's role, and one JSON form of each record.

The daemon, the pipeline and `offsetwatch decode` all decode records here, so they agree. The JSON
form is a contract: fields are added, never renamed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from offsetwatch.decode.connect_topics import decode_config, decode_status
from offsetwatch.decode.dialects import is_poisoned, read_event_time, read_position, resolve_dialect
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.mirror_maker import decode_checkpoint, decode_heartbeat, decode_sync
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.model.connectors import (
    ConfigRecord,
    ConnectorConfigured,
    ConnectorStatus,
    LoggerLevel,
    RestartRequested,
    SessionKey,
    StatusRecord,
    TargetState,
    TaskConfigured,
    TasksCommitted,
    TasksFenced,
    TaskStatus,
    TopicUse,
)
from offsetwatch.model.offsets import (
    Checkpoint,
    Heartbeat,
    LegacyOffset,
    OffsetSync,
    SourceEntry,
    SourceOffset,
    Undecodable,
)
from offsetwatch.model.topology import TopicKind

DecodedRecord = SourceEntry | OffsetSync | Checkpoint | Heartbeat | StatusRecord | ConfigRecord

_KINDS: Final[dict[type[object], str]] = {
    SourceEntry: "source_offset",
    OffsetSync: "offset_sync",
    Checkpoint: "checkpoint",
    Heartbeat: "heartbeat",
    ConnectorStatus: "connector_status",
    TaskStatus: "task_status",
    TopicUse: "topic_use",
    ConnectorConfigured: "connector_config",
    TaskConfigured: "task_config",
    TasksCommitted: "tasks_commit",
    TargetState: "target_state",
    TasksFenced: "tasks_fencing",
    RestartRequested: "restart_request",
    SessionKey: "session_key",
    LoggerLevel: "logger_level",
}


def decode_record(
    role: TopicKind, key: bytes | None, value: bytes | None
) -> DecodedRecord | Undecodable:
    """Return what a record of a topic of this role says; Undecodable for a malformed one."""
    return _DECODERS_BY_ROLE[role](key, value)


def decode_source_entry(key: bytes | None, value: bytes | None) -> SourceEntry | Undecodable:
    """Decode a record of an offsets topic; a value with an envelope is returned, not refused."""
    source_key = decode_key(key)
    if isinstance(source_key, Undecodable):
        return source_key
    offset = decode_value(value)
    if isinstance(offset, Undecodable) and not isinstance(offset, LegacyOffset):
        return offset
    return SourceEntry(key=source_key, offset=offset)


def format_record(noun: DecodedRecord) -> str:
    """Return a decoded record as a JSON map with sorted keys.

    `kind` names its type, and integers are exact.
    """
    if isinstance(noun, SourceEntry):
        fields = _build_source_entry_fields(noun)
    else:
        fields = msgspec.to_builtins(noun, order="sorted")
    return encode_sorted({"kind": _KINDS[type(noun)], **fields}).decode()


def _build_source_entry_fields(entry: SourceEntry) -> dict[str, Any]:
    """Return the JSON fields of an offsets record.

    `position`, `event_at` and the warnings are about what a task reads, so an envelope has none.
    """
    key, offset = entry.key, entry.offset
    said = offset.offset if isinstance(offset, LegacyOffset) else offset
    read = offset if isinstance(offset, SourceOffset) else None
    dialect = resolve_dialect(key.dialect, "")  # no record tells the class
    return {
        "connector": key.connector,
        "source_partition": msgspec.Raw(key.identity.encode()),
        "key_form": key.form.value,
        "dialect": dialect,
        "value": _classify_value(offset),
        "source_offset": None if said is None else msgspec.Raw(said.text.encode()),
        "position": read_position(dialect, read),
        "event_at": read_event_time(dialect, read),
        "beyond_64_bits": read is not None and read.beyond_64_bits,
        # Another class may read offsets of this shape.
        "poisoned": None if is_poisoned(key.dialect, read) else False,
    }


def _classify_value(offset: SourceOffset | LegacyOffset | None) -> str:
    """Return the kind of a value.

    Three kinds hold no offset: a tombstone, no bytes, and null. Connect and the log treat them
    differently.
    """
    if offset is None:
        return "tombstone"
    if isinstance(offset, LegacyOffset):
        return "legacy_envelope"
    if offset.no_bytes:
        return "no_bytes"
    return "null" if offset.is_null else "map"


_DECODERS_BY_ROLE: Final[
    dict[TopicKind, Callable[[bytes | None, bytes | None], DecodedRecord | Undecodable]]
] = {
    TopicKind.CONNECT_OFFSETS: decode_source_entry,
    TopicKind.OFFSET_SYNCS: decode_sync,
    TopicKind.CHECKPOINTS: decode_checkpoint,
    TopicKind.HEARTBEATS: decode_heartbeat,
    TopicKind.STATUS: decode_status,
    TopicKind.CONFIGS: decode_config,
}
