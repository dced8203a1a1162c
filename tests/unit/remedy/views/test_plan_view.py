"""Plans as the desk tells them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from offsetwatch.remedy.model.approval import PlanHistory
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    AnyRecord,
    GuardAnswer,
    OffsetsBackedUp,
    PlanEnded,
    PlanFailureCause,
    PlanOpened,
    PlanParked,
    PlanProposed,
    RollbackStarted,
    StepAnswered,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    FrozenOffsets,
    PartitionOffset,
    PlanStatus,
    RequestedState,
    ToState,
)
from offsetwatch.remedy.model.service_api import GuardAnswerRow
from offsetwatch.remedy.views import plan_view
from tests.unit.remedy.plans import plan_of, skip_of

PLAN = skip_of()
PROPOSED = PlanProposed(
    at=1.0,
    plan=PLAN,
    mode="propose",
    expires_at=100.0,
    answers=(GuardAnswer(1, "pause", "deny", "held"),),
    because="it fails",
)
DOSSIER = PlanHistory(plan=PLAN, status=PlanStatus.PROPOSED, at=1.0, proposed=PROPOSED)
PARKED = PlanParked(
    at=1.0, ending=PlanStatus.PARKED, cause=PlanFailureCause.CHANGED, said="it moved"
)
ENDED = PlanEnded(at=1.0, ending=PlanStatus.RESTORED, said="x", cause=PlanFailureCause.REFUSED)


@pytest.mark.parametrize(
    ("history", "now", "state"),
    [
        (DOSSIER, 99.0, PlanStatus.PROPOSED),
        (DOSSIER, 100.0, PlanStatus.EXPIRED),
        (replace(DOSSIER, status=PlanStatus.APPROVED), 100.0, PlanStatus.APPROVED),
        (replace(DOSSIER, status=PlanStatus.REJECTED), 1.0, PlanStatus.REJECTED),
        (replace(DOSSIER, status=PlanStatus.EXPIRED), 1.0, PlanStatus.EXPIRED),
        (replace(DOSSIER, status=PlanStatus.EXPIRED, void=True), 1.0, PlanStatus.EXPIRED),
        (replace(DOSSIER, status=PlanStatus.RUNNING), 100.0, PlanStatus.RUNNING),
        (replace(DOSSIER, status=PlanStatus.RUNNING, proposed=None), 1.0, PlanStatus.RUNNING),
        (replace(DOSSIER, status=PlanStatus.PARKED, parked=PARKED), 1.0, PlanStatus.PARKED),
        (replace(DOSSIER, status=PlanStatus.RESTORED, ended=ENDED), 1.0, PlanStatus.RESTORED),
    ],
)
def test_a_plan_stands_as_its_records_and_the_time_say(
    history: PlanHistory, now: float, state: PlanStatus
) -> None:
    assert history.status_at(now) is state
    assert plan_view.build_plan_row(history, now).state is state


def test_a_row_says_what_is_done_why_and_until_when() -> None:
    row = plan_view.build_plan_row(DOSSIER, 1.0)
    assert (row.action, row.verb) == ("skip_one", "skip one record of orders")
    assert row.said == "skip one record of orders: it fails"
    assert (row.connect_cluster, row.connector, row.expires_at) == ("lab", "orders", 100.0)
    assert plan_view.build_plan_row(replace(DOSSIER, said="held"), 1.0).said == "held"
    assert (
        plan_view.build_plan_row(replace(DOSSIER, status=PlanStatus.APPROVED), 1.0).expires_at
        is None
    )


def test_a_row_of_a_plan_of_the_toolbox_says_its_verb_alone() -> None:
    plan = plan_of()
    row = plan_view.build_plan_row(PlanHistory(plan=plan, status=PlanStatus.RUNNING, at=1.0), 1.0)
    assert (row.action, row.said, row.expires_at) == (plan.verb, plan.verb, None)


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({}, None),
        ({"parked": PARKED}, "changed"),
        ({"parked": PARKED, "ended": ENDED}, "refused"),
        ({"ended": msgspec.structs.replace(ENDED, cause=None)}, None),
    ],
)
def test_why_a_plan_did_not_go_on_its_last_turn_says(
    more: dict[str, object], cause: str | None
) -> None:
    assert plan_view.build_plan_row(replace(DOSSIER, **more), 1.0).cause == cause  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("approved", "rejected", "by"),
    [(None, None, None), ("ada", None, "ada"), (None, "bob", "bob"), ("ada", "bob", "bob")],
)
def test_who_decided_last_is_reported(
    approved: str | None, rejected: str | None, by: str | None
) -> None:
    history = replace(DOSSIER, approved_by=approved, rejected_by=rejected)
    assert plan_view.find_decider(history) == by


REFUSED = ActionRefused(
    at=5.0,
    incident="i1",
    connect_cluster="lab",
    connector="orders",
    action="skip_one",
    mode="auto",
    answers=(GuardAnswer(2, "mass_failure", "unknown", "nobody knows"),),
)


@pytest.mark.parametrize(
    ("status", "moment", "refused", "guards"),
    [
        (PlanStatus.APPROVED, 4.0, REFUSED, ["mass_failure"]),
        (PlanStatus.APPROVED, 5.0, REFUSED, ["pause"]),
        (PlanStatus.PROPOSED, 4.0, REFUSED, ["pause"]),
        (PlanStatus.APPROVED, 4.0, None, ["pause"]),
    ],
)
def test_why_an_approved_plan_waits_the_newest_look_says(
    status: PlanStatus, moment: float, refused: ActionRefused | None, guards: list[str]
) -> None:
    plan_details = plan_view.build_plan_details(
        replace(DOSSIER, status=status, at=moment), (), 5.0, refused
    )
    assert [guard.guard for guard in plan_details.guards] == guards
    assert (plan_details.plan, plan_details.row) == (
        PLAN,
        plan_view.build_plan_row(replace(DOSSIER, status=status, at=moment), 5.0),
    )


def test_a_guard_is_reported_as_the_journal_has_it() -> None:
    plan_details = plan_view.build_plan_details(DOSSIER, (), 1.0)
    assert plan_details.guards == (
        GuardAnswerRow(guard="pause", number=1, answer="deny", said="held"),
    )
    own = PlanHistory(plan=plan_of(), status=PlanStatus.RUNNING, at=1.0)
    assert plan_view.build_plan_details(own, (), 1.0).guards == ()


# --- steps ----------------------------------------------------------------------------------------

OWN = plan_of()
OPENED = PlanOpened(at=1.0, plan=OWN)
BEGUN = (
    OPENED,
    StepIntended(at=1.0, index=0, undoing=False),
    StepVerified(at=1.0, index=0, undoing=False, said=""),
    StepVerified(at=1.0, index=1, undoing=False, said=""),
    OffsetsBackedUp(at=1.0, frozen=FrozenOffsets((PartitionOffset("a", "1"),), "b", "sha")),
    StepVerified(at=1.0, index=2, undoing=False, said=""),
)
INTENT = StepIntended(at=1.0, index=3, undoing=False)
DOUBT = StepAnswered(at=1.0, answer=AttemptResult.IN_DOUBT, said="500")
LATE = PlanParked(at=1.0, ending=PlanStatus.IN_DOUBT, cause=PlanFailureCause.TIMED_OUT, said="no")


def statuses(*records: AnyRecord) -> list[str]:
    return [step.status for step in plan_view.build_step_rows(OWN, records)]


def test_of_a_plan_that_was_not_opened_nothing_has_begun() -> None:
    proposed = PlanProposed(at=1.0, plan=OWN, mode="propose", expires_at=9.0)
    assert statuses() == statuses(proposed) == ["not begun"] * 5


@pytest.mark.parametrize(
    ("more", "status"),
    [
        pytest.param((), "next", id="next"),
        pytest.param((INTENT,), "requested", id="asked"),
        pytest.param((INTENT, DOUBT), "requested, in doubt", id="without-an-answer"),
        pytest.param((INTENT, DOUBT, LATE), "in doubt", id="parked-in-doubt"),
        pytest.param((INTENT, PARKED), "stopped here", id="parked"),
        pytest.param((ENDED,), "not done", id="over"),
        pytest.param((INTENT, ENDED), "requested, no effect seen", id="over-once-asked"),
    ],
)
def test_what_has_become_of_each_step_is_reported(more: tuple[AnyRecord, ...], status: str) -> None:
    assert statuses(*BEGUN, *more) == ["done", "done", "done", status, "not begun"]


def test_the_way_back_is_reported_behind_the_way_forth() -> None:
    back = (ToState(RequestedState.RUNNING), ToState(RequestedState.PAUSED))
    turned = RollbackStarted(at=1.0, steps=back, cause=PlanFailureCause.REFUSED, said="404")
    results = plan_view.build_step_rows(
        OWN, (*BEGUN, turned, StepVerified(at=1.0, index=0, undoing=True, said=""))
    )
    assert [(step.step, step.status) for step in results[5:]] == [
        ("roll back: resume the connector", "done"),
        ("roll back: pause the connector", "next"),
    ]
    assert [step.status for step in results[:5]] == ["begun", *["not begun"] * 4]


def test_requests_are_reported_of_plans_that_make_them() -> None:
    assert plan_view.build_step_rows(OWN, ())[0].requests == ("PUT /connectors/orders/stop",)
    assert plan_view.build_step_rows(OWN, ())[1].requests == ()
    subject = msgspec.structs.replace(OWN.subject, driver="storage")
    stored = msgspec.structs.replace(OWN, subject=subject)
    assert {step.requests for step in plan_view.build_step_rows(stored, ())} == {()}
