"""Dialects of connector classes: which field of an offset is a position, its order, its event time.

Keys carry no class name, and connectors of many classes share the SHAPE of a source partition. So a
shape alone is no dialect: `resolve_dialect` decides by the class, and returns `unknown` where the
class is unknown, for all shapes but MirrorMaker's own. Only the class whose dialect it is can have
an offset that fails its task. An order exists only where the connector guarantees it
(offset_order.py); any other two offsets are "changed", never "less".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from offsetwatch.decode import offset_order
from offsetwatch.decode.offset_order import Fields, OrderKey
from offsetwatch.decode.text_limits import TOPIC_CHARS_MAX
from offsetwatch.model.offsets import MirrorPartition, Order, Scalar, SourceKey, SourceOffset
from offsetwatch.model.topology import is_topic_name

_decode_fields = msgspec.json.Decoder(dict[str, str | int | float | bool | None]).decode


@dataclass(frozen=True, slots=True)
class Dialect:
    """Dialect of the offsets of one connector.

    position    field that alone is an ordered integer, or None
    not_with    field beside which `position` has no order of its own
    least       smallest valid value of `position`: the task ignores a smaller one
    fields      all fields that say where the connector is
    order       None where no order is guaranteed but that of `alone`
    time        None where the offset does not say when its last change was made
    longs       fields that the task casts to a long: any other type fails it at its start
    numbers     fields whose numbers are positions: neither counters within a transaction, nor ids,
                times and metadata of transactions; None: unknown, so every number may be one
    """

    name: str
    position: str | None = None
    not_with: str | None = None
    least: int | None = None
    fields: tuple[str, ...] = ()
    order: Callable[[Fields], OrderKey | None] | None = None
    time: Callable[[Fields], float | None] | None = None
    longs: tuple[str, ...] = ()
    numbers: frozenset[str] | None = None

    @property
    def alone(self) -> str:
        """Return the field that alone says where the connector is; "" if none does."""
        return self.position if self.position is not None and len(self.fields) == 1 else ""


MIRROR_SOURCE = Dialect(
    "mirror_source",
    position="offset",
    least=0,
    fields=("offset",),
    longs=("offset",),
)
# Their offset is the constant 0, and no task ever reads it again.
MIRROR_CHECKPOINT = Dialect("mirror_checkpoint")
MIRROR_HEARTBEAT = Dialect("mirror_heartbeat")
FILE_STREAM = Dialect(
    "file_stream",
    position="position",
    fields=("position",),
    longs=("position",),
)
JDBC = Dialect(
    "jdbc",
    position="incrementing",
    not_with="timestamp",
    fields=("timestamp", "timestamp_nanos", "incrementing"),
    order=offset_order.order_jdbc,
    time=offset_order.read_jdbc_time,
    longs=("timestamp", "timestamp_nanos", "incrementing"),
)
# Debezium's relational connectors share `{"server":…}`, and some `{"server":…,"database":…}`.
DEBEZIUM = Dialect("debezium", time=offset_order.read_debezium_time)
DEBEZIUM_MYSQL = Dialect(
    "debezium_mysql",
    fields=("file", "pos", "event", "row", "gtids"),
    order=offset_order.order_mysql,
    time=offset_order.read_debezium_time,
    numbers=frozenset({"pos"}),
)
DEBEZIUM_POSTGRES = Dialect(
    "debezium_postgres",
    fields=("lsn", "lsn_proc", "lsn_commit"),
    order=offset_order.order_postgres,
    time=offset_order.read_debezium_time,
    numbers=frozenset({"lsn", "lsn_proc", "lsn_commit"}),
)
DEBEZIUM_SQLSERVER = Dialect(
    "debezium_sqlserver",
    fields=("commit_lsn", "change_lsn", "event_serial_no"),
    order=offset_order.order_sql_server,
    time=offset_order.read_debezium_time,
    numbers=frozenset(),
)
DEBEZIUM_DB2 = Dialect(
    "debezium_db2",
    fields=("commit_lsn", "change_lsn", "event_serial_no"),
    order=offset_order.order_db2,
    time=offset_order.read_debezium_time,
    numbers=frozenset(),
)
DEBEZIUM_INFORMIX = Dialect(
    "debezium_informix",
    fields=("commit_lsn", "change_lsn", "begin_lsn"),
    order=offset_order.order_informix,
    time=offset_order.read_debezium_time,
    numbers=frozenset(),
)
DEBEZIUM_ORACLE = Dialect(
    "debezium_oracle",
    fields=("scn", "scn_idx", "commit_scn", "lcr_position"),
    order=offset_order.order_oracle,
    time=offset_order.read_debezium_time,
    numbers=frozenset({"scn"}),
)
DEBEZIUM_MONGODB = Dialect(
    "debezium_mongodb",
    fields=("sec", "ord", "resume_token"),
    order=offset_order.order_mongodb,
    time=offset_order.read_mongodb_time,
    numbers=frozenset({"sec", "ord"}),
)
DEBEZIUM_VITESS = Dialect(
    "debezium_vitess",
    fields=("vgtid",),
    order=offset_order.order_vitess,
    time=offset_order.read_debezium_time,
    numbers=frozenset(),
)
GENERIC = Dialect("generic")
# The class is not known, and so is the meaning of its offsets.
UNKNOWN = Dialect("unknown")

DIALECTS = {
    dialect.name: dialect
    for dialect in (
        MIRROR_SOURCE,
        MIRROR_CHECKPOINT,
        MIRROR_HEARTBEAT,
        FILE_STREAM,
        JDBC,
        DEBEZIUM,
        DEBEZIUM_MYSQL,
        DEBEZIUM_POSTGRES,
        DEBEZIUM_SQLSERVER,
        DEBEZIUM_DB2,
        DEBEZIUM_INFORMIX,
        DEBEZIUM_ORACLE,
        DEBEZIUM_MONGODB,
        DEBEZIUM_VITESS,
        GENERIC,
        UNKNOWN,
    )
}

_AHEAD, _BEHIND = Order.AHEAD, Order.BEHIND  # to look a member up takes as long as to compare

_SINGLE_FIELDS = {name: dialect.alone for name, dialect in DIALECTS.items()}

# Source partitions that the names of their fields identify, if every field is text.
_DIALECTS_BY_FIELDS = {
    frozenset({"sourceClusterAlias", "targetClusterAlias"}): MIRROR_HEARTBEAT,
    frozenset({"filename"}): FILE_STREAM,
    frozenset({"table"}): JDBC,
    frozenset({"server"}): DEBEZIUM,
    frozenset({"server", "database"}): DEBEZIUM,
    frozenset({"server", "task_key"}): DEBEZIUM,  # Vitess with `offset.storage.per.task`
    frozenset({"server_id"}): DEBEZIUM_MONGODB,
    frozenset({"server_id", "rs"}): DEBEZIUM_MONGODB,
}
_JDBC_PROTOCOL = "1"

# By `connector.class`. Connect takes simple names as well, with and without their last word
# (_DIALECTS_BY_ALIAS). Every other class has offsets of its own meaning.
DIALECTS_BY_CLASS = {
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": MIRROR_SOURCE,
    "org.apache.kafka.connect.mirror.MirrorCheckpointConnector": MIRROR_CHECKPOINT,
    "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector": MIRROR_HEARTBEAT,
    "org.apache.kafka.connect.file.FileStreamSourceConnector": FILE_STREAM,
    "io.confluent.connect.jdbc.JdbcSourceConnector": JDBC,
    "io.aiven.connect.jdbc.JdbcSourceConnector": JDBC,
    "io.debezium.connector.mysql.MySqlConnector": DEBEZIUM_MYSQL,
    "io.debezium.connector.mariadb.MariaDbConnector": DEBEZIUM_MYSQL,
    "io.debezium.connector.postgresql.PostgresConnector": DEBEZIUM_POSTGRES,
    "io.debezium.connector.sqlserver.SqlServerConnector": DEBEZIUM_SQLSERVER,
    "io.debezium.connector.db2.Db2Connector": DEBEZIUM_DB2,
    "io.debezium.connector.informix.InformixConnector": DEBEZIUM_INFORMIX,
    "io.debezium.connector.oracle.OracleConnector": DEBEZIUM_ORACLE,
    "io.debezium.connector.mongodb.MongoDbConnector": DEBEZIUM_MONGODB,
    "io.debezium.connector.vitess.VitessConnector": DEBEZIUM_VITESS,
}

_DIALECTS_BY_ALIAS = {
    alias: dialect
    for name, dialect in DIALECTS_BY_CLASS.items()
    for simple in [name.rpartition(".")[2]]
    for alias in (name, simple, simple.removesuffix("Connector"))
}
_TABLE_COUNTER = "transaction_data_collection_order_"  # TransactionContext
_MIRROR_DIALECTS = frozenset({MIRROR_SOURCE.name, MIRROR_CHECKPOINT.name, MIRROR_HEARTBEAT.name})


@lru_cache(maxsize=1000)
def resolve_dialect(shape: str, class_name: str) -> str:
    """Return the name of the dialect of partitions of this shape in a connector of this class.

    That is the class's own dialect if it has that shape, else generic. The class "" is unknown, and
    so is then the meaning of its offsets.

    MirrorMaker's shapes have field names and types of their own, and so are enough where the class
    is unknown. Another class with such partitions has offsets of its own meaning.
    """
    class_name = class_name.strip()
    own = _DIALECTS_BY_ALIAS.get(class_name)
    if own is None:
        if class_name:
            return GENERIC.name
        return shape if shape in _MIRROR_DIALECTS else UNKNOWN.name
    flavoured = shape == DEBEZIUM.name and own.name.startswith(f"{DEBEZIUM.name}_")
    return own.name if own.name == shape or flavoured else GENERIC.name


def find_dialect(partition: Fields | None, class_name: str) -> str:
    """Return the name of the dialect of a source partition of a connector of this class."""
    return resolve_dialect(detect_shape(partition).name, class_name)


def list_class_names(dialect: Dialect) -> tuple[str, ...]:
    """Return all names by which Connect takes the classes of a dialect."""
    return tuple(name for name, own in _DIALECTS_BY_ALIAS.items() if own is dialect)


def find_own_dialect(class_name: str) -> str | None:
    """Return the name of the dialect of a connector class; None if the class is not known."""
    own = _DIALECTS_BY_ALIAS.get(class_name.strip())
    return None if own is None else own.name


def is_debezium(dialect: str) -> bool:
    """Check whether a dialect is of one of Debezium's connectors."""
    return dialect == DEBEZIUM.name or dialect.startswith(f"{DEBEZIUM.name}_")


