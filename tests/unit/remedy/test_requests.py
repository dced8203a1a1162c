"""What a person is shown is what the driver sends."""

from __future__ import annotations

import json

import pytest
from offsetwatch.config import Connect
from offsetwatch.remedy.drivers.rest.connect_state import config_sha256
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.engine.requests import of_step
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Delete,
    Expect,
    Freeze,
    Pair,
    Reset,
    Restart,
    Settle,
    State,
    ToState,
)

from tests.fakes import connect as fake

NAME = "a/b c%"
CONFIG = {"connector.class": "org.example.Source", "name": NAME}
PAIRS = (
    Pair('{"shard":1}', '{"position":12345678901234567890}'),
    Pair('{"shard":2}', None),
)


@pytest.mark.parametrize(
    "step",
    [
        ToState(State.STOPPED),
        ToState(State.PAUSED),
        ToState(State.RUNNING),
        Restart(include_tasks=True, only_failed=True),
        Restart(include_tasks=False, only_failed=False),
        Alter(PAIRS),
        Reset(),
        Create(config_sha256(NAME, CONFIG)),
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
    shown = of_step(NAME, step)
    assert shown is not None
    ((method, path, body),) = sent
    assert (method, path) == (shown.method, shown.path)
    if not isinstance(step, Create):  # whose configuration is in no plan
        assert body == (None if shown.body is None else json.loads(shown.body))


@pytest.mark.parametrize(
    "step", [Settle(), Freeze(), Expect(PAIRS)], ids=lambda at: type(at).__name__
)
def test_what_only_looks_asks_for_nothing(step: AnyStep) -> None:
    assert of_step(NAME, step) is None


def test_a_request_is_told_on_a_line_with_its_exact_body() -> None:
    request = of_step("sink", Alter(PAIRS[:1]))
    assert request is not None
    assert request.said == (
        'PATCH /connectors/sink/offsets {"offsets":[{"partition":{"shard":1},'
        '"offset":{"position":12345678901234567890}}]}'
    )
