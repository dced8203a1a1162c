"""Order and event time of the offsets of known connectors.

Each rule takes the fields of one offset and returns None rather than guess. An order exists only
where the connector itself relies on it: a wrong rule would report a rewind that never happened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from offsetwatch.model.offsets import INT64_MAX, INT64_MIN, Order, Scalar
from offsetwatch.model.time_units import NANOS_PER_SECOND

Fields = Mapping[str, Scalar]

# Event times outside 1980 to 2100 are a wrong unit, a start value or a broken clock: a factor of a
# thousand either way leads out of it.
_EARLIEST_S, _LATEST_S = 315_532_800.0, 4_102_444_800.0

_BINLOG = re.compile(r"(?P<base>.*)\.(?P<number>[0-9]{1,18})", re.ASCII | re.DOTALL)
_MYSQL_GTIDS = re.compile(
    r"(?P<source>[0-9a-f-]{36})(?P<runs>(:(?:[0-9]{1,18}(?:-[0-9]{1,18})?|[a-z_][a-z0-9_]{0,31}))+)",
    re.ASCII | re.IGNORECASE,
)
_MARIADB_GTID = re.compile(r"(?P<domain>[0-9]{1,10})-[0-9]{1,10}-(?P<number>[0-9]{1,19})", re.ASCII)
GTIDS_CHARS_MAX = 4_000
_VGTID_CHARS_MAX = 16 * GTIDS_CHARS_MAX
_SQL_SERVER_LSN = re.compile(r"[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}", re.ASCII | re.IGNORECASE)
_DB2_LSN = re.compile(r"[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{16}", re.ASCII | re.IGNORECASE)
# The marker of an incremental snapshot is that of changes: both go on at once.
_NO_SNAPSHOT = frozenset({None, False, "false", "incremental", "INCREMENTAL"})
_YES = frozenset({True, "true"})
_NO_LSN = frozenset({None, "NULL"})


@dataclass(frozen=True, slots=True)
class GtidSet:
    """Set of transactions that were read, by source server or domain; ordered by inclusion.

    runs    first and last number of each unbroken run, ascending. A source of MySQL is a server, or
            `server:tag` (tagged GTIDs, MySQL 8.3)
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


class _ShardGtid(msgspec.Struct, frozen=True, gc=False):
    """Member of a Vitess VGTID: position in one shard."""

    keyspace: str
    shard: str
    gtid: str
    table_p_ks: list[msgspec.Raw] = []


_decode_vgtid = msgspec.json.Decoder(list[_ShardGtid]).decode


class OrderKey(NamedTuple):
    """Order key of an offset, comparable with keys of an equal scope (`compare_order_keys`).

    within      position within the transaction that follows `position`; () if it is not known
    """

    scope: tuple[Scalar, ...]
    position: tuple[int, ...] | GtidSet
    within: tuple[int, ...] = ()


