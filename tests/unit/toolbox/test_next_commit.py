"""The offset after the next transaction, from what a replication slot has."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.connectors import DatabaseSettings
from offsetwatch.model.source_ends import PostgresqlEnd, ReplicationSlot, SlotMessage
from offsetwatch.toolbox.next_commit import SlotTransaction, find_next_commit
from offsetwatch.toolbox.next_offset import NextOffset

SETTINGS = DatabaseSettings(database="shop", slot="cdc", publication="dbz")
ORDERS = 16389
RELATION = b"R" + struct.pack(">I", ORDERS) + b"public\0orders\0d"
EPOCH_US = 946_684_800_000_000


def transaction(
    xid: int, end: int, *changes: int, kinds: bytes = b"", time_us: int = 7
) -> list[SlotMessage]:
    """Messages of a transaction with changes at these positions. Its commit begins at end - 48."""
    kinds = kinds or b"I" * len(changes)
    commit = struct.pack(">BQQq", 0, end - 48, end, time_us)
    contents = [bytes([kind]) + struct.pack(">I", ORDERS) for kind in kinds]
    first = changes[0] if changes else end - 48
    return [
        SlotMessage(first, xid, b"B"),
        *([SlotMessage(first, xid, RELATION)] if changes else []),
        *(SlotMessage(*each) for each in zip(changes, [xid] * len(changes), contents, strict=True)),
        SlotMessage(end, xid, b"C" + commit),
    ]


class Log:
    """A slot with these messages."""

    def __init__(self, *transactions: list[SlotMessage]) -> None:
        self.messages = tuple(message for each in transactions for message in each)
        self.requests: list[tuple[str, str, int]] = []

    def read_messages(self, slot: str, publication: str, count_max: int) -> tuple[SlotMessage, ...]:
        self.requests.append((slot, publication, count_max))
        return self.messages[:count_max]


# The second one began before the commit of the first, and goes on right after it.
FIRST, SECOND, THIRD = (
    transaction(752, 1300, 1100, time_us=5),
    transaction(753, 1600, 1200, 1300, 1400, kinds=b"IUD"),
    transaction(754, 1800, 1600),
)
DELIVERED = transaction(751, 1080, 1000, 1010)


def find(offset: dict[str, Any], *transactions: list[SlotMessage], **how: Any) -> Any:
    how = {"slot": ReplicationSlot("cdc", "shop", False, 900), "messages_max": 100, **how}
    slots = {"cdc": how.pop("slot")}
    settings = how.pop("settings", SETTINGS)
    end = PostgresqlEnd(5000, slots, database=how.pop("database", "shop"))
    log = how.pop("log", None) or Log(*transactions)
    return find_next_commit(offset, end, log, settings, source="db", **how)


def at(lsn: int, commit: int, xid: int, kind: str = "INSERT", **more: Any) -> dict[str, Any]:
    return {
        "lsn": lsn,
        "lsn_proc": lsn,
        "lsn_commit": commit,
        "txId": xid,
        "ts_usec": 1,
        "messageType": kind,
        **more,
    }


def list_xids(found: NextOffset[SlotTransaction]) -> list[int]:
    return [each.xid for each in found.transactions]


def test_the_offset_is_one_byte_before_the_end_of_the_commit() -> None:
    found = find(at(1010, 900, 751), DELIVERED, FIRST, SECOND, THIRD)
    assert found.fields == at(1299, 1299, 752, "COMMIT", ts_usec=5 + EPOCH_US)
    (passed,) = found.transactions
    assert (passed.begin, passed.commit, passed.end) == (1100, 1252, 1300)
    assert (passed.operations, [*passed.tables]) == ({"INSERT": 1}, ["public.orders"])


def test_fields_of_older_versions_are_those_of_the_offset() -> None:
    found = find({"lsn": 1010, "txId": 751, "ts_usec": 1}, DELIVERED, FIRST)
    assert found.fields == {"lsn": 1299, "txId": 752, "ts_usec": 5 + EPOCH_US}


def test_metadata_of_the_transaction_before_is_left_out() -> None:
    more = {
        "transaction_id": "751:1010",
        "transaction_data_collection_order_public.orders": 2,
        "lsn_events_processed": 1,
    }
    found = find(at(1010, 900, 751, **more), DELIVERED, FIRST)
    assert found.fields["transaction_id"] is None
    assert found.fields.keys() == {*at(0, 0, 0), "transaction_id"}


def test_several_transactions_are_passed_over_in_the_order_of_their_commits() -> None:
    found = find(at(1010, 900, 751), DELIVERED, FIRST, SECOND, THIRD, count=2)
    assert (list_xids(found), found.fields["lsn"]) == ([752, 753], 1599)
    assert found.transactions[1].operations == {"INSERT": 1, "UPDATE": 1, "DELETE": 1}


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        (at(1010, 900, 751), 752),
        # What the verb prints, and what Debezium commits after a transaction.
        (at(1299, 1299, 752, "COMMIT"), 753),
        (at(1300, 1300, 752, "COMMIT"), 753),
        # A message outside of transactions, and the begin of one.
        (at(1290, 1290, 0, "MESSAGE"), 753),
        (at(1200, 1300, 753, "BEGIN"), 753),
    ],
)
def test_what_was_delivered_does_not_count(offset: dict[str, Any], first: int) -> None:
    found = find(offset, DELIVERED, FIRST, SECOND, THIRD)
    assert list_xids(found) == [first]
    assert found.transactions[0].delivered == 0


def test_the_rest_of_a_transaction_comes_first() -> None:
    found = find(at(1300, 1300, 753, "UPDATE"), FIRST, SECOND, THIRD)
    assert (list_xids(found), found.transactions[0].delivered) == ([753], 2)
    assert any("2 of 3 changes were delivered already" in note for note in found.notes)


def test_changes_of_one_position_may_not_all_have_been_delivered() -> None:
    copied = transaction(752, 1300, 1100, 1100)
    found = find(at(1100, 900, 752), copied, SECOND)
    assert (list_xids(found), found.transactions[0].delivered) == ([752], 1)


def test_transactions_without_a_change_are_no_transactions() -> None:
    found = find(at(1010, 900, 751), DELIVERED, transaction(7, 1090), FIRST)
    assert list_xids(found) == [752]


def test_messages_outside_of_transactions_are_counted() -> None:
    heartbeats = [SlotMessage(position, 0, b"M\0") for position in (1110, 1290)]
    begin, relation, insert, commit = FIRST
    log = [begin, heartbeats[0], relation, insert, commit, heartbeats[1]]
    found = find(at(1010, 900, 751), DELIVERED, log)
    (passed,) = found.transactions
    assert passed.operations == {"INSERT": 1, "MESSAGE outside of transactions": 1}
    assert any("heartbeats" in note for note in found.notes)


def test_the_slot_and_the_publication_are_those_of_the_connector() -> None:
    log = Log(DELIVERED, FIRST)
    find(at(1010, 900, 751), log=log)
    assert log.requests == [("cdc", "dbz", 101)]


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"slot": ReplicationSlot("cdc", "shop", True, 900)}, "its slot cdc is in use"),
        ({"slot": ReplicationSlot("cdc", "shop", False, 950)}, "which its slot cdc has confirmed"),
        ({"slot": ReplicationSlot("cdc", "books", False, 900)}, "is of database books"),
        ({"database": "books"}, "and this source reads books"),
        ({"settings": DatabaseSettings(slot="gone", publication="dbz")}, "gone does not exist"),
        ({"settings": DatabaseSettings(slot="cdc")}, "a config provider has"),
        ({"settings": None}, "a config provider has"),
        ({"count": 4}, "only 3 transactions after its offset"),
        ({"messages_max": 8}, "it was not found within 8 messages of its slot"),
        ({"log": Log(DELIVERED)}, "nothing is after its offset"),
        ({"log": Log(FIRST, SECOND)}, "the transaction 751 of its offset is not in its slot"),
        ({"log": Log([SlotMessage(1000, 751, b"S")])}, "none of pgoutput, version 1, at 0/3E8"),
    ],
)
def test_without_a_certain_answer_there_is_a_reason(changes: dict[str, Any], answer: str) -> None:
    with pytest.raises(RemoteRefusal, match=answer):
        find(at(1010, 900, 751), DELIVERED, FIRST, SECOND, THIRD, **changes)


def test_an_offset_of_a_snapshot_is_refused() -> None:
    with pytest.raises(RemoteRefusal, match="is of a snapshot"):
        find(at(1010, 900, 751, snapshot="INITIAL"), DELIVERED, FIRST)
