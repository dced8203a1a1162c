"""What Connect's log and its dead letters say of records, and what others made them say."""

from __future__ import annotations

import pytest

from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.locate.sinks import (
    LINE_CHARS_MAX,
    LOG_CHARS_MAX,
    Coordinates,
    parse_dead_letters,
    parse_error_log,
)
from tests.unit.remedy.stalled_connectors import AT, JSON, letter, log_line

SAID = frozenset({Coordinates(AT, 1234, "converter_value", JSON)})


def test_a_line_names_a_record() -> None:
    assert parse_error_log(log_line(1234), "c") == SAID


def test_a_line_without_a_timestamp_and_without_a_logger_names_one_too() -> None:
    line = log_line(1234).replace(", timestamp=1700000000000, timestampType=CreateTime", "")
    assert parse_error_log(line.partition(" (org")[0], "c") == SAID


def test_what_is_between_the_lines_says_nothing() -> None:
    trace = 'org.x.DataException: quoted {"a":1}\n\tat a.b.C(D.java:1)\nCaused by: x.Y: z'
    text = f"[x] INFO hello\n{log_line(1234)}\n{trace}\n{log_line(1234)}\n{trace}"
    assert parse_error_log(text, "c") == SAID


def test_lines_of_other_connectors_say_nothing_of_this_one() -> None:
    others = (log_line(1, connector="d"), log_line(2, connector="c-1"), log_line(3, connector="cc"))
    assert parse_error_log("\n".join((*others, log_line(1234))), "c") == SAID


def test_the_same_goes_for_a_name_that_ends_like_a_task() -> None:
    assert parse_error_log(log_line(7, connector="c-1"), "c-1") == frozenset(
        {Coordinates(AT, 7, "converter_value", JSON)}
    )


@pytest.mark.parametrize(
    "odd",
    [
        log_line(0, named=False),
        log_line(5).replace("offset=5", "offset=5, offset=6"),
        log_line(5).replace("topic='orders'", "topic='or'ders'"),
        log_line(5).replace("VALUE_CONVERTER", "KAFKA_CONSUME"),
        log_line(5) + " and more",
        "WARN" + log_line(5).replace("ERROR", "WARN"),
        "it's " + log_line(5),
        log_line(5).replace("offset=5", "offset=" + "5" * 30),
        log_line(5) + " " * 5000,
    ],
)
def test_a_line_that_is_not_as_connect_writes_it_spoils_the_log(odd: str) -> None:
    assert parse_error_log(f"{log_line(1234)}\n{odd}", "c") == frozenset()
    assert parse_error_log(f"{odd}\n{log_line(1234)}", "c") == frozenset()


def test_a_line_may_be_as_long_as_any_of_connects() -> None:
    assert parse_error_log(log_line(1234).ljust(LINE_CHARS_MAX), "c") == SAID
    assert parse_error_log(log_line(1234).ljust(LINE_CHARS_MAX + 1), "c") == frozenset()


def test_what_a_record_quotes_of_a_line_is_observed_beside_the_true_one() -> None:
    forged = f"DataException: {{\n{log_line(1230)}\n}}"
    error_log = parse_error_log(f"{log_line(1234)}\n{forged}", "c")
    assert {partition.offset for partition in error_log} == {1230, 1234}


def test_only_the_end_of_a_log_is_read() -> None:
    assert parse_error_log(f"{log_line(1)}\n{'x' * LOG_CHARS_MAX}\n{log_line(1234)}", "c") == SAID


def test_every_stage_has_its_word() -> None:
    words = ["KEY_CONVERTER", "VALUE_CONVERTER", "HEADER_CONVERTER", "TRANSFORMATION", "TASK_PUT"]
    partition = [parse_error_log(log_line(1, stage=word), "c") for word in words]
    assert [next(iter(item)).stage for item in partition] == [
        "converter_key",
        "converter_value",
        "converter_header",
        "transform",
        "put",
    ]


def test_a_dead_letter_names_a_record() -> None:
    assert parse_dead_letters([letter(1234)], "c") == SAID


def test_of_headers_that_come_twice_the_last_counts() -> None:
    forged = letter(99, partition=TopicPartition("other", 5))
    assert parse_dead_letters([(*forged, *letter(1234))], "c") == SAID


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(("offset", b"99"), id="not-connects"),
        pytest.param(("__connect.errors.topic", b"x" * (LINE_CHARS_MAX + 1)), id="too-long"),
    ],
)
def test_of_headers_that_say_nothing_none_counts(more: tuple[str, bytes]) -> None:
    assert parse_dead_letters([(*letter(1234), more)], "c") == SAID


def test_a_header_may_be_as_long_as_a_line() -> None:
    name = "x" * LINE_CHARS_MAX
    headers = (*letter(1234), ("__connect.errors.class.name", name.encode()))
    assert parse_dead_letters([headers], "c") == {Coordinates(AT, 1234, "converter_value", name)}


@pytest.mark.parametrize(
    "headers",
    [
        (),
        letter(1234, connector="d"),
        letter(1234, stage="KAFKA_CONSUME"),
        tuple(item for item in letter(1234) if not item[0].endswith("offset")),
        (*letter(1234), ("__connect.errors.offset", b"-1")),
        (*letter(1234), ("__connect.errors.partition", b"0x0")),
        (*letter(1234), ("__connect.errors.stage", None), ("__connect.errors.stage", b"\xff")),
    ],
)
def test_a_letter_that_does_not_say_all_says_nothing(headers: tuple) -> None:
    assert parse_dead_letters([headers], "c") == frozenset()
