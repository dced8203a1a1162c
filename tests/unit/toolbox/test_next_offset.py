"""The offset after the next transaction, from binlogs as MariaDB and MySQL list them."""

from __future__ import annotations

from typing import Any

import pytest

from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.source_ends import BinlogEvent, BinlogFile, MysqlEnd
from offsetwatch.toolbox.next_offset import NextOffset, find_next_offset

# Listed by MariaDB 10.11.19.
MARIADB = [
    ("binlog.000001", 4, "Format_desc", 7, 256, "Server ver: 10.11.19-MariaDB, Binlog ver: 4"),
    ("binlog.000001", 256, "Gtid_list", 7, 285, "[]"),
    ("binlog.000001", 285, "Binlog_checkpoint", 7, 325, "binlog.000001"),
    ("binlog.000001", 325, "Gtid", 7, 1074, "GTID 0-7-4"),
    ("binlog.000001", 872, "Query", 7, 1074, "use `archive`; create table orders (id bigint)"),
    ("binlog.000001", 1074, "Gtid", 7, 1116, "BEGIN GTID 0-7-5"),
    ("binlog.000001", 1116, "Annotate_rows", 7, 1216, "insert into orders (note) values ('x')"),
    ("binlog.000001", 1216, "Table_map", 7, 1299, "table_id: 18 (shop.orders)"),
    ("binlog.000001", 1299, "Write_rows_v1", 7, 1390, "table_id: 18 flags: STMT_END_F"),
    ("binlog.000001", 1390, "Xid", 7, 1421, "COMMIT /* xid=28 */"),
    ("binlog.000001", 1421, "Gtid", 7, 1463, "BEGIN GTID 0-7-6"),
    ("binlog.000001", 1463, "Annotate_rows", 7, 1563, "insert into orders (note) values ('y')"),
    ("binlog.000001", 1563, "Table_map", 7, 1646, "table_id: 18 (shop.orders)"),
    ("binlog.000001", 1646, "Write_rows_v1", 7, 1737, "table_id: 18 flags: STMT_END_F"),
    ("binlog.000001", 1737, "Xid", 7, 1768, "COMMIT /* xid=29 */"),
    ("binlog.000001", 1768, "Gtid", 7, 1810, "GTID 0-7-7"),
    ("binlog.000001", 1810, "Query", 7, 1934, "use `shop`; create table things (id int, t text)"),
    ("binlog.000001", 1934, "Gtid", 7, 2865, "BEGIN GTID 0-7-10"),
    ("binlog.000001", 2865, "Annotate_rows", 7, 2913, "insert into my values (1)"),
    ("binlog.000001", 2913, "Table_map", 7, 2966, "table_id: 23 (shop.my)"),
    ("binlog.000001", 2966, "Write_rows_v1", 7, 3004, "table_id: 23 flags: STMT_END_F"),
    ("binlog.000001", 3004, "Query", 7, 3077, "COMMIT"),
    ("binlog.000001", 3077, "Gtid", 7, 3122, "XA START X'71',X'',1 GTID 0-7-11"),
    ("binlog.000001", 3122, "Annotate_rows", 7, 3178, "insert into things values (9,'x')"),
    ("binlog.000001", 3178, "Table_map", 7, 3245, "table_id: 22 (shop.things)"),
    ("binlog.000001", 3245, "Write_rows_v1", 7, 3286, "table_id: 22 flags: STMT_END_F"),
    ("binlog.000001", 3286, "Query", 7, 3371, "XA END X'71',X'',1"),
    ("binlog.000001", 3371, "XA_prepare", 7, 3408, "XA PREPARE X'71',X'',1"),
    ("binlog.000001", 3408, "Gtid", 7, 3451, "GTID 0-7-12"),
    ("binlog.000001", 3451, "Query", 7, 3539, "XA COMMIT X'71',X'',1"),
    ("binlog.000001", 3539, "Gtid", 7, 3581, "BEGIN GTID 0-7-13"),
    ("binlog.000001", 3581, "Query", 7, 3717, "use `shop`; CREATE TABLE `z` (\n  `id` int(11)\n)"),
    ("binlog.000001", 3717, "Annotate_rows", 7, 3778, "create table z as select * from things"),
    ("binlog.000001", 3778, "Table_map", 7, 3837, "table_id: 24 (shop.z)"),
    ("binlog.000001", 3837, "Write_rows_v1", 7, 3886, "table_id: 24 flags: STMT_END_F"),
    ("binlog.000001", 3886, "Xid", 7, 3917, "COMMIT /* xid=45 */"),
    ("binlog.000001", 3917, "Rotate", 7, 3961, "binlog.000002;pos=4"),
    ("binlog.000002", 4, "Format_desc", 7, 256, "Server ver: 10.11.19-MariaDB, Binlog ver: 4"),
    ("binlog.000002", 256, "Gtid_list", 7, 299, "[0-7-13]"),
    ("binlog.000002", 299, "Binlog_checkpoint", 7, 339, "binlog.000001"),
    ("binlog.000002", 339, "Gtid", 7, 381, "BEGIN GTID 0-7-15"),
    ("binlog.000002", 381, "Annotate_rows", 7, 438, "insert into things values (20,'x')"),
    ("binlog.000002", 438, "Table_map", 7, 505, "table_id: 22 (shop.things)"),
    ("binlog.000002", 505, "Write_rows_v1", 7, 546, "table_id: 22 flags: STMT_END_F"),
    ("binlog.000002", 546, "Xid", 7, 577, "COMMIT /* xid=48 */"),
    ("binlog.000002", 577, "Binlog_checkpoint", 7, 617, "binlog.000002"),
]  # fmt: skip

