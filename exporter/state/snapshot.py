"""What everyone but the loop reads: an immutable picture of all that is known and still true.

What depends on an input that is stale, or on a tail that has not caught up, is not in here at all:
a reader cannot show an old value by mistake. Views are shared between snapshots while nothing
changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.model.connectors import ConnectorKind, Task
from exporter.model.observations import Frozen, InputId
from exporter.model.offsets import SourceOffset
from exporter.model.topology import KafkaTopic, Topology
from exporter.state.lint import TopicProblem
from exporter.state.pipeline import NOTHING_SAID, PipelineView


@dataclass(frozen=True, slots=True)
class TailView:
    """How far a tail has read. Counts are of live records only.

    frozen    partitions in which an open transaction hides what came after it
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
    """One input. `up` speaks of the last attempt, `live` of whether its data may still be shown."""

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
    """One connector and its tasks."""

    connect_cluster: str
    name: str
    kind: ConnectorKind
    class_name: str
    version: str
    state: str
    tasks: tuple[Task, ...]
    dedicated_offsets_topic: str | None = None


@dataclass(frozen=True, slots=True)
class SourcePartitionView:
    """One source partition: its newest effective offset and what happened to it since we look.

    offset        None if it has none: forgotten (a tombstone), or only ever written under keys that
                  Connect does not look up
    kafka_partition, log_offset    where the newest record stands in the offsets topic
    committed_at, advanced_at      record timestamps of the newest commit and of the newest change
    variants      how many other raw keys say they are this source partition
    event_at      when the source made the last change that the offset covers, if the offset says
    poisoned      a task that loads this offset would fail at its start
    shadow        what the cluster's offsets topic holds of it although the connector has a topic of
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
    commits: int
    advances: int
    rewinds: int
    resets: int
    variants: int
    shadow: SourceOffset | None = None
    event_at: float | None = None
    poisoned: bool = False


@dataclass(frozen=True, slots=True)
class MirrorPartitionView:
    """One replicated upstream partition.

    committed     MM2's stored offset, equal to REST: the last record replicated and flushed; None
                  for a partition that is copied and has none
    synced        newest offset sync
    replicated    the better of the two (state/lag.py)
    lag, ahead    of `lag_position`, the replicated offset known before the log end was read;
                  None without a log end
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


@dataclass(frozen=True, slots=True)
class SyncView:
    """The newest offset sync of an upstream partition in one flow."""

    connect_cluster: str
    source: str
    target: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    at: float


@dataclass(frozen=True, slots=True)
class SinkPartitionView:
    """One partition that a sink connector consumes. `committed` is the NEXT record to read."""

    connect_cluster: str
    connector: str
    topic: str
    partition: int
    committed: int
    log_end: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything, at one moment.

    ready       every input that could be caught up is; `waiting_for` says in words what is not
    dropped     what a bound cut, by reason
    topic_problems  what is wrong with how internal topics are made (state/lint.py)
    by_topic    (Connect cluster, connector) of flows whose partitions are exported summed up
    not_exported    (Connect cluster, connector, identity) of source partitions beyond the budget:
                    they are in here, and in the API, and have no series
    partial         (Connect cluster, connector) of flows that may have positions which are not in
                    here: what is can be shown, and not be summed up
    pipeline        what the history pipeline says of itself
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
    topic_problems: tuple[TopicProblem, ...] = ()
    by_topic: frozenset[tuple[str, str]] = frozenset()
    not_exported: frozenset[tuple[str, str, str]] = frozenset()
    partial: frozenset[tuple[str, str]] = frozenset()
    pipeline: PipelineView = NOTHING_SAID


EMPTY = Snapshot(
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
