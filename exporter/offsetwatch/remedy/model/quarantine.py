"""Quarantined copies of skipped records: how a record is stored and restored exactly. Pure.

A copy is a record of the quarantine topic or a file. In the topic, its key and value are those of
the record. The record's headers come first, in order; then the headers that Connect's dead letter
queue writes, for tools that know them; then ours, and last the number of headers that are the
record's own. So a record is restored exactly even if its headers have names like ours or Connect's.
The copy's timestamp is that of copying: with the record's, retention would delete the copy of an
old record at once.

A file is lines of JSON: the metadata, key and value in chunks of base64, and the number of lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import msgspec

from offsetwatch.model.records import Headers, RawRecord, TimestampType

CONNECT_HEADER_PREFIX: Final = "__connect.errors."
OWN_HEADER_PREFIX: Final = "__offsetwatch."
COUNT_HEADER: Final = f"{OWN_HEADER_PREFIX}headers"  # the last one
COPY_NOTE_PREFIX: Final = "a copy is kept: "  # what the journal says of it, before where it is
ID_CHARS: Final = 32
CHUNK_BYTES: Final = 768 * 1024  # of a file: 1 MiB of base64
# What Connect calls the stages of a task, by what remedy calls them.
_CONNECT_STAGES: Final = {
    "converter_key": "KEY_CONVERTER",
    "converter_value": "VALUE_CONVERTER",
    "converter_header": "HEADER_CONVERTER",
    "transform": "TRANSFORMATION",
    "put": "TASK_PUT",
    "producer_send": "KAFKA_PRODUCE",
    "poll": "TASK_POLL",
}
_STAGES_BY_CONNECT_NAME: Final = {
    theirs: own_stage for own_stage, theirs in _CONNECT_STAGES.items()
}
_TYPES: Final[dict[str, TimestampType]] = {"create": "create", "append": "append", "none": "none"}


class QuarantineContext(msgspec.Struct, frozen=True):
    """Context of a skipped record: its connector, plan and failure. Names and ids only.

    kafka            the configured name of the record's cluster; topic_id and cluster_id outlive
                     names, as far as the brokers report them
    stage            see classify.Failure
    class_name       of the converter or transformation that failed
    """

    skip_key: str
    plan_id: str
    incident: str
    connector: str
    connect_cluster: str
    kafka: str
    topic_id: str = ""
    cluster_id: str | None = None
    stage: str | None = None
    exception_class: str | None = None
    task_id: str | None = None
    class_name: str | None = None


class Receipt(msgspec.Struct, frozen=True):
    """Receipt of a copy that was read back and equals the record.

    where       `kafka/topic-partition@offset`, or a file's path
    sha256      of the record (model.records)
    at          Unix seconds, of the copying
    """

    where: str
    partition: int | None
    offset: int | None
    path: str | None
    sha256: str
    at: float


class QuarantineStore(Protocol):
    """Store of quarantined copies. Calls may raise ClientError, those on files OSError too.

    name    `kafka/topic`, or the path of a folder, as plans name it
    """

    name: str

    def find(self, skip_key: str, sha256: str | None = None) -> Receipt | None:
        """Return the newest intact copy under this key, after reading it.

        If `sha256` is given, only copies of that record count. None only if there is no such copy.
        """
        ...

    def put(self, record: RawRecord, about: QuarantineContext) -> Receipt:
        """Copy a record, read the copy back and compare it. Only a copy with a receipt counts.

        After an AmbiguousOutcome the copy may exist, or appear later; `find` shows it. A second
        copy does no harm.
        """
        ...


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """Record that was restored exactly from its copy, with its context."""

    record: RawRecord
    about: QuarantineContext


@dataclass(frozen=True, slots=True)
class DamagedCopy:
    """Copy that differs from what was written."""

    reason: str


@dataclass(frozen=True, slots=True)
class QuarantinedCopy:
    """Copy as it is listed, without the record's bytes.

    record      where it came from: topic, partition, offset
    problem     why it differs from what was written; None if it is intact
    """

    id: str
    receipt: Receipt
    about: QuarantineContext
    record: tuple[str, int, int]
    size_bytes: int
    problem: str | None = None


def compute_receipt_id(skip_key: str, sha256: str) -> str:
    """Return the id by which an operator names a copy.

    Copies of one record for one skip have the same id.
    """
    return f"{compute_key_id(skip_key)}{sha256[: ID_CHARS // 2]}"


def compute_key_id(skip_key: str) -> str:
    """Return the prefix that the ids of all copies under this key share."""
    return _sha256(skip_key.encode())[: ID_CHARS // 2]


def choose_partition(skip_key: str, partitions: int) -> int:
    """Return the partition of the quarantine topic that holds copies under this key."""
    return int(_sha256(skip_key.encode())[:16], 16) % partitions


def _sha256(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()


# --- in another record ----------------------------------------------------------------------------


def build_copy_headers(record: RawRecord, about: QuarantineContext) -> Headers:
    """Build the headers of the copy; its key and value are the record's."""
    stage = about.stage if about.stage is None else _CONNECT_STAGES.get(about.stage, about.stage)
    connect: tuple[tuple[str, str | None], ...] = (
        ("topic", record.topic),
        ("partition", str(record.partition)),
        ("offset", str(record.offset)),
        ("connector.name", about.connector),
        ("task.id", about.task_id),
        ("stage", stage),
        ("class.name", about.class_name),
        ("exception.class.name", about.exception_class),
    )
    headers: tuple[tuple[str, str | None], ...] = (
        ("plan_id", about.plan_id),
        ("skip_key", about.skip_key),
        ("incident", about.incident),
        ("connect_cluster", about.connect_cluster),
        ("kafka", about.kafka),
        ("cluster_id", about.cluster_id),
        ("topic_id", about.topic_id),
        ("leader_epoch", _format_number(record.leader_epoch)),
        ("timestamp", _format_number(record.timestamp_ms)),
        ("timestamp_type", record.timestamp_type),
        ("key_sha256", None if record.key is None else _sha256(record.key)),
        ("value_sha256", None if record.value is None else _sha256(record.value)),
        ("sha256", record.sha256),
        ("null_key", _format_flag(record.key is None)),
        ("null_value", _format_flag(record.value is None)),
        ("headers", str(len(record.headers))),
    )
    return (
        *record.headers,
        *(
            (f"{CONNECT_HEADER_PREFIX}{name}", value.encode())
            for name, value in connect
            if value is not None
        ),
        *(
            (f"{OWN_HEADER_PREFIX}{name}", None if value is None else value.encode())
            for name, value in headers
        ),
    )