def is_own_dialect(dialect: str, class_name: str) -> bool:
    """Check whether the class is known to be the one with this dialect."""
    return find_own_dialect(class_name) == dialect


def is_foreign_dialect(dialect: str, class_name: str) -> bool:
    """Check whether the class is known and never looks up a partition of this dialect."""
    return find_own_dialect(class_name) not in {None, dialect}


def detect_shape(partition: Fields | None) -> Dialect:
    """Return the dialect whose source partitions have this shape; None is a connector without any.

    The shape alone does not say what the offsets mean (`resolve_dialect`).
    """
    if partition is None:
        return GENERIC
    if parse_mirror_partition(partition) is not None:
        return MIRROR_SOURCE
    if partition.keys() == {"group", "topic", "partition"}:
        named = isinstance(partition["group"], str) and isinstance(partition["topic"], str)
        known = named and _parse_partition_number(partition) is not None
        return MIRROR_CHECKPOINT if known else GENERIC
    if partition.keys() == {"protocol", "table"}:
        known = partition["protocol"] == _JDBC_PROTOCOL and isinstance(partition["table"], str)
        return JDBC if known else GENERIC
    if partition == {"query": "query"}:
        return JDBC
    if not all(isinstance(value, str) for value in partition.values()):
        return GENERIC
    return _DIALECTS_BY_FIELDS.get(frozenset(partition), GENERIC)


