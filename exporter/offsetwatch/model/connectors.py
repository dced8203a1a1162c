"""Connectors and tasks: settings, states, REST paths, and records of config and status topics.

A connector's configuration may hold secrets. So decode keeps named settings and drops the rest; no
field here could hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from offsetwatch.model.topology import TopicFilter, TopicPartition, TopicRouter

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
    """Task of a connector and its state, in lower case.

    failure   kind of the failure that ended it (decode/stack_trace.py): names of classes, never a
              message
    """

    number: int
    state: str
    failure: str | None = None


def has_running_task(state: str, tasks: Iterable[Task]) -> bool:
    """Check whether a connector in this state works: it runs, and at least one of its tasks."""
    return state == "running" and any(task.state == "running" for task in tasks)


REFRESH_S: Final = 600.0  # refresh.topics.interval.seconds of MirrorSourceConfig


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """Settings of a MirrorSourceConnector: where it reads, and where its offset syncs go.

    source, target     aliases
    source_addresses, target_addresses    `host:port` as in the connector's configuration
    syncs_topic        None if it emits no offset syncs
    syncs_known        False if a config provider knows whether and where it emits them
    read_committed     None if a config provider knows it
    from_start         it certainly reads a partition without an offset from its start, the default
                       of MirrorSourceConfig
    policy             simple name of the replication policy's class if it is MM2's own, else the
                       whole name
    separator          text between an alias and a topic's name; the text of a reference if a config
                       provider knows it (topology.is_provided)
    internal_separator    the same in the names of MM2's own topics
    routers            transforms that may give copies another name, in the order of use
    refresh_s          how often it looks for new topics and partitions; None: never; infinite if
                       it is not known
    topic_filter       topics that its configuration selects; None if that is not known
    """

    source: str
    target: str
    source_addresses: frozenset[str]
    target_addresses: frozenset[str]
    syncs_topic: str | None
    syncs_on_source: bool
    read_committed: bool | None
    from_start: bool = True
    policy: str = "DefaultReplicationPolicy"
    separator: str = "."
    internal_separator: str = "."
    routers: tuple[TopicRouter, ...] = ()
    refresh_s: float | None = REFRESH_S
    syncs_known: bool = True
    topic_filter: TopicFilter | None = None


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Consumer group of a sink connector, and the addresses that override those it reads from.

    topics, topics_regex    what it reads: names, or a pattern of java.util.regex that must match a
                            whole name
    read_committed          its own isolation level; None: the worker's, or that of a config
                            provider: it is unknown
    from_start              without a commit it certainly begins at the start of a log, Connect's
                            default (Worker.baseConsumerConfigs)
    """

    group: str
    addresses: frozenset[str]
    topics: frozenset[str] = frozenset()
    topics_regex: str | None = None
    read_committed: bool | None = None
    from_start: bool = True


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Settings that say what of a database a source connector reads, and nothing secret.

    A setting is None where the configuration does not have it, and where a config provider has it.

    host, port, database    of the server, by Debezium's `database.*`
    user              the name by which it connects
    topic_prefix      Debezium's `topic.prefix`, which is `server` in its source partitions
    slot, publication    Debezium's `slot.name` and `publication.name` on PostgreSQL
    mode              JDBC: bulk, incrementing, timestamp or timestamp+incrementing
    incrementing_column, timestamp_columns    JDBC
    has_query         JDBC reads a query and not tables
    poll_s            for how long JDBC may leave a row unread: its poll interval, and its delay
    """

    host: str | None = None
    port: int | None = None
    database: str | None = None
    user: str | None = None
    topic_prefix: str | None = None
    slot: str | None = None
    mode: str | None = None
    incrementing_column: str | None = None
    timestamp_columns: tuple[str, ...] = ()
    has_query: bool = False
    poll_s: float = 0.0
    publication: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """Settings that are retained of a connector's configuration.

    dedicated_offsets_topic   its own offsets topic, beside or instead of the worker's; a reference
                              if a config provider knows it (topology.is_provided)
    offsets_addresses         addresses that its producers write to, if not the worker's cluster: a
                              dedicated offsets topic is there, and with exactly-once support any
    translates                of a MirrorCheckpointConnector: the flow whose offset syncs it reads
    filename                  file that a FileStreamSourceConnector reads, if not standard input
    database                  of a Debezium or JDBC source connector
    sink_if_one               of a connector of unknown kind: its settings if it is a sink
    """

    kind: ConnectorKind
    class_name: str
    mirror: MirrorSettings | None = None
    sink: SinkSettings | None = None
    dedicated_offsets_topic: str | None = None
    offsets_addresses: frozenset[str] = frozenset()
    translates: MirrorSettings | None = None
    filename: str | None = None
    database: DatabaseSettings | None = None
    sink_if_one: SinkSettings | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """Connector as listed by `GET /connectors?expand=status&expand=info`.

    See ConnectorSettings for the settings, and Task for `failure`.

    state        UNKNOWN_STATE where the answer does not have it; there are no tasks then
    configured   False where the answer does not have its configuration: the settings mean nothing
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
    database: DatabaseSettings | None = None
    sink_if_one: SinkSettings | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Newest status of a connector or a task, as a worker reported it.

    state        in lower case
    worker       `host:port` of the worker that reported it
    generation   of the worker group: a report of an older one is outdated
    version      of the plugin; "" before Connect 4.1
    failure      kind of the failure (decode/stack_trace.py): the parts of a trace that cannot quote
                 data
    """

    state: str
    worker: str
    generation: int
    version: str
    failure: str | None = None

    def outdated_by(self, before: Condition) -> bool:
        """Check whether this is a late report of a worker that lost the connector in a rebalance.

        Such a worker may report `unassigned` after the worker that took the connector over has
        reported.
        """
        return self.state == "unassigned" and self.generation < before.generation


@dataclass(frozen=True, slots=True)
class StateChange:
    """State that a connector or a task entered, at the time of the record that reports it.

    state     one of STATES, or DELETED; the rest as in Condition
    """

    at: float
    state: str
    failure: str | None = None
    worker: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class StateHistory:
    """Newest changes of one connector (`task` None) or task, the oldest first; bounded."""

    connect_cluster: str
    connector: str
    task: int | None
    changes: tuple[StateChange, ...]


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """Record of the status topic. `condition` is None where the status was deleted."""

    connector: str
    condition: Condition | None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """Record of the status topic for a task. `condition` is None where the status was deleted."""

    connector: str
    task: int
    condition: Condition | None


@dataclass(frozen=True, slots=True)
class TopicUse:
    """Record of the status topic: this connector reads or writes this topic.

    `task` was the first to report it, `since` in Unix seconds; both None where it was reset.
    """

    topic: str
    connector: str
    task: int | None
    since: float | None


@dataclass(frozen=True, slots=True)
class ConnectorConfigured:
    """Record of the config topic. `settings` is None where the connector was deleted."""

    connector: str
    settings: ConnectorSettings | None


@dataclass(frozen=True, slots=True)
class TaskConfigured:
    """Record of the config topic, in force once a TasksCommitted follows.

    `assigned` are the partitions that a MirrorSourceTask is to replicate, and None for any other
    task.
    """

    connector: str
    task: int
    assigned: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class TasksCommitted:
    """Record of the config topic: the number of tasks, 0 while stopped; None if deleted."""

    connector: str
    tasks: int | None


@dataclass(frozen=True, slots=True)
class TargetState:
    """Record of the config topic: the requested state of a connector, in lower case.

    It is started, paused or stopped; None if deleted, which means started.
    """

    connector: str
    state: str | None


@dataclass(frozen=True, slots=True)
class TasksFenced:
    """Record of the config topic: the number of tasks that were fenced; None if deleted.

    Exactly-once support was on for this connector.
    """

    connector: str
    tasks: int | None


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """Record of the config topic: a requested restart; both fields are None if deleted."""

    connector: str
    include_tasks: bool | None
    only_failed: bool | None


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Record of the config topic: a key with which the workers sign their requests.

    Only its existence is retained.
    """


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """Record of the config topic: the level of a logger on all workers; None if deleted."""

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


