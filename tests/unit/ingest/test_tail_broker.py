"""A tail on a real protocol: the same story as on the fake, over librdkafka's in-process broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from offsetwatch.clock import SystemClock
from offsetwatch.ingest.tail import Tail
from offsetwatch.ingest.topic_readers import SourceOffsetsTopicReader
from offsetwatch.ingest.unreadable_partitions import OpenTransactions
from offsetwatch.model.observations import InputFailed, TailRead
from offsetwatch.model.topology import KafkaTopic
from tests.fakes.broker import MockBroker

from .following import live, whole

KEY = b'["files",{"filename":"/a"}]'
DEADLINE_S = 20.0


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    built = MockBroker()
    yield built
    built.stop()


def follow(
    broker: MockBroker, topic: str, *steps: tuple[Callable, Callable[[], None]]
) -> list[TailRead | InputFailed]:
    """Run a tail; each step is the observation it waits for, and what then happens."""
    observed: list[TailRead | InputFailed] = []
    todo = list(steps)
    over = threading.Event()
    given_up = threading.Timer(DEADLINE_S, over.set)

    def put(batch, _timeout_s) -> bool:
        for observation in batch:
            observed.append(observation)
            if todo and todo[0][0](observation):
                todo.pop(0)[1]()
            if not todo:
                over.set()
        return True

    tail = Tail(
        KafkaTopic("east", topic),
        admin=broker.admin(),
        open_reader=broker.reader,
        transactions=OpenTransactions(broker.reader, SystemClock()),
        role_of=SourceOffsetsTopicReader,
        put=put,
        stopped=over.wait,
        clock=SystemClock(),
    )
    given_up.start()
    try:
        tail.run()
    finally:
        given_up.cancel()
    assert not todo, f"{len(todo)} steps left; seen last: {observed[-3:]}"
    return observed


def done() -> None:
    """Nothing more happens."""


def test_a_tail_reads_tombstones_and_null_keys_catches_up_and_then_sees_live_records(broker):
    broker.produce("offsets", KEY, b'{"position":1}', at=1_000.0)
    broker.produce("offsets", KEY, b'{"position":2}', at=2_000.5)
    broker.produce("offsets", KEY, b'{"position":2}', at=3_000.0)
    broker.produce("offsets", b'["files",{"filename":"/b"}]', b'{"position":9}', partition=3)
    broker.produce("offsets", b'["files",{"filename":"/b"}]', None, partition=3)
    broker.produce("offsets", None, b"no key")
    broker.produce("offsets", b"no json", b"{}")

    def write() -> None:
        broker.produce("offsets", KEY, b'{"position":3}', at=4_000.0)

    begun, first, *_, last = follow(broker, "offsets", (whole, write), (live, done))
    assert (begun.caught_up, begun.behind, begun.records) == (False, 7, ())
    by_label = {record.key.label: record for record in first.records}
    assert by_label.keys() == {"filename=/a", "filename=/b"}
    folded = by_label["filename=/a"]
    assert folded.offset.number("position") == 2
    assert (folded.at, folded.advanced_at, folded.log_offset) == (3_000.0, 2_000.5, 2)
    assert by_label["filename=/b"].offset is None
    assert dict(first.positions) == {0: 5, 1: 0, 2: 0, 3: 2}
    (record,) = last.records
    assert (record.offset.number("position"), record.at, record.live) == (3, 4_000.0, True)


def test_a_tail_whose_broker_is_gone_says_so(broker):
    broker.produce("offsets", KEY, b'{"position":1}')
    observed = follow(
        broker,
        "offsets",
        (whole, broker.stop),
        (lambda item: isinstance(item, InputFailed), done),
    )
    assert observed[-1].reason == "unreachable"
