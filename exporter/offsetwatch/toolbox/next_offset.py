"""Offset of a Debezium MySQL or MariaDB connector after its next transaction, from the binlog.

It is for a person who wants to pass over a transaction that the connector cannot process: its rows
cannot be copied to quarantine exactly, so the daemon never does this itself. Pure; `BinlogEvents`
reads. Rules of offsets are those of Debezium's BinlogOffsetContext: after a commit `file` and `pos`
are the end of the transaction, `gtids` include it, and `event` and `row` are gone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from offsetwatch.decode.offset_order import (
    Fields,
    GtidSet,
    add_gtid,
    has_gtids,
    is_snapshot,
    parse_gtids,
    read_long,
)
from offsetwatch.errors import RemoteRefusal
from offsetwatch.formatting import format_count
from offsetwatch.model.offsets import Scalar
from offsetwatch.model.source_ends import BINLOG_EVENTS_MAX, BinlogEvent, MysqlEnd
from offsetwatch.state.sources.distances import measure_mysql

METADATA_PREFIX: Final = "transaction_data_collection_order_"  # of Debezium, by table
BYTES_MAX: Final = 256 * 1024 * 1024
_PAGE: Final = 500  # events of one statement; a server may delay commits meanwhile
_LOG_START: Final = 4
_HEADER_EVENTS_MAX: Final = 5
_STATEMENT_CHARS_MAX: Final = 80

_GTID_KINDS: Final = frozenset({"Gtid", "Anonymous_Gtid", "Gtid_tagged"})
_GTIDS_BEFORE: Final = frozenset({"Previous_gtids", "Gtid_list"})
# Of the log itself, and of no transaction.
_LOG_KINDS: Final = _GTIDS_BEFORE | {
    "Format_desc", "Binlog_checkpoint", "Start_encryption", "Rotate", "Stop",
}  # fmt: skip
_ENDS: Final = frozenset({"Xid", "XA_prepare"})
_MYSQL_GTID: Final = re.compile(r"GTID_NEXT= *'([^']+:[0-9]+)'", re.IGNORECASE)
_MARIADB_GTID: Final = re.compile(r"\bGTID ([0-9]+-[0-9]+-[0-9]+)")
_BEGIN: Final = re.compile(r"(BEGIN|XA START\b.*)", re.IGNORECASE | re.DOTALL)
_MARIADB_BEGIN: Final = re.compile(r"(BEGIN|XA START)\b")
_END: Final = re.compile(r"COMMIT|ROLLBACK", re.IGNORECASE)
_USE: Final = re.compile(r"use `(?P<database>.*?)`; (?P<statement>.*)", re.DOTALL)
_TABLE: Final = re.compile(r"table_id: [0-9]+ \((.*)\)", re.DOTALL)


class BinlogEvents(Protocol):
    """Events of a server's binlog. Each call may raise ClientError."""

    def read_events(self, file: str, position: int, count_max: int) -> tuple[BinlogEvent, ...]:
        """Return at most `count_max` events of a file from a position on."""

    def read_gtids_before(self, file: str, position: int) -> str | None:
        """Return MariaDB's GTIDs of what comes before a position; None if they are not known."""


@dataclass(slots=True)
class BinlogTransaction:
    """Transaction of a binlog, or a statement that is one by itself, such as CREATE TABLE.

    start, end  positions in `file`; a transaction is in one file
    gtid        None without GTIDs
    events      number of events by kind
    tables      `database.table` of changed rows, in order
    statements  first words of statements that are logged as such; no values
    """

    file: str
    start: int
    end: int
    server_id: int
    gtid: str | None = None
    events: Counter[str] = field(default_factory=Counter)
    tables: dict[str, None] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    has_begun: bool = False

    @property
    def bytes(self) -> int:
        """Return its size in the binlog."""
        return self.end - self.start


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NextOffset(Generic[T]):
    """Offset after the transactions that it passes over.

    notes   what the person who uses it has to know, a sentence each
    """

    fields: Mapping[str, Scalar]
    transactions: tuple[T, ...]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Binlog:
    """Binlog files of a server, read within limits."""

    source: str
    end: MysqlEnd
    log: BinlogEvents
    events_max: int
    events: int = 0
    bytes: int = 0

    def read(self, file: str, position: int) -> Iterator[BinlogEvent]:
        """Yield events from a position of a file to the end of the last one."""
        logs = self.end.logs or ()
        for log in logs[[log.name for log in logs].index(file) :]:
            size = log.size
            if log.name == self.end.file and self.end.position is not None:
                size = self.end.position
            while position < size:
                events = self.log.read_events(log.name, position, _PAGE)
                for event in events:
                    self._count(event)
                    yield event
                if not events or events[-1].end <= position:
                    raise self.refuse(f"nothing can be read at {log.name}:{position}")
                position = events[-1].end
            if log.name == self.end.file:
                return
            position = _LOG_START

    def read_gtids_before_file(self, file: str) -> str | None:
        """Return the GTIDs that the header of a file says are before it."""
        for event in self.log.read_events(file, _LOG_START, _HEADER_EVENTS_MAX):
            if event.kind in _GTIDS_BEFORE:
                return "".join(event.info.split()).strip("[]")
        return None

    def _count(self, event: BinlogEvent) -> None:
        self.events += 1
        self.bytes += event.end - event.position
        if self.events > self.events_max:
            raise self.refuse(
                f"it was not found within {format_count(self.events_max, 'event')} of the binlog",
                "give a higher --events-max, or read on with mysqlbinlog",
            )
        if self.bytes > BYTES_MAX:
            raise self.refuse(
                f"it was not found within {BYTES_MAX} bytes of the binlog",
                "read on with mysqlbinlog",
            )

    def refuse(self, text: str, advice: str | None = None) -> RemoteRefusal:
        """Build the error that says why there is no answer."""
        return RemoteRefusal(self.source, text, advice)


