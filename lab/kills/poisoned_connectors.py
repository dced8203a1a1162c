"""
Connectors that are given a record which they cannot process, with good ones behind it: a sink, a
source that reads a file, and one that reads a table.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from lab.cluster.connector_configs import Config, file_source
from lab.cluster.lab import Lab
from lab.databases.jdbc_source import SIMPLE_NAME
from lab.databases.server import DEBEZIUM, SHOP, WATCHER
from lab.kills import sample_connectors
from lab.processes.ports import LOOPBACK
from lab.stories import cluster_actions, sinks
from lab.stories.sinks import NOT_JSON, Sink
from lab.waiting import NotYet, until

BEGIN_S_MAX: Final = 120.0
NO_NUMBER: Final = "no number"
_NUMBERS: Final[Config] = {
    "transforms": "cast",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.cast.spec": "int32",
}


class Poisoned(Protocol):
    """A connector that counts what it is given."""

    @property
    def connector(self) -> str:
        """Its name."""

    def begin(self, n: int) -> None:
        """Create it; it has taken its first records when this returns."""

    def grow(self, first: int, n: int) -> None:
        """Give it good records of these numbers."""

    def poison(self) -> tuple[str, int]:
        """Give it a record that it cannot process: its topic in quarantine, and its offset."""

    def end(self) -> int:
        """Position after the last record."""

    def committed(self) -> int | None:
        """Position after the last record that is committed."""

    def came(self) -> set[str]:
        """What came out of it."""

    def meant(self, n: int) -> set[str]:
        """What is to come out of it if so many good records were given."""


@dataclass(frozen=True, slots=True)
class JsonSink:
    """A sink that expects JSON."""

    sink: Sink

    @property
    def connector(self) -> str:
        return self.sink.connector

    def begin(self, n: int) -> None:
        sinks.begin(self.sink, records=n)

    def grow(self, first: int, n: int) -> None:
        texts = [json.dumps({"n": number}) for number in range(first, first + n)]
        cluster_actions.produce_texts(self.sink.lab.east, self.sink.topic, texts)

    def poison(self) -> tuple[str, int]:
        offset = self.end()
        cluster_actions.produce_texts(self.sink.lab.east, self.sink.topic, [NOT_JSON])
        return self.sink.topic, offset

    def end(self) -> int:
        return cluster_actions.bounds(self.sink.lab.east, self.sink.topic)[1]

    def committed(self) -> int | None:
        return self.sink.committed()

    def came(self) -> set[str]:
        return set(self.sink.path.read_text().splitlines())

    def meant(self, n: int) -> set[str]:
        return {f"{{n={number}}}" for number in range(n)}


@dataclass(frozen=True, slots=True)
class NumberSource:
    """A FileStream source whose transform expects numbers."""

    lab: Lab
    name: str

    @property
    def connector(self) -> str:
        return f"{self.name}-source"

    @property
    def path(self) -> Path:
        """The file that it reads."""
        return self.lab.directory / f"{self.name}.in"

    def config(self) -> Config:
        """As it is created."""
        return {
            **file_source(self.path, topic=self.name),
            **_NUMBERS,
        }

    def begin(self, n: int) -> None:
        self.lab.create_topic("east", self.name)
        self.grow(0, n)
        self.lab.create(self.connector, self.config())
        _await_begun(self, n)

    def grow(self, first: int, n: int) -> None:
        with self.path.open("a") as lines:
            lines.writelines(f"{number}\n" for number in range(first, first + n))

    def poison(self) -> tuple[str, int]:
        with self.path.open("a") as lines:
            lines.write(f"{NO_NUMBER}\n")
        return str(self.path), self.end() - 1

    def end(self) -> int:
        return self.path.stat().st_size

    def committed(self) -> int | None:
        pairs = self.lab.offsets(self.connector)
        return next((int(pair["offset"]["position"]) for pair in pairs), None)

    def came(self) -> set[str]:
        return set(sample_connectors.records(self.lab.east, self.name).get(0, []))

    def meant(self, n: int) -> set[str]:
        return {str(number) for number in range(n)}


@dataclass(frozen=True, slots=True)
class RowSource:
    """A source that reads a table of PostgreSQL by its column `id`, and whose transform expects
    numbers.
    """

    lab: Lab
    name: str

    @property
    def connector(self) -> str:
        """See Poisoned."""
        return f"{self.name}-source"

    @property
    def table(self) -> str:
        """With its schema."""
        return f"public.{self.name.replace('-', '_')}"

    @property
    def topic(self) -> str:
        """On east."""
        return self.table.partition(".")[2]

    def config(self) -> Config:
        """As it is created."""
        server = self.lab.postgres
        return {
            "connector.class": SIMPLE_NAME,
            "tasks.max": "1",
            "connection.url": f"jdbc:postgresql://{LOOPBACK}:{server.port}/{SHOP}",
            "connection.user": DEBEZIUM,
            "connection.password": server.password(DEBEZIUM),
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": self.table,
            "topic.prefix": "",
            **_NUMBERS,
        }

    def begin(self, n: int) -> None:
        """See Poisoned."""
        server = self.lab.postgres
        server.query(f"create table {self.table} (id bigserial primary key, note text not null)")
        server.query(f"grant select on {self.table} to {DEBEZIUM}, {WATCHER}")
        self.lab.create_topic("east", self.topic)
        self.grow(0, n)
        self.lab.create(self.connector, self.config())
        _await_begun(self, n)

    def grow(self, first: int, n: int) -> None:
        """See Poisoned."""
        numbers = f"generate_series({first}, {first + n - 1})"
        self.lab.postgres.query(f"insert into {self.table} (note) select {numbers}::text")

    def poison(self) -> tuple[str, int]:
        """See Poisoned."""
        statement = f"insert into {self.table} (note) values ('{NO_NUMBER}') returning id"
        ((number,),) = self.lab.postgres.query(statement)
        return f"{self.table}(id)", int(number)

    def end(self) -> int:
        """See Poisoned."""
        ((number,),) = self.lab.postgres.query(f"select max(id) from {self.table}")
        return int(number)

    def committed(self) -> int | None:
        """See Poisoned."""
        pairs = self.lab.offsets(self.connector)
        return next((int(pair["offset"]["incrementing"]) for pair in pairs), None)

    def came(self) -> set[str]:
        """See Poisoned."""
        return set(sample_connectors.records(self.lab.east, self.topic).get(0, []))

    def meant(self, n: int) -> set[str]:
        """See Poisoned."""
        return {str(number) for number in range(n)}


def _await_begun(poisoned: Poisoned, n: int) -> None:
    """Wait until it has delivered and committed all of its first records."""

    def check() -> None:
        if len(poisoned.came()) < n or poisoned.committed() != poisoned.end():
            raise NotYet(f"{poisoned.committed()} of {poisoned.end()}")

    until(f"{poisoned.connector} has begun", check, timeout_s=BEGIN_S_MAX)
