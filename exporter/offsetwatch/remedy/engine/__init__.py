"""Engine of plans: the next command, from how far a plan is and what has just been read. Pure.

Every command says which records to append before it is carried out, so a crash between any two is a
place that another process can start from. Nothing is requested that was not written down first;
nothing that may have been requested is requested again before the state has been read for long
enough, and never more than a few times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from offsetwatch.formatting import format_count
from offsetwatch.remedy.engine.progress import (
    EngineLimits,
    PlanProgress,
    apply_record,
    build_rollback_steps,
    is_change,
    is_irreversible,
    replay_records,
)
from offsetwatch.remedy.model.driver import AttemptResult, Outcome, StepInspection, StepStatus
from offsetwatch.remedy.model.journal_records import (
    OffsetsBackedUp,
    PlanEnded,
    PlanFailureCause,
    PlanOpened,
    PlanParked,
    PlanResumed,
    RollbackStarted,
    StepAnswered,
    StepIntended,
    StepRecord,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Copy,
    Create,
    Expect,
    Freeze,
    FrozenOffsets,
    Plan,
    PlanStatus,
    Settle,
    ToState,
    VerificationStep,
)


class IdentifyCommand(NamedTuple):
    """Command to read the id of the Connect cluster or storage (Driver.identity)."""


class InspectCommand(NamedTuple):
    """Command to inspect the connector for the step."""

    step: AnyStep
    before: FrozenOffsets | None


class AttemptCommand(NamedTuple):
    """Command to try the step once."""

    step: AnyStep
    before: FrozenOffsets | None


class BackUpCommand(NamedTuple):
    """Command to read all offsets and back them up."""


class RecheckCommand(NamedTuple):
    """Command to check with the plan's maker that it is still valid with these offsets."""

    frozen: FrozenOffsets


class WaitCommand(NamedTuple):
    """Command to wait this long; `said` is the reason."""

    seconds: float
    said: str = ""


class EndCommand(NamedTuple):
    """Command to stop: the last record has the reason."""


Command = (
    IdentifyCommand
    | InspectCommand
    | AttemptCommand
    | BackUpCommand
    | RecheckCommand
    | WaitCommand
    | EndCommand
)


class TakeOverEvent(NamedTuple):
    """Takeover of a plan by another process."""


class IdentityEvent(NamedTuple):
    """Id of the Connect cluster or storage; None if unknown."""

    identity: str | None


class UnavailableEvent(NamedTuple):
    """Failure to read anything; `said` is the reason."""

    cause: PlanFailureCause
    said: str


class AttemptEvent(NamedTuple):
    """Outcome of an attempt; `cause` applies if it was refused."""

    outcome: Outcome
    cause: PlanFailureCause = PlanFailureCause.REFUSED


class BackupFailureEvent(NamedTuple):
    """Failure to back up the offsets; `said` is the reason."""

    said: str


class RecheckEvent(NamedTuple):
    """Result of checking the plan again; `problems` is empty if it is still valid."""

    problems: tuple[str, ...]


class WaitOverEvent(NamedTuple):
    """End of the wait."""


class InterruptEvent(NamedTuple):
    """Interruption of the plan by whoever started it."""


class AbortEvent(NamedTuple):
    """Request of an operator for a rollback, as far as possible; `said` is who, and why."""

    said: str


Event = (
    TakeOverEvent
    | IdentityEvent
    | StepInspection
    | UnavailableEvent
    | AttemptEvent
    | FrozenOffsets
    | BackupFailureEvent
    | RecheckEvent
    | WaitOverEvent
    | InterruptEvent
    | AbortEvent
)
"""What has just happened: a StepInspection answers an inspection, FrozenOffsets a backup."""


class Move(NamedTuple):
    """Move of the engine: append the records, then, once on the disk, carry out the command."""

    progress: PlanProgress
    command: Command
    records: tuple[StepRecord, ...] = ()


_PAUSES_S = (0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 5.0)
_FAILED_INSPECTIONS_MAX = 3  # before anything was begun: the offsets have just been shown


