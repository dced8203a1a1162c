"""As of when what a tail tells is all there is: the end it read to, and when that was the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from offsetwatch.clock import SystemClock
from offsetwatch.errors import TargetUnreachable
from offsetwatch.ingest.tail import CHECK_EVERY_S, Tail
from offsetwatch.ingest.topic_readers import SourceOffsetsTopicReader
from offsetwatch.ingest.unreadable_partitions import OpenTransactions
from offsetwatch.model.observations import InputFailed, TailRead
from offsetwatch.model.topology import KafkaTopic
from tests.fakes.broker import MockBroker
from tests.fakes.kafka import FakeKafka, FakeReader
from tests.unit.ingest.driven_tails import TOPIC, Following, checked, failed, live, whole
from tests.unit.ingest.test_tail import KEY, value


@pytest.fixture
def kafka():
    kafka = FakeKafka()
    kafka.create(TOPIC.topic)
    return kafka


class _Slow(FakeReader):
    """Gives one record in a second; `busy` is how many are written meanwhile."""

    busy = 0

    def read(self, records_max, timeout_s):
        for number in range(self.busy):
            self._kafka.produce(TOPIC.topic, KEY, value(number))
        return super().read(1, 1.0)


def test_a_topic_that_rests_is_known_as_of_each_question_for_its_end(kafka):
    kafka.produce(TOPIC.topic, KEY, value(1))
    began = kafka.clock.now()

    def story():
        yield whole
        assert following.reads()[-1].as_of == began
        for _ in range(2):
            yield checked
            read = following.reads()[-1]
            assert read.as_of == read.at > began

    following = Following(kafka)
    following.run(story())


def test_records_alone_make_nothing_younger(kafka):
    def story():
        yield whole
        before = following.reads()[-1].as_of
        kafka.produce(TOPIC.topic, KEY, value(1))
        yield live
        assert following.reads()[-1].as_of == before

    following = Following(kafka)
    following.run(story())


def test_after_an_outage_it_is_as_old_as_before_until_what_was_missed_is_read(kafka):
    def story():
        yield whole
        kafka.down = TargetUnreachable("east", "away")
        for _ in range(30):
            yield failed("unreachable")
        before = following.reads()[-1].as_of
        for number in range(5):
            kafka.produce(TOPIC.topic, KEY, value(number))
        kafka.down = None
        back = kafka.clock.now()
        for _ in range(5):
            yield live
            observed.append((dict(following.reads()[-1].positions)[0], following.reads()[-1].as_of))
        assert {as_of for at, as_of in observed if at < 5} == {before}
        yield checked
        assert (following.reads()[-1].as_of or 0) >= back

    observed = []
    following = Following(kafka, open_reader=lambda: _Slow(kafka))
    following.run(story())


def test_where_more_comes_all_the_time_it_is_known_as_of_a_little_while_ago(kafka, monkeypatch):
    """It never stands at the end; it stands where the end was."""

    def story():
        yield whole
        for number in range(10):
            kafka.produce(TOPIC.topic, KEY, value(number))
        monkeypatch.setattr(_Slow, "busy", 1)
        yield from [live] * 40
        read = following.reads()[-1]
        ages.append(read.at - (read.as_of or 0))
        yield checked
        assert (following.reads()[-1].behind or 0) >= 9

    ages = []
    following = Following(kafka, open_reader=lambda: _Slow(kafka))
    following.run(story())
    assert 9 <= ages[0] <= 20 + 2 * CHECK_EVERY_S


def test_what_came_while_it_read_for_long_is_read_before_anything_is_reported(kafka):
    for number in range(10):
        kafka.produce(TOPIC.topic, KEY, value(number))
    reader = _Slow(kafka)

    def late():
        reads.append(kafka.clock.now())
        if len(reads) == 9:
            for number in range(3):
                kafka.produce(TOPIC.topic, KEY, value(100 + number))

    reads = []
    _after_each_read(reader, late)

    def story():
        yield whole

    (read,) = Following(kafka, open_reader=lambda: reader).run(story())
    assert dict(read.positions) == {0: 13}
    assert [record.offset.number("position") for record in read.records] == [102]
    assert read.at - read.as_of <= 5


def test_a_topic_that_grows_as_fast_as_it_is_read_is_reported_all_the_same(kafka, monkeypatch):
    for number in range(10):
        kafka.produce(TOPIC.topic, KEY, value(number))
    monkeypatch.setattr(_Slow, "busy", 1)

    def story():
        yield whole

    (read,) = Following(kafka, open_reader=lambda: _Slow(kafka)).run(story())
    assert read.at - read.as_of >= 10


def _after_each_read(reader, then):
    plain = reader.read

    def read(records_max, timeout_s):
        result = plain(records_max, timeout_s)
        then()
        return result

    reader.read = read


# --- tail broker ---------------------------------------------------------------------------------

FILES_KEY = b'["files",{"filename":"/a"}]'
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
    deadline = threading.Timer(DEADLINE_S, over.set)

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
    deadline.start()
    try:
        tail.run()
    finally:
        deadline.cancel()
    assert not todo, f"{len(todo)} steps left; seen last: {observed[-3:]}"
    return observed


def done() -> None:
    """Nothing more happens."""


def test_a_tail_reads_tombstones_and_null_keys_catches_up_and_then_sees_live_records(broker):
    broker.produce("offsets", FILES_KEY, b'{"position":1}', at=1_000.0)
    broker.produce("offsets", FILES_KEY, b'{"position":2}', at=2_000.5)
    broker.produce("offsets", FILES_KEY, b'{"position":2}', at=3_000.0)
    broker.produce("offsets", b'["files",{"filename":"/b"}]', b'{"position":9}', partition=3)
    broker.produce("offsets", b'["files",{"filename":"/b"}]', None, partition=3)
    broker.produce("offsets", None, b"no key")
    broker.produce("offsets", b"no json", b"{}")

    def write() -> None:
        broker.produce("offsets", FILES_KEY, b'{"position":3}', at=4_000.0)

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
    broker.produce("offsets", FILES_KEY, b'{"position":1}')
    observed = follow(
        broker,
        "offsets",
        (whole, broker.stop),
        (lambda item: isinstance(item, InputFailed), done),
    )
    assert observed[-1].reason == "unreachable"
