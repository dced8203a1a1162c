"""Timestamp columns of tables, as the JDBC source connectors of Confluent and Aiven read them.

JDBC gives a connector an instant: a time without a zone is one in `db.timezone`. What could be
another instant to the connector than here is refused: times that its zone has twice or never, and
TIMESTAMP of MySQL and MariaDB, whose text depends on the time zone of the connector's own session.
No setting of `timestamp.granularity` changes any of the others in an offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from offsetwatch.model.row_positions import NANOS_MAX, RowOrder
from offsetwatch.model.time_units import NANOS_PER_MICROSECOND, NANOS_PER_MILLI, NANOS_PER_SECOND

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_PER_DAY: Final = 86_400
_LITERAL: Final = "%Y-%m-%d %H:%M:%S.%f"


class _TimeType(Enum):
    """Types of timestamp columns: with a zone, without one, and SQLite's Unix milliseconds."""

    INSTANT = auto()
    LOCAL = auto()
    MILLIS = auto()


class RowTimes:
    """Times of the rows of one table. Raises ValueError where they are not exact.

    server      postgresql, mysql, mariadb or sqlite
    types       of the table's columns, as SQLAlchemy names them
    """

    def __init__(self, server: str, types: Mapping[str, str], order: RowOrder) -> None:
        zone = find_time_zone(order.zone)
        if zone is None:
            raise ValueError(f"this machine does not know the time zone {order.zone}")
        self._zone = zone
        found = {_find_time_type(server, name, types.get(name)) for name in order.times}
        if len(found) != 1:
            raise ValueError("some of its timestamp columns have a time zone, and others none")
        (self._type,) = found

    def write_literal(self, nanos: int, *, is_bound: bool = False) -> str:
        """Return a moment, in Unix nanoseconds, as a statement has it.

        is_bound    it is no row's, so that it may be a time that the zone has twice
        """
        unit = NANOS_PER_MILLI if self._type is _TimeType.MILLIS else NANOS_PER_MICROSECOND
        if nanos % unit:
            raise ValueError(f"its columns do not have times as exact as {nanos} ns")
        if self._type is _TimeType.MILLIS:
            return str(nanos // unit)
        moment = _EPOCH + timedelta(microseconds=nanos // unit)
        if not is_bound:
            _check_local(moment, self._zone)
        if self._type is _TimeType.INSTANT:
            return f"TIMESTAMPTZ '{moment.strftime(_LITERAL)}+00'"
        return f"TIMESTAMP '{moment.astimezone(self._zone).strftime(_LITERAL)}'"

    def read(self, values: Iterable[object]) -> int:
        """Return the time of a row in Unix nanoseconds, from the values of its columns."""
        value = next((value for value in values if value is not None), None)
        if self._type is _TimeType.MILLIS:
            if not isinstance(value, int):
                raise ValueError(f"{value!r} is no time in milliseconds")
            nanos = value * NANOS_PER_MILLI
        elif isinstance(value, datetime):
            is_local = self._type is _TimeType.LOCAL
            moment = value.replace(tzinfo=self._zone) if is_local else value
            _check_local(moment, self._zone)
            nanos = count_nanos(moment)
        else:
            raise ValueError(f"{value!r} is no time")
        if not 0 <= nanos <= NANOS_MAX:
            raise ValueError(f"{value} is before 1970 or after 2262")
        return nanos


def find_time_zone(name: str) -> ZoneInfo | None:
    """Return a time zone; None if this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def count_nanos(moment: datetime) -> int:
    """Return a moment in Unix nanoseconds. A time without a zone is in UTC."""
    past = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH
    seconds = past.days * _SECONDS_PER_DAY + past.seconds
    return seconds * NANOS_PER_SECOND + past.microseconds * NANOS_PER_MICROSECOND


def read_clock(value: object) -> int:
    """Return a server's CURRENT_TIMESTAMP in Unix nanoseconds, cut to ms as the connector has it.

    The session is in UTC, and SQLite's answer is a text. Raises ValueError.
    """
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if isinstance(moment, datetime):
        return count_nanos(moment) // NANOS_PER_MILLI * NANOS_PER_MILLI
    raise ValueError(f"its server's time is {value!r}")


def _find_time_type(server: str, name: str, type_name: str | None) -> _TimeType:
    match server, (type_name or "").partition("(")[0].split(" ")[0]:
        case "postgresql", "TIMESTAMP":
            has_zone = "WITH TIME ZONE" in (type_name or "")
            return _TimeType.INSTANT if has_zone else _TimeType.LOCAL
        case "mysql" | "mariadb", "DATETIME":
            return _TimeType.LOCAL
        case "mysql" | "mariadb", "TIMESTAMP":
            what = "whose text depends on the time zone of the connector's session: use DATETIME"
            raise ValueError(f"its column {name} is a TIMESTAMP, {what}")
        case "sqlite", "TIMESTAMP":
            return _TimeType.MILLIS
    raise ValueError(f"its column {name} is no timestamp: {type_name or 'it has none'}")


def _check_local(moment: datetime, zone: ZoneInfo) -> None:
    """Raise ValueError for a time that the zone has twice, or never."""
    local = moment.astimezone(zone) if moment.tzinfo is not zone else moment
    if local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        raise ValueError(f"{zone.key} has the time {local.replace(tzinfo=None)} twice or never")
