"""Who asks: 1 to 6, 14 to 21."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor

from offsetwatch.remedy.model.plan import PlanStatus
from tests.unit.serve.control.stage import BECAUSE, SKIP, control, token

from .table import HOSTILE, refused, row, status_of

PLACES = (
    ("GET", "/plans"),
    ("POST", "/plans"),
    ("POST", "/plans/p1/approve"),
    ("PUT", "/mode"),
    ("POST", "/hooks/alertmanager"),
    ("GET", "/openapi.json"),
    ("GET", "/nowhere"),
    ("OPTIONS", "/plans"),
)


def approval(stage, **more):
    return {"plan_sha256": stage.desk.rows["p1"].sha256, "because": BECAUSE, **more}


@row(1, "whoever does not say who it is gets the same answer everywhere")
def _(stage, _):
    answers = [stage.call(method, path) for method, path in PLACES]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].headers["WWW-Authenticate"] == "Bearer"
    return [refused(answer) for answer in answers]


@row(2, "an empty bearer token is none")
def _(stage, _):
    head = b"GET /api/v1/plans HTTP/1.1\r\nHost: localhost\r\nAuthorization:"
    for header in (b"", b" Bearer", b" Bearer ", b" Bearer  ", b"bearer\t"):
        status = status_of(stage.raw(head + header + b"\r\n\r\n"))
        assert status == 401
        yield status


@row(3, "a token that is no longer configured, or no longer in its file, opens nothing")
def _(stage, folder):
    path = folder / "token"
    path.write_text(f"{token('old')}\n{token('new')}\n")
    path.chmod(0o600)
    retained = [item for item in control().tokens if item.name != "viewer"]
    named = control(tokens=[{"name": "viewer", "role": "viewer", "token_file": path}]).tokens
    stage.server.follow(control().model_copy(update={"tokens": [*retained, *named]}))
    assert stage.call("GET", "/plans", "old").status_code == 200
    assert stage.call("GET", "/plans", "new").status_code == 200
    yield refused(stage.call("GET", "/plans", "viewer"))
    path.write_text(token("new"))
    assert stage.call("GET", "/plans", "new").status_code == 200
    yield refused(stage.call("GET", "/plans", "old"))
    path.chmod(0o644)
    yield refused(stage.call("GET", "/plans", "new"))
    path.chmod(0o600)
    assert stage.call("GET", "/plans", "new").status_code == 200
    path.unlink()
    yield refused(stage.call("GET", "/plans", "new"))


@row(3, "a token that has expired opens nothing")
def _(stage, _):
    tokens = [
        {**item.model_dump(exclude_none=True), "expires": "2027-01-15T08:00:01Z"}
        for item in control().tokens
    ]
    stage.server.follow(control(tokens=tokens))
    assert stage.call("GET", "/plans", "viewer").status_code == 200
    stage.clock.advance(1.0)
    yield refused(stage.call("GET", "/plans", "viewer"))


@row(4, "a token with something behind it is another token")
def _(stage, _):
    for tail in (
        b"\x00",
        b"\x00\x00",
        b"\\n",
        b"%0a",
        b"%00",
        b",",
        b" x",
        b"\n ",
        b"\r\n x",
        b"\x7f",
    ):
        head = b"GET /api/v1/plans HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        status = status_of(stage.raw(head + token("viewer").encode() + tail + b"\r\n\r\n"))
        assert status in {400, 401, None}, tail
        yield status


@row(5, "a token in the query is none")
def _(stage, _):
    for name in ("token", "access_token", "Authorization", "bearer"):
        yield refused(stage.call("GET", f"/plans?{name}={token('operator')}"))
        yield refused(stage.call("POST", f"/pause?{name}={token('operator')}", body={}))


@row(6, "a token under another scheme, or given twice, is none")
def _(stage, _):
    known = token("operator")
    basic = base64.b64encode(f"operator:{known}".encode()).decode()
    for header in (f"Basic {basic}", f"Basic {known}", f"Token {known}", known, f"Bearer:{known}"):
        answer = stage.call("GET", "/plans", Authorization=header)
        assert answer.status_code == 401
        yield refused(answer)
    head = b"GET /api/v1/plans HTTP/1.1\r\nHost: localhost\r\n"
    twice = f"Authorization: Bearer {known}\r\n".encode()
    yield status_of(stage.raw(head + twice + twice + b"\r\n"))
    yield status_of(stage.raw(head + f"Cookie: token={known}\r\n\r\n".encode()))


@row(14, "whoever hands in alerts can do nothing else")
def _(stage, _):
    stage.with_plan()
    yield refused(stage.call("POST", "/plans/p1/approve", "hook", approval(stage)))
    yield refused(stage.propose(role="hook"))
    for method, path in (("GET", "/plans"), ("GET", "/journal"), ("GET", "/nowhere")):
        answer = stage.call(method, path, "hook")
        assert answer.status_code == 403
        yield refused(answer)
    yield refused(stage.call("GET", "/openapi.json", "hook"))


@row(14, "who hands in alerts is nobody but a hook")
def _(stage, _):
    for role in ("viewer", "proposer", "approver", "operator"):
        answer = stage.hook(role=role)
        assert answer.status_code == 403
        yield refused(answer)


@row(15, "who may only look or ask does not approve")
def _(stage, _):
    stage.with_plan()
    for role in ("viewer", "proposer"):
        answer = stage.call("POST", "/plans/p1/approve", role, approval(stage))
        assert answer.status_code == 403
        yield refused(answer)


@row(16, "who asked for a plan does not approve it", changes=1)
def _(stage, _):
    assert stage.propose(role="operator").status_code == 201
    answer = stage.call("POST", "/plans/p1/approve", "operator", approval(stage))
    assert answer.json()["error"] == "self_approval"
    yield refused(answer)


@row(17, "a plan is not approved under a hash that is not its own")
def _(stage, _):
    sha256 = stage.with_plan()
    for wrong in ("0" * 64, sha256[::-1]):
        body = approval(stage, plan_sha256=wrong)
        answer = stage.call("POST", "/plans/p1/approve", "approver", body)
        assert (answer.status_code, answer.json()["error"]) == (409, "plan_changed")
        yield refused(answer)
    for wrong in (sha256.upper(), sha256 + "\n", sha256[:63], "", None, 0, [sha256]):
        body = approval(stage, plan_sha256=wrong)
        yield refused(stage.call("POST", "/plans/p1/approve", "approver", body))


@row(18, "a plan whose time is over is not approved")
def _(stage, _):
    stage.with_plan(expires_at=stage.clock.now())
    answer = stage.call("POST", "/plans/p1/approve", "approver", approval(stage))
    assert (answer.status_code, answer.json()["error"]) == (409, "plan_expired")
    yield refused(answer)


@row(
    19,
    "of many who approve at once one does, and the others are told that they came late",
    changes=1,
)
def _(stage, _):
    stage.with_plan()
    body = approval(stage)
    with ThreadPoolExecutor(8) as pool:
        requests = [
            pool.submit(stage.call, "POST", "/plans/p1/approve", "approver", body)
            for _ in range(16)
        ]
    answers = [future.result() for future in requests]
    late = [answer for answer in answers if answer.status_code != 200]
    assert len(late) == 15
    assert {answer.json()["error"] for answer in late} == {"already_decided"}
    return [refused(answer) for answer in late]


@row(20, "who hands in alerts does not abort")
def _(stage, _):
    stage.with_plan(state=PlanStatus.RUNNING)
    for verb in ("abort", "resolve", "reject"):
        yield refused(stage.call("POST", f"/plans/p1/{verb}", "hook", {"because": BECAUSE}))


@row(21, "under a key that was used for something else nothing is asked", changes=1)
def _(stage, _):
    assert stage.propose().status_code == 201
    for other in ({"because": "another reason"}, {"offset": {"kafka_offset": 1236}}):
        answer = stage.propose({**SKIP, **other})
        assert (answer.status_code, answer.json()["error"]) == (409, "idempotency_key_reused")
        yield refused(answer)


@row(21, "without a key, with two, or with one that cannot be read, nothing is asked")
def _(stage, _):
    yield refused(stage.call("POST", "/plans", "proposer", SKIP))
    for key in ("", f"{HOSTILE} x", "x" * 101):
        yield refused(stage.propose(key=key))
    body = json.dumps(SKIP)
    head = (
        "POST /api/v1/plans HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token('operator')}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    for keys in ((), ("Idempotency-Key: ",), ("Idempotency-Key: a", "Idempotency-Key: b")):
        yield status_of(stage.raw("\r\n".join((*head, *keys, "", body)).encode()))
