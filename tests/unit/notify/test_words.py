"""The two wire formats, word by word: people route by them."""

from __future__ import annotations

import json

from exporter.model.findings import FindingName
from exporter.notify import words
from exporter.notify.ledger import Message, Status
from tests.changed import replace
from tests.unit.notify.findings import LOST, NOW, STUCK

LASTS_S = 3600.0


def message(finding=LOST, status=Status.NEW, resolved_at=None) -> Message:
    return Message(finding.key, status, finding, resolved_at)


def alert(*args, **kwargs) -> dict:
    (found,) = json.loads(words.alertmanager([message(*args, **kwargs)], NOW, LASTS_S))
    return found


def test_an_alert_that_stands_ends_by_itself_when_we_are_not_heard_of_for_long():
    assert alert() == {
        "labels": {
            "alertname": "MM2RecordsLost",
            "severity": "critical",
            "connect_cluster": "lab",
            "connector": "west->east",
            "subject": "orders-3",
        },
        "annotations": {
            "summary": "51 records of orders-3 were deleted upstream before they were replicated.",
            "evidence": "lost offsets: 100 to 150\nlog start: 151",
        },
        "startsAt": "2026-09-21T14:13:14.750Z",
        "endsAt": "2026-09-21T15:13:20.000Z",
    }


def test_an_alert_that_is_over_ends_when_it_was():
    assert alert(resolved_at=NOW + 60)["endsAt"] == "2026-09-21T14:14:20.000Z"


def test_no_alert_ends_before_it_starts_or_alertmanager_refuses_them_all():
    found = alert(resolved_at=LOST.since - 100)
    assert found["startsAt"] == found["endsAt"]


def test_a_label_that_would_be_empty_is_left_out():
    assert set(alert(replace(STUCK, connector=None))["labels"]) == {
        "alertname",
        "severity",
        "connect_cluster",
    }


def test_an_alerts_name_is_the_findings_in_camel_case():
    names = {words.alert_name(replace(LOST, name=name)) for name in FindingName}
    assert len(names) == len(FindingName)
    assert {"ConnectorSilent", "MM2SilentStall", "HalfReset", "InputDown"} <= names


def test_a_webhook_is_told_what_is_new_and_what_is_over():
    body = [message(), message(STUCK, Status.RESOLVED, NOW)]
    assert json.loads(words.plain(body, NOW)) == {
        "version": "1",
        "at": "2026-09-21T14:13:20.000Z",
        "findings": [
            {
                "status": "new",
                "name": "mm2_records_lost",
                "severity": "critical",
                "connect_cluster": "lab",
                "connector": "west->east",
                "subject": "orders-3",
                "summary": LOST.summary,
                "since": "2026-09-21T14:13:14.750Z",
                "resolved_at": None,
                "evidence": [
                    {"what": "lost offsets", "how_much": "100 to 150"},
                    {"what": "log start", "how_much": "151"},
                ],
                "next": "",
                "runbook_url": None,
                "supersedes": [],
            },
            {
                "status": "resolved",
                "name": "sink_stuck",
                "severity": "warning",
                "connect_cluster": "lab",
                "connector": "files",
                "subject": "",
                "summary": LOST.summary,
                "since": "2026-09-21T14:13:14.750Z",
                "resolved_at": "2026-09-21T14:13:20.000Z",
                "evidence": [
                    {"what": "lost offsets", "how_much": "100 to 150"},
                    {"what": "log start", "how_much": "151"},
                ],
                "next": "",
                "runbook_url": None,
                "supersedes": [],
            },
        ],
    }


def test_a_webhook_is_told_which_findings_this_one_takes_over_from():
    cause = replace(LOST, explains=(FindingName.TASK_FAILED, FindingName.RESTART_LOOP))
    (told,) = json.loads(words.plain([message(cause)], NOW))["findings"]
    assert told["supersedes"] == ["task_failed", "restart_loop"]


def test_what_to_do_goes_to_both():
    url = "https://runbooks.example/MirrorMaker2RecordsLost.md"
    advised = replace(LOST, next_command="offsetwatch explain x", runbook_url=url)
    (told,) = json.loads(words.plain([message(advised)], NOW))["findings"]
    assert (told["next"], told["runbook_url"]) == ("offsetwatch explain x", url)
    annotations = alert(advised)["annotations"]
    assert (annotations["next"], annotations["runbook_url"]) == ("offsetwatch explain x", url)


def test_an_end_by_deletion_says_so_to_both():
    ended = message(STUCK, Status.DELETED, NOW)
    (told,) = json.loads(words.plain([ended], NOW))["findings"]
    assert (told["status"], told["resolved_at"]) == (
        "connector_deleted",
        "2026-09-21T14:13:20.000Z",
    )
    assert told["evidence"][0] == {"what": "ended", "how_much": "the connector was deleted"}
    (alert_of,) = json.loads(words.alertmanager([ended], NOW, LASTS_S))
    assert alert_of["annotations"]["evidence"].startswith("ended: the connector was deleted\n")
    assert alert_of["endsAt"] == "2026-09-21T14:13:20.000Z"


def test_a_body_is_bounded_however_much_there_is_to_say():
    endless = replace(LOST, summary="x" * 10**6, evidence=(("y" * 10**4, "z" * 10**4),) * 1000)
    for body in (
        words.plain([message(endless)], NOW),
        words.alertmanager([message(endless)], NOW, LASTS_S),
    ):
        assert len(body) < 20_000
        assert "x…" in body.decode()
