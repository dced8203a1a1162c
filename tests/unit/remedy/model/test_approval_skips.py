"""Plans that answer to an incident, in a world that behaves and in one that does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from offsetwatch.errors import IncompleteResponse, PlanUnfinished, TargetUnreachable
from offsetwatch.remedy.engine import AbortEvent, InterruptEvent
from offsetwatch.remedy.model import approval as decisions
from offsetwatch.remedy.model.approval import DecisionRefusal
from offsetwatch.remedy.model.driver import AttemptResult, Outcome, StepInspection, StepStatus
from offsetwatch.remedy.model.journal_records import (
    PlanApproved,
    PlanLapsed,
    PlanProposed,
    PlanRejected,
    StepIntended,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    Copy,
    Expect,
    Freeze,
    Plan,
    PlanStatus,
    RequestedState,
    Restart,
    ToState,
)
from offsetwatch.remedy.model.plan_templates import compute_legacy_skip_key, compute_skip_key
from tests.unit.remedy.plans import AT, NEXT, PARTITION, Bench, skip_of

NOW = 1_800_000_000.0


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    built = Bench(tmp_path)
    built.world.offsets = {PARTITION: AT}
    return built


def changed(bench: Bench) -> list[str]:
    return [type(step).__name__ for _, step in bench.world.writes]


def test_a_record_is_copied_before_the_connector_is_stopped_and_skipped_before_it_runs(bench):
    result = bench.runner().run(skip_of())
    assert result.ending is PlanStatus.SUCCEEDED
    assert changed(bench) == ["Copy", "ToState", "Alter", "ToState"]
    assert bench.world.offsets == {PARTITION: NEXT}
    assert bench.world.state is RequestedState.RUNNING


def test_what_cannot_be_copied_is_not_skipped_and_the_connector_is_left_alone(bench):
    bench.driver.misbehave = lambda step: (
        Outcome(AttemptResult.NACK, "too large") if isinstance(step, Copy) else None
    )
    result = bench.runner().run(skip_of())
    assert result.ending is PlanStatus.UNCHANGED
    assert changed(bench) == []


def test_a_copy_in_doubt_that_does_not_show_leaves_the_connector_alone(bench):
    bench.driver.misbehave = lambda step: (
        IncompleteResponse("quarantine", "gone") if isinstance(step, Copy) else None
    )
    result = bench.runner().run(skip_of())
    assert result.ending is PlanStatus.UNCHANGED
    assert result.over


def test_an_offset_that_is_another_one_once_the_connector_stands_still_is_not_altered(bench):
    bench.world.offsets = {PARTITION: '{"kafka_offset":9}'}
    result = bench.runner().run(skip_of())
    assert result.ending is PlanStatus.RESTORED
    assert changed(bench) == ["Copy", "ToState", "ToState"]
    assert bench.world.state is RequestedState.RUNNING


def test_a_connector_that_cannot_be_changed_in_time_runs_again(bench):
    bench.driver.misbehave = lambda step: (
        Outcome(AttemptResult.RETRY, "rebalance") if isinstance(step, Alter) else None
    )
    began = bench.clock.now()
    result = bench.runner().run(skip_of(stop_total_s=60.0))
    assert result.ending is PlanStatus.RESTORED
    stopped, running = (at for at, step in bench.world.writes if isinstance(step, ToState))
    assert running - stopped <= 60.0 + 5.0  # one wait more at most
    assert bench.clock.now() - began < 180.0
    assert bench.world.offsets == {PARTITION: AT}


def test_a_change_in_doubt_is_waited_for_whatever_the_time_is(bench):
    def lost(step):
        if isinstance(step, Alter) and not any(
            isinstance(each, Alter) for _, each in bench.world.writes
        ):
            bench.world.do_later(100.0, lambda: bench.world.do(step))
            return IncompleteResponse("lab", "no answer")
        return None

    bench.driver.misbehave = lost
    result = bench.runner().run(skip_of(stop_total_s=30.0))
    assert result.ending is PlanStatus.SUCCEEDED
    assert bench.world.offsets == {PARTITION: NEXT}


@pytest.mark.parametrize("status", [StepStatus.FOREIGN, StepStatus.NOT_YET])
def test_a_skip_that_is_not_observed_to_help_ends_as_that_and_stops_nothing(bench, status):
    bench.world.proven = StepInspection(status, "it failed again, still at 8")
    result = bench.runner().run(skip_of())
    assert result.ending is PlanStatus.INEFFECTIVE
    assert result.over
    assert "did not help" in result.said
    assert bench.world.state is RequestedState.RUNNING
    assert bench.journal.open_plan("lab", "orders") is None


def test_a_skip_that_cannot_be_verified_is_no_success(bench):
    def lose_connection():
        running = [step for _, step in bench.world.writes if isinstance(step, ToState)][1:]
        return (
            TargetUnreachable("lab", "down")
            if running and bench.world.state is RequestedState.RUNNING
            else None
        )

    bench.driver.blind = lose_connection
    result = bench.runner().run(skip_of())
    assert result.ending is not PlanStatus.SUCCEEDED


def test_an_aborted_plan_goes_back_even_from_an_offset_that_is_set(bench):
    def abort():
        return AbortEvent("ada: no") if bench.world.offsets == {PARTITION: NEXT} else None

    result = bench.runner(find_cancellation=abort).run(skip_of())
    # The offset is seen to be set, and before the connector is asked to run again it is put back.
    assert result.ending is PlanStatus.RESTORED
    assert bench.world.offsets == {PARTITION: AT}
    assert bench.world.state is RequestedState.RUNNING


def test_a_plan_that_is_aborted_while_it_proves_itself_goes_on(bench):
    def abort():
        running = bench.world.state is RequestedState.RUNNING and bench.world.offsets == {
            PARTITION: NEXT
        }
        return AbortEvent("ada: no") if running else None

    assert bench.runner(find_cancellation=abort).run(skip_of()).ending is PlanStatus.SUCCEEDED


def test_an_interrupted_plan_goes_back_where_nothing_is_changed_and_on_where_it_is(bench):
    def early():
        return InterruptEvent() if bench.world.state is RequestedState.STOPPED else None

    assert bench.runner(find_cancellation=early).run(skip_of()).ending is PlanStatus.RESTORED
    assert bench.world.state is RequestedState.RUNNING

    def late():
        return InterruptEvent() if bench.world.offsets == {PARTITION: NEXT} else None

    assert bench.runner(find_cancellation=late).run(skip_of("p2")).ending is PlanStatus.SUCCEEDED


def test_a_skip_of_before_connect_clusters_were_distinguished_still_counts(bench):
    older = skip_of("p1")
    copied = next(step for step in older.steps if isinstance(step, Copy)).record
    key = compute_legacy_skip_key(older.subject, copied)
    assert bench.runner().run(skip_of("p1", skip_key=key)).ending is PlanStatus.SUCCEEDED
    bench.world.offsets = {PARTITION: AT}
    result = bench.runner().run(skip_of("p2", skip_key=compute_skip_key(older.subject, copied)))
    assert "skipped by plan p1" in result.said
    # Of another Connect cluster on the same Kafka cluster it says nothing.
    green = msgspec.structs.replace(older.subject, store="green")
    own = skip_of("p3", skip_key=compute_skip_key(green, copied))
    plan = msgspec.structs.replace(own, subject=green)
    assert bench.runner().run(plan).ending is PlanStatus.SUCCEEDED


def test_no_record_is_skipped_by_two_plans(bench):
    assert bench.runner().run(skip_of("p1")).ending is PlanStatus.SUCCEEDED
    bench.world.offsets = {PARTITION: AT}  # a person has put the old offset back
    plan = skip_of("p2")
    result = bench.runner().run(plan)
    assert result.ending is PlanStatus.RESTORED
    assert "skipped by plan p1" in result.said
    assert bench.world.offsets == {PARTITION: AT}
    (index,) = (offset for offset, step in enumerate(plan.steps) if isinstance(step, Alter))
    before = bench.journal.records("p2")
    with pytest.raises(PlanUnfinished, match="p1"):
        bench.journal.append("p2", [StepIntended(at=9.0, index=index, undoing=False)])
    assert bench.journal.records("p2") == before


def test_a_skip_is_claimed_before_it_is_requested(bench):
    plan = skip_of()
    carry_out = bench.driver.carry_out

    def watched(step, frozen):
        if isinstance(step, Alter):
            assert bench.journal.skipped_by("k1") == plan.plan_id
            assert isinstance(bench.journal.records(plan.plan_id)[-1], StepIntended)
        else:
            assert bench.journal.skipped_by("k1") is None or bench.world.offsets[PARTITION] == NEXT
        return carry_out(step, frozen)

    bench.driver.carry_out = watched
    assert bench.runner().run(plan).ending is PlanStatus.SUCCEEDED


def test_a_restart_that_is_requested_is_verified_and_changes_no_offset(bench):
    plan = msgspec.structs.replace(skip_of(skip_key=None), steps=(Restart(only_failed=True),))
    assert bench.runner().run(plan).ending is PlanStatus.SUCCEEDED
    assert bench.world.offsets == {PARTITION: AT}


@pytest.mark.parametrize("missing", [Copy, Expect, Freeze])
def test_a_skip_without_a_copy_a_backup_or_a_comparison_is_no_plan(bench, missing):
    plan = skip_of()
    steps = tuple(step for step in plan.steps if not isinstance(step, missing))
    with pytest.raises(AssertionError):
        bench.runner().run(msgspec.structs.replace(plan, steps=steps))


# --- decisions ----------------------------------------------------------------------------------


def proposed(plan: Plan, *, expires_at: float = NOW + 3600) -> PlanProposed:
    return PlanProposed(at=NOW, plan=plan, mode="propose", expires_at=expires_at)


def approval(records, plan, **inputs):
    requests = {"by": "ada", "sha256": plan.sha256, "because": "looked", "now": NOW + 1, **inputs}
    return decisions.approve_plan(records, **requests)


def test_a_plan_is_approved_once_by_its_hash_in_time_and_not_by_who_wanted_it():
    plan = skip_of()
    records = (proposed(plan),)
    approved = approval(records, plan)
    assert isinstance(approved, PlanApproved)
    assert approval((), plan) is DecisionRefusal.UNKNOWN
    assert approval(records, plan, sha256="0" * 64) is DecisionRefusal.STALE
    assert approval(records, plan, now=NOW + 3600) is DecisionRefusal.EXPIRED
    assert approval(records, plan, by="detector") is DecisionRefusal.OWN_PROPOSAL
    assert approval((*records, approved), plan) is DecisionRefusal.DECIDED
    rejected = PlanRejected(at=NOW, by="bob", because="no")
    assert approval((*records, rejected), plan) is DecisionRefusal.DECIDED
    assert (
        approval((*records, PlanLapsed(at=NOW, void=True, said="gone")), plan)
        is DecisionRefusal.DECIDED
    )
    assert (
        approval((*records, PlanLapsed(at=NOW, void=False, said="late")), plan)
        is DecisionRefusal.EXPIRED
    )


def test_of_two_who_decide_one_is_second(bench):
    plan = skip_of()
    bench.journal.append(plan.plan_id, (proposed(plan),))
    first = bench.journal.decide(plan.plan_id, lambda records: approval(records, plan))
    second = bench.journal.decide(plan.plan_id, lambda records: approval(records, plan, by="bob"))
    assert isinstance(first, PlanApproved)
    assert second is DecisionRefusal.DECIDED
    assert bench.journal.records(plan.plan_id)[1:] == (first,)


def test_a_plan_that_was_proposed_and_approved_is_carried_out_and_its_dossier_reports_all(bench):
    plan = skip_of()
    bench.journal.append(plan.plan_id, (proposed(plan),))
    bench.journal.decide(plan.plan_id, lambda records: approval(records, plan))
    before = decisions.build_plan_history(bench.journal.records(plan.plan_id))
    assert before is not None
    assert (before.status, before.approved_by) == (PlanStatus.APPROVED, "ada")
    bench.runner().run(plan)
    after = decisions.build_plan_history(bench.journal.records(plan.plan_id))
    assert after is not None
    assert after.status is PlanStatus.SUCCEEDED
    assert after.ended is not None
    assert after.ended.ending is PlanStatus.SUCCEEDED
    assert replace(after, status=before.status, at=before.at, ended=None, said="") == before


def test_only_what_runs_can_be_aborted_and_only_what_has_not_begun_be_rejected(bench):
    plan = skip_of()
    records = (proposed(plan),)
    ask = {"by": "ada", "because": "no", "now": NOW}
    assert decisions.request_abort(records, **ask) is DecisionRefusal.NOT_RUNNING
    assert isinstance(decisions.reject_plan(records, **ask), PlanRejected)
    bench.runner().run(plan)
    done = bench.journal.records(plan.plan_id)
    assert decisions.request_abort(done, **ask) is DecisionRefusal.NOT_RUNNING
    assert decisions.reject_plan(done, **ask) is DecisionRefusal.DECIDED
    assert decisions.withdraw_plan(done, void=True, said="", now=NOW) is DecisionRefusal.DECIDED
