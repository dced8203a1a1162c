"""Observations of Kafka and Connect: the input of the state, made by ingest.

The daemon's loop applies them to the book (state/book.py) in order. Times are Unix seconds. `at` in
a record is the Kafka record's timestamp; elsewhere it is by our clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import msgspec

from offsetwatch.model.connectors import ConfigRecord, Connector, StatusRecord
from offsetwatch.model.history_documents import Baselines, PipelineStatus
from offsetwatch.model.offsets import (
    Checkpoint,
    Heartbeat,
    MirrorPartition,
    OffsetSync,
    SourceKey,
    SourceOffset,
    Undecodable,
)
from offsetwatch.model.remediation import RemediationObservation
from offsetwatch.model.source_ends import SourceEnd
from offsetwatch.model.topology import (
    FlowKey,
    KafkaTopic,
    ListingTopics,
    TopicFacts,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class LogEndsRequested:
    """Start of a request for a cluster's log ends: positions known by now were read before them.

    `number` identifies the request: two may be under way at once.

    at    time before the request; None: when this is applied
    """

    kafka: str
    number: int
    at: float | None = None


class LogBounds(msgspec.Struct, frozen=True, gc=False):
    """Bounds of a partition's log: start, end (high watermark), stable_end (last stable offset)."""

    start: int
    end: int
    stable_end: int

    def find_end(self, *, committed: bool | None) -> int | None:
        """Return the end for a consumer: one of `committed` records stops at the last stable.

        None if it is not known which one it is, and the two differ.
        """
        if committed is None:
            return self.end if self.end == self.stable_end else None
        return self.stable_end if committed else self.end


@dataclass(frozen=True, slots=True)
class FilteredTopics:
    """Topics of a Kafka cluster by the configuration of a MirrorSourceConnector.

    selected    those that it certainly copies, with their numbers of partitions
    rejected    those that it certainly does not copy
    """

    selected: Mapping[str, int]
    rejected: frozenset[str]


@dataclass(frozen=True, slots=True)
class LogEndsRead:
    """Log ends that answer the LogEndsRequested of this number.

    Partitions that do not exist are missing.

    ids           id that a topic had both before and after its bounds were read, None if the broker
                  gives none; a topic whose id is uncertain is missing. None: no ids were requested
    partitions    number of partitions of each topic, as far as that was read
    filtered      by Connect cluster and connector, the topics there by its topic filter
    """

    kafka: str
    number: int
    bounds: dict[TopicPartition, LogBounds]
    ids: dict[str, str | None] | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    filtered: Mapping[tuple[str, str], FilteredTopics] = field(default_factory=dict)


# Follower of a partition: Connect cluster, connector, and the partition as it knows it (a sink's
# without a source alias).
Follower = tuple[str, str, MirrorPartition | TopicPartition]


class FirstRecord(msgspec.Struct, frozen=True, gc=False):
    """First record that a reader gets at or after some offset.

    at          its timestamp; None if it has none (message formats before Kafka 0.10)
    appended    True if the timestamp is the broker's (LogAppendTime), not the producer's
    """

    offset: int
    at: float | None
    appended: bool = False


class NoRecordBefore(msgspec.Struct, frozen=True, gc=False):
    """Range without records: a reader gets none from some offset up to `end`, excluded."""

    end: int


class ProbeResult(msgspec.Struct, frozen=True, gc=False):
    """Result of a read for one follower, from offset `start` on."""

    of: Follower
    start: int
    found: FirstRecord | NoRecordBefore


