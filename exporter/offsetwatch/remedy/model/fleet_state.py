"""State of all connectors, folded from the journal: skips, restarts, mode, pause, breakers, stops.

Pure. Records are applied one by one, in order, so keeping up costs nothing; a process that starts
again applies all of them and has the same state. The opening of a breaker after a plan is never
recorded: it follows from how the plan ended, so no crash can come in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from offsetwatch.model.moments import Moment
from offsetwatch.model.row_positions import ID_SPAN
from offsetwatch.remedy.model import journal_records as records
from offsetwatch.remedy.model.approval import PlanHistory, extend_plan_history
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    Copy,
    Plan,
    PlanStatus,
    RecordLocation,
    RequestedState,
    Restart,
    ToState,
)
from offsetwatch.remedy.model.plan_templates import DETECTOR
from offsetwatch.remedy.model.service_api import Breaker, Mode

POLICY_APPROVER: Final = "policy"  # who approves where no person has to
NEAR_OFFSETS: Final = 100  # offsets: two skips of one kind this close are not two accidents

ConnectorKey = tuple[str, str]  # place, connector


@dataclass(frozen=True, slots=True)
class RecordSkip:
    """Record that was skipped, or may have been; `at` is when the skip was requested."""

    at: float
    plan_id: str
    connector_key: ConnectorKey
    record: RecordLocation
    signature: str | None


@dataclass(frozen=True, slots=True)
class ConnectorRestart:
    """Restart that was requested.

    incident    key of the incident that it answers; "" for an operator's restart
    """

    at: float
    connector_key: ConnectorKey
    incident: str


@dataclass(slots=True)
class FleetState:
    """State of all connectors.

    successes   counts plans that an operator had approved
    plans       histories of the plans that are not over, in the order of their beginnings
    """

    seq: int = 0
    mode: records.ModeSet | None = None
    pause: records.PauseSet | None = None
    skips: list[RecordSkip] = field(default_factory=list)
    restarts: list[ConnectorRestart] = field(default_factory=list)
    breakers: dict[str, Breaker] = field(default_factory=dict)
    incidents: dict[str, records.IncidentDetected] = field(default_factory=dict)
    refused: dict[tuple[str, str], records.ActionRefused] = field(default_factory=dict)
    ended_at: dict[ConnectorKey, float] = field(default_factory=dict)
    successes: Counter[tuple[ConnectorKey, Action]] = field(default_factory=Counter)
    plans: dict[str, PlanHistory] = field(default_factory=dict)
    # Since when each plan has, or may have, stopped its connector.
    _stopped_at: dict[str, float] = field(default_factory=dict)
    _stops: dict[ConnectorKey, tuple[float, str]] = field(default_factory=dict)

    # --- queries of guards ------------------------------------------------------------------------

    @property
    def lowered_mode(self) -> Mode:
        """Return the mode that an operator set last; AUTO, which lowers nothing, if none is set."""
        return Mode.AUTO if self.mode is None or self.mode.mode is None else Mode(self.mode.mode)

    def paused(self, now: float) -> records.PauseSet | None:
        """Return the pause that is in force; None if there is none."""
        pause = self.pause
        if pause is None or not pause.paused or (pause.until is not None and now >= pause.until):
            return None
        return pause

    def at_work(self) -> frozenset[ConnectorKey]:
        """Return the connectors with a plan that has begun and is not over, parked or not."""
        return frozenset(
            history.plan.connector_key for history in self.plans.values() if history.status.is_open
        )

    def parked(self) -> frozenset[ConnectorKey]:
        """Return the connectors with a parked plan, which an operator must decide."""
        return frozenset(
            history.plan.connector_key
            for history in self.plans.values()
            if history.status.is_parked
        )

    def proposed(self) -> dict[str, Plan]:
        """Return the plans that are not decided yet."""
        return self._plans_in(PlanStatus.PROPOSED)

    def approved(self) -> dict[str, Plan]:
        """Return the approved plans that have not begun, in the order of their proposals."""
        return self._plans_in(PlanStatus.APPROVED)

    def _plans_in(self, status: PlanStatus) -> dict[str, Plan]:
        return {
            plan_id: history.plan
            for plan_id, history in self.plans.items()
            if history.status is status
        }

    def not_before(self, plan: Plan, cool_down_s: float) -> float:
        """Return when the cool-down after the connector's last plan ends, in Unix seconds.

        0 for a plan without cool-down: a restart, a stop, or an operator's own.
        """
        ended_at = self.ended_at.get(plan.connector_key)
        if ended_at is None or plan.created_by != DETECTOR or plan.remedy is None:
            return 0.0
        return ended_at + cool_down_s if plan.remedy.action is Action.SKIP_ONE else 0.0

    def stopped_by_us(self) -> dict[ConnectorKey, float]:
        """Return the connectors that a plan has, or may have, stopped, with the time of the stop.

        Each is listed until it is verified to run again, or an operator has taken over.
        """
        stops = {key: moment for key, (moment, _) in self._stops.items()}
        for plan_id, stopped_at in self._stopped_at.items():
            key = self.plans[plan_id].plan.connector_key
            stops[key] = min(stopped_at, stops.get(key, stopped_at))
        return stops

    def holding(self, stopped: Collection[ConnectorKey]) -> frozenset[str]:
        """Return the incidents answered with a stop whose connectors are still stopped."""
        return frozenset(incident for key, (_, incident) in self._stops.items() if key in stopped)

    def bounds(self) -> tuple[object, ...]:
        """Return the guards' inputs that operators and other plans may change at any moment.

        While this is unchanged, what the guards derived from it is valid.
        """
        return (
            self.mode,
            self.pause,
            frozenset(self.breakers),
            frozenset(self.ended_at.items()),
            self.at_work(),
            len(self.skips),
            len(self.restarts),
        )

    # --- records ----------------------------------------------------------------------------------

    def apply(self, seq: int, plan_id: str, record: records.AnyRecord) -> None:
        """Apply the next record of the journal."""
        self.seq = seq
        match record:
            case records.ModeSet():
                self.mode = record
            case records.PauseSet():
                self.pause = record
            case records.BreakerSet(open=False):
                self.breakers.pop(record.scope, None)
            case records.BreakerSet():
                breaker = Breaker(record.scope, Moment(record.at), record.because)
                self.breakers.setdefault(record.scope, breaker)
            case records.IncidentDetected():
                self.incidents.setdefault(record.incident, record)
            case records.IncidentEnded():
                self._end_incident(record.incident)
            case records.ActionRefused():
                self.refused[record.incident, record.action] = record
        before = self.plans.get(plan_id)
        history = extend_plan_history(before, record)
        if history is None:
            return
        self.plans[plan_id] = history
        if before is not None:
            self._apply_to_plan(before, record)
        if history.status.is_over:
            del self.plans[plan_id]
            self._stopped_at.pop(plan_id, None)

    def _apply_to_plan(self, history: PlanHistory, record: records.AnyRecord) -> None:
        """Apply a record of a plan; `history` is from before it."""
        plan = history.plan
        match record:
            case records.StepIntended(undoing=False):
                self._apply_intent(plan, record)
            case records.StepVerified(undoing=False):
                step = plan.steps[record.index]
                if isinstance(step, ToState) and step.state is not RequestedState.STOPPED:
                    self._stopped_at.pop(plan.plan_id, None)
                if plan.remedy is None and isinstance(step, Restart) and step.include_tasks:
                    # By hand, with the toolbox: it names no incident, which may have outlasted it.
                    self.restarts.append(ConnectorRestart(record.at, plan.connector_key, ""))
            case records.PlanParked():
                self._open_breaker(plan, record.at, f"plan {plan.plan_id} is parked: {record.said}")
            case records.PlanEnded():
                self._apply_end(history, record)

    def _apply_intent(self, plan: Plan, record: records.StepIntended) -> None:
        match plan.steps[record.index]:
            case ToState(state=RequestedState.STOPPED):
                self._stopped_at.setdefault(plan.plan_id, record.at)
            case Restart() if plan.remedy is not None:
                key = plan.connector_key
                self.restarts.append(ConnectorRestart(record.at, key, plan.remedy.incident))
            case Alter() if plan.remedy is not None and plan.remedy.skip_key is not None:
                self._apply_skip(plan, plan.remedy.signature, record.at)

    def _apply_skip(self, plan: Plan, signature: str | None, moment: float) -> None:
        if any(skip.plan_id == plan.plan_id for skip in self.skips):
            return  # asked for once more
        record = next(step.record for step in plan.steps if isinstance(step, Copy))
        skip = RecordSkip(moment, plan.plan_id, plan.connector_key, record, signature)
        for earlier in self.skips:
            if _are_similar(earlier, skip):
                log = f"{record.topic}-{record.partition}"
                said = (
                    f"two records were skipped for one kind of failure, close to each other: "
                    f"{earlier.record.offset_text} and {record.offset_text} of {log}; check the "
                    "producer that writes them, not the records"
                )
                self._open_breaker(plan, moment, said)
        self.skips.append(skip)

    def _apply_end(self, history: PlanHistory, record: records.PlanEnded) -> None:
        plan, key = history.plan, history.plan.connector_key
        if not history.status.is_open or plan.remedy is None:
            return
        self.ended_at[key] = record.at
        # A restart that did not help is what a skip waits for; how many there may be is a guard's.
        restart = plan.remedy.action is Action.RESTART_FAILED
        if record.ending is PlanStatus.INEFFECTIVE and not restart:
            self._open_breaker(plan, record.at, f"plan {plan.plan_id} did not help: {record.said}")
        if record.ending is not PlanStatus.SUCCEEDED:
            return
        if history.approved_by not in {None, POLICY_APPROVER}:
            self.successes[key, plan.remedy.action] += 1
        if plan.final is RequestedState.STOPPED and plan.plan_id in self._stopped_at:
            self._stops[key] = (self._stopped_at[plan.plan_id], plan.remedy.incident)

    def _end_incident(self, incident: str) -> None:
        self.incidents.pop(incident, None)
        self._stops = {key: item for key, item in self._stops.items() if item[1] != incident}
        for key in [row_key for row_key in self.refused if row_key[0] == incident]:
            del self.refused[key]

    def _open_breaker(self, plan: Plan, moment: float, said: str) -> None:
        if plan.remedy is None:
            return  # a person's own change of the toolbox
        scope = "/".join(plan.connector_key)
        self.breakers.setdefault(scope, Breaker(scope, Moment(moment), said))


def _are_similar(one: RecordSkip, other: RecordSkip) -> bool:
    same_log = (one.record.kafka, one.record.topic, one.record.partition) == (
        other.record.kafka,
        other.record.topic,
        other.record.partition,
    )
    # Of rows with a time, their numbers.
    near = abs(one.record.offset % ID_SPAN - other.record.offset % ID_SPAN) <= NEAR_OFFSETS
    return (
        one.connector_key == other.connector_key
        and same_log
        and near
        and one.signature == other.signature
    )