# Listed by MySQL 8.0.18, and the statement by 8.0.37; positions go on from each other.
UUID = "48c3fa1e-06a6-11ea-a25d-0800275219f4"
OTHER = "e136faa2-eeab-11e9-9494-080027cb3816"
FILE = "mysql-bin.000007"
MYSQL = [
    (FILE, 4, "Format_desc", 330691, 124, "Server ver: 8.0.18, Binlog ver: 4"),
    (FILE, 124, "Previous_gtids", 330691, 231, f"{UUID}:1-100176,\n{OTHER}:14"),
    (FILE, 231, "Gtid", 330691, 306, f"SET @@SESSION.GTID_NEXT= '{UUID}:100177'"),
    (FILE, 306, "Query", 330691, 386, "BEGIN"),
    (FILE, 386, "Table_map", 330691, 440, "table_id: 100 (test_20191101.t1)"),
    (FILE, 440, "Delete_rows", 330691, 480, "table_id: 100 flags: STMT_END_F"),
    (FILE, 480, "Xid", 330691, 507, "COMMIT /* xid=11756220 */"),
    (FILE, 507, "Gtid", 330691, 584, f"SET @@SESSION.GTID_NEXT= '{UUID}:100178'"),
    (FILE, 584, "Query", 330691, 720, "CREATE DATABASE IF NOT EXISTS `superset` /* xid=8893 */"),
]
MYSQL_GTIDS = f"{UUID}:1-100176,{OTHER}:14-14"


class Log:
    """The binlog of a server, which answers as SHOW BINLOG EVENTS does."""

    def __init__(self, rows: list[tuple[Any, ...]], before: str | None = None) -> None:
        self.rows = [BinlogEvent(*row) for row in rows]
        self.before = before
        self.pages = 0

    def read_events(self, file: str, position: int, count_max: int) -> tuple[BinlogEvent, ...]:
        self.pages += 1
        rows = [row for row in self.rows if row.file == file and row.position >= position]
        return tuple(rows[: min(count_max, 7)])

    def read_gtids_before(self, file: str, position: int) -> str | None:
        return self.before

    def end(self, *, mariadb: bool, gtids: str, server_id: int) -> MysqlEnd:
        sizes = {row.file: row.end for row in self.rows}
        logs = tuple(BinlogFile(*size) for size in sizes.items())
        return MysqlEnd(
            mariadb, server_id, gtids, file=logs[-1].name, position=logs[-1].size, logs=logs
        )


