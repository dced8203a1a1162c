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
from tests.fakes.facts import FakeFacts, Made
from tests.fakes.kafka import FakeKafka, FakeReader

OFFSETS = KafkaTopic("east", "connect-offsets")
FLOW = MirrorFlow("lab", "mm2", "west", "east", "west", None, downstream="east")
TOPOLOGY = Topology((OffsetsTopic("lab", OFFSETS),), (FLOW,))
CONFIGS, STATUS = KafkaTopic("east", "connect-configs"), KafkaTopic("east", "connect-status")
CHECKPOINTS = KafkaTopic("east", "west.checkpoints.internal")


class Site:
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
def site() -> Site:
    cluster = Site()
    cluster.create(CONFIGS.topic, b"connector-jdbc", b"commit-jdbc")
    cluster.create(STATUS.topic, b"status-connector-jdbc")
    cluster.create(CHECKPOINTS.topic)
    return cluster


def test_they_are_found_beside_the_offsets_topic_and_on_the_target(site: Site) -> None:
    assert site.chosen() == {
        CONFIGS: AuxiliaryTopic(CONFIGS, TopicKind.CONFIGS, "lab"),
        STATUS: AuxiliaryTopic(STATUS, TopicKind.STATUS, "lab"),
        CHECKPOINTS: AuxiliaryTopic(CHECKPOINTS, TopicKind.CHECKPOINTS, None),
    }


def test_what_is_not_there_is_not_read(site: Site) -> None:
    for topic in (STATUS, CHECKPOINTS):
        site.kafka.delete(topic.topic)
    assert set(site.chosen()) == {CONFIGS}


def test_a_topic_is_read_only_where_the_broker_lets_us(site: Site) -> None:
    site.admin.made[STATUS.topic] = Made(operations=frozenset({"DESCRIBE"}))
    site.admin.made[CHECKPOINTS.topic] = Made(hidden=True)
    assert set(site.chosen()) == {CONFIGS}


def test_a_broker_that_says_nothing_of_what_is_allowed_is_taken_to_allow_it(site: Site) -> None:
    site.admin.made[STATUS.topic] = Made(operations=None)
    assert STATUS in site.chosen()


def test_keys_of_something_else_make_it_somebody_elses(site: Site) -> None:
    site.kafka.delete(STATUS.topic)
    site.create(STATUS.topic, b"order-1", b"order-2")
    assert STATUS not in site.chosen()


def test_of_two_that_look_alike_neither_is_taken(site: Site) -> None:
    site.create("connect-statuses", b"status-connector-jdbc")
    assert set(site.chosen()) == {CONFIGS, CHECKPOINTS}
    assert STATUS in site.chosen(status_topic=STATUS.topic)


def test_a_name_that_is_given_stands_in_the_place_of_the_usual_one(site: Site) -> None:
    site.create("other-status")
    result = site.chosen(status_topic="other-status")
    assert set(result) == {CONFIGS, KafkaTopic("east", "other-status"), CHECKPOINTS}


def test_one_that_two_connect_clusters_claim_is_nobodys(site: Site) -> None:
    two = Connect(name="two", kafka="east", url="http://127.0.0.1:2", status_topic=STATUS.topic)
    assert set(site.chosen(TOPOLOGY, two)) == {CONFIGS, CHECKPOINTS}


def test_a_topic_of_offsets_is_never_one_of_them(site: Site) -> None:
    assert OFFSETS not in site.chosen(config_topic=OFFSETS.topic)


def test_a_cluster_that_is_away_costs_what_lies_there_and_nothing_else(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise TargetUnreachable("east", "no broker answers")

    monkeypatch.setattr(site.admin, "cluster", away)
    assert set(site.chosen()) == {CHECKPOINTS}
