"""Decoders are total: whatever stands in a topic, a file or an answer, they return a value.

Their seeds are what real clusters wrote, and examples of the formats that were not recorded.
"""

from __future__ import annotations

import base64
import json
import struct
from itertools import pairwise

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from offsetwatch.decode.connect_topics import decode_config, decode_status
from offsetwatch.decode.dialects import (
    DIALECTS,
    build_order_key,
    compare_offsets,
    is_poisoned,
    parse_offset_fields,
    read_event_time,
    read_event_time_from_fields,
    read_position,
    read_position_from_fields,
    refine_dialect,
)
from offsetwatch.decode.java.hash_map import build_connect_key, compute_hash_map_order
from offsetwatch.decode.json_text import encode_sorted, is_flat_map, parse_flat_map, parse_json
from offsetwatch.decode.mirror_maker import decode_checkpoint, decode_heartbeat, decode_sync
from offsetwatch.decode.offsets_file import read_offsets_file, write_offsets_file
from offsetwatch.decode.rest_answers import decode_assignment, decode_connectors, decode_offsets
from offsetwatch.decode.source_offsets import (
    LABEL_BYTES_MAX,
    decode_fields,
    decode_key,
    decode_value,
)
from offsetwatch.decode.stack_trace import FAILURE_CHARS_MAX, failure_of
from offsetwatch.decode.topic_records import decode_record, format_record
from offsetwatch.model.offsets import (
    Checkpoint,
    Heartbeat,
    KeyForm,
    LegacyOffset,
    OffsetSync,
    Order,
    SourceKey,
    SourceOffset,
    Undecodable,
)
from offsetwatch.model.topology import TopicKind, is_topic_name
from tests.unit.decode.golden import records, rest_body

