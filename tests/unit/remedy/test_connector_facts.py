"""The few settings that finding a poison record depends on, and no other."""

from __future__ import annotations

import pytest

from exporter.remedy.connector_facts import MirrorFacts, SinkFacts, mirror_facts, sink_facts

SECRETS = {
    "connection.password": "hunter2",
    "consumer.override.sasl.jaas.config": "password=hunter2",
    "errors.hunter2": "hunter2",
}


def test_of_a_sink_that_says_nothing_nearly_nothing_is_known() -> None:
    found = sink_facts(SECRETS)
    assert found == SinkFacts()
    assert found.batch == 500
    assert (found.tolerant, found.logs_records, found.read_committed) == (False, False, None)
    assert "hunter2" not in repr(found)


def test_of_a_worker_that_is_known_the_defaults_are_known() -> None:
    worker = {"consumer.max.poll.records": "50", "consumer.isolation.level": "read_committed"}
    assert (sink_facts({}, worker).batch, sink_facts({}, worker).read_committed) == (50, True)
    assert sink_facts({}, {}).read_committed is False


def test_what_the_sink_overrides_counts() -> None:
    found = sink_facts(
        {
            "consumer.override.max.poll.records": "1",
            "consumer.override.isolation.level": "READ_UNCOMMITTED",
            "errors.tolerance": "ALL",
            "errors.log.enable": "true",
            "errors.log.include.messages": "True",
            "errors.deadletterqueue.topic.name": "letters",
        },
        {"consumer.max.poll.records": "50", "consumer.isolation.level": "read_committed"},
    )
    assert (found.batch_max, found.read_committed, found.tolerant) == (1, False, True)
    assert (found.logs_records, found.dead_letters) == (True, "letters")


@pytest.mark.parametrize("number", ["", "0", "-1", "many", "1.5", "9" * 20, "${env:N}", "٣"])
def test_a_number_that_is_none_is_not_known(number: str) -> None:
    assert sink_facts({"consumer.override.max.poll.records": number}).batch_max is None


@pytest.mark.parametrize(
    ("log", "messages", "expected"),
    [
        ("true", "true", True),
        ("true", None, False),
        (None, "true", False),
        ("${x}", "true", None),
        ("${x}", "false", False),
    ],
)
def test_records_are_logged_where_both_settings_say_so(
    log: str | None, messages: str | None, expected: bool | None
) -> None:
    config = {"errors.log.enable": log, "errors.log.include.messages": messages}
    assert sink_facts(config).logs_records is expected


def test_what_stands_elsewhere_is_not_known() -> None:
    config = dict.fromkeys(
        (
            "errors.tolerance",
            "errors.deadletterqueue.topic.name",
            "consumer.override.isolation.level",
        ),
        "${file:/x:y}",
    )
    found = sink_facts(config, {})
    assert (found.tolerant, found.dead_letters, found.read_committed) == (None, None, None)


def test_of_a_mirror() -> None:
    found = mirror_facts(
        {
            **SECRETS,
            "source.cluster.alias": "east",
            "producer.override.max.request.size": "2000000",
            "producer.override.compression.type": "zstd",
            "source.consumer.isolation.level": "read_committed",
            "consumer.isolation.level": "read_uncommitted",
        }
    )
    assert found == MirrorFacts("east", 2_000_000, compressed=True, read_committed=True)


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        (None, None),
        ({}, False),
        ({"producer.compression.type": "none"}, False),
        ({"producer.compression.type": "lz4"}, True),
    ],
)
def test_whether_a_mirror_compresses_the_worker_may_say(
    worker: dict[str, str] | None, expected: bool | None
) -> None:
    assert mirror_facts({}, worker).compressed is expected
