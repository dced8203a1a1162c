"""Alertmanager's formats, word by word: people route by them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import yaml

from offsetwatch.model.findings import EvidenceItem, FindingName, ProposedPlan
from offsetwatch.model.moments import Moment
from offsetwatch.model.remediation import OpenPlan, RemediationReported
from offsetwatch.notify import message_bodies
from offsetwatch.notify.delivery_state import Message, NotificationStatus
from offsetwatch.notify.message_bodies import annotations_of
from offsetwatch.notify.notifier import attach_plans
from offsetwatch.serve.control.request_bodies import parse_payload
from tests.changed import replace
from tests.fakes.alertmanager_receiver import take
from tests.unit.notify.findings import ADVISED, LOST, NOW, STUCK, snapshot

ALERTS = Path(__file__).parents[3] / "alerts"
RULES = {
    rule["alert"]
    for path in ALERTS.glob("*.rules.yaml")
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
LASTS_S = 3600.0
PAGE = "https://offsetwatch.example.com"
LABELS = {
    "alertname": "MirrorMaker2RecordsLost",
    "connect_cluster": "lab",
    "connector": "west->east",
    "finding": "mm2_records_lost",
    "severity": "critical",
    "subject": "orders-3",
}
ANNOTATIONS = {"summary": LOST.summary, "description": "lost offsets: 100 to 150\nlog start: 151"}


def message(finding=LOST, status=NotificationStatus.NEW, resolved_at=None) -> Message:
    return Message(finding.key, status, finding, resolved_at)


def sent(*args, external_url=None, **kwargs) -> dict:
    """An alert as an Alertmanager is sent it."""
    body = message_bodies.encode_alerts_body(
        [message(*args, **kwargs)], NOW, lasts_s=LASTS_S, external_url=external_url
    )
    (load,) = json.loads(body)
    return load


def posted(*args, external_url=None, **kwargs) -> bytes:
    """An alert as a webhook is posted it."""
    return message_bodies.encode_webhook_body(
        message(*args, **kwargs), receiver="on-call", external_url=external_url
    )


# --- its API -------------------------------------------------------------------------------------


def test_an_alert_that_stands_ends_by_itself_when_we_are_not_heard_of_for_long():
    assert sent() == {
        "labels": LABELS,
        "annotations": ANNOTATIONS,
        "startsAt": "2026-09-21T14:13:14.750000Z",
        "endsAt": "2026-09-21T15:13:20Z",
    }


def test_an_alert_that_is_over_ends_when_it_was():
    assert sent(resolved_at=NOW + 60)["endsAt"] == "2026-09-21T14:14:20Z"


def test_an_alert_that_another_finding_takes_over_from_is_linked_to_that_ones_alert():
    linked = replace(message(STUCK), superseded_by=LOST)
    body = message_bodies.encode_alerts_body([linked], NOW, lasts_s=LASTS_S, external_url=None)
    (load,) = json.loads(body)
    assert load["annotations"]["superseded_by"] == "mm2_records_lost/critical orders-3"


def test_no_alert_ends_before_it_starts_or_alertmanager_refuses_them_all():
    result = sent(resolved_at=LOST.since - 100)
    assert result["startsAt"] == result["endsAt"]


def test_an_alert_leads_to_the_status_page_where_it_is_known():
    assert sent(external_url=PAGE)["generatorURL"] == PAGE


# --- its webhook ---------------------------------------------------------------------------------


def test_a_firing_alert_is_posted_as_alertmanager_posts_it():
    assert json.loads(posted(external_url=PAGE)) == {
        "receiver": "on-call",
        "status": "firing",
        "alerts": [
            {
                "status": "firing",
                "labels": LABELS,
                "annotations": ANNOTATIONS,
                "startsAt": "2026-09-21T14:13:14.750000Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": PAGE,
                "fingerprint": message_bodies.compute_fingerprint(LABELS),
            }
        ],
        "groupLabels": LABELS,
        "commonLabels": LABELS,
        "commonAnnotations": ANNOTATIONS,
        "externalURL": PAGE,
        "version": "4",
        "groupKey": '{}:{alertname="MirrorMaker2RecordsLost", connect_cluster="lab", '
        'connector="west->east", finding="mm2_records_lost", severity="critical", '
        'subject="orders-3"}',
        "truncatedAlerts": 0,
    }


@pytest.mark.parametrize("status", NotificationStatus)
@pytest.mark.parametrize("finding", [LOST, STUCK, ADVISED], ids=["lost", "stuck", "advised"])
def test_a_receiver_of_alertmanagers_webhooks_takes_every_message(finding, status):
    over = NOW if status in {NotificationStatus.RESOLVED, NotificationStatus.DELETED} else None
    taken = take(posted(finding, status, over))
    (alert,) = taken.alerts
    assert taken.status == alert.status == ("firing" if over is None else "resolved")
    assert alert.starts_at.timestamp() == finding.since
    if over is not None:
        assert alert.ends_at.timestamp() == over


def test_a_receiver_of_alertmanagers_webhooks_does_not_take_just_anything():
    for wrong in (
        {"version": 4},
        {"status": "resolved"},
        {"groupLabels": {"connector": "another"}},
        {"commonLabels": {}},
        {"commonAnnotations": {}},
        {"findings": []},
        {"truncatedAlerts": None},
    ):
        with pytest.raises(msgspec.ValidationError):
            take(json.dumps(json.loads(posted()) | wrong).encode())


def test_our_own_control_listener_takes_it_as_a_hint():
    (hint,) = parse_payload(json.loads(posted()), lambda *_: True).hints
    assert (hint.connect_cluster, hint.connector, hint.firing) == ("lab", "west->east", True)
    (over,) = parse_payload(json.loads(posted(resolved_at=NOW)), lambda *_: True).hints
    assert not over.firing
    assert (over.fingerprint, over.starts_at) == (hint.fingerprint, hint.starts_at)


def test_an_end_is_posted_under_the_group_and_fingerprint_of_its_beginning():
    began, ended = take(posted()), take(posted(status=NotificationStatus.RESOLVED, resolved_at=NOW))
    assert began.group_key == ended.group_key
    assert began.alerts[0].fingerprint == ended.alerts[0].fingerprint


def test_another_severity_is_another_alert_as_its_labels_are_others():
    worse = take(posted(replace(STUCK, severity=LOST.severity)))
    assert worse.group_key != take(posted(STUCK)).group_key
    assert worse.alerts[0].fingerprint != take(posted(STUCK)).alerts[0].fingerprint


@pytest.mark.parametrize(
    ("labels", "number"),
    [
        ({}, 14695981039346656037),
        ({"name": "garland, briggs", "fear": "love is not enough"}, 5799056148416392346),
    ],
    ids=["no labels", "two labels"],
)
def test_a_fingerprint_is_the_one_that_prometheus_computes(labels, number):
    """The cases of prometheus/common, model/signature_test.go."""
    assert message_bodies.compute_fingerprint(labels) == f"{number:016x}"


# --- both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FindingName)
def test_an_alert_is_called_like_the_rule_that_fires_with_it(name):
    labels = message_bodies.labels_of(replace(LOST, name=name))
    assert labels["alertname"] in RULES
    assert labels["finding"] == name.value


def test_a_label_that_would_be_empty_is_left_out():
    assert set(message_bodies.labels_of(replace(STUCK, connector=None))) == {
        "alertname",
        "connect_cluster",
        "finding",
        "severity",
    }


@pytest.mark.parametrize(
    ("name", "subject", "labels"),
    [
        ("internal_topic_problem", "east/connect-offsets", ("east", "connect-offsets")),
        ("hanging_transaction", "east/connect-offsets", ("east", "connect-offsets")),
        ("input_down", "tail east/connect-offsets", ("east", "connect-offsets")),
        ("input_down", "log_ends east", ("east", None)),
        ("input_down", "tail lab", (None, None)),
        ("input_down", "connect_rest lab", (None, None)),
        ("mm2_topic_recreated", "orders", (None, "orders")),
        ("task_failed", "", (None, None)),
    ],
)
def test_a_subject_that_is_a_topic_or_a_kafka_cluster_has_the_labels_of_the_metrics(
    name, subject, labels
):
    result = message_bodies.labels_of(replace(LOST, name=FindingName(name), subject=subject))
    assert (result.get("kafka"), result.get("topic")) == labels


def test_a_flow_has_the_labels_of_the_metrics():
    result = message_bodies.labels_of(
        replace(LOST, name=FindingName.CHECKPOINTS_STALE, connector=None, subject="west->east")
    )
    assert (result["source"], result["target"]) == ("west", "east")


def test_what_to_do_goes_to_both():
    expected = {
        **ANNOTATIONS,
        "next": ADVISED.next_command,
        "runbook_url": ADVISED.runbook_url,
    }
    assert sent(ADVISED)["annotations"] == expected
    assert take(posted(ADVISED)).alerts[0].annotations == expected


def test_the_alert_that_takes_over_names_those_that_it_takes_over_from():
    cause = replace(LOST, explains=(FindingName.TASK_FAILED, FindingName.RESTART_LOOP))
    assert sent(cause)["annotations"]["supersedes"] == "task_failed, restart_loop"
    assert take(posted(cause)).common_annotations["supersedes"] == "task_failed, restart_loop"


def test_an_end_by_deletion_says_so_to_both():
    ended = (STUCK, NotificationStatus.DELETED, NOW)
    for result in (sent(*ended), json.loads(posted(*ended))["alerts"][0]):
        assert result["annotations"]["description"].startswith("ended: the connector was deleted\n")
        assert result["endsAt"] == "2026-09-21T14:13:20Z"


def test_a_body_is_bounded_however_much_there_is_to_say():
    endless = replace(
        LOST, summary="x" * 10**6, evidence=(EvidenceItem("y" * 10**4, "z" * 10**4),) * 1000
    )
    body = message_bodies.encode_alerts_body(
        [message(endless)], NOW, lasts_s=LASTS_S, external_url=None
    )
    assert len(body) < 20_000
    assert "x…" in body.decode()
    assert len(posted(endless)) < 40_000  # annotations twice


# --- webhook document ----------------------------------------------------------------------------


def test_a_webhook_is_notified_what_is_new_and_what_is_over():
    body = [message(), message(STUCK, NotificationStatus.RESOLVED, NOW)]
    assert json.loads(message_bodies.encode_findings_body(body, NOW)) == {
        "version": "1",
        "at": "2026-09-21T14:13:20Z",
        "external_url": None,
        "findings": [
            {
                "status": "new",
                "name": "mm2_records_lost",
                "severity": "critical",
                "connect_cluster": "lab",
                "connector": "west->east",
                "subject": "orders-3",
                "summary": LOST.summary,
                "since": "2026-09-21T14:13:14.750000Z",
                "resolved_at": None,
                "evidence": [
                    {"name": "lost offsets", "value": "100 to 150", "unit": None},
                    {"name": "log start", "value": 151, "unit": "offset"},
                ],
                "next": "",
                "plan": None,
                "runbook_url": None,
                "supersedes": [],
                "superseded_by": None,
            },
            {
                "status": "resolved",
                "name": "sink_stuck",
                "severity": "warning",
                "connect_cluster": "lab",
                "connector": "files",
                "subject": "",
                "summary": LOST.summary,
                "since": "2026-09-21T14:13:14.750000Z",
                "resolved_at": "2026-09-21T14:13:20Z",
                "evidence": [
                    {"name": "lost offsets", "value": "100 to 150", "unit": None},
                    {"name": "log start", "value": 151, "unit": "offset"},
                ],
                "next": "",
                "plan": None,
                "runbook_url": None,
                "supersedes": [],
                "superseded_by": None,
            },
        ],
    }


def test_a_webhook_is_notified_which_findings_this_one_takes_over_from():
    cause = replace(LOST, explains=(FindingName.TASK_FAILED, FindingName.RESTART_LOOP))
    (finding,) = json.loads(message_bodies.encode_findings_body([message(cause)], NOW))["findings"]
    assert finding["supersedes"] == ["task_failed", "restart_loop"]


def test_an_end_by_another_finding_is_no_resolution_and_names_that_one():
    ended = replace(message(STUCK, NotificationStatus.SUPERSEDED, NOW), superseded_by=LOST)
    (finding,) = json.loads(message_bodies.encode_findings_body([ended], NOW))["findings"]
    assert finding["status"] == "superseded"
    assert finding["superseded_by"] == {
        "name": "mm2_records_lost",
        "severity": "critical",
        "connect_cluster": "lab",
        "connector": "west->east",
        "subject": "orders-3",
    }


def test_a_webhook_is_advised_what_to_do():
    url = "https://runbooks.example/MirrorMaker2RecordsLost.md"
    advised = replace(LOST, next_command="offsetwatch explain x", runbook_url=url)
    (finding,) = json.loads(message_bodies.encode_findings_body([message(advised)], NOW))[
        "findings"
    ]
    assert (finding["next"], finding["runbook_url"]) == ("offsetwatch explain x", url)


def test_an_end_by_deletion_says_so():
    ended = message(STUCK, NotificationStatus.DELETED, NOW)
    (finding,) = json.loads(message_bodies.encode_findings_body([ended], NOW))["findings"]
    assert (finding["status"], finding["resolved_at"]) == (
        "connector_deleted",
        "2026-09-21T14:13:20Z",
    )
    assert finding["evidence"][0] == {
        "name": "ended",
        "value": "the connector was deleted",
        "unit": None,
    }


def test_a_webhook_body_is_bounded_however_much_there_is_to_say():
    endless = replace(
        LOST, summary="x" * 10**6, evidence=(EvidenceItem("y" * 10**4, "z" * 10**4),) * 1000
    )
    body = message_bodies.encode_findings_body([message(endless)], NOW)
    assert len(body) < 20_000
    assert "x…" in body.decode()


def test_a_message_links_the_status_page_and_names_the_plan_and_the_command_that_approves_it():
    plan = ProposedPlan("20261128-214752-6aed5f", "skip the record at offset 20")
    planned = replace(LOST, plan=plan)
    body = json.loads(
        message_bodies.encode_findings_body(
            [message(planned)], NOW, external_url="https://o.example/"
        )
    )
    assert body["external_url"] == "https://o.example/"
    (finding,) = body["findings"]
    assert finding["plan"] == {
        "plan_id": plan.plan_id,
        "what": plan.what,
        "approve": f"offsetwatch plan approve {plan.plan_id}",
    }
    annotations = annotations_of(message(planned))
    assert annotations["plan"] == f"{plan.plan_id}: {plan.what}"
    assert annotations["approve"] == finding["plan"]["approve"]
    ended = message(planned, NotificationStatus.RESOLVED, NOW)
    (finding,) = json.loads(message_bodies.encode_findings_body([ended], NOW))["findings"]
    assert finding["plan"] is None
    assert "approve" not in annotations_of(ended)


def test_a_finding_has_the_newest_plan_that_is_proposed_for_its_connector():
    plans = (
        build_open_plan("3", "approved", "files"),
        build_open_plan("2", "proposed", "files"),
        build_open_plan("1", "proposed", "files"),
    )
    remedies = RemediationReported(at=NOW, mode="propose", open_plans=plans)
    cluster = replace(LOST, connector=None)
    observed = replace(snapshot(LOST, STUCK, cluster), remedies=remedies)
    assert [plan.plan for plan in attach_plans(observed)] == [None, ProposedPlan("2", "skip"), None]
    assert attach_plans(snapshot(LOST)) == (LOST,)


def build_open_plan(plan_id: str, state: str, connector: str) -> OpenPlan:
    return OpenPlan(
        plan_id=plan_id,
        sha256="",
        state=state,
        connect_cluster="lab",
        connector=connector,
        verb="skip",
        said="",
        created_at=Moment(NOW),
        created_by="detector",
        expires_at=None,
        steps=(),
        guards=(),
    )
