"""Offsets through Strimzi's resources: a real API server with Strimzi's own definitions, a real
Connect, and between them the operator as lab/kubernetes/strimzi_operator.py plays it. The verbs are
a ServiceAccount with the permissions that docs/strimzi.md names, and no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import httpx
import pytest

from lab import Lab, LabOptions
from lab.cluster.connector_configs import mm2_source
from lab.http import NO_AUTHORITIES
from lab.kills import sample_connectors
from lab.kills.sample_connectors import Mirror, Source
from lab.kubernetes.api_server import Kubernetes
from lab.kubernetes.strimzi_operator import OFFSETS, Operator
from lab.processes.child import Child
from lab.product.toolbox import Ran, Toolbox
from lab.waiting import NotYet, until
from offsetwatch import config
from tests.real.conftest import KAFKA
from tests.real.strimzi_resources import (
    ACCOUNT,
    CLUSTER,
    GROUP,
    RULES,
    SPACE,
    TOPICS,
    account,
    cluster,
    connector_of,
)
from tools import kubernetes

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

MM2 = "mirror"
VERSIONS = ("v1", "v1beta2")
FLOW = "west->east.MirrorSourceConnector"
FLOW_KEY = "west--east.MirrorSourceConnector.json"
PATIENCE_S = 120.0
VISIBLE_S_MAX = 150.0

# The older one of them at length: Strimzi 1 does not serve it any more.
BOTH = pytest.mark.parametrize(
    "served",
    [VERSIONS[0], *(pytest.param(version, marks=pytest.mark.proof) for version in VERSIONS[1:])],
    indirect=True,
)


class Served(NamedTuple):
    """An API server, and the version of Strimzi's resources that it serves."""

    server: Kubernetes
    version: str


class World:
    """What a person with kubectl has, and the verbs."""

    def __init__(self, served: Served, lab: Lab, tools: Toolbox, kubeconfig: Path) -> None:
        self.server, self.lab, self.tools, self.config = served.server, lab, tools, kubeconfig
        self.served = served.version
        self.version = f"{GROUP}/{served.version}"

    def of(self, name: str, *, mirror: bool = False) -> dict[str, Any]:
        kind = "KafkaMirrorMaker2" if mirror else "KafkaConnector"
        answer = self.server.get(self.version, kind, name, SPACE)
        assert answer is not None
        return answer

    def merge(self, name: str, patch: Mapping[str, Any], *, mirror: bool = False) -> None:
        self.server.merge(self.of(name, mirror=mirror), patch)

    def config_map(self, name: str) -> dict[str, Any] | None:
        return self.server.get("v1", "ConfigMap", name, SPACE)

    def run(self, *words: str, mirror: bool = False, status: int = 0) -> Ran:
        location = f"{SPACE}/{MM2 if mirror else CLUSTER}"
        return self.tools.run(*words, *self.options(location), status=status)

    def change(self, *words: str, mirror: bool = False, status: int = 0) -> Ran:
        return self.run(*words, "--yes", "--timeout", str(PATIENCE_S), mirror=mirror, status=status)

    def options(self, location: str) -> tuple[str, ...]:
        return (
            *("--strimzi", location, "--kubeconfig", str(self.config)),
            *("--config", str(self.tools.config)),
        )

    def as_it_was(self, name: str, before: Mapping[str, Any], *, mirror: bool = False) -> None:
        """Nothing of ours is left in the resource."""
        now = self.of(name, mirror=mirror)
        assert now["spec"] == before["spec"]
        assert (now["metadata"].get("annotations") or {}) == (
            before["metadata"].get("annotations") or {}
        )


@pytest.fixture(scope="module")
def connect() -> Iterator[Lab]:
    options = LabOptions(kafka_version=KAFKA, connectors=False, offset_flush_interval_ms=1000)
    with Lab(options) as running:
        yield running


@pytest.fixture(scope="module", name="served")
def served_resources(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Served]:
    version = getattr(request, "param", VERSIONS[0])
    with Kubernetes(directory=tmp_path_factory.mktemp("kubernetes")) as running:
        running.definitions(kubernetes.strimzi_crds(version))
        running.namespace(SPACE)
        running.apply(account())
        running.apply([cluster(version)])
        yield Served(running, version)


