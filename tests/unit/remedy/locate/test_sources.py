"""Which record a MirrorSourceConnector cannot get past: what must be named, and what must not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from offsetwatch.model.findings import EvidenceItem, format_value
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.search import (
    IdentifiedRecord,
    MirrorFacts,
    MirrorSubject,
    NoIdentification,
    OpaqueSubject,
    PartitionReading,
)
from offsetwatch.remedy.locate.sources import (
    SLACK_BYTES,
    explain_unsupported_source,
    find_in_mirror,
)
from offsetwatch.remedy.model.plan import PartitionOffset, RecordLocation
from tests.unit.remedy.stalled_connectors import (
    AT,
    ID,
    Failed,
    build_readings,
    build_subject,
    mirror,
    mirror_pair,
    record,
    window,
)

OTHER = TopicPartition("orders", 1)
AT_41 = build_subject(mirror_pair(41))
STILL = mirror(AT_41)
LIMIT = 10_000


def sized(offset: int, size: int, partition: TopicPartition = AT) -> RawRecord:
    """A record that a producer counts as so many bytes."""
    result = record(offset, b"", key=None, partition=partition)
    for _ in range(3):  # the length of the length changes
        grown = len(result.value or b"") + size - result.size_bytes
        result = record(offset, b"x" * grown, key=None, partition=partition)
    assert result.size_bytes == size
    return result


def refused(size: int | None) -> Failed:
    return Failed("producer_size", "producer_send", size_bytes=size)


def corrupt_at(offset: int, *before: RawRecord) -> LogWindow:
    return window(*before, end=99, read_to=offset, corrupt_at=offset)


KNOWN = MirrorFacts(alias="east", request_max=LIMIT, compressed=False)
PLAIN = MirrorFacts(alias="east", compressed=False)
PACKED = MirrorFacts(alias="east", compressed=True)
LARGE = window(sized(42, 12_000), sized(43, 500), sized(44, 500))


@dataclass(frozen=True)
class Case:
    """A standstill. `expect`: the method by which 42 is named, or why nothing is."""

    id: str
    expect: str
    subject: MirrorSubject = STILL
    readings: dict = field(default_factory=lambda: build_readings(LARGE))

    @property
    def answer(self) -> IdentifiedRecord | NoIdentification:
        return find_in_mirror(self.subject, self.readings)


def too_large(size: int | None, *more: object, facts: MirrorFacts = KNOWN) -> MirrorSubject:
    return mirror(AT_41, *more, failure=refused(size), facts=facts)


# fmt: off
MUST_NAME = [
    Case("of the size that the producer named, beyond its limit", "size", too_large(12_000)),
    Case("of about that size", "size", too_large(12_100)),
    Case("of exactly that size, where the limit is not known", "size",
         too_large(12_000, facts=MirrorFacts(alias="east"))),
    Case("one in a hundred off the size that was named", "size", too_large(12_000),
         build_readings(window(sized(42, 12_120)))),
    Case("one as large comes later, perhaps compressed, of the size before that", "size",
         too_large(12_000, facts=MirrorFacts(alias="east", request_max=LIMIT)),
         build_readings(window(sized(42, 12_000), sized(43, 12_000)))),
    Case("beyond the broker's limit, not compressed, and one as large comes later", "size",
         too_large(None, facts=PLAIN),
         build_readings(window(sized(42, 12_000), sized(43, 12_000)), size_max=LIMIT)),
    Case("one as large comes later", "size", too_large(12_000),
         build_readings(window(sized(42, 12_000), sized(43, 12_000)))),
    Case("beyond the broker's limit, not compressed", "size", too_large(None, facts=PLAIN),
         build_readings(LARGE, size_max=LIMIT)),
    Case("beyond the broker's limit, the only one there is", "size",
         too_large(None, facts=PACKED), build_readings(LARGE, size_max=LIMIT)),
    Case("siblings have nothing of that size", "size",
         too_large(12_000, build_subject(mirror_pair(5, OTHER))),
         build_readings(LARGE) | build_readings(window(sized(6, 400, OTHER)), OTHER)),
    Case("siblings that move have", "size",
         too_large(12_000, build_subject(mirror_pair(5, OTHER), moved=True)),
         build_readings(LARGE) | build_readings(window(sized(6, 12_000, OTHER)), OTHER)),
    Case("rows of another cluster's alias are nobody's", "size",
         too_large(12_000, build_subject(mirror_pair(1, cluster="west")))),
    Case("corrupt, while everything claims to run", "checksum",
         readings=build_readings(corrupt_at(42), salvaged=record(42), sound_after=True)),
    Case("corrupt, and it failed for that, wherever it moves to", "checksum",
         mirror(build_subject(mirror_pair(41), moved=None), failure=Failed("corrupt", "poll")),
         build_readings(corrupt_at(42), salvaged=record(42), sound_after=True)),
    Case("corrupt, and it failed for that", "checksum",
         mirror(AT_41, failure=Failed("corrupt", "poll")),
         build_readings(corrupt_at(42), salvaged=record(42), sound_after=True)),
]

MUST_NOT_NAME = [
    Case("the target is away", "vetoed", mirror(AT_41, failure=Failed(veto="connectivity"))),
    Case("nobody knows why it failed", "vetoed", mirror(AT_41, failure=Failed("unknown"))),
    Case("a transform failed", "stage_unknown",
         mirror(AT_41, failure=Failed("transform", "transform"))),
    Case("it runs and stands still, and all can be read", "probe_is_clean"),
    Case("it runs, and nobody knows whether it moves", "not_known_to_stand_still",
         mirror(build_subject(mirror_pair(41), moved=None)),
         build_readings(corrupt_at(42), salvaged=record(42), sound_after=True)),
    Case("corrupt, and nobody knows whether a sibling moves", "not_known_to_stand_still",
         mirror(AT_41, build_subject(mirror_pair(5, OTHER), moved=None)),
         build_readings(corrupt_at(42), salvaged=record(42), sound_after=True)
         | build_readings(window(sized(6, 500, OTHER)), OTHER)),
    Case("too large by a hair, to the producer", "size_not_conclusive", too_large(10_000),
         build_readings(window(sized(42, 10_000)))),
    Case("too large by a hair, to the broker", "size_not_conclusive",
         too_large(None, facts=PLAIN),
         build_readings(window(sized(42, LIMIT + SLACK_BYTES)), size_max=LIMIT)),
    Case("two in a hundred off the size that was named", "size_not_conclusive",
         too_large(12_250)),
    Case("just below the size that was named, where the limit is not known",
         "size_not_conclusive", too_large(12_001, facts=MirrorFacts(alias="east"))),
    Case("of the size that was named, and within the limit", "size_not_conclusive",
         too_large(9_950), build_readings(window(sized(42, 9_950)))),
    Case("nobody knows the broker's limit", "size_not_conclusive", too_large(None, facts=PLAIN)),
    Case("two of them, perhaps compressed", "size_not_conclusive", too_large(None, facts=PACKED),
         build_readings(window(sized(42, 12_000), sized(43, 12_000)), size_max=LIMIT)),
    Case("one of them, perhaps compressed, and there is more to come", "size_not_conclusive",
         too_large(None, facts=MirrorFacts(alias="east")),
         build_readings(window(sized(42, 12_000), end=9_000, read_to=43), size_max=LIMIT)),
    Case("none is large", "size_not_conclusive", too_large(12_000),
         build_readings(window(sized(42, 500)))),
    Case("the large one is not the first", "not_the_first_record", too_large(12_000),
         build_readings(window(sized(42, 500), sized(43, 12_000)))),
    Case("large ones in two partitions", "more_than_one_partition",
         too_large(12_000, build_subject(mirror_pair(5, OTHER))),
         build_readings(LARGE) | build_readings(window(sized(6, 12_000, OTHER)), OTHER)),
    Case("large ones in two partitions, one of them not the first", "more_than_one_partition",
         too_large(12_000, build_subject(mirror_pair(5, OTHER))),
         build_readings(LARGE) |
         build_readings(window(sized(6, 500, OTHER), sized(7, 12_000, OTHER)), OTHER)),
    Case("it failed for a size, and what comes is corrupt", "window_corrupt", too_large(12_000),
         build_readings(corrupt_at(43, sized(42, 12_000)))),
    Case("it failed for a size, and what comes elsewhere is corrupt", "window_corrupt",
         too_large(12_000, build_subject(mirror_pair(41, OTHER))),
         build_readings(LARGE) | build_readings(corrupt_at(42), OTHER)),
    Case("corrupt, and the next one too", "corrupt_batch",
         readings=build_readings(corrupt_at(42), salvaged=record(42), sound_after=False)),
    Case("corrupt, and nobody knows of the next one", "corrupt_batch",
         readings=build_readings(corrupt_at(42), salvaged=record(42))),
    Case("corrupt, and nothing to copy", "cannot_copy",
         readings=build_readings(corrupt_at(42), sound_after=True)),
    Case("corrupt, and what was saved is something else", "cannot_copy",
         readings=build_readings(corrupt_at(42), salvaged=record(40), sound_after=True)),
    Case("corrupt, after records that it did not copy", "not_the_first_record",
         readings=build_readings(
             corrupt_at(43, record(42)), salvaged=record(43), sound_after=True)),
    Case("corrupt in two partitions", "corrupt_in_many",
         mirror(AT_41, build_subject(mirror_pair(41, OTHER))),
         build_readings(corrupt_at(42), salvaged=record(42), sound_after=True)
         | build_readings(corrupt_at(42), OTHER, salvaged=record(42, partition=OTHER),
                          sound_after=True)),
    Case("retention took what was next", "log_start_past_position", too_large(12_000),
         build_readings(window(sized(50, 12_000), log_start=50))),
    Case("the topic was created again", "topic_recreated", too_large(12_000),
         build_readings(LARGE, topic_id="new")),
    Case("the log ends earlier than before", "log_end_went_back",
         mirror(build_subject(mirror_pair(41), highest_end=99), failure=refused(12_000),
                facts=KNOWN)),
    Case("past the end of the log", "position_past_end", too_large(12_000),
         build_readings(window(end=41, read_to=42))),
    Case("nothing to copy", "nothing_to_read", readings=build_readings(window(end=42, read_to=42))),
    Case("nothing but markers to copy", "nothing_to_read",
         readings=build_readings(window(end=45, read_to=45))),
    Case("it moves", "nothing_to_read", mirror(build_subject(mirror_pair(41), moved=True))),
    Case("no offset at all", "nothing_to_read", mirror(build_subject(mirror_pair(None)))),
    Case("none but another cluster's rows", "nothing_to_read",
         mirror(build_subject(mirror_pair(41, cluster="west")))),
    Case("it could not be read", "window_not_read",
         readings={AT: PartitionReading(topic_id=ID, unread="timeout")}),
    Case("it could not be read in time", "window_not_read",
         readings=build_readings(window(end=99, read_to=42))),
    Case("two rows of one partition", "partition_twice",
         mirror(AT_41, build_subject(PartitionOffset(
             '{"cluster":"east","partition":0,"topic":"orders","x":1}', '{"offset":3}')))),
    Case("a partition that is no whole number", "offset_not_understood",
         mirror(build_subject(PartitionOffset('{"cluster":"east","partition":0.0,"topic":"orders"}',
                              '{"offset":41}')))),
    Case("a topic that is a number", "offset_not_understood",
         mirror(build_subject(PartitionOffset('{"cluster":"east","partition":0,"topic":7}',
                              '{"offset":41}')))),
    Case("an offset without a record behind it", "offset_not_understood",
         mirror(build_subject(mirror_pair(2**63 - 1)))),
    Case("an offset that is a text", "offset_not_understood",
         mirror(build_subject(PartitionOffset(mirror_pair(1).partition, '{"offset":"41"}')))),
]
# fmt: on


@pytest.mark.parametrize("case", MUST_NAME, ids=lambda case: case.id)
def test_a_record_is_named_where_it_is_certain_to_be_the_next(case: Case) -> None:
    answer = case.answer
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.method, answer.record.offset) == (case.expect, 42)


@pytest.mark.parametrize("case", MUST_NOT_NAME, ids=lambda case: case.id)
def test_no_record_is_named_where_it_may_be_another(case: Case) -> None:
    answer = case.answer
    assert isinstance(answer, NoIdentification), answer
    assert answer.reason == case.expect
    assert answer.said


def test_there_are_more_cases_that_name_nothing_than_such_that_do() -> None:
    assert len(MUST_NOT_NAME) >= len(MUST_NAME)


def test_a_skip_stores_the_record_itself_and_keeps_every_other_field() -> None:
    pair = PartitionOffset(
        '{"cluster":"east","more":"x","partition":0,"topic":"orders"}', '{"offset":41,"z":1}'
    )
    answer = find_in_mirror(
        mirror(build_subject(pair), failure=refused(12_000), facts=KNOWN), build_readings(LARGE)
    )
    assert isinstance(answer, IdentifiedRecord)
    assert answer.record == RecordLocation("east", "orders", ID, 0, 42)
    assert (answer.frm, answer.to) == (pair, PartitionOffset(pair.partition, '{"offset":42,"z":1}'))
    assert (answer.sha256, answer.size_bytes) == (LARGE.records[0].sha256, 12_000)


@pytest.mark.parametrize(("size", "named"), [(12_000, "12000 bytes"), (None, "not named")])
def test_what_was_refused_and_what_comes_later_is_reported(size: int | None, named: str) -> None:
    partition = build_readings(
        window(sized(42, 12_000), sized(43, 12_000), sized(44, 500)), size_max=LIMIT
    )
    evidence = find_in_mirror(too_large(size), partition).evidence
    assert {item.name: format_value(item) for item in evidence} == {
        "size that was refused": named,
        "size of the record": "12000 bytes",
        "as large after it": "1 record",
    }


def test_over_a_gap_the_first_record_that_there_is_counts() -> None:
    answer = find_in_mirror(too_large(12_000), build_readings(window(sized(47, 12_000))))
    assert isinstance(answer, IdentifiedRecord)
    assert answer.record.offset == 47
    assert answer.to.offset == '{"offset":47}'
    assert EvidenceItem("without a record before it", 5, "offsets") in answer.evidence


def test_a_corrupt_record_is_the_one_that_was_saved_wherever_its_batch_begins() -> None:
    answer = find_in_mirror(
        STILL, build_readings(corrupt_at(42), salvaged=record(45), sound_after=True)
    )
    assert isinstance(answer, IdentifiedRecord)
    assert answer.record.offset == 45


def test_a_copy_of_a_corrupt_record_says_that_it_is_one() -> None:
    answer = find_in_mirror(
        STILL, build_readings(corrupt_at(42), salvaged=record(42), sound_after=True)
    )
    assert isinstance(answer, IdentifiedRecord)
    (item, _) = (entry for entry in answer.evidence if entry.name in {"checksum fails at", "copy"})
    assert item == EvidenceItem("checksum fails at", 42, "offset")
    assert answer.recommend == (recommendations.OTHER_REPLICAS,)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((3, 6, 2), recommendations.NOT_TOLERATE_AT_SOURCE),
        (None, recommendations.NOT_TOLERATE_AT_SOURCE),
        ((3, 7, 0), recommendations.TOLERATE_AT_SOURCE),
        ((4, 3, 1), recommendations.TOLERATE_AT_SOURCE),
    ],
)
def test_larger_limits_come_first_and_tolerance_not_before_it_is_safe(
    version: tuple[int, ...] | None, expected: str
) -> None:
    subject = mirror(AT_41, failure=refused(12_000), facts=KNOWN, connect_version=version)
    assert find_in_mirror(subject, build_readings(LARGE)).recommend == (
        recommendations.LARGER_REQUESTS,
        expected,
    )


# --- unsupported sources -------------------------------------------------------------------------

FILE = PartitionOffset('{"filename":"/data/in.txt"}', '{"position":100}')
ROWS = PartitionOffset('{"protocol":"1","table":"db.orders"}', '{"incrementing":7}')
ROWS_BY_TIME = PartitionOffset(
    '{"protocol":"1","table":"db.orders"}', '{"incrementing":7,"timestamp":1700000000000}'
)
TIMED = PartitionOffset('{"protocol":"1","table":"db.orders"}', '{"timestamp":1700000000000}')
MYSQL = PartitionOffset('{"server":"s"}', '{"file":"bin.000003","pos":154,"ts_sec":1700000000}')
SQL_SERVER = PartitionOffset(
    '{"database":"d","server":"s"}',
    '{"change_lsn":"0000002a:00000a98:0002","commit_lsn":"0000002a:00000a98:0003",'
    '"event_serial_no":1}',
)
OTHER_SHARD = PartitionOffset('{"shard":"a"}', '{"done":false,"seen":3,"token":"abc"}')


FILE_ADVICE = (recommendations.CONFIGURE_THE_SOURCE, recommendations.FIX_THE_FILE)
ROW_ADVICE = (recommendations.CONFIGURE_THE_SOURCE, recommendations.BOUND_THE_QUERY)
MODE_ADVICE = (recommendations.DEBEZIUM_MODE,)
OTHER_ADVICE = (recommendations.ASK_THE_CONNECTOR,)


@pytest.mark.parametrize(
    ("class_name", "pair", "reason", "recommend"),
    [
        ("FileStreamSource", FILE, "person_must_say", FILE_ADVICE),
        (
            "io.aiven.connect.jdbc.JdbcSourceConnector",
            ROWS,
            "person_must_say",
            ROW_ADVICE,
        ),
        ("JdbcSource", ROWS_BY_TIME, "person_must_say", ROW_ADVICE),
        ("JdbcSource", TIMED, "no_safe_offset", (recommendations.BOUND_THE_QUERY,)),
        ("MySqlConnector", MYSQL, "no_safe_offset", MODE_ADVICE),
        ("SqlServerConnector", SQL_SERVER, "no_safe_offset", MODE_ADVICE),
        (
            "MongoDbConnector",
            PartitionOffset('{"server_id":"s"}', '{"resume_token":"x"}'),
            "no_safe_offset",
            MODE_ADVICE,
        ),
        ("FileStreamSource", OTHER_SHARD, "person_must_say", OTHER_ADVICE),
        ("", PartitionOffset("null", None), "person_must_say", OTHER_ADVICE),
    ],
)
def test_nothing_is_named_and_it_is_said_what_an_operator_would_have_to_give(
    class_name: str, pair: PartitionOffset, reason: str, recommend: tuple[str, ...]
) -> None:
    answer = explain_unsupported_source(OpaqueSubject("c", class_name, pair))
    assert answer.reason == reason
    assert answer.recommend == recommend
    for other in ("com.example.Source", ""):
        lookalike = explain_unsupported_source(OpaqueSubject("c", other, pair))
        assert lookalike.recommend == OTHER_ADVICE


@pytest.mark.parametrize(
    ("class_name", "partition"),
    [
        ("MirrorCheckpointConnector", '{"group":"g","partition":0,"topic":"t"}'),
        ("MirrorHeartbeatConnector", '{"sourceClusterAlias":"a","targetClusterAlias":"b"}'),
    ],
)
def test_mirrormakers_own_pulse_has_nothing_to_skip(class_name: str, partition: str) -> None:
    pair = PartitionOffset(partition, '{"offset":0}')
    for name in (class_name, ""):
        answer = explain_unsupported_source(OpaqueSubject("c", name, pair))
        assert answer.reason == "offset_without_meaning"
    other = explain_unsupported_source(OpaqueSubject("c", "com.example.Other", pair))
    assert other.reason == "person_must_say"


def test_fields_of_an_offset_are_reported_in_the_order_of_their_names() -> None:
    results = [
        explain_unsupported_source(OpaqueSubject("c", "x", PartitionOffset('{"a":"b"}', offset)))
        for offset in ('{"token":"x","seq":1,"at":2}', None)
    ]
    assert [item.evidence for item in results] == [
        (EvidenceItem("fields of its offset", "at, seq, token"),),
        (EvidenceItem("fields of its offset", "none"),),
    ]


def test_values_of_offsets_are_not_reported() -> None:
    answer = explain_unsupported_source(
        OpaqueSubject("c", "x", PartitionOffset('{"a":"b"}', '{"token":"hunter2"}'))
    )
    assert answer.evidence == (EvidenceItem("fields of its offset", "token"),)
