"""One source, and connectors that read it: what a book passes to SourceEnds, by hand."""

from __future__ import annotations

import json
from dataclasses import replace

from offsetwatch.decode.dialects import DEBEZIUM_MYSQL, DEBEZIUM_POSTGRES, FILE_STREAM, JDBC
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.model.connectors import Connector, ConnectorKind, DatabaseSettings, Task
from offsetwatch.model.observations import (
    SOURCE_END,
    InputSucceeded,
    SourceEndRead,
    build_source_end_input,
)
from offsetwatch.model.source_ends import PostgresqlEnd, ReplicationSlot, SourceEnd, SourceKind
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.snapshot import SourceEndView, SourcePartitionView
from offsetwatch.state.sources.source_ends import SourceEnds, SourceSettings

CLUSTER, CONNECTOR, SOURCE = "prod", "shop", "db"
INTERVAL_S = 10.0
T0 = 1_800_000_000.0

KEYS = {
    SourceKind.POSTGRESQL: (DEBEZIUM_POSTGRES.name, {"server": "shop"}),
    SourceKind.MYSQL: (DEBEZIUM_MYSQL.name, {"server": "shop"}),
    SourceKind.SQL: (JDBC.name, {"protocol": "1", "table": "public.orders"}),
    SourceKind.FILE: (FILE_STREAM.name, {"filename": "/in.txt"}),
}
SETTINGS = DatabaseSettings(
    database="shop",
    slot="dbz",
    user="cdc",
    topic_prefix="shop",
    mode="incrementing",
    incrementing_column="id",
)


def wal(end: int, *, sent: int | None = None, active: bool = True, **fields) -> PostgresqlEnd:
    slot = ReplicationSlot(
        "dbz",
        "shop",
        active=active,
        confirmed_flush=fields.pop("confirmed", 0),
        wal_status=fields.pop("wal_status", None),
        sent=sent,
    )
    slots = {} if fields.pop("gone", False) else {"dbz": slot}
    return PostgresqlEnd(end, slots, **fields)


class World:
    """Reads of one source, one each INTERVAL_S, and the newest offset of one connector."""

    def __init__(
        self,
        kind: SourceKind = SourceKind.POSTGRESQL,
        settings: DatabaseSettings = SETTINGS,
        *,
        columns: frozenset[str] = frozenset(),
    ) -> None:
        self.inputs = Inputs({SOURCE_END: 30.0})
        wants = {CLUSTER: lambda name: name == CONNECTOR}
        self.source = SourceSettings(SOURCE, kind, wants, columns, address="db-1")
        self.ends = SourceEnds([self.source], self.inputs, flush_s=INTERVAL_S)
        self.dialect, self.partition = KEYS[kind]
        self.connector = Connector(
            *(CONNECTOR, ConnectorKind.SOURCE, "", "", "running", (Task(0, "running"),)),
            database=settings,
        )
        self._by_name: dict[str, Connector] = {}
        self.now = T0
        self.partitions: tuple[SourcePartitionView, ...] = ()

    def commit(self, **offset) -> None:
        """Store another offset; `null` where nothing is given."""
        raw = json.dumps(offset).encode() if offset else b"null"
        key = decode_key(json.dumps([CONNECTOR, self.partition]).encode())
        self.partitions = (
            SourcePartitionView(
                connect_cluster=CLUSTER,
                connector=CONNECTOR,
                identity=key.identity,
                label=key.label,
                dialect=self.dialect,
                offset=decode_value(raw),
                kafka_partition=0,
                log_offset=0,
                committed_at=self.now,
                advanced_at=self.now,
                commits=1,
                advances=1,
                rewinds=0,
                resets=0,
                variants=0,
            ),
        )

    def read(self, end: SourceEnd, *, after: float = INTERVAL_S) -> SourceEndView:
        """Read the end `after` that many seconds, and return the view."""
        self.now += after
        self.ends.read(SourceEndRead(SOURCE, end, self.now))
        self.inputs.apply(InputSucceeded(build_source_end_input(SOURCE), self.now))
        return self.view()

    def restart(self, *, address: str = "db-1", document: bytes | None = None) -> None:
        """Go on in another process, with what this one has saved."""
        saved = self.ends.remembered() if document is None else document
        assert saved is not None
        self.source = replace(self.source, address=address)
        self.inputs = Inputs({SOURCE_END: 30.0})
        self.ends = SourceEnds([self.source], self.inputs, flush_s=INTERVAL_S)
        self.ends.recall(saved)

    def view(self) -> SourceEndView:
        """Return the only view."""
        (view,) = self.views()
        return view

    def views(self) -> tuple[SourceEndView, ...]:
        return self.ends.views(self.partitions, self.connectors(), self.now)

    def connectors(self) -> dict[str, dict[str, Connector]]:
        """Return the connectors by Connect cluster and name; the same object for the same list."""
        if self._by_name.get(CONNECTOR) is not self.connector:
            self._by_name = {CONNECTOR: self.connector}
        return {CLUSTER: self._by_name}

    def seconds(self, view: SourceEndView) -> float | None:
        """Return the seconds behind: 0 where nothing waits, None where they are not known."""
        if view.behind_since is not None:
            return self.now - view.behind_since
        return 0.0 if view.caught_up else None
