"""The pipeline's file as the daemon sees it: new, the same, unreadable, gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsetwatch.config import Config
from offsetwatch.daemon.polls import BaselinesFile, PipelineStatusFile, RecordAgeProbes
from offsetwatch.history.tables import pipeline_status
from offsetwatch.history.tables.pipeline_status import PipelineStatusWriter, path_of
from offsetwatch.ingest.polls import Batch
from offsetwatch.model.history_documents import Baselines, FeedStatus, PipelineStatus
from offsetwatch.model.observations import BaselinesRead, PipelineStatusRead
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from tests.fakes.broker import MockBroker
from tests.fakes.clock import VirtualClock
from tests.unit.ingest.test_record_age_poll import FLOW, lagging

UNREADABLE = PipelineStatusRead(None, unreadable=True)
GONE = PipelineStatusRead(None)


class BaselinesPoll:
    """Looks at one base path; what one look told is what the loop took of it."""

    def __init__(self, base: Path) -> None:
        self.full = False
        self._taken: list[Batch] = []
        self._file = PipelineStatusFile(base, self._put)

    def _put(self, batch: Batch) -> bool:
        if not self.full:
            self._taken.append(batch)
        return not self.full

    def poll(self) -> Batch:
        self._taken.clear()
        self._file.poll()
        return tuple(observed for batch in self._taken for observed in batch)


def of(kafka: str) -> PipelineStatusRead:
    return PipelineStatusRead(PipelineStatus(feeds=(FeedStatus(kafka),)))


def write(base: Path, kafka: str) -> None:
    with PipelineStatusWriter(base, [kafka]):
        pass


def damage(base: Path) -> None:
    path_of(base).parent.mkdir(exist_ok=True)
    path_of(base).write_bytes(b"{")


def test_where_no_pipeline_ever_ran_nothing_is_said(tmp_path):
    polling = BaselinesPoll(tmp_path / "history")
    assert polling.poll() == ()
    assert polling.poll() == ()


def test_a_file_is_reported_once_and_again_when_it_was_replaced(tmp_path):
    polling = BaselinesPoll(tmp_path)
    write(tmp_path, "east")
    assert polling.poll() == (of("east"),)
    assert polling.poll() == ()
    write(tmp_path, "west")
    assert polling.poll() == (of("west"),)


def test_a_file_that_is_gone_is_reported(tmp_path):
    polling = BaselinesPoll(tmp_path)
    write(tmp_path, "east")
    polling.poll()
    path_of(tmp_path).unlink()
    assert polling.poll() == (GONE,)
    assert polling.poll() == ()


def test_an_unreadable_file_is_counted_once_until_it_is_another(tmp_path):
    polling = BaselinesPoll(tmp_path)
    write(tmp_path, "east")
    polling.poll()
    damage(tmp_path)
    assert polling.poll() == (UNREADABLE,)
    assert polling.poll() == ()
    write(tmp_path, "east")
    assert polling.poll() == (of("east"),)
    damage(tmp_path)
    assert polling.poll() == (UNREADABLE,)


def test_what_the_loop_had_no_room_for_is_reported_again(tmp_path):
    polling = BaselinesPoll(tmp_path)
    for status, change in (
        (of("east"), lambda: write(tmp_path, "east")),
        (UNREADABLE, lambda: damage(tmp_path)),
        (of("west"), lambda: write(tmp_path, "west")),
        (GONE, lambda: path_of(tmp_path).unlink()),
    ):
        change()
        polling.full = True
        assert polling.poll() == ()
        polling.full = False
        assert polling.poll() == (status,)
        assert polling.poll() == ()


def test_a_folder_that_cannot_be_inspected_is_unreadable_and_not_empty(tmp_path):
    (tmp_path / "ops").symlink_to("ops")  # leads to itself, whoever follows it
    polling = BaselinesPoll(tmp_path)
    assert polling.poll() == (UNREADABLE,)
    assert polling.poll() == ()


def test_what_is_usual_is_reported_when_it_is_new_damaged_and_gone(tmp_path):
    taken: list[Batch] = []
    file = BaselinesFile(tmp_path, lambda batch: taken.append(batch) is None)
    document = Baselines(made_at=2.0, until=1.0)
    pipeline_status.publish(tmp_path, document)
    file.poll()
    file.poll()
    pipeline_status.find_baselines_path(tmp_path).write_bytes(b"{")
    file.poll()
    file.poll()
    pipeline_status.find_baselines_path(tmp_path).unlink()
    file.poll()
    reports = [observed for batch in taken for observed in batch]
    assert reports == [
        BaselinesRead(document),
        BaselinesRead(None, damaged=True),
        BaselinesRead(None),
    ]


# --- probe readers -------------------------------------------------------------------------------


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
