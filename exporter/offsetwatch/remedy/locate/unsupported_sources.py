"""Sources whose next record nobody here can compute: a person gives the offset, or nobody does.

A file's lines, a table's rows and a database's log are not ours to read, and most offsets have no
successor that could be worked out. So nothing is identified; it is said what would have to be
given, to `offsets alter`. Pure.
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
    dialect_for,
)
from offsetwatch.model.evidence import Evidence, EvidenceItem
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.search import NotIdentified, OpaqueSubject, fields_of

_TIMES: Final = ("timestamp", "timestamp_nanos")


def propose_only(subject: OpaqueSubject) -> NotIdentified:
    """Why no record can be named, and what a person would have to give."""
    dialect = _dialect(subject)
    fields = fields_of(subject.pair.offset)
    evidence: Evidence = (
        EvidenceItem("fields of its offset", ", ".join(sorted(fields)) or "none"),
    )
    if dialect is FILE_STREAM:
        return NotIdentified(
            "person_must_say",
            "`position` counts what was read of the file: a person has to give that of the line "
            "after the one that fails, in bytes from its start",
            evidence,
            (recommendations.MEND_THE_FILE,),
        )
    if dialect is JDBC and not any(name in fields for name in _TIMES):
        return NotIdentified(
            "person_must_say",
            "`incrementing` is the last id that was read: a person has to give the id of the row "
            "that fails, which the database knows",
            evidence,
            (recommendations.BOUND_THE_QUERY,),
        )
    if dialect is JDBC:
        return NotIdentified(
            "no_safe_offset",
            "rows may share a timestamp, and an offset that passes over one passes over all of "
            "them: none is safe",
            evidence,
            (recommendations.BOUND_THE_QUERY,),
        )
    if dialect in {MIRROR_CHECKPOINT, MIRROR_HEARTBEAT}:
        return NotIdentified(
            "offset_without_meaning", "its offset is 0 in every case, and no task ever reads it"
        )
    if dialect.name.startswith(DEBEZIUM.name):
        return NotIdentified(
            "no_safe_offset",
            "positions in a database's log have no successor that could be computed, and one in "
            "the middle of a transaction loses the rest of it",
            evidence,
            (recommendations.DEBEZIUM_MODE,),
        )
    return NotIdentified(
        "person_must_say",
        "what its offsets mean only the connector knows: a person has to give the next one",
        evidence,
        (recommendations.ASK_THE_CONNECTOR,),
    )


def _dialect(subject: OpaqueSubject) -> Dialect:
    return DIALECTS[dialect_for(fields_of(subject.pair.partition), subject.class_name)]
