"""Validation of requested offsets against the facts about a connector. Pure.

Connect hardly validates the offsets that it writes (a wrong alias, a missing topic, an offset past
the end of its log: all 200); the tasks fail when they start. So every problem is found here first,
all of them at once, each with a correction. An unknown fact is a problem too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from offsetwatch.decode.dialects import DIALECTS, detect_shape, find_dialect
from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.model.connectors import (
    ConnectorKind,
    DatabaseSettings,
    MirrorSettings,
    SinkSettings,
)
from offsetwatch.model.topology import TopicPartition, is_provided
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.offset_locations import OffsetsLocation
from offsetwatch.toolbox.offset_shapes import (
    FILE_STREAM,
    MIRROR_SOURCE,
    SINK,
    Fields,
    Flaw,
    ReadableRange,
    Shape,
    check_last_offset,
    check_next_offset,
    describe_type,
    find_offset_flaws,
    find_partition_flaws,
    find_shape,
    format_range,
    format_value,
    parse_fields,
)
from offsetwatch.toolbox.source_bounds import (
    SourceFacts,
    describe_bounds,
    describe_removal,
    find_bounds_flaws,
    find_field_flaws,
    find_server_flaws,
    has_only_server,
)
from offsetwatch.toolbox.suggestions import find_nearest, format_names

EXPLANATIONS_MAX: Final = 20  # beyond that nobody reads what was probably meant


@dataclass(frozen=True, slots=True)
class ValidationProblem:
    """A problem of a request.

    where   its location in what the user gave: `offsets.json:12: name[3].offset.position`
    wrong   what is wrong with it, one clause
    right   the correction, or how to find it; "" if unknown
    """

    where: str
    wrong: str
    right: str

    def __str__(self) -> str:
        return f"{self.where}: {self.wrong}" + (f"; {self.right}" if self.right else "")


@dataclass(frozen=True, slots=True)
class UnknownConnector(ValidationProblem):
    """The problem that nothing has the connector's name: it may be misspelt."""


@dataclass(frozen=True, slots=True)
class OffsetsRequest:
    """The requested offsets of one connector in document order, each partition once.

    where       the location of the pairs in what the user gave, for ValidationProblem
    allow_new   source partitions that never existed may be created, and values that cannot be
                checked may be written
    """

    connector: str
    pairs: tuple[PartitionOffset, ...]
    where: OffsetsLocation
    allow_new: bool = False


@dataclass(frozen=True, slots=True)
class ValidationFacts:
    """Facts about one connector and the topics that it reads.

    kind, class_name    UNKNOWN and "" if unknown (an offsets file)
    mirror, sink        its settings, where it is a MirrorSourceConnector, or a sink
    present             its current offsets, as its reader returns them
    topics              topic -> number of partitions, of the cluster that it reads from; None if
                        unknown
    logs                of the partitions in the request, those that could be read
    assigned            what the tasks of a mirror copy; None if unknown, as for a mirror that has
                        been stopped
    filename            `file` of a FileStreamSourceConnector
    database            settings of a Debezium or JDBC source connector
    source              the end of its source; None if that was not asked for
    unknown             why a fact is unknown, each with what to configure
    """

    connector: str
    kind: ConnectorKind
    class_name: str
    present: tuple[PartitionOffset, ...]
    mirror: MirrorSettings | None = None
    sink: SinkSettings | None = None
    topics: Mapping[str, int] | None = None
    logs: Mapping[TopicPartition, ReadableRange] = field(default_factory=dict)
    assigned: frozenset[TopicPartition] | None = None
    filename: str | None = None
    database: DatabaseSettings | None = None
    source: SourceFacts | None = None
    unknown: tuple[str, ...] = ()


def find_named_partitions(pairs: tuple[PartitionOffset, ...]) -> frozenset[TopicPartition]:
    """Return the partitions with a requested offset, of a mirror or a sink: their logs are read."""
    named = (pair.partition for pair in pairs if pair.offset is not None)
    partitions = (_parse_topic_partition(parse_fields(partition)) for partition in named)
    return frozenset(partition for partition in partitions if partition is not None)


def find_problems(request: OffsetsRequest, facts: ValidationFacts) -> tuple[ValidationProblem, ...]:
    """Return all problems in document order; empty if the request can be executed."""
    check = _build_check(request, facts)
    problems: list[ValidationProblem] = []
    unknown = check.unreadable_logs(request.pairs)
    if unknown and not request.allow_new:  # as one problem, and not for each partition
        advice = check.advice() or "configure the Kafka cluster that it reads from"
        problems.append(
            ValidationProblem(
                str(request.where),
                f"the first and last record of {unknown} cannot be read",
                f"{advice}; --allow-new writes them unchecked",
            )
        )
    explained = len(problems) + EXPLANATIONS_MAX
    for index, pair in enumerate(request.pairs):
        if len(problems) >= explained:
            check = replace(check, brief=True)
        problems.extend(
            ValidationProblem(request.where.locate(index, pair.partition, name), wrong, right)
            for name, wrong, right in check.flaws(pair)
        )
    return tuple(problems)


