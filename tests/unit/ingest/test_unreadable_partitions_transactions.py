"""An open transaction hides what came after it: it is waited for, then named."""

from __future__ import annotations

import pytest

from offsetwatch.clients.kafka.clients import ReadableEnd
from offsetwatch.errors import TargetUnreachable
from offsetwatch.ingest.unreadable_partitions import OPEN_MAX_S, PEEK_S, PEEKS_MAX, OpenTransactions
from offsetwatch.model.observations import TailRead
from offsetwatch.model.topology import TopicPartition
from tests.fakes.kafka import FakeKafka, FakeReader
from tests.unit.ingest.driven_tails import TOPIC, Following, checked, live, whole

FILES = b'["files",{"filename":"/a"}]'
OTHER = b'["files",{"filename":"/b"}]'


@pytest.fixture
def kafka() -> FakeKafka:
    built = FakeKafka()
    built.create(TOPIC.topic, 2)
    built.produce(TOPIC.topic, FILES, b'{"position":1}', partition=0)
    built.produce(TOPIC.topic, OTHER, b'{"position":1}', partition=1)
    return built


def open_transaction(kafka: FakeKafka) -> None:
    """A commit that is not one yet, in partition 1."""
    log = kafka.log(TOPIC.topic, 1)
    log.stable_end = log.end
    kafka.produce(TOPIC.topic, OTHER, b'{"position":2}', partition=1)


def frozen(tail) -> bool:
    return isinstance(tail, TailRead) and bool(tail.frozen)


def thawed(tail) -> bool:
    return isinstance(tail, TailRead) and not tail.frozen


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


@pytest.mark.parametrize("stamp", [9.2e15, -9.2e15, 253_402_300_800.0, -62_135_596_801.0])
def test_a_timestamp_that_is_no_moment_keeps_nothing_from_being_named(kafka, stamp):
    def story():
        yield whole
        log = kafka.log(TOPIC.topic, 1)
        log.stable_end = log.end
        kafka.produce(TOPIC.topic, OTHER, b'{"position":2}', partition=1, at=stamp)
        yield frozen

    (held,) = Following(kafka).run(story())[-1].frozen
    assert "connector files" in held.detail


def test_a_transaction_that_ends_in_time_is_never_named(kafka):
    def story():
        yield whole
        open_transaction(kafka)
        yield checked
        kafka.log(TOPIC.topic, 1).stable_end = None
        for _ in range(10):
            yield checked

    assert not any(frozen(observed) for observed in Following(kafka).run(story()))


def test_transactions_that_follow_each_other_are_not_taken_for_one(kafka):
    log = kafka.log(TOPIC.topic, 1)

    def story():
        yield whole
        for _ in range(10):
            open_transaction(kafka)
            yield checked

    following = Following(kafka)
    assert not any(frozen(observed) for observed in following.run(story()))
    assert log.end == 11


