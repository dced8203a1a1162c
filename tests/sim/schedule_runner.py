"""A schedule acted out: one process after the other over one World, with everybody else around."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

from offsetwatch.errors import ConnectorBusy, JournalDamaged
from offsetwatch.remedy.engine import AbortEvent, InterruptEvent
from offsetwatch.remedy.execute.runner import PlanResult
from offsetwatch.remedy.journal.journal import FILE_NAME as JOURNAL
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model import approval
from offsetwatch.remedy.model.journal_records import ModeSet, PlanEnded, PlanParked, encode_record
from offsetwatch.remedy.model.policy import Mode, Policy, Rule
from tests.fakes.clock import SetClock
from tests.sim.bounds import Bounds, done_before
from tests.sim.final_checks import at_the_end
from tests.sim.invariants import Broken, InvariantChecks
from tests.sim.logs import NAME
from tests.sim.outside_changes import Others
from tests.sim.process import Fuse, Instance, Killed, SimJournal, mortal_backups
from tests.sim.schedules import FAILOVER, RESTART, WAYS, Schedule
from tests.sim.world import PLACE, World

DOWN_S: Final = {RESTART: 1.0, FAILOVER: 45.0}
FROZEN_S: Final = 600.0  # longer than anything that is waited for
PROCESSES_MAX: Final = 12
SHARED: Final = Path("/dev/shm")  # where there is one, files cost nothing


@dataclass
class Run:
    """What came of it. `moments` of each process; `digest` of all that happened."""

    schedule: Schedule
    ending: str = "none"
    moments: list[list[str]] = field(default_factory=list)
    digest: str = ""
    broken: Broken | None = None


def carried_out(schedule: Schedule) -> Run:
    """Run it, and look at what came of it."""
    home = tempfile.mkdtemp(prefix="sim-", dir=SHARED if SHARED.is_dir() else None)
    try:
        (Path(home) / JOURNAL).write_bytes(_empty_journal())
        (Path(home) / JOURNAL).chmod(0o600)
        return Theatre(schedule, Path(home)).run()
    finally:
        shutil.rmtree(home)


@cache
def _empty_journal() -> bytes:
    """A journal's file as it is made: to make it anew each time is a tenth of a run."""
    with tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else None) as home:
        Journal(Path(home)).close()
        return (Path(home) / JOURNAL).read_bytes()