def collect_notes(request: OffsetsRequest, facts: ValidationFacts) -> tuple[str, ...]:
    """Return notes about what is valid but may be unintended."""
    check = _build_check(request, facts)
    remarks: dict[str, list[str]] = {}
    for pair in request.pairs:
        remark = check.remark(pair)
        if remark is not None:
            remarks.setdefault(remark, []).append(pair.partition)
    notes = [f"{format_names(partitions)}: {remark}" for remark, partitions in remarks.items()]
    unknown = check.unreadable_logs(request.pairs)
    if unknown and request.allow_new:
        notes.append(f"whether {unknown} has records of these offsets could not be read")
    shape = check.shape
    if shape is not None and shape.constant:
        notes.append(f"no task of a {shape.name} ever reads its offsets: this changes nothing")
    bounds = (check.describe_bounds(pair) for pair in request.pairs)
    notes += dict.fromkeys(note for note in bounds if note is not None)
    return tuple(notes)


def list_source_partitions(pairs: tuple[PartitionOffset, ...]) -> tuple[Fields, ...]:
    """Return the source partitions with a requested offset, whose bounds are to be known."""
    parsed = (parse_fields(pair.partition) for pair in pairs if pair.offset is not None)
    return tuple(fields for fields in parsed if fields is not None)


