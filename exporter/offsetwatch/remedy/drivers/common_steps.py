"""Steps that are the same for all drivers: topic deletion, record copy, probation.

Also the comparison of offsets that drivers have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, Final, Protocol

import msgspec

from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.records.reader import RecordReader
from offsetwatch.clients.write.kafka import TopicDeleter
from offsetwatch.clock import UnixClock
from offsetwatch.config import Kafka
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import NotFound, SizeLimitExceeded, TargetUnreachable, TopicChanged
from offsetwatch.formatting import format_count
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.row_positions import format_log_offset
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.live_queries import (
    Brokers,
    ConnectClient,
    RestConnectorState,
    find_kafka_cluster,
)
from offsetwatch.remedy.gather.source_logs import SourceLogs
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    Driver,
    DriverOffsets,
    Outcome,
    StepInspection,
    StepStatus,
)
from offsetwatch.remedy.model.plan import (
    AnyStep,
    Copy,
    DeleteTopic,
    FrozenOffsets,
    PartitionOffset,
    Plan,
    Prove,
    RecordLocation,
    parse_position,
)
from offsetwatch.remedy.model.quarantine import COPY_NOTE_PREFIX, QuarantineContext, QuarantineStore

QUIET_S: Final = 6.0  # longer than the 5 s that a task is given for its last commit
READ_S: Final = 30.0
_BYTES_MAX: Final = 1  # the record itself, however large, and nothing else


class StepHandler(Protocol):
    """Handler of the steps of one type, without regard to the connector's driver."""

    def inspect(self, step: Any) -> StepInspection:
        """Inspect the step, as Driver.inspect does."""

    def carry_out(self, step: Any) -> Outcome:
        """Try the step once, as Driver.carry_out does."""


