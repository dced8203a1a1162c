"""The bugs themselves: each changes one decision, the way somebody might in good faith."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import msgspec

from offsetwatch.clients.write.connect import ConnectWriter
from offsetwatch.errors import AmbiguousOutcome
from offsetwatch.remedy import engine
from offsetwatch.remedy.drivers.common_steps import ProbationChecker, RecordCopier
from offsetwatch.remedy.drivers.rest import driver
from offsetwatch.remedy.engine import Move, WaitCommand, progress
from offsetwatch.remedy.execute import runner
from offsetwatch.remedy.execute.approved_plans import GuardInputs
from offsetwatch.remedy.guards import limits
from offsetwatch.remedy.journal import backups, journal
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.driver import AttemptResult, StepInspection, StepStatus
from offsetwatch.remedy.model.fleet_state import FleetState
from offsetwatch.remedy.model.journal_records import (
    PlanEnded,
    PlanOpened,
    PlanParked,
    RollbackStarted,
    StepIntended,
)
from offsetwatch.remedy.model.plan import Alter, PartitionOffset, PlanStatus, Settle, ToState
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.model.service_api import Mode
from tests.sim.process import SimJournal, SimQuarantine

Put = Callable[[Any, str, Any], None]

# --- the target ----------------------------------------------------------------------------------


def _moved(step: Any) -> Any:
    if not isinstance(step, Alter):
        return step
    (pair,) = step.pairs
    offset = msgspec.json.decode(pair.offset)
    further = {name: value + 1 for name, value in offset.items()}
    return Alter((PartitionOffset(pair.partition, msgspec.json.encode(further).decode()),))


def target_recomputed_on_recovery(put: Put) -> None:
    report = runner.replay_records

    def recomputed(records: Any, limits: Any) -> Any:
        result = report(records, limits)
        if result.undoing or result.frozen is None:
            return result
        return replace(result, path=tuple(_moved(step) for step in result.path))

    put(runner, "replay_records", recomputed)


def plan_adjusted_as_it_is_opened(put: Put) -> None:
    opened = Journal.open

    def adjusted(self: Any, plan: Any, record: Any, against: Any) -> None:
        steps = tuple(_moved(step) for step in plan.steps)
        other = PlanOpened(at=record.at, plan=msgspec.structs.replace(plan, steps=steps))
        opened(self, plan, other, against)

    begun = engine.begin_plan

    def begins(plan: Any, now: float, limits: Any) -> Any:
        steps = tuple(_moved(step) for step in plan.steps)
        return begun(msgspec.structs.replace(plan, steps=steps), now, limits)

    put(Journal, "open", adjusted)
    put(engine, "begin_plan", begins)


# --- what comes before a change -------------------------------------------------------------------


def copy_skipped(put: Put) -> None:
    put(
        RecordCopier,
        "inspect",
        lambda _self, _step: StepInspection(StepStatus.DONE, "it will be there"),
    )


def copy_not_read_back(put: Put) -> None:
    find = SimQuarantine.find
    put(SimQuarantine, "find", lambda self, key, _sha256=None: find(self, key))


def backup_not_verified(put: Put) -> None:
    put(backups, "find_backup_problem", lambda _path, _sha256: None)


def expect_skipped(put: Put) -> None:
    recheck_forgotten(put)  # the guards compare as well
    put(
        driver,
        "check_expected_offsets",
        lambda _now, _expected: StepInspection(StepStatus.DONE, "it will be so"),
    )


def settle_skipped(put: Put) -> None:
    put(
        driver.RestDriver,
        "_inspect_quiet",
        lambda _self, _s: StepInspection(StepStatus.DONE, "quiet"),
    )


def settle_shorter_than_planned(put: Put) -> None:
    inspection = driver.RestDriver._inspect_quiet
    put(driver.RestDriver, "_inspect_quiet", lambda self, s: inspection(self, min(s, 6.0)))


def recheck_forgotten(put: Put) -> None:
    put(runner.Runner, "_recheck", lambda *_given: ())


def identity_not_compared(put: Put) -> None:
    def known(progress: Any, event: Any, now: float) -> Any:
        del event
        expected = progress.plan.subject.identity
        return identified(progress, engine.IdentityEvent(expected), now)

    identified = engine._handle_identity
    put(engine, "_handle_identity", known)


# --- intents, answers, verdicts -------------------------------------------------------------------


def intent_written_afterwards(put: Put) -> None:
    append = SimJournal.append

    def later(self: Any, plan_id: str, records: Any) -> None:
        held = self.__dict__.setdefault("held", [])
        held.extend(records)
        if held and not isinstance(held[-1], StepIntended):
            append(self, plan_id, tuple(held))
            held.clear()

    put(SimJournal, "append", later)


def claim_forgotten(put: Put) -> None:
    put(Journal, "_skips", lambda _self, _plan_id, _intended: None)


def error_is_a_refusal(put: Put) -> None:
    def refused(answered: Any) -> Any:
        def of(reply: Any, **inputs: Any) -> Any:
            outcome = answered(reply, **inputs)
            doubt = outcome.answer is AttemptResult.IN_DOUBT
            return outcome._replace(answer=AttemptResult.NACK) if doubt else outcome

        return of

    put(driver, "classify_request_reply", refused(driver.classify_request_reply))
    put(driver, "classify_offsets_reply", refused(driver.classify_offsets_reply))


def asked_again_at_once(put: Put) -> None:
    def patient(result: Any, inspection: StepInspection, now: float) -> Any:
        return ready(replace(result, limits=replace(result.limits, doubt_s=0.0)), inspection, now)

    ready = engine._handle_ready
    put(engine, "_handle_ready", patient)


def waited_by_anothers_clock(put: Put) -> None:
    def gone_on(result: Any, now: float) -> Any:
        del now
        return progress._mark_in_doubt(result) if result.sent and result.answer is None else result

    put(progress, "_restart_waits", gone_on)


def begun_whatever_became_of_it(put: Put) -> None:
    put(journal, "build_plan_history", lambda _records: None)
    put(GuardInputs, "find_change", lambda _self, _now, _bounds: None)


def old_looks_are_believed(put: Put) -> None:
    put(runner, "INSPECTION_AGE_S_MAX", float("inf"))


def client_sends_twice(put: Put) -> None:
    send = ConnectWriter.send

    def stubborn(self: Any, *requests: Any) -> Any:
        with suppress(AmbiguousOutcome):
            return send(self, *requests)
        return send(self, *requests)

    put(ConnectWriter, "send", stubborn)


def ack_is_a_verdict(put: Put) -> None:
    inspection = driver.RestDriver.inspect

    def trusting(self: Any, step: Any, frozen: Any) -> StepInspection:
        if step in self._requested_at and isinstance(step, Alter | ToState):
            return StepInspection(StepStatus.DONE, "it said yes")
        return inspection(self, step, frozen)

    put(driver.RestDriver, "inspect", trusting)


def foreign_offsets_overwritten(put: Put) -> None:
    recheck_forgotten(put)  # the guards compare as well
    compared = driver.compare_offsets

    def blind(*inputs: Any) -> StepInspection:
        inspection = compared(*inputs)
        foreign = inspection.status is StepStatus.FOREIGN
        return inspection._replace(status=StepStatus.READY) if foreign else inspection

    put(driver, "compare_offsets", blind)
    put(
        driver,
        "check_expected_offsets",
        lambda _now, _expected: StepInspection(StepStatus.DONE, "whatever it is"),
    )


def altered_while_it_runs(put: Put) -> None:
    put(driver.RestDriver, "_require_stopped", lambda _self, poll: poll)


# --- the way back, and the end --------------------------------------------------------------------


def turn_forgotten(put: Put) -> None:
    append = SimJournal.append

    def forgetful(self: Any, plan_id: str, records: Any) -> None:
        append(
            self,
            plan_id,
            tuple(record for record in records if not isinstance(record, RollbackStarted)),
        )

    put(SimJournal, "append", forgetful)


def way_back_without_offsets(put: Put) -> None:
    rollback_steps = engine.build_rollback_steps

    def states_only(*inputs: Any) -> Any:
        return tuple(step for step in rollback_steps(*inputs) if isinstance(step, ToState))

    put(engine, "build_rollback_steps", states_only)


def way_back_without_resume(put: Put) -> None:
    rollback_steps = engine.build_rollback_steps

    def without(*inputs: Any) -> Any:
        return tuple(step for step in rollback_steps(*inputs) if not isinstance(step, ToState)) or (
            Settle(1.0),
        )

    put(engine, "build_rollback_steps", without)


def late_requests_forgotten(put: Put) -> None:
    done = engine._handle_done

    def hasty(result: Any, inspection: StepInspection, now: float) -> Any:
        return done(replace(result, late_until=0.0), inspection, now)

    put(engine, "_handle_done", hasty)


def parked_lets_go(put: Put) -> None:
    append = Journal.append

    def lets_go(self: Any, plan_id: str, records: Any) -> None:
        append(self, plan_id, records)
        if any(isinstance(record, PlanParked) for record in records):
            self._db.execute("DELETE FROM open_plans WHERE plan_id = ?", (plan_id,))

    put(Journal, "append", lets_go)


def parked_is_an_end(put: Put) -> None:
    def ended(result: Any, ending: Any, cause: Any, answer: str, now: float) -> Any:
        del ending
        return engine._append_records(
            result, PlanEnded(at=now, ending=PlanStatus.UNCHANGED, said=answer, cause=cause)
        )

    put(engine, "_park", ended)


def stopped_for_as_long_as_it_takes(put: Put) -> None:
    put(engine, "_is_stopped_too_long", lambda _found, _now: False)


def probation_skipped(put: Put) -> None:
    put(
        ProbationChecker,
        "inspect",
        lambda _self, _step: StepInspection(StepStatus.DONE, "it will be well"),
    )


def skip_is_left_stopped(put: Put) -> None:
    verified = engine._finish_step

    def early(result: Any, answer: str, now: float) -> Any:
        move = verified(result, answer, now)
        if isinstance(result.step, Alter) and not result.undoing:
            ended = PlanEnded(at=now, ending=PlanStatus.SUCCEEDED, said="done")
            return Move(
                progress.apply_record(move.progress, ended),
                engine.EndCommand(),
                (*move.records, ended),
            )
        return move

    put(engine, "_finish_step", early)


# --- who, and whether -----------------------------------------------------------------------------


def empty_allow_list_is_all(put: Put) -> None:
    allowed = Policy.allowed
    put(Policy, "allowed", lambda self, *what: not self.auto or allowed(self, *what))


def observing_is_proposing(put: Put) -> None:
    mode_of = Policy.mode_of
    put(
        Policy,
        "mode_of",
        lambda *of, **inputs: max(mode_of(*of, **inputs), Mode.PROPOSE, key=list(Mode).index),
    )


def begun_on_old_answers(put: Put) -> None:
    against = GuardInputs.find_change
    put(GuardInputs, "find_change", lambda self, _now, bounds: against(self, self.at, bounds))


def begun_whatever_people_did(put: Put) -> None:
    against = GuardInputs.find_change
    put(GuardInputs, "find_change", lambda self, now, _bounds: against(self, now, self.bounds))


def budget_forgotten(put: Put) -> None:
    find = limits.find_exceeded_budget
    put(limits, "find_exceeded_budget", lambda *of: find(*of) if len(of) == 4 else None)


def parked_is_not_at_work(put: Put) -> None:
    at_work = FleetState.at_work
    put(FleetState, "at_work", lambda self: at_work(self) - self.parked())


def no_lock_while_at_work(put: Put) -> None:
    @contextmanager
    def open_to_all(_self: Any, _place: str, _connector: str, _since: str) -> Iterator[None]:
        yield

    put(Journal, "at_work", open_to_all)


def chain_broken(put: Put) -> None:
    chained = Journal._append

    def unhashed(self: Any, plan_id: str, record: Any) -> None:
        chained(self, plan_id, record)
        if isinstance(record, PlanEnded):
            self._db.execute("UPDATE head SET seq = seq - 1")

    put(Journal, "_append", unhashed)


def not_the_same_twice(put: Put) -> None:
    pause, times = engine._build_wait, itertools.count(1)

    def jittered(result: Any, answer: str) -> Any:
        move = pause(result, answer)
        assert isinstance(move.command, WaitCommand)
        return move._replace(command=WaitCommand(move.command.seconds + next(times) * 1e-3, answer))

    put(engine, "_build_wait", jittered)
