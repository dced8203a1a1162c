from __future__ import annotations

import base64
import json
import struct

import pytest

from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.decode.mirror_maker import (
    decode_checkpoint,
    decode_heartbeat,
    decode_sync,
    decode_sync_key,
    decode_sync_value,
)
from offsetwatch.decode.text_limits import TEXT_CHARS_MAX
from offsetwatch.model.offsets import Checkpoint, Heartbeat, OffsetSync, Undecodable

KEY = bytes.fromhex("00066f726465727300000003")
VALUE = bytes.fromhex("00000000000004d200000000000004b0")


def test_a_sync_pairs_the_offsets_of_one_record_on_both_sides():
    assert decode_sync(KEY, VALUE) == OffsetSync(
        topic="orders", partition=3, upstream_offset=1234, downstream_offset=1200
    )


def test_a_topic_name_may_be_empty_or_not_ascii():
    assert decode_sync_key(b"\x00\x00" + bytes(4)) == ("", 0)
    assert decode_sync_key(b"\x00\x02\xc3\xa9" + bytes(4)) == ("é", 0)


def test_a_names_last_byte_is_no_part_of_the_partition_after_it():
    assert decode_sync_key(b"\x00\x01t" + (2**31 - 1).to_bytes(4, "big")) == ("t", 2**31 - 1)
    assert decode_sync_key(b"\x00\x01t\x01\x00\x00\x02") == ("t", 0x01000002)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(None, "key_null", id="no-key"),
        pytest.param(b"", "key_too_short", id="no-bytes"),
        pytest.param(KEY[:5], "key_too_short", id="cut-in-the-length"),
        pytest.param(KEY[:-1], "key_length", id="a-byte-short"),
        pytest.param(KEY + b"\x00", "key_length", id="a-byte-long"),
        pytest.param(b"\xff\xff" + KEY[2:], "key_length", id="negative-length"),
        pytest.param(b"\x00\x02\xc3\x28" + bytes(4), "key_not_utf8", id="not-utf8"),
        pytest.param(KEY[:-4] + b"\xff" * 4, "key_partition_negative", id="negative-partition"),
        pytest.param(b'["c",{"a":1}]', "key_length", id="an-offsets-topics-key"),
    ],
)
def test_what_is_no_sync_key_is_undecodable_with_its_own_reason(raw, reason):
    assert decode_sync_key(raw) == Undecodable(reason)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(None, "value_null", id="tombstone"),
        pytest.param(b"", "value_length", id="no-bytes"),
        pytest.param(VALUE[:15], "value_length", id="a-byte-short"),
        pytest.param(VALUE + b"\x00", "value_length", id="a-byte-long"),
        pytest.param(struct.pack(">qq", -1, 5), "value_negative", id="negative-upstream"),
        pytest.param(struct.pack(">qq", 5, -1), "value_negative", id="negative-downstream"),
    ],
)
def test_what_is_no_sync_value_is_undecodable_with_its_own_reason(raw, reason):
    assert decode_sync_value(raw) == Undecodable(reason)


def test_the_largest_offsets_are_exact():
    largest = 2**63 - 1
    assert decode_sync_value(struct.pack(">qq", largest, largest)) == (largest, largest)


def test_an_undecodable_key_speaks_before_an_undecodable_value():
    assert decode_sync(None, None) == Undecodable("key_null")
    assert decode_sync(KEY, None) == Undecodable("value_null")


CHECKPOINT_KEY = bytes.fromhex("00036772700008612e6f726465727300000003")
CHECKPOINT_VALUE = bytes.fromhex("0000000000000000003200000000000000300000")
CHECKPOINT = Checkpoint(
    group="grp",
    topic="a.orders",
    partition=3,
    upstream_offset=50,
    downstream_offset=48,
    metadata="",
)
HEARTBEAT_KEY = bytes.fromhex("000161000162")
HEARTBEAT_VALUE = bytes.fromhex("00000000018bcfe56800")


def as_json(raw: bytes) -> bytes:
    """What JsonConverter makes of bytes."""
    return json.dumps(base64.b64encode(raw).decode()).encode()


