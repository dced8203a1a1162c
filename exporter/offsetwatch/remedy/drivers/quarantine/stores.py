"""Quarantine of skipped records: copies in a topic, in files of the state directory, or in both.

Files are used where no topic is configured, and for records too large for the topic. Before a
receipt is given, the copy is written durably, read back and compared.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from offsetwatch.clients.kafka.inspector import TopicSettings
from offsetwatch.clients.records.reader import RecordReader
from offsetwatch.clients.write.kafka import OutgoingRecord, RecordWriter
from offsetwatch.clock import SystemClock, UnixClock
from offsetwatch.config import Config, Kafka, QuarantineConfig
from offsetwatch.disk import sync_folder
from offsetwatch.errors import (
    ClientError,
    MalformedResponse,
    RemoteRefusal,
    ResponseTimeout,
    SizeLimitExceeded,
    TopicChanged,
)
from offsetwatch.formatting import format_count
from offsetwatch.model.records import IncompleteRead, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.quarantine import (
    DamagedCopy,
    QuarantineContext,
    QuarantinedCopy,
    QuarantinedRecord,
    QuarantineFileHead,
    Receipt,
    build_copy_headers,
    build_file_lines,
    choose_partition,
    compute_key_id,
    compute_receipt_id,
    parse_file_head,
    parse_file_lines,
    rebuild_record,
)

FOLDER: Final = "quarantine"
SUFFIX: Final = ".jsonl"
_NAMES_MAX: Final = 100  # of one record: each but the last is damaged
PARTITIONS: Final = 6  # of a topic that we make: a search reads one of them
REPLICATION: Final = 3
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024  # of a topic that we make; brokers hang up at 100 MiB
READ_BACK_S: Final = 30.0
SEARCH_S: Final = 60.0
_COUNT_MAX: Final = 1000
_BYTES_MAX: Final = 32 * 1024 * 1024
_DAY_MS: Final = 86_400_000
_NO_LIMIT: Final = -1


class FileQuarantine:
    """A QuarantineStore in files of the state directory.

    A file's name is derived from its content; no file is ever overwritten. Calls raise OSError
    where the disk fails: there is no receipt then, and no file remains.
    """

    def __init__(self, folder: Path, clock: UnixClock) -> None:
        """Take `folder`, which is the state directory."""
        self._home = folder / FOLDER
        self.name = str(self._home)
        self._clock = clock

    def find(self, skip_key: str, sha256: str | None = None) -> Receipt | None:
        paths = self._paths(compute_key_id(skip_key))
        candidates = [_read_receipt(path, skip_key, sha256) for path in paths]
        receipts = [receipt for receipt in candidates if receipt is not None]
        if receipts:
            sync_folder(self._home)  # its writer may have ended before
        return max(receipts, key=lambda receipt: receipt.at, default=None)

    def put(self, record: RawRecord, about: QuarantineContext) -> Receipt:
        sha256 = record.sha256
        stored = self.find(about.skip_key, sha256)
        if stored is not None:
            return stored
        if not self._home.exists():
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            sync_folder(self._home.parent)
        path = self._write_file(record, about, compute_receipt_id(about.skip_key, sha256))
        receipt = _read_receipt(path, about.skip_key, sha256)
        if receipt is None:
            path.unlink()
            raise OSError(f"{path} is not what was written")
        return receipt

    def list_copies(self) -> Iterator[tuple[QuarantinedCopy, QuarantinedRecord | None]]:
        """Yield all copies by name, each with its record; None if the copy is damaged."""
        for path in self._paths(""):
            head, whole = _read_head(path), read_copy(path)
            if isinstance(head, DamagedCopy):
                receipt = Receipt(str(path), None, None, str(path), "", path.stat().st_mtime)
                yield _build_damaged_entry(path.stem, receipt, 0, head), None
                continue
            entry = QuarantinedCopy(
                id=compute_receipt_id(head.about.skip_key, head.sha256),
                receipt=Receipt(str(path), None, None, str(path), head.sha256, head.at),
                about=head.about,
                record=(head.topic, head.partition, head.offset),
                size_bytes=head.size_bytes,
                problem=whole.reason if isinstance(whole, DamagedCopy) else None,
            )
            yield entry, whole if isinstance(whole, QuarantinedRecord) else None

    def _paths(self, prefix: str) -> list[Path]:
        return sorted(self._home.glob(f"{prefix}*{SUFFIX}")) if self._home.exists() else []

    def _write_file(self, record: RawRecord, about: QuarantineContext, stem: str) -> Path:
        handle, name = tempfile.mkstemp(dir=self._home, prefix=".", suffix=".fresh")
        fresh = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:  # mkstemp made it for us alone: 0600
                file.writelines(build_file_lines(record, about, self._clock.now()))
                file.flush()
                os.fsync(file.fileno())
            path = self._link(fresh, stem)
        finally:
            fresh.unlink()
        try:
            sync_folder(self._home)
        except OSError:
            path.unlink()
            raise
        return path

    def _link(self, fresh: Path, stem: str) -> Path:
        """Link the file to its name: a rename would overwrite an existing file.

        An existing file of the name was read before, and is damaged.
        """
        for number in range(_NAMES_MAX):
            path = self._home / (f"{stem}-{number}{SUFFIX}" if number else f"{stem}{SUFFIX}")
            with suppress(FileExistsError):
                path.hardlink_to(fresh)
                return path
        raise OSError(f"{self._home / stem}{SUFFIX} is there {_NAMES_MAX} times, and damaged")


def read_copy(path: Path) -> QuarantinedRecord | DamagedCopy:
    """Read the copy in a file."""
    try:
        with path.open("rb") as lines:
            return parse_file_lines(lines)
    except OSError as exc:
        return DamagedCopy(f"it cannot be read: {exc.strerror}")


def write_copy(path: Path, record: RawRecord, about: QuarantineContext, moment: float) -> None:
    """Write a copy of the same format to a path, readable by its owner only.

    Raises OSError, including FileExistsError.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.writelines(build_file_lines(record, about, moment))


