"""Distance of a source offset from the end of its source, by the kind of the source.

Each function takes the fields of one offset and an end that was read, and compares nothing that is
not comparable: another server, another binlog, a snapshot in progress. Units are those of
the source: bytes of WAL or binlog or of a file, transactions, values of an ascending column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from offsetwatch.decode.offset_order import (
    Fields,
    parse_gtids,
    read_long,
)
from offsetwatch.model.connectors import DatabaseSettings
from offsetwatch.model.source_ends import (
    BinlogFile,
    ColumnEnd,
    FileState,
    MysqlEnd,
    PostgresqlEnd,
    ReplicationSlot,
)

_NANOS_PER_MS: Final = 1_000_000
_NANOS: Final = 1_000_000_000
_NO_SNAPSHOT: Final = frozenset({None, False, "false", "last"})


@dataclass(frozen=True, slots=True)
class Distance:
    """Distance of one offset from the end of its source.

    position, end   numbers in one order: `position` of the offset, `end` of the source; None where
                    they have no order
    handed          position up to which the source has handed out all that it has, to a connection
                    that is open now; at most `end`; None where the source does not say
    unit            what `end` - `position` counts: bytes, transactions or rows; "" for times
    bytes           distance in bytes where `unit` is another one
    fields          numbers of the end, named as the fields of the offset
    end_text        the end as the database writes it
    ahead           how far the offset lies beyond the end; 0 if it does not
    floor           oldest position from which a task can resume; None where that is not known
    lost            why the source no longer has what the offset needs, in words
    mismatch        why the offset and the end cannot be of one source, in words
    unreadable      why there is no end to compare with, in words
    headroom_bytes  bytes that the source may still write or remove until `lost`; None: no limit
    connected       a connection of the connector is open; None where the source does not say
    exact           an end beyond the position means that something waits
    retained_bytes  bytes that the slot makes the server retain
    """

    position: int | None = None
    end: int | None = None
    handed: int | None = None
    unit: str = "bytes"
    bytes: int | None = None
    fields: tuple[tuple[str, int], ...] = ()
    end_text: str = ""
    ahead: int = 0
    floor: int | None = None
    lost: str | None = None
    mismatch: str | None = None
    unreadable: str | None = None
    headroom_bytes: int | None = None
    connected: bool | None = None
    exact: bool = False
    retained_bytes: int | None = None


def is_snapshot(fields: Fields) -> bool:
    """Check whether a Debezium offset was written during its initial snapshot.

    The offset of the last row says so itself, by a field whose name depends on the version. It does
    not advance before that.
    """
    if fields.get("snapshot") in _NO_SNAPSHOT:
        return False
    return fields.get("snapshot_completed") is not True and (
        fields.get("last_snapshot_record") is not True
    )


def parse_wal_position(fields: Fields) -> int | None:
    """Return how far a Debezium PostgreSQL offset is, in bytes of WAL.

    `lsn_commit` may be one transaction behind `lsn` while it is idle, and `lsn` behind `lsn_commit`
    within a transaction: the greater one is what was read.
    """
    read = read_long(fields, "lsn_proc")
    found = read if read is not None else read_long(fields, "lsn")
    numbers = [number for number in (found, read_long(fields, "lsn_commit")) if number is not None]
    return max(numbers, default=None)


def format_wal_position(position: int) -> str:
    """Return a WAL position as PostgreSQL writes it: 0/1A2B3C."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def measure_postgresql(
    fields: Fields, end: PostgresqlEnd, settings: DatabaseSettings | None
) -> Distance:
    """Return the distance of a Debezium PostgreSQL offset from the end of the WAL."""
    position = parse_wal_position(fields)
    name = None if settings is None else settings.slot
    slot = None if name is None else end.slots.get(name)
    mismatch = lost = None
    if position is None:
        mismatch = "its offset has no lsn"
    elif name is not None and slot is None:
        lost = f"the replication slot {name} does not exist on this server"
    elif slot is not None:
        mismatch = _compare_slot(slot, settings)
        lost = _find_slot_loss(slot)
    handed = None if slot is None or not slot.active else slot.sent
    return Distance(
        position=position,
        end=end.wal_end,
        handed=None if handed is None else min(handed, end.wal_end),
        fields=(("lsn", end.wal_end),),
        end_text=format_wal_position(end.wal_end),
        ahead=0 if position is None else max(0, position - end.wal_end),
        floor=None if slot is None else slot.confirmed_flush,
        lost=lost,
        mismatch=mismatch,
        headroom_bytes=None if slot is None else slot.safe_wal_size,
        connected=None if slot is None else slot.active,
        retained_bytes=None
        if slot is None or slot.restart is None
        else max(0, end.wal_end - slot.restart),
    )


