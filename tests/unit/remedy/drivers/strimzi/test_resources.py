"""What speaks against changing a resource of Strimzi's."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from offsetwatch.clients.kubernetes.access import KubernetesAccess
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.config import Connect, Strimzi
from offsetwatch.errors import RemoteRefusal, ServerError
from offsetwatch.remedy.drivers.strimzi.resources import (
    BACKUP_ANNOTATION,
    CLUSTER_LABEL,
    OFFSETS_ANNOTATION,
    USE_RESOURCES_ANNOTATION,
    find_change_problem,
    find_cluster_resources,
    find_connector_resource,
    find_resource_problem,
)
from tests.fakes.kube import Server

ACCESS = KubernetesAccess(url="http://kubernetes.test", token="some-token")
AT = Strimzi(namespace="kafka", name="pipes")


def served(*, labels: dict[str, str] | None = None, notes: dict[str, str] | None = None) -> Server:
    server = Server()
    metadata: dict[str, Any] = server.resource["metadata"]
    metadata["labels"] = {CLUSTER_LABEL: "pipes", **(labels or {})}
    metadata["annotations"] = notes or {}
    server.cluster = {
        "apiVersion": "kafka.strimzi.io/v1",
        "metadata": {
            "name": "pipes",
            "namespace": "kafka",
            "annotations": {USE_RESOURCES_ANNOTATION: "true"},
        },
    }
    return server


def reader(server: Server) -> KubeReader:
    return KubeReader(ACCESS, transport=httpx.MockTransport(server))


def test_a_resource_without_another_owner_may_be_changed():
    assert find_change_problem(reader(served()), AT, "c") == ""


HOLDS_ANOTHER = json.dumps({"connector": "d", "was": {"state": None}})
OURS = json.dumps({"connector": "c", "was": {"asked": "list"}})


@pytest.mark.parametrize(
    ("labels", "notes", "expected"),
    [
        ({CLUSTER_LABEL: "others"}, {}, "no resource of kafka/pipes owns c"),
        ({"argocd.argoproj.io/instance": "a"}, {}, "owned by Argo CD"),
        ({}, {"strimzi.io/pause-reconciliation": "true"}, "pause-reconciliation"),
        ({}, {BACKUP_ANNOTATION: HOLDS_ANOTHER}, "another of its connectors"),
        ({}, {OFFSETS_ANNOTATION: "reset"}, "of the operator: reset"),
        ({}, {OFFSETS_ANNOTATION: "list", BACKUP_ANNOTATION: OURS}, ""),
    ],
)
def test_who_else_works_on_it_is_reported(
    labels: dict[str, str], notes: dict[str, str], expected: str
):
    problem = find_change_problem(reader(served(labels=labels, notes=notes)), AT, "c")
    assert expected in problem if expected else not problem


@pytest.mark.parametrize("right", ["patch kafkaconnectors", "create configmaps"])
def test_a_right_that_is_missing_is_found_out_before_anything_is_stopped(right: str):
    server = served()
    server.denied = {right}
    problem = find_change_problem(reader(server), AT, "c")
    assert "may not" in problem
    assert "RBAC" in problem


def test_a_connector_of_a_cluster_without_connector_resources_may_not_be_changed():
    server = served()
    assert server.cluster is not None
    server.cluster["metadata"]["annotations"] = {}
    assert USE_RESOURCES_ANNOTATION in find_change_problem(reader(server), AT, "c")


def test_a_cluster_that_is_not_there_is_reported():
    server = served()
    server.cluster = None
    assert "kafka/pipes is not there" in find_change_problem(reader(server), AT, "c")


def test_a_server_that_does_not_answer_is_not_taken_for_a_yes():
    def broken(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(503, json={"message": "later"})

    with pytest.raises(ServerError):
        find_change_problem(KubeReader(ACCESS, transport=httpx.MockTransport(broken)), AT, "c")


def test_without_a_way_to_the_server_nothing_is_said(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text("[]")
    strimzi = Strimzi(namespace="kafka", name="pipes", kubeconfig_file=file)
    linked = Connect(name="lab", kafka="east", url="http://127.0.0.1:9", strimzi=strimzi)
    with pytest.raises(RemoteRefusal, match="no kubeconfig"):
        find_resource_problem({"lab": linked}, "lab", "c")


def test_a_connector_of_its_name_may_be_of_another_cluster():
    server = served(labels={CLUSTER_LABEL: "others"})
    read = reader(server)
    (cluster,) = find_cluster_resources(read, "kafka", "pipes")
    assert find_connector_resource(read, cluster, "kafka", "pipes", "c") is None
