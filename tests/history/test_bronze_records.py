"""What the vectorised decoding makes of a record is what the scalar decoders say, for any bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetwatch.decode.dialects import read_event_time, read_position, resolve_dialect
from offsetwatch.decode.mirror_maker import decode_sync_key, decode_sync_value
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.decode.topic_records import decode_record, format_record
from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline import bronze_rows
from offsetwatch.history.pipeline.bronze_rows import (
    SCHEMA,
    RecordedTopic,
    decode_batches,
    resolve_recorded_topics,
)
from offsetwatch.history.tables.schemas import (
    CHECKPOINTS,
    CONFIGS,
    CONNECT_OFFSETS,
    HEARTBEATS,
    OFFSET_SYNCS,
    RECORD,
    STATUS,
)
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, OffsetsTopic, TopicKind, Topology
from tests.history.rows import (
    OBSERVED_ROLES,
    OFFSETS_TOPIC,
    ROLES,
    SYNCS_TOPIC,
    Raw,
    at,
    decoded,
    golden,
    mirror_key,
    offset_key,
    raw_batch,
    sync_key,
    sync_value,
)

GOLDEN_FILES = {
    "east.connect-offsets.json": RecordedTopic(CONNECT_OFFSETS, "payments", "id"),
    "east.mm2-offsets.a.internal.json": RecordedTopic(CONNECT_OFFSETS, "mm2", "id"),
    "west.mm2-offset-syncs.east.internal.json": RecordedTopic(OFFSET_SYNCS, None, "id"),
    "east.west.checkpoints.internal.json": RecordedTopic(CHECKPOINTS, None, "id"),
    "east.heartbeats.json": RecordedTopic(HEARTBEATS, None, "id"),
    "east.a.heartbeats.json": RecordedTopic(HEARTBEATS, None, "id"),
    "east.connect-status.json": RecordedTopic(STATUS, "payments", "id"),
}
ALL_ROLES = {**ROLES, **OBSERVED_ROLES}


def scalar(record: Raw, role: RecordedTopic) -> dict[str, object]:
    """One record, decoded plainly: the reference."""
    row: dict[str, object] = dict.fromkeys(column.name for column in RECORD)
    row |= {
        "kind": role.kind,
        "connect_cluster": role.connect_cluster,
        "topic": record.topic,
        "topic_id": role.topic_id,
        "kpartition": record.partition,
        "koffset": record.offset,
        "kts": at(record.ms),
        "key": record.key,
        "value": None if role.kind in {STATUS, CONFIGS} else record.value,
    }
    if role.kind == CONNECT_OFFSETS:
        return row | _scalar_offset(record)
    if role.kind == OFFSET_SYNCS:
        return row | _scalar_sync(record)
    noun = decode_record(TopicKind(role.kind), record.key, record.value)
    if isinstance(noun, Undecodable):
        return row | {"error": noun.reason}
    return row | {"observation": format_record(noun)}


def _scalar_offset(record: Raw) -> dict[str, object]:
    row: dict[str, object] = {"tombstone": record.value is None}
    key = decode_key(record.key)
    if isinstance(key, Undecodable):
        return row | {"error": key.reason}
    row |= {
        "connector": key.connector,
        "source_partition": key.identity,
        "canonical": key.canonical or (key.ordered and key.mirror is None),
        "dialect": key.dialect,
        "key_form": "ordered" if key.ordered else key.form.value,
    }
    if key.mirror is not None:
        row["mirror_cluster"] = key.mirror.cluster
        row["mirror_topic"] = key.mirror.topic
        row["mirror_partition"] = key.mirror.partition
    value = decode_value(record.value)
    if isinstance(value, Undecodable):
        return row | {"error": value.reason}
    row["pos"] = read_position(key.dialect, value)
    row["event_at"] = _moment(read_event_time(key.dialect, value))
    row["source_offset"] = None if value is None else value.text
    return row


def _moment(seconds: float | None) -> datetime | None:
    epoch = datetime.fromtimestamp(0, tz=UTC)
    return None if seconds is None else epoch + timedelta(microseconds=round(seconds * 1e6))


def _scalar_sync(record: Raw) -> dict[str, object]:
    where = decode_sync_key(record.key)
    if isinstance(where, Undecodable):
        return {"error": where.reason}
    row: dict[str, object] = {"sync_topic": where[0], "sync_partition": where[1]}
    what = decode_sync_value(record.value)
    if isinstance(what, Undecodable):
        return row | {"error": what.reason}
    return row | {"sync_upstream": what[0], "sync_downstream": what[1]}


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_bytes_of_real_kafka_decode_as_the_scalar_decoders_decode_them(name: str) -> None:
    records = golden(name)
    role = GOLDEN_FILES[name]
    rows = decoded(*records, roles={records[0].topic: role})
    assert rows == [scalar(record, role) for record in records]
    assert all(row["error"] is None for row in rows)


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_the_columns_of_real_records_say_what_the_command_line_says_of_them(name: str) -> None:
    records = golden(name)
    role = GOLDEN_FILES[name]
    rows = decoded(*records, roles={records[0].topic: role})
    for row, record in zip(rows, records, strict=True):
        noun = decode_record(TopicKind(role.kind), record.key, record.value)
        assert not isinstance(noun, Undecodable)
        assert _rendered(row) == json.loads(format_record(noun))


def _rendered(row: dict[str, object]) -> dict[str, object]:
    """The observation that a row's columns amount to."""
    if row["kind"] == CONNECT_OFFSETS:
        # The columns are of the shape; the command concludes nothing without the class.
        dialect = resolve_dialect(str(row["dialect"]), "")
        return {
            "kind": "source_offset",
            "connector": row["connector"],
            "source_partition": json.loads(row["source_partition"]),
            "key_form": row["key_form"],
            "dialect": dialect,
            "value": "tombstone" if row["tombstone"] else "map",
            "source_offset": row["source_offset"] and json.loads(row["source_offset"]),
            "position": row["pos"] if dialect == row["dialect"] else None,
            "event_at": row["event_at"] if dialect == row["dialect"] else None,
            "beyond_64_bits": False,
            "poisoned": False,
        }
    if row["kind"] == OFFSET_SYNCS:
        return {
            "kind": "offset_sync",
            "topic": row["sync_topic"],
            "partition": row["sync_partition"],
            "upstream_offset": row["sync_upstream"],
            "downstream_offset": row["sync_downstream"],
        }
    return json.loads(row["observation"])


