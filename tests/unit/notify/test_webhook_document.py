"""The format of our own, word by word: people route by it. Alertmanager's: test_alertmanager.py."""

from __future__ import annotations

import json

from offsetwatch.model.findings import EvidenceItem, FindingName, ProposedPlan
from offsetwatch.model.moments import Moment
from offsetwatch.model.remediation import OpenPlan, RemediationReported
from offsetwatch.notify import message_bodies
from offsetwatch.notify.delivery_state import Message, NotificationStatus
from offsetwatch.notify.message_bodies import annotations_of
from offsetwatch.notify.notifier import attach_plans
from tests.changed import replace
from tests.unit.notify.findings import LOST, NOW, STUCK, snapshot


def message(finding=LOST, status=NotificationStatus.NEW, resolved_at=None) -> Message:
    return Message(finding.key, status, finding, resolved_at)


def test_a_webhook_is_told_what_is_new_and_what_is_over():
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


def test_a_webhook_is_told_which_findings_this_one_takes_over_from():
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


def test_a_webhook_is_told_what_to_do():
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


def test_a_body_is_bounded_however_much_there_is_to_say():
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
        plan_seen("3", "approved", "files"),
        plan_seen("2", "proposed", "files"),
        plan_seen("1", "proposed", "files"),
    )
    remedies = RemediationReported(at=NOW, mode="propose", open_plans=plans)
    cluster = replace(LOST, connector=None)
    observed = replace(snapshot(LOST, STUCK, cluster), remedies=remedies)
    assert [plan.plan for plan in attach_plans(observed)] == [None, ProposedPlan("2", "skip"), None]
    assert attach_plans(snapshot(LOST)) == (LOST,)


def plan_seen(plan_id: str, state: str, connector: str) -> OpenPlan:
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
