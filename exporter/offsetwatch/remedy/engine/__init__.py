"""What to do next, given how far a plan is and what has just been seen: a pure function.

Every command says which records to append before it is carried out, so a crash between any two is a
place that another process can start from. Nothing is requested that was not written down first;
nothing that may have been requested is requested again before the state has been read for long
enough, and never more than a few times.
"""

from __future__ import annotations

from dataclasses import replace

from offsetwatch.remedy.engine.progress import Limits, Progress, applied, replayed
from offsetwatch.remedy.engine.protocol import (
    Aborted,
    Begun,
    Blind,
    CarryOut,
    Command,
    End,
    Event,
    Found,
    Identified,
    Identify,
    Interrupted,
    Keep,
    LookAt,
    Looked,
    Move,
    Pause,
    Paused,
    Recheck,
    Rechecked,
    TakenUp,
    Tried,
    Unkept,
)
from offsetwatch.remedy.engine.undo import changes, irreversible, way_back
from offsetwatch.remedy.model.driver import Answer, Look, Standing
from offsetwatch.remedy.model.journal_records import (
    Answered,
    Cause,
    Ended,
    Ending,
    Intended,
    Kept,
    Opened,
    Parked,
    Resumed,
    StepRecord,
    Turned,
    Verified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    Copy,
    Create,
    Expect,
    Freeze,
    Plan,
    Proof,
    Settle,
    ToState,
)

_PAUSES_S = (0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 5.0)
_LOOKS_BLIND = 3  # before anything was begun: whoever asked has just been shown the offsets


def begin(plan: Plan, now: float, limits: Limits) -> Move:
    """The first move of a new plan."""
    backed_up = False
    for each in plan.steps:
        backed_up = backed_up or isinstance(each, Freeze)
        assert backed_up or not changes(each) or isinstance(each, Create), "change without backup"
    assert _skips_what_is_copied(plan), (
        "skip without a copy, or without a check of the skipped record"
    )
    opened = Opened(at=now, plan=plan)
    progress = replace(replayed((opened,), limits), since=now)
    return Move(progress, Identify(), (opened,))


def _skips_what_is_copied(plan: Plan) -> bool:
    if plan.remedy is None or plan.remedy.skip_key is None:
        return True
    kinds = [type(each) for each in plan.steps]
    alters = kinds.index(Alter)
    return {Copy, Freeze, Expect} <= set(kinds[:alters]) and Alter not in kinds[alters + 1 :]


def step(progress: Progress, event: Event, now: float) -> Move:
    """The next move. A plan that has ended has none."""
    assert progress.ended is None
    match event:
        case Begun():
            return _ask(progress)
        case Paused():
            return _paused(progress, now)
        case TakenUp():
            resumed = _did(progress, Resumed(at=now))
            fresh = replace(resumed.progress, identified=False, taken_up=True)
            return _then_ask(Move(fresh, End(), resumed.records))
        case Identified():
            return _identified(progress, event, now)
        case Looked():
            return _looked(replace(progress, looks=progress.looks + 1, blind=0), event.look, now)
        case Blind():
            blind = replace(progress, looks=progress.looks + 1, blind=progress.blind + 1)
            return _blind(blind, event, now)
        case Tried():
            return _tried(progress, event, now)
        case Found():
            return _then_ask(_did(progress, Kept(at=now, frozen=event.frozen)))
        case Unkept():
            return _fail(progress, Cause.REFUSED, event.said, now)
        case Rechecked():
            if event.problems:
                return _fail(progress, Cause.CHANGED, "; ".join(event.problems), now)
            return _verified(progress, "", now)
        case Interrupted() | Aborted():
            return _called_off(progress, event, now)


def _called_off(progress: Progress, event: Interrupted | Aborted, now: float) -> Move:
    """Back, if this is a place to stop; who aborts wants even what is done undone."""
    if progress.undoing:
        return _ask(progress)
    match event:
        case Interrupted():
            if _under_way(progress):
                return _ask(progress)
            return _fail(progress, Cause.INTERRUPTED, "interrupted", now)
        case Aborted():
            if not _can_turn(progress):
                return _ask(progress)
            if not progress.effects:
                return _unchanged(progress, Cause.INTERRUPTED, event.said, now)
            return _turned(progress, Cause.INTERRUPTED, event.said, now)


