"""What libraries and the operating system raise at the other edges (tails, futures of the admin
client, the Kubernetes API, files) is counted or translated, and it is over again afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import httpx
import pytest
import structlog
import yaml

from offsetwatch import config
from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.clients.http import auth
from offsetwatch.clients.kafka import journal_topic
from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.kafka.journal_topic import LeaderElection
from offsetwatch.clients.kubernetes import access as kube_access
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.config import Auth
from offsetwatch.daemon import run, state_dir
from offsetwatch.daemon.state_dir import StateDir
from offsetwatch.daemon.supervisor import Supervisor
from offsetwatch.decode.connect_topics import decode_config, decode_status
from offsetwatch.errors import ClientError, ConfigError, MalformedResponse
from offsetwatch.ingest.connect_rest import ConnectorsPoll, poll_connectors
from offsetwatch.ingest.tail import Tail
from offsetwatch.ingest.topic_readers import (
    ListingTopicReader,
    MirrorMakerTopicReader,
    OffsetSyncsTopicReader,
    SourceOffsetsTopicReader,
    TopicReader,
    _decode_checkpoint_record,
    _decode_heartbeat_record,
)
from offsetwatch.ingest.unreadable_partitions import OpenTransactions
from offsetwatch.model.observations import (
    CONNECT_REST,
    TAIL,
    InputFailed,
    InputId,
    InputSucceeded,
    SourceRecord,
    TailRead,
)
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.remedy.drivers.strimzi.resources import (
    KAFKA_CONNECTS,
    ConnectClusterResource,
    find_cluster_resources,
    find_connector_resource,
    list_connector_resources,
)
from tests.fakes.clock import VirtualClock
from tests.fakes.kafka import FakeAdmin, FakeKafka, FakeReader
from tests.unit.daemon.test_supervisor import SURPRISES
from tests.unit.daemon.test_supervisor_library_errors import (
    HTTP,
    KAFKA,
    Watched,
    fails_and_recovers,
    named,
    subclasses,
)
from tests.unit.ingest.driven_tails import Following, Story, whole


def _kind(error: Exception) -> type[ClientError]:
    return type(client_error_from("east", error.args[0]))


TOPIC = KafkaTopic("east", "connect-offsets")
# One of each kind that the errors of librdkafka fall into, and one of no kind.
LIBRARY = [
    next(error for error in KAFKA if type(error) is ck.KafkaException and _kind(error) is kind)
    for kind in sorted(
        {_kind(error) for error in KAFKA if type(error) is ck.KafkaException}, key=str
    )
]
FILES = [
    *(kind(13, "injected") for kind in subclasses(OSError) if kind.__module__ == "builtins"),
    OSError(28, "No space left on device"),
    OSError(30, "Read-only file system"),
    OSError(122, "Disk quota exceeded"),
    *SURPRISES,
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


# --- tails ----------------------------------------------------------------------------------------


class _Consumer:
    """librdkafka's consumer of a FakeKafka, which raises at one of its calls."""

    def __init__(self, reader: FakeReader, fail: dict[str, Exception]) -> None:
        self._reader = reader
        self._fail = fail
        self._waiting: list[ck.Message] = []

    def _raise(self, call: str) -> None:
        if call in self._fail:
            raise self._fail[call]

    def assign(self, expected: list[ck.TopicPartition]) -> None:
        self._raise("assign")
        self._reader.assign(
            {
                TopicPartition(partition.topic, partition.partition): partition.offset
                for partition in expected
            }
        )

    def poll(self, timeout_s: float) -> ck.Message | None:
        self._raise("poll")
        self._waiting += self._reader.read(1000, timeout_s)
        return self._waiting.pop(0) if self._waiting else None

    def consume(self, _: int, __: float) -> list[ck.Message]:
        self._raise("consume")
        result, self._waiting = self._waiting, []
        return result

    def position(self, expected: list[ck.TopicPartition]) -> list[ck.TopicPartition]:
        self._raise("position")
        partition = [TopicPartition(item.topic, item.partition) for item in expected]
        result = self._reader.positions(partition)
        return [ck.TopicPartition(TOPIC.topic, index, offset) for index, offset in result.items()]

    def close(self) -> None:
        self._raise("close")


