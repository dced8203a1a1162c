"""One partition of a topic cannot be read: the others go on, and it is named until it is read."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka as ck
import pytest
from structlog.testing import capture_logs

from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.errors import AccessDenied, ClientError, LeaderNotAvailable, ServerError
from offsetwatch.ingest.tail import CHECK_EVERY_S
from offsetwatch.ingest.unreadable_partitions import RETRY_MAX_S, UNREADABLE_S
from offsetwatch.model.observations import InputFailed, TailRead
from offsetwatch.model.topology import TopicPartition
from tests.fakes.kafka import FakeKafka, FakeReader
from tests.unit.daemon.test_supervisor_library_errors import CODES

from .driven_tails import TOPIC, Following, checked, live, whole

SICK = TopicPartition(TOPIC.topic, 1)
WHY = {
    "no leader": LeaderNotAvailable("east", "it has no leader"),
    "in error": ServerError("east", "Broker: Disk error when trying to access log file on disk"),
    "denied": AccessDenied("east", "Broker: Topic authorization failed"),
    "silent": None,
}
KEYS = [b'["files",{"filename":"/%d"}]' % number for number in range(3)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
def kafka() -> FakeKafka:
    built = FakeKafka()
    built.create(TOPIC.topic, 3)
    for partition in range(3):
        write(built, partition, 1)
    return built


def write(kafka: FakeKafka, partition: int, position: int) -> None:
    kafka.produce(TOPIC.topic, KEYS[partition], b'{"position":%d}' % position, partition=partition)


def has_records(observed: TailRead | InputFailed, partition: int) -> bool:
    return live(observed) and any(
        record.partition == partition for record in observed.source_records()
    )


def frozen(observed: TailRead | InputFailed) -> bool:
    return isinstance(observed, TailRead) and bool(observed.frozen)


def sound(observed: TailRead | InputFailed) -> bool:
    return checked(observed) and not observed.frozen and observed.behind == 0


@pytest.mark.parametrize("why", WHY.values(), ids=WHY)
def test_the_others_are_read_to_their_ends_and_the_sick_one_is_named(kafka, why):
    kafka.sick[SICK] = why
    following = Following(kafka)
    began = kafka.clock.now()

    def story():
        yield whole
        write(kafka, 0, 2)
        yield lambda observed: has_records(observed, 0)
        yield checked

    following.run(story())
    (first, *_) = following.reads()
    assert kafka.clock.now() - began < UNREADABLE_S + 5 * CHECK_EVERY_S
    assert {record.partition for record in first.source_records()} == {0, 2}
    for read in following.reads():
        (item,) = read.frozen
        assert (item.partition, item.reason) == (1, why.reason if why else "timeout")
        assert item.detail.startswith("east/connect-offsets partition 1: cannot be read since 20")
        assert (why.detail if why else "its records do not come") in item.detail
    assert following.reads()[-1].behind == sum(
        entry.hidden for entry in following.reads()[-1].frozen
    )
    assert following.reads()[-1].as_of is not None
    assert len(following.readers) == 1


@pytest.mark.parametrize("why", WHY.values(), ids=WHY)
def test_what_the_first_reading_missed_counts_nowhere_once_it_comes(kafka, why):
    kafka.sick[SICK] = why
    following = Following(kafka)

    def story():
        yield whole
        del kafka.sick[SICK]
        yield lambda observed: has_records(observed, 1)
        yield sound
        write(kafka, 1, 2)
        yield lambda observed: has_records(observed, 1)

    following.run(story())
    late, new = (
        [record for record in read.source_records() if record.partition == 1]
        for read in following.reads()
        if has_records(read, 1)
    )
    assert [(record.live, record.offset.text) for record in late] == [(False, '{"position":1}')]
    assert [(record.live, record.offset.text) for record in new] == [(True, '{"position":2}')]
    assert len(following.readers) == 1


@pytest.mark.parametrize("why", WHY.values(), ids=WHY)
def test_one_that_falls_ill_later_hides_what_is_its_own_and_goes_on_where_it_was(kafka, why):
    following = Following(kafka)

    def story():
        yield whole
        kafka.sick[SICK] = why
        write(kafka, 1, 2)
        yield frozen
        write(kafka, 0, 2)
        yield lambda observed: has_records(observed, 0)
        del kafka.sick[SICK]
        yield lambda observed: has_records(observed, 1)
        yield sound

    following.run(story())
    (back,) = (
        record
        for read in following.reads()
        for record in read.source_records()
        if record.partition == 1 and not read.whole
    )
    assert (back.live, back.log_offset) == (True, 1)
    assert len(following.readers) == 1
    assert all(
        observed.partial for observed in following.observations if isinstance(observed, InputFailed)
    )


def test_an_election_is_over_before_anything_is_hidden(kafka):
    following = Following(kafka)

    def story():
        yield whole
        kafka.sick[SICK] = WHY["no leader"]
        yield checked
        yield checked
        del kafka.sick[SICK]
        yield sound

    following.run(story())
    assert not any(frozen(observed) for observed in following.observations)
    assert "unsettled" in following.failures()


def test_the_sick_one_is_requested_ever_more_seldom(kafka):
    kafka.sick[SICK] = WHY["denied"]
    following = Following(kafka)

    def story():
        yield whole
        began = kafka.clock.now()
        yield lambda _: kafka.clock.now() - began > 10 * RETRY_MAX_S

    following.run(story())
    partition = following.admins[0].end_requests
    assert 10 <= sum(SICK in partitions for partitions in partition) <= 20
    assert len(partition) > 100


def test_where_none_can_be_read_the_topic_has_failed(kafka):
    for partition in range(3):
        kafka.sick[TopicPartition(TOPIC.topic, partition)] = WHY["denied"]
    following = Following(kafka)

    def story():
        yield lambda observed: len(following.failures()) > 5

    following.run(story())
    assert set(following.failures()) == {"denied"}
    assert following.reads() == []
    assert not any(observed.partial for observed in following.observations)


class _PartitionErrors(FakeReader):
    """librdkafka says in place of a record why one partition gives none."""

    code = 0

    def read(self, records_max, timeout_s):
        messages = super().read(records_max, timeout_s)
        if SICK in self._kafka.sick and not getattr(self, "reported", False):
            self.reported = True
            error = ck.KafkaError(self.code)
            messages.append(
                ck.Message(topic=SICK.topic, partition=SICK.partition, offset=0, error=error)
            )
        return messages


def _whole_topic(code: int) -> bool:
    return code == ck.KafkaError._PARTITION_EOF


@pytest.mark.parametrize(
    "code",
    [item for item in CODES if not _whole_topic(item)],
    ids=lambda item: ck.KafkaError(item).name(),
)
def test_no_error_in_place_of_a_record_of_one_partition_ends_the_others(kafka, code):
    kafka.sick[SICK] = None
    reader = type("Reader", (_PartitionErrors,), {"code": code})
    following = Following(kafka, open_reader=lambda: reader(kafka))

    def story():
        yield whole
        write(kafka, 2, 2)
        yield lambda observed: has_records(observed, 2)
        del kafka.sick[SICK]
        yield sound

    following.run(story())
    assert len(following.readers) == 1
    assert isinstance(client_error_from("east", ck.KafkaError(code)), ClientError)
