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

from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    AnyRecord,
    BreakerSet,
    IncidentDetected,
    IncidentEnded,
    ModeSet,
    PauseSet,
    PlanApproved,
    PlanEnded,
    PlanEnding,
    PlanLapsed,
    PlanOpened,
    PlanParked,
    PlanProposed,
    PlanRejected,
    PlanResumed,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    Copy,
    Plan,
    RecordLocation,
    RequestedState,
    Restart,
    ToState,
)
from offsetwatch.remedy.model.plan_templates import DETECTOR
from offsetwatch.remedy.model.service_api import Mode

POLICY_APPROVER: Final = "policy"  # who approves where no person has to
NEAR_OFFSETS: Final = 100  # offsets: two skips of one kind this close are not two accidents

ConnectorKey = tuple[str, str]  # place, connector


@dataclass(frozen=True, slots=True)
class RecordSkip:
    """Record that was skipped, or may have been; `at` is when the skip was requested."""

    at: float
    plan_id: str
    whose: ConnectorKey
    record: RecordLocation
    signature: str | None


@dataclass(frozen=True, slots=True)
class ConnectorRestart:
    """Restart that was requested.

    incident    key of the incident that it answers; "" for an operator's restart
    """

    at: float
    whose: ConnectorKey
    incident: str


@dataclass(frozen=True, slots=True)
class Breaker:
    """Breaker that stays open until an operator closes it.

    scope   `CONNECT/CONNECTOR`, or `*` for all connectors
    """

    scope: str
    opened_at: float
    said: str


@dataclass(slots=True)
class _PlanLifecycle:
    """Plan with its progress so far.

    stopped_at  since when the plan has, or may have, stopped its connector
    """

    plan: Plan
    approved_by: str | None = None
    decided: bool = False
    begun: bool = False
    over: bool = False
    parked: bool = False
    stopped_at: float | None = None


