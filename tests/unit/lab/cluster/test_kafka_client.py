"""Questions of the lab to brokers as a Kafka client, and answers that are none."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition

from lab.check import compare, ground_truth_recorder
from lab.cluster.kafka_client import request_log_bounds
from lab.errors import LabError
from lab.stories import cluster_actions
from lab.waiting import NotYet

Bounds = tuple[int, int] | None
UNKNOWN_BOUNDS: list[Bounds] = [None, (0, -1001), (-1001, 7)]


class BoundsConsumer:
    """A consumer that is told these log bounds, one after the other."""

    def __init__(self, *reports: Bounds) -> None:
        self._bounds = list(reports)

    def get_watermark_offsets(self, _at: TopicPartition, *, timeout: float, cached: bool) -> Bounds:
        assert timeout > 0
        assert not cached
        return self._bounds.pop(0)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("reports", UNKNOWN_BOUNDS)
def test_a_broker_that_names_no_log_end_has_not_said_that_the_log_is_empty(reports: Bounds) -> None:
    with pytest.raises(NotYet, match="orders-2"):
        request_log_bounds(BoundsConsumer(reports), "orders", 2)  # type: ignore[arg-type]
    assert request_log_bounds(BoundsConsumer((3, 7)), "orders", 2) == (3, 7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "ask"),
    [
        (cluster_actions, lambda: cluster_actions.bounds("unused:1", "orders", 2)[1]),
        (compare, lambda: compare.log_ends(LAB, "west", [("orders", 2)])["orders", 2]),
    ],
    ids=["hands", "compare"],
)
def test_log_ends_are_waited_for(
    module: object, ask: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "Consumer", lambda _settings: BoundsConsumer(*UNKNOWN_BOUNDS, (0, 7))
    )
    assert ask() == 7


LAB = SimpleNamespace(west="unused:1", east="unused:2")


def test_a_witness_has_not_read_to_the_end_of_a_log_of_which_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listed(partitions: dict[TopicPartition, object], **_more: object) -> dict[object, Future]:
        answers = {item: Future() for item in partitions}
        for partition, answer in answers.items():
            answer.set_result(SimpleNamespace(offset=-1 if partition.partition else 5))
        return answers

    admin = SimpleNamespace(list_offsets=listed)
    monkeypatch.setattr(ground_truth_recorder, "AdminClient", lambda _settings: admin)
    assert ground_truth_recorder._committed_ends("unused:1", {("orders", 0): 0}) == {
        ("orders", 0): 5
    }
    with pytest.raises(LabError, match="orders"):
        ground_truth_recorder._committed_ends("unused:1", {("orders", 0): 0, ("orders", 1): 0})