def _read_head(path: Path) -> QuarantineFileHead | DamagedCopy:
    try:
        with path.open("rb") as lines:
            return parse_file_head(lines.readline())
    except OSError as exc:
        return DamagedCopy(f"it cannot be read: {exc.strerror}")


def _read_receipt(path: Path, skip_key: str, sha256: str | None) -> Receipt | None:
    """Return the receipt of a sound file that has this skip key and hash; None for any other."""
    head = _read_head(path)
    if isinstance(head, DamagedCopy) or head.about.skip_key != skip_key:
        return None
    if (sha256 is not None and head.sha256 != sha256) or isinstance(read_copy(path), DamagedCopy):
        return None
    return Receipt(str(path), None, None, str(path), head.sha256, head.at)


CopyPosition = tuple[int, int, str]  # partition, offset, sha256 of the record


@dataclass(slots=True)
class _CopyIndex:
    topic_id: str
    next: dict[int, int] = field(default_factory=dict)
    copies: dict[str, list[CopyPosition]] = field(default_factory=dict)


class TopicQuarantine:
    """A QuarantineStore in a topic. For one thread; keeps no connection between calls.

    The copy's key determines its partition, so that a search reads only one. Positions that a
    search found are remembered, and read again before a receipt is given for them.

    kafka           the configured name of the topic's cluster
    replication     of a topic that is created; None for three, or the number of brokers if fewer
    retention_ms    None for unlimited
    """

    def __init__(
        self,
        kafka: str,
        topic: str,
        *,
        replication: int | None = None,
        retention_ms: int | None = None,
        reader: Callable[[], AbstractContextManager[RecordReader]],
        writer: Callable[[], RecordWriter],
        clock: UnixClock,
    ) -> None:
        self.name = f"{kafka}/{topic}"
        self._topic = topic
        self._replication = replication
        self._retention_ms = retention_ms
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._index = _CopyIndex("")

    def find(self, skip_key: str, sha256: str | None = None) -> Receipt | None:
        """See QuarantineStore. Raises ResponseTimeout if the partition was not read to its end.

        What was read by then is not read again.
        """
        with closing(self._writer()) as writer:
            settings = writer.settings(self._topic)
        if settings is None:
            return None
        partition = choose_partition(skip_key, settings.partitions)
        with self._reader() as reader:
            for _ in self._read_new(reader, settings, partition):
                pass
            for copy in reversed(self._index.copies.get(skip_key, [])):
                if sha256 is None or copy[2] == sha256:
                    receipt = self._read_back(reader, copy)
                    if receipt is not None:
                        return receipt
        return None

    def put(self, record: RawRecord, about: QuarantineContext) -> Receipt:
        """See QuarantineStore.

        Raises SizeLimitExceeded for a record too large for the topic, and RemoteRefusal if the
        topic is unsuitable.
        """
        sha256 = record.sha256
        with closing(self._writer()) as writer:
            settings = self._ensure_topic(writer)
            partition = choose_partition(about.skip_key, settings.partitions)
            copy = OutgoingRecord(
                self._topic,
                partition,
                record.key,
                record.value,
                build_copy_headers(record, about),
            )
            if copy.size_bytes > settings.message_bytes_max:
                of = f"{copy.size_bytes} bytes, and the topic takes {settings.message_bytes_max}"
                raise SizeLimitExceeded(self.name, of)
            offset = writer.write(copy)
        try:
            with self._reader() as reader:
                receipt = self._read_back(reader, (partition, offset, sha256))
        except ClientError as exc:  # the copy is written by then; the answer does not matter
            raise ResponseTimeout(
                self.name, f"a copy was written and not read back: {exc}"
            ) from exc
        if receipt is None:
            said = f"the copy at {partition}@{offset} is not what was written"
            raise MalformedResponse(self.name, said)
        self._index.copies.setdefault(about.skip_key, []).append((partition, offset, sha256))
        return receipt

    def list_copies(self) -> Iterator[tuple[QuarantinedCopy, QuarantinedRecord | None]]:
        """Yield all copies by partition, each with its record; None if the copy is damaged."""
        with closing(self._writer()) as writer:
            settings = writer.settings(self._topic)
        if settings is None:
            return
        self._index = _CopyIndex("")
        with self._reader() as reader:
            for partition in range(settings.partitions):
                for copy, rebuilt in self._read_new(reader, settings, partition):
                    yield _build_copy_entry(self.name, copy, rebuilt)

    def problems(self) -> tuple[str, ...]:
        """Return why the topic is unsuitable; empty if it does not exist."""
        with closing(self._writer()) as writer:
            settings = writer.settings(self._topic)
        return () if settings is None else _find_topic_problems(settings, self._retention_ms)

    def _ensure_topic(self, writer: RecordWriter) -> TopicSettings:
        """Return the topic's settings, created if missing. Raises RemoteRefusal if unsuitable."""
        settings = writer.settings(self._topic)
        if settings is None:
            self._create_topic(writer)
            settings = writer.settings(self._topic)
        if settings is None:
            raise ResponseTimeout(self.name, "it was made, and is not seen")
        problems = _find_topic_problems(settings, self._retention_ms)
        if problems:
            raise RemoteRefusal(self.name, "; ".join(problems))
        return settings

    def _create_topic(self, writer: RecordWriter) -> None:
        replication = self._replication or min(REPLICATION, writer.brokers())
        retention = self._retention_ms
        writer.create(
            self._topic,
            partitions=PARTITIONS,
            replication=replication,
            config={
                "cleanup.policy": "delete",
                "retention.ms": str(_NO_LIMIT if retention is None else retention),
                "retention.bytes": str(_NO_LIMIT),
                "max.message.bytes": str(MESSAGE_BYTES_MAX),
                "min.insync.replicas": str(2 if replication > 2 else 1),
                "unclean.leader.election.enable": "false",
            },
        )

    def _read_new(
        self, reader: RecordReader, settings: TopicSettings, partition: int
    ) -> Iterator[tuple[RawRecord, QuarantinedRecord | DamagedCopy]]:
        if self._index.topic_id != settings.topic_id:
            self._index = _CopyIndex(settings.topic_id)
        topic_partition = TopicPartition(self._topic, partition)
        deadline = self._clock.now() + SEARCH_S
        while True:
            begin = self._index.next.get(partition, 0)
            late: IncompleteRead | None = None
            try:
                window = reader.window(
                    topic_partition,
                    begin,
                    count_max=_COUNT_MAX,
                    bytes_max=_BYTES_MAX,
                    timeout_s=SEARCH_S,
                )
            except IncompleteRead as exc:
                window, late = exc.partial, exc  # the next search goes on behind it
            except TopicChanged:
                self._index = _CopyIndex(settings.topic_id)  # of a broker that knows no ids
                raise
            for copy in window.records:
                rebuilt = rebuild_record(copy)
                if isinstance(rebuilt, QuarantinedRecord):
                    position = (partition, copy.offset, rebuilt.record.sha256)
                    self._index.copies.setdefault(rebuilt.about.skip_key, []).append(position)
                if rebuilt is not None:
                    yield copy, rebuilt
            # What cannot be decoded is passed over: a copy that is in it is none.
            bad = window.corrupt_at
            next_offset = window.next_offset if bad is None else bad + 1
            self._index.next[partition] = next_offset
            if late is None and next_offset >= window.end:
                return
            if late is not None or self._clock.now() >= deadline or next_offset == begin:
                position_text = f"stands at {next_offset} of {window.end}"
                said = f"partition {partition} could not be read: {position_text}"
                raise ResponseTimeout(self.name, said) from late

    def _read_back(self, reader: RecordReader, copy: CopyPosition) -> Receipt | None:
        """Return the receipt of a copy that still exists unchanged; None for any other.

        Raises ResponseTimeout where it could not be read.
        """
        partition, offset, sha256 = copy
        window = reader.window(
            TopicPartition(self._topic, partition),
            offset,
            until=offset + 1,
            count_max=1,
            bytes_max=_BYTES_MAX,
            timeout_s=READ_BACK_S,
        )
        if not window.records:
            return None
        rebuilt = rebuild_record(window.records[0])
        if not isinstance(rebuilt, QuarantinedRecord) or rebuilt.record.sha256 != sha256:
            return None
        return _build_receipt(self.name, window.records[0], sha256)