def rebuild_record(copy: RawRecord) -> QuarantinedRecord | DamagedCopy | None:
    """Restore the record from a copy; None if this is no copy of ours."""
    if not copy.headers or copy.headers[-1][0] != COUNT_HEADER:
        return None
    try:
        count = int(copy.headers[-1][1] or b"")
        values = _parse_headers(copy.headers[count:])
        record = _build_record(copy, values, copy.headers[:count])
        about = _build_context(values)
        sha256 = _require_header(values, f"{OWN_HEADER_PREFIX}sha256")
        nulls = {name: values[f"{OWN_HEADER_PREFIX}null_{name}"] for name in ("key", "value")}
    except (KeyError, TypeError, ValueError, IndexError) as exc:
        return DamagedCopy(f"its headers are not as they were written: {exc}")
    for name, part in (("key", copy.key), ("value", copy.value)):
        if nulls[name] != _format_flag(part is None):
            return DamagedCopy(f"its {name} is not as it was written: null or not")
    if record.sha256 != sha256:
        return DamagedCopy("it does not hash to what was written")
    return QuarantinedRecord(record, about)


def _parse_headers(headers: Headers) -> dict[str, str | None]:
    """Return our and Connect's headers by name. Raises ValueError if a name occurs twice."""
    values = {name: None if value is None else value.decode() for name, value in headers}
    if len(values) != len(headers):
        raise ValueError("one is there twice")
    return values


def _require_header(values: Mapping[str, str | None], name: str) -> str:
    value = values[name]
    if value is None:
        raise ValueError(f"{name} is null")
    return value


def _build_record(copy: RawRecord, values: Mapping[str, str | None], headers: Headers) -> RawRecord:
    epoch = values[f"{OWN_HEADER_PREFIX}leader_epoch"]
    stamp = values[f"{OWN_HEADER_PREFIX}timestamp"]
    return RawRecord(
        topic=_require_header(values, f"{CONNECT_HEADER_PREFIX}topic"),
        partition=int(_require_header(values, f"{CONNECT_HEADER_PREFIX}partition")),
        offset=int(_require_header(values, f"{CONNECT_HEADER_PREFIX}offset")),
        leader_epoch=None if epoch is None else int(epoch),
        timestamp_ms=None if stamp is None else int(stamp),
        timestamp_type=_TYPES[_require_header(values, f"{OWN_HEADER_PREFIX}timestamp_type")],
        key=copy.key,
        value=copy.value,
        headers=headers,
    )


