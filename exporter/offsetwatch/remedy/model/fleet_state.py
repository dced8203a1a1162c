"""What the whole journal says that guards ask for: what was skipped and restarted and when, what a
person has set, which breakers are open, whom we hold stopped.

Pure. Taken in record by record, in order, so that it costs nothing to keep up; whoever starts anew
takes in all of them and stands at the same place. A breaker is never written down as opened: that
it is follows from how plans ended, so that no crash can come in between.
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

POLICY_APPROVER: Final = "policy"  # who approves where no person has to
NEAR_OFFSETS: Final = 100  # offsets: two skips of one kind this close are not two accidents

ConnectorKey = tuple[str, str]  # place, connector


@dataclass(frozen=True, slots=True)
class RecordSkip:
    """A record that was skipped, or may have been. `at`: when it was asked for."""

    at: float
    plan_id: str
    whose: ConnectorKey
    record: RecordLocation
    signature: str | None


@dataclass(frozen=True, slots=True)
class ConnectorRestart:
    """A restart that was requested. `incident`: the key of what it answers; "" of an operator's."""

    at: float
    whose: ConnectorKey
    incident: str


@dataclass(frozen=True, slots=True)
class Breaker:
    """Open until a person closes it. `scope`: `place/connector`."""

    scope: str
    opened_at: float
    said: str


@dataclass(slots=True)
class _PlanLifecycle:
    """A plan so far. `stopped_at`: since when we hold its connector stopped, or may."""

    plan: Plan
    approved_by: str | None = None
    decided: bool = False
    begun: bool = False
    over: bool = False
    parked: bool = False
    stopped_at: float | None = None


@dataclass(slots=True)
class FleetState:
    """See the module. `successes` are those that a person had approved."""

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

    def paused(self, now: float) -> PauseSet | None:
        """Who holds everything; None while nobody does."""
        pause = self.pause
        if pause is None or not pause.paused or (pause.until is not None and now >= pause.until):
            return None
        return pause

    def at_work(self) -> frozenset[ConnectorKey]:
        """Whose plans have begun and are not over; parked ones among them."""
        return frozenset(
            _connector_key_of(live.plan) for live in self._lives.values() if live.begun
        )

    def parked(self) -> frozenset[ConnectorKey]:
        """Of these, those that a person must decide."""
        return frozenset(
            _connector_key_of(live.plan) for live in self._lives.values() if live.parked
        )

    def proposed(self) -> dict[str, Plan]:
        """Plans that nobody has decided yet."""
        return {
            plan_id: plan_lifecycle.plan
            for plan_id, plan_lifecycle in self._lives.items()
            if not (plan_lifecycle.decided or plan_lifecycle.begun)
        }

    def approved(self) -> dict[str, Plan]:
        """Plans that may begin, in the order of their proposals."""
        return {
            plan_id: plan_lifecycle.plan
            for plan_id, plan_lifecycle in self._lives.items()
            if plan_lifecycle.approved_by is not None and not plan_lifecycle.begun
        }

    def not_before(self, plan: Plan, cool_down_s: float) -> float:
        """Return when the cool-down after the connector's last plan is over, in Unix seconds; 0 of
        a plan that no cool-down holds back: a restart, a stop, or an operator's own.
        """
        ended_at = self.ended_at.get(_connector_key_of(plan))
        if ended_at is None or plan.created_by != DETECTOR or plan.remedy is None:
            return 0.0
        return ended_at + cool_down_s if plan.remedy.action is Action.SKIP_ONE else 0.0

    def stopped_by_us(self) -> dict[ConnectorKey, float]:
        """Whom we hold stopped, or may, since when: until it was seen to run again, or a person
        has taken over.
        """
        found = {key: moment for key, (moment, _) in self._held.items()}
        for live in self._lives.values():
            if live.stopped_at is not None:
                key = _connector_key_of(live.plan)
                found[key] = min(live.stopped_at, found.get(key, live.stopped_at))
        return found

    def holding(self, stopped: Collection[ConnectorKey]) -> frozenset[str]:
        """Incidents that were answered with a stop, of those connectors that still are."""
        return frozenset(incident for key, (_, incident) in self._held.items() if key in stopped)

    def bounds(self) -> tuple[object, ...]:
        """What guards ask that people and other plans may change at any moment: where this is the
        same as before, so is what they said of it.
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
        """The next record of the journal."""
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
    """Return whether a restart of tasks is done that the toolbox was asked for: no incident is
    known of it, and one that is there may have outlived it.
    """
    if record.undoing or plan_lifecycle.plan.remedy is not None:
        return False
    step = plan_lifecycle.plan.steps[record.index]
    return isinstance(step, Restart) and step.include_tasks


def _is_running_again(plan_lifecycle: _PlanLifecycle, record: StepVerified) -> bool:
    """Whether what was verified is that a connector we stopped is no longer so. On the way back it
    is the last step that says it, and the end of the plan with it.
    """
    if record.undoing:
        return False
    step = plan_lifecycle.plan.steps[record.index]
    return isinstance(step, ToState) and step.state is not RequestedState.STOPPED
