"""Which record counts, what is replicated, what a cut leaves out: on frames of few rows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.history.pipeline.bronze_rows import SCHEMA
from offsetwatch.history.tables.reader import ConnectorClass
from offsetwatch.history.tables.schemas import GOLD_CURSOR, GOLD_PROGRESS
from offsetwatch.model.observations import SourceRecord
from offsetwatch.model.offsets import SourceKey
from offsetwatch.state.connect.source_offsets import SourceBook
from tests.history.rows import (
    OFFSETS_TOPIC,
    OWN_TOPIC,
    ROLES,
    SYNCS_TOPIC,
    Raw,
    at,
    decoded,
    mirror_key,
    offset_key,
    sync_key,
    sync_value,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# Stand-ins in the cases below; each case has a connector of its own, named after it.
CANONICAL, SPACED, PADDED = b"canonical", b"spaced", b"padded"
FLOWS_DDL = (
    "connect_cluster string, connector string, source string, target string, "
    "syncs_kafka string, syncs_topic string"
)


def position(number: int) -> bytes:
    return b'{"position":%d}' % number


def offset(number: int) -> bytes:
    return b'{"offset":%d}' % number


def in_order(*records: Raw) -> list[Raw]:
    """One log: offsets as listed."""
    return [replace(record, offset=location) for location, record in enumerate(records)]


def bronze(spark: SparkSession, *records: Raw, topic_id: str | None = None) -> DataFrame:
    """Records as bronze holds them, all on one cluster."""
    roles = ROLES
    if topic_id is not None:
        roles = {topic: replace(role, topic_id=topic_id) for topic, role in ROLES.items()}
    table = pa.Table.from_pylist(decoded(*records, roles=roles), schema=SCHEMA)
    return spark.createDataFrame(table.append_column("kafka", pa.repeat("east", len(table))))


def topics(spark: SparkSession, *more: tuple[str, str, str]) -> DataFrame:
    """Where the offsets are: everybody's, and (connector, kafka, topic) of those apart."""
    rows = [("payments", None, "east", OFFSETS_TOPIC), *(("payments", *item) for item in more)]
    return spark.createDataFrame(
        rows, "connect_cluster string, connector string, kafka string, topic string"
    )


def classes(spark: SparkSession, known: Mapping[str, str] | None = None) -> DataFrame:
    """The class of each connector."""
    from offsetwatch.history.pipeline import gold

    of_connectors = {("payments", name): class_name for name, class_name in (known or {}).items()}
    return spark.createDataFrame(gold.build_class_rows(of_connectors), gold.CLASSES_DDL)