@dataclass(frozen=True, slots=True)
class _RequestCheck:
    """The check of one request against the facts.

    there   the partitions that have an offset, with their offsets
    listed  those that are listed without one
    brief   corrections are not searched for: a search takes time in proportion to the partitions
    """

    request: OffsetsRequest
    facts: ValidationFacts
    shape: Shape | None
    there: Mapping[str, str]
    listed: frozenset[str] = frozenset()
    brief: bool = False

    def flaws(self, pair: PartitionOffset) -> Iterator[Flaw]:
        """Yield all flaws of one pair; their fields begin with `partition` or `offset`."""
        present = pair.partition in self.there
        if pair.offset is None and present:
            return  # whatever it is, it is there, and can be removed
        fields = parse_fields(pair.partition)
        wrong = [*self._partition_flaws(fields, pair, present=present)]
        yield from _prefix_flaws("partition", wrong)
        offset = parse_fields(pair.offset)
        if offset is None:
            return
        shaped = [*self._offset_flaws(fields, offset, pair)]
        yield from _prefix_flaws("offset", shaped)
        partition = _parse_topic_partition(fields)
        if not wrong and not shaped and partition is not None and self._has_logs():
            yield from _prefix_flaws("offset", self._range_flaws(partition, offset))
        source = self.facts.source
        is_change = self.there.get(pair.partition) != pair.offset
        if is_change and not wrong and not shaped and fields is not None and source is not None:
            flaws = find_bounds_flaws(fields, offset, source, self.facts.database)
            yield from _prefix_flaws("offset", flaws)

    def describe_bounds(self, pair: PartitionOffset) -> str | None:
        """Return a note if it is not known how far the source of a requested offset goes."""
        offset = parse_fields(pair.offset)
        if offset is None or self._has_logs() or (self.shape is not None and self.shape.constant):
            return None
        fields = parse_fields(pair.partition)
        dialect = find_dialect(fields, self.facts.class_name)
        return describe_bounds(fields, offset, dialect, self.facts.source, self.facts.database)

    def remark(self, pair: PartitionOffset) -> str | None:
        """Return a note about a valid pair."""
        if pair.offset is None:
            if pair.partition not in self.there:
                return "has no offset, so there is nothing to remove"
            if self._starts_at_the_end():
                return "without an offset it starts at the END (auto.offset.reset=latest)"
            fields = parse_fields(pair.partition)
            return describe_removal(find_dialect(fields, self.facts.class_name))
        if self.shape is MIRROR_SOURCE and (parse_fields(pair.offset) or {}).get("offset") == 0:
            return (
                "0 says that record 0 has been copied, so the next is record 1; null starts with "
                "record 0"
            )
        return None

    def unreadable_logs(self, pairs: tuple[PartitionOffset, ...]) -> str:
        """Name partitions that exist, or may exist, and whose log bounds are unknown; or ""."""
        nameless = self.shape is None and not self.facts.class_name  # it may be a mirror
        if not nameless and not self._has_logs():
            return ""
        topics = self.facts.topics
        return format_names(
            _format_partition(partition)
            for partition in sorted(find_named_partitions(pairs) - self.facts.logs.keys())
            if topics is None or 0 <= partition.partition < topics.get(partition.topic, 0)
        )

    def _has_prefix(self) -> bool:
        database = self.facts.database
        return database is not None and database.topic_prefix is not None

    def _has_logs(self) -> bool:
        return self.shape in (MIRROR_SOURCE, SINK)

    def _starts_at_the_end(self) -> bool:
        return self.facts.mirror is not None and not self.facts.mirror.from_start

    def _partition_flaws(
        self, fields: Fields | None, pair: PartitionOffset, *, present: bool
    ) -> Iterator[Flaw]:
        new = not present and pair.offset is not None
        if self.shape is None:
            dialect = find_dialect(fields, self.facts.class_name)
            others = [*find_server_flaws(dialect, fields or {}, self.facts.database)]
            if pair.offset is not None:
                yield from others
            named = fields is not None and has_only_server(dialect, fields) and self._has_prefix()
            if new and not others and not named:
                yield from self._new_partition_flaws(fields, pair.partition)
            return
        flaws = [*find_partition_flaws(self.shape, fields)]
        yield from flaws
        if flaws or fields is None:
            return
        if self.shape is MIRROR_SOURCE:
            yield from self._alias_flaws(fields)
        if self._has_logs():
            yield from self._topic_flaws(fields, present=present)
        elif self.shape is FILE_STREAM and self.facts.filename is not None:
            if fields["filename"] != self.facts.filename:
                wrong = f"{format_value(fields['filename'])} is not the file that it reads"
                yield "filename", wrong, f'"filename": {format_value(self.facts.filename)}'
        elif new and not self.shape.constant:
            yield from self._new_partition_flaws(fields, pair.partition)

    def _new_partition_flaws(self, fields: Fields | None, partition: str) -> Iterator[Flaw]:
        """Yield flaws of a new partition of a connector type whose partitions cannot be checked."""
        if self.request.allow_new:
            if build_connect_key(self.facts.connector, fields) is None:
                yield "", "the bytes under which Connect looks it up are unknown", ""
            return
        if partition in self.listed and fields is not None and len(fields) > 1:
            yield "", *_UNREACHABLE_OVER_REST
            return
        right = "--allow-new if it is to be made"
        if not self.brief:
            known = [pair.partition for pair in self.facts.present]
            meant = find_nearest(partition, known)
            if meant is not None:
                right = f"did you mean {meant}?; {right}"
            else:
                right = f"it has: {format_names(known) or 'none'}; {right}"
        yield "", "never there before", right

    def _alias_flaws(self, fields: Fields) -> Iterator[Flaw]:
        mirror = self.facts.mirror
        if mirror is None or is_provided(mirror.source):
            if not self.request.allow_new:
                yield "cluster", "which alias it copies from is not known", self.advice()
        elif fields["cluster"] != mirror.source:
            wrong = f"{format_value(fields['cluster'])} is not the alias that it copies from"
            yield "cluster", wrong, f'"cluster": {format_value(mirror.source)}'

    def _topic_flaws(self, fields: Fields, *, present: bool) -> Iterator[Flaw]:
        partition = _parse_topic_partition(fields)
        assert partition is not None  # its shape is right
        name, number = _MIRROR_FIELDS if "topic" in fields else _SINK_FIELDS
        topics, topic = self.facts.topics, partition.topic
        if topics is None:
            return
        if topic not in topics:
            wrong = f"there is no topic {topic} where it reads"
            yield name, wrong, self._suggest_topic(topic, topics)
        elif partition.partition >= topics[topic]:
            wrong = f"{topic} has no partition {partition.partition}"
            yield number, wrong, format_range(0, topics[topic] - 1)
        elif not present and not self.request.allow_new:
            yield from self._unused_partition_flaws(name, partition)

    def _suggest_topic(self, topic: str, topics: Collection[str]) -> str:
        """Return the upstream name of a topic given by its downstream name; else the nearest."""
        mirror = self.facts.mirror
        if mirror is not None:
            upstream = topic.removeprefix(mirror.source + mirror.separator)
            if upstream in topics:
                return f"upstream it is {upstream}"
        near = None if self.brief else find_nearest(topic, topics)
        return f"did you mean {near}?" if near else "name one that exists"

    def _unused_partition_flaws(self, name: str, partition: TopicPartition) -> Iterator[Flaw]:
        """Yield a flaw if the connector does not read this partition: its offset is never used."""
        assigned, sink = self.facts.assigned, self.facts.sink
        if assigned is not None and partition not in assigned:
            copied = () if self.brief else {other.topic for other in assigned}
            right = f"it copies: {format_names(copied) or 'nothing of it'}{_ALLOW_NEW_ADVICE}"
            yield name, f"none of its tasks copies {_format_partition(partition)}", right
        if sink is not None and sink.topics_regex is None and partition.topic not in sink.topics:
            right = f"it reads: {format_names(sink.topics) or 'nothing'}{_ALLOW_NEW_ADVICE}"
            yield name, f"it does not read {partition.topic}", right

    def _offset_flaws(
        self, fields: Fields | None, offset: Fields, pair: PartitionOffset
    ) -> Iterator[Flaw]:
        if self.shape is not None:
            yield from find_offset_flaws(self.shape, offset)
            return
        class_name = self.facts.class_name
        # Where the class is not known it may be one that casts its fields: unknown means no.
        shape = find_dialect(fields, class_name) if class_name else detect_shape(fields).name
        longs = set(DIALECTS[shape].longs)
        for name in sorted(longs & offset.keys()):
            if offset[name] is None or describe_type(offset[name]) == "a whole number":
                continue
            wrong, right = f"{format_value(offset[name])} is no whole number", _WHOLE_NUMBER
            if class_name:
                yield name, f"{wrong}, at which its task would fail", right
            elif not self.request.allow_new:
                wrong = f"{wrong}, at which a task of {shape} would fail"
                yield name, wrong, right + _ALLOW_NEW_CLASS_ADVICE
        missing = [*find_field_flaws(shape, offset, self.facts.database)] if class_name else []
        yield from missing
        if not self.request.allow_new:
            named = {name for name, _, _ in missing}
            yield from self._type_flaws(pair, offset, longs | named)

    def _type_flaws(self, pair: PartitionOffset, offset: Fields, known: set[str]) -> Iterator[Flaw]:
        """Yield fields whose type differs from the connector's own: they can make a task fail."""
        for name, before in (parse_fields(self.there.get(pair.partition)) or {}).items():
            after = offset.get(name)
            if before is None or after is None or name in known:
                continue
            new, old = describe_type(after), describe_type(before)
            if new != old:
                wrong = f"{format_value(after)} is {new}, where it has {format_value(before)}"
                yield name, wrong, f"{old}; --allow-new if you know better"

    def _range_flaws(self, partition: TopicPartition, offset: Fields) -> Iterator[Flaw]:
        bounds = self.facts.logs.get(partition)
        if bounds is None:
            return  # said by _report_unreadable_logs, once
        assert self.shape is not None  # it has logs
        value = offset[self.shape.position]
        assert isinstance(value, int)  # its shape is right
        name = _format_partition(partition)
        if self.shape is SINK:
            flaw = check_next_offset(name, bounds, value)
        else:
            flaw = check_last_offset(name, bounds, value, null_is_end=self._starts_at_the_end())
        if flaw is not None:
            yield self.shape.position, *flaw

    def advice(self) -> str:
        """Return what to do about unknown facts."""
        return "; ".join(self.facts.unknown)


