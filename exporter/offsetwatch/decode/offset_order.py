"""Order and event time of the offsets of known connectors.

Each rule takes the fields of one offset and returns None rather than guess. An order exists only
where the connector itself relies on it: a wrong rule would report a rewind that never happened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from offsetwatch.model.offsets import INT64_MAX, INT64_MIN, Order, Scalar

Fields = Mapping[str, Scalar]

# Event times outside 1980 to 2100 are a wrong unit, a start value or a broken clock: a factor of a
# thousand either way leads out of it.
_EARLIEST_S, _LATEST_S = 315_532_800.0, 4_102_444_800.0

_BINLOG = re.compile(r"(?P<base>.*)\.(?P<number>[0-9]{1,18})", re.ASCII | re.DOTALL)
_MYSQL_GTIDS = re.compile(
    r"(?P<source>[0-9a-f-]{36})(?P<runs>(:[0-9]{1,18}(-[0-9]{1,18})?)+)", re.ASCII | re.IGNORECASE
)
_MARIADB_GTID = re.compile(r"(?P<domain>[0-9]{1,10})-[0-9]{1,10}-(?P<number>[0-9]{1,19})", re.ASCII)
_GTIDS_CHARS_MAX = 4_000
_SQL_SERVER_LSN = re.compile(r"[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}", re.ASCII | re.IGNORECASE)
_NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class GtidSet:
    """Set of transactions that were read, by source server or domain; ordered by inclusion.

    runs    first and last number of each unbroken run, ascending
    """

    runs: Mapping[str, tuple[tuple[int, int], ...]]

    def includes(self, other: GtidSet) -> bool:
        """Check whether this set includes every transaction of the other."""
        return all(
            any(first <= start and end <= last for first, last in self.runs.get(source, ()))
            for source, runs in other.runs.items()
            for start, end in runs
        )

    def count(self) -> int:
        """Return the number of transactions."""
        return sum(last - first + 1 for runs in self.runs.values() for first, last in runs)

    def count_missing(self, other: GtidSet) -> int:
        """Return the number of transactions of this set that the other one lacks."""
        return self.count() - sum(
            _count_common(runs, other.runs.get(source, ())) for source, runs in self.runs.items()
        )


def _count_common(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> int:
    return sum(
        max(0, min(last, end) - max(first, start) + 1)
        for first, last in one
        for start, end in other
    )


class OrderKey(NamedTuple):
    """Order key of an offset, comparable with keys of an equal scope (`compare_order_keys`)."""

    scope: tuple[Scalar, ...]
    place: tuple[int, ...] | GtidSet


def compare_order_keys(was: OrderKey, now: OrderKey) -> Order:
    """Return the order of two keys.

    It is `unordered` for equal keys, for other scopes, and for transaction sets of which neither
    includes the other. A set that lacks a source altogether is not behind: a filter of sources may
    have been set.
    """
    before, after = was.place, now.place
    if was.scope != now.scope or before == after:
        return Order.UNORDERED
    if isinstance(before, tuple) and isinstance(after, tuple):
        return Order.AHEAD if after > before else Order.BEHIND
    if not isinstance(before, GtidSet) or not isinstance(after, GtidSet):
        return Order.UNORDERED
    if after.includes(before):
        return Order.AHEAD
    back = before.includes(after) and before.runs.keys() == after.runs.keys()
    return Order.BEHIND if back else Order.UNORDERED


def read_long(fields: Fields, name: str) -> int | None:
    """Return a field that Connect reads as a long, or None."""
    return parse_long(fields.get(name))


def parse_long(value: Scalar) -> int | None:
    """Return a value that Connect reads as a long, or None."""
    # The type itself, because to isinstance a bool is an int; and of every record this is asked.
    return value if type(value) is int and INT64_MIN <= value <= INT64_MAX else None


def order_jdbc(fields: Fields) -> OrderKey | None:
    """Return the key of a Confluent JDBC offset (TimestampIncrementingOffset).

    The query sorts by timestamp, then by id. Under a timestamp the id alone has no order, because
    an updated row is read again. The fields present depend on mode and version, so only offsets
    with the same fields are compared.
    """
    names = ("timestamp", "timestamp_nanos", "incrementing")
    if not fields.keys() <= set(names):
        return None
    scope = tuple(name for name in names if fields.get(name) is not None)
    numbers = [number for name in scope if (number := read_long(fields, name)) is not None]
    return OrderKey(scope, tuple(numbers)) if numbers and len(numbers) == len(scope) else None


def order_mysql(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium MySQL or MariaDB offset.

    It is the binlog file, the position of the transaction, and events and rows of it, in the order
    of Debezium's own HistoryRecordComparator. Files of another base name, or events that another
    server wrote, are in another binlog. With GTIDs the connector may resume from another server
    with other coordinates, so coordinates do not count there; GTID sets are ordered by inclusion,
    MariaDB's within each domain.
    """
    if fields.get("gtids") is not None:
        return _order_gtids(fields)
    file, pos = fields.get("file"), read_long(fields, "pos")
    name = _BINLOG.fullmatch(file) if isinstance(file, str) else None
    # Debezium leaves out a counter at zero.
    event, row = (
        0 if fields.get(field) is None else read_long(fields, field) for field in ("event", "row")
    )
    if name is None or pos is None or event is None or row is None:
        return None
    scope = (name["base"], fields.get("server_id"), *_read_snapshot_scope(fields))
    return OrderKey(scope, (int(name["number"]), pos, event, row))


