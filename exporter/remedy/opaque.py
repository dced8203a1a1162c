"""Sources whose next record nobody here can compute: a person gives the offset, or nobody does.

A file's lines, a table's rows and a database's log are not ours to read, and most offsets have no
successor that could be worked out. So nothing is identified; it is said what would have to be
given, and what is given is looked at as far as type, shape and size go. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from exporter.decode.dialects import (
    DEBEZIUM,
    FILE_STREAM,
    JDBC,
    MIRROR_CHECKPOINT,
    MIRROR_HEARTBEAT,
    Dialect,
    dialect_of,
)
from exporter.decode.jsontext import encode_sorted
from exporter.decode.orders import is_sql_server_lsn
from exporter.model.offsets import INT64_MAX, INT64_MIN, Scalar
from exporter.remedy import native
from exporter.remedy.plan import Pair
from exporter.remedy.poison import Evidence, NotIdentified, OpaqueSubject, fields_of

OFFSET_CHARS_MAX: Final = 16_384
_TEXT_GROWTH_MAX: Final = 64  # a set of transactions may be longer; a resume token is not
_TIMES: Final = ("timestamp", "timestamp_nanos")
_NUMBERED: Final = {"sink": ("kafka_offset",), "mirror": ("offset",)}


def propose_only(subject: OpaqueSubject) -> NotIdentified:
    """Why no record can be named, and what a person would have to give."""
    dialect = _dialect(subject.pair)
    fields = fields_of(subject.pair.offset)
    evidence: Evidence = (("fields of its offset", ", ".join(sorted(fields)) or "none"),)
    if dialect is FILE_STREAM:
        return NotIdentified(
            "person_must_say",
            "`position` counts what was read of the file: a person has to give that of the line "
            "after the one that fails, in bytes from its start",
            evidence,
            (native.MEND_THE_FILE,),
        )
    if dialect is JDBC and not any(name in fields for name in _TIMES):
        return NotIdentified(
            "person_must_say",
            "`incrementing` is the last id that was read: a person has to give the id of the row "
            "that fails, which the database knows",
            evidence,
            (native.BOUND_THE_QUERY,),
        )
    if dialect is JDBC:
        return NotIdentified(
            "no_safe_offset",
            "rows may share a timestamp, and an offset that passes over one passes over all of "
            "them: none is safe",
            evidence,
            (native.BOUND_THE_QUERY,),
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
            (native.DEBEZIUM_MODE,),
        )
    return NotIdentified(
        "person_must_say",
        "what its offsets mean only the connector knows: a person has to give the next one",
        evidence,
        (native.ASK_THE_CONNECTOR,),
    )


def check_by_person(kind: str, frm: Pair, value: str) -> tuple[str, ...]:
    """What is wrong with an offset that a person gives, a clause each: as far as type, shape and
    size tell. That nothing is wrong does not mean that it is the right one.

    kind   `source`, `sink` or `mirror`
    frm    the partition, and the offset that is stored
    value  JSON
    """
    if len(value) > OFFSET_CHARS_MAX:
        return (f"longer than {OFFSET_CHARS_MAX} characters",)
    if value.strip() == "null":
        return ("null would forget the offset, and start from the beginning",)
    stored, wanted = fields_of(frm.offset), fields_of(value)
    if not wanted:
        return ("no JSON map of plain values",)
    if not stored:
        return ("nothing is stored that it could be held against",)
    if encode_sorted(wanted) == encode_sorted(stored):
        return ("that is what is stored already",)
    return tuple(_flaws(kind, _dialect(frm), stored, wanted))


def _dialect(pair: Pair) -> Dialect:
    return dialect_of(fields_of(pair.partition))


def _flaws(
    kind: str, dialect: Dialect, stored: Mapping[str, Scalar], wanted: Mapping[str, Scalar]
) -> Iterator[str]:
    for name in sorted(stored.keys() - wanted.keys()):
        yield f"`{name}` is missing"
    for name in sorted(wanted.keys() - stored.keys()):
        yield f"`{name}` is not among what is stored"
    longs = _NUMBERED.get(kind, dialect.longs)
    for name in sorted(wanted.keys() & stored.keys()):
        flaw = _flaw(stored[name], wanted[name], never_negative=name in longs)
        if flaw is not None:
            yield f"`{name}` {flaw}"
    if _in_snapshot(stored) or _in_snapshot(wanted):
        yield "a snapshot is under way: its offset holds the progress of that"


def _flaw(stored: Scalar, wanted: Scalar, *, never_negative: bool) -> str | None:
    if type(stored) is not type(wanted) and stored is not None:
        return f"is {_type(wanted)}, where {_type(stored)} is stored"
    if isinstance(wanted, int) and not INT64_MIN <= wanted <= INT64_MAX:
        return "has more than 64 bits"
    if isinstance(wanted, int) and never_negative and wanted < 0:
        return "is negative"
    if not isinstance(wanted, str) or not isinstance(stored, str):
        return None
    if len(wanted) > 2 * len(stored) + _TEXT_GROWTH_MAX:
        return f"is a text of {len(wanted)} characters, where {len(stored)} are stored"
    if is_sql_server_lsn(stored) and not is_sql_server_lsn(wanted):
        return "is no LSN like the one that is stored"
    return None


def _type(value: Scalar) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number with a fraction"
        case _:
            return "a text"


def _in_snapshot(fields: Mapping[str, Scalar]) -> bool:
    return fields.get("snapshot") not in {None, False, "", "false"}
