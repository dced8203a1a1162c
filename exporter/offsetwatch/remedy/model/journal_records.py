"""Records of the journal, one for each thing that was decided or learnt about a plan.

The engine's moves append the records of its steps; engine/progress.py, approval.py and
fleet_state.py fold them. No record holds a connector's configuration.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from offsetwatch.model.moments import read_moment
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.guard_answer import GuardAnswer
from offsetwatch.remedy.model.plan import AnyStep, FrozenOffsets, Plan, PlanStatus


class PlanFailureCause(StrEnum):
    """Cause for which a plan did not go on.

    refused         the other side refuses, or it cannot be done here
    changed         what the plan was made for has changed
    timed_out       the effect did not show in time
    unreachable     the state could not be read
    unauthorised    our credentials do not allow it
    interrupted     the process that carried it out was stopped
    """

    REFUSED = "refused"
    CHANGED = "changed"
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    UNAUTHORISED = "unauthorised"
    INTERRUPTED = "interrupted"


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="record"):
    """Record of the journal; `at` is Unix seconds, by the clock of its writer."""

    at: float


class PlanOpened(JournalRecord, frozen=True, tag="opened"):
    """Start of a plan: it is to be carried out, and locks its connector from here on."""

    plan: Plan


class PlanResumed(JournalRecord, frozen=True, tag="resumed"):
    """Takeover of a plan by another process. An unanswered request before this stays unanswered."""


class OffsetsBackedUp(JournalRecord, frozen=True, tag="kept"):
    """All offsets of the connector, read and backed up."""

    frozen: FrozenOffsets


class StepIntended(JournalRecord, frozen=True, tag="intended"):
    """Intent to try a step: from here on it may have happened."""

    index: int
    undoing: bool


class StepAnswered(JournalRecord, frozen=True, tag="answered"):
    """Result of the attempt that was intended before."""

    answer: AttemptResult
    said: str
    definite: bool | None = None


class StepVerified(JournalRecord, frozen=True, tag="verified"):
    """Verification that the state is as the step requires."""

    index: int
    undoing: bool
    said: str


class RollbackStarted(JournalRecord, frozen=True, tag="turned"):
    """Start of the rollback, with its steps."""

    steps: tuple[AnyStep, ...]
    cause: PlanFailureCause
    said: str


class PlanParked(JournalRecord, frozen=True, tag="parked"):
    """Parking of a plan: it needs an operator, and keeps its connector locked."""

    ending: PlanStatus
    cause: PlanFailureCause
    said: str

    def __post_init__(self) -> None:
        if not self.ending.is_parked:
            raise ValueError(f"no plan is parked as {self.ending}")


class PlanEnded(JournalRecord, frozen=True, tag="ended"):
    """End of a plan: its connector is unlocked."""

    ending: PlanStatus
    said: str
    cause: PlanFailureCause | None = None

    def __post_init__(self) -> None:
        if not (self.ending.is_over and self.ending.has_begun):
            raise ValueError(f"no plan ends as {self.ending}")


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


class PlanProposed(
    JournalRecord, frozen=True, tag="proposed", rename={"request_sha256": "asked_sha256"}
):
    """Proposal of a plan, to be approved. It locks nothing.

    because         why an operator requests it; empty for the daemon's own
    key             the requester's idempotency key: a repeated request with it means this plan
    request_sha256  of the request, to distinguish another one with the same key
    """

    plan: Plan
    mode: str
    expires_at: float
    answers: tuple[GuardAnswer, ...] = ()
    because: str = ""
    key: str = ""
    request_sha256: str = ""


class PlanApproved(JournalRecord, frozen=True, tag="approved"):
    """Approval to carry out the plan, exactly as it was when it had this hash.

    by      an operator, or `policy` where the configuration requires no approval
    """

    by: str
    plan_sha256: str
    because: str = ""


class PlanRejected(JournalRecord, frozen=True, tag="rejected"):
    """Rejection of a plan by an operator."""

    by: str
    because: str


class PlanLapsed(JournalRecord, frozen=True, tag="lapsed"):
    """Withdrawal of a plan: it was not approved in time, or is no longer needed (`void`)."""

    void: bool
    said: str


class AbortRequested(JournalRecord, frozen=True, tag="abort_asked"):
    """Request of an operator to roll a running plan back, as far as that is possible."""

    by: str
    because: str


DecisionRecord = PlanProposed | PlanApproved | PlanRejected | PlanLapsed | AbortRequested


# --- of no plan ---------------------------------------------------------------------------------


class ModeSet(JournalRecord, frozen=True, tag="mode_set"):
    """Change of the mode by an operator, never above the configured one; None: as configured."""

    mode: str | None
    by: str
    because: str


class PauseSet(JournalRecord, frozen=True, tag="pause_set"):
    """Pause of remediation by an operator, or its end.

    until   Unix seconds; None until an operator ends it
    """

    paused: bool
    until: float | None
    by: str
    because: str


class BreakerSet(JournalRecord, frozen=True, tag="breaker_set"):
    """Opening or closing of a breaker. Only an operator closes one.

    scope   `CONNECT/CONNECTOR`, or `*` for all connectors
    """

    scope: str
    open: bool
    by: str
    because: str


class IncidentDetected(JournalRecord, frozen=True, tag="incident_seen"):
    """First detection of an incident."""

    incident: str
    connect_cluster: str
    connector: str
    what: str
    said: str


class IncidentEnded(JournalRecord, frozen=True, tag="incident_over"):
    """End of an incident: it was not found any more."""

    incident: str


class ActionRefused(JournalRecord, frozen=True, tag="refused"):
    """Refusal of an action for an incident, with the guards that did not pass.

    Written when the reasons change, and not at every evaluation.

    would       all guards passed, and the mode is to observe
    recommend   what an operator may do instead, a sentence each
    """

    incident: str
    connect_cluster: str
    connector: str
    action: str
    mode: str
    answers: tuple[GuardAnswer, ...]
    would: bool = False
    recommend: tuple[str, ...] = ()


class RecordReplayed(JournalRecord, frozen=True, tag="replayed"):
    """Replay of a quarantined record by an operator.

    It is recorded before it is tried, so it may have happened.

    failed    it is certain that the replay recorded before was not written
    """

    receipt: str
    to: str
    by: str
    failed: bool = False


class LeadershipTaken(JournalRecord, frozen=True, tag="led"):
    """Start of a replica's leadership: from here on only it acts.

    name    as in its configuration
    """

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
    """Return a record as canonical JSON: the same record gives the same bytes."""
    return msgspec.json.encode(record, order="deterministic", enc_hook=float)


def decode_record(document: bytes) -> AnyRecord:
    """Decode the JSON of a record. Raises msgspec.DecodeError."""
    try:
        return _decoder.decode(document)
    except (UnicodeDecodeError, RecursionError) as exc:
        raise msgspec.DecodeError(str(exc)) from exc
