"""What each endpoint asks of the desk, and makes of its answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from structlog.testing import capture_logs

from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.service_api import (
    BackupRow,
    Breaker,
    JournalCheckFailed,
    JournalLine,
    Mode,
    ProposalRefused,
    QuarantineRow,
    RequestedAction,
    RequestTargetNotFound,
)
from offsetwatch.serve.control import routes
from offsetwatch.serve.control.routes import ROUTES
from tests.fakes.remediation_service import GUARD
from tests.unit.serve.control.bad import bodies, callers, http, inputs, names, plans, tls
from tests.unit.serve.control.bad.table import HOSTILE, ROWS, SECRET, TAKEN, Row
from tests.unit.serve.control.stage import BECAUSE, ROLES, SKIP, V1, Stage, control, serving

OTHER = "f" * 64


def test_plans_are_listed_and_can_be_filtered_by_state(stage: Stage):
    stage.with_plan("p1")
    stage.with_plan("p2", state=PlanStatus.PARKED)
    assert [row["plan_id"] for row in stage.call("GET", "/plans", "viewer").json()["plans"]] == [
        "p1",
        "p2",
    ]
    plans = stage.call("GET", "/plans?state=parked", "viewer").json()["plans"]
    assert [row["plan_id"] for row in plans] == ["p2"]
    assert stage.call("GET", "/plans?state=odd", "viewer").status_code == 400


def test_a_plan_is_reported_with_its_steps_and_what_guards_say(stage: Stage):
    sha256 = stage.with_plan("p1")
    document = stage.call("GET", "/plans/p1", "viewer").json()
    assert document["row"]["sha256"] == sha256
    assert document["plan"]["plan_id"] == "p1"
    assert document["steps"][0]["requests"] == ["PUT /connectors/orders/stop"]
    assert document["guards"][0]["guard"] == "bounds"
    assert stage.call("GET", "/plans/p2", "viewer").status_code == 404


def test_a_plan_is_requested_once_under_a_key(stage: Stage):
    first, again = stage.propose(), stage.propose()
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.headers["Location"] == f"{V1}/plans/p1"
    ((_, request, by),) = stage.desk.changed
    assert (request.action, by, request.key) == (RequestedAction.SKIP_ONE, "proposer", "once")
    assert request.pair.partition == '{"kafka_partition":3,"kafka_topic":"orders"}'
    assert request.pair.offset == '{"kafka_offset":1235}'
    assert stage.propose(key="twice").json()["plan_id"] == "p2"
    assert stage.propose(role="operator").json()["plan_id"] == "p3"


@pytest.mark.parametrize(
    ("body", "case"),
    [
        ({"action": "stop"}, RequestedAction.STOP),
        ({"action": "restart_failed"}, RequestedAction.RESTART_FAILED),
        (
            {"action": "restore", "backup": "20260817T095226Z-orders-1a30ba71.json"},
            RequestedAction.RESTORE,
        ),
        (
            {
                **SKIP,
                "partition": {"cluster": "west", "topic": "orders", "partition": 0},
                "offset": {"offset": 41},
            },
            RequestedAction.SKIP_ONE,
        ),
        (
            {**SKIP, "partition": {"filename": "a"}, "offset": {"position": 7}},
            RequestedAction.SKIP_ONE,
        ),
    ],
    ids=["stop", "restart", "restore", "mirror", "opaque"],
)
def test_every_action_can_be_requested(stage: Stage, body, case):
    expected = {"connect_cluster": "lab", "connector": "orders", "because": BECAUSE, **body}
    assert stage.propose(expected).status_code == 201
    assert stage.desk.changed[0][1].action is case


def test_what_cannot_be_planned_is_answered_with_the_guards_that_do_not_let_it(stage: Stage):
    stage.desk.refuse = ProposalRefused(said="not now", guards=(GUARD,))
    response = stage.propose()
    assert response.status_code == 422
    assert response.json() == {
        "error": "refused",
        "message": "not now",
        "guards": [msgspec.to_builtins(GUARD)],
    }
    stage.desk.refuse = RequestTargetNotFound()
    assert stage.propose().status_code == 404


def test_an_approver_approves_a_plan(stage: Stage):
    sha256 = stage.with_plan()
    body = {"plan_sha256": sha256, "because": BECAUSE}
    response = stage.call("POST", "/plans/p1/approve", "approver", body)
    assert (response.status_code, response.json()["state"]) == (200, "approved")
    assert stage.desk.changed == [("approve", "p1", "approver", BECAUSE)]


@pytest.mark.parametrize(
    ("verb", "role", "state"),
    [
        ("reject", "approver", PlanStatus.PROPOSED),
        ("abort", "operator", PlanStatus.RUNNING),
        ("resolve", "operator", PlanStatus.PARKED),
    ],
)
def test_a_plan_is_turned_down_turned_back_or_closed_where_it_is_so(stage, verb, role, state):
    stage.with_plan("p1", state=state)
    path, body = f"/plans/p1/{verb}", {"because": BECAUSE}
    assert stage.call("POST", path, role, body).status_code == 200
    assert stage.desk.changed == [(verb, "p1", role, BECAUSE)]
    stage.with_plan("p1", state=PlanStatus.SUCCEEDED)
    again = stage.call("POST", path, role, body)
    assert (again.status_code, again.json()["error"]) == (409, "already_decided")
    assert again.json()["state"] == "succeeded"
    assert stage.call("POST", f"/plans/p9/{verb}", role, body).status_code == 404
    assert len(stage.desk.changed) == 1


def test_mode_and_pause_are_set_and_shown(stage: Stage):
    assert stage.call("GET", "/mode", "viewer").json() == {
        "mode": "observe",
        "pause": None,
        "breakers": [],
    }
    put = stage.call("PUT", "/mode", "operator", {"mode": "propose", "because": BECAUSE})
    assert (put.status_code, put.json()) == (200, {"done": True})
    until = "2027-01-15T08:01:00Z"
    stage.call("POST", "/pause", "operator", {"until": until, "because": BECAUSE})
    document = stage.call("GET", "/mode", "viewer").json()
    assert document["mode"] == "propose"
    assert document["pause"]["until"] == until
    stage.call("POST", "/unpause", "operator", {"because": BECAUSE})
    stage.call("POST", "/pause", "operator", {"indefinite": True, "because": BECAUSE})
    assert stage.desk.changed == [
        ("set_mode", Mode.PROPOSE, "operator", BECAUSE),
        ("pause", stage.clock.now() + 60, "operator", BECAUSE),
        ("unpause", "operator", BECAUSE),
        ("pause", None, "operator", BECAUSE),
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"indefinite": False},
        {"indefinite": True, "until": "2030-01-01T00:00:00Z"},
        {"until": "2027-01-15T08:00:00Z"},
        {"until": 1_900_000_000},
        {"until": 1e9},
        {"until": "2030-01-01T00:00:00"},
        {"until": "tomorrow"},
        {"until": True},
        {"indefinite": 1},
    ],
    ids=str,
)
def test_a_pause_says_until_when(stage: Stage, body):
    response = stage.call("POST", "/pause", "operator", {"because": BECAUSE, **body})
    assert response.status_code == 400
    assert not stage.desk.changed


def test_an_open_breaker_is_shown_and_closed(stage: Stage):
    scope = "connector/lab/orders"
    stage.desk.breakers = (Breaker(scope=scope, opened_at=Moment(1.5), said="twice"),)
    assert stage.call("GET", "/mode", "viewer").json()["breakers"] == [
        {"scope": scope, "opened_at": "1970-01-01T00:00:01.500000Z", "said": "twice"}
    ]
    body = {"scope": "connector/lab/orders", "because": BECAUSE}
    assert stage.call("POST", "/breakers/ack", "operator", body).status_code == 200
    assert stage.call("POST", "/breakers/ack", "operator", body).status_code == 404
    assert stage.desk.changed == [("ack_breaker", "connector/lab/orders", "operator", BECAUSE)]


def line(seq: int, text: str = "x") -> JournalLine:
    record = msgspec.Raw(msgspec.json.encode({"record": "resumed", "said": text, "n": 2**60}))
    return JournalLine(seq=seq, plan_id="p1", prev_sha256=OTHER, sha256=OTHER, record=record)


def test_the_journal_is_lines_of_json_from_a_record_on(stage: Stage):
    stage.desk.lines = tuple(line(seq) for seq in range(1, 6))
    response = stage.call("GET", "/journal?from_seq=4", "viewer")
    assert response.headers["Content-Type"] == "application/x-ndjson"
    lines = [msgspec.json.decode(text) for text in response.text.splitlines()]
    assert [item["seq"] for item in lines] == [4, 5]
    assert lines[0]["record"]["n"] == 2**60
    assert stage.call("GET", "/journal?from_seq=9", "viewer").text == ""
    assert len(stage.call("GET", "/journal", "viewer").text.splitlines()) == 5


@pytest.mark.parametrize("seq", ["0", "-1", "1.0", "x", "", "9" * 30, "%31", "\uff11"])
def test_the_journal_begins_at_a_whole_number(stage: Stage, seq):
    response = stage.call("GET", f"/journal?from_seq={seq}", "viewer")
    assert response.status_code == (200 if seq == "%31" else 400)


def test_the_journal_is_answered_in_pieces_that_fit_and_never_in_none(stage: Stage, monkeypatch):
    monkeypatch.setattr(routes, "JOURNAL_BYTES_MAX", 1000)
    stage.desk.lines = (line(1, "x" * 2000), *(line(seq) for seq in range(2, 20)))
    observed, offset = [], 1
    while text := stage.call("GET", f"/journal?from_seq={offset}", "viewer").text:
        results = [msgspec.json.decode(part)["seq"] for part in text.splitlines()]
        assert len(results) == 1 or len(text) <= 1000
        observed += results
        offset = results[-1] + 1
    assert observed == list(range(1, 20))


def test_verifying_says_whether_the_journal_is_intact(stage: Stage):
    stage.desk.lines = (line(1),)
    assert stage.call("GET", "/journal/verify", "viewer").json() == {"intact": True, "records": 1}
    stage.desk.damaged = JournalCheckFailed(said="record 3 is not what was written")
    assert stage.call("GET", "/journal/verify", "viewer").json() == {
        "intact": False,
        "said": "record 3 is not what was written",
    }


def build_quarantine_row(connector: str = "orders", connect_cluster: str = "lab") -> QuarantineRow:
    return QuarantineRow(
        skip_key="k",
        plan_id="p1",
        connect_cluster=connect_cluster,
        connector=connector,
        kafka="east",
        topic="orders",
        partition=3,
        offset=1234,
        sha256=OTHER,
        size_bytes=12,
        where="east/quarantine",
        at=Moment(1.0),
    )


def test_quarantine_and_backups_are_listed(stage: Stage):
    stage.desk.set_aside = (build_quarantine_row(),)
    stage.desk.backup_rows = (BackupRow("b.json", Moment(1.0), OTHER, (("orders", 2),)),)
    assert stage.call("GET", "/quarantine", "viewer").json()["quarantine"][0]["offset"] == 1234
    assert stage.call("GET", "/backups", "viewer").json()["backups"] == [
        {
            "name": "b.json",
            "at": "1970-01-01T00:00:01Z",
            "sha256": OTHER,
            "connectors": [["orders", 2]],
        }
    ]


def test_connectors_are_listed(stage: Stage):
    assert stage.call("GET", "/connectors", "viewer").json()["connectors"] == [
        {"connect_cluster": "lab", "connector": "files"},
        {"connect_cluster": "lab", "connector": "orders"},
    ]


# --- who may --------------------------------------------------------------------------------------


def example(route: routes.Route) -> dict:
    bodies = {
        "WantPlan": SKIP,
        "Approval": {"plan_sha256": OTHER, "because": BECAUSE},
        "Reason": {"because": BECAUSE},
        "BreakerToClose": {"scope": "fleet", "because": BECAUSE},
        "WantMode": {"mode": "auto", "because": BECAUSE},
        "WantPause": {"indefinite": True, "because": BECAUSE},
    }
    return {} if route.body is None else {"body": bodies[route.body.__name__]}


def request(stage: Stage, route: routes.Route, role: str):
    headers = {"Idempotency_Key": "once"} if route.keyed else {}
    path = route.path.replace("{id}", "p1")
    return stage.call(route.method, path, role, **example(route), **headers)


@pytest.mark.parametrize("route", ROUTES, ids=lambda item: f"{item.method} {item.path}")
def test_a_role_may_do_what_is_its_own_and_what_those_below_it_may(stage: Stage, route):
    stage.with_plan()
    for role in ROLES:
        enough = role != "hook" and ROLES.index(role) >= ROLES.index(route.role.value)
        stage.desk.changed.clear()
        answer = request(stage, route, role)
        assert (answer.status_code != 403) == enough, role
        assert answer.status_code < 500
        if not enough:
            assert answer.json()["error"] == "forbidden"
            assert not stage.desk.changed


def test_who_is_held_to_some_connectors_sees_and_does_nothing_else():
    scoped = control()
    held = [
        token.model_copy(update={"connect": ["lab"], "connectors": scoped_to("orders")})
        for token in scoped.tokens
    ]
    with serving(scoped.model_copy(update={"tokens": held})) as stage:
        stage.desk.known = frozenset({("lab", "orders"), ("lab", "files"), ("other", "orders")})
        stage.with_plan("p1")
        sha256 = stage.with_plan("p2", connector="files")
        stage.with_plan("p3", connect_cluster="other")
        stage.desk.set_aside = (
            build_quarantine_row(),
            build_quarantine_row("files"),
            build_quarantine_row(connect_cluster="other"),
        )
        stage.desk.breakers = (Breaker(scope="fleet", opened_at=1.0, said="no"),)
        rows = stage.call("GET", "/plans", "viewer").json()["plans"]
        assert [row["plan_id"] for row in rows] == ["p1"]
        listed = stage.call("GET", "/connectors", "viewer").json()["connectors"]
        assert listed == [{"connect_cluster": "lab", "connector": "orders"}]
        assert len(stage.call("GET", "/quarantine", "viewer").json()["quarantine"]) == 1
        assert stage.call("GET", "/mode", "viewer").json()["breakers"] == []
        assert stage.call("GET", "/plans/p2", "viewer").status_code == 404
        body = {"plan_sha256": sha256, "because": BECAUSE}
        assert stage.call("POST", "/plans/p2/approve", "approver", body).status_code == 404
        for verb in ("abort", "resolve"):
            body = {"because": BECAUSE}
            assert stage.call("POST", f"/plans/p3/{verb}", "operator", body).status_code == 404
        assert stage.propose({**SKIP, "connector": "files"}).status_code == 404
        assert stage.propose({**SKIP, "connect_cluster": "other"}).status_code == 404
        for route in ROUTES:
            if route.of_all:
                answer = request(stage, route, "operator")
                assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
        assert not stage.desk.changed
        assert stage.propose().status_code == 201


def scoped_to(pattern: str):
    from offsetwatch.config import Patterns

    return Patterns.model_validate({"include": [pattern]})


# --- the document ---------------------------------------------------------------------------------


def test_the_document_describes_every_endpoint_and_no_other(stage: Stage):
    document = stage.call("GET", "/openapi.json", "viewer").json()
    described = {
        (method.upper(), path.removeprefix(V1))
        for path, methods in document["paths"].items()
        for method in methods
    }
    served = {(route.method, route.path) for route in ROUTES}
    assert described == served | {("POST", routes.HOOK_PATH), ("GET", routes.DOCUMENT_PATH)}
    refs = {text.split('"')[0] for text in str(document).replace("'", '"').split("schemas/")[1:]}
    assert refs <= document["components"]["schemas"].keys()


def test_two_who_approve_at_once_are_one_who_did_and_one_who_came_late(stage: Stage):
    sha256 = stage.with_plan()
    body = {"plan_sha256": sha256, "because": BECAUSE}
    with ThreadPoolExecutor(8) as pool:
        answers = [
            pool.submit(stage.call, "POST", "/plans/p1/approve", role, body)
            for role in ("approver", "operator") * 4
        ]
    statuses = sorted(answer.result().status_code for answer in answers)
    assert statuses == [200] + [409] * 7
    assert len(stage.desk.changed) == 1


# --- bad inputs ----------------------------------------------------------------------------------

TABLES = (callers, bodies, names, plans, http, inputs, tls)
ELSEWHERE = {57}  # a policy that is edited while a plan is carried out: tests of remedy's guards
NOT_HERE = {*range(7, 14), 60}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number:02} {row.sentence}")
def test_it_is_refused_or_ignored(row: Row, tmp_path, caplog, capfd):
    with capture_logs() as events, serving() as stage:
        statuses = list(row.run(stage, tmp_path))
    assert statuses
    assert all(status is None or status == TAKEN or 400 <= status < 500 for status in statuses), (
        statuses
    )
    assert len(stage.desk.changed) == row.changes
    assert len(stage.desk.hints) == row.hints
    report = f"{events}{caplog.text}{''.join(capfd.readouterr())}"
    assert SECRET not in report
    assert HOSTILE not in report


def test_every_number_of_the_list_has_a_row():
    expected = set(range(1, 61)) - ELSEWHERE - NOT_HERE
    assert {row.number for row in ROWS} == expected