@dataclass(slots=True)
class FleetState:
    """State of all connectors; `successes` counts plans that an operator had approved."""

    seq: int = 0
    mode: ModeSet | None = None
    pause: PauseSet | None = None
    skips: list[RecordSkip] = field(default_factory=list)
    restarts: list[ConnectorRestart] = field(default_factory=list)
    breakers: dict[str, Breaker] = field(default_factory=dict)
    incidents: dict[str, IncidentDetected] = field(default_factory=dict)
    refused: dict[tuple[str, str], ActionRefused] = field(default_factory=dict)
    ended_at: dict[ConnectorKey, float] = field(default_factory=dict)
    successes: Counter[tuple[ConnectorKey, Action]] = field(default_factory=Counter)
    _lives: dict[str, _PlanLifecycle] = field(default_factory=dict)
    _held: dict[ConnectorKey, tuple[float, str]] = field(default_factory=dict)

    # --- what guards ask -------------------------------------------------------------------------

    @property
    def lowered_mode(self) -> Mode:
        """Return the mode that an operator set last; AUTO, which lowers nothing, if none is set."""
        return Mode.AUTO if self.mode is None or self.mode.mode is None else Mode(self.mode.mode)

    def paused(self, now: float) -> PauseSet | None:
        """Return the pause that is in force; None if there is none."""
        pause = self.pause
        if pause is None or not pause.paused or (pause.until is not None and now >= pause.until):
            return None
        return pause

    def at_work(self) -> frozenset[ConnectorKey]:
        """Return the connectors with a plan that has begun and is not over, parked or not."""
        return frozenset(
            _connector_key_of(live.plan) for live in self._lives.values() if live.begun
        )

    def parked(self) -> frozenset[ConnectorKey]:
        """Return the connectors with a parked plan, which an operator must decide."""
        return frozenset(
            _connector_key_of(live.plan) for live in self._lives.values() if live.parked
        )

    def proposed(self) -> dict[str, Plan]:
        """Return the plans that are not decided yet."""
        return {
            plan_id: plan_lifecycle.plan
            for plan_id, plan_lifecycle in self._lives.items()
            if not (plan_lifecycle.decided or plan_lifecycle.begun)
        }

    def approved(self) -> dict[str, Plan]:
        """Return the approved plans that have not begun, in the order of their proposals."""
        return {
            plan_id: plan_lifecycle.plan
            for plan_id, plan_lifecycle in self._lives.items()
            if plan_lifecycle.approved_by is not None and not plan_lifecycle.begun
        }

    def not_before(self, plan: Plan, cool_down_s: float) -> float:
        """Return when the cool-down after the connector's last plan ends, in Unix seconds.

        0 for a plan without cool-down: a restart, a stop, or an operator's own.
        """
        ended_at = self.ended_at.get(_connector_key_of(plan))
        if ended_at is None or plan.created_by != DETECTOR or plan.remedy is None:
            return 0.0
        return ended_at + cool_down_s if plan.remedy.action is Action.SKIP_ONE else 0.0

    def stopped_by_us(self) -> dict[ConnectorKey, float]:
        """Return the connectors that a plan has, or may have, stopped, with the time of the stop.

        Each is listed until it is verified to run again, or an operator has taken over.
        """
        found = {key: moment for key, (moment, _) in self._held.items()}
        for live in self._lives.values():
            if live.stopped_at is not None:
                key = _connector_key_of(live.plan)
                found[key] = min(live.stopped_at, found.get(key, live.stopped_at))
        return found

    def holding(self, stopped: Collection[ConnectorKey]) -> frozenset[str]:
        """Return the incidents answered with a stop whose connectors are still stopped."""
        return frozenset(incident for key, (_, incident) in self._held.items() if key in stopped)

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

    # --- taking in -------------------------------------------------------------------------------

    def take(self, seq: int, plan_id: str, record: AnyRecord) -> None:
        """Apply the next record of the journal."""
        self.seq = seq
        match record:
            case ModeSet():
                self.mode = record
            case PauseSet():
                self.pause = record
            case BreakerSet():
                self._set_breaker(record)
            case IncidentDetected():
                self.incidents.setdefault(record.incident, record)
            case IncidentEnded():
                self._incident_over(record.incident)
            case ActionRefused():
                self.refused[record.incident, record.action] = record
            case PlanProposed():
                self._lives[plan_id] = _PlanLifecycle(record.plan)
            case PlanOpened():
                self._lives.setdefault(plan_id, _PlanLifecycle(record.plan)).begun = True
            case _ if plan_id in self._lives:
                self._step(self._lives[plan_id], record)
                if self._lives[plan_id].over:
                    del self._lives[plan_id]

    def _step(self, plan_lifecycle: _PlanLifecycle, record: AnyRecord) -> None:
        match record:
            case PlanApproved():
                plan_lifecycle.approved_by, plan_lifecycle.decided = record.by, True
            case PlanRejected() | PlanLapsed():
                plan_lifecycle.over = True
            case PlanResumed():
                plan_lifecycle.parked = False
            case StepIntended():
                self._intended(plan_lifecycle, record)
            case StepVerified():
                if _is_running_again(plan_lifecycle, record):
                    plan_lifecycle.stopped_at = None
                if _is_manual_restart(plan_lifecycle, record):
                    self.restarts.append(
                        ConnectorRestart(record.at, _connector_key_of(plan_lifecycle.plan), "")
                    )
            case PlanParked():
                plan_lifecycle.parked = True
                self._open(
                    plan_lifecycle,
                    record.at,
                    f"plan {plan_lifecycle.plan.plan_id} is parked: {record.said}",
                )
            case PlanEnded():
                self._ended(plan_lifecycle, record)

    def _intended(self, plan_lifecycle: _PlanLifecycle, record: StepIntended) -> None:
        plan, key = plan_lifecycle.plan, _connector_key_of(plan_lifecycle.plan)
        if record.undoing:
            return
        step = plan.steps[record.index]
        match step:
            case ToState(state=RequestedState.STOPPED):
                plan_lifecycle.stopped_at = plan_lifecycle.stopped_at or record.at
            case Restart() if plan.remedy is not None:
                self.restarts.append(ConnectorRestart(record.at, key, plan.remedy.incident))
            case Alter() if plan.remedy is not None and plan.remedy.skip_key is not None:
                self._skipped(plan_lifecycle, record.at)

    def _skipped(self, plan_lifecycle: _PlanLifecycle, moment: float) -> None:
        plan, key = plan_lifecycle.plan, _connector_key_of(plan_lifecycle.plan)
        assert plan.remedy is not None
        if any(skip.plan_id == plan.plan_id for skip in self.skips):
            return  # asked for once more
        record = next(step.record for step in plan.steps if isinstance(step, Copy))
        skip = RecordSkip(moment, plan.plan_id, key, record, plan.remedy.signature)
        for earlier in self.skips:
            if _are_similar(earlier, skip):
                log = f"{record.topic}-{record.partition}"
                said = (
                    f"two records were skipped for one kind of failure, close to each other: "
                    f"{earlier.record.offset} and {record.offset} of {log}; check the producer "
                    "that writes them, not the records"
                )
                self._open(plan_lifecycle, moment, said)
        self.skips.append(skip)

    def _ended(self, plan_lifecycle: _PlanLifecycle, record: PlanEnded) -> None:
        plan, key = plan_lifecycle.plan, _connector_key_of(plan_lifecycle.plan)
        plan_lifecycle.over = True
        if not plan_lifecycle.begun or plan.remedy is None:
            return
        self.ended_at[key] = record.at
        # A restart that did not help is what a skip waits for; how many there may be is a guard's.
        restart = plan.remedy.action is Action.RESTART_FAILED
        if record.ending is PlanEnding.INEFFECTIVE and not restart:
            self._open(
                plan_lifecycle, record.at, f"plan {plan.plan_id} did not help: {record.said}"
            )
        if record.ending is PlanEnding.SUCCEEDED and plan_lifecycle.approved_by not in {
            None,
            POLICY_APPROVER,
        }:
            self.successes[key, plan.remedy.action] += 1
        stays = plan.final is RequestedState.STOPPED and record.ending is PlanEnding.SUCCEEDED
        if stays and plan_lifecycle.stopped_at is not None:
            self._held[key] = (plan_lifecycle.stopped_at, plan.remedy.incident)

    def _incident_over(self, incident: str) -> None:
        self.incidents.pop(incident, None)
        self._held = {whose: item for whose, item in self._held.items() if item[1] != incident}
        for key in [row_key for row_key in self.refused if row_key[0] == incident]:
            del self.refused[key]

    def _set_breaker(self, record: BreakerSet) -> None:
        if record.open:
            self.breakers.setdefault(record.scope, Breaker(record.scope, record.at, record.because))
        else:
            self.breakers.pop(record.scope, None)

    def _open(self, plan_lifecycle: _PlanLifecycle, moment: float, said: str) -> None:
        if plan_lifecycle.plan.remedy is None:
            return  # a person's own change of the toolbox
        scope = "/".join(_connector_key_of(plan_lifecycle.plan))
        self.breakers.setdefault(scope, Breaker(scope, moment, said))