class _Admin(FakeAdmin):
    fail: dict[str, Exception]

    def shape(self, topic: str) -> tuple[str, int]:
        if "shape" in self.fail:
            raise self.fail["shape"]
        return super().shape(topic)

    def readable_ends(self, partitions: Any, **more: Any) -> Any:
        if "ends" in self.fail:
            raise self.fail["ends"]
        return super().readable_ends(partitions, **more)


class _Story:
    """A supervised tail. `fail` holds what its calls raise; it ends once it has recovered."""

    def __init__(self, call: str, error: Exception) -> None:
        self.call, self.error = call, error
        self.kafka = FakeKafka("east", VirtualClock())
        self.kafka.create(TOPIC.topic, 2)
        self.kafka.produce(TOPIC.topic, b'["files",{"filename":"/a"}]', b'{"position":1}')
        self.fail: dict[str, Exception] = {}
        self.watched = Watched()
        self.watched.inputs = type(self.watched.inputs)({TAIL: 20.0, CONNECT_REST: 60.0})
        self.failed = 0
        self.recovered = False
        self.rounds = 0
        self.admin = _Admin(self.kafka)
        self.admin.fail = self.fail
        if call in {"open", "assign"}:
            self.fail[call] = error

    def run(self) -> None:
        tail = Tail(
            TOPIC,
            admin=self.admin,
            open_reader=self._open,
            transactions=OpenTransactions(lambda: FakeReader(self.kafka), self.kafka.clock),
            role_of=SourceOffsetsTopicReader,
            put=self._put,
            stopped=self._stopped,
            clock=self.kafka.clock,
        )
        supervisor = Supervisor(self._put, self.kafka.clock.now)
        supervisor.keep("tail", tail.run, self._stopped, lambda: [tail.input_id])

    def _open(self) -> TailReader:
        if "open" in self.fail:
            raise self.fail["open"]
        reader = TailReader.__new__(TailReader)  # without a client, which takes milliseconds
        reader.name, reader._errors = "east", []
        reader._consumer = _Consumer(FakeReader(self.kafka), self.fail)
        return reader

    def _put(self, batch: Any, _timeout_s: float = 0.0) -> bool:
        for tail in batch:
            if isinstance(tail, InputFailed):
                self.failed += 1
                self.fail.clear()
            elif isinstance(tail, TailRead) and tail.caught_up:
                self.recovered = self.failed > 0 and tail.behind == 0
                if not self.failed:
                    self.fail[self.call] = self.error
                    self.kafka.produce(TOPIC.topic, b'["f",{"filename":"/a"}]', b'{"position":2}')
        return True

    def _stopped(self, seconds: float) -> bool:
        self.rounds += 1
        assert self.rounds < 500, "it does not recover"
        self.kafka.clock.advance(seconds)
        return self.recovered


@pytest.mark.parametrize("call", ["poll", "consume", "assign", "position", "open"])
@pytest.mark.parametrize("error", [*LIBRARY, *SURPRISES], ids=named)
def test_whatever_a_consumer_raises_is_counted_and_the_tail_goes_on(call: str, error: Exception):
    story = _Story(call, error)
    story.run()
    assert (story.failed > 0, story.recovered) == (True, True)


@pytest.mark.parametrize("call", ["shape", "ends"])
@pytest.mark.parametrize("error", SURPRISES, ids=named)
def test_whatever_a_question_of_a_tail_raises_is_counted_too(call: str, error: Exception):
    story = _Story(call, error)
    story.run()
    assert (story.failed > 0, story.recovered) == (True, True)


