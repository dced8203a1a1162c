"""The document of what is wrong, written and read back."""

from __future__ import annotations

import json

import pytest

from offsetwatch import documents
from offsetwatch.cli.inspect.status import print_findings
from offsetwatch.model.findings import (
    FINDINGS_MAX,
    EvidenceItem,
    Finding,
    FindingName,
    Judgement,
    Scope,
    Severity,
    Verdict,
)
from offsetwatch.serve.documents.findings import (
    FindingsDocument,
    build_finding_row,
    build_finding_rows,
    build_judgement_row,
    encode_findings,
)
from offsetwatch.serve.documents.overview import encode_overview
from offsetwatch.serve.metrics import catalog
from offsetwatch.serve.metrics.families import collect_families
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.serve.worlds import BUILD, RELOADED

FOUND = Finding(
    name=FindingName.MM2_SILENT_STALL,
    severity=Severity.CRITICAL,
    connect_cluster="lab",
    connector="mm2",
    subject="west->east",
    summary="MM2 copies nothing and admits nothing",
    since=1_763_712_000.5,
    evidence=(EvidenceItem("lag", 300, "records"), EvidenceItem("states", "connector running")),
)
TOPIC = replace(FOUND, name=FindingName.HANGING_TRANSACTION, connector=None, evidence=())
JUDGED = Judgement(
    scope=Scope.FLOW,
    connect_cluster="lab",
    connector="mm2",
    subject="west->east",
    verdict=Verdict.SILENT,
    rule=5,
    reason="work waits",
    since=1_763_711_000.0,
    evidence=(EvidenceItem("silent", 1, "partitions"),),
)
SNAPSHOT = replace(
    EMPTY_SNAPSHOT,
    at=1_763_712_006.5,
    ready=True,
    waiting_for=(),
    findings=(FOUND, TOPIC),
    judgements=(JUDGED,),
)


def test_the_document_says_everything_of_a_finding_and_of_a_judgement():
    assert json.loads(encode_findings(SNAPSHOT)) == {
        "at": "2025-11-21T08:00:06.500000Z",
        "ready": True,
        "waiting_for": [],
        "findings": [
            {
                "name": "mm2_silent_stall",
                "severity": "critical",
                "connect_cluster": "lab",
                "connector": "mm2",
                "subject": "west->east",
                "summary": "MM2 copies nothing and admits nothing",
                "since": "2025-11-21T08:00:00.500000Z",
                "evidence": [
                    {"name": "lag", "value": 300, "unit": "records"},
                    {"name": "states", "value": "connector running", "unit": None},
                ],
                "next": "",
                "runbook_url": None,
                "supersedes": [],
            },
            {
                "name": "hanging_transaction",
                "severity": "critical",
                "connect_cluster": "lab",
                "connector": None,
                "subject": "west->east",
                "summary": "MM2 copies nothing and admits nothing",
                "since": "2025-11-21T08:00:00.500000Z",
                "evidence": [],
                "next": "",
                "runbook_url": None,
                "supersedes": [],
            },
        ],
        "judgements": [
            {
                "scope": "flow",
                "connect_cluster": "lab",
                "connector": "mm2",
                "subject": "west->east",
                "verdict": "silent",
                "rule": 5,
                "reason": "work waits",
                "since": "2025-11-21T07:43:20Z",
                "evidence": [{"name": "silent", "value": 1, "unit": "partitions"}],
            }
        ],
        "findings_left_out": 0,
        "superseded": [],
    }


def test_of_too_many_every_place_lists_the_first_and_says_how_many_it_leaves_out():
    slight = replace(TOPIC, severity=Severity.INFO)
    many = [replace(slight, subject=str(number)) for number in range(FINDINGS_MAX + 6)]
    snapshot = replace(SNAPSHOT, findings=(FOUND, *many))
    for document in (encode_findings(snapshot), encode_overview(snapshot, version="1", alive=True)):
        output = json.loads(document)
        assert len(output["findings"]) == FINDINGS_MAX
        assert output["findings"][0]["severity"] == "critical"
        assert output["findings_left_out"] == 7
    families = collect_families(snapshot, BUILD, RELOADED)
    (counted,) = (family for family in families if family.spec is catalog.FINDINGS)
    assert sum(counted.numbers) == FINDINGS_MAX + 7


def test_a_command_says_how_many_findings_it_does_not_list(capsys: pytest.CaptureFixture[str]):
    print_findings((build_finding_row(FOUND),), "the daemon", left_out=7, complete=True)
    assert "7 more findings are not listed, none of them more severe" in capsys.readouterr().err


def test_what_a_daemon_answered_is_read_back_as_it_was():
    findings = documents.decode(encode_findings(SNAPSHOT), FindingsDocument)
    assert findings.findings == build_finding_rows(SNAPSHOT)
    assert findings.judgements == tuple(
        build_judgement_row(judgement) for judgement in SNAPSHOT.judgements
    )


@pytest.mark.parametrize("known", ["mm2_silent_stall", "critical", "silent", "flow"])
def test_a_name_that_only_a_newer_daemon_knows_is_read_as_it_is(known: str):
    body = encode_findings(SNAPSHOT).replace(f'"{known}"'.encode(), b'"unheard_of"')
    findings = documents.decode(body, FindingsDocument)
    assert len(findings.findings) == len(SNAPSHOT.findings)
    assert b"unheard_of" in documents.encode(findings)


def test_a_finding_names_those_that_it_takes_over_from_and_is_read_back_with_them():
    cause = replace(FOUND, explains=(FindingName.TASK_FAILED,))
    body = encode_findings(replace(SNAPSHOT, findings=(cause,)))
    assert json.loads(body)["findings"][0]["supersedes"] == ["task_failed"]
    assert json.loads(body)["superseded"] == [
        {
            "name": "task_failed",
            "connect_cluster": "lab",
            "connector": "mm2",
            "superseded_by": {
                "name": "mm2_silent_stall",
                "connect_cluster": "lab",
                "connector": "mm2",
                "subject": "west->east",
            },
        }
    ]
    findings = documents.decode(body, FindingsDocument)
    assert findings.findings[0] == build_finding_row(cause)