def _paused(progress: Progress, now: float) -> Move:
    return _out_of_time(progress, now) if _stopped_too_long(progress, now) else _ask(progress)


def _out_of_time(progress: Progress, now: float) -> Move:
    waited_s = round(now - progress.stopped_at)
    said = f"it was asked to stop {waited_s} s ago, and nothing has changed since"
    return _fail(progress, Cause.TIMED_OUT, said, now)


def _stopped_too_long(progress: Progress, now: float) -> bool:
    """Whether the time is up that an incident's plan may keep a connector from working before
    anything is changed. What may have been changed is carried on with.
    """
    remedy = progress.plan.remedy
    if remedy is None or remedy.stop_total_s is None or not progress.stopped_at:
        return False
    begun = progress.undoing or progress.changed
    return not begun and now >= progress.stopped_at + remedy.stop_total_s


def _can_turn(progress: Progress) -> bool:
    """Whether there is still something to go back from: not once it was asked to run again, nor
    while a change is under way.
    """
    steps = progress.plan.steps
    if not progress.identified or any(irreversible(steps[at]) for at in progress.touched):
        return False
    asked = progress.sent > 0 and (changes(progress.step) or progress.last)
    return not asked and not isinstance(progress.step, Proof)


def _under_way(progress: Progress) -> bool:
    """Whether a change is done or may yet be, or nobody knows what there is to go back from."""
    if not progress.identified:
        return bool(progress.touched)
    others = progress.touched - {progress.index}
    done = any(changes(progress.plan.steps[at]) for at in others)
    return done or (progress.sent > 0 and changes(progress.step))


def _did(progress: Progress, *records: StepRecord) -> Move:
    for record in records:
        progress = applied(progress, record)
    return Move(progress, End(), records)


def _then_ask(move: Move) -> Move:
    return move._replace(command=_command(move.progress))


def _ask(progress: Progress) -> Move:
    return Move(progress, _command(progress))


def _command(progress: Progress) -> Command:
    """The one that looks at what is next."""
    if not progress.identified:
        return Identify()
    if isinstance(progress.step, Freeze):
        return Recheck(progress.frozen) if progress.frozen is not None else Keep()
    return LookAt(progress.step, progress.before)


def _identified(progress: Progress, event: Identified, now: float) -> Move:
    wanted = progress.plan.subject.identity
    if wanted is not None and event.identity != wanted:
        said = f"this is another Connect cluster than the plan's: {event.identity}, not {wanted}"
        return _stay(progress, Cause.CHANGED, said, now)
    known = replace(progress, identified=True, taken_up=False, since=now, looks=0)
    asked_for = progress.last and (
        progress.index in progress.touched or isinstance(progress.step, Proof)
    )
    if not progress.taken_up or progress.undoing or _must_finish(progress) or asked_for:
        return _ask(known)
    return _fail(known, Cause.INTERRUPTED, "interrupted before any offset was changed", now)


def _must_finish(progress: Progress) -> bool:
    """Whether a change may have begun: then the way is forward. A connector created and nothing
    else can simply be deleted again.
    """
    steps = (progress.plan.steps[at] for at in progress.touched)
    return any(changes(each) and not isinstance(each, Create) for each in steps)


def _looked(progress: Progress, look: Look, now: float) -> Move:
    match look.standing:
        case Standing.DONE:
            return _done(progress, look, now)
        case Standing.READY | Standing.PARTLY:
            return _ready(progress, look, now)
        case Standing.NOT_YET:
            return _wait(progress, look.said, now)
        case Standing.FOREIGN:
            if progress.changed and not _proving(progress):
                return _park(progress, Ending.PARKED, Cause.CHANGED, look.said, now)
            return _fail(progress, Cause.CHANGED, look.said, now)
        case Standing.IMPOSSIBLE:
            return _fail(progress, Cause.REFUSED, look.said, now)


