"""What Strimzi's resources say, which patches say something else, and a whole operation against an
API server in memory.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from offsetwatch.clients.kubernetes.access import KubernetesAccess
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.clients.write.kubernetes import KubeWriter
from offsetwatch.errors import ClientError, Conflict, ResponseTimeout
from offsetwatch.remedy.drivers.strimzi.driver import StrimziDriver, classify_operator_message
from offsetwatch.remedy.drivers.strimzi.operator import OperatorRefusal, StrimziOperatorClient
from offsetwatch.remedy.drivers.strimzi.resources import (
    BACKUP_ANNOTATION,
    KAFKA_CONNECTORS,
    KAFKA_MIRROR_MAKERS,
    OFFSETS_ANNOTATION,
    ConnectorResource,
    Owner,
    find_gitops_tool,
    find_mirror_parts,
)
from offsetwatch.remedy.model.driver import AttemptResult, StepStatus
from offsetwatch.remedy.model.plan import Alter, PartitionOffset, RequestedState, ToState
from tests.fakes.clock import VirtualClock
from tests.fakes.kube import LISTED, Server, obliging

ACCESS = KubernetesAccess(url="http://kubernetes.test", token="some-token")
OWNER = Owner(KAFKA_CONNECTORS, "kafka", "c", "c")

MIRROR_V1 = {
    "target": {"alias": "west"},
    "mirrors": [{"source": {"alias": "east"}, "sourceConnector": {}, "checkpointConnector": {}}],
}
MIRROR_V1BETA2 = {
    "connectCluster": "west",
    "clusters": [{"alias": "east"}, {"alias": "west"}],
    "mirrors": [
        {"sourceCluster": "north", "targetCluster": "west", "sourceConnector": {}},
        {"sourceCluster": "east", "targetCluster": "west", "heartbeatConnector": {}},
    ],
}


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        pytest.param(
            MIRROR_V1,
            [
                ("east->west.MirrorSourceConnector", "/spec/mirrors/0/sourceConnector"),
                ("east->west.MirrorCheckpointConnector", "/spec/mirrors/0/checkpointConnector"),
            ],
            id="v1",
        ),
        pytest.param(
            MIRROR_V1BETA2,
            [
                ("north->west.MirrorSourceConnector", "/spec/mirrors/0/sourceConnector"),
                ("east->west.MirrorHeartbeatConnector", "/spec/mirrors/1/heartbeatConnector"),
            ],
            id="v1beta2",
        ),
        pytest.param({}, [], id="nothing"),
    ],
)
def test_the_connectors_of_a_mirror_maker_are_named_as_strimzi_names_them(
    spec: dict[str, Any], parts: list[tuple[str, str]]
) -> None:
    assert [(name, value) for name, value, _ in find_mirror_parts({"spec": spec})] == parts


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, RequestedState.RUNNING),
        ({"pause": True}, RequestedState.PAUSED),
        ({"pause": True, "state": "running"}, RequestedState.RUNNING),
        ({"state": "stopped"}, RequestedState.STOPPED),
    ],
)
def test_what_a_resource_wants_is_read_as_strimzi_reads_it(
    spec: dict[str, Any], expected: RequestedState
) -> None:
    assert ConnectorResource(OWNER, {"spec": spec}).requested_state is expected


@pytest.mark.parametrize(
    ("labels", "annotations", "who"),
    [
        ({}, {}, None),
        ({"argocd.argoproj.io/instance": "x"}, {}, "Argo CD"),
        ({}, {"argocd.argoproj.io/tracking-id": "x"}, "Argo CD"),
        ({"kustomize.toolkit.fluxcd.io/name": "x"}, {}, "Flux"),
        ({"helm.toolkit.fluxcd.io/name": "x"}, {}, "Flux"),
        (
            {"kustomize.toolkit.fluxcd.io/name": "x"},
            {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"},
            None,
        ),
        ({"app.kubernetes.io/instance": "x"}, {}, "Argo CD, by the label"),
        ({"app.kubernetes.io/instance": "x"}, {"meta.helm.sh/release-name": "x"}, None),
    ],
)
def test_who_puts_a_resource_back_is_observed_by_its_marks(
    labels: dict[str, str], annotations: dict[str, str], who: str | None
) -> None:
    gitops_tool = find_gitops_tool({"metadata": {"labels": labels, "annotations": annotations}})
    assert (gitops_tool or "").startswith(who or "")
    assert (gitops_tool is None) == (who is None)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "PATCH /connectors/c/offsets returned 400 (Bad Request): a bad offset",
            AttemptResult.NACK,
        ),
        (
            "PATCH /c/offsets returned 400 (Bad Request): Connectors must be in the STOPPED state",
            AttemptResult.RETRY,
        ),
        ("PATCH /c/offsets returned 409 (Conflict): rebalance", AttemptResult.RETRY),
        ("PATCH /c/offsets returned 500 (Server Error): Request timed out", AttemptResult.IN_DOUBT),
        ("ConfigMap kafka/x does not exist.", AttemptResult.NACK),
        ("Connector is not in STOPPED state", AttemptResult.NACK),
        ("Connection reset by peer", AttemptResult.IN_DOUBT),
    ],
)
def test_a_complaint_of_the_operator_is_worth_what_connect_said_to_it(
    text: str, answer: AttemptResult
) -> None:
    assert (
        classify_operator_message(f"Encountered error altering connector offsets. {text}").answer
        is answer
    )


# --- a whole operation ----------------------------------------------------------------------------


def complaining(server: Server) -> None:
    if OFFSETS_ANNOTATION in server.notes:
        messages = {
            "type": "Warning",
            "status": "True",
            "reason": "ListOffsets",
            "message": "no mood",
        }
        server.resource["status"] = {"conditions": [messages]}
        server.touch()


def driver_at(server: Server, owner: Owner = OWNER) -> StrimziDriver:
    transport = httpx.MockTransport(server)
    clock = VirtualClock()
    return StrimziDriver(
        StrimziOperatorClient(
            KubeReader(ACCESS, transport=transport),
            KubeWriter(ACCESS, transport=transport),
            owner,
            wait_s=30.0,
            clock=clock,
            pause=clock.advance,
        )
    )


def stopped() -> Server:
    server = Server({"state": "stopped"})
    server.resource["status"] = {
        "observedGeneration": 1,
        "connectorStatus": {"connector": {"state": "STOPPED"}, "tasks": []},
    }
    return server


PAIR = PartitionOffset('{"filename":"/in"}', '{"position":15}')


def test_a_listing_leaves_the_resource_as_it_was() -> None:
    server = Server()
    server.operator = obliging
    before = copy.deepcopy(server.resource["spec"])
    assert driver_at(server).offsets().pairs == (PAIR,)
    assert server.resource["spec"] == before
    assert not server.notes


@pytest.mark.parametrize(
    ("operator", "expected"),
    [(lambda _server: None, ResponseTimeout), (complaining, OperatorRefusal)],
    ids=["silent", "complaining"],
)
def test_an_operator_that_does_not_do_it_is_no_longer_queried(
    operator: Callable[[Server], None], expected: type[ClientError]
) -> None:
    server = Server()
    server.operator = operator
    with pytest.raises(expected):
        driver_at(server).offsets()
    assert not server.notes
    assert server.resource["spec"] == {}


def test_what_a_killed_process_has_left_is_taken_back_by_the_next() -> None:
    server = Server({"alterOffsets": {"fromConfigMap": {"name": "c-offsetwatch-alter"}}})
    held = {"connector": "c", "was": {"asked": "alter", "alterOffsets": None}}
    server.resource["metadata"]["annotations"] = {
        OFFSETS_ANNOTATION: "alter",
        BACKUP_ANNOTATION: json.dumps(held),
    }
    requests: list[str | None] = []

    def watching(host: Server) -> None:
        requests.append(host.notes.get(OFFSETS_ANNOTATION))
        obliging(host)

    server.operator = watching
    driver_at(server).offsets()
    assert requests[0] is None  # before anything else
    assert "alter" not in requests
    assert server.resource["spec"] == {}
    assert not server.notes


def test_an_annotation_of_another_client_is_left_in_place() -> None:
    server = Server()
    server.resource["metadata"]["annotations"] = {OFFSETS_ANNOTATION: "reset"}
    with pytest.raises(Conflict, match="reset"):
        driver_at(server).offsets()
    assert server.notes == {OFFSETS_ANNOTATION: "reset"}
    assert server.patches == []


def test_an_operation_that_replaced_ours_stays_requested() -> None:
    server = Server()

    def replace_the_operation(host: Server) -> None:
        if host.notes.get(OFFSETS_ANNOTATION) == "list":
            host.notes[OFFSETS_ANNOTATION] = "reset"
            host.touch()

    server.operator = replace_the_operation
    with pytest.raises(Conflict, match="something else: reset"):
        driver_at(server).offsets()
    assert server.notes == {OFFSETS_ANNOTATION: "reset"}
    assert server.resource["spec"] == {}


def test_a_patch_that_comes_too_late_is_recreated_of_what_is_there_then() -> None:
    server = Server()
    server.operator = obliging
    times = iter(range(100))

    def meddling(host: Server) -> None:
        if next(times) == 0:
            host.resource["spec"]["tasksMax"] = 7
            host.touch()

    server.before = meddling
    driver_at(server).offsets()
    assert server.resource["spec"] == {"tasksMax": 7}


def test_a_state_that_was_not_there_is_not_there_afterwards() -> None:
    server = Server({"pause": True})
    driver = driver_at(server)
    driver.carry_out(ToState(RequestedState.STOPPED), None)
    assert server.resource["spec"] == {"pause": True, "state": "stopped"}
    driver.carry_out(ToState(RequestedState.PAUSED), None)
    assert server.resource["spec"] == {"pause": True}
    assert not server.notes


def test_who_sets_it_going_in_between_has_the_last_word() -> None:
    server = Server()
    driver = driver_at(server)
    driver.carry_out(ToState(RequestedState.STOPPED), None)
    server.resource["spec"]["state"] = "running"
    server.touch()
    assert driver.inspect(ToState(RequestedState.STOPPED), None).status is StepStatus.FOREIGN


def test_offsets_of_what_is_not_stopped_are_not_ordered_to_be_changed() -> None:
    server = Server()
    outcome = driver_at(server).carry_out(Alter((PAIR,)), None)
    assert outcome.answer is AttemptResult.NACK
    assert (server.patches, server.maps) == ([], {})


def test_the_offsets_to_be_set_are_in_a_config_map_of_ours_beside_an_operators_own() -> None:
    server = stopped()
    own = {"fromConfigMap": {"name": "mine"}}
    server.resource["spec"]["alterOffsets"] = own
    server.operator = obliging
    assert driver_at(server).carry_out(Alter((PAIR,)), None).answer is AttemptResult.ACK
    retained = server.maps["c-offsetwatch-alter"]
    assert json.loads(retained["data"]["offsets.json"]) == {"offsets": [LISTED]}
    assert retained["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert server.resource["spec"]["alterOffsets"] == own


def test_a_silent_operator_leaves_it_in_doubt_whether_offsets_were_set() -> None:
    server = stopped()
    assert driver_at(server).carry_out(Alter((PAIR,)), None).answer is AttemptResult.IN_DOUBT
    assert not server.notes
    assert "alterOffsets" not in server.resource["spec"]


def test_a_resource_that_the_operator_may_not_touch_is_not_touched_by_us() -> None:
    server = stopped()
    server.resource["metadata"]["annotations"] = {"strimzi.io/pause-reconciliation": "true"}
    inspection = driver_at(server).inspect(ToState(RequestedState.RUNNING), None)
    assert inspection.status is StepStatus.IMPOSSIBLE


def test_the_key_of_a_mirrors_offsets_is_its_name_without_an_arrow() -> None:
    owner = Owner(KAFKA_MIRROR_MAKERS, "kafka", "m", "east->west.MirrorSourceConnector")
    observed = ConnectorResource(owner, {"metadata": {}, "spec": MIRROR_V1})
    assert observed.key == "east--west.MirrorSourceConnector.json"
    (op,) = [
        entry
        for entry in observed.patch_operation("list", {})
        if entry["path"] == "/metadata/annotations"
    ]
    assert op["value"]["strimzi.io/mirrormaker-connector"] == owner.connector