def flow_of(lab: Lab, version: str) -> dict[str, Any]:
    """The specification of a KafkaMirrorMaker2 from west to east."""
    west, east = (
        {"alias": value, "bootstrapServers": getattr(lab, value)} for value in ("west", "east")
    )
    connector = {"sourceConnector": {"tasksMax": 1}}
    if version == "v1":
        return {
            "replicas": 1,
            "target": {**east, **TOPICS},
            "mirrors": [{"source": west, **connector}],
        }
    return {
        "replicas": 1,
        "connectCluster": "east",
        "clusters": [west, east],
        "mirrors": [{"sourceCluster": "west", "targetCluster": "east", **connector}],
    }


@pytest.fixture(scope="module")
def world(served: Served, connect: Lab, tmp_path_factory: pytest.TempPathFactory) -> World:
    directory = tmp_path_factory.mktemp("strimzi")
    token = served.server.token_of(SPACE, ACCOUNT)
    file = served.server.kubeconfig(directory / "kubeconfig", token=token, namespace=SPACE)
    return World(served, connect, Toolbox(connect, directory=directory / "toolbox"), file)


@pytest.fixture
def operator(world: World) -> Iterator[Operator]:
    url = world.lab.connect_urls[0]
    with Operator(world.server, url, namespace=SPACE, version=world.served) as playing:
        yield playing


@pytest.fixture
def source(world: World, operator: Operator, request: pytest.FixtureRequest) -> Iterator[Source]:
    """A FileStream source of ten lines that has read them, and its resource."""
    name = f"source-{crc32(request.node.name.encode()):08x}"
    with sample_connectors.source(world.lab, name, lines=10) as built:
        config = {key: world.lab.configuration(name)[key] for key in ("file", "topic")}
        kind = world.lab.configuration(name)["connector.class"]
        resource = connector_of(name, world.served, kind, config)
        world.server.apply([resource])
        until(f"{name} seen", lambda: _await_running(world, name), timeout_s=VISIBLE_S_MAX)
        yield built
        operator.silent = True
        world.server.delete(resource)


def _await_running(world: World, name: str, *, mirror: bool = False) -> None:
    status = world.of(name, mirror=mirror).get("status") or {}
    report = status.get("connectors", [None])[0] if mirror else status.get("connectorStatus")
    if ((report or {}).get("connector") or {}).get("state") != "RUNNING":
        raise NotYet(str(status))


@pytest.fixture
def mirror(world: World, operator: Operator) -> Iterator[Mirror]:
    """A MirrorSourceConnector that has copied ten records, and its resource."""
    built = Mirror(world.lab, FLOW, "flow-topic", 1, "west", "east")
    world.lab.create_topic("west", built.topic, 1)
    baseline = mm2_source(upstream=world.lab.west, downstream=world.lab.east, topics=built.topic)
    own = {"heartbeats.replication.enabled": "false"}
    resource = {
        "apiVersion": world.version,
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": MM2, "namespace": SPACE},
        "spec": flow_of(world.lab, world.served),
    }
    with sample_connectors.created(world.lab, FLOW, {**baseline, **own}):
        built.grow(10)
        sample_connectors.await_recorded(world.lab, built)
        world.server.apply([resource])
        until(
            "the flow seen",
            lambda: _await_running(world, MM2, mirror=True),
            timeout_s=VISIBLE_S_MAX,
        )
        yield built
        operator.silent = True
        world.server.delete(resource)


def format_options(at: Source | Mirror, *pair: Any) -> tuple[str, ...]:
    """The options for one pair."""
    entry = at.pair(*pair)
    partition, offset = json.dumps(entry["partition"]), json.dumps(entry["offset"])
    return ("--partition", partition, "--offset", offset)


# --- what is to work ------------------------------------------------------------------------------


def test_offsets_are_listed_through_the_operator_and_nothing_of_it_is_left(
    world: World, operator: Operator, source: Source
) -> None:
    before = world.of(source.name)
    ran = world.run("offsets", "list", "--connectors", source.name, "--json")
    assert ran.json == {f"{SPACE}/{CLUSTER}": {source.name: source.pairs()}}
    assert operator.done == [f"list {source.name}"]
    world.as_it_was(source.name, before)


def test_an_operators_own_config_map_for_listings_is_taken(
    world: World, operator: Operator, source: Source
) -> None:
    world.merge(source.name, {"spec": {"listOffsets": {"toConfigMap": {"name": "mine"}}}})
    before = world.of(source.name)
    ran = world.run("offsets", "list", "--connectors", source.name, "--json")
    assert ran.json == {f"{SPACE}/{CLUSTER}": {source.name: source.pairs()}}
    retained = world.config_map("mine")
    assert retained is not None
    assert json.loads(retained["data"]["offsets.json"])["offsets"] == source.pairs()
    world.as_it_was(source.name, before)