def refine_dialect(dialect: str, offset: SourceOffset | None) -> Dialect:
    """Return the dialect of a partition, refined by an offset if the partition leaves it open."""
    refined = DIALECTS[dialect]
    if refined is not DEBEZIUM or offset is None or offset.is_null:
        return refined
    fields = parse_offset_fields(offset)
    if isinstance(fields.get("file"), str) and offset_order.read_long(fields, "pos") is not None:
        return DEBEZIUM_MYSQL
    if offset_order.read_long(fields, "lsn") is not None:
        return DEBEZIUM_POSTGRES
    if offset_order.is_sql_server_lsn(fields.get("commit_lsn")) and "event_serial_no" in fields:
        return DEBEZIUM_SQLSERVER
    if offset_order.is_db2_lsn(fields.get("commit_lsn")):
        return DEBEZIUM_DB2
    if offset_order.parse_decimal(fields.get("scn")) is not None:
        return DEBEZIUM_ORACLE
    return refined


def parse_mirror_partition(partition: Mapping[str, Scalar]) -> MirrorPartition | None:
    """Return the upstream topic-partition of a MirrorSourceConnector key; None for other shapes.

    `0.0` and `"0"` are other partitions to Connect and are never read by MM2, so only a real
    integer counts. A bool is no integer here, although it is one in Python.
    """
    if len(partition) != 3:
        return None
    cluster, topic = partition.get("cluster"), partition.get("topic")
    number = _parse_partition_number(partition)
    if not isinstance(cluster, str) or not isinstance(topic, str) or number is None:
        return None
    if len(cluster) > TOPIC_CHARS_MAX or not is_topic_name(topic):
        return None  # no task reads it
    return MirrorPartition(cluster=cluster, topic=topic, partition=number)