def _compare_slot(slot: ReplicationSlot, settings: DatabaseSettings | None) -> str | None:
    database = None if settings is None else settings.database
    if database is None or slot.database in {None, database}:
        return None
    return f"the replication slot {slot.name} is of database {slot.database}, and not of {database}"


def _find_slot_loss(slot: ReplicationSlot) -> str | None:
    if slot.wal_status == "lost":
        return f"the server has removed WAL that the replication slot {slot.name} needs"
    return None


def measure_mysql(fields: Fields, end: MysqlEnd, settings: DatabaseSettings | None) -> Distance:
    """Return the distance of a Debezium MySQL or MariaDB offset from the end of the binlog.

    By GTIDs where the offset has some, since the connector may resume on another server; otherwise
    by file and position.
    """
    connected, handed_all = _find_connection(end, settings)
    binlog_bytes = _measure_binlog(fields, end)
    logs = end.logs or ()
    begun = 1 if (read_long(fields, "event") or 0) > 0 or (read_long(fields, "row") or 0) > 0 else 0
    if fields.get("gtids") is not None:
        distance = _measure_gtids(
            fields, end, begun=begun, handed_all=handed_all, in_bytes=binlog_bytes
        )
        return replace(distance, connected=connected)
    name, pos = fields.get("file"), read_long(fields, "pos")
    if not isinstance(name, str) or pos is None:
        return Distance(mismatch="its offset has no binlog file and position")
    if end.file is None or end.position is None:
        return Distance(unreadable="the server does not tell its binlog file and position")
    mismatch = None
    server_id = fields.get("server_id")
    if server_id not in {None, 0, end.server_id}:
        mismatch = f"its offset is of server_id {server_id}, and this server is {end.server_id}"
    lost = None
    names = {log.name for log in logs}
    if logs and name not in names:
        lost = f"the server no longer has its binlog file {name}: the oldest is {logs[0].name}"
    total = None if binlog_bytes is None else binlog_bytes.total
    position = None if binlog_bytes is None else binlog_bytes.position
    return Distance(
        position=position,
        end=total,
        handed=None if handed_all is None else total if handed_all else position,
        fields=(("pos", end.position),),
        end_text=f"{end.file}:{end.position}",
        ahead=0
        if total is None or position is None or mismatch is not None
        else max(0, position - total),
        floor=0 if logs else None,
        lost=lost,
        mismatch=mismatch,
        headroom_bytes=None if binlog_bytes is None or not logs else binlog_bytes.before,
        connected=connected,
    )


@dataclass(frozen=True, slots=True)
class _BinlogBytes:
    """Binlog in bytes from the start of its oldest file: position of an offset, and the end.

    `before` are the bytes of files older than the one of the offset.
    """

    position: int
    total: int
    before: int


def _measure_binlog(fields: Fields, end: MysqlEnd) -> _BinlogBytes | None:
    """Return the binlog in bytes; None where a file of the offset is not among those of the end."""
    name, pos = fields.get("file"), read_long(fields, "pos")
    if not isinstance(name, str) or pos is None or end.file is None or end.position is None:
        return None
    if fields.get("server_id") not in {None, 0, end.server_id}:
        return None
    logs = end.logs if end.logs is not None else _guess_logs(name, end)
    before = 0
    start: int | None = None
    total = 0
    for log in logs:
        if log.name == name:
            start = total
            before = total
        total += end.position if log.name == end.file else log.size
        if log.name == end.file:
            break
    return None if start is None else _BinlogBytes(start + pos, total, before)


