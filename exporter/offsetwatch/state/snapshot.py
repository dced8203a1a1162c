"""Snapshot: an immutable view of all facts that are known and valid, for every reader.

Whatever depends on an input that is stale, or on a tail that has not caught up, is left out: a
reader cannot show an old value by mistake. Views are shared between snapshots while nothing
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from offsetwatch.decode.java.hash_map import build_connect_key_from_json
from offsetwatch.model.connectors import ConnectorKind, StateHistory, Task
from offsetwatch.model.findings import FailureRun, Finding, Judgement
from offsetwatch.model.observations import Frozen, InputId
from offsetwatch.model.offsets import SourceOffset
from offsetwatch.model.remediation import RemediationReported, ReplicaReported
from offsetwatch.model.source_ends import SourceEndRequest
from offsetwatch.model.topology import FlowKey, KafkaTopic, TopicPartition, Topology
from offsetwatch.state.connect.raw_keys import SpellingChange
from offsetwatch.state.history_documents import (
    NO_BASELINES,
    NO_PIPELINE_STATUS,
    BaselinesView,
    PipelineView,
)
from offsetwatch.state.snapshot_index import ConnectorKey, IndexParts, PartitionKey, SnapshotIndex

SERIES_MAX: Final = "series_max"  # limits of the configuration, and reasons of what is counted
SERIES_PER_CONNECTOR_MAX: Final = "series_per_connector_max"

SeriesOwner = tuple[str, ...]  # (Connect cluster, connector); of FAILOVER a flow's key


class SeriesGroup(StrEnum):
    """Groups of series in the order in which a limit leaves them out.

    RUNNING_TASKS       task_state of tasks that are running: connector_tasks counts them
    FAILOVER            failover cost of consumer groups (records read again and skipped), and their
                        checkpoints
    PARTITIONS          of replicated partitions: lag is shown by topic instead
    SOURCE_PARTITIONS   of other source partitions
    SINK_PARTITIONS     of partitions that a sink reads
    TOPICS              of replicated topics
    TASKS               task_state of all tasks
    CONNECTORS          states, task counts, verdict and baseline of a connector
    """

    RUNNING_TASKS = "states of running tasks"
    FAILOVER = "failover of consumer groups"
    PARTITIONS = "replicated partitions"
    SOURCE_PARTITIONS = "source partitions"
    SINK_PARTITIONS = "partitions of sinks"
    TOPICS = "replicated topics"
    TASKS = "states of tasks"
    CONNECTORS = "states and verdicts of connectors"


@dataclass(frozen=True, slots=True)
class DroppedSeries:
    """Series of one group that a limit leaves out now.

    limit     SERIES_MAX or SERIES_PER_CONNECTOR_MAX
    owners    connectors or flows that they belong to
    series    maximum number of them; None if that is not counted
    partial   only the last partitions of these owners are left out
    """

    group: SeriesGroup
    limit: str
    owners: frozenset[SeriesOwner]
    series: int | None = None
    partial: bool = False


ConnectorFlowKey = tuple[str, str, str, str]  # the same, source, target

_Key = TypeVar("_Key", bound=tuple[str, ...])


@dataclass(frozen=True, slots=True)
class TrendColumn(Generic[_Key]):
    """Column of packed numbers, of all connectors or all flows at one moment.

    `keys[n]` belongs to number n of each row of doubles, in which NaN is not known. Columns share
    their keys while those stay the same.
    """

    keys: tuple[_Key, ...] = ()
    lag_records: bytes = b""
    lag_seconds: bytes = b""
    quiet_seconds: bytes = b""


@dataclass(frozen=True, slots=True)
class TrendMark:
    """Trend mark of one minute. `left_out` is the number of subjects beyond SUBJECTS_MAX.

    Of the columns, `quiet_seconds` is the time since an offset last changed; for flows it is not
    known.
    """

    at: float
    connectors: TrendColumn[ConnectorKey]
    flows: TrendColumn[ConnectorFlowKey]
    left_out: int


TrendMarks = tuple[TrendMark, ...]


@dataclass(frozen=True, slots=True)
class TailView:
    """Progress of a tail. Counts are of live records only.

    frozen    partitions without new records: behind an open transaction, or unreadable
    """

    topic: KafkaTopic
    caught_up: bool
    behind: int | None
    values: int
    tombstones: int
    undecodable: int
    positions: tuple[tuple[int, int], ...]
    frozen: tuple[Frozen, ...] = ()


@dataclass(frozen=True, slots=True)
class InputView:
    """State of one input. `up` is the last attempt, `live` whether its data may still be shown."""

    id: InputId
    up: bool
    live: bool
    last_success_at: float | None
    errors: tuple[tuple[str, int], ...]
    last_error: str | None
    tail: TailView | None
    last_reason: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """Connector and its tasks. `failure` is as in model.connectors.Task."""

    connect_cluster: str
    name: str
    kind: ConnectorKind
    class_name: str
    version: str
    state: str
    tasks: tuple[Task, ...]
    dedicated_offsets_topic: str | None = None
    failure: str | None = None


class RawKeysView(msgspec.Struct, frozen=True, gc=False):
    """Raw keys of a source partition (state/connect/raw_keys.py).

    own        the key that its task looks up; None: the one of a HashMap that was filled in the
               order of the partition's identity
    strays, unsure, restarted    as in SourcePartitionView
    """

    own: bytes | None = None
    strays: int = 0
    unsure: tuple[tuple[bytes, SourceOffset | None], ...] = ()
    restarted: SpellingChange | None = None


@dataclass(frozen=True, slots=True)
class RestCheck:
    """Result of comparing a connector's offsets by REST with those of the topic.

    rounds     number of rounds in a row that differed, up to the newest that has ended
    since      when the first of them did
    examples   (source partition, its offset by REST, that of the topic) of the newest that
               differed; bounded
    """

    rounds: int
    since: float
    examples: tuple[tuple[str, str | None, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class StateDifference:
    """Lasting difference between a state by REST and the newest one in the status topic.

    `task` is None for the connector itself. The first was noticed at `since`, the newest at `at`.
    """

    task: int | None
    rest: str
    topic: str
    since: float
    at: float


@dataclass(frozen=True, slots=True)
class ConnectorWithoutState:
    """Connector that Connect has listed without a state since `since`.

    `seen_at` is when it last had one, None if it never did. If `tasks` is not empty, its own state
    is known, and the state of these tasks is not.
    """

    connector: str
    since: float
    seen_at: float | None
    tasks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UnlistedConnector:
    """Connector that Connect does not list but that exists by other evidence.

    since          the first response without it
    seen_at        when it was last listed with a state; None if it never was
    status         its state in the status topic; None without one, or if it was deleted
    committed_at   of its newest commit, if it goes on committing, else None
    """

    connector: str
    since: float
    seen_at: float | None
    status: str | None
    committed_at: float | None


@dataclass(frozen=True, slots=True)
class ConnectorListView:
    """List of a Connect cluster's connectors: how far it can be believed.

    believed_at         since when a connector that is not among `Snapshot.connectors` is deleted;
                        None while the address may lead to another Connect cluster
    deleted_at          when connectors that are certainly deleted, whatever `believed_at`, were
                        last found to be deleted, by our clock; bounded
    deleted             those of them that have not been created again
    without_configuration   connectors whose last known configuration is too old to be used, and
                        when that was read
    kafka_cluster_ids   of the Kafka cluster by the first response, and another one in the newest
                        response; None where there is none
    alternating         connectors that some responses have and others lack, repeatedly
    """

    connect_cluster: str
    believed_at: float | None
    kafka_cluster_ids: tuple[str | None, str | None]
    without_state: tuple[ConnectorWithoutState, ...]
    unlisted: tuple[UnlistedConnector, ...]
    deleted: frozenset[str] = frozenset()
    deleted_at: Mapping[str, float] = field(default_factory=dict)
    without_configuration: Mapping[str, float] = field(default_factory=dict)
    alternating: tuple[str, ...] = ()


class SourcePartitionView(msgspec.Struct, frozen=True, gc=False):
    """Source partition: its newest effective offset, and its changes since we began to read.

    offset        None if it has none: forgotten (a tombstone), only ever written under keys that no
                  task looks up, or under several of which it is not known which one is looked up
    kafka_partition, log_offset    of the newest record in the offsets topic
    committed_at, advanced_at      record timestamps of the newest commit and of the newest change
    read_at       when the newest record under any of its raw keys was read, by our clock
    from_rest     it was polled over REST, which has no commits: committed_at and commits are not
                  known, and advanced_at and read_at are of the poll that found the change
    commits, advances, rewinds, resets    None where they are not counted
    variants      number of other raw keys that mean this source partition
    keys          its raw keys; None while workers have only written that of a HashMap
    event_at      when the source made the last change that the offset covers; None if unknown
    poisoned      a task that loads this offset would fail at its start
    shadow        its offset in the cluster's offsets topic although the connector has a topic of
                  its own: Connect does not use it
    """

    connect_cluster: str
    connector: str
    identity: str
    label: str
    dialect: str
    offset: SourceOffset | None
    kafka_partition: int | None
    log_offset: int | None
    committed_at: float | None
    advanced_at: float | None
    commits: int | None
    advances: int | None
    rewinds: int | None
    resets: int | None
    variants: int
    shadow: SourceOffset | None = None
    event_at: float | None = None
    poisoned: bool = False
    from_rest: bool = False
    keys: RawKeysView | None = None
    read_at: float | None = None

    @property
    def strays(self) -> int:
        """Return the number of other raw keys that no task looks up: they are by other writers."""
        return self.variants if self.keys is None else self.keys.strays

    @property
    def restarted(self) -> SpellingChange | None:
        """Return the change of raw key by which the task lost its position, or None.

        The task looks up another raw key, did not receive the offset that it had, and has not come
        as far again.
        """
        return None if self.keys is None else self.keys.restarted

    @property
    def unsure(self) -> tuple[tuple[bytes, SourceOffset | None], ...]:
        """Return the raw keys, with offsets, that the task may look up; empty if it is known."""
        return () if self.keys is None else self.keys.unsure

    @property
    def is_hash_map(self) -> bool:
        """Return whether the task looks up the key that REST makes of its identity."""
        return self.keys is None or (self.keys.own is None and not self.keys.unsure)

    @property
    def raw_key(self) -> bytes | None:
        """Return the raw key that the task looks up; None where it is not known, as over REST."""
        if self.from_rest or (self.keys is not None and self.keys.unsure):
            return None
        if self.keys is not None and self.keys.own is not None:
            return self.keys.own
        return build_connect_key_from_json(self.connector, self.identity)


class SourceEndView(msgspec.Struct, frozen=True, gc=False):
    """Source partition against the end of its source (state/sources/).

    source, kind    the configured source
    read_at         when its end was read, by our clock
    end             the end as the source writes it; "" if it is not known
    fields          numbers of the end, named as the fields of the offset
    position        up to which nothing waits, in the order of `end_position`
    lag             `end_position` - `position`, at least 0; in bytes, transactions or rows if it is
                    one of those three. On a database it counts at most what waits: other databases
                    and tables that are not captured count
    caught_up       all is done that was there at the read before; None if it is not known
    behind_since    when the end was last seen at or below the position; None if it is now, and if
                    that was never seen
    ahead           how far the offset lies beyond the end
    headroom_bytes  bytes until the source removes what the offset needs; None: no limit is known
    retained_bytes  bytes that a replication slot makes the server retain
    connected       a connection of the connector reads from the source; None if it is not known
    in_snapshot     an initial snapshot is in progress: there are no numbers until it is complete
    lost            why the source no longer has what the offset needs, in words
    mismatch        why the offset and the end are not of one source, in words
    problem         why there is nothing to compare, in words
    retention_near  why the source may soon remove what the offset needs, in words
    headroom_s      seconds until `headroom_bytes` are written, at the pace since it is behind
    poll_s          for how long work may wait by the connector's configuration
    server          which server it is: PostgreSQL's system identifier and timeline, MySQL's and
                    MariaDB's server id; "" if it does not tell
    """

    connect_cluster: str
    connector: str
    identity: str
    label: str
    source: str
    kind: str
    read_at: float
    end: str = ""
    fields: tuple[tuple[str, int], ...] = ()
    position: int | None = None
    end_position: int | None = None
    lag: int | None = None
    lag_bytes: int | None = None
    lag_transactions: int | None = None
    lag_rows: int | None = None
    caught_up: bool | None = None
    behind_since: float | None = None
    ahead: int = 0
    headroom_bytes: int | None = None
    retained_bytes: int | None = None
    connected: bool | None = None
    in_snapshot: bool = False
    lost: str | None = None
    mismatch: str | None = None
    problem: str | None = None
    retention_near: str | None = None
    headroom_s: float | None = None
    poll_s: float = 0.0
    server: str = ""


class MirrorPartitionView(msgspec.Struct, frozen=True, gc=False):
    """Replicated upstream partition.

    committed     MM2's stored offset, equal to REST: the last record replicated and flushed; None
                  for a partition that is copied and has none
    synced        newest offset sync
    replicated    the commit, or a sync that it vouches for (state/mirror/offset_syncs.py)
    lag, ahead    of `lag_position`, the replicated offset known before the log end was read;
                  None without a log end
    caught_up     no readable record lies after the position, by a probe where the lag is not 0;
                  None if that is not known
    behind_since  time from which the age of the oldest unreplicated record counts
                  (state/mirror/lag.py); None if there is none, or if it is not known
    behind_from   source of that: `record`, read upstream, or `log_ends`, the moment at which the
                  log end was last observed at the position
    headroom      records between the log start and the next record to replicate; negative: lost
    headroom_s    seconds until retention reaches the position at its present rate; None if it does
                  not
    lost          (cause, records) that can no longer be replicated, ever counted
    probe_from    the offset from which a read could give more information; None if none is needed
    uncommitted_since    since when syncs advance beyond the commit, and no commit follows
    unassigned_since     since when it has existed without a task that is to copy it
    sync_outdated        `synced` is beyond the commit because the commit went back
    from_rest     `committed` was polled over REST, and is not compared with syncs
    """

    connect_cluster: str
    connector: str
    source: str
    target: str
    topic: str
    partition: int
    committed: int | None
    committed_at: float | None
    synced: int | None
    replicated: int | None
    log_start: int | None
    log_end: int | None
    lag: int | None
    ahead: int | None
    lag_position: int | None = None
    caught_up: bool | None = None
    behind_since: float | None = None
    behind_from: str | None = None
    headroom: int | None = None
    headroom_s: float | None = None
    lost: tuple[tuple[str, int], ...] = ()
    probe_from: int | None = None
    uncommitted_since: float | None = None
    unassigned_since: float | None = None
    sync_outdated: bool = False
    from_rest: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """Range of upstream offsets, `first` to `last`, that can no longer be replicated.

    cause    retention, recreated or altered
    at       when it was found
    """

    connect_cluster: str
    connector: str
    source: str
    target: str
    topic: str
    partition: int
    cause: str
    first: int
    last: int
    at: float

    @property
    def records(self) -> int:
        """Return the number of records, at most: compaction gaps count."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class TopicRecreation:
    """Recreations of an upstream topic in a flow: their number, and the last one.

    `at` and the ids are of the last one; an id is None if the broker reports none. `undecided` are
    the partitions whose position is still that of the old topic.
    """

    connect_cluster: str
    connector: str
    source: str
    target: str
    topic: str
    count: int
    at: float
    before: str | None
    after: str | None
    undecided: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupView:
    """Failover cost of a consumer group in one partition, if it moved to the target now.

    topic          the SOURCE topic
    upstream       its committed offset upstream: the NEXT record
    best           the downstream offset of that same record, as near as the syncs allow; None if
                   it is not known
    start_offset   where the group would start downstream
    start_offset_from    `group`: its own commit there; `checkpoint`: what translateOffsets returns;
                   None with no start offset
    translated     the least that MM2 would translate its offset to now: it depends on what its
                   task remembers (state/mirror/offset_translation.py); None if that may be nothing
    reread, skip   records between the start offset and the best offset after it, or before it:
                   their distance, less what is known to be no record in between
    checkpoint_at, checkpoint_read_at    of the newest checkpoint of this partition: its timestamp,
                   and when it was read live, by our clock; None if it existed before
    """

    connect_cluster: str
    source: str
    target: str
    group: str
    topic: str
    partition: int
    upstream: int
    best: int | None
    start_offset: int | None
    start_offset_from: str | None
    translated: int | None
    reread: int | None
    skip: int | None
    checkpoint_at: float | None = None
    checkpoint_read_at: float | None = None


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """Partition in which a consumer group may have an offset.

    remote          the topic's name on the target: where its copies are
    checkpointed    its name in checkpoints, if that is another one
    """

    group: str
    topic: str
    remote: str
    partition: int
    checkpointed: str | None = None


