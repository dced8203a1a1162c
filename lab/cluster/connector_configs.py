"""Configurations of the standard connectors: pure functions, one per connector."""

from collections.abc import Mapping
from pathlib import Path

from lab.databases.mariadb import MariadbServer
from lab.databases.postgresql import PUBLICATION, PostgresqlServer
from lab.databases.server import DEBEZIUM, ORDERS, SHOP, DatabaseServer
from lab.processes.ports import LOOPBACK

Config = Mapping[str, str]

FILE_SOURCE = "file-source"
FILE_SINK = "file-sink"
MM2_SOURCE = "mm2-source"
MM2_CHECKPOINT = "mm2-checkpoint"
MM2_HEARTBEAT = "mm2-heartbeat"

LINES_TOPIC = "lines"

# Of a standalone worker, whose connectors are files beside its own.
SOLO_SOURCE = "solo-source"
SOLO_SINK = "solo-sink"
SOLO_TOPIC = "solo-lines"

# Debezium's, of a lab with databases; also their topic prefixes.
POSTGRES_SHOP = "postgres-shop"
MARIADB_SHOP = "mariadb-shop"
MM2_TOPICS = "orders.*|payments.*"
UPSTREAM = "west"
DOWNSTREAM = "east"

# Seconds where MirrorMaker's defaults are minutes: a test must see the next refresh or checkpoint.
MM2_INTERVALS: Config = {
    "refresh.topics.interval.seconds": "5",
    "refresh.groups.interval.seconds": "5",
    "sync.topic.configs.interval.seconds": "5",
    "emit.checkpoints.interval.seconds": "5",
    "emit.heartbeats.interval.seconds": "1",
    # Without an authorizer listing ACLs can only fail, and with one nobody asked for the copies.
    "sync.topic.acls.enabled": "false",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
}

_MIRROR = "org.apache.kafka.connect.mirror"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def standard(*, lines: Path, sink: Path, upstream: str, downstream: str) -> dict[str, Config]:
    """The connectors every lab begins with, by name."""
    return {
        FILE_SOURCE: file_source(lines),
        FILE_SINK: file_sink(sink),
        MM2_SOURCE: mm2_source(upstream=upstream, downstream=downstream),
        MM2_CHECKPOINT: mm2_checkpoint(upstream=upstream, downstream=downstream),
        MM2_HEARTBEAT: mm2_heartbeat(upstream=upstream, downstream=downstream),
    }


def solo(*, lines: Path, sink: Path) -> dict[str, Config]:
    """The connectors of a standalone worker, by name, which is also a setting of theirs."""
    return {
        SOLO_SOURCE: {"name": SOLO_SOURCE, **file_source(lines, topic=SOLO_TOPIC)},
        SOLO_SINK: {"name": SOLO_SINK, **file_sink(sink, topic=SOLO_TOPIC)},
    }


def file_source(file: Path, *, topic: str = LINES_TOPIC) -> Config:
    """Lines appended to the file become records; the offset is a position in bytes."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
    }


def file_sink(file: Path, *, topic: str = LINES_TOPIC) -> Config:
    """Records become lines of the file; the offsets are those of group connect-<name>."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "file": str(file),
        "topics": topic,
    }


def failing_sink(file: Path) -> Config:
    """One that finds no record to be what it expects, as lines are no JSON: its task fails each
    time that it is started.
    """
    return {
        **file_sink(file),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }


def mm2_source(*, upstream: str, downstream: str, topics: str = MM2_TOPICS) -> Config:
    """Copies topics from west to `west.<topic>` on east; offset-syncs stay on west, the default."""
    return {
        **_mirror("MirrorSourceConnector", upstream=upstream, downstream=downstream),
        "topics": topics,
        "tasks.max": "2",
        "replication.factor": "1",
    }


