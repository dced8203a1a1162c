"""How much is done and whether it may be (I6, I10): what was done before a run began, what the
product's guards say of it, and, counted apart from them, what must hold.

Guards are asked here with the fold of the journal (fleet.py) and nothing else: whether a plan may
begin by what those say that rest on Kafka, or on the daemon's picture, is not simulated.
"""

from __future__ import annotations

from typing import Final

import msgspec

from offsetwatch.remedy.gather.facts_collector import collect_journal_facts
from offsetwatch.remedy.gather.snapshot_queries import RemediationCase, collect_plan_facts
from offsetwatch.remedy.guards import GuardResult, Stage, evaluate
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model import fleet_state
from offsetwatch.remedy.model.facts import (
    ActionTarget,
    DaemonFacts,
    FleetFacts,
    GuardFacts,
    PlanApproval,
    SubjectKind,
)
from offsetwatch.remedy.model.journal_records import (
    PlanEnded,
    PlanFailureCause,
    PlanOpened,
    PlanParked,
    StepIntended,
)
from offsetwatch.remedy.model.plan import Alter, Plan, PlanStatus
from offsetwatch.remedy.model.plan_templates import DETECTOR
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.model.service_api import Mode
from tests.sim.invariants import must
from tests.sim.schedules import Schedule
from tests.sim.world import World

POLICY_GUARDS: Final = frozenset(
    {"mode", "mode_auto", "auto_action", "pause", "clock", "blast", "cool_down"}
    | {"budget_connector", "budget_fleet", "breaker"}
)
AGES_S: Final = (1200.0, 1800.0, 2400.0, 3000.0)  # of what was skipped before: within an hour


def done_before(journal: Journal, plan: Plan, now: float, *, skips: int, parked: int) -> None:
    """So many records were skipped for this connector within the hour, and so many plans of others
    wait for a person.
    """
    assert plan.remedy is not None
    alters = [offset for offset, step in enumerate(plan.steps) if isinstance(step, Alter)]
    for number in range(skips if plan.remedy.skip_key is not None else 0):
        moment, report = now - AGES_S[number], f"before-{number}"
        remedy = msgspec.structs.replace(plan.remedy, skip_key=report, signature=report)
        earlier = msgspec.structs.replace(plan, plan_id=report, remedy=remedy)
        journal.open(earlier, PlanOpened(at=moment, plan=earlier))
        intended = StepIntended(at=moment, index=alters[0], undoing=False)
        ended = PlanEnded(at=moment + 1.0, ending=PlanStatus.SUCCEEDED, said="done")
        journal.append(report, (intended, ended))
    for number in range(parked):
        report = f"elsewhere-{number}"
        subject = msgspec.structs.replace(plan.subject, connector=report)
        other = msgspec.structs.replace(plan, plan_id=report, subject=subject)
        journal.open(other, PlanOpened(at=now - 5000.0, plan=other))
        plan_parked = PlanParked(
            at=now - 4000.0,
            ending=PlanStatus.PARKED,
            cause=PlanFailureCause.CHANGED,
            said="somebody has to look",
        )
        journal.append(report, (plan_parked,))


def past_of_all(journal: Journal) -> fleet_state.FleetState:
    """What the journal says by now."""
    past = fleet_state.FleetState()
    for seq, plan_id, record in journal.since(1, 10_000):
        past.apply(seq, plan_id, record)
    return past


def against(
    journal: Journal,
    plan: Plan,
    policy: Policy,
    approval: PlanApproval | None,
    *,
    now: float,
    skew_s: float,
) -> frozenset[str]:
    """The guards that do not let it begin, or go on, of those that the journal answers."""
    assert plan.remedy is not None
    past = past_of_all(journal)
    subject = plan.subject
    case = RemediationCase(
        subject.store, subject.connector, plan.remedy.action, plan=plan, approval=approval
    )
    facts = GuardFacts(
        now=now,
        target=ActionTarget(
            connect=subject.store,
            connector=subject.connector,
            kind=SubjectKind(subject.kind),
            action=case.action,
        ),
        ourselves=DaemonFacts(
            paused=past.paused(now) is not None,
            mode_lowered=_lowered(past),
            clock_skew_s=skew_s,
            clock_steady=True,
        ),
        others=FleetFacts(in_remedy=past.at_work() - {(subject.store, subject.connector)}),
        past=collect_journal_facts(past, case, None),
        plan=collect_plan_facts(case),
    )
    by_person = plan.created_by != DETECTOR
    answers = evaluate(facts, policy, Stage.ADMIT, by_person=by_person)
    return frozenset(
        each.guard
        for each in answers
        if each.guard in POLICY_GUARDS and each.answer is not GuardResult.PASS
    )


def lowered(journal: Journal) -> Mode:
    """The mode that a person has set; Mode.AUTO for none."""
    return _lowered(past_of_all(journal))


def _lowered(past: fleet_state.FleetState) -> Mode:
    mode = past.mode
    return Mode.AUTO if mode is None or mode.mode is None else Mode(mode.mode)


class Bounds:
    """I6 and I10 of one run, by what its schedule says. `lowered_at` is when a person has set the
    mode to observe, `opened_at` when the plan was first begun.
    """

    def __init__(self, policy: Policy, schedule: Schedule) -> None:
        self._policy, self._schedule = policy, schedule
        self.lowered_at: float | None = None
        self.opened_at: float | None = None
        self._requests_checked = 0

    def hold(self, world: World, own: set[str]) -> None:
        """To be asked after whatever happens. `ours` are the requests that were looked at before
        they were sent.
        """
        for number, request in enumerate(
            world.connect.requests[self._requests_checked :], self._requests_checked + 1
        ):
            known = request.method == "GET" or request.who != "us" or f"#{number}" in own
            must(known, "I10", f"{request.method} {request.path} was asked for by nobody")
        self._requests_checked = len(world.connect.requests)
        if self.opened_at is None:
            return
        schedule, policy = self._schedule, self._policy
        observed = schedule.mode == "observe" or self.before(self.opened_at)
        must(not observed, "I10", "begun in mode observe")
        at_once = 1 + schedule.parked_elsewhere
        must(at_once <= min(policy.per_connect, policy.total), "I6", f"{at_once} at once")
        if world.skips:
            skips = 1 + schedule.skips_before
            most = policy.budgets.connector_hour
            must(skips <= most, "I6", f"{skips} skips within an hour, and {most} may be")

    def before(self, moment: float) -> bool:
        """Whether it was to observe by then."""
        return self.lowered_at is not None and self.lowered_at < moment
