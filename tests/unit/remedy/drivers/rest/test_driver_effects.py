"""Whether a restart or a resume has helped, by what a worker says of the tasks afterwards."""

from __future__ import annotations

from contextlib import closing

import httpx
import pytest

from offsetwatch.config import Connect
from offsetwatch.remedy.drivers.rest.driver import IDLE_S, RESTART_S, RestDriver
from offsetwatch.remedy.gather.live_queries import ConnectClient
from offsetwatch.remedy.model.driver import AttemptResult, StepInspection, StepStatus
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    PartitionOffset,
    RequestedState,
    ToState,
    Watch,
)
from tests.fakes.clock import VirtualClock

QUIET_S = 5.0
CONNECT = Connect.model_validate({"name": "lab", "kafka": "east", "url": "http://w:8083"})


class Worker:
    """Tells the states of a connector and its tasks, one answer each second; the last one stays."""

    def __init__(self, *states: str, configured: int = 1) -> None:
        self.states, self.configured, self.clock = states, configured, VirtualClock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/tasks"):
            tasks = [
                {"id": {"connector": "c", "task": number}} for number in range(self.configured)
            ]
            return httpx.Response(200, json=tasks)
        now = self.states[min(int(self.clock.now()) - self.began, len(self.states) - 1)]
        connector, *tasks = now.split()
        return httpx.Response(
            200,
            json={
                "name": "c",
                "type": "sink",
                "connector": {"state": connector, "worker_id": "w:1"},
                "tasks": [
                    {"id": number, "state": state, "worker_id": "w:1", "trace": f"of {number}"}
                    for number, state in enumerate(tasks)
                ],
            },
        )

    def driver(self) -> RestDriver:
        self.began = int(self.clock.now())
        return RestDriver(CONNECT, "c", None, clock=self.clock, transport=httpx.MockTransport(self))

    def inspect(self, step: AnyStep) -> StepInspection:
        with closing(self.driver()) as driver:
            return driver.inspect(step, None)

    def watched(self, most_s: int = 60) -> tuple[StepInspection, int]:
        """The first look that is not NOT_YET, and after how many seconds it came."""
        with closing(self.driver()) as driver:
            for seconds in range(most_s):
                inspection = driver.inspect(Watch(QUIET_S), None)
                if inspection.status is not StepStatus.NOT_YET:
                    return inspection, seconds
                self.clock.advance(1.0)
        return inspection, most_s


@pytest.mark.parametrize(
    ("states", "status", "seconds"),
    [
        (["RUNNING RUNNING"], StepStatus.DONE, 5),
        (["RUNNING FAILED", "RUNNING RUNNING"], StepStatus.DONE, 6),
        (["RUNNING RUNNING", "RUNNING FAILED"], StepStatus.FOREIGN, 1),
        (["RUNNING RESTARTING", "RUNNING FAILED"], StepStatus.FOREIGN, 1),
        (["RUNNING FAILED"], StepStatus.FOREIGN, int(RESTART_S)),
        (["FAILED RUNNING"], StepStatus.FOREIGN, int(RESTART_S)),
        (["RUNNING RUNNING"] * 3 + ["RUNNING UNASSIGNED", "RUNNING RUNNING"], StepStatus.DONE, 9),
        (["RUNNING UNASSIGNED"], StepStatus.NOT_YET, 60),
        (["RUNNING"], StepStatus.NOT_YET, 60),
        (["PAUSED PAUSED"], StepStatus.DONE, 0),
        (["STOPPED"], StepStatus.DONE, 0),
    ],
    ids=lambda inputs: inputs[-1] if isinstance(inputs, list) else None,
)
def test_it_has_helped_once_all_tasks_ran_for_so_long(states, status, seconds):
    inspection, took = Worker(*states).watched()
    assert (inspection.status, took) == (status, seconds)


@pytest.mark.parametrize("remaining", ["FAILED", "UNASSIGNED"])
def test_what_a_task_of_an_earlier_configuration_left_is_no_failure(remaining):
    inspection, took = Worker(f"RUNNING RUNNING {remaining}").watched()
    assert (inspection.status, took) == (StepStatus.DONE, 5)


def test_a_trace_that_is_left_of_another_task_is_none_of_its_failures():
    worker = Worker("RUNNING FAILED FAILED")
    worker.began = int(worker.clock.now())
    with closing(ConnectClient(CONNECT, transport=httpx.MockTransport(worker))) as client:
        assert client.traces("c") == {0: "of 0"}


def test_a_stop_is_done_although_tasks_of_an_earlier_configuration_left_a_status():
    worker = Worker("STOPPED FAILED UNASSIGNED", configured=0)
    assert worker.inspect(ToState(RequestedState.STOPPED)).status is StepStatus.DONE


def test_a_connector_without_tasks_runs_once_none_have_come_for_a_while():
    inspection, took = Worker("RUNNING", configured=0).watched()
    assert (inspection.status, took) == (StepStatus.DONE, int(IDLE_S))


@pytest.mark.parametrize(
    ("position", "said"),
    [
        (5, "running, tasks: running, for 5 s; it has committed nothing else yet"),
        (9, "running, tasks: running, for 5 s, and it has committed since"),
    ],
)
def test_after_an_alteration_it_is_said_whether_the_tasks_have_committed(position, said):
    worker = Worker("RUNNING RUNNING")
    key = {"filename": "/in"}

    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/offsets"):
            return worker(request)
        if request.method == "PATCH":
            text = "The offsets for this connector have been altered successfully"
            return httpx.Response(200, json={"message": text})
        pairs = [{"partition": key, "offset": {"position": position}}]
        return httpx.Response(200, json={"offsets": pairs})

    worker.began = int(worker.clock.now())
    transport = httpx.MockTransport(answer)
    with closing(RestDriver(CONNECT, "c", None, clock=worker.clock, transport=transport)) as driver:
        pair = PartitionOffset('{"filename":"/in"}', '{"position":5}')
        assert driver.carry_out(Alter((pair,)), None).answer is AttemptResult.ACK
        for _ in range(6):
            inspection = driver.inspect(Watch(QUIET_S), None)
            worker.clock.advance(1.0)
    assert (inspection.status, inspection.said) == (StepStatus.DONE, said)