@BOTH
def test_offsets_are_altered_while_it_is_stopped_and_it_goes_on_from_there(
    world: World, operator: Operator, source: Source
) -> None:
    before = world.of(source.name)
    world.change("offsets", "alter", source.name, *format_options(source, source.after(2)))
    assert f"alter {source.name}" in operator.done
    assert not operator.failed
    world.as_it_was(source.name, before)
    world.lab.wait_running(source.name)
    sample_connectors.await_recorded(world.lab, source)
    assert source.came() == [*source.meant(), *source.meant()[2:]]


def test_offsets_are_reset_and_what_was_stopped_stays_so(
    world: World, operator: Operator, source: Source
) -> None:
    world.merge(source.name, {"spec": {"state": "stopped"}})
    before = world.of(source.name)
    world.change("offsets", "reset", source.name)
    assert f"reset {source.name}" in operator.done
    assert world.lab.offsets(source.name) == []
    world.as_it_was(source.name, before)


def test_a_dry_run_shows_every_patch_and_makes_none_beyond_the_listing(
    world: World, operator: Operator, source: Source
) -> None:
    before = world.of(source.name)
    ran = world.run(
        "offsets", "alter", source.name, *format_options(source, source.after(2)), "--dry-run"
    )
    assert '{"op":"add","path":"/spec/state","value":"stopped"}' in ran.out
    assert f'"{OFFSETS}":"alter"' in ran.out
    assert operator.done == [f"list {source.name}"]
    world.as_it_was(source.name, before)
    assert world.lab.offsets(source.name) == source.pairs()


@BOTH
def test_a_flow_is_listed_altered_and_reset_by_both_annotations(
    world: World, operator: Operator, mirror: Mirror
) -> None:
    before = world.of(MM2, mirror=True)
    ran = world.run("offsets", "list", "--json", mirror=True)
    assert ran.json == {f"{SPACE}/{MM2}": {FLOW: mirror.pairs()}}
    retained = world.config_map(f"{MM2}-offsetwatch-list")
    assert retained is not None
    assert [*retained["data"]] == [FLOW_KEY]
    world.change("offsets", "alter", FLOW, *format_options(mirror, 0, 4), mirror=True)
    world.as_it_was(MM2, before, mirror=True)
    world.lab.wait_running(FLOW)
    sample_connectors.await_recorded(world.lab, mirror)
    assert len(mirror.came()[0]) == 15
    world.change("offsets", "reset", FLOW, mirror=True)
    assert {f"alter {FLOW}", f"reset {FLOW}"} <= {*operator.done}
    world.as_it_was(MM2, before, mirror=True)


# --- what goes wrong ------------------------------------------------------------------------------


def test_an_operator_that_is_silent_is_no_longer_queried(
    world: World, operator: Operator, source: Source
) -> None:
    before = world.of(source.name)
    operator.silent = True
    words = ("offsets", "alter", source.name, *format_options(source, 0), "--yes", "--timeout", "5")
    ran = world.run(*words, status=7)
    assert "did not list the offsets within 5 s" in ran.err
    world.as_it_was(source.name, before)


def test_an_operator_that_falls_silent_after_the_stop_finds_all_as_it_was(
    world: World, operator: Operator, source: Source
) -> None:
    """The offsets were listed; then nobody stops it."""
    before = world.of(source.name)
    operator.falls_silent = "stopped"
    words = (
        "offsets",
        "alter",
        source.name,
        *format_options(source, 0),
        "--yes",
        "--timeout",
        "10",
    )
    ran = world.run(*words, status=3)
    assert "not so after" in ran.err
    world.as_it_was(source.name, before)
    assert world.lab.offsets(source.name) == source.pairs()


def test_the_operators_own_words_are_reported_and_it_does_not_try_for_ever(
    world: World, operator: Operator, source: Source
) -> None:
    before = world.of(source.name)
    operator.fails = "Connect is not in the mood"
    ran = world.change("offsets", "alter", source.name, *format_options(source, 0), status=3)
    assert "Connect is not in the mood" in ran.err
    world.as_it_was(source.name, before)


