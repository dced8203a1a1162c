"""When rounds of single reads are made: the first at once, the next after new log ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsetwatch.config import Config
from offsetwatch.daemon.polls import RecordAgeProbes
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from tests.fakes.broker import MockBroker
from tests.fakes.clock import VirtualClock
from tests.unit.ingest.test_record_age_poll import FLOW, lagging


@pytest.fixture(scope="module")
def broker():
    running = MockBroker()
    for partition in range(2):
        running.produce("orders", b"k", b"v", partition=partition)
    yield running
    running.stop()


def config(broker: MockBroker, **probes) -> Config:
    return Config.model_validate(
        {
            "kafka": {"west": {"bootstrap": broker.bootstrap}},
            "connect": [{"name": "lab", "kafka": "west", "url": "http://worker:8083"}],
            "ends_s": 5.0,
            "probes": {"budget_s": 10.0, **probes},
        }
    )


def waiting(partition: int = 0) -> Snapshot:
    topology = replace(EMPTY_SNAPSHOT.topology, flows=(FLOW,))
    return replace(
        EMPTY_SNAPSHOT, topology=topology, mirror_partitions=(lagging(0, partition=partition),)
    )


def test_a_round_with_nothing_to_read_costs_no_turn_and_one_with_something_does(broker):
    clock = VirtualClock()
    probes = RecordAgeProbes(config(broker), clock, lambda: False)
    try:
        assert probes.round("west", EMPTY_SNAPSHOT) == ()
        (read,) = probes.round("west", waiting())
        assert [answer.of[2].partition for answer in read.answers] == [0]
        clock.advance(4.9)
        assert probes.round("west", waiting(1)) == ()
        clock.advance(0.2)
        assert len(probes.round("west", waiting(1))) == 1
        clock.advance(-3600)  # set back: what was due then says nothing
        assert len(probes.round("west", waiting(1))) == 1
    finally:
        probes.close()


def test_switched_off_nothing_is_read_and_nothing_is_connected_to(broker):
    probes = RecordAgeProbes(config(broker, enabled=False), VirtualClock(), lambda: False)
    assert probes.round("west", waiting()) == ()
    probes.close()
