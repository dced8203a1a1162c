from __future__ import annotations

import pytest

from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.decode.source_offsets import (
    LABEL_BYTES_MAX,
    decode_key,
    decode_value,
    format_namesake_label,
    format_partition_label,
)
from offsetwatch.model.offsets import (
    KeyForm,
    LegacyOffset,
    MirrorPartition,
    SourceKey,
    SourceOffset,
    Undecodable,
)
from tests.changed import replace

KEY = b'["mirror-src",{"cluster":"a","partition":3,"topic":"orders"}]'


def test_a_key_names_its_connector_its_source_partition_and_its_dialect():
    assert decode_key(KEY) == SourceKey(
        connector="mirror-src",
        identity='{"cluster":"a","partition":3,"topic":"orders"}',
        label="cluster=a,partition=3,topic=orders",
        form=KeyForm.CANONICAL,
        dialect="mirror_source",
        mirror=MirrorPartition(cluster="a", topic="orders", partition=3),
    )


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            b'["c",{"topic":"orders","partition":3,"cluster":"a"}]', id="other-field-order"
        ),
        pytest.param(
            b'["c", {"cluster": "a", "partition": 3, "topic": "orders"}]', id="with-spaces"
        ),
        pytest.param(
            b'["c",{"cluster":"a","partition":3,"topic":"orders","topic":"orders"}]',
            id="field-twice",
        ),
        pytest.param(
            b'["\\u0063",{"cluster":"a","partition":3,"topic":"orders"}]', id="needless-escape"
        ),
        pytest.param(
            b'["c",{"cluster":"a","partition":003,"topic":"orders"}]', id="needless-zeros"
        ),
        pytest.param(
            b'["c",{"cluster":"a","partition":3,"topic":"orders"}] ["d"', id="followed-by-more"
        ),
    ],
)
def test_a_key_with_the_same_meaning_and_other_bytes_is_a_variant(raw):
    key = decode_key(raw)
    assert key.identity == '{"cluster":"a","partition":3,"topic":"orders"}'
    assert key.connector == "c"
    assert key.form is KeyForm.VARIANT
    assert not key.canonical


def test_a_raw_emoji_is_a_variant_of_the_escaped_pair_that_java_writes():
    java = b'["c",{"filename":"\\uD83D\\uDE00"}]'
    python = '["c",{"filename":"\U0001f600"}]'.encode()
    assert decode_key(java).canonical
    assert not decode_key(python).canonical
    assert decode_key(java).identity == decode_key(python).identity


def test_an_integer_of_more_than_64_bits_is_a_variant_because_connect_wraps_it():
    raw = b'["c",{"n":9223372036854775808}]'
    assert not decode_key(raw).canonical
    assert decode_key(b'["c",{"n":9223372036854775807}]').canonical


@pytest.mark.parametrize("number", ["0.0", '"0"', "true", "-1", "2147483648"])
def test_a_partition_number_that_mm2_would_not_read_is_no_mirror_partition(number):
    raw = f'["c",{{"cluster":"a","partition":{number},"topic":"t"}}]'.encode()
    key = decode_key(raw)
    assert key.mirror is None
    assert key.dialect == "generic"


def test_partitions_that_differ_in_type_only_have_different_identities():
    raws = [f'["c",{{"p":{text}}}]'.encode() for text in ("1", "1.0", '"1"', "true", "null")]
    assert len({decode_key(raw).identity for raw in raws}) == len(raws)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(None, "key_null", id="no-key"),
        pytest.param(b"", "key_not_json", id="no-bytes"),
        pytest.param(b"\x00\x06orders", "key_not_json", id="binary"),
        pytest.param(b'["c",{"a":"\xff"}]', "key_not_json", id="not-utf8"),
        pytest.param(b'["c",{"a":1}', "key_not_json", id="cut"),
        pytest.param(b'["c",{"a":"1}]', "key_not_json", id="cut-in-a-string"),
        pytest.param(b"null ]", "key_not_json", id="a-scalar-and-more"),
        pytest.param(b'{"schema":null,"payload":"c"}', "key_shape", id="envelope-of-no-key"),
        pytest.param(b'{"schema":null,"payload":["c",{}],"x":1}', "key_shape", id="no-envelope"),
        pytest.param(b'["c"]', "key_shape", id="too-short"),
        pytest.param(b'["c",{},1]', "key_shape", id="too-long"),
        pytest.param(b'[7,{"a":1}]', "key_shape", id="connector-is-no-name"),
        pytest.param(b'"c"', "key_shape", id="no-list"),
        pytest.param(b'["c",{"a":{}}]', "key_partition_shape", id="nested-map"),
        pytest.param(b'["c",{"a":[1]}]', "key_partition_shape", id="nested-list"),
        pytest.param(b'["c",[1]]', "key_partition_shape", id="partition-is-a-list"),
        pytest.param(b"[" * 100_000, "key_nested_too_deep", id="hostile-depth"),
        pytest.param(b"[" * 3_000_000, "key_too_large", id="hostile-depth-of-megabytes"),
        pytest.param(b"[" + b"[]," * 1_000_000 + b"0]", "key_too_large", id="hostile-width"),
    ],
)
def test_what_is_no_key_is_undecodable_with_its_own_reason(raw, reason):
    assert decode_key(raw) == Undecodable(reason)


