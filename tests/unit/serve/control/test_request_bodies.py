"""Alerts: what of them becomes a hint, once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from structlog.testing import capture_logs

from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.remedy.model.service_api import AlertHint
from offsetwatch.serve.control.request_bodies import (
    DEPTH_MAX,
    MalformedRequest,
    WantPlan,
    build_plan_request,
    convert_body,
    parse_json,
    parse_payload,
)
from tests.unit.serve.control.stage import ALERT, Stage, alert, payload
from tests.waiting import until

HINT = AlertHint(
    fingerprint="1a30ba71cca2921f",
    starts_at="2026-08-17T07:52:26.739266876Z",
    firing=True,
    connect_cluster="lab",
    connector="orders",
)


def of_0_25() -> dict:
    return payload()


def of_0_34() -> dict:
    """With a reason and the labels of the route, and without what is empty."""
    body = payload(notification_reason="new_alerts", routeLabels={"team": "data"})
    del body["commonAnnotations"]
    return body


def known(connect_cluster: str, connector: str) -> bool:
    return (connect_cluster, connector) == ("lab", "orders")


@pytest.mark.parametrize("body", [of_0_25(), of_0_34()], ids=["0.25", "0.34"])
def test_an_alert_about_a_known_connector_is_a_hint(stage: Stage, body):
    answer = stage.hook(body)
    assert (answer.status_code, answer.json()) == (202, {"status": "taken"})
    assert stage.desk.hints == [HINT]


def test_the_place_that_an_alert_names_goes_with_it():
    alert_hints = parse_payload(payload(alert(labels={"topic": "orders", "partition": "3"})), known)
    assert (alert_hints.hints[0].topic, alert_hints.hints[0].partition) == ("orders", 3)


def test_an_alert_that_has_ended_says_so():
    alert_hints = parse_payload(payload(alert(status="resolved")), known)
    assert not alert_hints.hints[0].firing


def test_alerts_about_nothing_that_is_known_are_counted_and_passed_over():
    nameless = {**ALERT, "labels": {"alertname": "Watchdog"}}
    alert_hints = parse_payload(
        payload(nameless, alert(labels={"connector": "other"}), alert()), known
    )
    assert (alert_hints.hints, alert_hints.unknown) == ((HINT,), 2)
    assert parse_payload(payload(alerts=[]), known) == ((), 0)


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ("2026-08-17T07:52:26Z", "2026-08-17T07:52:26Z"),
        ("2026-08-17T09:52:26+02:00", "2026-08-17T07:52:26Z"),
        ("2026-08-16T23:52:26.500-08:00", "2026-08-17T07:52:26.5Z"),
        ("2026-08-17T07:52:26.000000001Z", "2026-08-17T07:52:26.000000001Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_a_moment_is_the_same_in_every_time_zone_and_to_the_nanosecond(answer, meant):
    (hint,) = parse_payload(payload(alert(startsAt=answer)), known).hints
    assert hint.starts_at == meant


def test_one_alert_reported_by_two_alertmanagers_is_one_hint(stage: Stage):
    moment = datetime(2026, 8, 17, 7, 52, 26, tzinfo=UTC)
    for zone in (UTC, timezone(timedelta(hours=2))):
        stage.hook(payload(alert(startsAt=moment.astimezone(zone).isoformat())))
    assert len(set(map(str, stage.desk.hints))) == 1


def test_an_alert_is_new_once_and_its_end_is_another(stage: Stage):
    for body in (
        payload(),
        payload(),
        payload(alert(), alert(status="resolved")),
        payload(alert(startsAt="2026-08-18T00:00:00Z")),
        payload(alert(fingerprint="0" * 16)),
        payload(alert(labels={"connector": "gone"}), alert(status="resolved")),
    ):
        assert stage.hook(body).status_code == 202
    until(lambda: stage.counted("new") == 3, "three are new")
    assert dict(stage.reported[-1].hooks) == {
        "new": 3,
        "duplicate": 3,
        "resolved": 1,
        "unknown_subject": 1,
    }


def test_a_refused_request_counts_once_and_under_its_reason(stage: Stage):
    stage.hook(b"{")
    stage.hook(b"x" * (2 * 1024 * 1024))
    stage.hook(role=None)
    stage.hook(role="operator")
    until(lambda: stage.counted("forbidden") == 1, "all are counted")
    assert dict(stage.reported[-1].hooks) == {"forbidden": 1, "malformed": 2, "unauthorised": 1}
    assert stage.desk.hints == []


def test_nothing_of_an_alert_is_logged(stage: Stage):
    with capture_logs() as events:
        stage.hook(payload(alert(labels={"connector": "s3cret-name"}, annotations={"x": "s3cret"})))
        stage.hook(payload(alert(labels={"topic": "s3cret-topic"})))
    assert "s3cret" not in str(events)


def test_five_hundred_alerts_are_taken(stage: Stage):
    alerts = [alert(fingerprint=f"{number:016x}") for number in range(500)]
    assert stage.hook(payload(*alerts)).status_code == 202
    assert len(stage.desk.hints) == 500


# --- strict json ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "x",
        7,
        -(2**63) + 1,
        2**63 - 1,
        1.5,
        None,
        True,
        {"a": [{"b": "}{]["}, '\\"', "\\"], "é": "\U0001f600"},
    ],
    ids=repr,
)
def test_what_is_plain_is_read(value):
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@pytest.mark.parametrize("kind", ["[{}]", '{{"a":{}}}'])
def test_nesting_is_bounded_and_brackets_in_text_do_not_count(kind):
    def nested(depth: int) -> bytes:
        text = '"' + "[{" * 1000 + '\\"' + "[" * 1000 + '"'
        for _ in range(depth):
            text = kind.format(text)
        return text.encode()

    parse_json(nested(DEPTH_MAX))
    with pytest.raises(MalformedRequest, match="nested deeper"):
        parse_json(nested(DEPTH_MAX + 1))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "not JSON"),
        ("{} {}", "not JSON"),
        ("{'a':1}", "not JSON"),
        ('{"a":1,}', "not JSON"),
        ('{"a":01}', "not JSON"),
        ('{"a":1 /* x */}', "not JSON"),
        ('"a\nb"', "not JSON"),
        ("[" * 20, "not JSON"),
        ("]" * 20, "not JSON"),
        ('{"a":1,"a":1}', "given twice"),
        ('{"a":1,"\\u0061":2}', "given twice"),
        ('[{"b":{"a":1,"a":2}}]', "given twice"),
        ("NaN", "not finite"),
        ('{"a":-Infinity}', "not finite"),
        ("1e400", "not finite"),
        (str(2**63), "64 bits"),
        ("[" + "1" * 5000 + "]", "64 bits"),
        ('"\\ud800"', "no Unicode"),
        ('["\\udc00"]', "no Unicode"),
        ('[["a",["\\udc00"]]]', "no Unicode"),
        ('{"a":[["\\udc00"]]}', "no Unicode"),
        ('{"\\ud800":1}', "no Unicode"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text, answer):
    with pytest.raises(MalformedRequest, match=answer):
        parse_json(text.encode())


@pytest.mark.parametrize(
    ("more", "pair"),
    [
        ({}, None),
        ({"partition": {"a": 1}}, PartitionOffset('{"a":1}', None)),
        ({"partition": {"a": 1}, "offset": {"b": 2}}, PartitionOffset('{"a":1}', '{"b":2}')),
    ],
    ids=["nothing", "partition", "offset"],
)
def test_a_skip_without_an_offset_is_of_the_next_record(more, pair):
    body = {"action": "skip_one", "connect_cluster": "lab", "connector": "c", "because": "x"}
    assert build_plan_request(convert_body(WantPlan, body | more), "key").pair == pair
