"""Everything a guard may want to know, gathered by others at one moment. None is unknown, and what
is unknown denies.

A guard names the facts it needs by its parameters, so no two facts have the same name, in whichever
group they are. Times are Unix seconds; offsets of Kafka are those of records.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from offsetwatch.remedy.model.fleet_state import Breaker, ConnectorKey, RecordSkip
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.model.policy import MassFailure
from offsetwatch.remedy.model.service_api import Mode


class SubjectKind(StrEnum):
    """What a connector is, as in Subject.kind."""

    SOURCE = "source"
    SINK = "sink"
    MIRROR = "mirror"


class PoisonSignal(StrEnum):
    """What else may speak for poison than that the position stands still.

    status_trace        Connect shows an exception that ended a task
    frozen_offset       the committed position did not move over all failures
    lag_growing         there is more to read than before
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
    """What is to be done to whom. Known, or there is no question."""

    connect: str
    connector: str
    kind: SubjectKind
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """Of this daemon.

    kill_switch     the stop file is there, or the journal says stop
    paused          a person holds everything
    mode_lowered    what a person has set since the configuration was read; Mode.AUTO for nothing
    journal_ok      every record verifies, the last one is the last one written, it can be appended
    disk_free_bytes where the journal and the backups are
    clock_skew_s    this clock less the brokers'
    clock_steady    wall and monotonic clock have gone on alike since the start
    started_at      since when this process watches
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
    """Of all connectors.

    connectors      how many there are
    unhealthy       those that have failed, are stalled or silent
    in_remedy       those with a plan that is not over, parked ones among them; without this plan
    storm_before    as it was at the look before
    alike           others of the same class, target host or worker that failed within 10 minutes
    """

    connectors: int | None = None
    unhealthy: frozenset[ConnectorKey] | None = None
    in_remedy: frozenset[ConnectorKey] | None = None
    storm_before: MassFailure | None = None
    alike: frozenset[ConnectorKey] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFacts:
    """From the journal (fleet_state.py).

    skips           of all connectors, a week back
    remedied_at     when plans of this connector ended; () if none ever did
    breakers        those that are open
    approved_successes  how often this action, approved by a person, was a success here
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
    """Why something should be done, all of it seen by us.

    findings        names of what is found wrong with this connector now
    shown_since     since when people can see it
    failure_kind    classify.FailureKind of the failure, or of what our own reading met
    veto            a kind in its chain that vetoes, "" for none
    failures        of this kind at this position
    failing_s       from the first of them to the last
    restarts        between them
    silent          it never failed: it stands still while everything claims to run
    frozen_s        for how long the position has not moved
    definitive      methods that each identify the record for certain
    conflicting     methods that speak for another one, or for none
    signals         that hold
    """

    findings: frozenset[str] | None = None
    shown_since: float | None = None
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
    """As it was when the plan was made, and as it is.

    connect_version     as `GET /` tells it, without what follows a letter
    offsets_api         its offsets could be asked for (KIP-875)
    operator_managed    something else sets it back; None where nobody can tell
    resource_problem    what speaks against a change of the resource that an operator goes by; ""
                        where nothing does
    class_name          connector.class
    tasks               when it runs
    partitions          source partitions, or topic partitions of its group
    state               `running`, `paused`, `stopped`, `failed`, `unassigned`, now
    tasks_now           by `GET /tasks` and by `/status`, the more of the two
    group_members       of a sink, the more of two looks some seconds apart
    identity...         of the place: Subject.identity
    config...           sha256 of its configuration
    incarnation...      what differs where it was deleted and created again
    token...            of what others asked Connect to do with it; what this plan did is left out
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
    """Of the partition that is to be altered. `next` counts as a consumer does, whatever the
    connector stores: of a sink what it has committed, of MirrorMaker the one after what it stored.

    fence_planned, fence_now    the whole stored offset, JSON with sorted keys
    next_now        what is read next as it stands
    next_wanted     what would be read next after the change
    poison          the record that is to be skipped
    first_existing  the first record at or after next_now
    earliest        of the log
    log_end         of the log
    readable_end    where this connector's consumer has to stop: the last stable offset where it
                    reads committed records only, else the log end
    topic_id_planned, topic_id_now      of the topic that is read
    bounds_read_at  when these were read
    raw_keys        under how many different keys the source partition is stored
    key_canonical   that key is the one that Connect would write
    tail_behind     records of the offsets topic that were there when asked and are not read yet;
                    of a sink 0, its group is asked
    views_agree     the tail, or the group, says what Connect's REST API says
    quiet_s         for how long nothing of this connector was written
    """

    fence_planned: str | None = None
    fence_now: str | None = None
    next_now: int | None = None
    next_wanted: int | None = None
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
    """That a person wants the plan of this hash.

    not_before  when the cool-down is over that the plan waits for; 0 if it waits for none
    """

    by: str
    at: float
    plan_sha256: str
    not_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """The plan itself, from its proposal on.

    created_at, created_by  `detector` where nobody asked for it
    plan_sha256     as it is in the journal
    policy_sha256   of the policy that it was made under
    records         that it skips
    approval        None for none: no person has approved it
    record_sha256   of the record as it was found
    receipt_sha256  of its copy, read back
    backup_verified all offsets were written down, and read back the same
    stopped_at      when the connector was asked to stop
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
    """See the module."""

    now: float
    target: ActionTarget
    ourselves: DaemonFacts = DaemonFacts()
    others: FleetFacts = FleetFacts()
    past: JournalFacts = JournalFacts()
    evidence: EvidenceFacts = EvidenceFacts()
    connector: ConnectorFacts = ConnectorFacts()
    offsets: OffsetFacts = OffsetFacts()
    plan: PlanFacts = PlanFacts()

    def by_name(self) -> dict[str, Any]:
        """Every fact under its own name."""
        found: dict[str, Any] = {"now": self.now}
        for each in fields(self)[1:]:
            group = getattr(self, each.name)
            found |= {field.name: getattr(group, field.name) for field in fields(group)}
        return found
