"""Distance of a source offset from the end of its source, by the kind of the source.

Each function takes the fields of one offset and an end that was read, and compares nothing that is
not comparable: another server, another binlog, a snapshot in progress. Units are those of
the source: bytes of WAL or binlog or of a file, transactions, values of an ascending column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsetwatch.decode.offset_order import (
    GTIDS_CHARS_MAX,
    Fields,
    GtidSet,
    has_gtids,
    parse_binlog_name,
    parse_gtids,
    read_long,
)
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import DatabaseSettings
from offsetwatch.model.source_ends import (
    BinlogFile,
    ColumnEnd,
    FileState,
    MysqlEnd,
    PostgresqlEnd,
    ReplicationSlot,
)
from offsetwatch.model.time_units import NANOS_PER_MILLI, NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Distance:
    """Distance of one offset from the end of its source.

    position, end   numbers in one order: `position` of the offset, `end` of the source; None where
                    they have no order
    resume          position from which a task of this offset resumes, if it is not `position`
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
    retention_near  why the source may soon remove what the offset needs, in words
    headroom_bytes  bytes that the source may still write or remove until `lost`; None: no limit
    connected       a connection of the connector is open; None where the source does not say
    exact           an end beyond the position means that something waits
    is_partial      what counts as done may be the beginning of a transaction
    retained_bytes  bytes that the slot makes the server retain
    """

    position: int | None = None
    end: int | None = None
    resume: int | None = None
    handed: int | None = None
    unit: str = "bytes"
    bytes: int | None = None
    fields: tuple[tuple[str, int], ...] = ()
    end_text: str = ""
    ahead: int = 0
    floor: int | None = None
    lost: str | None = None
    retention_near: str | None = None
    mismatch: str | None = None
    unreadable: str | None = None
    headroom_bytes: int | None = None
    connected: bool | None = None
    exact: bool = False
    is_partial: bool = False
    retained_bytes: int | None = None

    @property
    def position_of_resume(self) -> int | None:
        """Return the position from which a task of this offset resumes."""
        return self.position if self.resume is None else self.resume


def parse_wal_position(fields: Fields) -> int | None:
    """Return how far a Debezium PostgreSQL offset is, in bytes of WAL.

    Transactions come in the order of their commits. `lsn_commit` may be one transaction behind
    `lsn` while it is idle, and `lsn` behind `lsn_commit` within a transaction that began earlier:
    the greater one is what was read.
    """
    numbers = (read_long(fields, name) for name in ("lsn", "lsn_proc", "lsn_commit"))
    return max((number for number in numbers if number is not None), default=None)


def parse_resume_position(fields: Fields) -> int | None:
    """Return the WAL position from which a task resumes, which Debezium compares with its slot.

    It is also the position that the task confirms to the slot.
    """
    committed = read_long(fields, "lsn_commit")
    if committed is not None:
        return committed
    processed = read_long(fields, "lsn_proc")
    return processed if processed is not None else read_long(fields, "lsn")


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
    elif name is not None and slot is None and end.in_recovery:
        mismatch = f"this server is a standby without the replication slot {name}"
    elif name is not None and slot is None:
        lost = f"the replication slot {name} does not exist on this server"
    elif slot is not None:
        mismatch = _compare_slot(slot, settings)
        lost = _find_slot_loss(slot)
    handed = None if slot is None or not slot.active else slot.sent
    return Distance(
        position=position,
        end=end.wal_end,
        resume=parse_resume_position(fields),
        handed=None if handed is None else min(handed, end.wal_end),
        fields=(("lsn", end.wal_end),),
        end_text=format_wal_position(end.wal_end),
        # A standby may not have replayed what was read of its primary.
        ahead=0 if position is None or end.in_recovery else max(0, position - end.wal_end),
        floor=None if slot is None else slot.confirmed_flush,
        lost=lost,
        retention_near=_find_slot_danger(slot),
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


def _find_slot_danger(slot: ReplicationSlot | None) -> str | None:
    if slot is not None and slot.wal_status == "unreserved":
        return f"the server no longer retains WAL for the replication slot {slot.name}"
    return None


def measure_mysql(
    fields: Fields, end: MysqlEnd, settings: DatabaseSettings | None, *, removed: int = 0
) -> Distance:
    """Return the distance of a Debezium MySQL or MariaDB offset from the end of the binlog.

    By GTIDs where the offset has some, since the connector may resume on another server; otherwise
    by file and position. `removed` are the bytes of binlog files that the server has removed since
    positions of it are compared.
    """
    connected, handed_all = _find_connection(end, settings)
    binlog = _measure_binlog(fields, end, removed)
    if has_gtids(fields):
        distance = _measure_gtids(fields, end, handed_all=handed_all, binlog=binlog)
    else:
        distance = _measure_coordinates(fields, end, handed_all=handed_all, binlog=binlog)
    return replace(distance, connected=connected, retention_near=_find_old_file(fields, end))


def _find_old_file(fields: Fields, end: MysqlEnd) -> str | None:
    """Return in words that a binlog file is the next one to be removed; the newest never is."""
    name = fields.get("file")
    if not end.logs or name in {None, end.file} or end.logs[0].name != name:
        return None
    return f"its binlog file {name} is the oldest that the server has"


@dataclass(frozen=True, slots=True)
class _BinlogBytes:
    """Binlog in bytes from the start of the first file that was known: an offset, and the end.

    `before` are the bytes of files that are older than the one of the offset, and still there.
    """

    position: int
    total: int
    before: int


def _measure_coordinates(
    fields: Fields, end: MysqlEnd, *, handed_all: bool | None, binlog: _BinlogBytes | None
) -> Distance:
    name, pos = fields.get("file"), read_long(fields, "pos")
    if not isinstance(name, str) or pos is None:
        return Distance(mismatch="its offset has no binlog file and position")
    if end.file is None or end.position is None:
        return Distance(unreadable="the server does not tell its binlog file and position")
    distance = Distance(fields=(("pos", end.position),), end_text=f"{end.file}:{end.position}")
    if _is_of_other_server(fields, end):
        # An event has the id of the server that wrote it first: this one may be its replica.
        return replace(
            distance,
            unreadable=f"its offset has no GTIDs and is of server_id {fields['server_id']}, and "
            f"this server is {end.server_id}",
        )
    if binlog is None:
        mismatch, lost = _explain_missing_file(name, end)
        return replace(distance, mismatch=mismatch, lost=lost)
    return replace(
        distance,
        position=binlog.position,
        end=binlog.total,
        handed=_find_handed(binlog.position, binlog.total, handed_all=handed_all),
        ahead=max(0, binlog.position - binlog.total),
        headroom_bytes=binlog.before if end.logs else None,
    )


def _explain_missing_file(name: str, end: MysqlEnd) -> tuple[str | None, str | None]:
    """Return why the server does not have a binlog file: a mismatch, or else a loss.

    Both are None where its files are not known.
    """
    assert end.file is not None
    file, newest = parse_binlog_name(name), parse_binlog_name(end.file)
    if file is None or newest is None or file[0] != newest[0]:
        return f"its binlog file is {name}, and this server writes {end.file}", None
    if file[1] > newest[1]:
        return f"its binlog file {name} does not exist yet: the newest is {end.file}", None
    if not end.logs:
        return None, None
    oldest = end.logs[0].name
    return None, f"the server no longer has its binlog file {name}: the oldest is {oldest}"


def _is_of_other_server(fields: Fields, end: MysqlEnd) -> bool:
    """Check whether another server wrote the last event; no id, and 0, may be of any server."""
    return end.server_id is not None and fields.get("server_id") not in {None, 0, end.server_id}


def _measure_binlog(fields: Fields, end: MysqlEnd, removed: int) -> _BinlogBytes | None:
    """Return the binlog in bytes; None where a file of the offset is not among those of the end."""
    name, pos = fields.get("file"), read_long(fields, "pos")
    if not isinstance(name, str) or pos is None or end.file is None or end.position is None:
        return None
    if _is_of_other_server(fields, end):
        return None
    logs = end.logs if end.logs is not None else _guess_logs(name, end)
    start: int | None = None
    total = removed
    for log in logs:
        if log.name == name:
            start = total
        total += end.position if log.name == end.file else log.size
        if log.name == end.file:
            break
    return None if start is None else _BinlogBytes(start + pos, total, start - removed)


def _guess_logs(name: str, end: MysqlEnd) -> tuple[BinlogFile, ...]:
    """Return the one file of the offset and the end; none if they are in different files."""
    return (BinlogFile(name, end.position or 0),) if name == end.file else ()


def _find_handed(position: int, end: int, *, handed_all: bool | None) -> int | None:
    """Return the position up to which all is handed out: at least that of the offset itself."""
    return None if handed_all is None else end if handed_all else min(position, end)


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


def reads_binlog(fields: Fields, end: MysqlEnd, settings: DatabaseSettings | None) -> bool:
    """Check whether an initial snapshot is over although its offset does not say so.

    Debezium opens the connection that reads the binlog after it, and since 3.0.2 does not mark its
    last row. A blocking snapshot may leave the connection open. With several connections of the
    user it is unknown whose they are.
    """
    if end.readers is None or settings is None or settings.user is None:
        return False
    own = [reader for reader in end.readers if reader.user == settings.user]
    return len(own) == 1 and fields.get("snapshot") != "BLOCKING"


def _measure_gtids(
    fields: Fields, end: MysqlEnd, *, handed_all: bool | None, binlog: _BinlogBytes | None
) -> Distance:
    """Return the distance by GTIDs.

    The offset has those of the transactions before the one that `event` and `row` are in, also
    while that is done and nothing follows. Whether it is done only the server can tell.
    """
    unit, text = "transactions", str(fields["gtids"])
    if max(len(text), len(end.gtids or "")) > GTIDS_CHARS_MAX:
        return Distance(unit=unit, unreadable="its GTIDs are too many to be compared")
    read = parse_gtids(text, mariadb=end.mariadb)
    if read is None:
        kind = "MariaDB" if end.mariadb else "MySQL"
        return Distance(unit=unit, mismatch=f"its GTIDs are not of {kind}")
    executed = None if end.gtids is None else parse_gtids(end.gtids, mariadb=end.mariadb)
    if executed is None:
        return Distance(unit=unit, unreadable="the server does not tell its GTIDs")
    unknown = sorted(read.runs.keys() - executed.runs.keys())
    mismatch = None
    if unknown:
        what = "domain" if end.mariadb else "server"
        mismatch = f"it has read transactions of {what} {unknown[0]}, and this server has none"
    total, missing = executed.count(), executed.count_missing(read)
    begun = any((read_long(fields, name) or 0) > 0 for name in ("event", "row"))
    is_partial = begun and missing > 0 and handed_all is None
    position = total - missing + is_partial
    return Distance(
        position=position,
        end=total,
        handed=_find_handed(position, total, handed_all=handed_all),
        unit=unit,
        bytes=None if binlog is None else max(0, binlog.total - binlog.position),
        fields=(() if end.position is None else (("pos", end.position),)),
        end_text=end.gtids or "",
        ahead=0 if mismatch is not None else read.count_missing(executed),
        lost=None if mismatch is not None else _find_purged(read, end, begun=begun),
        mismatch=mismatch,
        headroom_bytes=None if binlog is None or not end.logs else binlog.before,
        is_partial=is_partial,
    )


def _find_purged(read: GtidSet, end: MysqlEnd, *, begun: bool) -> str | None:
    """Return in words which transactions the server no longer has and the offset needs.

    Sources that the offset lacks altogether do not count: a filter may leave them out.
    """
    purged = None if end.purged is None else parse_gtids(end.purged, mariadb=end.mariadb)
    if purged is None:
        return None
    shared = GtidSet({name: runs for name, runs in purged.runs.items() if name in read.runs})
    count = shared.count_missing(read) - begun
    if count <= 0:
        return None
    return f"the server has removed {format_count(count, 'transaction')} that it has not read"


def measure_column(fields: Fields, column: ColumnEnd) -> Distance:
    """Return the distance of a JDBC offset from the greatest value of its column.

    Nothing waits in a table without rows.
    """
    unit = "" if column.is_time else "rows"
    if column.error is not None:
        return Distance(unit=unit, unreadable=column.error)
    name = "timestamp" if column.is_time else "incrementing"
    position, end = read_long(fields, name), column.value
    rounded_end = end
    if column.is_time:
        position, per = _parse_jdbc_nanos(fields)
        end = None if end is None else end // per * per
        rounded_end = None if end is None else end // NANOS_PER_MILLI
    if position is None:
        return Distance(unit=unit, unreadable=f"its offset has no {name}")
    return Distance(
        position=position,
        end=position if end is None else end,
        exact=True,
        unit=unit,
        fields=() if rounded_end is None else ((name, rounded_end),),
        end_text="no rows" if rounded_end is None else str(rounded_end),
        ahead=0 if end is None else max(0, position - end),
    )


def _parse_jdbc_nanos(fields: Fields) -> tuple[int | None, int]:
    """Return the timestamp in Unix nanoseconds, and how many of them it is exact to."""
    millis, nanos = read_long(fields, "timestamp"), read_long(fields, "timestamp_nanos")
    if millis is None:
        return None, 1
    if nanos is not None and 0 <= nanos < NANOS_PER_SECOND:
        return millis // 1000 * NANOS_PER_SECOND + nanos, 1
    return millis * NANOS_PER_MILLI, NANOS_PER_MILLI


def measure_file(fields: Fields, file: FileState) -> Distance:
    """Return the distance of a FileStream offset from the end of the last line of its file."""
    if file.error is not None:
        return Distance(unreadable=file.error)
    position, end = read_long(fields, "position"), file.size
    if position is None or end is None:
        what = "its offset has no position" if position is None else "the file has no size"
        return Distance(unreadable=what)
    return Distance(
        position=position,
        end=end,
        exact=True,
        fields=(("position", end),),
        end_text=str(end),
        ahead=max(0, position - end),
        floor=0,
    )
