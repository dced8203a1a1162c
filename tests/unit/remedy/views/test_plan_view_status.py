"""What of the journal the status page shows."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from offsetwatch.daemon import remediation
from offsetwatch.remedy.model.approval import PlanHistory
from offsetwatch.remedy.model.journal_records import ActionRefused, GuardAnswer, PlanProposed
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    PartitionOffset,
    Plan,
    PlanStatus,
    PlanSubject,
    RemediationContext,
    RequestedState,
    ToState,
)
from offsetwatch.remedy.model.service_api import Mode
from offsetwatch.remedy.views import plan_view
from tests.unit.remedy.loops import POLICY, Agency

AT = 1_800_000_000.0
PLAN = Plan(
    plan_id="p1",
    verb="stop orders until a person acts",
    subject=PlanSubject("rest", "lab", "orders", "sink"),
    steps=(ToState(RequestedState.STOPPED),),
    original=RequestedState.RUNNING,
    final=RequestedState.STOPPED,
    created_at=AT,
    created_by="detector",
    remedy=RemediationContext(Action.STOP, "i1"),
)
ANSWERS = (
    GuardAnswer(1, "mode_auto", "deny", "mode propose"),
    GuardAnswer(5, "unmanaged", "pass", "managed"),
    GuardAnswer(7, "pause", "deny", "held"),
)
DOSSIER = PlanHistory(
    plan=PLAN,
    status=PlanStatus.PROPOSED,
    at=AT,
    proposed=PlanProposed(
        at=AT, plan=PLAN, mode="propose", expires_at=AT + 3600.0, answers=ANSWERS
    ),
)
REFUSED = ActionRefused(
    at=AT + 5.0,
    incident="i1",
    connect_cluster="lab",
    connector="orders",
    action="stop",
    mode="propose",
    answers=(GuardAnswer(9, "mass_failure", "deny", "three others fail"),),
)


def plans(*dossiers: PlanHistory, refused: ActionRefused | None = None, now: float = AT + 10.0):
    return plan_view.list_open_plans(dossiers, lambda _: refused, now)


def test_a_proposal_is_shown_with_each_guard_and_each_request():
    ((result,), more) = plans(DOSSIER)
    assert more == 0
    assert (result.state, result.sha256, result.expires_at) == (
        "proposed",
        PLAN.sha256,
        AT + 3600.0,
    )
    assert [(guard.guard, guard.answer, guard.asks) for guard in result.guards] == [
        ("mode_auto", "deny", True),
        ("unmanaged", "pass", False),
        ("pause", "deny", False),
    ]
    assert result.steps[0].requests == ("PUT /connectors/orders/stop",)


def test_a_proposal_after_its_deadline_is_expired():
    ((result,), _) = plans(DOSSIER, now=AT + 3600.0)
    assert result.state == "expired"


def test_of_an_approved_one_that_is_held_back_the_guards_say_why():
    approved = replace(DOSSIER, status=PlanStatus.APPROVED, approved_by="ada")
    ((result,), _) = plans(approved, refused=REFUSED)
    assert [guard.guard for guard in result.guards] == ["mass_failure"]


@pytest.mark.parametrize("status", [PlanStatus.REJECTED, PlanStatus.EXPIRED])
def test_what_is_over_is_not_shown(status):
    assert plans(replace(DOSSIER, status=status)) == ((), 0)


def test_a_plan_of_the_toolbox_is_not_shown():
    own = msgspec.structs.replace(PLAN, remedy=None)
    assert plans(replace(DOSSIER, plan=own, status=PlanStatus.RUNNING, proposed=None)) == ((), 0)


def test_of_one_that_has_begun_no_steps_are_reported():
    running = replace(DOSSIER, status=PlanStatus.RUNNING)
    ((result,), _) = plans(running)
    assert result.steps == ()


def test_the_newest_are_shown_and_the_rest_counted():
    many = [
        replace(
            DOSSIER,
            plan=msgspec.structs.replace(PLAN, plan_id=f"p{number}", created_at=AT + number),
        )
        for number in range(plan_view.ROWS_MAX + 7)
    ]
    result, more = plans(*many)
    assert more == 7
    assert [item.plan_id for item in result][:2] == ["p26", "p25"]
    assert len(result) == plan_view.ROWS_MAX


def test_a_request_of_thousands_of_offsets_is_cut():
    pairs = tuple(PartitionOffset(f'{{"n":{number}}}', '{"offset":1}') for number in range(2000))
    long = msgspec.structs.replace(PLAN, steps=(Alter(pairs),))
    ((result,), _) = plans(replace(DOSSIER, plan=long))
    (request,) = result.steps[0].requests
    assert len(request) < 2 * plan_view.REQUEST_CHARS_MAX
    assert "more characters" in request


def test_of_a_plan_of_any_number_of_steps_the_first_are_shown():
    steps = (ToState(RequestedState.STOPPED),) * (plan_view.STEPS_MAX + 1)
    ((result,), _) = plans(replace(DOSSIER, plan=msgspec.structs.replace(PLAN, steps=steps)))
    assert len(result.steps) == plan_view.STEPS_MAX


@pytest.mark.parametrize(("over", "end"), [(0, "}]}"), (1, "… (1 more character)")])
def test_a_request_of_some_offsets_is_shown_whole(over, end):
    def requested(name: str) -> str:
        plan = msgspec.structs.replace(
            PLAN, steps=(Alter((PartitionOffset(f'{{"{name}":1}}', None),)),)
        )
        ((result,), _) = plans(replace(DOSSIER, plan=plan))
        (request,) = result.steps[0].requests
        return request

    request = requested("n" * (plan_view.REQUEST_CHARS_MAX + 1 + over - len(requested("n"))))
    assert request[plan_view.REQUEST_CHARS_MAX - 3 * (not over) :] == end


def test_refusals_are_shown_the_newest_first():
    older = msgspec.structs.replace(REFUSED, at=AT, connector="other", would=True)
    results, more = plan_view.list_refusals([older, REFUSED], ())
    assert [(refusal.connector, refusal.would) for refusal in results] == [
        ("orders", False),
        ("other", True),
    ]
    assert more == 0
    assert results[0].guards[0].said == "three others fail"


def test_what_there_is_a_plan_for_by_now_is_not_reported_as_refused():
    planned, _ = plans(DOSSIER)
    assert plan_view.list_refusals([REFUSED], planned) == ((), 0)


def failed_once(agency: Agency):
    agency.bad()
    agency.wait(5.0)
    agency.go_on(3)
    return remediation._summarize_agent(agency.agent, agency.wall.now())


def test_what_the_daemon_proposes_is_in_what_it_says_of_itself(tmp_path):
    agency = Agency(tmp_path)
    observed = failed_once(agency)
    (plan,) = observed.open_plans
    (proposed,) = agency.dossiers(PlanStatus.PROPOSED)
    assert (plan.sha256, plan.state) == (proposed.plan.sha256, "proposed")
    assert len(plan.guards) == len(proposed.proposed.answers) > 0
    assert any("/restart" in request for step in plan.steps for request in step.requests)


def test_what_it_would_do_if_it_did_not_only_observe_is_too(tmp_path):
    observed = failed_once(Agency(tmp_path, policy=replace(POLICY, mode=Mode.OBSERVE)))
    assert observed.open_plans == ()
    (refusal,) = observed.refusals
    assert refusal.would
    assert "mode" in {guard.guard for guard in refusal.guards}