# Connect takes nearly any name, and a path cannot carry all of them: Jetty 12 (Kafka 4) refuses an
# encoded `/`, `%`, backslash, control character, `.` and `..` with 400 "Ambiguous URI".
PATH_REFUSAL_REASON: Final = (
    "a worker since Kafka 4 takes no path with / % \\ or .. in a connector's name; "
    "its offsets are in the offsets topic"
)
_REFUSED_NAME: Final = re.compile(r"[/%\\\x00-\x1f\x7f]|\A\.\.?\Z")


def build_connector_path(connector: str, what: str = "") -> str:
    """Return `/connectors/NAME`, or `what` below it, with the name as one segment."""
    segment = quote(connector, safe="", errors="surrogatepass")
    if connector in {".", ".."}:  # a client would resolve it, and ask for another path
        segment = connector.replace(".", "%2E")
    return f"/connectors/{segment}/{what}" if what else f"/connectors/{segment}"


def is_refused_in_path(connector: str) -> bool:
    """Check whether a worker since Kafka 4 refuses this name in a path."""
    return _REFUSED_NAME.search(connector) is not None


# The most urgent first. A paused or stopped connector may have lag that grows, so it comes before
# what makes progress.
STATE_ORDER: Final = ("failed", "unassigned", "restarting", "paused", "stopped", "running")
CONDITION_ORDER: Final = (
    *("failed", "stalled", "silent", "rewound", "unassigned", "slow", "unknown", "restarting"),
    *("paused", "stopped", "ok", "idle", "running"),
)
_UNKNOWN_RANK: Final = CONDITION_ORDER.index("unknown")


def find_worst_state(connector: str | None, tasks: Iterable[str]) -> str | None:
    """Return the most urgent state of a connector and its tasks; None if none is known.

    Tasks of a paused or stopped connector are late, so its own state counts unless a task has
    failed.
    """
    if connector is None:
        return None
    known = {connector, *tasks}
    if "failed" in known or connector not in STATES:
        return "failed" if "failed" in known else connector
    if connector in {"paused", "stopped"}:
        return connector
    return min(known & {*STATE_ORDER}, key=STATE_ORDER.index)


def compute_urgency(state: str | None, verdict: str | None) -> int:
    """Return the rank in CONDITION_ORDER of the worse of state and verdict: 0 is most urgent."""
    words = (state, "unknown" if verdict is None and state in {None, "running"} else verdict)
    return min(
        CONDITION_ORDER.index(word) if word in CONDITION_ORDER else _UNKNOWN_RANK
        for word in words
        if word is not None
    )


def format_condition(state: str | None, verdict: str | None) -> str | None:
    """Return state and verdict as one text: `FAILED (stalled)`, `ok`; None for neither."""
    if state in {None, "running"}:
        return verdict or state
    text = format_state(state)
    return text if verdict in {None, state} else f"{text} ({verdict})"


def format_state(state: str | None) -> str | None:
    """Return the state for people: a failure stands out without colours, too."""
    return "FAILED" if state == "failed" else state
