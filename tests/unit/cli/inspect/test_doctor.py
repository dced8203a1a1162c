"""What doctor says of a journal that replicas share, and of resources that are linked to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from lab.processes.ports import free_port
from offsetwatch.cli.common.own_inspection import OwnInspection
from offsetwatch.cli.inspect import doctor
from offsetwatch.cli.inspect.diagnosis import DoctorCheck, check_permissions, report_failed_check
from offsetwatch.cli.inspect.doctor import Doctor, compute_exit_code, format_report
from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.clients.kafka.inspector import ClusterFacts, TopicSettings
from offsetwatch.clients.kafka.journal_topic import RECORD_BYTES_MAX, JournalTopicRequirements
from offsetwatch.clients.kubernetes.access import KubernetesAccess
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.config import Config, Connect, Strimzi, load
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    MalformedResponse,
    NotFound,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.remedy.drivers.strimzi.resources import (
    CLUSTER_LABEL,
    USE_RESOURCES_ANNOTATION,
)
from offsetwatch.remedy.replicas.replica import ReplicaSettings
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.fakes.kube import Server
from tests.unit.cli.invocation import invoke
from tests.unit.state.worlds import FILE, World, source


@pytest.fixture
def silent_config(tmp_path: Path) -> Path:
    """A configuration in which nothing answers."""
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(
        f"""\
kafka:
  east: {{bootstrap: "127.0.0.1:{free_port()}", properties: {{socket.timeout.ms: "1000"}}}}
connect:
  - {{name: lab, kafka: east, url: "http://127.0.0.1:{free_port()}"}}
  - {{name: mm2, kafka: east, offsets_topic: mm2-offsets.west.internal}}
history: {{path: "{tmp_path}/a/b"}}
listen: "127.0.0.1:{free_port()}"
"""
    )
    return path


def test_doctor_where_nothing_answers_exits_7_and_still_reports_the_rest(
    silent_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("kafka.clients", "kafka.inspector"):
        monkeypatch.setattr(f"offsetwatch.clients.{module}.REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr("offsetwatch.daemon.monitor.STOP_TIMEOUT_S", 0.5)
    lines = Doctor(load(silent_config), timeout_s=2.0).lines()
    verdicts = {(line.about, line.check): line.verdict for line in lines}
    assert compute_exit_code(lines) == 7
    assert verdicts["kafka east", "reachable"] == "fail"
    assert verdicts["connect lab", "connectors"] == "fail"
    assert verdicts["connect mm2", "REST"] == "ok"
    assert verdicts["clock", "records"] == "unknown"
    assert verdicts["disk", "history.path"] == "ok"
    assert ("history", "extra") in verdicts
    assert not (silent_config.parent / "a").exists()


@pytest.fixture
def misspelt(tmp_path: Path) -> Path:
    """A configuration of two clusters, one with properties that librdkafka does not know."""
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(
        f"""\
kafka:
  east: {{bootstrap: "127.0.0.1:{free_port()}", properties: {{security.protcol: SSL}}}}
  west: {{bootstrap: "127.0.0.1:{free_port()}", properties: {{sasl.jaas.config: x}}}}
  north: {{bootstrap: "127.0.0.1:{free_port()}"}}
connect:
  - {{name: lab, kafka: east, url: "http://127.0.0.1:{free_port()}"}}
