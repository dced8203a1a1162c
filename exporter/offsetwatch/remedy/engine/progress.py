"""How far a plan is: the fold of its records, so that any process can stand where another stood."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from offsetwatch.remedy.engine.undo import changes, expected, harmless
from offsetwatch.remedy.model.driver import Answer
from offsetwatch.remedy.model.journal_records import (
    Answered,
    AnyRecord,
    Ended,
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
    AnyStep,
    Copy,
    Frozen,
    Plan,
    Proof,
    Reset,
    State,
    ToState,
)

AWAKE_S: Final = 10.0  # time enough for a task to start, where it can


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, in seconds.

    step_s      for a step to show, from when this process began with it
    doubt_s     for a request without an answer to show: Connect gives up answering after 90 s and
                may go on working
    ack_s       for a request that was answered with yes to show, before it is made again
    attempts    how many requests for one step that may have had an effect
    """

    step_s: float = 180.0
    doubt_s: float = 120.0
    ack_s: float = 30.0
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """What the journal tells, and below what only the process at work knows.

    path        the plan's steps, or the way back
    index       of the step that is next
    sent        requests for this step that may have had an effect
    spent       of these, how many since somebody last took the plan up
    asked_at    when the last request was written down
    answer      what it was worth; None while there is no answer
    doubt_until when the requests of this step without an answer are taken to be gone
    late_until  the same of earlier steps
    touched     indexes of the plan's steps that may have had an effect
    definite    whether the connector vouches for its new offsets (see driver.Outcome)
    stopped_at  when a connector that is to run again was first asked to stop; 0 if it was not
    heard_at    a time that has come, by the clock of whoever wrote the records

    since       when this process began with the step
    looks       how often it has looked or tried in vain since
    waited_s    how long it has paused since; whoever stands still does not
    blind       how often it has looked and seen nothing, one after the other
    identified  whether the place is known to be the plan's
    taken_up    whether it has yet to be decided which way another's plan goes on
    refused     why the last try was put off
    """

    plan: Plan
    path: tuple[AnyStep, ...]
    limits: Limits = field(default_factory=Limits)
    index: int = 0
    undoing: bool = False
    frozen: Frozen | None = None
    sent: int = 0
    spent: int = 0
    asked_at: float = 0.0
    answer: Answer | None = None
    doubt_until: float = 0.0
    late_until: float = 0.0
    touched: frozenset[int] = frozenset()
    definite: bool | None = None
    stopped_at: float = 0.0
    heard_at: float = 0.0
    turned: Turned | None = None
    parked: Parked | None = None
    ended: Ended | None = None

    since: float = 0.0
    looks: int = 0
    waited_s: float = 0.0
    blind: int = 0
    identified: bool = False
    taken_up: bool = False
    refused: str = ""

    @property
    def step(self) -> AnyStep:
        """The one that is next."""
        return self.path[self.index]

    def over(self, seconds: float, now: float) -> bool:
        """Whether this step had so many seconds. A process that stood still, and wakes when they
        are over, waits for a little all the same: it has not looked, and the world had its time.
        """
        quiet_s = self.step.quiet_s if isinstance(self.step, Proof) else 0.0
        awake_s = min(AWAKE_S, seconds) + quiet_s
        return now >= self.since + seconds + quiet_s and self.waited_s >= awake_s

    @property
    def read_back(self) -> bool:
        """Whether the last request was refused or failed, and a look says what became of it."""
        return self.answer in {Answer.NACK, Answer.FAILED}

    @property
    def last(self) -> bool:
        """Whether it is the last that asks for anything."""
        return all(isinstance(step, Proof) for step in self.path[self.index + 1 :])

    @property
    def effects(self) -> frozenset[int]:
        """Of `touched`, those that are not harmless."""
        return frozenset(at for at in self.touched if not harmless(self.plan.steps[at]))

    @property
    def copied(self) -> str | None:
        """What was copied to quarantine and read back, by its hash; None before that."""
        done = self.plan.steps if self.undoing else self.path[: self.index]
        hashes = [step.sha256 for step in done if isinstance(step, Copy)]
        return hashes[0] if hashes else None

    @property
    def changed(self) -> bool:
        """Whether more than states may have been changed."""
        return any(changes(self.plan.steps[at]) for at in self.touched)

    @property
    def before(self) -> Frozen | None:
        """The offsets that this step is to find; None before they were looked up."""
        if self.frozen is None:
            return None
        forward = self.plan.steps
        done = tuple(forward[at] for at in sorted(self.touched)) if self.undoing else ()
        return expected(self.frozen, (*done, *self.path[: self.index]))


def replayed(records: tuple[AnyRecord, ...], limits: Limits) -> Progress:
    """Where the one who wrote these stood. The first step is Opened; how it came to that is not
    asked here (decisions.py).
    """
    opened, *rest = (record for record in records if isinstance(record, StepRecord))
    assert isinstance(opened, Opened)
    progress = Progress(plan=opened.plan, path=opened.plan.steps, limits=limits)
    for record in rest:
        progress = applied(progress, record)
    return progress


