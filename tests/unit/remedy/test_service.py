"""The desk on a journal: what is decided, and what is told."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from offsetwatch.errors import IncompleteResponse, JournalDamaged
from offsetwatch.remedy import service
from offsetwatch.remedy.journal.journal import FILE_NAME
from offsetwatch.remedy.model import service_api
from offsetwatch.remedy.model.driver import AttemptResult, Outcome, StepInspection, StepStatus
from offsetwatch.remedy.model.fleet_state import FleetState
from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    BreakerSet,
    GuardAnswer,
    ModeSet,
    PauseSet,
    PlanOpened,
    StepVerified,
    decode_record,
)
from offsetwatch.remedy.model.plan import Alter, PlanStatus
from offsetwatch.remedy.model.service_api import (
    AlreadyDecided,
    ChangeRecorded,
    JournalCheckFailed,
    JournalCheckPassed,
    KeyReused,
    Mode,
    PlanHashMismatch,
    ProposalAccepted,
    ProposalExpired,
    RequestTargetNotFound,
    SelfApproval,
    lowest_mode,
)
from offsetwatch.remedy.service import (
    HINTS_MAX,
    PROPOSAL_S,
    RemediationService,
)
from tests.unit.remedy.plans import AT, NEXT, PARTITION, plan_of, skip_of
from tests.unit.remedy.services import ServiceBench, build_request, hint

PATCH = (
    f'PATCH /connectors/orders/offsets {{"offsets":[{{"partition":{PARTITION},"offset":{NEXT}}}]}}'
)


@pytest.fixture
def bench(tmp_path: Path) -> ServiceBench:
    return ServiceBench(tmp_path / "state")


@pytest.fixture
def remediation(bench: ServiceBench) -> RemediationService:
    return bench.office


def test_a_service_is_a_service(remediation):
    assert remediation.plans() == ()


# --- hints ----------------------------------------------------------------------------------------


def test_the_same_hint_wakes_once(bench, remediation):
    assert remediation.hint(hint())
    assert not remediation.hint(hint())
    assert not remediation.hint(hint(connector="other"))  # the same alert, whatever it says by now
    assert bench.woken == [hint()]


@pytest.mark.parametrize(
    "more",
    [{"firing": False}, {"starts_at": "2030-01-01T00:00:01Z"}, {"fingerprint": "g"}],
    ids=["over", "again", "another"],
)
def test_another_hint_wakes_too(bench, remediation, more):
    remediation.hint(hint())
    assert remediation.hint(hint(**more))
    assert len(bench.woken) == 2


def test_of_very_many_hints_the_oldest_is_forgotten(remediation):
    for number in range(HINTS_MAX + 1):
        remediation.hint(hint(fingerprint=str(number)))
    assert remediation.hint(hint(fingerprint="0"))
    assert not remediation.hint(hint(fingerprint=str(HINTS_MAX)))


def test_a_hint_and_the_inventory_need_no_journal(bench, remediation):
    bench.bench.journal.close()
    (bench.folder / FILE_NAME).write_bytes(b"not a database")
    assert remediation.hint(hint())
    assert remediation.inventory() == frozenset({("lab", "orders")})
    with pytest.raises(JournalDamaged):
        remediation.plans()
    assert isinstance(remediation.verify(), JournalCheckFailed)


# --- proposing ------------------------------------------------------------------------------------


def test_what_is_requested_is_proposed_for_an_hour_with_what_its_guards_said(bench, remediation):
    answer = remediation.propose(build_request(), "ada")
    assert isinstance(answer, ProposalAccepted)
    assert answer.new
    row = answer.row
    assert (row.state, row.action, row.created_by) == (PlanStatus.PROPOSED, "skip_one", "ada")
    assert row.said == "skip one record of orders: it is poison"
    assert row.expires_at == bench.clock.now() + PROPOSAL_S
    plan = remediation.plan(row.plan_id)
    assert plan is not None
    assert [(guard.guard, guard.answer) for guard in plan.guards] == [
        ("repeat", "pass"),
        ("cool_down", "pass"),
    ]
    assert plan.plan.sha256 == row.sha256


def test_the_same_request_under_the_same_key_is_the_same_plan(bench, remediation):
    first = remediation.propose(build_request(), "ada")
    again = bench.another().propose(build_request(), "ada")
    assert (again.new, again.row) == (False, first.row)
    assert len(bench.planner.requests) == 1


def test_another_request_under_the_same_key_is_refused(remediation):
    remediation.propose(build_request(), "ada")
    assert remediation.propose(build_request(connector="payments"), "ada") == KeyReused()
    assert remediation.propose(build_request(because="of something else"), "ada") == KeyReused()


def test_a_key_is_of_one_operator(remediation):
    remediation.propose(build_request(), "ada")
    assert remediation.propose(build_request(connector="payments"), "bob").new


def test_of_two_who_query_the_same_at_once_one_plan_comes(bench, remediation):
    plan = bench.planner.__call__

    def slow(request, by):
        bench.planner.requests.append((request, by))
        other = bench.another()
        other._callbacks = other._callbacks._replace(plan_for=plan)
        assert other.propose(request, by).new
        return plan(request, by)

    remediation._callbacks = remediation._callbacks._replace(plan_for=slow)
    answer = remediation.propose(build_request(), "ada")
    assert not answer.new
    assert len(remediation.plans()) == 1


@pytest.mark.parametrize(
    "says",
    [RequestTargetNotFound(), service_api.ProposalRefused(said="it is paused")],
    ids=["none", "no"],
)
def test_what_cannot_be_planned_leaves_nothing_behind(bench, remediation, says):
    bench.planner.says = says
    assert remediation.propose(build_request(), "ada") == says
    assert remediation.journal(1, 10) == ()


def test_a_rehearsal_reports_the_whole_plan_and_writes_nothing(remediation):
    report = remediation.rehearse(build_request(), "ada")
    assert report.row.state is PlanStatus.PROPOSED
    assert any(
        "PATCH /connectors/orders/offsets" in request
        for step in report.steps
        for request in step.requests
    )
    assert remediation.journal(1, 10) == ()


# --- deciding -------------------------------------------------------------------------------------


def test_an_approved_plan_is_approved_once(bench, remediation):
    plan = bench.proposed()
    answer = remediation.approve("p1", plan.sha256, "ada", "I have looked")
    assert isinstance(answer, ChangeRecorded)
    assert answer.row.state is PlanStatus.APPROVED
    second = bench.another().approve("p1", plan.sha256, "bob", "me too")
    assert second == AlreadyDecided(state=PlanStatus.APPROVED, by="ada")


def test_exactly_the_plan_that_was_inspected_is_approved(bench, remediation):
    plan = bench.proposed()
    assert remediation.approve("p1", "0" * 64, "ada", "") == PlanHashMismatch(sha256=plan.sha256)
    assert remediation.plan("p1").row.state is PlanStatus.PROPOSED


def test_who_requested_a_plan_does_not_approve_it(remediation):
    row = remediation.propose(build_request(), "ada").row
    assert remediation.approve(row.plan_id, row.sha256, "ada", "") == SelfApproval()
    assert isinstance(remediation.approve(row.plan_id, row.sha256, "bob", ""), ChangeRecorded)


def test_one_operator_may_do_both_where_that_is_configured_and_the_plan_says_so(bench, remediation):
    alone = bench.another(second_person=False)
    row = alone.propose(build_request(), "ada").row
    assert [item.plan(row.plan_id).second_person for item in (remediation, alone)] == [True, False]
    assert isinstance(alone.approve(row.plan_id, row.sha256, "ada", ""), ChangeRecorded)


def test_a_proposal_expires_by_the_clock_before_anybody_writes_so(bench, remediation):
    plan = bench.proposed()
    bench.clock.advance(3599.0)
    assert remediation.plan("p1").row.state is PlanStatus.PROPOSED
    bench.clock.advance(1.0)
    assert remediation.plan("p1").row.state is PlanStatus.EXPIRED
    assert remediation.approve("p1", plan.sha256, "ada", "") == ProposalExpired(
        at=bench.clock.now()
    )
    assert remediation.plans(PlanStatus.PROPOSED) == ()
    assert len(remediation.plans(PlanStatus.EXPIRED)) == 1


def test_a_rejected_plan_stays_rejected(bench, remediation):
    plan = bench.proposed()
    assert remediation.reject("p1", "ada", "I mend it by hand").row.state is PlanStatus.REJECTED
    gone = AlreadyDecided(state=PlanStatus.REJECTED, by="ada")
    assert remediation.approve("p1", plan.sha256, "bob", "") == gone
    assert remediation.reject("p1", "bob", "") == gone
    assert remediation.plan("p1").row.said == "I mend it by hand"


def test_what_was_approved_can_be_rejected_until_it_begins(bench, remediation):
    plan = bench.approved()
    assert isinstance(remediation.reject("p1", "bob", "no"), ChangeRecorded)
    bench.approved("p2")
    bench.bench.runner().run(plan_of(plan_id="p2"))
    assert remediation.reject("p2", "bob", "") == AlreadyDecided(
        state=PlanStatus.SUCCEEDED, by="ada"
    )
    assert plan.plan_id == "p1"


@pytest.mark.parametrize("ask", ["approve", "reject", "abort", "resolve"])
def test_a_decision_on_a_missing_plan_finds_no_target(remediation, ask):
    inputs = ("p9", "0" * 64, "ada", "") if ask == "approve" else ("p9", "ada", "")
    assert getattr(remediation, ask)(*inputs) == RequestTargetNotFound()
    assert remediation.plan("p9") is None


def test_a_running_plan_is_ordered_to_go_back_once(bench, remediation):
    answers = []

    def meanwhile(step):
        if isinstance(step, Alter) and not answers:
            answers.append(remediation.plan("p1").row.state)
            answers.append(remediation.abort("p1", "ada", "stop that"))
            answers.append(remediation.abort("p1", "bob", "stop that"))

    bench.approved()
    bench.bench.driver.misbehave = meanwhile
    bench.bench.world.offsets = {PARTITION: AT}
    bench.bench.runner().run(skip_of())
    running, first, second = answers
    assert running is PlanStatus.RUNNING
    assert isinstance(first, ChangeRecorded)
    assert second == AlreadyDecided(state=PlanStatus.RUNNING, by="ada")


def test_what_has_not_begun_or_is_over_cannot_go_back(bench, remediation):
    bench.proposed()
    assert remediation.abort("p1", "ada", "") == AlreadyDecided(state=PlanStatus.PROPOSED, by=None)
    bench.bench.runner().run(plan_of(plan_id="p2"))
    assert remediation.abort("p2", "ada", "").state is PlanStatus.SUCCEEDED


def in_doubt(bureau: ServiceBench, plan_id: str = "p1") -> None:
    bureau.bench.driver.misbehave = lambda step: (
        IncompleteResponse("lab", "no answer") if isinstance(step, Alter) else None
    )
    bureau.bench.runner().run(plan_of(plan_id=plan_id))


def test_an_operator_closes_what_is_in_doubt_under_his_name(bench, remediation):
    in_doubt(bench)
    assert remediation.plan("p1").row.state is PlanStatus.IN_DOUBT
    assert remediation.resolve("p1", "ada", "set by hand").row.state is PlanStatus.RESOLVED
    assert remediation.plan("p1").row.said == "ada: set by hand"
    assert remediation.resolve("p1", "bob", "").state is PlanStatus.RESOLVED


def test_a_plan_at_work_cannot_be_resolved(bench, remediation):
    in_doubt(bench)
    with bench.bench.journal.at_work("lab", "orders", "now"):
        assert isinstance(remediation.resolve("p1", "ada", ""), AlreadyDecided)
    assert remediation.plan("p1").row.state is PlanStatus.IN_DOUBT


def test_a_proposal_is_nothing_to_resolve(bench, remediation):
    bench.proposed()
    assert remediation.resolve("p1", "ada", "").state is PlanStatus.PROPOSED


# --- telling --------------------------------------------------------------------------------------


def test_plans_are_reported_newest_first(bench, remediation):
    bench.proposed("p1")
    bench.proposed("p2")
    assert [row.plan_id for row in remediation.plans()] == ["p2", "p1"]
    bench.proposed("p3")
    assert [row.plan_id for row in remediation.plans()] == ["p3", "p2", "p1"]


def test_the_steps_of_a_proposal_are_reported_with_their_exact_requests(bench, remediation):
    bench.proposed()
    steps = remediation.plan("p1").steps
    assert {step.status for step in steps} == {"not begun"}
    assert [step.requests for step in steps] == [
        (),
        ("PUT /connectors/orders/stop",),
        (),
        (),
        (),
        (PATCH,),
        ("PUT /connectors/orders/resume",),
        (),
    ]


def test_the_steps_of_a_plan_in_doubt_are_reported_as_far_as_it_came(bench, remediation):
    in_doubt(bench)
    statuses = [step.status for step in remediation.plan("p1").steps]
    assert statuses == ["done", "done", "done", "in doubt", "not begun"]


def test_the_steps_of_a_plan_that_went_back_are_reported_both_ways(bench, remediation):
    bench.bench.driver.misbehave = lambda step: (
        Outcome(AttemptResult.NACK, "no") if isinstance(step, Alter) else None
    )
    bench.bench.runner().run(plan_of())
    plan = remediation.plan("p1")
    assert plan.row.state is PlanStatus.RESTORED
    assert [(step.step, step.status) for step in plan.steps[-3:]] == [
        ("set the offsets of 2 source partitions", "not begun"),
        ("resume the connector", "not begun"),
        ("roll back: resume the connector", "done"),
    ]


def test_a_plan_of_the_toolbox_is_reported_too(bench, remediation):
    bench.bench.runner().run(plan_of())
    row = remediation.plan("p1").row
    assert (row.state, row.action, row.expires_at) == (PlanStatus.SUCCEEDED, "alter offsets", None)
    assert {step.status for step in remediation.plan("p1").steps} == {"done"}


def test_what_was_copied_is_in_quarantine_once_it_was_read_back(bench, remediation):
    plan = bench.approved()
    assert remediation.quarantine() == ()
    bench.bench.world.offsets = {PARTITION: AT}
    bench.bench.runner().run(plan)
    (row,) = remediation.quarantine()
    assert (row.skip_key, row.topic, row.offset, row.where) == (
        "k1",
        "orders",
        7,
        "east/quarantine",
    )
    opened, verified = (
        PlanOpened(at=1.0, plan=plan),
        StepVerified(at=2.0, index=0, undoing=False, said="a copy is kept: /var/q/0a1b.jsonl"),
    )
    bench.bench.journal.append("p2", (opened, verified))
    assert remediation.quarantine()[0].where == "/var/q/0a1b.jsonl"  # too large for the topic
    (retained,) = remediation.backups()
    assert retained.connectors == (("orders", 1),)


def test_the_journal_is_reported_line_by_line_with_its_chain(bench, remediation):
    bench.proposed()
    remediation.reject("p1", "ada", "no")
    first, second = remediation.journal(1, 10)
    assert second.prev_sha256 == first.sha256
    assert decode_record(bytes(second.record)).by == "ada"
    assert remediation.journal(2, 1) == (second,)
    assert remediation.journal(3, 1) == ()
    assert remediation.verify() == JournalCheckPassed(records=2)


def test_of_an_approved_plan_the_guards_are_notified_that_hold_it_back_now(bench, remediation):
    bench.approved()
    assert {item.answer for item in remediation.plan("p1").guards} == {"pass"}
    bench.clock.advance(5.0)
    bench.bench.journal.control(
        ActionRefused(
            at=bench.clock.now(),
            incident="i1",
            connect_cluster="lab",
            connector="orders",
            action="skip_one",
            mode="propose",
            answers=(GuardAnswer(18, "mass_failure", "deny", "5 of 9 connectors are unhealthy"),),
        )
    )
    (guard,) = remediation.plan("p1").guards
    assert (guard.guard, guard.answer, guard.number) == ("mass_failure", "deny", 18)


def test_a_row_says_why_a_plan_did_not_go_on(bench, remediation):
    bench.bench.driver.misbehave = lambda step: (
        Outcome(AttemptResult.NACK, "no") if isinstance(step, Alter) else None
    )
    bench.bench.runner().run(plan_of())
    row = remediation.plan("p1").row
    assert (row.verb, row.cause) == ("alter offsets", "refused")


# --- switches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "expected", "is_now"),
    [
        (Mode.OBSERVE, Mode.AUTO, Mode.OBSERVE),
        (Mode.PROPOSE, Mode.AUTO, Mode.PROPOSE),
        (Mode.AUTO, Mode.OBSERVE, Mode.OBSERVE),
        (Mode.AUTO, Mode.PROPOSE, Mode.PROPOSE),
        (Mode.AUTO, Mode.AUTO, Mode.AUTO),
        (Mode.PROPOSE, None, Mode.PROPOSE),
    ],
)
def test_a_mode_is_never_above_what_is_configured(configured, expected, is_now):
    fleet = FleetState()
    if expected is not None:
        fleet.apply(1, "control", ModeSet(at=1.0, mode=expected.value, by="ada", because=""))
    assert lowest_mode(configured, fleet.lowered_mode) is is_now


def test_the_mode_that_was_set_is_reported_by_every_process(bench, remediation):
    assert remediation.switches().mode is Mode.PROPOSE
    remediation.set_mode(Mode.OBSERVE, "ada", "a release")
    assert bench.another().switches().mode is Mode.OBSERVE
    assert remediation.propose(build_request(), "ada").new  # a person's plan needs no mode


def test_a_mode_above_the_configured_one_is_refused_and_not_recorded(remediation):
    answer = remediation.set_mode(Mode.AUTO, "ada", "try")
    assert isinstance(answer, service_api.ProposalRefused)
    assert "remedy.mode: propose" in answer.said
    assert remediation.journal(1, 10) == ()
    remediation.set_mode(Mode.OBSERVE, "ada", "a release")
    assert remediation.set_mode(Mode.PROPOSE, "ada", "it is over") == ChangeRecorded()
    assert remediation.switches().mode is Mode.PROPOSE


def test_a_pause_ends_by_the_clock_or_by_an_operator(bench, remediation):
    remediation.pause(bench.clock.now() + 60.0, "ada", "a release")
    assert remediation.switches().pause.by == "ada"
    bench.clock.advance(60.0)
    assert remediation.switches().pause is None
    remediation.pause(None, "ada", "for good")
    bench.clock.advance(1e9)
    assert remediation.switches().pause.until is None
    remediation.unpause("bob", "go on")
    assert remediation.switches().pause is None


def test_ending_a_pause_that_is_none_writes_nothing(remediation):
    remediation.unpause("ada", "")
    assert remediation.journal(1, 10) == ()


def test_a_breaker_that_is_open_is_closed_by_an_operator_once(bench, remediation):
    bench.approved()
    bench.bench.world.proven = StepInspection(StepStatus.FOREIGN, "it failed again, still at 8")
    bench.bench.world.offsets = {PARTITION: AT}
    bench.bench.runner().run(skip_of())
    (breaker,) = remediation.switches().breakers
    assert breaker.scope == "lab/orders"
    assert "did not help" in breaker.said
    assert isinstance(bench.another().ack_breaker("lab/orders", "ada", "mended"), ChangeRecorded)
    assert remediation.ack_breaker("lab/orders", "ada", "mended") == RequestTargetNotFound()
    assert remediation.switches().breakers == ()


def test_every_switch_is_in_the_journal_with_who_and_why(bench, remediation):
    remediation.set_mode(Mode.OBSERVE, "ada", "one")
    remediation.pause(None, "ada", "two")
    remediation.unpause("ada", "three")
    now = bench.clock.now()
    assert [decode_record(bytes(line.record)) for line in remediation.journal(1, 10)] == [
        ModeSet(at=now, mode="observe", by="ada", because="one"),
        PauseSet(at=now, paused=True, until=None, by="ada", because="two"),
        PauseSet(at=now, paused=False, until=None, by="ada", because="three"),
    ]


# --- several at once ------------------------------------------------------------------------------


def test_each_thread_reads_with_a_connection_of_its_own(bench, remediation):
    plan = bench.proposed()
    assert len(remediation.plans()) == 1
    answers = []

    def elsewhere() -> None:
        answers.append(remediation.approve("p1", plan.sha256, "ada", ""))
        remediation.close()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert isinstance(answers[0], ChangeRecorded)
    assert remediation.plan("p1").row.state is PlanStatus.APPROVED
    remediation.close()
    assert len(remediation.plans()) == 1  # opened anew


def test_of_many_who_approve_at_once_one_is_notified_that_he_did(bench):
    plan = bench.proposed()
    answers = []
    barrier = threading.Barrier(8)

    def approve(name: str) -> None:
        own = bench.another()
        barrier.wait()
        answers.append(own.approve("p1", plan.sha256, name, ""))
        own.close()

    threads = [threading.Thread(target=approve, args=(f"p{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(answer).__name__ for answer in answers) == ["AlreadyDecided"] * 7 + [
        "ChangeRecorded"
    ]


def test_a_breaker_closed_by_hand_in_an_earlier_record_is_none(bench, remediation):
    bench.bench.journal.control(
        BreakerSet(at=1.0, scope="lab/orders", open=False, by="ada", because="")
    )
    assert remediation.ack_breaker("lab/orders", "ada", "") == RequestTargetNotFound()


def test_the_journal_is_read_in_pieces(bench, remediation, monkeypatch):
    monkeypatch.setattr("offsetwatch.remedy.journal.journal._AT_ONCE", 2)
    for number in range(5):
        bench.proposed(f"p{number}")
    assert len(remediation.plans()) == 5
    assert service.PROPOSAL_S > 0