def as_envelope(raw: bytes) -> bytes:
    """The same with schemas.enable=true."""
    schema = {"type": "bytes", "optional": False}
    return json.dumps({"schema": schema, "payload": base64.b64encode(raw).decode()}).encode()


@pytest.mark.parametrize("written", [bytes, as_json, as_envelope])
def test_a_checkpoint_pairs_a_groups_offsets_on_both_sides(written):
    assert decode_checkpoint(written(CHECKPOINT_KEY), written(CHECKPOINT_VALUE)) == CHECKPOINT


@pytest.mark.parametrize("written", [bytes, as_json, as_envelope])
def test_a_heartbeat_names_its_aliases_and_its_time(written):
    heartbeat = decode_heartbeat(written(HEARTBEAT_KEY), written(HEARTBEAT_VALUE))
    assert heartbeat == Heartbeat(source="a", target="b", at=1_700_000_000.0)


def test_a_length_is_javas_short_so_that_32768_bytes_are_less_than_none():
    name = b"\x80\x00" + b"t" * 0x8000
    assert decode_sync_key(name + bytes(4)) == Undecodable("key_length")
    checkpoint = decode_checkpoint(b"\x00\x01g" + name + bytes(4), CHECKPOINT_VALUE)
    assert checkpoint == Undecodable("key_length")


def test_offsets_and_times_may_be_zero():
    checkpoint = decode_checkpoint(CHECKPOINT_KEY, struct.pack(">hqqh", 0, 0, 0, 0))
    assert (checkpoint.upstream_offset, checkpoint.downstream_offset) == (0, 0)
    assert decode_heartbeat(HEARTBEAT_KEY, bytes(10)).at == 0.0


LONG = b"\x40\x00" + b"n" * 0x4000


def test_names_longer_than_kafka_or_a_label_allows_are_undecodable():
    assert decode_sync_key(LONG + bytes(4)) == Undecodable("key_too_long")
    for key in (b"\x00\x01g" + LONG, LONG + b"\x00\x01t"):
        assert decode_checkpoint(key + bytes(4), CHECKPOINT_VALUE) == Undecodable("key_too_long")


def test_long_aliases_of_a_heartbeat_are_those_that_a_flow_has():
    alias = "n" * 0x4000
    config = {"connector.class": "MirrorSourceConnector", "source.cluster.alias": alias}
    mirror = parse_connector_settings("mm2", config).mirror
    heartbeat = decode_heartbeat(LONG + b"\x00\x01b", HEARTBEAT_VALUE)
    assert (heartbeat.source, heartbeat.target) == (mirror.source, "b")
    assert len(heartbeat.source) == TEXT_CHARS_MAX