def test_what_connect_refuses_is_taken_back_and_it_runs_again(
    world: World, operator: Operator, source: Source
) -> None:
    """Connect's own refusal, in the middle of it all."""
    before = world.of(source.name)
    operator.garbles = '{"offsets": [{"partition": {"filename": 3}, "offset": {"position": -1}}]}'
    words = (*format_options(source, source.after(2)),)
    ran = world.change("offsets", "alter", source.name, *words, status=3)
    assert "Encountered error altering connector offsets" in ran.err
    world.as_it_was(source.name, before)
    world.lab.wait_running(source.name)
    assert world.lab.offsets(source.name) == source.pairs()


def test_a_resource_set_to_running_during_an_alter_keeps_running_unaltered(
    world: World, operator: Operator, source: Source
) -> None:
    operator.meddles = lambda: world.merge(source.name, {"spec": {"state": "running"}})
    words = (*format_options(source, source.after(2)),)
    ran = world.change("offsets", "alter", source.name, *words, status=4)
    assert "set" in ran.err
    now = world.of(source.name)
    assert OFFSETS not in (now["metadata"].get("annotations") or {})
    assert "alterOffsets" not in now["spec"]
    assert now["spec"].get("state", "running") == "running"
    assert not [name for name in operator.done if name.startswith("alter")]


def test_a_pending_operation_of_another_client_is_not_disturbed(
    world: World, operator: Operator, source: Source
) -> None:
    operator.fails = "later"
    world.merge(source.name, {"metadata": {"annotations": {OFFSETS: "reset"}}})
    ran = world.change("offsets", "alter", source.name, *format_options(source, 0), status=3)
    assert "reset" in ran.err
    assert world.of(source.name)["metadata"]["annotations"][OFFSETS] == "reset"


def test_a_config_map_that_is_missing_after_all_is_reported(
    world: World, operator: Operator, source: Source
) -> None:
    before = world.of(source.name)
    operator.loses = True
    ran = world.run("offsets", "list", "--connectors", source.name, status=7)
    assert "there is no ConfigMap" in ran.err
    world.as_it_was(source.name, before)


def test_a_resource_that_a_repository_owns_is_left_alone_unless_an_operator_says_so(
    world: World, operator: Operator, source: Source
) -> None:
    owned = {"argocd.argoproj.io/tracking-id": "pipelines:kafka.strimzi.io/KafkaConnector"}
    world.merge(source.name, {"metadata": {"annotations": owned}})
    before = world.of(source.name)
    ran = world.change("offsets", "reset", source.name, status=3)
    assert "Argo CD" in ran.err
    assert operator.done == []
    world.change("offsets", "reset", source.name, "--even-if-gitops")
    assert f"reset {source.name}" in operator.done
    world.as_it_was(source.name, before)


def test_permissions_that_are_missing_are_named(
    world: World, operator: Operator, source: Source
) -> None:
    before = world.of(source.name)
    less = [RULES[0], {**RULES[1], "verbs": ["get", "list"]}, RULES[2]]
    role = next(entry for entry in account() if entry["kind"] == "Role")
    world.server.apply([{**role, "rules": less}])
    try:
        ran = world.run("offsets", "list", "--connectors", source.name, status=6)
    finally:
        world.server.apply([role])
    assert "cannot patch resource" in ran.err
    world.as_it_was(source.name, before)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("request:2:before", marks=pytest.mark.proof),
        "request:3:after",
        pytest.param("request:9:after", marks=pytest.mark.proof),
    ],
)
def test_what_a_killed_command_has_left_is_taken_back_and_brought_to_an_end(
    world: World, operator: Operator, source: Source, moment: str
) -> None:
    before = world.of(source.name)
    location = world.options(f"{SPACE}/{CLUSTER}")
    words = ("offsets", "alter", source.name, *format_options(source, source.after(2)), "--yes")
    child = world.tools.child(f"dying-{source.name}", *words, *location, value=moment)
    child.start()
    until("its death", lambda: _dead(child), timeout_s=PATIENCE_S)
    for plan in world.tools.open_plans(source.name):
        world.tools.run("plan", "recover", plan["plan_id"], *location)
    world.run("offsets", "list", "--connectors", source.name)  # takes the rest back
    world.as_it_was(source.name, before)
    assert not world.tools.open_plans(source.name)
    world.lab.wait_running(source.name)
    sample_connectors.await_recorded(world.lab, source)
    again = source.meant()[2:]
    assert source.came() in (source.meant(), [*source.meant(), *again])


def _dead(child: Child) -> None:
    if child.running:
        raise NotYet("it lives")


# --- what there is --------------------------------------------------------------------------------


