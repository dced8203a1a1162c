"""What is sent: 22 to 30."""

from __future__ import annotations

import gzip
import json
import zlib

from offsetwatch.serve.control.connection import BODY_BYTES_MAX
from tests.unit.serve.control.stage import BECAUSE, SKIP, alert, payload, token

from .table import HOSTILE, TAKEN, refused, row, status_of

JSON = "Content-Type: application/json\r\n"


def head(role: str, path: str = "/hooks/alertmanager", *lines: str) -> bytes:
    first = f"POST /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n{JSON}"
    return (first + f"Authorization: Bearer {token(role)}\r\n" + "".join(lines) + "\r\n").encode()


def everywhere(stage, body: bytes, **headers: str):
    """To each endpoint that takes a body, by whoever may send one."""
    stage.with_plan()
    yield refused(stage.hook(body, **headers))
    yield refused(stage.call("POST", "/plans", "proposer", body, Idempotency_Key="k", **headers))
    for path in ("/plans/p1/approve", "/plans/p1/reject", "/plans/p1/abort", "/pause", "/unpause"):
        yield refused(stage.call("POST", path, "operator", body, **headers))
    yield refused(stage.call("PUT", "/mode", "operator", body, **headers))


@row(22, "a body of more than a mebibyte is not read to its end")
def _(stage, _):
    large = json.dumps(payload(receiver="x" * BODY_BYTES_MAX)).encode()
    for status in everywhere(stage, large):
        assert status == 413
        yield status
    size = f"Content-Length: {10**15}\r\n"
    yield status_of(stage.raw(head("hook", "/hooks/alertmanager", size) + b"{"))


@row(22, "a body that does not say how large it is may not be larger either")
def _(stage, _):
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    sent = head("hook", "/hooks/alertmanager", "Transfer-Encoding: chunked\r\n")
    status = status_of(stage.raw(sent + chunk * 17 + b"0\r\n\r\n"))
    assert status == 413
    yield status


@row(23, "a request whose length can be read in two ways is not read")
def _(stage, _):
    stage.with_plan()
    inner = head("operator", "/pause", "Content-Length: 41\r\n")
    inner += b'{"indefinite": true, "because": "smuggled"}'
    chunked = "Transfer-Encoding: chunked\r\n"
    for lines in (
        ("Content-Length: 4\r\n", chunked),
        (chunked, "Content-Length: 4\r\n"),
        ("Content-Length: 4\r\n", "Content-Length: 5\r\n"),
        ("Content-Length: -1\r\n",),
        ("Content-Length: 4x\r\n",),
        ("Content-Length: +4\r\n",),
        ("Transfer-Encoding: chunked, identity\r\n",),
        ("Transfer-Encoding: xchunked\r\n",),
        ("Transfer-Encoding : chunked\r\n",),
    ):
        yield status_of(
            stage.raw(head("hook", "/hooks/alertmanager", *lines) + b"0\r\n\r\n" + inner)
        )


@row(23, "what comes behind a request is never a second one")
def _(stage, _):
    stage.with_plan()
    sha256 = stage.desk.rows["p1"].sha256
    body = json.dumps({"plan_sha256": sha256, "because": BECAUSE}).encode()
    inner = head("approver", "/plans/p1/approve", f"Content-Length: {len(body)}\r\n") + body
    for first in (b"{}", b""):
        sent = head("hook", "/hooks/alertmanager", f"Content-Length: {len(first)}\r\n")
        yield status_of(stage.raw(sent + first + inner))
    # Longer than it says: the rest is nothing. Shorter: it never becomes whole, and is cut off.
    whole = json.dumps(payload()).encode()
    sent = head("hook", "/hooks/alertmanager", f"Content-Length: {len(whole) - 20}\r\n")
    yield status_of(stage.raw(sent + whole))


@row(24, "what is compressed is not unpacked")
def _(stage, _):
    bomb = gzip.compress(b" " * 50_000_000 + json.dumps(payload()).encode(), 1)
    assert len(bomb) < BODY_BYTES_MAX
    for encoding, body in (
        ("gzip", bomb),
        ("deflate", zlib.compress(b" " * 50_000_000, 1)),
        ("gzip, gzip", gzip.compress(bomb)),
        ("br", bomb),
    ):
        for status in everywhere(stage, body, Content_Encoding=encoding):
            assert status == 415
            yield status
    yield from everywhere(stage, bomb)


@row(25, "what is nested ten thousand deep is not followed")
def _(stage, _):
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")):
        deep = opened * 10_000 + b"1" + closed * 10_000
        yield from everywhere(stage, deep)
        yield from everywhere(stage, opened * 10_000)
        body = json.dumps(payload(commonLabels="@")).encode().replace(b'"@"', deep)
        yield refused(stage.hook(body))


