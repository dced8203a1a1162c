"""What guarded remediation adds to a journal: plans that were proposed, decided, skipped a record,
and what concerns no plan. Run by make.py; see journals.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from offsetwatch.model.findings import EvidenceItem
from offsetwatch.remedy.engine import AbortEvent
from offsetwatch.remedy.model import journal_records
from offsetwatch.remedy.model.driver import StepInspection, StepStatus
from offsetwatch.remedy.model.journal_records import (
    AbortRequested,
    ActionRefused,
    BreakerSet,
    ControlRecord,
    GuardAnswer,
    IncidentDetected,
    IncidentEnded,
    LeadershipTaken,
    ModeSet,
    PauseSet,
    PlanApproved,
    PlanLapsed,
    PlanProposed,
    PlanRejected,
    RecordReplayed,
)
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    Plan,
    RemediationContext,
    RequestedState,
    Restart,
    ToState,
    Watch,
)
from tests.unit.remedy.plans import AT, NEXT, OLD, PARTITION, Bench, plan_of, skip_of
from tests.upgrade.journals import Case, dies

GUARD_ANSWERS = (
    GuardAnswer(11, "repeat", "pass", "failed 3 times"),
    GuardAnswer(20, "cool_down", "deny", "for 5 min"),
)
EXPIRES_S = 14_400.0


def _proposed(bench: Bench, plan: Plan) -> None:
    if plan.remedy is not None and plan.remedy.action is Action.SKIP_ONE:
        bench.world.offsets = {PARTITION: AT}
    now = bench.clock.now()
    proposed = PlanProposed(
        at=now,
        plan=plan,
        mode="propose",
        expires_at=now + EXPIRES_S,
        answers=GUARD_ANSWERS,
        because="it is poison",
        key=f"wish-{plan.plan_id}",
        request_sha256="1" * 64,
    )
    bench.journal.append(plan.plan_id, (proposed,))


def _approved(bench: Bench, plan: Plan) -> None:
    _proposed(bench, plan)
    approved = PlanApproved(
        at=bench.clock.now(), by="on-call", plan_sha256=plan.sha256, because="yes"
    )
    bench.journal.append(plan.plan_id, (approved,))


def _then(record: Callable[[float], journal_records.AnyRecord]) -> Callable[[Bench, Plan], None]:
    return lambda bench, plan: bench.journal.append(plan.plan_id, (record(bench.clock.now()),))


def _did_not_help(bench: Bench, plan: Plan) -> None:
    _approved(bench, plan)
    bench.world.proven = StepInspection(StepStatus.FOREIGN, "it failed again, still at 8")


def _abort(bench: Bench) -> dict[str, Any]:
    """As the daemon hears of it: from the journal."""

    def abort() -> AbortEvent | None:
        if bench.world.offsets != {PARTITION: NEXT}:
            return None
        expected = AbortRequested(at=bench.clock.now(), by="on-call", because="no")
        bench.journal.append("aborted", (expected,))
        return AbortEvent("on-call: no")

    return {"find_cancellation": abort}


_FAILED = EvidenceItem("failed", 3, "times")


def _answering(action: Action, plan: Plan) -> Plan:
    return msgspec.structs.replace(
        plan,
        verb=f"{action.value} of a connector",
        created_by="detector",
        remedy=RemediationContext(action, incident=f"i-{action.value}", evidence=(_FAILED,)),
    )


def _stopping() -> Plan:
    plan = msgspec.structs.replace(
        plan_of(), steps=(ToState(RequestedState.STOPPED),), final=RequestedState.STOPPED
    )
    return _answering(Action.STOP, plan)


def _restarting() -> Plan:
    steps = (Restart(include_tasks=True, only_failed=True), Watch(quiet_s=30.0))
    return _answering(Action.RESTART_FAILED, msgspec.structs.replace(plan_of(), steps=steps))


def _controls(bench: Bench, plan: Plan) -> None:
    bench.world.offsets = dict(OLD)
    for record in controls(bench.clock.now()):
        bench.journal.control(record)


def controls(now: float) -> tuple[ControlRecord, ...]:
    """Of no plan: each kind, and what takes it back."""
    by = {"by": "on-call", "because": "upgrade"}
    return (
        ModeSet(at=now, mode="observe", **by),
        ModeSet(at=now, mode=None, **by),
        PauseSet(at=now, paused=True, until=now + 3600.0, **by),
        BreakerSet(at=now, scope="lab/orders", open=True, **by),
        IncidentDetected(
            at=now, incident="i1", connect_cluster="lab", connector="orders", what="p", said="stuck"
        ),
        ActionRefused(
            at=now,
            incident="i1",
            connect_cluster="lab",
            connector="orders",
            action="skip_one",
            mode="auto",
            answers=GUARD_ANSWERS,
            recommend=("set errors.tolerance",),
        ),
        IncidentEnded(at=now, incident="i1"),
        RecordReplayed(at=now, receipt="r1", to="east/orders", by="on-call"),
        LeadershipTaken(at=now, name="replica-1"),
    )


def cases() -> dict[str, Case]:
    """By the ids of their plans."""
    skips = {
        "skipped": Case(skip_of(), before=_approved),
        "ineffective": Case(skip_of(), before=_did_not_help),
        "aborted": Case(skip_of(), before=_approved, options=_abort),
        "skip-cut-off-before": Case(skip_of(), dies(Alter, done=False), before=_approved),
        "skip-cut-off-after": Case(skip_of(), dies(Alter, done=True), before=_approved),
        "skip-cut-off-resuming": Case(
            skip_of(), dies(ToState(RequestedState.RUNNING), done=True), before=_approved
        ),
        "waiting": Case(skip_of(), before=_proposed, runs=False),
        "approved": Case(skip_of(), before=_approved, runs=False),
        "rejected": Case(
            skip_of(),
            before=_proposed,
            after=_then(lambda now: PlanRejected(at=now, by="on-call", because="wrong record")),
            runs=False,
        ),
        "lapsed": Case(
            skip_of(),
            before=_proposed,
            after=_then(
                lambda now: PlanLapsed(at=now, void=False, said="nobody approved it in time")
            ),
            runs=False,
        ),
        "void": Case(
            skip_of(),
            before=_approved,
            after=_then(lambda now: PlanLapsed(at=now, void=True, said="it runs again")),
            runs=False,
        ),
    }
    return {
        **{name: _of_its_own(name, case) for name, case in skips.items()},
        "stopped": Case(_stopping(), before=_approved),
        "restarted": Case(_restarting(), before=_approved),
        "put-back": Case(_answering(Action.RESTORE, plan_of()), before=_approved, after=_controls),
    }


def _of_its_own(name: str, case: Case) -> Case:
    """No record is skipped twice: each plan skips another one."""
    plan = skip_of(skip_key=f"key-{name}", incident=f"i-{name}")
    return replace(case, plan=plan)
