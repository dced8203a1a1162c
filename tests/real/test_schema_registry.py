"""Sinks whose converter asks a real Apicurio Registry: what they fail with is classified as what it
is, no record of theirs is skipped, and the advice works.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import Lab, LabOptions
from lab.cluster.connector_configs import Config, file_sink
from lab.product.remediating_daemon import Json, reasons
from lab.registry.apicurio import AVRO_CONVERTER, JSON_CONVERTER, SchemaRegistry
from lab.stories import cluster_actions, sinks
from lab.stories.flow import failed_again, task_trace
from lab.stories.sinks import Sink
from offsetwatch.remedy.classify import classify
from offsetwatch.remedy.classify.trace_meanings import VALUE, FailureKind
from offsetwatch.remedy.locate.recommendations import DEAD_LETTERS
from tests.real.remediation_stories import QUARANTINE, guarded

pytestmark = [pytest.mark.real, pytest.mark.full]

ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}
LIST = {
    "type": "record",
    "name": "Notes",
    "fields": [{"name": "notes", "type": {"type": "array", "items": "string"}}],
}
# Of ExtJsonConverter, which registers schemas of Connect.
STRUCT = {
    "type": "struct",
    "optional": False,
    "fields": [{"field": "id", "type": "int64", "optional": False}],
}
UNREGISTERED = 999_999
DEAD_LETTER_TOPIC = "registry-dead-letters"


@dataclass(frozen=True, slots=True)
class RegistrySink(Sink):
    """A sink whose values are converted with a registry."""

    registry: SchemaRegistry
    converter: str = AVRO_CONVERTER

    def config(self) -> Config:
        settings = self.registry.settings(self.converter)
        return {**file_sink(self.path, topic=self.topic), **settings}

    def begin(self, first: bytes) -> None:
        """Create topic and connector, with a record."""
        self.lab.create_topic("east", self.topic)
        self.produce(first)
        self.lab.create(self.connector, self.config())

    def produce(self, *values: bytes) -> None:
        cluster_actions.produce_texts(self.lab.east, self.topic, values)

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()


def encode_long(number: int) -> bytes:
    """Encode a long that is not negative as Avro does: zigzag, then seven bits a byte."""
    rest, encoded = number << 1, b""
    while rest > 0x7F:
        encoded += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return encoded + bytes([rest])


def encode_item(schema: int, number: int) -> bytes:
    """Encode an item in Apicurio's frame: a zero byte, and the schema's number in eight."""
    note = f"note {number}".encode()
    return b"\0" + struct.pack(">q", schema) + encode_long(number) + encode_long(len(note)) + note


def encode_json(schema: int, number: int) -> bytes:
    return json.dumps({"schemaId": schema, "payload": {"id": number}}).encode()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    options = LabOptions(connectors=False, registry_converters=True, offset_flush_interval_ms=1000)
    with Lab(options) as running:
        yield running


def is_advised(entry: Json) -> bool:
    return entry["record"] == "refused" and DEAD_LETTERS in entry["recommend"]


def is_restart_useless(entry: Json) -> bool:
    answers = reasons(entry) if entry["record"] == "refused" else {}
    return "does not help" in answers.get("restart_helps", "")


def test_what_a_registry_or_its_converter_fails_with_is_not_blamed_on_the_other(
    lab: Lab, registry: SchemaRegistry, tmp_path: Path
) -> None:
    item = registry.register("item", json.dumps(ITEM))
    notes = registry.register("notes", json.dumps(LIST))
    struct_id = registry.register("struct", json.dumps(STRUCT), "KCONNECT")
    avro = (AVRO_CONVERTER, encode_item(item, 1), encode_item(item, 3))
    text = (JSON_CONVERTER, encode_json(struct_id, 1), encode_json(struct_id, 3))
    cases = {
        # Names no schema; the converter's own exception stands for more than that.
        "no-frame": (*avro, b'{"id":2}', FailureKind.UNKNOWN),
        "no-schema": (*avro, encode_item(UNREGISTERED, 2), FailureKind.CONFIG),
        "cut-frame": (*avro, b"\0\0\0", FailureKind.DESERIALIZATION),
        "empty": (*avro, b"", FailureKind.DESERIALIZATION),
        # The end of the record is the end of a stream, as that of a connection would be.
        "other-schema": (*avro, encode_item(notes, 2), FailureKind.UNKNOWN),
        "cut-value": (*avro, encode_item(item, 2)[:-1], FailureKind.UNKNOWN),
        "json-no-schema": (*text, encode_json(UNREGISTERED, 2), FailureKind.CONFIG),
        "json-none": (*text, b"this is no JSON", FailureKind.DESERIALIZATION),
    }
    found = {
        name: RegistrySink(lab, name, registry, converter)
        for name, (converter, *_) in cases.items()
    }
    for name, sink in found.items():
        sink.begin(cases[name][1])
    for sink in found.values():
        lab.wait_running(sink.connector)
        sinks.await_commits(sink)

    with guarded(
        lab,
        tmp_path,
        [sink.connector for sink in found.values()],
        mode="propose",
        quarantine=QUARANTINE,
        stop_on=[],
    ) as daemon:
        for name, sink in found.items():
            _, _, good, bad, _ = cases[name]
            sink.produce(bad, good)
        kinds = {}
        for name, sink in found.items():
            failed_again(lab, sink.connector, restarts=2)
            failure = classify(task_trace(lab, sink.connector))
            assert failure is not None
            assert failure.stage == VALUE
            kinds[name] = failure.kind
        assert kinds == {name: kind for name, (*_, kind) in cases.items()}

        for name, sink in found.items():
            if kinds[name] is FailureKind.CONFIG:
                daemon.awaits(sink.connector, "no use of a restart", is_restart_useless)
            else:
                daemon.awaits(sink.connector, "the advice", is_advised)
            assert "skip_one" not in {plan["action"] for plan in daemon.plans(sink.connector)}
            assert (sink.committed(), len(sink.lines())) == (1, 1)

    for sink in found.values():
        lab.create(
            sink.connector,
            {
                **sink.config(),
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": DEAD_LETTER_TOPIC,
                "errors.deadletterqueue.topic.replication.factor": "1",
            },
        )
    for sink in found.values():
        sinks.await_commits(sink)
        assert len(sink.lines()) == 2
    bad = sorted(bad for *_, bad, _ in cases.values())
    letters = cluster_actions.records(lab.east, DEAD_LETTER_TOPIC)
    assert sorted(letter.value for letter in letters) == bad


def test_a_sink_goes_on_by_a_restart_when_its_registry_is_back(
    lab: Lab, registry: SchemaRegistry, tmp_path: Path
) -> None:
    schema = registry.register("later", json.dumps(ITEM))
    sink = RegistrySink(lab, "away", registry)
    with guarded(
        lab, tmp_path, [sink.connector], mode="propose", quarantine=QUARANTINE, stop_on=[]
    ) as daemon:
        registry.stop()
        sink.begin(encode_item(schema, 1))
        failed_again(lab, sink.connector, restarts=1)
        failure = classify(task_trace(lab, sink.connector))
        assert failure is not None
        assert (failure.kind, failure.stage) == (FailureKind.REGISTRY_DOWN, VALUE)
        plan = daemon.proposed(sink.connector, "restart_failed")

        registry.start()
        daemon.approve(plan)
        assert daemon.ended(plan)["ending"] == "succeeded"
        sinks.await_commits(sink)
        assert sink.lines() == ["Struct{id=1,note=note 1}"]
