"""What is to be changed, all of it, before anything is: the plan and its steps.

A plan is immutable and known by its hash. Every value in it is absolute, so that carrying a step
out twice is carrying it out once; none is ever worked out anew later. Where an offset stands while
its connector runs is not in it: that is looked up once the connector has stopped (`Freeze`).
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from offsetwatch.model.evidence import Evidence
from offsetwatch.model.moments import Moment, read_moment


class RequestedState(StrEnum):
    """What a connector can be asked to be."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class PartitionOffset(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """A source partition (of a sink: a topic partition) and its offset, both JSON with sorted keys.

    offset      None for none: not there, or to be removed
    key         the raw key as a task looks it up; None: in the order of a HashMap, or not known
    """

    partition: str
    offset: str | None
    key: str | None = None


class RawOffsetRecord(msgspec.Struct, frozen=True):
    """A record of an offsets topic, or an entry of an offsets file: the very bytes, in base64.

    kpartition  of the topic; None in a file
    value       None removes
    """

    key: str
    value: str | None
    kpartition: int | None = None


class LocatedRawRecord(RawOffsetRecord, frozen=True):
    """A record as it was read.

    where       `kafka/topic`, or the path of a file; None in journals of before 1.0
    """

    where: str | None = None


class Step(msgspec.Struct, frozen=True, tag_field="step"):
    """One change of the outside world, or one look at it."""


class ToState(Step, frozen=True, tag="to_state"):
    """Ask for a state and wait until connector and tasks are in it."""

    state: RequestedState


class Settle(Step, frozen=True, tag="settle"):
    """Wait until nothing of the connector is written any more: a task's last commit may come after
    it has stopped, and a sink's group empties after its consumers have left.

    quiet_s     for how long nothing was written; None for what the driver holds to be enough
    """

    quiet_s: float | None = None


class Freeze(Step, frozen=True, tag="freeze"):
    """Look all offsets of the connector up, and back them up: what every later step is held
    against, and what is put back if one fails. Writes a file of ours and nothing else.
    """


class Alter(Step, frozen=True, tag="alter"):
    """Give these partitions these offsets; the others stay."""

    pairs: tuple[PartitionOffset, ...]


class Reset(Step, frozen=True, tag="reset"):
    """Forget every offset of the connector."""


class Write(Step, frozen=True, tag="write"):
    """Write these bytes, because Connect cannot be asked to, or is not there to be asked.

    where       `kafka/topic`, or the path of an offsets file
    pairs       what the partitions concerned are to hold afterwards, for the look; none where no
                task is handed anything of these records
    """

    where: str
    records: tuple[RawOffsetRecord, ...]
    pairs: tuple[PartitionOffset, ...]


class Create(Step, frozen=True, tag="create"):
    """Create the connector, stopped. Its configuration may hold secrets: only its hash is here, and
    whoever carries the plan on brings the configuration again.
    """

    config_sha256: str


class Delete(Step, frozen=True, tag="delete"):
    """Delete the connector. Its offsets stay: that is what Connect does.

    config_sha256   only if its configuration hashes to this: what a Create of ours made, and not a
                    namesake that somebody else created meanwhile; None for whatever it is
    """

    config_sha256: str | None = None


class Restart(Step, frozen=True, tag="restart"):
    """Restart the connector, and its tasks as asked for."""

    include_tasks: bool = True
    only_failed: bool = False


class DeleteTopic(Step, frozen=True, tag="delete_topic"):
    """Delete a topic of this id, which nobody else uses."""

    kafka: str
    topic: str
    topic_id: str


class RecordLocation(msgspec.Struct, frozen=True):
    """One record of a log: where it stands, in which incarnation of the topic.

    kafka       the configured name of the cluster
    """

    kafka: str
    topic: str
    topic_id: str
    partition: int
    offset: int


class Copy(Step, frozen=True, tag="copy"):
    """Copy a record to quarantine before it is skipped. Nothing of the connector is changed.

    sha256      of the record (clients.records_read): what is there must still be that record
    skip_key    under which the copy is found again; see Remedy
    to          `kafka/topic`, or the path of a folder
    """

    record: RecordLocation
    sha256: str
    size_bytes: int
    skip_key: str
    to: str


class Expect(Step, frozen=True, tag="expect"):
    """Go on only if these source partitions have exactly these offsets, now that the connector
    stands still: Connect itself has no compare-and-set.
    """

    pairs: tuple[PartitionOffset, ...]


class Prove(Step, frozen=True, tag="prove"):
    """See the connector get past the record that was skipped, or find nothing more to read, and
    run for `quiet_s` without failing.

    pair        the partition and the offset that it was given
    record      what was skipped
    """

    pair: PartitionOffset
    record: RecordLocation
    quiet_s: float


class Watch(Step, frozen=True, tag="watch"):
    """See the connector and all of its tasks run for `quiet_s` without a failure: Connect accepts a
    restart or a resume of what fails again a moment later.
    """

    quiet_s: float


VerificationStep = Prove | Watch
"""What only looks, after all was done, whether it has helped."""

AnyStep = (
    ToState
    | Settle
    | Freeze
    | Alter
    | Reset
    | Write
    | Create
    | Delete
    | Restart
    | DeleteTopic
    | Copy
    | Expect
    | Prove
    | Watch
)


class Action(StrEnum):
    """All that guarded remediation does; there is no other. Only a person restores."""

    NOTIFY = "notify"
    RESTART_FAILED = "restart_failed"
    STOP = "stop"
    SKIP_ONE = "skip_one"
    RESTORE = "restore"


class RemediationContext(msgspec.Struct, frozen=True):
    """Of a plan of guarded remediation: what it answers to.

    incident        its key
    skip_key        what is skipped, whoever plans it, whenever: no record is skipped twice
    config_sha256   of the connector's configuration that it was made for
    signature       of the failure (classify.Failure); None where there was none
    incarnation     what differs where it was deleted and created again meanwhile
    token           of what others asked Connect to do with it until then
    policy_sha256   of the configuration of remedies that it was made under
    evidence        what it rests on, for people
    stop_total_s    by when to begin to resume, after the stop was asked for
    """

    action: Action
    incident: str
    skip_key: str | None = None
    config_sha256: str | None = None
    signature: str | None = None
    incarnation: str | None = None
    token: str | None = None
    policy_sha256: str | None = None
    evidence: Evidence = ()
    stop_total_s: float | None = None


class PlanSubject(msgspec.Struct, frozen=True):
    """What is changed, and how it is reached.

    driver      `rest` or `storage`
    place       the configured name of the Connect cluster, or where the storage is
                (`kafka/topic`, or the path of a file); with the connector's name the lock's name
    connector   its name
    kind        `source`, `sink` or `mirror`
    identity    what the place must still be when a step is carried out: the id of the Kafka
                cluster, as `GET /` or the brokers tell it; None if nothing tells
    """

    driver: str
    place: str
    connector: str
    kind: str
    identity: str | None = None


class Plan(msgspec.Struct, frozen=True):
    """See the module.

    verb        what a person asked for, in words
    original    the state that the connector was in; None if there was none
    final       the state that it is to end in; None if it is to end as nothing
    created_at  on disk in Unix seconds
    created_by  the operating system's name of who asked; `detector` where nobody did
    remedy      of a plan that answers to an incident; None of the toolbox's
    """

    plan_id: str
    verb: str
    subject: PlanSubject
    steps: tuple[AnyStep, ...]
    original: RequestedState | None
    final: RequestedState | None
    created_at: Moment
    created_by: str
    v: int = 1
    remedy: RemediationContext | None = None

    @property
    def sha256(self) -> str:
        """By what it is approved, and known in the journal."""
        return hashlib.sha256(encode_plan(self)).hexdigest()


class FrozenOffsets(msgspec.Struct, frozen=True):
    """What `Freeze` found: every offset of the connector, and where that was backed up.

    raw         the records behind them where the place shows any (storage), to be put back as
                they were
    """

    pairs: tuple[PartitionOffset, ...]
    backup: str
    backup_sha256: str
    raw: tuple[LocatedRawRecord, ...] = ()

    def records_of(self, where: str) -> dict[tuple[int | None, str], LocatedRawRecord]:
        """Return the records of one topic or file, by partition and key."""
        return {
            (record.kpartition, record.key): record
            for record in self.raw
            if record.where in {None, where}
        }


def encode_plan(plan: Plan) -> bytes:
    """Canonical: the same plan is always the same bytes."""
    return msgspec.json.encode(plan, order="deterministic", enc_hook=float)


def decode_plan(document: bytes) -> Plan:
    """The way back. Raises msgspec.DecodeError."""
    try:
        return msgspec.json.decode(document, type=Plan, dec_hook=read_moment)
    except (UnicodeDecodeError, RecursionError) as exc:
        raise msgspec.DecodeError(str(exc)) from exc
