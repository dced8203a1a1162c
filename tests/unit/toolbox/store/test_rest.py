"""A Connect cluster as a place where offsets are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.errors import ConfigError, RemoteRefusal
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.store.rest import RestOffsetStore
from tests.fakes import connect as fake


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving() as served:
        yield served


def open_store(connect: Connect) -> RestOffsetStore:
    return RestOffsetStore(Config(kafka={"k": Kafka(bootstrap="k:1")}, connect=[connect]), connect)


def open_rest_store(worker: fake.Connect) -> RestOffsetStore:
    return open_store(Connect(name="cc", kafka="k", url=worker.url))


def test_pairs_come_in_order_and_as_they_are(worker):
    worker.add("src")
    worker.commit("src", {"topic": "b", "partition": 1}, {"offset": 2**63 - 1})
    worker.commit("src", {"topic": "a", "partition": 1}, {"offset": 1.5})
    assert open_rest_store(worker).pairs("src") == (
        PartitionOffset('{"partition":1,"topic":"a"}', '{"offset":1.5}'),
        PartitionOffset('{"partition":1,"topic":"b"}', '{"offset":9223372036854775807}'),
    )


def test_all_connectors_are_known_here_with_offsets_or_without(worker):
    worker.add("src")
    worker.add("a-sink", kind="sink")
    worker.commit("deleted", {"f": 1}, {"p": 1})
    store = open_rest_store(worker)
    assert store.connectors() == ("a-sink", "src")
    assert store.connector("a-sink").kind == "sink"
    assert store.connector("deleted") is None
    assert store.identity() == "kafka-of-the-fake"


def test_what_a_mirror_copied_when_it_was_first_queried_is_known_once_it_has_stopped(worker):
    config = {
        "task.class": "org.apache.kafka.connect.mirror.MirrorSourceTask",
        "task.assigned.partitions": "orders-0,orders-1",
    }
    built = worker.add("mirror", task_config=config)
    store = open_rest_store(worker)
    copied = {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert store.assigned("mirror") == copied
    built.state, built.tasks = "STOPPED", 0
    assert store.assigned("mirror") == copied
    assert open_rest_store(worker).assigned("mirror") is None
    worker.add("other")
    assert store.assigned("other") is None


def test_a_listed_partition_without_an_offset_is_odd(worker):
    worker.add("src")
    worker.commit("src", {"f": "good"}, {"p": 1})
    assert open_rest_store(worker).notes("src") == ()
    worker.commit("src", {"f": "bad"}, None)
    (note,) = open_rest_store(worker).notes("src")
    assert '{"f":"bad"}' in note
    assert "other bytes" in note


def test_a_dedicated_topic_is_said_to_hide_the_workers(worker):
    worker.add("src", config={"offsets.storage.topic": "own"})
    worker.commit("src", {"f": "hidden"}, None)
    (note,) = open_rest_store(worker).notes("src")
    assert "own, its connector's own offsets topic" in note


def test_connect_has_no_past_to_show(worker):
    with pytest.raises(RemoteRefusal, match="--worker-config"):
        open_rest_store(worker).from_beginning(None)


def test_a_cluster_without_an_address_cannot_be_queried():
    with pytest.raises(ConfigError, match="cc"):
        open_store(Connect(name="cc", kafka="k"))