def compare_order_keys(was: OrderKey, now: OrderKey) -> Order:
    """Return the order of two keys.

    It is `unordered` for equal keys, for other scopes, and for transaction sets of which neither
    includes the other. A set that lacks a source altogether is not behind: a filter of sources may
    have been set.
    """
    before, after = was.position, now.position
    if was.scope != now.scope:
        return Order.UNORDERED
    if before == after:
        before, after = was.within, now.within
    if before == after or not before or not after:
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
    MariaDB's within each domain, and equal ones by the counters.
    """
    # Debezium leaves out a counter at zero.
    event, row = (
        0 if fields.get(field) is None else read_long(fields, field) for field in ("event", "row")
    )
    if has_gtids(fields):
        return _order_gtids(fields, () if event is None or row is None else (event, row))
    file, pos = fields.get("file"), read_long(fields, "pos")
    name = parse_binlog_name(file)
    if name is None or pos is None or event is None or row is None:
        return None
    base, number = name
    scope = (base, fields.get("server_id"), *_read_snapshot_scope(fields))
    return OrderKey(scope, (number, pos, event, row))


def has_gtids(fields: Fields) -> bool:
    """Check whether an offset has GTIDs; to Debezium a blank text is none (setCompletedGtidSet)."""
    gtids = fields.get("gtids")
    return gtids is not None and gtids != "" and not str(gtids).isspace()


def parse_binlog_name(value: Scalar) -> tuple[str, int] | None:
    """Return the base name and the number of a binlog file; None for anything else."""
    name = _BINLOG.fullmatch(value) if isinstance(value, str) else None
    return None if name is None else (name["base"], int(name["number"]))


def order_postgres(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium PostgreSQL offset: `lsn_commit`.

    That is the end of the last transaction that was read whole. Transactions come in the order of
    their commits, but the `lsn` of a change is where it was written: from one transaction to the
    next it goes back and forth. Within the transaction that follows it grows. While nothing comes,
    the newest transaction is such a one, unless transaction metadata are on (`messageType`).
    """
    committed = read_long(fields, "lsn_commit")
    if committed is None:
        return None
    return OrderKey(_read_snapshot_scope(fields), (committed,), _order_within_transaction(fields))


def _order_within_transaction(fields: Fields) -> tuple[int, ...]:
    """Return the place of a PostgreSQL offset after `lsn_commit`.

    A message that is part of no transaction (pg_logical_emit_message) has none. Debezium before 2.2
    does not say what its newest change was, and its `lsn` may be that of the commit.
    """
    lsn, kind = read_long(fields, "lsn"), fields.get("messageType")
    if lsn is None or not isinstance(kind, str) or kind == "MESSAGE":
        return ()
    if kind == "COMMIT":
        return (0, 0, 0)
    return (1, lsn, read_long(fields, "lsn_events_processed") or 0)  # several changes have one lsn


