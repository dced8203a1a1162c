"""What a connector is before it is changed, straight on its storage."""

from __future__ import annotations

from exporter.toolbox.bounds import Problem
from exporter.toolbox.changes import Standing
from exporter.toolbox.facts import Kafkas
from exporter.toolbox.ways import StorageWay
from tests.fakes.clock import VirtualClock
from tests.unit.toolbox.test_storage_place import (
    SINK,
    SOURCE,
    configured,
    kafka,
    place_of,
    properties,
)

__all__ = ["kafka", "properties"]  # fixtures


def way_of(kafka, properties) -> StorageWay:
    return StorageWay(place_of(kafka, properties), Kafkas({}), VirtualClock())


def test_a_connector_that_has_offsets_or_had_some_or_is_configured_is_known(kafka, properties):
    configured(kafka, "configured", connector_class=SOURCE)
    kafka.produce("offsets", b'["reset",{"filename":"/x"}]', b'{"position":1}', partition=0)
    kafka.produce("offsets", b'["reset",{"filename":"/x"}]', None, partition=0)
    way = way_of(kafka, properties)
    for name, new in (("c", False), ("configured", False), ("reset", False), ("none", True)):
        standing = way.standing(name)
        assert isinstance(standing, Standing)
        assert standing.new is new, name
        assert standing.state is None  # nothing that could be stopped


def test_a_sink_has_its_offsets_elsewhere(kafka, properties):
    configured(kafka, "sink", connector_class=SINK)
    problem = way_of(kafka, properties).standing("sink")
    assert isinstance(problem, Problem)
    assert "consumer group: go through Connect, --connect" in problem.right


def test_while_a_worker_may_run_nothing_is_changed(kafka, properties):
    kafka.members["connect"] = ("worker-1",)
    problem = way_of(kafka, properties).standing("c")
    assert isinstance(problem, Problem)
    assert "may be running" in problem.wrong
