"""A connector created with its offsets over REST, by a process that ends at each record it writes
and each request it makes: in the end it runs from where it was to begin, or it is gone and what a
namesake had left behind is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from offsetwatch.config import Connect
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.execute.runner import PlanResult, Runner
from offsetwatch.remedy.gather.live_queries import compute_config_sha256
from offsetwatch.remedy.model.driver import Outcome
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
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
from tests.unit.remedy.killed_processes import FragileJournal, Fuse, Killed

REMNANTS = {'{"filename":"/old"}': {"position": 77}, '{"filename":"/a"}': {"position": 99}}
NEW_OFFSETS = {'{"filename":"/a"}': {"position": 5}}
CONFIG = {"connector.class": "org.example.Source", "file": "/a"}


class Mortal(RestDriver):
    """Its process may end right before a request and right after."""

    fuse = Fuse()

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        self.fuse.burn()
        outcome = super().carry_out(step, frozen)
        self.fuse.burn()
        return outcome


class Creation:
    """One plan, and the processes that work on it one after the other."""

    def __init__(self, worker: fake.Connect, folder: Path) -> None:
        self.worker, self.folder, self.clock = worker, folder, VirtualClock()
        worker.offsets["new"] = dict(REMNANTS)
        self.plan = Plan(
            plan_id="p-1",
            verb="create new",
            subject=PlanSubject("rest", "cc", "new", "source", worker.cluster_id),
            steps=(
                Create(compute_config_sha256("new", CONFIG)),
                ToState(RequestedState.STOPPED),
                Settle(),
                Freeze(),
                Reset(),
                Alter((PartitionOffset('{"filename":"/a"}', '{"position":5}'),)),
                ToState(RequestedState.RUNNING),
            ),
            original=None,
            final=RequestedState.RUNNING,
            created_at=0.0,
            created_by="me",
        )

    def process(self, fuse: Fuse, *, config: bool, again: bool = False) -> PlanResult | None:
        connect = Connect(name="cc", kafka="k", url=self.worker.url)
        inputs = CONFIG if config else None
        driver = Mortal(connect, "new", None, create_config=inputs, clock=self.clock)
        driver.fuse = fuse
        with closing(FragileJournal(self.folder)) as journal, closing(driver):
            journal.fuse = fuse
            runner = Runner(
                journal=journal,
                driver=driver,
                clock=self.clock,
                report=lambda _said: None,
                pause=self.clock.advance,
            )
            return runner.finish_earlier("cc", "new") if again else runner.run(self.plan)


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving() as served:
        yield served


def judge(worker: fake.Connect, result: PlanResult | None) -> PlanStatus | None:
    there = worker.connectors.get("new")
    offsets = {name: offset for name, offset in worker.offsets["new"].items() if offset is not None}
    if there is None:
        assert offsets == REMNANTS
        assert result is None or result.ending in {PlanStatus.RESTORED, PlanStatus.UNCHANGED}
    else:
        assert (there.state, offsets) == ("RUNNING", NEW_OFFSETS)
        assert result is None or result.ending is PlanStatus.SUCCEEDED
    return None if result is None else result.ending


def test_a_creation_that_nothing_ends_runs_from_where_it_was_to_begin(worker, tmp_path):
    result = Creation(worker, tmp_path).process(Fuse(), config=True)
    assert judge(worker, result) is PlanStatus.SUCCEEDED


@pytest.mark.full
@pytest.mark.parametrize("config", [True, False], ids=["create again", "plan recover"])
def test_a_creation_that_ends_anywhere_is_finished_or_undone_by_the_next_process(
    worker, tmp_path, config
):
    endings, moment = set(), 0
    while True:
        moment += 1
        worker.connectors.clear()
        creation = Creation(worker, tmp_path / str(moment))
        try:
            result = creation.process(Fuse(moment), config=True)
        except Killed:
            result = creation.process(Fuse(), config=config, again=True)
            endings.add(judge(worker, result))
        else:
            judge(worker, result)
            break
    assert endings == {None, PlanStatus.UNCHANGED, PlanStatus.RESTORED, PlanStatus.SUCCEEDED}