def test_when_the_transaction_ends_what_it_hid_is_read_and_nothing_is_held_any_more(kafka):
    def story():
        yield whole
        open_transaction(kafka)
        yield frozen
        kafka.log(TOPIC.topic, 1).stable_end = None
        yield live
        yield lambda observations: checked(observations) and thawed(observations)

    observed = Following(kafka).run(story())
    assert [record.offset.text for read in observed if live(read) for record in read.records] == [
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


def test_a_partition_stays_named_until_what_its_transaction_hid_is_read(kafka):
    """What is known of it until then is as old as the transaction."""
    readers = []

    class Slow(FakeReader):
        """Gives nothing of partition 1 while `waits`."""

        waits = False

        def _of_partition(self, at, records_max):
            return (
                [] if self.waits and at.partition == 1 else super()._of_partition(at, records_max)
            )

    def opened():
        readers.append(Slow(kafka))
        return readers[-1]

    def story():
        yield whole
        open_transaction(kafka)
        yield frozen
        readers[0].waits = True
        kafka.log(TOPIC.topic, 1).stable_end = None
        yield checked
        yield checked
        assert frozen(following.observations[-1])
        assert following.observations[-1].frozen[0].hidden == 0
        assert following.observations[-1].behind == 1
        readers[0].waits = False
        yield live
        yield lambda observed: checked(observed) and thawed(observed)

    following = Following(kafka, open_reader=opened)
    following.run(story())


def test_what_a_transaction_hides_is_distinguished_from_what_is_not_read(kafka):
    def story():
        yield whole
        open_transaction(kafka)
        kafka.produce(TOPIC.topic, OTHER, b'{"position":3}', partition=1)
        yield frozen

    read = Following(kafka).run(story())[-1]
    assert [item.hidden for item in read.frozen] == [2]
    assert read.behind == 2


def test_a_bootstrap_waits_once_for_several_held_partitions(kafka):
    for partition in (0, 1):
        kafka.log(TOPIC.topic, partition).stable_end = kafka.log(TOPIC.topic, partition).end
        kafka.produce(TOPIC.topic, FILES, b'{"position":9}', partition=partition)

    def story():
        yield whole

    began = kafka.clock.now()
    (read,) = Following(kafka).run(story())
    assert [item.partition for item in read.frozen] == [0, 1]
    assert OPEN_MAX_S <= kafka.clock.now() - began < 2 * OPEN_MAX_S


def test_a_bootstrap_ends_although_the_clock_is_set_back_meanwhile(kafka):
    open_transaction(kafka)
    following = Following(kafka)
    stopped = following._stopped
    back = [3600.0]

    def setting_back(seconds: float) -> bool:
        if back and kafka.clock.now() - began > OPEN_MAX_S / 2:
            kafka.clock.advance(-back.pop())
        return stopped(seconds)

    began = kafka.clock.now()
    following._stopped = setting_back

    def story():
        yield whole

    (read,) = following.run(story())
    assert frozen(read)


def test_a_bootstrap_that_is_held_below_the_end_it_saw_needs_no_later_record(kafka):
    """The transaction began behind the end that was seen first, in a log that has grown."""
    open_transaction(kafka)

    def story():
        yield whole
        kafka.log(TOPIC.topic, 1).stable_end = None
        yield live

    records = [record.offset.text for record in Following(kafka).run(story())[-1].records]
    assert records == ['{"position":2}']


def test_the_search_for_owners_of_all_open_transactions_takes_a_bounded_time():
    kafka = FakeKafka()
    kafka.create(TOPIC.topic, 50)
    ends = {TopicPartition(TOPIC.topic, number): ReadableEnd(0, 5) for number in range(50)}
    result = OpenTransactions(lambda: _Silent(kafka), kafka.clock)
    assert result.find_frozen(ends) == ()
    kafka.clock.advance(OPEN_MAX_S)
    began = kafka.clock.now()
    held = result.find_frozen(ends)
    assert len(held) == 50
    assert kafka.clock.now() - began <= PEEKS_MAX * PEEK_S + 0.01
    assert result.find_frozen(ends) == held


class _Silent(FakeReader):
    def read(self, records_max, timeout_s):
        self._kafka.clock.advance(timeout_s)
        return []


def test_a_transaction_is_held_from_its_tenth_second_on_and_not_before(kafka):
    partition = TopicPartition(TOPIC.topic, 1)
    result = OpenTransactions(lambda: FakeReader(kafka, committed=False), kafka.clock)
    ends = {partition: ReadableEnd(1, 2)}
    assert result.find_frozen(ends) == ()
    kafka.clock.advance(OPEN_MAX_S - 0.5)
    assert result.find_frozen(ends) == ()
    kafka.clock.advance(0.5)
    assert [(held.partition, held.offset, held.hidden) for held in result.find_frozen(ends)] == [
        (1, 1, 1)
    ]
    assert result.find_frozen({partition: ReadableEnd(2, 2)}) == ()
    assert result.find_frozen(ends) == ()  # another one, from now


def test_a_reader_that_cannot_be_opened_leaves_a_transaction_without_a_name(kafka):
    def refuse():
        raise TargetUnreachable("east", "no broker")

    result = OpenTransactions(refuse, kafka.clock)
    ends = {TopicPartition(TOPIC.topic, 1): ReadableEnd(1, 2)}
    result.find_frozen(ends)
    kafka.clock.advance(OPEN_MAX_S)
    (held,) = result.find_frozen(ends)
    assert held.detail.endswith("from offset 1 on")
