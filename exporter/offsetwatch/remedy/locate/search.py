"""Subjects, readings and results of the search for a poison record, and the checks in common.

The committed offset is not that of the poison record. A sink commits batch by batch, so after a
failure its offset is the start of the batch. A record is identified only where the known facts
leave no other, and a skip is exact only if that record is the first. sinks.py and sources.py
decide; remedy/gather/record_window.py reads what they need. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from offsetwatch.decode.java.hash_map import trim_blanks
from offsetwatch.model.connectors import DatabaseSettings
from offsetwatch.model.findings import Evidence, EvidenceItem
from offsetwatch.model.offsets import INT64_MAX, Scalar
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.row_positions import RowOrder
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.classify import SKIPPABLE, Failure
from offsetwatch.remedy.locate.converters import (
    UNKNOWN_CONVERTERS,
    ConnectorConverters,
    SettingsMap,
    parse_truth,
    read_converters,
)
from offsetwatch.remedy.model.plan import PartitionOffset, RecordLocation, build_offset_after
from offsetwatch.remedy.model.policy import SinkProfile

BATCH_DEFAULT: Final = 500  # max.poll.records of Kafka's consumer
# Of a worker's properties; nothing else of them is looked at.
WORKER_SETTINGS: Final = frozenset(
    {
        *(
            f"{kind}.converter{setting}"
            for kind in ("key", "value", "header")
            for setting in ("", ".schemas.enable", ".schema.content")
        ),
        "consumer.isolation.level",
        "exactly.once.source.support",
        "consumer.max.poll.records",
        "producer.compression.type",
        "producer.max.request.size",
    }
)
_DIGITS_MAX: Final = 10
_TOPIC_CHARS_MAX: Final = 249


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """Settings of a sink.

    batch_max       most records in one batch; None where neither it nor the worker sets it
    tolerant        errors.tolerance is `all`: failures of converters and transforms end no task
    dead_letters    the topic for these records
    logs_records    the worker's log names each record that a converter or transform fails on
    read_committed  None where neither it nor the worker sets it
    """

    converters: ConnectorConverters = UNKNOWN_CONVERTERS
    batch_max: int | None = None
    tolerant: bool | None = False
    dead_letters: str | None = None
    logs_records: bool | None = False
    read_committed: bool | None = None

    @property
    def batch(self) -> int:
        """The most records in one batch: BATCH_DEFAULT if no setting is known."""
        return BATCH_DEFAULT if self.batch_max is None else self.batch_max


@dataclass(frozen=True, slots=True)
class MirrorFacts:
    """Settings of a MirrorSourceConnector.

    alias           of the cluster that it reads
    request_max     max.request.size of its producer; None where neither it nor the worker sets it
    compressed      its producer compresses; None as above
    """

    alias: str = "source"
    request_max: int | None = None
    compressed: bool | None = None
    read_committed: bool = False


@dataclass(frozen=True, slots=True)
class SourceDelivery:
    """Settings of a source whose records can be read.

    order           JDBC: the order of its rows
    may_drop        a transform, or errors.tolerance, may leave records out, whose offsets are then
                    not committed
    exactly_once    its worker commits offsets with the records of a whole batch; None if unknown
    """

    order: RowOrder | None = None
    may_drop: bool = True
    exactly_once: bool | None = None


def read_source_delivery(
    config: SettingsMap, order: RowOrder | None, worker: SettingsMap | None
) -> SourceDelivery:
    """Read the settings of a source. `worker` has the worker's properties, if they are known."""
    aliases = [name.strip() for name in (config.get("transforms") or "").split(",")]
    classes = [_read_literal(config.get(f"transforms.{name}.type")) for name in aliases if name]
    tolerance = _read_literal(config.get("errors.tolerance", "none"))
    support = (worker or {}).get("exactly.once.source.support") or "disabled"
    return SourceDelivery(
        order=order,
        may_drop=tolerance != "none" or not all(map(_keeps_records, classes)),
        exactly_once=None if worker is None else support.strip().lower() != "disabled",
    )


