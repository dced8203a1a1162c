"""How old lag is, and whether there is any: told by single records, read upstream."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from lab import Lab, Load
from lab.clients import settings
from lab.errors import LabError
from lab.product import Product
from tests.real.seen import becomes, eventually, scraped, settled, total

pytestmark = pytest.mark.real

TRANSACTION_S_MAX = 30.0
AGREES_S_MAX = 2.0
STILL_S = 15.0
MM2 = "mm2-source"


@contextmanager
def transaction(lab: Lab, topic: str, *, commit: bool) -> Iterator[Producer]:
    """One on west, ended when the block is."""
    producer = Producer(settings(lab.west, **{"transactional.id": f"offsetwatch-{topic}"}))
    producer.init_transactions(TRANSACTION_S_MAX)
    producer.begin_transaction()
    yield producer
    assert producer.flush(TRANSACTION_S_MAX) == 0
    if commit:
        producer.commit_transaction(TRANSACTION_S_MAX)
    else:
        producer.abort_transaction(TRANSACTION_S_MAX)


def record_at(lab: Lab, topic: str, partition: int, offset: int) -> float:
    """The timestamp of the first record at or after this offset, read by a client of our own."""
    reader = Consumer(settings(lab.west, **{"group.id": "witness", "enable.auto.commit": "false"}))
    try:
        reader.assign([TopicPartition(topic, partition, offset)])
        message = reader.poll(10.0)
        if message is None or message.error() is not None:
            raise LabError(f"no record of {topic}[{partition}] at {offset}")
        return message.timestamp()[1] / 1000
    finally:
        reader.close()


def ages(product: Product) -> dict[tuple[str, int], tuple[float, int]]:
    """(topic, partition) -> (lag in seconds, the next offset to replicate), of one scrape."""
    text = product.metrics()
    positions = scraped(text, "mm2_replicated_offset", connector=MM2)
    found = {}
    for at, seconds in scraped(text, "mm2_replication_lag_seconds", connector=MM2).items():
        labels = dict(at)
        found[labels["topic"], int(labels["partition"])] = (seconds, int(positions[at]) + 1)
    return found


def lagging(product: Product) -> bool:
    """Has a record been read for every partition?"""
    found = scraped(product.metrics(), "mm2_caught_up", connector=MM2)
    return bool(found) and set(found.values()) == {0.0}


def test_lag_in_seconds_is_the_age_of_the_oldest_unreplicated_record_while_mm2_stands_still(
    lab: Lab, product: Product
) -> None:
    lab.append_lines(3)
    lab.produce("west", "orders", 30)
    lab.produce("west", "payments", 20)
    settled(lab, product)
    with Load(lab, rate_per_s=50.0):
        lab.stop_connector(MM2)
        eventually(product, "a record read for each partition", lambda: lagging(product))
        began, first = time.monotonic(), ages(product)
        oldest = {at: record_at(lab, *at, following) for at, (_, following) in first.items()}
        compared = 0
        while time.monotonic() - began < STILL_S:
            for at, (seconds, following) in ages(product).items():
                assert following == first[at][1]
                assert abs(time.time() - oldest[at] - seconds) < AGREES_S_MAX
                compared += 1
        grown = {at: seconds - first[at][0] for at, (seconds, _) in ages(product).items()}
    assert compared > len(oldest) == len(first)
    assert min(grown.values()) > STILL_S - AGREES_S_MAX
    lab.resume(MM2)
    becomes(product, 0, "mm2_replication_lag_seconds")


def test_a_transactional_topic_fully_replicated_is_caught_up_although_markers_follow(
    lab: Lab, product: Product
) -> None:
    topic = "orders.transactional"
    labels = {"connector": MM2, "topic": topic}
    lab.create_topic("west", topic)
    for commit in (True, True, False):
        with transaction(lab, topic, commit=commit) as producer:
            for number in range(5):
                producer.produce(topic, key=f"{number}", value="x")
    becomes(product, 18, "mm2_source_log_end_offset", **labels)
    becomes(product, 1, "mm2_caught_up", **labels)
    becomes(product, 0, "mm2_replication_lag_seconds", **labels)
    assert total(product, "mm2_replication_lag_records", **labels) == 1