def _connector_key_of(plan: Plan) -> ConnectorKey:
    return (plan.subject.place, plan.subject.connector)


def _are_similar(one: RecordSkip, other: RecordSkip) -> bool:
    same_log = (one.record.kafka, one.record.topic, one.record.partition) == (
        other.record.kafka,
        other.record.topic,
        other.record.partition,
    )
    near = abs(one.record.offset - other.record.offset) <= NEAR_OFFSETS
    return one.whose == other.whose and same_log and near and one.signature == other.signature


def _is_manual_restart(plan_lifecycle: _PlanLifecycle, record: StepVerified) -> bool:
    """Return whether an operator's restart of tasks with the toolbox is done.

    It names no incident, and one that exists may have outlasted it.
    """
    if record.undoing or plan_lifecycle.plan.remedy is not None:
        return False
    step = plan_lifecycle.plan.steps[record.index]
    return isinstance(step, Restart) and step.include_tasks


def _is_running_again(plan_lifecycle: _PlanLifecycle, record: StepVerified) -> bool:
    """Check whether the verified step shows that a connector stopped by the plan no longer is.

    In a rollback this is the last step, and the end of the plan shows it.
    """
    if record.undoing:
        return False
    step = plan_lifecycle.plan.steps[record.index]
    return isinstance(step, ToState) and step.state is not RequestedState.STOPPED
