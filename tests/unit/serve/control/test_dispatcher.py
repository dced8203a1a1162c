"""What holds for every request, whoever sends it."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from offsetwatch.config import Patterns
from offsetwatch.errors import JournalDamaged, NotLeader
from offsetwatch.serve.control.access import AuthenticatedPrincipal, Principals, UserRole
from offsetwatch.serve.control.routes import ROUTES
from offsetwatch.serve.web_config.passwords import FAILURES_MAX, WINDOW_S, AuthFailureCounter
from tests.waiting import until

from .stage import BECAUSE, ROLES, Stage, control, sha256, token


def test_every_answer_is_json_without_caching_and_the_last_of_its_connection(stage: Stage):
    for response in (
        stage.call("GET", "/plans", "viewer"),
        stage.call("GET", "/nowhere", "viewer"),
        stage.call("GET", "/plans"),
        stage.hook(),
    ):
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Connection"] == "close"
        assert response.headers["Server"] == "offsetwatch"
        assert isinstance(response.json(), dict)


def test_an_unknown_path_is_not_found_and_another_method_says_which_there_are(stage: Stage):
    assert stage.call("GET", "/nowhere", "operator").json()["error"] == "not_found"
    response = stage.call("DELETE", "/plans/p1", "operator")
    assert (response.status_code, response.headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize(
    "query", ["x=1", "state=parked&state=parked", "state", "&&", "state=%zz", "=", "a=1&" * 20]
)
def test_a_query_has_what_the_endpoint_knows_and_each_once(stage: Stage, query):
    assert stage.call("GET", f"/plans?{query}", "viewer").status_code == 400
    assert stage.call("GET", f"/backups?{query}", "viewer").status_code == 400


def test_an_unknown_key_of_a_body_is_a_mistake(stage: Stage):
    body = {"because": BECAUSE, "force": True}
    assert stage.call("POST", "/unpause", "operator", body).status_code == 400
    assert not stage.desk.changed


# --- failures -------------------------------------------------------------------------------------


def test_after_ten_failures_in_a_minute_an_address_is_ordered_to_wait(stage: Stage):
    statuses = [stage.call("GET", "/plans").status_code for _ in range(FAILURES_MAX + 3)]
    assert statuses == [401] * FAILURES_MAX + [429] * 3
    assert stage.call("GET", "/plans").headers["Retry-After"] == "60"
    assert stage.call("GET", "/plans", "viewer").status_code == 200
    stage.clock.advance(WINDOW_S)
    assert stage.call("GET", "/plans").status_code == 401
    until(lambda: stage.counted("throttled", "refused") == 4, "all are counted")
    assert stage.counted("unauthorised", "refused") == FAILURES_MAX + 1


def test_failures_are_logged_with_their_address_until_there_are_too_many(stage: Stage):
    with capture_logs() as events:
        for _ in range(FAILURES_MAX + 5):
            stage.call("GET", "/plans", Authorization="Bearer s3cret")
    reports = [event for event in events if event["event"] == "control_unauthorised"]
    assert [event["address"] for event in reports] == ["127.0.0.1"] * FAILURES_MAX
    assert "s3cret" not in str(events)


def test_each_address_has_failures_of_its_own_and_only_so_many_are_remembered():
    failures = AuthFailureCounter()
    for _ in range(FAILURES_MAX):
        assert not failures.again("a", 0.0)
    assert failures.again("a", 1.0)
    assert not failures.again("b", 1.0)
    for number in range(2000):
        failures.again(f"n{number}", 1.0)
    assert len(failures._windows) <= 1024
    assert not failures.again("a", 1.0)


def test_a_clock_that_is_set_back_locks_no_client_out():
    failures = AuthFailureCounter()
    for _ in range(FAILURES_MAX + 1):
        failures.again("a", 1000.0)
    assert not failures.again("a", 10.0)


# --- who ------------------------------------------------------------------------------------------


def test_roles_hold_those_below_them_and_a_hook_holds_nothing_else():
    ladder = [UserRole(role) for role in ROLES if role != "hook"]
    for number, role in enumerate(ladder):
        assert [needed for needed in ladder if role.allows(needed)] == ladder[: number + 1]
        assert not role.allows(UserRole.HOOK)
        assert not UserRole.HOOK.allows(role)
    assert UserRole.HOOK.allows(UserRole.HOOK)


def test_a_principal_limited_to_connectors_sees_full_matches_alone():
    (one, *_) = control().tokens
    held = AuthenticatedPrincipal(
        one.model_copy(
            update={"connect": ["lab"], "connectors": Patterns.model_validate({"include": ["a"]})}
        )
    )
    assert held.sees("lab", "a")
    assert not held.sees_all
    assert not any(held.sees(*value) for value in (("lab", "ab"), ("lab", "a\n"), ("east", "a")))
    assert AuthenticatedPrincipal(one).sees_all


@pytest.mark.parametrize("header", ["Bearer {}", "bearer {}", "Bearer   {}"])
def test_a_bearer_token_may_be_written_in_the_ways_that_http_allows(header):
    principals = Principals(control())
    result = principals.authenticate([header.format(token("viewer"))], None, 0.0)
    assert result is not None
    assert result.name == "viewer"


def certificate(*names: tuple[str, str]) -> dict:
    return {"subject": ((("commonName", "console.example.com"),),), "subjectAltName": names}


@pytest.mark.parametrize(
    ("names", "who"),
    [
        ([("DNS", "console.example.com")], "console"),
        ([("DNS", "CONSOLE.example.com"), ("DNS", "other")], "console"),
        ([("URI", "spiffe://example.com/robot")], "robot"),
        ([("IP Address", "10.0.0.7")], "host"),
        ([("email", "console.example.com")], None),
        ([("URI", "spiffe://example.com/ROBOT")], None),
        ([("DNS", "console.example.com"), ("IP Address", "10.0.0.7")], None),
        ([("DirName", "console.example.com")], None),
        ([], None),
    ],
)
def test_a_certificate_is_known_by_one_alternative_name_and_its_kind(names, who):
    clients = [
        {"name": "console", "role": "viewer", "san": "dns:console.example.com"},
        {"name": "robot", "role": "viewer", "san": "uri:spiffe://example.com/robot"},
        {"name": "host", "role": "viewer", "san": "ip:10.0.0.7"},
    ]
    result = Principals(control(clients=clients)).authenticate([], certificate(*names), 0.0)
    assert (None if result is None else result.name) == who


def test_who_is_let_in_follows_the_configuration(stage: Stage):
    new = [{"name": "new", "role": "viewer", "token_sha256": sha256(token("new"))}]
    stage.server.follow(control(tokens=new))
    assert stage.call("GET", "/plans", "new").status_code == 200
    assert stage.call("GET", "/plans", "viewer").status_code == 401


# --- when something is broken ---------------------------------------------------------------------


def broken(error: Exception):
    def before(_call: str) -> None:
        raise error

    return before


def test_without_a_journal_nothing_is_done_and_that_is_said(stage: Stage):
    stage.desk.before = broken(JournalDamaged("s3cret"))
    for response in (stage.call("GET", "/plans", "viewer"), stage.propose(), stage.hook()):
        assert (response.status_code, response.json()["error"]) == (503, "journal_unavailable")
        assert "s3cret" not in response.text


def test_a_bug_is_reported_by_its_place_and_never_by_its_text(stage: Stage):
    stage.desk.before = broken(RuntimeError("s3cret"))
    with capture_logs() as events:
        for response in (stage.call("GET", "/plans", "viewer"), stage.propose(), stage.hook()):
            assert (response.status_code, response.json()["error"]) == (500, "internal_error")
            assert "s3cret" not in response.text
    reports = [event for event in events if event["event"] == "control_failed"]
    assert [event["kind"] for event in reports] == ["RuntimeError"] * 3
    assert all("test_dispatcher:" in event["at"] for event in reports)
    assert "s3cret" not in str(events)
    stage.desk.before = lambda _: None
    assert stage.call("GET", "/plans", "viewer").status_code == 200


def test_no_endpoint_is_served_twice():
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


# --- where another replica leads ------------------------------------------------------------------


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.method != "GET"],
    ids=lambda item: f"{item.method} {item.path}",
)
def test_a_follower_refuses_changes_and_names_the_leader(stage: Stage, route):
    stage.follows = "watch-1 was the last to say that it does"
    path = route.path.replace("{id}", "p1")
    response = stage.call(route.method, path, "operator", {"because": BECAUSE})
    assert (response.status_code, response.json()["error"]) == (503, "not_leader")
    assert response.json()["message"] == stage.follows
    assert response.headers["Retry-After"] == "5"
    assert not stage.desk.changed


def test_a_follower_answers_reads_and_checks_credentials(stage: Stage):
    stage.follows = "watch-1 was the last to say that it does"
    assert stage.call("GET", "/plans", "viewer").status_code == 200
    assert stage.call("GET", "/mode", "viewer").status_code == 200
    assert stage.call("POST", "/unpause", "viewer", {"because": BECAUSE}).status_code == 403
    assert stage.call("POST", "/unpause", None, {"because": BECAUSE}).status_code == 401


def test_a_hint_to_one_that_follows_is_taken_and_is_not_to_be_sent_again(stage: Stage):
    stage.follows = "watch-1 was the last to say that it does"
    response = stage.hook()
    assert (response.status_code, response.json()["status"]) == (202, "follows")


def test_leadership_that_is_lost_meanwhile_is_said_as_well(stage: Stage):
    stage.desk.before = broken(NotLeader("not known to be in the journal"))
    response = stage.call("POST", "/unpause", "operator", {"because": BECAUSE})
    assert (response.status_code, response.json()["error"]) == (503, "not_leader")
