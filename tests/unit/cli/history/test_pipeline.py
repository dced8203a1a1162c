"""Which topics beside offsets are recorded: what is found must not depend on the day."""

from __future__ import annotations

from typing import Any

import pytest

from offsetwatch.cli.history.pipeline import choose_topics
from offsetwatch.config.schema.root import Connect
from offsetwatch.errors import TargetUnreachable
from offsetwatch.model.topology import (
    AuxiliaryTopic,
    KafkaTopic,
    MirrorFlow,
    OffsetsTopic,
    TopicKind,
    Topology,
)
from tests.fakes.facts import FakeFacts, TopicTraits
from tests.fakes.kafka import FakeKafka, FakeReader

OFFSETS = KafkaTopic("east", "connect-offsets")
FLOW = MirrorFlow("lab", "mm2", "west", "east", "west", None, downstream="east")
TOPOLOGY = Topology((OffsetsTopic("lab", OFFSETS),), (FLOW,))
CONFIGS, STATUS = KafkaTopic("east", "connect-configs"), KafkaTopic("east", "connect-status")
CHECKPOINTS = KafkaTopic("east", "west.checkpoints.internal")


class ChosenTopics:
    def __init__(self) -> None:
        self.kafka = FakeKafka()
        self.kafka.create(OFFSETS.topic)
        self.admin = FakeFacts(self.kafka)

    def create(self, topic: str, *keys: bytes) -> None:
        self.kafka.create(topic)
        for key in keys:
            self.kafka.produce(topic, key, b"{}")

    def chosen(
        self, topology: Topology = TOPOLOGY, *more: Connect, **named: Any
    ) -> dict[KafkaTopic, AuxiliaryTopic]:
        connect = Connect(name="lab", kafka="east", url="http://127.0.0.1:1", **named)
        topics = choose_topics(
            (connect, *more), topology, {"east": self.admin}, lambda _: FakeReader(self.kafka)
        )
        return {each.at: each for each in topics}


@pytest.fixture
def chosen_topics() -> ChosenTopics:
    cluster = ChosenTopics()
    cluster.create(CONFIGS.topic, b"connector-jdbc", b"commit-jdbc")
    cluster.create(STATUS.topic, b"status-connector-jdbc")
    cluster.create(CHECKPOINTS.topic)
    return cluster


def test_they_are_found_beside_the_offsets_topic_and_on_the_target(
    chosen_topics: ChosenTopics,
) -> None:
    assert chosen_topics.chosen() == {
        CONFIGS: AuxiliaryTopic(CONFIGS, TopicKind.CONFIGS, "lab"),
        STATUS: AuxiliaryTopic(STATUS, TopicKind.STATUS, "lab"),
        CHECKPOINTS: AuxiliaryTopic(CHECKPOINTS, TopicKind.CHECKPOINTS, None),
    }


def test_what_is_not_there_is_not_read(chosen_topics: ChosenTopics) -> None:
    for topic in (STATUS, CHECKPOINTS):
        chosen_topics.kafka.delete(topic.topic)
    assert set(chosen_topics.chosen()) == {CONFIGS}


def test_a_topic_is_read_only_where_the_broker_lets_us(chosen_topics: ChosenTopics) -> None:
    chosen_topics.admin.made[STATUS.topic] = TopicTraits(operations=frozenset({"DESCRIBE"}))
    chosen_topics.admin.made[CHECKPOINTS.topic] = TopicTraits(hidden=True)
    assert set(chosen_topics.chosen()) == {CONFIGS}


def test_a_broker_that_says_nothing_of_what_is_allowed_is_taken_to_allow_it(
    chosen_topics: ChosenTopics,
) -> None:
    chosen_topics.admin.made[STATUS.topic] = TopicTraits(operations=None)
    assert STATUS in chosen_topics.chosen()


def test_a_topic_with_keys_of_another_kind_is_not_chosen(chosen_topics: ChosenTopics) -> None:
    chosen_topics.kafka.delete(STATUS.topic)
    chosen_topics.create(STATUS.topic, b"order-1", b"order-2")
    assert STATUS not in chosen_topics.chosen()


def test_of_two_that_look_alike_neither_is_taken(chosen_topics: ChosenTopics) -> None:
    chosen_topics.create("connect-statuses", b"status-connector-jdbc")
    assert set(chosen_topics.chosen()) == {CONFIGS, CHECKPOINTS}
    assert STATUS in chosen_topics.chosen(status_topic=STATUS.topic)


def test_a_name_that_is_given_is_in_the_place_of_the_usual_one(
    chosen_topics: ChosenTopics,
) -> None:
    chosen_topics.create("other-status")
    result = chosen_topics.chosen(status_topic="other-status")
    assert set(result) == {CONFIGS, KafkaTopic("east", "other-status"), CHECKPOINTS}


def test_a_topic_that_two_connect_clusters_claim_is_not_chosen(chosen_topics: ChosenTopics) -> None:
    two = Connect(name="two", kafka="east", url="http://127.0.0.1:2", status_topic=STATUS.topic)
    assert set(chosen_topics.chosen(TOPOLOGY, two)) == {CONFIGS, CHECKPOINTS}


def test_a_topic_of_offsets_is_never_one_of_them(chosen_topics: ChosenTopics) -> None:
    assert OFFSETS not in chosen_topics.chosen(config_topic=OFFSETS.topic)


def test_a_cluster_that_is_away_costs_what_lies_there_and_nothing_else(
    chosen_topics: ChosenTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise TargetUnreachable("east", "no broker answers")

    monkeypatch.setattr(chosen_topics.admin, "cluster", away)
    assert set(chosen_topics.chosen()) == {CHECKPOINTS}