@pytest.mark.parametrize("schema", [b"null", b'{"type":"struct"}'])
def test_an_enveloped_key_is_unwrapped_and_never_canonical(schema):
    raw = b'{"schema":' + schema + b',"payload":' + KEY + b"}"
    key = decode_key(raw)
    assert key == SourceKey(
        connector="mirror-src",
        identity=decode_key(KEY).identity,
        label="cluster=a,partition=3,topic=orders",
        form=KeyForm.LEGACY_ENVELOPE,
        dialect="mirror_source",
        mirror=MirrorPartition(cluster="a", topic="orders", partition=3),
    )
    assert not key.canonical


def test_an_enveloped_value_is_undecodable_and_says_what_it_once_said():
    value = decode_value(b'{"schema":null,"payload":{"offset":1234}}')
    assert value == LegacyOffset(
        reason="value_legacy_envelope",
        offset=SourceOffset(text='{"offset":1234}', numbers=(("offset", 1234),)),
    )
    assert isinstance(value, Undecodable)
    nothing = decode_value(b'{"payload":null,"schema":null}')
    assert nothing.offset.is_null


@pytest.mark.parametrize(
    "raw", [b'{"payload":7,"schema":"public"}', b'{"payload":7,"schema":null}']
)
def test_fields_that_are_named_like_an_envelope_are_an_offset(raw):
    assert decode_value(raw).text == raw.decode()


def test_a_connector_without_partitions_has_the_partition_null():
    key = decode_key(b'["c",null]')
    assert (key.identity, key.label, key.form) == ("null", "null", KeyForm.CANONICAL)
    assert (key.dialect, key.mirror, key.without_partition) == ("generic", None, True)
    assert decode_key(b'["c", null]').form is KeyForm.VARIANT
    assert not decode_key(b'["c",{}]').without_partition


def test_a_whole_float_is_canonical_as_java_writes_it_and_another_partition_than_the_integer():
    assert decode_key(b'["c",{"partition":0.0}]').canonical
    assert (
        decode_key(b'["c",{"partition":0.0}]').identity
        != decode_key(b'["c",{"partition":0}]').identity
    )
    for text in (b"0.00", b"0e0", b"-0.0", b"0.5", b"12345678.0"):
        assert not decode_key(b'["c",{"partition":' + text + b"}]").canonical


@pytest.mark.parametrize("text", ["0.5", "-0.0", "12.25", "1.0E7", "1.5E-10", "-9.75E300"])
def test_a_float_as_java_writes_it_is_a_key_that_a_worker_may_have_written(text):
    assert decode_key(f'["c",{{"partition":{text}}}]'.encode()).is_spelling


@pytest.mark.parametrize("text", ["1.00", "1e0", "1E0", "1.0e7", "15.0E9", "0.50", "1.0E+7"])
def test_a_float_as_no_java_writes_it_is_no_key_that_a_task_looks_up(text):
    assert not decode_key(f'["c",{{"partition":{text}}}]'.encode()).is_spelling


def test_of_fields_that_share_a_bucket_the_order_does_not_follow_from_the_identity():
    sorted_key = decode_key(b'["c",{"db":"a","table":"b"}]')
    other_key = decode_key(b'["c",{"table":"b","db":"a"}]')
    assert sorted_key.identity == other_key.identity
    assert (sorted_key.canonical, sorted_key.ordered) == (True, False)
    assert (other_key.canonical, other_key.ordered) == (True, True)


