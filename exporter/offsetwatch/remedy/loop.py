"""Loop of guarded remediation: evaluates incidents, proposes plans, executes approved ones.

It runs in one thread of the daemon and executes one plan at a time. Every decision is in the
journal before it is carried out, and the loop reads decisions from the journal too: those of
operators in other processes reach it that way. It first finishes the plans that an earlier process
left open, before anything new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from offsetwatch.clients.http.exchange import forget_locals
from offsetwatch.clock import UnixClock
from offsetwatch.errors import RemedyError, raised_at
from offsetwatch.model.findings import FailureRun
from offsetwatch.remedy.execute.approved_plans import PlanExecutor, RemediationCounts, approval_of
from offsetwatch.remedy.gather.live_queries import QueryRound
from offsetwatch.remedy.gather.snapshot_queries import RemediationCase
from offsetwatch.remedy.guards import Permission, derive_permission
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.model import approval as decisions
from offsetwatch.remedy.model import incidents
from offsetwatch.remedy.model.approval import PROPOSAL_S, PlanHistory
from offsetwatch.remedy.model.fleet_state import POLICY_APPROVER, ConnectorKey, FleetState
from offsetwatch.remedy.model.guard_answer import GuardAnswer, GuardResult, select_denying
from offsetwatch.remedy.model.incidents import Incident, IncidentKind
from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    BreakerSet,
    IncidentDetected,
    IncidentEnded,
    PlanApproved,
    PlanProposed,
)
from offsetwatch.remedy.model.plan import Action, Plan
from offsetwatch.remedy.model.plan_templates import DETECTOR
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.model.service_api import Mode, lowest_mode
from offsetwatch.remedy.planner import CaseEvaluation, Planner
from offsetwatch.state.snapshot import Snapshot

ROUND_S: Final = 1.0
# Evidence costs requests and reads; an alert has it gathered at once.
EVALUATION_GAP_S: Final = 15.0
PIN_CHECK_S: Final = 10.0  # how often Connect is asked whether a plan that waits could still begin
ADMISSION_WAIT_S_MAX: Final = 600.0  # and what was approved and cannot begin for so long
NO_PLAN: Final = "no_plan"  # stands where a guard's name would, of what no plan can be made for
UNEXPECTED: Final = "unexpected"  # likewise, where an exception kept an answer from being found
NO_ACTION: Final = "unknown"  # where it was raised before it was known what could be done
ERROR_PLACES_MAX: Final = 100  # that raised such an exception, and whose traces have been logged
# What passes by itself: a plan that only these hold back waits, and is not void.
_TRANSIENT_GUARDS: Final = frozenset(
    {
        "kill_switch",
        "pause",
        "mass_failure",
        "blast",
        "cool_down",
        "budget_connector",
        "budget_fleet",
        "maintenance",
        "clock",
        "read_just_now",
        "views_agree",
    }
)

_log = structlog.get_logger()


@dataclass(slots=True)
class TrackedIncident:
    """Incident with the time of its last evaluation; `said` is the last recorded refusal.

    observed     when its longest run of failures began, and the number of them at the last
                 observation
    unanswered   how often Connect has not answered since then
    """

    incident: Incident
    evaluated_at: float | None = None
    said: tuple[object, ...] = ()
    observed: tuple[float, int] | None = None
    unanswered: int = 0

    def has_missed_failures(self, run: FailureRun) -> bool:
        """Check whether a failure of the run before its newest one was not observed."""
        if self.observed is None:
            return True
        first_at, count = self.observed
        return run.first_at == first_at and run.count > count + 1


class IncidentTracker:
    """Tracker of current incidents; `tracked` has them by their keys."""

    def __init__(self, ledger: JournalIndex, policy: Policy, clock: UnixClock) -> None:
        self._ledger = ledger
        self._policy = policy
        self._clock = clock
        self.tracked: dict[str, TrackedIncident] = {}

    def update(self, snapshot: Snapshot) -> None:
        """Record incidents that are new, and those that have ended."""
        now, journal = self._clock.now(), self._ledger.journal
        connectors = snapshot.index.connectors
        current = {
            incident.key: incident
            for incident in incidents.find_incidents(snapshot, frozenset(self._policy.stop_on))
            if (view := connectors.get(incident.connector_key)) is not None
            and incidents.is_target(view.kind, view.class_name)
        }
        for key, incident in current.items():
            if key in self.tracked:
                self.tracked[key].incident = incident
                continue
            self.tracked[key] = TrackedIncident(incident)
            if key not in self._ledger.fleet.incidents:
                journal.control(
                    IncidentDetected(
                        at=now,
                        incident=key,
                        connect_cluster=incident.connect_cluster,
                        connector=incident.connector,
                        what=incident.what.value,
                        said=incident.said,
                    )
                )
        open_keys = self._find_open_keys(snapshot)
        for key in {*self.tracked, *self._ledger.fleet.incidents} - {*current, *open_keys}:
            self.tracked.pop(key, None)
            if key in self._ledger.fleet.incidents:
                journal.control(IncidentEnded(at=now, incident=key))
        self._ledger.read_on()

    def _find_open_keys(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the keys of incidents that stay open although their finding may be gone.

        These are incidents answered with a stop, while the connector is stopped, and those with a
        running or parked plan.
        """
        open_plans = {
            history.plan.remedy.incident
            for history in self._ledger.dossiers.values()
            if history.plan.remedy is not None and history.status.is_open
        }
        fleet, connectors = self._ledger.fleet, snapshot.index.connectors
        stopped = {
            key
            for key in fleet.stopped_by_us()
            if key in connectors and connectors[key].state == "stopped"
        }
        return frozenset(open_plans) | fleet.holding(stopped)

    def list_failed(self) -> list[tuple[TrackedIncident, FailureRun]]:
        """Return the incidents whose newest failure was not observed, with their longest run.

        Those without an answer come last: one that never has one does not hold up the others.
        So it is in `due`, too.
        """
        failed = [
            (tracked, run)
            for tracked in self.tracked.values()
            if (run := tracked.incident.worst) is not None
            and tracked.observed != (run.first_at, run.count)
        ]
        return sorted(failed, key=lambda pair: pair[0].unanswered)

    def due(self, woken: Collection[tuple[str, str]]) -> list[TrackedIncident]:
        """Return the visible incidents not evaluated within the last 15 s (EVALUATION_GAP_S).

        Incidents of connectors in `woken` are due at once.
        """
        now = self._clock.now()
        due = [
            tracked
            for tracked in self.tracked.values()
            if tracked.incident.shows
            and (
                tracked.evaluated_at is None
                or not 0 <= now - tracked.evaluated_at < EVALUATION_GAP_S
                or tracked.incident.connector_key in woken
            )
        ]
        return sorted(due, key=lambda tracked: tracked.unanswered)