def begin_plan(plan: Plan, now: float, limits: EngineLimits) -> Move:
    """Return the first move of a new plan."""
    backed_up = False
    for step in plan.steps:
        backed_up = backed_up or isinstance(step, Freeze)
        assert backed_up or not is_change(step) or isinstance(step, Create), "change without backup"
    assert _has_copy_before_skip(plan), (
        "skip without a copy, or without a check of the skipped record"
    )
    opened = PlanOpened(at=now, plan=plan)
    progress = replace(replay_records((opened,), limits), since=now)
    return Move(progress, IdentifyCommand(), (opened,))


def _has_copy_before_skip(plan: Plan) -> bool:
    if plan.remedy is None or plan.remedy.skip_key is None:
        return True
    kinds = [type(step) for step in plan.steps]
    alters = kinds.index(Alter)
    return {Copy, Freeze, Expect} <= set(kinds[:alters]) and Alter not in kinds[alters + 1 :]


def compute_next_move(progress: PlanProgress, event: Event, now: float) -> Move:
    """Return the next move. The plan must not have ended."""
    assert progress.ended is None
    match event:
        case WaitOverEvent():
            too_long = _is_stopped_too_long(progress, now)
            return _fail_out_of_time(progress, now) if too_long else _build_next_move(progress)
        case TakeOverEvent():
            resumed = _append_records(progress, PlanResumed(at=now))
            fresh = replace(resumed.progress, identified=False, taken_up=True)
            return _add_next_command(Move(fresh, EndCommand(), resumed.records))
        case IdentityEvent():
            return _handle_identity(progress, event, now)
        case StepInspection():
            return _handle_inspection(
                replace(progress, inspections=progress.inspections + 1, failed_inspections=0),
                event,
                now,
            )
        case UnavailableEvent():
            unavailable = replace(
                progress,
                inspections=progress.inspections + 1,
                failed_inspections=progress.failed_inspections + 1,
            )
            return _handle_unavailable(unavailable, event, now)
        case AttemptEvent():
            return _handle_attempt(progress, event, now)
        case FrozenOffsets():
            return _add_next_command(
                _append_records(progress, OffsetsBackedUp(at=now, frozen=event))
            )
        case BackupFailureEvent():
            return _fail(progress, PlanFailureCause.REFUSED, event.said, now)
        case RecheckEvent():
            if event.problems:
                return _fail(progress, PlanFailureCause.CHANGED, "; ".join(event.problems), now)
            return _finish_step(progress, "", now)
        case InterruptEvent() | AbortEvent():
            return _handle_cancellation(progress, event, now)


def _handle_cancellation(
    progress: PlanProgress, event: InterruptEvent | AbortEvent, now: float
) -> Move:
    """Roll back if the plan may stop here; an abort also rolls back finished changes."""
    if progress.undoing:
        return _build_next_move(progress)
    match event:
        case InterruptEvent():
            if not _is_change_in_progress(progress):
                return _fail(progress, PlanFailureCause.INTERRUPTED, "interrupted", now)
        case AbortEvent():
            if _can_roll_back(progress):
                cause = PlanFailureCause.INTERRUPTED
                if progress.effects:
                    return _start_rollback(progress, cause, event.said, now)
                return _end(progress, PlanStatus.UNCHANGED, cause, event.said, now)
    return _build_next_move(progress)


def _fail_out_of_time(progress: PlanProgress, now: float) -> Move:
    waited_s = round(now - progress.stopped_at)
    said = f"it was asked to stop {waited_s} s ago, and nothing has changed since"
    return _fail(progress, PlanFailureCause.TIMED_OUT, said, now)


def _is_stopped_too_long(progress: PlanProgress, now: float) -> bool:
    """Check whether an incident's plan has kept its connector stopped for too long.

    The limit (stop_total_s) applies only before anything may have been changed. A change that may
    have begun goes on.
    """
    remedy = progress.plan.remedy
    if remedy is None or remedy.stop_total_s is None or not progress.stopped_at:
        return False
    begun = progress.undoing or progress.changed
    return not begun and now >= progress.stopped_at + remedy.stop_total_s


