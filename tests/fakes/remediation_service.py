"""A desk in memory: decides as a real one, and remembers every call that changes something."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.service_api import (
    AlertHint,
    AlreadyDecided,
    BackupRow,
    Breaker,
    ChangeRecorded,
    GuardAnswerRow,
    JournalCheckFailed,
    JournalCheckPassed,
    JournalLine,
    KeyReused,
    Mode,
    PlanDetails,
    PlanHashMismatch,
    PlanRequest,
    PlanRow,
    PlanStepRow,
    ProposalAccepted,
    ProposalExpired,
    ProposalRefused,
    QuarantineRow,
    RemediationPause,
    RequestTargetNotFound,
    SelfApproval,
    Switches,
)
from tests.fakes.clock import VirtualClock
from tests.unit.remedy.plans import plan_of

LIFE_S = 3600.0
GUARD = GuardAnswerRow(guard="bounds", number=28, answer="deny", said="beyond the end of the log")


def plan_row(plan_id: str = "p1", **more: Any) -> PlanRow:
    inputs = {
        "plan_id": plan_id,
        "sha256": plan_of(plan_id=plan_id).sha256,
        "state": PlanStatus.PROPOSED,
        "action": "skip_one",
        "connect_cluster": "lab",
        "connector": "orders",
        "created_at": Moment(1_800_000_000.0),
        "created_by": "ada",
        "said": "waits for somebody to approve it",
        "expires_at": Moment(1_800_003_600.0),
    }
    return PlanRow(**{**inputs, **more})


@dataclass
class MemoryService:
    """`changed` has every call that would change something; `before` is called at each call, in the
    thread that it comes from, and may raise.
    """

    clock: VirtualClock = field(default_factory=VirtualClock)
    known: frozenset[tuple[str, str]] = frozenset({("lab", "orders"), ("lab", "files")})
    rows: dict[str, PlanRow] = field(default_factory=dict)
    changed: list[tuple[Any, ...]] = field(default_factory=list)
    hints: list[AlertHint] = field(default_factory=list)
    refuse: ProposalRefused | RequestTargetNotFound | None = None
    damaged: JournalCheckFailed | None = None
    breakers: tuple[Breaker, ...] = ()
    lines: tuple[JournalLine, ...] = ()
    set_aside: tuple[QuarantineRow, ...] = ()
    backup_rows: tuple[BackupRow, ...] = ()
    before: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self._keys: dict[tuple[str, str], tuple[PlanRequest, str]] = {}
        self._mode = Mode.OBSERVE
        self._pause: RemediationPause | None = None
        self._lock = threading.Lock()

    def hint(self, hint: AlertHint) -> bool:
        self.before("hint")
        new = hint not in self.hints
        self.hints.append(hint)
        return new

    def inventory(self) -> frozenset[tuple[str, str]]:
        self.before("inventory")
        return self.known

    def plans(self, state: PlanStatus | None = None) -> tuple[PlanRow, ...]:
        self.before("plans")
        return tuple(row for row in self.rows.values() if state in (None, row.state))

    def plan(self, plan_id: str) -> PlanDetails | None:
        self.before("plan")
        row = self.rows.get(plan_id)
        if row is None:
            return None
        step = PlanStepRow(step="stop", requests=("PUT /connectors/orders/stop",), status="to do")
        return PlanDetails(row=row, plan=plan_of(plan_id=plan_id), steps=(step,), guards=(GUARD,))

    def propose(
        self, request: PlanRequest, by: str
    ) -> ProposalAccepted | KeyReused | ProposalRefused | RequestTargetNotFound:
        self.before("propose")
        with self._lock:
            earlier = self._keys.get((by, request.key))
            if earlier is not None and earlier[0] != request:
                return KeyReused()
            if earlier is not None:
                return ProposalAccepted(row=self.rows[earlier[1]], new=False)
            if self.refuse is not None:
                return self.refuse
            self.changed.append(("propose", request, by))
            row = plan_row(
                f"p{len(self.rows) + 1}",
                action=request.action.value,
                connect_cluster=request.connect_cluster,
                connector=request.connector,
                created_by=by,
                created_at=Moment(self.clock.now()),
                expires_at=Moment(self.clock.now() + LIFE_S),
            )
            self.rows[row.plan_id] = row
            self._keys[by, request.key] = (request, row.plan_id)
            return ProposalAccepted(row=row, new=True)

    def approve(
        self, plan_id: str, sha256: str, by: str, because: str
    ) -> (
        ChangeRecorded
        | RequestTargetNotFound
        | PlanHashMismatch
        | ProposalExpired
        | SelfApproval
        | AlreadyDecided
    ):
        self.before("approve")
        with self._lock:
            row = self.rows.get(plan_id)
            if row is None:
                return RequestTargetNotFound()
            if row.sha256 != sha256:
                return PlanHashMismatch(sha256=row.sha256)
            if row.state is not PlanStatus.PROPOSED:
                return AlreadyDecided(state=row.state, by="somebody")
            if row.expires_at is not None and self.clock.now() >= row.expires_at:
                return ProposalExpired(at=row.expires_at)
            if row.created_by == by:
                return SelfApproval()
            return self._decided(row, PlanStatus.APPROVED, ("approve", plan_id, by, because))

    def reject(
        self, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        return self._from("reject", PlanStatus.PROPOSED, PlanStatus.REJECTED, plan_id, by, because)

    def abort(
        self, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        return self._from("abort", PlanStatus.RUNNING, PlanStatus.RUNNING, plan_id, by, because)

    def resolve(
        self, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        return self._from("resolve", PlanStatus.PARKED, PlanStatus.RESOLVED, plan_id, by, because)

    def _from(
        self, what: str, needed: PlanStatus, then: PlanStatus, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        self.before(what)
        with self._lock:
            row = self.rows.get(plan_id)
            if row is None:
                return RequestTargetNotFound()
            if row.state is not needed:
                return AlreadyDecided(state=row.state, by=None)
            return self._decided(row, then, (what, plan_id, by, because))

    def _decided(self, row: PlanRow, state: PlanStatus, call: tuple[Any, ...]) -> ChangeRecorded:
        self.changed.append(call)
        self.rows[row.plan_id] = msgspec.structs.replace(row, state=state)
        return ChangeRecorded(row=self.rows[row.plan_id])

    def ack_breaker(
        self, scope: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound:
        self.before("ack_breaker")
        remaining = tuple(breaker for breaker in self.breakers if breaker.scope != scope)
        if remaining == self.breakers:
            return RequestTargetNotFound()
        self.changed.append(("ack_breaker", scope, by, because))
        self.breakers = remaining
        return ChangeRecorded()

    def switches(self) -> Switches:
        self.before("switches")
        return Switches(mode=self._mode, pause=self._pause, breakers=self.breakers)

    def set_mode(self, mode: Mode, by: str, because: str) -> ChangeRecorded:
        self.before("set_mode")
        self.changed.append(("set_mode", mode, by, because))
        self._mode = mode
        return ChangeRecorded()

    def pause(self, until: float | None, by: str, because: str) -> ChangeRecorded:
        self.before("pause")
        self.changed.append(("pause", until, by, because))
        self._pause = RemediationPause(
            until=moment_of(until), by=by, at=Moment(self.clock.now()), because=because
        )
        return ChangeRecorded()

    def unpause(self, by: str, because: str) -> ChangeRecorded:
        self.before("unpause")
        self.changed.append(("unpause", by, because))
        self._pause = None
        return ChangeRecorded()

    def journal(self, from_seq: int, count_max: int) -> tuple[JournalLine, ...]:
        self.before("journal")
        return tuple(line for line in self.lines if line.seq >= from_seq)[:count_max]

    def verify(self) -> JournalCheckPassed | JournalCheckFailed:
        self.before("verify")
        return self.damaged or JournalCheckPassed(records=len(self.lines))

    def quarantine(self) -> tuple[QuarantineRow, ...]:
        self.before("quarantine")
        return self.set_aside

    def backups(self) -> tuple[BackupRow, ...]:
        self.before("backups")
        return self.backup_rows
