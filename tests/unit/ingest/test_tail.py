"""A tail's life on a topic that is read, cut, deleted and created again."""

from __future__ import annotations

from functools import partial

import pytest
from structlog.testing import capture_logs

from offsetwatch.decode.connect_topics import decode_status
from offsetwatch.errors import AccessDenied, ResponseTimeout, TargetUnreachable
from offsetwatch.ingest import tail
from offsetwatch.ingest.tail import CHECK_EVERY_S, RETRY_FIRST_S, RETRY_MAX_S, RETRY_TOO_LARGE_S
from offsetwatch.ingest.topic_readers import (
    ListingTopicReader,
    MirrorMakerTopicReader,
    OffsetSyncsTopicReader,
    SourceOffsetsTopicReader,
    _decode_heartbeat_record,
)
from offsetwatch.model.observations import InputFailed, InputId, TailRead
from offsetwatch.model.topology import KafkaTopic
from tests.fakes.kafka import FakeKafka, FakeReader
from tests.unit.ingest.test_topic_readers import sync

from .driven_tails import TOPIC, Following, checked, failed, live, whole

KEY = b'["files",{"filename":"/a"}]'
OTHER = b'["files",{"filename":"/b"}]'


def value(position: int) -> bytes:
    return b'{"position":%d}' % position


def positions_of(read: TailRead) -> dict[str, int | None]:
    """Label -> position, None for a tombstone."""
    return {
        record.key.label: record.offset and record.offset.number("position")
        for record in read.records
    }


@pytest.fixture
def kafka() -> FakeKafka:
    built = FakeKafka()
    built.create(TOPIC.topic, 2)
    return built


def test_the_first_read_is_the_whole_folded_topic_and_says_so(kafka):
    for number in range(5):
        kafka.produce(TOPIC.topic, KEY, value(number))
    kafka.produce(TOPIC.topic, OTHER, value(9), partition=1)
    kafka.produce(TOPIC.topic, OTHER, None, partition=1)
    kafka.produce(TOPIC.topic, None, b"no key", partition=1)
    following = Following(kafka)

    def story():
        yield whole

    (read,) = following.run(story())
    assert read.input == InputId.of_tail(TOPIC)
    assert positions_of(read) == {"filename=/a": 4, "filename=/b": None}
    assert (read.caught_up, read.behind, read.undecodable) == (True, 0, ())
    assert dict(read.positions) == {0: 5, 1: 3}
    assert not any(record.live for record in read.records)


each_role = pytest.mark.parametrize(
    "role",
    [
        SourceOffsetsTopicReader,
        OffsetSyncsTopicReader,
        partial(ListingTopicReader, decode_status),
        partial(MirrorMakerTopicReader, _decode_heartbeat_record),
    ],
    ids=["offsets", "syncs", "statuses", "heartbeats"],
)


@each_role
def test_a_topic_of_too_many_keys_is_not_read_and_tried_again_much_later(kafka, monkeypatch, role):
    monkeypatch.setattr(tail, "KEYS_MAX", 2)
    for number in range(3):
        kafka.produce(TOPIC.topic, b'["files",{"filename":"/%d"}]' % number, sync(number))
    following = Following(kafka, role_of=role)

    def story():
        yield failed("too_large")
        yield failed("too_large")
        monkeypatch.setattr(tail, "KEYS_MAX", 3)
        yield whole

    following.run(story())
    assert following.waited_s.count(RETRY_TOO_LARGE_S) == 2


@each_role
def test_a_topic_of_few_keys_that_are_too_long_is_not_read_either(kafka, monkeypatch, role):
    monkeypatch.setattr(tail, "BYTES_MAX", 2_500)
    for number in range(3):
        key = b'["files",{"filename":"/%d%b"}]' % (number, b"x" * 1_000)
        kafka.produce(TOPIC.topic, key, sync(number))
    following = Following(kafka, role_of=role)

    def story():
        yield failed("too_large")
        monkeypatch.setattr(tail, "BYTES_MAX", 4_000)
        yield whole

    following.run(story())
    assert following.waited_s.count(RETRY_TOO_LARGE_S) == 1


def test_keys_that_are_written_again_and_again_take_no_more_than_their_newest_values(kafka):
    for number in range(50):
        kafka.produce(TOPIC.topic, KEY, value(number))
        kafka.produce(TOPIC.topic, KEY, value(number))
    role = SourceOffsetsTopicReader()
    role.fold([*kafka.log(TOPIC.topic).records.values()])
    assert role.size == len(KEY) + len(value(49))


def test_a_bootstrap_says_that_it_is_not_there_yet_and_how_much_is_left(kafka):
    for number in range(5):
        kafka.produce(TOPIC.topic, KEY, value(number))
    following = Following(kafka)

    def story():
        yield whole

    following.run(story())
    assert [(item.records, item.behind) for item in following.progress] == [((), 5)]