def _parse_partition_number(partition: Mapping[str, Scalar]) -> int | None:
    number = partition.get("partition")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**31:
        return None
    return number


def parse_offset_fields(offset: SourceOffset) -> Fields:
    """Return all fields of an offset with their values and types; none if the offset is null."""
    return {} if offset.is_null else _decode_fields(offset.text)


def select_positions(
    dialect: str, offset: SourceOffset | None
) -> tuple[tuple[str, int | float], ...]:
    """Return the numbers of an offset that are positions in its source.

    No position is negative: Debezium's MongoDB connector writes -1 for one that it does not know.
    Where the class is not known, every number may be one, except what Debezium's connectors count
    of each table in a transaction: the names of tables would become labels.
    """
    if offset is None:
        return ()
    known = DIALECTS[dialect]
    if known.alone:
        return offset.numbers  # of nearly every one
    names = known.numbers
    if names is None:
        return tuple(item for item in offset.numbers if not item[0].startswith(_TABLE_COUNTER))
    return tuple(item for item in offset.numbers if item[0] in names and item[1] >= 0)


def _read_long(field: str, offset: SourceOffset) -> int | None:
    return offset_order.parse_long(offset.number(field))


def read_position(dialect: str, offset: SourceOffset | None) -> int | None:
    """Return the one integer that orders these offsets, or None.

    None without an offset, in a dialect without position, for no integer, for one that Connect
    wraps, and for one that the task does not resume from.
    """
    known = DIALECTS[dialect]
    if known.position is None or offset is None:
        return None
    # Of a single number no JSON is parsed: the offset holds it already.
    fields = dict(offset.numbers) if known.alone else parse_offset_fields(offset)
    return read_position_from_fields(known, fields)


def read_position_from_fields(dialect: Dialect, fields: Fields) -> int | None:
    """Return the position of an offset whose fields are given."""
    if dialect.position is None or dialect.not_with in fields:
        return None
    value = offset_order.read_long(fields, dialect.position)
    return None if value is None or (dialect.least is not None and value < dialect.least) else value


def is_treated_as_absent(dialect: str, offset: SourceOffset | None) -> bool:
    """Check whether a MirrorSourceTask that loads this offset starts as if it had none.

    It does if the offset holds no number, or one below zero (MirrorUtils.unwrapOffset,
    MirrorSourceTask).
    """
    if dialect != MIRROR_SOURCE.name or offset is None:
        return False
    number = offset.number("offset")
    if number is None:
        return parse_offset_fields(offset).get("offset") is None
    return offset_order.parse_long(number) is not None and read_position(dialect, offset) is None


def build_order_key(dialect: str, offset: SourceOffset | None) -> OrderKey | None:
    """Return a key that orders an offset within one dialect; None without a guaranteed order."""
    if offset is None:
        return None
    known = refine_dialect(dialect, offset)
    if known.alone:
        number = _read_long(known.alone, offset)
        return None if number is None else OrderKey((), (number,))
    return None if known.order is None else known.order(parse_offset_fields(offset))


