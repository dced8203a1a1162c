"""A connector that an operator keeps, changed through its resource: a worker and an API server in
memory, and an operator between them that does what the resource says when it is told to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from offsetwatch.clients.kubernetes.access import KubernetesAccess
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.clients.write.kubernetes import KubeWriter
from offsetwatch.config import Connect
from offsetwatch.errors import TargetUnreachable
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.drivers.strimzi.driver import RestObservedStrimziDriver, StrimziDriver
from offsetwatch.remedy.drivers.strimzi.operator import StrimziOperatorClient
from offsetwatch.remedy.drivers.strimzi.resources import (
    BACKUP_ANNOTATION,
    KAFKA_CONNECTORS,
    OFFSETS_ANNOTATION,
    Owner,
)
from offsetwatch.remedy.model.driver import AttemptResult, StepStatus
from offsetwatch.remedy.model.plan import (
    Alter,
    PartitionOffset,
    RequestedState,
    Restart,
    Settle,
    ToState,
)
from tests.fakes import connect as fake
from tests.fakes.clock import VirtualClock
from tests.fakes.kube import Server

ACCESS = KubernetesAccess(url="http://kubernetes.test", token="some-token")
IN = {"filename": "/in"}
STOP, RUN = ToState(RequestedState.STOPPED), ToState(RequestedState.RUNNING)
SKIP = Alter((PartitionOffset('{"filename":"/in"}', '{"position":16}'),))


class World:
    """One connector that runs; `reconcile` is what the operator does, at each patch if prompt."""

    def __init__(self, worker: fake.Connect) -> None:
        self.worker, self.server = worker, Server()
        self.prompt = True
        self.worker.add("c", tasks=1)
        self.worker.commit("c", IN, {"position": 15})
        self.server.operator = lambda _: self.reconcile() if self.prompt else None
        self.fenced = False

    def reconcile(self) -> None:
        resource, built = self.server.resource, self.worker.connectors["c"]
        expected = resource["spec"].get("state", "running").upper()
        built.state, built.tasks = expected, 0 if expected == "STOPPED" else 1
        request = self.server.notes.pop(OFFSETS_ANNOTATION, None)
        if request == "list":
            name = resource["spec"]["listOffsets"]["toConfigMap"]["name"]
            self.server.maps[name] = {"data": {"offsets.json": json.dumps({"offsets": []})}}
        elif request == "alter":
            name = resource["spec"]["alterOffsets"]["fromConfigMap"]["name"]
            text = self.server.maps[name]["data"]["offsets.json"]
            for pair in json.loads(text)["offsets"]:
                self.worker.commit("c", pair["partition"], pair["offset"])
        tasks = [] if expected == "STOPPED" else [{"state": "RUNNING"}]
        resource["status"] = {
            "observedGeneration": 1,
            "connectorStatus": {"connector": {"state": expected}, "tasks": tasks},
        }
        self.server.touch()

    def check(self) -> None:
        if self.fenced:
            raise TargetUnreachable("connect", "another replica leads")

    def driver(self, *, stays: bool = False) -> RestObservedStrimziDriver:
        transport, clock = httpx.MockTransport(self.server), VirtualClock()
        cluster = Connect(name="lab", kafka="east", urls=[self.worker.url])
        operator = StrimziOperatorClient(
            KubeReader(ACCESS, transport=transport),
            KubeWriter(ACCESS, transport=transport, check=self.check),
            Owner(KAFKA_CONNECTORS, "kafka", "c", "c"),
            wait_s=30.0,
            clock=clock,
            pause=clock.advance,
        )
        strimzi = StrimziDriver(operator, stays=stays)
        return RestObservedStrimziDriver(RestDriver(cluster, "c", None, clock=clock), strimzi)

    @property
    def spec(self) -> dict[str, object]:
        result: dict[str, object] = self.server.resource["spec"]
        return result


@pytest.fixture
def world() -> Iterator[World]:
    with fake.serving(topics={"t": 2}) as worker:
        yield World(worker)


def test_it_is_stopped_skipped_and_set_going_by_its_resource_and_nothing_over_rest(world):
    driver = world.driver()
    for step in (STOP, SKIP, RUN):
        assert driver.inspect(step, None).status is StepStatus.READY
        assert driver.carry_out(step, None).answer is AttemptResult.ACK
        assert driver.inspect(step, None).status is StepStatus.DONE
    assert world.worker.changes() == []
    assert [pair.offset for pair in driver.offsets().pairs] == ['{"position":16}']
    assert world.spec == {}
    assert BACKUP_ANNOTATION not in world.server.notes


def test_a_stop_is_not_done_before_connect_says_so_whatever_the_resource_says(world):
    driver = world.driver()
    assert driver.carry_out(STOP, None).answer is AttemptResult.ACK
    world.worker.connectors["c"].tasks = 1  # one that has not ended yet
    assert driver.inspect(STOP, None).status is StepStatus.NOT_YET
    world.worker.connectors["c"].state = "RUNNING"  # somebody has resumed it over REST
    assert driver.inspect(STOP, None).status is StepStatus.NOT_YET
    world.reconcile()
    assert driver.inspect(STOP, None).status is StepStatus.DONE


def test_an_operator_that_has_not_looked_yet_is_waited_for(world):
    driver = world.driver()
    world.prompt = False
    assert driver.carry_out(STOP, None).answer is AttemptResult.ACK
    assert driver.inspect(STOP, None).status is StepStatus.NOT_YET


@pytest.mark.parametrize("step", [Settle(6.0), SKIP])
def test_a_step_on_a_resource_that_another_client_set_to_running_is_foreign(world, step):
    driver = world.driver()
    driver.carry_out(STOP, None)
    world.spec["state"] = "running"
    world.reconcile()
    assert driver.inspect(step, None).status is StepStatus.FOREIGN


def test_a_stop_for_good_keeps_nothing_of_how_it_was(world):
    driver = world.driver(stays=True)
    assert driver.carry_out(STOP, None).answer is AttemptResult.ACK
    assert driver.inspect(STOP, None).status is StepStatus.DONE
    assert world.spec["state"] == "stopped"
    assert BACKUP_ANNOTATION not in world.server.notes


def test_a_restart_goes_on_over_rest(world):
    driver = world.driver()
    assert driver.carry_out(Restart(only_failed=True), None).answer is AttemptResult.ACK
    assert len(world.worker.changes()) == 1
    assert world.server.patches == []


def test_who_leads_no_more_patches_nothing(world):
    driver = world.driver()
    world.fenced = True
    with pytest.raises(TargetUnreachable):
        driver.carry_out(STOP, None)
    assert world.server.patches == []


def test_what_a_process_that_is_gone_had_requested_is_taken_back_before_it_runs_again(world):
    world.driver().carry_out(STOP, None)
    world.prompt = False  # it is killed while the operator is asked to alter
    was = json.loads(world.server.notes[BACKUP_ANNOTATION])
    was["was"]["asked"] = "alter"
    world.server.notes.update({OFFSETS_ANNOTATION: "alter", BACKUP_ANNOTATION: json.dumps(was)})
    after = world.driver()
    assert after.inspect(RUN, None).status is StepStatus.READY
    assert after.carry_out(RUN, None).answer is AttemptResult.ACK
    assert world.server.notes == {}
    assert world.spec == {}


def test_the_place_is_known_by_its_kafka_cluster_whichever_way_it_is_changed(world):
    cluster = Connect(name="lab", kafka="east", urls=[world.worker.url])
    assert world.driver().identity() == RestDriver(cluster, "c", None).identity()
