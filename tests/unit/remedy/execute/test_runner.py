"""The runner, against a connector in memory."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from offsetwatch.errors import (
    AccessDenied,
    ConnectorBusy,
    PlanUnfinished,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.remedy.model.driver import AttemptResult, Outcome
from offsetwatch.remedy.model.journal_records import (
    PlanFailureCause,
    RollbackStarted,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import Alter, PlanStatus, RequestedState, ToState
from tests.fakes.clock import SetClock
from tests.unit.remedy.killed_processes import Killed
from tests.unit.remedy.plans import AFTER, ALTER, OLD, Bench, plan_of


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "state")


def test_a_change_ends_with_its_offsets_read_back_and_the_connector_as_it_was(bench):
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code, result.definite) == (PlanStatus.SUCCEEDED, 0, True)
    assert bench.world.offsets == AFTER
    assert bench.world.state is RequestedState.RUNNING
    assert [step for _, step in bench.world.writes] == [
        ToState(RequestedState.STOPPED),
        ALTER,
        ToState(RequestedState.RUNNING),
    ]


def test_a_change_is_written_down_before_it_is_tried(bench):
    observed = []
    bench.driver.misbehave = lambda step: observed.append(bench.journal.records("p1")[-1])
    bench.runner().run(plan_of())
    assert all(isinstance(record, StepIntended) for record in observed)
    assert len(observed) == 3


def test_the_backup_holds_what_was_there_before(bench):
    result = bench.runner().run(plan_of())
    retained = json.loads(Path(result.backup).read_text())
    assert {json.dumps(p["partition"]): p["offset"]["position"] for p in retained["orders"]} == {
        '{"file": "a"}': 10,
        '{"file": "b"}': 20,
    }


def test_a_recheck_that_says_no_puts_the_connector_back_and_writes_no_offset(bench):
    result = bench.runner().run(plan_of(), lambda frozen: ("it has moved on",))
    assert (result.ending, result.cause, result.exit_code) == (
        PlanStatus.RESTORED,
        PlanFailureCause.CHANGED,
        4,
    )
    assert bench.world.offsets == OLD
    assert bench.world.state is RequestedState.RUNNING
    assert "it has moved on" in result.said


def test_a_refused_change_puts_the_connector_back(bench):
    bench.driver.misbehave = lambda step: (
        Outcome(AttemptResult.NACK, "wrong file") if isinstance(step, Alter) else None
    )
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code) == (PlanStatus.RESTORED, 3)
    assert bench.world.offsets == OLD
    assert bench.world.state is RequestedState.RUNNING
    assert "wrong file" in result.said


def test_nothing_was_changed_where_the_first_step_is_refused(bench):
    bench.driver.misbehave = lambda step: Outcome(AttemptResult.NACK, "no")
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code) == (PlanStatus.UNCHANGED, 3)
    assert bench.world.writes == []


@pytest.mark.parametrize(
    ("error", "code"), [(AccessDenied("lab", "403"), 6), (TargetUnreachable("lab", "refused"), 7)]
)
def test_a_place_that_cannot_be_observed_is_left_alone(bench, error, code):
    bench.driver.blind = lambda: error
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code) == (PlanStatus.UNCHANGED, code)


def test_a_place_out_of_sight_for_a_moment_is_inspected_again(bench):
    errors = [TargetUnreachable("lab", "refused")] * 2
    bench.driver.blind = lambda: errors.pop() if errors else None
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED


def test_another_cluster_behind_the_same_address_is_left_alone(bench):
    bench.driver.id = "cluster-2"
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code) == (PlanStatus.UNCHANGED, 4)
    assert bench.world.writes == []


def test_a_request_that_is_put_off_is_recreated(bench):
    answers = [Outcome(AttemptResult.RETRY, "rebalancing")] * 4
    bench.driver.misbehave = lambda step: answers.pop() if answers else None
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED
    assert bench.clock.now() > 1_800_000_000.0


def test_a_change_without_an_answer_that_shows_is_made_once(bench):
    def applied_but_silent(step):
        if isinstance(step, Alter):
            bench.world.do(step)
            return ResponseTimeout("lab", "no answer")
        return None

    bench.driver.misbehave = applied_but_silent
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED
    assert [step for _, step in bench.world.writes].count(ALTER) == 1


def test_a_change_without_an_answer_is_not_recreated_before_it_had_its_time(bench):
    tried = []

    def lost(step):
        if isinstance(step, Alter):
            tried.append(bench.clock.now())
            return ResponseTimeout("lab", "no answer") if len(tried) == 1 else None
        return None

    bench.driver.misbehave = lost
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED
    assert len(tried) == 2
    assert tried[1] - tried[0] >= 120.0


def test_a_change_that_never_shows_stays_in_doubt_and_says_what_to_do(bench):
    bench.driver.misbehave = lambda step: (
        ResponseTimeout("lab", "no answer") if isinstance(step, Alter) else None
    )
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code) == (PlanStatus.IN_DOUBT, 5)
    assert bench.world.state is RequestedState.STOPPED
    assert "offsetwatch plan recover p1 --config F --state-dir" in result.said
    assert 'offsetwatch plan resolve p1 --because "..." --config F --state-dir' in result.said
    assert result.backup in result.said


def test_offsets_that_another_client_changed_before_the_plan_are_left_as_they_are(bench):
    def recheck(frozen):
        bench.world.offsets['{"file":"a"}'] = '{"position":777}'
        return ()

    result = bench.runner().run(plan_of(), recheck)
    assert (result.ending, result.exit_code) == (PlanStatus.RESTORED, 4)
    assert bench.world.offsets['{"file":"a"}'] == '{"position":777}'
    assert bench.world.state is RequestedState.RUNNING


def test_offsets_that_another_client_changed_after_the_plan_are_left_to_an_operator(bench):
    def meddle(step):
        if isinstance(step, Alter):
            bench.world.do(step)
            bench.world.offsets['{"file":"a"}'] = '{"position":777}'
            return Outcome(AttemptResult.ACK, "done")
        return None

    bench.driver.misbehave = meddle
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code) == (PlanStatus.PARKED, 5)
    assert bench.world.state is RequestedState.STOPPED
    assert not any(isinstance(record, RollbackStarted) for record in bench.journal.records("p1"))


def test_a_connector_that_cannot_be_resumed_keeps_its_new_offsets_and_requests_an_operator(bench):
    bench.driver.misbehave = lambda step: (
        Outcome(AttemptResult.NACK, "no") if step == ToState(RequestedState.RUNNING) else None
    )
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code) == (PlanStatus.PARKED, 5)
    assert bench.world.offsets == AFTER
    assert "resume the connector: no" in result.said


def test_a_change_that_lands_while_it_is_refused_the_second_time_is_observed_to_be_done(bench):
    answers = [ResponseTimeout("lab", "no answer"), Outcome(AttemptResult.NACK, "no")]

    def second_refused(step):
        if not isinstance(step, Alter) or not answers:
            return None
        if len(answers) == 1:
            bench.world.do(step)
        return answers.pop(0)

    bench.driver.misbehave = second_refused
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED
    assert bench.world.offsets == AFTER


def test_a_sink_that_was_altered_by_half_before_it_was_refused_is_put_back(bench):
    plan = plan_of()
    subject = msgspec.structs.replace(plan.subject, kind="sink")

    def by_half(step):
        if step == ALTER:
            bench.world.do(Alter(step.pairs[:1]))
            return Outcome(AttemptResult.NACK, "the other half")
        return None

    bench.driver.misbehave = by_half
    result = bench.runner().run(msgspec.structs.replace(plan, subject=subject))
    assert (result.ending, result.exit_code) == (PlanStatus.RESTORED, 3)
    assert bench.world.offsets == OLD
    assert bench.world.state is RequestedState.RUNNING


def test_a_second_stop_that_lands_late_cannot_outlive_the_resume(bench):
    delays = [(60.0, Outcome(AttemptResult.ACK, "")), (70.0, ResponseTimeout("lab", "no answer"))]

    def slow(step):
        if step == ToState(RequestedState.STOPPED) and delays:
            delay_s, answer = delays.pop(0)
            bench.world.do_later(delay_s, lambda: bench.world.do(step))
            return answer
        return None

    bench.driver.misbehave = slow
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED
    bench.clock.advance(1000.0)
    bench.world.settle()
    assert bench.world.state is RequestedState.RUNNING


@pytest.mark.parametrize("set_by_s", [0.0, 3600.0, 90.0, -3600.0])
@pytest.mark.parametrize("when", ["during the request", "after it"])
def test_a_stop_that_lands_after_its_process_has_ended_cannot_outlive_the_recovery(
    bench, when, set_by_s
):
    def late(step):
        bench.world.do_later(100.0, lambda: bench.world.do(step))
        if when == "during the request":
            raise Killed
        return ResponseTimeout("lab", "no answer")

    def killed(seconds):
        raise Killed

    bench.driver.misbehave = late
    with pytest.raises(Killed):
        bench.runner(pause=killed).run(plan_of())
    bench.driver.misbehave = lambda step: None
    bench.died()
    result = bench.runner(clock=SetClock(bench.clock, set_by_s)).recover("p1")
    assert (result.ending, result.cause) == (PlanStatus.RESTORED, PlanFailureCause.INTERRUPTED)
    bench.clock.advance(1000.0)
    bench.world.settle()
    assert bench.world.state is RequestedState.RUNNING


def test_a_stop_that_was_waited_for_in_full_is_not_waited_for_again_by_the_next_process(bench):
    def silent(step):
        if step == ToState(RequestedState.STOPPED):
            bench.world.do(step)
            return ResponseTimeout("lab", "no answer")
        if step == ToState(RequestedState.RUNNING):
            bench.world.do(step)
            raise Killed
        if isinstance(step, Alter) and bench.clock.now() - begun_at < 130.0:
            return Outcome(AttemptResult.RETRY, "rebalancing")
        return None

    begun_at = bench.clock.now()
    bench.driver.misbehave = silent
    with pytest.raises(Killed):
        bench.runner().run(plan_of())
    bench.driver.misbehave = lambda step: None
    bench.died()
    begun_at = bench.clock.now()
    assert bench.runner(clock=SetClock(bench.clock, -3600.0)).recover("p1").over
    assert bench.clock.now() - begun_at < 10.0


def test_a_clock_that_was_set_back_meanwhile_does_not_keep_a_recovery_waiting(bench):
    def killed(step):
        if isinstance(step, Alter):
            raise Killed

    bench.driver.misbehave = killed
    with pytest.raises(Killed):
        bench.runner().run(plan_of())
    bench.driver.misbehave = lambda step: None
    bench.died()
    bench.clock.advance(-1_000_000.0)
    begun_at = bench.clock.now()
    assert bench.runner().recover("p1").ending is PlanStatus.SUCCEEDED
    assert bench.clock.now() - begun_at < 300.0


def test_who_stood_still_after_a_poll_inspects_again_before_it_requests_anything(bench):
    poll, observed = bench.driver.inspect, []

    def freeze_once(step, frozen):
        result = poll(step, frozen)
        if step == ALTER:
            observed.append(bench.clock.now())
            if len(observed) == 1:
                bench.clock.advance(600.0)
        return result

    requests = []
    bench.driver.inspect = freeze_once
    bench.driver.misbehave = lambda step: (
        requests.append(bench.clock.now()) if step == ALTER else None
    )
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED
    assert len(requests) == 1
    assert observed[0] + 600.0 < observed[1] <= requests[0] < observed[1] + 30.0


def test_who_stood_still_until_all_time_was_over_has_the_connector_run_again_all_the_same(bench):
    def freeze(step):
        if step != ToState(RequestedState.RUNNING):
            return None
        bench.clock.advance(600.0)
        bench.world.do_later(3.0, lambda: bench.world.do(step))
        return Outcome(AttemptResult.ACK, "accepted")

    bench.driver.misbehave = freeze
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED
    assert bench.world.state is RequestedState.RUNNING


def test_an_interruption_before_the_change_puts_the_connector_back(bench):
    interrupted = []

    def pause(seconds):
        bench.clock.advance(seconds)
        if not interrupted:
            interrupted.append(seconds)
            raise KeyboardInterrupt

    bench.driver.misbehave = lambda step: (
        Outcome(AttemptResult.RETRY, "rebalancing") if isinstance(step, Alter) else None
    )
    result = bench.runner(pause=pause).run(plan_of())
    assert (result.ending, result.cause) == (PlanStatus.RESTORED, PlanFailureCause.INTERRUPTED)
    assert bench.world.state is RequestedState.RUNNING


def test_an_interruption_after_the_change_has_begun_ends_with_it_done(bench):
    interrupted = []

    def during(step):
        if isinstance(step, Alter) and not interrupted:
            interrupted.append(step)
            bench.world.do(step)
            raise KeyboardInterrupt

    bench.driver.misbehave = during
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED
    assert bench.world.offsets == AFTER
    assert bench.world.state is RequestedState.RUNNING


def test_the_second_interruption_ends_the_process_and_the_journal_has_what_it_did(bench):
    def always(step):
        raise KeyboardInterrupt

    def pause(seconds):
        raise KeyboardInterrupt

    bench.driver.misbehave = always
    with pytest.raises(KeyboardInterrupt):
        bench.runner(pause=pause).run(plan_of())
    assert bench.journal.open_plan("lab", "orders") == "p1"


def test_a_bug_half_way_does_not_keep_from_operators_what_it_leaves_behind(bench):
    def bug(step):
        if isinstance(step, Alter):
            raise ZeroDivisionError

    bench.driver.misbehave = bug
    with pytest.raises(ZeroDivisionError):
        bench.runner().run(plan_of())
    assert "interrupted at the step: set the offsets of 2 source partitions" in bench.reports[-1]
    assert "It was running before, and may be stopped now" in bench.reports[-1]
    assert "`offsetwatch plan recover p1 --config F --state-dir" in bench.reports[-1]


def test_a_journal_that_cannot_be_written_any_more_ends_it_with_a_word(bench):
    def full(step):
        bench.journal._db.execute("PRAGMA query_only = ON")

    bench.driver.misbehave = full
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code) == (PlanStatus.PARKED, 5)
    assert "cannot be written" in result.said
    assert "interrupted at the step: stop the connector, which may have happened" in result.said
    assert [step for _, step in bench.world.writes] == [ToState(RequestedState.STOPPED)]
    bench.driver.misbehave = lambda step: None
    bench.died()
    assert bench.runner().recover("p1").ending is PlanStatus.RESTORED
    assert bench.world.state is RequestedState.RUNNING


def test_a_reader_of_our_output_that_leaves_does_not_stop_a_change_half_way(bench):
    def break_pipe(answer):
        raise BrokenPipeError

    bench.reports = type("Left", (), {"append": staticmethod(break_pipe)})()
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED


def test_a_backup_that_cannot_be_written_puts_the_connector_back(bench):
    (bench.folder / "backups").write_text("in the way")
    result = bench.runner().run(plan_of())
    assert (result.ending, result.exit_code) == (PlanStatus.RESTORED, 3)
    assert "could not be backed up" in result.said
    assert bench.world.offsets == OLD


def test_a_place_that_goes_out_of_sight_half_way_is_left_to_a_recovery(bench):
    def gone(step):
        if isinstance(step, Alter):
            bench.driver.blind = lambda: TargetUnreachable("lab", "refused")
            return ResponseTimeout("lab", "no answer")
        return None

    bench.driver.misbehave = gone
    result = bench.runner().run(plan_of())
    assert (result.ending, result.cause, result.exit_code) == (
        PlanStatus.PARKED,
        PlanFailureCause.UNREACHABLE,
        5,
    )
    bench.driver.blind, bench.driver.misbehave = (lambda: None), (lambda step: None)
    assert bench.runner().recover("p1").ending is PlanStatus.SUCCEEDED


def test_a_stop_without_an_answer_cannot_outlive_the_resume(bench):
    def late(step):
        if step == ToState(RequestedState.STOPPED):
            bench.world.do_later(100.0, lambda: bench.world.do(step))
            return ResponseTimeout("lab", "no answer")
        return None

    bench.driver.misbehave = late
    bench.driver.blind = lambda: None
    result = bench.runner().run(plan_of(), lambda frozen: ("no",))
    assert result.ending is PlanStatus.RESTORED
    bench.clock.advance(1000.0)
    bench.world.settle()
    assert bench.world.state is RequestedState.RUNNING


def test_an_open_plan_keeps_others_from_its_connector(bench):
    bench.driver.misbehave = lambda step: (
        ResponseTimeout("lab", "no answer") if isinstance(step, Alter) else None
    )
    bench.runner().run(plan_of())
    with pytest.raises(PlanUnfinished) as caught:
        bench.runner().run(plan_of(plan_id="p2"))
    assert caught.value.plan_id == "p1"


def test_a_run_keeps_others_from_its_connector(bench):
    caught = []

    def second(step):
        with pytest.raises(ConnectorBusy) as info:
            bench.runner().run(plan_of(plan_id="p2"))
        caught.append(str(info.value))

    bench.driver.misbehave = second
    assert bench.runner().run(plan_of()).ending is PlanStatus.SUCCEEDED
    assert "orders (lab) is being changed by process" in caught[0]


def test_a_verified_step_is_never_tried_again(bench):
    bench.runner().run(plan_of())
    records = bench.journal.records("p1")
    assert [r.index for r in records if isinstance(r, StepVerified)] == [0, 1, 2, 3, 4]
