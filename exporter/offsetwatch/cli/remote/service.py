"""The remediation service of a remote daemon, used through its control listener.

The token or the certificate identifies the operator: `by` is not sent. A request is sent once. One
without a response may have been recorded: read the state again to find out.
"""

from __future__ import annotations

import re
from typing import Any, Final

import httpx
import msgspec

from offsetwatch.cli.remote.control_client import (
    ControlClient,
    ControlClientReply,
    ControlEndpoint,
    ControlProblem,
)
from offsetwatch.errors import ConfigError
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model import service_api
from offsetwatch.remedy.model.service_api import (
    AlreadyDecided,
    BackupRow,
    ChangeRecorded,
    JournalCheckFailed,
    JournalCheckPassed,
    JournalLine,
    KeyReused,
    Mode,
    PlanDetails,
    PlanHashMismatch,
    PlanRow,
    PlanState,
    ProposalAccepted,
    ProposalExpired,
    QuarantineRow,
    RequestTargetNotFound,
    SelfApproval,
    Switches,
)

_REFUSAL_STATUSES: Final = frozenset({403, 404, 409, 422})
_PLAN_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class _Plans(msgspec.Struct):
    plans: tuple[PlanRow, ...]


class _QuarantineRows(msgspec.Struct):
    quarantine: tuple[QuarantineRow, ...]


class _Backups(msgspec.Struct):
    backups: tuple[BackupRow, ...]


class _Connector(msgspec.Struct):
    connect_cluster: str
    connector: str


class _Connectors(msgspec.Struct):
    connectors: tuple[_Connector, ...]


class _JournalVerification(msgspec.Struct):
    intact: bool
    records: int = 0
    said: str = ""


