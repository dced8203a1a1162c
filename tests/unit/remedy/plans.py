"""Plans and runners for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from offsetwatch.clock import UnixClock
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.execute.runner import CancellationCheck, Runner
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    AnyStep,
    Copy,
    Expect,
    Freeze,
    PartitionOffset,
    Plan,
    PlanSubject,
    Prove,
    RecordLocation,
    RemediationContext,
    RequestedState,
    Settle,
    ToState,
)
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_connector import World, WorldDriver

OLD = {'{"file":"a"}': '{"position":10}', '{"file":"b"}': '{"position":20}'}
NEW = {'{"file":"a"}': '{"position":3}', '{"file":"c"}': '{"position":5}'}
ALTER = Alter(tuple(PartitionOffset(name, offset) for name, offset in sorted(NEW.items())))
AFTER = {**OLD, **NEW}


def plan_of(
    *changes: AnyStep, original: RequestedState | None = RequestedState.RUNNING, plan_id: str = "p1"
) -> Plan:
    stop = (ToState(RequestedState.STOPPED),) if original is not None else ()
    resume = (ToState(original),) if original is not None else ()
    return Plan(
        plan_id=plan_id,
        verb="alter offsets",
        subject=PlanSubject("rest", "lab", "orders", "source", "cluster-1"),
        steps=(*stop, Settle(), Freeze(), *(changes or (ALTER,)), *resume),
        original=original,
        final=original,
        created_at=Moment(1_800_000_000.0),
        created_by="ada",
    )


PARTITION = '{"kafka_partition":0,"kafka_topic":"orders"}'
AT, NEXT = '{"kafka_offset":7}', '{"kafka_offset":8}'
POISON = RecordLocation("east", "orders", "topic-1", 0, 7)


def skip_of(plan_id: str = "p1", **remedy: object) -> Plan:
    """Of a sink that stands at a record which it cannot deliver."""
    inputs = {
        "incident": "i1",
        "skip_key": "k1",
        "signature": "s1",
        "stop_total_s": 180.0,
        **remedy,
    }
    return Plan(
        plan_id=plan_id,
        verb="skip one record of orders",
        subject=PlanSubject("rest", "lab", "orders", "sink", "cluster-1"),
        steps=(
            Copy(POISON, "0" * 64, 12, str(inputs["skip_key"]), "east/quarantine"),
            ToState(RequestedState.STOPPED),
            Settle(),
            Freeze(),
            Expect((PartitionOffset(PARTITION, AT),)),
            Alter((PartitionOffset(PARTITION, NEXT),)),
            ToState(RequestedState.RUNNING),
            Prove(PartitionOffset(PARTITION, NEXT), POISON, 60.0),
        ),
        original=RequestedState.RUNNING,
        final=RequestedState.RUNNING,
        created_at=Moment(1_800_000_000.0),
        created_by="detector",
        remedy=RemediationContext(Action.SKIP_ONE, **inputs),
    )


@dataclass
class Bench:
    """A world, a journal and whoever works on them, on a clock that waiting moves."""

    folder: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    reports: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(self.clock, offsets=dict(OLD))
        self.driver = WorldDriver(self.world)
        self.journal = Journal(self.folder)

    def runner(
        self,
        driver: Driver | None = None,
        pause: Callable[[float], None] | None = None,
        find_cancellation: CancellationCheck = lambda: None,
        clock: UnixClock | None = None,
    ) -> Runner:
        return Runner(
            journal=self.journal,
            driver=driver or self.driver,
            clock=clock or self.clock,
            report=self.reports.append,
            pause=pause or self.clock.advance,
            options="--config F",
            find_cancellation=find_cancellation,
        )

    def died(self) -> None:
        """Another process comes: it has the folder and nothing else."""
        self.journal.close()
        self.journal = Journal(self.folder)
