"""Sources whose next record nobody can compute, and offsets that a person gives."""

from __future__ import annotations

import pytest

from exporter.remedy import native
from exporter.remedy.opaque import OFFSET_CHARS_MAX, check_by_person, propose_only
from exporter.remedy.plan import Pair
from exporter.remedy.poison import OpaqueSubject

FILE = Pair('{"filename":"/data/in.txt"}', '{"position":100}')
ROWS = Pair('{"protocol":"1","table":"db.orders"}', '{"incrementing":7}')
TIMED = Pair('{"protocol":"1","table":"db.orders"}', '{"incrementing":7,"timestamp":1700000000000}')
MYSQL = Pair('{"server":"s"}', '{"file":"bin.000003","pos":154,"ts_sec":1700000000}')
SQL_SERVER = Pair(
    '{"database":"d","server":"s"}',
    '{"change_lsn":"0000002a:00000a98:0002","commit_lsn":"0000002a:00000a98:0003",'
    '"event_serial_no":1}',
)
OTHER = Pair('{"shard":"a"}', '{"done":false,"seen":3,"token":"abc"}')


@pytest.mark.parametrize(
    ("pair", "reason", "remedy"),
    [
        (FILE, "person_must_say", native.MEND_THE_FILE),
        (ROWS, "person_must_say", native.BOUND_THE_QUERY),
        (TIMED, "no_safe_offset", native.BOUND_THE_QUERY),
        (MYSQL, "no_safe_offset", native.DEBEZIUM_MODE),
        (SQL_SERVER, "no_safe_offset", native.DEBEZIUM_MODE),
        (Pair('{"server_id":"s"}', '{"resume_token":"x"}'), "no_safe_offset", native.DEBEZIUM_MODE),
        (OTHER, "person_must_say", native.ASK_THE_CONNECTOR),
        (Pair("null", None), "person_must_say", native.ASK_THE_CONNECTOR),
    ],
)
def test_nothing_is_named_and_it_is_said_what_a_person_would_have_to_give(
    pair: Pair, reason: str, remedy: str
) -> None:
    answer = propose_only(OpaqueSubject("c", "com.example.Source", pair))
    assert answer.reason == reason
    assert answer.recommend == (remedy,)


@pytest.mark.parametrize(
    "partition",
    [
        '{"group":"g","partition":0,"topic":"t"}',
        '{"sourceClusterAlias":"a","targetClusterAlias":"b"}',
    ],
)
def test_mirrormakers_own_pulse_has_nothing_to_skip(partition: str) -> None:
    answer = propose_only(OpaqueSubject("c", "x", Pair(partition, '{"offset":0}')))
    assert answer.reason == "offset_without_meaning"


def test_fields_of_an_offset_are_told_in_the_order_of_their_names() -> None:
    found = [
        propose_only(OpaqueSubject("c", "x", Pair('{"a":"b"}', offset)))
        for offset in ('{"token":"x","seq":1,"at":2}', None)
    ]
    assert [at.evidence for at in found] == [
        (("fields of its offset", "at, seq, token"),),
        (("fields of its offset", "none"),),
    ]


def test_values_of_offsets_are_not_told() -> None:
    answer = propose_only(OpaqueSubject("c", "x", Pair('{"a":"b"}', '{"token":"hunter2"}')))
    assert answer.evidence == (("fields of its offset", "token"),)


@pytest.mark.parametrize(
    ("kind", "frm", "value"),
    [
        ("source", FILE, '{"position":142}'),
        ("source", FILE, '{"position":0}'),
        ("source", FILE, '{"position":142}'.ljust(OFFSET_CHARS_MAX)),
        ("source", Pair(FILE.partition, '{"position":null}'), '{"position":"now"}'),
        ("source", ROWS, '{"incrementing":8}'),
        ("source", MYSQL, '{"file":"bin.000004","pos":4,"ts_sec":1700000001}'),
        ("source", SQL_SERVER, SQL_SERVER.offset.replace("0003", "0004")),
        ("source", OTHER, '{"seen":-4,"token":"abd","done":true}'),
        ("source", OTHER, '{"seen":9223372036854775807,"token":"abd","done":true}'),
        ("source", OTHER, '{"seen":-9223372036854775808,"token":"abd","done":true}'),
        ("source", OTHER, '{"seen":3,"token":"' + "x" * 70 + '","done":true}'),
        ("source", Pair('{"server":"s"}', '{"lsn":5,"snapshot":"false"}'),
         '{"lsn":6,"snapshot":"false"}'),
        ("source", Pair('{"a":"b"}', '{"seen":null}'), '{"seen":"now"}'),
        ("sink", Pair('{"kafka_partition":0,"kafka_topic":"t"}', '{"kafka_offset":9}'),
         '{"kafka_offset":10}'),
        ("mirror", Pair('{"cluster":"a","partition":0,"topic":"t"}', '{"offset":9}'),
         '{"offset":10}'),
    ],
)  # fmt: skip
def test_an_offset_of_the_same_shape_has_nothing_wrong(kind: str, frm: Pair, value: str) -> None:
    assert check_by_person(kind, frm, value) == ()


