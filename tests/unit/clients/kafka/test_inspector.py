import struct
from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import pytest

from lab.processes.ports import free_port
from offsetwatch.clients.kafka.inspector import (
    KafkaInspector,
    detect_release,
    parse_api_versions,
    release_of_fetch_version,
)
from offsetwatch.errors import MalformedResponse, NotFound, ServerError, TargetUnreachable
from offsetwatch.model.topology import TopicPartition
from tests.fakes.broker import PARTITIONS, MockBroker


def answer(*entries: tuple[int, int, int], correlation: int = 1, error: int = 0) -> bytes:
    body = struct.pack(">ihi", correlation, error, len(entries))
    return body + b"".join(struct.pack(">hhh", *entry) for entry in entries)


def test_the_newest_version_of_each_request_is_read():
    assert parse_api_versions("east", answer((1, 4, 17), (18, 0, 4))) == {1: 17, 18: 4}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        answer((1, 4, 17))[:-1],
        answer((1, 4, 17), error=35),
        answer((1, 4, 17), correlation=2),
        struct.pack(">ihi", 1, 0, 1_000_000),
    ],
)
def test_what_is_no_answer_is_refused(body: bytes):
    with pytest.raises(MalformedResponse):
        parse_api_versions("east", body)


@pytest.mark.parametrize(
    ("fetch", "text"),
    [(10, "older than 2.3"), (11, "2.3 to 2.6"), (13, "3.1 to 3.4"), (17, "3.9 or 4.0")],
)
def test_a_release_is_reported_by_its_fetch(fetch: int, text: str):
    assert release_of_fetch_version(fetch) == text


def test_a_broker_reports_its_release_and_its_cluster():
    broker = MockBroker()
    try:
        properties = {"bootstrap.servers": broker.bootstrap}
        broker.produce("orders", b"k", b"v")
        assert "." in (detect_release("east", properties) or "")
        facts = KafkaInspector("east", properties).cluster()
    finally:
        broker.stop()
    assert (facts.brokers, facts.topics) == (1, {"orders": PARTITIONS})
    assert facts.cluster_id


def test_a_second_bootstrap_server_answers_for_the_first():
    broker = MockBroker()
    try:
        servers = f"127.0.0.1:{free_port()},{broker.bootstrap}"
        assert detect_release("east", {"bootstrap.servers": servers}) is not None
    finally:
        broker.stop()


def test_a_host_of_ipv6_is_queried_without_its_brackets(monkeypatch: pytest.MonkeyPatch):
    requests: list[tuple[str, int]] = []

    def refuse(address: tuple[str, int], timeout: float) -> None:
        requests.append(tuple(address))
        raise OSError("no")

    monkeypatch.setattr("offsetwatch.clients.kafka.inspector.socket.create_connection", refuse)
    with pytest.raises(TargetUnreachable):
        detect_release("east", {"bootstrap.servers": "[::1]:9092,b:1"})
    assert requests == [("::1", 9092), ("b", 1)]


@pytest.mark.parametrize("host", ["broker..test", "b" * 64])
def test_a_bootstrap_server_with_no_host_name_is_unreachable(host: str):
    with pytest.raises(TargetUnreachable, match=f"no host name: {host}"):
        detect_release("east", {"bootstrap.servers": f"{host}:9092"})


def test_a_bootstrap_server_without_a_listener_is_unreachable():
    with pytest.raises(TargetUnreachable):
        detect_release("east", {"bootstrap.servers": f"127.0.0.1:{free_port()}"})


def test_tls_settings_that_only_librdkafka_understands_leave_the_release_unknown():
    properties = {
        "bootstrap.servers": f"127.0.0.1:{free_port()}",
        "security.protocol": "SASL_SSL",
        "ssl.keystore.location": "/nowhere",
    }
    assert detect_release("east", properties) is None


def test_a_moment_after_the_last_record_has_no_offset_and_a_missing_topic_is_an_error():
    # The mock broker knows no timestamps; where there is one, tests/real shows what is found.
    broker = MockBroker()
    broker.produce("timed", b"k", b"v", at=10.0)
    facts = KafkaInspector("east", {"bootstrap.servers": broker.bootstrap})
    try:
        partition = TopicPartition("timed", 0)
        assert facts.offsets_at({partition: 11.0}) == {partition: None}
        assert facts.offsets_at({}) == {}
        with pytest.raises(NotFound):
            facts.offsets_at({TopicPartition("missing", 0): 1.0})
    finally:
        broker.stop()


# --- what the mock broker does not answer --------------------------------------------------------


class Client:
    """An admin client whose answers are given: the cleanup.policy of each topic, or an error."""

    def __init__(self, policies: Mapping[str, str | int] | None = None) -> None:
        self.policies = policies or {}
        self.milliseconds: dict[TopicPartition, int] = {}

    def list_offsets(self, expected: Mapping[ck.TopicPartition, Any], **_: Any) -> dict[Any, Any]:
        for partition, spec in expected.items():
            self.milliseconds[TopicPartition(partition.topic, partition.partition)] = spec.timestamp
        return {item: answered(SimpleNamespace(offset=7)) for item in expected}

    def describe_configs(self, expected: list[Any], **_: Any) -> dict[Any, Any]:
        return {resource: self._config(self.policies[resource.name]) for resource in expected}

    def _config(self, policy: str | int) -> Future[Any]:
        if isinstance(policy, int):
            return answered(ck.KafkaException(ck.KafkaError(policy)))
        return answered({"cleanup.policy": SimpleNamespace(value=policy)})

    def poll(self, _: float) -> None:
        """No connection has reported anything."""


def answered(answer: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
    return future


def facts_of(client: Client) -> KafkaInspector:
    facts = KafkaInspector("east", {"bootstrap.servers": "broker:9092"})
    facts._opened = client  # type: ignore[assignment]
    return facts


@pytest.mark.parametrize(
    ("moment", "milliseconds"),
    [(1_700_000_000.0, 1_700_000_000_000), (1.5, 1500), (0.0001, 1), (0.0, 0), (-1.0, 0)],
)
def test_a_moment_is_requested_in_whole_milliseconds_and_never_an_earlier_one(moment, milliseconds):
    client, partition = Client(), TopicPartition("timed", 0)
    assert facts_of(client).offsets_at({partition: moment}) == {partition: 7}
    assert client.milliseconds == {partition: milliseconds}


def test_a_policy_that_we_may_not_see_is_not_known_and_no_failure():
    client = Client({"seen": "compact", "hidden": ck.KafkaError.TOPIC_AUTHORIZATION_FAILED})
    result = facts_of(client).policies(["seen", "hidden"])
    assert result == {"seen": "compact", "hidden": None}


def test_a_policy_that_a_broker_fails_to_report_keeps_no_other_from_being_known():
    client = Client({"seen": "compact", "broken": ck.KafkaError.UNKNOWN})
    result = facts_of(client).policies(["seen", "broken"])
    assert result == {"seen": "compact", "broken": None}


def test_that_no_policy_can_be_reported_is_a_failure():
    client = Client({"broken": ck.KafkaError.UNKNOWN})
    with pytest.raises(ServerError):
        facts_of(client).policies(["broken"])