def test_no_byte_of_a_configuration_or_a_trace_is_retained() -> None:
    secret = "hunter2"
    body = {"properties": {"connector.class": "X", "database.password": secret}}
    trace = {"state": "FAILED", "worker_id": "w", "generation": 1, "trace": f"a.B: {secret}"}
    rows = decoded(
        Raw(b"connector-c", json.dumps(body).encode(), "connect-configs"),
        Raw(b"connector-c", secret.encode(), "connect-configs"),
        Raw(b"session-key", json.dumps({"key": secret}).encode(), "connect-configs"),
        Raw(b"status-task-c-0", json.dumps(trace).encode(), "connect-status"),
        roles=ALL_ROLES,
    )
    assert secret not in repr(rows)
    assert [row["observation"] is None for row in rows] == [False, True, False, False]
    assert '"failure":"a.B"' in rows[3]["observation"]


def test_the_time_of_an_event_is_a_column_where_the_offset_reports_it() -> None:
    key = offset_key("db", {"server": "s"})
    (row,) = decoded(Raw(key, b'{"lsn":5,"ts_usec":1700000000000001}'))
    assert row["event_at"] == datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC)
    assert row["dialect"] == "debezium"


def test_an_enveloped_record_is_never_a_position() -> None:
    key = mirror_key("mm2", "west", "orders", 0)
    enveloped = b'{"schema":null,"payload":{"offset":7}}'
    rows = decoded(
        Raw(b'{"schema":null,"payload":' + key + b"}", b'{"offset":7}'), Raw(key, enveloped)
    )
    assert [row["canonical"] for row in rows] == [False, True]
    assert [row["key_form"] for row in rows] == ["legacy_envelope", "canonical"]
    assert [(row["pos"], row["error"]) for row in rows] == [
        (7, None),
        (None, "value_legacy_envelope"),
    ]


@pytest.mark.parametrize("id_", [b"7", b"07"], ids=["strict", "as-connect-reads-it"])
def test_an_offset_is_retained_as_text_with_sorted_names_whatever_its_bytes(id_: bytes) -> None:
    key = offset_key("db", {"protocol": "1", "table": "t"})
    (row,) = decoded(Raw(key, b'{"timestamp":1700000000123, "incrementing":%b}' % id_))
    assert row["source_offset"] == '{"incrementing":7,"timestamp":1700000000123}'
    assert row["pos"] is None
    assert row["event_at"] == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)