@dataclass(frozen=True, slots=True)
class GroupOffsetsRequest:
    """Request for the offsets of one flow's groups on two Kafka clusters."""

    flow: FlowKey
    upstream: str
    downstream: str
    partitions: tuple[GroupPartition, ...]


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """Newest checkpoint of a group in one flow."""

    connect_cluster: str
    source: str
    target: str
    group: str
    at: float


@dataclass(frozen=True, slots=True)
class HeartbeatView:
    """Newest heartbeat of one flow: `at` is the time that MM2 wrote into it."""

    connect_cluster: str
    source: str
    target: str
    at: float


class SyncView(msgspec.Struct, frozen=True, gc=False):
    """Newest offset sync of an upstream partition in one flow.

    at         its timestamp
    read_at    when it was read live, by our clock; None if it existed before
    read_by    when it was read, live or not, by our clock: it is at least as old as that
    """

    connect_cluster: str
    source: str
    target: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    at: float
    read_at: float | None = None
    read_by: float = inf


class SinkPartitionView(msgspec.Struct, frozen=True, gc=False):
    """Partition that a sink connector consumes.

    `committed` is the NEXT record to read; None if its group has committed nothing. `lag` is then
    that of the whole log, unless it is not known where the sink begins.

    caught_up, behind_since, behind_from, probe_from    as of a replicated partition
    from_rest    `committed` was polled over REST; without its log where that cannot be read
    """

    connect_cluster: str
    connector: str
    topic: str
    partition: int
    committed: int | None
    log_end: int | None
    lag: int | None
    log_start: int | None = None
    caught_up: bool | None = None
    behind_since: float | None = None
    behind_from: str | None = None
    probe_from: int | None = None
    from_rest: bool = False


