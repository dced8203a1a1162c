"""What an operator reads when no connection comes about: the cause, and the property to change."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from offsetwatch.clients.kafka import errors
from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clients.kafka.errors import ConnectionErrors, explain_failure
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.errors import AccessDenied, ClientError, ResponseTimeout, TargetUnreachable
from offsetwatch.model.topology import TopicPartition
from tests.fakes.broker import MockBroker

# The texts of librdkafka 2.15 with OpenSSL 3, against Kafka 4.3.1 and other listeners.
TEXTS = [
    (
        (
            "ssl://b:1/bootstrap: SSL handshake failed: Disconnected: SSL connection closed by "
            "peer: "
            "connecting to a PLAINTEXT broker listener? (after 2ms in state SSL_HANDSHAKE)"
        ),
        TargetUnreachable,
        "TLS handshake failed: the listener at b:1 does not speak TLS",
        "security.protocol",
    ),
    (
        (
            "ssl://b:1/bootstrap: SSL handshake failed: error:0A00010B:SSL routines::wrong version "
            "number (after 0ms in state SSL_HANDSHAKE)"
        ),
        TargetUnreachable,
        "TLS handshake failed: the listener at b:1 does not speak TLS",
        "security.protocol",
    ),
    (
        (
            "ssl://b:1/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate "
            "verify failed: broker certificate could not be verified, verify that ssl.ca.location "
            "is "
            "correctly configured or root CA certificates are installed (install ca-certificates "
            "package) (after 5ms in state SSL_HANDSHAKE)"
        ),
        TargetUnreachable,
        "the certificate of b:1 is not trusted",
        "ssl.ca.location",
    ),
    (
        (
            "ssl://b:1/2: SSL handshake failed: error:0A000086:SSL routines::certificate verify "
            "failed: hostname mismatch (after 5ms in state SSL_HANDSHAKE)"
        ),
        TargetUnreachable,
        "certificate of b:1 (broker 2, as it advertises itself) is for another host name",
        "ssl.endpoint.identification.algorithm",
    ),
    (
        "ssl://b:1/bootstrap: Receive failed: SSL error: tlsv13 alert certificate required",
        AccessDenied,
        "asks for one",
        "ssl.certificate.location",
    ),
    (
        (
            "b:1/bootstrap: Receive failed: Invalid response size 352518912 (0..100000000): "
            "increase "
            "receive.message.max.bytes (after 2ms in state APIVERSION_QUERY)"
        ),
        TargetUnreachable,
        "the listener at b:1 speaks TLS",
        "SSL or SASL_SSL",
    ),
    (
        (
            "b:1/bootstrap: Disconnected while requesting ApiVersion: might be caused by incorrect "
            "security.protocol configuration (connecting to a SSL listener?) or broker version is "
            "< "
            "0.10 (see api.version.request) (after 1ms in state APIVERSION_QUERY)"
        ),
        TargetUnreachable,
        "the listener at b:1 speaks TLS",
        "SSL or SASL_SSL",
    ),
    (
        (
            "b:1/bootstrap: Receive failed: Invalid response size 1213486160 (0..100000000): "
            "increase "
            "receive.message.max.bytes (after 2ms in state APIVERSION_QUERY)"
        ),
        TargetUnreachable,
        "the port at b:1 is no Kafka listener: it answers HTTP",
        "a Kafka listener",
    ),
    (
        (
            "sasl_plaintext://b:1/bootstrap: SASL PLAIN mechanism handshake failed: Broker: "
            "Request "
            "not valid in current SASL state: broker's supported mechanisms:  (after 0ms in state "
            "AUTH_HANDSHAKE)"
        ),
        AccessDenied,
        "the listener at b:1 has no SASL",
        "security.protocol",
    ),
    (
        (
            "sasl_ssl://b:1/bootstrap: SASL PLAIN mechanism handshake failed: Broker: Unsupported "
            "SASL mechanism: broker's supported mechanisms: SCRAM-SHA-256,SCRAM-SHA-512 (after 3ms "
            "in "
            "state AUTH_HANDSHAKE)"
        ),
        AccessDenied,
        "b:1 does not offer the SASL mechanism PLAIN; it offers SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism",
    ),
    (
        (
            "sasl_ssl://b:1/bootstrap: SASL authentication error: Authentication failed during "
            "authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512 (after "
            "308ms in state AUTH_REQ)"
        ),
        AccessDenied,
        (
            "b:1 refused the SASL credentials: Authentication failed during authentication due to "
            "invalid credentials with SASL mechanism SCRAM-SHA-512"
        ),
        "sasl.password",
    ),
    (
        (
            "b:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in "
            "state CONNECT)"
        ),
        TargetUnreachable,
        "nothing listens at b:1: connection refused",
        "address and port",
    ),
    (
        (
            "nohost.invalid:9092/bootstrap: Failed to resolve 'nohost.invalid:9092': Name or "
            "service "
            "not known (after 0ms in state CONNECT)"
        ),
        TargetUnreachable,
        "the host name of nohost.invalid:9092 cannot be resolved: Name or service not known",
        "DNS",
    ),
    (
        (
            "FAIL [rdkafka#producer-1] [thrd:[::1]:1/bootstrap]: [::1]:1/bootstrap: Disconnected: "
            "connection closed by peer: receive 0 after POLLIN (after 2ms in state "
            "APIVERSION_QUERY)"
        ),
        TargetUnreachable,
        "[::1]:1 closes each connection before it has answered: it speaks TLS, or is no Kafka",
        "SSL or SASL_SSL",
    ),
    (
        (
            "b:1/bootstrap: Connection setup timed out in state CONNECT (after 30028ms in state "
            "CONNECT, 1 identical error(s) suppressed)"
        ),
        TargetUnreachable,
        "no connection to b:1",
        "firewalls",
    ),
    (
        (
            "b:1/bootstrap: ApiVersionRequest failed: Local: Timed out: probably due to broker "
            "version < 0.10 (see api.version.request configuration) (after 10009ms in state "
            "APIVERSION_QUERY)"
        ),
        ResponseTimeout,
        "b:1 takes connections and does not answer",
        "frozen",
    ),
]


@pytest.mark.parametrize(
    ("text", "kind", "detail", "advice"),
    TEXTS,
    ids=[f"{item[2]} {number}" for number, item in enumerate(TEXTS)],
)
def test_the_cause_is_named_and_what_to_change(
    text: str, kind: type[ClientError], detail: str, advice: str
) -> None:
    failure = explain_failure(text)
    assert failure is not None
    assert failure.kind is kind
    assert detail in failure.detail
    assert advice in failure.advice
    assert "ms in state" not in failure.detail


@pytest.mark.parametrize(
    "text",
    [
        "Broker: Topic authorization failed",
        "3/3 brokers are down",
        "",
        "Local: Timed out",
        "a/b: c",
    ],
)
def test_what_is_of_no_connection_stays_as_it_is(text: str) -> None:
    assert explain_failure(text) is None


@contextmanager
def listener(answer: bytes | None) -> Iterator[str]:
    """A port where something that is not Kafka answers; None takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as served:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = served.accept()
                    with connection:
                        connection.recv(1000)
                        connection.sendall(answer or b"")

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{served.getsockname()[1]}"
        served.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("answer", "protocol", "expected"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "PLAINTEXT", "it answers HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "SSL", "does not speak TLS"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "PLAINTEXT", "speaks TLS"),
    ],
)
@pytest.mark.parametrize("question", ["topics", "cluster", "list_brokers"])
def test_each_question_says_why_there_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, protocol: str, expected: str, question: str
) -> None:
    for module in ("kafka.clients", "kafka.inspector"):
        monkeypatch.setattr(f"offsetwatch.clients.{module}.REQUEST_TIMEOUT_S", 1.0)
    with listener(answer) as address:
        properties = {"bootstrap.servers": address, "security.protocol": protocol}
        admin: KafkaAdmin = KafkaInspector("east", properties)
        with pytest.raises(ClientError, match=expected) as raised:
            getattr(admin, question)()
    assert raised.value.advice is not None