def _build_context(values: Mapping[str, str | None]) -> QuarantineContext:
    stage = values.get(f"{CONNECT_HEADER_PREFIX}stage")
    return QuarantineContext(
        skip_key=_require_header(values, f"{OWN_HEADER_PREFIX}skip_key"),
        plan_id=_require_header(values, f"{OWN_HEADER_PREFIX}plan_id"),
        incident=_require_header(values, f"{OWN_HEADER_PREFIX}incident"),
        connector=_require_header(values, f"{CONNECT_HEADER_PREFIX}connector.name"),
        connect_cluster=_require_header(values, f"{OWN_HEADER_PREFIX}connect_cluster"),
        kafka=_require_header(values, f"{OWN_HEADER_PREFIX}kafka"),
        topic_id=_require_header(values, f"{OWN_HEADER_PREFIX}topic_id"),
        cluster_id=values[f"{OWN_HEADER_PREFIX}cluster_id"],
        stage=None if stage is None else _STAGES_BY_CONNECT_NAME.get(stage, stage),
        exception_class=values.get(f"{CONNECT_HEADER_PREFIX}exception.class.name"),
        task_id=values.get(f"{CONNECT_HEADER_PREFIX}task.id"),
        class_name=values.get(f"{CONNECT_HEADER_PREFIX}class.name"),
    )


def _format_number(number: int | None) -> str | None:
    return None if number is None else str(number)


def _format_flag(flag: bool) -> str:  # noqa: FBT001 - the one thing it is given
    return "true" if flag else "false"


# --- in a file ------------------------------------------------------------------------------------


class QuarantineFileHead(msgspec.Struct, frozen=True):
    """First line of a file: all but key and value, whose lengths are None for null."""

    sha256: str
    at: float
    about: QuarantineContext
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    timestamp_ms: int | None
    timestamp_type: TimestampType
    headers: Headers
    key_bytes: int | None
    value_bytes: int | None
    size_bytes: int
    v: Literal[1] = 1


class _ChunkLine(msgspec.Struct, frozen=True):
    of: Literal["key", "value"]
    data: bytes


class _EndLine(msgspec.Struct, frozen=True):
    lines: int


def build_file_lines(record: RawRecord, about: QuarantineContext, moment: float) -> Iterator[bytes]:
    """Yield the lines of a file that holds a record."""
    yield _encode_line(
        QuarantineFileHead(
            sha256=record.sha256,
            at=moment,
            about=about,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            leader_epoch=record.leader_epoch,
            timestamp_ms=record.timestamp_ms,
            timestamp_type=record.timestamp_type,
            headers=record.headers,
            key_bytes=None if record.key is None else len(record.key),
            value_bytes=None if record.value is None else len(record.value),
            size_bytes=record.size_bytes,
        )
    )
    count = 2
    parts: tuple[tuple[Literal["key", "value"], bytes | None], ...]
    parts = (("key", record.key), ("value", record.value))
    for of, part in parts:
        for begin in range(0, len(part or b""), CHUNK_BYTES):
            yield _encode_line(_ChunkLine(of, (part or b"")[begin : begin + CHUNK_BYTES]))
            count += 1
    yield _encode_line(_EndLine(count))


def _encode_line(what: msgspec.Struct) -> bytes:
    return msgspec.json.encode(what) + b"\n"


def parse_file_head(line: bytes) -> QuarantineFileHead | DamagedCopy:
    """Parse the first line of a file."""
    try:
        return msgspec.json.decode(line, type=QuarantineFileHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return DamagedCopy(f"its first line cannot be read: {exc}")


def parse_file_lines(lines: Iterable[bytes]) -> QuarantinedRecord | DamagedCopy:
    """Restore the record from the lines of a file."""
    rest = iter(lines)
    head = parse_file_head(next(rest, b""))
    if isinstance(head, DamagedCopy):
        return head
    parts: dict[str, list[bytes]] = {"key": [], "value": []}
    count, end = 1, None
    try:
        for line in rest:
            count += 1
            if end is not None:
                return DamagedCopy("it continues after its last line")
            line_fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            if "lines" in line_fields:
                end = msgspec.json.decode(line, type=_EndLine)
            else:
                piece = msgspec.json.decode(line, type=_ChunkLine)
                parts[piece.of].append(piece.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return DamagedCopy(f"line {count} cannot be read: {exc}")
    if end is None or end.lines != count:
        return DamagedCopy("it is cut short")
    record = RawRecord(
        topic=head.topic,
        partition=head.partition,
        offset=head.offset,
        leader_epoch=head.leader_epoch,
        timestamp_ms=head.timestamp_ms,
        timestamp_type=head.timestamp_type,
        key=None if head.key_bytes is None else b"".join(parts["key"]),
        value=None if head.value_bytes is None else b"".join(parts["value"]),
        headers=head.headers,
    )
    if record.sha256 != head.sha256:
        return DamagedCopy("it does not hash to what was written")
    return QuarantinedRecord(record, head.about)
