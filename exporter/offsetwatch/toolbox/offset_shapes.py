"""Shapes of the partitions and offsets of known connectors, and checks; also against log ranges.

A connector type that is not here has its own format: only the offsets that it wrote are known.

Two kinds of offset differ by one: a sink's is the NEXT record to read, MirrorMaker's the LAST one
it has copied (MirrorSourceTask seeks to offset + 1). Past the end of its log a consumer applies
`auto.offset.reset`, which copies all of a topic again, or none of it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.offsets import Scalar
from offsetwatch.toolbox.suggestions import find_nearest

Flaw = tuple[str, str, str]  # (field, or "" for the whole; what is wrong; what would be right)
Fields = Mapping[str, Scalar]

_PARTITION_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one connector type's partitions and offsets.

    name        for users
    partition   the fields of a partition: text, or a whole number that no Kafka partition exceeds
    position    the one field of an offset: a whole number, not negative
    constant    the offset is always 0, and no task reads it
    example     a partition, in JSON
    """

    name: str
    partition: Mapping[str, type[str | int]]
    position: str
    example: str
    constant: bool = False


MIRROR_SOURCE = Shape(
    "MirrorSourceConnector",
    {"cluster": str, "partition": int, "topic": str},
    "offset",
    '{"cluster":"source alias","partition":0,"topic":"its name upstream"}',
)
MIRROR_CHECKPOINT = Shape(
    "MirrorCheckpointConnector",
    {"group": str, "partition": int, "topic": str},
    "offset",
    '{"group":"a group","partition":0,"topic":"its name downstream"}',
    constant=True,
)
MIRROR_HEARTBEAT = Shape(
    "MirrorHeartbeatConnector",
    {"sourceClusterAlias": str, "targetClusterAlias": str},
    "offset",
    '{"sourceClusterAlias":"source alias","targetClusterAlias":"target alias"}',
    constant=True,
)
FILE_STREAM = Shape(
    "FileStreamSourceConnector", {"filename": str}, "position", '{"filename":"/path/of/the/file"}'
)
SINK = Shape(
    "sink",
    {"kafka_partition": int, "kafka_topic": str},
    "kafka_offset",
    '{"kafka_partition":0,"kafka_topic":"a topic"}',
)

# Connect takes a class's simple name as well, with or without its suffix.
_SHAPES_BY_CLASS = {
    alias: shape
    for package, shapes in (
        ("mirror", (MIRROR_SOURCE, MIRROR_CHECKPOINT, MIRROR_HEARTBEAT)),
        ("file", (FILE_STREAM,)),
    )
    for shape in shapes
    for alias in (
        f"org.apache.kafka.connect.{package}.{shape.name}",
        shape.name,
        shape.name.removesuffix("Connector"),
    )
}


def find_shape(kind: ConnectorKind, class_name: str) -> Shape | None:
    """Return the shape for the class, or SINK for any sink; None if unknown."""
    return SINK if kind is ConnectorKind.SINK else _SHAPES_BY_CLASS.get(class_name)


def parse_fields(text: str | None) -> dict[str, Scalar] | None:
    """Parse a partition or an offset of a PartitionOffset; None for null."""
    if text is None or text == "null":
        return None
    return msgspec.json.decode(text.encode(), type=dict[str, str | int | float | bool | None])


def find_partition_flaws(shape: Shape, fields: Fields | None) -> Iterator[Flaw]:
    """Yield the flaws of a partition; Connect would store it, and no task would ever look it up."""
    if fields is None:
        yield "", f"no partition of a {shape.name} is null", f"like {shape.example}"
        return
    yield from _check_field_names(shape, fields, tuple(shape.partition), shape.example)
    for name, kind in shape.partition.items():
        if name in fields:
            value = fields[name]
            if kind is int:
                yield from _check_number(name, value, _PARTITION_MAX)
            elif not isinstance(value, str):
                guess = "…" if value is None else format_value(value)
                right = f'"{name}": {format_value(guess)}'
                yield name, f"{format_value(value)} is no text", right


