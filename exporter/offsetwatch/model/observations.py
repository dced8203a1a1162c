"""What was seen, where and when. Ingest makes these; the loop feeds them to the book, in order.

Times are Unix seconds. `at` in a record is the Kafka record's timestamp; elsewhere it is our clock.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import msgspec

from offsetwatch.model.baselines import Baselines
from offsetwatch.model.connect.connectors import ConfigRecord, Connector, StatusRecord
from offsetwatch.model.log_readings import LogBounds, LogEndsRead, LogEndsRequested, ProbeRoundRead
from offsetwatch.model.offsets import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    SourceKey,
    SourceOffset,
    Undecodable,
)
from offsetwatch.model.pipeline_status import PipelineStatus
from offsetwatch.model.remediation import RemediationObservation
from offsetwatch.model.topology import (
    FlowKey,
    KafkaTopic,
    ListingTopics,
    TopicFacts,
    TopicPartition,
)

TAIL = "tail"
CONNECT_REST = "connect_rest"
LOG_ENDS = "log_ends"
GROUPS = "groups"
REST_OFFSETS = "rest_offsets"
_INPUT_NAMES = {
    TAIL: "offsets topic of Connect cluster",
    CONNECT_REST: "Connect cluster",
    LOG_ENDS: "log ends of Kafka cluster",
    GROUPS: "consumer groups of Connect cluster",
    REST_OFFSETS: "offsets over REST of",
}

OPEN_TRANSACTION = "open_transaction"  # a reason why a partition tells nothing new


@dataclass(frozen=True, slots=True, order=True)
class InputId:
    """One thing that is read: the labels of `input_up`, with "" for those that a kind has not.

    TAIL            kafka and topic; connect_cluster alone while its offsets topic is looked for
    LOG_ENDS        kafka
    CONNECT_REST    connect_cluster
    REST_OFFSETS    connect_cluster and connector
    GROUPS          connect_cluster, of its sinks; with source and target, of that flow
    """

    kind: str
    _: KW_ONLY
    kafka: str = ""
    connect_cluster: str = ""
    topic: str = ""
    connector: str = ""
    source: str = ""
    target: str = ""

    @classmethod
    def of_tail(cls, topic: KafkaTopic) -> InputId:
        """Return the input that a topic is."""
        return cls(TAIL, kafka=topic.kafka, topic=topic.topic)

    @property
    def input(self) -> str:
        """Return its name among those of its kind, for people: `east/orders`, `lab/west->east`."""
        flow = f"{self.source}->{self.target}" if self.source else ""
        parts = (self.kafka, self.connect_cluster, self.topic, self.connector, flow)
        return "/".join(part for part in parts if part)

    @property
    def in_words(self) -> str:
        """Return what is read, as an operator names it: `log ends of Kafka cluster east`."""
        if self.kind == TAIL and self.topic:
            return f"topic {self.input}"
        if self.kind == GROUPS and self.source:
            return f"consumer groups of flow {self.source}->{self.target}"
        return f"{_INPUT_NAMES.get(self.kind, self.kind)} {self.input}"


def build_rest_offsets_input(connect_cluster: str, connector: str) -> InputId:
    """Name the input that the offsets of one connector are over REST."""
    return InputId(REST_OFFSETS, connect_cluster=connect_cluster, connector=connector)


@dataclass(frozen=True, slots=True)
class InputSucceeded:
    """The last attempt to read this input worked.

    lasts_s    for how long it may be believed; None: for as long as any of its kind
    """

    input: InputId
    at: float
    lasts_s: float | None = None


@dataclass(frozen=True, slots=True)
class InputFailed:
    """The last attempt failed. `reason` is a short fixed word (errors.py), `detail` is for
    people. `partial`: it failed for the members that `detail` names, and worked for the others.
    """

    input: InputId
    reason: str
    detail: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class InputRetired:
    """This input is no longer read: forget its series."""

    input: InputId


class SourceRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of an offsets topic.

    partition, log_offset   where it stands in the topic
    advanced_at             set while bootstrapping only: the record at which the offset last
                            changed, as far as the topic still tells
    live                    False for what was in the topic before we caught up: it counts nowhere
    ours                    offsetwatch wrote it, and says so in a header
    """

    key: SourceKey
    raw_key: bytes
    offset: SourceOffset | Undecodable | None
    partition: int
    log_offset: int
    at: float
    advanced_at: float | None
    live: bool
    ours: bool = False


class SyncRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of an offset-syncs topic.

    earlier    while bootstrapping only: what those before it told of the same partition, reduced
               to the (upstream, downstream) offsets that matter
               (state/mirror/offset_translation.py)
    """

    sync: OffsetSync
    log_offset: int
    at: float
    earlier: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ListingRecord:
    """One record of a config or a status topic. `at`, `live`, `partition` as of a SourceRecord."""

    says: ConfigRecord | StatusRecord
    at: float = 0.0
    live: bool = False
    partition: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One record of a checkpoints topic."""

    checkpoint: Checkpoint
    at: float


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """One record of a heartbeats topic."""

    heartbeat: Heartbeat


Records = (
    tuple[SourceRecord, ...]
    | tuple[SyncRecord, ...]
    | tuple[ListingRecord, ...]
    | tuple[CheckpointRecord, ...]
    | tuple[HeartbeatRecord, ...]
)


@dataclass(frozen=True, slots=True)
class Frozen:
    """A Kafka partition without new records: an open transaction hides all that was written after
    it began, or the partition cannot be read while others of its topic can.

    offset     where its reader waits: in a transaction the last stable offset
    detail     who or why and since when, in words for a person
    hidden     records from there to the end of the log, as far as that is known
    reason     OPEN_TRANSACTION, or the `reason` of the error (errors.py)
    """

    partition: int
    offset: int
    detail: str
    hidden: int = 0
    reason: str = OPEN_TRANSACTION


@dataclass(frozen=True, slots=True)
class TailRead:
    """A tail's records in topic order, and where the tail stands after them.

    positions      next offset to read, per partition
    behind         records between positions and the topic's end; None if the end was not asked for
    as_of          when the end that is read by now was asked for; None if none was reached yet
    caught_up      the tail has passed the end that it saw at its start
    whole          the records are the whole topic: whatever else was known of it is no longer there
    undecodable    live records that could not be decoded, by reason
    frozen         partitions that an open transaction has held for longer than one should be open,
                   and those that cannot be read
    at             when the broker was asked: the process may have stood still since
    """

    input: InputId
    topic: KafkaTopic
    at: float
    records: Records
    positions: tuple[tuple[int, int], ...]
    caught_up: bool
    behind: int | None
    as_of: float | None
    undecodable: tuple[tuple[str, int], ...] = ()
    whole: bool = False
    frozen: tuple[Frozen, ...] = ()

    def source_records(self) -> tuple[SourceRecord, ...]:
        """Those of an offsets topic."""
        return tuple(record for record in self.records if isinstance(record, SourceRecord))

    def listing_records(self) -> tuple[ListingRecord, ...]:
        """Those of a config or status topic."""
        return tuple(record for record in self.records if isinstance(record, ListingRecord))

    def sync_records(self) -> tuple[SyncRecord, ...]:
        """Those of an offset-syncs topic."""
        return tuple(record for record in self.records if isinstance(record, SyncRecord))


@dataclass(frozen=True, slots=True)
class TopicsChecked:
    """Which of the topics that were asked after a Kafka cluster has."""

    kafka: str
    there: frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Where a consumer group stands on both sides of a flow, in one partition: the NEXT record.

    topic, remote    its name upstream and downstream
    upstream         None if the group has committed none there
    downstream       its own commit at the target, whoever made it; None if there is none
    checkpointed     the topic's name in checkpoints, if that is not `remote`
    """

    group: str
    topic: str
    remote: str
    partition: int
    upstream: int | None
    downstream: int | None
    checkpointed: str | None = None


@dataclass(frozen=True, slots=True)
class GroupOffsetsRead:
    """Committed offsets of a flow's consumer groups; the logs' bounds were read after them.

    Partitions that do not exist are missing among the bounds.
    """

    flow: FlowKey
    offsets: tuple[GroupOffset, ...]
    upstream: dict[TopicPartition, LogBounds]
    downstream: dict[TopicPartition, LogBounds]


@dataclass(frozen=True, slots=True)
class ConnectorsListed:
    """The connectors that one answer of a Connect cluster had. What it has not may be there all the
    same (state/connect/connector_list.py).

    names              by the list of names, which has those without a status too; None where that
                       was not asked for, or not answered
    kafka_cluster_id   of the Kafka cluster that the worker says it uses; None where it was not
                       asked, or does not say
    names_whole        False where some members of the list of names are none: what that list has
                       not may be among them
    """

    connect_cluster: str
    connectors: tuple[Connector, ...]
    names: frozenset[str] | None = None
    kafka_cluster_id: str | None = None
    names_whole: bool = True


@dataclass(frozen=True, slots=True)
class OffsetsTopicFound:
    """Discovery, or the configuration, settled where a Connect cluster keeps its source offsets."""

    connect_cluster: str
    topic: KafkaTopic


@dataclass(frozen=True, slots=True)
class OffsetsTopicLost:
    """The topic that discovery had settled on is gone; another one may be found."""

    connect_cluster: str


@dataclass(frozen=True, slots=True)
class OffsetsTopicCompared:
    """Discovery looked again for the topic that it had settled on. `doubt` says in words why it may
    be the wrong one; None: it found the same.
    """

    connect_cluster: str
    doubt: str | None


@dataclass(frozen=True, slots=True)
class ListingTopicsFound:
    """A Connect cluster without a REST API tells of its connectors in these topics."""

    topics: ListingTopics


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """The upstream partitions that a MirrorSourceConnector gave its tasks to copy.

    What it committed once and copies no longer (a topic left out of its configuration) is no lag.
    """

    connect_cluster: str
    connector: str
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AssignmentConfirmed:
    """A MirrorSourceConnector is stopped and has no tasks: it copies what it had to before."""

    connect_cluster: str
    connector: str


@dataclass(frozen=True, slots=True)
class BrokerAddressesRead:
    """The `host:port` addresses of a Kafka cluster: what MM2's configuration may call it by."""

    kafka: str
    addresses: frozenset[str]