def compare_offsets(dialect: str, before: SourceOffset | None, after: SourceOffset | None) -> Order:
    """Return the order of a source partition's later offset relative to an earlier one.

    `same` means that nothing changed at all. Two equal positions under different offsets are
    `unordered`: something changed, and the connector does not say in which direction.
    """
    if before is None or after is None:
        return Order.SAME if before is after else Order.UNORDERED
    if before.text == after.text:
        return Order.SAME
    alone = _SINGLE_FIELDS[dialect]
    if alone:  # the way of nearly every commit that comes in
        was_at, now_at = _read_long(alone, before), _read_long(alone, after)
        if was_at is None or now_at is None or was_at == now_at:
            return Order.UNORDERED
        return _AHEAD if now_at > was_at else _BEHIND
    if refine_dialect(dialect, before) is not refine_dialect(dialect, after):
        return Order.UNORDERED
    was, now = build_order_key(dialect, before), build_order_key(dialect, after)
    if was is None or now is None:
        return Order.UNORDERED
    return offset_order.compare_order_keys(was, now)


def has_own_order(partition: Fields | None, class_name: str = "") -> bool:
    """Check whether the connector's map may have its fields in another order than a HashMap.

    A single field has one order. MirrorMaker's maps, and those of every class that is known here,
    are HashMaps.
    """
    several = partition is not None and len(partition) > 1
    return several and not has_hash_maps(find_dialect(partition, class_name))


def has_hash_maps(dialect: str) -> bool:
    """Check whether connectors of this dialect are known to write HashMaps as their keys."""
    return dialect not in {GENERIC.name, UNKNOWN.name}


def is_lookup_key(key: SourceKey, class_name: str) -> bool:
    """Check whether a task of a connector of this class may look up the bytes of a key.

    MirrorMaker looks up HashMaps alone; another class may write the same fields in any order.
    """
    in_any_order = key.mirror is None or resolve_dialect(key.dialect, class_name) == GENERIC.name
    return key.canonical or (key.ordered and in_any_order)


def is_measurable(dialect: str, offset: SourceOffset | None) -> bool:
    """Check whether `has_reached_offset` can ever detect that this offset was reached."""
    if offset is None:
        return False
    return build_order_key(dialect, offset) is not None or len(offset.numbers) == 1


def has_reached_offset(
    dialect: str, before: SourceOffset | None, after: SourceOffset | None
) -> bool:
    """Check whether an offset is as far as another.

    Where the dialect has no order, the only number of an offset replaces it.
    """
    order = compare_offsets(dialect, before, after)
    if order is not Order.UNORDERED or before is None or after is None:
        return order is Order.SAME or order is _AHEAD
    numbers = before.numbers
    reached = after.number(numbers[0][0]) if len(numbers) == 1 else None
    return reached is not None and reached >= numbers[0][1]


def read_event_time(dialect: str, offset: SourceOffset | None) -> float | None:
    """Return when the source made the last change of an offset, in Unix seconds.

    None if the offset does not say, or if its time is implausible.
    """
    known = DIALECTS[dialect]
    if known.time is None or offset is None:
        return None
    return read_event_time_from_fields(known, parse_offset_fields(offset))


def read_event_time_from_fields(dialect: Dialect, fields: Fields) -> float | None:
    """Return the event time of an offset whose fields are given.

    The Debezium connector need not be known: those that share a shape of source partition have the
    same time fields.
    """
    return None if dialect.time is None else dialect.time(fields)


def is_poisoned(dialect: str, offset: SourceOffset | None) -> bool:
    """Check whether a task that loads this offset would fail at its start.

    True only where the task's cast is known: a number with a fraction or text where MM2, FileStream
    or JDBC expect a long. False guarantees nothing.
    """
    longs = DIALECTS[dialect].longs
    if offset is None or not longs:
        return False
    if all(isinstance(offset.number(name), int) for name in longs):
        return False
    fields = parse_offset_fields(offset)
    values = [fields[name] for name in longs if fields.get(name) is not None]  # null: not yet
    return any(not isinstance(value, int) or isinstance(value, bool) for value in values)


def describe_offset(
    shape: str, offset: SourceOffset | None, class_name: str = ""
) -> tuple[str, float | None, bool]:
    """Return the `refine_dialect` name, `read_event_time` and `is_poisoned` of an offset.

    The last is True only for the class with this dialect.
    """
    dialect = resolve_dialect(shape, class_name)
    alone = _SINGLE_FIELDS[dialect]
    # The way of nearly every one: a single number has no time, and a long breaks no task.
    if alone and offset is not None and _read_long(alone, offset) is not None:
        return dialect, None, False
    return (
        refine_dialect(dialect, offset).name,
        read_event_time(dialect, offset),
        is_own_dialect(dialect, class_name) and is_poisoned(dialect, offset),
    )