def test_what_runs_in_a_namespace_is_printed_as_a_configuration_that_loads(
    world: World, tmp_path: Path
) -> None:
    def at(kind: str, name: str, version: str = world.version) -> dict[str, Any]:
        return {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, "namespace": "found"},
        }

    server = world.server
    server.namespace("found")
    listeners = [{"name": "tls", "port": 9093, "type": "internal", "tls": True}]
    password = {"secretName": "app", "password": "password"}
    scram = {"type": "scram-sha-512", "username": "app", "passwordSecret": password}
    authority = {"secretName": "main-cluster-ca-cert", "certificate": "ca.crt"}
    spec = {
        **cluster(world.served)["spec"],
        "bootstrapServers": "main-kafka-bootstrap:9093",
        "tls": {"trustedCertificates": [authority]},
        "authentication": scram,
    }
    labels = {"strimzi.io/cluster": "pipes"}
    orders = at("KafkaConnector", "orders")
    orders["metadata"]["labels"] = labels
    account = at("ServiceAccount", "reader", "v1")
    role = at("Role", "reader", "rbac.authorization.k8s.io/v1")
    kinds = ["kafkas", "kafkaconnects", "kafkaconnectors", "kafkamirrormaker2s"]
    may = [
        {"apiGroups": [GROUP], "resources": kinds, "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
    ]
    binding = at("RoleBinding", "reader", "rbac.authorization.k8s.io/v1")
    server.apply(
        [
            {**at("Kafka", "main"), "spec": {"kafka": {"listeners": listeners}}},
            {**at("KafkaConnect", "pipes"), "spec": spec},
            {**orders, "spec": {"class": "C", "tasksMax": 1, "config": {}}},
            {**at("Secret", "app", "v1"), "stringData": {"password": "hidden"}},
            {**at("Secret", "main-cluster-ca-cert", "v1"), "stringData": {"ca.crt": "PEM"}},
            account,
            {**role, "rules": may},
            {
                **binding,
                "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "found"}],
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Role",
                    "name": "reader",
                },
            },
        ]
    )
    kubeconfig = server.kubeconfig(
        tmp_path / "kubeconfig", token=server.token_of("found", "reader")
    )
    ran = world.tools.run(
        *("discover", "--strimzi", "found", "--kubeconfig", str(kubeconfig)),
        *("--secrets-to", str(tmp_path / "secrets")),
    )
    assert "pipes/orders: owned by KafkaConnector orders" in ran.err
    assert "hidden" not in ran.said
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(ran.out)
    loaded = config.load(path)
    assert loaded.kafka["main"].client_properties()["sasl.password"] == "hidden"
    (entry,) = loaded.connect
    assert entry.strimzi is not None
    assert (entry.strimzi.namespace, entry.strimzi.name) == ("found", "pipes")
    assert (tmp_path / "secrets" / "main-password").stat().st_mode & 0o777 == 0o600


# --- what is not done over REST -------------------------------------------------------------------


def test_what_the_operator_would_put_back_is_refused_over_rest_with_the_way_that_works(
    world: World, operator: Operator, source: Source
) -> None:
    linked = world.tools.directory / "linked.yaml"
    text = world.tools.config.read_text()
    link = f"strimzi: {{namespace: {SPACE}, name: {CLUSTER}}}}}"
    linked.write_text(text.replace("]}", f"], {link}"))
    where = ("--connect", "lab", "--config", str(linked), "--yes")
    for words in (
        ("connectors", "stop", source.name),
        ("offsets", "reset", source.name),
        ("connectors", "delete", source.name),
    ):
        ran = world.tools.run(*words, *where, status=3)
        assert f"--strimzi {SPACE}/{CLUSTER}" in ran.err
    assert world.lab.status(source.name)["connector"]["state"] == "RUNNING"
    kubeconfig = ("--kubeconfig", str(world.config), "--config", str(linked))
    through = ("--strimzi", f"{SPACE}/{CLUSTER}", *kubeconfig)
    world.tools.run("offsets", "reset", source.name, *through, "--yes")
    assert f"reset {source.name}" in operator.done


def test_a_stop_over_rest_does_not_last(world: World, operator: Operator, source: Source) -> None:
    """Why it is refused."""
    httpx.put(
        f"{world.lab.connect_urls[0]}/connectors/{source.name}/stop", verify=NO_AUTHORITIES
    ).raise_for_status()
    until(
        f"{source.name} stopped and running again",
        lambda: _resumed(operator, source.name),
        timeout_s=VISIBLE_S_MAX,
    )


def _resumed(operator: Operator, name: str) -> None:
    if name not in operator.resumed:
        raise NotYet(str(operator.resumed))
