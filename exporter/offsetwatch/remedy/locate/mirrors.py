"""Which record a MirrorSourceConnector cannot get past. Pure; called by windows.py.

What is stored is the last record that was copied, so the next one is the first that exists after
it, and a skip of that record stores its own offset. Two things can be known for certain of it: that
the producer refused it for its size, which the producer counts as we do; and that it cannot be
read, for which no task ever fails, as MirrorMaker takes the error for an empty poll.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from offsetwatch.model.evidence import BYTES, OFFSET, OFFSETS, RECORDS, Evidence, EvidenceItem
from offsetwatch.model.records import RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.search import (
    Answer,
    Identified,
    MirrorSubject,
    NotIdentified,
    Place,
    Seen,
    Standing,
    Suspect,
    fields_of,
    only_corrupt,
    record_at,
    refusal,
    suspects,
    unplaced,
    whole_number,
    with_field,
)
from offsetwatch.remedy.model.plan import Pair

OFFSET_FIELD: Final = "offset"
# What is counted at most for a record beside its parts, and is less when it is written: below the
# broker's limit by less than that, it may have been accepted.
SLACK_BYTES: Final = 21
NEAR: Final = 0.01  # of the size that the producer named: headers may have been added


class _Large(NamedTuple):
    suspect: Suspect
    record: RawRecord


def mirror_place(pair: Pair) -> Place | None:
    """Where a mirror stands: at the record after the last one that it copied. None if that is not
    so.
    """
    partition, offset = fields_of(pair.partition), fields_of(pair.offset)
    topic, number = partition.get("topic"), whole_number(partition, "partition")
    copied = whole_number(offset, OFFSET_FIELD)
    if not isinstance(topic, str) or number is None or copied is None:
        return None
    return Place(TopicPartition(topic, number), copied + 1)


def find_in_mirror(subject: MirrorSubject, seen: Mapping[TopicPartition, Seen]) -> Answer:
    """See the module."""
    failure = subject.failure
    denied = mirror_refusal(subject)
    if denied is not None:
        return denied
    found = suspects(own_rows(subject), mirror_place, seen)
    if isinstance(found, NotIdentified):
        return found
    if failure is None or failure.kind == "corrupt":
        return _corrupt(subject, found)
    return _too_large(subject, found, failure.size_bytes)


def mirror_refusal(subject: MirrorSubject) -> NotIdentified | None:
    """Why no log needs to be read at all."""
    failure = subject.failure
    denied = refusal(failure) or unplaced(own_rows(subject), mirror_place)
    if denied is not None or failure is None or failure.kind in {"producer_size", "corrupt"}:
        return denied
    return NotIdentified(
        "stage_unknown",
        f"a mirror's failure of kind {failure.kind} does not identify a record",
        (EvidenceItem("failure", str(failure.kind)),),
    )


def own_rows(subject: MirrorSubject) -> tuple[Standing, ...]:
    """Without those of another cluster's alias, which no task reads."""
    alias = subject.facts.alias
    return tuple(
        at
        for at in subject.partitions
        if fields_of(at.pair.partition).get("cluster", alias) == alias
    )


# --- what cannot be read --------------------------------------------------------------------------


def _corrupt(subject: MirrorSubject, found: tuple[Suspect, ...]) -> Answer:
    if subject.failure is None and not all(at.standing.moved is False for at in found):
        return NotIdentified(
            "not_known_to_stand_still", "it runs, and it is unknown whether it advances"
        )
    suspect = only_corrupt(found)
    if isinstance(suspect, NotIdentified):
        return suspect
    record = suspect.seen.salvaged
    assert record is not None
    if record.offset < suspect.place.next:
        return NotIdentified("cannot_copy", "what is read without checksums is another record")
    evidence = (
        EvidenceItem("checksum fails at", suspect.window.corrupt_at, OFFSET),
        EvidenceItem("copy", "read without its checksum: its bytes are not what was written"),
        *_gap(suspect, record),
    )
    return _identified(
        subject, suspect, record, "checksum", evidence, recommend=(recommendations.OTHER_REPLICAS,)
    )