def part(row: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


# ---- which record counts ------------------------------------------------------------------------

LOGS = {
    "by_offset": in_order(Raw(CANONICAL, position(1), ms=9000), Raw(CANONICAL, position(2), ms=1)),
    "tombstone": in_order(Raw(CANONICAL, position(7)), Raw(CANONICAL, None, ms=5)),
    "undecodable": in_order(Raw(CANONICAL, position(7)), Raw(CANONICAL, b"{")),
    "json_null": in_order(Raw(CANONICAL, position(7)), Raw(CANONICAL, b"null")),
    "variant": in_order(Raw(CANONICAL, position(1)), Raw(SPACED, position(99))),
    "variant_gone": in_order(
        Raw(CANONICAL, position(1)), Raw(SPACED, position(99)), Raw(SPACED, None)
    ),
    "variants_only": in_order(Raw(SPACED, position(9)), Raw(PADDED, position(8))),
    "variants_only_gone": in_order(Raw(SPACED, position(9)), Raw(SPACED, None)),
    "two_homes": [
        Raw(CANONICAL, position(1), partition=3, offset=50, ms=10),
        Raw(CANONICAL, position(2), partition=1, offset=7, ms=600_011),
    ],
    "two_homes_within_skew": [
        Raw(CANONICAL, position(1), partition=3, offset=50, ms=10),
        Raw(CANONICAL, position(2), partition=1, offset=7, ms=600_010),
    ],
    "two_homes_one_erased": [
        Raw(CANONICAL, position(1), partition=3, offset=50, ms=10),
        Raw(CANONICAL, None, partition=1, offset=7, ms=600_010),
    ],
    "two_homes_tied": [
        Raw(CANONICAL, position(2), partition=3, offset=4, ms=10),
        Raw(CANONICAL, position(1), partition=3, offset=5, ms=10),
        Raw(CANONICAL, position(1), partition=1, offset=70, ms=10),
    ],
    "beyond_64_bits": [Raw(CANONICAL, position(2**64))],
    "junk": [Raw(b"junk", position(1)), Raw(None, None)],
}


def file_keys(connector: str) -> dict[bytes | None, bytes]:
    key = offset_key(connector, {"filename": "/in"})
    return {CANONICAL: key, SPACED: key.replace(b",", b", "), PADDED: b" " + key}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """gold/progress of all the logs at once, by connector."""
    from offsetwatch.history.pipeline import gold

    records = [
        replace(record, key=file_keys(name).get(record.key, record.key))
        for name, log in LOGS.items()
        for record in log
    ]
    result = gold.select_progress(
        gold.compute_source_partitions(bronze(spark, *records), topics(spark), classes(spark))
    ).collect()
    built = {row["connector"]: row.asDict() for row in result}
    assert len(built) == len(result)
    return built


def test_the_highest_offset_wins_whatever_the_timestamps_say(rows: dict[str, Any]) -> None:
    assert rows["by_offset"] == {
        "connect_cluster": "payments",
        "connector": "by_offset",
        "source_partition": '{"filename":"/in"}',
        "dialect": "file_stream",
        "source_offset": '{"position":2}',
        "pos": 2,
        "error": None,
        "tombstone": False,
        "variants": 0,
        "key": offset_key("by_offset", {"filename": "/in"}),
        "unsure": False,
        "kafka": "east",
        "topic": OFFSETS_TOPIC,
        "topic_id": "id-1",
        "kpartition": 0,
        "koffset": 1,
        "committed_at": at(1).replace(tzinfo=None),
    }


def test_progress_has_exactly_the_columns_of_the_contract(rows: dict[str, Any]) -> None:
    assert tuple(rows["by_offset"]) == GOLD_PROGRESS.names


def test_a_tombstone_keeps_the_row_and_takes_the_position(rows: dict[str, Any]) -> None:
    row = rows["tombstone"]
    assert part(row, "tombstone", "source_offset", "pos", "koffset") == (True, None, None, 1)
    assert row["committed_at"] == at(5).replace(tzinfo=None)


def test_an_undecodable_newest_value_is_no_position_and_says_why(rows: dict[str, Any]) -> None:
    row = rows["undecodable"]
    assert part(row, "source_offset", "pos", "error") == (None, None, "value_not_json")
    assert row["tombstone"] is False


def test_a_value_of_json_null_is_no_offset_and_no_tombstone(rows: dict[str, Any]) -> None:
    row = rows["json_null"]
    assert part(row, "source_offset", "error", "tombstone") == (None, None, False)


def test_a_variant_moves_nothing_and_is_counted(rows: dict[str, Any]) -> None:
    assert part(rows["variant"], "pos", "variants", "koffset") == (1, 1, 0)


def test_a_variant_that_was_tombstoned_is_not_counted(rows: dict[str, Any]) -> None:
    assert rows["variant_gone"]["variants"] == 0
    assert "variants_only_gone" not in rows


def test_a_partition_known_by_variants_only_has_a_row_without_an_offset(
    rows: dict[str, Any],
) -> None:
    row = rows["variants_only"]
    assert part(row, "variants", "dialect", "tombstone") == (2, "file_stream", False)
    assert part(row, "source_offset", "pos", "kafka", "koffset", "committed_at") == (None,) * 5


LINKED = {"name": "a.csv", "path": "/in"}  # a HashMap has path first


LINKED_TEXT = '{"name":"a.csv","path":"/in"}'


def linked_key(connector: str) -> bytes:
    return b'["%s",{"name":"a.csv","path":"/in"}]' % connector.encode()


@pytest.mark.full
def test_a_key_in_another_order_than_a_hash_maps_moves_its_source_partition(
    spark: SparkSession,
) -> None:
    from offsetwatch.history.pipeline import gold

    linked, hashed = linked_key("pulse"), offset_key("pulse", LINKED)
    assert linked != hashed
    # Further apart than two clocks may be: only then do timestamps order two Kafka partitions.
    alone = [Raw(linked, position(n), partition=1, offset=n, ms=n * 900_000) for n in range(3)]
    altered = [*alone, Raw(hashed, position(0), partition=0, offset=0, ms=2_600_000)]
    gone_on = [*altered, Raw(linked, position(3), partition=1, offset=3, ms=3_400_000)]

    def read(records: list[Raw]) -> tuple[Any, ...]:
        frame = gold.compute_source_partitions(
            bronze(spark, *records), topics(spark), classes(spark)
        )
        (row,) = gold.select_progress(frame).collect()
        return part(row.asDict(), "source_offset", "key", "unsure", "variants")

    assert read(alone) == ('{"position":2}', linked, False, 0)
    assert read(altered) == (None, None, True, 2)
    assert read(gone_on) == ('{"position":3}', linked, False, 1)


def test_a_key_in_two_partitions_goes_by_times_that_are_further_apart_than_clocks(
    rows: dict[str, Any],
) -> None:
    assert part(rows["two_homes"], "pos", "unsure") == (2, False)


@pytest.mark.parametrize("log", ["two_homes_within_skew", "two_homes_one_erased"])
def test_a_key_in_two_partitions_has_no_position_while_clocks_do_not_report_which_is_newer(
    rows: dict[str, Any], log: str
) -> None:
    messages = part(rows[log], "pos", "source_offset", "key", "tombstone", "unsure", "variants")
    assert messages == (None, None, None, False, True, 0)


def test_a_key_in_two_partitions_that_say_the_same_has_that_position(
    rows: dict[str, Any],
) -> None:
    assert part(rows["two_homes_tied"], "pos", "unsure") == (1, False)


def test_a_position_beyond_64_bits_stays_exact_as_text(rows: dict[str, Any]) -> None:
    results = part(rows["beyond_64_bits"], "pos", "source_offset")
    assert results == (None, '{"position":18446744073709551616}')


def test_records_with_undecodable_keys_belong_to_no_connector(rows: dict[str, Any]) -> None:
    assert set(rows) == set(LOGS) - {"junk", "variants_only_gone"}


# ---- cuts ---------------------------------------------------------------------------------------

FILE = offset_key("file", {"filename": "/in"})


def cut_frame(spark: SparkSession, *ends: tuple[str, str, str, int, int]) -> DataFrame:
    return spark.createDataFrame(list(ends), GOLD_CURSOR.ddl())


def test_a_cut_keeps_what_lies_below_it_in_each_partition_it_names(spark: SparkSession) -> None:
    from pyspark.testing import assertDataFrameEqual

    from offsetwatch.history.pipeline import gold

    records = [
        Raw(FILE, position(n), partition=partition, offset=n)
        for partition in (0, 1, 2)
        for n in range(4)
    ]
    cut = cut_frame(
        spark, ("east", OFFSETS_TOPIC, "id-1", 0, 2), ("east", OFFSETS_TOPIC, "id-1", 1, 0)
    )
    whole = bronze(spark, *records)
    assertDataFrameEqual(
        gold.select_before_cut(whole, cut), whole.where("kpartition = 0 and koffset < 2")
    )


def test_a_cut_leaves_out_a_topic_of_the_same_name_that_is_gone(spark: SparkSession) -> None:
    from offsetwatch.history.pipeline import gold

    old = bronze(spark, Raw(FILE, position(1)), topic_id="old")
    cut = cut_frame(spark, ("east", OFFSETS_TOPIC, "id-1", 0, 10))
    assert gold.select_before_cut(old, cut).count() == 0


@pytest.mark.full
@pytest.mark.parametrize(("end", "expected"), [(1, (1, False)), (2, (None, True)), (3, (3, False))])
def test_as_of_a_cut_the_newest_record_below_it_counts(
    spark: SparkSession, end: int, expected: tuple[int | None, bool]
) -> None:
    from offsetwatch.history.pipeline import gold

    log = in_order(Raw(FILE, position(1)), Raw(FILE, None), Raw(FILE, position(3)))
    cut = cut_frame(spark, ("east", OFFSETS_TOPIC, "id-1", 0, end))
    (row,) = gold.compute_source_partitions(
        gold.select_before_cut(bronze(spark, *log), cut), topics(spark), classes(spark)
    ).collect()
    assert (row["pos"], row["tombstone"]) == expected


# ---- topics of their own -------------------------------------------------------------------------


@pytest.mark.full
def test_of_a_connector_with_a_topic_of_its_own_only_that_topic_counts(
    spark: SparkSession,
) -> None:
    from offsetwatch.history.pipeline import gold

    def commit(connector: str, file: str, number: int | None, topic: str, location: int) -> Raw:
        value = None if number is None else position(number)
        return Raw(
            offset_key(connector, {"filename": file}), value, topic, offset=location, ms=location
        )

    records = [
        commit("moved", "/left", 40, OFFSETS_TOPIC, 0),
        commit("moved", "/both", 9, OFFSETS_TOPIC, 1),
        commit("moved", "/reset", 5, OFFSETS_TOPIC, 2),
        commit("moved", "/reset", None, OFFSETS_TOPIC, 3),
        commit("moved", "/both", 3, OWN_TOPIC, 0),
        commit("moved", "/new", 1, OWN_TOPIC, 1),
        commit("stayed", "/mine", 7, OFFSETS_TOPIC, 4),
        commit("stayed", "/mine", 70, OWN_TOPIC, 2),
        commit("stayed", "/foreign", 8, OWN_TOPIC, 3),
        commit("away", "/far", 8, OFFSETS_TOPIC, 5),
    ]
    where = topics(spark, ("moved", "east", OWN_TOPIC), ("away", "", ""))
    result = gold.select_progress(
        gold.compute_source_partitions(bronze(spark, *records), where, classes(spark))
    ).collect()
    assert {(row["connector"], row["source_partition"]): row["pos"] for row in result} == {
        ("moved", '{"filename":"/left"}'): None,
        ("moved", '{"filename":"/both"}'): 3,
        ("moved", '{"filename":"/new"}'): 1,
        ("stayed", '{"filename":"/mine"}'): 7,
    }
    (remaining,) = [row for row in result if row["source_partition"] == '{"filename":"/left"}']
    assert part(
        remaining.asDict(), "source_offset", "tombstone", "variants", "topic", "koffset"
    ) == (
        None,
        False,
        0,
        None,
        None,
    )


# ---- flows --------------------------------------------------------------------------------------

NEVER: dict[str, bytes | None] = {
    "reset": None,
    "undecodable": b"{",
    "json_null": b"null",
    "no_number": b'{"offset":"7"}',
    "beyond_64_bits": offset(2**63),
}


def flow(connector: str, target: str = "east", syncs: str | None = SYNCS_TOPIC) -> tuple[Any, ...]:
    return ("payments", connector, "west", target, None if syncs is None else "east", syncs)


def sync(topic: str, upstream: int, downstream: int, *, location: int, ms: int) -> Raw:
    value = sync_value(upstream, downstream)
    return Raw(sync_key(topic, 0), value, SYNCS_TOPIC, offset=location, ms=ms)


@pytest.fixture(scope="module")
def flows(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """gold/flow_progress of all the cases at once, by connector."""
    from offsetwatch.history.pipeline import gold

    def commit(connector: str, value: bytes | None, alias: str = "west", **more: int) -> Raw:
        return Raw(mirror_key(connector, alias, "orders", 0), value, **more)

    unordered = b'["variant",{"cluster":"west","topic":"orders","partition":0}]'
    records = [
        commit("joined", offset(10), ms=1000),
        sync("orders", 8, 80, location=0, ms=1001),
        sync("orders", 12, 120, location=1, ms=1000),
        Raw(sync_key("orders", 0), b"short", SYNCS_TOPIC, offset=2, ms=2000),
        sync("payments", 99, 99, location=3, ms=3000),
        Raw(mirror_key("shared", "west", "ledger", 0), offset(11), ms=1000),
        Raw(mirror_key("sharing", "west", "ledger", 0), offset(3), ms=1000),
        sync("ledger", 12, 120, location=4, ms=1000),
        commit("no_syncs", offset(1)),
        commit("other_alias", offset(1), "elsewhere"),
        commit("no_flow", offset(1)),
        Raw(offset_key("no_mirror", {"filename": "/in"}), position(1)),
        Raw(unordered, offset(1)),
        *(commit(name, offset(1), offset=0) for name in NEVER),
        *(commit(name, value, offset=1) for name, value in NEVER.items()),
    ]
    frame = spark.createDataFrame(
        [
            flow("joined"),
            flow("shared", target="backup"),
            flow("sharing", target="backup"),
            flow("no_syncs", syncs=None),
            *(flow(name) for name in ("other_alias", "no_mirror", "variant", *NEVER)),
        ],
        FLOWS_DDL,
    )
    observed = bronze(spark, *records)
    progress = gold.compute_flow_progress(
        gold.compute_source_partitions(observed, topics(spark), classes(spark)),
        gold.select_newest_syncs(observed),
        frame,
    )
    return {row["connector"]: row.asDict() for row in progress.collect()}


def test_a_flow_joins_its_commit_with_the_newest_sync_that_can_be_decoded(
    flows: dict[str, Any],
) -> None:
    assert flows["joined"] == {
        "connect_cluster": "payments",
        "connector": "joined",
        "source": "west",
        "target": "east",
        "topic": "orders",
        "partition": 0,
        "committed": 10,
        "committed_at": at(1000).replace(tzinfo=None),
        "synced": 12,
        "synced_at": at(1000).replace(tzinfo=None),
        "downstream": 120,
        "replicated": 10,
    }


def test_flows_that_share_a_partition_and_a_syncs_topic_have_their_commits_and_no_syncs(
    flows: dict[str, Any],
) -> None:
    names = ("target", "committed", "synced", "synced_at", "downstream", "replicated")
    assert part(flows["shared"], *names) == ("backup", 11, None, None, None, 11)
    assert part(flows["sharing"], *names) == ("backup", 3, None, None, None, 3)


def test_a_flow_without_syncs_has_its_commits(flows: dict[str, Any]) -> None:
    results = part(
        flows["no_syncs"], "committed", "synced", "synced_at", "downstream", "replicated"
    )
    assert results == (1, None, None, None, 1)


def test_only_entries_that_a_task_of_the_flow_would_look_up_are_of_the_flow(
    flows: dict[str, Any],
) -> None:
    assert not {"other_alias", "no_flow", "no_mirror", "variant"} & set(flows)


@pytest.mark.parametrize("name", NEVER)
def test_without_a_committed_offset_there_is_no_row_whatever_the_syncs_say(
    flows: dict[str, Any], name: str
) -> None:
    assert name not in flows


# ---- MirrorMaker's fields in any order -----------------------------------------------------------

REPLICATOR = "org.example.Replicator"
MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CLASSES = ("", REPLICATOR, MIRROR_MAKER, "MirrorSource")
UNORDERED_TEXT = '{"cluster":"west","partition":1,"topic":"orders"}'
_FIELDS = {"cluster": '"west"', "partition": "1", "topic": '"orders"'}


def ordered_key(connector: str, names: tuple[str, ...]) -> bytes:
    fields = ",".join(f'"{name}":{_FIELDS[name]}' for name in names)
    return f'["{connector}",{{{fields}}}]'.encode()


@pytest.mark.full
def test_the_fields_of_a_mirror_in_any_order_are_looked_up_by_other_classes_alone(
    spark: SparkSession,
) -> None:
    """A LinkedHashMap, a TreeMap and a Map.of have orders of their own."""
    from offsetwatch.history.pipeline import gold

    orders = tuple(itertools.permutations(_FIELDS))
    of_class, records = {}, []
    for (number, class_name), (place, names) in itertools.product(
        enumerate(CLASSES), enumerate(orders)
    ):
        connector = f"connector-{number}-{place}"
        records += [
            Raw(ordered_key(connector, names), offset(moved), offset=10 * number + moved, ms=moved)
            for moved in range(2)
        ]
        if class_name:
            of_class[connector] = class_name
    rows = gold.compute_source_partitions(
        bronze(spark, *records), topics(spark), classes(spark, of_class)
    ).collect()
    results = {row["connector"]: part(row.asDict(), "source_offset", "variants") for row in rows}
    connectors = frozenset(results)
    assert connectors == {f"connector-{n}-{m}" for n in range(4) for m in range(6)}
    assert results == {
        name: (text, variants)
        for (name, _), (text, variants, *_) in edge_view(records, connectors, of_class).items()
    }
    assert [
        sum(results[f"connector-{number}-{place}"] == ('{"offset":1}', 0) for place in range(6))
        for number in range(4)
    ] == [1, 6, 1, 1]


def test_the_class_of_a_connector_is_kept_with_when_it_replaced_another() -> None:
    from offsetwatch.history.pipeline.gold import merge_classes

    one = merge_classes((), {("payments", "b"): REPLICATOR, ("payments", "a"): MIRROR_MAKER}, 10.0)
    assert one == (
        ConnectorClass("payments", "a", MIRROR_MAKER, None),
        ConnectorClass("payments", "b", REPLICATOR, None),
    )
    two = merge_classes(one, {("payments", "a"): REPLICATOR}, 20.0)
    assert two == (ConnectorClass("payments", "a", REPLICATOR, 20.0), one[1])
    assert merge_classes(two, {("payments", "a"): REPLICATOR}, 30.0) == two


# ---- the edge ------------------------------------------------------------------------------------


def edge_view(
    records: list[Raw], connectors: frozenset[str], of_class: Mapping[str, str]
) -> dict[Any, tuple[object, ...]]:
    """What the daemon's book makes of the same records."""
    book = SourceBook("payments", 1000)
    book.classify(of_class)
    newest: dict[tuple[bytes | None, int], Raw] = {}
    for record in sorted(records, key=lambda record: record.offset):
        newest[record.key, record.partition] = record
    observed = [
        SourceRecord(
            key=key,
            raw_key=record.key or b"",
            offset=decode_value(record.value),
            partition=record.partition,
            log_offset=record.offset,
            at=record.ms / 1000,
            advanced_at=None,
            live=False,
        )
        # As a tail reads what was there before it: one partition after the other, and of each key
        # in each partition the newest. Where there are several raw keys, all tell of their order.
        for record in sorted(records, key=lambda record: (record.partition, record.offset))
        if isinstance(key := decode_key(record.key), SourceKey)
        and (
            key.identity in {LINKED_TEXT, UNORDERED_TEXT}
            or newest[record.key, record.partition] is record
        )
    ]
    book.apply(tuple(observed), 0.0)
    return {
        (view.connector, view.identity): (
            None if view.offset is None else view.offset.text,
            view.variants,
            view.kafka_partition,
            view.log_offset,
        )
        for view in book.views(connectors)
        # Where only variants were ever written and all are tombstoned, the edge goes on showing a
        # forgotten partition; gold has no record left to show.
        if view.log_offset is not None or view.variants
    }


def random_log(rng: random.Random, connector: str) -> list[Raw]:
    """Records of one connector; as in Kafka, the bytes of a key decide its partition."""
    file = file_keys(connector)
    mirrors = [mirror_key(connector, "west", "orders", n) for n in range(3)]
    unordered = b'["%s",{"topic":"orders","cluster":"west","partition":1}]' % connector.encode()
    spellings = [linked_key(connector), offset_key(connector, LINKED)]
    others = (*mirrors, unordered, *spellings, b"junk", None)
    homes = {key: (rng.randrange(3),) for key in (*file.values(), *others)}
    homes[mirrors[0]] = (0, 2)  # the number of partitions was changed
    values = [None, b"{", b"null", b"", b"{}", *(position(n) for n in range(3)), offset(2**70)]
    ends = dict.fromkeys(range(3), 0)
    log = []
    for number in range(100):
        key = rng.choice(list(homes))
        home = rng.choice(homes[key])
        ends[home] += rng.randint(1, 3)  # offsets have holes: compaction, transaction markers
        # Of several raw keys that a task may look up, the stamps tell which was written last.
        ms = number * 30_000 if key in spellings else rng.randrange(10**6)
        log.append(Raw(key, rng.choice(values), partition=home, offset=ends[home], ms=ms))
    return log


def test_gold_agrees_with_the_edge_on_any_log(spark: SparkSession) -> None:
    from offsetwatch.history.pipeline import gold

    rng = random.Random(20261121)
    connectors = [f"connector-{n}" for n in range(20)]
    of_class = {
        name: class_name
        for name, class_name in zip(connectors, itertools.cycle(CLASSES), strict=False)
        if class_name
    }
    records = [record for name in connectors for record in random_log(rng, name)]
    rows = gold.select_progress(
        gold.compute_source_partitions(
            bronze(spark, *records), topics(spark), classes(spark, of_class)
        )
    ).collect()
    results = {
        (row["connector"], row["source_partition"]): part(
            row.asDict(), "source_offset", "variants", "kpartition", "koffset"
        )
        for row in rows
    }
    observed = edge_view(records, frozenset(connectors), of_class)
    several = {
        (name, identity)
        for name, identity in observed
        if identity == LINKED_TEXT
        or (identity == UNORDERED_TEXT and of_class.get(name) == REPLICATOR)
    }
    assert {where: item for where, item in results.items() if where not in several} == {
        where: item for where, item in observed.items() if where not in several
    }
    # A daemon that starts remembers only the newest record under a raw key, gold a few: it may be
    # sure where the daemon is not, and never knows another offset.
    assert several <= results.keys()
    known = {where for where in several if observed[where][0] is not None}
    assert len(known) > len(several) / 3
    assert {where: results[where][0] for where in known} == {
        where: observed[where][0] for where in known
    }
