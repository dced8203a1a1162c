"""Facts for the guards, collected at one moment. None means unknown, and unknown denies.

A guard names the facts it needs by its parameters, so a fact's name is unique across all groups.
Times are Unix seconds. Kafka offsets are those of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from offsetwatch.remedy.model.fleet_state import ConnectorKey, RecordSkip
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.model.policy import MassFailure
from offsetwatch.remedy.model.service_api import Breaker, Mode


class SubjectKind(StrEnum):
    """Kind of a connector, as in PlanSubject.kind."""

    SOURCE = "source"
    SINK = "sink"
    MIRROR = "mirror"


class PoisonSignal(StrEnum):
    """Evidence for a poison record besides a position that does not advance.

    status_trace        Connect shows an exception that ended a task
    frozen_offset       the committed position did not move over all failures
    lag_growing         the lag is larger than at the first inspection, at the same position
    siblings_progress   other partitions of the connector advance
    probe_reproduces    our own reading of the record fails as the connector's does
    target_healthy      other connectors write to the same target, or this one to it from elsewhere
    """

    STATUS_TRACE = "status_trace"
    FROZEN_OFFSET = "frozen_offset"
    LAG_GROWING = "lag_growing"
    SIBLINGS_PROGRESS = "siblings_progress"
    PROBE_REPRODUCES = "probe_reproduces"
    TARGET_HEALTHY = "target_healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTarget:
    """Connector and action that the guards evaluate. Always known."""

    connect: str
    connector: str
    kind: SubjectKind
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """Facts of this daemon.

    kill_switch     the stop file exists
    paused          an operator has paused remediation
    mode_lowered    mode set by an operator since the configuration was read; Mode.AUTO if none was
    journal_ok      every record verifies, none is missing at the end, and it can be appended to
    disk_free_bytes of the disk with the journal and the backups
    clock_skew_s    this clock minus the brokers'
    clock_steady    wall and monotonic clock have advanced alike since the start
    started_at      when this process began to monitor
    """

    kill_switch: bool | None = None
    paused: bool | None = None
    mode_lowered: Mode | None = None
    journal_ok: bool | None = None
    disk_free_bytes: int | None = None
    clock_skew_s: float | None = None
    clock_steady: bool | None = None
    started_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """Facts of all connectors together.

    connectors      number of connectors
    unhealthy       those that have failed, are stalled or silent
    in_remedy       those with a plan that is not over, parked or not; without this plan
    mass_failure_before    mass failure as of the previous evaluation
    similar         others of the same class, target host or worker that failed within 10 minutes
    """

    connectors: int | None = None
    unhealthy: frozenset[ConnectorKey] | None = None
    in_remedy: frozenset[ConnectorKey] | None = None
    mass_failure_before: MassFailure | None = None
    similar: frozenset[ConnectorKey] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFacts:
    """Facts from the journal (fleet_state.py).

    skips           of all connectors, for the last week
    remedied_at     when plans of this connector ended; () if none ever did
    breakers        those that are open
    approved_successes  how often this action, approved by an operator, has succeeded here
    restarted_at    when this incident was answered with a restart
    records_since_skip  that this connector delivered since its last skip; not needed without one
    """

    skips: tuple[RecordSkip, ...] | None = None
    remedied_at: tuple[float, ...] | None = None
    breakers: tuple[Breaker, ...] | None = None
    approved_successes: int | None = None
    restarted_at: tuple[float, ...] | None = None
    records_since_skip: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFacts:
    """Facts for the action, all of them observed by offsetwatch itself.

    findings        names of the connector's current findings
    reported_since     when a user could first see the finding
    failure_kind    classify.FailureKind of the failure, or of our own read of the record
    veto            a kind in its chain of causes that vetoes a skip, "" if none does
    failures        of this kind at this position
    failing_s       from the first of them to the last
    restarts        between them
    silent          it never failed: it does not advance although everything reports running
    frozen_s        how long the position has not moved
    definitive      methods that each identify the record for certain
    conflicting     methods that point to another record, or to none
    signals         that hold
    """

    findings: frozenset[str] | None = None
    reported_since: float | None = None
    failure_kind: str | None = None
    veto: str | None = None
    failures: int | None = None
    failing_s: float | None = None
    restarts: int | None = None
    silent: bool | None = None
    frozen_s: float | None = None
    definitive: frozenset[str] | None = None
    conflicting: frozenset[str] | None = None
    signals: frozenset[PoisonSignal] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorFacts:
    """Facts of the connector: `..._planned` when the plan was made, all others now.

    connect_version     as `GET /` reports it, up to the first letter
    offsets_api         its offsets could be queried (KIP-875)
    operator_managed    another program reverts changes of it; None if unknown
    resource_problem    what prevents a change of the resource that an operator reconciles; "" if
                        nothing does
    class_name          connector.class
    tasks               while it runs
    partitions          source partitions, or topic partitions of its group
    state               `running`, `paused`, `stopped`, `failed`, `unassigned`, now
    tasks_now           the larger count of `GET /tasks` and `/status`
    group_members       of a sink, the larger count of two queries some seconds apart
    identity...         id of the cluster or storage: PlanSubject.identity
    config...           sha256 of its configuration
    incarnation...      differs if it was deleted and created again
    token...            state that other clients requested of Connect, without this plan's own stop
    read_at             when the newest of these was read
    """

    connect_version: tuple[int, ...] | None = None
    offsets_api: bool | None = None
    operator_managed: bool | None = None
    resource_problem: str | None = None
    class_name: str | None = None
    tasks: int | None = None
    partitions: int | None = None
    state: str | None = None
    tasks_now: int | None = None
    group_members: int | None = None
    identity_planned: str | None = None
    identity_now: str | None = None
    config_planned: str | None = None
    config_now: str | None = None
    incarnation_planned: str | None = None
    incarnation_now: str | None = None
    token_planned: str | None = None
    token_now: str | None = None
    read_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFacts:
    """Facts of the partition that is to be altered.

    `next` is the next offset to read, as a consumer counts, whatever the connector stores: for a
    sink its committed offset, for MirrorMaker the one after its stored offset.

    fence_planned, fence_now    the whole stored offset, JSON with sorted keys
    next_now        next offset to read now
    next_after     next offset to read after the change
    poison          offset of the record that is to be skipped
    first_existing  offset of the first record at or after next_now
    earliest        of the log
    log_end         of the log
    readable_end    where this connector's consumer has to stop: the last stable offset if it reads
                    committed records only, else the log end
    topic_id_planned, topic_id_now      of the topic that is read
    bounds_read_at  when these were read
    raw_keys        number of different keys under which the source partition is stored
    key_canonical   that key is the one that Connect would write
    tail_behind     records of the offsets topic that existed at the query and are not yet read; 0
                    for a sink, whose group is queried
    views_agree     the tail, or the group, agrees with Connect's REST API
    quiet_s         how long nothing of this connector was written
    """

    fence_planned: str | None = None
    fence_now: str | None = None
    next_now: int | None = None
    next_after: int | None = None
    poison: int | None = None
    first_existing: int | None = None
    earliest: int | None = None
    log_end: int | None = None
    readable_end: int | None = None
    topic_id_planned: str | None = None
    topic_id_now: str | None = None
    bounds_read_at: float | None = None
    raw_keys: int | None = None
    key_canonical: bool | None = None
    tail_behind: int | None = None
    views_agree: bool | None = None
    quiet_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApproval:
    """Approval of the plan with this hash by an operator.

    not_before  when the cool-down that the plan waits for ends; 0 if it waits for none
    """

    by: str
    at: float
    plan_sha256: str
    not_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """Facts of the plan itself, from its proposal on.

    created_at, created_by  `detector` for the daemon's own plans
    plan_sha256     as in the journal
    policy_sha256   of the policy under which it was made
    records         number of records that it skips
    approval        None if no operator has approved it
    record_sha256   of the record as it was found
    receipt_sha256  of the record's copy, read back
    backup_verified all offsets were backed up, and read back the same
    stopped_at      when the connector was requested to stop
    """

    created_at: float | None = None
    created_by: str | None = None
    plan_sha256: str | None = None
    policy_sha256: str | None = None
    records: int | None = None
    approval: PlanApproval | None = None
    record_sha256: str | None = None
    receipt_sha256: str | None = None
    backup_verified: bool | None = None
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFacts:
    """Facts of one evaluation of the guards, in groups."""

    now: float
    target: ActionTarget
    ourselves: DaemonFacts = DaemonFacts()
    others: FleetFacts = FleetFacts()
    past: JournalFacts = JournalFacts()
    evidence: EvidenceFacts = EvidenceFacts()
    connector: ConnectorFacts = ConnectorFacts()
    offsets: OffsetFacts = OffsetFacts()
    plan: PlanFacts = PlanFacts()
