"""The step that deletes a topic, for every driver: whichever way a connector is reached, its topics
are reached over Kafka. Wrapped around a driver by whoever has the plan carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Protocol

from offsetwatch.clients.write.topics import TopicWriter
from offsetwatch.config import Kafka
from offsetwatch.errors import Refused
from offsetwatch.remedy.model.driver import Answer, Driver, Found, Look, Outcome, Standing
from offsetwatch.remedy.model.plan import AnyStep, DeleteTopic, Frozen


class Deleter(Protocol):
    """What a TopicWriter does."""

    def topic_id(self, topic: str) -> str | None: ...  # noqa: D102 - TopicWriter says it

    def delete(self, topic: str) -> None: ...  # noqa: D102

    def close(self) -> None: ...  # noqa: D102


class TopicSteps:
    """Looks at `DeleteTopic` and carries it out. Keeps nothing between calls."""

    def __init__(self, opened: Callable[[str], Deleter]) -> None:
        """`opened` gives a writer for a Kafka cluster of the configuration."""
        self._opened = opened

    def look(self, step: DeleteTopic) -> Look:
        """A topic of the same name and another id is not the one that was to go."""
        with closing(self._opened(step.kafka)) as kafka:
            there = kafka.topic_id(step.topic)
        name = f"{step.kafka}/{step.topic}"
        if there is None:
            return Look(Standing.DONE, f"there is no topic {name}")
        if there != step.topic_id:
            return Look(Standing.DONE, f"{name} is another topic now, created since")
        return Look(Standing.READY, f"{name} is there")

    def carry_out(self, step: DeleteTopic) -> Outcome:
        """Between the look at its id and the deletion lies one request: a topic that is deleted and
        created again in that time would be lost. Kafka's clients delete by name only.
        """
        name = f"{step.kafka}/{step.topic}"
        with closing(self._opened(step.kafka)) as kafka:
            if kafka.topic_id(step.topic) != step.topic_id:
                return Outcome(Answer.NACK, f"{name} is not the topic that was to be deleted")
            kafka.delete(step.topic)
        return Outcome(Answer.ACK, f"{name} is deleted")


class WithTopics:
    """A driver that can delete topics beside what it could before."""

    def __init__(self, driver: Driver, topics: TopicSteps) -> None:
        self._driver = driver
        self._topics = topics

    def identity(self) -> str | None:
        """See Driver."""
        return self._driver.identity()

    def offsets(self) -> Found:
        """See Driver."""
        return self._driver.offsets()

    def look(self, step: AnyStep, frozen: Frozen | None) -> Look:
        """See Driver."""
        if isinstance(step, DeleteTopic):
            return self._topics.look(step)
        return self._driver.look(step, frozen)

    def carry_out(self, step: AnyStep, frozen: Frozen | None) -> Outcome:
        """See Driver."""
        if isinstance(step, DeleteTopic):
            return self._topics.carry_out(step)
        return self._driver.carry_out(step, frozen)


def with_topics(driver: Driver, clusters: Mapping[str, Kafka]) -> WithTopics:
    """`clusters`: those that a plan may name."""

    def opened(kafka: str) -> TopicWriter:
        if kafka not in clusters:
            raise Refused(kafka, "no Kafka cluster of this name is configured here")
        return TopicWriter(kafka, clusters[kafka].client_properties())

    return WithTopics(driver, TopicSteps(opened))
