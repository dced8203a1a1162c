"""Guarded remediation of connectors that Strimzi owns: a whole daemon, a real Connect, a real API
server, and the operator as lab/kubernetes/strimzi_operator.py plays it. Nothing is changed over
REST, where it would be put back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, LabOptions
from lab.demo.poison import await_failure
from lab.kubernetes.api_server import Kubernetes
from lab.kubernetes.strimzi_operator import Operator
from lab.product.remediating_daemon import COLLEAGUE, Guarded, Json
from lab.stories import poison, sinks
from lab.stories.sinks import Sink
from lab.waiting import NotYet, until
from offsetwatch.clients.kubernetes.access import access_from_kubeconfig
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.config import Strimzi
from offsetwatch.remedy.drivers.strimzi.resources import find_change_problem
from tests.real.conftest import KAFKA
from tests.real.strimzi_resources import ACCOUNT, CLUSTER, SPACE, account, cluster, connector_of
from tools import kubernetes

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

VERSION = "v1"
WAIT_S = 120.0
BEFORE = 50
CREATED = 201
REMEDY = {"mode": "propose", "quarantine": {"kafka": "east"}}


class World:
    """One sink that Strimzi owns, and a daemon that knows it."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        options = LabOptions(kafka_version=KAFKA, connectors=False, offset_flush_interval_ms=1000)
        self.lab = stack.enter_context(Lab(options))
        self.server = stack.enter_context(Kubernetes(directory=directory / "kubernetes"))
        self.server.definitions(kubernetes.strimzi_crds(VERSION))
        self.server.namespace(SPACE)
        self.server.apply([*account(), cluster(VERSION)])
        token = self.server.token_of(SPACE, ACCOUNT)
        file = directory / "kubeconfig"
        self.kubeconfig = self.server.kubeconfig(file, token=token, namespace=SPACE)
        url = self.lab.connect_urls[0]
        self.operator = stack.enter_context(
            Operator(self.server, url, namespace=SPACE, version=VERSION)
        )
        self.sink = sinks.begin(Sink(self.lab, "owned"), records=BEFORE)
        self.name = self.sink.connector
        config = self.sink.config()
        kind = str(config.pop("connector.class"))
        self.server.apply([connector_of(self.name, VERSION, kind, config)])
        linked = {"namespace": SPACE, "name": CLUSTER, "kubeconfig_file": str(self.kubeconfig)}
        self.daemon = Guarded(
            self.lab,
            directory=directory / "daemon",
            connectors=[self.name],
            remedy=REMEDY,
            connect={"strimzi": linked},
        )
        stack.callback(self.daemon.stop)
        self.daemon.start()

    @property
    def resource(self) -> Json:
        kind = f"kafka.strimzi.io/{VERSION}"
        answer = self.server.get(kind, "KafkaConnector", self.name, SPACE)
        assert answer is not None
        return answer

    def list_rest_changes(self) -> list[str]:
        """Of Connect by the daemon, that is more than a look."""
        return [f"{change.method} {change.path}" for change in self.daemon.changes(self.name)]

    def stop(self, key: str) -> Any:
        requests = {"action": "stop", "connect_cluster": "lab", "connector": self.name}
        return self.daemon.request_plan({**requests, "because": "a test"}, key)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, tmp_path_factory.mktemp("owned"))


