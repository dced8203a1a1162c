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
from tests.unit.remedy.services import Bureau, asked, hint

PATCH = (
    f'PATCH /connectors/orders/offsets {{"offsets":[{{"partition":{PARTITION},"offset":{NEXT}}}]}}'
)


@pytest.fixture
def bureau(tmp_path: Path) -> Bureau:
    return Bureau(tmp_path / "state")


@pytest.fixture
def office(bureau: Bureau) -> RemediationService:
    return bureau.office


def test_an_office_is_a_desk(office):
    assert office.plans() == ()


# --- hints ----------------------------------------------------------------------------------------


def test_the_same_hint_wakes_once(bureau, office):
    assert office.hint(hint())
    assert not office.hint(hint())
    assert not office.hint(hint(connector="other"))  # the same alert, whatever it says by now
    assert bureau.woken == [hint()]


@pytest.mark.parametrize(
    "more",
    [{"firing": False}, {"starts_at": "2030-01-01T00:00:01Z"}, {"fingerprint": "g"}],
    ids=["over", "again", "another"],
)
def test_another_hint_wakes_too(bureau, office, more):
    office.hint(hint())
    assert office.hint(hint(**more))
    assert len(bureau.woken) == 2


def test_of_very_many_hints_the_oldest_is_forgotten(office):
    for number in range(HINTS_MAX + 1):
        office.hint(hint(fingerprint=str(number)))
    assert office.hint(hint(fingerprint="0"))
    assert not office.hint(hint(fingerprint=str(HINTS_MAX)))


def test_a_hint_and_the_inventory_need_no_journal(bureau, office):
    bureau.bench.journal.close()
    (bureau.folder / FILE_NAME).write_bytes(b"not a database")
    assert office.hint(hint())
    assert office.inventory() == frozenset({("lab", "orders")})
    with pytest.raises(JournalDamaged):
        office.plans()
    assert isinstance(office.verify(), JournalCheckFailed)


# --- proposing ------------------------------------------------------------------------------------


def test_what_is_asked_for_is_proposed_for_an_hour_with_what_its_guards_said(bureau, office):
    answer = office.propose(asked(), "ada")
    assert isinstance(answer, ProposalAccepted)
    assert answer.new
    row = answer.row
    assert (row.state, row.action, row.created_by) == (PlanStatus.PROPOSED, "skip_one", "ada")
    assert row.said == "skip one record of orders: it is poison"
    assert row.expires_at == bureau.clock.now() + PROPOSAL_S
    plan = office.plan(row.plan_id)
    assert plan is not None
    assert [(guard.guard, guard.answer) for guard in plan.guards] == [
        ("repeat", "pass"),
        ("cool_down", "pass"),
    ]
    assert plan.plan.sha256 == row.sha256


def test_the_same_wish_under_the_same_key_is_the_same_plan(bureau, office):
    first = office.propose(asked(), "ada")
    again = bureau.another().propose(asked(), "ada")
    assert (again.new, again.row) == (False, first.row)
    assert len(bureau.planner.seen) == 1


def test_another_wish_under_the_same_key_is_refused(office):
    office.propose(asked(), "ada")
    assert office.propose(asked(connector="payments"), "ada") == KeyReused()
    assert office.propose(asked(because="of something else"), "ada") == KeyReused()


def test_a_key_is_of_one_person(office):
    office.propose(asked(), "ada")
    assert office.propose(asked(connector="payments"), "bob").new


def test_of_two_who_ask_the_same_at_once_one_plan_comes(bureau, office):
    plan = bureau.planner.__call__

    def slow(request, by):
        bureau.planner.seen.append((request, by))
        other = bureau.another()
        other._callbacks = other._callbacks._replace(plan_for=plan)
        assert other.propose(request, by).new
        return plan(request, by)

    office._callbacks = office._callbacks._replace(plan_for=slow)
    answer = office.propose(asked(), "ada")
    assert not answer.new
    assert len(office.plans()) == 1


@pytest.mark.parametrize(
    "says",
    [RequestTargetNotFound(), service_api.ProposalRefused(said="it is paused")],
    ids=["none", "no"],
)
def test_what_cannot_be_planned_leaves_nothing_behind(bureau, office, says):
    bureau.planner.says = says
    assert office.propose(asked(), "ada") == says
    assert office.journal(1, 10) == ()


def test_a_rehearsal_tells_the_whole_plan_and_writes_nothing(office):
    report = office.rehearse(asked(), "ada")
    assert report.row.state is PlanStatus.PROPOSED
    assert any(
        "PATCH /connectors/orders/offsets" in request
        for step in report.steps
        for request in step.requests
    )
    assert office.journal(1, 10) == ()