def _build_check(request: OffsetsRequest, facts: ValidationFacts) -> _RequestCheck:
    there = {pair.partition: pair.offset for pair in facts.present if pair.offset is not None}
    listed = frozenset(pair.partition for pair in facts.present if pair.offset is None)
    return _RequestCheck(request, facts, find_shape(facts.kind, facts.class_name), there, listed)


_ALLOW_NEW_ADVICE = "; --allow-new if that is about to change"
_WHOLE_NUMBER = "a whole number without quotes"
_ALLOW_NEW_CLASS_ADVICE = "; --allow-new if it is of another class"
_UNREACHABLE_OVER_REST = (
    (
        "Connect lists it and shows no offset of it: REST looks it up in the order of a HashMap, "
        "which the connector's own map may not have. A change over REST would not reach its task "
        "then"
    ),
    (
        "stop its workers and change it in their storage, with --worker-config; --allow-new writes "
        "it over REST all the same"
    ),
)
_MIRROR_FIELDS = ("topic", "partition")
_SINK_FIELDS = ("kafka_topic", "kafka_partition")


def _prefix_flaws(half: str, flaws: Iterable[Flaw]) -> Iterator[Flaw]:
    for name, wrong, right in flaws:
        yield f"{half}.{name}".rstrip("."), wrong, right


def _parse_topic_partition(fields: Fields | None) -> TopicPartition | None:
    """Return the Kafka partition of a mirror's or a sink's partition; None if it has none."""
    if fields is None:
        return None
    mirror = fields.keys() == MIRROR_SOURCE.partition.keys()
    topic, number = (fields.get(name) for name in (_MIRROR_FIELDS if mirror else _SINK_FIELDS))
    if not isinstance(topic, str) or not isinstance(number, int) or isinstance(number, bool):
        return None
    return TopicPartition(topic, number) if number >= 0 else None


def _format_partition(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
