"""Plans as the desk tells them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from offsetwatch.remedy.model.approval import Dossier, Stands
from offsetwatch.remedy.model.driver import Answer
from offsetwatch.remedy.model.journal_records import (
    Answered,
    AnyRecord,
    Cause,
    Ended,
    Ending,
    Intended,
    Kept,
    Opened,
    Parked,
    Proposed,
    Refused,
    Told,
    Turned,
    Verified,
)
from offsetwatch.remedy.model.plan import Frozen, Pair, State, ToState
from offsetwatch.remedy.model.service_api import GuardTold, PlanState
from offsetwatch.remedy.views import plan_view

from tests.unit.remedy.plans import plan_of, skip_of

PLAN = skip_of()
PROPOSED = Proposed(
    at=1.0,
    plan=PLAN,
    mode="propose",
    expires_at=100.0,
    answers=(Told(1, "pause", "deny", "held"),),
    because="it fails",
)
DOSSIER = Dossier(plan=PLAN, stands=Stands.PROPOSED, at=1.0, proposed=PROPOSED)
PARKED = Parked(at=1.0, ending=Ending.PARKED, cause=Cause.CHANGED, said="it moved")
ENDED = Ended(at=1.0, ending=Ending.RESTORED, said="x", cause=Cause.REFUSED)


@pytest.mark.parametrize(
    ("found", "now", "state"),
    [
        (DOSSIER, 99.0, PlanState.PROPOSED),
        (DOSSIER, 100.0, PlanState.LAPSED),
        (replace(DOSSIER, stands=Stands.APPROVED), 100.0, PlanState.APPROVED),
        (replace(DOSSIER, stands=Stands.REJECTED), 1.0, PlanState.REJECTED),
        (replace(DOSSIER, stands=Stands.EXPIRED), 1.0, PlanState.LAPSED),
        (replace(DOSSIER, stands=Stands.VOID), 1.0, PlanState.LAPSED),
        (replace(DOSSIER, stands=Stands.RUNNING), 100.0, PlanState.RUNNING),
        (replace(DOSSIER, stands=Stands.RUNNING, proposed=None), 1.0, PlanState.RUNNING),
        (replace(DOSSIER, stands=Stands.PARKED, parked=PARKED), 1.0, PlanState.PARKED),
        (replace(DOSSIER, stands=Stands.ENDED, ended=ENDED), 1.0, PlanState.RESTORED),
    ],
)
def test_a_plan_stands_as_its_records_and_the_time_say(
    found: Dossier, now: float, state: PlanState
) -> None:
    assert plan_view.state(found, now) is state
    assert plan_view.row(found, now).state is state


def test_a_row_says_what_is_done_why_and_until_when() -> None:
    row = plan_view.row(DOSSIER, 1.0)
    assert (row.action, row.verb) == ("skip_one", "skip one record of orders")
    assert row.said == "skip one record of orders: it fails"
    assert (row.connect_cluster, row.connector, row.expires_at) == ("lab", "orders", 100.0)
    assert plan_view.row(replace(DOSSIER, said="held"), 1.0).said == "held"
    assert plan_view.row(replace(DOSSIER, stands=Stands.APPROVED), 1.0).expires_at is None


def test_a_row_of_a_plan_of_the_toolbox_says_its_verb_alone() -> None:
    plan = plan_of()
    row = plan_view.row(Dossier(plan=plan, stands=Stands.RUNNING, at=1.0), 1.0)
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
    assert plan_view.row(replace(DOSSIER, **more), 1.0).cause == cause  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("approved", "rejected", "by"),
    [(None, None, None), ("ada", None, "ada"), (None, "bob", "bob"), ("ada", "bob", "bob")],
)
def test_who_decided_last_is_told(
    approved: str | None, rejected: str | None, by: str | None
) -> None:
    found = replace(DOSSIER, approved_by=approved, rejected_by=rejected)
    assert plan_view.decided_by(found) == by


REFUSED = Refused(
    at=5.0,
    incident="i1",
    connect_cluster="lab",
    connector="orders",
    action="skip_one",
    mode="auto",
    answers=(Told(2, "storm", "unknown", "nobody knows"),),
)


@pytest.mark.parametrize(
    ("stands", "at", "refused", "guards"),
    [
        (Stands.APPROVED, 4.0, REFUSED, ["storm"]),
        (Stands.APPROVED, 5.0, REFUSED, ["pause"]),
        (Stands.PROPOSED, 4.0, REFUSED, ["pause"]),
        (Stands.APPROVED, 4.0, None, ["pause"]),
    ],
)
def test_why_an_approved_plan_waits_the_newest_look_says(
    stands: Stands, at: float, refused: Refused | None, guards: list[str]
) -> None:
    told = plan_view.told(replace(DOSSIER, stands=stands, at=at), (), 5.0, refused)
    assert [found.guard for found in told.guards] == guards
    assert (told.plan, told.row) == (
        PLAN,
        plan_view.row(replace(DOSSIER, stands=stands, at=at), 5.0),
    )


def test_a_guard_is_told_as_the_journal_has_it() -> None:
    told = plan_view.told(DOSSIER, (), 1.0)
    assert told.guards == (GuardTold(guard="pause", number=1, answer="deny", said="held"),)
    own = Dossier(plan=plan_of(), stands=Stands.RUNNING, at=1.0)
    assert plan_view.told(own, (), 1.0).guards == ()


# --- steps ----------------------------------------------------------------------------------------

OWN = plan_of()
OPENED = Opened(at=1.0, plan=OWN)
BEGUN = (
    OPENED,
    Intended(at=1.0, index=0, undoing=False),
    Verified(at=1.0, index=0, undoing=False, said=""),
    Verified(at=1.0, index=1, undoing=False, said=""),
    Kept(at=1.0, frozen=Frozen((Pair("a", "1"),), "b", "sha")),
    Verified(at=1.0, index=2, undoing=False, said=""),
)
ASKED = Intended(at=1.0, index=3, undoing=False)
DOUBT = Answered(at=1.0, answer=Answer.IN_DOUBT, said="500")
LATE = Parked(at=1.0, ending=Ending.IN_DOUBT, cause=Cause.TIMED_OUT, said="no")


def standings(*records: AnyRecord) -> list[str]:
    return [at.standing for at in plan_view.steps(OWN, records)]


def test_of_a_plan_that_was_not_opened_nothing_has_begun() -> None:
    proposed = Proposed(at=1.0, plan=OWN, mode="propose", expires_at=9.0)
    assert standings() == standings(proposed) == ["not begun"] * 5


@pytest.mark.parametrize(
    ("more", "standing"),
    [
        pytest.param((), "next", id="next"),
        pytest.param((ASKED,), "requested", id="asked"),
        pytest.param((ASKED, DOUBT), "requested, in doubt", id="without-an-answer"),
        pytest.param((ASKED, DOUBT, LATE), "in doubt", id="parked-in-doubt"),
        pytest.param((ASKED, PARKED), "stopped here", id="parked"),
        pytest.param((ENDED,), "not done", id="over"),
        pytest.param((ASKED, ENDED), "requested, no effect seen", id="over-once-asked"),
    ],
)
def test_what_has_become_of_each_step_is_told(more: tuple[AnyRecord, ...], standing: str) -> None:
    assert standings(*BEGUN, *more) == ["done", "done", "done", standing, "not begun"]


def test_the_way_back_is_told_behind_the_way_forth() -> None:
    back = (ToState(State.RUNNING), ToState(State.PAUSED))
    turned = Turned(at=1.0, steps=back, cause=Cause.REFUSED, said="404")
    found = plan_view.steps(OWN, (*BEGUN, turned, Verified(at=1.0, index=0, undoing=True, said="")))
    assert [(at.step, at.standing) for at in found[5:]] == [
        ("roll back: resume the connector", "done"),
        ("roll back: pause the connector", "next"),
    ]
    assert [at.standing for at in found[:5]] == ["begun", *["not begun"] * 4]


def test_requests_are_told_of_plans_that_make_them() -> None:
    assert plan_view.steps(OWN, ())[0].requests == ("PUT /connectors/orders/stop",)
    assert plan_view.steps(OWN, ())[1].requests == ()
    subject = msgspec.structs.replace(OWN.subject, driver="storage")
    stored = msgspec.structs.replace(OWN, subject=subject)
    assert {at.requests for at in plan_view.steps(stored, ())} == {()}