ROLES: dict[str, Callable[[], TopicReader]] = {
    "offsets": SourceOffsetsTopicReader,
    "syncs": OffsetSyncsTopicReader,
    "configs": lambda: ListingTopicReader(decode_config),
    "status": lambda: ListingTopicReader(decode_status),
    "checkpoints": lambda: MirrorMakerTopicReader(_decode_checkpoint_record),
    "heartbeats": lambda: MirrorMakerTopicReader(_decode_heartbeat_record),
}
HUGE = b"x" * 1_000_000
ODD = {
    "nothing": {},
    "no key": {"value": b"{}"},
    "no value": {"key": b'["files",{"filename":"/a"}]'},
    "no place": {"partition": -1, "offset": -1001, "key": b"k", "value": b"v"},
    "negative partition": {"partition": -1, "key": b"k", "value": b"v"},
    "negative offset": {"offset": -1001, "key": b'["f",{"a":1}]', "value": b'{"p":1}'},
    "no timestamp": {"timestamp": (0, -1), "key": b'["f",{"a":1}]', "value": b'{"p":1}'},
    "huge timestamp": {"timestamp": (1, 2**62), "key": b'["f",{"a":1}]', "value": b'{"p":1}'},
    "empty": {"key": b"", "value": b""},
    "not UTF-8": {"key": b"\xff\xfe", "value": b"\xff"},
    "a text for a key": {"key": "status-connector-a", "value": "{}"},
    "huge header": {"headers": [("h", HUGE)], "key": b'["f",{"a":1}]', "value": b'{"p":1}'},
    "a header without a value": {"headers": [("h", None)], "key": b'["f",{"a":1}]', "value": b"{}"},
    "huge key": {"key": HUGE, "value": HUGE},
    "deep": {"key": b"[" * 100_000, "value": b"[" * 100_000},
}


@pytest.mark.parametrize("role", ROLES.values(), ids=ROLES)
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_no_message_is_too_odd_for_a_role(role: Callable[[], TopicReader], odd: dict[str, Any]):
    fields = {"topic": TOPIC.topic, "partition": 0, "offset": 3, "timestamp": (1, 1), **odd}
    reader = role()
    message = ck.Message(**fields)
    reader.fold([message])
    records, undecodable = reader.folded()
    assert len(records) + undecodable.total() <= 1
    records, undecodable = reader.live([message])
    assert len(records) + undecodable.total() <= 1


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("when", ["at first", "live"])
def test_no_message_is_too_odd_for_a_tail(odd: dict[str, Any], when: str):
    kafka = FakeKafka()
    kafka.create(TOPIC.topic, 2)
    kafka.produce(TOPIC.topic, b'["files",{"filename":"/a"}]', b'{"position":1}', partition=1)
    waiting = [ck.Message(**{"timestamp": (1, 1), **odd})]

    class Reader(FakeReader):
        def read(self, records_max: int, timeout_s: float) -> list[ck.Message]:
            result = super().read(records_max, timeout_s)
            if when == "at first" or following.observations:
                return [*(waiting.pop() for _ in range(len(waiting))), *result]
            return result

    following = Following(kafka, open_reader=lambda: Reader(kafka))

    def story() -> Story:
        yield whole
        kafka.produce(TOPIC.topic, b'["files",{"filename":"/a"}]', b'{"position":2}', partition=1)
        yield (
            lambda observed: (
                isinstance(observed, TailRead)
                and any(
                    isinstance(record, SourceRecord) and record.key.connector == "files"
                    for record in observed.records
                )
            )
        )

    following.run(story())
    assert not waiting


# --- futures of the admin client ------------------------------------------------------------------


@pytest.fixture(scope="module")
def admin() -> KafkaInspector:
    return KafkaInspector("east", {})


QUESTIONS: dict[str, tuple[str, Callable[[KafkaInspector], object]]] = {
    "shape": ("describe_topics", lambda admin: admin.shape("a")),
    "shapes": ("describe_topics", lambda admin: admin.shapes(["a"])),
    "topic_ids": ("describe_topics", lambda admin: admin.topic_ids(["a"])),
    "identities_now": ("describe_topics", lambda admin: admin.identities_now(["a"])),
    "topic_id_now": ("describe_topics", lambda admin: admin.topic_id_now("a")),
    "compacted": ("describe_configs", lambda admin: admin.compacted(["a"], refused={})),
    "policies": ("describe_configs", lambda admin: admin.policies(["a"])),
    "message_bytes_max": ("describe_configs", lambda admin: admin.message_bytes_max("a")),
    "offsets_at": (
        "list_offsets",
        lambda admin: admin.offsets_at({TopicPartition("a", 0): 1.0}),
    ),
}


