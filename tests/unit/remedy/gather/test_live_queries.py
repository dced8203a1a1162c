"""What remedy asks of clusters: that it keeps no connection that it does not need, and takes no
answer for a no that is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import httpx
import pytest

from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.config import Connect, Kafka
from offsetwatch.errors import ClientError, NotFound, RemoteRefusal, ResponseTimeout
from offsetwatch.remedy.drivers.common_steps import KafkaSource
from offsetwatch.remedy.gather import live_queries
from offsetwatch.remedy.gather.live_queries import IDLE_S, Brokers, ConnectClient
from tests.fakes.clock import VirtualClock


class _Admin:
    """Stands for a StorageAdmin."""

    made: list[_Admin]

    def __init__(self, name: str, _properties: Mapping[str, str]) -> None:
        self.name = name
        self.closed = False
        self.made.append(self)

    def cluster_id(self) -> str:
        return f"id of {self.name}"

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def admins(monkeypatch: pytest.MonkeyPatch) -> list[_Admin]:
    results: list[_Admin] = []
    monkeypatch.setattr(_Admin, "made", results, raising=False)
    monkeypatch.setattr(live_queries, "StorageAdmin", _Admin)
    return results


def test_idle_clients_are_closed_and_opened_again_at_the_next_request(
    admins: list[_Admin],
) -> None:
    clock = VirtualClock()
    clusters = {name: Kafka(bootstrap="localhost:9092") for name in ("east", "west")}
    brokers = Brokers(clusters, clock)
    brokers.close_idle()
    for name in clusters:
        assert brokers.cluster_id(name) == f"id of {name}"
    clock.advance(IDLE_S - 1)
    brokers.close_idle()
    assert brokers.cluster_id("east") == "id of east"
    assert [admin.name for admin in admins] == ["east", "west"]
    clock.advance(IDLE_S - 1)
    brokers.close_idle()
    assert not any(admin.closed for admin in admins)
    clock.advance(1)
    brokers.close_idle()
    assert all(admin.closed for admin in admins)
    assert brokers.cluster_id("west") == "id of west"
    assert [admin.name for admin in admins] == ["east", "west", "west"]


@pytest.mark.parametrize(
    "error", [ResponseTimeout("east", "no answer"), NotFound("east", "orders")]
)
def test_a_topic_that_is_not_described_in_time_is_not_known_to_be_gone(
    error: ClientError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def result(_self: KafkaInspector, _future: object) -> None:
        raise error

    monkeypatch.setattr(
        KafkaInspector, "_describe_topics", lambda _self, topics: dict.fromkeys(topics)
    )
    monkeypatch.setattr(KafkaInspector, "_result", result)
    cluster = Kafka(bootstrap="127.0.0.1:1")
    with pytest.raises(type(error)):
        Brokers({"east": cluster}).topic_id("east", "orders")
    with pytest.raises(type(error)):
        KafkaSource("east", cluster).topic_id("orders")


@pytest.mark.parametrize(
    ("version", "error"), [("3.4.1", RemoteRefusal), ("3.5.0", NotFound), ("4.3.1", NotFound)]
)
def test_a_worker_without_offsets_is_too_old_or_has_no_such_connector(version, error):
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/":
            return httpx.Response(200, json={"version": version, "commit": "c"})
        return httpx.Response(404, json={"error_code": 404, "message": "HTTP 404 Not Found"})

    connect = Connect.model_validate({"name": "lab", "kafka": "east", "url": "http://w:8083"})
    with closing(ConnectClient(connect, transport=httpx.MockTransport(answer))) as client:
        with pytest.raises(error) as raised:
            client.pairs("c")
        assert raised.type is error
    assert ("since Kafka 3.5" in str(raised.value)) == (error is RemoteRefusal)