# --- what cannot be written -----------------------------------------------------------------------


def _too_large(subject: MirrorSubject, found: tuple[Suspect, ...], size: int | None) -> Answer:
    recommend = recommendations.for_size(subject.connect_version)
    evidence: Evidence = (EvidenceItem("size that was refused", size, BYTES),)
    if size is None:
        evidence = (EvidenceItem("size that was refused", "not named"),)
    if any(at.window.corrupt_at is not None for at in found):
        return NotIdentified(
            "window_corrupt",
            "a record that it will come to is corrupt, which is not what it failed for",
            evidence,
        )
    large = [
        _Large(at, record)
        for at in found
        for record in at.window.records
        if _is_refused(subject, at, record, size)
    ]
    first = [at for at in large if at.record is at.suspect.window.records[0]]
    if not first:
        return _none_first(large, evidence, recommend)
    if len({at.suspect.place.at for at in large}) > 1:
        return NotIdentified(
            "more_than_one_partition",
            "records of several partitions are too large: it is unknown on which one it failed",
            evidence,
            recommend,
        )
    suspect, record = first[0]
    if size is None and not _only(subject, suspect, large):
        return NotIdentified(
            "size_not_conclusive",
            "it may be compressed, and so another record the one that is too large",
            evidence,
            recommend,
        )
    evidence = (
        *evidence,
        EvidenceItem("size of the record", record.size_bytes, BYTES),
        EvidenceItem("as large after it", len(large) - 1, RECORDS),
        *_gap(suspect, record),
    )
    return _identified(subject, suspect, record, "size", evidence, recommend=recommend)


def _is_refused(
    subject: MirrorSubject, suspect: Suspect, record: RawRecord, size: int | None
) -> bool:
    """Whether it is certain that the producer (which names the size) or the broker (which does not)
    refused such a record. Where the producer's limit is not known, that is so from the size on that
    it named.
    """
    if size is None:
        limit = suspect.seen.size_max
        return limit is not None and record.size_bytes - SLACK_BYTES > limit
    limit = subject.facts.request_max
    beyond = record.size_bytes >= size if limit is None else record.size_bytes > limit
    return beyond and abs(record.size_bytes - size) <= size * NEAR


def _only(subject: MirrorSubject, suspect: Suspect, large: list[_Large]) -> bool:
    """Whether it is the one that the broker refused, which looks at what is left by compression."""
    to_its_end = suspect.window.next_offset >= suspect.window.end
    return subject.facts.compressed is False or (len(large) == 1 and to_its_end)


def _none_first(
    large: list[_Large], evidence: Evidence, recommend: tuple[str, ...]
) -> NotIdentified:
    if not large:
        return NotIdentified(
            "size_not_conclusive",
            "no record that it will come to is certain to be refused for its size",
            evidence,
            recommend,
        )
    record = large[0].record
    return NotIdentified(
        "not_the_first_record",
        f"{record.topic}-{record.partition}@{record.offset} is too large, after records that are "
        "not and are not yet stored as copied",
        evidence,
        recommend,
    )


# --- both -----------------------------------------------------------------------------------------


def _gap(suspect: Suspect, record: RawRecord) -> Evidence:
    """Offsets without a record in between: compacted away, or markers of transactions."""
    gap = record.offset - suspect.place.next
    return (EvidenceItem("without a record before it", gap, OFFSETS),) if gap else ()


def _identified(
    subject: MirrorSubject,
    suspect: Suspect,
    record: RawRecord,
    method: str,
    evidence: Evidence,
    *,
    recommend: tuple[str, ...],
) -> Identified:
    assert record.offset >= suspect.place.next
    assert all(at.offset >= record.offset for at in suspect.window.records)
    frm = suspect.standing.pair
    return Identified(
        record=record_at(subject.kafka, suspect, record),
        frm=frm,
        to=with_field(frm, OFFSET_FIELD, record.offset),
        method=method,
        sha256=record.sha256,
        size_bytes=record.size_bytes,
        evidence=evidence,
        recommend=recommend,
    )
