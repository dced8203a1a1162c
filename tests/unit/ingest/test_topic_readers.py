from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import KafkaError, Message

from offsetwatch.decode.connect_topics import decode_config, decode_status
from offsetwatch.ingest import topic_readers
from offsetwatch.ingest.topic_readers import (
    OffsetSyncsTopicReader,
    SourceOffsetsTopicReader,
    choose_topic_reader,
)
from offsetwatch.model.connectors import ConnectorConfigured, TaskConfigured, TasksCommitted
from offsetwatch.model.topology import KafkaTopic, Topology

KEY = b'["files",{"filename":"/a"}]'
SYNC_KEY = bytes.fromhex("00066f726465727300000003")


def message(key: bytes | None, value: bytes | None, offset: int, *, partition=0, at=None):
    return Message(
        topic="t",
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        timestamp=(1, (1_000 + offset if at is None else at) * 1000),
    )


def position(number: int) -> bytes:
    return b'{"position":%d}' % number


def sync(upstream: int) -> bytes:
    return upstream.to_bytes(8, "big") * 2


def test_a_fold_keeps_the_last_record_of_a_key_and_when_it_last_changed():
    role = SourceOffsetsTopicReader()
    role.fold([message(KEY, position(1), 0), message(KEY, position(2), 1)])
    role.fold([message(KEY, position(2), 2), message(KEY, position(2), 3)])
    (record,), undecodable = role.folded()
    assert record.offset.number("position") == 2
    assert (record.at, record.advanced_at, record.log_offset) == (1_003, 1_001, 3)
    assert not record.live
    assert undecodable == Counter()


def test_a_fold_keeps_a_tombstone():
    role = SourceOffsetsTopicReader()
    role.fold([message(KEY, position(1), 0), message(KEY, None, 1)])
    (record,), _ = role.folded()
    assert record.offset is None


def test_a_fold_keeps_what_each_kafka_partition_says_of_a_key():
    """A stale value in an old partition may be read last; that makes it no newer."""
    role = SourceOffsetsTopicReader()
    role.fold(
        [
            message(KEY, position(9), 0, partition=1, at=2_000),
            message(KEY, position(1), 7, partition=0, at=1_000),
        ]
    )
    records, _ = role.folded()
    assert {
        (record.partition, record.offset.number("position"), record.at) for record in records
    } == {
        (1, 9, 2_000),
        (0, 1, 1_000),
    }


def test_partitions_that_take_turns_in_a_batch_are_kept_apart():
    role = SourceOffsetsTopicReader()
    role.fold([message(KEY, position(n), n, partition=n % 2) for n in range(6)])
    records, _ = role.folded()
    assert {(record.partition, record.log_offset) for record in records} == {(0, 4), (1, 5)}


def test_a_fold_hands_back_what_has_no_key():
    role = SourceOffsetsTopicReader()
    end = Message(topic="t", partition=0, offset=1, error=KafkaError(KafkaError._PARTITION_EOF))
    keyless = [message(None, b"x", 0), end]
    assert role.fold([*keyless, message(KEY, position(1), 2)]) == keyless
    assert OffsetSyncsTopicReader().fold([*keyless, message(SYNC_KEY, sync(1), 2)]) == keyless


@pytest.mark.parametrize(
    "role", [SourceOffsetsTopicReader(), OffsetSyncsTopicReader()], ids=["source", "sync"]
)
def test_a_fold_counts_what_it_cannot_decode_and_gives_it_out_once(role):
    role.fold([message(b"no key at all", b"", 0)])
    records, undecodable = role.folded()
    assert records == ()
    assert role.folded() == ((), Counter())
    if isinstance(role, SourceOffsetsTopicReader):
        assert undecodable == {"key_not_json": 1}


def test_live_records_come_one_by_one_and_in_order():
    records, undecodable = SourceOffsetsTopicReader().live(
        [message(KEY, position(1), 0), message(KEY, None, 1), message(KEY, position(1), 2)]
    )
    assert [record.log_offset for record in records] == [0, 1, 2]
    assert [record.offset is None for record in records] == [False, True, False]
    assert {record.advanced_at for record in records} == {None}
    assert undecodable == Counter()