class RemoteRemediationService:
    """An OperatorApi over HTTP.

    Raises ClientError if the listener does not answer or denies the request.
    """

    def __init__(self, listener: ControlEndpoint) -> None:
        self._asking = ControlClient(listener)

    def close(self) -> None:
        """Close the connections."""
        self._asking.close()

    def inventory(self) -> frozenset[tuple[str, str]]:
        """See OperatorApi."""
        found = self._asking.read(self._asking.ask("GET", "/connectors"), _Connectors).connectors
        return frozenset((connector.connect_cluster, connector.connector) for connector in found)

    # --- plans -----------------------------------------------------------------------------------

    def plans(self, state: PlanState | None = None) -> tuple[PlanRow, ...]:
        """See OperatorApi."""
        query = {} if state is None else {"state": state.value}
        answer = self._asking.ask("GET", "/plans", params=query)
        return self._asking.read(answer, _Plans).plans

    def plan(self, plan_id: str) -> PlanDetails | None:
        """See OperatorApi."""
        answer = self._asking.ask("GET", _format_plan_path(plan_id), also=frozenset({404}))
        return (
            None
            if answer.status == httpx.codes.NOT_FOUND
            else self._asking.read(answer, PlanDetails)
        )

    def propose(
        self, request: service_api.PlanRequest, by: str
    ) -> ProposalAccepted | KeyReused | service_api.ProposalRefused | RequestTargetNotFound:
        """See OperatorApi."""
        del by
        body: dict[str, Any] = {
            "action": request.wish.value,
            "connect_cluster": request.connect_cluster,
            "connector": request.connector,
            "because": request.because,
        }
        if request.pair is not None:
            body["partition"] = msgspec.Raw(request.pair.partition.encode())
            body["offset"] = msgspec.Raw((request.pair.offset or "null").encode())
        if request.backup is not None:
            body["backup"] = request.backup
        headers = {"Idempotency-Key": request.key}
        answer = self._asking.ask("POST", "/plans", body, headers=headers, also=_REFUSAL_STATUSES)
        if answer.fine:
            new = answer.status == httpx.codes.CREATED
            return ProposalAccepted(row=self._asking.read(answer, PlanRow), new=new)
        found = self._no(answer)
        if isinstance(found, KeyReused | service_api.ProposalRefused | RequestTargetNotFound):
            return found
        raise self._asking.strange(answer)

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
        """See OperatorApi."""
        del by
        body = {"plan_sha256": sha256, "because": because}
        answer = self._asking.ask(
            "POST", f"{_format_plan_path(plan_id)}/approve", body, also=_REFUSAL_STATUSES
        )
        if answer.fine:
            return ChangeRecorded(row=self._asking.read(answer, PlanRow))
        found = self._no(answer)
        if isinstance(
            found,
            RequestTargetNotFound
            | PlanHashMismatch
            | ProposalExpired
            | SelfApproval
            | AlreadyDecided,
        ):
            return found
        raise self._asking.strange(answer)

    def reject(
        self, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        """See OperatorApi."""
        del by
        return self._decide(plan_id, "reject", because)

    def abort(
        self, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        """See OperatorApi."""
        del by
        return self._decide(plan_id, "abort", because)

    def resolve(
        self, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        """See OperatorApi."""
        del by
        return self._decide(plan_id, "resolve", because)

    def _decide(
        self, plan_id: str, what: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        body = {"because": because}
        answer = self._asking.ask(
            "POST", f"{_format_plan_path(plan_id)}/{what}", body, also=_REFUSAL_STATUSES
        )
        if answer.fine:
            return ChangeRecorded(row=self._asking.read(answer, PlanRow))
        found = self._no(answer)
        if isinstance(found, RequestTargetNotFound | AlreadyDecided):
            return found
        raise self._asking.strange(answer)

    # --- switches --------------------------------------------------------------------------------

    def ack_breaker(
        self, scope: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound:
        """See OperatorApi."""
        del by
        body = {"scope": scope, "because": because}
        answer = self._asking.ask("POST", "/breakers/ack", body, also=frozenset({404}))
        return (
            RequestTargetNotFound() if answer.status == httpx.codes.NOT_FOUND else ChangeRecorded()
        )

    def switches(self) -> Switches:
        """See OperatorApi."""
        return self._asking.read(self._asking.ask("GET", "/mode"), Switches)

    def set_mode(self, mode: Mode, by: str, because: str) -> ChangeRecorded:
        """See OperatorApi."""
        del by
        self._asking.ask("PUT", "/mode", {"mode": mode.value, "because": because})
        return ChangeRecorded()

    def pause(self, until: float | None, by: str, because: str) -> ChangeRecorded:
        """See OperatorApi."""
        del by
        how: dict[str, Any]
        how = {"indefinite": True} if until is None else {"until": Moment(until)}
        self._asking.ask("POST", "/pause", {**how, "because": because})
        return ChangeRecorded()

    def unpause(self, by: str, because: str) -> ChangeRecorded:
        """See OperatorApi."""
        del by
        self._asking.ask("POST", "/unpause", {"because": because})
        return ChangeRecorded()

    # --- what is kept ----------------------------------------------------------------------------

    def journal(self, from_seq: int, count_max: int) -> tuple[JournalLine, ...]:
        """See OperatorApi."""
        answer = self._asking.ask("GET", "/journal", params={"from_seq": str(from_seq)})
        lines = answer.body.splitlines()[:count_max]
        return tuple(self._asking.decoded(line, JournalLine) for line in lines)

    def verify(self) -> JournalCheckPassed | JournalCheckFailed:
        """See OperatorApi."""
        found = self._asking.read(self._asking.ask("GET", "/journal/verify"), _JournalVerification)
        return (
            JournalCheckPassed(records=found.records)
            if found.intact
            else JournalCheckFailed(said=found.said)
        )

    def quarantine(self) -> tuple[QuarantineRow, ...]:
        """See OperatorApi."""
        return self._asking.read(self._asking.ask("GET", "/quarantine"), _QuarantineRows).quarantine

    def backups(self) -> tuple[BackupRow, ...]:
        """See OperatorApi."""
        return self._asking.read(self._asking.ask("GET", "/backups"), _Backups).backups

    def _no(
        self, answer: ControlClientReply
    ) -> (
        RequestTargetNotFound
        | PlanHashMismatch
        | ProposalExpired
        | SelfApproval
        | AlreadyDecided
        | KeyReused
        | service_api.ProposalRefused
    ):
        problem = self._asking.read(answer, ControlProblem)
        match problem.error:
            case "not_found" | "unknown_connector":
                return RequestTargetNotFound()
            case "plan_changed":
                return PlanHashMismatch(sha256=problem.plan_sha256)
            case "plan_expired":
                return ProposalExpired(at=problem.expired_at)
            case "self_approval":
                return SelfApproval()
            case "already_decided":
                return AlreadyDecided(state=problem.state, by=problem.by)
            case "idempotency_key_reused":
                return KeyReused()
            case "refused":
                return service_api.ProposalRefused(said=problem.message, guards=problem.guards)
        raise self._asking.strange(answer)


def _format_plan_path(plan_id: str) -> str:
    if not _PLAN_ID.fullmatch(plan_id):
        raise ConfigError((f"{plan_id}: that is no plan's id",))
    return f"/plans/{plan_id}"