def _can_roll_back(progress: PlanProgress) -> bool:
    """Check whether a rollback is still possible.

    It is not once the connector was requested to run again, nor while a change is in progress.
    """
    steps = progress.plan.steps
    if not progress.identified or any(
        is_irreversible(steps[number]) for number in progress.touched
    ):
        return False
    requested = progress.sent > 0 and (is_change(progress.step) or progress.last)
    return not requested and not isinstance(progress.step, VerificationStep)


def _is_change_in_progress(progress: PlanProgress) -> bool:
    """Check whether a change is done or may yet be, or it is unknown what to roll back from."""
    if not progress.identified:
        return bool(progress.touched)
    others = progress.touched - {progress.index}
    done = any(is_change(progress.plan.steps[number]) for number in others)
    return done or (progress.sent > 0 and is_change(progress.step))


def _append_records(progress: PlanProgress, *records: StepRecord) -> Move:
    for record in records:
        progress = apply_record(progress, record)
    return Move(progress, EndCommand(), records)


def _add_next_command(move: Move) -> Move:
    return move._replace(command=_choose_command(move.progress))


def _build_next_move(progress: PlanProgress) -> Move:
    return Move(progress, _choose_command(progress))


def _choose_command(progress: PlanProgress) -> Command:
    if not progress.identified:
        return IdentifyCommand()
    if isinstance(progress.step, Freeze):
        return RecheckCommand(progress.frozen) if progress.frozen is not None else BackUpCommand()
    return InspectCommand(progress.step, progress.before)


def _handle_identity(progress: PlanProgress, event: IdentityEvent, now: float) -> Move:
    planned = progress.plan.subject.identity
    if planned is not None and event.identity != planned:
        said = f"this is another Connect cluster than the plan's: {event.identity}, not {planned}"
        return _fail(progress, PlanFailureCause.CHANGED, said, now, connected=False)
    known = replace(progress, identified=True, taken_up=False, since=now, inspections=0)
    last_requested = progress.last and (
        progress.index in progress.touched or isinstance(progress.step, VerificationStep)
    )
    if not progress.taken_up or progress.undoing or _must_finish(progress) or last_requested:
        return _build_next_move(known)
    return _fail(
        known, PlanFailureCause.INTERRUPTED, "interrupted before any offset was changed", now
    )


def _must_finish(progress: PlanProgress) -> bool:
    """Check whether a change may have begun: then the plan must be finished.

    If only a connector was created, it can simply be deleted again.
    """
    steps = (progress.plan.steps[number] for number in progress.touched)
    return any(is_change(step) and not isinstance(step, Create) for step in steps)


def _handle_inspection(progress: PlanProgress, inspection: StepInspection, now: float) -> Move:
    match inspection.status:
        case StepStatus.DONE:
            return _handle_done(progress, inspection, now)
        case StepStatus.READY | StepStatus.PARTLY:
            return _handle_ready(progress, inspection, now)
        case StepStatus.NOT_YET:
            return _wait_or_expire(progress, inspection.said, now)
        case StepStatus.FOREIGN:
            if progress.changed and not _is_verifying(progress):
                return _park(
                    progress, PlanStatus.PARKED, PlanFailureCause.CHANGED, inspection.said, now
                )
            return _fail(progress, PlanFailureCause.CHANGED, inspection.said, now)
        case StepStatus.IMPOSSIBLE:
            return _fail(progress, PlanFailureCause.REFUSED, inspection.said, now)


def _handle_done(progress: PlanProgress, inspection: StepInspection, now: float) -> Move:
    # A stop without an answer may be carried out after the resume that follows it. What is seen may
    # also be a person's doing, while we wait for our own request to show.
    late_until = progress.late_until
    if progress.plan.remedy is not None:
        late_until = max(late_until, progress.doubt_until)
    if (progress.undoing or progress.last) and now < late_until:
        said = f"{inspection.said}; an earlier request without an answer may still be carried out"
        return _build_wait(progress, said)
    return _finish_step(progress, inspection.said, now)


