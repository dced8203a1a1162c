"""What a rule is given, and what it says."""

from __future__ import annotations

from offsetwatch.judge.findings.rule_context import RuleContext, RuleMemory
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.findings import EvidenceItem, Finding, FindingName, Severity
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.judge.observed_rewinds import BEGAN, MM2


def build_context(now: float, memory: RuleMemory) -> RuleContext:
    return RuleContext(
        InputVisibility(replace(EMPTY_SNAPSHOT, at=now)), JudgeSettings(interval_s=60.0), memory
    )


def test_a_duration_is_timed_by_condition_connector_and_subject():
    memory = RuleMemory()
    assert build_context(BEGAN, memory).lasts("lag", MM2) == 0.0
    later = build_context(BEGAN + 90, memory)
    assert later.lasts("lag", MM2, "orders-0") == 0.0
    assert later.lasts("ahead", MM2) == 0.0
    assert later.lasts("lag", ("lab", "other")) == 0.0
    assert later.lasts("lag", MM2) == 90.0


def test_what_happened_is_reported_for_three_intervals():
    assert build_context(BEGAN, RuleMemory()).reported_s == 180.0


def test_a_finding_is_of_now():
    context = build_context(BEGAN, RuleMemory())
    assert context.found(FindingName.RECOPY, Severity.CRITICAL, MM2, "is so.") == Finding(
        name=FindingName.RECOPY,
        severity=Severity.CRITICAL,
        connect_cluster="lab",
        connector="mm2",
        subject="",
        summary="mm2 is so.",
        since=BEGAN,
        evidence=(),
    )
    cluster = context.found(
        FindingName.REWINDS_AT_ONCE,
        Severity.WARNING,
        ("lab", None),
        "So it is.",
        subject="orders",
        evidence=(EvidenceItem("connectors", "a"),),
    )
    assert cluster.summary == "So it is."
    assert (cluster.connector, cluster.subject) == (None, "orders")
    assert cluster.evidence == (EvidenceItem("connectors", "a"),)
