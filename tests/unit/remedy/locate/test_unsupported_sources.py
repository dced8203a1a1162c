"""Sources whose next record nobody can compute."""

from __future__ import annotations

import pytest

from offsetwatch.model.findings import EvidenceItem
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.search import OpaqueSubject
from offsetwatch.remedy.locate.sources import explain_unsupported_source
from offsetwatch.remedy.model.plan import PartitionOffset

FILE = PartitionOffset('{"filename":"/data/in.txt"}', '{"position":100}')
ROWS = PartitionOffset('{"protocol":"1","table":"db.orders"}', '{"incrementing":7}')
TIMED = PartitionOffset(
    '{"protocol":"1","table":"db.orders"}', '{"incrementing":7,"timestamp":1700000000000}'
)
MYSQL = PartitionOffset('{"server":"s"}', '{"file":"bin.000003","pos":154,"ts_sec":1700000000}')
SQL_SERVER = PartitionOffset(
    '{"database":"d","server":"s"}',
    '{"change_lsn":"0000002a:00000a98:0002","commit_lsn":"0000002a:00000a98:0003",'
    '"event_serial_no":1}',
)
OTHER = PartitionOffset('{"shard":"a"}', '{"done":false,"seen":3,"token":"abc"}')


@pytest.mark.parametrize(
    ("class_name", "pair", "reason", "remedy"),
    [
        ("FileStreamSource", FILE, "person_must_say", recommendations.FIX_THE_FILE),
        (
            "io.aiven.connect.jdbc.JdbcSourceConnector",
            ROWS,
            "person_must_say",
            recommendations.BOUND_THE_QUERY,
        ),
        ("JdbcSource", TIMED, "no_safe_offset", recommendations.BOUND_THE_QUERY),
        ("MySqlConnector", MYSQL, "no_safe_offset", recommendations.DEBEZIUM_MODE),
        ("SqlServerConnector", SQL_SERVER, "no_safe_offset", recommendations.DEBEZIUM_MODE),
        (
            "MongoDbConnector",
            PartitionOffset('{"server_id":"s"}', '{"resume_token":"x"}'),
            "no_safe_offset",
            recommendations.DEBEZIUM_MODE,
        ),
        ("FileStreamSource", OTHER, "person_must_say", recommendations.ASK_THE_CONNECTOR),
        ("", PartitionOffset("null", None), "person_must_say", recommendations.ASK_THE_CONNECTOR),
    ],
)
def test_nothing_is_named_and_it_is_said_what_a_person_would_have_to_give(
    class_name: str, pair: PartitionOffset, reason: str, remedy: str
) -> None:
    answer = explain_unsupported_source(OpaqueSubject("c", class_name, pair))
    assert answer.reason == reason
    assert answer.recommend == (remedy,)
    for other in ("com.example.Source", ""):
        lookalike = explain_unsupported_source(OpaqueSubject("c", other, pair))
        assert lookalike.recommend == (recommendations.ASK_THE_CONNECTOR,)


@pytest.mark.parametrize(
    "partition",
    [
        '{"group":"g","partition":0,"topic":"t"}',
        '{"sourceClusterAlias":"a","targetClusterAlias":"b"}',
    ],
)
def test_mirrormakers_own_pulse_has_nothing_to_skip(partition: str) -> None:
    answer = explain_unsupported_source(
        OpaqueSubject("c", "x", PartitionOffset(partition, '{"offset":0}'))
    )
    assert answer.reason == "offset_without_meaning"


def test_fields_of_an_offset_are_told_in_the_order_of_their_names() -> None:
    results = [
        explain_unsupported_source(OpaqueSubject("c", "x", PartitionOffset('{"a":"b"}', offset)))
        for offset in ('{"token":"x","seq":1,"at":2}', None)
    ]
    assert [item.evidence for item in results] == [
        (EvidenceItem("fields of its offset", "at, seq, token"),),
        (EvidenceItem("fields of its offset", "none"),),
    ]


def test_values_of_offsets_are_not_told() -> None:
    answer = explain_unsupported_source(
        OpaqueSubject("c", "x", PartitionOffset('{"a":"b"}', '{"token":"hunter2"}'))
    )
    assert answer.evidence == (EvidenceItem("fields of its offset", "token"),)