class _FailingAdmin:
    """An admin client, one of whose calls raises at once or in its futures."""

    def __init__(self, error: Exception, *, at_once: bool) -> None:
        self._error = error
        self._at_once = at_once

    def _future(self) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(self._error)
        return future

    def _answer(self, keys: Any) -> Any:
        if self._at_once:
            raise self._error
        return {key: self._future() for key in keys}

    def describe_topics(self, _: Any, **__: Any) -> Any:
        return self._answer(["a"])

    def describe_configs(self, expected: Any, **_: Any) -> Any:
        return self._answer(expected)

    def list_offsets(self, expected: Any, **_: Any) -> Any:
        return self._answer(expected)

    def poll(self, _: float) -> int:
        return 0


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in its future"])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("error", LIBRARY, ids=named)
def test_whatever_an_admin_client_answers_is_an_error_of_ours(
    question: str,
    error: Exception,
    at_once: bool,
    admin: KafkaInspector,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(admin, "_opened", _FailingAdmin(error, at_once=at_once))
    try:
        result = QUESTIONS[question][1](admin)
    except ClientError:
        return
    values = result.values() if isinstance(result, dict) else (result,)
    assert all(value is None or isinstance(value, ClientError) for value in values) or not result


@pytest.mark.parametrize("error", [*SURPRISES, CancelledError()], ids=named)
def test_a_future_that_raises_anything_else_fails_its_input_and_no_other(
    error: Exception, admin: KafkaInspector, monkeypatch: pytest.MonkeyPatch
):
    watched, fail, east = Watched(), {}, InputId(CONNECT_REST, connect_cluster="east")

    def job() -> None:
        if fail:
            monkeypatch.setattr(admin, "_opened", _FailingAdmin(fail["now"], at_once=False))
            admin.shape("a")
            raise AssertionError("it was swallowed")
        watched.put((InputSucceeded(east, watched.clock.now()),))

    guarded = watched.supervisor.guard("facts", job, lambda: [east])
    fails_and_recovers(watched, guarded, east, fail, error)


class _Voter:
    """A consumer, one of whose calls raises."""

    def __init__(self, call: str, error: Exception) -> None:
        self._call, self._error = call, error

    def subscribe(self, _: list[str], **__: Any) -> None:
        if self._call == "subscribe":
            raise self._error

    def poll(self, _: float) -> None:
        raise self._error


@pytest.mark.parametrize("call", ["subscribe", "poll"])
@pytest.mark.parametrize("error", LIBRARY, ids=named)
def test_whatever_an_election_raises_is_an_error_of_ours(
    call: str, error: Exception, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journal_topic, "create_client", lambda *_: _Voter(call, error))
    with pytest.raises(ClientError):
        LeaderElection("east", {}, "journal", session_s=10.0).chosen(0.0)


# --- Kubernetes -----------------------------------------------------------------------------------

_OURS = (httpx.TransportError, OSError, httpx.InvalidURL)
TRANSLATED = [error for error in HTTP if isinstance(error, _OURS)]


@pytest.mark.parametrize("error", TRANSLATED, ids=named)
def test_whatever_the_kubernetes_api_does_is_an_error_of_ours(error: Exception):
    def answer(_: httpx.Request) -> httpx.Response:
        raise error

    access = kube_access.KubernetesAccess("http://kubernetes.test")
    reader = KubeReader(access, transport=httpx.MockTransport(answer))
    for ask in (
        lambda: reader.get("/api"),
        lambda: reader.all("/api"),
        lambda: reader.config_map("a", "b"),
        lambda: reader.secret("a", "b"),
        lambda: reader.may("get", "", "secrets", "a"),
        lambda: reader.resources("kafkaconnectors", "a"),
    ):
        with pytest.raises(ClientError):
            ask()


@pytest.mark.parametrize("error", FILES, ids=named)
def test_a_token_that_cannot_be_read_is_an_error_of_ours(
    error: Exception, monkeypatch: pytest.MonkeyPatch
):
    def read(_: Path) -> str:
        raise error

    monkeypatch.setattr(kube_access, "read_secret", read)
    access = kube_access.KubernetesAccess("http://kubernetes.test", token_file=Path("token"))
    own = isinstance(error, (*_OURS, ValueError, httpx.DecodingError))
    expected = ClientError if own else type(error)
    with pytest.raises(expected):
        kube_access.send_kubernetes_request(access, "GET", "/api")


ODD_VALUES: list[Any] = [None, 0, "x", True, [], [1], {"x": 1}, 1.5]
PARTS = (
    *("status", "metadata", "spec", "data", "versions", "items"),
    *("metadata.labels", "metadata.annotations", "metadata.continue", "metadata.name"),
)


def _object(part: str, value: Any) -> dict[str, Any]:
    """An object of Kubernetes, one part of which is odd."""
    built: dict[str, Any] = {"metadata": {"name": "a"}, "versions": [{"version": "v1"}]}
    outer, _, inner = part.partition(".")
    if inner:
        built[outer][inner] = value
    else:
        built[outer] = value
    return built


@pytest.mark.parametrize("value", ODD_VALUES, ids=repr)
@pytest.mark.parametrize("part", PARTS)
def test_no_object_of_kubernetes_is_too_odd(part: str, value: Any):
    """As an answer, and as one item of a list."""
    odd = _object(part, value)
    pages = iter(range(3))

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.query.startswith(b"limit") and part != "metadata.continue":
            return httpx.Response(200, json={"items": [odd]})
        if part == "metadata.continue" and next(pages, None) is None:
            return httpx.Response(500)
        return httpx.Response(200, json={"items": [], **odd})

    access = kube_access.KubernetesAccess("http://kubernetes.test")
    reader = KubeReader(access, transport=httpx.MockTransport(answer))
    cluster = ConnectClusterResource(KAFKA_CONNECTS, {})
    for ask in (
        reader.strimzi_version,
        lambda: reader.all("/api"),
        lambda: reader.config_map("a", "b"),
        lambda: reader.may("get", "", "secrets", "a"),
        lambda: [item.unmanaged for item in find_cluster_resources(reader, "a", "b")],
        lambda: list_connector_resources(reader, cluster, "a", "b"),
        lambda: find_connector_resource(reader, cluster, "a", "b", "c"),
    ):
        with suppress(ClientError):
            ask()


def test_an_item_of_a_list_that_is_no_object_is_an_error_of_ours():
    answer = httpx.MockTransport(lambda _: httpx.Response(200, json={"items": [1]}))
    reader = KubeReader(kube_access.KubernetesAccess("http://kubernetes.test"), transport=answer)
    with pytest.raises(MalformedResponse, match="no object"):
        reader.all("/api")


@pytest.mark.parametrize("value", ODD_VALUES, ids=repr)
@pytest.mark.parametrize(
    "part",
    [
        *("contexts", "clusters", "users", "current-context"),
        *("user.token", "user.tokenFile", "user.client-key-data", "user.client-certificate"),
        *("cluster.server", "cluster.certificate-authority", "context.namespace"),
    ],
)
def test_no_kubeconfig_is_too_odd(part: str, value: Any, tmp_path: Path):
    sections: dict[str, Any] = {
        "context": {"cluster": "c", "user": "u"},
        "cluster": {"server": "http://kubernetes.test"},
        "user": {"token": "t"},
    }
    outer, _, inner = part.partition(".")
    if inner:
        sections[outer][inner] = value
    document: dict[str, Any] = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": sections["context"]}],
        "clusters": [{"name": "c", "cluster": sections["cluster"]}],
        "users": [{"name": "u", "user": sections["user"]}],
    }
    if not inner:
        document[outer] = value
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={}))
    with suppress(ConfigError, ClientError):
        access = kube_access.find_kubernetes_access(tmp_path / "config")
        KubeReader(access, transport=transport).get("/api")


