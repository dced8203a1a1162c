"""Records of topics: through the decoders, and through whatever says the same of them sooner."""

from __future__ import annotations

import json
from typing import Any

from offsetwatch.decode.dialects import (
    DIALECTS,
    read_event_time,
    read_event_time_from_fields,
    read_position,
    read_position_from_fields,
)
from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.decode.json_text import encode_sorted, parse_flat_map, parse_json
from offsetwatch.decode.mirror_maker import decode_sync_key, decode_sync_value
from offsetwatch.decode.source_offsets import (
    LABEL_BYTES_MAX,
    decode_fields,
    decode_key,
    decode_value,
)
from offsetwatch.decode.topic_records import decode_record, format_record
from offsetwatch.model.offsets import LegacyOffset, OffsetSync, SourceKey, SourceOffset, Undecodable
from offsetwatch.model.topology import TopicKind
from tests.fuzz.targets import Target
from tests.properties.test_decoders import GOLDEN, SPOKEN
from tests.unit.decode.golden import records

_FIRST = json.JSONDecoder()


def decoded(role: TopicKind, key: bytes | None, value: bytes | None) -> None:
    """A noun with an observation, or a reason; and the same again."""
    noun = decode_record(role, key, value)
    if isinstance(noun, Undecodable):
        assert noun.reason.startswith(("key_", "value_")), noun
        assert noun == decode_record(role, key, value)
        return
    record = format_record(noun)
    assert record.isprintable() or json.loads(record)["kind"]
    assert list(json.loads(record)) == sorted(json.loads(record))
    assert noun == decode_record(role, key, value)


def source_offset(key: bytes | None, value: bytes | None) -> None:
    decoded(TopicKind.CONNECT_OFFSETS, key, value)
    subject, offset = decode_key(key), decode_value(value)
    assert isinstance(subject, SourceKey | Undecodable)
    assert offset is None or isinstance(offset, SourceOffset | Undecodable)
    assert (offset is None) == (value is None)
    if isinstance(subject, SourceKey):
        assert len(subject.label.encode()) <= LABEL_BYTES_MAX
        if subject.canonical:
            assert key == build_connect_key(*json.loads(key or b""))
    for raw in (key, value):
        if raw:
            one_reading(raw)
    if value:
        compare_decoders(value, offset)


def compare_decoders(value: bytes, offset: Any) -> None:
    """A value whose fields are read at once is the offset that is made step by step."""
    fields = decode_fields(value)
    if fields is None:
        return
    assert isinstance(offset, SourceOffset)
    assert not isinstance(offset, LegacyOffset)
    assert encode_sorted(fields).decode() == offset.text
    for name, dialect in DIALECTS.items():
        assert read_position_from_fields(dialect, fields) == read_position(name, offset), name
        assert read_event_time_from_fields(dialect, fields) == read_event_time(name, offset), name


def one_reading(raw: bytes) -> None:
    """What is parsed at speed says what the plain path says, and what another parser says."""
    flat, parsed = parse_flat_map(raw), parse_json(raw)
    if flat is not None:
        assert repr(flat) == repr(parsed)
    if isinstance(parsed, Undecodable):
        return
    try:
        plain, _ = _FIRST.raw_decode(raw.decode().lstrip(" \t\r\n"))
    except (ValueError, RecursionError):  # needless zeros, or deeper than that parser goes
        return
    assert repr(plain) == repr(parsed)


def offset_sync(key: bytes | None, value: bytes | None) -> None:
    decoded(TopicKind.OFFSET_SYNCS, key, value)
    where, what = decode_sync_key(key), decode_sync_value(value)
    if isinstance(where, Undecodable) or isinstance(what, Undecodable):
        return
    noun = OffsetSync(
        topic=where[0], partition=where[1], upstream_offset=what[0], downstream_offset=what[1]
    )
    assert decode_record(TopicKind.OFFSET_SYNCS, key, value) == noun
    assert min(noun.partition, noun.upstream_offset, noun.downstream_offset) >= 0


def _of(role: TopicKind) -> Any:
    return lambda key, value: decoded(role, key, value)


_RUN = {TopicKind.CONNECT_OFFSETS: source_offset, TopicKind.OFFSET_SYNCS: offset_sync}
_SHARE = {TopicKind.CONNECT_OFFSETS: 6, TopicKind.OFFSET_SYNCS: 2}


def _seeds(role: TopicKind) -> list[tuple[bytes | None, bytes | None]]:
    real = [(record.key, record.value) for name in GOLDEN.get(role, ()) for record in records(name)]
    return [*dict.fromkeys([*real, *SPOKEN])]


TARGETS = [
    Target(role.value, _seeds(role), _RUN.get(role, _of(role)), _SHARE.get(role, 1))
    for role in TopicKind
]
