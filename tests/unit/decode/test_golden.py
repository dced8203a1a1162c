"""Real bytes: what Connect 4.3.1 and MM2 wrote must decode to what they meant."""

from __future__ import annotations

import json

import pytest

from offsetwatch.decode.mirror_maker import decode_checkpoint, decode_heartbeat, decode_sync
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.model.offsets import Checkpoint, Heartbeat, OffsetSync, SourceKey, SourceOffset

from .golden import records

OFFSETS_TOPICS = ("east.connect-offsets", "east.mm2-offsets.a.internal")


def key_of(raw: bytes) -> SourceKey:
    key = decode_key(raw)
    assert isinstance(key, SourceKey), key
    return key


@pytest.mark.parametrize("topic", OFFSETS_TOPICS)
def test_every_key_that_connect_wrote_is_the_key_that_connect_looks_up(topic):
    assert {key_of(record.key).canonical for record in records(topic)} == {True}


@pytest.mark.parametrize("topic", OFFSETS_TOPICS)
def test_every_value_that_connect_wrote_is_a_tombstone_or_says_what_its_json_says(topic):
    for record in records(topic):
        value = decode_value(record.value)
        if record.value is None:
            assert value is None
        else:
            assert isinstance(value, SourceOffset)
            assert not value.is_null
            assert json.loads(value.text) == json.loads(record.value)


def test_the_newest_record_of_each_key_gives_the_offset_that_rest_showed():
    newest = {}
    for record in records("east.connect-offsets"):
        key = key_of(record.key)
        newest[key.connector, key.label] = decode_value(record.value)
    assert {
        item: None if offset is None else dict(offset.numbers) for item, offset in newest.items()
    } == {
        ("file-source", "filename=/data/in.txt"): {"position": 8893},
        ("t-src", "filename=/data/t.txt"): {"position": 4390},
        ("t-src", "filename=/other.txt"): None,
        ("t-src", "filename=/nowhere"): None,
        ("t-stopped", "filename=/data/t2.txt"): {"position": 5},
        ("poison-source", "filename=/data/dates.txt"): {"position": 22},
        ("poison-mm2", "cluster=south,partition=0,topic=big"): {"offset": 5},
        ("mm2-source", "cluster=west,partition=0,topic=orders"): {"offset": 3999},
        ("mm2-source", "cluster=west,partition=0,topic=orders-eu"): {"offset": 299},
        ("mm2-source", "cluster=west,partition=0,topic=heartbeats"): {"offset": 9},
        ("mm2-source", "cluster=west,partition=0,topic=zzz"): {"offset": 1},
        ("mm2-source", "cluster=west,partition=0,topic=orders,x=1"): {"offset": 4000},
        ("mm2-source", "cluster=north,partition=0,topic=orders"): None,
        ("mm2-checkpoint", "group=billing,partition=0,topic=west.orders"): {"offset": 0},
        ("mm2-checkpoint", "group=billing,partition=0,topic=west.orders-eu"): {"offset": 0},
        ("mm2-heartbeat", "sourceClusterAlias=west,targetClusterAlias=east"): {"offset": 0},
    }


def test_dedicated_mm2_writes_its_offsets_in_the_same_way():
    results = {
        key_of(record.key).label: dict(decode_value(record.value).numbers)
        for record in records("east.mm2-offsets.a.internal")
    }
    assert results == {
        "sourceClusterAlias=a,targetClusterAlias=b": {"offset": 0},
        "cluster=a,partition=0,topic=orders": {"offset": 4999},
        "cluster=a,partition=0,topic=orders-eu": {"offset": 299},
        "cluster=a,partition=0,topic=heartbeats": {"offset": 40},
    }


def test_only_mirror_source_connectors_keys_name_an_upstream_partition():
    mirrored = {
        (key.connector, key.mirror.cluster, key.mirror.topic)
        for key in (key_of(record.key) for record in records("east.connect-offsets"))
        if key.mirror is not None
    }
    assert mirrored == {
        ("mm2-source", "west", "orders"),
        ("mm2-source", "west", "orders-eu"),
        ("mm2-source", "west", "heartbeats"),
        ("mm2-source", "west", "zzz"),
        ("mm2-source", "north", "orders"),
        ("poison-mm2", "south", "big"),
    }


def test_every_sync_that_mm2_wrote_decodes_and_the_newest_stand_where_mm2_stood():
    newest = {}
    for record in records("west.mm2-offset-syncs.east.internal"):
        sync = decode_sync(record.key, record.value)
        assert isinstance(sync, OffsetSync)
        newest[sync.topic, sync.partition] = (sync.upstream_offset, sync.downstream_offset)
    assert newest == {
        ("orders", 0): (3327, 3333),
        ("orders-eu", 0): (299, 299),
        ("big", 0): (5, 5),
        ("heartbeats", 0): (40, 78),
    }


def test_checkpoints_that_passed_through_a_workers_json_converter_decode():
    results = [
        decode_checkpoint(record.key, record.value)
        for record in records("east.west.checkpoints.internal")
    ]
    assert results == [
        Checkpoint(
            group="billing",
            topic="west.orders",
            partition=0,
            upstream_offset=2700,
            downstream_offset=1,
            metadata="",
        ),
        Checkpoint(
            group="billing",
            topic="west.orders-eu",
            partition=0,
            upstream_offset=300,
            downstream_offset=300,
            metadata="",
        ),
    ]


@pytest.mark.parametrize("topic", ["east.heartbeats", "east.a.heartbeats"])
def test_heartbeats_decode_in_both_forms_and_are_about_as_old_as_their_records(topic):
    for record in records(topic):
        heartbeat = decode_heartbeat(record.key, record.value)
        assert isinstance(heartbeat, Heartbeat)
        assert {heartbeat.source, heartbeat.target} in ({"west", "east"}, {"a", "b"})
        assert abs(record.at - heartbeat.at) < 1.0
