"""Offset store of a worker's storage, without Connect, by its properties file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.whole_topic import ProgressCallback, StorageAdmin, read_whole_topic
from offsetwatch.clock import SystemClock, UnixClock
from offsetwatch.config import Kafka
from offsetwatch.decode.connect_topics import decode_config
from offsetwatch.decode.connector_config import parse_bootstrap_addresses
from offsetwatch.decode.dialects import is_lookup_key
from offsetwatch.decode.java.hash_map import build_connect_key_from_json
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.errors import NotFound, RemoteRefusal
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import (
    ConnectorConfigured,
    ConnectorKind,
    ConnectorSettings,
    TargetState,
    TasksFenced,
)
from offsetwatch.model.offsets import LegacyOffset, SourceKey, SourceOffset
from offsetwatch.model.topology import is_provided
from offsetwatch.remedy.drivers.common_steps import add_topic_deletion
from offsetwatch.remedy.drivers.storage import (
    FileStorage,
    Storage,
    StorageDriver,
    TopicStorage,
    WorkerGroup,
)
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import PartitionOffset, PlanSubject, Write
from offsetwatch.remedy.model.stored_offsets import (
    OffsetStoreContents,
    build_reset_records,
    build_set_records,
    list_connectors,
    list_notes,
    list_pairs,
)
from offsetwatch.toolbox import connector_facts as facts
from offsetwatch.toolbox.source_pool import SourcePool
from offsetwatch.toolbox.store.offset_store import (
    ChangeSteps,
    HistoricOffset,
    OffsetStore,
    StateBeforeChange,
)
from offsetwatch.toolbox.store.worker_config import (
    DistributedStorage,
    StandaloneStorage,
    read_worker_config,
)
from offsetwatch.toolbox.validation import ValidationProblem

_STARTED: Final = "started"


@dataclass(slots=True)
class ConfigTopicContents:
    """The connectors in a config topic, without secrets.

    states      their requested states
    fenced      those for which exactly-once support has been on
    missing     the topic's name, if it does not exist
    """

    settings: dict[str, ConnectorSettings] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    fenced: set[str] = field(default_factory=set)
    missing: str | None = None


def open_worker_storage(
    path: Path,
    kafkas: facts.KafkaClusterPool,
    *,
    kafka: Kafka | None = None,
    kafka_name: str | None = None,
    flow: str | None = None,
    progress: ProgressCallback | None = None,
    sources: SourcePool | None = None,
) -> WorkerOffsetStore:
    """Open the storage of a worker's file. Raises ConfigError.

    With `kafka`, clients use the settings of that configured cluster and not the file's.
    """
    settings = read_worker_config(path, flow=flow, translate=kafka is None)
    if isinstance(settings, StandaloneStorage):
        return WorkerOffsetStore(
            _StandaloneWorkerStorage(settings), kafkas, SystemClock(), progress, sources
        )
    properties = settings.client if kafka is None else kafka.client_properties()
    assert properties is not None
    name = kafka_name or str(properties["bootstrap.servers"])
    admin = StorageAdmin(name, properties)
    worker = _DistributedWorkerStorage(
        settings, name, properties, admin, lambda: TailReader(name, properties)
    )
    return WorkerOffsetStore(worker, kafkas, SystemClock(), progress, sources)


class WorkerOffsetStore(OffsetStore):
    """OffsetStore of a worker's storage, which changes only while no worker runs.

    Everything is read once, at the first query.
    """

    def __init__(
        self,
        worker: _StandaloneWorkerStorage | _DistributedWorkerStorage,
        kafkas: facts.KafkaClusterPool,
        clock: UnixClock,
        progress: ProgressCallback | None = None,
        sources: SourcePool | None = None,
    ) -> None:
        super().__init__(kafkas, None, sources)
        self._worker = worker
        self._clock = clock
        self._progress = progress
        self._contents: dict[str, OffsetStoreContents] = {}
        self._missing: set[str] = set()

    @property
    def name(self) -> str:
        """The worker's topic as `kafka/topic`, or the path of a file."""
        return self._worker.storage(None).where

    @property
    def flow(self) -> tuple[str, str] | None:
        """The source and target alias of a dedicated MirrorMaker."""
        return self._worker.flow

    def identity(self) -> str | None:
        """Return the id of the Kafka cluster; None for a file."""
        return self._worker.storage(None).identity()

    def connectors(self) -> tuple[str, ...]:
        """Return connectors that have offsets here, and source connectors that are configured."""
        settings = self._worker.known().settings
        sources = (name for name, connector in settings.items() if not is_sink(connector))
        return tuple(sorted({*list_connectors(self._read_contents(None)), *sources}))

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """Return the offsets that a task would receive now.

        If the connector has its own topic, they are from there alone (KIP-618 promises more than
        any version of Connect does).
        """
        return list_pairs(self._read_contents(connector), connector)

    def notes(self, connector: str) -> tuple[str, ...]:
        """Return notes about its offsets, including a dedicated topic that hides the worker's."""
        contents = self._read_contents(connector)
        remarks = [*list_notes(contents, connector)]
        missing = self._worker.known().missing
        if missing is not None:
            remarks.append(f"there is no topic {missing}; it may keep its offsets in another one")
        where = contents.where
        if where in self._missing:
            remarks.append(f"{where} is not there yet: the worker has not created it")
        if where != self.name:
            # Connect copies to the worker's topic what it writes to this one.
            own = {pair.partition for pair in list_pairs(contents, connector)}
            shared = list_pairs(self._read_contents(None), connector)
            hidden = [pair for pair in shared if pair.partition not in own]
            if hidden:
                what = (
                    f"not used: {format_count(len(hidden), 'offset')} under its name in {self.name}"
                )
                remarks.append(f"it keeps its offsets in {where} alone; {what}")
        return tuple(remarks)

    def settings(self, connector: str) -> ConnectorSettings | None:
        """Return the settings that offsetwatch retains; None if they are unknown.

        A standalone worker's are unknown.
        """
        return self._worker.known().settings.get(connector)

    def state(self, connector: str) -> str | None:
        """Return the state after its workers restart: started, paused, stopped; None if unknown."""
        known = self._worker.known()
        if connector not in known.settings:
            return None
        return known.states.get(connector, _STARTED)

    def from_beginning(self, connectors: frozenset[str] | None) -> Iterator[HistoricOffset]:
        """Yield the records of the worker's topic, then of connectors' own topics.

        Raises RemoteRefusal for a file.
        """
        if isinstance(self._worker, _StandaloneWorkerStorage):
            raise RemoteRefusal(self.name, "an offsets file has no past: every commit replaces it")
        settings = self._worker.known().settings
        own = {
            name for name, known in settings.items() if known.dedicated_offsets_topic is not None
        }
        for owner in (None, *sorted(own)):
            if owner is not None and is_provided(settings[owner].dedicated_offsets_topic or ""):
                continue
            storage = self._worker.storage(owner)
            with suppress(NotFound):
                for record in _read_past_offsets(storage, settings, self._progress):
                    name = record.connector
                    is_here = name == owner if owner else name not in own
                    if is_here and (connectors is None or name in connectors):
                        yield record

    def busy(self, connector: str | None = None) -> tuple[str, ...]:
        """Return evidence of processes that might overwrite our records.

        It must be empty before a change. Raises AccessDenied where it cannot be read.
        """
        return self._worker.storage(connector).busy()

    def subject(self, connector: str) -> PlanSubject:
        """Build the subject of a plan.

        Its place does not depend on the cluster's configured name, because the lock uses it.
        """
        storage = self._worker.storage(connector)
        identity = storage.identity()
        where = storage.where if identity is None else f"{identity}/{self._worker.topic(connector)}"
        settings = self.settings(connector)
        mirror = settings is not None and settings.kind is ConnectorKind.MIRROR
        kind = ConnectorKind.MIRROR if mirror or self.flow else ConnectorKind.SOURCE
        return PlanSubject(
            driver="storage", store=where, connector=connector, kind=kind, identity=identity
        )

    def lock_name(self, connector: str) -> str:
        """Return the name in the journal of the storage."""
        return self.subject(connector).store

    def read_state(self, connector: str) -> StateBeforeChange | ValidationProblem:
        """Return the connector's state, with nothing to stop, or why it cannot be changed.

        It cannot while a worker may be running.
        """
        settings, state = self.settings(connector), self.state(connector)
        if settings is not None and is_sink(settings) and not self.pairs(connector):
            right = "its offsets are those of a consumer group: go through Connect, --connect"
            return ValidationProblem(connector, "is a sink, of which nothing is stored here", right)
        notes = () if state is None else (f"when its workers are back it is {state}",)
        new = settings is None and connector not in self._read_contents(connector).by_connector
        blocked, busy = None, self.busy(connector)
        if busy:
            right = "stop every worker first, or go through Connect: --connect"
            blocked = ValidationProblem(connector, f"it may be running: {'; '.join(busy)}", right)
        subject = self.subject(connector)
        return StateBeforeChange(subject, None, notes, new=new, blocked=blocked)

    def plan_steps(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        """Return the step that writes the exact records."""
        step = self.plan_reset(connector) if whole else self.plan_write(connector, pairs)
        return ChangeSteps((step,))

    def plan_write(self, connector: str, pairs: tuple[PartitionOffset, ...]) -> Write:
        """Plan the write that gives these partitions these offsets. Raises RemoteRefusal.

        It has no records if the partitions have them already.
        """
        contents = self._require_writable(connector)
        records = build_set_records(contents, connector, pairs)
        return Write(where=contents.where, records=records, pairs=pairs)

    def plan_reset(self, connector: str) -> Write:
        """Plan the write that removes all offsets of the connector."""
        contents = self._require_writable(connector)
        gone = (PartitionOffset(pair.partition, None) for pair in list_pairs(contents, connector))
        records = build_reset_records(contents, connector)
        return Write(where=contents.where, records=records, pairs=tuple(gone))

    def driver(self, connector: str) -> Driver:
        """Build a StorageDriver that also deletes topics."""
        driver = StorageDriver(self._worker.storage(connector), connector, self._clock)
        return add_topic_deletion(driver, self.kafkas.clusters)

    def close(self) -> None:
        """Close connections."""
        self._worker.close()
        self.kafkas.close()

    def _require_writable(self, connector: str) -> OffsetStoreContents:
        contents = self._read_contents(connector)
        missing = self._worker.known().missing
        why = None
        if missing is not None:
            why = (
                f"there is no topic {missing}, which would show whether {connector} keeps its "
                "offsets here: is config.storage.topic right?"
            )
        elif contents.where in self._missing:
            why = "there is no such topic: let the worker begin it first"
        if why is not None:
            raise RemoteRefusal(contents.where, why)
        return contents

    def _read_contents(self, connector: str | None) -> OffsetStoreContents:
        """Return the contents of a connector's storage; with None, of the worker's."""
        storage = self._worker.storage(connector)
        if storage.where not in self._contents:
            try:
                self._contents[storage.where] = storage.contents(self._progress)
            except NotFound:
                if connector is None or storage.where == self.name:
                    raise
                # A connector's own topic is made when it first starts.
                self._contents[storage.where] = OffsetStoreContents(storage.where, (), None)
                self._missing.add(storage.where)
        return self._contents[storage.where]


class _StandaloneWorkerStorage:
    """The file of a standalone worker; its connectors' configurations are in unknown files."""

    flow: tuple[str, str] | None = None

    def __init__(self, worker: StandaloneStorage) -> None:
        self._storage = FileStorage(
            worker.offsets_file,
            properties=worker.path,
            urls=worker.urls,
            in_envelope=worker.envelopes,
        )

    def storage(self, connector: str | None) -> Storage:
        del connector  # a standalone worker ignores offsets.storage.topic
        return self._storage

    def topic(self, connector: str) -> str | None:
        del connector
        return None

    def known(self) -> ConfigTopicContents:
        return ConfigTopicContents()

    def close(self) -> None:
        self._storage.close()


class _DistributedWorkerStorage:
    """The worker's topic, and the connectors' own topics."""

    def __init__(
        self,
        worker: DistributedStorage,
        kafka: str,
        properties: Mapping[str, Any],
        admin: StorageAdmin,
        open_reader: Callable[[], TailReader],
    ) -> None:
        self.flow = worker.flow
        self._worker = worker
        self._kafka = kafka
        self._properties = properties
        self._admin = admin
        self._open = open_reader
        self._storages: dict[str, TopicStorage] = {}
        self._known: ConfigTopicContents | None = None

    def storage(self, connector: str | None) -> TopicStorage:
        topic = self._worker.offsets_topic if connector is None else self.topic(connector)
        if topic not in self._storages:
            self._storages[topic] = TopicStorage(
                self._kafka,
                self._properties,
                topic,
                workers=WorkerGroup(self._worker.group, self._worker.flush_s, self._read_classes),
                in_envelope=self._worker.envelopes,
                admin=self._admin,
                open_reader=self._open,
            )
        return self._storages[topic]

    def topic(self, connector: str) -> str:
        """Return the topic of this connector's offsets.

        Raises RemoteRefusal if it is on another Kafka cluster.
        """
        known = self.known()
        settings = known.settings.get(connector)
        if settings is None:
            return self._worker.offsets_topic
        own = settings.dedicated_offsets_topic
        topic = self._worker.offsets_topic if own is None else own
        if is_provided(topic):
            raise RemoteRefusal(
                self._kafka,
                f"{connector} keeps its offsets in a topic of its own, whose name only a config "
                f"provider of its workers knows: {topic}",
            )
        if settings.offsets_addresses and (own is not None or connector in known.fenced):
            addresses = self._admin.topics()[1] | parse_bootstrap_addresses(self._worker.bootstrap)
            if not settings.offsets_addresses & addresses:
                raise RemoteRefusal(
                    f"{self._kafka}/{topic}",
                    f"{connector} keeps its offsets on another Kafka cluster: its own setting "
                    "producer.override.bootstrap.servers",
                )
        return topic

    def known(self) -> ConfigTopicContents:
        """Return the config topic's contents as of the first query."""
        if self._known is None:
            contents = ConfigTopicContents()
            try:
                for record in read_whole_topic(self._admin, self._open, self._worker.config_topic):
                    _apply_config_record(contents, record.key, record.value)
            except NotFound:
                contents.missing = self._worker.config_topic
            self._known = contents
        return self._known

    def _read_classes(self) -> dict[str, str]:
        return {name: known.class_name for name, known in self.known().settings.items()}

    def close(self) -> None:
        self._admin.close()


def _apply_config_record(
    known: ConfigTopicContents, key: bytes | None, value: bytes | None
) -> None:
    match decode_config(key, value):
        case ConnectorConfigured(connector, None):
            known.settings.pop(connector, None)
        case ConnectorConfigured(connector, ConnectorSettings() as settings):
            known.settings[connector] = settings
        case TargetState(connector, None):
            known.states.pop(connector, None)
        case TargetState(connector, str(state)):
            known.states[connector] = state
        case TasksFenced(connector, tasks):
            (known.fenced.discard if tasks is None else known.fenced.add)(connector)
        case _:
            pass


def is_sink(settings: ConnectorSettings) -> bool:
    """Return whether the class name is a sink's: the config topic does not have the kind."""
    return "Sink" in settings.class_name.rpartition(".")[2]


def _read_past_offsets(
    storage: Storage, settings: Mapping[str, ConnectorSettings], progress: ProgressCallback | None
) -> Iterator[HistoricOffset]:
    """Yield every record under a key that a task may have looked up."""
    assert isinstance(storage, TopicStorage)
    for record in storage.history(progress):
        key = decode_key(record.key)
        if not isinstance(key, SourceKey):
            continue
        known = settings.get(key.connector)
        if not _is_task_key(key, record.key, "" if known is None else known.class_name):
            continue
        value = decode_value(record.value)
        if isinstance(value, LegacyOffset):
            value = value.offset if isinstance(value.offset, SourceOffset) else None
        offset = value.text if isinstance(value, SourceOffset) and not value.is_null else None
        raw_key = (record.key or b"").decode() if key.ordered else None
        pair = PartitionOffset(key.identity, offset, raw_key)
        yield HistoricOffset(key.connector, pair, record.at, record.kpartition, record.koffset)


def _is_task_key(key: SourceKey, raw: bytes | None, class_name: str) -> bool:
    """Return whether a task of this class may look up this key, in an envelope or not.

    Whether envelopes were in use when it was written is unknown.
    """
    if is_lookup_key(key, class_name):
        return True
    lookup_key = build_connect_key_from_json(key.connector, key.identity)
    return (
        raw is not None and lookup_key is not None and raw.endswith((lookup_key, lookup_key + b"}"))
    )
