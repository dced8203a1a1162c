"""Whether a proposed plan may be carried out: the fold of its records, and what may be added.

Pure. A decision is made once; who comes second is told. Called under the journal's lock
(`Journal.decide`), so that of two who decide at once one is second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from offsetwatch.remedy.model.journal_records import (
    AbortAsked,
    AnyRecord,
    Approved,
    Ended,
    Lapsed,
    Opened,
    Parked,
    Proposed,
    Rejected,
    Resumed,
)
from offsetwatch.remedy.model.plan import Plan


class Stands(StrEnum):
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
        return self in _OVER


_OVER: Final = frozenset({Stands.REJECTED, Stands.EXPIRED, Stands.VOID, Stands.ENDED})


class No(StrEnum):
    """Why a decision was not taken down."""

    UNKNOWN = "unknown"
    STALE = "stale"
    EXPIRED = "expired"
    DECIDED = "decided"
    OWN_PROPOSAL = "own_proposal"
    NOT_RUNNING = "not_running"


@dataclass(frozen=True, slots=True)
class Dossier:
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
    stands: Stands
    at: float
    proposed: Proposed | None = None
    approved_by: str | None = None
    rejected_by: str | None = None
    abort: AbortAsked | None = None
    parked: Parked | None = None
    ended: Ended | None = None
    said: str = ""

    @property
    def expires_at(self) -> float | None:
        """Until when it can be approved; None for what was never proposed."""
        return None if self.proposed is None else self.proposed.expires_at


def dossier(records: tuple[AnyRecord, ...]) -> Dossier | None:
    """None of no records."""
    found: Dossier | None = None
    for record in records:
        found = folded(found, record)
    return found


def folded(found: Dossier | None, record: AnyRecord) -> Dossier | None:
    """What is known of a plan once this is added; None of what was there before."""
    match record:
        case Proposed():
            return Dossier(
                plan=record.plan,
                stands=Stands.PROPOSED,
                at=record.at,
                proposed=record,
            )
        case Opened() if found is None:
            return Dossier(plan=record.plan, stands=Stands.RUNNING, at=record.at)
    if found is None:
        return None
    found = replace(found, at=record.at)
    match record:
        case Approved():
            return replace(found, stands=Stands.APPROVED, approved_by=record.by)
        case Rejected():
            return replace(
                found, stands=Stands.REJECTED, rejected_by=record.by, said=record.because
            )
        case Lapsed():
            stands = Stands.VOID if record.void else Stands.EXPIRED
            return replace(found, stands=stands, said=record.said)
        case AbortAsked():
            return replace(found, abort=record)
        case Opened() | Resumed():
            return replace(found, stands=Stands.RUNNING, parked=None)
        case Parked():
            return replace(found, stands=Stands.PARKED, parked=record, said=record.said)
        case Ended():
            return replace(found, stands=Stands.ENDED, parked=None, ended=record, said=record.said)
    return found


def approval(
    records: tuple[AnyRecord, ...],
    *,
    by: str,
    sha256: str,
    because: str,
    now: float,
    second_person: bool = True,
) -> Approved | No:
    """What approving adds. `sha256` is of the plan that was looked at; `second_person`: nobody
    approves what he has proposed.
    """
    found = dossier(records)
    if found is None:
        return No.UNKNOWN
    if found.plan.sha256 != sha256:
        return No.STALE
    if found.stands is not Stands.PROPOSED:
        return No.EXPIRED if found.stands is Stands.EXPIRED else No.DECIDED
    if found.expires_at is not None and now >= found.expires_at:
        return No.EXPIRED
    if second_person and by == found.plan.created_by:
        return No.OWN_PROPOSAL
    return Approved(at=now, by=by, plan_sha256=sha256, because=because)


def rejection(
    records: tuple[AnyRecord, ...], *, by: str, because: str, now: float
) -> Rejected | No:
    """What rejecting adds: also of a plan that is approved and not yet begun."""
    found = dossier(records)
    if found is None:
        return No.UNKNOWN
    if found.stands not in {Stands.PROPOSED, Stands.APPROVED}:
        return No.DECIDED
    return Rejected(at=now, by=by, because=because)


def lapse(records: tuple[AnyRecord, ...], *, void: bool, said: str, now: float) -> Lapsed | No:
    """What becomes of a plan that is not wanted any more, unless it has begun."""
    found = dossier(records)
    if found is None:
        return No.UNKNOWN
    if found.stands not in {Stands.PROPOSED, Stands.APPROVED}:
        return No.DECIDED
    return Lapsed(at=now, void=void, said=said)


def abortion(
    records: tuple[AnyRecord, ...], *, by: str, because: str, now: float
) -> AbortAsked | No:
    """What asking a plan to go back adds: of one that has begun and has not ended, once."""
    found = dossier(records)
    if found is None:
        return No.UNKNOWN
    if found.stands is not Stands.RUNNING:
        return No.NOT_RUNNING
    if found.abort is not None:
        return No.DECIDED
    return AbortAsked(at=now, by=by, because=because)
