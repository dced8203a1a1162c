"""Quarantine as configured: a topic, with files for records too large for it, or files alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from offsetwatch.clients.records.reader import RecordReader
from offsetwatch.clients.write.records import RecordWriter
from offsetwatch.clock import SystemClock, UnixClock
from offsetwatch.config import Config, Kafka, QuarantineConfig
from offsetwatch.errors import SizeLimitExceeded
from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.drivers.quarantine.file_store import FileQuarantine
from offsetwatch.remedy.drivers.quarantine.topic_store import QuarantineTopic, TopicQuarantine
from offsetwatch.remedy.model.quarantine import (
    QuarantineContext,
    QuarantinedCopy,
    QuarantinedRecord,
    Receipt,
)

_DAY_MS: Final = 86_400_000


class CombinedQuarantine:
    """A QuarantineStore that combines a topic and files. For one thread."""

    def __init__(self, files: FileQuarantine, topic: TopicQuarantine | None) -> None:
        self._files = files
        self._topic = topic

    @property
    def name(self) -> str:
        """See QuarantineStore."""
        return self._files.name if self._topic is None else self._topic.name

    def find(self, skip_key: str, sha256: str | None = None) -> Receipt | None:
        """See QuarantineStore."""
        found = self._files.find(skip_key, sha256)
        if found is None and self._topic is not None:
            return self._topic.find(skip_key, sha256)
        return found

    def put(self, record: RawRecord, about: QuarantineContext) -> Receipt:
        """See QuarantineStore. Raises RemoteRefusal if the topic is unsuitable."""
        if self._topic is not None:
            try:
                return self._topic.put(record, about)
            except SizeLimitExceeded:
                pass  # for the topic, and not for a disk
        return self._files.put(record, about)

    def kept(self) -> Iterator[tuple[QuarantinedCopy, QuarantinedRecord | None]]:
        """Yield all copies one by one, each with its record; None if the copy is damaged."""
        yield from self._files.kept()
        if self._topic is not None:
            yield from self._topic.kept()

    def problems(self) -> tuple[str, ...]:
        """Return why the existing topic is unsuitable."""
        return () if self._topic is None else self._topic.problems()


def build_configured_quarantine(
    loaded: Config, folder: Path, clock: UnixClock | None = None
) -> CombinedQuarantine:
    """Build the configured quarantine; `folder` is the state directory. Sends no request."""
    return build_quarantine(loaded.remedy.quarantine, loaded.kafka, folder, clock)


def build_quarantine(
    config: QuarantineConfig,
    clusters: Mapping[str, Kafka],
    folder: Path,
    clock: UnixClock | None = None,
) -> CombinedQuarantine:
    """Build a quarantine from its settings and clusters."""
    now = SystemClock() if clock is None else clock
    files = FileQuarantine(folder, now)
    if config.kafka is None:
        return CombinedQuarantine(files, None)
    properties = clusters[config.kafka].client_properties()
    days = config.retention_days
    topic = TopicQuarantine(
        QuarantineTopic(
            kafka=config.kafka,
            name=config.topic,
            replication=config.replication_factor,
            retention_ms=None if days is None else round(days * _DAY_MS),
        ),
        # Copies are held against their own hashes; a checksum would say nothing more.
        reader=partial(RecordReader, config.kafka, properties, committed=False, check_crcs=False),
        writer=partial(RecordWriter, config.kafka, properties),
        clock=now,
    )
    return CombinedQuarantine(files, topic)
