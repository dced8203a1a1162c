"""What a person is shown is what the driver sends."""

from __future__ import annotations

import json

import pytest

from offsetwatch.config import Connect
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.engine.requests import build_step_request
from offsetwatch.remedy.gather.live_queries import compute_config_sha256
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Delete,
    Expect,
    Freeze,
    PartitionOffset,
    RequestedState,
    Reset,
    Restart,
    Settle,
    ToState,
)
from tests.fakes import connect as fake

NAME = "a/b c%"
CONFIG = {"connector.class": "org.example.Source", "name": NAME}
PAIRS = (
    PartitionOffset('{"shard":1}', '{"position":12345678901234567890}'),
    PartitionOffset('{"shard":2}', None),
)


@pytest.mark.parametrize(
    "step",
    [
        ToState(RequestedState.STOPPED),
        ToState(RequestedState.PAUSED),
        ToState(RequestedState.RUNNING),
        Restart(include_tasks=True, only_failed=True),
        Restart(include_tasks=False, only_failed=False),
        Alter(PAIRS),
        Reset(),
        Create(compute_config_sha256(NAME, CONFIG)),
        Delete(),
    ],
    ids=lambda step: type(step).__name__,
)
def test_what_is_shown_is_what_is_sent(step: AnyStep) -> None:
    with fake.serving() as worker:
        if not isinstance(step, Create):
            worker.add(NAME)
        driver = RestDriver(
            Connect(name="cc", kafka="k", urls=[worker.url]), NAME, None, create_config=CONFIG
        )
        driver.carry_out(step, None)
        driver.close()
        sent = [request for request in worker.requests if request[0] != "GET"]
    step_request = build_step_request(NAME, step)
    assert step_request is not None
    ((method, path, body),) = sent
    assert (method, path) == (step_request.method, step_request.path)
    if not isinstance(step, Create):  # whose configuration is in no plan
        assert body == (None if step_request.body is None else json.loads(step_request.body))


@pytest.mark.parametrize(
    "step", [Settle(), Freeze(), Expect(PAIRS)], ids=lambda item: type(item).__name__
)
def test_what_only_looks_requests_nothing(step: AnyStep) -> None:
    assert build_step_request(NAME, step) is None


def test_a_request_is_reported_on_a_line_with_its_exact_body() -> None:
    request = build_step_request("sink", Alter(PAIRS[:1]))
    assert request is not None
    assert request.said == (
        'PATCH /connectors/sink/offsets {"offsets":[{"partition":{"shard":1},'
        '"offset":{"position":12345678901234567890}}]}'
    )
