"""
Changes of a database on their way into a topic: a Debezium connector, its server, and what is read
of both by REST, SQL and plain Kafka clients.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from lab.cluster.connector_configs import (
    MARIADB_SHOP,
    POSTGRES_SHOP,
    debezium_mariadb,
    debezium_postgresql,
    find_slot,
)
from lab.cluster.kafka_client import Cluster
from lab.cluster.lab import Lab
from lab.databases.mariadb import MariadbServer
from lab.databases.postgresql import PostgresqlServer
from lab.databases.server import ORDERS, SHOP, DatabaseServer
from lab.errors import LabError
from lab.stories import cluster_actions
from lab.waiting import NotYet, until

CAPTURED_S_MAX: Final = 90.0
SOURCE_INTERVAL_S: Final = 2.0

_NAMES: Final = {PostgresqlServer: POSTGRES_SHOP, MariadbServer: MARIADB_SHOP}
_SCHEMAS: Final = {PostgresqlServer: "public", MariadbServer: SHOP}
_KINDS: Final = {PostgresqlServer: "postgresql", MariadbServer: "mysql"}


@dataclass(frozen=True, slots=True)
class Capture:
    """A connector that copies table `orders` of a server to a topic on east."""

    lab: Lab
    server: DatabaseServer

    @property
    def connector(self) -> str:
        """The Debezium connector; also its topic prefix."""
        return _NAMES[type(self.server)]

    @property
    def topic(self) -> str:
        """The topic of the table's changes."""
        return f"{self.connector}.{_SCHEMAS[type(self.server)]}.{ORDERS}"

    @property
    def slot(self) -> str:
        """The replication slot, on PostgreSQL."""
        return find_slot(self.connector)

    def begin(self, *, rows: int = 10) -> None:
        """Insert the first rows, create the connector, and wait until it has taken them."""
        self.server.insert(rows)
        match self.server:
            case PostgresqlServer():
                config = debezium_postgresql(self.server)
            case MariadbServer():
                config = debezium_mariadb(self.server, bootstrap=self.lab.east)
            case _:
                raise LabError(f"no connector reads {self.server.name}")
        self.lab.create(self.connector, config)
        self.lab.wait_running(self.connector)
        self.await_rows()

    def records(self) -> int:
        """Return how many records the topic has; 0 while there is none."""
        if Cluster("east", self.lab.east).partitions(self.topic) == 0:
            return 0
        start, end = cluster_actions.bounds(self.lab.east, self.topic)
        return end - start

    def await_rows(self) -> None:
        """Wait until the topic has a record of each row."""
        rows = self.server.count()

        def check() -> None:
            records = self.records()
            if records < rows:
                raise NotYet(f"{records} records of {rows} rows")

        until(f"{self.topic} to have all rows", check, timeout_s=CAPTURED_S_MAX)

    def offset(self) -> dict[str, Any]:
        """Return the stored offset, by REST; empty without one."""
        for entry in self.lab.offsets(self.connector):
            if entry["offset"] is not None:
                return dict(entry["offset"])
        return {}

    def states(self) -> tuple[str, ...]:
        """Return the connector's state and its tasks', by REST."""
        status = self.lab.status(self.connector)
        return (status["connector"]["state"], *(task["state"] for task in status["tasks"]))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process of the server that streams changes to the connector (PostgreSQL)."""
        assert isinstance(self.server, PostgresqlServer)
        with self.server.frozen_walsender(self.slot):
            yield


def captures_of(lab: Lab) -> tuple[Capture, ...]:
    """Return the capture of each database of a lab."""
    return tuple(Capture(lab, server) for server in lab.databases)


def configure_sources(lab: Lab, *, interval_s: float = SOURCE_INTERVAL_S) -> str:
    """Return the section `sources` of a daemon that reads the ends of a lab's databases."""
    sources = [
        {
            "name": server.name,
            "kind": _KINDS[type(server)],
            "dsn_file": os.fspath(server.watcher_file),
            "interval": f"{interval_s:g}s",
            "connectors": [{"connect": "lab", "include": [f"{server.name}-.*"]}],
        }
        for server in lab.databases
    ]
    return f"sources: {json.dumps(sources)}\n"