# --- deciding -------------------------------------------------------------------------------------


def test_an_approved_plan_is_approved_once(bureau, office):
    plan = bureau.proposed()
    answer = office.approve("p1", plan.sha256, "ada", "I have looked")
    assert isinstance(answer, ChangeRecorded)
    assert answer.row.state is PlanStatus.APPROVED
    second = bureau.another().approve("p1", plan.sha256, "bob", "me too")
    assert second == AlreadyDecided(state=PlanStatus.APPROVED, by="ada")


def test_exactly_the_plan_that_was_looked_at_is_approved(bureau, office):
    plan = bureau.proposed()
    assert office.approve("p1", "0" * 64, "ada", "") == PlanHashMismatch(sha256=plan.sha256)
    assert office.plan("p1").row.state is PlanStatus.PROPOSED


def test_who_asked_for_a_plan_does_not_approve_it(office):
    row = office.propose(asked(), "ada").row
    assert office.approve(row.plan_id, row.sha256, "ada", "") == SelfApproval()
    assert isinstance(office.approve(row.plan_id, row.sha256, "bob", ""), ChangeRecorded)


def test_one_operator_may_do_both_where_that_is_configured_and_the_plan_says_so(bureau, office):
    alone = bureau.another(second_person=False)
    row = alone.propose(asked(), "ada").row
    assert [item.plan(row.plan_id).second_person for item in (office, alone)] == [True, False]
    assert isinstance(alone.approve(row.plan_id, row.sha256, "ada", ""), ChangeRecorded)


def test_a_proposal_lapses_by_the_clock_before_anybody_writes_so(bureau, office):
    plan = bureau.proposed()
    bureau.clock.advance(3599.0)
    assert office.plan("p1").row.state is PlanStatus.PROPOSED
    bureau.clock.advance(1.0)
    assert office.plan("p1").row.state is PlanStatus.EXPIRED
    assert office.approve("p1", plan.sha256, "ada", "") == ProposalExpired(at=bureau.clock.now())
    assert office.plans(PlanStatus.PROPOSED) == ()
    assert len(office.plans(PlanStatus.EXPIRED)) == 1


def test_a_rejected_plan_stays_rejected(bureau, office):
    plan = bureau.proposed()
    assert office.reject("p1", "ada", "I mend it by hand").row.state is PlanStatus.REJECTED
    gone = AlreadyDecided(state=PlanStatus.REJECTED, by="ada")
    assert office.approve("p1", plan.sha256, "bob", "") == gone
    assert office.reject("p1", "bob", "") == gone
    assert office.plan("p1").row.said == "I mend it by hand"


def test_what_was_approved_can_be_rejected_until_it_begins(bureau, office):
    plan = bureau.approved()
    assert isinstance(office.reject("p1", "bob", "no"), ChangeRecorded)
    bureau.approved("p2")
    bureau.bench.runner().run(plan_of(plan_id="p2"))
    assert office.reject("p2", "bob", "") == AlreadyDecided(state=PlanStatus.SUCCEEDED, by="ada")
    assert plan.plan_id == "p1"


@pytest.mark.parametrize("ask", ["approve", "reject", "abort", "resolve"])
def test_nobody_decides_a_plan_that_is_not_there(office, ask):
    inputs = ("p9", "0" * 64, "ada", "") if ask == "approve" else ("p9", "ada", "")
    assert getattr(office, ask)(*inputs) == RequestTargetNotFound()
    assert office.plan("p9") is None


def test_a_running_plan_is_asked_to_go_back_once(bureau, office):
    answers = []

    def meanwhile(step):
        if isinstance(step, Alter) and not answers:
            answers.append(office.plan("p1").row.state)
            answers.append(office.abort("p1", "ada", "stop that"))
            answers.append(office.abort("p1", "bob", "stop that"))

    bureau.approved()
    bureau.bench.driver.misbehave = meanwhile
    bureau.bench.world.offsets = {PARTITION: AT}
    bureau.bench.runner().run(skip_of())
    running, first, second = answers
    assert running is PlanStatus.RUNNING
    assert isinstance(first, ChangeRecorded)
    assert second == AlreadyDecided(state=PlanStatus.RUNNING, by="ada")


def test_what_has_not_begun_or_is_over_cannot_go_back(bureau, office):
    bureau.proposed()
    assert office.abort("p1", "ada", "") == AlreadyDecided(state=PlanStatus.PROPOSED, by=None)
    bureau.bench.runner().run(plan_of(plan_id="p2"))
    assert office.abort("p2", "ada", "").state is PlanStatus.SUCCEEDED