def read_row_order(
    database: DatabaseSettings, config: SettingsMap
) -> RowOrder | NoIdentification | None:
    """Return the order in which a JDBC source reads rows; None in a mode without an exact one.

    A setting that would leave the order unknown is the reason why no record can be identified.
    """
    if database.mode not in {"incrementing", "timestamp+incrementing"}:
        return None
    column = database.incrementing_column or ""
    zone = _read_literal(config.get("db.timezone", "UTC"))
    delay = _read_literal(config.get("timestamp.delay.interval.ms", "0")) or ""
    order = RowOrder(column)
    if database.mode != "incrementing":
        is_number = delay.isascii() and delay.isdigit() and len(delay) <= _DIGITS_MAX
        order = RowOrder(
            column, database.timestamp_columns, zone or "", int(delay) if is_number else -1
        )
    return _explain_unknown_order(database, config, order) or order


def build_unknown_order(why: str) -> NoIdentification:
    """Build the answer that a setting leaves the order of rows unknown."""
    return NoIdentification("row_order_unknown", f"which row is next is unknown: {why}")


def _explain_unknown_order(
    database: DatabaseSettings, config: SettingsMap, order: RowOrder
) -> NoIdentification | None:
    has_times = database.mode != "incrementing"
    for is_unknown, why in (
        (database.has_query, "it reads a query, whose rows are not those of a table"),
        (not order.column, "incrementing.column.name does not name its column"),
        (has_times and not order.times, "timestamp.column.name does not name its columns"),
        (has_times and not order.has_plain_names, "names of its columns have other characters"),
        (not order.zone, "its db.timezone is not known here"),
        (order.delay_ms < 0, "its timestamp.delay.interval.ms is not known here"),
        (
            bool(trim_blanks(config.get("query.suffix") or "")),
            "query.suffix changes what it reads",
        ),
    ):
        if is_unknown:
            return build_unknown_order(why)
    return None


def _keeps_records(class_name: str | None) -> bool:
    """Check whether a transform is one of Kafka's own that leave out no record."""
    package, _, name = (class_name or "").partition("$")[0].rpartition(".")
    return package == "org.apache.kafka.connect.transforms" and name != "Filter"


def read_sink_facts(config: SettingsMap, worker: SettingsMap | None = None) -> SinkFacts:
    """Read the settings of a sink. `worker` has the worker's properties, if they are known."""
    tolerance = _read_literal(config.get("errors.tolerance", "none"))
    topic = _read_literal(config.get("errors.deadletterqueue.topic.name"))
    level = _read_client_setting("consumer", "isolation.level", config, worker)
    logging = {
        parse_truth(config.get(f"errors.log.{name}"), default=False)
        for name in ("enable", "include.messages")
    }
    return SinkFacts(
        converters=read_converters(config, worker),
        batch_max=_parse_number(
            _read_client_setting("consumer", "max.poll.records", config, worker)
        ),
        tolerant=None if tolerance is None else tolerance.lower() == "all",
        dead_letters=topic if topic and len(topic) <= _TOPIC_CHARS_MAX else None,
        logs_records=False if False in logging else None if None in logging else True,
        read_committed=_parse_isolation(level, known=worker is not None),
    )


def read_mirror_facts(config: SettingsMap, worker: SettingsMap | None = None) -> MirrorFacts:
    """Read the settings of a mirror. `worker` is as in read_sink_facts.

    The worker's consumer settings do not apply, because the consumer is MirrorMaker's own.
    """
    compression = _read_client_setting("producer", "compression.type", config, worker)
    level = config.get("source.consumer.isolation.level", config.get("consumer.isolation.level"))
    alias = config.get("source.cluster.alias")
    known = compression is not None or worker is not None
    return MirrorFacts(
        alias="source" if alias is None else trim_blanks(alias),
        request_max=_parse_number(
            _read_client_setting("producer", "max.request.size", config, worker)
        ),
        compressed=trim_blanks(compression or "none").lower() != "none" if known else None,
        # Of an unknown level: what is certainly read.
        read_committed=_parse_isolation(level, known=True) is not False,
    )


