"""Bounds of a source connector's offsets: what its source still has, and how far it goes. Pure.

Connect writes any offset. Below the floor a task fails for good; past the end it waits in silence,
and what is written meanwhile is never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from offsetwatch.decode.dialects import (
    DEBEZIUM_DB2,
    DEBEZIUM_INFORMIX,
    DEBEZIUM_MONGODB,
    DEBEZIUM_MYSQL,
    DEBEZIUM_ORACLE,
    DEBEZIUM_POSTGRES,
    DEBEZIUM_SQLSERVER,
    DEBEZIUM_VITESS,
    FILE_STREAM,
    JDBC,
)
from offsetwatch.decode.offset_order import Fields, is_snapshot
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import DatabaseSettings
from offsetwatch.model.source_ends import SourceEnd
from offsetwatch.state.sources.distances import Distance
from offsetwatch.state.sources.source_ends import measure_offset
from offsetwatch.toolbox.offset_shapes import Flaw, describe_type, format_value
from offsetwatch.toolbox.suggestions import find_nearest

_TEXT, _NUMBER = "a text", "a whole number"
# Alternatives of fields without which a task fails at its start, and their types. JDBC's depend on
# its mode.
_REQUIRED: Final[dict[str, tuple[dict[str, str], ...]]] = {
    DEBEZIUM_POSTGRES.name: ({"lsn": _NUMBER},),
    DEBEZIUM_MYSQL.name: ({"file": _TEXT}, {"pos": _NUMBER}),
    DEBEZIUM_SQLSERVER.name: ({"commit_lsn": _TEXT},),
    DEBEZIUM_DB2.name: ({"commit_lsn": _TEXT},),
    DEBEZIUM_INFORMIX.name: ({"commit_lsn": _TEXT},),
    DEBEZIUM_ORACLE.name: ({"scn": _TEXT, "lcr_position": _TEXT},),
    DEBEZIUM_MONGODB.name: ({"sec": _NUMBER, "resume_token": _TEXT},),
    DEBEZIUM_VITESS.name: ({"vgtid": _TEXT},),
}
_JDBC_REQUIRED: Final[dict[str, tuple[dict[str, str], ...]]] = {
    "incrementing": ({"incrementing": _NUMBER},),
    "timestamp": ({"timestamp": _NUMBER},),
    "timestamp+incrementing": ({"timestamp": _NUMBER},),
}
_DEBEZIUM: Final = frozenset(_REQUIRED)
_SNAPSHOT_NOTE: Final = (
    "without an offset it takes a new snapshot, if its snapshot.mode has one: every row of its "
    "tables comes again, as a duplicate"
)
_FROM_START_NOTE: Final = "without an offset it reads again from the start: everything comes again"
_SNAPSHOT_ADVICE: Final = "`offsets reset` lets it take a new snapshot"
NO_SOURCE: Final = "no entry under sources reads it"
_UNKNOWN_BOUNDS: Final = (
    "how far its source goes, and what it still has, cannot be seen from here ({why}): before that "
    "a task fails, and past the end it waits and leaves out what comes"
)
_FILE_UNSEEN: Final = (
    "the file cannot be seen from here: a position counts bytes from its start, and past its end "
    "the task waits silently"
)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """End of the source that a connector reads.

    name        under `sources`; "" if none of them is read by this connector
    end         None if it is not known
    columns     sql: tables whose end a configured statement returns
    unknown     why there is no end, in words
    """

    name: str = ""
    end: SourceEnd | None = None
    columns: frozenset[str] = frozenset()
    unknown: str = ""


def find_field_flaws(
    dialect: str, offset: Fields, settings: DatabaseSettings | None
) -> Iterator[Flaw]:
    """Yield fields that are missing in an offset of a connector of this dialect."""
    required = _REQUIRED.get(dialect, ())
    if dialect == JDBC.name and settings is not None:
        required = _JDBC_REQUIRED.get(settings.mode or "", ())
    for alternatives in required:
        there = [name for name in alternatives if offset.get(name) is not None]
        if not there:
            name = next(iter(alternatives))
            unknown = sorted(offset.keys() - alternatives.keys())
            meant = find_nearest(name, unknown)
            right = f"did you mean it by `{meant}`?" if meant else f'like {{"{name}": …}}'
            yield "", f"`{name}` is missing, without which its task fails", right
            continue
        for name in there:
            expected_type = alternatives[name]
            if (
                describe_type(offset[name]) != expected_type and name != "scn"
            ):  # a number before 1.5
                yield name, f"{format_value(offset[name])} is not {expected_type}", expected_type


def find_server_flaws(
    dialect: str, partition: Fields, settings: DatabaseSettings | None
) -> Iterator[Flaw]:
    """Yield a flaw of a Debezium partition that no task looks up: of another `topic.prefix`."""
    prefix = None if settings is None else settings.topic_prefix
    name = get_server_field(dialect)
    if name is None or prefix is None or partition.get(name) == prefix:
        return
    wrong = f"{format_value(partition.get(name))} is not its topic.prefix"
    yield name, wrong, f'"{name}": {format_value(prefix)}'


def get_server_field(dialect: str) -> str | None:
    """Return the field of Debezium's source partitions that has `topic.prefix`."""
    if dialect not in _DEBEZIUM:
        return None
    return "server_id" if dialect == DEBEZIUM_MONGODB.name else "server"