int64s = st.integers(-(2**63), 2**63 - 1)
# Garbage that looks like the real thing nearly always reaches further than random bytes do.
keys = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.sampled_from(
        [
            b'["c",{"filename":"/in"}]',
            b'["c", {"filename":"/in"}]',
            b'["c",{"partition":7,"topic":"t","cluster":"a"}]',
            b'["c",{"partition":7.0,"topic":"t","cluster":"a"}]',
            b'["c",{"partition":99999999999,"topic":"t","cluster":"a"}]',
            b'["\\ud800",{}]',
            b'["\xed\xa0\x80",{}]',
            b'["c",null]',
            b'{"schema":null,"payload":["c",{}]}',
            b'["db",{"server":"s"}]',
            b'["db",{"table":"t"}]',
            b"status-task-c-0",
            b"connector-c",
            b"session-key",
            bytes.fromhex("00036772700008612e6f726465727300000003"),
            b'"AAR3ZXN0AARlYXN0"',
            mirror_key("mm2", "west", "orders", 3),
            sync_key("orders", 0),
            sync_key("", -1),
            sync_key("x" * 40, 2**31 - 1),
            sync_key("orders", 0)[:-1],
        ]
    ),
    st.builds(
        offset_key,
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
            st.none() | st.booleans() | int64s | st.text("abé😀", max_size=3),
            max_size=3,
        ),
    ),
    st.builds(sync_key, st.text("ab-é", max_size=9), st.integers(-(2**31), 2**31 - 1)),
)
values = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.integers().map(lambda number: b'{"offset":%d}' % number),
    st.integers().map(lambda number: b'{"position":%d}' % number),
    st.floats().map(lambda number: f'{{"offset":{number}}}'.encode()),
    st.sampled_from(
        [
            b"",
            b"null",
            b"{}",
            b'{"offset":{}}',
            b'{"offset":"12"}',
            b'{"offset":true}',
            b'{"offset":1e400}',
            b'{"a":"\\udc00"}',
            b'{"schema":null,"payload":{"offset":7}}',
            b'{"offset":007} x',
            b'{"position":3, "offset":7}',
            b'{"timestamp_nanos":5,"incrementing":7,"timestamp":1700000000123}',
            b'{"schema":null,"payload":null}',
            b'{"lsn":5,"ts_usec":1700000000000001}',
            b'{"timestamp":1700000000123,"timestamp_nanos":123456789}',
            b'{"state":"FAILED","worker_id":"w","generation":1,"trace":"a.B: c"}',
            b'{"properties":{"connector.class":"MirrorSource"}}',
            bytes.fromhex("0000000000000000003200000000000000300000"),
            b'"AAAAAAGh/PFhgg=="',
        ]
    ),
    # Longer than Python itself would turn into a number, and deeper than any parser would go.
    st.integers(4000, 5000).map(lambda size: b'{"offset":' + b"9" * size + b"}"),
    st.integers(900, 3000).map(lambda size: b'{"a":' * size),
    st.builds(sync_value, int64s, int64s),
    st.binary(min_size=16, max_size=16),
)
raws = st.builds(
    Raw,
    key=keys,
    value=values,
    topic=st.sampled_from([OFFSETS_TOPIC, SYNCS_TOPIC, *OBSERVED_ROLES]),
    partition=st.integers(0, 24),
    ms=st.integers(0, 9_000_000_000_000),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(raws, min_size=1, max_size=30), st.integers(0, 29))
def test_any_bytes_decode_without_raising_and_as_the_scalar_decoders_say(
    records: list[Raw], cut: int
) -> None:
    records = [replace(record, offset=location) for location, record in enumerate(records)]
    whole = raw_batch(*records)
    batches = [whole.slice(0, cut), whole.slice(cut)]  # a slice keeps its parent's buffers
    rows = [row for batch in decode_batches(batches, ALL_ROLES) for row in batch.to_pylist()]
    expected = [scalar(record, ALL_ROLES[record.topic]) for record in records]
    assert sorted(rows, key=itemgetter("koffset")) == expected


@pytest.mark.parametrize(("number", "looked_up"), [("7", False), ("7.0", True)])
def test_mirrormaker_looks_up_no_key_in_another_order_and_other_classes_may(
    number: str, looked_up: bool
) -> None:
    key = b'["c",{"partition":%s,"topic":"t","cluster":"a"}]' % number.encode()
    record = Raw(key, b'{"offset":1}')
    (row,) = decoded(record)
    assert (row["canonical"], row["key_form"]) == (looked_up, "ordered")
    assert row == scalar(record, ALL_ROLES[record.topic])


