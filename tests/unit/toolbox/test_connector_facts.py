"""Facts about connectors, asked of librdkafka's in-process broker and of a worker made of a
socket.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from offsetwatch.config import Connect, Kafka, parse
from offsetwatch.errors import MalformedResponse, NotFound, ResponseTimeout
from offsetwatch.model.connectors import (
    ConnectorKind,
    ConnectorSettings,
    MirrorSettings,
    SinkSettings,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox import connector_facts
from offsetwatch.toolbox.connector_facts import KafkaClusterPool
from offsetwatch.toolbox.offset_shapes import ReadableRange
from tests.fakes.broker import PARTITIONS, MockBroker
from tests.fakes.worker import ok, serving
from tests.unit.toolbox.mirror.test_copy_costs import mirror

ORDERS, MISSING = TopicPartition("orders", 0), TopicPartition("missing", 0)
PRESENT = (PartitionOffset('{"a":1}', '{"b":2}'),)


@pytest.fixture(scope="module")
def west() -> Iterator[MockBroker]:
    built = MockBroker()
    for number in range(5):
        built.produce("orders", b"k", b"v", at=100.0 + number)
    yield built
    built.stop()


@pytest.fixture
def kafkas(west: MockBroker) -> Iterator[KafkaClusterPool]:
    east = MockBroker()
    built = KafkaClusterPool(
        {"west": Kafka(bootstrap=west.bootstrap), "east": Kafka(bootstrap=east.bootstrap)}
    )
    yield built
    built.close()
    east.stop()


def of(mirror_settings: MirrorSettings) -> ConnectorSettings:
    return ConnectorSettings(kind=ConnectorKind.MIRROR, class_name="M", mirror=mirror_settings)


def from_west(west: MockBroker, **changes) -> ConnectorSettings:
    return of(replace(mirror(), source_addresses=frozenset({west.bootstrap}), **changes))


def gathered(
    kafkas: KafkaClusterPool, settings: ConnectorSettings | None, **more
) -> connector_facts.ValidationFacts:
    expected = (ORDERS, MISSING, TopicPartition("orders", PARTITIONS), TopicPartition("orders", -1))
    return connector_facts.gather_facts(
        "c", settings, PRESENT, expected, kafkas=kafkas, home="east", **more
    )


def test_a_mirrors_logs_are_those_of_the_cluster_that_its_addresses_name(west, kafkas):
    facts = gathered(kafkas, from_west(west))
    assert facts.topics == {"orders": PARTITIONS}
    assert facts.logs == {ORDERS: ReadableRange(0, 5)}
    assert (facts.present, facts.unknown) == (PRESENT, ())
    assert facts.mirror is not None


def test_the_configuration_can_name_what_no_address_reports(kafkas):
    facts = gathered(kafkas, of(mirror()), upstream="west")
    assert facts.logs == {ORDERS: ReadableRange(0, 5)}


def test_an_unknown_cluster_is_reported_with_what_to_configure(kafkas):
    facts = gathered(kafkas, of(mirror()))
    assert (facts.topics, facts.logs) == (None, {})
    assert "west:9092" in facts.unknown[0]
    assert "under flows" in facts.unknown[0]


def test_a_sink_reads_where_it_was_reported_to_and_else_where_its_workers_are(west, kafkas):
    away = SinkSettings("connect-c", frozenset({west.bootstrap}))
    sink = ConnectorSettings(kind=ConnectorKind.SINK, class_name="S", sink=away)
    assert gathered(kafkas, sink).logs == {ORDERS: ReadableRange(0, 5)}
    connector = replace(sink, sink=SinkSettings("connect-c", frozenset()))
    at_home = connector_facts.gather_facts(
        "c", connector, (), (ORDERS,), kafkas=kafkas, home="west"
    )
    assert at_home.logs == {ORDERS: ReadableRange(0, 5)}
    lost = replace(sink, sink=SinkSettings("connect-c", frozenset({"far:1"})))
    assert "far:1" in gathered(kafkas, lost).unknown[0]
    homeless = connector_facts.gather_facts("c", connector, (), (ORDERS,), kafkas=kafkas, home=None)
    assert "--kafka" in homeless.unknown[0]


def test_of_other_sources_no_cluster_is_queried(kafkas):
    settings = ConnectorSettings(kind=ConnectorKind.SOURCE, class_name="F", filename="/in")
    facts = gathered(kafkas, settings)
    assert (facts.topics, facts.unknown, facts.filename) == (None, (), "/in")


def test_without_a_configuration_nothing_is_known_and_that_is_said(kafkas):
    facts = gathered(kafkas, None)
    assert facts.kind is ConnectorKind.UNKNOWN
    assert "--connect" in facts.unknown[0]


def test_a_position_is_as_old_as_the_record_that_is_there(kafkas):
    partition = connector_facts.read_record_times(kafkas, "west", {ORDERS: 3}, committed=False)
    assert partition == {ORDERS: 103.0}
    assert connector_facts.read_record_times(kafkas, "west", {ORDERS: 5}, committed=False) == {}
    assert connector_facts.read_record_times(kafkas, "west", {}, committed=False) == {}


def test_a_position_whose_record_does_not_come_in_time_is_not_one_without_an_age(
    kafkas, monkeypatch
):
    monkeypatch.setattr(connector_facts.ProbeReader, "first", lambda *_: {})
    with pytest.raises(ResponseTimeout, match="no record of orders-0 came within 30 s"):
        connector_facts.read_record_times(kafkas, "west", {ORDERS: 3}, committed=False)


def worker(body: object) -> Iterator[Connect]:
    with serving(ok(json.dumps(body).encode())) as result:
        yield Connect(name="lab", kafka="east", url=result.url)


def entry(name: str, **config: str) -> dict[str, object]:
    status = {"connector": {"state": "RUNNING"}, "tasks": [], "type": "source"}
    return {name: {"status": status, "info": {"config": config, "type": "source"}}}


def test_a_connector_is_found_by_its_name_with_its_settings():
    for connect in worker(entry("c", **{"connector.class": "FileStreamSource", "file": "/in"})):
        assert (
            connector_facts.extract_settings(connector_facts.find_connector(connect, "c")).filename
            == "/in"
        )
        with pytest.raises(NotFound, match=r"no connector d \(it has: c\)"):
            connector_facts.find_connector(connect, "d")
    for connect in worker(entry("orders-source")):
        with pytest.raises(NotFound, match="did you mean orders-source"):
            connector_facts.find_connector(connect, "order-source")


def test_a_worker_that_lists_something_else_is_not_believed():
    for connect in worker([]):
        with pytest.raises(MalformedResponse):
            connector_facts.list_connectors(connect)


def test_a_named_flow_says_where_its_connector_copies_from():
    config = parse(
        {
            "kafka": {"east": {"bootstrap": "e:1"}, "west": {"bootstrap": "w:1"}},
            "connect": [{"name": "mm2", "kafka": "east", "offsets_topic": "mm2-offsets"}],
            "flows": [
                {"source": "w", "target": "e", "upstream": "west", "downstream": "east"},
            ],
        },
        {},
    )
    assert (
        connector_facts.find_configured_upstream(config, "mm2", "MirrorSourceConnector") == "west"
    )
    assert connector_facts.find_configured_upstream(config, "mm2", "other") is None
    assert connector_facts.find_configured_upstream(config, "lab", "MirrorSourceConnector") is None
