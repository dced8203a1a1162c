"""Identification of the record that blocks a MirrorSourceConnector. Pure.

The stored offset is that of the last record copied, so the next record is the first that exists
after it, and skipping that record stores its own offset. Two causes can be known for certain: the
producer refused the record for its size, which is computed here as the producer does; or the record
cannot be read, for which no task ever fails, because MirrorMaker takes the error for an empty poll.

source_records.py identifies the line of a file or the row of a table where one is configured under
`sources`. A database's log is not read, and most of its offsets have no computable successor. For
other sources the answer says what an operator has to give to `offsets alter`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from offsetwatch.decode.dialects import (
    DEBEZIUM,
    DIALECTS,
    FILE_STREAM,
    JDBC,
    MIRROR_CHECKPOINT,
    MIRROR_HEARTBEAT,
    find_dialect,
)
from offsetwatch.model.findings import BYTES, OFFSET, OFFSETS, RECORDS, Evidence, EvidenceItem
from offsetwatch.model.records import RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.search import (
    IdentifiedRecord,
    MirrorSubject,
    NoIdentification,
    OpaqueSubject,
    PartitionReading,
    ReadPosition,
    SearchAnswer,
    SubjectPartition,
    Suspect,
    build_identified_record,
    find_only_corrupt,
    find_suspects,
    parse_fields,
    read_whole_number,
    refuse_by_failure,
    refuse_by_offsets,
)
from offsetwatch.remedy.model.plan import PartitionOffset

OFFSET_FIELD: Final = "offset"
# What is counted at most for a record beside its parts, and is less when it is written: below the
# broker's limit by less than that, it may have been accepted.
SLACK_BYTES: Final = 21
SIZE_TOLERANCE: Final = 0.01  # of the size that the producer named: headers may have been added


class _LargeRecord(NamedTuple):
    suspect: Suspect
    record: RawRecord


def parse_mirror_position(pair: PartitionOffset) -> ReadPosition | None:
    """Return the position after the last record copied; None if the pair is not a mirror's."""
    partition, offset = parse_fields(pair.partition), parse_fields(pair.offset)
    topic, number = partition.get("topic"), read_whole_number(partition, "partition")
    copied = read_whole_number(offset, OFFSET_FIELD)
    if not isinstance(topic, str) or number is None or copied is None:
        return None
    return ReadPosition(TopicPartition(topic, number), copied + 1)


def find_in_mirror(
    subject: MirrorSubject, readings: Mapping[TopicPartition, PartitionReading]
) -> SearchAnswer:
    """Identify the record that blocks a mirror, or return why none can be identified."""
    failure = subject.failure
    denied = refuse_mirror(subject)
    if denied is not None:
        return denied
    suspects = find_suspects(select_own_partitions(subject), parse_mirror_position, readings)
    if isinstance(suspects, NoIdentification):
        return suspects
    if failure is None or failure.kind == "corrupt":
        return _find_corrupt_record(subject, suspects)
    return _find_large_record(subject, suspects, failure.size_bytes)


def refuse_mirror(subject: MirrorSubject) -> NoIdentification | None:
    """Return why no log needs to be read; None if logs have to be read."""
    failure = subject.failure
    denied = refuse_by_failure(failure) or refuse_by_offsets(
        select_own_partitions(subject), parse_mirror_position
    )
    if denied is not None or failure is None or failure.kind in {"producer_size", "corrupt"}:
        return denied
    return NoIdentification(
        "stage_unknown",
        f"a mirror's failure of kind {failure.kind} does not identify a record",
        (EvidenceItem("failure", str(failure.kind)),),
    )


def select_own_partitions(subject: MirrorSubject) -> tuple[SubjectPartition, ...]:
    """Return the partitions without those of another cluster's alias, which no task reads."""
    alias = subject.facts.alias
    return tuple(
        partition
        for partition in subject.partitions
        if parse_fields(partition.pair.partition).get("cluster", alias) == alias
    )


# --- what cannot be read --------------------------------------------------------------------------


def _find_corrupt_record(subject: MirrorSubject, suspects: tuple[Suspect, ...]) -> SearchAnswer:
    if subject.failure is None and any(
        suspect.partition.moved is not False for suspect in suspects
    ):
        return NoIdentification(
            "not_known_to_stand_still", "it runs, and it is unknown whether it advances"
        )
    suspect = find_only_corrupt(suspects)
    if isinstance(suspect, NoIdentification):
        return suspect
    record = suspect.reading.salvaged
    assert record is not None
    if record.offset < suspect.position.next:
        return NoIdentification("cannot_copy", "what is read without checksums is another record")
    evidence = (
        EvidenceItem("checksum fails at", suspect.window.corrupt_at, OFFSET),
        EvidenceItem("copy", "read without its checksum: its bytes are not what was written"),
        *_describe_gap(suspect, record),
    )
    return _build_identified(
        subject, suspect, record, "checksum", evidence, recommend=(recommendations.OTHER_REPLICAS,)
    )


# --- what cannot be written -----------------------------------------------------------------------


