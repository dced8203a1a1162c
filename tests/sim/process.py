"""A process that carries a plan out: the real runner, driver and journal over a World. It may end
at any of its moments.

A moment is before, in the middle of, or after anything that lasts: a record of the journal, a
request, a file, a copy. `Fuse` counts them, and ends the process at the one that it is made for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from offsetwatch.errors import ConnectorBusy, PlanStateConflict
from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.drivers.common_steps import (
    ProbationChecker,
    RecordCopier,
    StepDispatcher,
    build_copy_context,
)
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.engine import AbortEvent, InterruptEvent
from offsetwatch.remedy.engine.progress import EngineLimits
from offsetwatch.remedy.execute.approved_plans import GuardInputs, approval_of
from offsetwatch.remedy.execute.runner import PlanResult, Runner
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import Journal, StartCheck
from offsetwatch.remedy.model import approval
from offsetwatch.remedy.model.facts import PlanApproval
from offsetwatch.remedy.model.fleet_state import POLICY_APPROVER
from offsetwatch.remedy.model.journal_records import AnyRecord, PlanOpened, PlanProposed
from offsetwatch.remedy.model.plan import Action, Copy, Plan, PlanStatus, Prove
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.model.quarantine import QuarantineContext, Receipt
from offsetwatch.remedy.model.service_api import Mode
from tests.fakes.clock import SetClock
from tests.fakes.connect_model import Door, Fault, How
from tests.sim import bounds
from tests.sim.logs import NAME
from tests.sim.recheck import OnTime, Recheck
from tests.sim.world import PLACE, QUARANTINE, QuarantinedBytes, World

if TYPE_CHECKING:
    from tests.sim.invariants import InvariantChecks

LATE_S = 40.0  # when a request arrives whose sender has died


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Fuse:
    """`moments` are those that the process came to; `at` counts from 1. `dying` is called right
    before the end, and `standing_still` at the moment `still_at`.
    """

    at: int | None = None
    moments: list[str] = field(default_factory=list)
    dying: Callable[[str], None] = lambda _moment: None
    still_at: int | None = None
    standing_still: Callable[[], None] = lambda: None

    def burns(self, moment: str) -> bool:
        self.moments.append(moment)
        if len(self.moments) == self.still_at:
            self.standing_still()
        if len(self.moments) != self.at:
            return False
        self.dying(moment)
        return True

    def burn(self, moment: str) -> None:
        if self.burns(moment):
            raise Killed(moment)


class SimJournal(Journal):
    """Its process may end before a record is written, in the middle of that, and after it; and its
    disk may be full for some records.
    """

    def __init__(self, folder: Path, fuse: Fuse, watch: InvariantChecks) -> None:
        self.fuse, self.watch = fuse, watch
        super().__init__(folder)
        self._db.execute("PRAGMA synchronous = OFF")  # processes end here, machines do not

    def open(self, plan: Plan, record: PlanOpened, against: StartCheck = lambda: None) -> None:
        self.fuse.burn("before opened")
        super().open(plan, record, against)
        self.watch.appended(self, (record,))
        self.fuse.burn("after opened")

    def append(self, plan_id: str, records: tuple[AnyRecord, ...]) -> None:
        if not records:
            return
        text = "+".join(type(record).__name__.lower() for record in records)
        self.fuse.burn(f"before {text}")
        super().append(plan_id, records)
        self.watch.appended(self, records)
        self.fuse.burn(f"after {text}")

    def decide(self, plan_id: str, decided: Callable[..., Any]) -> Any:
        self.fuse.burn("before decided")
        result = super().decide(plan_id, decided)
        if isinstance(result, AnyRecord):
            self.watch.appended(self, (result,))
        self.fuse.burn("after decided")
        return result

    @property
    def writing(self) -> bool:
        """Whether it is in the middle of a record: nobody else can write one."""
        return self._db.in_transaction

    def _append(self, plan_id: str, record: AnyRecord) -> None:
        super()._append(plan_id, record)
        self.fuse.burn(f"torn {type(record).__name__.lower()}")
        if self.watch.disk_full():
            raise sqlite3.OperationalError("database or disk is full")


class SimQuarantine:
    """Honest: what is there is told by its bytes."""

    name = QUARANTINE

    def __init__(self, world: World, fuse: Fuse) -> None:
        self._world, self._fuse = world, fuse

    def find(self, skip_key: str, sha256: str | None = None) -> Receipt | None:
        for retained in reversed(self._world.copies):
            result = retained.sha256
            if retained.skip_key == skip_key and sha256 in {None, result}:
                return Receipt("quarantine-0@0", 0, 0, None, result, retained.at)
        return None

    def put(self, record: RawRecord, about: QuarantineContext) -> Receipt:
        self._fuse.burn("before copy")
        now = self._world.line.now()
        dies = self._fuse.burns("torn copy")
        torn = dies or self._world.tears_copies
        written = replace(record, value=(record.value or b"")[:2]) if torn else record
        self._world.copies.append(QuarantinedBytes(about.skip_key, written, now))
        if dies:
            raise Killed("torn copy")
        self._fuse.burn("after copy")
        receipt = self.find(about.skip_key, record.sha256)
        if receipt is None:
            raise OSError("the copy is not the record")
        return receipt


class Gate:
    """What a process asks Connect through: see wire.InMemory."""

    def __init__(self, connection: Door, fuse: Fuse, watch: InvariantChecks) -> None:
        self._door, self._fuse, self._watch = connection, fuse, watch

    def exchange(
        self, method: str, url: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[int, bytes]:
        if method == "GET":
            reply = self._door.reply(method, url, path, b"", timeout_s)
            self._watch.saw(path, reply.status, reply.body)
            return reply.status, reply.body
        with self._watch.around_request(method, path, body):
            for how in ("not applied", "applied late", "response lost"):
                if self._fuse.burns(f"{how}: {path}"):
                    self._watch.sends()
                    self._die(how, (method, url, path, body or b"", timeout_s))
            self._watch.sends()
            reply = self._door.reply(method, url, path, body or b"", timeout_s)
        self._fuse.burn(f"answered: {path}")
        return reply.status, reply.body

    def _die(self, how: str, requests: tuple[str, str, str, bytes, float]) -> None:
        fault = {
            "not applied": Fault(How.DROPPED),
            "applied late": Fault(How.LATE, delay_s=LATE_S),
            "response lost": Fault(How.LOST),
        }[how]
        self._door.faults[self._door.changes + 1] = fault
        with suppress(httpx.TransportError):
            self._door.reply(*requests)
        raise Killed(how)


class SimRestDriver(RestDriver):
    """One that is told the members of a sink's group by the model's broker."""

    world: World

    def _members(self) -> tuple[str, ...] | None:
        self._client.config(NAME)
        group = self.world.connect.broker.groups.get(f"connect-{NAME}")
        return () if group is None else tuple(sorted(group.members))


class Instance:
    """One process, from its start to its end."""

    def __init__(
        self, world: World, watch: InvariantChecks, folder: Path, connection: Door, fuse: Fuse
    ) -> None:
        self.world, self.watch, self.fuse = world, watch, fuse
        self.folder = folder
        self.working = False
        self.journal = SimJournal(folder, fuse, watch)
        gate = Gate(connection, fuse, watch)
        self.sight = OnTime(world.site, transport=gate)
        self.sight.line = world.line
        self._clock = SetClock(world.line, watch.clock.by_s)  # as it was when the process began
        rest = SimRestDriver(world.site, NAME, None, clock=world.line, transport=gate)
        rest.world = world
        proofs = ProbationChecker(self.sight, NAME, world.line, world.nothing_after)
        copies = RecordCopier(
            lambda _kafka: world.log.open(),
            SimQuarantine(world, fuse),
            build_copy_context(world.plan),
        )
        self.runner = Runner(
            journal=self.journal,
            driver=StepDispatcher(rest, {Prove: proofs, Copy: copies}),
            clock=self._clock,
            report=lambda _said: None,
            pause=world.line.advance,
            limits=EngineLimits(),
            options="--config F",
            find_cancellation=self._find_interruption,
        )

    def _find_interruption(self) -> InterruptEvent | AbortEvent | None:
        return self.watch.interruption()

    def approve(self, policy: Policy) -> bool:
        """Propose the plan, and have it approved where the policy, or a person, does so."""
        plan, now = self.world.plan, self.watch.clock.now()
        assert plan.remedy is not None
        person = plan.remedy.action is Action.RESTORE
        if not person and not policy.allowed(PLACE, NAME, plan.remedy.action):
            return False
        status = self._read_status()
        if status is None:
            if "mode" in self._against(policy, None):
                return False
            proposed = PlanProposed(
                at=now, plan=plan, mode=policy.mode.value, expires_at=now + 3600.0
            )
            self.journal.decide(plan.plan_id, lambda written: None if written else proposed)
        if status in {None, PlanStatus.PROPOSED}:
            by = POLICY_APPROVER if not person and policy.mode is Mode.AUTO else "bob"
            self.journal.decide(
                plan.plan_id,
                lambda written: approval.approve_plan(
                    written, by=by, sha256=plan.sha256, because="", now=now
                ),
            )
        return True

    def _against(self, policy: Policy, approval: PlanApproval | None) -> frozenset[str]:
        now = self.watch.clock.now()
        skew_s = now - self.world.line.now()
        plan = self.world.plan
        return bounds.against(self.journal, plan, policy, approval, now=now, skew_s=skew_s)

    def _read_status(self) -> PlanStatus | None:
        history = approval.build_plan_history(self.journal.records(self.world.plan.plan_id))
        return None if history is None else history.status

    def go_on(self, policy: Policy) -> PlanResult | None:
        """What a conductor does: what is open first, then what was approved; None if there is
        nothing left to do.
        """
        plan = self.world.plan
        while True:
            history = approval.build_plan_history(self.journal.records(plan.plan_id))
            assert history is not None
            if history.status is PlanStatus.RUNNING:
                self.working = True
                return self.runner.finish_earlier(PLACE, NAME)
            if history.status is not PlanStatus.APPROVED:
                return None
            grounds = GuardInputs(self._clock.now(), self._bounds())
            self.watch.guards_at = self.world.line.now()
            if self._against(policy, approval_of(history)):
                return None  # it waits, and is void some time later
            self.fuse.burn("about to begin")
            self.working = True
            recheck = Recheck(self.world, self.watch, self.journal, self.sight, policy, self._clock)
            try:
                return self.runner.run(
                    history.plan,
                    lambda _frozen, recheck=recheck: recheck.problems(),
                    lambda grounds=grounds: grounds.find_change(self._clock.now(), self._bounds()),
                )
            except PlanStateConflict:
                self.working = False

    def _bounds(self) -> tuple[object, ...]:
        return bounds.past_of_all(self.journal).bounds()

    def rival(self, moment: str) -> None:
        """While this one works nobody else does."""
        at_work = self.working and self.journal.open_plan(PLACE, NAME) is not None
        if self.journal.writing or not at_work:
            return
        other = Journal(self.folder)
        try:
            runner = Runner(
                journal=other, driver=self.runner._driver, clock=self.watch.clock, report=str
            )
            try:
                runner.finish_earlier(PLACE, NAME)
            except ConnectorBusy:
                return
            self.watch.broken("I2", "two processes work on one connector")
        finally:
            other.close()


@contextmanager
def mortal_backups(fuse_of: Callable[[], Fuse], *, torn: bool) -> Iterator[None]:
    """Have processes end around backups, or leave half of one behind; `torn`: every backup is
    torn, and its process lives.
    """
    placed = backups._write_new_file

    def mortal(home: Path, stem: str, body: bytes) -> Path:
        fuse = fuse_of()
        fuse.burn("before backup")
        path = placed(home, stem, body)
        dies = fuse.burns("torn backup")
        if dies or torn:
            path.write_bytes(body[: len(body) // 2])
        if dies:
            raise Killed("torn backup")
        fuse.burn("after backup")
        return path

    backups._write_new_file = mortal
    try:
        yield
    finally:
        backups._write_new_file = placed