def _done(progress: Progress, look: Look, now: float) -> Move:
    # A stop without an answer may be carried out after the resume that follows it. What is seen may
    # also be a person's doing, while we wait for our own request to show.
    late_until = progress.late_until
    if progress.plan.remedy is not None:
        late_until = max(late_until, progress.doubt_until)
    if (progress.undoing or progress.last) and now < late_until:
        said = f"{look.said}; an earlier request without an answer may still be carried out"
        return _pause(progress, said)
    return _verified(progress, look.said, now)


def _verified(progress: Progress, said: str, now: float) -> Move:
    verified = Verified(at=now, index=progress.index, undoing=progress.undoing, said=said)
    move = _did(progress, verified)
    if move.progress.index < len(move.progress.path):
        return _then_ask(move)
    ended = _ended(move.progress, now)
    return Move(applied(move.progress, ended), End(), (*move.records, ended))


def _ended(progress: Progress, now: float) -> Ended:
    turned = progress.turned
    if turned is None:
        return Ended(at=now, ending=Ending.SUCCEEDED, said="done")
    return Ended(at=now, ending=Ending.RESTORED, said=turned.said, cause=turned.cause)


def _ready(progress: Progress, look: Look, now: float) -> Move:
    if isinstance(progress.step, Settle | Proof):
        return _wait(progress, look.said, now)
    if progress.answer is Answer.NACK:
        return _refused(progress, look, now)
    if progress.sent:
        patience_s = _patience_s(progress)
        if now < progress.asked_at + patience_s:
            said = f"{look.said}; the request has {patience_s:.0f} s to take effect"
            return _pause(progress, said)
    elif progress.refused and progress.over(progress.limits.step_s, now):
        return _fail(progress, Cause.REFUSED, progress.refused, now)
    if progress.spent >= progress.limits.attempts:
        if progress.answer is Answer.FAILED and look.standing is Standing.READY:
            return _refused(progress, look, now)
        said = f"requested {progress.spent} times without effect: {look.said}"
        return _expired(progress, said, now)
    if _stopped_too_long(progress, now):  # without a pause: this process stood still
        return _out_of_time(progress, now)
    intended = Intended(at=now, index=progress.index, undoing=progress.undoing)
    move = _did(progress, intended)
    return move._replace(command=CarryOut(progress.step, progress.before))


def _patience_s(progress: Progress) -> float:
    """How long a request has to show, before the next one or the way back."""
    limits = progress.limits
    if progress.answer is Answer.ACK:
        return limits.ack_s
    if progress.answer is Answer.FAILED and progress.spent < limits.attempts:
        return limits.ack_s
    return limits.doubt_s


def _refused(progress: Progress, look: Look, now: float) -> Move:
    """Go back after a refusal, once it was read back what came of the request."""
    if look.standing is not Standing.READY or progress.undoing:
        return _fail(progress, Cause.REFUSED, progress.refused, now)
    said = f"read back: {look.said}"
    unchanged = _did(progress, Answered(at=now, answer=Answer.NACK, said=said))
    failed = _fail(unchanged.progress, Cause.REFUSED, unchanged.progress.refused, now)
    return failed._replace(records=(*unchanged.records, *failed.records))


def _wait(progress: Progress, said: str, now: float) -> Move:
    if now < progress.doubt_until or not progress.over(progress.limits.step_s, now):
        return _pause(progress, said)
    waited_s = round(now - progress.since)
    return _expired(progress, f"not so after {waited_s} s: {said}", now)


def _pause(progress: Progress, said: str) -> Move:
    seconds = _PAUSES_S[min(progress.looks, len(_PAUSES_S) - 1)]
    waiting = replace(progress, waited_s=progress.waited_s + seconds)
    return Move(waiting, Pause(seconds, said))


