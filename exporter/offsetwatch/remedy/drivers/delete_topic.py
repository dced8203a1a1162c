"""Step that deletes a topic, over Kafka for every driver. It wraps another driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Protocol

from offsetwatch.clients.write.topics import TopicDeleter
from offsetwatch.config import Kafka
from offsetwatch.errors import RemoteRefusal
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    Driver,
    DriverOffsets,
    Outcome,
    StepInspection,
    StepStatus,
)
from offsetwatch.remedy.model.plan import AnyStep, DeleteTopic, FrozenOffsets


class TopicDeletionClient(Protocol):
    """The methods of TopicDeleter that are used here."""

    def topic_id(self, topic: str) -> str | None: ...  # noqa: D102 - TopicDeleter says it

    def delete(self, topic: str) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


class DeleteTopicHandler:
    """Inspections and executions of `DeleteTopic`. Keeps nothing between calls."""

    def __init__(self, opened: Callable[[str], TopicDeletionClient]) -> None:
        """Take `opened`, which opens a client for a configured Kafka cluster by its name."""
        self._opened = opened

    def look(self, step: DeleteTopic) -> StepInspection:
        """Inspect the topic: DONE if there is none of this name, or one with another id."""
        with closing(self._opened(step.kafka)) as kafka:
            there = kafka.topic_id(step.topic)
        name = f"{step.kafka}/{step.topic}"
        if there is None:
            return StepInspection(StepStatus.DONE, f"there is no topic {name}")
        if there != step.topic_id:
            return StepInspection(StepStatus.DONE, f"{name} is another topic now, created since")
        return StepInspection(StepStatus.READY, f"{name} is there")

    def carry_out(self, step: DeleteTopic) -> Outcome:
        """Delete the topic, if it has the planned id.

        The id is read one request before the deletion: a topic that is recreated in between would
        be lost. Kafka's clients delete by name only.
        """
        name = f"{step.kafka}/{step.topic}"
        with closing(self._opened(step.kafka)) as kafka:
            if kafka.topic_id(step.topic) != step.topic_id:
                return Outcome(
                    AttemptResult.NACK, f"{name} is not the topic that was to be deleted"
                )
            kafka.delete(step.topic)
        return Outcome(AttemptResult.ACK, f"{name} is deleted")


class TopicDeletionDriver:
    """A driver that can also delete topics."""

    def __init__(self, driver: Driver, topics: DeleteTopicHandler) -> None:
        self._driver = driver
        self._topics = topics

    def identity(self) -> str | None:
        """See Driver."""
        return self._driver.identity()

    def offsets(self) -> DriverOffsets:
        """See Driver."""
        return self._driver.offsets()

    def look(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        """See Driver."""
        if isinstance(step, DeleteTopic):
            return self._topics.look(step)
        return self._driver.look(step, frozen)

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """See Driver."""
        if isinstance(step, DeleteTopic):
            return self._topics.carry_out(step)
        return self._driver.carry_out(step, frozen)


def add_topic_deletion(driver: Driver, clusters: Mapping[str, Kafka]) -> TopicDeletionDriver:
    """Wrap a driver with topic deletion. `clusters` are those that a plan may name."""

    def opened(kafka: str) -> TopicDeleter:
        if kafka not in clusters:
            raise RemoteRefusal(kafka, "no Kafka cluster of this name is configured here")
        return TopicDeleter(kafka, clusters[kafka].client_properties())

    return TopicDeletionDriver(driver, DeleteTopicHandler(opened))