def applied(progress: Progress, record: StepRecord) -> Progress:
    """The progress that this record makes."""
    match record:
        case Resumed():
            taken = replace(progress, parked=None, spent=0, since=record.at, looks=0, waited_s=0.0)
            return _waiting_anew(taken, record.at)
        case Kept():
            return replace(progress, frozen=record.frozen)
        case Intended():
            return _intended(progress, record)
        case Answered():
            return _answered(progress, record)
        case Verified():
            # One request has landed; of several without an answer another may yet. Where it is no
            # person's plan, a person may have done the same meanwhile: then ours may come yet.
            others = progress.sent > 1 or progress.plan.remedy is not None
            late = progress.doubt_until if others else 0.0
            return _at(progress, index=progress.index + 1, late=late, now=record.at)
        case Turned():
            late = progress.doubt_until
            turned = replace(progress, path=record.steps, undoing=True, turned=record)
            if progress.answer is Answer.NACK and not any(changes(step) for step in record.steps):
                # Refused, and nothing to put back: whoever turned knew that it was as before.
                turned = replace(turned, touched=turned.touched - {progress.index})
            return _at(turned, index=0, late=late, now=record.at)
        case Parked():
            return replace(progress, parked=record)
        case Ended():
            return replace(progress, ended=record, parked=None)
        case Opened():
            raise AssertionError(record)


def _waiting_anew(progress: Progress, now: float) -> Progress:
    """What another process had waited for does not count: its clock may have been set since, and
    nobody can tell by how much. Only what was over by its own clock is over.
    """
    until = now + progress.limits.doubt_s
    late = progress.late_until > progress.heard_at
    anew = replace(progress, late_until=until if late else 0.0, heard_at=now)
    if not progress.sent:
        return anew
    heard = progress.answer is Answer.ACK or progress.read_back
    doubtful = not heard or progress.doubt_until > progress.heard_at
    return replace(
        anew,
        asked_at=now,
        answer=progress.answer if heard else Answer.IN_DOUBT,
        doubt_until=until if doubtful else 0.0,
    )


def _at(progress: Progress, *, index: int, late: float, now: float) -> Progress:
    return replace(
        progress,
        index=index,
        sent=0,
        spent=0,
        answer=None,
        doubt_until=0.0,
        late_until=max(progress.late_until, late),
        heard_at=now,
        since=now,
        looks=0,
        waited_s=0.0,
        blind=0,
        refused="",
    )


def _intended(progress: Progress, record: Intended) -> Progress:
    assert (record.index, record.undoing) == (progress.index, progress.undoing)
    touched, stopped_at = progress.touched, progress.stopped_at
    stops = isinstance(progress.step, ToState) and progress.step.state is State.STOPPED
    if stops and not progress.undoing and progress.plan.final is not State.STOPPED:
        stopped_at = stopped_at or record.at
    return replace(
        progress,
        sent=progress.sent + 1,
        spent=progress.spent + 1,
        asked_at=record.at,
        heard_at=record.at,
        answer=None,
        touched=touched if progress.undoing else touched | {progress.index},
        stopped_at=stopped_at,
    )


def _answered(progress: Progress, record: Answered) -> Progress:
    match record.answer:
        case Answer.ACK if progress.undoing:
            return replace(progress, answer=record.answer)
        case Answer.ACK:
            known = [at for at in (progress.definite, record.definite) if at is not None]
            definite = all(known) if known else None
            return replace(progress, answer=record.answer, definite=definite)
        case Answer.IN_DOUBT:
            return _doubting(progress)
        case Answer.FAILED:
            return replace(progress, answer=record.answer, refused=record.said)
        case Answer.NACK if _wants_read_back(progress):
            return replace(progress, answer=record.answer, refused=record.said)
        case Answer.RETRY | Answer.NACK:
            refused = progress.refused if progress.read_back else record.said
            return _nothing_happened(replace(progress, refused=refused))


def _doubting(progress: Progress) -> Progress:
    until = max(progress.doubt_until, progress.asked_at + progress.limits.doubt_s)
    return replace(progress, answer=Answer.IN_DOUBT, doubt_until=until)


def _wants_read_back(progress: Progress) -> bool:
    """Whether a refusal is believed only when the offsets were looked at: it may be the second of
    two changes of a sink that Connect was refused, and a connector refuses in words of its own.
    """
    return (
        not progress.undoing
        and not progress.read_back
        and progress.plan.subject.driver in {"rest", "strimzi"}
        and isinstance(progress.step, Alter | Reset)
    )


def _nothing_happened(progress: Progress) -> Progress:
    # By the last request; an earlier one of the same step may have been carried out.
    sent, touched = progress.sent - 1, progress.touched
    if progress.read_back and not progress.doubt_until:
        sent = 0  # each of them has ended
    if sent:
        return replace(progress, sent=sent, answer=Answer.IN_DOUBT)
    if not progress.undoing:
        touched -= {progress.index}
    return replace(progress, sent=0, spent=0, answer=None, touched=touched)