def find_next_offset(
    offset: Fields,
    end: MysqlEnd,
    log: BinlogEvents,
    *,
    source: str,
    count: int = 1,
    events_max: int = BINLOG_EVENTS_MAX,
) -> NextOffset[BinlogTransaction]:
    """Return the offset after the next `count` transactions.

    With GTIDs, these are the first ones of the binlog that the offset lacks, as the server sends
    them; without, those from `file` and `pos` on. Raises ClientError: RemoteRefusal with the reason
    if there is no answer that is certain.
    """
    binlog = _Binlog(source, end, log, events_max)
    if is_snapshot(offset):
        raise binlog.refuse("its offset is of a snapshot", "`offsets reset` lets it take a new one")
    distance = measure_mysql(offset, end, None)
    problem = distance.mismatch or distance.lost or distance.unreadable
    if problem is not None:
        raise binlog.refuse(problem)
    file, position = offset.get("file"), read_long(offset, "pos")
    if not isinstance(file, str) or position is None:
        raise binlog.refuse("its offset has no binlog file and position")
    if not end.logs:
        raise binlog.refuse(
            "the server does not tell its binlog files", "docs/acls.md has the right"
        )
    if file not in {each.name for each in end.logs}:
        raise binlog.refuse(f"the server has no binlog file {file}")
    position = max(position, _LOG_START)
    gtids = str(offset["gtids"]) if has_gtids(offset) else None
    if gtids is not None:
        position = _find_start(binlog, file, position, gtids)
    passed: list[BinlogTransaction] = []
    for transaction in read_transactions(binlog, binlog.read(file, position)):
        if gtids is not None:
            extended = _add_transaction(binlog, gtids, transaction)
            if extended is None:
                continue
            gtids = extended
        passed.append(transaction)
        if len(passed) == count:
            return _build_next_offset(offset, gtids, tuple(passed))
    there = format_count(len(passed), "transaction")
    raise binlog.refuse(
        f"only {there} after its offset" if passed else "nothing is after its offset"
    )


def _find_start(binlog: _Binlog, file: str, position: int, gtids: str) -> int:
    """Return where to read from, so that the first transaction that `gtids` lack is not missed.

    On MySQL `pos` is after the event with the GTID, and with GTIDs a server does not read `pos`.
    """
    read = _parse(binlog, gtids)
    before = binlog.log.read_gtids_before(file, position) if binlog.end.mariadb else None
    if before is not None and read.includes(_parse(binlog, before)):
        return position
    before = binlog.read_gtids_before_file(file)
    if before is None or not read.includes(_parse(binlog, before)):
        raise binlog.refuse(
            f"its GTIDs lack transactions from before the binlog file {file}: its file and "
            "position may be of another server"
        )
    return _LOG_START


def _add_transaction(binlog: _Binlog, gtids: str, transaction: BinlogTransaction) -> str | None:
    """Return the GTIDs with that of a transaction; None if they include it."""
    if transaction.gtid is None:
        raise binlog.refuse(
            f"the transaction at {transaction.file}:{transaction.start} has no GTID, and its "
            "offset has GTIDs"
        )
    if _parse(binlog, gtids).includes(_parse(binlog, transaction.gtid)):
        return None
    return add_gtid(gtids, transaction.gtid, mariadb=binlog.end.mariadb)