def in_doubt(bureau: Bureau, plan_id: str = "p1") -> None:
    bureau.bench.driver.misbehave = lambda step: (
        IncompleteResponse("lab", "no answer") if isinstance(step, Alter) else None
    )
    bureau.bench.runner().run(plan_of(plan_id=plan_id))


def test_a_person_closes_what_is_in_doubt_under_his_name(bureau, office):
    in_doubt(bureau)
    assert office.plan("p1").row.state is PlanStatus.IN_DOUBT
    assert office.resolve("p1", "ada", "set by hand").row.state is PlanStatus.RESOLVED
    assert office.plan("p1").row.said == "ada: set by hand"
    assert office.resolve("p1", "bob", "").state is PlanStatus.RESOLVED


def test_what_somebody_works_on_is_not_closed_under_his_hands(bureau, office):
    in_doubt(bureau)
    with bureau.bench.journal.at_work("lab", "orders", "now"):
        assert isinstance(office.resolve("p1", "ada", ""), AlreadyDecided)
    assert office.plan("p1").row.state is PlanStatus.IN_DOUBT


def test_a_proposal_is_nothing_to_resolve(bureau, office):
    bureau.proposed()
    assert office.resolve("p1", "ada", "").state is PlanStatus.PROPOSED


# --- telling --------------------------------------------------------------------------------------


def test_plans_are_told_newest_first(bureau, office):
    bureau.proposed("p1")
    bureau.proposed("p2")
    assert [row.plan_id for row in office.plans()] == ["p2", "p1"]
    bureau.proposed("p3")
    assert [row.plan_id for row in office.plans()] == ["p3", "p2", "p1"]


def test_the_steps_of_a_proposal_are_told_with_their_exact_requests(bureau, office):
    bureau.proposed()
    steps = office.plan("p1").steps
    assert {step.standing for step in steps} == {"not begun"}
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


def test_the_steps_of_a_plan_in_doubt_are_told_as_far_as_it_came(bureau, office):
    in_doubt(bureau)
    standings = [step.standing for step in office.plan("p1").steps]
    assert standings == ["done", "done", "done", "in doubt", "not begun"]


def test_the_steps_of_a_plan_that_went_back_are_told_both_ways(bureau, office):
    bureau.bench.driver.misbehave = lambda step: (
        Outcome(AttemptResult.NACK, "no") if isinstance(step, Alter) else None
    )
    bureau.bench.runner().run(plan_of())
    plan = office.plan("p1")
    assert plan.row.state is PlanStatus.RESTORED
    assert [(step.step, step.standing) for step in plan.steps[-3:]] == [
        ("set the offsets of 2 source partitions", "not begun"),
        ("resume the connector", "not begun"),
        ("roll back: resume the connector", "done"),
    ]


def test_a_plan_of_the_toolbox_is_told_too(bureau, office):
    bureau.bench.runner().run(plan_of())
    row = office.plan("p1").row
    assert (row.state, row.action, row.expires_at) == (PlanStatus.SUCCEEDED, "alter offsets", None)
    assert {step.standing for step in office.plan("p1").steps} == {"done"}


def test_what_was_copied_is_in_quarantine_once_it_was_read_back(bureau, office):
    plan = bureau.approved()
    assert office.quarantine() == ()
    bureau.bench.world.offsets = {PARTITION: AT}
    bureau.bench.runner().run(plan)
    (row,) = office.quarantine()
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
    bureau.bench.journal.append("p2", (opened, verified))
    assert office.quarantine()[0].where == "/var/q/0a1b.jsonl"  # too large for the topic
    (retained,) = office.backups()
    assert retained.connectors == (("orders", 1),)


def test_the_journal_is_told_line_by_line_with_its_chain(bureau, office):
    bureau.proposed()
    office.reject("p1", "ada", "no")
    first, second = office.journal(1, 10)
    assert second.prev_sha256 == first.sha256
    assert decode_record(bytes(second.record)).by == "ada"
    assert office.journal(2, 1) == (second,)
    assert office.journal(3, 1) == ()
    assert office.verify() == JournalCheckPassed(records=2)


def test_of_an_approved_plan_the_guards_are_told_that_hold_it_back_now(bureau, office):
    bureau.approved()
    assert {item.answer for item in office.plan("p1").guards} == {"pass"}
    bureau.clock.advance(5.0)
    bureau.bench.journal.control(
        ActionRefused(
            at=bureau.clock.now(),
            incident="i1",
            connect_cluster="lab",
            connector="orders",
            action="skip_one",
            mode="propose",
            answers=(GuardAnswer(18, "storm", "deny", "5 of 9 connectors are unhealthy"),),
        )
    )
    (guard,) = office.plan("p1").guards
    assert (guard.guard, guard.answer, guard.number) == ("storm", "deny", 18)


