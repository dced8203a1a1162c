"""Changes of a connector's offsets over REST, and directly in their storage: two OffsetStores.

Nothing here changes anything: drivers are only built.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from offsetwatch.clock import UnixClock
from offsetwatch.config import Config, Connect
from offsetwatch.decode.dialects import has_own_order
from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.connect.connectors import Connector, ConnectorKind, ConnectorSettings
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.delete_topic import add_topic_deletion
from offsetwatch.remedy.drivers.rest.connect_state import query_worker_versions
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import Alter, PartitionOffset, Reset
from offsetwatch.toolbox import connector_facts as facts
from offsetwatch.toolbox.change import MOVING_OFFSETS_NOTE, ChangeSteps, StateBeforeChange
from offsetwatch.toolbox.lifecycle import (
    ALTER_OFFSETS_SINCE,
    build_subject,
    check_strimzi_ownership,
    check_worker_versions,
    describe_silent_workers,
    infer_target_state,
    report_missing_connector,
)
from offsetwatch.toolbox.offset_shapes import parse_fields
from offsetwatch.toolbox.store.rest import RestOffsetReader
from offsetwatch.toolbox.store.tombstones import plan_direct_writes
from offsetwatch.toolbox.store.worker_storage import WorkerOffsetReader, is_sink
from offsetwatch.toolbox.suggestions import format_names
from offsetwatch.toolbox.validation import ValidationFacts, ValidationProblem


class RestOffsetStore:
    """OffsetStore over the REST API of a Connect cluster."""

    def __init__(self, config: Config, connect: Connect) -> None:
        self._config = config
        self._connect = connect
        self._place = RestOffsetReader(connect)
        self._kafkas = facts.KafkaClusterPool(config.kafka)
        self._topics: dict[str, tuple[str, ...]] = {}

    @property
    def place(self) -> RestOffsetReader:
        """The reader of the current offsets."""
        return self._place

    @property
    def kafkas(self) -> facts.KafkaClusterPool:
        """The Kafka clusters of the configuration."""
        return self._kafkas

    def settings(self, connector: str) -> ConnectorSettings | None:
        """Return the settings that offsetwatch retains of the connector; None if there is none."""
        known = self._place.connector(connector)
        return None if known is None else facts.extract_settings(known)

    def upstream(self, connector: str) -> str | None:
        """Return the cluster that a MirrorSourceConnector copies from; None if unknown."""
        named = facts.find_configured_upstream(self._config, self._connect.name, connector)
        return named or self._kafkas.upstream(self.settings(connector))

    def lock(self, connector: str) -> str:
        """Return the name in the journal of the Connect cluster."""
        del connector
        return self._connect.name

    def standing(self, connector: str) -> StateBeforeChange | ValidationProblem:
        """Return the connector's state, RUNNING for a failed one, or why it cannot be changed."""
        mine = check_strimzi_ownership(self._connect, connector)
        if mine is not None:
            return mine
        known = self._place.connector(connector)
        if known is None:
            return report_missing_connector(self._place, connector)
        found = query_worker_versions(self._connect)
        for problem in check_worker_versions(self._connect, ALTER_OFFSETS_SINCE, found=found):
            return problem
        notes = [
            *describe_silent_workers(found),
            *([MOVING_OFFSETS_NOTE] if known.state == "running" else []),
        ]
        if known.state not in {"running", "paused", "stopped"}:
            notes.append(f"it is {known.state}; afterwards it is asked to run")
        return StateBeforeChange(
            build_subject(self._place, known), infer_target_state(known), tuple(notes)
        )

    def facts(
        self,
        connector: str,
        present: tuple[PartitionOffset, ...],
        wanted: Collection[TopicPartition],
    ) -> ValidationFacts:
        """Gather facts from its configuration, and from the clusters of the configuration file."""
        known = self._known(connector)
        return facts.gather_facts(
            connector,
            facts.extract_settings(known),
            present,
            wanted,
            kafkas=self._kafkas,
            home=self._connect.kafka,
            upstream=facts.find_configured_upstream(self._config, self._connect.name, connector),
            assigned=None if known.mirror is None else self._place.assigned(connector),
        )

    def effect(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        """Return one request, or direct writes where Connect cannot remove offsets.

        Raises RemoteRefusal for a raw key that no request can express.
        """
        own = [pair.partition for pair in pairs if pair.key is not None]
        if own:
            raise RemoteRefusal(
                self._place.name,
                f"{format_names(own)}: the document has the raw key of a map that is no "
                "HashMap, and over "
                "REST Connect writes a HashMap's, which the task would not look up: stop the "
                "workers and use --worker-config",
            )
        found = plan_direct_writes(
            self._config,
            self._connect,
            connector,
            self._known(connector),
            pairs,
            version=self._place.version(),
            whole=whole,
        )
        self._topics[connector] = found.topics
        if found.writes:
            return ChangeSteps(found.writes, found.notes)
        notes = (*found.notes, *_describe_unknown_order(self._known(connector), pairs))
        return ChangeSteps((Reset() if whole else Alter(pairs),), notes)

    def driver(self, connector: str) -> Driver:
        """Build a RestDriver that also deletes topics."""
        driver = RestDriver(
            self._connect,
            connector,
            self._config.kafka_of(self._connect),
            offsets_topics=self._topics.get(connector, ()),
        )
        return add_topic_deletion(driver, self._config.kafka)

    def close(self) -> None:
        """Close connections."""
        self._place.close()
        self._kafkas.close()

    def _known(self, connector: str) -> Connector:
        known = self._place.connector(connector)
        assert known is not None  # `standing` was asked first
        return known


def _describe_unknown_order(
    connector: Connector, pairs: tuple[PartitionOffset, ...]
) -> Iterator[str]:
    if connector.kind is ConnectorKind.SOURCE and any(
        has_own_order(parse_fields(pair.partition), connector.class_name) for pair in pairs
    ):
        yield (
            "over REST Connect writes offsets in the order of a Java HashMap; if the connector's "
            "own map has another order, its task does not find them, and --worker-config is the "
            "way, with the workers stopped"
        )


class WorkerOffsetStore:
    """OffsetStore of the storage in a worker's file, while no worker runs."""

    def __init__(
        self, reader: WorkerOffsetReader, kafkas: facts.KafkaClusterPool, clock: UnixClock
    ) -> None:
        self._place = reader
        self._kafkas = kafkas
        self._clock = clock

    @property
    def place(self) -> WorkerOffsetReader:
        """The reader of the current offsets."""
        return self._place

    @property
    def kafkas(self) -> facts.KafkaClusterPool:
        """The Kafka clusters of the configuration, or of a MirrorMaker's file."""
        return self._kafkas

    def settings(self, connector: str) -> ConnectorSettings | None:
        """Return the settings in the worker's config topic; None if it does not have them."""
        return self._place.settings(connector)

    def upstream(self, connector: str) -> str | None:
        """Return the cluster that a MirrorSourceConnector copies from; None if unknown."""
        return self._kafkas.upstream(self.settings(connector))

    def lock(self, connector: str) -> str:
        """Return the name in the journal of the storage."""
        return self._place.subject(connector).place

    def standing(self, connector: str) -> StateBeforeChange | ValidationProblem:
        """Return the connector's state, with nothing to stop, or why it cannot be changed.

        It cannot while a worker may be running.
        """
        settings = self._place.settings(connector)
        if settings is not None and is_sink(settings) and not self._place.pairs(connector):
            right = "its offsets are those of a consumer group: go through Connect, --connect"
            return ValidationProblem(connector, "is a sink, of which nothing is stored here", right)
        state = self._place.state(connector)
        notes = () if state is None else (f"when its workers are back it is {state}",)
        new = not self._place.knows(connector)
        blocked = None
        busy = self._place.busy(connector)
        if busy:
            right = "stop every worker first, or go through Connect: --connect"
            blocked = ValidationProblem(connector, f"it may be running: {'; '.join(busy)}", right)
        subject = self._place.subject(connector)
        return StateBeforeChange(subject, None, notes, new=new, blocked=blocked)

    def facts(
        self,
        connector: str,
        present: tuple[PartitionOffset, ...],
        wanted: Collection[TopicPartition],
    ) -> ValidationFacts:
        """Gather facts from the worker's config topic, if it has one."""
        return facts.gather_facts(
            connector,
            self._place.settings(connector),
            present,
            wanted,
            kafkas=self._kafkas,
            home=None,
        )

    def effect(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        """Return the step that writes the exact records."""
        if whole:
            return ChangeSteps((self._place.plan_reset(connector),))
        return ChangeSteps((self._place.plan_write(connector, pairs),))

    def driver(self, connector: str) -> Driver:
        """Build a StorageDriver that also deletes topics."""
        return add_topic_deletion(self._place.driver(connector, self._clock), self._kafkas.clusters)

    def close(self) -> None:
        """Close connections."""
        self._place.close()
        self._kafkas.close()
