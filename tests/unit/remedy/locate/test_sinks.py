"""Which record a sink cannot get past: a table of what must be named, and one of what must not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from offsetwatch.model.findings import EvidenceItem
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.converters import ConnectorConverters, Converter
from offsetwatch.remedy.locate.search import (
    IdentifiedRecord,
    NoIdentification,
    PartitionReading,
    SinkFacts,
    SinkSubject,
)
from offsetwatch.remedy.locate.sinks import find_in_sink
from offsetwatch.remedy.model.plan import PartitionOffset, RecordLocation
from tests.unit.remedy.stalled_connectors import (
    AT,
    AVRO,
    BAD,
    BY_JSON,
    GOOD,
    ID,
    JSON,
    STRING,
    Failed,
    build_readings,
    build_subject,
    letter,
    log_line,
    record,
    sink,
    sink_pair,
    values,
    window,
)

OTHER = TopicPartition("orders", 1)
AT_1234 = build_subject(sink_pair(1234))
STILL = sink(AT_1234)
ONE_BAD = values(1234, BAD, GOOD, GOOD)
ALL_GOOD = values(1234, GOOD, GOOD, GOOD)
PUT = Failed("sink_data", "put")
TRANSFORM = Failed("transform", "transform")
ENVELOPES = replace(BY_JSON, value=Converter(JSON, envelope=True))
LOGGING = SinkFacts(converters=BY_JSON, logs_records=True)
LETTERS = SinkFacts(converters=BY_JSON, dead_letters="letters")
ONE_BY_ONE = SinkFacts(converters=BY_JSON, batch_max=1)


def by(value: Converter, **more: object) -> SinkFacts:
    return SinkFacts(converters=replace(BY_JSON, value=value), **more)


@dataclass(frozen=True)
class Case:
    """A standstill. `expect`: the method by which a record is named, or why none is."""

    id: str
    expect: str
    subject: SinkSubject = STILL
    readings: dict = field(default_factory=lambda: build_readings(ONE_BAD))
    letters: tuple = ()
    uncommitted: frozenset | None = frozenset()

    @property
    def answer(self) -> IdentifiedRecord | NoIdentification:
        return find_in_sink(self.subject, self.readings, self.letters, self.uncommitted)


MUST_NAME = [
    Case("one bad value, the first of several", "decode"),
    Case(
        "one bad key",
        "decode",
        sink(
            AT_1234,
            failure=Failed(stage="converter_key"),
            facts=SinkFacts(converters=replace(BY_JSON, key=Converter(JSON, envelope=False))),
        ),
        build_readings(window(record(1234, key=BAD), record(1235, key=GOOD))),
    ),
    Case(
        "one bad header",
        "decode",
        sink(
            AT_1234,
            failure=Failed(stage="converter_header"),
            facts=SinkFacts(converters=replace(BY_JSON, header=Converter(JSON, envelope=False))),
        ),
        build_readings(
            window(record(1234, headers=(("h", BAD),)), record(1235, headers=(("h", GOOD),)))
        ),
    ),
    Case(
        "one bad value, of a release that does not tell which converter failed",
        "decode",
        sink(AT_1234, failure=Failed(stage="converter")),
    ),
    Case(
        "the log tells which converter failed",
        "error_log",
        sink(
            AT_1234,
            failure=Failed(stage="converter"),
            facts=SinkFacts(converters=ConnectorConverters(), logs_records=True),
            log=log_line(1234, stage="KEY_CONVERTER"),
        ),
        build_readings(ALL_GOOD),
    ),
    Case(
        "a text where a schema is asked for",
        "decode",
        sink(AT_1234, failure=Failed("schema"), facts=SinkFacts(converters=ENVELOPES)),
        build_readings(values(1234, GOOD, b'{"schema":{"type":"int32"},"payload":1}')),
    ),
    Case(
        "no frame where all others have one",
        "decode",
        sink(AT_1234, facts=by(Converter(AVRO))),
        build_readings(values(1234, GOOD, b"\0\0\0\0\7x", b"\0\0\0\0\7y")),
    ),
    Case(
        "a long that has seven bytes",
        "decode",
        sink(AT_1234, facts=by(Converter("org.apache.kafka.connect.converters.LongConverter"))),
        build_readings(values(1234, b"1234567", b"12345678", None)),
    ),
    Case(
        "tombstones fail nowhere", "decode", readings=build_readings(values(1234, BAD, None, None))
    ),
    Case(
        "a partition that moves is not looked at",
        "decode",
        sink(AT_1234, build_subject(sink_pair(7, OTHER), moved=True)),
        build_readings(ONE_BAD) | {OTHER: PartitionReading(topic_id="another", window=None)},
    ),
    Case(
        "siblings that stand still with nothing to read",
        "decode",
        sink(AT_1234, build_subject(sink_pair(9, OTHER))),
        build_readings(ONE_BAD) | build_readings(window(end=9, read_to=9), OTHER),
    ),
    Case(
        "siblings that stand still with good records",
        "decode",
        sink(AT_1234, build_subject(sink_pair(9, OTHER))),
        build_readings(ONE_BAD) | build_readings(values(9, GOOD, GOOD, partition=OTHER), OTHER),
    ),
    Case(
        "siblings behind a transaction's marker",
        "decode",
        sink(AT_1234, build_subject(sink_pair(9, OTHER))),
        build_readings(ONE_BAD) | build_readings(window(end=10, read_to=10), OTHER),
    ),
    Case(
        "later than a batch nothing counts",
        "decode",
        sink(AT_1234, facts=SinkFacts(converters=BY_JSON, batch_max=2)),
        build_readings(values(1234, BAD, GOOD, BAD)),
    ),
    Case(
        "other partitions were never committed, and it fails all the same",
        "decode",
        uncommitted=frozenset({OTHER}),
    ),
    Case(
        "the only record there is, of a converter nobody knows",
        "only_record",
        sink(AT_1234, facts=by(Converter("com.example.Own"))),
        build_readings(values(1234, GOOD)),
    ),
    Case(
        "the only record there is, of a transform",
        "only_record",
        sink(AT_1234, failure=TRANSFORM),
        build_readings(values(1234, GOOD)),
    ),
    Case(
        "the only record there is, before a marker",
        "only_record",
        sink(AT_1234, failure=TRANSFORM),
        build_readings(window(record(1234), end=1236)),
    ),
    Case(
        "the only record there is, for a put that keeps none back",
        "only_record",
        sink(AT_1234, failure=PUT, put_at_once=True),
        build_readings(values(1234, GOOD)),
    ),
    Case(
        "the only record there is, for a put of a sink that tolerates errors",
        "only_record",
        sink(
            AT_1234,
            failure=PUT,
            facts=SinkFacts(converters=BY_JSON, tolerant=True),
            put_at_once=True,
        ),
        build_readings(values(1234, GOOD)),
    ),
    Case("a log that nobody reads", "decode", sink(AT_1234, facts=LOGGING)),
    Case(
        "the log ends where it did before",
        "decode",
        sink(build_subject(sink_pair(1234), highest_end=1237)),
    ),
    Case(
        "the log begins at what is committed",
        "decode",
        readings=build_readings(window(record(1234, BAD), record(1235), log_start=1234)),
    ),
    Case(
        "one at a time, failed twice",
        "one_at_a_time",
        sink(AT_1234, failure=PUT, facts=ONE_BY_ONE, failures_alone=2, put_at_once=True),
        build_readings(window(record(1234), end=9000, read_to=1235)),
    ),
    Case(
        "the log names it, and it cannot be decoded",
        "error_log",
        sink(
            AT_1234, facts=by(Converter("com.example.Own"), logs_records=True), log=log_line(1234)
        ),
        build_readings(ALL_GOOD),
    ),
    Case(
        "the log names what a transform fails on",
        "error_log",
        sink(AT_1234, failure=TRANSFORM, facts=LOGGING, log=log_line(1234, stage="TRANSFORMATION")),
        build_readings(ALL_GOOD),
    ),
    Case(
        "what the log says of what is long past, and of others",
        "error_log",
        sink(
            AT_1234,
            failure=TRANSFORM,
            facts=LOGGING,
            log="\n".join(
                (
                    log_line(1200, stage="TRANSFORMATION"),
                    log_line(1240, connector="c-1"),
                    log_line(1234, stage="TRANSFORMATION"),
                    "\tat a.b.C(D.java:1)",
                )
            ),
        ),
        build_readings(ALL_GOOD),
    ),
    Case(
        "a dead letter names it",
        "dead_letter",
        sink(AT_1234, failure=TRANSFORM, facts=LETTERS),
        build_readings(ALL_GOOD),
        (letter(1200, stage="TRANSFORMATION"), letter(1234, stage="TRANSFORMATION")),
    ),
    Case(
        "a dead letter of another connector names another one",
        "decode",
        sink(AT_1234, facts=LETTERS),
        letters=(letter(1236, connector="other"),),
    ),
    Case(
        "a record that is corrupt, alone in its batch",
        "checksum",
        sink(AT_1234, failure=Failed("corrupt", "poll")),
        build_readings(
            window(end=1240, read_to=1234, corrupt_at=1234), salvaged=record(1234), sound_after=True
        ),
    ),
]

MUST_NOT_NAME = [
    Case("it runs and retries", "no_failure", sink(AT_1234, failure=None)),
    Case("the database is away", "vetoed", sink(AT_1234, failure=Failed(veto="connectivity"))),
    Case("a failure of no kind that is known", "vetoed", sink(AT_1234, failure=Failed("unknown"))),
    Case("a failure at its start", "stage_unknown", sink(AT_1234, failure=Failed(stage="start"))),
    Case("a failure nobody knows where", "stage_unknown",
         sink(AT_1234, failure=Failed(stage=None))),
    Case("it tolerates errors", "tolerance_already_on",
         sink(AT_1234, facts=SinkFacts(converters=BY_JSON, tolerant=True))),
    Case("it may tolerate errors", "tolerance_already_on",
         sink(AT_1234, facts=SinkFacts(converters=BY_JSON, tolerant=None))),
    Case("committed before the bad one", "committed_before_poison",
         readings=build_readings(values(1234, GOOD, GOOD, BAD, GOOD))),
    Case("two bad", "more_than_one_record_fails",
         readings=build_readings(values(1234, BAD, GOOD, BAD))),
    Case("all bad", "more_than_one_record_fails",
         readings=build_readings(values(1234, BAD, BAD, BAD))),
    Case("two bad, of two partitions", "more_than_one_record_fails",
         sink(AT_1234, build_subject(sink_pair(9, OTHER))),
         build_readings(ONE_BAD) | build_readings(values(9, BAD, partition=OTHER), OTHER)),
    Case("two bad, and the log names one", "more_than_one_record_fails",
         sink(AT_1234, facts=LOGGING, log=log_line(1234)), build_readings(values(1234, BAD, BAD))),
    Case("none bad", "nothing_fails_here", readings=build_readings(ALL_GOOD)),
    Case("a converter nobody knows", "not_decoded", sink(AT_1234, facts=by(Converter())),
         build_readings(ALL_GOOD)),
    Case("a converter of somebody's own", "not_decoded",
         sink(AT_1234, facts=by(Converter("com.example.Own"))), build_readings(ALL_GOOD)),
    Case("one bad among others of which nobody can tell", "not_decoded",
         readings=build_readings(values(1234, BAD, b"007"))),
    Case("none bad, and nobody can tell of one", "not_decoded",
         readings=build_readings(values(1234, GOOD, b"007"))),
    Case("a value is bad, and the key, of which only the frame is seen, is what failed",
         "methods_disagree",
         sink(AT_1234, failure=Failed(stage="converter_key"),
              facts=SinkFacts(converters=replace(BY_JSON, key=Converter(AVRO)))),
         build_readings(window(*(record(n, value, key=b"\0\0\0\0\7k")
                       for n, value in ((1234, BAD), (1235, GOOD)))))),
    Case("whether there is a schema nobody knows", "not_decoded",
         sink(AT_1234, facts=by(Converter(JSON, envelope=None))),
         build_readings(values(1234, GOOD, GOOD))),
    Case("right frames, and no more is decoded", "not_decoded",
         sink(AT_1234, facts=by(Converter(AVRO))),
         build_readings(values(1234, b"\0\0\0\0\7x", b"\0\0\0\0\7y"))),
    Case("a value is bad, and the key is what failed", "methods_disagree",
         sink(AT_1234, failure=Failed(stage="converter_key"))),
    Case("a key is bad, and the value is what failed", "methods_disagree",
         sink(AT_1234, facts=SinkFacts(converters=replace(
             BY_JSON, key=Converter(JSON, envelope=False)))),
         build_readings(window(record(1234, BAD, key=BAD), record(1235, key=GOOD)))),
    Case("the only record, which its converter takes", "methods_disagree",
         readings=build_readings(values(1234, GOOD))),
    Case("the only record, which would not even get to the transform", "methods_disagree",
         sink(AT_1234, failure=TRANSFORM), build_readings(values(1234, BAD))),
    Case("one of many, of a transform", "ambiguous_window",
         sink(AT_1234, failure=TRANSFORM), build_readings(ALL_GOOD)),
    Case("one of many, of put", "ambiguous_window",
         sink(AT_1234, failure=PUT, put_at_once=True), build_readings(ALL_GOOD)),
    Case("the only one, of a put that may keep some back", "ambiguous_window",
         sink(AT_1234, failure=PUT), build_readings(values(1234, GOOD))),
    Case("one at a time, failed once", "not_failed_again",
         sink(AT_1234, failure=PUT, facts=ONE_BY_ONE, failures_alone=1, put_at_once=True),
         build_readings(window(record(1234), end=9000, read_to=1235))),
    Case("one at a time, failed once in a converter that is not known here", "not_failed_again",
         sink(AT_1234, facts=by(Converter("com.example.Own"), batch_max=1), failures_alone=1),
         build_readings(window(record(1234), end=9000, read_to=1235))),
    Case("one at a time, and nobody knows whether it moves", "ambiguous_window",
         sink(build_subject(sink_pair(1234), moved=None), failure=TRANSFORM, facts=ONE_BY_ONE),
         build_readings(window(record(1234), end=9000, read_to=1235))),
    Case("failed often, and not one at a time", "ambiguous_window",
         sink(AT_1234, failure=PUT, failures_alone=9, put_at_once=True), build_readings(ALL_GOOD)),
    Case("one at a time, of a put that may keep some back", "ambiguous_window",
         sink(AT_1234, failure=PUT, facts=ONE_BY_ONE, failures_alone=9),
         build_readings(window(record(1234), end=9000, read_to=1235))),
    Case("the only one of each of two partitions", "ambiguous_window",
         sink(AT_1234, build_subject(sink_pair(9, OTHER)), failure=TRANSFORM),
         build_readings(values(1234, GOOD)) |
         build_readings(values(9, GOOD, partition=OTHER), OTHER)),
    Case("the only one, and one of which nobody knows whether it moves", "ambiguous_window",
         sink(AT_1234, build_subject(sink_pair(9, OTHER), moved=None), failure=TRANSFORM),
         build_readings(values(1234, GOOD)) |
         build_readings(values(9, GOOD, partition=OTHER), OTHER)),
    Case("the only one, and nobody knows whether it moves", "ambiguous_window",
         sink(build_subject(sink_pair(1234), moved=None), failure=TRANSFORM),
         build_readings(values(1234, GOOD))),
    Case("the only one, and others that were never committed", "ambiguous_window",
         sink(AT_1234, failure=TRANSFORM), build_readings(values(1234, GOOD)),
         uncommitted=frozenset({OTHER})),
    Case("the only one, and nobody knows of others", "ambiguous_window",
         sink(AT_1234, failure=TRANSFORM), build_readings(values(1234, GOOD)), uncommitted=None),
    Case("a window that does not fit", "window_too_large",
         readings=build_readings(window(record(1234, BAD), record(1235), end=1300, read_to=1236))),
    Case("a gap at what is committed", "gap_at_committed",
         readings=build_readings(window(record(1236, BAD), record(1237)))),
    Case("a marker at what is committed, and one record", "gap_at_committed",
         sink(AT_1234, failure=TRANSFORM), build_readings(window(record(1235), end=1237))),
    Case("the log names one that is not first", "committed_before_poison",
         sink(AT_1234, failure=TRANSFORM, facts=LOGGING,
              log=log_line(1236, stage="TRANSFORMATION")), build_readings(ALL_GOOD)),
    Case("the log names one that was not read", "committed_before_poison",
         sink(AT_1234, failure=TRANSFORM, facts=LOGGING,
              log=log_line(5000, stage="TRANSFORMATION")), build_readings(ALL_GOOD)),
    Case("the log names the first that was not read", "committed_before_poison",
         sink(AT_1234, failure=TRANSFORM, facts=LOGGING,
              log=log_line(1235, stage="TRANSFORMATION")),
         build_readings(window(record(1234), end=9000, read_to=1235))),
    Case("the log names the first of what was never committed", "methods_disagree",
         sink(AT_1234, failure=TRANSFORM, facts=LOGGING,
              log=log_line(0, at=OTHER, stage="TRANSFORMATION")), build_readings(ALL_GOOD)),
    Case("the log names one that is gone", "record_is_gone",
         sink(AT_1234, failure=TRANSFORM, facts=LOGGING,
              log=log_line(1235, stage="TRANSFORMATION")),
         build_readings(window(record(1234), record(1236)))),
    Case("the log names one that all converters take, and it does not tell which failed",
         "methods_disagree",
         sink(AT_1234, failure=Failed(stage="converter"), facts=LOGGING, log=log_line(1234)),
         build_readings(ALL_GOOD)),
    Case("one bad value, and keys of which nobody can tell, and it does not tell which failed",
         "not_decoded",
         sink(AT_1234, failure=Failed(stage="converter"),
              facts=SinkFacts(converters=replace(BY_JSON, key=Converter())))),
    Case("the log names two", "methods_disagree",
         sink(AT_1234, facts=LOGGING, log=f"{log_line(1234)}\n{log_line(1236)}")),
    Case("the log names another one than the decode", "methods_disagree",
         sink(AT_1234, facts=LOGGING, log=log_line(1235))),
    Case("the log names one that is converted", "methods_disagree",
         sink(AT_1234, facts=LOGGING, log=log_line(1234)), build_readings(ALL_GOOD)),
    Case("the log names one elsewhere", "methods_disagree",
         sink(AT_1234, failure=TRANSFORM, facts=LOGGING,
              log=log_line(3, at=OTHER, stage="TRANSFORMATION")), build_readings(ALL_GOOD)),
    Case("a dead letter names another one than the decode", "methods_disagree",
         sink(AT_1234, facts=LETTERS), letters=(letter(1236),)),
    Case("a line of the log was forged by a record", "ambiguous_window",
         sink(AT_1234, failure=TRANSFORM, facts=LOGGING,
              log="\n".join((log_line(0, named=False, stage="TRANSFORMATION"),
                             log_line(1234, stage="TRANSFORMATION")))), build_readings(ALL_GOOD)),
    Case("the log is not told to name records", "ambiguous_window",
         sink(AT_1234, failure=TRANSFORM, log=log_line(1234, stage="TRANSFORMATION")),
         build_readings(ALL_GOOD)),
    Case("the log speaks of another stage", "ambiguous_window",
         sink(AT_1234, failure=TRANSFORM, facts=LOGGING, log=log_line(1234)),
         build_readings(ALL_GOOD)),
    Case("retention took what was committed", "log_start_past_position",
         readings=build_readings(window(record(1300, BAD), log_start=1300))),
    Case("the topic was created again", "topic_recreated",
         readings=build_readings(ONE_BAD, topic_id="new")),
    Case("nobody knows which topic it was", "topic_id_unknown",
         sink(build_subject(sink_pair(1234), topic_id=None))),
    Case("nobody knows which topic it is", "topic_id_unknown",
         readings=build_readings(ONE_BAD, topic_id=None)),
    Case("the log ends earlier than before", "log_end_went_back",
         sink(build_subject(sink_pair(1234), highest_end=1238))),
    Case("committed past the end", "position_past_end",
         readings=build_readings(window(end=1230, read_to=1234))),
    Case("nothing to read", "nothing_to_read",
         readings=build_readings(window(end=1234, read_to=1234))),
    Case("nothing but markers to read", "nothing_to_read",
         readings=build_readings(window(end=1237, read_to=1237))),
    Case("everything moves", "nothing_to_read", sink(build_subject(sink_pair(1234), moved=True))),
    Case("no offset at all", "nothing_to_read", sink(build_subject(sink_pair(None)))),
    Case("no partition at all", "nothing_to_read", sink()),
    Case("it could not be read", "window_not_read",
         readings={AT: PartitionReading(topic_id=ID, unread="unreachable")}),
    Case("it was not read", "window_not_read", readings={}),
    Case("it could not be read in time", "window_not_read",
         readings=build_readings(window(end=1240, read_to=1234))),
    Case("whether it reads aborted records nobody knows", "isolation_unknown",
         readings=build_readings(ONE_BAD, levels_differ=True)),
    Case("two offsets of one partition", "partition_twice",
         sink(AT_1234, build_subject(PartitionOffset(
             '{"kafka_partition":0,"kafka_topic":"orders","x":1}', '{"kafka_offset":3}')))),
    Case("a partition that is a text", "offset_not_understood",
         sink(build_subject(PartitionOffset('{"kafka_partition":"0","kafka_topic":"orders"}',
                            '{"kafka_offset":1234}')))),
    Case("a topic that is a number", "offset_not_understood",
         sink(build_subject(PartitionOffset('{"kafka_partition":0,"kafka_topic":7}',
                            '{"kafka_offset":1234}')))),
    Case("an offset before any record", "offset_not_understood",
         sink(build_subject(sink_pair(-1)))),
    Case("an offset that is true", "offset_not_understood",
         sink(build_subject(PartitionOffset(sink_pair(1).partition, '{"kafka_offset":true}')))),
    Case("a corrupt record that it did not fail for", "window_corrupt",
         readings=build_readings(
             window(record(1234, BAD), end=1240, read_to=1235, corrupt_at=1235))),
    Case("corrupt, and the next one too", "corrupt_batch",
         sink(AT_1234, failure=Failed("corrupt", "poll")),
         build_readings(window(end=1240, read_to=1234, corrupt_at=1234), salvaged=record(1234),
              sound_after=False)),
    Case("corrupt, and nothing to copy", "cannot_copy",
         sink(AT_1234, failure=Failed("corrupt", "poll")),
         build_readings(window(end=1240, read_to=1234, corrupt_at=1234), sound_after=True)),
    Case("corrupt, after records that it did not get past", "not_the_first_record",
         sink(AT_1234, failure=Failed("corrupt", "poll")),
         build_readings(window(record(1234), end=1240, read_to=1235, corrupt_at=1235))),
    Case("corrupt after a gap", "gap_at_committed",
         sink(AT_1234, failure=Failed("corrupt", "poll")),
         build_readings(window(end=1240, read_to=1234, corrupt_at=1234), salvaged=record(1236),
              sound_after=True)),
    Case("it failed for a checksum, and all can be read", "probe_is_clean",
         sink(AT_1234, failure=Failed("corrupt", "poll")), build_readings(ALL_GOOD)),
]  # fmt: skip


@pytest.mark.parametrize("case", MUST_NAME, ids=lambda case: case.id)
def test_a_record_is_named_where_it_leaves_no_other(case: Case) -> None:
    answer = case.answer
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.method, answer.record.offset) == (case.expect, 1234)


@pytest.mark.parametrize("case", MUST_NOT_NAME, ids=lambda case: case.id)
def test_no_record_is_named_where_another_one_may_be_it(case: Case) -> None:
    answer = case.answer
    assert isinstance(answer, NoIdentification), answer
    assert answer.reason == case.expect
    assert answer.said


@pytest.mark.parametrize(
    ("failure", "kind"),
    [(Failed(veto="connectivity"), "connectivity"), (Failed("unknown"), "unknown")],
)
def test_why_no_record_is_searched_for_is_reported(failure: Failed, kind: str) -> None:
    answer = find_in_sink(sink(AT_1234, failure=failure), build_readings(ONE_BAD))
    assert answer.evidence == (EvidenceItem("failure", kind),)


def test_which_partition_is_odd_is_reported() -> None:
    answer = find_in_sink(STILL, build_readings(ONE_BAD, topic_id="new"))
    assert isinstance(answer, NoIdentification)
    assert answer.said.startswith("orders-0 was deleted and created again")


def test_there_are_more_cases_that_name_nothing_than_such_that_do() -> None:
    assert len(MUST_NOT_NAME) >= len(MUST_NAME)


def test_a_skip_is_absolute_and_by_one_and_keeps_every_other_field() -> None:
    pair = PartitionOffset(
        '{"kafka_partition":0,"kafka_topic":"orders","more":"x"}',
        '{"kafka_offset":1234,"metadata":null}',
    )
    answer = find_in_sink(sink(build_subject(pair)), build_readings(ONE_BAD))
    assert isinstance(answer, IdentifiedRecord)
    assert answer.record == RecordLocation("east", "orders", ID, 0, 1234)
    assert answer.frm == pair
    assert answer.to == PartitionOffset(pair.partition, '{"kafka_offset":1235,"metadata":null}')
    poison = ONE_BAD.records[0]
    assert (answer.sha256, answer.size_bytes) == (poison.sha256, poison.size_bytes)


def test_methods_that_agree_are_named_the_most_certain_first() -> None:
    facts = SinkFacts(converters=BY_JSON, logs_records=True, dead_letters="letters")
    subject = sink(AT_1234, facts=facts, log=log_line(1234))
    answer = find_in_sink(subject, build_readings(values(1234, BAD)), (letter(1234),), frozenset())
    assert isinstance(answer, IdentifiedRecord)
    assert (answer.method, answer.also) == ("decode", ("only_record", "error_log", "dead_letter"))


def test_nothing_of_what_records_hold_is_reported() -> None:
    secret = b"password=hunter2"
    partition = build_readings(
        window(record(1234, secret, key=secret, headers=(("h", secret),)), record(1235))
    )
    named = find_in_sink(sink(AT_1234), partition)
    broken = find_in_sink(sink(AT_1234), build_readings(values(1234, secret, secret)))
    assert isinstance(named, IdentifiedRecord)
    assert isinstance(broken, NoIdentification)
    assert "hunter2" not in repr(named) + repr(broken)
    assert EvidenceItem("fails", "orders-0@1234: no JSON") in named.evidence
    assert EvidenceItem("converter", JSON) in named.evidence


def test_what_was_not_decoded_is_reported() -> None:
    answer = find_in_sink(
        sink(AT_1234, facts=by(Converter(AVRO))), build_readings(values(1234, GOOD, b"\0\0\0\0\7x"))
    )
    assert isinstance(answer, IdentifiedRecord)
    assert EvidenceItem("not decoded", 1, "records") in answer.evidence
    assert EvidenceItem("fails", "orders-0@1234: unknown magic byte") in answer.evidence


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failed(), recommendations.DEAD_LETTERS),
        (Failed(), recommendations.SHOW_RECORDS),
        (TRANSFORM, recommendations.DEAD_LETTERS),
        (PUT, recommendations.ONE_AT_A_TIME),
        (PUT, recommendations.ERRANT_RECORDS),
    ],
)
def test_what_connect_can_do_itself_is_recommended(failure: Failed, expected: str) -> None:
    answer = find_in_sink(sink(AT_1234, failure=failure), build_readings(ALL_GOOD))
    assert expected in answer.recommend


def test_one_record_at_a_time_is_not_recommended_once_it_is_set() -> None:
    answer = find_in_sink(
        sink(AT_1234, failure=PUT, facts=ONE_BY_ONE),
        build_readings(window(record(1234), end=9000, read_to=1235)),
    )
    assert isinstance(answer, NoIdentification), answer
    assert answer.said.startswith("any of 1 record, or an earlier one, may be the one")
    assert answer.recommend == (recommendations.ERRANT_RECORDS, recommendations.DECLARE_SAFE)


@pytest.mark.parametrize(("converter", "expected"), [(Converter(), True), (Converter(AVRO), False)])
def test_for_an_unknown_converter_the_properties_of_its_worker_are_recommended(
    converter: Converter, expected: bool
) -> None:
    answer = find_in_sink(
        sink(AT_1234, facts=by(converter)), build_readings(values(1234, b"\0\0\0\0\7x"))
    )
    assert (recommendations.GIVE_WORKER_PROPERTIES in answer.recommend) is expected


def test_of_a_schema_break_the_writer_is_to_be_inspected_first() -> None:
    answer = find_in_sink(sink(AT_1234), build_readings(values(1234, BAD, BAD)))
    assert answer.recommend[0] == recommendations.CHECK_PRODUCER


def test_even_where_a_record_is_named_the_better_remedy_is_reported() -> None:
    answer = find_in_sink(sink(AT_1234), build_readings(ONE_BAD))
    assert recommendations.DEAD_LETTERS in answer.recommend


def test_a_converter_that_takes_anything_speaks_against_a_record() -> None:
    facts = SinkFacts(converters=ConnectorConverters(value=Converter(STRING)), logs_records=True)
    answer = find_in_sink(sink(AT_1234, facts=facts, log=log_line(1234)), build_readings(ALL_GOOD))
    assert isinstance(answer, NoIdentification)
    assert EvidenceItem("against it", "converter_value takes it") in answer.evidence
