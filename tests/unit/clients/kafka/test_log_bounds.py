"""Log bounds asked for as a consumer asks: what is done about leaders that there are not."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import pytest

from offsetwatch.clients.kafka import log_bounds
from offsetwatch.clients.kafka.log_bounds import EARLIEST, LATEST, LogBoundsReader
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    LeaderNotAvailable,
    NotFound,
    ResponseTimeout,
)
from offsetwatch.model.topology import TopicPartition

HERE, THERE, GONE = (TopicPartition("t", number) for number in range(3))
TIMED_OUT = ck.KafkaError(ck.KafkaError._TIMED_OUT)
UNKNOWN = ck.KafkaError(ck.KafkaError._UNKNOWN_PARTITION)


class Cluster:
    """A consumer of one. As librdkafka does, it waits in vain for partitions that nobody leads, and
    then has no answer for the others of the same question either.
    """

    def __init__(self) -> None:
        self.ends = {HERE: 7, THERE: 9}
        self.leaderless: set[TopicPartition] = set()
        self.requests: list[list[TopicPartition]] = []
        self.offsets: list[int] = []
        self.described = 0
        self.levels: list[str] = []
        self.patience: list[float] = []

    def build_consumer(self, settings: dict[str, Any]) -> Any:
        self.levels.append(settings["isolation.level"])
        return self

    def offsets_for_times(self, expected: list[ck.TopicPartition], timeout: float) -> list[Any]:
        partition = [TopicPartition(item.topic, item.partition) for item in expected]
        self.requests.append(partition)
        self.offsets += {item.offset for item in expected}
        self.patience.append(timeout)
        if self.leaderless & set(partition):
            raise ck.KafkaException(TIMED_OUT)
        if not self.ends.keys() & set(partition):
            raise ck.KafkaException(UNKNOWN)
        return [
            SimpleNamespace(
                offset=self.ends.get(item, -1), error=None if item in self.ends else UNKNOWN
            )
            for item in partition
        ]

    def list_topics(self, timeout: float) -> Any:
        self.described += 1
        partitions = {
            end.partition: SimpleNamespace(
                id=end.partition, leader=-1 if end in self.leaderless else 1
            )
            for end in self.ends
        }
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)})

    def request(self, readers: LogBoundsReader, *partitions: TopicPartition) -> list[Any]:
        answer = readers.request(partitions, LATEST, committed=False)
        return [type(item) if isinstance(item, Exception) else item for item in answer]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def readers(cluster: Cluster) -> LogBoundsReader:
    return LogBoundsReader("west", {}, cluster.build_consumer)


def test_a_partition_without_a_leader_does_not_hold_up_the_others(cluster, readers):
    cluster.leaderless = {THERE}
    assert cluster.request(readers, HERE, THERE) == [7, LeaderNotAvailable]
    assert cluster.requests == [[HERE, THERE], [HERE]]


def test_who_is_slow_is_given_all_the_time_there_is_the_second_time(cluster, readers):
    cluster.leaderless = {THERE}
    cluster.request(readers, HERE, THERE)
    assert cluster.patience[0] <= log_bounds.BATCH_S_MAX < cluster.patience[1]


def test_a_partition_without_a_leader_is_waited_for_once(cluster, readers):
    cluster.leaderless = {THERE}
    cluster.request(readers, HERE, THERE)
    cluster.requests.clear()
    assert cluster.request(readers, HERE, THERE) == [7, LeaderNotAvailable]
    assert cluster.requests == [[HERE]]


def test_a_partition_with_a_leader_again_is_requested_and_described_no_more(cluster, readers):
    cluster.leaderless = {THERE}
    cluster.request(readers, HERE, THERE)
    cluster.leaderless.clear()
    assert cluster.request(readers, HERE, THERE) == [7, 9]
    described = cluster.described
    assert cluster.request(readers, HERE, THERE) == [7, 9]
    assert cluster.described == described


def test_what_is_gone_for_good_has_no_topic_described(cluster, readers):
    for _ in range(3):
        assert cluster.request(readers, HERE, GONE) == [7, NotFound]
        assert cluster.request(readers, GONE) == [NotFound]
    assert cluster.described == 0


def test_without_an_answer_after_all_the_error_is_librdkafkas(cluster, readers, monkeypatch):
    cluster.leaderless = {HERE}
    monkeypatch.setattr(cluster, "list_topics", lambda timeout: SimpleNamespace(topics={}))
    with pytest.raises(ck.KafkaException) as error:
        cluster.request(readers, HERE)
    assert error.value.args[0] == TIMED_OUT


def test_questions_are_of_so_many_partitions_and_answers_in_their_order(
    cluster, readers, monkeypatch
):
    monkeypatch.setattr(log_bounds, "PARTITIONS_PER_REQUEST", 2)
    assert cluster.request(readers, THERE, GONE, HERE) == [9, NotFound, 7]
    assert cluster.requests == [[THERE, GONE], [HERE]]


def test_there_is_one_client_for_each_isolation_level(cluster, readers):
    for committed in (False, True, False, True):
        readers.request([HERE], LATEST, committed=committed)
    assert cluster.levels == ["read_uncommitted", "read_committed"]


def test_what_is_queried_again_is_the_same_question(cluster, readers, monkeypatch):
    """To make ten thousand of them anew for each round takes an eighth of the round."""
    requests: list[list[ck.TopicPartition]] = []
    ask = cluster.offsets_for_times
    monkeypatch.setattr(
        cluster,
        "offsets_for_times",
        lambda expected, timeout: requests.append(expected) or ask(expected, 1),
    )
    partitions = (HERE, THERE)
    for _ in range(2):
        readers.request(partitions, LATEST, committed=False)
    assert requests[0] is requests[1]
    assert [
        (partition.topic, partition.partition, partition.offset) for partition in requests[0]
    ] == [
        ("t", 0, LATEST),
        ("t", 1, LATEST),
    ]


@pytest.mark.parametrize("built", [tuple, list])
def test_other_partitions_or_another_offset_are_another_question(cluster, readers, built):
    request = built([HERE, THERE])
    readers.request(request, LATEST, committed=False)
    readers.request(request, EARLIEST, committed=False)
    readers.request(built([THERE]), LATEST, committed=False)
    if isinstance(request, list):
        request.pop()
    readers.request(request, LATEST, committed=False)
    assert cluster.requests == [
        [HERE, THERE],
        [HERE, THERE],
        [THERE],
        [HERE, THERE] if built is tuple else [HERE],
    ]
    assert cluster.offsets == [LATEST, EARLIEST, LATEST, LATEST]


def test_who_is_led_is_requested_and_who_is_not_has_no_answer_in_any_order(cluster, readers):
    cluster.leaderless = {HERE}
    partitions = (HERE, THERE, HERE)
    for _ in range(2):
        assert cluster.request(readers, *partitions) == [LeaderNotAvailable, 9, LeaderNotAvailable]


# --- brokers that are far away --------------------------------------------------------------------


def sizes(cluster: Cluster, readers: LogBoundsReader, *partitions: TopicPartition) -> list[int]:
    """Of the questions of one round."""
    cluster.requests.clear()
    readers.request(partitions, LATEST, committed=False)
    return [len(partition) for partition in cluster.requests]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are of one partition, or of three."""
    monkeypatch.setattr(log_bounds, "PARTITIONS_PER_REQUEST", 1)
    monkeypatch.setattr(log_bounds, "PARTITIONS_PER_REQUEST_FAR", 3)