def order_sql_server(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium SQL Server offset: `commit_lsn`.

    Within the transaction it is `change_lsn`, and of one change its events (TxLogPosition). There
    is no change ("NULL", null) after a snapshot, and in the heartbeats of an idle database, whose
    `commit_lsn` is the end of the log.
    """
    return _order_log_positions(fields, _SQL_SERVER_LSN)


def order_db2(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium Db2 offset: that of SQL Server, with longer LSNs."""
    return _order_log_positions(fields, _DB2_LSN)


def _order_log_positions(fields: Fields, form: re.Pattern[str]) -> OrderKey | None:
    commit, change = (_parse_lsn(fields.get(name), form) for name in ("commit_lsn", "change_lsn"))
    if commit is None or (change is None and fields.get("change_lsn") not in _NO_LSN):
        return None
    serial = read_long(fields, "event_serial_no") or 0
    return OrderKey(
        _read_snapshot_scope(fields), commit, () if change is None else (*change, serial)
    )


def order_informix(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium Informix offset: `commit_lsn`, a number as text.

    It is the greatest commit so far. The changes of interleaved transactions have no order.
    """
    commit = parse_decimal(fields.get("commit_lsn"))
    return None if commit is None else OrderKey(_read_snapshot_scope(fields), (commit,))


def order_vitess(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium Vitess offset: a set of GTIDs for each shard (`vgtid`).

    A shard without GTIDs ("current"), or one that is being copied (no GTIDs yet, or primary keys of
    tables), has no order.
    """
    runs: dict[str, tuple[tuple[int, int], ...]] = {}
    for shard in _parse_vgtid(fields.get("vgtid")):
        _, slash, gtids = shard.gtid.partition("/")  # `MySQL56/`, the flavour of the server
        parsed = parse_gtids(gtids, mariadb=False) if slash else None
        if parsed is None or not parsed.runs or shard.table_p_ks:
            return None
        for source, numbers in parsed.runs.items():
            runs[f"{shard.keyspace}/{shard.shard}/{source}"] = numbers
    return OrderKey((), GtidSet(runs)) if runs else None


def _parse_vgtid(value: Scalar) -> list[_ShardGtid]:
    if not isinstance(value, str) or len(value) > _VGTID_CHARS_MAX:
        return []
    try:
        return _decode_vgtid(value)
    except msgspec.DecodeError:
        return []


def is_sql_server_lsn(value: Scalar) -> bool:
    """Check whether a value is `hex:hex:hex` of fixed widths, as Lsn.toString writes it."""
    return _parse_lsn(value, _SQL_SERVER_LSN) is not None


def is_db2_lsn(value: Scalar) -> bool:
    """Check whether a value is an LSN of Db2: as one of SQL Server, with 16 digits at its end."""
    return _parse_lsn(value, _DB2_LSN) is not None


def order_oracle(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium Oracle offset: `scn`, from which mining resumes.

    It never passes a transaction in progress: while that lasts, `commit_scn` goes on, if there is
    one redo thread. As streaming starts `scn` is set back to `snapshot_scn`, on purpose and once,
    so offsets with and without that are not compared. XStream stores an LCR position instead, which
    is not decoded here.
    """
    scn = parse_decimal(fields.get("scn"))
    if scn is None or fields.get("lcr_position") is not None:
        return None
    scope = (fields.get("snapshot_scn"), *_read_snapshot_scope(fields))
    return OrderKey(scope, (scn,), _read_commit_number(fields.get("commit_scn")))


def _read_commit_number(value: Scalar) -> tuple[int, ...]:
    """Return the SCN of the last commit; () if there is none, or one for each of several threads.

    Debezium writes `scn:thread:transactions`, before 1.9.6 `scn:rs_id:ssn:thread`, and before 1.5 a
    number (CommitScn).
    """
    number = parse_decimal(
        value.partition(":")[0] if isinstance(value, str) and "," not in value else value
    )
    return () if number is None else (number,)


def parse_decimal(value: Scalar) -> int | None:
    """Return a number from decimal text (Oracle's SCN), or an integer (Debezium before 1.5)."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 38:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def order_mongodb(fields: Fields) -> OrderKey | None:
    """Return the key of a Debezium MongoDB offset: the oplog timestamp.

    It has seconds and a counter within the second. While no change comes, Debezium knows the resume
    token only: both are -1 then, and 0 before the first change. Tokens have no order here.
    """
    sec, order = read_long(fields, "sec"), read_long(fields, "ord")
    if sec is None or order is None or sec <= 0:
        return None
    return OrderKey((fields.get("initsync"),), (sec, order))


def read_jdbc_time(fields: Fields) -> float | None:
    """Return the timestamp column of the last row: milliseconds, refined by `timestamp_nanos`."""
    millis, nanos = read_long(fields, "timestamp"), read_long(fields, "timestamp_nanos")
    if millis is None:
        return None
    if nanos is not None and 0 <= nanos < NANOS_PER_SECOND:
        return _drop_implausible_time(millis // 1000 + nanos / NANOS_PER_SECOND)
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


def _order_gtids(fields: Fields, within: tuple[int, ...]) -> OrderKey | None:
    """Return the key of an offset with GTIDs.

    MySQL writes `source:1-9:11,…`, a set; MariaDB `domain-server-number,…`, the last transaction of
    each server in each domain. MariaDB's are numbered within their domain, by all its servers.
    """
    gtids = fields["gtids"]
    if not isinstance(gtids, str):
        return None
    for mariadb in (False, True):
        parsed = parse_gtids(gtids, mariadb=mariadb)
        if parsed is not None and parsed.runs:
            scope = ("mariadb" if mariadb else "mysql", *_read_snapshot_scope(fields))
            return OrderKey(scope, parsed, within)
    return None


def parse_gtids(text: str, *, mariadb: bool) -> GtidSet | None:
    """Return a set of GTIDs as a server writes it; None for anything else, and if it is too long.

    An empty text is a server without transactions.
    """
    if len(text) > GTIDS_CHARS_MAX:
        return None
    parse = _parse_mariadb_runs if mariadb else _parse_mysql_runs
    runs: dict[str, tuple[tuple[int, int], ...]] = {}
    for member in text.split(",") if text.strip() else ():
        parsed = parse(member.strip())
        if parsed is None:
            return None
        for source in parsed.keys() & runs.keys():
            if not mariadb:  # no source is there twice
                return None
            parsed[source] = max(parsed[source], runs[source])  # after a failover: two servers
        runs |= parsed
    return GtidSet(runs)


def add_gtid(gtids: str, gtid: str, *, mariadb: bool) -> str | None:
    """Return a set of GTIDs with one more, as Debezium writes it; None if either is no such text.

    MariaDB has the newest one of each domain.
    """
    known, added = (parse_gtids(text, mariadb=mariadb) for text in (gtids, gtid))
    if known is None or added is None:
        return None
    if mariadb:
        newest = {member.strip().partition("-")[0]: member.strip() for member in gtids.split(",")}
        return ",".join({**newest, gtid.partition("-")[0]: gtid}.values())
    runs = dict(known.runs)
    for source, each in added.runs.items():
        runs[source] = _join_runs([*runs.get(source, ()), *each])
    return ",".join(
        ":".join((source, *(f"{first}-{last}" for first, last in each)))
        for source, each in runs.items()
    )


def _parse_mysql_runs(member: str) -> dict[str, tuple[tuple[int, int], ...]] | None:
    """Return the runs of one server, and of each of its tags."""
    match = _MYSQL_GTIDS.fullmatch(member)
    if match is None:
        return None
    source = server = match["source"].lower()
    runs: dict[str, list[tuple[int, int]]] = {}
    for part in match["runs"].removeprefix(":").split(":"):
        if not part[0].isdigit():
            source = f"{server}:{part.lower()}"
            if source in runs:
                return None
            runs[source] = []
            continue
        first, _, last = part.partition("-")
        runs.setdefault(source, []).append((int(first), int(last or first)))
    if not all(runs.values()):
        return None  # a tag without transactions
    return {name: _join_runs(each) for name, each in runs.items()}


def _join_runs(runs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return runs in order, those that touch as one. A server writes them so, a person may not."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _parse_mariadb_runs(member: str) -> dict[str, tuple[tuple[int, int], ...]] | None:
    match = _MARIADB_GTID.fullmatch(member)
    return None if match is None else {match["domain"]: ((1, int(match["number"])),)}


def is_snapshot(fields: Fields) -> bool:
    """Check whether a Debezium offset was written during a snapshot that stops the changes.

    `snapshot` is true or "true" until Debezium 3.0.1, the kind of the snapshot after it, and absent
    afterwards; on MongoDB `initsync`. The offset of the last row says so itself, by a field whose
    name depends on the version. The offset does not advance before that. An incremental snapshot
    (`incremental_snapshot_*`, "INCREMENTAL") runs beside the changes, which go on.
    """
    return fields.get("initsync") is True or _read_snapshot_scope(fields) == (True, False)


def _read_snapshot_scope(fields: Fields) -> tuple[Scalar, ...]:
    """Return the scope that limits comparisons to offsets of the same snapshot state.

    It is whether the offset is of a snapshot, and whether that is completed. Offsets do not advance
    during a snapshot, and a snapshot may be taken again.
    """
    marker = fields.get("snapshot")
    done = any(fields.get(name) in _YES for name in ("snapshot_completed", "last_snapshot_record"))
    return (False, False) if marker in _NO_SNAPSHOT else (True, done or marker == "last")


def _parse_lsn(value: Scalar, form: re.Pattern[str]) -> tuple[int, ...] | None:
    if not isinstance(value, str) or form.fullmatch(value) is None:
        return None
    return tuple(int(part, 16) for part in value.split(":"))


def _drop_implausible_time(seconds: float) -> float | None:
    return seconds if _EARLIEST_S <= seconds < _LATEST_S else None