def test_a_checkpoint_keeps_its_metadata_and_a_group_that_is_not_ascii():
    key = bytes.fromhex("000367c3a9") + CHECKPOINT_KEY[5:]
    checkpoint = decode_checkpoint(key, CHECKPOINT_VALUE[:-2] + bytes.fromhex("00046d657461"))
    assert (checkpoint.group, checkpoint.metadata) == ("gé", "meta")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        pytest.param(None, "key_null", id="no-key"),
        pytest.param(b"", "key_length", id="no-bytes"),
        pytest.param(CHECKPOINT_KEY[:-1], "key_length", id="a-byte-short"),
        pytest.param(CHECKPOINT_KEY + b"\x00", "key_length", id="a-byte-long"),
        pytest.param(HEARTBEAT_KEY, "key_length", id="a-heartbeats-key"),
        pytest.param(b"\xff\xff" + CHECKPOINT_KEY[2:], "key_length", id="negative-length"),
        pytest.param(b"\x00\x02\xc3\x28\x00\x00" + bytes(4), "key_not_utf8", id="not-utf8"),
        pytest.param(
            CHECKPOINT_KEY[:-4] + b"\xff" * 4, "key_partition_negative", id="negative-partition"
        ),
        pytest.param(b"\x00\x01g\x00\x03a\x00b" + bytes(4), "key_topic", id="no-topics-name"),
        pytest.param(b'"AAN', "key_not_base64", id="cut-text"),
        pytest.param(b'"AAN"', "key_not_base64", id="cut-base64"),
        pytest.param(b'"AA N0"', "key_not_base64", id="a-space-inside"),
        pytest.param('"é"'.encode(), "key_not_base64", id="not-ascii"),
        pytest.param(b'{"payload":"AAN0"}', "key_not_base64", id="no-envelope"),
        pytest.param(b'{"schema":null,"payload":null}', "key_not_base64", id="envelope-of-null"),
        pytest.param(as_json(as_json(CHECKPOINT_KEY)), "key_length", id="wrapped-twice"),
    ],
)
def test_what_is_no_checkpoint_key_is_undecodable_with_its_own_reason(key, reason):
    assert decode_checkpoint(key, CHECKPOINT_VALUE) == Undecodable(reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(None, "value_null", id="tombstone"),
        pytest.param(b"", "value_length", id="no-bytes"),
        pytest.param(b"\x00", "value_length", id="half-a-version"),
        pytest.param(b"\x00\x01" + CHECKPOINT_VALUE[2:], "value_version", id="next-version"),
        pytest.param(CHECKPOINT_VALUE[:10], "value_length", id="one-offset"),
        pytest.param(CHECKPOINT_VALUE[:-2], "value_length", id="no-metadata"),
        pytest.param(CHECKPOINT_VALUE + b"\x00", "value_length", id="a-byte-long"),
        pytest.param(CHECKPOINT_VALUE[:-1] + b"\x01\xff", "value_not_utf8", id="not-utf8"),
        pytest.param(b"\x00\x00" + b"\xff" * 16 + bytes(2), "value_negative", id="negative"),
        pytest.param(struct.pack(">hqqh", 0, -1, 5, 0), "value_negative", id="negative-upstream"),
        pytest.param(struct.pack(">hqqh", 0, 5, -1, 0), "value_negative", id="negative-downstream"),
        pytest.param(HEARTBEAT_VALUE, "value_length", id="a-heartbeats-value"),
        pytest.param(b'"AAE="', "value_version", id="next-version-in-base64"),
    ],
)
def test_what_is_no_checkpoint_value_is_undecodable_with_its_own_reason(value, reason):
    assert decode_checkpoint(CHECKPOINT_KEY, value) == Undecodable(reason)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        pytest.param(None, HEARTBEAT_VALUE, "key_null", id="no-key"),
        pytest.param(HEARTBEAT_KEY[:-1], HEARTBEAT_VALUE, "key_length", id="cut-key"),
        pytest.param(CHECKPOINT_KEY, HEARTBEAT_VALUE, "key_length", id="a-checkpoints-key"),
        pytest.param(b'"!"', HEARTBEAT_VALUE, "key_not_base64", id="text"),
        pytest.param(HEARTBEAT_KEY, None, "value_null", id="tombstone"),
        pytest.param(HEARTBEAT_KEY, HEARTBEAT_VALUE[:-1], "value_length", id="cut-value"),
        pytest.param(HEARTBEAT_KEY, HEARTBEAT_VALUE + b"\x00", "value_length", id="a-byte-long"),
        pytest.param(HEARTBEAT_KEY, b"\x00\x01" + bytes(8), "value_version", id="next-version"),
        pytest.param(HEARTBEAT_KEY, b"\x00\x00" + b"\xff" * 8, "value_negative", id="negative"),
    ],
)
def test_what_is_no_heartbeat_is_undecodable_with_its_own_reason(key, value, reason):
    assert decode_heartbeat(key, value) == Undecodable(reason)


def test_a_name_that_begins_like_json_is_never_taken_for_another_record():
    group = b"x" * 0x2241  # its length is written as the bytes of '"A'
    key = struct.pack(f">h{len(group)}s", len(group), group) + b"\x00\x01t" + bytes(4)
    assert decode_checkpoint(key, CHECKPOINT_VALUE) == Undecodable("key_not_base64")


def test_a_sync_is_never_written_as_base64():
    assert decode_sync_key(as_json(KEY)) == Undecodable("key_length")
