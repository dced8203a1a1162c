"""Probation: what is seen of a connector after a skip, by the words of its worker."""

from __future__ import annotations

from contextlib import closing

import httpx
import pytest

from offsetwatch.config import Connect
from offsetwatch.errors import NotFound
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.common_steps import ProbationChecker, build_last_record_check
from offsetwatch.remedy.gather.live_queries import ConnectClient
from offsetwatch.remedy.model.driver import StepInspection, StepStatus
from offsetwatch.remedy.model.plan import PartitionOffset, Prove, RecordLocation
from tests.fakes.clock import VirtualClock

PARTITION = '{"kafka_partition":0,"kafka_topic":"t"}'
STEP = Prove(
    PartitionOffset(PARTITION, '{"kafka_offset":6}'), RecordLocation("east", "t", "id", 0, 5), 5.0
)
NO_ROUTE = httpx.Response(404, json={"error_code": 404, "message": "HTTP 404 Not Found"})
NO_CONNECTOR = httpx.Response(
    404, json={"error_code": 404, "message": "No status found for connector c"}
)


def look(listed: httpx.Response, answer: httpx.Response) -> StepInspection:
    transport = httpx.MockTransport(
        lambda request: listed if request.url.path == "/connectors" else answer
    )
    connect = Connect.model_validate({"name": "lab", "kafka": "east", "url": "http://w:8083"})
    with closing(ConnectClient(connect, transport=transport)) as client:
        return ProbationChecker(client, "c", VirtualClock(), lambda _: True).inspect(STEP)


def test_a_connector_that_is_not_listed_any_more_was_deleted():
    inspection = look(httpx.Response(200, json={}), NO_CONNECTOR)
    assert inspection.status is StepStatus.DONE


def test_a_worker_that_is_still_starting_does_not_say_that_a_connector_was_deleted():
    with pytest.raises(NotFound):  # which the runner takes for having seen nothing
        look(NO_ROUTE, NO_ROUTE)


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
    assert look(listed, NO_CONNECTOR).status is StepStatus.NOT_YET


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
    assert build_last_record_check(Log(committed, committed))(STEP.record) is expected


def test_a_record_of_an_open_transaction_does_not_wait_yet():
    assert build_last_record_check(Log([5], [5, 6]))(STEP.record)