def _find_topic_problems(settings: TopicSettings, retention_ms: int | None) -> tuple[str, ...]:
    problems = []
    if settings.compacted:
        problems.append("it is compacted, and copies would be lost: set cleanup.policy to delete")
    too_short = retention_ms is None or settings.retention_ms < retention_ms
    if settings.retention_ms != _NO_LIMIT and too_short:
        days = settings.retention_ms / _DAY_MS
        right = "set retention.ms to -1, or configure remedy.quarantine.retention_days"
        problems.append(
            f"it keeps records for {days:g} days, which is less than configured: {right}"
        )
    if settings.retention_bytes != _NO_LIMIT:
        problems.append("it limits retention by size: set retention.bytes to -1")
    if settings.in_sync_min > settings.replication:
        problems.append(
            f"nothing can be written to it: min.insync.replicas is {settings.in_sync_min}, and "
            f"it has {format_count(settings.replication, 'replica')}"
        )
    return tuple(problems)


def _build_receipt(name: str, copy: RawRecord, sha256: str) -> Receipt:
    return Receipt(
        where=f"{name}-{copy.partition}@{copy.offset}",
        partition=copy.partition,
        offset=copy.offset,
        path=None,
        sha256=sha256,
        at=(copy.timestamp_ms or 0) / 1000,
    )


