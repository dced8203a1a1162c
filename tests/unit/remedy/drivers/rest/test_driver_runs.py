"""Whole plans over REST, with one thing going wrong at each request in turn: in the end everything
is new or everything is old, and the connector is as it was.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from offsetwatch.clients.http.exchange import Transport
from offsetwatch.config import Connect
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.execute.runner import PlanResult, Runner
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.driver import Outcome
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    Plan,
    PlanStatus,
    PlanSubject,
    RequestedState,
    Reset,
    Settle,
    ToState,
)
from tests.fakes import connect as fake
from tests.fakes.clock import VirtualClock

OLD = {'{"filename":"/a"}': {"position": 10}}
NEW = {'{"filename":"/a"}': {"position": 5}, '{"filename":"/b"}': {"position": 1}}
ALTER = Alter(
    (
        PartitionOffset('{"filename":"/a"}', '{"position":5}'),
        PartitionOffset('{"filename":"/b"}', '{"position":1}'),
    )
)
REQUESTS = [("PUT", "/stop"), ("PATCH", "/offsets"), ("PUT", "/resume")]
READS = [("GET", "/status"), ("GET", "/tasks"), ("GET", "/offsets"), ("GET", "/$")]


def with_source(worker: fake.Connect) -> fake.Connect:
    worker.add("src", lingering=0)
    worker.offsets["src"] = dict(OLD)
    worker.linger = 2
    return worker


@pytest.fixture
def worker() -> fake.Connect:
    return with_source(fake.Connect(url="http://worker:8083"))


class Cut(BaseException):
    """The process ends here."""


class Mortal(RestDriver):
    """Dies right after its n-th request, before anybody hears of the answer; or before it."""

    def __init__(self, *inputs: Any, dies_at: int, before: bool, **more: Any) -> None:
        super().__init__(*inputs, **more)
        self.remaining, self.before = dies_at, before

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        self.remaining -= 1
        if self.remaining == 0 and self.before:
            raise Cut
        outcome = super().carry_out(step, frozen)
        if self.remaining == 0:
            raise Cut
        return outcome


class Run:
    """One plan, its journal, its clock."""

    def __init__(self, worker: fake.Connect, folder: Path, *steps: AnyStep) -> None:
        self.worker, self.folder, self.clock = worker, folder, VirtualClock()
        self.connect = Connect(name="cc", kafka="k", url=worker.url)
        self.transport: Transport | None = fake.MemoryTransport(worker)
        running = ToState(RequestedState.RUNNING)
        self.plan = Plan(
            plan_id="p-1",
            verb="alter",
            subject=PlanSubject("rest", "cc", "src", "source", "kafka-of-the-fake"),
            steps=(ToState(RequestedState.STOPPED), Settle(), Freeze(), *steps, running),
            original=RequestedState.RUNNING,
            final=RequestedState.RUNNING,
            created_at=0.0,
            created_by="me",
        )

    def driver(self) -> RestDriver:
        return RestDriver(self.connect, "src", None, **self.more)

    @property
    def more(self) -> dict[str, Any]:
        """How a driver of this run reaches the worker, and its clock."""
        return {"clock": self.clock, "transport": self.transport}

    def carry(self, driver: RestDriver | None = None, *, again: bool = False) -> PlanResult:
        with closing(Journal(self.folder)) as journal:
            runner = Runner(
                journal=journal,
                driver=driver or self.driver(),
                clock=self.clock,
                report=lambda _said: None,
                pause=self.clock.advance,
            )
            if not again:
                return runner.run(self.plan)
            result = runner.finish_earlier("cc", "src")
            return runner.run(self.plan) if result is None else result


def whole(worker: fake.Connect, result: PlanResult, new: Any = None) -> None:
    """Everything is as one of the two ends wants it."""
    new = NEW if new is None else new
    assert result.ending in {PlanStatus.SUCCEEDED, PlanStatus.RESTORED, PlanStatus.UNCHANGED}, (
        result
    )
    assert worker.offsets["src"] == (new if result.ending is PlanStatus.SUCCEEDED else OLD)
    built = worker.connectors["src"]
    assert (built.state, built.tasks) == ("RUNNING", 1)


def sent(worker: fake.Connect, method: str, path: str) -> int:
    return sum(name == method and where.endswith(path) for name, where in worker.changes())


def test_nothing_goes_wrong_over_http(tmp_path):
    with fake.serving() as served:
        worker = with_source(served)
        run = Run(worker, tmp_path, ALTER)
        run.transport = None
        result = run.carry()
        whole(worker, result)
        assert result.ending is PlanStatus.SUCCEEDED
        assert result.definite is True
        assert [sent(worker, *request) for request in REQUESTS] == [1, 1, 1]


def test_an_answer_that_is_cut_is_asked_for_again_over_http(tmp_path):
    with fake.serving() as served:
        worker = with_source(served)
        worker.fail("PATCH", "/offsets", None, applied=True)
        worker.fail("GET", "/status", None)
        run = Run(worker, tmp_path, ALTER)
        run.transport = None
        result = run.carry()
        whole(worker, result)
        assert result.ending is PlanStatus.SUCCEEDED


@pytest.mark.parametrize(("method", "path"), REQUESTS)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 409, "message": fake.REBALANCE}, id="a rebalance"),
        pytest.param({"status": 500, "message": fake.TIMED_OUT}, id="500 and not applied"),
        pytest.param(
            {"status": 500, "message": fake.TIMED_OUT, "applied": True}, id="500 and applied"
        ),
        pytest.param(
            {"status": 500, "message": fake.TIMED_OUT, "late": 5}, id="500 and applied later"
        ),
        pytest.param(
            {"status": 500, "message": fake.TIMED_OUT, "late": 90}, id="500 and applied much later"
        ),
        pytest.param({"status": None}, id="cut and not applied"),
        pytest.param({"status": None, "applied": True}, id="cut and applied"),
        pytest.param({"status": 404, "message": fake.ROUTE}, id="a worker that is starting"),
        pytest.param({"status": 200, "raw": b"<html>", "applied": True}, id="a proxy's page"),
    ],
)
def test_one_answer_that_is_not_yes_ends_well_all_the_same(worker, tmp_path, method, path, fault):
    worker.fail(method, path, **fault)
    result = Run(worker, tmp_path, ALTER).carry()
    whole(worker, result)
    assert result.ending is PlanStatus.SUCCEEDED
    assert sent(worker, method, path) <= 2


@pytest.mark.parametrize(("method", "path"), READS)
@pytest.mark.parametrize("status", [None, 404, 409, 500, 502])
def test_a_read_that_fails_now_and_then_changes_nothing(worker, tmp_path, method, path, status):
    for _ in range(3):
        worker.fail(method, path, status, fake.ROUTE if status == 404 else fake.REBALANCE)
    whole(worker, Run(worker, tmp_path, ALTER).carry())


def test_a_refusal_puts_the_state_back_and_leaves_the_offsets(worker, tmp_path):
    worker.validate = lambda partition, _offset: (
        "Partition objects should contain the key 'x'" if partition == {"filename": "/b"} else None
    )
    result = Run(worker, tmp_path, ALTER).carry()
    assert result.ending is PlanStatus.RESTORED
    assert "should contain the key" in result.said
    whole(worker, result)


def test_offsets_are_not_written_over_after_another_client_resumes_in_between(worker, tmp_path):
    run = Run(worker, tmp_path, ALTER)

    class Meddler(RestDriver):
        def offsets(self) -> Any:
            results = super().offsets()
            built = worker.connectors["src"]
            built.state, built.tasks = "RUNNING", 1
            return results

    result = run.carry(Meddler(run.connect, "src", None, **run.more))
    assert result.ending is PlanStatus.RESTORED
    assert sent(worker, "PATCH", "/offsets") == 0
    whole(worker, result)


@pytest.mark.parametrize("before", [True, False], ids=["before it is sent", "after it is done"])
@pytest.mark.parametrize("at", [1, 2, 3], ids=["stop", "alter", "resume"])
@pytest.mark.parametrize("steps", [(ALTER,), (Reset(),)], ids=["alter", "reset"])
def test_a_process_that_dies_at_a_request_leaves_all_to_the_next(
    worker, tmp_path, at, before, steps
):
    run = Run(worker, tmp_path, *steps)
    with pytest.raises(Cut):
        run.carry(Mortal(run.connect, "src", None, **run.more, dies_at=at, before=before))
    result = run.carry(again=True)
    whole(worker, result, new=NEW if steps == (ALTER,) else {})
    assert result.ending is (PlanStatus.RESTORED if at == 1 else PlanStatus.SUCCEEDED)