def test_an_empty_topic_is_caught_up_at_once_and_not_when_a_fetch_of_nothing_ends(kafka):
    began = kafka.clock.now()

    def story():
        yield whole

    (read,) = Following(kafka).run(story())
    assert read.at == began
    assert read.records == ()
    assert dict(read.positions) == {0: 0, 1: 0}


def test_markers_at_the_end_are_passed_and_not_waited_for(kafka):
    kafka.produce(TOPIC.topic, KEY, value(1))
    kafka.mark(TOPIC.topic)

    def story():
        yield whole
        yield checked

    following = Following(kafka)
    following.run(story())
    assert dict(following.reads()[-1].positions) == {0: 2, 1: 0}
    assert following.reads()[-1].behind == 0


def test_markers_after_live_records_are_passed_and_not_counted_as_work_left(kafka):
    def story():
        yield whole
        kafka.produce(TOPIC.topic, KEY, value(1))
        kafka.mark(TOPIC.topic)
        yield live
        yield checked

    following = Following(kafka)
    following.run(story())
    assert dict(following.reads()[-1].positions) == {0: 2, 1: 0}
    assert following.reads()[-1].behind == 0


def test_a_tail_that_is_checked_right_after_each_record_is_not_behind_its_marker(kafka):
    def story():
        yield whole
        for number in range(3):
            kafka.produce(TOPIC.topic, KEY, value(number))
            kafka.mark(TOPIC.topic)
            yield live
            kafka.clock.advance(CHECK_EVERY_S)
            yield checked

    following = Following(kafka)
    following.run(story())
    assert [read.behind for read in following.reads() if checked(read)] == [0, 0, 0]


def test_an_open_transaction_holds_the_bootstrap_up_and_then_ends_it_where_reading_ends(kafka):
    kafka.produce(TOPIC.topic, KEY, value(1))
    kafka.produce(TOPIC.topic, KEY, value(2))
    kafka.log(TOPIC.topic).stable_end = 1

    def story():
        yield whole
        kafka.log(TOPIC.topic).stable_end = None
        yield live

    first, *_, last = Following(kafka).run(story())
    assert positions_of(first) == {"filename=/a": 1}
    assert positions_of(last) == {"filename=/a": 2}


def test_a_topic_whose_start_was_cut_is_read_from_there(kafka):
    for number in range(3):
        kafka.produce(TOPIC.topic, KEY, value(number))
    kafka.log(TOPIC.topic).start = 2

    def story():
        yield whole

    (read,) = Following(kafka).run(story())
    assert [record.log_offset for record in read.records] == [2]


def test_every_record_after_the_bootstrap_is_live_and_in_order(kafka):
    kafka.produce(TOPIC.topic, KEY, value(1))

    def story():
        yield whole
        for number in (2, 3):
            kafka.produce(TOPIC.topic, KEY, value(number))
        kafka.produce(TOPIC.topic, None, b"")
        kafka.produce(TOPIC.topic, KEY, None)
        yield live

    *_, read = Following(kafka).run(story())
    assert [record.offset and record.offset.number("position") for record in read.records] == [
        2,
        3,
        None,
    ]
    assert all(record.live for record in read.records)
    assert dict(read.undecodable) == {"key_null": 1}
    assert dict(read.positions)[0] == 5


def test_a_sign_of_life_comes_even_if_nothing_is_written(kafka):
    def story():
        yield whole
        for _ in range(3):
            yield checked

    following = Following(kafka)
    began = kafka.clock.now()
    following.run(story())
    assert [read.behind for read in following.reads()] == [0, 0, 0, 0]
    assert 3 * CHECK_EVERY_S <= kafka.clock.now() - began < 5 * CHECK_EVERY_S


class _Stopped(FakeReader):
    """The process stands still for a while, with what it was given in its hands."""

    FOR_S = 60.0

    def read(self, records_max, timeout_s):
        result = super().read(records_max, timeout_s)
        self._kafka.clock.advance(self.FOR_S)
        return result


def test_what_was_read_is_no_younger_than_the_question_for_it(kafka):
    kafka.produce(TOPIC.topic, KEY, value(1))

    def story():
        yield whole
        kafka.produce(TOPIC.topic, KEY, value(2))
        yield live
        assert following.reads()[-1].at <= kafka.clock.now() - _Stopped.FOR_S

    following = Following(kafka, open_reader=lambda: _Stopped(kafka))
    following.run(story())


def test_a_sign_of_life_is_no_younger_than_the_question_for_the_end_of_the_topic(
    kafka, monkeypatch
):
    plain, unchanged_s = kafka.shape, 60.0

    def story():
        yield whole
        requested_at = kafka.clock.now()

        def shape(topic):
            nonlocal requested_at
            requested_at = kafka.clock.now()
            kafka.clock.advance(unchanged_s)
            return plain(topic)

        monkeypatch.setattr(kafka, "shape", shape)
        yield checked
        assert following.reads()[-1].at == requested_at

    following = Following(kafka)
    following.run(story())