def test_an_empty_partition_map_is_a_source_partition():
    key = decode_key(b'["c",{}]')
    assert (key.identity, key.label, key.canonical) == ("{}", "", True)


def test_no_value_is_a_tombstone_but_no_bytes_and_json_null_are_not():
    assert decode_value(None) is None
    null = SourceOffset(text="null", numbers=(), is_null=True)
    assert decode_value(b"null") == null
    assert decode_value(b"") == replace(null, no_bytes=True)


def test_an_empty_map_is_an_offset_and_neither_null_nor_a_tombstone():
    assert decode_value(b"{}") == SourceOffset(text="{}", numbers=())


def test_a_value_gives_its_numeric_fields_sorted_and_its_text_with_sorted_keys():
    raw = b'{"pos":154,"file":"bin.07","row":1.5,"snapshot":true,"gtids":null,"event":2}'
    assert decode_value(raw) == SourceOffset(
        text='{"event":2,"file":"bin.07","gtids":null,"pos":154,"row":1.5,"snapshot":true}',
        numbers=(("event", 2), ("pos", 154), ("row", 1.5)),
    )


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, 2**64, -(2**63) - 1, 10**30])
def test_integers_of_any_size_stay_exact(number):
    value = decode_value(f'{{"lsn":{number}}}'.encode())
    assert value.number("lsn") == number
    assert isinstance(value.number("lsn"), int)
    assert value.text == f'{{"lsn":{number}}}'


@pytest.mark.parametrize(
    ("number", "beyond"),
    [(2**63 - 1, False), (-(2**63), False), (2**63, True), (-(2**63) - 1, True), (1e300, False)],
)
def test_an_integer_that_connect_would_wrap_is_flagged(number, beyond):
    assert decode_value(f'{{"a":1,"lsn":{number}}}'.encode()).beyond_64_bits is beyond


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param(b'{"offset":5}{"offset":6}', '{"offset":5}', id="the-first-value-counts"),
        pytest.param(b'{"a":"}"} \xff', '{"a":"}"}', id="what-follows-is-never-read"),
        pytest.param(b'{"a":007,"b":-00,"c":00.5}', '{"a":7,"b":0,"c":0.5}', id="needless-zeros"),
        pytest.param(b'{"a":"007 \\"00","b":01}', '{"a":"007 \\"00","b":1}', id="but-not-in-text"),
        pytest.param(
            b'{"a":1.005,"b":100,"c":1e-05} x', '{"a":1.005,"b":100,"c":0.00001}', id="kept"
        ),
        pytest.param(b'{"a":1,"a":2}', '{"a":2}', id="the-last-of-a-field"),
    ],
)
def test_a_value_is_read_as_leniently_as_connect_reads_it(raw, text):
    assert decode_value(raw).text == text


def test_an_integer_and_the_same_number_as_a_float_differ():
    assert decode_value(b'{"offset":5}').text != decode_value(b'{"offset":5.0}').text


def test_a_field_that_is_no_number_has_no_number():
    value = decode_value(b'{"a":"7","b":true,"c":null}')
    assert [value.number(field) for field in "abcd"] == [None] * 4


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b"{", "value_not_json", id="cut"),
        pytest.param(b"NaN", "value_not_json", id="nan"),
        pytest.param(b'{"a":1e999}', "value_not_json", id="no-float64"),
        pytest.param(b"7", "value_shape", id="a-number"),
        pytest.param(b'{"a":{"b":1}}', "value_shape", id="nested-map"),
        pytest.param(b'{"a":[1]}', "value_shape", id="nested-list"),
        pytest.param(b'{"schema":null,"payload":{"a":[]}}', "value_shape", id="envelope-of-none"),
        pytest.param(b'{"schema":{},"payload":1}', "value_shape", id="envelope-of-a-number"),
        pytest.param(b'"' + b'\\"' * 100_000, "value_not_json", id="hostile-quotes"),
        pytest.param(b'{"' + b'\\"' * 100_000, "value_not_json", id="hostile-quotes-in-a-map"),
        pytest.param(b'{"a":' * 100_000, "value_nested_too_deep", id="hostile-depth"),
    ],
)
def test_what_is_no_value_is_undecodable_with_its_own_reason(raw, reason):
    assert decode_value(raw) == Undecodable(reason)