@pytest.mark.usefixtures("small")
def test_who_is_far_away_is_queried_less_often_for_more(cluster, readers, monkeypatch):
    monkeypatch.setattr(log_bounds, "FAR_ROUND_TRIP_S", -1.0)
    assert sizes(cluster, readers, HERE, THERE, HERE, THERE) == [1, 1, 1, 1]
    assert sizes(cluster, readers, HERE, THERE, HERE, THERE) == [3, 1]
    assert cluster.request(readers, HERE, THERE, GONE, HERE) == [7, 9, NotFound, 7]


@pytest.mark.usefixtures("small")
def test_who_is_near_again_is_requested_fewer_again(cluster, readers, monkeypatch):
    monkeypatch.setattr(log_bounds, "FAR_ROUND_TRIP_S", -1.0)
    partitions = (HERE, THERE, HERE, THERE)
    sizes(cluster, readers, *partitions)
    monkeypatch.setattr(log_bounds, "FAR_ROUND_TRIP_S", math.inf)
    assert sizes(cluster, readers, *partitions) == [3, 1]
    assert sizes(cluster, readers, *partitions) == [1, 1, 1, 1]


@pytest.mark.usefixtures("small")
def test_how_far_it_is_one_quick_answer_reports(cluster, readers, monkeypatch):
    """The others may have waited for something else."""
    monkeypatch.setattr(log_bounds, "FAR_ROUND_TRIP_S", 5.0)
    # When the round begins, and when each question begins and has its answer.
    ticks = itertools.chain([0.0, 0.0, 9.0, 9.0, 10.0, 10.0, 99.0], itertools.repeat(99.0))
    monkeypatch.setattr(log_bounds, "_compute_remaining_s", lambda until: 1.0)
    monkeypatch.setattr(log_bounds, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    assert sizes(cluster, readers, HERE, THERE, HERE) == [1, 1, 1]
    assert sizes(cluster, readers, HERE, THERE, HERE) == [1, 1, 1]


def test_what_fits_into_one_question_says_nothing_of_how_far_it_is(cluster, readers, monkeypatch):
    monkeypatch.setattr(log_bounds, "FAR_ROUND_TRIP_S", -1.0)
    monkeypatch.setattr(log_bounds, "PARTITIONS_PER_REQUEST", 2)
    monkeypatch.setattr(log_bounds, "PARTITIONS_PER_REQUEST_FAR", 3)
    sizes(cluster, readers, HERE, THERE)
    assert sizes(cluster, readers, HERE, THERE, HERE) == [2, 1]
    assert sizes(cluster, readers, HERE, THERE) == [2]
    assert sizes(cluster, readers, HERE, THERE, HERE) == [3]


@pytest.mark.usefixtures("small")
def test_a_round_that_took_too_long_is_not_requested_in_the_same_way_again(
    cluster, readers, monkeypatch
):
    monkeypatch.setattr(log_bounds, "FAR_ROUND_TRIP_S", -1.0)
    ask, partitions = cluster.offsets_for_times, (HERE, THERE, HERE, THERE)

    def late(expected: list[ck.TopicPartition], timeout: float) -> list[Any]:
        if len(cluster.requests) == 2:
            raise ck.KafkaException(TIMED_OUT)
        return ask(expected, timeout)

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "offsets_for_times", late)
        assert cluster.request(readers, *partitions) == [7, 9, ResponseTimeout, ResponseTimeout]
    assert sizes(cluster, readers, *partitions) == [3, 1]


