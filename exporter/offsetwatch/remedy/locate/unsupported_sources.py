"""Sources whose next offset cannot be computed: an operator has to give it.

The daemon does not read a file's lines, a table's rows or a database's log, and most of their
offsets have no computable successor. So no record is identified; the answer says what to give to
`offsets alter`. Pure.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.decode.dialects import (
    DEBEZIUM,
    DIALECTS,
    FILE_STREAM,
    JDBC,
    MIRROR_CHECKPOINT,
    MIRROR_HEARTBEAT,
    Dialect,
    find_dialect,
)
from offsetwatch.model.findings import Evidence, EvidenceItem
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.search import NoIdentification, OpaqueSubject, parse_fields

_TIMESTAMP_FIELDS: Final = ("timestamp", "timestamp_nanos")


def explain_unsupported_source(subject: OpaqueSubject) -> NoIdentification:
    """Return why no record can be identified, and what an operator would have to give."""
    dialect = _find_dialect(subject)
    fields = parse_fields(subject.pair.offset)
    evidence: Evidence = (
        EvidenceItem("fields of its offset", ", ".join(sorted(fields)) or "none"),
    )
    if dialect is FILE_STREAM:
        return NoIdentification(
            "person_must_say",
            "`position` counts what was read of the file: a person has to give that of the line "
            "after the one that fails, in bytes from its start",
            evidence,
            (recommendations.FIX_THE_FILE,),
        )
    if dialect is JDBC and not any(name in fields for name in _TIMESTAMP_FIELDS):
        return NoIdentification(
            "person_must_say",
            "`incrementing` is the last id that was read: a person has to give the id of the row "
            "that fails, which the database knows",
            evidence,
            (recommendations.BOUND_THE_QUERY,),
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


def _find_dialect(subject: OpaqueSubject) -> Dialect:
    return DIALECTS[find_dialect(parse_fields(subject.pair.partition), subject.class_name)]
