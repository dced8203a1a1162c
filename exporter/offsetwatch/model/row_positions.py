"""Orders in which JDBC source connectors read the rows of a table, and positions in them.

With an incrementing column alone, a position is its value. With timestamp columns too, rows are in
the order of the time and then of that value (TimestampIncrementingCriteria of Confluent's and
Aiven's connectors), and a position is both in one number: the time in Unix nanoseconds times
ID_SPAN, plus the value. So positions of rows compare as they are read, and the one after a row is 1
more, as in a log of Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from offsetwatch.formatting import format_moment
from offsetwatch.model.time_units import NANOS_PER_MILLI, NANOS_PER_SECOND

ID_SPAN: Final = 2**63  # values of an incrementing column: a Java long that is not negative
NANOS_MAX: Final = 2**63 - 1  # in the year 2262; granularities in nanoseconds end there, too
_INCREMENTING: Final = "incrementing"
_TIMESTAMP: Final = "timestamp"
_NANOS: Final = "timestamp_nanos"
_NAME: Final = re.compile(r"[\w$]+")
_TIMED_LOG: Final = re.compile(r"(.+)\(([\w$,]+)\+([\w$]+) in (\S+), (\d+) ms\)")


class RowOrder(NamedTuple):
    """Order in which a connector reads rows.

    column      incrementing column
    times       timestamp columns; the first that is not NULL counts. None: the column is all
    zone        of times without one (`db.timezone`)
    delay_ms    rows that are younger are left for later (`timestamp.delay.interval.ms`)
    """

    column: str
    times: tuple[str, ...] = ()
    zone: str = "UTC"
    delay_ms: int = 0

    @property
    def has_plain_names(self) -> bool:
        """Check whether parse_log_name can read the names of the columns back."""
        return all(map(_NAME.fullmatch, (self.column, *self.times)))

    def name_log(self, table: str) -> str:
        """Return the name of a table's log: `orders(id)`, `orders(at+id in UTC, 0 ms)`."""
        if not self.times:
            return f"{table}({self.column})"
        times = ",".join(self.times)
        return f"{table}({times}+{self.column} in {self.zone}, {self.delay_ms} ms)"


def parse_log_name(name: str) -> tuple[str, RowOrder]:
    """Return the table and the order of a log, as RowOrder.name_log has them."""
    timed = _TIMED_LOG.fullmatch(name)
    if timed is None:
        table, _, column = name.removesuffix(")").rpartition("(")
        return table, RowOrder(column)
    table, times, column, zone, delay = timed.groups()
    return table, RowOrder(column, tuple(times.split(",")), zone, int(delay))


def has_row_fields(fields: Mapping[str, object]) -> bool:
    """Check whether an offset has both a timestamp and an incrementing column."""
    return _TIMESTAMP in fields and _INCREMENTING in fields


def read_row_position(fields: Mapping[str, object]) -> int | None:
    """Return the position of the row that an offset with a timestamp is of; None if it has none.

    As TimestampIncrementingOffset reads it: without `timestamp_nanos`, milliseconds are exact.
    """
    if not has_row_fields(fields) or not fields.keys() <= {_TIMESTAMP, _NANOS, _INCREMENTING}:
        return None
    millis, row = fields[_TIMESTAMP], fields[_INCREMENTING]
    if not (isinstance(millis, int) and isinstance(row, int)):
        return None
    nanos = fields.get(_NANOS, millis % 1000 * NANOS_PER_MILLI)
    if isinstance(millis, bool) or isinstance(row, bool) or not isinstance(nanos, int):
        return None
    moment = millis // 1000 * NANOS_PER_SECOND + nanos
    if nanos // NANOS_PER_MILLI != millis % 1000 or not 0 <= moment <= NANOS_MAX:
        return None
    return moment * ID_SPAN + row if 0 <= row < ID_SPAN else None


def build_row_offset(position: int) -> dict[str, int]:
    """Return the offset that a connector commits after the row at this position."""
    moment, row = divmod(position, ID_SPAN)
    return {
        _INCREMENTING: row,
        _TIMESTAMP: moment // NANOS_PER_MILLI,
        _NANOS: moment % NANOS_PER_SECOND,
    }


def format_log_offset(offset: int) -> str:
    """Return an offset of a log as text: `7`; with a time `2026-11-30T01:02:03.5Z/7`."""
    moment, row = divmod(offset, ID_SPAN)
    if not 0 < moment <= NANOS_MAX:
        return str(offset)
    seconds, nanos = divmod(moment, NANOS_PER_SECOND)
    fraction = f".{nanos:09}".rstrip("0").rstrip(".")
    return f"{format_moment(seconds).removesuffix('Z')}{fraction}Z/{row}"
