"""Whether a proposed plan may be carried out: the fold of its records, and what may be added.

Pure. A decision is made once; who comes second is told. Called under the journal's lock
(`Journal.decide`), so that of two who decide at once one is second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from offsetwatch.remedy.model.journal_records import (
    AbortRequested,
    AnyRecord,
    PlanApproved,
    PlanEnded,
    PlanLapsed,
    PlanOpened,
    PlanParked,
    PlanProposed,
    PlanRejected,
    PlanResumed,
)
from offsetwatch.remedy.model.plan import Plan


class PlanStatus(StrEnum):
    """How a plan stands, from its proposal to its end."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    VOID = "void"
    RUNNING = "running"
    PARKED = "parked"
    ENDED = "ended"

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self in _FINAL_STATUSES


_FINAL_STATUSES: Final = frozenset(
    {PlanStatus.REJECTED, PlanStatus.EXPIRED, PlanStatus.VOID, PlanStatus.ENDED}
)


class DecisionRefusal(StrEnum):
    """Why a decision was not taken down."""

    UNKNOWN = "unknown"
    STALE = "stale"
    EXPIRED = "expired"
    DECIDED = "decided"
    OWN_PROPOSAL = "own_proposal"
    NOT_RUNNING = "not_running"


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """A plan and what became of it.

    proposed        None for a plan of the toolbox
    approved_by     None while nobody has
    rejected_by     likewise
    abort           who wants it undone, and why
    ended           how it ended; None while it has not
    said            of the newest turn; empty where there is nothing to say
    at              of the newest record
    """

    plan: Plan
    stands: PlanStatus
    at: float
    proposed: PlanProposed | None = None
    approved_by: str | None = None
    rejected_by: str | None = None
    abort: AbortRequested | None = None
    parked: PlanParked | None = None
    ended: PlanEnded | None = None
    said: str = ""

    @property
    def expires_at(self) -> float | None:
        """Until when it can be approved; None for what was never proposed."""
        return None if self.proposed is None else self.proposed.expires_at


def build_plan_history(records: tuple[AnyRecord, ...]) -> PlanHistory | None:
    """None of no records."""
    found: PlanHistory | None = None
    for record in records:
        found = extend_plan_history(found, record)
    return found


def extend_plan_history(found: PlanHistory | None, record: AnyRecord) -> PlanHistory | None:
    """What is known of a plan once this is added; None of what was there before."""
    match record:
        case PlanProposed():
            return PlanHistory(
                plan=record.plan,
                stands=PlanStatus.PROPOSED,
                at=record.at,
                proposed=record,
            )
        case PlanOpened() if found is None:
            return PlanHistory(plan=record.plan, stands=PlanStatus.RUNNING, at=record.at)
    if found is None:
        return None
    found = replace(found, at=record.at)
    match record:
        case PlanApproved():
            return replace(found, stands=PlanStatus.APPROVED, approved_by=record.by)
        case PlanRejected():
            return replace(
                found, stands=PlanStatus.REJECTED, rejected_by=record.by, said=record.because
            )
        case PlanLapsed():
            stands = PlanStatus.VOID if record.void else PlanStatus.EXPIRED
            return replace(found, stands=stands, said=record.said)
        case AbortRequested():
            return replace(found, abort=record)
        case PlanOpened() | PlanResumed():
            return replace(found, stands=PlanStatus.RUNNING, parked=None)
        case PlanParked():
            return replace(found, stands=PlanStatus.PARKED, parked=record, said=record.said)
        case PlanEnded():
            return replace(
                found, stands=PlanStatus.ENDED, parked=None, ended=record, said=record.said
            )
    return found


def approve_plan(
    records: tuple[AnyRecord, ...],
    *,
    by: str,
    sha256: str,
    because: str,
    now: float,
    second_person: bool = True,
) -> PlanApproved | DecisionRefusal:
    """What approving adds. `sha256` is of the plan that was looked at; `second_person`: nobody
    approves what he has proposed.
    """
    found = build_plan_history(records)
    if found is None:
        return DecisionRefusal.UNKNOWN
    if found.plan.sha256 != sha256:
        return DecisionRefusal.STALE
    if found.stands is not PlanStatus.PROPOSED:
        return (
            DecisionRefusal.EXPIRED
            if found.stands is PlanStatus.EXPIRED
            else DecisionRefusal.DECIDED
        )
    if found.expires_at is not None and now >= found.expires_at:
        return DecisionRefusal.EXPIRED
    if second_person and by == found.plan.created_by:
        return DecisionRefusal.OWN_PROPOSAL
    return PlanApproved(at=now, by=by, plan_sha256=sha256, because=because)


def reject_plan(
    records: tuple[AnyRecord, ...], *, by: str, because: str, now: float
) -> PlanRejected | DecisionRefusal:
    """What rejecting adds: also of a plan that is approved and not yet begun."""
    found = build_plan_history(records)
    if found is None:
        return DecisionRefusal.UNKNOWN
    if found.stands not in {PlanStatus.PROPOSED, PlanStatus.APPROVED}:
        return DecisionRefusal.DECIDED
    return PlanRejected(at=now, by=by, because=because)


def withdraw_plan(
    records: tuple[AnyRecord, ...], *, void: bool, said: str, now: float
) -> PlanLapsed | DecisionRefusal:
    """What becomes of a plan that is not wanted any more, unless it has begun."""
    found = build_plan_history(records)
    if found is None:
        return DecisionRefusal.UNKNOWN
    if found.stands not in {PlanStatus.PROPOSED, PlanStatus.APPROVED}:
        return DecisionRefusal.DECIDED
    return PlanLapsed(at=now, void=void, said=said)


def request_abort(
    records: tuple[AnyRecord, ...], *, by: str, because: str, now: float
) -> AbortRequested | DecisionRefusal:
    """What asking a plan to go back adds: of one that has begun and has not ended, once."""
    found = build_plan_history(records)
    if found is None:
        return DecisionRefusal.UNKNOWN
    if found.stands is not PlanStatus.RUNNING:
        return DecisionRefusal.NOT_RUNNING
    if found.abort is not None:
        return DecisionRefusal.DECIDED
    return AbortRequested(at=now, by=by, because=because)