class RemediationLoop:
    """Loop of guarded remediation; `ledger` is for its thread alone."""

    def __init__(
        self,
        *,
        ledger: JournalIndex,
        planner: Planner,
        executor: PlanExecutor,
        policy: Policy,
        snapshot: Callable[[], Snapshot],
        clock: UnixClock,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.ledger = ledger
        self._planner = planner
        self._executor = executor
        self._policy = policy
        self._snapshot = snapshot
        self._clock = clock
        self._stopping = stopping
        self._incidents = IncidentTracker(ledger, policy, clock)
        self._woken: set[tuple[str, str]] = set()
        self._blocking: dict[str, tuple[object, ...]] = {}
        self._compared_at = 0.0
        self._logged_places: set[str] = set()

    @property
    def counts(self) -> RemediationCounts:
        """Return this process's counts: finished plans, and actions that were blocked."""
        return self._executor.counts

    @property
    def fleet(self) -> FleetState:
        """Return the state of all connectors according to the journal."""
        return self.ledger.fleet

    def wake(self, connect: str, connector: str) -> None:
        """Mark a connector's incidents as due in the next round. Any thread may call it."""
        self._woken.add((connect, connector))

    def step(self) -> None:
        """Run one round: recover open plans, begin an approved one, evaluate new incidents.

        Raises JournalDamaged.
        """
        self.ledger.read_on()
        if self._executor.recover():
            return
        snapshot = self._snapshot()
        if not snapshot.ready:
            return
        self._planner.observe_mass_failure()
        self._incidents.update(snapshot)
        query_round = QueryRound()
        self._withdraw_outdated(query_round)
        if self._begin_approved() or self._stopping():
            return
        self._observe_failures(query_round)
        if self._stopping():
            return
        woken, self._woken = self._woken, set()
        for tracked in self._incidents.due(woken):
            self._consider(tracked, query_round)
            if self._stopping():
                return

    # --- what is new -----------------------------------------------------------------------------

    def _observe_failures(self, query_round: QueryRound) -> None:
        """Observe each new failure once; those of a silent cluster in the next round."""
        for tracked, run in self._incidents.list_failed():
            if self._stopping():
                return
            incident, answered = tracked.incident, True
            was_silent = query_round.is_silent(incident.connect_cluster)
            with self._contained(incident.connector_key, NO_ACTION):
                answered = self._planner.observe_failures(
                    incident, query_round, missed=tracked.has_missed_failures(run)
                )
            if answered:
                tracked.observed, tracked.unanswered = (run.first_at, run.count), 0
            elif not was_silent:
                tracked.unanswered += 1

    def _consider(self, tracked: TrackedIncident, query_round: QueryRound) -> None:
        """Evaluate an incident. Of a silent cluster nothing is read, and what is unknown denies."""
        connect = tracked.incident.connect_cluster
        was_silent = query_round.is_silent(connect)
        self._evaluate(tracked, query_round)
        if not was_silent:
            tracked.unanswered = tracked.unanswered + 1 if query_round.is_silent(connect) else 0

    def _evaluate(self, tracked: TrackedIncident, query_round: QueryRound) -> None:
        incident = tracked.incident
        tracked.evaluated_at = self._clock.now()
        key = incident.connector_key
        if key in self.fleet.at_work():
            return
        case = None
        with self._contained(key, NO_ACTION):
            case = self._planner.choose_action(incident, query_round)
        if case is None:
            return
        _log.debug(
            "remedy_considered",
            connector=incident.connector,
            action=case.action.value,
            failure=None if case.failure is None else case.failure.kind.value,
            said=incident.said,
        )
        if self._has_waiting_plan(key, case):
            return
        evaluation = None
        with self._contained(key, case.action.value):
            evaluation = self._planner.evaluate_case(case, query_round)
        if evaluation is not None:
            self._decide(tracked, evaluation)

    @contextmanager
    def _contained(self, key: ConnectorKey, action: str) -> Iterator[None]:
        """Limit an unexpected exception to the one incident or plan that is being read.

        It is counted, its traceback is logged once, and the incident or plan stays as it is. Not
        for writes: after an exception in a write the thread starts again from the journal.
        """
        try:
            yield
        except RemedyError:
            raise
        except Exception as exc:  # noqa: BLE001 - a bug or a library's surprise, about one of many
            self.counts.blocked[*key, action, UNEXPECTED] += 1
            location = raised_at(exc)
            if location not in self._logged_places and len(self._logged_places) < ERROR_PLACES_MAX:
                self._logged_places.add(location)
                _log.error("unexpected_error", name="remediation", connector=key[1], exc_info=exc)
            forget_locals(exc)

    def _has_waiting_plan(self, key: ConnectorKey, case: RemediationCase) -> bool:
        """Check whether a plan for this connector is already waiting.

        A proposal of the daemon for the same incident with another action is withdrawn, unless the
        cause of the failure is unknown now.
        """
        incident = case.incident
        assert incident is not None
        known = case.failure is not None or incident.what is not IncidentKind.FAILED
        for plan_id, plan in {**self.fleet.proposed(), **self.fleet.approved()}.items():
            if plan.connector_key != key:
                continue
            remedy = plan.remedy
            from_daemon = remedy is not None and plan.created_by == DETECTOR
            if not from_daemon or plan_id in self.fleet.approved():
                return True
            assert remedy is not None
            if remedy.incident != incident.key or remedy.action is case.action or not known:
                return True
            self._withdraw(plan_id, void=True, said=f"by now {case.action.value} may help instead")
        return False

    def _decide(self, tracked: TrackedIncident, evaluation: CaseEvaluation) -> None:
        """Propose the plan, approve it if the policy allows that, or record the refusal."""
        allowed = derive_permission(evaluation.answers)
        plan = evaluation.plan
        if plan is None or allowed in {Permission.NO, Permission.WOULD}:
            self._refuse(tracked, evaluation, would=allowed is Permission.WOULD)
            return
        incident, now = tracked.incident, self._clock.now()
        tracked.said = ()
        proposed = PlanProposed(
            at=now,
            plan=plan,
            mode=self.mode.value,
            expires_at=now + PROPOSAL_S,
            answers=evaluation.answers,
        )
        records: list[PlanProposed | PlanApproved] = [proposed]
        if allowed is Permission.ACT:
            because = "configuration allows it without a person"
            records.append(
                PlanApproved(at=now, by=POLICY_APPROVER, plan_sha256=plan.sha256, because=because)
            )
        self.ledger.journal.append(plan.plan_id, records)
        _log.info(
            "remedy_proposed",
            plan=plan.plan_id,
            connector=incident.connector,
            action=evaluation.action.value,
            approved=allowed is Permission.ACT,
        )
        self.ledger.read_on()

    @property
    def mode(self) -> Mode:
        """Return the effective mode: as configured, or as an operator has lowered it."""
        return lowest_mode(self._policy.mode, self.fleet.lowered_mode)

    def _refuse(self, tracked: TrackedIncident, evaluation: CaseEvaluation, *, would: bool) -> None:
        """Record the refusal if its reasons or its advice differ from the last recorded ones.

        Reasons are compared by guard and answer, because their texts count seconds, and a reason
        for no plan by its first word.
        """
        incident = tracked.incident
        answers = select_denying(evaluation.answers)
        if evaluation.plan is None:
            answers = (GuardAnswer(0, NO_PLAN, GuardResult.DENY, evaluation.said),)
        guards = tuple((answer.guard, answer.answer) for answer in answers)
        no_plan = evaluation.said.partition(":")[0]
        reasons = (evaluation.action, self.mode, would, no_plan, evaluation.recommend, *guards)
        if reasons == tracked.said:
            return
        tracked.said = reasons
        self._record_refusal(
            incident.key,
            incident.connector_key,
            evaluation.action,
            answers,
            would=would,
            recommend=evaluation.recommend,
        )
        self.ledger.read_on()

    def _record_refusal(
        self,
        incident: str,
        key: ConnectorKey,
        action: Action,
        answers: tuple[GuardAnswer, ...],
        *,
        would: bool = False,
        recommend: tuple[str, ...] = (),
    ) -> None:
        for answer in answers:
            self.counts.blocked[*key, action.value, answer.guard] += 1
        self.ledger.journal.control(
            ActionRefused(
                at=self._clock.now(),
                incident=incident,
                connect_cluster=key[0],
                connector=key[1],
                action=action.value,
                mode=self.mode.value,
                answers=answers,
                would=would,
                recommend=recommend,
            )
        )

    def _trip(self, tripped: tuple[tuple[str, str], ...]) -> None:
        """Open breakers where a budget is exceeded; only an operator closes them."""
        for scope, said in tripped:
            if scope not in self.fleet.breakers:
                self.ledger.journal.control(
                    BreakerSet(
                        at=self._clock.now(),
                        scope=scope,
                        open=True,
                        by=POLICY_APPROVER,
                        because=said,
                    )
                )

    # --- what is decided -------------------------------------------------------------------------

    def _withdraw_outdated(self, query_round: QueryRound) -> None:
        """Withdraw proposals that expired, whose incident is over, or that can no longer begin.

        No operator should approve a plan that can only be refused. An approved plan whose incident
        is over is withdrawn too: its guards would never know why it failed.
        """
        now = self._clock.now()
        compare = not 0.0 <= now - self._compared_at < PIN_CHECK_S
        if compare:
            self._compared_at = now
        for plan_id, plan in self.fleet.proposed().items():
            dossier = self.ledger.dossiers[plan_id]
            late = dossier.expires_at is not None and now >= dossier.expires_at
            incident = "" if plan.remedy is None else plan.remedy.incident
            gone = bool(incident) and incident not in self._incidents.tracked
            said, void = None, not late
            if plan.remedy is not None and plan.remedy.policy_sha256 != self._policy.sha256:
                said, void = "it was planned under another configuration", True
            elif late:
                said = "no operator approved it"
            elif gone:
                said = "its incident is over"
            elif compare:
                with self._contained(plan.connector_key, _action_name_of(plan)):
                    said = self._planner.find_outdated_pin(plan, query_round)
            if said is not None:
                self._withdraw(plan_id, void=void, said=said)
        for plan_id, plan in self.fleet.approved().items():
            if plan.remedy is not None and plan.remedy.incident and self._incident(plan) is None:
                self._withdraw(plan_id, void=True, said="its incident is over")
        self.ledger.read_on()

    def _withdraw(self, plan_id: str, *, void: bool, said: str) -> None:
        now = self._clock.now()
        self.ledger.journal.decide(
            plan_id, lambda records: decisions.withdraw_plan(records, void=void, said=said, now=now)
        )

    def _begin_approved(self) -> bool:
        """Begin one approved plan that its guards admit. Return whether one was begun."""
        approved = self.fleet.approved()
        self._blocking = {
            plan_id: guards for plan_id, guards in self._blocking.items() if plan_id in approved
        }
        for plan_id, plan in approved.items():
            dossier = self.ledger.dossiers[plan_id]
            guard_inputs = self._executor.read_guard_inputs()
            admitted = None
            with self._contained(plan.connector_key, _action_name_of(plan)):
                approval = approval_of(dossier, self._not_before(plan))
                admitted = self._planner.admit(plan, self._incident(plan), approval)
            if admitted is None:
                continue
            self._trip(admitted.tripped)
            blocking = select_denying(admitted.answers)
            if not blocking:
                self._executor.carry_out(plan, self._incident(plan), dossier, guard_inputs)
                return True
            self._hold_back(plan_id, dossier, blocking)
        return False

    def _hold_back(
        self, plan_id: str, dossier: PlanHistory, blocking: tuple[GuardAnswer, ...]
    ) -> None:
        """Record what blocks the plan; withdraw it unless only transient guards do."""
        plan, now = dossier.plan, self._clock.now()
        assert plan.remedy is not None
        guards = tuple((answer.guard, answer.answer) for answer in blocking)
        if self._blocking.get(plan_id) != guards:
            self._blocking[plan_id] = guards
            remedy = plan.remedy
            self._record_refusal(remedy.incident, plan.connector_key, remedy.action, blocking)
        passing = all(
            answer.guard in _TRANSIENT_GUARDS or answer.answer is GuardResult.UNKNOWN
            for answer in blocking
        )
        if not passing or now - max(dossier.at, self._not_before(plan)) >= ADMISSION_WAIT_S_MAX:
            said = "; ".join(f"{answer.guard}: {answer.said}" for answer in blocking)
            self._withdraw(plan_id, void=True, said=said)
        self.ledger.read_on()

    def _not_before(self, plan: Plan) -> float:
        return self.fleet.not_before(plan, self._policy.cool_down_s)

    def _incident(self, plan: Plan) -> Incident | None:
        if plan.remedy is None:
            return None
        tracked = self._incidents.tracked.get(plan.remedy.incident)
        return None if tracked is None else tracked.incident


def _action_name_of(plan: Plan) -> str:
    return NO_ACTION if plan.remedy is None else plan.remedy.action.value
