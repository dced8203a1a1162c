"""Records of an `mm2-offset-syncs.*.internal` topic (OffsetSync.java, unchanged from 2.4 to 4.3).

Key: STRING topic (int16 length, UTF-8), INT32 partition. Value: INT64 upstream offset, INT64
downstream offset. There is NO version header, so nothing but the exact length tells a sync from
anything else.
"""

from __future__ import annotations

import struct

from exporter.model.offsets import OffsetSync, Undecodable

_VALUE = struct.Struct(">qq")


def decode_sync_key(raw: bytes | None) -> tuple[str, int] | Undecodable:
    """(upstream topic, partition)."""
    if raw is None:
        return Undecodable("key_null")
    if len(raw) < 6:
        return Undecodable("key_too_short")
    length = int.from_bytes(raw[:2], "big", signed=True)
    if length < 0 or len(raw) != 2 + length + 4:
        return Undecodable("key_length")
    try:
        topic = raw[2 : 2 + length].decode()
    except UnicodeDecodeError:
        return Undecodable("key_not_utf8")
    partition = int.from_bytes(raw[2 + length :], "big", signed=True)
    if partition < 0:
        return Undecodable("key_partition_negative")
    return topic, partition


def decode_sync_value(raw: bytes | None) -> tuple[int, int] | Undecodable:
    """(upstream offset, downstream offset). MM2 never writes tombstones here, so None is
    undecodable.
    """
    if raw is None:
        return Undecodable("value_null")
    if len(raw) != _VALUE.size:
        return Undecodable("value_length")
    upstream, downstream = _VALUE.unpack(raw)
    if upstream < 0 or downstream < 0:
        return Undecodable("value_negative")
    return upstream, downstream


def decode_sync(key: bytes | None, value: bytes | None) -> OffsetSync | Undecodable:
    """Decode one whole record."""
    where = decode_sync_key(key)
    if isinstance(where, Undecodable):
        return where
    what = decode_sync_value(value)
    if isinstance(what, Undecodable):
        return what
    return OffsetSync(
        topic=where[0], partition=where[1], upstream_offset=what[0], downstream_offset=what[1]
    )
