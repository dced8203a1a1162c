"""Finding the poison, whatever the logs hold: what is named is exact, or nothing is."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.locate.converters import (
    ConnectorConverters,
    ConversionVerdict,
    Converter,
    check_conversion,
)
from offsetwatch.remedy.locate.search import (
    IdentifiedRecord,
    MirrorFacts,
    PartitionReading,
    SinkFacts,
    SubjectPartition,
)
from offsetwatch.remedy.locate.sinks import find_in_sink, parse_sink_position
from offsetwatch.remedy.locate.sources import find_in_mirror
from offsetwatch.remedy.model.plan import PartitionOffset
from tests.unit.remedy.stalled_connectors import (
    AVRO,
    BAD,
    GOOD,
    JSON,
    STRING,
    Failed,
    letter,
    log_line,
    mirror,
    mirror_pair,
    sink,
    sink_pair,
)

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
STAGES = {
    "VALUE_CONVERTER": "converter_value",
    "KEY_CONVERTER": "converter_key",
    "TRANSFORMATION": "transform",
    "TASK_PUT": "put",
}
# Most worlds name nothing: more of them than usual, each of which costs a millisecond.
EXAMPLES = 3 * settings.default.max_examples
BODIES = [*[GOOD] * 6, BAD, BAD, None, b"007", b"\0\0\0\0\7x", b"x" * 20_000]
CONVERTERS = [Converter(JSON, envelope=False), Converter(STRING), Converter(AVRO), Converter()]
small = st.integers(0, 8)
used = st.sampled_from(CONVERTERS)
# What may be odd about a partition; mostly nothing is.
ODD = [*[""] * 30, "gap", "log_start", "topic_id", "short", "unread", "corrupt", "levels"]
ODD += ["window", "highest_end", "moved", "perhaps_moved", "read_short"]


def build_reading(
    dice: Random, odd: str, partition: TopicPartition, start: int
) -> PartitionReading:
    """What a reader may have found."""
    first = start + (odd == "gap")
    offsets = range(first, first + dice.randrange(4))
    records = tuple(
        RawRecord(
            partition.topic,
            partition.partition,
            n,
            0,
            1,
            "create",
            dice.choice(BODIES),
            dice.choice(BODIES),
        )
        for n in offsets
    )
    last = first + len(records)
    end = max(0, start - 1) if odd == "short" else last
    window = LogWindow(
        () if odd == "corrupt" else records,
        next_offset=last - (odd == "read_short"),
        end=end + 3 * (odd == "corrupt"),
        log_start=start + 1 if odd == "log_start" else 0,
        corrupt_at=start if odd == "corrupt" else None,
    )
    saved = RawRecord(
        partition.topic,
        partition.partition,
        start + dice.choice((0, 0, 0, 1)),
        0,
        1,
        "create",
        None,
        GOOD,
    )
    return PartitionReading(
        topic_id=dice.choice(("new", None)) if odd == "topic_id" else "id",
        window=None if odd == "unread" else window,
        salvaged=dice.choice((saved, saved, None)),
        sound_after=dice.choice((True, True, False, None)),
        levels_differ=odd == "levels",
        size_max=dice.choice((None, 5_000)),
    )


def build_subject(odd: str, pair: PartitionOffset) -> SubjectPartition:
    return SubjectPartition(
        pair,
        moved={"moved": True, "perhaps_moved": None}.get(odd, False),
        topic_id="id",
        highest_end=100 if odd == "highest_end" else None,
    )


def failure(dice: Random) -> Failed | None:
    kind = ["deserialization"] * 15 + ["sink_data"] * 3 + ["corrupt", "producer_size", "auth"]
    failed = Failed(
        kind=dice.choice(kind),
        stage=dice.choice([*[*STAGES.values(), "converter_value"] * 3, "poll"]),
        veto="auth" if dice.random() < 0.02 else None,
        size_bytes=dice.choice((None, 20_086, 20_100, 9)),
    )
    return None if dice.random() < 0.02 else failed


@st.composite
def sinks(draw: st.DrawFn) -> tuple:
    dice = Random(draw(st.integers(0, 2**32)))
    committed = {partition: draw(small) for partition in PLACES}
    odd = {partition: dice.choice(ODD) for partition in PLACES}

    def said() -> list[tuple[TopicPartition, int, str]]:
        count = dice.choice((0, 0, 1, 1, 2))
        partition = [dice.choice(PLACES) for _ in range(count)]
        return [
            (item, committed[item] + dice.choice((0, 0, 0, 1, -1)), word(dice))
            for item in partition
        ]

    subject = sink(
        *(
            build_subject(odd[partition], sink_pair(committed[partition], partition))
            for partition in PLACES[: dice.choice((1, 2))]
        ),
        failure=failure(dice),
        facts=SinkFacts(
            converters=ConnectorConverters(*(dice.choice(CONVERTERS) for _ in range(3))),
            batch_max=dice.choice((None, 1, 2)),
            tolerant=dice.choice((False,) * 30 + (True, None)),
            dead_letters=dice.choice((None, "letters")),
            logs_records=dice.random() < 0.5,
        ),
        failures_alone=dice.randrange(4),
        put_at_once=dice.random() < 0.5,
        log="\n".join(
            log_line(max(0, n), at=partition, stage=word) for partition, n, word in said()
        ),
    )
    observed = {
        partition: build_reading(dice, odd[partition], partition, committed[partition])
        for partition in PLACES
    }
    results = tuple(
        letter(max(0, n), partition=partition, stage=word) for partition, n, word in said()
    )
    return (
        subject,
        observed,
        results,
        dice.choice((None, *[frozenset()] * 20, frozenset({PLACES[0]}))),
    )


def word(dice: Random) -> str:
    return dice.choice([*STAGES, "VALUE_CONVERTER"])


@settings(max_examples=EXAMPLES)
@given(sinks())
def test_a_sinks_poison_is_what_is_committed_and_its_target_the_next(drawn: tuple) -> None:
    subject, observed, letters, uncommitted = drawn
    answer = find_in_sink(subject, observed, letters, uncommitted)
    event(answer.method if isinstance(answer, IdentifiedRecord) else answer.reason)
    if not isinstance(answer, IdentifiedRecord):
        return
    partition = TopicPartition(answer.record.topic, answer.record.partition)
    offset = answer.record.offset
    assert answer.frm == sink_pair(offset, partition)
    assert answer.to == sink_pair(offset + 1, partition)
    assert subject.failure is not None
    assert subject.failure.veto is None
    window = observed[partition].window
    assert window is not None
    assert window.log_start <= offset < window.end
    assert observed[partition].topic_id == "id"
    if answer.method != "checksum":
        assert window.records[0].offset == offset
        assert answer.sha256 == window.records[0].sha256


@settings(max_examples=EXAMPLES)
@given(sinks())
def test_no_record_of_a_sink_is_named_while_two_ways_of_knowing_disagree(drawn: tuple) -> None:
    subject, observed, letters, uncommitted = drawn
    answer = find_in_sink(subject, observed, letters, uncommitted)
    if not isinstance(answer, IdentifiedRecord) or answer.method == "checksum":
        return
    assert subject.failure is not None
    stage, facts = subject.failure.stage, subject.facts
    committed = dict.fromkeys(PLACES, 0) | {
        location.partition: location.next
        for location in (parse_sink_position(each.pair) for each in subject.partitions)
        if location is not None
    }
    named = (TopicPartition(answer.record.topic, answer.record.partition), answer.record.offset)
    if facts.logs_records:
        for partition in PLACES:
            for offset in range(committed[partition], 20):
                words = [word for word, own in STAGES.items() if own == stage]
                lines = [log_line(offset, at=partition, stage=word) for word in words]
                text = any(line in (subject.log or "") for line in lines)
                assert not text or (partition, offset) == named
    by = {"converter_key": facts.converters.key, "converter_value": facts.converters.value}
    if stage in by:
        window = observed[named[0]].window
        assert window is not None
        first = window.records[0]
        raw = first.key if stage == "converter_key" else first.value
        assert check_conversion(by[stage], raw).reading is not ConversionVerdict.FINE


@st.composite
def mirrors(draw: st.DrawFn) -> tuple:
    dice = Random(draw(st.integers(0, 2**32)))
    copied = {partition: draw(small) for partition in PLACES}
    odd = {partition: dice.choice([*ODD, *["corrupt"] * 10]) for partition in PLACES}
    rows = PLACES[: dice.choice((1, 2))]
    failed = failure(dice)
    if failed is not None and dice.random() < 0.7:
        failed = replace(failed, kind="producer_size")
    subject = mirror(
        *(
            build_subject(odd[partition], mirror_pair(copied[partition], partition))
            for partition in rows
        ),
        failure=failed if dice.random() < 0.6 else None,
        facts=MirrorFacts(
            alias="east",
            request_max=dice.choice((None, 5_000)),
            compressed=dice.choice((None, False, True)),
        ),
    )
    return (
        subject,
        {
            partition: build_reading(dice, odd[partition], partition, copied[partition] + 1)
            for partition in PLACES
        },
        copied,
    )


@settings(max_examples=EXAMPLES)
@given(mirrors())
def test_a_mirrors_poison_is_the_first_record_that_there_is(drawn: tuple) -> None:
    subject, observed, copied = drawn
    answer = find_in_mirror(subject, observed)
    event(answer.method if isinstance(answer, IdentifiedRecord) else answer.reason)
    if not isinstance(answer, IdentifiedRecord):
        return
    partition = TopicPartition(answer.record.topic, answer.record.partition)
    offset = answer.record.offset
    assert (answer.frm, answer.to) == (
        mirror_pair(copied[partition], partition),
        mirror_pair(offset, partition),
    )
    assert offset > copied[partition]
    window = observed[partition].window
    assert window is not None
    assert all(record.offset >= offset for record in window.records)
    if answer.method == "size":
        assert window.records[0].offset == offset
        assert answer.size_bytes > 5_000
    else:
        assert not window.records
        assert window.corrupt_at is not None


@given(st.binary(max_size=60), used, st.booleans())
def test_our_own_decode_has_an_answer_for_any_bytes(
    raw: bytes, converter: Converter, boolean: bool
) -> None:
    envelope = Converter(JSON, envelope=boolean)
    assert isinstance(check_conversion(converter, raw).reading, ConversionVerdict)
    assert isinstance(check_conversion(envelope, raw).reading, ConversionVerdict)