def test_a_row_says_why_a_plan_did_not_go_on(bureau, office):
    bureau.bench.driver.misbehave = lambda step: (
        Outcome(AttemptResult.NACK, "no") if isinstance(step, Alter) else None
    )
    bureau.bench.runner().run(plan_of())
    row = office.plan("p1").row
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


def test_the_mode_that_was_set_is_told_by_every_process(bureau, office):
    assert office.switches().mode is Mode.PROPOSE
    office.set_mode(Mode.OBSERVE, "ada", "a release")
    assert bureau.another().switches().mode is Mode.OBSERVE
    assert office.propose(asked(), "ada").new  # a person's plan needs no mode


def test_a_mode_above_the_configured_one_is_refused_and_not_recorded(office):
    answer = office.set_mode(Mode.AUTO, "ada", "try")
    assert isinstance(answer, service_api.ProposalRefused)
    assert "remedy.mode: propose" in answer.said
    assert office.journal(1, 10) == ()
    office.set_mode(Mode.OBSERVE, "ada", "a release")
    assert office.set_mode(Mode.PROPOSE, "ada", "it is over") == ChangeRecorded()
    assert office.switches().mode is Mode.PROPOSE


def test_a_pause_ends_by_the_clock_or_by_a_person(bureau, office):
    office.pause(bureau.clock.now() + 60.0, "ada", "a release")
    assert office.switches().pause.by == "ada"
    bureau.clock.advance(60.0)
    assert office.switches().pause is None
    office.pause(None, "ada", "for good")
    bureau.clock.advance(1e9)
    assert office.switches().pause.until is None
    office.unpause("bob", "go on")
    assert office.switches().pause is None


def test_ending_a_pause_that_is_none_writes_nothing(office):
    office.unpause("ada", "")
    assert office.journal(1, 10) == ()


def test_a_breaker_that_is_open_is_closed_by_a_person_once(bureau, office):
    bureau.approved()
    bureau.bench.world.proven = StepInspection(StepStatus.FOREIGN, "it failed again, still at 8")
    bureau.bench.world.offsets = {PARTITION: AT}
    bureau.bench.runner().run(skip_of())
    (breaker,) = office.switches().breakers
    assert breaker.scope == "lab/orders"
    assert "did not help" in breaker.said
    assert isinstance(bureau.another().ack_breaker("lab/orders", "ada", "mended"), ChangeRecorded)
    assert office.ack_breaker("lab/orders", "ada", "mended") == RequestTargetNotFound()
    assert office.switches().breakers == ()


def test_every_switch_is_in_the_journal_with_who_and_why(bureau, office):
    office.set_mode(Mode.OBSERVE, "ada", "one")
    office.pause(None, "ada", "two")
    office.unpause("ada", "three")
    now = bureau.clock.now()
    assert [decode_record(bytes(line.record)) for line in office.journal(1, 10)] == [
        ModeSet(at=now, mode="observe", by="ada", because="one"),
        PauseSet(at=now, paused=True, until=None, by="ada", because="two"),
        PauseSet(at=now, paused=False, until=None, by="ada", because="three"),
    ]


# --- several at once ------------------------------------------------------------------------------


def test_each_thread_reads_with_a_connection_of_its_own(bureau, office):
    plan = bureau.proposed()
    assert len(office.plans()) == 1
    answers = []

    def elsewhere() -> None:
        answers.append(office.approve("p1", plan.sha256, "ada", ""))
        office.close()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert isinstance(answers[0], ChangeRecorded)
    assert office.plan("p1").row.state is PlanStatus.APPROVED
    office.close()
    assert len(office.plans()) == 1  # opened anew


def test_of_many_who_approve_at_once_one_is_told_that_he_did(bureau):
    plan = bureau.proposed()
    answers = []
    barrier = threading.Barrier(8)

    def approve(name: str) -> None:
        own = bureau.another()
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


def test_a_breaker_closed_by_hand_in_an_earlier_record_is_none(bureau, office):
    bureau.bench.journal.control(
        BreakerSet(at=1.0, scope="lab/orders", open=False, by="ada", because="")
    )
    assert office.ack_breaker("lab/orders", "ada", "") == RequestTargetNotFound()


def test_the_journal_is_read_in_pieces(bureau, office, monkeypatch):
    monkeypatch.setattr("offsetwatch.remedy.journal.journal._AT_ONCE", 2)
    for number in range(5):
        bureau.proposed(f"p{number}")
    assert len(office.plans()) == 5
    assert service.PROPOSAL_S > 0