def _parse(binlog: _Binlog, gtids: str) -> GtidSet:
    parsed = parse_gtids(gtids, mariadb=binlog.end.mariadb)
    if parsed is None:
        raise binlog.refuse("its GTIDs cannot be compared with those of the binlog")
    return parsed


def read_transactions(
    binlog: _Binlog, events: Iterator[BinlogEvent]
) -> Iterator[BinlogTransaction]:
    """Yield the transactions of a binlog; one that has no end yet is left out.

    Raises RemoteRefusal at an event whose meaning is not certain.
    """
    current: BinlogTransaction | None = None
    for event in events:
        if event.kind in _LOG_KINDS:
            continue
        there = f"{event.kind} at {event.file}:{event.position}"
        if event.kind in _GTID_KINDS:
            if current is not None:
                raise binlog.refuse(f"{there} is in the middle of a transaction")
            current = _begin_transaction(event)
            current.gtid = _read_gtid(event.info)
            current.has_begun = _MARIADB_BEGIN.match(event.info) is not None
            continue
        if current is None:
            current = _begin_transaction(event)
        if event.kind == "Query":
            is_end = _add_statement(current, event)
        elif current.has_begun:
            is_end = event.kind in _ENDS
        else:
            raise binlog.refuse(
                f"no transaction begins with {there}: whether its position is right is not known"
            )
        current.end, current.server_id = event.end, event.server_id
        current.events[event.kind] += 1
        if event.kind == "Table_map" and (table := _TABLE.fullmatch(event.info)) is not None:
            current.tables[table[1]] = None
        if is_end:
            yield current
            current = None


def _begin_transaction(event: BinlogEvent) -> BinlogTransaction:
    return BinlogTransaction(event.file, event.position, event.end, event.server_id)


def _read_gtid(info: str) -> str | None:
    match = _MYSQL_GTID.search(info) or _MARIADB_GTID.search(info)
    return None if match is None else match[1]


def _add_statement(transaction: BinlogTransaction, event: BinlogEvent) -> bool:
    """Add a Query event to a transaction; return whether that ends with it."""
    match = _USE.fullmatch(event.info)
    statement = event.info if match is None else match["statement"]
    if not transaction.has_begun and _BEGIN.fullmatch(statement):
        transaction.has_begun = True
        return False
    if transaction.has_begun and (_END.fullmatch(statement) or statement.startswith("XA END")):
        return _END.fullmatch(statement) is not None
    words = " ".join(statement.split()[:3]).partition("(")[0].strip()[:_STATEMENT_CHARS_MAX]
    transaction.statements.append(words if match is None else f"{match['database']}: {words}")
    return not transaction.has_begun


def _build_next_offset(
    offset: Fields, gtids: str | None, transactions: tuple[BinlogTransaction, ...]
) -> NextOffset[BinlogTransaction]:
    last = transactions[-1]
    fields: dict[str, Scalar] = {
        name: value
        for name, value in offset.items()
        if name not in {"event", "row"} and not name.startswith(METADATA_PREFIX)
    }
    fields |= {"file": last.file, "pos": last.end}
    if gtids is not None:
        fields["gtids"] = gtids
    if "server_id" in fields:
        fields["server_id"] = last.server_id
    if "transaction_id" in fields:
        fields["transaction_id"] = None
    return NextOffset(fields, transactions, tuple(_describe(offset, transactions)))


def _describe(offset: Fields, transactions: tuple[BinlogTransaction, ...]) -> Iterator[str]:
    yield (
        "the task may have failed at a later transaction: its offset is that of the last record "
        "that was delivered; compare the tables, and file and position in the task's trace"
    )
    yield (
        "what is passed over is copied nowhere, and never delivered; keep it first: "
        + "; ".join(
            f"mysqlbinlog --read-from-remote-server --start-position={each.start} "
            f"--stop-position={each.end} {each.file}"
            for each in transactions
        )
    )
    events, row = (read_long(offset, name) or 0 for name in ("event", "row"))
    if events or row:
        yield (
            f"of the first transaction {format_count(events, 'event')} and "
            f"{format_count(row, 'row')} of the next event were delivered already. That is all of "
            "it while a connector is idle: then nothing is passed over, and "
            f"--transactions {len(transactions) + 1} passes over the transaction after it as well"
        )
    if any(each.statements for each in transactions):
        yield (
            "statements are passed over: if one changes a table, the schema history of the "
            "connector will lack it, and later rows of that table may fail or be read wrongly"
        )
    if has_gtids(offset):
        yield "gtid.source.includes and gtid.source.excludes of the connector are not considered"
    else:
        yield "without GTIDs file and position count on this server only, which it has to read"
    if offset.get("ts_sec") is not None:
        yield "ts_sec is still that of the offset: the binlog's events are listed without times"
