from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from offsetwatch.remedy.classify.trace_meanings import (
    CALLS,
    RULES,
    SKIPPABLE,
    FailureKind,
    ThrowableHint,
    find_call_veto,
    find_meaning,
)

ERRORS = (Path(__file__).parent / "kafka_errors.txt").read_text().split()
NAMES = [name for rule in RULES for name in rule.names]


@pytest.mark.parametrize("name", ERRORS)
def test_each_of_kafkas_errors_has_a_meaning(name):
    assert find_meaning(f"org.apache.kafka.common.errors.{name}") is not None


def test_no_class_has_two_rules():
    assert [name for name, times in Counter(NAMES).items() if times > 1] == []


def test_each_rule_says_why():
    assert [rule for rule in RULES if not rule.why or not rule.names] == []


def test_only_a_name_in_full_says_anything_but_that_it_forbids():
    for rule in RULES:
        for name in rule.names:
            assert "*" not in name.strip("*"), name
            assert "*" not in name or isinstance(rule.meaning, FailureKind), name


def test_no_rule_names_a_kind_that_depends_on_where_it_happened():
    words = {rule.meaning for rule in RULES} | {kind for _, kind in CALLS}
    assert not words & SKIPPABLE
    assert {word for word in words if isinstance(word, ThrowableHint)} == set(ThrowableHint)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        pytest.param("java.net.UnknownHostException", FailureKind.CONNECTIVITY, id="by-beginning"),
        pytest.param("java.net.SocketTimeoutException", FailureKind.TIMEOUT, id="in-full-first"),
        pytest.param(
            "java.net.URISyntaxException", ThrowableHint.VALUE, id="in-full-though-it-allows"
        ),
        pytest.param("com.example.ReadTimeoutException", FailureKind.TIMEOUT, id="by-ending"),
        pytest.param(
            "org.apache.kafka.connect.errors.ConnectException", ThrowableHint.WRAPS, id="not-end"
        ),
        pytest.param(
            "io.netty.handler.timeout.ReadTimeoutException",
            FailureKind.TIMEOUT,
            id="the-longer-beginning",
        ),
        pytest.param("com.example.LifetimeoutException", None, id="not-quite-that-ending"),
        pytest.param("com.example.BadRowException", None, id="unknown"),
        pytest.param("java.net", None, id="no-class"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_closest_rule_speaks(name, word):
    assert find_meaning(name) is word


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("java.net.Socket$SocketInputStream.read", FailureKind.CONNECTIVITY),
        (
            "io.confluent.kafka.schemaregistry.client.rest.RestService.getId",
            FailureKind.REGISTRY_DOWN,
        ),
        ("io.confluent.kafka.schemaregistry.client.SchemaMetadata.getId", None),
        ("com.example.java.net.Socket.read", None),
        ("java.lang.Thread.run", None),
    ],
)
def test_a_call_forbids_by_the_beginning_of_its_name(location, kind):
    assert find_call_veto(location) is kind