# --- one odd partition of many --------------------------------------------------------------------

MANY = tuple(TopicPartition("many", number) for number in range(1000))
ODD = {MANY[3], MANY[500], MANY[501]}
# Whatever a broker may say of a partition: all codes of librdkafka's that are a broker's.
CODES = sorted(
    {
        getattr(ck.KafkaError, name)
        for name in dir(ck.KafkaError)
        if name.isupper() and not name.startswith("_")
    }
    - {ck.KafkaError.NO_ERROR, ck.KafkaError.SASL_AUTHENTICATION_FAILED}
    - {ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


class PartlyRefused(Cluster):
    """Many partitions, of which some are refused: by an error of their own, or of the question."""

    def __init__(self, code: int, *, whole: bool) -> None:
        super().__init__()
        self.ends = dict.fromkeys(MANY, 7)
        self.code, self.whole = code, whole
        self.odd = set(ODD)

    def offsets_for_times(self, expected: list[ck.TopicPartition], timeout: float) -> list[Any]:
        partition = [TopicPartition(item.topic, item.partition) for item in expected]
        self.requests.append(partition)
        error = ck.KafkaError(self.code)
        if self.whole and self.odd & set(partition):
            raise ck.KafkaException(error)
        return [
            SimpleNamespace(
                offset=-1 if item in self.odd else 7, error=error if item in self.odd else None
            )
            for item in partition
        ]


@pytest.mark.parametrize("code", CODES)
def test_what_is_said_of_one_partition_keeps_none_from_the_others(code):
    cluster = PartlyRefused(code, whole=False)
    answer = LogBoundsReader("west", {}, cluster.build_consumer).request(
        MANY, LATEST, committed=False
    )
    assert {partition for partition, report in zip(MANY, answer, strict=True) if report != 7} == ODD
    assert all(isinstance(report, int | ClientError) for report in answer)


@pytest.mark.parametrize(
    "code", [ck.KafkaError.TOPIC_AUTHORIZATION_FAILED, ck.KafkaError.UNKNOWN, 56, -150]
)
def test_where_the_whole_question_is_refused_the_odd_ones_are_found_and_left_apart(code):
    cluster = PartlyRefused(code, whole=True)
    readers = LogBoundsReader("west", {}, cluster.build_consumer)
    for _ in range(2):
        answer = readers.request(MANY, LATEST, committed=False)
        assert {
            partition for partition, report in zip(MANY, answer, strict=True) if report != 7
        } == ODD
    first = len(cluster.requests)
    cluster.requests.clear()
    readers.request(MANY, LATEST, committed=False)
    assert len(cluster.requests) == len(MANY) / log_bounds.PARTITIONS_PER_REQUEST < first
    assert not any(ODD & set(partition) for partition in cluster.requests)


def test_what_was_left_apart_is_requested_again_after_a_while(monkeypatch):
    monkeypatch.setattr(log_bounds, "EXCLUSION_S", -1.0)
    cluster = PartlyRefused(ck.KafkaError.UNKNOWN, whole=True)
    readers = LogBoundsReader("west", {}, cluster.build_consumer)
    readers.request(MANY, LATEST, committed=False)
    cluster.odd.clear()
    assert readers.request(MANY, LATEST, committed=False) == [7] * len(MANY)


def test_where_everything_is_refused_the_questions_are_bounded():
    cluster = PartlyRefused(ck.KafkaError.TOPIC_AUTHORIZATION_FAILED, whole=True)
    cluster.odd = set(MANY)
    answer = LogBoundsReader("west", {}, cluster.build_consumer).request(
        MANY, LATEST, committed=False
    )
    assert {type(report) for report in answer} == {AccessDenied}
    batches = len(MANY) / log_bounds.PARTITIONS_PER_REQUEST
    assert len(cluster.requests) <= batches + 2 * log_bounds.SPLITS_MAX


@pytest.mark.parametrize(
    "code",
    [
        ck.KafkaError._AUTHENTICATION,
        ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        ck.KafkaError._TRANSPORT,
    ],
)
def test_what_is_true_of_the_cluster_is_queried_once(code):
    cluster = PartlyRefused(code, whole=True)
    with pytest.raises(ck.KafkaException):
        LogBoundsReader("west", {}, cluster.build_consumer).request(MANY, LATEST, committed=False)
    assert len(cluster.requests) == 1


class Hanging(Cluster):
    """A broker that leads every second partition does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = dict.fromkeys(MANY, 7)

    def offsets_for_times(self, expected: list[ck.TopicPartition], timeout: float) -> list[Any]:
        self.requests.append(
            [TopicPartition(partition.topic, partition.partition) for partition in expected]
        )
        if any(partition.partition % 2 for partition in expected):
            raise ck.KafkaException(TIMED_OUT)
        return [SimpleNamespace(offset=7, error=None) for _ in expected]

    def list_topics(self, timeout: float) -> Any:
        partitions = {
            partition.partition: SimpleNamespace(
                id=partition.partition, leader=partition.partition % 2
            )
            for partition in MANY
        }
        return SimpleNamespace(topics={"many": SimpleNamespace(partitions=partitions)})


def test_a_broker_that_hangs_takes_only_what_it_leads_along():
    cluster = Hanging()
    answer = LogBoundsReader("west", {}, cluster.build_consumer).request(
        MANY, LATEST, committed=False
    )
    assert all(
        (report == 7) is (partition.partition % 2 == 0)
        for partition, report in zip(MANY, answer, strict=True)
    )
    assert {type(report) for report in answer[1::2]} == {ResponseTimeout}