class AssignmentDoubt(NamedTuple):
    """Difference of the tasks that REST reports of a flow from its commits or its listed tasks.

    since        when that was first so, by our clock
    partitions   those that it commits, and that no task has
    tasks        how many tasks it has by `GET /connectors/{c}/tasks`, and how many Connect lists;
                 None if these are the same
    topics       those of its tasks that its configuration does not select
    """

    since: float
    partitions: tuple[TopicPartition, ...]
    tasks: tuple[int, int] | None
    topics: tuple[str, ...] = ()


class RestConnector(NamedTuple):
    """Connector whose offsets are polled over REST, as no topic or group can be read.

    missing    number of source partitions that are not in its last responses but were before
    """

    connect_cluster: str
    connector: str
    sink: bool = False
    missing: int = 0


@dataclass(frozen=True, slots=True, order=True)
class TopicProblem:
    """Problem of one topic. `detail` is for users: the fact, and its consequence."""

    at: KafkaTopic
    problem: str
    detail: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot of all facts at one moment.

    ready       every input that could be caught up is; `waiting_for` says in words what is not
    awaited     the inputs of `waiting_for`. What depends on none of them is known as if all were
                ready: a cluster that does not answer hides nothing of another one.
    dropped     number of entries that a limit dropped, by reason
    topic_problems  problems with the settings of internal topics (state/internal_topics.py)
    by_topic    (Connect cluster, connector) of flows whose partitions are exported as sums
    not_exported    (Connect cluster, connector, identity) of source partitions beyond the budget:
                    they are in here, and in the API, and have no series
    left_out        series that limits leave out of /metrics now; they are in here, and in the API
    partial         (Connect cluster, connector) of flows that may have positions which are not in
                    here: each can be shown, but not their sum
    outdated_assignments    (Connect cluster, connector) of flows whose tasks Connect has not
                    reported for too long, and when it last did: what they copy is not known
    assignment_doubts   by (Connect cluster, connector): how its tasks by REST contradict its
                    commits and its listed tasks; what it commits counts as copied
    pipeline        status of the history pipeline by its own report
    baselines       baselines of connectors, as far as learned
    groups_to_ask   the consumer groups whose offsets are to be requested
    losses          the newest lost ranges; bounded, the counts in the views are not
    judgements      progress of source partitions, connectors and flows (judge/)
    findings        present problems, the worst first (judge/)
    probes          (reason, upstream reads made); `probes_skipped` has those that were not
    saved_at        when the persistent state was last saved; None if it never was
    histories       state changes of connectors and tasks, as far as status topics have them
    failure_runs    repeated failures, and where (judge/)
    remedies        state of guarded remediation by its own report; None where it does not run
    replica         state of this daemon among those that share a journal; None where it is alone
    by_rest         the connectors whose offsets are polled over REST
    rest_checks     by (Connect cluster, connector): offsets by REST, compared with the topic's
    state_doubts    by (Connect cluster, connector): how its states by REST and those in the status
                    topic differ; its histories are left out
    topic_doubts    by Connect cluster whose offsets topic was searched again: why it may be the
                    wrong one, in words; None: it was found again
    lists           how far lists of connectors can be believed, of Connect clusters that are polled
    wants_connector     by Connect cluster, whether the configuration includes a connector of that
                    name: one that it leaves out is not shown, which does not mean that it is gone
    missing_topics  by (Connect cluster, connector): topics that a sink's configuration names and
                    its Kafka cluster does not list: they do not exist, or may not be described
    source_ends     source partitions against the ends of their sources, where those are configured
    source_names    by Connect cluster, connector and identity of a source partition: the configured
                    source that it reads, whether or not its end is known
    source_requests     what these sources are to be asked for
    trends          the last hour, a mark a minute, oldest first (state/totals.py)
    index_parts     parts of `index` that were built for this snapshot, or for one with the same
                    views
    """

    at: float
    inputs: tuple[InputView, ...]
    connectors: tuple[ConnectorView, ...]
    source_partitions: tuple[SourcePartitionView, ...]
    mirror_partitions: tuple[MirrorPartitionView, ...]
    syncs: tuple[SyncView, ...]
    sink_partitions: tuple[SinkPartitionView, ...]
    dropped: tuple[tuple[str, int], ...]
    topology: Topology
    ready: bool
    waiting_for: tuple[str, ...]
    awaited: frozenset[InputId] = frozenset()
    topic_problems: tuple[TopicProblem, ...] = ()
    by_topic: frozenset[tuple[str, str]] = frozenset()
    not_exported: frozenset[tuple[str, str, str]] = frozenset()
    left_out: tuple[DroppedSeries, ...] = ()
    partial: frozenset[tuple[str, str]] = frozenset()
    outdated_assignments: Mapping[tuple[str, str], float] = field(default_factory=dict)
    assignment_doubts: Mapping[tuple[str, str], AssignmentDoubt] = field(default_factory=dict)
    pipeline: PipelineView = NO_PIPELINE_STATUS
    baselines: BaselinesView = NO_BASELINES
    losses: tuple[Loss, ...] = ()
    recreations: tuple[TopicRecreation, ...] = ()
    groups: tuple[GroupView, ...] = ()
    groups_to_ask: tuple[GroupOffsetsRequest, ...] = ()
    checkpoints: tuple[CheckpointView, ...] = ()
    heartbeats: tuple[HeartbeatView, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    findings: tuple[Finding, ...] = ()
    probes: tuple[tuple[str, int], ...] = ()
    probes_skipped: tuple[tuple[str, int], ...] = ()
    notifications_failed: tuple[tuple[str, int], ...] = ()
    hooks_received: tuple[tuple[str, int], ...] = ()
    control_refused: tuple[tuple[str, int], ...] = ()
    saved_at: float | None = None
    histories: tuple[StateHistory, ...] = ()
    failure_runs: tuple[FailureRun, ...] = ()
    remedies: RemediationReported | None = None
    replica: ReplicaReported | None = None
    by_rest: tuple[RestConnector, ...] = ()
    rest_checks: Mapping[tuple[str, str], RestCheck] = field(default_factory=dict)
    state_doubts: Mapping[tuple[str, str], StateDifference] = field(default_factory=dict)
    topic_doubts: Mapping[str, str | None] = field(default_factory=dict)
    lists: tuple[ConnectorListView, ...] = ()
    wants_connector: Mapping[str, Callable[[str], bool]] = field(default_factory=dict)
    missing_topics: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    source_ends: tuple[SourceEndView, ...] = ()
    source_names: Mapping[PartitionKey, str] = field(default_factory=dict)
    source_requests: tuple[SourceEndRequest, ...] = ()
    trends: TrendMarks = ()
    index_parts: IndexParts = field(default_factory=dict, repr=False, compare=False)

    @property
    def index(self) -> SnapshotIndex:
        """Return the views by their keys."""
        return SnapshotIndex(self, self.index_parts)

    def left_out_of(self, group: SeriesGroup) -> frozenset[SeriesOwner]:
        """Return the owners whose series of a group are left out as a whole."""
        return frozenset[SeriesOwner]().union(
            *(
                dropped.owners
                for dropped in self.left_out
                if dropped.group is group and not dropped.partial
            )
        )


EMPTY_SNAPSHOT = Snapshot(
    at=0.0,
    inputs=(),
    connectors=(),
    source_partitions=(),
    mirror_partitions=(),
    syncs=(),
    sink_partitions=(),
    dropped=(),
    topology=Topology(offsets_topics=(), flows=()),
    ready=False,
    waiting_for=("the first tick",),
)