def _guess_logs(name: str, end: MysqlEnd) -> tuple[BinlogFile, ...]:
    """Return the one file of the offset and the end; none if they are in different files."""
    return (BinlogFile(name, end.position or 0),) if name == end.file else ()


def _find_connection(
    end: MysqlEnd, settings: DatabaseSettings | None
) -> tuple[bool | None, bool | None]:
    """Return whether the connector is connected, and whether it has been sent all of the binlog.

    Its connection is recognised by its user. Where several have the same one, all of them must have
    been sent all. None is not known.
    """
    if end.readers is None or settings is None or settings.user is None:
        return None, None
    own = [reader for reader in end.readers if reader.user == settings.user]
    return (True, all(reader.sent_all for reader in own)) if own else (False, None)


def _measure_gtids(
    fields: Fields,
    end: MysqlEnd,
    *,
    begun: int,
    handed_all: bool | None,
    in_bytes: _BinlogBytes | None,
) -> Distance:
    read = parse_gtids(str(fields["gtids"]), mariadb=end.mariadb)
    if read is None:
        kind = "MariaDB" if end.mariadb else "MySQL"
        return Distance(mismatch=f"its GTIDs are not of {kind}", unit="transactions")
    executed = None if end.gtids is None else parse_gtids(end.gtids, mariadb=end.mariadb)
    if executed is None:
        return Distance(unit="transactions", unreadable="the server does not tell its GTIDs")
    purged = None if end.purged is None else parse_gtids(end.purged, mariadb=end.mariadb)
    unknown = sorted(read.runs.keys() - executed.runs.keys())
    mismatch = None
    if unknown:
        what = "domain" if end.mariadb else "server"
        mismatch = f"it has read transactions of {what} {unknown[0]}, and this server has none"
    missing, beyond = executed.count_missing(read), read.count_missing(executed)
    lost = None
    if mismatch is None and purged is not None:
        removed = purged.count_missing(read)
        if removed > begun:
            lost = f"the server has removed {removed - begun} transactions that it has not read"
    total = executed.count()
    position = total - max(0, missing - begun)
    handed = None if handed_all is None else total if handed_all else position
    return Distance(
        position=position,
        end=total,
        handed=handed,
        unit="transactions",
        bytes=None if in_bytes is None else max(0, in_bytes.total - in_bytes.position),
        fields=(() if end.position is None else (("pos", end.position),)),
        end_text=end.gtids or "",
        ahead=0 if mismatch is not None else beyond,
        floor=None if purged is None else purged.count(),
        lost=lost,
        mismatch=mismatch,
        headroom_bytes=None if in_bytes is None or not end.logs else in_bytes.before,
    )


def measure_column(fields: Fields, column: ColumnEnd) -> Distance:
    """Return the distance of a JDBC offset from the greatest value of its column."""
    if column.error is not None:
        return Distance(unit="rows", unreadable=column.error)
    end, by_time = column.value, column.is_time
    if by_time:
        position = _parse_jdbc_nanos(fields)
        name = "timestamp"
    else:
        position = read_long(fields, "incrementing")
        name = "incrementing"
    shown = end if end is None or not by_time else end // _NANOS_PER_MS
    return Distance(
        position=position,
        end=end,
        exact=True,
        unit="" if by_time else "rows",
        fields=() if shown is None else ((name, shown),),
        end_text="" if shown is None else str(shown),
        ahead=0 if end is None or position is None else max(0, position - end),
    )


def _parse_jdbc_nanos(fields: Fields) -> int | None:
    millis, nanos = read_long(fields, "timestamp"), read_long(fields, "timestamp_nanos")
    if millis is None:
        return None
    within = nanos if nanos is not None and 0 <= nanos < _NANOS else millis % 1000 * _NANOS_PER_MS
    return millis // 1000 * _NANOS + within


def measure_file(fields: Fields, file: FileState) -> Distance:
    """Return the distance of a FileStream offset from the end of the last line of its file."""
    if file.error is not None:
        return Distance(unreadable=file.error)
    position, end = read_long(fields, "position"), file.size
    return Distance(
        position=position,
        end=end,
        exact=True,
        fields=() if end is None else (("position", end),),
        end_text="" if end is None else str(end),
        ahead=0 if end is None or position is None else max(0, position - end),
        floor=0,
    )
