"""Decoders of MirrorMaker 2's own topics: offset-syncs, checkpoints, heartbeats.

STRING is an int16 length and UTF-8; integers are big-endian (OffsetSync.java, Checkpoint.java,
Heartbeat.java, unchanged from 2.4 to 4.3).

    topic                           key                                  value
    mm2-offset-syncs.<A>.internal   STRING topic, INT32 partition        INT64 upstream, INT64
                                                                         downstream offset
    <A>.checkpoints.internal        STRING group, topic, INT32           INT16 version, INT64
                                    partition                            upstream, downstream
                                                                         offset, STRING metadata
    heartbeats                      STRING source, target alias          INT16 version, INT64 ms

A sync has NO version header, so only its exact length distinguishes it from other records. Syncs
are written by a plain producer. Checkpoints and heartbeats pass through the worker's converters:
unless those are ByteArrayConverter, the bytes are inside JSON (see _unwrap_json).
"""

from __future__ import annotations

import base64
import binascii
import struct

from offsetwatch.decode import InvalidRecordError
from offsetwatch.decode.json_text import parse_json
from offsetwatch.decode.text_limits import NAME_CHARS_MAX, TOPIC_CHARS_MAX, shorten_text
from offsetwatch.model.offsets import Checkpoint, Heartbeat, OffsetSync, Undecodable
from offsetwatch.model.topology import is_topic_name

_OFFSET_PAIR = struct.Struct(">qq")
_VERSION = struct.Struct(">h")
_MILLIS = struct.Struct(">q")


def decode_sync_key(raw: bytes | None) -> tuple[str, int] | Undecodable:
    """Decode the key of an offset sync to (upstream topic, partition)."""
    if raw is None:
        return Undecodable("key_null")
    if len(raw) < 6:
        return Undecodable("key_too_short")
    length = int.from_bytes(raw[:2], "big", signed=True)
    if len(raw) != 2 + length + 4:  # as no length below zero can be
        return Undecodable("key_length")
    try:
        topic = raw[2 : 2 + length].decode()
    except UnicodeDecodeError:
        return Undecodable("key_not_utf8")
    partition = int.from_bytes(raw[2 + length :], "big", signed=True)
    if partition < 0:
        return Undecodable("key_partition_negative")
    if len(topic) > TOPIC_CHARS_MAX:
        return Undecodable("key_too_long")
    return topic, partition


def decode_sync_value(raw: bytes | None) -> tuple[int, int] | Undecodable:
    """Decode the value of an offset sync to (upstream offset, downstream offset).

    MM2 never writes tombstones here, so None is undecodable.
    """
    if raw is None:
        return Undecodable("value_null")
    if len(raw) != _OFFSET_PAIR.size:
        return Undecodable("value_length")
    upstream, downstream = _OFFSET_PAIR.unpack(raw)
    if upstream < 0 or downstream < 0:
        return Undecodable("value_negative")
    return upstream, downstream


def decode_sync(key: bytes | None, value: bytes | None) -> OffsetSync | Undecodable:
    """Decode a record of an offset-syncs topic."""
    where = decode_sync_key(key)
    if isinstance(where, Undecodable):
        return where
    what = decode_sync_value(value)
    if isinstance(what, Undecodable):
        return what
    return OffsetSync(
        topic=where[0], partition=where[1], upstream_offset=what[0], downstream_offset=what[1]
    )


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint | Undecodable:
    """Decode a record of a checkpoints topic; its key has the topic on the target."""
    try:
        bare = _unwrap_json(key, "key")
        group, topic = _decode_strings(bare[:-4], 2, "key")
        partition = int.from_bytes(bare[-4:], "big", signed=True)
        if partition < 0:
            return Undecodable("key_partition_negative")
        if len(group) > NAME_CHARS_MAX or len(topic) > TOPIC_CHARS_MAX:
            return Undecodable("key_too_long")
        if not is_topic_name(topic):
            return Undecodable("key_topic")
        body = _strip_version(value)
        (metadata,) = _decode_strings(body[_OFFSET_PAIR.size :], 1, "value")
    except InvalidRecordError as exc:
        return Undecodable(str(exc))
    offsets = decode_sync_value(body[: _OFFSET_PAIR.size])
    if isinstance(offsets, Undecodable):
        return offsets
    return Checkpoint(
        group=group,
        topic=topic,
        partition=partition,
        upstream_offset=offsets[0],
        downstream_offset=offsets[1],
        metadata=metadata,
    )


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat | Undecodable:
    """Decode a record of a heartbeats topic, whether written here or replicated from elsewhere.

    Long aliases are shortened as those of a flow are.
    """
    try:
        source, target = _decode_strings(_unwrap_json(key, "key"), 2, "key")
        body = _strip_version(value)
    except InvalidRecordError as exc:
        return Undecodable(str(exc))
    if len(body) != _MILLIS.size:
        return Undecodable("value_length")
    (millis,) = _MILLIS.unpack(body)
    if millis < 0:
        return Undecodable("value_negative")
    return Heartbeat(shorten_text(source), shorten_text(target), at=millis / 1000)


def _strip_version(raw: bytes | None) -> bytes:
    """Return the bytes of a value after the version 0; any other version is undecodable."""
    bare = _unwrap_json(raw, "value")
    if len(bare) < _VERSION.size:
        raise InvalidRecordError("value_length")
    if _VERSION.unpack_from(bare) != (0,):
        raise InvalidRecordError("value_version")
    return bare[_VERSION.size :]


def _unwrap_json(raw: bytes | None, part: str) -> bytes:
    """Return the bytes that MM2 passed to the converter.

    JsonConverter makes `"<base64>"` of them, and with schemas `{"schema":…,"payload":"<base64>"}`.

    No binary record is mistaken for one of these. A value begins with its version, 0x0000. A key
    would begin with a name of 0x22xx or 0x7bxx bytes, 8,704 at least, and still hold no byte but
    those of JSON and base64. But the name after it is a topic or an alias, of which topics are
    named, so at most 249 bytes long, and the first byte of its length is 0x00. Bytes that begin
    like JSON and are none are therefore undecodable, and not tried as binary.
    """
    if raw is None:
        raise InvalidRecordError(f"{part}_null")
    if raw[:1] not in {b'"', b"{"}:
        return raw
    text = parse_json(raw)
    if isinstance(text, dict) and text.keys() == {"schema", "payload"}:
        text = text["payload"]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):  # ValueError: characters beyond ASCII
        raise InvalidRecordError(f"{part}_not_base64") from None


def _decode_strings(raw: bytes, count: int, part: str) -> list[str]:
    """Decode exactly `count` STRINGs; anything more or less is undecodable."""
    texts = []
    for _ in range(count):
        length = int.from_bytes(raw[:2], "big", signed=True)
        if not 0 <= length <= len(raw) - 2:  # nor where the length itself is cut
            raise InvalidRecordError(f"{part}_length")
        try:
            texts.append(raw[2 : 2 + length].decode())
        except UnicodeDecodeError:
            raise InvalidRecordError(f"{part}_not_utf8") from None
        raw = raw[2 + length :]
    if raw:
        raise InvalidRecordError(f"{part}_length")
    return texts