def _build_copy_entry(
    name: str, copy: RawRecord, rebuilt: QuarantinedRecord | DamagedCopy
) -> tuple[QuarantinedCopy, QuarantinedRecord | None]:
    if isinstance(rebuilt, DamagedCopy):
        receipt = _build_receipt(name, copy, "")
        return _build_damaged_entry("", receipt, copy.size_bytes, rebuilt), None
    record, sha256 = rebuilt.record, rebuilt.record.sha256
    entry = QuarantinedCopy(
        id=compute_receipt_id(rebuilt.about.skip_key, sha256),
        receipt=_build_receipt(name, copy, sha256),
        about=rebuilt.about,
        record=(record.topic, record.partition, record.offset),
        size_bytes=record.size_bytes,
    )
    return entry, rebuilt


def _build_damaged_entry(
    receipt_id: str, receipt: Receipt, size_bytes: int, copy: DamagedCopy
) -> QuarantinedCopy:
    unknown = QuarantineContext("", "", "", "", "", "")
    return QuarantinedCopy(receipt_id, receipt, unknown, ("", 0, 0), size_bytes, copy.reason)


class CombinedQuarantine:
    """A QuarantineStore that combines a topic and files. For one thread."""

    def __init__(self, files: FileQuarantine, topic: TopicQuarantine | None) -> None:
        self._files = files
        self._topic = topic
        self.name = files.name if topic is None else topic.name

    def find(self, skip_key: str, sha256: str | None = None) -> Receipt | None:
        receipt = self._files.find(skip_key, sha256)
        if receipt is None and self._topic is not None:
            return self._topic.find(skip_key, sha256)
        return receipt

    def put(self, record: RawRecord, about: QuarantineContext) -> Receipt:
        """See QuarantineStore. Raises RemoteRefusal if the topic is unsuitable."""
        if self._topic is not None:
            try:
                return self._topic.put(record, about)
            except SizeLimitExceeded:
                pass  # for the topic, and not for a disk
        return self._files.put(record, about)

    def list_copies(self) -> Iterator[tuple[QuarantinedCopy, QuarantinedRecord | None]]:
        """Yield all copies one by one, each with its record; None if the copy is damaged."""
        yield from self._files.list_copies()
        if self._topic is not None:
            yield from self._topic.list_copies()

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
        config.kafka,
        config.topic,
        replication=config.replication_factor,
        retention_ms=None if days is None else round(days * _DAY_MS),
        # Copies are held against their own hashes; a checksum would say nothing more.
        reader=partial(RecordReader, config.kafka, properties, committed=False, check_crcs=False),
        writer=partial(RecordWriter, config.kafka, properties),
        clock=now,
    )
    return CombinedQuarantine(files, topic)