def find(
    offset: dict[str, Any], rows: list[Any] | None = None, before: str | None = None, **how: Any
) -> NextOffset:
    mariadb = rows is None
    log = Log(MARIADB if rows is None else rows, before)
    gtids, server_id = ("0-7-15", 7) if mariadb else (f"{UUID}:1-100178,{OTHER}:14", 330691)
    end = log.end(mariadb=mariadb, gtids=gtids, server_id=server_id)
    return find_next_offset(offset, end, log, source="shop", **how)


def at(
    position: int, gtids: str | None, file: str = "binlog.000001", **more: Any
) -> dict[str, Any]:
    gtid_fields = {} if gtids is None else {"gtids": gtids}
    return {"file": file, "pos": position, "server_id": 7, "ts_sec": 9, **gtid_fields, **more}


def test_the_rest_of_a_begun_transaction_is_passed_over() -> None:
    offset = at(1421, "0-7-5", event=3, row=1, transaction_id="0-7-6",
                **{"transaction_data_collection_order_shop.orders": 1})  # fmt: skip
    found = find(offset, before="0-7-5")
    assert found.fields == at(1768, "0-7-6", transaction_id=None)
    (passed,) = found.transactions
    assert (passed.file, passed.start, passed.end, passed.bytes) == (
        "binlog.000001",
        1421,
        1768,
        347,
    )
    assert (passed.gtid, [*passed.tables], passed.statements) == ("0-7-6", ["shop.orders"], [])
    assert passed.events == {"Annotate_rows": 1, "Table_map": 1, "Write_rows_v1": 1, "Xid": 1}
    notes = "\n".join(found.notes)
    assert "3 events and 1 row of the next event were delivered already" in notes
    assert "--transactions 2 passes over the transaction after it as well" in notes
    assert "--start-position=1421 --stop-position=1768 binlog.000001" in notes
    assert "schema history" not in notes


@pytest.mark.parametrize(
    ("position", "gtids", "end", "then", "tables", "statements"),
    [
        (1768, "0-7-6", 1934, "0-7-7", [], ["shop: create table things"]),
        (1934, "0-7-7", 3077, "0-7-10", ["shop.my"], []),  # MyISAM
        (3077, "0-7-10", 3408, "0-7-11", ["shop.things"], []),  # XA
        (3408, "0-7-11", 3539, "0-7-12", [], ["XA COMMIT X'71',X'',1"]),
        (3539, "0-7-12", 3917, "0-7-13", ["shop.z"], ["shop: CREATE TABLE `z`"]),
    ],
)
@pytest.mark.parametrize("has_gtids", [True, False])
def test_each_kind_of_transaction_ends_where_its_commit_ends(
    position: int, gtids: str, end: int, then: str, tables: list[str], statements: list[str],
    *, has_gtids: bool,
) -> None:  # fmt: skip
    found = find(at(position, gtids if has_gtids else None), before=gtids)
    assert found.fields == at(end, then if has_gtids else None)
    (passed,) = found.transactions
    assert ([*passed.tables], passed.statements, passed.gtid) == (tables, statements, then)
    assert ("schema history" in "\n".join(found.notes)) == bool(statements)


def test_the_next_file_follows_the_end_of_one() -> None:
    found = find(at(3917, "0-7-13"), before="0-7-13")
    assert found.fields == at(577, "0-7-15", "binlog.000002")
    assert found.transactions[0].start == 339


def test_several_transactions_are_passed_over_if_requested() -> None:
    found = find(at(1421, "0-7-5"), before="0-7-5", count=3)
    assert found.fields == at(3077, "0-7-10")
    assert [passed.gtid for passed in found.transactions] == ["0-7-6", "0-7-7", "0-7-10"]
    with pytest.raises(RemoteRefusal, match="only 1 transaction after its offset"):
        find(at(3917, "0-7-13"), before="0-7-13", count=2)
    with pytest.raises(RemoteRefusal, match="nothing is after its offset"):
        find(at(577, "0-7-15", "binlog.000002"), before="0-7-15")


