"""Offset store of a Connect cluster over its REST API, and checks of changes over it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, Final, NamedTuple

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.whole_topic import (
    LogRecord,
    StorageAdmin,
    read_topic_ends,
    read_whole_topic,
)
from offsetwatch.clock import UnixClock
from offsetwatch.config import Config, Connect
from offsetwatch.decode.dialects import has_own_order
from offsetwatch.errors import ClientError, ConfigError, MalformedResponse, NotFound, RemoteRefusal
from offsetwatch.formatting import format_connector_command, format_count
from offsetwatch.model.connectors import Connector, ConnectorKind, ConnectorSettings
from offsetwatch.model.topology import TopicPartition, is_provided
from offsetwatch.remedy.drivers.common_steps import add_topic_deletion
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.drivers.storage import build_contents
from offsetwatch.remedy.gather.live_queries import (
    ALTER_OFFSETS_SINCE,
    ConnectClient,
    WorkerVersions,
    parse_kafka_version,
    query_worker_versions,
)
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import (
    Alter,
    PartitionOffset,
    PlanSubject,
    RequestedState,
    Reset,
    Write,
)
from offsetwatch.remedy.model.stored_offsets import build_reset_records, build_set_records
from offsetwatch.remedy.model.stored_offsets import list_pairs as pairs_in
from offsetwatch.toolbox import connector_facts as facts
from offsetwatch.toolbox.offset_shapes import parse_fields
from offsetwatch.toolbox.source_pool import SourcePool
from offsetwatch.toolbox.store.offset_store import (
    MOVING_OFFSETS_NOTE,
    ChangeSteps,
    OffsetStore,
    StateBeforeChange,
    subject_kind,
)
from offsetwatch.toolbox.suggestions import explain_offsets_name, format_names, suggest_name
from offsetwatch.toolbox.validation import UnknownConnector, ValidationProblem

_NO_TASK_OFFSET: Final = (
    "has no offset for a task: its key is written in other bytes than Connect looks it up by, or "
    "its value is none; a reset over REST leaves it as it is"
)
_UNREACHABLE_OVER_REST: Final = (
    "has no offset over REST: its key is written in other bytes than REST looks it up by, which "
    "its task may well read (a map that is no HashMap), or its value is none; a change or reset "
    "over REST does not reach it: stop the workers and use --worker-config, which reads and "
    "changes their storage"
)


class RestOffsetStore(OffsetStore):
    """OffsetStore over REST. Raises ConfigError if the cluster has no address."""

    no_past = "Connect returns only current offsets; its storage has the past: --worker-config"
    can_watch = True

    def __init__(self, config: Config, connect: Connect, *, clock: UnixClock | None = None) -> None:
        if not connect.worker_urls:
            raise ConfigError((f"Connect cluster {connect.name} has no url to ask",))
        super().__init__(
            facts.KafkaClusterPool(config.kafka),
            connect.kafka,
            SourcePool(config.sources, connect.name),
        )
        self.config = config
        self.connect = connect
        self._clock = clock
        self._client = ConnectClient(connect)
        self._listed: dict[str, Connector] | None = None
        self._assigned: dict[str, frozenset[TopicPartition] | None] = {}
        self._topics: dict[str, tuple[str, ...]] = {}

    @property
    def name(self) -> str:
        """The Connect cluster's name."""
        return self.connect.name

    def identity(self) -> str | None:
        """Return the id of the Kafka cluster, if the worker returns it."""
        return self._client.root().kafka_cluster_id

    def connectors(self) -> tuple[str, ...]:
        """Return every connector. Connect does not show offsets of deleted ones."""
        return tuple(sorted(self._known()))

    def connector(self, name: str) -> Connector | None:
        """Return the connector's kind, state and settings at the first query; None if missing."""
        return self._known().get(name)

    def assigned(self, connector: str) -> frozenset[TopicPartition] | None:
        """Return the same; None if it has no tasks, as while it is stopped."""
        if connector not in self._assigned:
            self._assigned[connector] = self._client.assigned(connector) or None
        return self._assigned[connector]

    def kind_of(self, class_name: str) -> str | None:
        """Return `source` or `sink` for a connector class, in full or in Connect's short forms.

        None if the worker does not have the class. Raises MalformedResponse where it may be one of
        the plugins that the worker returns without a class.
        """
        simple = class_name.removesuffix("Connector")
        kinds, odd = self._client.plugins()
        for name, kind in kinds.items():
            last = name.rpartition(".")[2]
            if class_name == name or simple in {last, last.removesuffix("Connector")}:
                return kind
        if odd.count:
            why = f"no {class_name}, and members without a class: {odd.count} ({odd})"
            raise MalformedResponse(self.name, f"GET /connector-plugins: {why}")
        return None

    def settings(self, connector: str) -> ConnectorSettings | None:
        """Return the settings that offsetwatch retains of the connector; None if there is none."""
        known = self.connector(connector)
        return None if known is None else facts.extract_settings(known)

    def configured_upstream(self, connector: str) -> str | None:
        """Return the upstream cluster of its flow in the configuration; None without one."""
        return facts.find_configured_upstream(self.config, self.name, connector)

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """Return the offsets that a task would receive now. Raises NotFound."""
        return self._client.pairs(connector)

    def notes(self, connector: str) -> tuple[str, ...]:
        """Explain partitions that are listed without an offset.

        Connect found a key whose fields are not in HashMap order, by which REST finds offsets, or a
        value without an offset; or a dedicated topic hides the offset.
        """
        lost = [pair.partition for pair in self.pairs(connector) if pair.offset is None]
        if not lost:
            return ()
        known = self._known().get(connector)
        topic = None if known is None else known.dedicated_offsets_topic
        if topic is not None:
            why = (
                f"{topic}, its connector's own offsets topic, has none, and what the worker's "
                "topic may have for it does not count"
            )
            return tuple(f"{partition} has no offset for a task: {why}" for partition in lost)
        reasons = {True: _UNREACHABLE_OVER_REST, False: _NO_TASK_OFFSET}
        return tuple(
            f"{partition} {reasons[len(parse_fields(partition) or ()) > 1]}" for partition in lost
        )

    def lock_name(self, connector: str) -> str:
        """Return the name in the journal of the Connect cluster."""
        del connector
        return self.name

    def subject(self, connector: str, kind: ConnectorKind) -> PlanSubject:
        """Build the subject of a plan over REST."""
        return PlanSubject(
            driver="rest",
            store=self.name,
            connector=connector,
            kind=subject_kind(kind),
            identity=self.identity(),
        )

    def report_missing(self, connector: str) -> UnknownConnector:
        """Return the problem that the connector is missing, with the nearest or existing names."""
        return UnknownConnector(
            connector,
            f"Connect cluster {self.name} has no such connector",
            suggest_name(connector, self.connectors()) + explain_offsets_name(connector),
        )

    def read_state(self, connector: str) -> StateBeforeChange | ValidationProblem:
        """Return the connector's state, RUNNING for a failed one, or why it cannot be changed."""
        owned = check_strimzi_ownership(self.connect, connector)
        if owned is not None:
            return owned
        known = self.connector(connector)
        if known is None:
            return self.report_missing(connector)
        versions = query_worker_versions(self.connect)
        for problem in check_worker_versions(self.connect, ALTER_OFFSETS_SINCE, versions=versions):
            return problem
        notes = [
            *describe_silent_workers(versions),
            *([MOVING_OFFSETS_NOTE] if known.state == "running" else []),
        ]
        if known.state not in {"running", "paused", "stopped"}:
            notes.append(f"it is {known.state}; afterwards it is asked to run")
        subject = self.subject(connector, known.kind)
        return StateBeforeChange(subject, infer_target_state(known), tuple(notes))

    def plan_steps(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        """Return one request, or direct writes where Connect cannot remove offsets.

        Raises RemoteRefusal for a raw key that no request can express.
        """
        own = [pair.partition for pair in pairs if pair.key is not None]
        if own:
            raise RemoteRefusal(
                self.name,
                f"{format_names(own)}: the document has the raw key of a map that is no HashMap, "
                "and over REST Connect writes a HashMap's, which the task would not look up: stop "
                "the workers and use --worker-config",
            )
        known = self.connector(connector)
        assert known is not None  # `read_state` was called first
        writes = self.plan_direct_writes(connector, known, pairs, whole=whole)
        if writes.writes:
            return ChangeSteps(writes.writes, writes.notes)
        notes = writes.notes
        if known.kind is ConnectorKind.SOURCE and any(
            has_own_order(parse_fields(pair.partition), known.class_name) for pair in pairs
        ):
            notes = (*notes, _UNKNOWN_ORDER_NOTE)
        return ChangeSteps((Reset() if whole else Alter(pairs),), notes)

    def plan_direct_writes(
        self,
        connector: str,
        settings: Connector | ConnectorSettings,
        pairs: tuple[PartitionOffset, ...],
        *,
        whole: bool,
    ) -> DirectTopicWrites:
        """Plan direct writes of these pairs; the drivers built afterwards read those topics."""
        writes = plan_direct_writes(
            self.config,
            self.connect,
            connector,
            settings,
            pairs,
            version=self._client.root().version,
            whole=whole,
        )
        self._topics[connector] = writes.topics
        return writes

    def driver(self, connector: str, *, create_config: Mapping[str, Any] | None = None) -> Driver:
        """Build a RestDriver that also deletes topics; with `create_config` to create this one."""
        driver = RestDriver(
            self.connect,
            connector,
            self.config.kafka_of(self.connect),
            create_config=create_config,
            offsets_topics=self._topics.get(connector, ()),
            clock=self._clock,
        )
        return add_topic_deletion(driver, self.config.kafka)

    def close(self) -> None:
        """Close connections."""
        self._client.close()
        super().close()

    def _known(self) -> dict[str, Connector]:
        if self._listed is None:
            self._listed = {connector.name: connector for connector in self._client.connectors()}
        return self._listed


_UNKNOWN_ORDER_NOTE: Final = (
    "over REST Connect writes offsets in the order of a Java HashMap; if the connector's own map "
    "has another order, its task does not find them, and --worker-config is the way, with the "
    "workers stopped"
)


def check_strimzi_ownership(connect: Connect, name: str) -> ValidationProblem | None:
    """Return why Strimzi forbids changes over REST; None if it does not own the connectors.

    Its operator would revert them, in whole or in part.
    """
    strimzi = connect.strimzi
    if strimzi is None:
        return None
    resource = f"{strimzi.namespace}/{strimzi.name}"
    alter = format_connector_command("offsets alter", name, "--strimzi", resource)
    return ValidationProblem(
        name,
        f"Strimzi owns the connectors of {connect.name} ({resource}), and puts back what is done "
        "to them over REST",
        f"offsets: `{alter}`; its state: spec.state of its resource",
    )


def infer_target_state(connector: Connector) -> RequestedState:
    """Return the state that was requested for the connector, as far as Connect shows it.

    It does not for a failed or rebalancing connector; then it is RUNNING, which is nearly always
    right.
    """
    match connector.state:
        case "paused":
            return RequestedState.PAUSED
        case "stopped":
            return RequestedState.STOPPED
    return RequestedState.RUNNING


_STORAGE_INSTEAD: Final = "stop every worker and go straight to the storage: --worker-config"


def check_worker_versions(
    connect: Connect,
    needs: tuple[int, int] | None,
    *,
    instead: str = _STORAGE_INSTEAD,
    versions: WorkerVersions | None = None,
) -> tuple[ValidationProblem, ...]:
    """Return workers older than the request needs, by their addresses.

    instead     what to do on a worker that is too old

    A leader of an older version would refuse the request, or take STOPPED for PAUSED. A worker that
    does not answer may have been removed.
    """
    if needs is None:
        return ()
    worker_versions = query_worker_versions(connect) if versions is None else versions
    needed = f"Kafka {needs[0]}.{needs[1]}"
    problems = [
        ValidationProblem(
            connect.name,
            f"the worker at {url} has version {version}, and this needs {needed}",
            f"upgrade it first, or {instead}",
        )
        for url, version in worker_versions.versions
        if (parse_kafka_version(version) or needs) < needs
    ]
    if len(worker_versions.cluster_ids) > 1:
        ids = ", ".join(sorted(worker_versions.cluster_ids))
        problems.append(
            ValidationProblem(
                connect.name, f"its addresses lead to several Kafka clusters: {ids}", ""
            )
        )
    return tuple(problems)


def describe_silent_workers(versions: WorkerVersions) -> tuple[str, ...]:
    """Describe workers that did not answer, whose version is unknown should they come back."""
    return tuple(
        f"the worker at {url} gives no answer ({why}), so its version is unknown"
        for url, why in versions.silent
    )


# --- direct writes -------------------------------------------------------------------------------

# Connect cannot remove offsets of a source with its own offsets topic, on a worker with
# exactly-once support, since 3.8. There it writes the tombstones to its own topic first, and to the
# connector's from a callback that no longer has a transaction: after 90 s it returns 500, half
# done. So they are written directly to the connector's topic while the connector is stopped, with
# the exact bytes of their keys.
BROKEN_SINCE: Final = (3, 8)  # KAFKA-15018


class TopicLog:
    """An offsets topic. Raises ClientError."""

    def __init__(self, kafka: str, properties: Mapping[str, Any], topic: str) -> None:
        self._kafka, self._properties, self._topic = kafka, properties, topic
        self._admin = StorageAdmin(kafka, properties)

    @property
    def where(self) -> str:
        """The topic as `kafka/topic`."""
        return f"{self._kafka}/{self._topic}"

    def read(self) -> tuple[Mapping[int, int], tuple[LogRecord, ...]]:
        """Return (partition -> end, every record)."""
        ends = read_topic_ends(self._admin, self._topic)
        records = read_whole_topic(
            self._admin,
            lambda: TailReader(self._kafka, self._properties),
            self._topic,
            until=ends,
        )
        return ends.ends, tuple(records)

    def close(self) -> None:
        """Close connections."""
        self._admin.close()


class DirectTopicWrites(NamedTuple):
    """Writes that replace a request to Connect; no `writes` where Connect can do it."""

    writes: tuple[Write, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the writes."""
        return tuple(write.where.rpartition("/")[2] for write in self.writes)


def plan_direct_writes(
    config: Config,
    connect: Connect,
    connector: str,
    settings: Connector | ConnectorSettings,
    pairs: tuple[PartitionOffset, ...],
    *,
    version: str,
    whole: bool = False,
    opened: Callable[[str], TopicLog] | None = None,
) -> DirectTopicWrites:
    """Plan direct writes of these pairs; also for new offsets, which an undo would have to remove.

    Offsets removed from the connector's topic are removed from the worker's as well, as Connect
    does (KIP-875).

    whole   all other offsets of the connector in the topics are removed as well
    opened  opens the log of a topic; for tests
    """
    topic = settings.dedicated_offsets_topic
    if (
        topic is None
        or topic == connect.offsets_topic
        or settings.kind is ConnectorKind.SINK
        or (parse_kafka_version(version) or BROKEN_SINCE) < BROKEN_SINCE
    ):
        return DirectTopicWrites()
    unreadable = _OWN_TOPIC_UNREADABLE.format(topic=topic)
    kafka, away = config.kafka_of(connect), settings.offsets_addresses
    if kafka is None or is_provided(topic) or (away and not away & kafka.addresses):
        return DirectTopicWrites(notes=(unreadable,))
    properties = kafka.client_properties()
    open_log = opened or (lambda name: TopicLog(connect.home, properties, name))
    with closing(open_log(topic)) as log:
        try:
            classes = {connector: settings.class_name}
            own = _plan_own_topic_write(log, connector, pairs, classes, whole=whole)
        except NotFound:
            return DirectTopicWrites()  # no task of it has ever run
        except ClientError as exc:
            return DirectTopicWrites(notes=(f"{unreadable}: {exc}",))
    if own is None:
        return DirectTopicWrites()
    twin, note = _plan_worker_topic_write(
        connect.offsets_topic, open_log, connector, own, whole=whole
    )
    writes = tuple(write for write in (own, twin) if write is not None and write.records)
    said = _OWN_TOPIC_NOTE.format(topic=topic, records=_format_written(len(own.records)))
    notes = (said,) if note is None else (said, note)
    return DirectTopicWrites(writes, notes if writes else ())


def _plan_worker_topic_write(
    topic: str | None,
    open_log: Callable[[str], TopicLog],
    connector: str,
    own: Write,
    *,
    whole: bool,
) -> tuple[Write | None, str | None]:
    """Return what is written to the worker's topic, if anything, and a note about it."""
    gone = tuple(pair for pair in own.pairs if pair.offset is None)
    if not (gone or whole):
        return None, None
    if topic is None:
        return None, _WORKER_TOPIC_UNKNOWN
    with closing(open_log(topic)) as log:
        try:
            ends, log_records = log.read()
        except ClientError as exc:
            return None, f"{_WORKER_TOPIC_UNREADABLE.format(topic=topic)}: {exc}"
    contents = build_contents(log.where, log_records, len(ends))
    records = (
        build_reset_records(contents, connector)
        if whole
        else build_set_records(contents, connector, gone)
    )
    if not records:
        return None, None
    note = _WORKER_TOPIC_NOTE.format(topic=topic, records=_format_written(len(records)))
    return Write(where=log.where, records=records, pairs=()), note


def _plan_own_topic_write(
    log: TopicLog,
    connector: str,
    pairs: tuple[PartitionOffset, ...],
    classes: Mapping[str, str],
    *,
    whole: bool,
) -> Write | None:
    """Return what is written to the connector's topic; None where Connect can do it."""
    ends, log_records = log.read()
    if not is_transactional(log_records, ends):
        return None
    contents = build_contents(log.where, log_records, len(ends), classes=classes)
    there = {pair.partition for pair in pairs_in(contents, connector)}
    if whole:
        rest = sorted(there - {pair.partition for pair in pairs})
        pairs = (*(PartitionOffset(partition, None) for partition in rest), *pairs)
    elif all(pair.offset is not None and pair.partition in there for pair in pairs):
        return None
    return Write(
        where=log.where, records=build_set_records(contents, connector, pairs), pairs=pairs
    )


def _format_written(count: int) -> str:
    return format_count(count, "record is", "records are")


_OWN_TOPIC_NOTE: Final = (
    "its worker has exactly-once support, and it an offsets topic of its own ({topic}): there "
    "Connect cannot remove offsets, so {records} written to that topic instead"
)
_WORKER_TOPIC_NOTE: Final = (
    "{records} written to the worker's own topic ({topic}), too: what it has of the "
    "connector does not count now, and would again without the setting offsets.storage.topic"
)
_REMAINING_NOTE: Final = (
    "what it has of the connector stays, does not count now, and would again without the setting "
    "offsets.storage.topic"
)
_WORKER_TOPIC_UNREADABLE: Final = (
    f"the worker's own topic ({{topic}}) cannot be read: {_REMAINING_NOTE}"
)
_WORKER_TOPIC_UNKNOWN: Final = (
    f"the configuration does not name the worker's own topic "
    f"(connect[].offsets_topic): {_REMAINING_NOTE}"
)
_OWN_TOPIC_UNREADABLE: Final = (
    "its offsets topic ({topic}) cannot be read: if its worker has exactly-once support, "
    "Connect cannot remove offsets there and says so after 90 s"
)


def is_transactional(records: Iterable[LogRecord], ends: Mapping[int, int]) -> bool:
    """Return whether offsets are written in transactions.

    Each ends with a marker, which takes an offset and is never read. So no record comes right
    before the end, or before our own records there. Compaction makes gaps as well, but never at the
    end of a log.
    """
    last: dict[int, int] = {}
    for record in records:
        before = last.get(record.kpartition)
        if record.ours and before is not None and record.koffset > before + 1:
            return True
        last[record.kpartition] = record.koffset
    return any(offset < ends.get(number, 0) - 1 for number, offset in last.items())