def find_offset_flaws(shape: Shape, fields: Fields) -> Iterator[Flaw]:
    """Yield the flaws of an offset that is not null, without reading any log."""
    example = f'{{"{shape.position}":{0 if shape.constant else 123}}}'
    yield from _check_field_names(shape, fields, (shape.position,), example)
    if shape.position not in fields:
        return
    value = fields[shape.position]
    if not shape.constant:
        yield from _check_number(shape.position, value, None)
    elif value != 0 or not isinstance(value, int) or isinstance(value, bool):
        yield shape.position, f"{format_value(value)}, where a {shape.name} has 0", example


def _check_field_names(
    shape: Shape, fields: Fields, key: tuple[str, ...], example: str
) -> Iterator[Flaw]:
    missing = [name for name in key if name not in fields]
    for name in fields:
        if name not in key:
            meant = find_nearest(name, missing)
            right = f"did you mean `{meant}`?" if meant else f"leave it out: like {example}"
            yield name, f"a {shape.name} has no such field", right
    for name in missing:
        yield "", f"`{name}` is missing", f"like {example}"


def _check_number(name: str, value: Scalar, largest: int | None) -> Iterator[Flaw]:
    """Yield the flaws of a number: a Java long has no quotes and no fraction."""
    if isinstance(value, bool) or not isinstance(value, int):
        right = "a whole number without quotes"
        if (isinstance(value, float) and value.is_integer()) or (
            isinstance(value, str) and value.isascii() and value.isdigit()
        ):
            right = f'"{name}": {int(value)}'
        yield name, f"{format_value(value)} is no whole number", right
    elif value < 0:
        right = "from 0" if largest else "from 0; null as the whole offset starts at the beginning"
        yield name, f"{value} is negative", right
    elif largest is not None and value > largest:
        yield name, f"no partition has the number {value}", f"up to {largest}"


def format_value(value: Scalar) -> str:
    """Format a value as JSON, for users."""
    return encode_sorted(value).decode()


def describe_type(value: Scalar) -> str:
    """Describe Connect's type of a value, for users."""
    match value:
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number with a fraction"
        case str():
            return "a text"
        case None:
            return "null"


@dataclass(frozen=True, slots=True)
class ReadableRange:
    """The offsets of a partition's readable records: from `start` up to, but without, `end`.

    end     as the connector's consumer sees it: the last stable offset where it reads committed
            records only, else the high watermark
    """

    start: int
    end: int


def check_next_offset(name: str, log: ReadableRange, value: int) -> tuple[str, str] | None:
    """Return why `value` cannot be the next record to read, and what can; None if it can."""
    if log.start <= value <= log.end:
        return None
    right = f"the NEXT record to read ({log.end} waits for new ones)"
    wrong = _describe_out_of_range(name, log, value, over=value > log.end)
    return wrong, f"{format_range(log.start, log.end)}, {right}"


def check_last_offset(
    name: str, log: ReadableRange, value: int, *, null_is_end: bool
) -> tuple[str, str] | None:
    """Return why `value` cannot be the last record copied, and what can; None if it can.

    null_is_end     a partition without an offset is read from its end
    """
    first, last = max(log.start - 1, 0), log.end - 1
    if first <= value <= last:
        return None
    null = "null starts at the END" if null_is_end else "null starts at the first record"
    right = f"only null: {null}"
    if first <= last:
        copied = "the LAST record copied (for X to be the next: X-1)"
        right = f"{format_range(first, last)}, {copied}; {null}"
    return _describe_out_of_range(name, log, value, over=value > last), right


def format_range(first: int, last: int) -> str:
    """Format a range that includes both ends."""
    return f"only {first}" if first == last else f"{first} to {last}"


def _describe_out_of_range(name: str, log: ReadableRange, value: int, *, over: bool) -> str:
    if not over:
        return f"{value} is before the first record of {name}, which is {log.start}"
    if log.start >= log.end:
        return f"{value} is past the end: {name} is empty, its next record will be {log.end}"
    return f"{value} is past the end: the last record of {name} is {log.end - 1}"