GOLDEN = {
    TopicKind.CONNECT_OFFSETS: ("east.connect-offsets", "east.mm2-offsets.a.internal"),
    TopicKind.OFFSET_SYNCS: ("west.mm2-offset-syncs.east.internal",),
    TopicKind.CHECKPOINTS: ("east.west.checkpoints.internal",),
    TopicKind.HEARTBEATS: ("east.heartbeats", "east.a.heartbeats"),
    TopicKind.STATUS: ("east.connect-status",),
}
SPOKEN = [
    (b'["c",null]', b"{}"),
    (b'{"schema":null,"payload":["c",{"a":1}]}', b'{"schema":null,"payload":{"offset":1234}}'),
    (b'["db",{"server":"s"}]', b'{"ts_sec":1700000000,"file":"bin.000003","pos":154,"row":1}'),
    (b'["db",{"server":"s"}]', b'{"lsn":5,"lsn_commit":4,"ts_usec":1700000000000000}'),
    (
        b'["db",{"server":"s","database":"d"}]',
        b'{"commit_lsn":"00000027:00000ac0:0002","change_lsn":"NULL","event_serial_no":1}',
    ),
    (b'["db",{"server":"s"}]', b'{"scn":"2825417","snapshot":"INITIAL"}'),
    (b'["db",{"server_id":"s","rs":"r"}]', b'{"sec":1700000000,"ord":3,"resume_token":"x"}'),
    (
        b'["t",{"protocol":"1","table":"t"}]',
        b'{"timestamp":1700000000123,"timestamp_nanos":123456789,"incrementing":7}',
    ),
    (bytes.fromhex("00036772700008612e6f726465727300000003"), bytes(20)),
    (b"connector-c", b'{"properties":{"connector.class":"MirrorSource","a":"b"}}'),
    (
        b"task-c-0",
        b'{"properties":{"task.class":"x.MirrorSourceTask","task.assigned.partitions":"t-0,u-1"}}',
    ),
    (b"commit-c", b'{"tasks":1}'),
    (b"target-state-c", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    (b"tasks-fencing-c", b'{"task-count":1}'),
    (b"restart-connector-c", b'{"include-tasks":true,"only-failed":false}'),
    (b"session-key", b'{"key":"c2VjcmV0","algorithm":"HmacSHA256","creation-timestamp":1}'),
    (b"logger-cluster-a.b", b'{"level":"DEBUG"}'),
]
RECORDS = [
    *SPOKEN,
    *(
        (record.key, record.value)
        for names in GOLDEN.values()
        for name in names
        for record in records(name)
    ),
]
KEYS = sorted({key for key, _ in RECORDS})
VALUES = sorted({value for _, value in RECORDS if value})
LISTED = rest_body("GET /connectors?expand=status&expand=info")
FILES = [
    write_offsets_file(()),
    write_offsets_file(((None, b"Z"), (b"A", None))),
    write_offsets_file(tuple((key, b"{}") for key in KEYS[:20])),
]

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | TEXT
MAPS = st.dictionaries(TEXT, SCALARS, max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)


@st.composite
def mutated(draw: st.DrawFn, whole: list[bytes]) -> bytes:
    """Real bytes with a piece cut out, doubled or replaced."""
    raw = draw(st.sampled_from(whole))
    begin = draw(st.integers(0, len(raw)))
    end = draw(st.integers(begin, len(raw)))
    return raw[:begin] + draw(st.binary(max_size=8) | st.just(raw[begin:end] * 2)) + raw[end:]


def raw(whole: list[bytes]) -> st.SearchStrategy[bytes | None]:
    """Anything, and most often nearly one of these."""
    return (
        st.none()
        | st.binary(max_size=200)
        | mutated(whole)
        | mutated(whole)
        | st.sampled_from(whole)
        | JSON.map(lambda group: json.dumps(group).encode())
    )


RAW_KEYS, RAW_VALUES = raw(KEYS), raw(VALUES)


@given(RAW_KEYS)
@example(b"[" * 5_000)
@example(b'["c",{"a":' + b"9" * 5_000 + b"}]")
@example(b'["\\ud83d",{"a":"\\udead"}]')
def test_a_key_is_decoded_or_undecodable_and_never_an_error(raw):
    key = decode_key(raw)
    assert isinstance(key, SourceKey | Undecodable)
    if isinstance(key, SourceKey):
        assert len(key.label.encode()) <= LABEL_BYTES_MAX
        assert key.dialect in DIALECTS
        assert (json.loads(key.identity) is None) == key.without_partition
        assert (key.form is KeyForm.LEGACY_ENVELOPE) == raw.lstrip().startswith(b"{")
        if key.canonical:  # then no other bytes with its fields in this order are
            connector, partition = json.loads(raw)
            assert raw == build_connect_key(connector, partition)


@given(RAW_VALUES)
@example(b'{"a":' * 5_000)
@example(b'{"a":1e400}')
@example(b'{"' + b'\\"' * 5_000)
def test_a_value_is_decoded_or_undecodable_and_never_an_error(raw):
    value = decode_value(raw)
    assert value is None or isinstance(value, SourceOffset | Undecodable)
    assert (value is None) == (raw is None)
    if isinstance(value, LegacyOffset):
        value = value.offset
    if isinstance(value, SourceOffset):
        assert json.loads(value.text) is None or not value.is_null
        for dialect in DIALECTS:
            _holds_for(dialect, value)


def _holds_for(dialect: str, value: SourceOffset) -> None:
    """What every dialect promises of any offset."""
    assert refine_dialect(dialect, value).name in DIALECTS
    assert refine_dialect(dialect, value).time is DIALECTS[dialect].time
    offset = read_position(dialect, value)
    key = build_order_key(dialect, value)
    if offset is not None:
        assert -(2**63) <= offset < 2**63
        assert not is_poisoned(dialect, value) or dialect == "jdbc"
    if key is not None:
        assert all(type(number) is int for number in key.position)
    assert compare_offsets(dialect, value, value) is Order.SAME
    seconds = read_event_time(dialect, value)
    assert seconds is None or 315_532_800 <= seconds < 4_102_444_800


@given(st.binary(max_size=200) | mutated(VALUES) | MAPS.map(msgspec.json.encode))
@example(b'{"a":[],"a":1}')
@example(b'{"a":1,"a":2.0} ')
@example(b'{"a":007}')
@example(b'{"a":' + b"9" * 5_000 + b"}")
@example(b'{"a":-0,"b":-0.0,"c":1E2,"d":18446744073709551616,"e":"\\ud83d\\ude00"}')
def test_a_map_of_primitives_is_parsed_as_any_text_is(raw):
    fields, parsed = parse_flat_map(raw), parse_json(raw)
    if fields is not None:
        assert repr(fields) == repr(parsed)  # to == 1 is 1.0, and True
        assert is_flat_map(parsed)


@given(mutated(VALUES) | st.sampled_from(VALUES) | MAPS.map(msgspec.json.encode))
@example(b'{"schema":null,"payload":null}')
@example(b'{"schema":"a","payload":null}')
@example(b'{"incrementing":7,"timestamp":null}')
@example(b'{"offset":true}')
@example(b'{"offset":18446744073709551615,"position":7.0}')
def test_the_fields_of_a_value_say_what_its_offset_says(raw):
    fields, offset = decode_fields(raw), decode_value(raw)
    if fields is None:
        return
    assert isinstance(offset, SourceOffset)
    assert encode_sorted(fields).decode() == offset.text
    assert repr(sorted(fields.items())) == repr(sorted(parse_offset_fields(offset).items()))
    for name, dialect in DIALECTS.items():
        assert read_position_from_fields(dialect, fields) == read_position(name, offset)
        assert read_event_time_from_fields(dialect, fields) == read_event_time(name, offset)


def build_vgtid(shards: list[tuple[int, int]]) -> str:
    server = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    return json.dumps(
        [
            {"keyspace": "k", "shard": str(shard), "gtid": f"MySQL56/{server}:1-{number + 1}"}
            for shard, number in shards
        ]
    )


# Few numbers, so that places meet.
SMALL = st.integers(0, 3)
LSN = SMALL.map(lambda n: f"0000000{n}:00000001:0001")
SNAPSHOT = {
    "snapshot": st.sampled_from([True, False, "true", "last", "INITIAL", "INCREMENTAL"]),
    "snapshot_completed": st.sampled_from([True, False, "true"]),
}
OFFSETS = {
    "mirror_source": {"offset": SMALL},
    "file_stream": {"position": SMALL},
    "jdbc": {"timestamp": SMALL, "timestamp_nanos": SMALL, "incrementing": SMALL},
    "debezium_mongodb": {"sec": st.integers(-1, 3), "ord": st.integers(-1, 3)},
    "debezium_sqlserver": {
        "commit_lsn": LSN,
        "change_lsn": st.one_of(LSN, st.sampled_from(["NULL", None])),
        "event_serial_no": SMALL,
        **SNAPSHOT,
    },
    "debezium_oracle": {
        "scn": SMALL.map(str),
        "commit_scn": st.sampled_from([None, 1, "1", "2:1:a", "3:1:b", "3:1:b,2:2:c", "x"]),
        "snapshot_scn": st.just("1"),
        **SNAPSHOT,
    },
    "debezium_vitess": {"vgtid": st.lists(st.tuples(SMALL, SMALL), max_size=2).map(build_vgtid)},
    "debezium": {
        "file": st.sampled_from(["bin.9", "bin.10", "log.1"]),
        "pos": SMALL,
        "event": SMALL,
        "lsn": SMALL,
        "lsn_commit": SMALL,
        "scn": SMALL.map(str),
        "commit_lsn": LSN,
        "event_serial_no": SMALL,
        "snapshot": st.just(value=True),
    },
    "generic": {"offset": SMALL, "lsn": SMALL},
}


@st.composite
def three_offsets(draw: st.DrawFn) -> tuple[str, list[SourceOffset]]:
    dialect = draw(st.sampled_from(sorted(OFFSETS)))
    fields = st.fixed_dictionaries({}, optional=OFFSETS[dialect])
    offsets = [decode_value(json.dumps(draw(fields)).encode()) for _ in range(3)]
    return dialect, offsets


@given(three_offsets())
def test_an_order_goes_one_way_and_has_no_circles(drawn):
    dialect, (first, second, third) = drawn
    mirrored = {Order.AHEAD: Order.BEHIND, Order.BEHIND: Order.AHEAD}
    for before, after in pairwise((first, second, third, first)):
        order = compare_offsets(dialect, before, after)
        assert compare_offsets(dialect, after, before) is mirrored.get(order, order)
        assert (order is Order.SAME) == (before.text == after.text)
    if (
        compare_offsets(dialect, first, second)
        is compare_offsets(dialect, second, third)
        is Order.AHEAD
    ):
        assert compare_offsets(dialect, first, third) is Order.AHEAD


@given(JSON.filter(lambda group: isinstance(group, list | dict)), st.binary(max_size=20))
def test_what_follows_the_first_value_changes_nothing(value, more):
    text = msgspec.json.encode(value)
    assert parse_json(text + more) == parse_json(text)


@given(MAPS, st.integers(1, 3))
def test_needless_zeros_change_nothing(fields, zeros):
    text = "{%s}" % ",".join(  # noqa: UP031 - braces
        f"{json.dumps(name)}:{_padded(value, zeros)}" for name, value in fields.items()
    )
    assert parse_json(text.encode()) == fields


def _padded(value: object, zeros: int) -> str:
    text = json.dumps(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return text
    return text[: value < 0] + "0" * zeros + text[value < 0 :]


@given(RAW_KEYS, RAW_VALUES)
def test_a_checkpoint_is_decoded_or_undecodable_and_never_an_error(key, value):
    checkpoint = decode_checkpoint(key, value)
    assert isinstance(checkpoint, Checkpoint | Undecodable)
    if isinstance(checkpoint, Checkpoint):
        assert min(checkpoint.partition, checkpoint.upstream_offset) >= 0


@given(RAW_KEYS, RAW_VALUES)
def test_a_heartbeat_is_decoded_or_undecodable_and_never_an_error(key, value):
    heartbeat = decode_heartbeat(key, value)
    assert isinstance(heartbeat, Heartbeat | Undecodable)
    if isinstance(heartbeat, Heartbeat):
        assert heartbeat.at >= 0


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _as_json(raw: bytes) -> bytes:
    return json.dumps(base64.b64encode(raw).decode()).encode()


def _as_envelope(raw: bytes) -> bytes:
    return json.dumps({"schema": None, "payload": base64.b64encode(raw).decode()}).encode()


WRITTEN = st.sampled_from([bytes, _as_json, _as_envelope])
NATURAL = st.integers(0, 2**63 - 1)
TOPICS = st.text("aZ09._-", min_size=1, max_size=20).filter(is_topic_name)


@given(TEXT, TOPICS, st.integers(0, 2**31 - 1), NATURAL, NATURAL, TEXT, WRITTEN)
def test_a_checkpoint_means_what_was_written(group, topic, number, up, down, metadata, written):
    key = _string(group) + _string(topic) + struct.pack(">i", number)
    value = struct.pack(">hqq", 0, up, down) + _string(metadata)
    assert decode_checkpoint(written(key), written(value)) == Checkpoint(
        group=group,
        topic=topic,
        partition=number,
        upstream_offset=up,
        downstream_offset=down,
        metadata=metadata,
    )


@given(TEXT, TEXT, st.integers(0, 2**43), WRITTEN)
def test_a_heartbeat_means_what_was_written(source, target, millis, written):
    key, value = _string(source) + _string(target), struct.pack(">hq", 0, millis)
    heartbeat = decode_heartbeat(written(key), written(value))
    assert heartbeat == Heartbeat(source=source, target=target, at=millis / 1000)


@given(RAW_KEYS, RAW_VALUES)
def test_a_status_is_decoded_or_undecodable_and_never_an_error(key, value):
    status = decode_status(key, value)
    assert isinstance(status, Undecodable) or isinstance(format_record(status), str)


def _trace(*messages):
    outer, *causes = messages
    lines = [f"org.example.Outer: {outer}", "\tat org.example.Outer.wrap(Outer.java:1)"]
    for message in causes:
        lines += [f"Caused by: org.example.Cause: {message}", "\tat org.example.Cause.go(C.java:2)"]
    return "\n".join([*lines, "\t... 3 more"])


# What stands in a message, with line breaks and the beginnings of a trace's own lines.
MESSAGES = st.lists(
    st.text(max_size=40)
    | st.sampled_from(("\n", "\tat ", "\nCaused by: ", "\n\tat ", "\norg.example.Bad: ", "\t... "))
    | st.from_regex(r"[a-z0-9_=:{}\"., -]{1,30}", fullmatch=True),
    max_size=6,
).map("".join)


@given(MESSAGES, st.lists(MESSAGES, max_size=3))
@example("password=hunter2\nCaused by: hunter2\n\tat hunter2\n\tat hunter2()", [])
@example('{"name": "x"}\nCaused by: a.b: hunter2', ["\n\tat a b(hunter2)"])
def test_no_word_of_a_message_is_in_a_failure(outer, causes):
    result = failure_of(_trace(outer, *causes))
    assert result == failure_of(_trace("", *("" for _ in causes)))


@given(st.text() | st.binary() | st.none() | st.integers() | MESSAGES)
def test_a_failure_is_a_short_line_or_none(trace):
    result = failure_of(trace)
    assert result is None or (0 < len(result) <= FAILURE_CHARS_MAX and "\n" not in result)


@given(RAW_KEYS, RAW_VALUES)
def test_a_config_is_decoded_or_undecodable_and_never_an_error(key, value):
    config = decode_config(key, value)
    assert isinstance(config, Undecodable) or isinstance(format_record(config), str)


@given(st.sampled_from(TopicKind), st.sampled_from(RECORDS) | st.tuples(RAW_KEYS, RAW_VALUES))
def test_a_record_of_any_role_has_an_observation_or_a_reason(role, record):
    noun = decode_record(role, *record)
    if isinstance(noun, Undecodable):
        assert noun.reason.startswith(("key_", "value_"))
        return
    document = json.loads(format_record(noun))
    assert list(document) == sorted(document)
    assert decode_record(role, *record) == noun


ENTRIES = st.dictionaries(
    st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=30), max_size=30
).map(lambda entries: tuple(entries.items()))


@given(st.binary(max_size=200) | mutated(FILES))
def test_an_offsets_file_is_read_or_undecodable_and_never_an_error(raw):
    entries = read_offsets_file(raw)
    assert isinstance(entries, tuple | Undecodable)
    if isinstance(entries, tuple):
        assert read_offsets_file(write_offsets_file(entries)) == entries


@given(ENTRIES)
def test_an_offsets_file_says_what_was_written_and_half_of_it_says_nothing(entries):
    raw = write_offsets_file(entries)
    assert read_offsets_file(raw) == entries
    assert write_offsets_file(entries) == raw
    for size in range(0, len(raw), 1 + len(raw) // 50):
        assert read_offsets_file(raw[:size]) == Undecodable("truncated")


@given(RAW_KEYS, RAW_VALUES)
def test_a_sync_is_decoded_or_undecodable_and_never_an_error(key, value):
    sync = decode_sync(key, value)
    assert isinstance(sync, OffsetSync | Undecodable)
    if isinstance(sync, OffsetSync):
        assert min(sync.partition, sync.upstream_offset, sync.downstream_offset) >= 0


@given(
    st.binary(max_size=200) | mutated([LISTED]) | JSON.map(lambda group: json.dumps(group).encode())
)
@example(b'{"c":' * 5_000)
@example(b'{"offsets":' + b"[" * 5_000)
def test_an_answer_of_connect_is_decoded_or_undecodable_and_never_an_error(body):
    assert isinstance(decode_connectors(body), tuple | Undecodable)
    assert isinstance(decode_offsets(body), tuple | Undecodable)
    assert isinstance(decode_assignment(body), frozenset | Undecodable)


@given(
    st.lists(
        st.fixed_dictionaries({"partition": JSON, "offset": JSON}),
        max_size=3,
        unique_by=lambda entry: json.dumps(entry["partition"], sort_keys=True),
    )
)
def test_offsets_of_any_shape_are_decoded(entries):
    offsets = decode_offsets(json.dumps({"offsets": entries}).encode())
    assert isinstance(offsets, tuple)
    assert len(offsets) == len(entries)


@given(TEXT, MAPS)
def test_the_key_that_connect_would_write_is_canonical_and_means_what_it_was_made_of(
    connector, partition
):
    key = decode_key(build_connect_key(connector, partition))
    assert key.connector == connector
    assert key.canonical
    assert json.loads(key.identity) == partition


@given(TEXT, MAPS)
def test_a_key_with_sorted_or_unsorted_fields_has_one_identity(connector, partition):
    canonical = decode_key(build_connect_key(connector, partition))
    for order in (sorted(partition), sorted(partition, reverse=True)):
        raw = json.dumps([connector, {name: partition[name] for name in order}]).encode()
        assert decode_key(raw).identity == canonical.identity
        assert decode_key(raw).label == canonical.label


@given(st.lists(TEXT, unique=True, max_size=40))
def test_the_order_of_a_hash_map_is_an_order_of_its_names_and_stays(names):
    order = compute_hash_map_order(tuple(names))
    assert sorted(order) == sorted(names)
    assert compute_hash_map_order(order) == order


@given(
    st.dictionaries(
        TEXT, SCALARS | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    )
)
def test_a_values_text_is_one_for_all_orders_and_its_numbers_are_exact(offset):
    texts = set()
    for order in (sorted(offset), sorted(offset, reverse=True)):
        value = decode_value(json.dumps({name: offset[name] for name in order}).encode())
        texts.add(value.text)
        assert dict(value.numbers) == {
            name: number
            for name, number in offset.items()
            if isinstance(number, int | float) and not isinstance(number, bool)
        }
    assert len(texts) == 1
