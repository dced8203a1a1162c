"""What labels and names may hold: 31 to 37."""

from __future__ import annotations

import socket

from offsetwatch.config import Patterns
from tests.fakes.endpoint import endpoint
from tests.unit.serve.control.stage import BECAUSE, SKIP, Stage, alert, control, payload, token

from .table import HOSTILE, TAKEN, refused, row, status_of

TRICKS = (
    "../../admin/loggers",
    "a%2F..%2Fb",
    "orders%00",
    "orders\x00",
    "orders\r\nX: y",
    "orders;x",
    "orders?x=1",
    "orders#x",
    "/orders",
    "orders/",
    " orders",
    "orders ",
    "orders\n",
)
LIKE_IT = (
    "Orders",
    "ORDERS",
    "\u043erders",
    "order\u0455",
    "orders\u200b",
    "ord\u00e9rs",
    "o\u0307rders",
    "",
)


def taken(stage: Stage, **labels: str) -> int:
    answer = stage.hook(payload(alert(labels=labels)))
    assert answer.status_code == TAKEN
    assert answer.json() == {"status": "taken"}
    return refused(answer)


def not_there(stage: Stage, **names: str) -> int:
    """Asked for by a person; 400 for a name that is none."""
    answer = stage.propose({**SKIP, **names})
    assert answer.status_code in {400, 404}
    return refused(answer)


@row(31, "a connector that climbs out of its path is not there")
def _(stage, _):
    for name in ("../../admin/loggers", "..", "../orders", "orders/../../x"):
        yield taken(stage, connector=name)
        yield not_there(stage, connector=name)
    for path in ("/plans/../../admin/loggers", "/plans/../mode", "/./mode", "//mode", "/mode/"):
        line = f"GET /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n"
        auth = f"Authorization: Bearer {token('operator')}\r\n\r\n"
        status = status_of(stage.raw((line + auth).encode()))
        assert status == 404, path
        yield status


@row(32, "a name with something that a path, a header or a query would read is another name")
def _(stage, _):
    for name in TRICKS:
        yield taken(stage, connector=name)
        yield not_there(stage, connector=name)
    stage.with_plan()
    for tail in ("%2F..%2Fb", "%00", "%0d%0aX:y", ";x", "%3Fx=", "%23", "%70", ";", ".json", "/"):
        yield refused(stage.call("GET", f"/plans/p1{tail}", "viewer"))
        body = {"plan_sha256": "0" * 64, "because": BECAUSE}
        yield refused(stage.call("POST", f"/plans/p1{tail}/approve", "approver", body))


@row(33, "a connector that only looks like one that is known is not known")
def _(stage, _):
    for name in LIKE_IT:
        yield taken(stage, connector=name)
        yield not_there(stage, connector=name)
    yield taken(stage, connect_cluster="LAB")
    yield not_there(stage, connect_cluster="l\u0430b")


@row(34, "an alert of somebody else's Connect cluster is about nothing")
def _(stage, _):
    stage.desk.known = frozenset({("lab", "orders"), ("theirs", "orders"), ("lab", "files")})
    held = [
        item.model_copy(
            update={
                "connect": ["lab"],
                "connectors": Patterns.model_validate({"include": ["files"]}),
            }
        )
        for item in control().tokens
    ]
    stage.server.follow(control().model_copy(update={"tokens": held}))
    yield taken(stage, connect_cluster="theirs")
    yield taken(stage, connector="orders")
    yield taken(stage, connect_cluster="nowhere")
    yield not_there(stage, connect_cluster="theirs")


@row(35, "no address in an alert is ever asked", hints=1)
def _(stage, _):
    with endpoint() as trap, socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(0)
        port = silent.getsockname()[1]
        urls = {
            name: f"{trap.url}/{name}" for name in ("generatorURL", "silenceURL", "runbook_url")
        }
        body = payload(
            alert(**urls, annotations={"runbook_url": f"http://127.0.0.1:{port}/"}),
            externalURL=trap.url,
            generatorURL="http://169.254.169.254/latest/meta-data/",
        )
        answer = stage.hook(body)
        assert answer.status_code == TAKEN
        stage.server.stop()  # whatever it had begun is over
        assert trap.got == []
        try:
            silent.accept()
        except BlockingIOError:
            yield refused(answer)


@row(36, "nothing in a label is evaluated", hints=1)
def _(stage, _):
    tricks = {
        "__proto__": HOSTILE,
        "$ref": "#/components/schemas/x",
        "constructor": "prototype",
        "yaml": "!!python/object/apply:os.system [true]",
        "template": "{{ 7 * 7 }}",
        "lookup": "${jndi:ldap://127.0.0.1/h0stile}",
        "format": "{0.__class__} %s %n",
    }
    answer = stage.hook(payload(alert(labels=tricks)))
    assert answer.status_code == TAKEN
    (hint,) = stage.desk.hints
    assert HOSTILE not in str(hint)
    yield refused(answer)
    for text in tricks.values():
        yield taken(stage, connector=text)
        yield not_there(stage, connector=text)


@row(36, "a place that could be none is not handed on", hints=9)
def _(stage, _):
    for labels in (
        {"topic": f"{HOSTILE}/../x"},
        {"topic": "\x1b[31m"},
        {"topic": ""},
        {"partition": "-1"},
        {"partition": "03"},
        {"partition": "1.0"},
        {"partition": "99999999999"},
        {"partition": "\u0663"},
        {"partition": "2147483648"},
    ):
        yield taken(stage, **labels)
        hint = stage.desk.hints[-1]
        assert (hint.topic, hint.partition) == (None, None)


@row(37, "what would move a terminal's cursor or end a line is in no name and in no reason")
def _(stage, _):
    stage.with_plan()
    for text in (
        f"\x1b[31m{HOSTILE}",
        f"{HOSTILE}\nfake log line",
        f"{HOSTILE}\r",
        f"\x9b31m{HOSTILE}",
        f"{HOSTILE}\x00",
        f"{HOSTILE}\u202e",
        f"{HOSTILE}\u2028",
        f"\ufeff{HOSTILE}",
        f"{HOSTILE}\n",
    ):
        yield taken(stage, connector=text)
        yield not_there(stage, connector=text)
        answer = stage.propose({**SKIP, "because": text})
        assert answer.status_code == 400, text
        yield refused(answer)
        answer = stage.call("POST", "/plans/p1/reject", "approver", {"because": text})
        assert answer.status_code == 400
        yield refused(answer)
    for blank in ("", " ", "\u00a0", "x" * 501, None, 7, ["x"]):
        yield refused(stage.call("POST", "/plans/p1/reject", "approver", {"because": blank}))