def test_a_bad_record_is_skipped_through_the_resource_and_all_others_are_taken(
    world: World,
) -> None:
    before = world.resource["spec"]
    # Started again once, after the daemon has seen it fail: that makes two failures, and once more
    # would make a plan void.
    after = poison.good(BEFORE, 3)
    offset = poison.one_bad(
        world.sink, after=after, observed=lambda: await_failure(world.daemon.product, world.name)
    )
    plan = world.daemon.proposed(world.name, "skip_one")
    world.daemon.approve(plan)
    assert world.daemon.ended(plan)["ending"] == "succeeded"
    (opened,) = (entry for entry in world.daemon.of(world.name) if entry["record"] == "opened")
    assert opened["plan"]["subject"]["driver"] == "strimzi"
    assert world.list_rest_changes() == []
    assert f"alter {world.name}" in world.operator.done
    assert world.resource["spec"] == before
    assert not world.resource["metadata"].get("annotations")
    sinks.await_commits(world.sink)
    lines = set(world.sink.path.read_text().splitlines())
    assert lines == {poison.line(name) for name in (*poison.good(0, BEFORE), *after)}
    assert opened["plan"]["steps"][0]["record"]["offset"] == offset
    quarantined = world.daemon.cli("quarantine", "list", "--json")
    assert [load["offset"] for load in json.loads(quarantined)] == [offset]


def test_a_stop_lasts_though_the_operator_goes_by_the_resource(world: World) -> None:
    before = world.list_rest_changes()
    plan = world.stop("stop").json()
    world.daemon.approve(plan, by=COLLEAGUE)
    assert world.daemon.ended(plan)["ending"] == "succeeded"
    assert world.resource["spec"]["state"] == "stopped"
    assert not world.resource["metadata"].get("annotations")
    rounds = world.operator.rounds

    def check_rounds() -> None:
        if world.operator.rounds < rounds + 2:
            raise NotYet("the operator has not looked at all twice since")

    until("the operator's look", check_rounds, timeout_s=WAIT_S)
    assert world.lab.status(world.name)["connector"]["state"] == "STOPPED"
    assert world.list_rest_changes() == before
    world.server.merge(world.resource, {"spec": {"state": "running"}})
    world.lab.wait_running(world.name)


def test_a_resource_of_argo_cd_is_left_alone_and_the_guard_names_the_owner(world: World) -> None:
    note = {"argocd.argoproj.io/tracking-id": f"app:kafka.strimzi.io/KafkaConnector:{SPACE}/x"}
    world.server.merge(world.resource, {"metadata": {"annotations": note}})
    request = world.stop("owned-by-another")
    assert request.status_code == CREATED, request.text
    own = request.json()["plan_id"]
    (proposed,) = (entry for entry in world.daemon.journal() if entry["plan_id"] == own)
    (answer,) = (item for item in proposed["answers"] if item["guard"] == "operator")
    assert answer["answer"] == "deny"
    assert "Argo CD" in answer["said"]
    world.server.merge(world.resource, {"metadata": {"annotations": dict.fromkeys(note)}})


def test_doctor_names_the_resource_of_the_connectors_and_the_right_to_change_them(
    world: World,
) -> None:
    document = json.loads(world.daemon.cli("doctor", "--json"))
    own = {
        check["check"]: check
        for check in document["checks"]
        if check["check"].startswith("strimzi")
    }
    assert {name: at["verdict"] for name, at in own.items()} == {
        "strimzi": "ok",
        "strimzi rights": "ok",
    }
    assert f"KafkaConnect {SPACE}/{CLUSTER}, 1 connector" in own["strimzi"]["found"]


def test_a_right_that_the_account_does_not_have_is_found_out_beforehand(world: World) -> None:
    read = KubeReader(access_from_kubeconfig(world.kubeconfig))
    strimzi = Strimzi(namespace=SPACE, name=CLUSTER)
    assert find_change_problem(read, strimzi, world.sink.connector) == ""
    role = world.server.get("rbac.authorization.k8s.io/v1", "Role", ACCOUNT, SPACE)
    assert role is not None
    rules = role["rules"]
    world.server.merge(
        role, {"rules": [rule for rule in rules if rule["resources"] != ["configmaps"]]}
    )

    def denied() -> str:
        problem = find_change_problem(read, strimzi, world.sink.connector)
        if not problem:
            raise NotYet("the role is as it was")
        return problem

    assert "ConfigMaps" in until("the role's change", denied, timeout_s=WAIT_S)
    world.server.merge(role, {"rules": rules})
