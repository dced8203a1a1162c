"""How old lag is, and whether there is any: told by single records, read upstream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from lab import Lab, Load
from lab.check import lag_while_stalled
from lab.check.mm2_latency import MirrorLatency
from lab.cluster.connector_configs import MM2_SOURCE, file_sink
from lab.cluster.kafka_client import settings
from lab.moments import seconds
from lab.product.offsetwatch import Product
from tests.real.daemon_series import MIRRORED, await_replicated, becomes, eventually, total

pytestmark = pytest.mark.real

TRANSACTION_S_MAX = 30.0
STILL_S = 15.0
ROUNDED_S = 0.001
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "10",
    "min.cleanable.dirty.ratio": "0.01",
}


@contextmanager
def transaction(bootstrap: str, topic: str, *, commit: bool) -> Iterator[Producer]:
    """One, ended when the block is."""
    producer = Producer(settings(bootstrap, **{"transactional.id": f"offsetwatch-{topic}"}))
    producer.init_transactions(TRANSACTION_S_MAX)
    producer.begin_transaction()
    yield producer
    assert producer.flush(TRANSACTION_S_MAX) == 0
    if commit:
        producer.commit_transaction(TRANSACTION_S_MAX)
    else:
        producer.abort_transaction(TRANSACTION_S_MAX)


def test_lag_in_seconds_is_the_age_of_the_oldest_waiting_record_where_mm2s_own_latency_freezes(
    lab: Lab, product: Product
) -> None:
    lab.append_lines(3)
    lab.produce("west", "orders", 30)
    lab.produce("west", "payments", 20)
    await_replicated(lab, product)
    with Load(lab, rate_per_s=50.0), MirrorLatency(lab.pids["connect-1"]) as latency:
        try:
            oldest = lag_while_stalled.pause_mirror(lab, product)
            moments = lag_while_stalled.record(product, latency, STILL_S)
            assert lag_while_stalled.apart(moments, oldest) < lag_while_stalled.AGREES_S_MAX
            assert lag_while_stalled.frozen(moments)
            for location in MIRRORED:
                first, *_, last = (moment for moment in moments if moment.partition == location)
                assert last.product > first.product
            # Stopped altogether MirrorMaker has nothing to say any more, and the lag goes on.
            lab.stop_connector(MM2_SOURCE)
            eventually(product, "no latency over JMX", lambda: not latency.read())
            moments = lag_while_stalled.record(product, latency, 3.0)
            assert lag_while_stalled.apart(moments, oldest) < lag_while_stalled.AGREES_S_MAX
        finally:
            lab.resume(MM2_SOURCE)
    becomes(product, 0, "mm2_replication_lag_seconds", connector=MM2_SOURCE)


def test_a_transactional_topic_fully_replicated_is_caught_up_although_markers_follow(
    lab: Lab, product: Product
) -> None:
    topic = "orders.transactional"
    labels = {"connector": MM2_SOURCE, "topic": topic}
    lab.create_topic("west", topic)
    for commit in (True, True, False):
        with transaction(lab.west, topic, commit=commit) as producer:
            for number in range(5):
                producer.produce(topic, key=f"{number}", value="x")
    becomes(product, 18, "mm2_source_log_end_offset", **labels)
    becomes(product, 1, "mm2_caught_up", **labels)
    becomes(product, 0, "mm2_replication_lag_seconds", **labels)
    assert total(product, "mm2_replication_lag_records", **labels) == 1


@pytest.mark.full
def test_a_compacted_topic_fully_replicated_is_caught_up_and_what_compaction_took_is_not_waited_for(
    lab: Lab, product: Product
) -> None:
    """Many offsets lie before the position and few records: the age is that of the first record
    that is left, and markers at the end are none.
    """
    topic = "orders.compacted"
    labels = {"connector": MM2_SOURCE, "topic": topic}
    lab.create_topic("west", topic, config=COMPACTED)
    for _ in range(2):
        with transaction(lab.west, topic, commit=True) as producer:
            for number in range(50):
                producer.produce(topic, key=f"{number % 5}", value="x")
    becomes(product, 102, "mm2_source_log_end_offset", **labels)
    becomes(product, 1, "mm2_caught_up", **labels)
    becomes(product, 0, "mm2_replication_lag_seconds", **labels)
    assert total(product, "mm2_replication_lag_records", **labels) == 1
    lab.stop_connector(MM2_SOURCE)
    try:
        location = (topic, 0)
        after = lag_while_stalled.replicated(lab)[location] + 1
        for _ in range(4):
            lab.produce("west", topic, 40)  # the same forty keys, each time in another segment
        eventually(
            product,
            "compaction",
            lambda: lag_while_stalled.first_record(lab, location, after).offset > after,
        )
        first = lag_while_stalled.first_record(lab, location, after)
        known = json.loads(product.cli("status", "--json", "--direct"))["flows"]
        (age,) = (
            partition["lag_seconds"]
            for flow in known["flows"]
            for partition in flow["partitions"]
            if partition["topic"] == topic
        )
        # Compaction may have gone on meanwhile.
        last = lag_while_stalled.first_record(lab, location, first.offset)
        moment = seconds(known["at"])
        at_least, at_most = moment - last.at, moment - first.at
        assert at_least - ROUNDED_S <= age <= at_most + ROUNDED_S
    finally:
        lab.resume(MM2_SOURCE)
    becomes(product, 1, "mm2_caught_up", **labels)
    becomes(product, 0, "mm2_replication_lag_seconds", **labels)


def test_a_sink_that_rests_behind_a_transaction_marker_lags_by_one_and_by_no_time(
    lab: Lab, product: Product
) -> None:
    topic, name = "lines.transactional", "marked-sink"
    labels = {"connector": name, "topic": topic}
    lab.create_topic("east", topic)
    lab.create(name, file_sink(lab.directory / "marked.out", topic=topic))
    try:
        with transaction(lab.east, topic, commit=True) as producer:
            for number in range(5):
                producer.produce(topic, value=f"line {number}")
        becomes(product, 1, "sink_lag_records", **labels)
        becomes(product, 0, "sink_lag_seconds", **labels)
    finally:
        lab.delete(name)