@dataclass(frozen=True, slots=True)
class ProbeRoundRead:
    """Round of reads of single records on a Kafka cluster.

    at             time before the first of them
    made, skipped  (reason, number of reads): why they were made; why others were not, or failed
    """

    kafka: str
    at: float
    answers: tuple[ProbeResult, ...]
    made: tuple[tuple[str, int], ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()


TAIL = "tail"
CONNECT_REST = "connect_rest"
LOG_ENDS = "log_ends"
GROUPS = "groups"
REST_OFFSETS = "rest_offsets"
SOURCE_END = "source_end"
_INPUT_NAMES = {
    TAIL: "offsets topic of Connect cluster",
    CONNECT_REST: "Connect cluster",
    LOG_ENDS: "log ends of Kafka cluster",
    GROUPS: "consumer groups of Connect cluster",
    REST_OFFSETS: "offsets over REST of",
    SOURCE_END: "end of source",
}

OPEN_TRANSACTION = "open_transaction"  # a reason why a partition tells nothing new


@dataclass(frozen=True, slots=True, order=True)
class InputId:
    """Identity of an input: the labels of `input_up`, "" for those that its kind does not have.

    TAIL            kafka and topic; connect_cluster alone until its offsets topic is discovered
    LOG_ENDS        kafka
    CONNECT_REST    connect_cluster
    REST_OFFSETS    connect_cluster and connector
    GROUPS          connect_cluster, of its sinks; with source and target, of that flow
    SOURCE_END      source: a name under `sources`
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
        """Return the input of a topic."""
        return cls(TAIL, kafka=topic.kafka, topic=topic.topic)

    @property
    def input(self) -> str:
        """Return its name among inputs of its kind, for people: `east/orders`, `lab/west->east`."""
        if self.kind == SOURCE_END:
            return self.source
        flow = f"{self.source}->{self.target}" if self.source else ""
        parts = (self.kafka, self.connect_cluster, self.topic, self.connector, flow)
        return "/".join(part for part in parts if part)

    @property
    def in_words(self) -> str:
        """Return the input in words, as an operator names it: `log ends of Kafka cluster east`."""
        return describe_input(self.kind, self.input)


def describe_input(kind: str, name: str) -> str:
    """Return an input in words, of its kind and its name among inputs of that kind."""
    first, slash, rest = name.partition("/")
    if kind == TAIL and slash:
        return f"topic {name}"
    if kind == GROUPS and slash:
        return f"consumer groups of flow {rest} of Connect cluster {first}"
    return f"{_INPUT_NAMES.get(kind, kind)} {name}"


def build_rest_offsets_input(connect_cluster: str, connector: str) -> InputId:
    """Return the input of one connector's offsets over REST."""
    return InputId(REST_OFFSETS, connect_cluster=connect_cluster, connector=connector)


def build_source_end_input(source: str) -> InputId:
    """Return the input of one source's end."""
    return InputId(SOURCE_END, source=source)


@dataclass(frozen=True, slots=True)
class InputSucceeded:
    """Success of the last attempt to read an input.

    lasts_s    for how many seconds it is valid; None: as long as others of its kind
    """

    input: InputId
    at: float
    lasts_s: float | None = None


@dataclass(frozen=True, slots=True)
class InputFailed:
    """Failure of the last attempt to read an input.

    `reason` is a short fixed word (errors.py), `detail` is for people. `partial`: it failed for the
    members that `detail` names, and succeeded for the others.
    """

    input: InputId
    reason: str
    detail: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class InputRetired:
    """End of an input: it is no longer read, and its series end."""

    input: InputId


class SourceRecord(msgspec.Struct, frozen=True, gc=False):
    """Record of an offsets topic.

    partition, log_offset   its position in the topic
    advanced_at             set while bootstrapping only: time of the record at which the offset
                            last changed, as far as the topic still shows
    live                    False for records from before the tail caught up: they are not counted
    ours                    offsetwatch wrote it, by its header
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
    """Record of an offset-syncs topic.

    earlier    while bootstrapping only: the earlier records of the same partition, reduced to the
               (upstream, downstream) offsets that matter (state/mirror/offset_translation.py)
    """

    sync: OffsetSync
    log_offset: int
    at: float
    earlier: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ListingRecord:
    """Record of a config or a status topic. `at`, `live`, `partition` as in SourceRecord."""

    says: ConfigRecord | StatusRecord
    at: float = 0.0
    live: bool = False
    partition: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """Record of a checkpoints topic."""

    checkpoint: Checkpoint
    at: float


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """Record of a heartbeats topic."""

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
    """Records of a tail in topic order, and the tail's position after them.

    positions      next offset to read, per partition
    behind         records between positions and the topic's end; None if the end was not requested
    as_of          time at which the end that is reached by now was requested; None if none was
                   reached yet
    caught_up      the tail has passed the end that it found at its start
    whole          the records are the whole topic: any other record known of it no longer exists
    undecodable    live records that could not be decoded, by reason
    frozen         partitions that an open transaction has held for longer than one should be open,
                   and those that cannot be read
    at             time of the read at the broker: the process may have been suspended since
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
        """Return the records of an offsets topic."""
        return tuple(record for record in self.records if isinstance(record, SourceRecord))

    def listing_records(self) -> tuple[ListingRecord, ...]:
        """Return the records of a config or status topic."""
        return tuple(record for record in self.records if isinstance(record, ListingRecord))

    def sync_records(self) -> tuple[SyncRecord, ...]:
        """Return the records of an offset-syncs topic."""
        return tuple(record for record in self.records if isinstance(record, SyncRecord))


@dataclass(frozen=True, slots=True)
class TopicsChecked:
    """Existing topics of a Kafka cluster, among those that were requested."""

    kafka: str
    there: frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Position of a consumer group on both sides of a flow, in one partition: the NEXT record.

    topic, remote    name of the topic upstream and downstream
    upstream         None if the group has committed none there
    downstream       its own commit at the target, by any client; None if there is none
    checkpointed     name of the topic in checkpoints, if that is not `remote`
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

    Partitions that do not exist are missing from the bounds.
    """

    flow: FlowKey
    offsets: tuple[GroupOffset, ...]
    upstream: dict[TopicPartition, LogBounds]
    downstream: dict[TopicPartition, LogBounds]


@dataclass(frozen=True, slots=True)
class ConnectorsListed:
    """Connectors in one answer of a Connect cluster.

    A connector that is missing from it may still exist (state/connect/connector_list.py).

    names              list of names, which includes connectors without a status; None if it was not
                       requested, or not answered
    kafka_cluster_id   id of the Kafka cluster that the worker reports; None if it was not
                       requested, or not reported
    names_whole        False if some members of the list of names are no names: a connector missing
                       from it may be among them
    """

    connect_cluster: str
    connectors: tuple[Connector, ...]
    names: frozenset[str] | None = None
    kafka_cluster_id: str | None = None
    names_whole: bool = True


@dataclass(frozen=True, slots=True)
class OffsetsTopicFound:
    """Offsets topic of a Connect cluster, by discovery or by the configuration."""

    connect_cluster: str
    topic: KafkaTopic


@dataclass(frozen=True, slots=True)
class OffsetsTopicLost:
    """Loss of a discovered offsets topic, which is gone; another one may be discovered."""

    connect_cluster: str


@dataclass(frozen=True, slots=True)
class OffsetsTopicCompared:
    """Repeated discovery of an offsets topic.

    `doubt` says in words why the topic may be the wrong one; None: it found the same.
    """

    connect_cluster: str
    doubt: str | None


@dataclass(frozen=True, slots=True)
class ListingTopicsFound:
    """Topics in which a Connect cluster without a REST API lists its connectors."""

    topics: ListingTopics


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """Upstream partitions that a MirrorSourceConnector assigned to its tasks.

    A partition that it committed once and no longer copies (a topic removed from its configuration)
    has no lag. `tasks` is how many it has; None if that is not known.
    """

    connect_cluster: str
    connector: str
    partitions: frozenset[TopicPartition]
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class AssignmentConfirmed:
    """Confirmation of the earlier assignment of a stopped MirrorSourceConnector without tasks."""

    connect_cluster: str
    connector: str


@dataclass(frozen=True, slots=True)
class BrokerAddressesRead:
    """Addresses (`host:port`) of a Kafka cluster's brokers, as MM2's configuration may have.

    cluster_id    the id that the cluster itself reports, if any
    """

    kafka: str
    addresses: frozenset[str]
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class SinkOffset:
    """Committed offset of a sink (the NEXT record) and the log end, read in this order.

    committed             None: its group never committed one, or the commit has expired
    log_end, log_start    None if the partition could not be read
    from_start            without a commit it begins at the start of the log
    committed_only        its lag is counted in committed records
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
    """Committed offsets of all sink connectors of a Connect cluster.

    at         time before the first request; None: when this is applied
    by_rest    of sinks whose groups cannot be read: offsets that REST reported before, with the log
               ends that were read after them
    missing    (connector, topic) of topics that a configuration names and the Kafka cluster did
               not list: they do not exist, or this client may not describe them
    """

    connect_cluster: str
    offsets: tuple[SinkOffset, ...]
    at: float | None = None
    by_rest: tuple[SinkOffset, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RestOffsetsRequested:
    """Start of a `GET /connectors/{c}/offsets`: the answer may be any offset read from now on."""

    connect_cluster: str
    connector: str


@dataclass(frozen=True, slots=True)
class RestOffsetsRead:
    """Answer to `GET /connectors/{c}/offsets`: the offsets that a task would load now.

    Rare; it is compared with the tail. `offsets` are pairs of a source partition's identity and the
    text of its offset, None for null. `whole`: no entry was unreadable.
    """

    connect_cluster: str
    connector: str
    offsets: tuple[tuple[str, str | None], ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class OffsetsPolled:
    """Answer to `GET /connectors/{c}/offsets` of a connector without any other source of offsets.

    offsets, whole    as in RestOffsetsRead; the partitions of a sink are those that it consumes
    at                time before the request
    """

    connect_cluster: str
    connector: str
    offsets: tuple[tuple[str, str | None], ...]
    at: float
    whole: bool = True


@dataclass(frozen=True, slots=True)
class TopicFactsRead:
    """Settings of the internal topics of a Kafka cluster. Rare; a topic not among them is gone."""

    kafka: str
    facts: tuple[TopicFacts, ...]
    at: float


@dataclass(frozen=True, slots=True)
class SourceEndRead:
    """End of a source. `at` is the time before the request, by our clock."""

    source: str
    end: SourceEnd
    at: float


@dataclass(frozen=True, slots=True)
class PipelineStatusRead:
    """Status of the history pipeline now.

    None if there is none, and if it cannot be read (`unreadable`).
    """

    status: PipelineStatus | None
    unreadable: bool = False


@dataclass(frozen=True, slots=True)
class BaselinesRead:
    """Baselines from history; None if none were published, or if they are `damaged`."""

    found: Baselines | None
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class NotificationsFailed:
    """Number of undeliverable notifications since this process started, by reason."""

    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ControlRequestsCounted:
    """Requests to the control listener since this process started.

    `hooks` are alerts by outcome, `refused` are refused requests by reason.
    """

    hooks: tuple[tuple[str, int], ...]
    refused: tuple[tuple[str, int], ...]


# Observations that may change the topology.
Discovery = (
    ConnectorsListed
    | OffsetsTopicFound
    | OffsetsTopicLost
    | OffsetsTopicCompared
    | ListingTopicsFound
    | TopicsChecked
    | BrokerAddressesRead
)

Observation = (
    InputSucceeded
    | InputFailed
    | InputRetired
    | TailRead
    | PartitionsAssigned
    | AssignmentConfirmed
    | LogEndsRequested
    | LogEndsRead
    | SinkOffsetsRead
    | ProbeRoundRead
    | RestOffsetsRequested
    | RestOffsetsRead
    | OffsetsPolled
    | TopicFactsRead
    | GroupOffsetsRead
    | SourceEndRead
    | PipelineStatusRead
    | BaselinesRead
    | NotificationsFailed
    | ControlRequestsCounted
    | RemediationObservation
    | Discovery
)
