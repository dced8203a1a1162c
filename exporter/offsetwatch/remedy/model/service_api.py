"""Requests of operators and alerts to remediation, and the answers to them.

A request that cannot be fulfilled gets an answer, not an exception; the one exception is
JournalDamaged, as nothing is decided without a journal.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.guard_answer import GuardAnswer
from offsetwatch.remedy.model.plan import PartitionOffset, Plan, PlanStatus


class RequestedAction(StrEnum):
    """Actions that an operator may request; the same words as in a plan."""

    RESTART_FAILED = "restart_failed"
    STOP = "stop"
    SKIP_ONE = "skip_one"
    RESTORE = "restore"


class Mode(StrEnum):
    """Limit of remediation without an operator: report, propose, or act where that is allowed."""

    OBSERVE = "observe"
    PROPOSE = "propose"
    AUTO = "auto"


def lowest_mode(*modes: Mode) -> Mode:
    """Return the mode of these that allows least."""
    return min(modes, key=list(Mode).index)


class _ApiStruct(msgspec.Struct, frozen=True):
    """Base of requests and answers; `said` is for users, without secrets."""


# --- what is asked --------------------------------------------------------------------------------


class AlertHint(_ApiStruct, frozen=True):
    """Hint of an alert to inspect a connector of the inventory; never evidence.

    fingerprint, starts_at, firing   identify the alert; the same three arrive many times
    topic, partition                 location of the problem, if the alert names one
    """

    fingerprint: str
    starts_at: str
    firing: bool
    connect_cluster: str
    connector: str
    topic: str | None = None
    partition: int | None = None


class PlanRequest(_ApiStruct, frozen=True):
    """Request of an operator for a plan.

    pair    of skip_one: the partition as `GET /offsets` names it, and the offset that it is to have
            afterwards: for a sink that of the record after the skipped one, for MirrorMaker that of
            the skipped one itself. Both JSON with sorted keys. Without an offset the next record is
            skipped; None: that of its only partition.
    backup  of restore: the name of a backup, without a folder
    key     the requester's idempotency key: a repeated request with it means the same plan
    """

    action: RequestedAction
    connect_cluster: str
    connector: str
    because: str
    key: str
    pair: PartitionOffset | None = None
    backup: str | None = None


# --- what is told ---------------------------------------------------------------------------------


class PlanRow(_ApiStruct, frozen=True):
    """Row of a list of plans.

    verb        what it does, in words
    expires_at  when it expires unless an operator approves it
    not_before  when the cool-down it waits for ends, approved or not; None if it waits for none
    cause       why it did not go on, if it is parked or over; see PlanFailureCause
    """

    plan_id: str
    sha256: str
    state: PlanStatus
    action: str
    connect_cluster: str
    connector: str
    created_at: Moment
    created_by: str
    said: str
    verb: str = ""
    expires_at: Moment | None = None
    not_before: Moment | None = None
    cause: str | None = None


class GuardAnswerRow(_ApiStruct, frozen=True):
    """Answer of one guard: pass, deny or unknown, which denies."""

    guard: str
    number: int
    answer: str
    said: str


class PlanStepRow(_ApiStruct, frozen=True):
    """Step in words, with the exact requests it makes, and its status."""

    step: str
    requests: tuple[str, ...]
    status: str


class PlanDetails(_ApiStruct, frozen=True):
    """Details of one plan. second_person: whoever requested it may not approve it."""

    row: PlanRow
    plan: Plan
    steps: tuple[PlanStepRow, ...]
    guards: tuple[GuardAnswerRow, ...]
    second_person: bool = True


class Breaker(_ApiStruct, frozen=True):
    """Breaker that stays open until an operator closes it. scope: `CONNECT/CONNECTOR`, or `*`."""

    scope: str
    opened_at: Moment
    said: str


class RemediationPause(_ApiStruct, frozen=True):
    """Pause, during which nothing new is begun. until: None until an operator ends it."""

    until: Moment | None
    by: str
    at: Moment
    because: str


class Switches(_ApiStruct, frozen=True):
    """Mode and pause that operators set, and the open breakers that only they close."""

    mode: Mode
    pause: RemediationPause | None
    breakers: tuple[Breaker, ...]


class JournalLine(_ApiStruct, frozen=True):
    """Record of the journal with its position in the chain; `record` is its JSON."""

    seq: int
    plan_id: str
    prev_sha256: str
    sha256: str
    record: msgspec.Raw


class JournalCheckPassed(_ApiStruct, frozen=True):
    """Result of a check that found the journal intact, with its number of records."""

    records: int


class JournalCheckFailed(_ApiStruct, frozen=True):
    """Result of a check that found the journal damaged; nothing is changed any more."""

    said: str


class QuarantineRow(_ApiStruct, frozen=True):
    """Record that was copied before it was skipped; where: see quarantine.Receipt."""

    skip_key: str
    plan_id: str
    connect_cluster: str
    connector: str
    kafka: str
    topic: str
    partition: int
    offset: int
    sha256: str
    size_bytes: int
    where: str
    at: Moment


class BackupRow(_ApiStruct, frozen=True):
    """Backup, with its connectors and their numbers of offsets."""

    name: str
    at: Moment
    sha256: str
    connectors: tuple[tuple[str, int], ...]


# --- answers --------------------------------------------------------------------------------------


class ChangeRecorded(_ApiStruct, frozen=True):
    """Answer that the change is in the journal. row: the plan as it is now, if it is about one."""

    row: PlanRow | None = None


class ProposalAccepted(_ApiStruct, frozen=True):
    """Answer with the requested plan. new: False if an earlier request had the same key."""

    row: PlanRow
    new: bool


class KeyReused(_ApiStruct, frozen=True):
    """Answer that an earlier, different request had the same key."""


class ProposalRefused(_ApiStruct, frozen=True):
    """Answer that no plan can be made, or not now, or that the configuration forbids a mode.

    guards: those that do not pass.
    """

    said: str
    guards: tuple[GuardAnswerRow, ...] = ()


class RequestTargetNotFound(_ApiStruct, frozen=True):
    """Answer that there is no such plan, connector, backup or open breaker."""


class PlanHashMismatch(_ApiStruct, frozen=True):
    """Answer that the plan is not the one reviewed; `sha256` is its actual hash."""

    sha256: str


class ProposalExpired(_ApiStruct, frozen=True):
    """Answer that the time to approve the plan is over."""

    at: Moment


class SelfApproval(_ApiStruct, frozen=True):
    """Answer that whoever requested a plan may not approve it."""


class AlreadyDecided(_ApiStruct, frozen=True):
    """Answer that the plan can no longer be decided. by: who decided; None if no one did."""

    state: PlanStatus
    by: str | None


ProposalAnswer = ProposalAccepted | KeyReused | ProposalRefused | RequestTargetNotFound
DecisionAnswer = ChangeRecorded | RequestTargetNotFound | AlreadyDecided
ApprovalAnswer = DecisionAnswer | PlanHashMismatch | ProposalExpired | SelfApproval
RequestRefusal = (
    AlreadyDecided
    | KeyReused
    | PlanHashMismatch
    | ProposalExpired
    | ProposalRefused
    | RequestTargetNotFound
    | SelfApproval
)


class RequestedPlan(NamedTuple):
    """Plan of an operator's request, and the guard answers from when it was made."""

    plan: Plan
    answers: tuple[GuardAnswer, ...] = ()


PlanningAnswer = RequestedPlan | ProposalRefused | RequestTargetNotFound