@row(26, "a key that is given twice is not one of the two")
def _(stage, _):
    stage.with_plan()
    sha256 = stage.desk.rows["p1"].sha256
    twice = f'{{"plan_sha256":"{sha256}","because":"x","because":"y"}}'.encode()
    yield refused(stage.call("POST", "/plans/p1/approve", "approver", twice))
    skip = json.dumps(SKIP)
    for more in (
        ', "offset": {"kafka_offset": 9}}',
        ', "connector": "files"}',
        ', "\\u006fffset": {"kafka_offset": 9}}',
    ):
        body = (skip[:-1] + more).encode()
        yield refused(stage.call("POST", "/plans", "proposer", body, Idempotency_Key="k"))
    inner = skip.replace('"kafka_partition": 3', '"kafka_partition": 3, "kafka_partition": 4')
    assert inner != skip
    yield refused(stage.call("POST", "/plans", "proposer", inner.encode(), Idempotency_Key="k"))
    alerts = json.dumps(payload())
    for more in (', "alerts": []}', ', "version": "4"}', ', "x": {"a": 1, "a": 2}}'):
        yield refused(stage.hook((alerts[:-1] + more).encode()))


@row(27, "a number that is none, or that does not fit, is refused wherever it stands")
def _(stage, _):
    for number in (
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        str(2**63),
        "9" * 5000,
        "-" + "9" * 25,
    ):
        yield refused(stage.hook(json.dumps(payload(x="@")).replace('"@"', number).encode()))
        skip = json.dumps(SKIP).replace("1235", number).encode()
        yield refused(stage.call("POST", "/plans", "proposer", skip, Idempotency_Key="k"))
        pause = f'{{"until": {number}, "because": "x"}}'.encode()
        yield refused(stage.call("POST", "/pause", "operator", pause))


@row(28, "what is not Unicode is refused")
def _(stage, _):
    for text in (
        b"\xff",
        b"\xc0\xaf",  # overlong
        b"\xe0\x80\xaf",
        b"\xf8\x88\x80\x80\x80",
        b"\xed\xa0\x80",  # half of a pair
        b"\\ud800",
        b"\\udfff\\ud800",
        b"\x80",
        b"\xf4\x90\x80\x80",  # beyond the last
    ):
        yield refused(stage.hook(json.dumps(payload(x="@")).encode().replace(b"@", text)))
        yield refused(stage.hook(json.dumps(payload(x=["@"])).encode().replace(b"@", text)))
        key = json.dumps(payload(x={"@": 1})).encode().replace(b"@", text)
        yield refused(stage.hook(key))
        skip = json.dumps({**SKIP, "because": "@"}).encode().replace(b"@", text)
        yield refused(stage.call("POST", "/plans", "proposer", skip, Idempotency_Key="k"))


@row(29, "JSON is UTF-8 without a mark before it")
def _(stage, _):
    text = json.dumps(payload())
    for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7"):
        yield refused(stage.hook(b"+AHs-" if encoding == "utf-7" else text.encode(encoding)))
    plain = text.encode()
    for kind in (
        "text/plain",
        "application/json; charset=utf-16",
        "",
        "application/yaml",
        "text/json",
    ):
        answer = stage.hook(plain, Content_Type=kind)
        assert answer.status_code == 415
        yield refused(answer)


@row(30, "more than five hundred alerts are too many, and none of them counts")
def _(stage, _):
    answer = stage.hook(payload(*[alert() for _ in range(501)]))
    assert answer.status_code == 400
    yield refused(answer)


@row(30, "how many alerts were cut off is not believed", hints=4)
def _(stage, _):
    for report in (0, 10**9, 2**63 - 1, -1):
        answer = stage.hook(payload(truncatedAlerts=report))
        assert answer.status_code == TAKEN
        yield refused(answer)


@row(30, "of a payload that no Alertmanager sends nothing counts")
def _(stage, _):
    for body in (
        [],
        "x",
        None,
        1,
        {},
        payload(version="3"),
        payload(version=4),
        payload(alerts={}),
        payload(alerts=None),
        {**payload(), "alerts": [alert(), HOSTILE]},
        {**payload(), "alerts": [alert(), alert(status="odd")]},
        {**payload(), "alerts": [alert(), alert(status=["firing"])]},
        {**payload(), "alerts": [alert(), alert(fingerprint=HOSTILE)]},
        {**payload(), "alerts": [alert(), alert(fingerprint="1A30BA71CCA2921F")]},
        {**payload(), "alerts": [alert(), alert(fingerprint="1a30ba71cca2921f\n")]},
        {**payload(), "alerts": [alert(), alert(startsAt=HOSTILE)]},
        {**payload(), "alerts": [alert(), alert(startsAt="2026-02-30T00:00:00Z")]},
        {**payload(), "alerts": [alert(), alert(startsAt="0001-01-01T00:00:00+14:00")]},
        {**payload(), "alerts": [alert(), alert(startsAt=1)]},
        {**payload(), "alerts": [alert(), {**alert(), "labels": [HOSTILE]}]},
        {**payload(), "alerts": [alert(), alert(labels={"connector": 7})]},
        {**payload(), "alerts": [alert(), alert(labels={"x": {"$ref": HOSTILE}})]},
    ):
        answer = stage.hook(json.dumps(body).encode())
        assert answer.status_code == 400, body
        yield refused(answer)