# --- fenced brokers ------------------------------------------------------------------------------

QUESTIONS = ("list_brokers", "topics", "cluster")

ASK = """
import sys

from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.errors import LeaderNotAvailable
from tests.fakes.fenced_broker import fenced_broker

with fenced_broker() as broker:
    kafka = KafkaInspector("east", {"bootstrap.servers": broker.address})
    ask = getattr(kafka, sys.argv[1])
    assert broker.address in str(ask())
    broker.fenced.set()
    try:
        print(ask())
    except LeaderNotAvailable as exc:
        print(exc)
"""


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_broker_that_knows_no_broker_is_no_answer(question: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ASK, question],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (
        0,
        "east: the broker that answers knows no broker of its cluster\n",
    ), ran.stderr


def test_addresses_come_with_one_topic_of_which_log_ends_were_read() -> None:
    broker = MockBroker()
    try:
        for topic in ("read", "other"):
            broker.produce(topic, b"k", b"v")
        kafka = broker.admin()
        before = kafka.list_brokers()
        assert sorted(kafka._logs.metadata(10.0).topics) == ["other", "read"]
        kafka.bounds((TopicPartition("read", 0),), stable=False)
        assert list(kafka._logs.metadata(10.0).topics) == ["read"]
        addresses, cluster_id = before
        assert kafka.list_brokers() == before
        assert addresses == {broker.bootstrap}
        assert cluster_id
    finally:
        broker.stop()


REFUSED = (
    "FAIL [thrd:b]: b:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection refused"
)


def test_failures_that_another_thread_logs_during_a_read_are_of_the_next_read(monkeypatch) -> None:
    """A moment that is compared logs another failure, as a thread of librdkafka's may just then."""
    failures = ConnectionErrors()
    line = logging.LogRecord("librdkafka", logging.ERROR, "", 0, REFUSED, (), None)
    more = [line]

    class Moment(float):
        def __ge__(self, other: float) -> bool:
            if more:
                failures.emit(more.pop())
            return super().__ge__(other)

    monkeypatch.setattr(errors.time, "monotonic", lambda: Moment(100.0))
    failures.emit(line)
    failures.emit(line)
    for _ in range(2):
        assert isinstance(failures.pop("east"), TargetUnreachable)
    assert failures.pop("east") is None