def _finish_step(progress: PlanProgress, said: str, now: float) -> Move:
    verified = StepVerified(at=now, index=progress.index, undoing=progress.undoing, said=said)
    move = _append_records(progress, verified)
    if move.progress.index < len(move.progress.path):
        return _add_next_command(move)
    turned = move.progress.turned
    if turned is None:
        ended = PlanEnded(at=now, ending=PlanStatus.SUCCEEDED, said="done")
    else:
        ended = PlanEnded(at=now, ending=PlanStatus.RESTORED, said=turned.said, cause=turned.cause)
    return Move(apply_record(move.progress, ended), EndCommand(), (*move.records, ended))


def _handle_ready(progress: PlanProgress, inspection: StepInspection, now: float) -> Move:
    if isinstance(progress.step, Settle | VerificationStep):
        return _wait_or_expire(progress, inspection.said, now)
    if progress.answer is AttemptResult.NACK:
        return _handle_refusal(progress, inspection, now)
    if progress.sent:
        patience_s = _compute_patience_s(progress)
        if now < progress.requested_at + patience_s:
            said = f"{inspection.said}; the request has {patience_s:.0f} s to take effect"
            return _build_wait(progress, said)
    elif progress.refused and progress.over(progress.limits.step_s, now):
        return _fail(progress, PlanFailureCause.REFUSED, progress.refused, now)
    if progress.spent >= progress.limits.attempts:
        if progress.answer is AttemptResult.FAILED and inspection.status is StepStatus.READY:
            return _handle_refusal(progress, inspection, now)
        said = f"requested {format_count(progress.spent, 'time')} without effect: {inspection.said}"
        return _handle_expiry(progress, said, now)
    if _is_stopped_too_long(progress, now):  # without a pause: this process stood still
        return _fail_out_of_time(progress, now)
    intended = StepIntended(at=now, index=progress.index, undoing=progress.undoing)
    move = _append_records(progress, intended)
    return move._replace(command=AttemptCommand(progress.step, progress.before))


def _compute_patience_s(progress: PlanProgress) -> float:
    """Return how long a request has to show before the next request or the rollback."""
    limits = progress.limits
    if progress.answer is AttemptResult.ACK:
        return limits.ack_s
    if progress.answer is AttemptResult.FAILED and progress.spent < limits.attempts:
        return limits.ack_s
    return limits.doubt_s


def _handle_refusal(progress: PlanProgress, inspection: StepInspection, now: float) -> Move:
    """Roll back after a refusal, once its effect was read."""
    if inspection.status is not StepStatus.READY or progress.undoing:
        return _fail(progress, PlanFailureCause.REFUSED, progress.refused, now)
    said = f"read back: {inspection.said}"
    unchanged = _append_records(
        progress, StepAnswered(at=now, answer=AttemptResult.NACK, said=said)
    )
    failed = _fail(unchanged.progress, PlanFailureCause.REFUSED, unchanged.progress.refused, now)
    return failed._replace(records=(*unchanged.records, *failed.records))


def _wait_or_expire(progress: PlanProgress, said: str, now: float) -> Move:
    if now < progress.doubt_until or not progress.over(progress.limits.step_s, now):
        return _build_wait(progress, said)
    waited_s = round(now - progress.since)
    return _handle_expiry(progress, f"not so after {waited_s} s: {said}", now)


def _build_wait(progress: PlanProgress, said: str) -> Move:
    seconds = _PAUSES_S[min(progress.inspections, len(_PAUSES_S) - 1)]
    waiting = replace(progress, waited_s=progress.waited_s + seconds)
    return Move(waiting, WaitCommand(seconds, said))


def _handle_attempt(progress: PlanProgress, event: AttemptEvent, now: float) -> Move:
    outcome = event.outcome
    answered = StepAnswered(
        at=now, answer=outcome.answer, said=outcome.said, definite=outcome.definite
    )
    move = _append_records(progress, answered)
    match outcome.answer:
        case AttemptResult.ACK | AttemptResult.FAILED | AttemptResult.IN_DOUBT:
            return _inspect_again(move)
        case AttemptResult.NACK if (
            move.progress.read_back and event.cause is PlanFailureCause.REFUSED
        ):
            return _inspect_again(move)
        case AttemptResult.RETRY:
            later = replace(move.progress, inspections=move.progress.inspections + 1)
            return _build_wait(later, outcome.said)._replace(records=move.records)
        case AttemptResult.NACK:
            failed = _fail(move.progress, event.cause, outcome.said, now)
            return failed._replace(records=(*move.records, *failed.records))


