"""Offset store of a Connect cluster over its REST API, and checks of changes over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from offsetwatch.clock import UnixClock
from offsetwatch.config import Config, Connect
from offsetwatch.decode.dialects import has_own_order
from offsetwatch.errors import ConfigError, MalformedResponse, RemoteRefusal
from offsetwatch.model.commands import format_connector_command
from offsetwatch.model.connectors import Connector, ConnectorKind, ConnectorSettings
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.common_steps import add_topic_deletion
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.gather.live_queries import (
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
)
from offsetwatch.toolbox import connector_facts as facts
from offsetwatch.toolbox.offset_shapes import parse_fields
from offsetwatch.toolbox.store.offset_store import (
    MOVING_OFFSETS_NOTE,
    ChangeSteps,
    OffsetStore,
    StateBeforeChange,
    subject_kind,
)
from offsetwatch.toolbox.store.tombstones import DirectTopicWrites, plan_direct_writes
from offsetwatch.toolbox.suggestions import explain_offsets_name, format_names, suggest_name
from offsetwatch.toolbox.validation import ValidationProblem

ALTER_OFFSETS_SINCE: Final = (3, 6)  # KIP-875: offsets that can be altered
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

    def __init__(self, config: Config, connect: Connect, *, clock: UnixClock | None = None) -> None:
        if not connect.worker_urls:
            raise ConfigError((f"Connect cluster {connect.name} has no url to ask",))
        super().__init__(facts.KafkaClusterPool(config.kafka), connect.kafka)
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
            place=self.name,
            connector=connector,
            kind=subject_kind(kind),
            identity=self.identity(),
        )

    def report_missing(self, connector: str) -> ValidationProblem:
        """Return the problem that the connector is missing, with the nearest or existing names."""
        return ValidationProblem(
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
        for problem in check_worker_versions(self.connect, ALTER_OFFSETS_SINCE, found=versions):
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
        found = self.plan_direct_writes(connector, known, pairs, whole=whole)
        if found.writes:
            return ChangeSteps(found.writes, found.notes)
        notes = found.notes
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
        found = plan_direct_writes(
            self.config,
            self.connect,
            connector,
            settings,
            pairs,
            version=self._client.root().version,
            whole=whole,
        )
        self._topics[connector] = found.topics
        return found

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
    place = f"{strimzi.namespace}/{strimzi.name}"
    return ValidationProblem(
        name,
        f"Strimzi owns the connectors of {connect.name} ({place}), and puts back what is done to "
        "them over REST",
        f"offsets: `{format_connector_command('offsets alter', name, '--strimzi', place)}`; its "
        "state: spec.state of its resource",
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


def check_worker_versions(
    connect: Connect, needs: tuple[int, int] | None, *, found: WorkerVersions | None = None
) -> tuple[ValidationProblem, ...]:
    """Return workers older than the request needs, by their addresses.

    A leader of an older version would refuse the request, or take STOPPED for PAUSED. A worker that
    does not answer may have been removed.
    """
    if needs is None:
        return ()
    worker_versions = query_worker_versions(connect) if found is None else found
    wanted = f"Kafka {needs[0]}.{needs[1]}"
    right = "upgrade it first"
    if needs == ALTER_OFFSETS_SINCE:
        right += ", or stop every worker and go straight to the storage: --worker-config"
    problems = [
        ValidationProblem(
            connect.name,
            f"the worker at {url} has version {version}, and this needs {wanted}",
            right,
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


def describe_silent_workers(found: WorkerVersions) -> tuple[str, ...]:
    """Describe workers that did not answer, whose version is unknown should they come back."""
    return tuple(
        f"the worker at {url} gives no answer ({why}), so its version is unknown"
        for url, why in found.silent
    )