def _read_client_setting(
    client: str, name: str, config: SettingsMap, worker: SettingsMap | None
) -> str | None:
    """Return a setting of the connector's consumer or producer, or else the worker's."""
    own = config.get(f"{client}.override.{name}")
    return own if own is not None else (worker or {}).get(f"{client}.{name}")


def _parse_isolation(level: str | None, *, known: bool) -> bool | None:
    if level is None:
        return False if known else None
    return {"read_committed": True, "read_uncommitted": False}.get(level.strip().lower())


def _read_literal(value: str | None) -> str | None:
    """Return the stripped value; None if it is missing or externalized."""
    return None if value is None or "${" in value else value.strip()


def _parse_number(value: str | None) -> int | None:
    text = (value or "").strip()
    plain = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if plain and int(text) > 0 else None


UNKNOWN_SINK_FACTS: Final = SinkFacts()
UNKNOWN_MIRROR_FACTS: Final = MirrorFacts()


# --- what is asked --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubjectPartition:
    """A partition that a sink reads or a mirror copies.

    pair        as `GET /offsets` returns it now; its offset is None where there is none
    moved       whether that offset has changed since the problem began; None if unknown
    topic_id    of the topic when the problem began; None if unknown
    highest_end    the highest log end observed since then, as its own consumer reads it
    remote      of a mirror: the topic's name in the target cluster, if that is known
    """

    pair: PartitionOffset
    moved: bool | None = None
    topic_id: str | None = None
    highest_end: int | None = None
    remote: str | None = None


@dataclass(frozen=True, slots=True)
class SinkSubject:
    """A sink that makes no progress.

    kafka           the configured name of the cluster that it reads
    letters_kafka   the configured name of the cluster that has its dead letters
    failure         of its tasks, now; None where none failed
    partitions      all that it reads, including those without an offset
    failures_alone  failures of this kind at this very offset, observed while it took one record at
                    a time
    put_at_once     what put() throws is about the records that it was given: nothing is buffered
    log             the end of its worker's log, if there is one
    topics          that it is configured to read, besides those of its partitions
    class_name      as in connector.class
    profile         of its class
    """

    connector: str
    kafka: str
    failure: Failure | None
    partitions: tuple[SubjectPartition, ...]
    facts: SinkFacts = UNKNOWN_SINK_FACTS
    failures_alone: int = 0
    put_at_once: bool = False
    log: str | None = None
    topics: frozenset[str] = frozenset()
    letters_kafka: str | None = None
    connect_version: tuple[int, ...] | None = None
    class_name: str = ""
    profile: SinkProfile = SinkProfile.UNKNOWN


@dataclass(frozen=True, slots=True)
class MirrorSubject:
    """A MirrorSourceConnector that makes no progress.

    `target_kafka` is the configured name of the cluster that it copies to; None if that is not
    configured. The other fields are those of SinkSubject.
    """

    connector: str
    kafka: str
    failure: Failure | None
    partitions: tuple[SubjectPartition, ...]
    facts: MirrorFacts = UNKNOWN_MIRROR_FACTS
    target_kafka: str | None = None
    connect_version: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class OpaqueSubject:
    """A source whose next offset cannot be computed. `pair` is its current offset."""

    connector: str
    class_name: str
    pair: PartitionOffset
    connect_version: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class SourceSubject:
    """A source that makes no progress, and whose records can be read.

    `kafka` is the name of its log (gather/source_logs.py). The other fields are those of
    SinkSubject.
    """

    connector: str
    kafka: str
    failure: Failure | None
    partitions: tuple[SubjectPartition, ...]
    facts: SourceDelivery
    connect_version: tuple[int, ...] | None = None


SearchSubject = SinkSubject | MirrorSubject | OpaqueSubject


@dataclass(frozen=True, slots=True)
class PartitionReading:
    """The records read for one SubjectPartition.

    topic_id        now
    window          from the next record on, as the connector's own consumer receives it; None where
                    it could not be read
    unread          why not, in a word
    salvaged        the record at window.corrupt_at, read without checksums
    sound_after     whether the records after it can be read again
    levels_differ   it is unknown whether the connector reads committed records only, and the two
                    isolation levels would return different records
    size_max        of a mirror: max.message.bytes of the topic that it copies to
    """

    topic_id: str | None = None
    window: LogWindow | None = None
    unread: str = ""
    salvaged: RawRecord | None = None
    sound_after: bool | None = None
    levels_differ: bool = False
    size_max: int | None = None


