"""Of which records our own decode says that they fail, and of how many it says nothing."""

from __future__ import annotations

import pytest

from offsetwatch.model.findings import EvidenceItem
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.remedy.classify.trace_meanings import CONVERTER, HEADER, KEY, PUT, VALUE
from offsetwatch.remedy.locate.converters import UNKNOWN_CONVERTERS, ConnectorConverters, Converter
from offsetwatch.remedy.locate.search import PartitionReading, ReadPosition, SinkFacts, Suspect
from offsetwatch.remedy.locate.sinks import (
    EXAMPLES_MAX,
    decode_suspects,
    find_contradiction,
    has_unknown_converter,
)
from tests.unit.remedy.standstills import (
    AT,
    AVRO,
    BAD,
    BY_JSON,
    GOOD,
    JSON,
    STRING,
    record,
    sink_pair,
    standing,
    values,
    window,
)

PLAIN = Converter(JSON, envelope=False)
OTHER = Converter("com.example.RowConverter")
STRINGS, AVROS = Converter(STRING), Converter(AVRO)
FRAMED = b"\0\0\0\0\7row"


def suspect(result: LogWindow) -> Suspect:
    return Suspect(
        standing(sink_pair(0)), ReadPosition(AT, 0), PartitionReading(window=result), result
    )


def facts(
    key: Converter = PLAIN,
    value: Converter = PLAIN,
    header: Converter = PLAIN,
    batch: int | None = None,
) -> SinkFacts:
    return SinkFacts(converters=ConnectorConverters(key, value, header), batch_max=batch)


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        pytest.param(values(0, GOOD, GOOD), True, id="read-to-the-end"),
        pytest.param(window(record(0), record(1), read_to=5, end=9), True, id="a-full-batch"),
        pytest.param(window(record(0), read_to=5, end=9), False, id="less-than-a-batch"),
    ],
)
def test_all_is_seen_that_may_have_been_in_the_batch(result: LogWindow, *, whole: bool) -> None:
    assert decode_suspects([suspect(result)], facts(batch=2), VALUE).whole is whole


def test_no_more_records_than_a_batch_has_are_looked_at() -> None:
    result = decode_suspects(
        [suspect(values(0, GOOD, GOOD, BAD)), suspect(values(7, GOOD))],
        facts(key=Converter(STRING), batch=2),
        VALUE,
    )
    assert (result.records, result.bad, result.whole) == (3, (), True)


def test_a_record_that_fails_is_not_counted_as_one_that_was_not_decoded() -> None:
    records = window(record(0, FRAMED, key=BAD), record(1, FRAMED, key=b"1"))
    for value, unknown, framed in ((OTHER, 1, 0), (Converter(AVRO), 0, 1)):
        result = decode_suspects([suspect(records)], facts(value=value), CONVERTER)
        assert [(item.record.offset, item.stage) for item in result.bad] == [(0, KEY)]
        assert (result.unknown, result.framed) == (unknown, framed)


def test_what_is_not_known_of_one_converter_and_framed_for_another_is_counted_once() -> None:
    result = decode_suspects([suspect(values(0, FRAMED))], facts(OTHER, Converter(AVRO)), CONVERTER)
    assert (result.unknown, result.framed) == (1, 0)
    assert EvidenceItem("not decoded", 1, "records") in result.evidence(BY_JSON, CONVERTER)


def test_what_is_framed_and_what_is_not_known_are_both_not_decoded() -> None:
    result = decode_suspects(
        [suspect(values(0, FRAMED, b"\1x", None))], facts(STRINGS, AVROS), VALUE
    )
    assert (result.unknown, result.framed, result.bad) == (1, 1, ())
    assert EvidenceItem("not decoded", 2, "records") in result.evidence(BY_JSON, VALUE)


def test_of_a_stage_that_decodes_nothing_there_is_no_evidence() -> None:
    assert (
        decode_suspects([suspect(values(0, GOOD))], facts(STRINGS), PUT).evidence(BY_JSON, PUT)
        == ()
    )


def test_of_many_records_that_fail_a_few_are_shown() -> None:
    result = decode_suspects(
        [suspect(values(0, *[BAD] * (EXAMPLES_MAX + 1)))], facts(key=Converter(STRING)), VALUE
    )
    reports = result.evidence(BY_JSON, VALUE)
    assert EvidenceItem("fail our own decode", EXAMPLES_MAX + 1, "records") in reports
    assert [item.name for item in reports].count("fails") == EXAMPLES_MAX


def test_of_a_converter_that_nobody_knows_it_is_said_where_it_comes_from() -> None:
    result = decode_suspects([suspect(values(0, GOOD))], SinkFacts(), CONVERTER)
    assert result.evidence(UNKNOWN_CONVERTERS, CONVERTER)[0] == EvidenceItem(
        "converter",
        "the worker's own, which its REST API does not return",
    )


@pytest.mark.parametrize(
    ("result", "by", "why"),
    [
        pytest.param(
            record(0, key=BAD), facts(), f"it would not even get past {KEY}", id="earlier"
        ),
        pytest.param(record(0, key=b"1"), facts(), f"{VALUE} takes it", id="taken"),
        pytest.param(record(0, BAD, key=b"1"), facts(), None, id="it-fails-there"),
        pytest.param(
            record(0, key=b"1", headers=(("h", BAD),)), facts(value=OTHER), None, id="later"
        ),
    ],
)
def test_a_record_is_not_the_one_that_fails_where_it_is_taken_or_never_arrives(
    result: RawRecord, by: SinkFacts, why: str | None
) -> None:
    assert find_contradiction(result, by, VALUE) == why


def test_of_a_record_that_not_all_converters_are_known_to_take_nothing_is_said() -> None:
    assert find_contradiction(record(0, b"1", key=b"1"), facts(), PUT) is None
    assert find_contradiction(record(0, b"1", key=b"1"), facts(value=OTHER), CONVERTER) is None
    assert (
        find_contradiction(record(0, b"1", key=b"1"), facts(), CONVERTER) == f"{CONVERTER} takes it"
    )


@pytest.mark.parametrize(
    ("by", "stages"),
    [
        pytest.param(facts(), (), id="all-are-known"),
        pytest.param(facts(header=Converter()), (CONVERTER, HEADER), id="one-is-not"),
        pytest.param(facts(*[Converter()] * 3), (CONVERTER, KEY, VALUE, HEADER), id="none-is"),
    ],
)
def test_a_stage_is_untold_where_nobody_knows_one_of_its_converters(
    by: SinkFacts, stages: tuple[str, ...]
) -> None:
    requests = (CONVERTER, KEY, VALUE, HEADER, PUT)
    assert (
        tuple(stage for stage in requests if has_unknown_converter(by.converters, stage)) == stages
    )