def _inspect_again(move: Move) -> Move:
    return _add_next_command(
        move._replace(progress=replace(move.progress, inspections=0, waited_s=0.0))
    )


def _handle_unavailable(progress: PlanProgress, event: UnavailableEvent, now: float) -> Move:
    begun = bool(progress.touched)
    in_time = not progress.over(progress.limits.step_s, now)
    patient = in_time if begun else progress.failed_inspections < _FAILED_INSPECTIONS_MAX
    if patient and event.cause is not PlanFailureCause.UNAUTHORISED:
        return _build_wait(progress, event.said)
    return _fail(progress, event.cause, event.said, now, connected=False)


def _handle_expiry(progress: PlanProgress, said: str, now: float) -> Move:
    """Roll back a step that did not come about, unless its request may yet take effect."""
    if _is_verifying(progress):
        return _end(progress, PlanStatus.INEFFECTIVE, PlanFailureCause.TIMED_OUT, said, now)
    in_doubt = progress.sent > 0 and progress.answer is not AttemptResult.ACK
    stuck = progress.sent > 0 and (is_change(progress.step) or progress.last)
    if progress.undoing or stuck:
        ending = PlanStatus.IN_DOUBT if in_doubt else PlanStatus.PARKED
        return _park(progress, ending, PlanFailureCause.TIMED_OUT, said, now)
    return _fail(progress, PlanFailureCause.TIMED_OUT, said, now)


def _fail(
    progress: PlanProgress,
    cause: PlanFailureCause,
    said: str,
    now: float,
    *,
    connected: bool = True,
) -> Move:
    """Roll back, if there is an effect to roll back and a way to do so.

    There is no rollback from a connector that runs while its plan is verified, and no reason to
    stop it again. If the connector cannot be reached, nothing can be done any more.
    """
    if _is_verifying(progress):
        return _end(progress, PlanStatus.INEFFECTIVE, cause, said, now)
    if not progress.effects:
        return _end(progress, PlanStatus.UNCHANGED, cause, said, now)
    if not connected or progress.undoing or _has_no_rollback(progress):
        return _park(progress, PlanStatus.PARKED, cause, said, now)
    return _start_rollback(progress, cause, said, now)


def _start_rollback(progress: PlanProgress, cause: PlanFailureCause, said: str, now: float) -> Move:
    back = build_rollback_steps(progress.plan, progress.frozen, progress.touched)
    if not back:
        return _park(progress, PlanStatus.PARKED, cause, said, now)
    return _add_next_command(
        _append_records(progress, RollbackStarted(at=now, steps=back, cause=cause, said=said))
    )


def _has_no_rollback(progress: PlanProgress) -> bool:
    steps = progress.plan.steps
    if any(is_irreversible(steps[number]) for number in progress.touched):
        return True
    if not progress.last:
        return False
    # The offsets are as they were asked for: to put them back would not start the connector.
    created = any(isinstance(step, Create) for step in steps)
    arrived = progress.changed and isinstance(progress.step, ToState) and not created
    return arrived or progress.sent > 0


def _is_verifying(progress: PlanProgress) -> bool:
    return not progress.undoing and isinstance(progress.step, VerificationStep)


def _end(
    progress: PlanProgress, ending: PlanStatus, cause: PlanFailureCause, said: str, now: float
) -> Move:
    return _append_records(progress, PlanEnded(at=now, ending=ending, said=said, cause=cause))


def _park(
    progress: PlanProgress, ending: PlanStatus, cause: PlanFailureCause, said: str, now: float
) -> Move:
    return _append_records(progress, PlanParked(at=now, ending=ending, cause=cause, said=said))
