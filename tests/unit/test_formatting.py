"""Durations of the configuration and the command line, read and written in one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.config import parse
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import format_duration, parse_duration


def document(**changes: object) -> dict[str, object]:
    return {
        "connect": [{"name": "lab", "url": "http://127.0.0.1:18083"}],
        **changes,
    }


def mistakes(**changes: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(document(**changes), {})
    return caught.value.mistakes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("1d", 86_400.0),
        ("1m500ms", 60.5),
        ("1.5h", 5400.0),
        (" 1 h 30 m ", 5400.0),
        ("45", 45.0),
        ("0.2", 0.2),
        ("0s", 0.0),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["5 minutes", "5x", "1h1h", "3m2h", "-5s", "1h30", "5M"])
def test_a_wrong_duration_is_named_with_the_right_form(text: str) -> None:
    with pytest.raises(ValueError, match=r'^".*" is not a duration: write 30s, 5m, 1h30m or 500ms'):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "soon", "hunter2", "5 times a day, please", "s", "1" * 400])
def test_what_may_be_a_password_is_not_repeated(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"^(not a duration|a duration is at most 36500d): write 30s"
    ):
        parse_duration(text)


def test_a_long_text_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration("1d" + " " * 1_000_000 + "x")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.05, "50ms"),
        (0.5, "500ms"),
        (7.5, "7.5s"),
        (60.0, "1m"),
        (90.0, "1m30s"),
        (5400.0, "1h30m"),
        (86_400.0, "1d"),
        (-5.0, "-5s"),
    ],
)
def test_a_duration_is_written_in_its_largest_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**12))
def test_what_is_written_is_read_as_the_same(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("value", ["1m30s", 90, 90.0, "90"])
def test_a_key_takes_a_duration_or_a_number_of_seconds(value: object) -> None:
    assert parse(document(judge={"interval_s": value}), {}).judge.interval_s == 90.0


def test_a_duration_may_come_from_the_environment() -> None:
    config = parse(document(ends_s="${ROUND}"), {"ROUND": "30s"})
    assert config.ends_s == 30.0


@pytest.mark.parametrize("value", ["30d", 30, 30.0, "30", "720h"])
def test_retention_takes_a_duration_or_a_number_of_days(value: object) -> None:
    config = parse(document(remedy={"quarantine": {"retention_days": value}}), {})
    assert config.remedy.quarantine.retention_days == 30.0


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        ("fast", "not a duration: write 30s, 5m, 1h30m or 500ms; a plain number is seconds"),
        (
            "5 x",
            '"5 x" is not a duration: write 30s, 5m, 1h30m or 500ms; a plain number is seconds',
        ),
        (True, "not a duration: write 30s, 5m, 1h30m or 500ms; a plain number is seconds"),
        (
            10**400,
            (
                "a duration is at most 36500d: write 30s, 5m, 1h30m or 500ms; a plain number is "
                "seconds"
            ),
        ),
        ("500ms", "500ms is less than 1s"),
        (0.25, "250ms is less than 1s"),
        (-5, "-5s is less than 1s"),
    ],
)
def test_a_mistake_names_the_key_the_value_and_the_form(value: object, mistake: str) -> None:
    assert mistakes(judge={"interval_s": value}) == (f"config: judge.interval_s: {mistake}",)


def test_a_mistake_about_days_is_reported_in_days() -> None:
    assert mistakes(remedy={"quarantine": {"retention_days": "36h"}}) == (
        "config: remedy.quarantine.retention_days: 36h is less than 7d",
    )
    assert mistakes(remedy={"quarantine": {"retention_days": "2 weeks"}}) == (
        (
            'config: remedy.quarantine.retention_days: "2 weeks" is not a duration: '
            "write 30d or 36h; a plain number is days"
        ),
    )
