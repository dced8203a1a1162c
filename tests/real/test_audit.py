"""The audit of a mirror in which we know every record that is wrong, because we made it so.

Each topic of one flow has a fault of its own, in the middle of what MirrorMaker copied before and
after: while it stood still, its part was played by us, who made the fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from lab import Lab
from lab.cluster.kafka_client import FLUSH_S_MAX, settings
from lab.kills import sample_connectors
from lab.kills.sample_connectors import Mirror
from lab.product.toolbox import Toolbox
from lab.stories import cluster_actions
from lab.waiting import NotYet, until
from offsetwatch.cli.commands import cli
from tests.history.small_session import small_session

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.slow, pytest.mark.full]

COPIED_S_MAX = 150.0
BEFORE, PLANTED, AFTER = 1500, 300, 700
PREFIX = "audited"
TRANSFORMS = "org.apache.kafka.connect.transforms"
AS_THEY_ARE = "org.apache.kafka.connect.converters.ByteArrayConverter"

Sent = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
Fault = Callable[[list[Sent]], list[Sent]]


def record(topic: str, number: int) -> Sent:
    """Unlike any other of its topic; some without a key, a value or headers."""
    key = None if number % 5 == 0 else f"key-{number % 50}".encode()
    value = None if number % 11 == 0 and key else f"{topic}-{number}".encode()
    headers: list[tuple[str, bytes | None]] = [("number", str(number).encode()), ("none", None)]
    return key, value, headers if value is None or number % 3 else []


def hole(sent: list[Sent]) -> list[Sent]:
    return sent[:100] + sent[140:]


def twice(sent: list[Sent]) -> list[Sent]:
    return sent[:200] + sent[120:]


def swapped(sent: list[Sent]) -> list[Sent]:
    return sent[:50] + sent[70:80] + sent[50:70] + sent[80:]


def changed(sent: list[Sent]) -> list[Sent]:
    (key, _, headers), (other, value, _) = sent[60], sent[61]
    return [*sent[:60], (key, b"another value", headers), (other, value, []), *sent[62:]]


def foreign(sent: list[Sent]) -> list[Sent]:
    return [*sent[:10], (b"stranger", b"not of this flow", []), *sent[10:]]


FAULTS: dict[str, Fault] = {
    "lost": hole,
    "doubled": twice,
    "swapped": swapped,
    "altered": changed,
    "added": foreign,
}


@dataclass(frozen=True)
class AuditedFlow:
    """A flow that has copied all it is to copy, and what a person has at hand beside it."""

    lab: Lab
    toolbox: Toolbox
    at: Mirror

    def audit(self, *more: str, status: int) -> Any:
        """In this process, with the session that is there: a process of its own starts a JVM."""
        configured = ("--config", str(self.toolbox.config))
        done = CliRunner().invoke(cli, [*self._verb, *more, *configured], standalone_mode=False)
        assert done.exit_code == status, done.output
        return json.loads(done.stdout)

    def audit_as_typed(self, *more: str, status: int) -> Any:
        return self.toolbox.own(*self._verb, *more, status=status).json

    @property
    def _verb(self) -> tuple[str, ...]:
        return ("history", "audit", "--flow", self.at.name, "--json")


def named(what: str) -> str:
    return f"{PREFIX}-{what}"


def send(bootstrap: str, topic: str, sent: list[Sent]) -> None:
    failures: list[str] = []
    producer = Producer(settings(bootstrap, acks="all", **{"enable.idempotence": "true"}))
    for key, value, headers in sent:
        producer.produce(
            topic,
            key=key,
            value=value,
            headers=headers,
            partition=0,
            on_delivery=lambda error, _record: failures.append(str(error)) if error else None,
        )
        producer.poll(0)
    assert producer.flush(FLUSH_S_MAX) == 0
    assert failures == []


def copied(lab: Lab, mirror: Mirror, ends: dict[str, int]) -> None:
    """Wait until Connect has it on record that each topic is copied up to its end."""

    def probe() -> None:
        held = {
            pair["partition"]["topic"]: pair["offset"]["offset"]
            for pair in sample_connectors.offsets(lab, mirror.name)
        }
        if held != {topic: end - 1 for topic, end in ends.items()}:
            raise NotYet(str(held))

    until("the copies", probe, timeout_s=COPIED_S_MAX)


@pytest.fixture(scope="module")
def spark() -> Iterator[None]:
    """One session for all audits of this module but the first."""
    with small_session():
        yield


@pytest.fixture(scope="module")
def audited(
    lab: Lab, spark: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AuditedFlow]:
    toolbox = Toolbox(lab, directory=tmp_path_factory.mktemp("audit"))
    topics = [named(what) for what in (*FAULTS, "skipped", "clean")]
    for topic in topics:
        lab.create_topic("west", topic, 1)
        send(lab.west, topic, [record(topic, number) for number in range(BEFORE)])
    config = {"topics": f"{PREFIX}-.*", "header.converter": AS_THEY_ARE}
    with sample_connectors.mirror(lab, PREFIX, config) as mirror:
        copied(lab, mirror, dict.fromkeys(topics, BEFORE))
        lab.stop_connector(mirror.name)
        for what, fault in FAULTS.items():
            topic = named(what)
            planted = [record(topic, number) for number in range(BEFORE, BEFORE + PLANTED)]
            send(lab.west, topic, planted)
            send(lab.east, f"{mirror.source}.{topic}", fault(planted))
        lab.alter_offsets(
            mirror.name,
            [
                {
                    "partition": {"cluster": mirror.source, "partition": 0, "topic": named(what)},
                    "offset": {"offset": BEFORE + PLANTED - 1},
                }
                for what in FAULTS
            ],
        )
        skipped = named("skipped")
        send(lab.west, skipped, [record(skipped, BEFORE)])
        toolbox.change(
            *(
                "offsets",
                "reset",
                "--flow",
                f"{mirror.source}->{mirror.target}",
                "--topics",
                skipped,
            ),
            *("--to-offset", str(BEFORE + 1), "--allow-skip"),
        )
        lab.resume(mirror.name)
        ends = {}
        for topic in topics:
            first = len(cluster_actions.records(lab.west, topic))
            send(lab.west, topic, [record(topic, first + number) for number in range(AFTER)])
            ends[topic] = first + AFTER
        copied(lab, mirror, ends)
        yield AuditedFlow(lab, toolbox, mirror)


@pytest.fixture(scope="module")
def partitions(audited: AuditedFlow, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    report: Path = tmp_path_factory.mktemp("report") / "audit.json"
    message = audited.audit_as_typed("--report", str(report), status=1)
    assert json.loads(report.read_text()) == message
    return {partition["topic"]: partition for partition in message["partitions"]} | {"": message}


def list_findings(result: dict[str, Any], what: str) -> list[tuple[str, int, Any, Any]]:
    """Each finding of a topic: what, how many records, which upstream, which downstream; counted
    from where we took MirrorMaker's part.
    """

    def span(entry: dict[str, int] | None) -> tuple[int, int] | None:
        return None if entry is None else (entry["first"] - BEFORE, entry["last"] - BEFORE)

    return [
        (finding["kind"], finding["records"], span(finding["up"]), span(finding["down"]))
        for finding in result[named(what)]["findings"]
    ]


def test_nothing_is_found_where_everything_was_copied(partitions: dict[str, Any]) -> None:
    assert list_findings(partitions, "clean") == []
    assert partitions[named("clean")]["upstream_records"] == BEFORE + AFTER


def test_a_lost_range_is_found_to_the_record(partitions: dict[str, Any]) -> None:
    assert list_findings(partitions, "lost") == [("lost", 40, (100, 139), None)]


def test_a_range_that_is_there_twice_is_found_to_the_record(partitions: dict[str, Any]) -> None:
    ((kind, records, up, down),) = list_findings(partitions, "doubled")
    assert (kind, records, up) == ("duplicated", 80, (120, 199))
    assert down in {(120, 199), (200, 279)}


def test_records_out_of_order_are_found(partitions: dict[str, Any]) -> None:
    assert list_findings(partitions, "swapped") == [("reordered", 10, (70, 79), (50, 59))]


def test_an_altered_value_and_missing_headers_are_found(partitions: dict[str, Any]) -> None:
    assert list_findings(partitions, "altered") == [("altered", 2, (60, 61), (60, 61))]


def test_a_record_that_the_mirror_did_not_write_is_found(partitions: dict[str, Any]) -> None:
    assert list_findings(partitions, "added") == [("added", 1, None, (10, 10))]


def test_a_skip_is_explained_by_the_plan_in_the_journal(
    audited: AuditedFlow, partitions: dict[str, Any]
) -> None:
    assert list_findings(partitions, "skipped") == [("lost", 1, (0, 0), None)]
    (one,) = partitions[named("skipped")]["findings"]
    (plan,) = audited.toolbox.own("plan", "list", "--json").json
    assert plan["plan_id"] in one["explained"]
    assert one["certain"]
    assert partitions[""]["unexplained"] == len(FAULTS)


def test_what_is_explained_is_no_reason_to_fail(audited: AuditedFlow) -> None:
    report = audited.audit("--topic", named("skipped"), "--topic", named("clean"), status=0)
    assert report["unexplained"] == 0
    assert report["looked_at"] == 1.0


def test_what_lies_beyond_the_bounds_is_not_judged(audited: AuditedFlow) -> None:
    bounds = ("--from-offset", str(BEFORE + 120), "--to-offset", str(BEFORE + 130))
    cut = audited.audit("--topic", named("lost"), *bounds, status=1)
    (partition,) = cut["partitions"]
    (one,) = partition["findings"]
    assert (one["kind"], one["up"]) == ("lost", {"first": BEFORE + 120, "last": BEFORE + 129})


def test_headers_that_a_converter_has_changed_are_reported_and_can_be_left_out(
    audited: AuditedFlow,
) -> None:
    with sample_connectors.mirror(audited.lab, "headed", partitions=1) as mirror:
        send(audited.lab.west, mirror.topic, [record(mirror.topic, number) for number in range(20)])
        copied(audited.lab, mirror, {mirror.topic: 20})
        headed = AuditedFlow(audited.lab, audited.toolbox, mirror)
        (one,) = headed.audit(status=1)["partitions"]
        report = headed.audit("--no-headers", status=0)
    meant = sum(bool(record(mirror.topic, number)[2]) for number in range(20))
    assert sum(finding["records"] for finding in one["findings"]) == meant
    assert {(finding["kind"], finding["certain"]) for finding in one["findings"]} == {
        ("altered", False)
    }
    assert all("header converter" in finding["explained"] for finding in one["findings"])
    assert report["unexplained"] == 0


def test_what_a_filter_drops_is_put_down_to_it_only_where_an_operator_accepts_that(
    audited: AuditedFlow,
) -> None:
    drop = {
        "header.converter": AS_THEY_ARE,
        "predicates": "empty",
        "predicates.empty.type": f"{TRANSFORMS}.predicates.RecordIsTombstone",
        "transforms": "drop",
        "transforms.drop.type": f"{TRANSFORMS}.Filter",
        "transforms.drop.predicate": "empty",
    }
    with sample_connectors.mirror(audited.lab, "filtered", drop, partitions=1) as mirror:
        sent = [record(mirror.topic, number) for number in range(98)]
        dropped = [number for number, (_, value, _) in enumerate(sent) if value is None]
        send(audited.lab.west, mirror.topic, sent)
        copied(audited.lab, mirror, {mirror.topic: 98})
        filtered = AuditedFlow(audited.lab, audited.toolbox, mirror)
        (one,) = filtered.audit(status=1)["partitions"]
        accepted = filtered.audit("--accept-transforms", status=0)
    assert [
        number
        for finding in one["findings"]
        for number in range(finding["up"]["first"], finding["up"]["last"] + 1)
    ] == dropped
    assert {(finding["kind"], finding["certain"]) for finding in one["findings"]} == {
        ("lost", False)
    }
    assert all("(Filter)" in finding["explained"] for finding in one["findings"])
    assert accepted["unexplained"] == 0


def test_copies_that_a_chain_of_transforms_renames_are_compared_where_they_are(
    audited: AuditedFlow,
) -> None:
    """The second one sees the name that the first one gives, and is kept from other topics."""
    chain = {
        "header.converter": AS_THEY_ARE,
        "predicates": "others",
        "predicates.others.type": f"{TRANSFORMS}.predicates.TopicNameMatches",
        "predicates.others.pattern": r"routed-w\..*",
        "transforms": "copy,tidy",
        "transforms.copy.type": f"{TRANSFORMS}.RegexRouter",
        "transforms.copy.regex": r"routed-w\.(.*)",
        "transforms.copy.replacement": "copy-$1",
        "transforms.tidy.type": f"{TRANSFORMS}.RegexRouter",
        "transforms.tidy.regex": "copy-(.*)-topic",
        "transforms.tidy.replacement": "copy-of-$1",
        "transforms.tidy.predicate": "others",
        "transforms.tidy.negate": "true",
    }
    audited.lab.create_topic("east", "copy-of-routed", 1)
    with sample_connectors.mirror(audited.lab, "routed", chain, partitions=1) as mirror:
        send(audited.lab.west, mirror.topic, [record(mirror.topic, number) for number in range(50)])
        copied(audited.lab, mirror, {mirror.topic: 50})
        (one,) = AuditedFlow(audited.lab, audited.toolbox, mirror).audit(status=0)["partitions"]
    assert one["downstream_topic"] == "copy-of-routed"
    assert (one["upstream_records"], one["downstream_records"]) == (50, 50)
    assert one["findings"] == []


def test_copies_of_a_router_that_cannot_be_followed_are_compared_once_they_are_named(
    audited: AuditedFlow, tmp_path: Path
) -> None:
    dated = {
        "header.converter": AS_THEY_ARE,
        "transforms": "date",
        "transforms.date.type": f"{TRANSFORMS}.TimestampRouter",
        "transforms.date.topic.format": "dated-${topic}",
    }
    audited.lab.create_topic("east", "dated-dated-w.dated-topic", 1)
    toolbox = Toolbox(audited.lab, directory=tmp_path)
    flow = {
        "source": "dated-w",
        "target": "dated-e",
        "upstream": "west",
        "downstream": "east",
        "connect": toolbox.connect,
        "connector": "dated",
        "copies": {"*": "dated-dated-w.{topic}"},
    }
    named = toolbox.config.read_text() + f"flows: {json.dumps([flow])}\n"
    toolbox.config.write_text(named)
    with sample_connectors.mirror(audited.lab, "dated", dated, partitions=1) as mirror:
        send(audited.lab.west, mirror.topic, [record(mirror.topic, number) for number in range(50)])
        copied(audited.lab, mirror, {mirror.topic: 50})
        refused = audited.toolbox.own("history", "audit", "--flow", mirror.name, status=7)
        (one,) = AuditedFlow(audited.lab, toolbox, mirror).audit(status=0)["partitions"]
    assert "(TimestampRouter)" in refused.said
    assert "flows[].copies" in refused.said
    assert one["downstream_topic"] == "dated-dated-w.dated-topic"
    assert (one["upstream_records"], one["downstream_records"]) == (50, 50)
    assert one["findings"] == []