def test_the_rows_of_a_topic_stay_in_order() -> None:
    key = offset_key("c", {"filename": "/in"})
    topics = [OFFSETS_TOPIC, SYNCS_TOPIC, OFFSETS_TOPIC]
    rows = decoded(*(Raw(key, b"{}", topic, offset=n) for n, topic in enumerate(topics)))
    assert [row["koffset"] for row in rows if row["topic"] == OFFSETS_TOPIC] == [0, 2]


def test_a_distinct_key_is_decoded_once_per_batch() -> None:
    observed: list[bytes | None] = []
    batch = raw_batch(*(Raw(key, b"") for key in (b"a", None, b"b", b"a", None, b"b", b"a")))
    distinct, locations = bronze_rows._decode_distinct(
        batch["key"], lambda raw: observed.append(raw) or raw
    )
    assert sorted(observed, key=repr) == [None, b"a", b"b"]
    assert [distinct[location] for location in locations.to_pylist()] == batch["key"].to_pylist()


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 18446744073709551615, 10**30])
def test_a_position_beyond_64_bits_is_no_position_but_stays_exact_as_text(number: int) -> None:
    key = mirror_key("mm2", "west", "orders", 0)
    (row,) = decoded(Raw(key, b'{"offset":%d}' % number))
    assert row["pos"] is None
    assert row["source_offset"] == f'{{"offset":{number}}}'
    assert row["error"] is None


def test_the_largest_and_smallest_64_bit_positions_are_retained() -> None:
    key = offset_key("c", {"filename": "/in"})
    rows = decoded(*(Raw(key, b'{"position":%d}' % number) for number in (2**63 - 1, -(2**63))))
    assert [row["pos"] for row in rows] == [2**63 - 1, -(2**63)]


def test_a_tombstone_a_json_null_and_no_bytes_are_distinguished() -> None:
    key = offset_key("c", {"filename": "/in"})
    rows = decoded(*(Raw(key, value) for value in (None, b"null", b"")))
    assert [(row["tombstone"], row["source_offset"]) for row in rows] == [
        (True, None),
        (False, "null"),
        (False, "null"),
    ]


def test_decoding_makes_exactly_the_columns_of_the_contract() -> None:
    assert SCHEMA.names == [column.name for column in RECORD]


EAST_OFFSETS = KafkaTopic("east", "connect-offsets")
WEST_SYNCS = KafkaTopic("west", "mm2-offset-syncs.east.internal")


def flow(offset_syncs: KafkaTopic | None) -> MirrorFlow:
    return MirrorFlow("payments", "mm2", "west", "east", "west", offset_syncs)


def topology(*owners: str, syncs: KafkaTopic | None = WEST_SYNCS) -> Topology:
    offsets = tuple(OffsetsTopic(owner, EAST_OFFSETS) for owner in owners)
    return Topology(offsets_topics=offsets, flows=(flow(syncs), flow(syncs)))


def test_every_topic_of_the_topology_has_one_role_even_if_several_flows_share_it() -> None:
    assert resolve_recorded_topics(topology("payments"), {EAST_OFFSETS: "1", WEST_SYNCS: "2"}) == {
        EAST_OFFSETS: RecordedTopic(CONNECT_OFFSETS, "payments", "1"),
        WEST_SYNCS: RecordedTopic(OFFSET_SYNCS, None, "2"),
    }


def test_a_flow_without_syncs_adds_no_topic() -> None:
    assert set(resolve_recorded_topics(topology("payments", syncs=None), {EAST_OFFSETS: "1"})) == {
        EAST_OFFSETS
    }


def test_an_offsets_topic_of_two_connect_clusters_is_refused_by_name() -> None:
    with pytest.raises(HistoryError, match="east/connect-offsets is claimed by other, payments"):
        resolve_recorded_topics(topology("payments", "other"), {EAST_OFFSETS: "1", WEST_SYNCS: "2"})


def test_a_topic_that_is_offsets_and_syncs_at_once_is_refused() -> None:
    with pytest.raises(HistoryError, match="claimed by offset_syncs, payments"):
        resolve_recorded_topics(topology("payments", syncs=EAST_OFFSETS), {EAST_OFFSETS: "1"})


def test_a_topic_without_a_known_id_is_refused_by_name() -> None:
    with pytest.raises(HistoryError, match="topic id of west/mm2-offset-syncs"):
        resolve_recorded_topics(topology("payments"), {EAST_OFFSETS: "1"})


@pytest.mark.parametrize(
    "module",
    [
        "tables.schemas",
        "tables.reader",
        "tables.commit_changes",
        "pipeline.bronze_rows",
        "queries.asof",
    ],
)
def test_readers_and_executors_need_no_spark(module: str) -> None:
    code = f"import sys, offsetwatch.history.{module}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