def _tried(progress: Progress, event: Tried, now: float) -> Move:
    outcome = event.outcome
    answered = Answered(at=now, answer=outcome.answer, said=outcome.said, definite=outcome.definite)
    move = _did(progress, answered)
    match outcome.answer:
        case Answer.ACK | Answer.FAILED | Answer.IN_DOUBT:
            return _look_again(move)
        case Answer.NACK if move.progress.read_back and event.cause is Cause.REFUSED:
            return _look_again(move)
        case Answer.RETRY:
            later = replace(move.progress, looks=move.progress.looks + 1)
            return _pause(later, outcome.said)._replace(records=move.records)
        case Answer.NACK:
            failed = _fail(move.progress, event.cause, outcome.said, now)
            return failed._replace(records=(*move.records, *failed.records))


def _look_again(move: Move) -> Move:
    return _then_ask(move._replace(progress=replace(move.progress, looks=0, waited_s=0.0)))


def _blind(progress: Progress, event: Blind, now: float) -> Move:
    begun = bool(progress.touched)
    in_time = not progress.over(progress.limits.step_s, now)
    patient = in_time if begun else progress.blind < _LOOKS_BLIND
    if patient and event.cause is not Cause.UNAUTHORISED:
        return _pause(progress, event.said)
    return _stay(progress, event.cause, event.said, now)


def _stay(progress: Progress, cause: Cause, said: str, now: float) -> Move:
    """Nothing can be done from here, not even the way back."""
    if _proving(progress):
        return _ineffective(progress, cause, said, now)
    if progress.effects:
        return _park(progress, Ending.PARKED, cause, said, now)
    return _unchanged(progress, cause, said, now)


def _expired(progress: Progress, said: str, now: float) -> Move:
    """A step that does not come about: the way back, unless what was asked for may yet happen."""
    if _proving(progress):
        return _ineffective(progress, Cause.TIMED_OUT, said, now)
    in_doubt = progress.sent > 0 and progress.answer is not Answer.ACK
    stuck = progress.sent > 0 and (changes(progress.step) or progress.last)
    if progress.undoing or stuck:
        ending = Ending.IN_DOUBT if in_doubt else Ending.PARKED
        return _park(progress, ending, Cause.TIMED_OUT, said, now)
    return _fail(progress, Cause.TIMED_OUT, said, now)


def _fail(progress: Progress, cause: Cause, said: str, now: float) -> Move:
    """Go back, if there is anything to go back from and a way."""
    if _proving(progress):
        return _ineffective(progress, cause, said, now)
    if not progress.effects:
        return _unchanged(progress, cause, said, now)
    if progress.undoing or _no_way_back(progress):
        return _park(progress, Ending.PARKED, cause, said, now)
    return _turned(progress, cause, said, now)


def _turned(progress: Progress, cause: Cause, said: str, now: float) -> Move:
    back = way_back(progress.plan, progress.frozen, progress.touched)
    if not back:
        return _park(progress, Ending.PARKED, cause, said, now)
    return _then_ask(_did(progress, Turned(at=now, steps=back, cause=cause, said=said)))


def _no_way_back(progress: Progress) -> bool:
    steps = progress.plan.steps
    if any(irreversible(steps[at]) for at in progress.touched):
        return True
    if not progress.last:
        return False
    # The offsets are as they were asked for: to put them back would not start the connector.
    created = any(isinstance(each, Create) for each in steps)
    arrived = progress.changed and isinstance(progress.step, ToState) and not created
    return arrived or progress.sent > 0


def _proving(progress: Progress) -> bool:
    return not progress.undoing and isinstance(progress.step, Proof)


def _ineffective(progress: Progress, cause: Cause, said: str, now: float) -> Move:
    """All was done, and did not help, or nobody could see that it did: there is no way back from a
    connector that runs, and no reason to stop it again.
    """
    return _did(progress, Ended(at=now, ending=Ending.INEFFECTIVE, said=said, cause=cause))


def _unchanged(progress: Progress, cause: Cause, said: str, now: float) -> Move:
    return _did(progress, Ended(at=now, ending=Ending.UNCHANGED, said=said, cause=cause))


def _park(progress: Progress, ending: Ending, cause: Cause, said: str, now: float) -> Move:
    return _did(progress, Parked(at=now, ending=ending, cause=cause, said=said))