class StepDispatcher:
    """Driver that leaves the steps of some types to their handlers, and the others to a driver."""

    def __init__(self, driver: Driver, handlers: Mapping[type[AnyStep], StepHandler]) -> None:
        self._driver = driver
        self._handlers = handlers

    def identity(self) -> str | None:
        return self._driver.identity()

    def offsets(self) -> DriverOffsets:
        return self._driver.offsets()

    def inspect(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        handler = self._handlers.get(type(step))
        return self._driver.inspect(step, frozen) if handler is None else handler.inspect(step)

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        handler = self._handlers.get(type(step))
        return self._driver.carry_out(step, frozen) if handler is None else handler.carry_out(step)


# --- offsets --------------------------------------------------------------------------------------


class QuietPeriod:
    """Time for which a connector's offsets have not changed, for the step `Settle`."""

    def __init__(self, clock: UnixClock) -> None:
        self._clock = clock
        self._since: tuple[tuple[PartitionOffset, ...], float] | None = None

    def restart(self) -> None:
        """Count from the next inspection on."""
        self._since = None

    def inspect(self, pairs: tuple[PartitionOffset, ...], quiet_s: float) -> StepInspection:
        """Inspect the present offsets: DONE once they have not changed for `quiet_s`."""
        now = self._clock.now()
        if self._since is None or self._since[0] != pairs or self._since[1] > now:
            self._since = (pairs, now)
        unchanged_s = now - self._since[1]
        if unchanged_s < quiet_s:
            return StepInspection(
                StepStatus.NOT_YET, f"its offsets have to stand still for {quiet_s:.0f} s"
            )
        return StepInspection(
            StepStatus.DONE, f"its offsets have not changed for {unchanged_s:.0f} s"
        )


def check_expected_offsets(
    now: tuple[PartitionOffset, ...], expected: tuple[PartitionOffset, ...]
) -> StepInspection:
    """Check whether these partitions have exactly these offsets."""
    offsets = _index_offsets(now)
    for pair in expected:
        if offsets.get(pair.partition) != pair.offset:
            stored = offsets.get(pair.partition, "none")
            said = f"{pair.partition} has {stored} by now, and had {pair.offset or 'none'}"
            return StepInspection(StepStatus.FOREIGN, said)
    return StepInspection(StepStatus.DONE, f"unchanged: {format_count(len(expected), 'offset')}")


def compare_offsets(
    pairs: tuple[PartitionOffset, ...],
    frozen: FrozenOffsets | None,
    target: tuple[PartitionOffset, ...] | None,
) -> StepInspection:
    """Compare the present offsets with those before and those requested.

    Offsets that the target does not name must stay; without a target none may remain.
    """
    now = _index_offsets(pairs)
    before = None if frozen is None else _index_offsets(frozen.pairs)
    requested: dict[str, str | None]
    if target is None:
        requested = dict.fromkeys({*now, *(before or {})})
    else:
        requested = {pair.partition: pair.offset for pair in target}
    wrong = [name for name, offset in requested.items() if now.get(name) != offset]
    if before is None:
        if wrong:
            return StepInspection(StepStatus.READY, "offsets differ")
        return StepInspection(StepStatus.DONE, "offsets are set")
    foreign = [
        name
        for name in {*wrong, *({*now, *before} - {*requested})}
        if now.get(name) != before.get(name)
    ]
    if foreign:
        first = min(foreign)
        more = "" if len(foreign) == 1 else f", and {len(foreign) - 1} more"
        current, was = now.get(first, "none"), before.get(first, "none")
        return StepInspection(StepStatus.FOREIGN, f"{first} has {current}, and had {was}{more}")
    if not wrong:
        return StepInspection(
            StepStatus.DONE, f"as requested: {format_count(len(requested), 'offset')}"
        )
    changed = sum(now.get(name) != before.get(name) for name in requested)
    if changed:
        return StepInspection(StepStatus.PARTLY, f"{changed} changed, {len(wrong)} not yet")
    return StepInspection(StepStatus.READY, f"{format_count(len(wrong), 'offset')} to change")


def _index_offsets(pairs: tuple[PartitionOffset, ...]) -> dict[str, str]:
    return {pair.partition: pair.offset for pair in pairs if pair.offset is not None}


# --- deletion of a topic --------------------------------------------------------------------------


class DeleteTopicHandler:
    """Inspections and executions of `DeleteTopic`. Keeps nothing between calls.

    `open_client` opens a client for a configured Kafka cluster by its name.
    """

    def __init__(self, open_client: Callable[[str], TopicDeleter]) -> None:
        self._open_client = open_client

    def inspect(self, step: DeleteTopic) -> StepInspection:
        """Inspect the topic: DONE if there is none of this name, or one with another id."""
        with closing(self._open_client(step.kafka)) as kafka:
            topic_id = kafka.topic_id(step.topic)
        name = f"{step.kafka}/{step.topic}"
        if topic_id is None:
            return StepInspection(StepStatus.DONE, f"there is no topic {name}")
        if topic_id != step.topic_id:
            return StepInspection(StepStatus.DONE, f"{name} is another topic now, created since")
        return StepInspection(StepStatus.READY, f"{name} is there")

    def carry_out(self, step: DeleteTopic) -> Outcome:
        """Delete the topic, if it has the planned id.

        The id is read one request before the deletion: a topic that is recreated in between would
        be lost. Kafka's clients delete by name only.
        """
        name = f"{step.kafka}/{step.topic}"
        with closing(self._open_client(step.kafka)) as kafka:
            if kafka.topic_id(step.topic) != step.topic_id:
                return Outcome(
                    AttemptResult.NACK, f"{name} is not the topic that was to be deleted"
                )
            kafka.delete(step.topic)
        return Outcome(AttemptResult.ACK, f"{name} is deleted")


def add_topic_deletion(driver: Driver, clusters: Mapping[str, Kafka]) -> StepDispatcher:
    """Let a driver delete topics, too. `clusters` are those that a plan may name."""

    def open_client(kafka: str) -> TopicDeleter:
        return TopicDeleter(kafka, find_kafka_cluster(clusters, kafka).client_properties())

    return StepDispatcher(driver, {DeleteTopic: DeleteTopicHandler(open_client)})


# --- copy of a record before it is skipped --------------------------------------------------------


class RecordSource(Protocol):
    """Log that has the record: of a Kafka cluster, or of a source (source_logs.py)."""

    def cluster_id(self) -> str | None:
        """Return the id of the Kafka cluster, which does not depend on its configured name."""

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id; None where the broker has no topic ids. Raises NotFound."""

    def window(self, partition: TopicPartition, start: int, until: int) -> LogWindow:
        """Read the record at `start`, if there is one before `until`. Raises IncompleteRead."""

    def close(self) -> None:
        """Close connections."""


class KafkaSource:
    """Cluster that has the record, read without checking checksums. Calls may raise ClientError.

    The record is verified by its hash, and one that is skipped because its batch is corrupt has no
    valid checksum.
    """

    def __init__(self, kafka: str, cluster: Kafka) -> None:
        self.name = kafka
        properties = cluster.client_properties()
        self._admin = KafkaInspector(kafka, properties)
        self._reader = RecordReader(kafka, properties, committed=False, check_crcs=False)

    def cluster_id(self) -> str | None:
        return self._admin.cluster().cluster_id

    def topic_id(self, topic: str) -> str | None:
        return self._admin.topic_id_now(topic)

    def window(self, partition: TopicPartition, start: int, until: int) -> LogWindow:
        return self._reader.window(
            partition, start, until=until, count_max=1, bytes_max=_BYTES_MAX, timeout_s=READ_S
        )

    def close(self) -> None:
        """Close connections."""
        self._reader.close()
        self._admin.close()


class RecordCopier:
    """Inspections and executions of `Copy`, for one plan. Keeps nothing between calls.

    open_source     opens a configured Kafka cluster, or a source, by its name in plans
    about           the plan's context (build_copy_context), which each step completes
    """

    def __init__(
        self,
        open_source: Callable[[str], RecordSource],
        quarantine: QuarantineStore,
        about: QuarantineContext,
    ) -> None:
        self._open_source = open_source
        self._quarantine = quarantine
        self._about = about

    def inspect(self, step: Copy) -> StepInspection:
        """Inspect the copy: DONE if there is one, read back now; READY if the record is there.

        IMPOSSIBLE if the record is gone, by retention or compaction.
        """
        try:
            receipt = self._quarantine.find(step.skip_key, step.sha256)
        except OSError as exc:
            raise TargetUnreachable(self._quarantine.name, f"cannot be searched: {exc}") from exc
        if receipt is not None:
            return StepInspection(StepStatus.DONE, f"{COPY_NOTE_PREFIX}{receipt.where}")
        with closing(self._open_source(step.record.kafka)) as source:
            record = _read_planned_record(source, step)
        if isinstance(record, StepInspection):
            return record
        return StepInspection(
            StepStatus.READY,
            f"{step.record.text} is there, {format_count(step.size_bytes, 'byte')}",
        )

    def carry_out(self, step: Copy) -> Outcome:
        """Copy the record, if it is the planned one. An ACK includes a receipt."""
        with closing(self._open_source(step.record.kafka)) as source:
            record = _read_planned_record(source, step)
            if isinstance(record, StepInspection):
                return Outcome(AttemptResult.NACK, record.said)
            about = msgspec.structs.replace(
                self._about,
                skip_key=step.skip_key,
                kafka=step.record.kafka,
                topic_id=step.record.topic_id,
                cluster_id=source.cluster_id(),
            )
        try:
            receipt = self._quarantine.put(record, about)
        except (OSError, SizeLimitExceeded) as exc:
            return Outcome(AttemptResult.NACK, f"no copy could be kept: {exc}")
        return Outcome(
            AttemptResult.ACK, f"{COPY_NOTE_PREFIX}{receipt.where}, sha256 {receipt.sha256}"
        )


def _read_planned_record(source: RecordSource, step: Copy) -> RawRecord | StepInspection:
    location = step.record
    topic, name = f"{location.kafka}/{location.topic}", location.text
    partition = TopicPartition(location.topic, location.partition)
    try:
        topic_id = source.topic_id(location.topic)
        if location.topic_id and topic_id is not None and topic_id != location.topic_id:
            return StepInspection(StepStatus.FOREIGN, f"{topic} is another topic now")
        window = source.window(partition, location.offset, location.offset + 1)
    except NotFound:
        return StepInspection(StepStatus.IMPOSSIBLE, f"there is no {location.log}")
    except TopicChanged:
        said = f"the log ends before {name}: it was truncated or recreated"
        return StepInspection(StepStatus.FOREIGN, said)
    if window.log_start > location.offset:
        said = f"{name} is gone: the log begins at {window.log_start}"
        return StepInspection(StepStatus.IMPOSSIBLE, said)
    if not window.records:
        if window.corrupt_at is not None:
            return StepInspection(StepStatus.IMPOSSIBLE, f"the batch of {name} cannot be decoded")
        if location.offset >= window.end:
            said = f"{name} is not there: the log ends at {window.end}"
            return StepInspection(StepStatus.FOREIGN, said)
        said = f"{name} is gone: there is no record at this offset"
        return StepInspection(StepStatus.IMPOSSIBLE, said)
    record = window.records[0]
    if record.sha256 != step.sha256:
        said = f"{name} is another record than the one that was read"
        return StepInspection(StepStatus.FOREIGN, said)
    return record


def build_copy_context(
    plan: Plan, *, stage: str | None = None, exception: str | None = None
) -> QuarantineContext:
    """Build the context of every copy of a plan; `stage` and `exception` as in classify.Failure."""
    return QuarantineContext(
        skip_key="",
        plan_id=plan.plan_id,
        incident="" if plan.remedy is None else plan.remedy.incident,
        connector=plan.subject.connector,
        connect_cluster=plan.subject.store,
        kafka="",
        stage=stage,
        exception_class=exception,
    )


def build_record_copier(
    clusters: Mapping[str, Kafka],
    quarantine: QuarantineStore,
    about: QuarantineContext,
    sources: Iterable[Source] = (),
) -> RecordCopier:
    """Build the copier of a plan. `clusters` and `sources` are those that a plan may name."""

    def open_source(name: str) -> RecordSource:
        log = SourceLogs(sources).find(name)
        return KafkaSource(name, find_kafka_cluster(clusters, name)) if log is None else log

    return RecordCopier(open_source, quarantine, about)


# --- probation after a skip -----------------------------------------------------------------------


LastRecordCheck = Callable[[RecordLocation], bool]
"""Returns whether no readable record comes after this one."""


class ProbationChecker:
    """Inspections of the step `Prove`, for one connector: whether a skip has helped.

    It changes nothing, and remembers only since when the connector runs without failing: a process
    that takes over the plan starts counting again.
    """

    def __init__(
        self,
        client: ConnectClient,
        connector: str,
        clock: UnixClock,
        nothing_after: LastRecordCheck,
    ) -> None:
        self._client = client
        self._connector = connector
        self._clock = clock
        self._nothing_after = nothing_after
        self._quiet_since: float | None = None

    def inspect(self, step: Prove) -> StepInspection:
        """Inspect whether the connector gets past the record and keeps running.

        FOREIGN if it failed again before it passed the record, if its position went back before it,
        or if another client paused or stopped it before it passed.
        """
        try:
            connector = self._client.read_state(self._connector)
            pairs = {pair.partition: pair for pair in self._client.pairs(self._connector)}
        except NotFound:
            # A worker that is still starting says so of everything, and then of this list, too.
            if any(connector.name == self._connector for connector in self._client.connectors()):
                return StepInspection(
                    StepStatus.NOT_YET, "a worker lists it and has yet to find it"
                )
            return StepInspection(StepStatus.DONE, "another client has deleted it since")
        if connector is None:
            return StepInspection(StepStatus.NOT_YET, "no worker has said anything of it yet")
        target, position = parse_position(step.pair), parse_position(pairs.get(step.pair.partition))
        if target is None or position is None:
            said = "its offset is none that could be compared any more"
            return StepInspection(StepStatus.FOREIGN, said)
        position_text, target_text = format_log_offset(position), format_log_offset(target)
        if position < target:
            said = f"it is back at {position_text}, before the {target_text} it was given"
            return StepInspection(StepStatus.FOREIGN, said)
        state = connector.status.state
        passed = StepStatus.DONE if position > target else StepStatus.FOREIGN
        if state in {"stopped", "paused"}:
            said = f"another client has requested {state} since, and it is at {position_text}"
            return StepInspection(passed, said)
        if state == "failed" or "failed" in connector.status.tasks:
            self._quiet_since = None
            if position > target:
                return StepInspection(
                    passed, f"it got past it, to {position_text}, and failed later on"
                )
            return StepInspection(passed, f"it failed again, still at {position_text}")
        return self._inspect_run(step, connector, position, target)

    def carry_out(self, _step: Prove) -> Outcome:
        """Do nothing: there is nothing to request."""
        return Outcome(AttemptResult.ACK, "nothing to request")

    def _inspect_run(
        self, step: Prove, connector: RestConnectorState, position: int, target: int
    ) -> StepInspection:
        now = self._clock.now()
        if not _is_running(connector):
            self._quiet_since = None
            return StepInspection(StepStatus.NOT_YET, "its tasks are not all running yet")
        if self._quiet_since is None or self._quiet_since > now:
            self._quiet_since = now
        quiet_s, position_text = now - self._quiet_since, format_log_offset(position)
        if position == target and not self._nothing_after(step.record):
            said = f"it runs, and has not committed beyond {position_text} yet"
            return StepInspection(StepStatus.NOT_YET, said)
        if quiet_s < step.quiet_s:
            said = f"it runs, at {position_text}; it has to for {step.quiet_s:.0f} s"
            return StepInspection(StepStatus.NOT_YET, said)
        said = f"it has run for {quiet_s:.0f} s, and is at {position_text}"
        return StepInspection(StepStatus.DONE, said)


def build_last_record_check(brokers: Brokers) -> LastRecordCheck:
    """Build the check of whether no readable record comes after one."""

    def is_last(record: RecordLocation) -> bool:
        partition = TopicPartition(record.topic, record.partition)
        return brokers.first(record.kafka, partition, record.offset + 1, committed=True) is None

    return is_last


def _is_running(connector: RestConnectorState) -> bool:
    tasks = connector.status.tasks
    return (
        connector.status.state == "running"
        and bool(connector.configured)
        and len(tasks) >= connector.configured
        and set(tasks) == {"running"}
    )
