"""Step that copies a record to quarantine before it is skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

import msgspec

from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.records.reader import RecordReader
from offsetwatch.config import Kafka
from offsetwatch.errors import (
    NotFound,
    SizeLimitExceeded,
    TargetUnreachable,
    TopicChanged,
)
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.broker_queries import find_kafka_cluster
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    Outcome,
    StepInspection,
    StepStatus,
)
from offsetwatch.remedy.model.plan import Copy, Plan, RecordLocation
from offsetwatch.remedy.model.quarantine import COPY_NOTE_PREFIX, QuarantineContext, QuarantineStore

READ_S: Final = 30.0
_BYTES_MAX: Final = 1  # the record itself, however large, and nothing else


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
        """Return the cluster's id, which does not depend on its configured name."""
        return self._admin.cluster().cluster_id

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id; None where the broker has no topic ids. Raises NotFound."""
        return self._admin.topic_id_now(topic)

    def window(self, partition: TopicPartition, start: int, until: int) -> LogWindow:
        """Read the record at `start`, if there is one before `until`. Raises IncompleteRead."""
        return self._reader.window(
            partition, start, until=until, count_max=1, bytes_max=_BYTES_MAX, timeout_s=READ_S
        )

    def close(self) -> None:
        """Close connections."""
        self._reader.close()
        self._admin.close()


class RecordCopier:
    """Inspections and executions of `Copy`, for one plan. Keeps nothing between calls."""

    def __init__(
        self,
        opened: Callable[[str], KafkaSource],
        quarantine: QuarantineStore,
        about: QuarantineContext,
    ) -> None:
        """Take the opener of configured Kafka clusters by name, and the plan's context.

        build_copy_context builds `about`; each step completes it.
        """
        self._opened = opened
        self._quarantine = quarantine
        self._about = about

    def look(self, step: Copy) -> StepInspection:
        """Inspect the copy: DONE if there is one, read back now; READY if the record is there.

        IMPOSSIBLE if the record is gone, by retention or compaction.
        """
        try:
            receipt = self._quarantine.find(step.skip_key, step.sha256)
        except OSError as exc:
            raise TargetUnreachable(self._quarantine.name, f"cannot be searched: {exc}") from exc
        if receipt is not None:
            return StepInspection(StepStatus.DONE, f"{COPY_NOTE_PREFIX}{receipt.where}")
        with closing(self._opened(step.record.kafka)) as source:
            found = _read_planned_record(source, step)
        if isinstance(found, StepInspection):
            return found
        return StepInspection(
            StepStatus.READY, f"{_format_record(step.record)} is there, {step.size_bytes} bytes"
        )

    def carry_out(self, step: Copy) -> Outcome:
        """Copy the record, if it is the planned one. An ACK includes a receipt."""
        with closing(self._opened(step.record.kafka)) as source:
            found = _read_planned_record(source, step)
            if isinstance(found, StepInspection):
                return Outcome(AttemptResult.NACK, found.said)
            about = msgspec.structs.replace(
                self._about,
                skip_key=step.skip_key,
                kafka=step.record.kafka,
                topic_id=step.record.topic_id,
                cluster_id=source.cluster_id(),
            )
        try:
            receipt = self._quarantine.put(found, about)
        except (OSError, SizeLimitExceeded) as exc:
            return Outcome(AttemptResult.NACK, f"no copy could be kept: {exc}")
        return Outcome(
            AttemptResult.ACK, f"{COPY_NOTE_PREFIX}{receipt.where}, sha256 {receipt.sha256}"
        )


def _read_planned_record(source: KafkaSource, step: Copy) -> RawRecord | StepInspection:
    """Read the planned record, or return why it is not the planned one."""
    location = step.record
    topic, name = f"{location.kafka}/{location.topic}", _format_record(location)
    partition = TopicPartition(location.topic, location.partition)
    try:
        topic_id = source.topic_id(location.topic)
        if location.topic_id and topic_id is not None and topic_id != location.topic_id:
            return StepInspection(StepStatus.FOREIGN, f"{topic} is another topic now")
        window = source.window(partition, location.offset, location.offset + 1)
    except NotFound:
        return StepInspection(StepStatus.IMPOSSIBLE, f"there is no {topic}-{location.partition}")
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


def _format_record(location: RecordLocation) -> str:
    return f"{location.kafka}/{location.topic}-{location.partition}@{location.offset}"


def build_copy_context(
    plan: Plan, *, stage: str | None = None, exception: str | None = None
) -> QuarantineContext:
    """Build the context of every copy of a plan; `stage` and `exception` as in classify.Failure."""
    return QuarantineContext(
        skip_key="",
        plan_id=plan.plan_id,
        incident="" if plan.remedy is None else plan.remedy.incident,
        connector=plan.subject.connector,
        connect_cluster=plan.subject.place,
        kafka="",
        stage=stage,
        exception_class=exception,
    )


def build_record_copier(
    clusters: Mapping[str, Kafka], quarantine: QuarantineStore, about: QuarantineContext
) -> RecordCopier:
    """Build the copier of a plan. `clusters` are those that a plan may name."""
    return RecordCopier(
        lambda kafka: KafkaSource(kafka, find_kafka_cluster(clusters, kafka)), quarantine, about
    )
