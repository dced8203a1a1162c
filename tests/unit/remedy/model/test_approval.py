"""Who may decide what, when: the fold of a plan's records, and what may be added."""

from __future__ import annotations

import msgspec
import pytest

from offsetwatch.remedy.model.approval import (
    DecisionRefusal,
    PlanHistory,
    approve_plan,
    build_plan_history,
    reject_plan,
    request_abort,
    withdraw_plan,
)
from offsetwatch.remedy.model.journal_records import (
    AbortRequested,
    AnyRecord,
    PlanApproved,
    PlanEnded,
    PlanFailureCause,
    PlanLapsed,
    PlanOpened,
    PlanParked,
    PlanProposed,
    PlanRejected,
    PlanResumed,
    StepIntended,
)
from offsetwatch.remedy.model.plan import PlanStatus
from tests.unit.remedy.plans import skip_of

PLAN = skip_of()
PROPOSED = PlanProposed(at=1.0, plan=PLAN, mode="propose", expires_at=100.0)
APPROVED = PlanApproved(at=2.0, by="ada", plan_sha256=PLAN.sha256)
OPENED = PlanOpened(at=3.0, plan=PLAN)
PARKED = PlanParked(at=4.0, ending=PlanStatus.PARKED, cause=PlanFailureCause.CHANGED, said="look")
IN_DOUBT = msgspec.structs.replace(PARKED, ending=PlanStatus.IN_DOUBT)
ENDED = PlanEnded(at=5.0, ending=PlanStatus.SUCCEEDED, said="done")
RUNNING = (PROPOSED, APPROVED, OPENED)
VOID = "void"
LIVES: dict[str, tuple[AnyRecord, ...]] = {
    PlanStatus.PROPOSED: (PROPOSED,),
    PlanStatus.APPROVED: (PROPOSED, APPROVED),
    PlanStatus.REJECTED: (PROPOSED, PlanRejected(at=2.0, by="ada", because="no")),
    PlanStatus.EXPIRED: (PROPOSED, PlanLapsed(at=2.0, void=False, said="no operator approved it")),
    VOID: (PROPOSED, PlanLapsed(at=2.0, void=True, said="its incident is over")),
    PlanStatus.RUNNING: RUNNING,
    PlanStatus.PARKED: (*RUNNING, PARKED),
    PlanStatus.IN_DOUBT: (*RUNNING, IN_DOUBT),
    **{
        status: (*RUNNING, PlanEnded(at=5.0, ending=status, said="done"))
        for status in PlanStatus
        if status.is_over and status.has_begun
    },
}


def known(*records: AnyRecord) -> PlanHistory:
    history = build_plan_history(records)
    assert history is not None
    return history


def approved(*records: AnyRecord, **more: object) -> PlanApproved | DecisionRefusal:
    messages = {"by": "bob", "sha256": PLAN.sha256, "because": "seen", "now": 50.0, **more}
    return approve_plan(records, **messages)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", LIVES)
def test_how_a_plan_stands_its_newest_turn_reports(status: str) -> None:
    history = known(*LIVES[status])
    assert (history.status, history.void) == (
        (PlanStatus.EXPIRED, True) if status == VOID else (status, False)
    )
    assert history.at == LIVES[status][-1].at
    begun = len(LIVES[status]) > len(RUNNING)
    parked = status in {PlanStatus.PARKED, PlanStatus.IN_DOUBT}
    assert history.status.is_over is (
        status in {PlanStatus.REJECTED, PlanStatus.EXPIRED, VOID} or (begun and not parked)
    )
    assert (history.parked is not None) is parked
    assert (history.ended is not None) is (begun and not parked)


def test_steps_of_a_plan_change_nothing_of_how_it_stands_but_the_time() -> None:
    history = known(*RUNNING, StepIntended(at=9.0, index=0, undoing=False))
    assert (history.status, history.at, history.plan) == (PlanStatus.RUNNING, 9.0, PLAN)


