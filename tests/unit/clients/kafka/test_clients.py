"""The Kafka clients against librdkafka's in-process broker, which speaks the real protocol.

What it cannot answer (describing topics and their configurations, groups, transactions, topics
that are deleted) is proved on real Kafka, in tests/real.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import confluent_kafka as ck
import pytest
from confluent_kafka import admin as ck_admin

from lab.cluster.certificates import Authority
from offsetwatch.clients.kafka import log_bounds
from offsetwatch.clients.kafka.clients import (
    BEGINNING,
    KafkaAdmin,
    TailReader,
    find_refused_settings,
    parse_end_of_partition,
)
from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    LeaderNotAvailable,
    NotFound,
    ResponseTimeout,
    ServerError,
    SettingsRefused,
    TargetUnreachable,
    TopicChanged,
)
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition
from tests.fakes.broker import PARTITIONS, MockBroker
from tests.fakes.worker import serving
from tests.waiting import until

MISSING = TopicPartition("missing", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[MockBroker]:
    built = MockBroker()
    for number in range(5):
        built.produce("numbers", b"k", str(number).encode(), partition=number % 2)
    yield built
    built.stop()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ck.KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessDenied),
        (ck.KafkaError.GROUP_AUTHORIZATION_FAILED, AccessDenied),
        (ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED, AccessDenied),
        (ck.KafkaError.SASL_AUTHENTICATION_FAILED, AccessDenied),
        (ck.KafkaError._AUTHENTICATION, AccessDenied),
        (ck.KafkaError.UNKNOWN_TOPIC_OR_PART, NotFound),
        (ck.KafkaError._UNKNOWN_TOPIC, NotFound),
        (ck.KafkaError._UNKNOWN_PARTITION, NotFound),
        (ck.KafkaError._NOENT, NotFound),
        (ck.KafkaError.GROUP_ID_NOT_FOUND, NotFound),
        (ck.KafkaError.OFFSET_OUT_OF_RANGE, TopicChanged),
        (ck.KafkaError._AUTO_OFFSET_RESET, TopicChanged),
        (ck.KafkaError._LOG_TRUNCATION, TopicChanged),
        (ck.KafkaError._TIMED_OUT, ResponseTimeout),
        (ck.KafkaError.REQUEST_TIMED_OUT, ResponseTimeout),
        (ck.KafkaError._TRANSPORT, TargetUnreachable),
        (ck.KafkaError._ALL_BROKERS_DOWN, TargetUnreachable),
        (ck.KafkaError._RESOLVE, TargetUnreachable),
        (ck.KafkaError._SSL, TargetUnreachable),
        (ck.KafkaError.NOT_LEADER_FOR_PARTITION, LeaderNotAvailable),
        (ck.KafkaError.UNKNOWN, ServerError),
    ],
)
def test_every_error_of_librdkafka_becomes_one_that_says_what_to_do(code, expected):
    error = client_error_from("east", ck.KafkaError(code))
    assert type(error) is expected
    assert error.target == "east"


def test_topics_come_with_their_partitions_and_the_brokers_addresses(broker):
    topics, brokers = broker.admin().topics()
    assert topics["numbers"] == PARTITIONS
    assert brokers == {broker.bootstrap}


@pytest.mark.parametrize("partitions_per_request", [1, 3, 1000])
def test_bounds_leave_out_partitions_that_do_not_exist(broker, monkeypatch, partitions_per_request):
    monkeypatch.setattr(log_bounds, "PARTITIONS_PER_REQUEST", partitions_per_request)
    numbers = [TopicPartition("numbers", number) for number in (0, 1, 2, 99)]
    for stable in (True, False):
        assert broker.admin().bounds(numbers, stable=stable) == {
            numbers[0]: LogBounds(0, 3, 3),
            numbers[1]: LogBounds(0, 2, 2),
            numbers[2]: LogBounds(0, 0, 0),
        }


def test_bounds_of_missing_topics_alone_are_empty_and_no_failure(broker):
    assert broker.admin().bounds([MISSING], stable=True) == {}
    assert broker.admin().bounds([], stable=True) == {}


def test_readable_ends_refuse_a_missing_topic(broker):
    with pytest.raises(NotFound):
        broker.admin().readable_ends([MISSING])


def test_a_group_that_never_committed_has_no_offsets(broker):
    assert broker.admin().group_offsets("nobody", []) == {}


def test_a_committed_offset_that_is_refused_is_named_or_raised(broker, monkeypatch):
    admin = broker.admin()
    sound, sick = TopicPartition("numbers", 0), TopicPartition("numbers", 1)
    denied = ck.KafkaError(ck.KafkaError.TOPIC_AUTHORIZATION_FAILED)
    monkeypatch.setattr(admin._groups, "committed", lambda *_: {sound: 3, sick: denied})
    refused: dict[TopicPartition, ClientError] = {}
    assert admin.group_offsets("g", [sound, sick], refused=refused) == {sound: 3}
    assert {partition: type(error) for partition, error in refused.items()} == {sick: AccessDenied}
    with pytest.raises(AccessDenied):
        admin.group_offsets("g", [sound, sick])


def test_a_reader_gives_every_record_and_then_the_end_of_each_partition(broker):
    partitions = [TopicPartition("numbers", number) for number in range(PARTITIONS)]
    reader = broker.reader()
    reader.assign(dict.fromkeys(partitions, BEGINNING))
    values, ends = [], {}
    for _ in range(200):
        for message in reader.read(100, 0.05):
            end = parse_end_of_partition(message)
            if end is None:
                values.append(message.value())
            else:
                ends[message.partition()] = end
        if len(ends) == PARTITIONS:
            break
    assert sorted(values) == [b"0", b"1", b"2", b"3", b"4"]
    assert ends == {0: 3, 1: 2, 2: 0, 3: 0}
    assert reader.positions(partitions) == {0: 3, 1: 2}
    reader.close()


def test_a_reader_that_stands_beyond_the_end_of_a_log_says_so_and_does_not_start_over(broker):
    reader = broker.reader()
    reader.assign({TopicPartition("numbers", 0): 50})
    events = []
    for _ in range(200):
        events += reader.read(100, 0.05)
        if events:
            break
    with pytest.raises(TopicChanged):
        parse_end_of_partition(events[0])
    reader.close()


def test_a_property_that_librdkafka_does_not_know_is_an_error_of_ours():
    for make in (KafkaAdmin, TailReader):
        with pytest.raises(SettingsRefused, match="no\\.such\\.thing"):
            make("east", {"bootstrap.servers": "127.0.0.1:1", "no.such.thing": "x"})


SASL = {"security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("properties", "answer"),
    [
        (
            {"security.protcol": "SSL"},
            "security.protcol: librdkafka has no such property; did you mean security.protocol?",
        ),
        ({"ssl.truststore.location": "/x"}, "ssl.truststore.location: a property of Java clients"),
        ({"ssl.truststore.password": "x"}, "ssl.truststore.password: a property of Java clients"),
        ({"sasl.jaas.config": "x"}, "sasl.jaas.config: a property of Java clients"),
        ({**SASL, "sasl.mechanism": "AWS_MSK_IAM"}, "write OAUTHBEARER, and oauth_hook"),
        ({**SASL, "sasl.mechanisms": "GSSAPI"}, "sasl.mechanisms: GSSAPI (Kerberos) is not in"),
        ({**SASL}, "sasl.mechanism: GSSAPI (Kerberos) is not in"),
        (
            {"security.protocol": "TLS"},
            "security.protocol: expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        ),
        (
            {**SASL, "sasl.mechanism": "scram-sha-256"},
            "sasl.mechanism: scram-sha-256 is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""},
            "ssl.endpoint.identification.algorithm: expected https, or none",
        ),
        ({"socket.timeout.ms": "5s"}, "socket.timeout.ms: expected a number from 10 to 300000"),
        ({"debug": "x"}, "debug: its value is refused; see CONFIGURATION.md of librdkafka"),
        ({**SASL, "sasl.mechanism": "PLAIN"}, "sasl.username and sasl.password must be set"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/nope"},
            "ssl.ca.location: there is no file /nope",
        ),
        ({"socket.timeout.ms": "soon"}, "socket.timeout.ms: its value is refused"),
        ({"error_cb": "x"}, "error_cb: a function of programs, which no text can be; leave it out"),
    ],
)
def test_settings_that_librdkafka_refuses_are_found_without_a_network(properties, answer):
    (result,) = find_refused_settings("east", {"bootstrap.servers": "127.0.0.1:1", **properties})
    assert isinstance(result, SettingsRefused)
    assert answer in result.detail
    for make in (KafkaAdmin, TailReader):
        if "error_cb" not in properties:  # where ours is put in its place
            with pytest.raises(SettingsRefused):
                make("east", {"bootstrap.servers": "127.0.0.1:1", **properties})


def test_all_that_librdkafka_refuses_is_found_at_once():
    copied = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "hunter2",
        "sasl.client.callback.handler.class": "x",
        "ssl.truststore.location": "/x.jks",
        "ssl.truststore.password": "hunter2",
        "linger.msec": "1",
    }
    results = find_refused_settings("east", copied)
    names = {error.detail.partition(": ")[0] for error in results}
    assert names == copied.keys() - {"security.protocol"}
    assert "hunter2" not in str(results)


def test_a_misspelt_user_name_is_one_mistake():
    login = {"sasl.mechanism": "PLAIN", "sasl.usrname": "ada", "sasl.password": "hunter2"}
    (found,) = find_refused_settings("east", {"security.protocol": "SASL_SSL", **login})
    assert "did you mean sasl.username?" in found.detail


@pytest.mark.parametrize(
    "properties", [{}, {"client.id": "x"}, {**SASL, "sasl.mechanism": "OAUTHBEARER"}]
)
def test_settings_that_are_right_or_wait_for_a_token_are_not_refused(properties):
    assert find_refused_settings("east", properties) == ()


def test_a_token_is_requested_only_where_a_mechanism_wants_one(monkeypatch):
    """librdkafka waits ten seconds for a callback that no mechanism calls."""
    made_with = []

    def client(settings):
        made_with.append("oauth_cb" in settings)
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(ck, "Consumer", client)
    monkeypatch.setattr(ck_admin, "AdminClient", client)
    for properties in ({}, {"sasl.mechanisms": "PLAIN"}, {"sasl.mechanism": " oauthbearer "}):
        assert find_refused_settings("east", properties) == ()
    assert made_with == [False, False, False, False, True, True]


def test_what_must_hold_for_a_reader_cannot_be_configured_away():
    reader = TailReader(
        "east",
        {"bootstrap.servers": "127.0.0.1:1", "isolation.level": "x", "group.id": "theirs"},
    )
    reader.close()


def test_an_event_that_is_neither_record_nor_end_is_raised():
    error = ck.KafkaError(ck.KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(NotFound):
        parse_end_of_partition(ck.Message(topic="t", partition=0, offset=0, error=error))


def test_a_group_that_we_may_not_see_keeps_no_record_from_us(monkeypatch):
    """librdkafka looks for the coordinator of a group that is never joined, and brokers that deny
    what nobody has allowed say no to that.
    """
    reader = TailReader("east", {"bootstrap.servers": "127.0.0.1:1"})
    denied = ck.KafkaError(ck.KafkaError.GROUP_AUTHORIZATION_FAILED)
    record = ck.Message(topic="t", partition=0, offset=0, value=b"v")
    reports = [ck.Message(topic=None, error=denied), record]

    class Consumer:
        def poll(self, _timeout_s: float) -> ck.Message | None:
            reader._errors.add(denied)
            return reports[0] if reports else None

        def consume(self, _records: int, _timeout_s: float) -> list[ck.Message]:
            return reports[1:]

    monkeypatch.setattr(reader, "_consumer", Consumer())
    assert reader.read(10, 0.1) == [record]
    reports.clear()
    assert reader.read(10, 0.1) == []
    topic = ck.KafkaError(ck.KafkaError.TOPIC_AUTHORIZATION_FAILED)
    reports.append(ck.Message(topic="t", partition=0, offset=0, error=topic))
    with pytest.raises(AccessDenied):
        parse_end_of_partition(*reader.read(10, 0.1))


def test_a_hook_is_queried_for_a_token_without_anyone_polling():
    requests = []

    def hook(config: str) -> tuple[str, float]:
        requests.append(config)
        return "head.body.signature", time.time() + 300

    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "scope=read",
        "oauth_cb": hook,
    }
    KafkaAdmin("east", settings)
    TailReader("east", settings).close()
    assert requests == ["scope=read", "scope=read"]


def test_a_broker_that_is_not_trusted_is_distinguished_from_one_that_is_away(tmp_path, monkeypatch):
    monkeypatch.setattr("offsetwatch.clients.kafka.clients.REQUEST_TIMEOUT_S", 2.0)
    own = Authority(tmp_path / "theirs").issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    properties = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(Authority(tmp_path / "ours").ca),
    }
    with serving(lambda *_: None, context) as worker:
        address = worker.url.removeprefix("https://")
        admin = KafkaAdmin("east", {**properties, "bootstrap.servers": address})
        with pytest.raises(TargetUnreachable, match=r"certificate of .* is not trusted"):
            admin.topics()
    admin = KafkaAdmin("east", {**properties, "bootstrap.servers": address})
    with pytest.raises(TargetUnreachable, match="refused"):
        admin.topics()


@pytest.mark.parametrize(
    "setting", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"]
)
def test_a_file_of_tls_that_is_not_there_is_named(setting: str, tmp_path: Path):
    path = str(tmp_path / "none.pem")
    properties = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "ssl", setting: path}
    with pytest.raises(SettingsRefused) as caught:
        TailReader("east", properties)
    assert caught.value.detail == f"{setting}: there is no file {path}"


def test_a_topic_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch):
    admin = KafkaAdmin("east", {"bootstrap.servers": "127.0.0.1:1"})

    def missing(_topics: object) -> None:
        raise NotFound("east", "Broker: Unknown topic or partition")

    monkeypatch.setattr(admin, "_describe_topics", missing)
    with pytest.raises(NotFound, match="topic connect-offsets: Broker: Unknown topic"):
        admin.shape("connect-offsets")
    admin.close()


def librdkafka_threads() -> set[str]:
    """Ids of the threads of this process that librdkafka has named."""
    results = set()
    for folder in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if (folder / "comm").read_text().startswith("rdk:"):
                results.add(folder.name)
    return results


def test_close_ends_every_thread_of_librdkafka(broker):
    before = librdkafka_threads()
    admin = KafkaAdmin("east", {"bootstrap.servers": broker.bootstrap})
    admin.topics()
    admin.bounds([TopicPartition("numbers", 0)], stable=True)
    own = librdkafka_threads() - before
    assert len(own) > 3  # of three clients
    admin.close()
    until(lambda: not own & librdkafka_threads(), "no client is left")


def test_a_partition_is_fetched_again_and_the_others_go_on(broker):
    parts = [TopicPartition("reopened", number) for number in range(PARTITIONS)]
    for number in (0, 1):
        broker.produce("reopened", b"k", b"old", partition=number)
    reader = broker.reader()
    try:
        reader.assign(dict.fromkeys(parts, BEGINNING))
        assert sorted(values_of(reader, 2)) == [(0, b"old"), (1, b"old")]
        reader.reopen({parts[1]: BEGINNING})
        broker.produce("reopened", b"k", b"new", partition=0)
        assert sorted(values_of(reader, 2)) == [(0, b"new"), (1, b"old")]
    finally:
        reader.close()


def values_of(reader: TailReader, count: int) -> list[tuple[int | None, bytes | None]]:
    results: list[tuple[int | None, bytes | None]] = []
    while len(results) < count:
        results += [
            (message.partition(), message.value())
            for message in reader.read(10, 1.0)
            if message.error() is None
        ]
    return results
