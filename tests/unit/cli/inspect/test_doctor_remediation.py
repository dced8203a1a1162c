"""What doctor says of a journal that replicas share, and of resources that are linked to."""

from __future__ import annotations

import httpx
import pytest

from offsetwatch.cli.inspect import doctor
from offsetwatch.cli.inspect.diagnosis import DoctorCheck
from offsetwatch.clients.kafka.inspector import TopicSettings
from offsetwatch.clients.kafka.journal_topic import RECORD_BYTES_MAX, JournalTopicRequirements
from offsetwatch.clients.kubernetes.access import KubernetesAccess
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.config import Connect, Strimzi
from offsetwatch.errors import NotFound
from offsetwatch.remedy.drivers.strimzi.resources import (
    CLUSTER_LABEL,
    USE_RESOURCES_ANNOTATION,
)
from offsetwatch.remedy.replicas.replica import ReplicaSettings
from tests.changed import replace
from tests.fakes.kube import Server

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


def told(server: Server, *, acts: bool = True) -> list[DoctorCheck]:
    read = KubeReader(ACCESS, transport=httpx.MockTransport(server))
    return list(doctor._check_resource(read, LINKED, acts=acts))


def verdicts(lines: list[DoctorCheck]) -> list[tuple[str, str]]:
    return [(line.check, line.verdict) for line in lines]


def test_what_can_be_changed_is_said(server: Server):
    result = told(server)
    assert verdicts(result) == [("strimzi", "ok"), ("strimzi rights", "ok")]
    assert "KafkaConnect kafka/pipes, 1 connector(s)" in result[0].found


@pytest.mark.parametrize(("acts", "verdict"), [(True, "warn"), (False, "ok")])
def test_rights_that_are_missing_matter_where_remedies_are_made(
    server: Server, acts: bool, verdict: str
):
    server.denied = {"patch configmaps"}
    result = told(server, acts=acts)
    assert verdicts(result)[-1] == ("strimzi rights", verdict)
    assert "patch configmaps" in result[-1].found
    assert (result[-1].advice is not None) is acts


def test_what_a_repository_owns_is_named(server: Server):
    server.resource["metadata"]["annotations"] = {"argocd.argoproj.io/tracking-id": "x"}
    assert ("strimzi", "warn") in verdicts(told(server))
    assert any("GitOps owns c" in line.found for line in told(server))


def test_a_cluster_whose_connectors_no_resource_owns_is_linked_by_mistake(server: Server):
    assert server.cluster is not None
    server.cluster["metadata"]["annotations"] = {}
    assert verdicts(told(server)) == [("strimzi", "fail")]


def test_a_resource_that_is_not_there_is_an_answer_of_its_own(server: Server):
    server.cluster = None
    with pytest.raises(NotFound, match="kafka/pipes is not there"):
        told(server)


WANTED = ReplicaSettings(
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
    (line,) = doctor.check_journal(WANTED)
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
