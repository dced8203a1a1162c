"""Runner of a plan: asks the engine, records its answer, carries it out, and asks again.

It is the only caller of drivers. One runner works on one connector at a time. Each attempt is in
the journal before it is made, so that `recover` can continue wherever another runner was cut off.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from offsetwatch.clock import UnixClock
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    Conflict,
    JournalDamaged,
    LeaderNotAvailable,
    RemoteRefusal,
    TargetUnreachable,
    TooManyRequests,
)
from offsetwatch.remedy import engine
from offsetwatch.remedy.engine import (
    AbortEvent,
    AttemptCommand,
    AttemptEvent,
    BackUpCommand,
    BackupFailureEvent,
    Command,
    EndCommand,
    Event,
    IdentifyCommand,
    IdentityEvent,
    InspectCommand,
    InterruptEvent,
    Move,
    RecheckCommand,
    RecheckEvent,
    TakeOverEvent,
    UnavailableEvent,
    WaitCommand,
    WaitOverEvent,
)
from offsetwatch.remedy.engine.progress import EngineLimits, PlanProgress, replay_records
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import Journal, StartCheck
from offsetwatch.remedy.model.driver import AttemptResult, Driver, Outcome
from offsetwatch.remedy.model.journal_records import (
    OffsetsBackedUp,
    PlanEnded,
    PlanFailureCause,
    PlanOpened,
    PlanProposed,
)
from offsetwatch.remedy.model.plan import Copy, FrozenOffsets, Plan, PlanStatus
from offsetwatch.remedy.model.plan_templates import compute_legacy_skip_key
from offsetwatch.remedy.views import plan_text

ProgressReporter = Callable[[str], None]
Rechecker = Callable[[FrozenOffsets], tuple[str, ...]]
CancellationCheck = Callable[[], InterruptEvent | AbortEvent | None]
"""Called before inspections and waits: returns a requested end or rollback of the plan. It may
raise, and then leaves the plan to the process that recovers it.
"""

_EXIT_CODES: Final = {
    PlanFailureCause.REFUSED: 3,
    PlanFailureCause.CHANGED: 4,
    PlanFailureCause.TIMED_OUT: 3,
    PlanFailureCause.UNREACHABLE: 7,
    PlanFailureCause.UNAUTHORISED: 6,
    PlanFailureCause.INTERRUPTED: 3,
}
INSPECTION_AGE_S_MAX: Final = 30.0  # what is older was inspected before this process stood still
_CANCELLABLE_COMMANDS: Final = (InspectCommand, WaitCommand, BackUpCommand)


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Result of a plan when the runner returns.

    said        what happened, and what an operator must decide, if anything
    cause       why it did not go on; None if it succeeded
    definite    whether the connector confirms its new offsets; None where that does not apply
    frozen      all offsets as they were before; None if they were not read
    backup      path of the backup of these; None likewise
    """

    plan_id: str
    ending: PlanStatus
    said: str
    cause: PlanFailureCause | None
    definite: bool | None
    frozen: FrozenOffsets | None
    backup: str | None

    @property
    def exit_code(self) -> int:
        """Return the exit code, as in docs/commands.md.

        0 as requested, 1 done without effect, 3 denied, 4 the cluster changed, 5 an operator must
        decide, 6 unauthorised, 7 unreachable.
        """
        return compute_plan_exit_code(self.ending, self.cause)

    @property
    def over(self) -> bool:
        """Check whether the plan is over, so that its connector is unlocked."""
        return not self.ending.is_parked


def compute_plan_exit_code(ending: PlanStatus, cause: PlanFailureCause | None) -> int:
    """Return the exit code of a command that waited for a plan; see PlanResult.exit_code."""
    if ending.is_parked:
        return 5
    if ending is PlanStatus.INEFFECTIVE and cause in {
        PlanFailureCause.CHANGED,
        PlanFailureCause.TIMED_OUT,
    }:
        return 1
    return 0 if cause is None else _EXIT_CODES[cause]


def read_plan(journal: Journal, plan_id: str) -> Plan:
    """Return the plan with this id. Raises KeyError if the journal has none."""
    records = journal.records(plan_id)
    if not records:
        raise KeyError(plan_id)
    first = records[0]
    assert isinstance(first, PlanOpened | PlanProposed)
    return first.plan


def resolve_plan(journal: Journal, plan_id: str, *, because: str, now: float) -> bool:
    """Close an open plan and leave everything as it is, as an operator has decided.

    False if it was closed already. Raises ConnectorBusy if a process works on it, and KeyError if
    there is none.
    """
    subject = read_plan(journal, plan_id).subject
    with journal.at_work(subject.store, subject.connector, _format_time(now)):
        if journal.open_plan(subject.store, subject.connector) != plan_id:
            return False
        journal.append(plan_id, (PlanEnded(at=now, ending=PlanStatus.RESOLVED, said=because),))
        return True


