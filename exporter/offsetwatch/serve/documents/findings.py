"""The document /api/v1/findings: findings, and verdicts on connectors, flows and partitions.

    at                 when the snapshot was made
    ready, waiting_for whether all inputs are caught up, and in words which are not
    findings           the worst first: [{name, severity: "critical" | "warning" | "info",
                         connect_cluster, connector: ... | null, subject, summary, since,
                         evidence: [{name, value, unit}], next, runbook_url: ... | null,
                         supersedes: [name]}], 500 at most
    superseded         findings that still hold and are not listed, because another one reports it:
                         [{name, connect_cluster, connector,
                           superseded_by: {name, connect_cluster, connector, subject}}]
    findings_left_out  how many more there are, none of them more severe than those that are listed;
                         /metrics counts them, and receivers are notified of them all the same
    judgements         of connectors and flows, then of source partitions:
                         [{scope: "connector" | "flow" | "partition", connect_cluster, connector,
                           subject, verdict, rule, reason, since, evidence: [{name, value, unit}]}]

`summary` begins with the connector, flow, topic or cluster. `next` is the command to run next, and
`runbook_url` absolute, or null without notify.runbooks_url. `supersedes` names findings of the same
connector that hold as well, are not listed beside this one and have not ended. `name`, `severity`
and `verdict` are public names, explained in model/findings.py. `rule` is the number of the rule
that decided (judge/progress/verdict_rules.py). `subject` is the source partition's label,
`source->target` of a flow and "" of a connector. `since` is when it was first so without a break,
across restarts of the daemon. Evidence is in order of weight: `value` is a number with its `unit`
(records, offset, partitions, times, ...), a time in RFC 3339 (unit `time`), words (unit null), or
null. If an input is unavailable, the verdict is "unknown" by rule 1, with the reason. Afterwards it
continues as if the input had been available.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from offsetwatch import documents
from offsetwatch.model.findings import (
    FINDINGS_MAX,
    Evidence,
    Finding,
    FindingName,
    Judgement,
    Scope,
    Severity,
    Verdict,
)
from offsetwatch.model.moments import Moment

if TYPE_CHECKING:
    from offsetwatch.state.snapshot import Snapshot

# What says that a connector or a task has failed, and that a position is past the end of its log.
FAILURE_FINDINGS: Final = frozenset(
    {
        FindingName.CONNECTOR_FAILED,
        FindingName.TASK_FAILED,
        FindingName.POISON_SUSPECTED,
        FindingName.RESTART_LOOP,
    }
)
AHEAD_FINDINGS: Final = frozenset({FindingName.MM2_POSITION_AHEAD, FindingName.MM2_TOPIC_RECREATED})


def _build_examples(names: type[StrEnum]) -> msgspec.Meta:
    return msgspec.Meta(examples=[name.value for name in names])


class FindingRow(msgspec.Struct, frozen=True):
    """A finding in a document. Names that a newer daemon adds are read as texts."""

    name: Annotated[str, _build_examples(FindingName)]
    severity: Annotated[str, _build_examples(Severity)]
    connect_cluster: str
    connector: str | None
    subject: str
    summary: str
    since: Moment
    evidence: Evidence = ()
    next_command: str = msgspec.field(name="next", default="")
    runbook_url: str | None = None
    supersedes: tuple[str, ...] = ()


class JudgementRow(msgspec.Struct, frozen=True):
    """A judgement in a document, with names as in FindingRow."""

    scope: Annotated[str, _build_examples(Scope)]
    connect_cluster: str
    connector: str
    subject: str
    verdict: Annotated[str, _build_examples(Verdict)]
    rule: int
    reason: str
    since: Moment
    evidence: Evidence = ()


class FindingReference(msgspec.Struct, frozen=True):
    """Identity of a finding."""

    name: str
    connect_cluster: str
    connector: str | None
    subject: str


class SupersededRow(msgspec.Struct, frozen=True):
    """A finding that is still true but not listed, and the finding listed in its place."""

    name: str
    connect_cluster: str
    connector: str | None
    superseded_by: FindingReference


class FindingsDocument(msgspec.Struct, frozen=True):
    """Findings and verdicts of one snapshot, the worst first."""

    at: Moment
    ready: bool
    waiting_for: tuple[str, ...]
    findings: tuple[FindingRow, ...]
    judgements: tuple[JudgementRow, ...]
    findings_left_out: int = 0
    superseded: tuple[SupersededRow, ...] = ()


def encode_findings(snapshot: Snapshot) -> bytes:
    """Return the body of /api/v1/findings."""
    return documents.encode(build_findings_document(snapshot))


def build_findings_document(snapshot: Snapshot) -> FindingsDocument:
    """Build the document of a snapshot."""
    return FindingsDocument(
        at=Moment(snapshot.at),
        ready=snapshot.ready,
        waiting_for=snapshot.waiting_for,
        findings=build_finding_rows(snapshot),
        findings_left_out=count_findings_left_out(snapshot),
        superseded=build_superseded_rows(snapshot),
        judgements=tuple(build_judgement_row(judgement) for judgement in snapshot.judgements),
    )


def build_finding_rows(snapshot: Snapshot) -> tuple[FindingRow, ...]:
    """Return the findings that a document lists."""
    return tuple(build_finding_row(finding) for finding in snapshot.findings[:FINDINGS_MAX])


def build_superseded_rows(snapshot: Snapshot) -> tuple[SupersededRow, ...]:
    """Return the findings that the listed ones supersede."""
    return tuple(
        SupersededRow(
            name=name,
            connect_cluster=finding.connect_cluster,
            connector=finding.connector,
            superseded_by=FindingReference(
                finding.name, finding.connect_cluster, finding.connector, finding.subject
            ),
        )
        for finding in snapshot.findings[:FINDINGS_MAX]
        for name in finding.explains
    )


def count_findings_left_out(snapshot: Snapshot) -> int:
    """Return the number of findings that a document does not list."""
    return max(0, len(snapshot.findings) - FINDINGS_MAX)


def build_finding_row(finding: Finding) -> FindingRow:
    """Build the row of a finding."""
    return FindingRow(
        name=finding.name,
        severity=finding.severity,
        connect_cluster=finding.connect_cluster,
        connector=finding.connector,
        subject=finding.subject,
        summary=finding.summary,
        since=Moment(finding.since),
        evidence=finding.evidence,
        next_command=finding.next_command,
        runbook_url=finding.runbook_url,
        supersedes=finding.explains,
    )


def build_judgement_row(judgement: Judgement) -> JudgementRow:
    """Build the row of a judgement."""
    return JudgementRow(
        scope=judgement.scope,
        connect_cluster=judgement.connect_cluster,
        connector=judgement.connector,
        subject=judgement.subject,
        verdict=judgement.verdict,
        rule=judgement.rule,
        reason=judgement.reason,
        since=Moment(judgement.since),
        evidence=judgement.evidence,
    )
