"""Approval of a plan: its status, folded from its records, and the records that a decision adds.

Pure. A plan is decided once, and a later decision is refused. The functions run under the journal's
lock (`Journal.decide`), so one of two concurrent decisions is the later one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
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
from offsetwatch.remedy.model.plan import Plan, PlanStatus

PROPOSAL_S: Final = 3600.0  # an hour later the facts of a proposal may have changed


class DecisionRefusal(StrEnum):
    """Reason why a decision was not recorded."""

    UNKNOWN = "unknown"
    STALE = "stale"
    EXPIRED = "expired"
    DECIDED = "decided"
    OWN_PROPOSAL = "own_proposal"
    NOT_RUNNING = "not_running"


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """Plan with its status and the decisions about it.

    proposed        None for a plan of the toolbox
    approved_by     None until it is approved
    rejected_by     None until it is rejected
    abort           who requested its rollback, and why
    ended           how it ended; None until it has
    void            it was withdrawn because it is no longer needed
    said            text of the newest change of status; empty where there is none
    at              time of the newest record
    """

    plan: Plan
    status: PlanStatus
    at: float
    proposed: PlanProposed | None = None
    approved_by: str | None = None
    rejected_by: str | None = None
    abort: AbortRequested | None = None
    parked: PlanParked | None = None
    ended: PlanEnded | None = None
    void: bool = False
    said: str = ""

    @property
    def expires_at(self) -> float | None:
        """Return until when the plan can be approved; None if it was never proposed."""
        return None if self.proposed is None else self.proposed.expires_at

    def status_at(self, now: float) -> PlanStatus:
        """Return the status; a proposal past its time has expired, recorded or not."""
        late = self.expires_at is not None and now >= self.expires_at
        return PlanStatus.EXPIRED if late and self.status is PlanStatus.PROPOSED else self.status


def build_plan_history(records: tuple[AnyRecord, ...]) -> PlanHistory | None:
    """Build the history of a plan from its records; None if there are none."""
    return reduce(extend_plan_history, records, None)


def extend_plan_history(history: PlanHistory | None, record: AnyRecord) -> PlanHistory | None:
    """Return the history with this record added.

    None for records before the one that proposes or opens the plan.
    """
    match record:
        case PlanProposed():
            return PlanHistory(
                plan=record.plan, status=PlanStatus.PROPOSED, at=record.at, proposed=record
            )
        case PlanOpened() if history is None:
            return PlanHistory(plan=record.plan, status=PlanStatus.RUNNING, at=record.at)
    if history is None:
        return None
    history = replace(history, at=record.at)
    match record:
        case PlanApproved():
            return replace(history, status=PlanStatus.APPROVED, approved_by=record.by)
        case PlanRejected():
            return replace(
                history, status=PlanStatus.REJECTED, rejected_by=record.by, said=record.because
            )
        case PlanLapsed():
            return replace(history, status=PlanStatus.EXPIRED, void=record.void, said=record.said)
        case AbortRequested():
            return replace(history, abort=record)
        case PlanOpened() | PlanResumed():
            return replace(history, status=PlanStatus.RUNNING, parked=None)
        case PlanParked():
            return replace(history, status=record.ending, parked=record, said=record.said)
        case PlanEnded():
            return replace(
                history, status=record.ending, parked=None, ended=record, said=record.said
            )
    return history


def approve_plan(
    records: tuple[AnyRecord, ...],
    *,
    by: str,
    sha256: str,
    because: str,
    now: float,
    second_person: bool = True,
) -> PlanApproved | DecisionRefusal:
    """Return the record that approves a plan, or the reason why it cannot be approved.

    sha256         hash of the plan that the approver reviewed
    second_person  whoever proposed the plan may not approve it
    """
    history = build_plan_history(records)
    if history is None:
        return DecisionRefusal.UNKNOWN
    if history.plan.sha256 != sha256:
        return DecisionRefusal.STALE
    status = history.status_at(now)
    if status is PlanStatus.EXPIRED and not history.void:
        return DecisionRefusal.EXPIRED
    if status is not PlanStatus.PROPOSED:
        return DecisionRefusal.DECIDED
    if second_person and by == history.plan.created_by:
        return DecisionRefusal.OWN_PROPOSAL
    return PlanApproved(at=now, by=by, plan_sha256=sha256, because=because)


def reject_plan(
    records: tuple[AnyRecord, ...], *, by: str, because: str, now: float
) -> PlanRejected | DecisionRefusal:
    """Return the record that rejects a plan, or the reason why it cannot be rejected.

    An approved plan can be rejected until it begins.
    """
    return _refuse_begun(records) or PlanRejected(at=now, by=by, because=because)


def _refuse_begun(records: tuple[AnyRecord, ...]) -> DecisionRefusal | None:
    """Return why a plan can no longer be rejected or withdrawn; None if it can."""
    history = build_plan_history(records)
    if history is None:
        return DecisionRefusal.UNKNOWN
    return None if history.status.is_waiting else DecisionRefusal.DECIDED


def withdraw_plan(
    records: tuple[AnyRecord, ...], *, void: bool, said: str, now: float
) -> PlanLapsed | DecisionRefusal:
    """Return the record that withdraws a plan no longer needed, or why it cannot be withdrawn.

    A plan that has begun cannot be withdrawn.
    """
    return _refuse_begun(records) or PlanLapsed(at=now, void=void, said=said)


def request_abort(
    records: tuple[AnyRecord, ...], *, by: str, because: str, now: float
) -> AbortRequested | DecisionRefusal:
    """Return the record that requests a rollback, or the reason why none can be requested.

    A running plan can be aborted, once.
    """
    history = build_plan_history(records)
    if history is None:
        return DecisionRefusal.UNKNOWN
    if history.status is not PlanStatus.RUNNING:
        return DecisionRefusal.NOT_RUNNING
    if history.abort is not None:
        return DecisionRefusal.DECIDED
    return AbortRequested(at=now, by=by, because=because)