def has_only_server(dialect: str, partition: Fields) -> bool:
    """Check whether `topic.prefix` says all of a source partition."""
    # They have databases or tasks as well.
    several = {DEBEZIUM_SQLSERVER.name, DEBEZIUM_ORACLE.name, DEBEZIUM_VITESS.name}
    return dialect not in several and partition.keys() == {get_server_field(dialect)}


def find_bounds_flaws(
    partition: Fields, offset: Fields, source: SourceFacts, settings: DatabaseSettings | None
) -> Iterator[Flaw]:
    """Yield why the source does not have what follows an offset, and which offsets it has."""
    distance = _measure(partition, offset, source, settings)
    if distance is None:
        return
    if distance.mismatch is not None:
        yield "", f"{distance.mismatch} (source {source.name})", "correct it, or sources"
        return
    if distance.lost is not None:
        yield "", f"{distance.lost} (source {source.name})", _SNAPSHOT_ADVICE
        return
    resume, floor = distance.position_of_resume, distance.floor
    if resume is not None and floor is not None and resume < floor:
        yield _describe_below_floor(distance, resume, floor)
    elif distance.ahead > 0:
        yield _describe_ahead(distance)


def _describe_below_floor(distance: Distance, resume: int, floor: int) -> Flaw:
    if distance.resume is None:
        return "", f"{resume} lies before {floor}, where its source begins", f"from {floor}"
    wrong = (
        f"{resume} lies {format_count(floor - resume, 'byte')} before {floor}, which its "
        "replication slot has confirmed: a slot does not go back, its task fails, and nothing "
        "comes again"
    )
    return "", wrong, f"from {floor} to {distance.end}; {_SNAPSHOT_ADVICE}"


def _describe_ahead(distance: Distance) -> Flaw:
    end = ", ".join(f"{name} {number}" for name, number in distance.fields) or distance.end_text
    if distance.unit == "transactions":
        end = distance.end_text
    unit = {"": "", "rows": ""}.get(distance.unit, f" by {distance.ahead} {distance.unit}")
    wrong = f"it lies past the end of its source{unit}: what is written until then is left out"
    return "", wrong, f"at most {end}"


def describe_bounds(
    partition: Fields | None,
    offset: Fields,
    dialect: str,
    source: SourceFacts | None,
    settings: DatabaseSettings | None,
) -> str | None:
    """Return a note if the bounds of an offset are not known; None if they were compared."""
    if source is not None and source.end is not None and partition is not None:
        distance = _measure(partition, offset, source, settings)
        if distance is not None and distance.unreadable is None:
            return None
        why = "it is of a snapshot" if distance is None else str(distance.unreadable)
        return _UNKNOWN_BOUNDS.format(why=f"source {source.name}: {why}")
    if dialect == FILE_STREAM.name and (source is None or not source.name):
        return _FILE_UNSEEN
    why = NO_SOURCE if source is None else source.unknown
    return _UNKNOWN_BOUNDS.format(why=why)


def describe_removal(dialect: str) -> str | None:
    """Return what a connector of this dialect does without an offset; None if that is unknown."""
    if dialect in _DEBEZIUM:
        return _SNAPSHOT_NOTE
    return _FROM_START_NOTE if dialect in {JDBC.name, FILE_STREAM.name} else None


def _measure(
    partition: Fields, offset: Fields, source: SourceFacts, settings: DatabaseSettings | None
) -> Distance | None:
    if source.end is None or is_snapshot(offset):
        return None
    return measure_offset(partition, offset, source.end, settings, source.columns)