# --- what is answered -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IdentifiedRecord:
    """The one record that blocks the connector.

    frm, to     what is committed, and what would be after a skip: both absolute
    method      by which it was found
    sha256, size_bytes      of the record (RawRecord)
    also        other methods that identify the same record
    recommend   what would be better than a skip, a sentence each
    """

    record: RecordLocation
    frm: PartitionOffset
    to: PartitionOffset
    method: str
    sha256: str
    size_bytes: int
    evidence: Evidence = ()
    also: tuple[str, ...] = ()
    recommend: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoIdentification:
    """The reason why no record can be identified for certain.

    reason      a fixed word
    said        a sentence for users
    recommend   what to do instead, a sentence each
    """

    reason: str
    said: str
    evidence: Evidence = ()
    recommend: tuple[str, ...] = ()


SearchAnswer = IdentifiedRecord | NoIdentification


# --- what all kinds have in common ----------------------------------------------------------------


class ReadPosition(NamedTuple):
    """The partition of an offset, and the offset of the NEXT record to be read."""

    partition: TopicPartition
    next: int


class Suspect(NamedTuple):
    """A partition that does not advance although it has records to read."""

    partition: SubjectPartition
    position: ReadPosition
    reading: PartitionReading
    window: LogWindow


PositionParser = Callable[[PartitionOffset], ReadPosition | None]


def parse_fields(text: str | None) -> dict[str, Scalar]:
    """Parse the fields of a partition or an offset; empty if it is no flat map."""
    try:
        return msgspec.json.decode(text or "", type=dict[str, str | int | float | bool | None])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def read_whole_number(fields: Mapping[str, Scalar], name: str) -> int | None:
    """Return a field that is a non-negative Java long; None for anything else, as True or "0"."""
    value = fields.get(name)
    return value if type(value) is int and 0 <= value < INT64_MAX else None


def refuse_by_failure(failure: Failure | None) -> NoIdentification | None:
    """Return why the failure rules out a search for a record; None if it does not."""
    if failure is None:
        return None
    if failure.veto is not None or failure.kind not in SKIPPABLE:
        kind = failure.veto or failure.kind
        return NoIdentification(
            "vetoed",
            f"it failed for a reason of kind {kind}: a record does not cause that",
            (EvidenceItem("failure", str(kind)),),
        )
    return None


def refuse_by_offsets(
    partitions: tuple[SubjectPartition, ...], parse: PositionParser
) -> NoIdentification | None:
    """Return why the offsets rule out an alteration: unknown format or duplicate partitions."""
    known: set[TopicPartition] = set()
    for pair in (partition.pair for partition in partitions):
        if pair.offset is None:
            continue
        position = parse(pair)
        if position is None:
            return NoIdentification(
                "offset_not_understood",
                f"{pair.partition} has {pair.offset}: which record is next is unknown",
            )
        if position.partition in known:
            return NoIdentification(
                "partition_twice",
                f"two offsets stand for {_format_partition(position.partition)}: which one is read "
                "is not certain",
            )
        known.add(position.partition)
    return None


def find_suspects(
    partitions: tuple[SubjectPartition, ...],
    parse: PositionParser,
    readings: Mapping[TopicPartition, PartitionReading],
) -> tuple[Suspect, ...] | NoIdentification:
    """Return partitions that do not advance and have records to read, or why that is unknown.

    One partition in an unclear state rules out all: the record may be there.
    """
    suspects = []
    for partition in partitions:
        position = parse(partition.pair)
        if position is None or partition.moved:
            continue
        reading = readings.get(position.partition, PartitionReading(unread="not_read"))
        suspect = _build_suspect(partition, position, reading)
        if isinstance(suspect, NoIdentification):
            return suspect
        if suspect is not None:
            suspects.append(suspect)
    if not suspects:
        return NoIdentification(
            "nothing_to_read", "no partition stands still with anything left to read"
        )
    return tuple(suspects)


