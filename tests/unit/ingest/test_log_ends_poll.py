"""Log bounds asked for round after round: what is asked for anew, and what stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from offsetwatch.clients.kafka.log_bounds import EARLIEST
from offsetwatch.errors import AccessDenied
from offsetwatch.ingest import log_ends_poll
from offsetwatch.ingest.log_ends_poll import LogEndsPoll
from offsetwatch.model.observations import InputSucceeded, LogBounds, LogEndsRead
from offsetwatch.model.topology import TopicFilter, TopicPartition
from offsetwatch.state.mirror.mm2_names import DEFAULT_POLICY
from tests.fakes.clock import VirtualClock
from tests.fakes.kafka import FakeAdmin, FakeKafka
from tests.unit.ingest.test_polls import CLOCK, snapshot, upstream

ORDERS, PAID = TopicPartition("orders", 0), TopicPartition("paid", 0)


class RecordedRequests(FakeAdmin):
    """Notes of which partitions the log start was asked for, and of which topics the id; what comes
    between the first id and the log ends is `before_ends`.
    """

    def __init__(self, kafka: FakeKafka) -> None:
        super().__init__(kafka)
        self.starts: list[set[TopicPartition]] = []
        self.ids: list[str] = []
        self.before_ends: Callable[[], None] | None = None

    def identities_now(self, topics):
        self.ids.extend(topics)
        return super().identities_now(topics)

    def log_offsets(self, partitions, offset, *, committed, refused=None):
        if offset == EARLIEST:
            self.starts.append(set(partitions))
        elif self.before_ends is not None:
            self.before_ends, come = None, self.before_ends
            come()
        return super().log_offsets(partitions, offset, committed=committed, refused=refused)


class Polled:
    """A poll of two topics, of which one is asked for its log start at a time."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.admin = RecordedRequests(kafka)
        self.observations: list = []
        self.poll = LogEndsPoll(self.admin, self._put, CLOCK)
        one = snapshot()
        (view,) = one.mirror_partitions
        self.snapshot = replace(
            one, mirror_partitions=(view, msgspec.structs.replace(view, topic="paid"))
        )

    def _put(self, batch) -> bool:
        self.observations.extend(batch)
        return True

    def round(self) -> LogEndsRead:
        self.poll.poll(self.snapshot)
        return [log_ends for log_ends in self.observations if isinstance(log_ends, LogEndsRead)][-1]

    def bounds(self) -> dict[TopicPartition, LogBounds]:
        return self.round().bounds


def recreate_topic(kafka: FakeKafka) -> None:
    kafka.delete("orders")
    kafka.create("orders")


@pytest.fixture
def kafka() -> FakeKafka:
    result = upstream()
    result.create("paid")
    result.produce("paid", b"k", b"v")
    return result


@pytest.fixture
def polled(kafka, monkeypatch) -> Polled:
    monkeypatch.setattr(log_ends_poll, "TURN_PARTITIONS", 1)
    return Polled(kafka)


def test_topics_are_filtered_once_a_minute_and_without_a_list_not_at_all(
    kafka, polled, monkeypatch
):
    clock = VirtualClock()
    poll = LogEndsPoll(polled.admin, polled._put, clock)
    polled.poll = poll
    topology = polled.snapshot.topology
    selects = {"topic_filter": TopicFilter("p.*", ""), "policy": DEFAULT_POLICY}
    (flow,) = (replace(flow, **selects) for flow in topology.flows)
    polled.snapshot = replace(polled.snapshot, topology=replace(topology, flows=(flow,)))
    first = polled.round().filtered
    assert dict(first[flow.connector_key].selected) == {"paid": 1}
    assert "orders" in first[flow.connector_key].rejected
    kafka.create("paid-eu")
    clock.at += 59.0
    assert polled.round().filtered is first
    clock.at += 1.0
    assert dict(polled.round().filtered[flow.connector_key].selected) == {"paid": 1, "paid-eu": 1}

    def refuse() -> None:
        raise AccessDenied("west", "no")

    monkeypatch.setattr(polled.admin, "topics", refuse)
    clock.at += 60.0
    assert polled.round().filtered == {}
    assert polled.round().bounds


def test_an_answer_that_says_the_same_is_the_very_one(polled):
    assert polled.bounds() is polled.bounds()