def test_a_clock_set_back_does_not_silence_the_signs_of_life(kafka):
    def story():
        yield whole
        kafka.clock.advance(-3600)
        began = kafka.clock.now()
        yield checked
        assert kafka.clock.now() - began <= 2 * CHECK_EVERY_S

    Following(kafka).run(story())


def test_a_broker_that_is_away_is_reported_once_a_second_and_starts_nothing_again(kafka):
    kafka.produce(TOPIC.topic, KEY, value(1))
    following = Following(kafka)

    def story():
        yield whole
        kafka.down = TargetUnreachable("east", "1/1 brokers are down")
        for _ in range(3):
            yield failed("unreachable")
        kafka.down = None
        kafka.produce(TOPIC.topic, KEY, value(2))
        yield live

    following.run(story())
    assert following.failures() == ["unreachable"] * 3
    assert following.waited_s == [RETRY_FIRST_S] * 3
    assert len(following.readers) == 1
    (read,) = filter(live, following.observations)
    assert positions_of(read) == {"filename=/a": 2}


def test_a_check_that_fails_is_a_failure_although_the_reader_hears_nothing_of_it(kafka):
    following = Following(kafka)

    def story():
        yield whole
        kafka.mute = ResponseTimeout("east", "no answer")
        yield failed("timeout")
        kafka.mute = None
        yield checked

    following.run(story())
    assert following.failures() == ["timeout"]
    assert len(following.readers) == 1


def test_a_failure_is_logged_when_it_begins_and_again_only_after_a_success(kafka):
    def story():
        yield whole
        for _ in range(2):
            kafka.down = TargetUnreachable("east", "away")
            for _ in range(3):
                yield failed("unreachable")
            kafka.down = None
            yield checked

    with capture_logs() as logs:
        Following(kafka).run(story())
    assert [entry["event"] for entry in logs] == ["tail_caught_up", "tail_failed", "tail_failed"]


def test_a_cluster_that_cannot_be_queried_is_queried_again_ever_more_slowly():
    kafka = FakeKafka()
    kafka.create(TOPIC.topic)
    kafka.down = ResponseTimeout("east", "no answer")
    following = Following(kafka)

    def story():
        for _ in range(7):
            yield failed("timeout")
        kafka.down = None
        yield whole

    following.run(story())
    assert following.waited_s == [1, 2, 4, 8, RETRY_MAX_S, RETRY_MAX_S, RETRY_MAX_S]
    assert all(reader.closed for reader in following.readers)


def test_patience_is_new_after_every_success(kafka):
    following = Following(kafka)

    def story():
        yield whole
        for _ in range(3):
            kafka.create(TOPIC.topic, 2)
            yield whole

    following.run(story())
    assert following.waited_s == [RETRY_FIRST_S] * 3


def test_a_missing_topic_is_not_found_until_it_is_created():
    kafka = FakeKafka()
    following = Following(kafka)

    def story():
        yield failed("not_found")
        kafka.create(TOPIC.topic)
        kafka.produce(TOPIC.topic, KEY, value(1))
        yield whole

    following.run(story())
    (failure, read) = following.observations
    assert failure == InputFailed(
        InputId.of_tail(TOPIC), "not_found", "no such topic, or no ACL to describe it"
    )
    assert positions_of(read) == {"filename=/a": 1}


def test_a_topic_that_we_may_not_read_says_denied():
    kafka = FakeKafka()
    kafka.create(TOPIC.topic)
    kafka.down = AccessDenied("east", "no ACL")
    following = Following(kafka)

    def story():
        yield failed("denied")

    following.run(story())
    assert following.failures() == ["denied"]


def test_a_deleted_topic_is_not_found_and_read_again_when_it_is_back(kafka):
    for number in range(9):
        kafka.produce(TOPIC.topic, KEY, value(number))
    following = Following(kafka)

    def story():
        yield whole
        kafka.delete(TOPIC.topic)
        yield failed("not_found")
        kafka.create(TOPIC.topic, 2)
        kafka.produce(TOPIC.topic, KEY, value(1))
        yield whole

    following.run(story())
    assert positions_of(following.reads()[-1]) == {"filename=/a": 1}
    assert dict(following.reads()[-1].positions) == {0: 1, 1: 0}


def test_a_topic_created_again_unnoticed_is_read_again(kafka):
    for number in range(9):
        kafka.produce(TOPIC.topic, KEY, value(number))
    following = Following(kafka)

    def story():
        yield whole
        kafka.create(TOPIC.topic, 2)
        kafka.produce(TOPIC.topic, KEY, value(1))
        yield whole

    following.run(story())
    assert set(following.failures()) == {"topic_changed"}
    assert positions_of(following.reads()[-1]) == {"filename=/a": 1}


