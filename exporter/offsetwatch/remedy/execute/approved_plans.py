"""Executor of guarded remediation: runs approved plans, and those an earlier process left open.

It runs one plan at a time, in the loop's thread (remedy/loop.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from offsetwatch.clock import UnixClock
from offsetwatch.errors import ClientError, ConnectorBusy, PlanStateConflict, PlanUnfinished
from offsetwatch.remedy.engine import AbortEvent, InterruptEvent
from offsetwatch.remedy.engine.progress import EngineLimits, replay_records
from offsetwatch.remedy.execute.runner import PlanResult, Runner
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.model.approval import PlanHistory
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.facts import PlanApproval
from offsetwatch.remedy.model.fleet_state import POLICY_APPROVER
from offsetwatch.remedy.model.incidents import Incident
from offsetwatch.remedy.model.plan import FrozenOffsets, Plan, PlanStatus
from offsetwatch.remedy.planner import Planner

GUARD_ANSWERS_AGE_S_MAX: Final = 60.0  # a slow Connect may take so long to answer all queries

_log = structlog.get_logger()


class ShutdownInterrupt(Exception):
    """Interrupt because the process ends: the next process continues the current plan."""


class ProcessLifetime(NamedTuple):
    """Clock, waits and shutdown signals of the process.

    steady      monotonic clock, which waits use
    pause       waits
    stopping    whether the process should end
    hurry       whether it must end now, wherever a plan is
    """

    steady: UnixClock
    pause: Callable[[float], None]
    stopping: Callable[[], bool] = lambda: False
    hurry: Callable[[], bool] = lambda: False


class GuardInputs(NamedTuple):
    """Inputs of an evaluation of guards, from right before it.

    at          by the steady clock
    bounds      as the journal had them (FleetState.bounds)
    """

    at: float
    bounds: tuple[object, ...]

    def find_change(self, now: float, bounds: tuple[object, ...]) -> str | None:
        """Return why the guards' answers are no longer valid; None while they are."""
        age_s = now - self.at
        if age_s > GUARD_ANSWERS_AGE_S_MAX:
            return f"its guards were asked {age_s:.0f} s ago"
        if bounds != self.bounds:
            return "its guards were asked before people, or other plans, changed what may be done"
        return None


@dataclass(slots=True)
class RemediationCounts:
    """Counts of this process, for metrics.

    The keys are Connect cluster, connector, action, and how it ended or which guard blocked it.
    """

    actions: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    blocked: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)


class PlanExecutor:
    """Executor of remediation plans.

    open_driver     opens the driver of one plan, from its beginning to its end
    """

    def __init__(
        self,
        *,
        ledger: JournalIndex,
        planner: Planner,
        open_driver: Callable[[Plan], AbstractContextManager[Driver]],
        clock: UnixClock,
        lifetime: ProcessLifetime,
        limits: EngineLimits | None = None,
    ) -> None:
        self._ledger = ledger
        self._planner = planner
        self._open_driver = open_driver
        self._clock = clock
        self._lifetime = lifetime
        self._limits = limits or EngineLimits()
        self._recovered: set[str] = set()
        self.counts = RemediationCounts()

    def recover(self) -> bool:
        """Continue a plan that another process began. Return whether there was one."""
        for plan_id, dossier in list(self._ledger.dossiers.items()):
            if dossier.status is not PlanStatus.RUNNING or dossier.plan.remedy is None:
                continue
            subject = dossier.plan.subject
            if plan_id in self._recovered or self._ledger.journal.busy(
                subject.store, subject.connector
            ):
                continue
            self._recovered.add(plan_id)
            _log.info("remedy_recovering", plan=plan_id, connector=subject.connector)
            try:
                with self._open_driver(dossier.plan) as driver:
                    self._count_ending(
                        self._runner(dossier.plan, driver).recover(plan_id), dossier.plan
                    )
            except ShutdownInterrupt:
                return True
            except (ConnectorBusy, ClientError) as exc:
                _log.warning("remedy_not_recovered", plan=plan_id, error=str(exc))
                self._recovered.discard(plan_id)
            self._ledger.read_on()
            return True
        return False

    def read_guard_inputs(self) -> GuardInputs:
        """Return the inputs of the guards; to be called before they are evaluated."""
        return GuardInputs(self._lifetime.steady.now(), self._ledger.fleet.bounds())

    def carry_out(
        self, plan: Plan, incident: Incident | None, dossier: PlanHistory, guard_inputs: GuardInputs
    ) -> None:
        """Carry out a plan as far as it goes.

        It is not begun if its guards would have to be evaluated again.
        """
        approval = approval_of(dossier)  # when it began is settled: no cool-down counts any more

        def check_start() -> str | None:
            self._ledger.read_on()
            return guard_inputs.find_change(
                self._lifetime.steady.now(), self._ledger.fleet.bounds()
            )

        def recheck(_: FrozenOffsets) -> tuple[str, ...]:
            records = self._ledger.journal.records(plan.plan_id)
            progress = replay_records(records, self._limits)
            return self._planner.recheck(
                plan,
                incident,
                approval,
                stopped_at=progress.stopped_at,
                receipt_sha256=progress.copied,
            )

        try:
            with self._open_driver(plan) as driver:
                result = self._runner(plan, driver).run(plan, recheck, check_start)
        except ShutdownInterrupt:
            return
        except (ConnectorBusy, PlanUnfinished) as exc:  # a person is at work on it with the toolbox
            _log.info("remedy_waits", plan=plan.plan_id, why=str(exc))
            return
        except PlanStateConflict as exc:
            _log.info("remedy_not_begun", plan=plan.plan_id, why=str(exc))
            return
        self._count_ending(result, plan)
        self._ledger.read_on()

    def _runner(self, plan: Plan, driver: Driver) -> Runner:
        return Runner(
            journal=self._ledger.journal,
            driver=driver,
            clock=self._lifetime.steady,
            report=lambda said: _log.info("remedy", plan=plan.plan_id, said=said),
            pause=self._lifetime.pause,
            limits=self._limits,
            find_cancellation=lambda: self._find_cancellation(plan),
        )

    def _find_cancellation(self, plan: Plan) -> InterruptEvent | AbortEvent | None:
        """Return the event that an operator, or the end of the process, requires; None if none."""
        if self._lifetime.hurry():
            raise ShutdownInterrupt
        self._ledger.read_on()
        history = self._ledger.dossier(plan.plan_id)
        abort = None if history is None else history.abort
        if abort is not None:
            return AbortEvent(f"{abort.by}: {abort.because}")
        paused = (
            self._lifetime.stopping() or self._ledger.fleet.paused(self._clock.now()) is not None
        )
        return InterruptEvent() if paused or self._planner.is_stop_requested() else None

    def _count_ending(self, result: PlanResult, plan: Plan) -> None:
        assert plan.remedy is not None
        _log.info("remedy_ended", plan=plan.plan_id, ending=result.ending.value)
        ending = (plan.remedy.action.value, result.ending.value)
        self.counts.actions[*plan.connector_key, *ending] += 1


def approval_of(dossier: PlanHistory, not_before: float = 0.0) -> PlanApproval | None:
    """Return the approval by an operator; None if the policy approved it, or no one has."""
    if dossier.approved_by is None or dossier.approved_by == POLICY_APPROVER:
        return None
    return PlanApproval(
        by=dossier.approved_by,
        at=dossier.at,
        plan_sha256=dossier.plan.sha256,
        not_before=not_before,
    )
