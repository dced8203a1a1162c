"""Probation: what is seen of a connector after a skip, by the words of its worker."""

from __future__ import annotations

from contextlib import closing

import httpx
import pytest

from offsetwatch.config import Connect
from offsetwatch.errors import AccessDenied, NotFound, RemoteRefusal
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.common_steps import (
    DeleteTopicHandler,
    ProbationChecker,
    StepDispatcher,
    add_topic_deletion,
    build_last_record_check,
)
from offsetwatch.remedy.gather.live_queries import ConnectClient
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    DriverOffsets,
    Outcome,
    StepInspection,
    StepStatus,
)
from offsetwatch.remedy.model.plan import (
    DeleteTopic,
    Freeze,
    PartitionOffset,
    Prove,
    RecordLocation,
)
from tests.fakes.clock import VirtualClock

SYNCS = "mm2-offset-syncs.east.internal"
STEP = DeleteTopic(kafka="west", topic=SYNCS, topic_id="old")


class Topics:
    """A TopicWriter over a map of names and ids."""

    def __init__(self, ids: dict[str, str]) -> None:
        self.ids = ids
        self.denied = False
        self.closed = 0

    def topic_id(self, topic: str) -> str | None:
        return self.ids.get(topic)

    def delete(self, topic: str) -> None:
        if self.denied:
            raise AccessDenied("west", "not allowed")
        del self.ids[topic]

    def close(self) -> None:
        self.closed += 1


def test_a_topic_that_is_there_can_be_deleted_and_then_it_is_done():
    topics = Topics({SYNCS: "old", "orders": "other"})
    steps = DeleteTopicHandler(lambda _kafka: topics)
    assert steps.inspect(STEP).status is StepStatus.READY
    assert steps.carry_out(STEP).answer is AttemptResult.ACK
    assert topics.ids == {"orders": "other"}
    assert steps.inspect(STEP).status is StepStatus.DONE
    assert topics.closed == 3


def test_a_topic_of_the_same_name_that_was_created_since_is_left_alone():
    topics = Topics({SYNCS: "new"})
    steps = DeleteTopicHandler(lambda _kafka: topics)
    assert steps.inspect(STEP).status is StepStatus.DONE
    assert steps.carry_out(STEP).answer is AttemptResult.NACK
    assert topics.ids == {SYNCS: "new"}


def test_what_the_broker_refuses_has_not_happened():
    topics = Topics({SYNCS: "old"})
    topics.denied = True
    with pytest.raises(AccessDenied):
        DeleteTopicHandler(lambda _kafka: topics).carry_out(STEP)
    assert topics.closed == 1


class Other:
    """A driver of whatever else there is to do."""

    def identity(self) -> str:
        return "cluster"

    def offsets(self) -> DriverOffsets:
        return DriverOffsets(())

    def inspect(self, step, frozen) -> StepInspection:
        return StepInspection(StepStatus.NOT_YET, type(step).__name__)

    def carry_out(self, step, frozen) -> Outcome:
        return Outcome(AttemptResult.RETRY, type(step).__name__)


def test_a_driver_with_topics_does_all_else_as_before():
    driver = StepDispatcher(
        Other(), {DeleteTopic: DeleteTopicHandler(lambda _kafka: Topics({SYNCS: "old"}))}
    )
    assert (driver.identity(), driver.offsets()) == ("cluster", DriverOffsets(()))
    assert driver.inspect(Freeze(), None) == (StepStatus.NOT_YET, "Freeze")
    assert driver.carry_out(Freeze(), None).said == "Freeze"
    assert driver.inspect(STEP, None).status is StepStatus.READY
    assert driver.carry_out(STEP, None).answer is AttemptResult.ACK


def test_a_cluster_that_is_not_configured_is_not_guessed_at():
    with pytest.raises(RemoteRefusal, match="west"):
        add_topic_deletion(Other(), {}).inspect(STEP, None)


# --- probation -----------------------------------------------------------------------------------

PARTITION = '{"kafka_partition":0,"kafka_topic":"t"}'
PROVE = Prove(
    PartitionOffset(PARTITION, '{"kafka_offset":6}'), RecordLocation("east", "t", "id", 0, 5), 5.0
)
NO_ROUTE = httpx.Response(404, json={"error_code": 404, "message": "HTTP 404 Not Found"})
NO_CONNECTOR = httpx.Response(
    404, json={"error_code": 404, "message": "No status found for connector c"}
)


def inspect_start(listed: httpx.Response, answer: httpx.Response) -> StepInspection:
    transport = httpx.MockTransport(
        lambda request: listed if request.url.path == "/connectors" else answer
    )
    connect = Connect.model_validate({"name": "lab", "kafka": "east", "url": "http://w:8083"})
    with closing(ConnectClient(connect, transport=transport)) as client:
        return ProbationChecker(client, "c", VirtualClock(), lambda _: True).inspect(PROVE)


def test_a_connector_that_is_not_listed_any_more_was_deleted():
    inspection = inspect_start(httpx.Response(200, json={}), NO_CONNECTOR)
    assert inspection.status is StepStatus.DONE


def test_a_worker_that_is_still_starting_does_not_say_that_a_connector_was_deleted():
    with pytest.raises(NotFound):  # which the runner takes for having seen nothing
        inspect_start(NO_ROUTE, NO_ROUTE)


def test_a_connector_that_is_listed_and_not_yet_found_was_not_deleted():
    listed = httpx.Response(
        200,
        json={
            "c": {
                "info": {"name": "c", "config": {}, "tasks": [], "type": "sink"},
                "status": {
                    "name": "c",
                    "connector": {"state": "RUNNING", "worker_id": "w"},
                    "tasks": [],
                    "type": "sink",
                },
            }
        },
    )
    assert inspect_start(listed, NO_CONNECTOR).status is StepStatus.NOT_YET


# --- whether records wait behind the one that was skipped ----------------------------------------


class Log:
    """Brokers with one partition: the offsets of its committed records, and of all of them."""

    def __init__(self, committed: list[int], everything: list[int]) -> None:
        self.offsets = {True: committed, False: everything}

    def first(
        self, kafka: str, partition: TopicPartition, offset: int, *, committed: bool
    ) -> int | None:
        assert (kafka, partition) == ("east", TopicPartition("t", 0))
        offsets = [number for number in self.offsets[committed] if number >= offset]
        return min(offsets, default=None)


@pytest.mark.parametrize(
    ("committed", "expected"),
    [([4, 5], True), ([4, 5, 6], False), ([5, 9], False), ([], True)],
    ids=["the skipped one is the last", "the next one", "a later one", "none at all"],
)
def test_only_records_behind_the_skipped_one_wait_behind_it(committed, expected):
    assert build_last_record_check(Log(committed, committed))(PROVE.record) is expected


def test_a_record_of_an_open_transaction_does_not_wait_yet():
    assert build_last_record_check(Log([5], [5, 6]))(PROVE.record)