def _find_large_record(
    subject: MirrorSubject, suspects: tuple[Suspect, ...], size: int | None
) -> SearchAnswer:
    recommend = recommendations.recommend_for_size(subject.connect_version)
    evidence: Evidence = (EvidenceItem("size that was refused", size, BYTES),)
    if size is None:
        evidence = (EvidenceItem("size that was refused", "not named"),)
    if any(suspect.window.corrupt_at is not None for suspect in suspects):
        return NoIdentification(
            "window_corrupt",
            "a record that it will come to is corrupt, which is not what it failed for",
            evidence,
        )
    large = [
        _LargeRecord(suspect, record)
        for suspect in suspects
        for record in suspect.window.records
        if _is_refused(subject, suspect, record, size)
    ]
    first = [entry for entry in large if entry.record is entry.suspect.window.records[0]]
    if not first:
        return _explain_none_first(large, evidence, recommend)
    if len({entry.suspect.position.partition for entry in large}) > 1:
        return NoIdentification(
            "more_than_one_partition",
            "records of several partitions are too large: it is unknown on which one it failed",
            evidence,
            recommend,
        )
    suspect, record = first[0]
    if size is None and not _is_only_large(subject, suspect, large):
        return NoIdentification(
            "size_not_conclusive",
            "it may be compressed, and so another record the one that is too large",
            evidence,
            recommend,
        )
    evidence = (
        *evidence,
        EvidenceItem("size of the record", record.size_bytes, BYTES),
        EvidenceItem("as large after it", len(large) - 1, RECORDS),
        *_describe_gap(suspect, record),
    )
    return _build_identified(subject, suspect, record, "size", evidence, recommend=recommend)


def _is_refused(
    subject: MirrorSubject, suspect: Suspect, record: RawRecord, size: int | None
) -> bool:
    """Return whether such a record was certainly refused by the producer or the broker.

    The producer names the size; the broker does not. Where the producer's limit is unknown, records
    of at least the size that it named are refused.
    """
    if size is None:
        limit = suspect.reading.size_max
        return limit is not None and record.size_bytes - SLACK_BYTES > limit
    limit = subject.facts.request_max
    beyond = record.size_bytes >= size if limit is None else record.size_bytes > limit
    return beyond and abs(record.size_bytes - size) <= size * SIZE_TOLERANCE


def _is_only_large(subject: MirrorSubject, suspect: Suspect, large: list[_LargeRecord]) -> bool:
    """Return whether it is certainly the record that the broker refused.

    The broker checks the compressed size.
    """
    to_its_end = suspect.window.next_offset >= suspect.window.end
    return subject.facts.compressed is False or (len(large) == 1 and to_its_end)


def _explain_none_first(
    large: list[_LargeRecord], evidence: Evidence, recommend: tuple[str, ...]
) -> NoIdentification:
    if not large:
        return NoIdentification(
            "size_not_conclusive",
            "no record that it will come to is certain to be refused for its size",
            evidence,
            recommend,
        )
    record = large[0].record
    return NoIdentification(
        "not_the_first_record",
        f"{record.topic}-{record.partition}@{record.offset} is too large, after records that are "
        "not and are not yet stored as copied",
        evidence,
        recommend,
    )


# --- both -----------------------------------------------------------------------------------------


def _describe_gap(suspect: Suspect, record: RawRecord) -> Evidence:
    """Return the count of offsets without a record before it: compacted or control records."""
    gap = record.offset - suspect.position.next
    return (EvidenceItem("without a record before it", gap, OFFSETS),) if gap else ()


def _build_identified(
    subject: MirrorSubject,
    suspect: Suspect,
    record: RawRecord,
    method: str,
    evidence: Evidence,
    *,
    recommend: tuple[str, ...],
) -> IdentifiedRecord:
    assert record.offset >= suspect.position.next
    assert all(other.offset >= record.offset for other in suspect.window.records)
    return build_identified_record(subject.kafka, suspect, record, (method,), evidence, recommend)


_TIMESTAMP_FIELDS: Final = frozenset({"timestamp", "timestamp_nanos"})


def explain_unsupported_source(subject: OpaqueSubject) -> NoIdentification:
    """Return why no record can be identified, and what an operator would have to give."""
    fields = parse_fields(subject.pair.offset)
    dialect = DIALECTS[find_dialect(parse_fields(subject.pair.partition), subject.class_name)]
    evidence: Evidence = (
        EvidenceItem("fields of its offset", ", ".join(sorted(fields)) or "none"),
    )
    if dialect is FILE_STREAM:
        return NoIdentification(
            "person_must_say",
            "`position` counts what was read of the file: a person has to give that of the line "
            "after the one that fails, in bytes from its start",
            evidence,
            (recommendations.CONFIGURE_THE_SOURCE, recommendations.FIX_THE_FILE),
        )
    if dialect is JDBC and not (fields and fields.keys() <= _TIMESTAMP_FIELDS):
        return NoIdentification(
            "person_must_say",
            "`incrementing` is the last id that was read, after `timestamp` if it has one: a "
            "person has to give both of the row that fails, which the database knows",
            evidence,
            (recommendations.CONFIGURE_THE_SOURCE, recommendations.BOUND_THE_QUERY),
        )
    if dialect is JDBC:
        return NoIdentification(
            "no_safe_offset",
            "rows may share a timestamp, and an offset that passes over one passes over all of "
            "them: none is safe",
            evidence,
            (recommendations.BOUND_THE_QUERY,),
        )
    if dialect in {MIRROR_CHECKPOINT, MIRROR_HEARTBEAT}:
        return NoIdentification(
            "offset_without_meaning", "its offset is 0 in every case, and no task ever reads it"
        )
    if dialect.name.startswith(DEBEZIUM.name):
        return NoIdentification(
            "no_safe_offset",
            "positions in a database's log have no successor that could be computed, and one in "
            "the middle of a transaction loses the rest of it",
            evidence,
            (recommendations.DEBEZIUM_MODE,),
        )
    return NoIdentification(
        "person_must_say",
        "what its offsets mean only the connector knows: a person has to give the next one",
        evidence,
        (recommendations.ASK_THE_CONNECTOR,),
    )
