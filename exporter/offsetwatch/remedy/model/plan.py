"""Plan of a change, fixed before anything is changed: its subject and its steps.

A plan is immutable and identified by its hash. Every value in it is absolute, so carrying out a
step twice has the effect of once; no value is computed again later. Offsets of a running connector
are not part of it: they are read once the connector has stopped (`Freeze`).
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final

import msgspec

from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.model.findings import Evidence
from offsetwatch.model.moments import Moment, read_moment
from offsetwatch.model.row_positions import (
    build_row_offset,
    format_log_offset,
    has_row_fields,
    read_row_position,
)

SOURCE_PREFIX: Final = "source:"
# Of a sink, MirrorSourceConnector, FileStream and JDBC: the offset's field, and what is added to it
# for the next record.
_POSITION_FIELDS: Final = {"kafka_offset": 0, "offset": 1, "position": 0, "incrementing": 1}
_ROW: Final = "row"  # JDBC with timestamps: all fields are one position


class RequestedState(StrEnum):
    """State that can be requested of a connector."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class PlanStatus(StrEnum):
    """Status of a plan, from its proposal to its end.

    proposed    waits for approval
    approved    will be carried out as soon as its guards pass
    running     is being carried out, or rolled back
    parked      an operator must decide; it keeps its connector locked
    in_doubt    a request shows no effect and may yet take it: an operator must inspect; it keeps
                its connector locked
    rejected    an operator rejected it; nothing was begun
    expired     it was not approved in time, or is no longer needed; nothing was begun
    succeeded   everything is as the plan requires
    ineffective the record was skipped, and the connector was not observed to get past it
    restored    something was begun, and is as it was before
    unchanged   nothing was begun
    resolved    an operator has closed it
    """

    PROPOSED = "proposed"
    APPROVED = "approved"
    RUNNING = "running"
    PARKED = "parked"
    IN_DOUBT = "in_doubt"
    REJECTED = "rejected"
    EXPIRED = "expired"
    SUCCEEDED = "succeeded"
    INEFFECTIVE = "ineffective"
    RESTORED = "restored"
    UNCHANGED = "unchanged"
    RESOLVED = "resolved"

    @property
    def is_waiting(self) -> bool:
        """Check whether the plan has not begun and may yet begin."""
        return self in {PlanStatus.PROPOSED, PlanStatus.APPROVED}

    @property
    def is_parked(self) -> bool:
        """Check whether an operator must decide about the plan."""
        return self in {PlanStatus.PARKED, PlanStatus.IN_DOUBT}

    @property
    def is_open(self) -> bool:
        """Check whether the plan has begun and is not over, so that it locks its connector."""
        return self is PlanStatus.RUNNING or self.is_parked

    @property
    def is_over(self) -> bool:
        """Check whether the plan is closed for good, begun or not."""
        return not (self.is_waiting or self.is_open)

    @property
    def has_begun(self) -> bool:
        """Check whether anything of the plan was carried out, or tried."""
        return not self.is_waiting and self not in {PlanStatus.REJECTED, PlanStatus.EXPIRED}


