"""When offsets are removed behind Connect's back, and when Connect is asked as ever."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from offsetwatch.clients.kafka.whole_topic import LogRecord
from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.errors import AccessDenied
from offsetwatch.model.connectors import Connector, ConnectorKind
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.store.rest import (
    DirectTopicWrites,
    is_transactional,
    plan_direct_writes,
)

PARTITION = '{"filename":"/a"}'
KEY = b'["src",{"filename":"/a"}]'
GONE = (PartitionOffset(PARTITION, None),)


def record(koffset: int, *, kpartition: int = 0, own: bool = False) -> LogRecord:
    return LogRecord(kpartition, koffset, None, KEY, b'{"position":1}', own)


@pytest.mark.parametrize(
    ("records", "end", "expected"),
    [
        pytest.param((record(0), record(2)), 4, True, id="a marker after each"),
        pytest.param((record(0), record(1)), 2, False, id="records up to the end"),
        pytest.param((record(0), record(7)), 8, False, id="a gap that compaction made"),
        pytest.param((), 0, False, id="nothing"),
        pytest.param((record(0), record(2, own=True)), 3, True, id="a marker before ours"),
        pytest.param((record(0), record(1, own=True)), 2, False, id="ours right behind"),
    ],
)
def test_markers_are_distinguished_from_the_end_of_a_log(records, end, expected):
    assert is_transactional(records, {0: end}) is expected


@dataclass
class FakeLog:
    records: tuple[LogRecord, ...]
    end: int
    where: str = "k/own"
    failing: bool = False
    closed: list[bool] = field(default_factory=list)

    def read(self) -> tuple[Mapping[int, int], tuple[LogRecord, ...]]:
        if self.failing:
            raise AccessDenied("k", "not authorised")
        return {0: self.end}, self.records

    def close(self) -> None:
        self.closed.append(True)


TRANSACTIONS = FakeLog((record(0),), end=2)


def plan_writes(
    log: FakeLog | None = TRANSACTIONS,
    pairs: Any = GONE,
    shared: FakeLog | None = None,
    **more: Any,
) -> DirectTopicWrites:
    connect = Connect(
        name="cc", kafka="k", url="http://x", offsets_topic=more.pop("worker_topic", None)
    )
    config = Config(kafka={"k": Kafka(bootstrap="127.0.0.1:1")}, connect=[connect])
    version = more.pop("version", "4.3.1")
    whole = more.pop("whole", False)
    known = Connector(
        name="src",
        kind=more.pop("kind", ConnectorKind.SOURCE),
        class_name="C",
        version="1",
        state="stopped",
        tasks=(),
        **{"dedicated_offsets_topic": "own", **more},
    )

    def opened(topic: str) -> FakeLog:
        result = {"own": log, "connect-offsets": shared}[topic]
        assert result is not None, "nothing is to be read"
        return result

    return plan_direct_writes(
        config, connect, "src", known, pairs, version=version, whole=whole, opened=opened
    )


def test_offsets_of_a_transactional_topic_of_its_own_are_removed_under_their_very_keys():
    writes = plan_writes()
    (write,) = writes.writes
    (raw,) = write.records
    assert (base64.b64decode(raw.key), raw.value, raw.kpartition) == (KEY, None, 0)
    assert (write.where, write.pairs, writes.topics) == ("k/own", GONE, ("own",))
    assert "exactly-once" in writes.notes[0]
    assert TRANSACTIONS.closed


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"dedicated_offsets_topic": None}, id="no topic of its own"),
        pytest.param({"worker_topic": "own"}, id="the worker's topic under its name"),
        pytest.param({"version": "3.7.2"}, id="before it broke"),
        pytest.param({"kind": ConnectorKind.SINK}, id="a sink"),
    ],
)
def test_connect_is_queried_where_it_can(more):
    assert plan_writes(None, **more) == DirectTopicWrites()


def test_connect_is_queried_where_nothing_is_removed_there_and_back():
    assert plan_writes(pairs=(PartitionOffset(PARTITION, '{"position":2}'),)) == DirectTopicWrites()
    new = (PartitionOffset('{"filename":"/new"}', '{"position":2}'),)
    assert plan_writes(pairs=new).writes  # to go back would be to remove it


def test_what_a_namesake_left_is_removed_with_the_first_offsets():
    writes = plan_writes(
        pairs=(PartitionOffset('{"filename":"/new"}', '{"position":2}'),), whole=True
    )
    (write,) = writes.writes
    assert write.pairs == (*GONE, PartitionOffset('{"filename":"/new"}', '{"position":2}'))
    assert [raw.value is None for raw in write.records] == [True, False]


def test_connect_is_queried_where_no_transactions_are():
    assert plan_writes(FakeLog((record(0),), end=1)) == DirectTopicWrites()


def test_what_cannot_be_inspected_is_said():
    denied = plan_writes(FakeLog((), 0, failing=True))
    assert not denied.writes
    assert "not authorised" in denied.notes[0]
    elsewhere = plan_writes(None, offsets_addresses=frozenset({"other:9092"}))
    assert not elsewhere.writes
    assert "90 s" in elsewhere.notes[0]


OTHER_KEY = b'["src",{"filename":"/old"}]'
STRANGERS_KEY = b'["another",{"filename":"/a"}]'


def shared_log(*keys: bytes, failing: bool = False) -> FakeLog:
    records = tuple(
        LogRecord(0, number, None, key, b'{"position":1}', ours=False)
        for number, key in enumerate(keys)
    )
    return FakeLog(records, len(keys), "k/connect-offsets", failing)


def tombstones_of(writes: DirectTopicWrites) -> dict[str, list[bytes]]:
    assert all(raw.value is None for write in writes.writes for raw in write.records)
    return {
        write.where: [base64.b64decode(raw.key) for raw in write.records] for write in writes.writes
    }


def test_what_is_removed_is_removed_from_the_workers_topic_as_well():
    shared = shared_log(KEY, OTHER_KEY, STRANGERS_KEY)
    writes = plan_writes(shared=shared, worker_topic="connect-offsets")
    assert tombstones_of(writes) == {"k/own": [KEY], "k/connect-offsets": [KEY]}
    assert writes.writes[1].pairs == ()  # no task is handed what stands there
    assert writes.topics == ("own", "connect-offsets")
    assert "connect-offsets" in writes.notes[1]
    assert shared.closed


def test_a_whole_reset_leaves_nothing_of_the_connector_in_the_workers_topic():
    writes = plan_writes(
        shared=shared_log(KEY, OTHER_KEY, STRANGERS_KEY),
        worker_topic="connect-offsets",
        whole=True,
    )
    assert tombstones_of(writes) == {"k/own": [KEY], "k/connect-offsets": [KEY, OTHER_KEY]}


def test_a_whole_reset_clears_the_workers_topic_alone_where_nothing_else_is_left():
    emptied = FakeLog((LogRecord(0, 0, None, KEY, None, ours=False),), end=2)
    writes = plan_writes(
        emptied, (), shared=shared_log(KEY), worker_topic="connect-offsets", whole=True
    )
    assert tombstones_of(writes) == {"k/connect-offsets": [KEY]}


@pytest.mark.parametrize(
    ("shared", "topic", "answer"),
    [
        pytest.param(shared_log(STRANGERS_KEY), "connect-offsets", "", id="it has none"),
        pytest.param(
            shared_log(failing=True), "connect-offsets", "cannot be read", id="it is denied"
        ),
        pytest.param(None, None, "does not name", id="nothing names it"),
    ],
)
def test_offsets_that_stay_in_the_workers_topic_are_said_to_stay(shared, topic, answer):
    writes = plan_writes(shared=shared, worker_topic=topic)
    assert tombstones_of(writes) == {"k/own": [KEY]}
    assert len(writes.notes) == (2 if answer else 1)
    assert answer in writes.notes[-1]


def test_the_workers_topic_is_left_alone_where_nothing_is_removed():
    new = (PartitionOffset('{"filename":"/new"}', '{"position":2}'),)
    assert plan_writes(pairs=new, worker_topic="connect-offsets").topics == ("own",)


def test_a_topic_that_a_config_provider_knows_is_not_read():
    found = plan_writes(dedicated_offsets_topic="${env:OFFSETS}")
    assert (found.writes, len(found.notes)) == ((), 1)
