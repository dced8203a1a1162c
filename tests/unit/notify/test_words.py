"""The format of our own, word by word: people route by it. Alertmanager's: test_alertmanager.py."""

from __future__ import annotations

import json

from exporter.model.evidence import EvidenceItem
from exporter.model.findings import FindingName
from exporter.notify import words
from exporter.notify.ledger import Message, Status
from tests.changed import replace
from tests.unit.notify.findings import LOST, NOW, STUCK


def message(finding=LOST, status=Status.NEW, resolved_at=None) -> Message:
    return Message(finding.key, status, finding, resolved_at)


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
                    {"name": "lost offsets", "value": "100 to 150", "unit": None},
                    {"name": "log start", "value": 151, "unit": "offset"},
                ],
                "next": "",
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
                "since": "2026-09-21T14:13:14.750Z",
                "resolved_at": "2026-09-21T14:13:20.000Z",
                "evidence": [
                    {"name": "lost offsets", "value": "100 to 150", "unit": None},
                    {"name": "log start", "value": 151, "unit": "offset"},
                ],
                "next": "",
                "runbook_url": None,
                "supersedes": [],
                "superseded_by": None,
            },
        ],
    }


def test_a_webhook_is_told_which_findings_this_one_takes_over_from():
    cause = replace(LOST, explains=(FindingName.TASK_FAILED, FindingName.RESTART_LOOP))
    (told,) = json.loads(words.plain([message(cause)], NOW))["findings"]
    assert told["supersedes"] == ["task_failed", "restart_loop"]


def test_an_end_by_another_finding_is_no_resolution_and_names_that_one():
    ended = replace(message(STUCK, Status.SUPERSEDED, NOW), superseded_by=LOST)
    (told,) = json.loads(words.plain([ended], NOW))["findings"]
    assert told["status"] == "superseded"
    assert told["superseded_by"] == {
        "name": "mm2_records_lost",
        "severity": "critical",
        "connect_cluster": "lab",
        "connector": "west->east",
        "subject": "orders-3",
    }


def test_a_webhook_is_told_what_to_do():
    url = "https://runbooks.example/MirrorMaker2RecordsLost.md"
    advised = replace(LOST, next_command="offsetwatch explain x", runbook_url=url)
    (told,) = json.loads(words.plain([message(advised)], NOW))["findings"]
    assert (told["next"], told["runbook_url"]) == ("offsetwatch explain x", url)


def test_an_end_by_deletion_says_so():
    ended = message(STUCK, Status.DELETED, NOW)
    (told,) = json.loads(words.plain([ended], NOW))["findings"]
    assert (told["status"], told["resolved_at"]) == (
        "connector_deleted",
        "2026-09-21T14:13:20.000Z",
    )
    assert told["evidence"][0] == {
        "name": "ended",
        "value": "the connector was deleted",
        "unit": None,
    }


def test_a_body_is_bounded_however_much_there_is_to_say():
    endless = replace(
        LOST, summary="x" * 10**6, evidence=(EvidenceItem("y" * 10**4, "z" * 10**4),) * 1000
    )
    body = words.plain([message(endless)], NOW)
    assert len(body) < 20_000
    assert "x…" in body.decode()
