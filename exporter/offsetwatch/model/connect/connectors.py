"""Connectors as the Connect REST API and Connect's own topics show them, reduced to what we need.

A connector's configuration may hold secrets, so decode keeps named settings and drops the rest;
there is no field here that could carry one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from offsetwatch.model.topology import TopicPartition, TopicRouter

STATES = ("running", "paused", "stopped", "failed", "unassigned", "restarting")
UNKNOWN_STATE = "unknown"  # no state of Connect's: its answer had none, or another shape
DELETED = "deleted"  # no state of Connect's: a status that was taken back


class ConnectorKind(StrEnum):
    """`mirror` is any of MM2's three connectors; they are source connectors to Connect itself."""

    SOURCE = "source"
    SINK = "sink"
    MIRROR = "mirror"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Task:
    """One task and its state, in lower case.

    failure   what kind of failure ended it (decode/failure.py): names of classes, never a message
    """

    number: int
    state: str
    failure: str | None = None


REFRESH_S: Final = 600.0  # refresh.topics.interval.seconds of MirrorSourceConfig


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """The settings of a MirrorSourceConnector that say where it reads and where its syncs go.

    Addresses are `host:port` as written in the connector's configuration. `from_start`: a partition
    without an offset is read from its beginning, MirrorSourceConfig's own default. `policy` is the
    simple name of the replication policy's class if that is MM2's own, else the whole name;
    `separator` is what it puts between an alias and a topic's name, `internal_separator` the same
    in the names of MM2's own topics. `routers` are the transforms that may give copies another
    name, in the order of use. `refresh_s`: how often it looks for new topics and
    partitions; None: never.
    """

    source: str
    target: str
    source_addresses: frozenset[str]
    target_addresses: frozenset[str]
    syncs_topic: str | None
    syncs_on_source: bool
    read_committed: bool
    from_start: bool = True
    policy: str = "DefaultReplicationPolicy"
    separator: str = "."
    internal_separator: str = "."
    routers: tuple[TopicRouter, ...] = ()
    refresh_s: float | None = REFRESH_S


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The consumer group of a sink connector, and the addresses it was overridden to read from.

    topics, topics_regex    what it reads: names, or a pattern of java.util.regex that must match
                            a whole name
    read_committed          its own isolation level; None: the worker's, which nobody tells us
    from_start              without a commit it begins at the start of a log, Connect's default
                            (Worker.baseConsumerConfigs)
    """

    group: str
    addresses: frozenset[str]
    topics: frozenset[str] = frozenset()
    topics_regex: str | None = None
    read_committed: bool | None = None
    from_start: bool = True


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """All that is kept of a connector's configuration.

    dedicated_offsets_topic   its own offsets topic, beside or instead of the worker's
    offsets_addresses         where its producers write if not to the worker's cluster: there lies a
                              dedicated offsets topic, and with exactly-once support any
    translates                of a MirrorCheckpointConnector: the flow whose offset syncs it reads
    filename                  what a FileStreamSourceConnector reads, if not standard input
    """

    kind: ConnectorKind
    class_name: str
    mirror: MirrorSettings | None = None
    sink: SinkSettings | None = None
    dedicated_offsets_topic: str | None = None
    offsets_addresses: frozenset[str] = frozenset()
    translates: MirrorSettings | None = None
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector as listed by `GET /connectors?expand=status&expand=info`. See ConnectorSettings
    for the settings, and Task for `failure`.

    state        UNKNOWN_STATE where the answer does not have it; there are no tasks then
    configured   False where the answer does not have its configuration: the settings say nothing
    """

    name: str
    kind: ConnectorKind
    class_name: str
    version: str
    state: str
    tasks: tuple[Task, ...]
    mirror: MirrorSettings | None = None
    sink: SinkSettings | None = None
    dedicated_offsets_topic: str | None = None
    offsets_addresses: frozenset[str] = frozenset()
    failure: str | None = None
    translates: MirrorSettings | None = None
    filename: str | None = None
    configured: bool = True


@dataclass(frozen=True, slots=True)
class Condition:
    """What a worker last said of a connector or a task.

    state        in lower case
    worker       `host:port` of the worker that said it
    generation   of the worker group: what an older one said is out of date
    version      of the plugin; "" before Connect 4.1
    failure      what kind of failure it was (decode/failure.py): the parts of a trace that cannot
                 quote data
    """

    state: str
    worker: str
    generation: int
    version: str
    failure: str | None = None

    def outdated_by(self, before: Condition) -> bool:
        """A worker that lost a connector in a rebalance may say so after the one that took it
        over.
        """
        return self.state == "unassigned" and self.generation < before.generation


@dataclass(frozen=True, slots=True)
class StateChange:
    """A state that a connector or a task came into, at the time of the record that says so.

    state     one of STATES, or DELETED; the rest as of a Condition
    """

    at: float
    state: str
    failure: str | None = None
    worker: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class StateHistory:
    """The newest changes of one connector (`task` None) or task, the oldest first; bounded."""

    connect_cluster: str
    connector: str
    task: int | None
    changes: tuple[StateChange, ...]


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A record of the status topic. `condition` is None where the status was deleted."""

    connector: str
    condition: Condition | None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """See ConnectorStatus."""

    connector: str
    task: int
    condition: Condition | None


@dataclass(frozen=True, slots=True)
class TopicUse:
    """A record of the status topic: this connector reads or writes this topic.

    `task` was the first to say so, `since` in Unix seconds; both None where it was reset.
    """

    topic: str
    connector: str
    task: int | None
    since: float | None


@dataclass(frozen=True, slots=True)
class ConnectorConfigured:
    """A record of the config topic. `settings` is None where the connector was deleted."""

    connector: str
    settings: ConnectorSettings | None


@dataclass(frozen=True, slots=True)
class TaskConfigured:
    """A record of the config topic, in force once a TasksCommitted follows. `assigned` is what a
    MirrorSourceTask is to replicate, and None for any other task.
    """

    connector: str
    task: int
    assigned: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class TasksCommitted:
    """A record of the config topic: so many tasks, none while stopped; None if deleted."""

    connector: str
    tasks: int | None


@dataclass(frozen=True, slots=True)
class TargetState:
    """A record of the config topic: what somebody wants the connector to be, in lower case:
    started, paused, stopped; None if deleted, which means started.
    """

    connector: str
    state: str | None


@dataclass(frozen=True, slots=True)
class TasksFenced:
    """A record of the config topic: so many tasks were fenced, so exactly-once support was on for
    this connector; None if deleted.
    """

    connector: str
    tasks: int | None


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A record of the config topic: a restart was asked for; both None if deleted."""

    connector: str
    include_tasks: bool | None
    only_failed: bool | None


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A record of the config topic: the workers sign their requests with a key. That it exists is
    all we keep.
    """


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A record of the config topic: the level of a logger on all workers; None if deleted."""

    logger: str
    level: str | None


StatusRecord = ConnectorStatus | TaskStatus | TopicUse
ConfigRecord = (
    ConnectorConfigured
    | TaskConfigured
    | TasksCommitted
    | TargetState
    | TasksFenced
    | RestartRequested
    | SessionKey
    | LoggerLevel
)
