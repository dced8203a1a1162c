"""Writing records of offsets topics, and offsets files.

Every record says in a header who wrote it, which Connect does not look at. A topic is written by an
idempotent producer with all acknowledgements, each record into a partition that the caller names; a
file is replaced at once, and what it was stays beside it.
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

from offsetwatch.clients.kafka.clients import create_client, silent_logger
from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.clients.kafka.whole_topic import OWN_RECORD_HEADER
from offsetwatch.decode.offsets_file import OffsetsFileEntries, write_offsets_file
from offsetwatch.disk import sync_folder
from offsetwatch.errors import AccessDenied, ClientError, Conflict, NotFound, ResponseTimeout

DELIVERY_TIMEOUT_S: Final = 60.0
_QUEUE_FULL_S: Final = 0.1
_NOT_WRITTEN_ERRORS: Final = (
    AccessDenied,
    NotFound,
)  # of a record: it was not written and never will be


class OutgoingOffsetRecord(NamedTuple):
    """One record to write; a value of None is a tombstone."""

    kpartition: int
    key: bytes
    value: bytes | None


class OffsetsWriteResult(NamedTuple):
    """What became of a write.

    acknowledged    records that all replicas in sync have
    failed          the first error, None if there was none
    certain         of a failure: none of the records is there, nor will one come
    """

    acknowledged: int
    failed: ClientError | None
    certain: bool


def write_records(
    name: str, properties: Mapping[str, Any], topic: str, records: Sequence[OutgoingOffsetRecord]
) -> OffsetsWriteResult:
    """Write them all and wait for each. Raises ClientError only if no producer could be made."""
    producer = create_client(name, ck.Producer, _build_producer_settings(properties))
    errors: list[ck.KafkaError] = []
    acknowledged = 0

    def told(error: ck.KafkaError | None, _message: ck.Message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            errors.append(error)

    try:
        for record in records:
            _enqueue_record(producer, topic, record, told)
    except ck.KafkaException as exc:
        errors.append(exc.args[0])
    left = producer.flush(DELIVERY_TIMEOUT_S + 2)
    failures = [client_error_from(name, error) for error in errors]
    if left:
        failures.append(ResponseTimeout(name, f"{left} record(s) without an answer"))
    certain = acknowledged == 0 and all(
        isinstance(failure, _NOT_WRITTEN_ERRORS) for failure in failures
    )
    return OffsetsWriteResult(acknowledged, failures[0] if failures else None, certain=certain)


def _enqueue_record(
    producer: ck.Producer, topic: str, record: OutgoingOffsetRecord, told: Any
) -> None:
    """Into the producer's queue, once there is room: what is in it is sent, or times out."""
    while True:
        try:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                partition=record.kpartition,
                headers=[(OWN_RECORD_HEADER, b"1")],
                on_delivery=told,
            )
        except BufferError:
            producer.poll(_QUEUE_FULL_S)
        else:
            return


def _build_producer_settings(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **properties,
        "client.id": properties.get("client.id", "offsetwatch"),
        "enable.idempotence": True,
        "acks": "all",
        "delivery.timeout.ms": round(DELIVERY_TIMEOUT_S * 1000),
        "linger.ms": 5,
        "logger": silent_logger,
        # An offset is a few hundred bytes, and a reader is older than any new compression.
        "compression.type": "none",
    }


# --- a file ------------------------------------------------------------------------------------


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold the file while it is replaced. Raises Conflict if somebody else does; a file that is not
    there is nobody's.
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
    """Put these entries in place of what the file holds; returns where that is kept, None if there
    was no file. Either all of it happens or nothing that a reader of the file could see. One at a
    time: what an earlier one that was killed left unfinished is written over.
    """
    new = write_offsets_file(entries)
    try:
        kept = _back_up_file(path)
        temporary = path.with_name(f".{path.name}.new")
        try:
            _write_file(temporary, new, like=path if kept is not None else None)
            temporary.replace(path)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
        sync_folder(path.parent)
    except OSError as exc:
        raise AccessDenied(str(path), f"cannot be replaced: {exc.strerror}") from exc
    return kept


def _back_up_file(path: Path) -> Path | None:
    """The same content under another name, which says what it is: twice is once."""
    try:
        old = path.read_bytes()
    except FileNotFoundError:
        return None
    kept = path.with_name(f"{path.name}.{hashlib.sha256(old).hexdigest()[:12]}.bak")
    if not kept.exists():
        temporary = kept.with_name(f".{kept.name}.new")
        _write_file(temporary, old, like=path)
        temporary.replace(kept)
    return kept


def _write_file(path: Path, content: bytes, *, like: Path | None) -> None:
    """A file with this content, on the disk, with the mode and owner of another one."""
    with path.open("wb") as handle:
        if like is not None:
            found = like.stat()
            os.fchmod(handle.fileno(), found.st_mode & 0o7777)
            with suppress(PermissionError):
                os.fchown(handle.fileno(), found.st_uid, found.st_gid)
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