def test_a_topic_created_again_with_fewer_partitions_is_read_again(kafka):
    kafka.produce(TOPIC.topic, KEY, value(5), partition=1)
    following = Following(kafka)

    def story():
        yield whole
        kafka.create(TOPIC.topic, 1)
        kafka.produce(TOPIC.topic, KEY, value(2))
        yield whole

    following.run(story())
    assert set(following.failures()) == {"topic_changed"}
    assert positions_of(following.reads()[-1]) == {"filename=/a": 2}


def test_a_topic_created_again_that_has_grown_past_our_position_is_read_again(kafka):
    """Nothing in the offsets gives it away; only the topic's id does."""
    for number in range(3):
        kafka.produce(TOPIC.topic, KEY, value(number))
    following = Following(kafka)

    def story():
        yield whole
        kafka.create(TOPIC.topic, 2)
        kafka.produce(TOPIC.topic, OTHER, value(77))
        for number in range(100, 110):
            kafka.produce(TOPIC.topic, KEY, value(number))
        yield whole

    following.run(story())
    assert positions_of(following.reads()[-1]) == {"filename=/a": 109, "filename=/b": 77}


def test_a_log_cut_back_is_read_again(kafka):
    """An unclean leader election: the topic is the same, its end is not."""
    for number in range(9):
        kafka.produce(TOPIC.topic, KEY, value(number))
    following = Following(kafka)

    def story():
        yield whole
        log = kafka.log(TOPIC.topic)
        log.records = {offset: log.records[offset] for offset in range(4)}
        log.end = 4
        yield whole

    following.run(story())
    assert positions_of(following.reads()[-1]) == {"filename=/a": 3}


def test_partitions_that_are_added_are_read(kafka):
    following = Following(kafka)

    def story():
        yield whole
        kafka.add_partitions(TOPIC.topic, 3)
        kafka.produce(TOPIC.topic, KEY, value(5), partition=2)
        yield whole

    following.run(story())
    assert positions_of(following.reads()[-1]) == {"filename=/a": 5}
    assert dict(following.reads()[-1].positions) == {0: 0, 1: 0, 2: 1}


def test_records_beside_the_news_that_a_log_was_cut_are_counted_before_all_is_read_again(kafka):
    for number in range(3):
        kafka.produce(TOPIC.topic, OTHER, value(number), partition=1)
    following = Following(kafka)

    def story():
        yield whole
        kafka.produce(TOPIC.topic, KEY, value(5))
        log = kafka.log(TOPIC.topic, 1)
        log.records, log.end = {0: log.records[0]}, 1
        yield whole

    following.run(story())
    _, read, again = following.reads()
    assert [record.live for record in read.records] == [True]
    assert following.failures() == ["topic_changed"]
    assert positions_of(again) == {"filename=/a": 5, "filename=/b": 0}


def test_a_tail_that_is_ordered_to_stop_while_it_bootstraps_shows_no_half_of_the_topic(kafka):
    kafka.produce(TOPIC.topic, KEY, value(1))
    following = Following(kafka)

    def story():
        yield whole

    class Reader(FakeReader):
        def read(self, records_max, timeout_s):
            following.stop()
            return super().read(records_max, timeout_s)

    following.open_reader = lambda: Reader(kafka)
    following.run(story())
    assert following.observations == []
    assert all(reader.closed for reader in following.readers)


def test_a_bug_in_a_role_is_not_taken_for_a_failure_of_the_world(kafka):
    class Broken(OffsetSyncsTopicReader):
        def folded(self):
            raise AssertionError("a bug")

    following = Following(kafka, role_of=Broken)

    def story():
        yield whole

    with pytest.raises(AssertionError, match="a bug"):
        following.run(story())
    assert following.readers[0].closed


def test_an_offset_syncs_topic_is_followed_in_the_same_way():
    kafka = FakeKafka("west")
    topic = KafkaTopic("west", "mm2-offset-syncs.east.internal")
    kafka.create(topic.topic)
    key = bytes.fromhex("00066f726465727300000003")

    def sync(upstream: int) -> bytes:
        return upstream.to_bytes(8, "big") * 2

    for upstream in (10, 20):
        kafka.produce(topic.topic, key, sync(upstream))
    following = Following(kafka, topic=topic, role_of=OffsetSyncsTopicReader)

    def story():
        yield whole
        kafka.produce(topic.topic, key, sync(30))
        kafka.produce(topic.topic, key, None)
        yield live

    first, *_, last = following.run(story())
    assert [record.sync.upstream_offset for record in first.records] == [20]
    assert [record.sync.upstream_offset for record in last.records] == [30]
    assert dict(last.undecodable) == {"value_null": 1}
