"""Plan templates of guarded remediation: each action as absolute steps.

Pure. There are no other plans: nothing here resets, deletes, or writes to a topic of Connect's.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from offsetwatch.model.findings import Evidence
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    AnyStep,
    Copy,
    Expect,
    Freeze,
    PartitionOffset,
    Plan,
    PlanSubject,
    Prove,
    RecordLocation,
    RemediationContext,
    RequestedState,
    Restart,
    Settle,
    ToState,
    Watch,
)

DETECTOR: Final = "detector"
FAILURE_EVIDENCE: Final = "failure"  # of a plan: its kind and the exception's class
RESTART_QUIET_S: Final = 30.0  # most tasks that fail again do so at their first poll or record
QUIET_S: Final = 16.0  # a cancelled task may write once more; guards want fifteen


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """Values that all plans of guarded remediation have in common.

    at, by          Unix seconds, and the requester: DETECTOR for the daemon's own plans
    original        the state that the connector is in
    the rest        see RemediationContext
    """

    plan_id: str
    at: float
    by: str
    subject: PlanSubject
    original: RequestedState
    incident: str
    config_sha256: str
    evidence: Evidence = ()
    signature: str | None = None
    incarnation: str | None = None
    token: str | None = None
    policy_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class RecordToSkip:
    """Record to skip, as it was read, with the offsets before and after it, both absolute.

    frm     must still be the committed offset, or nothing is changed
    """

    record: RecordLocation
    sha256: str
    size_bytes: int
    frm: PartitionOffset
    to: PartitionOffset


def compute_skip_key(subject: PlanSubject, record: RecordLocation) -> str:
    """Return the key that identifies a skip, whoever plans it and when.

    It hashes this record, for this connector of this Connect cluster, by ids that outlive names
    where there are any. A Connect cluster has no id of its own: several on one Kafka cluster may
    have connectors of the same name, and the configured name of the Connect cluster distinguishes
    them.
    """
    return _hash_skip(record, subject.identity or "", subject.store, subject.connector)


def compute_legacy_skip_key(subject: PlanSubject, record: RecordLocation) -> str:
    """Return the skip key of old journals.

    It does not distinguish Connect clusters on one Kafka cluster.
    """
    return _hash_skip(record, subject.identity or subject.store, subject.connector)


def _hash_skip(record: RecordLocation, *connector: str) -> str:
    location = (record.kafka, record.topic_id, record.topic)
    fields = (*connector, *location, str(record.partition), str(record.offset))
    return hashlib.sha256("\0".join(fields).encode()).hexdigest()


def build_skip_plan(
    about: PlanHeader, what: RecordToSkip, *, quarantine: str, stop_total_s: float, quiet_s: float
) -> Plan:
    """Build a plan that copies a record, stops the connector, skips the record and resumes.

    The offset is set behind the record only if it is still before it.
    """
    record = what.record
    key = compute_skip_key(about.subject, record)
    steps: tuple[AnyStep, ...] = (
        Copy(record, what.sha256, what.size_bytes, key, quarantine),
        ToState(RequestedState.STOPPED),
        Settle(QUIET_S),
        Freeze(),
        Expect((what.frm,)),
        Alter((what.to,)),
        ToState(RequestedState.RUNNING),
        Prove(what.to, record, quiet_s),
    )
    verb = (
        f"skip the record at offset {record.offset_text} of {record.log} "
        f"for {about.subject.connector}"
    )
    return _build_plan(
        about,
        Action.SKIP_ONE,
        verb,
        steps,
        RequestedState.RUNNING,
        skip_key=key,
        stop_total_s=stop_total_s,
    )


def build_stop_plan(about: PlanHeader) -> Plan:
    """Build a plan that stops the connector until an operator acts."""
    verb = f"stop {about.subject.connector} until a person acts"
    steps = (ToState(RequestedState.STOPPED),)
    return _build_plan(about, Action.STOP, verb, steps, RequestedState.STOPPED)


def build_restart_plan(about: PlanHeader) -> Plan:
    """Build a plan that restarts what has failed, once, and checks that it keeps running."""
    verb = f"restart what has failed of {about.subject.connector}"
    steps = (Restart(include_tasks=True, only_failed=True), Watch(RESTART_QUIET_S))
    return _build_plan(about, Action.RESTART_FAILED, verb, steps, about.original)


def build_restore_plan(about: PlanHeader, pairs: tuple[PartitionOffset, ...], backup: str) -> Plan:
    """Build a plan that sets the offsets of a backup again."""
    stop: tuple[AnyStep, ...] = (
        ToState(RequestedState.STOPPED),
        Settle(QUIET_S),
        Freeze(),
        Alter(pairs),
    )
    again = () if about.original is RequestedState.STOPPED else (ToState(about.original),)
    verb = f"restore the offsets of {about.subject.connector} from {backup}"
    return _build_plan(about, Action.RESTORE, verb, (*stop, *again), about.original)


def _build_plan(
    about: PlanHeader,
    action: Action,
    verb: str,
    steps: tuple[AnyStep, ...],
    final: RequestedState,
    *,
    skip_key: str | None = None,
    stop_total_s: float | None = None,
) -> Plan:
    return Plan(
        plan_id=about.plan_id,
        verb=verb,
        subject=about.subject,
        steps=steps,
        original=about.original,
        final=final,
        created_at=Moment(about.at),
        created_by=about.by,
        remedy=RemediationContext(
            action=action,
            incident=about.incident,
            skip_key=skip_key,
            config_sha256=about.config_sha256,
            signature=about.signature,
            incarnation=about.incarnation,
            token=about.token,
            policy_sha256=about.policy_sha256,
            evidence=about.evidence,
            stop_total_s=stop_total_s,
        ),
    )
