"""Plans and runners for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from exporter.remedy.driver import Driver
from exporter.remedy.journal import Journal
from exporter.remedy.plan import (
    Alter,
    AnyStep,
    Freeze,
    Pair,
    Plan,
    Settle,
    State,
    Subject,
    ToState,
)
from exporter.remedy.runner import Runner
from tests.fakes.clock import VirtualClock
from tests.fakes.remedied import World, WorldDriver

OLD = {'{"file":"a"}': '{"position":10}', '{"file":"b"}': '{"position":20}'}
NEW = {'{"file":"a"}': '{"position":3}', '{"file":"c"}': '{"position":5}'}
ALTER = Alter(tuple(Pair(name, offset) for name, offset in sorted(NEW.items())))
AFTER = {**OLD, **NEW}


def plan_of(*changes: AnyStep, original: State | None = State.RUNNING, plan_id: str = "p1") -> Plan:
    stop = (ToState(State.STOPPED),) if original is not None else ()
    resume = (ToState(original),) if original is not None else ()
    return Plan(
        plan_id=plan_id,
        verb="alter offsets",
        subject=Subject("rest", "lab", "orders", "source", "cluster-1"),
        steps=(*stop, Settle(), Freeze(), *(changes or (ALTER,)), *resume),
        original=original,
        final=original,
        created_at=1_800_000_000.0,
        created_by="ada",
    )


@dataclass
class Bench:
    """A world, a journal and whoever works on them, on a clock that waiting moves."""

    folder: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(self.clock, offsets=dict(OLD))
        self.driver = WorldDriver(self.world)
        self.journal = Journal(self.folder)

    def runner(
        self, driver: Driver | None = None, pause: Callable[[float], None] | None = None
    ) -> Runner:
        return Runner(
            journal=self.journal,
            driver=driver or self.driver,
            clock=self.clock,
            tell=self.told.append,
            pause=pause or self.clock.advance,
            options="--config F",
        )

    def died(self) -> None:
        """Another process comes: it has the folder and nothing else."""
        self.journal.close()
        self.journal = Journal(self.folder)