@dataclass(frozen=True, slots=True)
class SinkOffset:
    """A sink's committed offset (the NEXT record) and the log end, read in this order.

    committed             None: its group never committed one, or what it had has expired
    log_end, log_start    None if the partition could not be asked for
    from_start            without a commit it begins at the start of the log
    committed_only        what it has left to do is counted in committed records
    """

    connector: str
    topic: str
    partition: int
    committed: int | None
    log_end: int | None
    log_start: int | None = None
    committed_only: bool = False
    from_start: bool = True


@dataclass(frozen=True, slots=True)
class SinkOffsetsRead:
    """The committed offsets of all sink connectors of a Connect cluster.

    at         before the first question went out; None: when this is applied
    by_rest    of sinks whose groups cannot be read: offsets that REST told before, with the log
               ends that were read after them
    """

    connect_cluster: str
    offsets: tuple[SinkOffset, ...]
    at: float | None = None
    by_rest: tuple[SinkOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class RestOffsetsRequested:
    """We are about to `GET /connectors/{c}/offsets`: the answer may be any offset seen from now
    on.
    """

    connect_cluster: str
    connector: str


@dataclass(frozen=True, slots=True)
class RestOffsetsRead:
    """`GET /connectors/{c}/offsets`: what a task would load now. Rare; compared with the tail.

    `offsets` maps a source partition's identity to the text of its offset, None for null; `whole`:
    there was no other entry, which could not be read.
    """

    connect_cluster: str
    connector: str
    offsets: tuple[tuple[str, str | None], ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class OffsetsPolled:
    """`GET /connectors/{c}/offsets` of a connector whose offsets are known in no other way.

    offsets, whole    as of RestOffsetsRead; the partitions of a sink are those it consumes
    at                before the question went out
    """

    connect_cluster: str
    connector: str
    offsets: tuple[tuple[str, str | None], ...]
    at: float
    whole: bool = True


@dataclass(frozen=True, slots=True)
class TopicFactsRead:
    """How the internal topics of a Kafka cluster are made. Rare; what is not among them is gone."""

    kafka: str
    facts: tuple[TopicFacts, ...]
    at: float


@dataclass(frozen=True, slots=True)
class PipelineStatusRead:
    """What the history pipeline says of itself now; None where it says nothing, and where nobody
    can read what it says (`unreadable`).
    """

    status: PipelineStatus | None
    unreadable: bool = False


@dataclass(frozen=True, slots=True)
class BaselinesRead:
    """What is usual, as history has it; None where nothing was published, or it is `damaged`."""

    found: Baselines | None
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class NotificationsFailed:
    """How many notifications could not be delivered since this process started, by reason."""

    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ControlRequestsCounted:
    """What the control listener was sent since this process started: alerts by what became of them,
    and what was refused, by reason.
    """

    hooks: tuple[tuple[str, int], ...]
    refused: tuple[tuple[str, int], ...]


Observation = (
    InputSucceeded
    | InputFailed
    | InputRetired
    | TailRead
    | ConnectorsListed
    | OffsetsTopicFound
    | OffsetsTopicLost
    | OffsetsTopicCompared
    | ListingTopicsFound
    | PartitionsAssigned
    | AssignmentConfirmed
    | BrokerAddressesRead
    | LogEndsRequested
    | LogEndsRead
    | SinkOffsetsRead
    | ProbeRoundRead
    | RestOffsetsRequested
    | RestOffsetsRead
    | OffsetsPolled
    | TopicFactsRead
    | TopicsChecked
    | GroupOffsetsRead
    | PipelineStatusRead
    | BaselinesRead
    | NotificationsFailed
    | ControlRequestsCounted
    | RemediationObservation
)
