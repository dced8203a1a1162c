"""The few settings that finding a poison record depends on, and no other."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import DatabaseSettings
from offsetwatch.model.row_positions import RowOrder
from offsetwatch.remedy.locate.search import (
    WORKER_SETTINGS,
    MirrorFacts,
    NoIdentification,
    SinkFacts,
    read_mirror_facts,
    read_row_order,
    read_sink_facts,
    read_source_delivery,
)
from tests.changed import replace
from tests.unit.remedy.stalled_connectors import JSON

SECRETS = {
    "connection.password": "hunter2",
    "consumer.override.sasl.jaas.config": "password=hunter2",
    "errors.hunter2": "hunter2",
}


def test_of_a_sink_that_says_nothing_nearly_nothing_is_known() -> None:
    facts = read_sink_facts(SECRETS)
    assert facts == SinkFacts()
    assert facts.batch == 500
    assert (facts.tolerant, facts.logs_records, facts.read_committed) == (False, False, None)
    assert "hunter2" not in repr(facts)


def test_of_a_worker_that_is_known_the_defaults_are_known() -> None:
    worker = {"consumer.max.poll.records": "50", "consumer.isolation.level": "read_committed"}
    assert (read_sink_facts({}, worker).batch, read_sink_facts({}, worker).read_committed) == (
        50,
        True,
    )
    assert read_sink_facts({}, {}).read_committed is False


def test_what_the_sink_overrides_counts() -> None:
    facts = read_sink_facts(
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
    assert (facts.batch_max, facts.read_committed, facts.tolerant) == (1, False, True)
    assert (facts.logs_records, facts.dead_letters) == (True, "letters")


@pytest.mark.parametrize(
    "number", ["", "0", "-1", "many", "1.5", "9" * 11, "9" * 20, "${env:N}", "٣"]
)
def test_a_number_that_is_none_is_not_known(number: str) -> None:
    assert read_sink_facts({"consumer.override.max.poll.records": number}).batch_max is None


def test_a_number_may_be_as_large_as_connect_takes_it() -> None:
    assert read_sink_facts({"consumer.override.max.poll.records": "2147483647"}).batch == 2**31 - 1


@pytest.mark.parametrize(("length", "known"), [(249, True), (250, False)])
def test_a_name_that_is_longer_than_a_topics_names_no_dead_letters(
    length: int, *, known: bool
) -> None:
    facts = read_sink_facts({"errors.deadletterqueue.topic.name": "x" * length})
    assert facts.dead_letters == ("x" * length if known else None)


class _Worker(dict[str, str]):
    """Properties that remember what was asked of them."""

    def __init__(self, **answer: str) -> None:
        super().__init__(answer)
        self.names: set[str] = set()

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.names.add(name)
        return super().get(name, default)


BY_TIME = {"timestamp.delay.interval.ms": " 5000", "db.timezone": "Europe/Berlin"}
JDBC = DatabaseSettings(
    mode="timestamp+incrementing", incrementing_column="id", timestamp_columns=("b", "a")
)


@pytest.mark.parametrize(
    ("changed", "config", "order"),
    [
        ({}, {}, RowOrder("id", ("b", "a"), "UTC", 0)),
        ({}, BY_TIME, RowOrder("id", ("b", "a"), "Europe/Berlin", 5000)),
        ({"mode": "incrementing"}, BY_TIME | {"db.timezone": "?"}, RowOrder("id")),
        ({"mode": "incrementing"}, {"query.suffix": " "}, RowOrder("id")),
        ({"mode": "timestamp"}, BY_TIME, None),
        ({"mode": "bulk"}, {}, None),
        ({"mode": None}, {}, None),
    ],
)
def test_the_order_of_rows_is_that_of_the_mode(
    changed: dict[str, object], config: dict[str, str], order: RowOrder | None
) -> None:
    assert read_row_order(replace(JDBC, **changed), config) == order


@pytest.mark.parametrize(
    ("changed", "config", "why"),
    [
        ({"has_query": True}, {}, "it reads a query"),
        ({"has_query": True, "mode": "incrementing"}, {}, "it reads a query"),
        ({"incrementing_column": None}, {}, "incrementing.column.name"),
        ({"timestamp_columns": ()}, {}, "timestamp.column.name"),
        ({"timestamp_columns": ("a b",)}, {}, "other characters"),
        ({}, {"db.timezone": "${file:/x:y}"}, "db.timezone"),
        ({}, {"timestamp.delay.interval.ms": "${file:/x:y}"}, "timestamp.delay.interval.ms"),
        ({}, {"timestamp.delay.interval.ms": "-1"}, "timestamp.delay.interval.ms"),
        ({}, {"query.suffix": "FOR UPDATE"}, "query.suffix"),
        ({"mode": "incrementing"}, {"query.suffix": "LIMIT 100"}, "query.suffix"),
    ],
)
def test_settings_that_leave_the_order_of_rows_unknown_are_named(
    changed: dict[str, object], config: dict[str, str], why: str
) -> None:
    answer = read_row_order(replace(JDBC, **changed), config)
    assert isinstance(answer, NoIdentification)
    assert answer.reason == "row_order_unknown"
    assert why in answer.said


def test_all_that_is_queried_of_a_worker_is_taken_from_its_properties() -> None:
    worker = _Worker(**{f"{kind}.converter": JSON for kind in ("key", "value", "header")})
    read_sink_facts({}, worker)
    read_mirror_facts({}, worker)
    read_source_delivery({}, None, worker)
    assert worker.names == WORKER_SETTINGS


@pytest.mark.parametrize(
    ("log", "messages", "expected"),
    [
        ("true", "true", True),
        ("true", None, False),
        (None, "true", False),
        ("${x}", "true", None),
        ("true", "${x}", None),
        ("${x}", "false", False),
    ],
)
def test_records_are_logged_where_both_settings_say_so(
    log: str | None, messages: str | None, expected: bool | None
) -> None:
    config = {"errors.log.enable": log, "errors.log.include.messages": messages}
    assert read_sink_facts(config).logs_records is expected


def test_what_stands_elsewhere_is_not_known() -> None:
    config = dict.fromkeys(
        (
            "errors.tolerance",
            "errors.deadletterqueue.topic.name",
            "consumer.override.isolation.level",
        ),
        "${file:/x:y}",
    )
    facts = read_sink_facts(config, {})
    assert (facts.tolerant, facts.dead_letters, facts.read_committed) == (None, None, None)


def test_of_a_mirror() -> None:
    facts = read_mirror_facts(
        {
            **SECRETS,
            "source.cluster.alias": "east",
            "producer.override.max.request.size": "2000000",
            "producer.override.compression.type": "zstd",
            "source.consumer.isolation.level": "read_committed",
            "consumer.isolation.level": "read_uncommitted",
        }
    )
    assert facts == MirrorFacts("east", 2_000_000, compressed=True, read_committed=True)


def test_of_a_mirror_that_says_nothing_the_defaults_are_known() -> None:
    assert (
        read_mirror_facts({}) == MirrorFacts(alias="source", read_committed=False) == MirrorFacts()
    )


def test_a_mirrors_consumer_may_be_reported_without_naming_the_source() -> None:
    assert read_mirror_facts({"consumer.isolation.level": "read_committed"}).read_committed


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
    assert read_mirror_facts({}, worker).compressed is expected


def test_a_mirrors_settings_have_no_blanks_around_them_and_its_alias_may_be_empty() -> None:
    facts = read_mirror_facts(
        {
            "source.cluster.alias": " west ",
            "source.consumer.isolation.level": " read_committed",
            "producer.override.compression.type": " none ",
        }
    )
    assert (facts.alias, facts.read_committed, facts.compressed) == ("west", True, False)
    assert read_mirror_facts({"source.cluster.alias": ""}).alias == ""
