"""What the journal says of a plan, one record for each thing that was decided or learnt.

Written by the engine's moves, folded by judge/progress/tracker.py. No record holds a connector's
configuration.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from offsetwatch.model.moments import read_moment
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.plan import AnyStep, FrozenOffsets, Plan


class PlanEnding(StrEnum):
    """How a plan stands when nobody works on it any more. Parked and in doubt hold the lock.

    succeeded   everything is as the plan wants it
    restored    something was begun, and is as it was before
    unchanged   nothing was begun
    parked      a person must decide
    in_doubt    something asked for does not show and may yet happen: a person must look
    resolved    a person has closed it
    ineffective the record was skipped, and the connector was not seen to get past it
    """

    SUCCEEDED = "succeeded"
    RESTORED = "restored"
    UNCHANGED = "unchanged"
    PARKED = "parked"
    IN_DOUBT = "in_doubt"
    RESOLVED = "resolved"
    INEFFECTIVE = "ineffective"


class PlanFailureCause(StrEnum):
    """Why a plan did not go on.

    refused         the other side says no, or it cannot be done here
    changed         the world is not what the plan was made for
    timed_out       it did not come about in time
    unreachable     nothing could be seen
    unauthorised    we are not allowed to
    interrupted     whoever carried it out was stopped
    """

    REFUSED = "refused"
    CHANGED = "changed"
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    UNAUTHORISED = "unauthorised"
    INTERRUPTED = "interrupted"


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record"):
    """`at` is Unix seconds, by the clock of whoever wrote it."""

    at: float


class PlanOpened(JournalRecord, frozen=True, tag="opened"):
    """A plan is to be carried out; its place and connector are locked from here on."""

    plan: Plan


class PlanResumed(JournalRecord, frozen=True, tag="resumed"):
    """Another process goes on with it. A request without an answer before this has none."""


class OffsetsBackedUp(JournalRecord, frozen=True, tag="kept"):
    """All offsets, looked up and backed up."""

    frozen: FrozenOffsets


class StepIntended(JournalRecord, frozen=True, tag="intended"):
    """The step is about to be tried: from here on it may have happened."""

    index: int
    undoing: bool


class StepAnswered(JournalRecord, frozen=True, tag="answered"):
    """What that try was worth."""

    answer: AttemptResult
    said: str
    definite: bool | None = None


class StepVerified(JournalRecord, frozen=True, tag="verified"):
    """The world was seen to be as the step wants it."""

    index: int
    undoing: bool
    said: str


class RollbackStarted(JournalRecord, frozen=True, tag="turned"):
    """From here on the way back: these steps."""

    steps: tuple[AnyStep, ...]
    cause: PlanFailureCause
    said: str


class PlanParked(JournalRecord, frozen=True, tag="parked"):
    """Nothing more is done by itself; place and connector stay locked."""

    ending: PlanEnding
    cause: PlanFailureCause
    said: str


class PlanEnded(JournalRecord, frozen=True, tag="ended"):
    """It is over; place and connector are free again."""

    ending: PlanEnding
    said: str
    cause: PlanFailureCause | None = None


StepRecord = (
    PlanOpened
    | PlanResumed
    | OffsetsBackedUp
    | StepIntended
    | StepAnswered
    | StepVerified
    | RollbackStarted
    | PlanParked
    | PlanEnded
)


# --- before a plan is carried out ---------------------------------------------------------------


class GuardAnswerRecord(msgspec.Struct, frozen=True):
    """What a guard said (guards.py)."""

    number: int
    guard: str
    answer: str
    said: str


class PlanProposed(JournalRecord, frozen=True, tag="proposed"):
    """A plan that somebody may approve. Nothing is locked by it.

    because         why a person wants it; empty where nobody asked
    key             the person's own word for the wish: asked again under it, it is this plan
    asked_sha256    of the wish, to be told from another one under the same key
    """

    plan: Plan
    mode: str
    expires_at: float
    answers: tuple[GuardAnswerRecord, ...] = ()
    because: str = ""
    key: str = ""
    asked_sha256: str = ""


class PlanApproved(JournalRecord, frozen=True, tag="approved"):
    """It may be carried out, exactly as it was when it had this hash. `by`: a person, or `policy`
    where configuration allows it without one.
    """

    by: str
    plan_sha256: str
    because: str = ""


class PlanRejected(JournalRecord, frozen=True, tag="rejected"):
    """A person does not want it."""

    by: str
    because: str


class PlanLapsed(JournalRecord, frozen=True, tag="lapsed"):
    """It was not approved in time, or is no longer what the world needs (`void`)."""

    void: bool
    said: str


class AbortRequested(JournalRecord, frozen=True, tag="abort_asked"):
    """A person wants a plan that is carried out to go back, as far as there is a way."""

    by: str
    because: str


DecisionRecord = PlanProposed | PlanApproved | PlanRejected | PlanLapsed | AbortRequested


# --- of no plan ---------------------------------------------------------------------------------


class ModeSet(JournalRecord, frozen=True, tag="mode_set"):
    """A person lowers or raises the mode; None: as configured. Never above what is configured."""

    mode: str | None
    by: str
    because: str


class PauseSet(JournalRecord, frozen=True, tag="pause_set"):
    """A person holds everything, until then (Unix seconds) or for good (None), or lets it go."""

    paused: bool
    until: float | None
    by: str
    because: str


class BreakerSet(JournalRecord, frozen=True, tag="breaker_set"):
    """A breaker opens by itself, and is closed by a person only. `scope`: `CONNECT/CONNECTOR`."""

    scope: str
    open: bool
    by: str
    because: str


class IncidentDetected(JournalRecord, frozen=True, tag="incident_seen"):
    """Something that may want a remedy was first seen."""

    incident: str
    connect_cluster: str
    connector: str
    what: str
    said: str


class IncidentEnded(JournalRecord, frozen=True, tag="incident_over"):
    """It was not seen any more."""

    incident: str


class ActionRefused(JournalRecord, frozen=True, tag="refused"):
    """Why nothing was done about it: the guards that did not let an action pass. Written when the
    reasons change, and not at every look.

    would       all guards passed, and the mode is to observe
    recommend   what a person may do instead, a sentence each
    """

    incident: str
    connect_cluster: str
    connector: str
    action: str
    mode: str
    answers: tuple[GuardAnswerRecord, ...]
    would: bool = False
    recommend: tuple[str, ...] = ()


class RecordReplayed(JournalRecord, frozen=True, tag="replayed"):
    """A person writes a quarantined record back: noted before it is tried, so it may have happened.

    failed    it is certain that the one noted before was not written
    """

    receipt: str
    to: str
    by: str
    failed: bool = False


class LeadershipTaken(JournalRecord, frozen=True, tag="led"):
    """A replica acts from here on, and no other. `name`: as its configuration calls it."""

    name: str


ControlRecord = (
    ModeSet
    | PauseSet
    | BreakerSet
    | IncidentDetected
    | IncidentEnded
    | ActionRefused
    | RecordReplayed
    | LeadershipTaken
)

AnyRecord = StepRecord | DecisionRecord | ControlRecord


_decoder: Final[msgspec.json.Decoder[AnyRecord]] = msgspec.json.Decoder(
    AnyRecord, dec_hook=read_moment
)


def encode_record(record: AnyRecord) -> bytes:
    """Canonical: the same record is always the same bytes."""
    return msgspec.json.encode(record, order="deterministic", enc_hook=float)


def decode_record(document: bytes) -> AnyRecord:
    """The way back. Raises msgspec.DecodeError."""
    try:
        return _decoder.decode(document)
    except (UnicodeDecodeError, RecursionError) as exc:
        raise msgspec.DecodeError(str(exc)) from exc