class PartitionOffset(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """Offset of a source partition (of a sink: a topic partition), both JSON with sorted keys.

    offset      None if there is none, or if it is to be removed
    key         raw key as a task looks it up; None if in HashMap order, or not known
    """

    partition: str
    offset: str | None
    key: str | None = None


def parse_position(pair: PartitionOffset | None) -> int | None:
    """Return the number in an offset that a record can be skipped by; None if it has none."""
    found = _find_position(pair)
    return None if found is None else found[1]


def parse_next_offset(pair: PartitionOffset | None) -> int | None:
    """Return the offset of the next record, as a consumer counts; None as in parse_position."""
    found = _find_position(pair)
    return None if found is None else found[1] + _POSITION_FIELDS.get(found[0], 1)


def build_offset_after(pair: PartitionOffset, record: int) -> PartitionOffset:
    """Return the offset of a connector that goes on after the record at the offset `record`.

    Raises ValueError where parse_position returns None.
    """
    found = _find_position(pair)
    if found is None or pair.offset is None:
        raise ValueError(f"{pair.offset} is no offset that a record can be skipped by")
    name = found[0]
    if name == _ROW:
        changed = build_row_offset(record)
    else:
        changed = msgspec.json.decode(pair.offset) | {name: record + 1 - _POSITION_FIELDS[name]}
    return PartitionOffset(pair.partition, encode_sorted(changed).decode())


def _find_position(pair: PartitionOffset | None) -> tuple[str, int] | None:
    if pair is None or pair.offset is None:
        return None
    offset = msgspec.json.decode(pair.offset)
    if not isinstance(offset, dict):
        return None
    if has_row_fields(offset):
        position = read_row_position(offset)
        return None if position is None else (_ROW, position)
    for name in _POSITION_FIELDS:
        value = offset.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return name, value
    return None


class RawOffsetRecord(msgspec.Struct, frozen=True):
    """Record of an offsets topic, or entry of an offsets file: its exact bytes, in base64.

    kpartition  partition of the topic; None in a file
    value       None removes the offset
    """

    key: str
    value: str | None
    kpartition: int | None = None


class LocatedRawRecord(RawOffsetRecord, frozen=True):
    """Raw record with where it was read.

    where       `kafka/topic`, or the path of a file; None in journals of before 1.0
    """

    where: str | None = None


class Step(msgspec.Struct, frozen=True, tag_field="step"):
    """Step of a plan: one change, or one inspection."""


class ToState(Step, frozen=True, tag="to_state"):
    """Request of a state; it waits until connector and tasks are in it."""

    state: RequestedState


class Settle(Step, frozen=True, tag="settle"):
    """Wait until nothing of the connector is written any more.

    A task's last commit may come after it has stopped, and a sink's group empties after its
    consumers have left.

    quiet_s     how long nothing was written; None for the driver's own default
    """

    quiet_s: float | None = None


class Freeze(Step, frozen=True, tag="freeze"):
    """Backup of all offsets of the stopped connector; writes only our own file.

    Every later step is compared with these offsets, and they are restored if one fails.
    """


class Alter(Step, frozen=True, tag="alter"):
    """Change of the offsets of these partitions; the others stay."""

    pairs: tuple[PartitionOffset, ...]


class Reset(Step, frozen=True, tag="reset"):
    """Removal of every offset of the connector."""


class Write(Step, frozen=True, tag="write"):
    """Write of raw records, where Connect's REST API cannot do it or no worker is running.

    where       `kafka/topic`, or the path of an offsets file
    pairs       offsets that these partitions should have afterwards, for the inspection; empty if
                no task is given anything of these records
    """

    where: str
    records: tuple[RawOffsetRecord, ...]
    pairs: tuple[PartitionOffset, ...]


class Create(Step, frozen=True, tag="create"):
    """Creation of the connector, stopped.

    Its configuration may hold secrets. So the plan has only its hash, and the process that resumes
    the plan must be given the configuration again.
    """

    config_sha256: str


class Delete(Step, frozen=True, tag="delete"):
    """Deletion of the connector. Its offsets stay, as Connect leaves them.

    config_sha256   delete it only if its configuration has this hash: then our Create made it, and
                    it is not another of that name created meanwhile; None for any
    """

    config_sha256: str | None = None


class Restart(Step, frozen=True, tag="restart"):
    """Restart of the connector, and of its tasks as requested."""

    include_tasks: bool = True
    only_failed: bool = False


class DeleteTopic(Step, frozen=True, tag="delete_topic"):
    """Deletion of the topic with this id, which has no other user."""

    kafka: str
    topic: str
    topic_id: str


class RecordLocation(msgspec.Struct, frozen=True):
    """Location of one record: cluster, topic and its id, partition and offset.

    kafka       the configured name of the cluster; of a line or a row `source:` and the name of its
                source, whose topics are files, and tables with an order (gather/source_logs.py)
    """

    kafka: str
    topic: str
    topic_id: str
    partition: int
    offset: int

    @property
    def offset_text(self) -> str:
        """Return the offset as people read it."""
        return format_log_offset(self.offset)

    @property
    def text(self) -> str:
        """Return the log and the offset as people read them."""
        return f"{self.log}@{self.offset_text}"

    @property
    def log(self) -> str:
        """Return the name of the log that has the record."""
        name = f"{self.kafka}/{self.topic}"
        return name if self.kafka.startswith(SOURCE_PREFIX) else f"{name}-{self.partition}"


class Copy(Step, frozen=True, tag="copy"):
    """Copy of a record to quarantine before it is skipped. The connector is not changed.

    sha256      of the record (RawRecord.sha256 in model/records.py); the topic must still have it
    skip_key    under which the copy is found again; see RemediationContext
    to          `kafka/topic`, or the path of a folder
    """

    record: RecordLocation
    sha256: str
    size_bytes: int
    skip_key: str
    to: str


class Expect(Step, frozen=True, tag="expect"):
    """Check that these source partitions have exactly these offsets, else the plan fails.

    It runs once the connector is stopped: Connect itself has no compare-and-set.
    """

    pairs: tuple[PartitionOffset, ...]


class Prove(Step, frozen=True, tag="prove"):
    """Check that the connector gets past the skipped record, or has nothing more to read.

    It must also run for `quiet_s` without failing.

    pair        partition and its new offset
    record      the skipped record
    """

    pair: PartitionOffset
    record: RecordLocation
    quiet_s: float


class Watch(Step, frozen=True, tag="watch"):
    """Check that the connector and all its tasks run for `quiet_s` without a failure.

    Connect accepts a restart or a resume of a connector that fails again a moment later.
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
    """Actions of guarded remediation; there is no other. Only an operator requests a restore."""

    NOTIFY = "notify"
    RESTART_FAILED = "restart_failed"
    STOP = "stop"
    SKIP_ONE = "skip_one"
    RESTORE = "restore"


class RemediationContext(msgspec.Struct, frozen=True):
    """Context of a plan of guarded remediation: its incident, pins and evidence.

    incident        its key
    skip_key        identifies the skip, whoever plans it and when: no record is skipped twice
    config_sha256   of the connector's configuration that it was made for
    signature       of the failure (classify.Failure); None where there was none
    incarnation     differs if the connector was deleted and created again meanwhile
    token           state that other clients had requested of Connect by then
    policy_sha256   of the remediation policy under which it was made
    evidence        what it rests on, for users
    stop_total_s    latest time after the request to stop at which to begin to resume
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


class PlanSubject(msgspec.Struct, frozen=True, rename={"store": "place"}):
    """Subject of a plan: the connector, and how it is reached.

    driver      `rest`, `strimzi` or `storage`
    store       the configured name of the Connect cluster, or where the storage is
                (`kafka/topic`, or the path of a file); with the connector's name the lock's name
    connector   its name
    kind        `source`, `sink` or `mirror`
    identity    must still be the same when a step is carried out: the id of the Kafka cluster, as
                `GET /` or the brokers report it, or the uid of the Strimzi resource; None if
                unknown
    """

    driver: str
    store: str
    connector: str
    kind: str
    identity: str | None = None


class Plan(msgspec.Struct, frozen=True):
    """Plan of a change to one connector.

    verb        what an operator requested, in words
    original    the state that the connector was in; None if there was none
    final       the state that it is to end in; None if it is to be gone
    created_at  on disk in Unix seconds
    created_by  operating system user or principal who requested it; `detector` for the daemon's own
    remedy      of a plan of guarded remediation; None for one of the toolbox
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
    def connector_key(self) -> tuple[str, str]:
        """Return the place and the connector, which a plan locks."""
        return (self.subject.store, self.subject.connector)

    @property
    def sha256(self) -> str:
        """Return the hash by which the plan is approved, and known in the journal."""
        return hashlib.sha256(encode_plan(self)).hexdigest()


class FrozenOffsets(msgspec.Struct, frozen=True):
    """Offsets that `Freeze` read: all of the connector, with the path of their backup.

    raw         the records behind them if the offset store shows these (storage), to be restored as
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
    """Return a plan as canonical JSON: the same plan gives the same bytes."""
    return msgspec.json.encode(plan, order="deterministic", enc_hook=float)


def decode_plan(document: bytes) -> Plan:
    """Decode the JSON of a plan. Raises msgspec.DecodeError."""
    try:
        return msgspec.json.decode(document, type=Plan, dec_hook=read_moment)
    except (UnicodeDecodeError, RecursionError) as exc:
        raise msgspec.DecodeError(str(exc)) from exc