def mm2_checkpoint(*, upstream: str, downstream: str, topics: str = MM2_TOPICS) -> Config:
    """Translates west's group offsets; has no task while west has no group that reads `topics`."""
    return {
        **_mirror("MirrorCheckpointConnector", upstream=upstream, downstream=downstream),
        "topics": topics,
        "groups": ".*",
        "tasks.max": "1",
    }


def mm2_heartbeat(*, upstream: str, downstream: str) -> Config:
    """
    Writes one record a second to `heartbeats` on east, where its worker produces.

    Such a heartbeat never passes through west->east itself. For a pulse that does, create a second
    one with `producer.override.bootstrap.servers` set to west.
    """
    return {
        **_mirror("MirrorHeartbeatConnector", upstream=upstream, downstream=downstream),
        "tasks.max": "1",
    }


def debezium_postgresql(server: PostgresqlServer, name: str = POSTGRES_SHOP) -> Config:
    """Changes of `orders` become records of topic `<name>.public.orders`; see find_slot()."""
    return {
        **_debezium("postgresql.PostgresConnector", server, name),
        "database.dbname": SHOP,
        "plugin.name": "pgoutput",
        "slot.name": find_slot(name),
        "publication.name": PUBLICATION,
        # It owns no table, so it may create no publication.
        "publication.autocreate.mode": "disabled",
        "table.include.list": f"public.{ORDERS}",
    }


def find_slot(connector: str) -> str:
    """Return the name of a PostgreSQL connector's replication slot."""
    return connector.replace("-", "_")


def debezium_mariadb(
    server: MariadbServer, *, bootstrap: str, name: str = MARIADB_SHOP, server_id: int = 5001
) -> Config:
    """Changes of `orders` become records of topic `<name>.shop.orders`. Its history of schemas is
    topic `<name>-schemas` of this cluster. A server refuses a second reader of the same id.
    """
    history = "schema.history.internal"
    return {
        **_debezium("mariadb.MariaDbConnector", server, name),
        "database.server.id": str(server_id),
        "database.include.list": SHOP,
        "table.include.list": f"{SHOP}.{ORDERS}",
        f"{history}.kafka.bootstrap.servers": bootstrap,
        f"{history}.kafka.topic": f"{name}-schemas",
    }


def debezium_jdbc_sink(server: PostgresqlServer, *, topic: str, table: str) -> Config:
    """Records of a topic, JSON with its schema, become rows of a table that is there already."""
    json = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "connection.url": f"jdbc:postgresql://{LOOPBACK}:{server.port}/{SHOP}",
        "connection.username": DEBEZIUM,
        "connection.password": server.password(DEBEZIUM),
        "collection.name.format": table,
        "insert.mode": "insert",
        "primary.key.mode": "none",
        "schema.evolution": "none",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": json,
        "value.converter.schemas.enable": "true",
    }


def _debezium(kind: str, server: DatabaseServer, name: str) -> Config:
    json = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "connector.class": f"io.debezium.connector.{kind}",
        "tasks.max": "1",
        "topic.prefix": name,
        "database.hostname": LOOPBACK,
        "database.port": str(server.port),
        "database.user": DEBEZIUM,
        "database.password": server.password(DEBEZIUM),
        # Ten seconds by default, between tries to connect again.
        "errors.max.retries": "-1",
        "retriable.restart.connector.wait.ms": "1000",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "key.converter": json,
        "key.converter.schemas.enable": "false",
        "value.converter": json,
        "value.converter.schemas.enable": "false",
    }


def _mirror(kind: str, *, upstream: str, downstream: str) -> Config:
    return {
        "connector.class": f"{_MIRROR}.{kind}",
        "source.cluster.alias": UPSTREAM,
        "target.cluster.alias": DOWNSTREAM,
        "source.cluster.bootstrap.servers": upstream,
        "target.cluster.bootstrap.servers": downstream,
        # Bytes through, unread: any other converter would change or refuse what it copies.
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        **MM2_INTERVALS,
    }
