"""Identification of the line or row that blocks a source, where its records can be read. Pure.

A task that fails commits what was delivered before. After its restart it begins with the first
record that was not: if it then fails before it commits anything, it failed on that record. This
holds for a failure of a converter, of a transform or of the producer. A failure inside the
connector's own poll() may lie anywhere in its batch. With exactly-once delivery a batch is
committed as a whole, and the record may be any of it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from offsetwatch.model.findings import OFFSET, Evidence, EvidenceItem
from offsetwatch.model.records import RawRecord
from offsetwatch.model.row_positions import ID_SPAN, RowOrder, format_log_offset, read_row_position
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.search import (
    IdentifiedRecord,
    NoIdentification,
    PartitionReading,
    ReadPosition,
    SearchAnswer,
    SourceSubject,
    Suspect,
    build_identified_record,
    find_suspects,
    parse_fields,
    read_whole_number,
    refuse_by_failure,
    refuse_by_offsets,
)
from offsetwatch.remedy.model.plan import PartitionOffset

_POSITION: Final = "position"
_INCREMENTING: Final = "incrementing"
_STAGES: Final = frozenset(
    {"converter_key", "converter_value", "converter_header", "transform", "producer_send"}
)


def parse_source_position(pair: PartitionOffset, order: RowOrder | None) -> ReadPosition | None:
    """Return the position after the last record read; None if its order is not known.

    order       JDBC: of its rows
    """
    partition, offset = parse_fields(pair.partition), parse_fields(pair.offset)
    table = partition.get("table")
    if isinstance(table, str) and order is not None and order.times:
        row = read_row_position(offset)
        return None if row is None else _build_row_position(table, order, row)
    if len(offset) != 1:
        return None
    file, position = partition.get("filename"), read_whole_number(offset, _POSITION)
    if isinstance(file, str) and position is not None:
        return ReadPosition(TopicPartition(file, 0), position)
    last = read_whole_number(offset, _INCREMENTING)
    if isinstance(table, str) and order is not None and last is not None:
        return _build_row_position(table, order, last)
    return None


def _build_row_position(table: str, order: RowOrder, last: int) -> ReadPosition:
    return ReadPosition(TopicPartition(order.name_log(table), 0), last + 1)


def refuse_source(subject: SourceSubject) -> NoIdentification | None:
    """Return why no record needs to be read; None if records have to be read."""
    failure = subject.failure
    if failure is None:
        return NoIdentification(
            "no_failure", "it has not failed: a source that runs does not show a record it is at"
        )
    denied = refuse_by_failure(failure) or refuse_by_offsets(
        subject.partitions, lambda pair: parse_source_position(pair, subject.facts.order)
    )
    if denied is not None:
        return denied
    evidence: Evidence = (EvidenceItem("failed in", str(failure.stage)),)
    if failure.stage not in _STAGES:
        what = "it failed while it read: which record of its batch that was is unknown"
        return NoIdentification("stage_unknown", what, evidence, (recommendations.NAME_THE_RECORD,))
    if subject.facts.may_drop:
        what = "its transforms or errors.tolerance may leave records out, whose offsets stay behind"
        return NoIdentification("may_drop", what, evidence, (recommendations.NAME_THE_RECORD,))
    if subject.facts.exactly_once is None:
        what = "it is unknown whether its worker delivers exactly once, a whole batch at a time"
        return NoIdentification(
            "exactly_once_unknown",
            what,
            evidence,
            (recommendations.GIVE_WORKER_DELIVERY, recommendations.NAME_THE_RECORD),
        )
    if subject.facts.exactly_once:
        what = "its worker delivers exactly once: which record of its batch failed is unknown"
        return NoIdentification("exactly_once", what, evidence, (recommendations.NAME_THE_RECORD,))
    return None


def find_in_source(
    subject: SourceSubject,
    readings: Mapping[TopicPartition, PartitionReading],
    count_failures: Callable[[TopicPartition, RawRecord], int],
) -> SearchAnswer:
    """Identify the record that blocks a source, or return why none can be identified.

    count_failures  failures since this record was first read as the next one of its partition
    """
    denied = refuse_source(subject)
    if denied is not None:
        return denied
    suspects = find_suspects(
        subject.partitions,
        lambda pair: parse_source_position(pair, subject.facts.order),
        readings,
    )
    if isinstance(suspects, NoIdentification):
        return suspects
    if len(suspects) > 1:
        names = ", ".join(sorted(suspect.position.partition.topic for suspect in suspects))
        what = f"it is unknown on which of these it failed: {names}"
        return NoIdentification(
            "more_than_one_partition", what, recommend=(recommendations.NAME_THE_RECORD,)
        )
    (suspect,) = suspects
    record = suspect.window.records[0]
    return check_line_begin(suspect.position, record) or _identify(
        subject, suspect, record, count_failures(suspect.position.partition, record)
    )


def check_line_begin(position: ReadPosition, record: RawRecord) -> NoIdentification | None:
    """Return why the task does not read the record from its begin; None if it does."""
    is_line = not position.partition.topic.endswith(")")
    begin = record.offset + 1 - len(record.value or b"")
    if not is_line or begin == position.next:
        return None
    what = f"its position {position.next} lies inside of the line that begins at {begin}"
    return NoIdentification("inside_a_line", what)


def _describe_offset(offset: int) -> int | str:
    return offset if offset < ID_SPAN else format_log_offset(offset)


def _identify(
    subject: SourceSubject, suspect: Suspect, record: RawRecord, failures: int
) -> IdentifiedRecord | NoIdentification:
    if suspect.partition.moved is not False or failures < 1:
        what = "it has yet to fail again before the record that is next now"
        return NoIdentification("not_failed_again", what)
    return build_identified_record(
        subject.kafka,
        suspect,
        record,
        ("next_record",),
        (EvidenceItem("next record", _describe_offset(record.offset), OFFSET),),
        (),
    )
