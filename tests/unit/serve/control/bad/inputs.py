"""What comes from elsewhere: Connect's answers, records, and our own files: 50 to 56."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetwatch.clients.connect.reader import BODY_BYTES_MAX, ConnectReader
from offsetwatch.clients.write.connect import BODY_BYTES_MAX as WRITTEN_BYTES_MAX
from offsetwatch.clients.write.connect import ConnectWriter
from offsetwatch.config import parse
from offsetwatch.decode.rest_answers import decode_connectors
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.decode.stack_trace import failure_of
from offsetwatch.errors import ConfigError, JournalDamaged, MalformedResponse, SizeLimitExceeded
from offsetwatch.model.offsets import Undecodable
from offsetwatch.remedy.drivers.rest.driver import classify_offsets_reply, classify_request_reply
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal
from offsetwatch.remedy.model.driver import AttemptResult
from tests.fakes.endpoint import endpoint
from tests.fakes.worker import Worker, ok, serving

from .table import HOSTILE, SECRET, row

LIMIT_S = 20.0
IGNORED = [None]
STOP = ("PUT", "/connectors/orders/stop")
ALTER = ("PATCH", "/connectors/orders/offsets", b"{}")


def reader(member: Worker) -> ConnectReader:
    return ConnectReader("lab", (member.url,), LIMIT_S)


def writer(member: Worker) -> ConnectWriter:
    return ConnectWriter("lab", (member.url,), timeout_s=LIMIT_S)


def saying(status: str, body: bytes, *headers: str) -> Callable[[socket.socket, str], None]:
    def answer(connection: socket.socket, _head: str) -> None:
        lines = (
            f"HTTP/1.1 {status}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *headers,
        )
        connection.sendall("\r\n".join((*lines, "", "")).encode() + body)

    return answer


@row(50, "Connect leads nobody elsewhere, and nothing is taken for done there")
def _(_stage, _):
    with endpoint() as trap:
        for code in ("301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"):
            with serving(saying(code, b"", f"Location: {trap.url}/x")) as member:
                with pytest.raises(MalformedResponse):
                    reader(member).offsets("orders")
                reply = writer(member).send(*ALTER)
                assert classify_offsets_reply(reply).answer is AttemptResult.NACK
                stopped = classify_request_reply(writer(member).send(*STOP), done=frozenset({204}))
                assert stopped.answer is AttemptResult.NACK
        assert trap.got == []
    return IGNORED


@row(51, "a page where Connect should answer is no answer of Connect")
def _(_stage, _):
    page = f"<html><script>alert('{HOSTILE}')</script></html>".encode()
    with serving(ok(page, kind="text/html")) as member:
        with pytest.raises(MalformedResponse) as caught:
            reader(member).offsets("orders")
        assert HOSTILE not in str(caught.value)
        outcome = classify_offsets_reply(writer(member).send(*ALTER))
        assert (outcome.answer, HOSTILE in outcome.said) == (AttemptResult.IN_DOUBT, False)
        outcome = classify_request_reply(writer(member).send(*STOP), done=frozenset({204}))
        assert outcome.answer is AttemptResult.IN_DOUBT
    return IGNORED


@row(52, "fifty mebibytes of a trace are not held")
def _(_stage, _):
    trace = b"x" * (50 * 1024 * 1024)
    body = b'{"name":"orders","tasks":[{"trace":"' + trace + b'"}]}'
    assert len(body) > BODY_BYTES_MAX
    with serving(ok(body)) as member:
        with pytest.raises(SizeLimitExceeded):
            reader(member).status("orders")
        assert writer(member).send(*STOP).said is None
    return IGNORED


@row(52, "what unpacks to more than the bound is not held either")
def _(_stage, _):
    bomb = gzip.compress(b'{"message":"' + b" " * BODY_BYTES_MAX, 1)
    assert len(bomb) < WRITTEN_BYTES_MAX
    with serving(saying("200 OK", bomb, "Content-Encoding: gzip")) as member:
        with pytest.raises((SizeLimitExceeded, MalformedResponse)):
            reader(member).status("orders")
        assert writer(member).send(*STOP).said is None
    return IGNORED


TRACE = f"""org.apache.kafka.connect.errors.ConnectException: </script><b>{HOSTILE}</b>
\tat com.example.{SECRET}.Task.put(Task.java:1)
Caused by: com.example.BadRow: password={SECRET} sasl.jaas.config='x required password="{SECRET}";'
\tat com.example.Sink.put(Sink.java:7)
"""


@row(53, "of a trace only the names of classes and methods are kept, and of a refusal no secret")
def _(_stage, _):
    result = failure_of(TRACE)
    assert result == "com.example.BadRow in Sink.put"
    listed = {
        "orders": {
            "info": {
                "name": "orders",
                "type": "sink",
                "config": {"connector.class": "com.example.Sink", "password": SECRET},
            },
            "status": {
                "name": "orders",
                "type": "sink",
                "connector": {"state": "FAILED", "trace": TRACE, "worker_id": "w:1"},
                "tasks": [{"id": 0, "state": "FAILED", "trace": TRACE, "worker_id": "w:1"}],
            },
        }
    }
    observed = str(decode_connectors(json.dumps(listed).encode()))
    assert "orders" in observed
    assert SECRET not in observed
    assert HOSTILE not in observed
    message = f'bad: sasl.jaas.config=x password="{SECRET}" and token: {SECRET} and </script>'
    refusal = json.dumps({"error_code": 500, "message": message}).encode()
    with serving(saying("500 Server Error", refusal)) as member:
        assert SECRET not in str(writer(member).send(*ALTER))
    return IGNORED


@row(54, "a record that is no offset moves nothing")
def _(_stage, _):
    large = b'["orders",{"a":"' + b"x" * (10 * 1024 * 1024) + b'"}]'
    for key in (
        b"\xff\xfe",
        b"not json",
        b'["orders"]',
        b'["orders",{"a":1},3]',
        b'["orders",7]',
        b'[7,{"a":1}]',
        b'{"orders":1}',
        b"[" * 100_000,
        b"",
        None,
    ):
        assert isinstance(decode_key(key), Undecodable), key
    for value in (b"\xff", b"[1]", b'"x"', b"7", b"{", b'{"a":{"b":1}}', b"[" * 100_000):
        assert isinstance(decode_value(value), Undecodable), value
    decode_key(large)  # whatever it is taken for, it is taken for something
    return IGNORED


@row(55, "a journal that is not ours alone is not opened")
def _(_stage, folder):
    def refuses(path: Path) -> None:
        with pytest.raises(JournalDamaged, match="cannot be used"):
            Journal(path)

    for name, spoil in (
        ("written", lambda path: path.chmod(0o666)),
        ("linked", lambda path: path.rename(folder / "away") and path.symlink_to(folder / "away")),
        *([("theirs", lambda path: os.chown(path, 65_534, -1))] if os.geteuid() == 0 else []),
    ):
        home = folder / name
        Journal(home).close()
        spoil(home / FILE_NAME)
        refuses(home)
    return IGNORED


@row(56, "a token file that others can read is a mistake of the configuration")
def _(_stage, folder):
    path = folder / "token"
    path.write_text(SECRET * 8)
    document = {
        "kafka": {"east": {"bootstrap": "127.0.0.1:19092"}},
        "connect": [{"name": "lab", "kafka": "east", "url": "http://127.0.0.1:18083"}],
        "control": {"tokens": [{"name": "a", "role": "viewer", "token_file": "token"}]},
    }
    path.chmod(0o600)
    parse(document, {}, folder=folder)
    for mode in (0o644, 0o640, 0o604, 0o666):
        path.chmod(mode)
        with pytest.raises(ConfigError, match="others may read or write it") as caught:
            parse(document, {}, folder=folder)
        assert SECRET not in str(caught.value)
    return IGNORED
