"""The chart on a real API server: what it stores there, and what its ServiceAccount may do."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from lab.kubernetes import chart
from lab.kubernetes.api_server import Json, Kubernetes
from lab.kubernetes.chart import CHART, Installed
from tests.chart.conftest import VARIANTS
from tools import kubernetes

pytestmark = [pytest.mark.real, pytest.mark.full]

NAMESPACES = ("monitoring", "kafka", "mirrors", "elsewhere")
CONNECTOR = {
    "apiVersion": "kafka.strimzi.io/v1",
    "kind": "KafkaConnector",
    "metadata": {
        "name": "orders",
        "namespace": "kafka",
        "labels": {"strimzi.io/cluster": "lab"},
    },
    "spec": {"class": "org.example.Orders", "tasksMax": 1, "config": {}, "state": "running"},
}
BACKUP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kept", "namespace": "kafka"},
    "data": {"offsets.json": "{}"},
}


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with Kubernetes(directory=tmp_path_factory.mktemp("kube")) as running:
        running.definitions((*kubernetes.strimzi_crds(), *kubernetes.monitoring_crds()))
        for name in NAMESPACES:
            running.namespace(name)
        yield running


# --- what is stored ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variant", VARIANTS, ids=lambda item: item.name.removesuffix("-values.yaml")
)
def test_the_server_takes_all_of_a_variant_and_knows_every_field(kube: Kubernetes, variant: Path):
    result = chart.documents(chart.render(variant, namespace="monitoring"))
    assert result
    for document in result:
        document["metadata"].setdefault("namespace", "monitoring")
        answer = kube.http.patch(
            kube.path(document),
            params={
                "fieldManager": "strict",
                "force": "true",
                "fieldValidation": "Strict",
                "dryRun": "All",
            },
            content=yaml.safe_dump(document).encode(),
            headers={"Content-Type": "application/apply-patch+yaml"},
        )
        assert answer.is_success, answer.text


def test_a_field_that_the_server_does_not_know_would_be_noticed(kube: Kubernetes):
    document = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": "wrong", "namespace": "monitoring"},
        "spec": {"selector": {}, "endpoints": [{"intervall": "1m"}]},
    }
    answer = kube.http.patch(
        kube.path(document),
        params={"fieldManager": "strict", "fieldValidation": "Strict", "dryRun": "All"},
        content=yaml.safe_dump(document).encode(),
        headers={"Content-Type": "application/apply-patch+yaml"},
    )
    assert answer.status_code == httpx.codes.BAD_REQUEST or "intervall" in answer.text
    assert not answer.is_success


def deployment(installed: Installed) -> Json:
    answer = installed.kube.get("apps/v1", "Deployment", installed.account, installed.namespace)
    assert answer is not None
    return answer


def test_a_release_goes_through_every_variant_and_back(kube: Kubernetes, tmp_path: Path):
    """A selector that changed between two of them, say, would be refused by the server."""
    # Of a claim nothing but its size can ever change, in no chart.
    claims = chart.values_file(
        {
            "persistence": {"storageClass": ""},
            "history": {"persistence": {"existingClaim": "tables"}},
        },
        tmp_path / "claims.yaml",
    )
    first, *others = VARIANTS
    namespace = "going-through"
    installed = chart.install(kube, first, claims, namespace=namespace)
    for variant in others:
        answer = installed.upgrade(variant, claims)
        assert not answer.failed, f"{variant.name}: {answer.text}"
    for revision in range(1, len(VARIANTS)):
        answer = installed.rollback(revision)
        assert not answer.failed, f"{VARIANTS[revision - 1].name}: {answer.text}"
    answer = installed.uninstall()
    assert not answer.failed, answer.text
    assert kube.get("apps/v1", "Deployment", installed.release, namespace) is None


@pytest.mark.parametrize(
    "variant", VARIANTS, ids=lambda item: item.name.removesuffix("-values.yaml")
)
def test_the_notes_name_only_what_is_there(kube: Kubernetes, variant: Path):
    namespace = variant.name.removesuffix("-values.yaml")
    installed = chart.install(kube, variant, namespace=namespace, release="own")
    kinds = {"deployment": "apps/v1", "service": "v1"}
    named = re.findall(r"\b(deployment|service)/([\w.-]+)", installed.notes)
    assert {kind for kind, _ in named} == set(kinds)
    for kind, name in named:
        assert kube.get(kinds[kind], kind.capitalize(), name, namespace) is not None, name
    result = deployment(installed)
    inside = [each["name"] for each in result["spec"]["template"]["spec"]["containers"]]
    (container,) = re.findall(r"--container (\S+)", installed.notes)
    assert container in inside
    values = yaml.safe_load(variant.read_text())
    scraped = any(values.get(f"{kind}Monitor", {}).get("enabled") for kind in ("service", "pod"))
    assert ("Nothing scrapes it yet" in installed.notes) is not scraped
    retained = values.get("persistence", {}).get("enabled", False)
    assert ("Its counters and verdicts are in an emptyDir" in installed.notes) is not retained
    assert not installed.uninstall().failed


def test_an_upgrade_changes_what_was_requested_and_a_rollback_takes_it_back(
    kube: Kubernetes, tmp_path: Path
):
    least = CHART / "ci" / "default-values.yaml"
    installed = chart.install(kube, least, namespace="upgraded")
    before = deployment(installed)["spec"]["template"]
    more = chart.values_file(
        {"config": {"ends_s": 7}, "podLabels": {"team": "a"}}, tmp_path / "more.yaml"
    )
    assert not installed.upgrade(least, more).failed
    after = deployment(installed)["spec"]["template"]
    assert after["metadata"]["labels"]["team"] == "a"
    checksum = "checksum/config"
    assert after["metadata"]["annotations"][checksum] != before["metadata"]["annotations"][checksum]
    secret = kube.get("v1", "Secret", "offsetwatch-config", "upgraded")
    assert secret is not None
    stored = yaml.safe_load(base64.b64decode(secret["data"]["config.yaml"]))
    assert stored["ends_s"] == 7
    assert not installed.rollback(1).failed
    assert deployment(installed)["spec"]["template"] == before


def test_tables_and_journal_outlive_the_release_unless_keep_is_false(
    kube: Kubernetes, tmp_path: Path
):
    """And the same release takes up what was kept."""
    least = CHART / "ci" / "default-values.yaml"
    for keep, namespace in ((True, "kept"), (False, "not-kept")):
        own = {
            "persistence": {"enabled": True, "keep": keep},
            "history": {"persistence": {"keep": keep}},
        }
        values = chart.values_file(own, tmp_path / "own.yaml")
        installed = chart.install(kube, least, values, namespace=namespace)
        assert not installed.uninstall().failed
        for name in ("state", "history"):
            claim = kube.get("v1", "PersistentVolumeClaim", f"offsetwatch-{name}", namespace)
            # A finalizer of a controller that is not there holds what was deleted.
            gone = claim is None or "deletionTimestamp" in claim["metadata"]
            assert gone is not keep
        if keep:
            again = chart.install(kube, least, values, namespace=namespace)
            assert not again.uninstall().failed


# --- what its account may do ---------------------------------------------------------------------


class AllowedRequest(NamedTuple):
    """A request, and in what `Allowed` it is allowed."""

    verb: str
    path: str
    body: Any = None
    at: frozenset[str] = frozenset()


STRIMZI = "/apis/kafka.strimzi.io/v1/namespaces"
CORE = "/api/v1/namespaces"
READING = frozenset({"discovery", "offsets", "secrets"})
CHANGING = frozenset({"offsets"})
NAMED = frozenset({"secrets"})
STOP = {"spec": {"state": "stopped"}}
NOTE = {"metadata": {"annotations": {"strimzi.io/connector-offsets": "list"}}}
NEW = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}}

REQUESTS = [
    *(
        AllowedRequest("GET", f"{STRIMZI}/kafka/{kind}", at=READING)
        for kind in ("kafkas", "kafkaconnects", "kafkaconnectors", "kafkamirrormaker2s")
    ),
    AllowedRequest("GET", f"{STRIMZI}/kafka/kafkaconnectors/orders", at=READING),
    AllowedRequest("PATCH", f"{STRIMZI}/kafka/kafkaconnectors/orders", STOP, CHANGING),
    AllowedRequest("PATCH", f"{STRIMZI}/kafka/kafkaconnectors/orders", NOTE, CHANGING),
    AllowedRequest("PATCH", f"{STRIMZI}/kafka/kafkamirrormaker2s/none", NOTE, CHANGING),
    AllowedRequest("POST", f"{CORE}/kafka/configmaps", NEW, CHANGING),
    AllowedRequest("GET", f"{CORE}/kafka/configmaps/kept", at=CHANGING),
    AllowedRequest("PATCH", f"{CORE}/kafka/configmaps/kept", {"data": {"a": "b"}}, CHANGING),
    AllowedRequest("GET", f"{CORE}/kafka/secrets/named", at=NAMED),
    # Never.
    AllowedRequest("DELETE", f"{STRIMZI}/kafka/kafkaconnectors/orders"),
    AllowedRequest("DELETE", f"{STRIMZI}/kafka/kafkaconnectors"),
    AllowedRequest("DELETE", f"{STRIMZI}/kafka/kafkamirrormaker2s/none"),
    AllowedRequest("DELETE", f"{CORE}/kafka/configmaps/kept"),
    AllowedRequest("POST", f"{STRIMZI}/kafka/kafkaconnectors", CONNECTOR),
    AllowedRequest("PUT", f"{STRIMZI}/kafka/kafkaconnectors/orders", CONNECTOR),
    AllowedRequest("GET", f"{STRIMZI}/kafka/kafkaconnectors?watch=true&timeoutSeconds=1"),
    AllowedRequest("PUT", f"{CORE}/kafka/configmaps/kept", BACKUP),
    AllowedRequest("PATCH", f"{STRIMZI}/kafka/kafkaconnects/lab", {"spec": {"replicas": 0}}),
    AllowedRequest("PATCH", f"{STRIMZI}/kafka/kafkas/east", {"metadata": {"labels": {"a": "b"}}}),
    AllowedRequest("PATCH", f"{STRIMZI}/kafka/kafkaconnectors/orders/status", {"status": {}}),
    AllowedRequest("GET", f"{CORE}/kafka/configmaps"),
    AllowedRequest("GET", f"{CORE}/kafka/secrets"),
    AllowedRequest("GET", f"{CORE}/kafka/secrets/other"),
    AllowedRequest("PATCH", f"{CORE}/kafka/secrets/named", {"stringData": {"a": "b"}}),
    AllowedRequest("GET", f"{CORE}/kafka/pods"),
    AllowedRequest("GET", f"{STRIMZI}/elsewhere/kafkaconnectors"),
    AllowedRequest("PATCH", f"{STRIMZI}/elsewhere/kafkaconnectors/orders", STOP),
    AllowedRequest("GET", f"{CORE}/elsewhere/secrets/named"),
    AllowedRequest("GET", f"{CORE}/elsewhere/configmaps/kept"),
    AllowedRequest("GET", "/apis/kafka.strimzi.io/v1/kafkaconnectors"),
    AllowedRequest("GET", f"{CORE}/monitoring/secrets/offsetwatch-config"),
    AllowedRequest("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}}),
]
STRIMZI_VALUES: dict[str, Json] = {
    "nothing": {"enabled": False},
    "discovery": {"enabled": True, "namespaces": ["kafka"]},
    "offsets": {"enabled": True, "namespaces": ["kafka"], "offsets": {"enabled": True}},
    "secrets": {"enabled": True, "namespaces": ["kafka"], "secretNames": ["named"]},
}


@pytest.fixture(scope="module", params=STRIMZI_VALUES)
def access(
    request: pytest.FixtureRequest, kube: Kubernetes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, httpx.Client]]:
    """What was given, and a client with the account's own token."""
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "x"}}
    kube.apply(
        [
            {**each, "metadata": {**each["metadata"], "namespace": namespace}}
            for namespace in ("kafka", "elsewhere")
            for each in (
                CONNECTOR,
                BACKUP,
                {**secret, "metadata": {"name": "named"}},
                {**secret, "metadata": {"name": "other"}},
            )
        ]
    )
    path = tmp_path_factory.mktemp("given") / "values.yaml"
    values = chart.values_file({"strimzi": STRIMZI_VALUES[request.param]}, path)
    installed = chart.install(kube, CHART / "ci" / "default-values.yaml", values)
    with kube.client(installed.token()) as client:
        yield request.param, client
    assert not installed.uninstall().failed
    kube.delete({**NEW, "metadata": {"name": "new", "namespace": "kafka"}})


