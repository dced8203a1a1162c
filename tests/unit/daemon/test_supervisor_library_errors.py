"""Every exception class of the libraries at an edge, raised there: nothing escapes, the input is
counted down, the other one is up, and the failed one is up again afterwards.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import confluent_kafka as ck
import httpx
import pytest
import structlog

from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.daemon.supervisor import RETRY_MAX_S, Supervisor
from offsetwatch.ingest.connect_rest import ConnectorsPoll, poll_connectors
from offsetwatch.ingest.log_ends_poll import LogEndsPoll
from offsetwatch.ingest.polls import Batch
from offsetwatch.model.observations import (
    CONNECT_REST,
    LOG_ENDS,
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
)
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.fakes.clock import VirtualClock
from tests.unit.daemon.test_supervisor import SURPRISES

OTHER = InputId(CONNECT_REST, connect_cluster="other")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """To draw the trace of an exchange takes a second."""
    with structlog.testing.capture_logs():
        yield


def subclasses(root: type[Exception]) -> Iterator[type[Exception]]:
    yield root
    for subclasse in root.__subclasses__():
        yield from subclasses(subclasse)


def build_exception(kind: type[Exception]) -> Exception:
    """One of this class, whatever its constructor wants."""
    error = kind.__new__(kind)
    Exception.__init__(error, "injected")
    return error


HTTP = [
    *(build_exception(kind) for kind in subclasses(httpx.HTTPError)),
    *(build_exception(kind) for kind in subclasses(httpx.StreamError)),
    *(build_exception(kind) for kind in subclasses(OSError) if kind.__module__ == "builtins"),
    httpx.InvalidURL("injected"),
    httpx.CookieConflict("injected"),
    ssl.SSLError("injected"),
    ssl.SSLCertVerificationError("injected"),
    *SURPRISES,
]
CODES = sorted(
    {
        value
        for name in dir(ck.KafkaError)
        if name.isupper() and isinstance(value := getattr(ck.KafkaError, name), int) and value
    }
)
KAFKA = [*(ck.KafkaException(ck.KafkaError(code)) for code in CODES), *SURPRISES]


class Watched:
    """Inputs as the book has them, told by a guarded job."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.inputs = Inputs({CONNECT_REST: 60.0, LOG_ENDS: 60.0})
        self.inputs.apply(InputSucceeded(OTHER, self.clock.now()))
        self.supervisor = Supervisor(self.put, self.clock.now)

    def put(self, batch: Batch) -> bool:
        for observed in batch:
            if isinstance(observed, InputSucceeded | InputFailed | InputRetired):
                self.inputs.apply(observed)
        return True

    def up(self, input_id: InputId) -> tuple[bool, int]:
        state = self.inputs.of(input_id)
        return state.up, state.errors.total()


def fails_and_recovers(
    watched: Watched, job: Any, input_id: InputId, fail: dict[str, Exception], error: Exception
) -> None:
    for expected_errors in (0, 1):
        fail.clear()
        job()
        assert watched.up(input_id) == (True, expected_errors)
        fail["now"] = error
        job()
        assert watched.up(input_id) == (False, expected_errors + 1)
        assert watched.up(OTHER) == (True, 0)
        watched.clock.advance(RETRY_MAX_S)
    fail.clear()
    job()
    assert watched.up(input_id) == (True, 2)


def named(error: Exception) -> str:
    code = error.args[0].name() if isinstance(error, ck.KafkaException) else ""
    return f"{type(error).__name__}{code}"


@pytest.mark.parametrize("error", HTTP, ids=named)
def test_whatever_http_raises_is_counted_and_over_again(error: Exception):
    watched, fail, lab = Watched(), {}, InputId(CONNECT_REST, connect_cluster="lab")

    def answer(request: httpx.Request) -> httpx.Response:
        if fail:
            raise fail["now"]
        if request.url.path == "/":
            return httpx.Response(200, json={"version": "4.3.1", "kafka_cluster_id": "east"})
        return httpx.Response(200, json={} if request.url.query else [])

    transport = httpx.MockTransport(answer)
    poll = ConnectorsPoll(ConnectReader("lab", ("http://lab",), 60.0, transport=transport))
    job = watched.supervisor.guard(
        "connectors", lambda: watched.put(poll_connectors(poll, watched.clock)), lambda: [lab]
    )
    fails_and_recovers(watched, job, lab, fail, error)


@pytest.mark.parametrize("error", KAFKA, ids=named)
def test_whatever_librdkafka_raises_is_counted_and_over_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
):
    watched, fail, east = Watched(), {}, InputId(LOG_ENDS, kafka="east")

    def list_topics(*_: Any, **__: Any) -> Any:
        if fail:
            raise fail["now"]
        return SimpleNamespace(topics={}, brokers={}, cluster_id="id")

    admin = KafkaInspector("east", {})
    listing = SimpleNamespace(list_topics=list_topics, poll=lambda _: 0)
    monkeypatch.setattr(admin, "_opened", listing)
    poll = LogEndsPoll(admin, watched.put, watched.clock)
    job = watched.supervisor.guard("log ends", lambda: poll.poll(EMPTY_SNAPSHOT), lambda: [east])
    fails_and_recovers(watched, job, east, fail, error)
