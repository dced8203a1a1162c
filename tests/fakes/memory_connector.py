"""A connector in memory, and a driver for it that can be told to misbehave as Connect does.

The world outlives the driver, as Connect outlives us: what was asked for and had no answer can be
carried out later, at a time the world keeps. Nothing here knows the engine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from offsetwatch.errors import ClientError
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    DriverOffsets,
    Outcome,
    StepInspection,
    StepStatus,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Copy,
    Create,
    Delete,
    Expect,
    FrozenOffsets,
    PartitionOffset,
    Prove,
    RequestedState,
    Reset,
    Restart,
    Settle,
    ToState,
    Watch,
)
from tests.fakes.clock import VirtualClock


@dataclass
class World:
    """One connector, its state and its offsets. `writes` is every change that was carried out.

    copies      the keys of what was copied to quarantine
    proven      what a look at a Prove says
    """

    clock: VirtualClock
    state: RequestedState | None = RequestedState.RUNNING
    config: str | None = None
    offsets: dict[str, str] = field(default_factory=dict)
    writes: list[tuple[float, AnyStep]] = field(default_factory=list)
    later: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    copies: set[str] = field(default_factory=set)
    proven: StepInspection = field(
        default_factory=lambda: StepInspection(StepStatus.DONE, "it got past it")
    )

    def settle(self) -> None:
        """Carry out what has become due."""
        while self.later and self.later[0][0] <= self.clock.now():
            heapq.heappop(self.later)[2]()

    def do_later(self, delay_s: float, change: Callable[[], None]) -> None:
        heapq.heappush(self.later, (self.clock.now() + delay_s, len(self.writes), change))

    def do(self, step: AnyStep) -> str | None:
        """Carry a step out, or say why not, as Connect would."""
        refused = self._refused(step)
        if refused is not None:
            return refused
        self.writes.append((self.clock.now(), step))
        match step:
            case ToState():
                self.state = step.state
            case Alter():
                for pair in step.pairs:
                    self.offsets.pop(pair.partition, None)
                    if pair.offset is not None:
                        self.offsets[pair.partition] = pair.offset
            case Reset():
                self.offsets.clear()
            case Create():
                self.state, self.config = RequestedState.STOPPED, step.config_sha256
            case Delete():
                self.state = None
            case Copy():
                self.copies.add(step.skip_key)
            case Restart():
                pass
            case _:
                raise AssertionError(step)
        return None

    def _refused(self, step: AnyStep) -> str | None:
        if isinstance(step, Create):
            return None if self.state is None else "there is a connector of this name"
        if self.state is None:
            return "there is no such connector"
        if isinstance(step, Alter | Reset) and self.state is not RequestedState.STOPPED:
            return "the connector must be STOPPED"
        return None


Misbehaviour = Callable[[AnyStep], Outcome | ClientError | None]


@dataclass
class WorldDriver:
    """A driver of a World. `misbehave` is asked before each attempt, `blind` before each look."""

    world: World
    misbehave: Misbehaviour = lambda step: None
    blind: Callable[[], ClientError | None] = lambda: None
    id: str | None = "cluster-1"
    looks: list[AnyStep] = field(default_factory=list)

    def identity(self) -> str | None:
        self._see()
        return self.id

    def offsets(self) -> DriverOffsets:
        self._see()
        pairs = (
            PartitionOffset(name, offset) for name, offset in sorted(self.world.offsets.items())
        )
        return DriverOffsets(tuple(pairs))

    def inspect(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        self._see()
        self.looks.append(step)
        world = self.world
        match step:
            case ToState():
                if world.state is None:
                    return StepInspection(StepStatus.FOREIGN, "there is no such connector")
                done = world.state is step.state
                return StepInspection(
                    StepStatus.DONE if done else StepStatus.READY, f"it is {world.state}"
                )
            case Settle() | Watch():
                return StepInspection(StepStatus.DONE, "nothing is written any more")
            case Create():
                return StepInspection(
                    StepStatus.READY if world.state is None else StepStatus.DONE, "looked"
                )
            case Delete() if world.state is not None and step.config_sha256 != world.config:
                return StepInspection(StepStatus.FOREIGN, "it is another's")
            case Delete():
                return StepInspection(
                    StepStatus.DONE if world.state is None else StepStatus.READY, "looked"
                )
            case Copy():
                done = step.skip_key in world.copies
                return StepInspection(StepStatus.DONE if done else StepStatus.READY, "looked")
            case Expect():
                now = [
                    PartitionOffset(pair.partition, world.offsets.get(pair.partition))
                    for pair in step.pairs
                ]
                same = tuple(now) == step.pairs
                return StepInspection(
                    StepStatus.DONE if same else StepStatus.FOREIGN, f"it has {now}"
                )
            case Prove():
                return world.proven
            case Restart():
                request = any(each == step for _, each in world.writes)
                return StepInspection(StepStatus.DONE if request else StepStatus.READY, "looked")
            case Alter() | Reset():
                assert frozen is not None
                return self._offsets(step, frozen)
            case _:
                raise AssertionError(step)

    def _offsets(self, step: Alter | Reset, frozen: FrozenOffsets) -> StepInspection:
        before = {pair.partition: pair.offset for pair in frozen.pairs}
        if isinstance(step, Alter):
            expected = {pair.partition: pair.offset for pair in step.pairs}
        else:
            expected = dict.fromkeys({*before, *self.world.offsets})
        now = {name: self.world.offsets.get(name) for name in expected}
        if now == expected:
            return StepInspection(StepStatus.DONE, "the offsets are as requested")
        if any(now[name] not in {expected[name], before.get(name)} for name in now):
            return StepInspection(
                StepStatus.FOREIGN, "the offsets are neither as before nor as asked for"
            )
        partly = any(now[name] == expected[name] != before.get(name) for name in now)
        return StepInspection(
            StepStatus.PARTLY if partly else StepStatus.READY, "the offsets are as before"
        )

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        self.world.settle()
        odd = self.misbehave(step)
        if isinstance(odd, ClientError):
            raise odd
        if odd is not None:
            return odd
        refused = self.world.do(step)
        if refused is not None:
            return Outcome(AttemptResult.NACK, refused)
        return Outcome(
            AttemptResult.ACK, "done", definite=True if isinstance(step, Alter) else None
        )

    def _see(self) -> None:
        self.world.settle()
        error = self.blind()
        if error is not None:
            raise error