LONG = "/" + "x" * 5000
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "nothing": {},
    "an empty HOME": {"HOME": ""},
    "a long HOME": {"HOME": LONG},
    "a file for HOME": {"HOME": "/proc/self/mem"},
    "separators alone": {"KUBECONFIG": ":::"},
    "a long kubeconfig": {"KUBECONFIG": LONG},
    "a folder for a kubeconfig": {"KUBECONFIG": "/proc/self"},
    "not UTF-8": {"KUBECONFIG": "\udcff"},
    "no host": {"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": "x"},
    "an address for a port": {
        "KUBERNETES_SERVICE_HOST": "[::1",
        "KUBERNETES_SERVICE_PORT": "tcp://10.0.0.1:443",
    },
    "a blank in a host": {
        "KUBERNETES_SERVICE_HOST": "a b",
        "KUBERNETES_SERVICE_PORT": "-1",
    },
}


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_no_environment_is_too_odd_to_search_for_kubernetes(
    environment: dict[str, str], tmp_path: Path
):
    for name in ("token", "ca.crt", "namespace"):
        (tmp_path / name).write_text("x")
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={}))
    with suppress(ConfigError, ClientError):
        access = kube_access.find_kubernetes_access(environment=environment, account=tmp_path)
        KubeReader(replace(access, ca=None), transport=transport).get("/api")


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", FILES, ids=named)
def test_whatever_a_token_file_does_fails_its_input_and_no_other(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "token").write_text("token")
    watched, fail, lab = Watched(), {}, InputId(CONNECT_REST, connect_cluster="lab")

    def read(_: Path) -> str:
        if fail:
            raise fail["now"]
        return "token"

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/":
            return httpx.Response(200, json={"version": "4.3.1", "kafka_cluster_id": "east"})
        return httpx.Response(200, json={} if request.url.query else [])

    monkeypatch.setattr(auth, "read_secret", read)
    reader = ConnectReader(
        "lab",
        ("http://lab",),
        60.0,
        auth=Auth(bearer_token_file=tmp_path / "token"),
        transport=httpx.MockTransport(answer),
    )
    poll = ConnectorsPoll(reader)
    job = watched.supervisor.guard(
        "connectors", lambda: watched.put(poll_connectors(poll, watched.clock)), lambda: [lab]
    )
    fails_and_recovers(watched, job, lab, fail, error)