def _build_suspect(
    partition: SubjectPartition, position: ReadPosition, reading: PartitionReading
) -> Suspect | NoIdentification | None:
    name, window = _format_partition(position.partition), reading.window
    if window is None:
        return NoIdentification("window_not_read", f"{name} could not be read: {reading.unread}")
    problem = _find_log_change(partition, position, reading.topic_id, window)
    if problem is not None:
        return NoIdentification(problem[0], f"{name} {problem[1]}")
    nothing = not window.records and window.corrupt_at is None
    if position.next == window.end or (nothing and window.next_offset >= window.end):
        return None  # markers of transactions are no records
    if nothing:
        return NoIdentification("window_not_read", f"{name} could not be read in time")
    if reading.levels_differ:
        return NoIdentification(
            "isolation_unknown",
            f"it is unknown whether aborted transactions of {name} are read: that depends on the "
            "worker's consumer.isolation.level",
        )
    return Suspect(partition, position, reading, window)


def _find_log_change(
    partition: SubjectPartition, position: ReadPosition, topic_id: str | None, window: LogWindow
) -> tuple[str, str] | None:
    """Return why this log is not the one that the offset was committed for, as (reason, detail)."""
    if partition.topic_id is None or topic_id is None:
        return "topic_id_unknown", "may have been recreated: its topic id is unknown"
    if partition.topic_id != topic_id:
        return "topic_recreated", "was deleted and created again since the trouble began"
    before, end, following = partition.highest_end, window.end, position.next
    if before is not None and end < before:
        return "log_end_went_back", f"ended at {before} before, and ends at {end}"
    if following > end:
        said = f"ends at {end}, and {following} is next: a reader would begin at its start"
        return "position_past_end", said
    if following < window.log_start:
        said = f"begins at {window.log_start}, and {following} was next: retention took the rest"
        return "log_start_past_position", said
    return None


def find_only_corrupt(suspects: Iterable[Suspect]) -> Suspect | NoIdentification:
    """Return the only suspect whose next record fails its checksum, or why there is none.

    Its bytes must be readable without checksums, and its batch must contain no other record.
    """
    corrupt = [
        (suspect, _format_partition(suspect.position.partition), suspect.window.corrupt_at)
        for suspect in suspects
        if suspect.window.corrupt_at is not None
    ]
    if not corrupt:
        return NoIdentification(
            "probe_is_clean", "what is to be read next can be read: nothing there is corrupt"
        )
    if len(corrupt) > 1:
        return NoIdentification(
            "corrupt_in_many",
            "records of several partitions are corrupt: a disk causes that, not a record",
            tuple(EvidenceItem("corrupt at", f"{name}@{offset}") for _, name, offset in corrupt),
        )
    suspect, name, offset = corrupt[0]
    if suspect.window.records:
        return NoIdentification(
            "not_the_first_record",
            f"{name} is corrupt at {offset}, after records that are not, and were not yet "
            "processed",
        )
    if suspect.reading.salvaged is None:
        return NoIdentification(
            "cannot_copy", "the corrupt record cannot be read even without its checksum"
        )
    if suspect.reading.sound_after is not True:
        return NoIdentification(
            "corrupt_batch",
            "the record after it is corrupt too: a batch is one to a consumer, and to skip one "
            "record of it would not get past it",
        )
    return suspect


def _format_partition(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def build_identified_record(
    kafka: str,
    suspect: Suspect,
    record: RawRecord,
    methods: tuple[str, ...],
    evidence: Evidence,
    recommend: tuple[str, ...],
) -> IdentifiedRecord:
    """Build the answer that this record blocks the connector, with the offset after a skip."""
    topic_id, partition = suspect.reading.topic_id, suspect.position.partition
    assert topic_id is not None
    return IdentifiedRecord(
        RecordLocation(kafka, partition.topic, topic_id, partition.partition, record.offset),
        frm=suspect.partition.pair,
        to=build_offset_after(suspect.partition.pair, record.offset),
        method=methods[0],
        sha256=record.sha256,
        size_bytes=record.size_bytes,
        evidence=evidence,
        also=methods[1:],
        recommend=recommend,
    )
