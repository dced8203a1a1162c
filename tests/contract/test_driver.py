"""The REST driver that changes real clusters, on the model: without a socket, and above that all of
it is the code that runs.
"""

from __future__ import annotations

import pytest

from offsetwatch.config import Connect
from offsetwatch.errors import AmbiguousOutcome
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.model.driver import AttemptResult, StepStatus
from offsetwatch.remedy.model.plan import Alter, PartitionOffset, RequestedState, Settle, ToState
from tests.contract.worlds import SINK_NAME, SOURCE_NAME, TOPIC, spot, with_sink, with_source
from tests.fakes.connect_model import Fault, How
from tests.fakes.connect_model.offsets import identity

STOP, RUN = ToState(RequestedState.STOPPED), ToState(RequestedState.RUNNING)
LANES = pytest.mark.parametrize("lane", ["direct", "httpx"])


def driver_of(connect, name, lane="direct", connection=None):
    connection = connect.door() if connection is None else connection
    cluster = Connect(name="lab", kafka="east", urls=list(connect.urls))
    transport = connection if lane == "direct" else connection.transport()
    return RestDriver(cluster, name, None, clock=connect.line, transport=transport)


def pair(at):
    partition, offset = at
    return PartitionOffset(text(partition), None if offset is None else text(offset))


def text(value):
    return identity(value).replace(" ", "")


def until_done(connect, driver, step):
    """Carry out once, and look until it is done; what was seen on the way."""
    observed = [driver.inspect(step, None).status]
    if observed[-1] is not StepStatus.DONE and not isinstance(step, Settle):
        assert driver.carry_out(step, None).answer is AttemptResult.ACK
    for _ in range(600):
        if observed[-1] is StepStatus.DONE:
            return list(dict.fromkeys(observed))
        connect.advance(0.1)
        observed.append(driver.inspect(step, None).status)
    raise AssertionError(f"{step} is never done: {driver.inspect(step, None)}")


def set_back(lane):
    connect = with_sink(records=30)
    driver = driver_of(connect, SINK_NAME, lane)
    steps = (STOP, Settle(), Alter((pair(spot(10)),)), RUN)
    observed = [until_done(connect, driver, step) for step in steps]
    connect.advance(61.0)
    offsets = driver.offsets().pairs
    driver.close()
    return observed, offsets, [item.offset for item in connect.delivered[SINK_NAME]]


@LANES
def test_a_sink_is_set_back_and_delivers_from_there(lane):
    observed, offsets, delivered = set_back(lane)
    assert offsets == (pair(spot(30)),)
    assert delivered == [*range(30), *range(10, 30)]
    assert observed[1] == [StepStatus.NOT_YET, StepStatus.DONE]  # it stands still for some seconds


def test_both_ways_in_report_the_same():
    assert set_back("direct") == set_back("httpx")


@LANES
def test_an_answer_that_is_lost_is_in_doubt_and_the_next_poll_reports(lane):
    connect = with_source(lines=2)
    connection = connect.door()
    driver = driver_of(connect, SOURCE_NAME, lane, connection)
    connection.faults[1] = Fault(How.LOST)
    with pytest.raises(AmbiguousOutcome):
        driver.carry_out(STOP, None)
    connect.advance(5.0)
    assert driver.inspect(STOP, None).status is StepStatus.DONE


def test_half_a_stop_is_reported_as_one():
    connect = with_source(lines=2)
    driver = driver_of(connect, SOURCE_NAME)
    connect.half_stops[SOURCE_NAME] = "fail"
    assert driver.carry_out(STOP, None).answer is AttemptResult.IN_DOUBT
    connect.advance(5.0)
    assert driver.inspect(STOP, None).status is StepStatus.PARTLY
    assert driver.carry_out(STOP, None).answer is AttemptResult.ACK
    connect.advance(5.0)
    assert driver.inspect(STOP, None).status is StepStatus.DONE


def test_a_zombie_in_the_group_is_a_reason_to_try_again():
    connect = with_sink(records=1)
    connect.hang(SINK_NAME, "put", 30.0)
    connect.broker.produce(TOPIC, b"")
    connect.advance(1.0)
    driver = driver_of(connect, SINK_NAME)
    driver.carry_out(STOP, None)
    connect.advance(6.0)
    back = Alter((pair(spot(0)),))
    assert driver.carry_out(back, None).answer is AttemptResult.RETRY
    connect.advance(30.0)
    assert driver.carry_out(back, None).answer is AttemptResult.ACK