def test_a_plan_that_is_taken_up_is_not_parked_any_more() -> None:
    assert known(*RUNNING, PARKED, PlanResumed(at=6.0)).parked is None
    assert known(*RUNNING, PARKED, ENDED).parked is None
    assert known(*RUNNING, PARKED, PlanResumed(at=6.0)).status is PlanStatus.RUNNING


def test_what_was_said_last_is_retained() -> None:
    assert [known(*LIVES[status]).said for status in LIVES] == [
        "",
        "",
        "no",
        "no operator approved it",
        "its incident is over",
        "",
        *["look"] * 2,
        *["done"] * 5,
    ]
    assert (known(*RUNNING).approved_by, known(*LIVES[PlanStatus.REJECTED]).rejected_by) == (
        "ada",
        "ada",
    )


def test_a_plan_of_the_toolbox_runs_without_a_proposal_and_never_expires() -> None:
    history = known(OPENED)
    assert (history.status, history.proposed, history.expires_at) == (
        PlanStatus.RUNNING,
        None,
        None,
    )
    assert known(PROPOSED).expires_at == 100.0


def test_of_a_plan_without_a_beginning_nothing_is_known() -> None:
    assert build_plan_history((APPROVED, ENDED)) is None
    assert approved() is DecisionRefusal.UNKNOWN
    assert reject_plan((), by="bob", because="no", now=50.0) is DecisionRefusal.UNKNOWN
    assert withdraw_plan((), void=False, said="late", now=50.0) is DecisionRefusal.UNKNOWN
    assert request_abort((), by="bob", because="no", now=50.0) is DecisionRefusal.UNKNOWN


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, None, id="in-time"),
        pytest.param({"now": 99.0}, None, id="at-the-last-moment"),
        pytest.param({"now": 100.0}, DecisionRefusal.EXPIRED, id="too-late"),
        pytest.param({"sha256": "0" * 64}, DecisionRefusal.STALE, id="another-plan"),
        pytest.param({"by": PLAN.created_by}, DecisionRefusal.OWN_PROPOSAL, id="its-own-author"),
        pytest.param(
            {"by": PLAN.created_by, "second_person": False}, None, id="one-person-will-do"
        ),
    ],
)
def test_a_plan_is_approved_by_its_hash_in_time_and_by_another_operator(
    more: dict[str, object], expected: DecisionRefusal | None
) -> None:
    by, now = str(more.get("by", "bob")), float(str(more.get("now", 50.0)))
    yes = PlanApproved(at=now, by=by, plan_sha256=PLAN.sha256, because="seen")
    assert approved(PROPOSED, **more) == (expected or yes)


@pytest.mark.parametrize("status", [item for item in LIVES if item != PlanStatus.PROPOSED])
def test_only_what_is_proposed_is_approved(status: str) -> None:
    expected = DecisionRefusal.EXPIRED if status == PlanStatus.EXPIRED else DecisionRefusal.DECIDED
    assert approved(*LIVES[status]) is expected


@pytest.mark.parametrize("status", LIVES)
def test_what_has_not_begun_is_rejected_or_expires(status: str) -> None:
    no = reject_plan(LIVES[status], by="bob", because="no", now=50.0)
    late = withdraw_plan(LIVES[status], void=True, said="over", now=50.0)
    if status in {PlanStatus.PROPOSED, PlanStatus.APPROVED}:
        assert no == PlanRejected(at=50.0, by="bob", because="no")
        assert late == PlanLapsed(at=50.0, void=True, said="over")
    else:
        assert (no, late) == (DecisionRefusal.DECIDED, DecisionRefusal.DECIDED)


@pytest.mark.parametrize("status", LIVES)
def test_what_runs_is_ordered_to_go_back_once(status: str) -> None:
    request = request_abort(LIVES[status], by="bob", because="no", now=50.0)
    if status != PlanStatus.RUNNING:
        assert request is DecisionRefusal.NOT_RUNNING
        return
    assert request == AbortRequested(at=50.0, by="bob", because="no")
    again = (*LIVES[status], request)
    assert known(*again).abort == request
    assert request_abort(again, by="eve", because="no", now=60.0) is DecisionRefusal.DECIDED