def test_a_label_shows_the_partition_sorted_by_key():
    assert format_partition_label({"topic": "t", "n": 3, "ok": True, "none": None, "f": 1.5}) == (
        "f=1.5,n=3,none=null,ok=true,topic=t"
    )


def test_a_label_of_120_bytes_stays_and_one_more_is_cut_and_ends_in_a_hash():
    fits = {"filename": "x" * (LABEL_BYTES_MAX - len("filename="))}
    assert len(format_partition_label(fits)) == LABEL_BYTES_MAX
    assert "~" not in format_partition_label(fits)
    over = format_partition_label({"filename": fits["filename"] + "x"})
    assert len(over) == LABEL_BYTES_MAX
    assert over[-9] == "~"
    assert int(over[-8:], 16) >= 0


def test_two_long_partitions_that_begin_alike_have_different_labels():
    first, second = ({"filename": "/data/" + "x" * 200 + end} for end in ("a", "b"))
    assert format_partition_label(first) != format_partition_label(second)


def test_a_label_is_cut_between_characters_never_inside_one():
    label = format_partition_label({"filename": "é" * 200})
    assert len(label.encode()) <= LABEL_BYTES_MAX
    assert "\ufffd" not in label


def test_source_partitions_that_print_alike_are_distinguished_by_a_hash_of_what_they_are():
    number, text = (decode_key(f'["c",{{"p":{value}}}]'.encode()) for value in ("0", '"0"'))
    assert number.label == text.label == "p=0"
    labels = [format_namesake_label(key.label, key.identity) for key in (number, text)]
    assert len(set(labels)) == 2
    assert all(label.startswith("p=0~") for label in labels)
    assert len(format_namesake_label("x" * LABEL_BYTES_MAX, "{}").encode()) == LABEL_BYTES_MAX


@pytest.mark.parametrize("name", ["a b", "é", "/", '"', "\\", "\U0001f600", "->"])
def test_any_connector_name_survives_its_key(name):
    raw = build_connect_key(name, {"filename": "/x"})
    assert decode_key(raw).connector == name
    assert decode_key(raw).canonical


@pytest.mark.parametrize(
    ("raw", "ordered"),
    [
        (b'["c",{"name":"a","path":"/x"}]', True),
        (b'["c",{"path":"/x","name":"a"}]', False),
        (b'["c",{"name": "a","path":"/x"}]', False),
        (b'["c",{"name":"\\u0061","path":"/x"}]', False),
        (b'["c",{"name":"a","path":"/x","path":"/x"}]', False),
        (b'["c",{"name":"\\uD83D\\uDE00","path":"\xc3\xa9"}]', True),
        (b'["c",{"ratio":1.0E22,"name":null}]', True),
        (b'["c",{"name":9223372036854775808,"path":"/x"}]', False),
        (b'["c",{"topic":"t","partition":0,"cluster":"a"}]', True),
        (b'{"schema":null,"payload":["c",{"name":"a","path":"/x"}]}', False),
    ],
)
def test_bytes_that_a_map_of_another_order_serialises_to_may_be_a_tasks_own(raw, ordered):
    key = decode_key(raw)
    assert key.ordered is ordered
    assert key.is_spelling is (ordered or key.form is KeyForm.CANONICAL)


def test_a_byte_order_mark_is_skipped_as_jackson_does_and_makes_another_key():
    mark = b"\xef\xbb\xbf"
    assert decode_value(mark + b'{"position":7}') == decode_value(b'{"position":7}')
    assert decode_value(mark + b'{"position":007}x') == decode_value(b'{"position":7}')
    assert decode_value(mark) == Undecodable("value_not_json")
    plain, marked = (decode_key(raw + b'["c",{"filename":"/x"}]') for raw in (b"", mark))
    assert (marked.identity, marked.is_spelling, plain.is_spelling) == (plain.identity, False, True)


def test_a_key_with_names_of_any_length_is_no_source_partition_of_a_flow():
    assert decode_key(b'["%b",{"p":1}]' % (b"x" * 10_000)) == Undecodable("key_too_long")
    partition = b'{"cluster":"west","partition":0,"topic":"%b"}'
    names = {size: decode_key(b'["c",%b]' % (partition % (b"t" * size))) for size in (249, 250)}
    mirrors = {size: not isinstance(key, Undecodable) and key.mirror for size, key in names.items()}
    assert mirrors == {249: MirrorPartition("west", "t" * 249, 0), 250: None}
