"""What a connector is before it is changed, straight on its storage, or over REST."""

from __future__ import annotations

import pytest

from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.config.schema.root import Strimzi
from offsetwatch.remedy.model.plan import PartitionOffset, RequestedState
from offsetwatch.toolbox.change import (
    Author,
    ConnectorChangeRequest,
    prepare_change,
)
from offsetwatch.toolbox.lifecycle import prepare_delete, prepare_state
from offsetwatch.toolbox.offset_locations import DocumentLocation
from offsetwatch.toolbox.store.offset_store import StateBeforeChange
from offsetwatch.toolbox.store.rest import RestOffsetStore
from offsetwatch.toolbox.validation import OffsetsRequest, ValidationProblem
from tests.unit.toolbox.store.test_worker_storage import (
    SINK,
    SOURCE,
    configured,
    kafka,
    open_worker_store,
    properties,
)

__all__ = ["kafka", "properties"]  # fixtures


def test_a_connector_that_has_offsets_or_had_some_or_is_configured_is_known(kafka, properties):
    configured(kafka, "configured", connector_class=SOURCE)
    kafka.produce("offsets", b'["reset",{"filename":"/x"}]', b'{"position":1}', partition=0)
    kafka.produce("offsets", b'["reset",{"filename":"/x"}]', None, partition=0)
    store = open_worker_store(kafka, properties)
    for name, new in (("c", False), ("configured", False), ("reset", False), ("none", True)):
        state = store.read_state(name)
        assert isinstance(state, StateBeforeChange)
        assert state.new is new, name
        assert state.state is None  # nothing that could be stopped


def test_a_sink_has_its_offsets_elsewhere(kafka, properties):
    configured(kafka, "sink", connector_class=SINK)
    problem = open_worker_store(kafka, properties).read_state("sink")
    assert isinstance(problem, ValidationProblem)
    assert "consumer group: go through Connect, --connect" in problem.right


def test_while_a_worker_may_run_nothing_is_changed(kafka, properties):
    kafka.members["connect"] = ("worker-1",)
    kafka.produce("offsets", b'["c",{"filename":"/x"}]', b'{"position":1}', partition=0)
    expected = PartitionOffset('{"filename":"/x"}', '{"position":5}')
    request = ConnectorChangeRequest(
        OffsetsRequest("c", (expected,), DocumentLocation("$")), "import offsets"
    )
    result = prepare_change(open_worker_store(kafka, properties), request, Author("p", 0.0, "me"))
    assert result.plan is None
    assert "may be running" in result.problems[0].wrong
    assert [change.after for change in result.changes] == ['{"position":5}']


# --- over REST ------------------------------------------------------------------------------------


def config() -> Config:
    return Config(kafka={"east": Kafka(bootstrap="127.0.0.1:9")}, connect=[linked()])


def linked() -> Connect:
    """Nobody answers there, and nobody is to be asked."""
    strimzi = Strimzi(namespace="kafka", name="pipes")
    return Connect(name="lab", kafka="east", url="http://127.0.0.1:9", strimzi=strimzi)


def test_what_strimzi_owns_is_not_changed_over_rest_and_the_way_that_works_is_said():
    problem = RestOffsetStore(config(), linked()).read_state("c")
    assert isinstance(problem, ValidationProblem)
    assert "offsets alter c --strimzi kafka/pipes" in problem.right


@pytest.mark.parametrize("state", RequestedState)
def test_nor_is_its_state(state: RequestedState):
    author = Author("20260101-000000-000000", 0.0, "somebody")
    prepared = prepare_state(RestOffsetStore(config(), linked()), "c", state, author)
    assert prepared.plan is None
    assert "Strimzi owns the connectors of lab (kafka/pipes)" in str(prepared.problems[0])
    assert (
        prepare_delete(RestOffsetStore(config(), linked()), "c", author).problems
        == prepared.problems
    )