def test_a_live_value_that_cannot_be_read_is_counted_and_still_a_commit():
    (record,), undecodable = SourceOffsetsTopicReader().live([message(KEY, b"{", 0)])
    assert record.offset.reason == "value_not_json"
    assert undecodable == {"value_not_json": 1}


def test_a_live_record_without_a_key_is_counted():
    for role in (SourceOffsetsTopicReader(), OffsetSyncsTopicReader()):
        assert role.live([message(None, b"x", 0)]) == ((), Counter({"key_null": 1}))


def test_the_keys_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(topic_readers, "KEYS_CACHED_MAX", 3)
    role = SourceOffsetsTopicReader()
    keys = [b'["files",{"filename":"/%d"}]' % number for number in range(10)]
    records, _ = role.live([message(key, position(1), n) for n, key in enumerate(keys)])
    assert len(role._keys) <= 3
    assert [record.raw_key for record in records] == keys


def test_a_fold_of_syncs_keeps_the_last_readable_one_of_each_partition():
    role = OffsetSyncsTopicReader()
    role.fold([message(SYNC_KEY, sync(1), 0), message(SYNC_KEY, sync(2), 1)])
    role.fold([message(SYNC_KEY, None, 2), message(SYNC_KEY, b"short", 3)])
    (record,), _ = role.folded()
    assert (record.sync.upstream_offset, record.log_offset, record.at) == (2, 1, 1_001)


def test_folded_syncs_come_in_the_order_of_the_topic():
    role = OffsetSyncsTopicReader()
    keys = [SYNC_KEY[:-1] + bytes([number]) for number in (1, 2, 3)]
    order = (keys[2], keys[0], keys[1], keys[2])
    role.fold([message(key, sync(n), n) for n, key in enumerate(order)])
    records, _ = role.folded()
    assert [record.log_offset for record in records] == [1, 2, 3]


def test_live_syncs_that_cannot_be_read_are_counted():
    records, undecodable = OffsetSyncsTopicReader().live(
        [message(SYNC_KEY, sync(1), 0), message(SYNC_KEY, None, 1), message(b"x", sync(2), 2)]
    )
    assert [record.sync.upstream_offset for record in records] == [1]
    assert undecodable == {"value_null": 1, "key_too_short": 1}


CONNECTOR, TASK, COMMIT = b"connector-c", b"task-c-0", b"commit-c"


def listed(decode, *messages) -> tuple[list, Counter]:
    role = topic_readers.ListingTopicReader(decode)
    role.fold(list(messages))
    records, undecodable = role.folded()
    return [record.says for record in records], undecodable


def test_a_folded_config_topic_comes_in_the_order_of_the_topic():
    """A connector that was deleted takes the tasks with it that were committed before."""
    configured = b'{"properties":{"connector.class":"X"}}'
    says, _ = listed(
        decode_config,
        message(CONNECTOR, configured, 0),
        message(TASK, b'{"properties":{}}', 1),
        message(COMMIT, b'{"tasks":1}', 2),
        message(CONNECTOR, None, 3),
    )
    assert [type(say) for say in says] == [TaskConfigured, TasksCommitted, ConnectorConfigured]


def test_a_folded_status_topic_leaves_out_what_was_out_of_date():
    key = b"status-connector-c"
    running = b'{"state":"RUNNING","trace":null,"worker_id":"a:1","generation":5}'
    late = b'{"state":"UNASSIGNED","trace":null,"worker_id":"b:1","generation":4}'
    now = b'{"state":"UNASSIGNED","trace":null,"worker_id":"b:1","generation":5}'
    says, _ = listed(decode_status, message(key, running, 0), message(key, late, 1))
    assert [say.condition.state for say in says] == ["running"]
    says, _ = listed(decode_status, message(key, running, 0), message(key, now, 1))
    assert [say.condition.state for say in says] == ["unassigned"]
    says, _ = listed(decode_status, message(key, None, 0), message(key, late, 1))
    assert [say.condition.state for say in says] == ["unassigned"]


