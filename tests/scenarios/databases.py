"""Databases in virtual time: what Debezium reads of them, and the ends that they report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from offsetwatch.errors import TargetUnreachable
from offsetwatch.model.source_ends import (
    BinlogFile,
    BinlogReader,
    MysqlEnd,
    PostgresqlEnd,
    ReplicationSlot,
    SourceEnd,
    SourceEndRequest,
)
from tests.scenarios.connect import Source

CHANGE_BYTES = 100  # of WAL or binlog, for each change
SLOT, USER, BINLOG = "debezium", "dbz", "bin.000001"


@dataclass
class Database:
    """A PostgreSQL server, or one of MariaDB (kind mysql), and its only connector.

    captured, others    changes in a second that the connector captures, and that it does not
    rights    its end shows how much the connector was sent
    frozen    it sends nothing to the connector any more, and the connection stays open
    down      it answers nobody; `hidden`: it does not answer us
    number    changes so far; `last` of them was captured
    sent      so many were sent to the connector; None: it is not connected
    """

    name: str
    kind: str
    captured: Callable[[float], float]
    others: Callable[[float], float]
    rights: bool = True
    frozen: bool = False
    down: bool = False
    hidden: bool = False
    system_id: str = "1"
    wal_status: str = "reserved"
    has_slot: bool = True
    number: int = 1000
    last: int = 1000
    sent: int | None = None
    confirmed: int = 1000
    _owed: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def live(self, now: float, elapsed_s: float) -> None:
        if self.down:
            self.sent = None
            return
        for index, load in enumerate((self.others, self.captured)):
            self._owed[index] += load(now) * elapsed_s
            changes = int(self._owed[index])
            self._owed[index] -= changes
            self.number += changes
            if changes and load is self.captured:
                self.last = self.number

    def read(self, request: SourceEndRequest) -> SourceEnd:
        """Return its end, as a client of it would read it."""
        if self.down or self.hidden:
            raise TargetUnreachable(self.name, "connection refused")
        if self.kind == "mysql":
            return self._read_binlog()
        shown = self.sent if self.rights else None
        slot = ReplicationSlot(
            SLOT,
            "shop",
            active=self.sent is not None,
            confirmed_flush=self.confirmed * CHANGE_BYTES,
            restart=self.confirmed * CHANGE_BYTES,
            wal_status=self.wal_status,
            sent=None if shown is None else shown * CHANGE_BYTES,
        )
        return PostgresqlEnd(
            wal_end=self.number * CHANGE_BYTES,
            slots={SLOT: slot} if self.has_slot else {},
            system_id=self.system_id,
            timeline=1,
            database="shop",
        )

    def _read_binlog(self) -> MysqlEnd:
        end = self.number * CHANGE_BYTES
        readers = (BinlogReader(USER, "worker-1", sent_all=self.sent == self.number),)
        return MysqlEnd(
            mariadb=True,
            server_id=1,
            gtids=f"0-1-{self.number}",
            file=BINLOG,
            position=end,
            logs=(BinlogFile(BINLOG, end),),
            readers=None if not self.rights else () if self.sent is None else readers,
        )

    def close(self) -> None:
        """As a client that reads it has it."""


@dataclass
class Debezium(Source):
    """A connector of Debezium; `at` and `committed` count changes of its database.

    snapshot_s      how long its initial snapshot takes
    disconnected    it runs, and does not connect
    """

    database: Database = field(kw_only=True)
    snapshot_s: float = 0.0
    disconnected: bool = False
    _begun: float | None = None
    _in_snapshot: bool = False

    @property
    def config(self) -> dict[str, str]:
        return {
            "connector.class": self.class_name,
            "name": self.name,
            "topic.prefix": self.partition["server"],
            "database.user": USER,
            "database.dbname": "shop",
            "slot.name": SLOT,
        }

    def stored(self) -> int | None:
        found = (self.site.last_offset(self.name, self.key) or {}).get(self._position_field)
        return None if found is None else int(found) // CHANGE_BYTES

    @property
    def _position_field(self) -> str:
        return "pos" if self.database.kind == "mysql" else "lsn"

    def offset_of(self, index: int) -> dict[str, Any]:
        position = index * CHANGE_BYTES
        if self.database.kind == "mysql":
            offset: dict[str, Any] = {"file": BINLOG, "pos": position, "gtids": f"0-1-{index}"}
        else:
            offset = {"lsn": position, "lsn_commit": position, "txId": 7}
        if self._in_snapshot:
            offset |= {"snapshot": "INITIAL", "snapshot_completed": False}
        return offset

    def live(self, now: float, elapsed_s: float) -> None:
        super().live(now, elapsed_s)
        if not self.works or self.disconnected:
            self.database.sent = None

    def work(self, now: float, elapsed_s: float) -> None:
        database = self.database
        if database.down or self.disconnected:
            return
        self._begun = now if self._begun is None else self._begun
        self._in_snapshot = now - self._begun < self.snapshot_s
        if self.at is None:
            self.at = database.last
        if self._in_snapshot:
            return
        if database.sent is None:
            database.sent = self.at
        if not database.frozen:
            database.sent = database.number
            self.at = max(self.at, database.last)

    def commit(self, index: int, now: float) -> None:
        super().commit(index, now)
        if not self._in_snapshot:
            self.database.confirmed = max(self.database.confirmed, index)
