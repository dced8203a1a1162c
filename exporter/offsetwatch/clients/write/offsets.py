"""Writer of offsets topics' records and of offsets files.

Every record carries a header of offsetwatch, which Connect ignores. An idempotent producer writes a
topic with acks=all, each record to the partition that the caller names. A file is replaced
atomically, and its old content stays beside it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import confluent_kafka as ck

from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.clients.kafka.whole_topic import OWN_RECORD_HEADER
from offsetwatch.clients.write.kafka import create_producer
from offsetwatch.decode.offsets_file import OffsetsFileEntries, write_offsets_file
from offsetwatch.disk import sync_folder
from offsetwatch.errors import AccessDenied, ClientError, Conflict, NotFound, ResponseTimeout
from offsetwatch.formatting import format_count

DELIVERY_TIMEOUT_S: Final = 60.0
_QUEUE_FULL_S: Final = 0.1
_NOT_WRITTEN_ERRORS: Final = (AccessDenied, NotFound)  # the record never will be written


class OutgoingOffsetRecord(NamedTuple):
    """Record to write; a value of None is a tombstone."""

    kpartition: int
    key: bytes
    value: bytes | None


class OffsetsWriteResult(NamedTuple):
    """Result of a write.

    acknowledged    number of records that all in-sync replicas have
    failed          the first error, None if there was none
    certain         after a failure: none of the records is written, nor will be
    """

    acknowledged: int
    failed: ClientError | None
    certain: bool


def write_records(
    name: str, properties: Mapping[str, Any], topic: str, records: Sequence[OutgoingOffsetRecord]
) -> OffsetsWriteResult:
    """Write all records and wait for each. Raises ClientError only if no producer can be made."""
    producer = create_producer(name, properties, DELIVERY_TIMEOUT_S, {"linger.ms": 5})
    errors: list[ck.KafkaError] = []
    acknowledged = 0

    def on_delivery(error: ck.KafkaError | None, _message: ck.Message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            errors.append(error)

    try:
        for record in records:
            _enqueue_record(producer, topic, record, on_delivery)
    except ck.KafkaException as exc:
        errors.append(exc.args[0])
    undelivered = producer.flush(DELIVERY_TIMEOUT_S + 2)
    failures = [client_error_from(name, error) for error in errors]
    if undelivered:
        failures.append(
            ResponseTimeout(name, f"{format_count(undelivered, 'record')} without an answer")
        )
    certain = acknowledged == 0 and all(
        isinstance(failure, _NOT_WRITTEN_ERRORS) for failure in failures
    )
    return OffsetsWriteResult(acknowledged, failures[0] if failures else None, certain=certain)


def _enqueue_record(
    producer: ck.Producer, topic: str, record: OutgoingOffsetRecord, on_delivery: Any
) -> None:
    """Add a record to the producer's queue, once earlier ones were sent or timed out."""
    while True:
        try:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                partition=record.kpartition,
                headers=[(OWN_RECORD_HEADER, b"1")],
                on_delivery=on_delivery,
            )
        except BufferError:
            producer.poll(_QUEUE_FULL_S)
        else:
            return


# --- a file ------------------------------------------------------------------------------------


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Lock the file while it is replaced; a missing file needs no lock.

    Raises Conflict if another process holds a lock on it, and AccessDenied if it cannot be opened
    for writing.
    """
    try:
        handle = path.open("rb+")
    except FileNotFoundError:
        yield
        return
    except OSError as exc:
        raise AccessDenied(str(path), f"cannot be opened for writing: {exc.strerror}") from exc
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise Conflict(str(path), "another process holds a lock on it") from exc
        yield


def replace_file(path: Path, entries: OffsetsFileEntries) -> Path | None:
    """Replace the contents of the file; return the path of its backup, None without an old file.

    The replacement is atomic for readers. Do not run it concurrently: a temporary file left by a
    killed run is overwritten.
    """
    new = write_offsets_file(entries)
    try:
        backup = _back_up_file(path)
        temporary = path.with_name(f".{path.name}.new")
        try:
            _write_file(temporary, new, like=path if backup is not None else None)
            temporary.replace(path)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
        sync_folder(path.parent)
    except OSError as exc:
        raise AccessDenied(str(path), f"cannot be replaced: {exc.strerror}") from exc
    return backup


def _back_up_file(path: Path) -> Path | None:
    """Copy the file to a name with its content's hash, so a repeated backup changes nothing."""
    try:
        old = path.read_bytes()
    except FileNotFoundError:
        return None
    backup = path.with_name(f"{path.name}.{hashlib.sha256(old).hexdigest()[:12]}.bak")
    if not backup.exists():
        temporary = backup.with_name(f".{backup.name}.new")
        _write_file(temporary, old, like=path)
        temporary.replace(backup)
    return backup


def _write_file(path: Path, content: bytes, *, like: Path | None) -> None:
    """Write a file to disk, with the mode and owner of another one."""
    with path.open("wb") as handle:
        if like is not None:
            stat = like.stat()
            os.fchmod(handle.fileno(), stat.st_mode & 0o7777)
            with suppress(PermissionError):
                os.fchown(handle.fileno(), stat.st_uid, stat.st_gid)
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
