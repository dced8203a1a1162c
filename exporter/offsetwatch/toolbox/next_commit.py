"""Offset of a Debezium PostgreSQL connector after its next transaction, from its replication slot.

It is for a person who wants to pass over a transaction that the connector cannot process, as
next_offset.py is for binlogs. Pure; `SlotMessages` reads, and consumes nothing.

A server sends a connector the transactions whose commits begin at its position or after it, in the
order of their commits; changes of one transaction may lie before the commit of another. Debezium
(WalPositionLocator) then looks for the message that is exactly at its position. After a commit that
is the end of the commit's record, at which the next record begins: if that is a change of a
transaction that had begun before, Debezium up to 3.6.1 leaves out that one and all before it
(debezium/dbz#76). So the offset here is one byte before the end, where no record can begin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from offsetwatch.decode.offset_order import Fields, is_snapshot, read_long
from offsetwatch.decode.pgoutput import (
    ChangeMessage,
    CommitMessage,
    RelationMessage,
    parse_pgoutput,
)
from offsetwatch.errors import RemoteRefusal
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import DatabaseSettings
from offsetwatch.model.offsets import Scalar, Undecodable
from offsetwatch.model.source_ends import PostgresqlEnd, ReplicationSlot, SlotMessage
from offsetwatch.state.sources.distances import format_wal_position, measure_postgresql
from offsetwatch.toolbox.next_offset import METADATA_PREFIX, NextOffset

_POSITIONS: Final = ("lsn", "lsn_proc", "lsn_commit")
_COMMIT: Final = "COMMIT"
_CHANGES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "TRUNCATE"})
_OUTSIDE: Final = "MESSAGE outside of transactions"
_EVENTS_PROCESSED: Final = "lsn_events_processed"


class SlotMessages(Protocol):
    """Messages that a replication slot has for its consumer. Each call may raise ClientError."""

    def read_messages(self, slot: str, publication: str, count_max: int) -> tuple[SlotMessage, ...]:
        """Return the first ones, and nothing of the values of rows; at most `count_max`."""


@dataclass(slots=True)
class SlotTransaction:
    """Transaction that a replication slot has.

    commit, end     positions of its commit's record, and after it
    time_us         of the commit, in Unix microseconds
    changes         positions of its changes, in order; several changes may have one position
    delivered       number of changes at its beginning that were delivered
    operations      number of changes by operation
    tables          `schema.table`, in order
    """

    xid: int
    begin: int
    commit: int = 0
    end: int = 0
    time_us: int = 0
    changes: list[int] = field(default_factory=list)
    delivered: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    tables: dict[str, None] = field(default_factory=dict)

    def has_delivered_all(self) -> bool:
        """Check whether all was delivered for certain: not where changes share a position."""
        last = self.changes[self.delivered - 1]
        return self.delivered == len(self.changes) and self.changes.count(last) == 1


def find_next_commit(
    offset: Fields,
    end: PostgresqlEnd,
    log: SlotMessages,
    settings: DatabaseSettings | None,
    *,
    source: str,
    count: int = 1,
    messages_max: int,
) -> NextOffset[SlotTransaction]:
    """Return the offset after the next `count` transactions of the connector's slot.

    Transactions without a change of the publication do not count. Raises ClientError: RemoteRefusal
    with the reason if there is no answer that is certain.
    """
    if is_snapshot(offset):
        raise RemoteRefusal(
            source, "its offset is of a snapshot", "`offsets reset` lets it take a new one"
        )
    slot, publication = _find_slot(offset, end, settings, source)
    messages = log.read_messages(slot.name, publication, messages_max + 1)
    transactions = _read_transactions(messages[:messages_max], source)
    waiting = _drop_delivered(offset, transactions, source)
    passed = tuple(each for each in waiting if each.changes)[:count]
    if len(passed) < count:
        if len(messages) > messages_max:
            raise RemoteRefusal(
                source,
                f"it was not found within {format_count(messages_max, 'message')} of its slot",
                "give a higher --events-max",
            )
        there = format_count(len(passed), "transaction")
        raise RemoteRefusal(
            source, f"only {there} after its offset" if passed else "nothing is after its offset"
        )
    return _build_next_offset(offset, passed)


def _find_slot(
    offset: Fields, end: PostgresqlEnd, settings: DatabaseSettings | None, source: str
) -> tuple[ReplicationSlot, str]:
    """Return the slot, which nothing uses, and the publication. Raises RemoteRefusal."""
    distance = measure_postgresql(offset, end, settings)
    problem = distance.mismatch or distance.lost or distance.unreadable
    if problem is not None:
        raise RemoteRefusal(source, problem)
    if settings is None or settings.slot is None or settings.publication is None:
        raise RemoteRefusal(source, "a config provider has its slot.name or publication.name")
    slot = end.slots[settings.slot]
    if slot.database != end.database:
        raise RemoteRefusal(
            source,
            f"its slot {slot.name} is of database {slot.database}, and this source reads "
            f"{end.database}",
            "only a connection to that database can read it",
        )
    if slot.active:
        raise RemoteRefusal(
            source,
            f"its slot {slot.name} is in use, as while its task runs",
            "`offsetwatch connectors stop` it first",
        )
    resume, confirmed = distance.position_of_resume, slot.confirmed_flush
    if resume is None or confirmed is None or resume < confirmed:
        raise RemoteRefusal(
            source,
            f"its offset is before {confirmed}, which its slot {slot.name} has confirmed",
            "`offsets reset` lets it take a new snapshot",
        )
    return slot, settings.publication


def _read_transactions(messages: Sequence[SlotMessage], source: str) -> list[SlotTransaction]:
    """Return the transactions of which the commit is there, in the order of their commits.

    A message outside of transactions is passed over with the transaction of changes that it comes
    before.
    Raises RemoteRefusal at a message that cannot be read.
    """
    transactions: list[SlotTransaction] = []
    tables: dict[int, str] = {}
    current: SlotTransaction | None = None
    outside: list[int] = []
    for position, xid, content in messages:
        message = parse_pgoutput(content)
        if isinstance(message, Undecodable):
            raise RemoteRefusal(source, f"{message.reason}, at {format_wal_position(position)}")
        if isinstance(message, ChangeMessage) and not message.is_transactional:
            outside.append(position)
            continue
        if current is None:
            current = SlotTransaction(xid, position)
        match message:
            case RelationMessage():
                tables[message.oid] = message.table
            case ChangeMessage():
                current.changes.append(position)
                current.operations[message.operation] += 1
                current.tables |= dict.fromkeys(
                    tables.get(oid, f"table {oid}") for oid in message.oids
                )
            case CommitMessage():
                current.commit, current.end = message.position, message.end
                current.time_us = message.time_us
                if current.changes:
                    before = sum(each < message.position for each in outside)
                    current.operations += Counter({_OUTSIDE: before})
                    outside = outside[before:]
                transactions.append(current)
                current = None
    return transactions


def _drop_delivered(
    offset: Fields, transactions: Sequence[SlotTransaction], source: str
) -> Sequence[SlotTransaction]:
    """Return the transactions that were not delivered, or not all of; raises RemoteRefusal."""
    position, xid = read_long(offset, "lsn"), read_long(offset, "txId")
    kind = offset.get("messageType")
    for index, each in enumerate(transactions):
        if kind not in {_COMMIT, "BEGIN"} and each.xid == xid and position in each.changes:
            each.delivered = each.changes.index(position) + 1
            return transactions[index + each.has_delivered_all() :]
    if kind in _CHANGES:
        raise RemoteRefusal(
            source, f"the transaction {xid} of its offset is not in its slot, or not near its start"
        )
    lsn, processed, committed = (read_long(offset, name) for name in _POSITIONS)
    start = processed if processed is not None else lsn or 0
    return [
        each for each in transactions if each.commit >= start and each.end > (committed or start)
    ]


def _build_next_offset(
    offset: Fields, transactions: tuple[SlotTransaction, ...]
) -> NextOffset[SlotTransaction]:
    last = transactions[-1]
    fields: dict[str, Scalar] = {
        name: value
        for name, value in offset.items()
        if name != _EVENTS_PROCESSED and not name.startswith(METADATA_PREFIX)
    }
    fields |= {name: last.end - 1 for name in _POSITIONS if name in offset}
    values: dict[str, Scalar] = {
        "messageType": _COMMIT,
        "txId": last.xid,
        "ts_usec": last.time_us,
        "transaction_id": None,
    }
    fields |= {name: value for name, value in values.items() if name in offset}
    return NextOffset(fields, transactions, tuple(_describe(transactions)))


def _describe(transactions: tuple[SlotTransaction, ...]) -> Iterator[str]:
    yield (
        "the task may have failed at a later transaction: its offset is that of the last record "
        "that was delivered; compare the tables, and the LSN in the task's trace"
    )
    yield "what is passed over is copied nowhere, and never delivered: keep its rows first"
    first = transactions[0]
    if first.delivered:
        done = f"{first.delivered} of {format_count(len(first.changes), 'change')}"
        yield (
            f"of the first transaction {done} were delivered already, by the LSN of its offset; "
            "changes of one LSN cannot be distinguished"
        )
    if any(each.operations[_OUTSIDE] for each in transactions):
        yield "messages outside of transactions, such as heartbeats, are passed over as well"
    yield (
        "the filters of the connector are not considered: a transaction may have only changes "
        "that it leaves out"
    )
    yield (
        "the position is one byte before the end of the commit, where no change can be: Debezium "
        "leaves out a change that is exactly at its position"
    )
