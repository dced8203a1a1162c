"""Bodies of Connect's REST API, each through whatever may read one, and stack traces."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final

from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.clients.write.connect import ConnectWriter
from offsetwatch.decode import rest_answers
from offsetwatch.decode.json_text import parse_json
from offsetwatch.decode.offsets_file import read_offsets_file, write_offsets_file
from offsetwatch.decode.rest_answers import ConnectRoot, decode_root
from offsetwatch.decode.stack_trace import FAILURE_CHARS_MAX, failure_of
from offsetwatch.errors import ClientError
from offsetwatch.model.connectors import Connector
from offsetwatch.model.offsets import Undecodable
from offsetwatch.remedy.classify import Failure, classify
from offsetwatch.remedy.drivers.rest.driver import classify_offsets_reply, classify_request_reply
from offsetwatch.remedy.model.driver import Outcome
from tests.corpus.cases import CORPUS
from tests.fuzz.targets import Target
from tests.properties.test_decoders import FILES
from tests.unit.decode.golden import GOLDEN

_DECODERS: Final = (
    (rest_answers.decode_connectors, tuple),
    (rest_answers.decode_offsets, tuple),
    (rest_answers.decode_assignment, frozenset),
    (rest_answers.decode_rest_status, rest_answers.RestConnectorStatus),
    (rest_answers.decode_traces, dict),
    (rest_answers.decode_task_numbers, tuple),
    (rest_answers.decode_plugins, rest_answers.Plugins),
    (rest_answers.decode_names, rest_answers.ConnectorNames),
    (rest_answers.decode_config_texts, dict),
    (decode_root, ConnectRoot),
)
_TRACE: Final = (
    "org.example.Outer: x\n\tat org.example.Outer.go(O.java:1)\nCaused by: org.example.Inner: y\n"
)
_SPOKEN: Final[tuple[Any, ...]] = (
    {"version": "4.3.1", "commit": "f8c0bc2d", "kafka_cluster_id": "5L6g3nShT-eMCtK--X86sw"},
    [{"class": "org.example.Sink", "type": "sink", "version": "1"}],
    [
        {
            "id": {"connector": "m", "task": 0},
            "config": {
                "task.class": "org.apache.kafka.connect.mirror.MirrorSourceTask",
                "task.assigned.partitions": "t-0,u-v-1",
            },
        }
    ],
    {
        "name": "s",
        "connector": {"state": "RUNNING", "worker_id": "w:8083"},
        "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:8083", "trace": _TRACE}],
        "type": "sink",
    },
    {"connector.class": "FileStreamSource", "file": "/data/in.txt", "tasks.max": "1"},
    {"error_code": 500, "message": "Failed to alter connector offsets"},
    {"message": "The offsets for this connector have been altered successfully"},
)


def answered(body: bytes | None) -> None:
    """What each decoder says of it: a value of its kind, or a reason."""
    body = body or b""
    for decode, kind in _DECODERS:
        result = decode(body)
        assert isinstance(result, Undecodable | kind), decode
        if isinstance(result, Undecodable):
            assert result.reason.replace("_", "a").isalpha(), result
    connectors = rest_answers.decode_connectors(body)
    if isinstance(connectors, tuple):
        assert all(isinstance(connector, Connector) for connector in connectors)
    offsets = rest_answers.decode_offsets(body)
    if isinstance(offsets, tuple):
        texts = [text for pair in offsets for text in pair if text is not None]
        assert all(not isinstance(parse_json(text.encode()), Undecodable) for text in texts)


class _Reader(ConnectReader):
    """Of one answer, without a network."""

    answer = (200, b"")

    def _exchange(self, *_: str) -> tuple[int, bytes]:
        return self.answer


class _Writer(ConnectWriter):
    """The same."""

    answer = (200, b"")

    def _exchange(self, *_: Any) -> tuple[int, bytes]:
        return self.answer


_READER: Final = _Reader("lab", ("http://w:1",), 60.0)
_WRITER: Final = _Writer("lab", ("http://w:1",))


def decode_answer(status: bytes | None, body: bytes | None) -> None:
    """The clients: a body, or one of our own errors; and what a change was worth."""
    report = status is not None and re.fullmatch(rb"[2-5]\d\d", status)
    _READER.answer = _WRITER.answer = (int(status) if report else 200, body or b"")
    with suppress(ClientError):
        assert isinstance(_READER.offsets("c"), bytes)
    reply = _WRITER.send("PATCH", "/connectors/c/offsets", b"{}")
    assert isinstance(classify_offsets_reply(reply), Outcome)
    assert isinstance(classify_request_reply(reply, done=frozenset({204})), Outcome)


def trace(raw: bytes | None) -> None:
    """One short line or none, and one kind of failure or none."""
    text = (raw or b"").decode(errors="replace")
    result = failure_of(text)
    assert result is None or (0 < len(result) <= FAILURE_CHARS_MAX and result.isprintable())
    kind = classify(text, frozenset())
    assert kind is None or isinstance(kind, Failure)


def offsets_file(raw: bytes | None) -> None:
    entries = read_offsets_file(raw or b"")
    if isinstance(entries, Undecodable):
        return
    assert read_offsets_file(write_offsets_file(entries)) == entries


def _recorded() -> list[bytes]:
    document = json.loads((GOLDEN / "connect-rest.json").read_text())
    exchanged = json.loads((GOLDEN / "connect-exchanges.json").read_text())
    bodies = [item["body"] for item in document] + [item["response"] for item in exchanged]
    return [*dict.fromkeys(body.encode() for body in bodies if body)]


_BODIES: Final = [*_recorded(), *(json.dumps(item).encode() for item in _SPOKEN)]
_STATUSES: Final = (b"200", b"204", b"400", b"404", b"409", b"500", b"503")

TARGETS: Final = [
    Target("rest_bodies", [(body,) for body in _BODIES], answered, share=3),
    Target(
        "rest_exchanges",
        [(status, body) for status in _STATUSES for body in _BODIES[-30:]],
        decode_answer,
    ),
    Target("traces", [(case.trace.encode(),) for case in CORPUS], trace),
    Target("offsets_files", [(file,) for file in FILES], offsets_file),
]
