"""Decoders are total: whatever stands in a topic or an answer, they return a value."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from exporter.decode.connect_rest import decode_connectors, decode_offsets
from exporter.decode.dialects import DIALECTS, position
from exporter.decode.javamap import connect_key, hash_map_order
from exporter.decode.mm2 import decode_sync
from exporter.decode.source_offsets import LABEL_BYTES_MAX, decode_key, decode_value
from exporter.model.offsets import OffsetSync, SourceKey, SourceOffset, Undecodable
from tests.unit.decode.golden import records, rest_body

GOLDEN = [
    *records("east.connect-offsets"),
    *records("east.mm2-offsets.a.internal"),
    *records("west.mm2-offset-syncs.east.internal"),
]
WHOLE = sorted({part for record in GOLDEN for part in (record.key, record.value) if part})
LISTED = rest_body("GET /connectors?expand=status&expand=info")

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


RAW = (
    st.none()
    | st.binary(max_size=200)
    | mutated(WHOLE)
    | JSON.map(lambda at: json.dumps(at).encode())
)


@given(RAW)
@example(b"[" * 5_000)
@example(b'["c",{"a":' + b"9" * 5_000 + b"}]")
@example(b'["\\ud83d",{"a":"\\udead"}]')
def test_a_key_is_decoded_or_undecodable_and_never_an_error(raw):
    key = decode_key(raw)
    assert isinstance(key, SourceKey | Undecodable)
    if isinstance(key, SourceKey):
        assert len(key.label.encode()) <= LABEL_BYTES_MAX
        assert key.dialect in DIALECTS
        assert json.loads(key.identity) is not None


@given(RAW)
@example(b'{"a":' * 5_000)
@example(b'{"a":1e400}')
def test_a_value_is_decoded_or_undecodable_and_never_an_error(raw):
    value = decode_value(raw)
    assert value is None or isinstance(value, SourceOffset | Undecodable)
    assert (value is None) == (raw is None)
    if isinstance(value, SourceOffset):
        for dialect in DIALECTS:
            assert isinstance(position(dialect, value), int | None)


@given(RAW, RAW)
def test_a_sync_is_decoded_or_undecodable_and_never_an_error(key, value):
    sync = decode_sync(key, value)
    assert isinstance(sync, OffsetSync | Undecodable)
    if isinstance(sync, OffsetSync):
        assert min(sync.partition, sync.upstream_offset, sync.downstream_offset) >= 0


@given(st.binary(max_size=200) | mutated([LISTED]) | JSON.map(lambda at: json.dumps(at).encode()))
@example(b'{"c":' * 5_000)
@example(b'{"offsets":' + b"[" * 5_000)
def test_an_answer_of_connect_is_decoded_or_undecodable_and_never_an_error(body):
    assert isinstance(decode_connectors(body), tuple | Undecodable)
    assert isinstance(decode_offsets(body), tuple | Undecodable)


@given(st.lists(st.fixed_dictionaries({"partition": JSON, "offset": JSON}), max_size=3))
def test_offsets_of_any_shape_are_decoded(entries):
    found = decode_offsets(json.dumps({"offsets": entries}).encode())
    assert isinstance(found, tuple)
    assert len(found) == len(entries)


@given(TEXT, MAPS)
def test_the_key_that_connect_would_write_is_canonical_and_means_what_it_was_made_of(
    connector, partition
):
    key = decode_key(connect_key(connector, partition))
    assert key.connector == connector
    assert key.canonical
    assert json.loads(key.identity) == partition


@given(TEXT, MAPS)
def test_a_key_with_sorted_or_unsorted_fields_has_one_identity(connector, partition):
    canonical = decode_key(connect_key(connector, partition))
    for order in (sorted(partition), sorted(partition, reverse=True)):
        raw = json.dumps([connector, {name: partition[name] for name in order}]).encode()
        assert decode_key(raw).identity == canonical.identity
        assert decode_key(raw).label == canonical.label


@given(st.lists(TEXT, unique=True, max_size=40))
def test_the_order_of_a_hash_map_is_an_order_of_its_names_and_stays(names):
    order = hash_map_order(tuple(names))
    assert sorted(order) == sorted(names)
    assert hash_map_order(order) == order


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