@pytest.mark.parametrize(
    ("kind", "frm", "value", "problem"),
    [
        ("source", FILE, '{"position":100}', "that is what is stored already"),
        ("source", FILE, ' { "position" : 100 } ', "that is what is stored already"),
        ("source", FILE, "null", "null would forget"),
        ("source", FILE, "", "no JSON map"),
        ("source", FILE, "{", "no JSON map"),
        ("source", FILE, "[1]", "no JSON map"),
        ("source", FILE, '{"position":{"a":1}}', "no JSON map"),
        ("source", FILE, '{"position":"142"}', "`position` is a text, where a whole number"),
        ("source", FILE, '{"position":142.0}', "`position` is a number with a fraction"),
        ("source", FILE, '{"position":100.0}', "`position` is a number with a fraction"),
        ("source", FILE, '{"position":true}', "`position` is true or false"),
        ("source", FILE, '{"position":null}', "`position` is null"),
        ("source", FILE, '{"position":-1}', "`position` is negative"),
        ("source", FILE, '{"position":9223372036854775808}', "`position` has more than 64 bits"),
        ("source", FILE, "{}", "no JSON map"),
        ("source", FILE, '{"position":142} and more', "no JSON map"),
        ("source", FILE, '{"line":2}', "`position` is missing"),
        ("source", FILE, '{"position":1,"line":2}', "`line` is not among what is stored"),
        ("source", FILE, '{"position":' + "1" * OFFSET_CHARS_MAX + "}", "longer than"),
        ("source", FILE, '{"position":142}'.ljust(OFFSET_CHARS_MAX + 1), "longer than"),
        ("source", OTHER, '{"done":false,"seen":3,"token":"' + "x" * 71 + '"}', "71 characters"),
        ("source", SQL_SERVER, SQL_SERVER.offset.replace("0003", "x"), "is no LSN"),
        ("source", Pair('{"a":"b"}', None), '{"x":1}', "nothing is stored"),
        ("source", Pair('{"server":"s"}', '{"lsn":5,"snapshot":true}'),
         '{"lsn":6,"snapshot":true}', "a snapshot is under way"),
        ("source", Pair('{"server":"s"}', '{"lsn":5,"snapshot":true}'),
         '{"lsn":6,"snapshot":false}', "a snapshot is under way"),
        ("source", Pair('{"server":"s"}', '{"lsn":5,"snapshot":"false"}'),
         '{"lsn":6,"snapshot":"last"}', "a snapshot is under way"),
        ("sink", Pair('{"kafka_partition":0,"kafka_topic":"t"}', '{"kafka_offset":9}'),
         '{"kafka_offset":-1}', "`kafka_offset` is negative"),
        ("mirror", Pair('{"group":"g","partition":0,"topic":"t"}', '{"offset":0}'),
         '{"offset":-1}', "`offset` is negative"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_said(kind: str, frm: Pair, value: str, problem: str) -> None:
    found = check_by_person(kind, frm, value)
    assert any(problem in at for at in found), found


def test_flaws_are_told_in_the_order_of_the_fields() -> None:
    missing, more, flawed = "hgfedcba", "ponmlkji", "xwvutsrq"
    stored = ",".join(f'"{name}":1' for name in missing + flawed)
    wanted = ",".join(f'"{name}":"x"' for name in more + flawed)
    found = check_by_person("source", Pair('{"a":"b"}', f"{{{stored}}}"), f"{{{wanted}}}")
    assert [at.split("`")[1] for at in found] == [*"abcdefghijklmnop", *"qrstuvwx"]