def format_options(folder: Path, options: str) -> str:
    """Return the options that direct a command to this journal and to the same place."""
    return shlex.join((*shlex.split(options), "--state-dir", str(folder)))


def _format_time(now: float) -> str:
    return datetime.fromtimestamp(now, tz=UTC).isoformat(timespec="seconds")


class Runner:
    """Runner of plans on one journal, with one driver.

    report      receives the progress, in sentences for users
    options     command-line options for the same offset store (`--config F`), so that commands in
                messages can be copied
    """

    def __init__(
        self,
        *,
        journal: Journal,
        driver: Driver,
        clock: UnixClock,
        report: ProgressReporter,
        pause: Callable[[float], None] = time.sleep,
        limits: EngineLimits | None = None,
        options: str = "",
        find_cancellation: CancellationCheck = lambda: None,
    ) -> None:
        self._journal = journal
        self._driver = driver
        self._clock = clock
        self._report = report
        self._pause = pause
        self._limits = limits or EngineLimits()
        self._options = options
        self._find_cancellation = find_cancellation
        self._cancelled_at: tuple[int, bool, int] | None = None
        self._reported = ""
        self._interrupted = False
        self._reached: PlanProgress | None = None
        self._inspected_at = 0.0

    def run(
        self, plan: Plan, recheck: Rechecker | None = None, check_start: StartCheck = lambda: None
    ) -> PlanResult:
        """Carry out a new plan.

        `recheck` is called once the offsets of the stopped connector are backed up; any problem it
        returns stops the plan. Raises ConnectorBusy, PlanUnfinished, or PlanStateConflict
        (Journal.open, which calls `check_start`), having done nothing.
        """
        subject = plan.subject
        with self._journal.at_work(subject.store, subject.connector, self._since()):
            move = engine.begin_plan(plan, self._clock.now(), self._limits)
            (opened,) = move.records
            assert isinstance(opened, PlanOpened)
            self._journal.open(plan, opened, check_start)
            return self._carry_on(move._replace(records=()), recheck)

    def recover(self, plan_id: str) -> PlanResult:
        """Continue a plan that was parked, or whose process is gone.

        It is finished if a change may have begun, else rolled back. Raises ConnectorBusy if a
        process works on it, and KeyError if there is none.
        """
        subject = read_plan(self._journal, plan_id).subject
        with self._journal.at_work(subject.store, subject.connector, self._since()):
            progress = replay_records(self._journal.records(plan_id), self._limits)
            if progress.ended is not None:
                return self._result(progress)
            self._say(plan_text.describe_takeover(progress))
            return self._carry_on(
                engine.compute_next_move(progress, TakeOverEvent(), self._clock.now()), None
            )

    def finish_earlier(self, store_name: str, connector: str) -> PlanResult | None:
        """Recover the plan that is open for this connector; None if none is."""
        plan_id = self._journal.open_plan(store_name, connector)
        return None if plan_id is None else self.recover(plan_id)

    def _since(self) -> str:
        return _format_time(self._clock.now())

    def _carry_on(self, move: Move, recheck: Rechecker | None) -> PlanResult:
        """Carry out the rest of the plan.

        If this ends early, the user is told what is left behind, and how to continue.
        """
        self._reached = move.progress
        try:
            return self._run_to_end(move, recheck)
        except JournalDamaged as exc:  # a full disk: nothing may be done that is not written down
            return self._result(self._reached, f"{exc}. {self._describe_interruption()}")
        except BaseException:
            self._say(self._describe_interruption())
            raise

    def _run_to_end(self, move: Move, recheck: Rechecker | None) -> PlanResult:
        plan = move.progress.plan
        while True:
            self._journal.append(plan.plan_id, move.records)
            self._reached = move.progress
            for record in move.records:
                self._say(plan_text.describe_live_record(record, move.progress))
            if isinstance(move.command, EndCommand):
                return self._result(move.progress)
            event: Event | None = self._check_cancellation(move)
            if event is None:  # an event without fields is false
                event = self._execute(move.command, plan, recheck)
            move = engine.compute_next_move(move.progress, event, self._clock.now())

    def _check_cancellation(self, move: Move) -> InterruptEvent | AbortEvent | None:
        """Return a requested interruption or rollback; None if there is none.

        Each is returned once for each position in the plan: if it is not possible there, the engine
        goes on.
        """
        position = (move.progress.index, move.progress.undoing, move.progress.sent)
        if not isinstance(move.command, _CANCELLABLE_COMMANDS) or position == self._cancelled_at:
            return None
        event = self._find_cancellation()
        if event is not None:
            self._cancelled_at = position
        return event

    def _describe_interruption(self) -> str:
        assert self._reached is not None
        return plan_text.describe_interruption(
            self._reached, format_options(self._journal.folder, self._options)
        )

    def _execute(self, command: Command, plan: Plan, recheck: Rechecker | None) -> Event:
        """Carry out the command and return its event.

        The first Ctrl-C is an event. The second ends the process; the journal allows another to
        continue.
        """
        try:
            return self._execute_uninterrupted(command, plan, recheck)
        except KeyboardInterrupt:
            if self._interrupted:
                raise
            self._interrupted = True
            self._say("interrupted: coming to a safe end; once more ends at once")
            if isinstance(command, AttemptCommand):
                said = "interrupted before there was an answer"
                return AttemptEvent(Outcome(AttemptResult.IN_DOUBT, said))
            return InterruptEvent()

    def _execute_uninterrupted(
        self, command: Command, plan: Plan, recheck: Rechecker | None
    ) -> Event:
        match command:
            case AttemptCommand():
                return self._attempt(command)
            case WaitCommand():
                self._say(plan_text.describe_wait(command.said))
                self._pause(command.seconds)
                return WaitOverEvent()
        self._inspected_at = self._clock.now()
        try:
            match command:
                case IdentifyCommand():
                    return IdentityEvent(self._driver.identity())
                case InspectCommand():
                    return self._driver.inspect(command.step, command.before)
                case BackUpCommand():
                    return self._back_up(plan)
                case RecheckCommand():
                    return RecheckEvent(self._recheck(plan, command.frozen, recheck))
                case _:
                    raise AssertionError(command)
        except AccessDenied as exc:
            return UnavailableEvent(PlanFailureCause.UNAUTHORISED, str(exc))
        except ClientError as exc:
            return UnavailableEvent(PlanFailureCause.UNREACHABLE, str(exc))

    def _recheck(
        self, plan: Plan, frozen: FrozenOffsets, recheck: Rechecker | None
    ) -> tuple[str, ...]:
        other = self._find_earlier_skip(plan)
        if other not in {None, plan.plan_id}:
            return (f"this record was skipped by plan {other} already",)
        return () if recheck is None else recheck(frozen)

    def _find_earlier_skip(self, plan: Plan) -> str | None:
        if plan.remedy is None or plan.remedy.skip_key is None:
            return None
        other = self._journal.skipped_by(plan.remedy.skip_key)
        copy = next((step for step in plan.steps if isinstance(step, Copy)), None)
        if other is not None or copy is None:
            return other
        other = self._journal.skipped_by(compute_legacy_skip_key(plan.subject, copy.record))
        if other is None:
            return None
        first = self._journal.records(other)[0]
        store_name = isinstance(first, PlanOpened | PlanProposed) and first.plan.subject.store
        return other if store_name == plan.subject.store else None

    def _back_up(self, plan: Plan) -> Event:
        pairs = self._driver.offsets()
        try:
            backup = backups.write_backup(
                self._journal.folder,
                connector=plan.subject.connector,
                pairs=pairs.pairs,
                at=self._clock.now(),
            )
        except OSError as exc:
            return BackupFailureEvent(f"the offsets could not be backed up: {exc}")
        frozen = FrozenOffsets(
            pairs=pairs.pairs, backup=str(backup.path), backup_sha256=backup.sha256, raw=pairs.raw
        )
        if not self._journal.holds(OffsetsBackedUp(at=self._clock.now(), frozen=frozen)):
            return BackupFailureEvent("the offsets are too many for one record of the journal")
        return frozen

    def _attempt(self, command: AttemptCommand) -> AttemptEvent:
        idle_s = self._clock.now() - self._inspected_at
        if idle_s > INSPECTION_AGE_S_MAX:  # stopped and woken, or the disk hung: others were not
            said = f"it was read {idle_s:.0f} s ago: once more"
            return AttemptEvent(Outcome(AttemptResult.RETRY, said))
        try:
            return AttemptEvent(self._driver.carry_out(command.step, command.before))
        except (TargetUnreachable, Conflict, TooManyRequests, LeaderNotAvailable) as exc:
            return AttemptEvent(Outcome(AttemptResult.RETRY, str(exc)))
        except AccessDenied as exc:
            outcome = Outcome(AttemptResult.NACK, str(exc))
            return AttemptEvent(outcome, PlanFailureCause.UNAUTHORISED)
        except RemoteRefusal as exc:
            return AttemptEvent(Outcome(AttemptResult.NACK, str(exc)))
        except ClientError as exc:
            return AttemptEvent(Outcome(AttemptResult.IN_DOUBT, str(exc)))

    def _say(self, said: str) -> None:
        if said and said != self._reported:
            self._reported = said
            with suppress(OSError):  # the output is closed: no reason to stop half way
                self._report(said)

    def _result(self, progress: PlanProgress, cut_off: str | None = None) -> PlanResult:
        last = progress.ended or progress.parked
        frozen = progress.frozen
        options = format_options(self._journal.folder, self._options)
        return PlanResult(
            plan_id=progress.plan.plan_id,
            ending=PlanStatus.PARKED if last is None else last.ending,
            said=cut_off or plan_text.describe_ending(progress, options),
            cause=PlanFailureCause.REFUSED if last is None else last.cause,
            definite=progress.definite,
            frozen=frozen,
            backup=None if frozen is None else frozen.backup,
        )
