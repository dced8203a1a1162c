"""An office on a journal, with a planner and a world that a test can look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from offsetwatch.remedy.model.journal_records import GuardAnswer, PlanApproved, PlanProposed
from offsetwatch.remedy.model.plan import Plan
from offsetwatch.remedy.model.service_api import (
    AlertHint,
    Mode,
    PlanRequest,
    ProposalRefused,
    RequestedAction,
    RequestedPlan,
    RequestTargetNotFound,
)
from offsetwatch.remedy.service import RemediationService, ServiceCallbacks
from tests.unit.remedy.plans import Bench, skip_of

GUARD_ANSWERS = (
    GuardAnswer(11, "repeat", "pass", "failed 3 times"),
    GuardAnswer(20, "cool_down", "pass", "15 min"),
)


def build_request(**more: Any) -> PlanRequest:
    inputs = {
        "action": RequestedAction.SKIP_ONE,
        "connect_cluster": "lab",
        "connector": "orders",
        "because": "it is poison",
        "key": "once",
    }
    return PlanRequest(**{**inputs, **more})


def hint(**more: Any) -> AlertHint:
    inputs = {
        "fingerprint": "f",
        "starts_at": "2030-01-01T00:00:00Z",
        "firing": True,
        "connect_cluster": "lab",
        "connector": "orders",
    }
    return AlertHint(**{**inputs, **more})


@dataclass
class Planner:
    """Plans a skip under another id each time, or says what it was told to say."""

    says: ProposalRefused | RequestTargetNotFound | None = None
    requests: list[tuple[PlanRequest, str]] = field(default_factory=list)

    def __call__(
        self, request: PlanRequest, by: str
    ) -> RequestedPlan | ProposalRefused | RequestTargetNotFound:
        self.requests.append((request, by))
        if self.says is not None:
            return self.says
        plan = skip_of(f"q{len(self.requests)}")
        return RequestedPlan(msgspec.structs.replace(plan, created_by=by), GUARD_ANSWERS)


@dataclass
class ServiceBench:
    """A bench, and an office on its journal."""

    folder: Path
    mode: Mode = Mode.PROPOSE

    def __post_init__(self) -> None:
        self.bench = Bench(self.folder)
        self.clock = self.bench.clock
        self.planner = Planner()
        self.woken: list[AlertHint] = []
        self.office = self.another()

    def another(self, *, second_person: bool = True) -> RemediationService:
        """Of another process, or of another thread."""
        world = ServiceCallbacks(
            self.planner, self.woken.append, lambda: frozenset({("lab", "orders")})
        )
        return RemediationService(
            self.folder, world, self.clock, mode=self.mode, second_person=second_person
        )

    def proposed(self, plan_id: str = "p1", **more: Any) -> Plan:
        """By the detector."""
        plan = skip_of(plan_id, **more)
        now = self.clock.now()
        self.bench.journal.append(
            plan_id,
            (
                PlanProposed(
                    at=now,
                    plan=plan,
                    mode="propose",
                    expires_at=now + 3600.0,
                    answers=GUARD_ANSWERS,
                ),
            ),
        )
        return plan

    def approved(self, plan_id: str = "p1", **more: Any) -> Plan:
        """By a person."""
        plan = self.proposed(plan_id, **more)
        record = PlanApproved(at=self.clock.now(), by="ada", plan_sha256=plan.sha256)
        self.bench.journal.append(plan_id, (record,))
        return plan