history: {{path: "{tmp_path}/a/b"}}
listen: "127.0.0.1:{free_port()}"
"""
    )
    return path


def test_check_names_every_property_that_librdkafka_refuses(misspelt: Path) -> None:
    done = invoke("check", "--config", str(misspelt))
    assert done.returncode == 2
    assert "kafka.east.properties.security.protcol: librdkafka has no such prop" in done.stderr
    assert "kafka.west.properties.sasl.jaas.config: a property of Java clients" in done.stderr


def test_doctor_says_it_in_a_line_and_goes_on_with_the_others(
    misspelt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("kafka.clients", "kafka.inspector"):
        monkeypatch.setattr(f"offsetwatch.clients.{module}.REQUEST_TIMEOUT_S", 0.5)
    lines = Doctor(load(misspelt), timeout_s=10.0).lines()
    results = {(check.about, check.check): check for check in lines}
    for about in ("kafka east", "kafka west"):
        line = results[about, "reachable"]
        assert (line.verdict, line.unreachable) == ("fail", False)
        assert line.found.startswith("settings: ")
        assert "properties" in (line.advice or "")
    assert results["kafka north", "reachable"].unreachable
    assert results["connect lab", "connectors"].verdict == "fail"
    assert results["disk", "history.path"].verdict == "ok"


def test_no_verb_calls_such_a_cluster_unreachable(misspelt: Path) -> None:
    done = invoke("status", "--config", str(misspelt))
    assert done.returncode == 2
    assert "settings: " in done.stderr


def test_a_surprise_in_one_question_does_not_hide_the_others(silent_config: Path) -> None:
    def surprises():
        raise OverflowError("x")
        yield

    doctor = Doctor(load(silent_config), timeout_s=0.1)
    (line,) = doctor._all([("kafka odd", surprises), ("kafka east", lambda: iter(()))])
    assert (line.about, line.verdict, line.found) == (
        "kafka odd",
        "fail",
        "unexpected OverflowError",
    )


@pytest.mark.parametrize(
    "error", [MalformedResponse("lab", "an HTML page"), NotFound("lab", "HTTP 404")]
)
def test_doctor_says_what_to_do_where_something_else_than_a_worker_answers(
    error: ClientError, silent_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_reader: ConnectReader) -> bytes:
        raise error

    monkeypatch.setattr("offsetwatch.clients.connect.reader.ConnectReader.root", refuse)
    loaded = load(silent_config)
    (line,) = Doctor(loaded, timeout_s=0.5)._check_worker(loaded.connect[0], "http://worker:1")
    assert line.advice is not None
    assert "with the path that a proxy puts before it" in line.advice


def test_a_wrong_file_is_a_mistake_and_no_examination(tmp_path: Path) -> None:
    assert invoke("doctor", "--config", str(tmp_path / "none.yaml")).returncode == 2


def test_a_question_that_takes_too_long_does_not_hide_the_others(
    silent_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    release = threading.Event()
    doctor = Doctor(load(silent_config), timeout_s=0.1)

    def hangs():
        release.wait(30)
        yield from ()

    try:
        lines = list(doctor._all([("kafka slow", hangs), ("kafka east", lambda: iter(()))]))
    finally:
        release.set()
    (line,) = lines
    assert (line.about, line.verdict, line.unreachable) == ("kafka slow", "fail", True)


def test_all_phases_together_keep_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every phase takes all the time that it gets, on a clock of the test."""
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(
        """\
kafka: {east: {bootstrap: "127.0.0.1:1"}}
connect: [{name: lab, kafka: east, url: "http://127.0.0.1:1"}]
sources: [{name: lines, kind: file, folder: /tmp, connectors: [{connect: lab, include: [lines]}]}]
remedy: {mode: propose, quarantine: {kafka: east, topic: q}}
"""
    )
    now, phases = [0.0], list[str]()

    def spend(requests: Iterable[tuple[str, object]], timeout_s: float) -> list[tuple[str, object]]:
        names = [name for name, _ in requests]
        phases.extend(names)
        now[0] += timeout_s if names else 0.0
        return []

    @contextmanager
    def inspect(_config: Config, timeout_s: float) -> Iterator[OwnInspection]:
        phases.append("inspection")
        now[0] += timeout_s
        yield OwnInspection(EMPTY_SNAPSHOT, ())

    monkeypatch.setattr(doctor, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(doctor, "ask_all", spend)
    monkeypatch.setattr(doctor, "inspect_clusters", inspect)
    asked = Doctor(load(path), timeout_s=8.0)
    asked._clusters["east"] = ClusterFacts("id", 1, {})  # it answered
    asked.lines()
    assert phases == [
        *("kafka east", "connect lab", "quarantine east/q", "inspection"),
        *("source lines", "kafka east"),
    ]
    assert now[0] == pytest.approx(8.0)


def test_what_fails_stands_first_within_100_columns_and_each_says_what_to_do() -> None:
    lines = [
        DoctorCheck("history", "extra", "ok", "pyspark and java are there"),
        DoctorCheck("catch-up", "Kafka cluster east", "fail", "not read: log ends", "see above"),
        DoctorCheck("clock", "records", "unknown", "no record was read"),
        DoctorCheck("kafka west", "topic ids", "warn", "topics have no ids", "upgrade " * 30),
        report_failed_check(
            "kafka east", "reachable", TargetUnreachable("east", "nothing listens at [red]b:1")
        ),
    ]
    text = format_report("a.yaml", lines)
    assert max(map(len, text.splitlines())) <= 100
    assert text.splitlines()[0] == "a.yaml: fail (2 fail, 1 warn, 1 unknown, 1 ok)"
    assert text.splitlines()[1].startswith("FAIL    kafka east, reachable: unreachable: nothing")
    assert "[red]b:1" in text
    assert (
        text.index("-> check that it runs")
        < text.index("catch-up")
        < text.index("WARN")
        < text.index("unknown clock")
    )
    assert text.index("unknown clock") < text.index("ok      history")


@pytest.mark.parametrize(
    "kind",
    [TargetUnreachable, ResponseTimeout, AccessDenied, NotFound, MalformedResponse, ClientError],
)
def test_no_failure_is_without_advice(kind: type[ClientError]) -> None:
    assert report_failed_check("kafka east", "reachable", kind("east", "x")).advice


def test_a_misspelt_topic_is_reported_with_the_name_that_is_there() -> None:
    shapes = {"conect-offsets": NotFound("east", "Unknown topic")}
    there = ("connect-offsets", "orders")
    (line,) = check_permissions("kafka east", shapes, {}, there)
    assert "did you mean connect-offsets?" in line.found


def test_a_topic_that_rest_replaces_was_not_read_to_its_end(silent_config: Path) -> None:
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail_failed("not_found")
    world.now += 60.0
    world.polled("files", (FILE, {"position": 30}))
    lines = list(Doctor(load(silent_config), timeout_s=0.1)._check_inputs(world.snapshot()))
    (line,) = (check for check in lines if (check.about, check.check) == ("catch-up", "inputs"))
    assert (line.verdict, line.found.partition(";")[0]) == (
        "warn",
        "not read: topic east/connect-offsets",
    )


# --- doctor remediation --------------------------------------------------------------------------

ACCESS = KubernetesAccess(url="http://kubernetes.test", token="some-token")
LINKED = Connect(
    name="lab",
    kafka="east",
    url="http://127.0.0.1:9",
    strimzi=Strimzi(namespace="kafka", name="pipes"),
)


@pytest.fixture
def server() -> Server:
    built = Server()
    built.resource["metadata"]["labels"] = {CLUSTER_LABEL: "pipes"}
    built.cluster = {
        "metadata": {
            "name": "pipes",
            "namespace": "kafka",
            "annotations": {USE_RESOURCES_ANNOTATION: "true"},
        }
    }
    return built


def check_resource(server: Server, *, acts: bool = True) -> list[DoctorCheck]:
    read = KubeReader(ACCESS, transport=httpx.MockTransport(server))
    return list(doctor._check_resource(read, LINKED, acts=acts))


def verdicts(lines: list[DoctorCheck]) -> list[tuple[str, str]]:
    return [(line.check, line.verdict) for line in lines]


def test_what_can_be_changed_is_said(server: Server):
    result = check_resource(server)
    assert verdicts(result) == [("strimzi", "ok"), ("strimzi rights", "ok")]
    assert "KafkaConnect kafka/pipes, 1 connector" in result[0].found


@pytest.mark.parametrize(("acts", "verdict"), [(True, "warn"), (False, "ok")])
def test_rights_that_are_missing_matter_where_remedies_are_made(
    server: Server, acts: bool, verdict: str
):
    server.denied = {"patch configmaps"}
    result = check_resource(server, acts=acts)
    assert verdicts(result)[-1] == ("strimzi rights", verdict)
    assert "patch configmaps" in result[-1].found
    assert (result[-1].advice is not None) is acts


def test_what_a_repository_owns_is_named(server: Server):
    server.resource["metadata"]["annotations"] = {"argocd.argoproj.io/tracking-id": "x"}
    assert ("strimzi", "warn") in verdicts(check_resource(server))
    assert any("GitOps owns c" in line.found for line in check_resource(server))


def test_a_cluster_whose_connectors_no_resource_owns_is_linked_by_mistake(server: Server):
    assert server.cluster is not None
    server.cluster["metadata"]["annotations"] = {}
    assert verdicts(check_resource(server)) == [("strimzi", "fail")]


def test_a_resource_that_is_not_there_is_an_answer_of_its_own(server: Server):
    server.cluster = None
    with pytest.raises(NotFound, match="kafka/pipes is not there"):
        check_resource(server)


REPLICAS = ReplicaSettings(
    "east", {}, JournalTopicRequirements("journal", 3, 2), name="a", session_s=6.0
)
FIT = TopicSettings(
    topic_id="some-id",
    partitions=1,
    replication=3,
    compacted=False,
    retention_ms=-1,
    retention_bytes=-1,
    message_bytes_max=RECORD_BYTES_MAX,
    in_sync_min=2,
    appended=False,
)


@pytest.mark.parametrize(
    ("topic", "verdict", "advice"),
    [
        (None, "fail", "journal create"),
        (replace(FIT, in_sync_min=1), "fail", "high-availability"),
        (FIT, "ok", ""),
    ],
)
def test_the_journal_has_to_be_there_and_fit(
    monkeypatch: pytest.MonkeyPatch, topic: TopicSettings | None, verdict: str, advice: str
):
    monkeypatch.setattr(doctor, "read_journal_topic", lambda *_: topic)
    (line,) = doctor.check_journal(REPLICAS)
    assert (line.check, line.verdict) == ("topic", verdict)
    assert advice in (line.advice or "")


@pytest.mark.parametrize("problems", [(), ("it is compacted", "it limits retention by size")])
def test_a_quarantine_that_would_refuse_a_copy_is_named(problems: tuple[str, ...]):
    class Quarantine:
        name = "east/offsetwatch.quarantine"

        def problems(self) -> tuple[str, ...]:
            return problems

    results = [*doctor.check_quarantine(Quarantine())]
    assert {line.about for line in results} == {"quarantine east/offsetwatch.quarantine"}
    assert [line.verdict for line in results] == (["fail"] * len(problems) or ["ok"])
    assert all(any(problem in line.found for line in results) for problem in problems)