def test_with_gtids_the_first_transaction_that_they_lack_counts_and_not_the_position() -> None:
    # After a statement the position is its end, and the GTIDs are still those before it.
    found = find(at(1934, "0-7-6"), before="0-7-7")
    assert found.fields == at(1934, "0-7-7")
    assert found.transactions[0].statements == ["shop: create table things"]


def test_gtids_of_another_server_are_refused() -> None:
    with pytest.raises(RemoteRefusal, match=r"before the binlog file binlog\.000002"):
        find(at(577, "0-7-9", "binlog.000002"), before="0-7-15")


def test_mysql_has_the_gtid_before_the_position() -> None:
    found = find(at(306, MYSQL_GTIDS, FILE, event=2, row=1), MYSQL)
    after = f"{UUID}:1-100177,{OTHER}:14-14"
    assert found.fields == at(507, after, FILE) | {"server_id": 330691}
    (passed,) = found.transactions
    assert (passed.start, passed.gtid) == (231, f"{UUID}:100177")
    assert [*passed.tables] == ["test_20191101.t1"]
    found = find(at(507, after, FILE), MYSQL)
    assert found.fields["gtids"] == f"{UUID}:1-100178,{OTHER}:14-14"
    assert found.fields["pos"] == 720
    assert found.transactions[0].statements == ["CREATE DATABASE IF"]


def test_mysql_without_gtids_goes_on_from_the_position() -> None:
    anonymous = [
        (*row[:2], "Anonymous_Gtid", *row[3:5], "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'")
        if row[2] == "Gtid"
        else row
        for row in MYSQL
    ]
    offset = at(306, None, FILE, event=2, row=1) | {"server_id": 330691}
    found = find(offset, anonymous)
    assert found.fields == at(507, None, FILE) | {"server_id": 330691}
    assert (found.transactions[0].start, found.transactions[0].gtid) == (306, None)
    with pytest.raises(RemoteRefusal, match="has no GTID, and its offset has GTIDs"):
        find(at(306, MYSQL_GTIDS, FILE), anonymous)


def test_a_search_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find(at(1421, "0-7-5"), before="0-7-5", events_max=5).fields["pos"] == 1768
    with pytest.raises(RemoteRefusal, match="not found within 4 events of the binlog"):
        find(at(1421, "0-7-5"), before="0-7-5", events_max=4)
    monkeypatch.setattr("offsetwatch.toolbox.next_offset.BYTES_MAX", 346)
    with pytest.raises(RemoteRefusal, match="not found within 346 bytes of the binlog"):
        find(at(1421, "0-7-5"), before="0-7-5")


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        (at(4, None, snapshot="INITIAL"), "its offset is of a snapshot"),
        (at(1116, None), "no transaction begins with Annotate_rows at binlog.000001:1116"),
        (at(4, "0-7-1", "binlog.000009"), "has no binlog file binlog.000009"),
        (at(4, None, "binlog.000000"), "no longer has its binlog file binlog.000000"),
        (at(4, None) | {"server_id": 8}, "is of server_id 8, and this server is 7"),
        (at(4, f"{UUID}:1-5"), "its GTIDs are not of MariaDB"),
        ({"gtids": "0-7-1"}, "its offset has no binlog file and position"),
    ],
)
def test_what_is_not_certain_is_refused(offset: dict[str, Any], reason: str) -> None:
    with pytest.raises(RemoteRefusal, match=reason):
        find(offset)


def test_a_compressed_transaction_is_refused() -> None:
    rows = [*MYSQL[:3], (FILE, 306, "Transaction_payload", 330691, 507, "compression='ZSTD'")]
    with pytest.raises(RemoteRefusal, match="no transaction begins with Transaction_payload"):
        find(at(306, MYSQL_GTIDS, FILE), rows)


def test_a_transaction_without_an_end_is_none() -> None:
    with pytest.raises(RemoteRefusal, match="nothing is after its offset"):
        find(at(306, MYSQL_GTIDS, FILE), MYSQL[:6])
    with pytest.raises(RemoteRefusal, match="is in the middle of a transaction"):
        find(at(306, MYSQL_GTIDS, FILE), [*MYSQL[:6], *MYSQL[7:]])