class Theatre:
    def __init__(self, schedule: Schedule, folder: Path) -> None:
        self.schedule, self.folder = schedule, folder
        data = folder / "source"
        data.mkdir()
        self.world = World(schedule.case, data, second_poison=schedule.second_poison)
        self.world.tears_copies = schedule.torn_copy
        self.clock = SetClock(self.world.line)
        self.watch = InvariantChecks(self.world, self.clock)
        self.door = self.world.connect.door("us")
        self.door.faults = dict(schedule.faults)
        self.others = Others(self.world)
        self.instances: list[Instance] = []
        self.outcome = Run(schedule)
        actions = ("skip_one", "stop", "restart_failed")
        self.watch.allowed = schedule.allowed or schedule.case == "restore"
        rules = (Rule(PLACE, (NAME,), actions),) if schedule.allowed else ()
        self.policy = Policy(mode=Mode(schedule.mode), auto=rules)
        self.watch.bounds = Bounds(self.policy, schedule)

    def run(self) -> Run:
        self._prepare()
        with mortal_backups(lambda: self.instance.fuse, torn=self.schedule.torn_backup):
            try:
                self._processes()
                at_the_end(self.watch, self.instance.journal)
            except Broken as exc:
                self.outcome.broken = exc
            except (AssertionError, LookupError, TypeError) as exc:
                self.outcome.broken = Broken("I11", f"a process fell over: {exc!r}")
            finally:
                for instance in self.instances:
                    instance.journal.close()
                self.world.log.reader.close()
        self.outcome.digest = self._digest()
        return self.outcome

    @property
    def instance(self) -> Instance:
        return self.instances[-1]

    # --- processes -------------------------------------------------------------------------------

    def _processes(self) -> None:
        deaths = [*self.schedule.deaths, *([None] * (PROCESSES_MAX - len(self.schedule.deaths)))]
        for death in deaths:
            fuse = Fuse(death)
            if not self.instances and self.schedule.frozen is not None:
                fuse.still_at, fuse.standing_still = self.schedule.frozen[0], self._freeze
            self.outcome.moments.append(fuse.moments)
            try:
                instance = Instance(self.world, self.watch, self.folder, self.door, fuse)
                self.instances.append(instance)
                if self.schedule.way == FAILOVER:
                    fuse.dying = instance.rival
                if not instance.approve(self.policy):
                    self.outcome.ending = "denied"
                    return
                result = instance.go_on(self.policy)
            except Killed:
                self._dies()
                continue
            except JournalDamaged:  # a full disk, before anything was begun
                self._dies()
                continue
            if self._is_over(result):
                return
            self._dies()
        raise Broken("I11", "one process after the other leaves it open")

    def _is_over(self, result: PlanResult | None) -> bool:
        records = [record for _, record in self.watch.records]
        last = next(
            (record for record in reversed(records) if isinstance(record, PlanEnded | PlanParked)),
            None,
        )
        if last is not None and records[-1] is last:
            self.outcome.ending = last.ending.value
            return True
        return result is None

    def _dies(self) -> None:
        """Somebody else, or the same process again, a little later."""
        way = self.schedule.way
        if self.instances:
            if way == RESTART:
                self.instance.journal.close()
            self.watch.full_no_more()
        self.watch.down_s += DOWN_S[way]
        self.world.connect.advance(DOWN_S[way])

    def _freeze(self) -> None:
        """SIGSTOP, and SIGCONT later on. Another process comes meanwhile; locks are held."""
        if self.instance.journal.writing:
            return  # the disk's own lock: whoever writes next waits for it
        assert self.schedule.frozen is not None
        seconds = self.schedule.frozen[1]
        self.watch.down_s += seconds
        self.world.connect.advance(seconds / 2)
        other = Instance(self.world, self.watch, self.folder, self.door, Fuse())
        self.instances.append(other)
        try:
            with suppress(ConnectorBusy, JournalDamaged):
                if other.approve(self.policy):
                    other.go_on(self.policy)
        finally:
            self.instances.remove(other)
            other.journal.close()
        self.world.connect.advance(seconds / 2)

    def _lowers(self) -> None:
        """A person wants nothing more to be done."""
        now = self.world.line.now()
        with closing(Journal(self.folder)) as journal:
            journal.control(ModeSet(at=now, mode="observe", by="ada", because="no"))
        self.watch.bounds.lowered_at = now

    def _rejects(self) -> None:
        """A person does not want it, if that still counts."""
        plan_id, now = self.world.plan.plan_id, self.world.line.now()
        # With a full disk nothing is decided, and they are told so.
        with (
            closing(SimJournal(self.folder, Fuse(), self.watch)) as journal,
            suppress(JournalDamaged),
        ):
            journal.decide(
                plan_id,
                lambda records: approval.reject_plan(records, by="ada", because="no", now=now),
            )

    # --- everybody else --------------------------------------------------------------------------

    def _prepare(self) -> None:
        schedule, line = self.schedule, self.world.line
        begun = line.now()
        skips, parked = schedule.skips_before, schedule.parked_elsewhere
        if skips or parked:
            with closing(Journal(self.folder)) as journal:
                done_before(journal, self.world.plan, begun, skips=skips, parked=parked)
        if schedule.lowered_s is not None:
            line.call_after(schedule.lowered_s, self._lowers)
        for happening in schedule.happenings:
            line.call_after(happening.after_s, lambda item=happening: self.others.act(item))
        if schedule.full is not None:
            self.watch.disk_full_from = begun + schedule.full[0]
            self.watch.disk_full_for = schedule.full[1]
        if schedule.want is not None and schedule.want[1] == "reject":
            line.call_after(schedule.want[0], self._rejects)
        elif schedule.want is not None:
            after_s, what = schedule.want
            requests = AbortEvent("ada: no") if what == "abort" else InterruptEvent()
            self.watch.want = (begun + after_s, requests)
        if schedule.skew is not None:
            after_s, by_s = schedule.skew
            line.call_after(after_s, lambda: setattr(self.clock, "by_s", by_s))

    def _digest(self) -> str:
        digest = hashlib.sha256(self.world.connect.trace())
        for moment, record in self.watch.records:
            report = encode_record(record).replace(str(self.folder).encode(), b"")
            digest.update(b"%f " % moment + report + b"\n")
        return digest.hexdigest()


def singles(case: str) -> tuple[Schedule, ...]:
    """Every moment of an undisturbed run, each way."""
    count = len(carried_out(Schedule(case)).moments[0])
    return tuple(Schedule(case, (first,), way) for way in WAYS for first in range(1, count + 1))


def frozen_at(case: str) -> Iterator[Schedule]:
    """Every moment of an undisturbed run, at which its process stands still for ten minutes."""
    for moment in range(1, len(carried_out(Schedule(case)).moments[0]) + 1):
        yield Schedule(case, frozen=(moment, FROZEN_S))


def pairs_of(run: Run) -> Iterator[Schedule]:
    """Of a run in which one process died: every moment at which the next one may, too."""
    for second in range(1, len(run.moments[1]) + 1 if len(run.moments) > 1 else 0):
        yield replace(run.schedule, deaths=(*run.schedule.deaths, second))


def describe_run(schedule: Schedule) -> Iterator[str]:
    """A run in all detail: what the schedule says, and what happened, by seconds."""
    home = Path(tempfile.mkdtemp(prefix="sim-"))
    try:
        theatre = Theatre(schedule, home)
        begun = theatre.world.line.now()
        run = theatre.run()
    finally:
        shutil.rmtree(home)
    yield f"{schedule}"
    yield f"ended: {run.ending}; {run.broken or 'nothing is broken'}; digest {run.digest}"
    for number, moments in enumerate(run.moments[:-1], 1):
        yield f"process {number} ended: {moments[-1] if moments else 'at its start'}"
    lines = [(moment, f"      {record}") for moment, record in theatre.watch.records]
    for line in theatre.world.connect.trace().decode().splitlines():
        name, _, what = line.partition(" ")
        lines.append((float(name), what))
    for name, what in sorted(lines, key=lambda line: line[0]):
        if name >= begun:
            yield f"{name - begun:10.3f} {what}"