def test_a_folded_listing_keeps_the_last_record_that_can_be_read_and_counts_the_other():
    says, undecodable = listed(
        decode_config,
        message(COMMIT, b'{"tasks":1}', 0),
        message(COMMIT, b"{", 1),
        message(b"commit-d", b"{", 2),
        message(b"commit-d", b'{"tasks":2}', 3),
    )
    assert [(say.connector, say.tasks) for say in says] == [("c", 1), ("d", 2)]
    assert sum(undecodable.values()) == 1


STATUS = b"status-connector-c"


def status(state: str, partition: int, moment: float) -> Message:
    value = b'{"state":"%s","trace":null,"worker_id":"a:1","generation":5}' % state.encode()
    return Message(
        topic="t",
        partition=partition,
        offset=10 * (1 - partition),
        key=STATUS,
        value=value,
        timestamp=(1, round(moment * 1000)),
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("apart_s", [-600.0, 0.0, 600.0])
def test_contradicting_records_of_a_key_in_two_kafka_partitions_do_not_count(apart_s, reverse):
    """They are read in any order, and the timestamps are of two workers."""
    results = [status("RUNNING", 0, 9000.0), status("STOPPED", 1, 9000.0 + apart_s)]
    assert listed(decode_status, *(results[::-1] if reverse else results)) == ([], Counter())
    alike = [status("RUNNING", 0, 9000.0), status("RUNNING", 1, 9000.0 + apart_s)]
    (says,), _ = listed(decode_status, *(alike[::-1] if reverse else alike))
    assert says.condition.state == "running"


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("apart_s", "state"), [(-601.0, "running"), (601.0, "stopped")])
def test_of_a_key_in_two_kafka_partitions_the_later_counts_by_any_clock(apart_s, state, reverse):
    results = [status("RUNNING", 0, 9000.0), status("STOPPED", 1, 9000.0 + apart_s)]
    (says,), _ = listed(decode_status, *(results[::-1] if reverse else results))
    assert says.condition.state == state


def test_a_state_is_of_the_time_of_its_record_and_live_once_the_topic_was_read():
    role = topic_readers.ListingTopicReader(decode_status)
    running = b'{"state":"RUNNING","trace":null,"worker_id":"a:1","generation":5}'
    role.fold([message(b"status-task-c-0", running, 0, partition=3)])
    (folded,), _ = role.folded()
    (live,), _ = role.live([message(b"status-task-c-0", running, 1, partition=3)])
    assert (folded.partition, live.partition) == (3, 3)
    assert (folded.at, live.at) == (1000.0, 1001.0)
    assert (folded.live, live.live) == (False, True)


def test_a_listing_without_keys_is_given_back():
    role = topic_readers.ListingTopicReader(decode_config)
    assert len(role.fold([message(None, b"x", 0), message(COMMIT, b'{"tasks":1}', 1)])) == 1


@pytest.mark.parametrize(
    ("headers", "own"),
    [(None, False), ([], False), ([("other", b"1")], False), ([("offsetwatch", b"1")], True)],
)
def test_a_record_of_an_offsets_topic_says_whether_offsetwatch_wrote_it(headers, own):
    written = Message(
        topic="t",
        partition=0,
        offset=7,
        key=KEY,
        value=position(1),
        timestamp=(1, 1),
        headers=headers,
    )
    (record,), _ = SourceOffsetsTopicReader().live([written])
    assert record.ours is own
    role = SourceOffsetsTopicReader()
    role.fold([written])
    (record,), _ = role.folded()
    assert record.ours is own


def test_the_metadata_of_checkpoints_is_not_retained():
    """It may have 32 KiB for each group and partition, and nothing reads it."""
    key = bytes.fromhex("00036772700008612e6f726465727300000003")
    value = bytes(18) + b"\x40\x00" + b"m" * 0x4000
    written = message(key, value, 0)
    topic = KafkaTopic("east", "west.checkpoints.internal")
    role = choose_topic_reader(Topology((), (), checkpoints=(topic,)), topic)()
    role.fold([written])
    for (record,), undecodable in (role.folded(), role.live([written])):
        assert (record.checkpoint.group, record.checkpoint.metadata) == ("grp", "")
        assert not undecodable
