"""Remediation service: records requests in the journal, and answers queries from it.

The service itself only uses the journal; all else is passed in. The daemon has one for its control
listener, and an operator's process on the daemon's host has another on the same journal. Each
decision is taken under the journal's lock, so the later of two is refused.

Authorisation comes before: `by` is the name of an authenticated principal whose role allows the
call and whose scope includes the connector. At most three threads call a service at the same time:
`hint` from one, slow calls (`propose` and `verify`) from another, everything else from the third,
`inventory` from each.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from offsetwatch.clock import UnixClock
from offsetwatch.errors import ConnectorBusy, JournalDamaged
from offsetwatch.formatting import PROGRAM
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.execute import runner
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.journal.journal import CONTROL_PLAN_ID, JournalEntry, LinePublisher
from offsetwatch.remedy.model.approval import (
    PROPOSAL_S,
    DecisionRefusal,
    PlanHistory,
    approve_plan,
    extend_plan_history,
    reject_plan,
    request_abort,
)
from offsetwatch.remedy.model.journal_records import (
    AnyRecord,
    BreakerSet,
    ModeSet,
    PauseSet,
    PlanProposed,
)
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.service_api import (
    AlertHint,
    AlreadyDecided,
    ApprovalAnswer,
    BackupRow,
    ChangeRecorded,
    DecisionAnswer,
    JournalCheckFailed,
    JournalCheckPassed,
    JournalLine,
    KeyReused,
    Mode,
    PlanDetails,
    PlanHashMismatch,
    PlanningAnswer,
    PlanRequest,
    PlanRow,
    ProposalAccepted,
    ProposalAnswer,
    ProposalExpired,
    ProposalRefused,
    QuarantineRow,
    RequestedPlan,
    RequestTargetNotFound,
    SelfApproval,
    Switches,
    lowest_mode,
)
from offsetwatch.remedy.views import plan_view

HINTS_MAX: Final = 10_000  # alerts repeat for hours; a hint that was forgotten is one more look


class ServiceCallbacks(NamedTuple):
    """Functions for what the service cannot read from the journal.

    plan_for    plans what an operator (`by`) requests; runs in the proposing thread, may be slow
    wake        has the connector of a hint inspected soon. Never waits, may be called by any thread
    inventory   every known (Connect cluster, connector). Returns at once, any thread may call it
    """

    plan_for: Callable[[PlanRequest, str], PlanningAnswer]
    wake: Callable[[AlertHint], None]
    inventory: Callable[[], frozenset[tuple[str, str]]]


class RemediationService:
    """Remediation service on the journal.

    folder      the state directory
    mode        as configured: the mode that an operator sets is never above it
    second_person  the operator who requested a plan may not approve it
    cool_down_s  how long a proposed skip waits after the connector's last plan
    publish     publishes records to a journal that replicas share
    """

    def __init__(
        self,
        folder: Path,
        callbacks: ServiceCallbacks,
        clock: UnixClock,
        *,
        mode: Mode,
        second_person: bool = True,
        cool_down_s: float = 0.0,
        publish: LinePublisher | None = None,
    ) -> None:
        self._publish = publish
        self.folder = folder
        self._callbacks = callbacks
        self._clock = clock
        self._mode = mode
        self._second_person = second_person
        self._cool_down_s = cool_down_s
        self._hints: dict[tuple[str, str, bool], None] = {}
        self._thread_local = (
            threading.local()
        )  # SQLite's connections stay in the thread that made them

    def close(self) -> None:
        """Close this thread's connection to the journal."""
        ledger: JournalIndex | None = getattr(self._thread_local, "ledger", None)
        if ledger is not None:
            ledger.journal.close()
            del self._thread_local.ledger

    def _read(self) -> JournalIndex:
        ledger: JournalIndex | None = getattr(self._thread_local, "ledger", None)
        if ledger is None:
            ledger = self._thread_local.ledger = JournalIndex(self.folder, self._publish)
        ledger.read_on()
        return ledger

    # --- from the listener's own thread ----------------------------------------------------------

    def hint(self, hint: AlertHint) -> bool:
        """Have a connector inspected soon; return False if this very hint was given before.

        Never waits for a request.
        """
        known = (hint.fingerprint, hint.starts_at, hint.firing)
        if known in self._hints:
            return False
        if len(self._hints) >= HINTS_MAX:
            del self._hints[next(iter(self._hints))]
        self._hints[known] = None
        self._callbacks.wake(hint)
        return True

    def inventory(self) -> frozenset[tuple[str, str]]:
        """Return every known (Connect cluster, connector) as of the last poll. Returns at once."""
        return self._callbacks.inventory()

    # --- plans -----------------------------------------------------------------------------------

    def plans(self, state: PlanStatus | None = None) -> tuple[PlanRow, ...]:
        """Return the plans, newest first; all of them if `state` is None."""
        now = self._clock.now()
        ledger = self._read()
        rows = (
            plan_view.build_plan_row(history, now, self._not_before(ledger, history))
            for history in ledger.newest()
        )
        return tuple(row for row in rows if state in {None, row.state})

    def plan(self, plan_id: str) -> PlanDetails | None:
        """Return one plan; None if there is none with this id."""
        ledger = self._read()
        history = ledger.dossier(plan_id)
        if history is None:
            return None
        return plan_view.build_plan_details(
            history,
            ledger.journal.records(plan_id),
            self._clock.now(),
            ledger.refused(history.plan),
            not_before=self._not_before(ledger, history),
            second_person=self._second_person,
        )

    def _not_before(self, ledger: JournalIndex, history: PlanHistory) -> float:
        return ledger.fleet.not_before(history.plan, self._cool_down_s)

    def rehearse(
        self, request: PlanRequest, by: str
    ) -> PlanDetails | ProposalRefused | RequestTargetNotFound:
        """Return the plan that `propose` would propose; write nothing."""
        planned = self._callbacks.plan_for(request, by)
        if not isinstance(planned, RequestedPlan):
            return planned
        proposal = self._build_proposal(request, planned)
        history = extend_plan_history(None, proposal)
        assert history is not None
        return plan_view.build_plan_details(
            history, (proposal,), proposal.at, second_person=self._second_person
        )

    def propose(self, request: PlanRequest, by: str) -> ProposalAnswer:
        """Propose the plan that is requested. `key` is unique among requests of the same `by`."""
        ledger = self._read()
        answer = self._find_earlier_answer(ledger, request, by)
        if answer is not None:
            return answer
        planned = self._callbacks.plan_for(request, by)
        if not isinstance(planned, RequestedPlan):
            return planned
        proposal = self._build_proposal(request, planned)

        def decide(_: tuple[AnyRecord, ...]) -> PlanProposed | ProposalAccepted | KeyReused:
            ledger.read_on()  # another thread may have used the same key while this was planned
            return self._find_earlier_answer(ledger, request, by) or proposal

        decision = ledger.journal.decide(planned.plan.plan_id, decide)
        if isinstance(decision, ProposalAccepted | KeyReused):
            return decision
        return ProposalAccepted(row=self._row(planned.plan.plan_id), new=True)

    def _build_proposal(self, request: PlanRequest, planned: RequestedPlan) -> PlanProposed:
        now = self._clock.now()
        return PlanProposed(
            at=now,
            plan=planned.plan,
            mode=self.switches().mode.value,
            expires_at=now + PROPOSAL_S,
            answers=planned.answers,
            because=request.because,
            key=request.key,
            request_sha256=_hash_request(request),
        )

    def _find_earlier_answer(
        self, ledger: JournalIndex, request: PlanRequest, by: str
    ) -> ProposalAccepted | KeyReused | None:
        """Return the answer to an earlier request with this key; None if there was none."""
        history = ledger.find_request(request.key, by)
        if history is None or history.proposed is None:
            return None
        if history.proposed.request_sha256 != _hash_request(request):
            return KeyReused()
        return ProposalAccepted(row=plan_view.build_plan_row(history, self._clock.now()), new=False)

    def _row(self, plan_id: str) -> PlanRow:
        history = self._dossier(plan_id)
        return plan_view.build_plan_row(
            history, self._clock.now(), self._not_before(self._read(), history)
        )

    def approve(self, plan_id: str, sha256: str, by: str, because: str) -> ApprovalAnswer:
        """Approve exactly the plan with this hash."""
        now = self._clock.now()
        decision = self._read().journal.decide(
            plan_id,
            lambda written: approve_plan(
                written,
                by=by,
                sha256=sha256,
                because=because,
                now=now,
                second_person=self._second_person,
            ),
        )
        match decision:
            case DecisionRefusal.STALE:
                return PlanHashMismatch(sha256=self._dossier(plan_id).plan.sha256)
            case DecisionRefusal.EXPIRED:
                expires_at = self._dossier(plan_id).expires_at
                assert expires_at is not None
                return ProposalExpired(at=Moment(expires_at))
            case DecisionRefusal.OWN_PROPOSAL:
                return SelfApproval()
        return self._answer(plan_id, decision)

    def reject(self, plan_id: str, by: str, because: str) -> DecisionAnswer:
        """Reject a plan that has not begun."""
        now = self._clock.now()
        decision = self._read().journal.decide(
            plan_id, lambda written: reject_plan(written, by=by, because=because, now=now)
        )
        return self._answer(plan_id, decision)

    def abort(self, plan_id: str, by: str, because: str) -> DecisionAnswer:
        """Request the rollback of a running plan, as far as that is possible."""
        now = self._clock.now()
        decision = self._read().journal.decide(
            plan_id, lambda written: request_abort(written, by=by, because=because, now=now)
        )
        abort = self._dossier(plan_id).abort if decision is DecisionRefusal.DECIDED else None
        if abort is not None:
            return AlreadyDecided(state=self._row(plan_id).state, by=abort.by)
        return self._answer(plan_id, decision)

    def resolve(self, plan_id: str, by: str, because: str) -> DecisionAnswer:
        """Close a parked or in-doubt plan that the operator has handled.

        An open plan that no process works on counts as parked.
        """
        ledger = self._read()
        if ledger.dossier(plan_id) is None:
            return RequestTargetNotFound()
        try:
            closed = runner.resolve_plan(
                ledger.journal, plan_id, because=f"{by}: {because}", now=self._clock.now()
            )
        except ConnectorBusy:
            closed = False
        return ChangeRecorded(row=self._row(plan_id)) if closed else self._decided(plan_id)

    def _dossier(self, plan_id: str) -> PlanHistory:
        history = self._read().dossier(plan_id)
        assert history is not None
        return history

    def _answer(self, plan_id: str, decision: AnyRecord | DecisionRefusal) -> DecisionAnswer:
        if not isinstance(decision, DecisionRefusal):
            return ChangeRecorded(row=self._row(plan_id))
        return (
            RequestTargetNotFound()
            if decision is DecisionRefusal.UNKNOWN
            else self._decided(plan_id)
        )

    def _decided(self, plan_id: str) -> AlreadyDecided:
        history = self._dossier(plan_id)
        return AlreadyDecided(
            state=history.status_at(self._clock.now()), by=plan_view.find_decider(history)
        )

    # --- switches --------------------------------------------------------------------------------

    def switches(self) -> Switches:
        """Return mode, pause and open breakers. The mode is the lower of configured and set."""
        fleet, now = self._read().fleet, self._clock.now()
        return Switches(
            mode=lowest_mode(self._mode, fleet.lowered_mode),
            pause=plan_view.build_pause(fleet, now),
            breakers=tuple(fleet.breakers.values()),
        )

    def set_mode(self, mode: Mode, by: str, because: str) -> ChangeRecorded | ProposalRefused:
        """Set the mode from now on. A mode above the configured one is refused: it has no effect.

        The configured mode itself ends an earlier lowering.
        """
        if lowest_mode(self._mode, mode) is not mode:
            return ProposalRefused(
                said=f"{mode.value} is above what the configuration allows (remedy.mode: "
                f"{self._mode.value}), so it would have no effect. `{PROGRAM} mode "
                f"{self._mode.value}` ends an earlier lowering"
            )
        record = ModeSet(at=self._clock.now(), mode=mode.value, by=by, because=because)
        self._read().journal.control(record)
        return ChangeRecorded()

    def pause(self, until: float | None, by: str, because: str) -> ChangeRecorded:
        """Begin nothing new until then; None: until `unpause`."""
        return self._set_pause(paused=True, until=until, by=by, because=because)

    def unpause(self, by: str, because: str) -> ChangeRecorded:
        """End the pause. Without one, nothing changes."""
        if self.switches().pause is None:
            return ChangeRecorded()
        return self._set_pause(paused=False, until=None, by=by, because=because)

    def _set_pause(
        self, *, paused: bool, until: float | None, by: str, because: str
    ) -> ChangeRecorded:
        now = self._clock.now()
        self._read().journal.control(
            PauseSet(at=now, paused=paused, until=until, by=by, because=because)
        )
        return ChangeRecorded()

    def ack_breaker(
        self, scope: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound:
        """Close a breaker."""
        ledger, now = self._read(), self._clock.now()

        def decide(_: tuple[AnyRecord, ...]) -> BreakerSet | RequestTargetNotFound:
            ledger.read_on()
            if scope not in ledger.fleet.breakers:
                return RequestTargetNotFound()
            return BreakerSet(at=now, scope=scope, open=False, by=by, because=because)

        decision = ledger.journal.decide(CONTROL_PLAN_ID, decide)
        return decision if isinstance(decision, RequestTargetNotFound) else ChangeRecorded()

    # --- for those who share this journal's disk --------------------------------------------------

    def entries(self, plan_id: str) -> tuple[JournalEntry, ...]:
        """Return all records of a plan with their positions in the journal."""
        return self._read().journal.entries(plan_id)

    def busy(self, row: PlanRow) -> bool:
        """Check whether a process works on a plan's connector now."""
        return self._read().journal.busy(row.connect_cluster, row.connector)

    # --- records and backups ---------------------------------------------------------------------

    def journal(self, from_seq: int, count_max: int) -> tuple[JournalLine, ...]:
        """Return records of the journal from this one on, in order."""
        return tuple(
            JournalLine(
                seq=line.seq,
                plan_id=line.plan_id,
                prev_sha256=line.prev_sha256,
                sha256=line.sha256,
                record=line.record,
            )
            for line in self._read().journal.lines(from_seq, count_max)
        )

    def verify(self) -> JournalCheckPassed | JournalCheckFailed:
        """Read the whole journal, and compare it with its own hashes."""
        try:
            return JournalCheckPassed(records=self._read().journal.verify())
        except JournalDamaged as exc:
            return JournalCheckFailed(said=str(exc))

    def quarantine(self) -> tuple[QuarantineRow, ...]:
        """Return the records that were copied and read back before their skip, newest first."""
        return tuple(reversed(self._read().copied))

    def backups(self) -> tuple[BackupRow, ...]:
        """Return the backups of offsets, newest first."""
        return tuple(reversed(backups.list_backups(self.folder)))


def _hash_request(request: PlanRequest) -> str:
    """Return the SHA-256 of a request without its key."""
    content = msgspec.structs.replace(request, key="")
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()