@pytest.mark.parametrize("error", FILES, ids=named)
@pytest.mark.parametrize("call", ["fsync", "sync_folder"])
def test_what_cannot_be_saved_is_said_and_saved_again_later(
    call: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise error

    folder = StateDir(tmp_path)
    assert folder.save("judge", b"{}")
    with monkeypatch.context() as patched:
        patched.setattr(*((state_dir.os, call) if call == "fsync" else (state_dir, call)), fail)
        assert folder.save("judge", b"[]") is False
    assert folder.save("judge", b"[1]")
    assert state_dir.read_document(tmp_path, "judge") == b"[1]"
    folder.close()


@pytest.mark.parametrize("error", FILES, ids=named)
def test_what_cannot_be_recalled_is_put_aside_and_begun_again(error: Exception, tmp_path: Path):
    def refuse(_: bytes) -> None:
        raise error

    folder = StateDir(tmp_path)
    folder.save("judge", b"{}")
    folder.recall("judge", refuse)
    assert (tmp_path / "judge.damaged.json").read_bytes() == b"{}"
    folder.recall("judge", refuse)
    folder.close()


@pytest.mark.parametrize("error", FILES, ids=named)
def test_a_configuration_that_cannot_be_read_again_changes_nothing(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "offsetwatch.yaml"
    loaded = config.parse({"connect": [{"name": "lab", "url": "http://127.0.0.1:1"}]}, {})
    daemon = run.Daemon(loaded, path)

    def load(_: Path) -> None:
        raise error

    monkeypatch.setattr(config, "load", load)
    future = daemon.reload()
    thread = threading.Thread(target=daemon._answer_next)
    thread.start()
    assert future.result(timeout=30)
    thread.join()
    assert daemon._reloaded.successful is False
    assert daemon._config is loaded