@pytest.mark.parametrize("requests", REQUESTS, ids=lambda item: f"{item.verb} {item.path}")
def test_the_account_may_do_what_is_needed_and_nothing_else(
    access: tuple[str, httpx.Client], requests: AllowedRequest
):
    what, client = access
    headers = {"Content-Type": "application/json"}
    if requests.verb == "PATCH":
        headers = {"Content-Type": "application/merge-patch+json"}
    answer = client.request(requests.verb, requests.path, json=requests.body, headers=headers)
    if what in requests.at:
        assert answer.status_code != httpx.codes.FORBIDDEN, answer.text
        assert answer.is_success or answer.status_code == httpx.codes.NOT_FOUND
    else:
        assert answer.status_code == httpx.codes.FORBIDDEN


def test_a_pod_of_the_chart_is_known_to_the_server_as_its_account(kube: Kubernetes, tmp_path: Path):
    installed = chart.install(
        kube, CHART / "ci" / "strimzi-values.yaml", namespace="known", release="own"
    )
    folder = installed.mounted(tmp_path / "serviceaccount")
    assert (folder / "namespace").read_text() == "known"
    with kube.client((folder / "token").read_text()) as client:
        review = client.post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )
        assert review.json()["status"]["userInfo"]["username"] == (
            f"system:serviceaccount:known:{installed.account}"
        )
        for namespace in ("kafka", "mirrors"):
            assert client.get(f"{STRIMZI}/{namespace}/kafkaconnectors").is_success
    assert not installed.uninstall().failed
