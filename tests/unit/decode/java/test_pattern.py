"""Patterns of java.util.regex. What Java says was asked of Java 17 (Matcher.matches)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.decode.java.pattern import PATTERN_CHARS_MAX, JavaPattern

LONG = "a" * 249


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("", "", True),
        ("orders.*", "orders-eu", True),
        ("rders", "orders", False),
        (r"orders-(eu|us)\.v\d+", "orders-eu.v1", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b", "axb", False),
        (r"(?<n>a)\z", "a", True),
        (r"\p{L}+", "ab", True),
        ("(?i)AB", "ab", True),
        ("(?i:a)b", "Ab", True),
        ("a{1,3}", "aa", True),
        ("[^]a]", "b", True),
        (r"[a\]]", "]", True),
        ("[a&b]", "&", True),
        ("a&&b", "a&&b", True),
        ("a$", "a\n", False),
        (".", "\n", False),
        (".*é", "é", True),
        # Time that doubles with each character, where it is tried out.
        ("(a|a)*b", LONG, False),
        ("([a-z0-9]+[._-]?)+!", LONG, False),
        ("(x+x+)+y", "x" * 249, False),
    ],
)
def test_what_java_matches(pattern: str, name: str, matches: bool):
    assert JavaPattern(pattern).matches(name) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)a",
        "(?!x).*",
        "(?<=a)b",
        "(?>a)",
        "a++",
        r"(a)\1",
        r"\12",
        r"\0101",
        "[a-z&&[^b]]",
        "[a[b]]",
        "[[:alpha:]]",
        r"[\Qa\E]",
        "(?U)a",
        "(?x)a b",
        "(?d).",
        "(?P<n>a)",
        "(?#a)",
        "(?s){2}a",
        "(?i)\u212a",  # the sign of Kelvin, which RE2 takes for a k
        "a{,5}",
        "{a",
        r"\v",
        r"\h",
        r"\R",
        r"\X",
        r"\Z",
        r"\G",
        r"\C",
        r"\e",
        r"\cA",
        r"\p{Alpha}",
        "(",
        "[",
        "*",
        "a{1001}",
        "a" * (PATTERN_CHARS_MAX + 1),
        "\ud800",
    ],
)
def test_what_re2_reads_otherwise_or_not_at_all_is_unknown(pattern: str):
    assert not JavaPattern(pattern).is_known
    assert JavaPattern(pattern).matches("a") is None


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (".", "\r"),
        (".*", "a\u2028b"),
        (r"\s", "\x0b"),
        (r"\bé", "é"),
        (r"\p{L}", "é"),
        (".*", "a" * 1001),
        (".*", "\ud800"),
    ],
)
def test_names_of_which_java_says_something_else_are_unknown(pattern: str, name: str):
    assert JavaPattern(pattern).matches(name) is None


def test_a_list_is_joined_as_mirror_maker_joins_it():
    pattern = JavaPattern("orders|a.*")
    assert [pattern.matches(name) for name in ("orders", "ab", "b")] == [True, True, False]


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_pattern_and_any_name_have_an_answer(pattern: str, name: str):
    assert JavaPattern(pattern).matches(name) in {True, False, None}
