"""An open transaction hides what came after it: it is waited for, then named."""

from __future__ import annotations

import pytest

from exporter.ingest.transactions import OPEN_MAX_S
from exporter.model.observations import TailRead
from tests.fakes.kafka import FakeKafka
from tests.unit.ingest.following import TOPIC, Following, checked, live, whole

FILES = b'["files",{"filename":"/a"}]'
OTHER = b'["files",{"filename":"/b"}]'


@pytest.fixture
def kafka() -> FakeKafka:
    made = FakeKafka()
    made.create(TOPIC.topic, 2)
    made.produce(TOPIC.topic, FILES, b'{"position":1}', partition=0)
    made.produce(TOPIC.topic, OTHER, b'{"position":1}', partition=1)
    return made


def open_transaction(kafka: FakeKafka) -> None:
    """A commit that is not one yet, in partition 1."""
    log = kafka.log(TOPIC.topic, 1)
    log.stable_end = log.end
    kafka.produce(TOPIC.topic, OTHER, b'{"position":2}', partition=1)


def frozen(seen) -> bool:
    return isinstance(seen, TailRead) and bool(seen.frozen)


def thawed(seen) -> bool:
    return isinstance(seen, TailRead) and not seen.frozen


def test_a_transaction_that_stays_open_is_named_with_its_place_and_its_connector(kafka):
    def story():
        yield whole
        open_transaction(kafka)
        yield frozen

    read = Following(kafka).run(story())[-1]
    (held,) = read.frozen
    assert (held.partition, held.offset) == (1, 1)
    assert "partition 1" in held.detail
    assert "connector files" in held.detail
    assert "begun 20" in held.detail
    assert read.behind == 1


def test_a_transaction_that_ends_in_time_is_never_named(kafka):
    def story():
        yield whole
        open_transaction(kafka)
        yield checked
        kafka.log(TOPIC.topic, 1).stable_end = None
        for _ in range(10):
            yield checked

    assert not any(frozen(seen) for seen in Following(kafka).run(story()))


def test_transactions_that_follow_each_other_are_not_taken_for_one(kafka):
    log = kafka.log(TOPIC.topic, 1)

    def story():
        yield whole
        for _ in range(10):
            open_transaction(kafka)
            yield checked

    following = Following(kafka)
    assert not any(frozen(seen) for seen in following.run(story()))
    assert log.end == 11


def test_when_the_transaction_ends_what_it_hid_is_read_and_nothing_is_held_any_more(kafka):
    def story():
        yield whole
        open_transaction(kafka)
        yield frozen
        kafka.log(TOPIC.topic, 1).stable_end = None
        yield live
        yield lambda seen: checked(seen) and thawed(seen)

    seen = Following(kafka).run(story())
    assert [record.offset.text for read in seen if live(read) for record in read.records] == [
        '{"position":2}'
    ]


def test_a_bootstrap_waits_for_a_transaction_and_goes_on_without_it(kafka):
    open_transaction(kafka)

    def story():
        yield whole

    began = kafka.clock.now()
    (read,) = Following(kafka).run(story())
    assert frozen(read)
    assert [record.offset.text for record in read.records] == ['{"position":1}'] * 2
    assert kafka.clock.now() - began >= OPEN_MAX_S


def test_a_bootstrap_reads_what_a_transaction_held_that_ends_meanwhile(kafka):
    open_transaction(kafka)
    following = Following(kafka)

    def ending(seconds: float) -> bool:
        if kafka.clock.now() - began > OPEN_MAX_S / 2:
            kafka.log(TOPIC.topic, 1).stable_end = None
        return stopped(seconds)

    began, stopped = kafka.clock.now(), following._stopped
    following._stopped = ending

    def story():
        yield whole

    (read,) = following.run(story())
    assert read.frozen == ()
    assert sorted(record.offset.text for record in read.records) == [
        '{"position":1}',
        '{"position":2}',
    ]