def test_of_an_answer_that_says_something_else_the_rest_is_the_very_same(kafka, polled):
    before = polled.bounds()
    kafka.produce("orders", b"k", b"v")
    after = polled.bounds()
    assert (before[ORDERS].end, after[ORDERS].end) == (3, 4)
    assert after[PAID] is before[PAID]


def test_log_starts_take_turns_once_all_are_known(polled):
    for _ in range(3):
        polled.bounds()
    first, *later = polled.admin.starts
    assert first == {ORDERS, PAID}
    assert sorted(map(sorted, later)) == [[ORDERS], [PAID]]


def test_a_log_start_is_known_after_its_turn(kafka, polled):
    polled.bounds()
    kafka.log("orders").start = 2
    assert {polled.bounds()[ORDERS].start, polled.bounds()[ORDERS].start} >= {2}


def test_a_log_that_ends_before_it_was_observed_to_begin_is_queried_for_its_start_at_once(
    kafka, polled
):
    kafka.log("orders").start = kafka.log("orders").end
    kafka.log("paid").start = kafka.log("paid").end
    polled.bounds()
    for topic in ("orders", "paid"):
        kafka.log(topic).start = kafka.log(topic).end = 0
        kafka.log(topic).stable_end = None
    assert polled.bounds() == {ORDERS: LogBounds(0, 0, 0), PAID: LogBounds(0, 0, 0)}


def test_each_turn_of_a_topic_begins_with_the_id_that_the_turn_before_ended_with(polled):
    ids = {topic: polled.admin.shape(topic)[0] for topic in ("orders", "paid")}
    reports = [polled.round().ids for _ in range(4)]
    assert reports == [{topic: known} for topic, known in ids.items()] * 2
    assert polled.admin.ids == ["orders", "orders", "paid", "paid", "orders", "paid"]


def test_a_topic_that_was_recreated_between_its_turns_is_reported_by_its_new_id_at_once(
    kafka, polled
):
    polled.round()
    polled.round()
    recreate_topic(kafka)
    kafka.produce("orders", b"k", b"v")
    result = polled.round()
    assert (result.ids, result.bounds[ORDERS].end) == ({"orders": kafka.shape("orders")[0]}, 1)


@pytest.mark.parametrize("turns_before", [0, 2])
def test_bounds_of_a_topic_that_is_recreated_meanwhile_are_of_the_one_that_is_named(
    kafka, polled, turns_before
):
    for _ in range(turns_before):
        polled.round()
    polled.admin.before_ends = lambda: recreate_topic(kafka)
    result = polled.round()
    assert (result.ids, result.bounds[ORDERS].end) == ({"orders": kafka.shape("orders")[0]}, 0)


class Refusing(RecordedRequests):
    """Some partitions are refused, one by one."""

    def __init__(self, kafka: FakeKafka, *secret: TopicPartition) -> None:
        super().__init__(kafka)
        self.secret = secret

    def log_offsets(self, partitions, offset, *, committed, refused=None):
        result = super().log_offsets(partitions, offset, committed=committed, refused=refused)
        assert refused is not None
        refused |= {
            partition: AccessDenied(self.name, "no ACL")
            for partition in partitions
            if partition in self.secret
        }
        return [
            None if at in self.secret else end for at, end in zip(partitions, result, strict=True)
        ]


def test_a_partition_that_is_refused_is_named_and_takes_no_other_along(kafka):
    polled = Polled(kafka)
    polled.poll = LogEndsPoll(Refusing(kafka, PAID), polled._put, CLOCK)
    for _ in range(3):
        polled.observations.clear()
        assert polled.bounds().keys() == {ORDERS}
        *_, succeeded, failed = polled.observations
        assert isinstance(succeeded, InputSucceeded)
        assert (failed.reason, failed.detail, failed.partial) == (
            "denied",
            "'paid-0': no ACL",
            True,
        )


def test_where_all_are_refused_the_input_is_down(kafka):
    polled = Polled(kafka)
    polled.poll = LogEndsPoll(Refusing(kafka, PAID, ORDERS), polled._put, CLOCK)
    polled.poll.poll(polled.snapshot)
    _, failed = polled.observations
    assert (failed.reason, failed.partial) == ("denied", False)