def order_postgres(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium PostgreSQL offset: `lsn_commit`.

    That is the end of the last transaction that was read whole. Transactions come in the order of
    their commits, but the `lsn` of a change is where it was written: from one transaction to the
    next it goes back and forth.
    """
    committed = read_long(fields, "lsn_commit")
    return None if committed is None else OrderKey(_read_snapshot_scope(fields), (committed,))


def order_sql_server(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium SQL Server offset (TxLogPosition).

    It is `commit_lsn`, and within one transaction `change_lsn`. Right after a snapshot there is no
    change yet ("NULL"): such an offset is ordered by the commit alone.
    """
    commit, change = fields.get("commit_lsn"), fields.get("change_lsn")
    if not is_sql_server_lsn(commit):
        return None
    if change is None or change == "NULL":
        return OrderKey(("commit", *_read_snapshot_scope(fields)), _parse_lsn(commit))
    if not is_sql_server_lsn(change):
        return None
    return OrderKey(
        ("change", *_read_snapshot_scope(fields)), (*_parse_lsn(commit), *_parse_lsn(change))
    )


def is_sql_server_lsn(value: Scalar) -> bool:
    """Check whether a value is `hex:hex:hex` of fixed widths, as Lsn.toString writes it."""
    return isinstance(value, str) and _SQL_SERVER_LSN.fullmatch(value) is not None


def order_oracle(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium Oracle offset: `scn`, from which mining resumes.

    It never passes a transaction in progress. As streaming starts it is set back to `snapshot_scn`,
    on purpose and once, so offsets with and without that are not compared. XStream stores an LCR
    position instead, which is not decoded here.
    """
    scn = parse_system_change_number(fields.get("scn"))
    if scn is None or fields.get("lcr_position") is not None:
        return None
    return OrderKey((fields.get("snapshot_scn"), *_read_snapshot_scope(fields)), (scn,))


def parse_system_change_number(value: Scalar) -> int | None:
    """Return an Oracle SCN from decimal text, or from an integer of Debezium before 1.5."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 38:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def order_mongodb(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium MongoDB offset: the oplog timestamp.

    It has seconds and a counter within the second.
    """
    sec, order = read_long(fields, "sec"), read_long(fields, "ord")
    if sec is None or order is None:
        return None
    return OrderKey((fields.get("initsync"),), (sec, order))


def read_jdbc_time(fields: Fields) -> float | None:
    """Return the timestamp column of the last row: milliseconds, refined by `timestamp_nanos`."""
    millis, nanos = read_long(fields, "timestamp"), read_long(fields, "timestamp_nanos")
    if millis is None:
        return None
    if nanos is not None and 0 <= nanos < _NANOS:
        return _drop_implausible_time(millis // 1000 + nanos / _NANOS)
    return _drop_implausible_time(millis / 1000)


def read_debezium_time(fields: Fields) -> float | None:
    """Return when the source made the change, from the first of three fields.

    These are `ts_usec` (PostgreSQL), `ts_ms`, and `ts_sec` (MySQL).
    """
    for name, per_second in (("ts_usec", 1_000_000), ("ts_ms", 1000), ("ts_sec", 1)):
        value = read_long(fields, name)
        if value is not None:
            return _drop_implausible_time(value / per_second)
    return None


def read_mongodb_time(fields: Fields) -> float | None:
    """Return the seconds of the oplog timestamp."""
    sec = read_long(fields, "sec")
    return None if sec is None else _drop_implausible_time(float(sec))


def _order_gtids(fields: Fields) -> OrderKey | None:
    """Return the key of an offset with GTIDs.

    MySQL writes `source:1-9:11,…`, a set; MariaDB `domain-server-number,…`, the last transaction of
    each domain. MariaDB's are numbered within their domain only.
    """
    gtids = fields["gtids"]
    if not isinstance(gtids, str):
        return None
    for mariadb in (False, True):
        parsed = parse_gtids(gtids, mariadb=mariadb)
        if parsed is not None and parsed.runs:
            scope = ("mariadb" if mariadb else "mysql", *_read_snapshot_scope(fields))
            return OrderKey(scope, parsed)
    return None


def parse_gtids(text: str, *, mariadb: bool) -> GtidSet | None:
    """Return a set of GTIDs as a server writes it; None for anything else, and if it is too long.

    An empty text is a server without transactions.
    """
    if len(text) > _GTIDS_CHARS_MAX:
        return None
    parse = _parse_mariadb_runs if mariadb else _parse_mysql_runs
    members = [member.strip() for member in text.split(",") if text.strip()]
    parsed = [parse(member) for member in members]
    runs = dict(each for each in parsed if each is not None)
    return GtidSet(runs) if len(runs) == len(members) else None  # no source is there twice


def _parse_mysql_runs(member: str) -> tuple[str, tuple[tuple[int, int], ...]] | None:
    match = _MYSQL_GTIDS.fullmatch(member)
    if match is None:
        return None
    parts = (run.partition("-") for run in match["runs"].removeprefix(":").split(":"))
    # Runs that touch are not joined: a server writes them joined.
    return match["source"].lower(), tuple(
        sorted((int(first), int(last or first)) for first, _, last in parts)
    )


def _parse_mariadb_runs(member: str) -> tuple[str, tuple[tuple[int, int], ...]] | None:
    match = _MARIADB_GTID.fullmatch(member)
    return None if match is None else (match["domain"], ((1, int(match["number"])),))


def _read_snapshot_scope(fields: Fields) -> tuple[Scalar, ...]:
    """Return the scope that limits comparisons to offsets of the same snapshot state.

    Offsets do not advance during a snapshot, and a snapshot may be taken again.
    """
    return (fields.get("snapshot"), fields.get("snapshot_completed"))


def _parse_lsn(value: Scalar) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in str(value).split(":"))


def _drop_implausible_time(seconds: float) -> float | None:
    return seconds if _EARLIEST_S <= seconds < _LATEST_S else None
