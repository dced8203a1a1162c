"""As of when what a tail tells is all there is: the end it read to, and when that was the end."""

from __future__ import annotations

import pytest

from offsetwatch.errors import TargetUnreachable
from offsetwatch.ingest.tail import CHECK_EVERY_S
from tests.fakes.kafka import FakeKafka, FakeReader

from .following import TOPIC, Following, checked, failed, live, whole
from .test_tail import KEY, value


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


def test_what_came_while_it_read_for_long_is_read_before_anything_is_told(kafka):
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


def test_a_topic_that_grows_as_fast_as_it_is_read_is_told_all_the_same(kafka, monkeypatch):
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
