"""Tables of findings and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import add_config_option
from offsetwatch.judge.progress.verdict_rules import RULE_TEXTS
from offsetwatch.model.findings import FINDINGS_MAX, Evidence, Severity, format_item
from offsetwatch.serve.documents.findings import FindingRow, JudgementRow

_QUIET_SEVERITIES: Final = frozenset({Severity.INFO})


def is_loud(finding: FindingRow) -> bool:
    """Return whether the finding makes the exit code 1; an unknown severity does."""
    return finding.severity not in _QUIET_SEVERITIES


def print_findings(found: Sequence[FindingRow], by: str, left_out: int = 0) -> None:
    """Print the findings, the worst first, each with its evidence and the next command to run."""
    output.print_lines(f"Findings, by {by}" if found else f"Nothing is found wrong, by {by}", ())
    for finding in found:
        since = output.format_moment(finding.since)
        details = [f"{_format_subject(finding)}: {finding.name} since {since}"]
        if finding.next_command:
            details.append(f"next: {add_config_option(finding.next_command)}")
        if finding.evidence:
            details.append(format_evidence(finding.evidence))
        output.print_entry(str(finding.severity), finding.summary, details)
    if left_out:
        output.print_error(
            f"{left_out} more findings, none of them more severe, are not listed: a document lists "
            f"{FINDINGS_MAX} of them; offsetwatch_findings counts all"
        )


def format_evidence(shown: Evidence) -> str:
    """Return the evidence in one line."""
    return "; ".join(map(format_item, shown))


def print_verdicts(judgements: Sequence[JudgementRow], by: str) -> None:
    """Print the verdicts of one connector, with the rule and the evidence of each."""
    output.print_columns(
        f"Verdicts, by {by}",
        judgements,
        {
            "of": lambda judgement: judgement.subject or judgement.scope,
            "verdict": lambda judgement: judgement.verdict,
            "since": lambda judgement: output.format_moment(judgement.since),
            "rule#": lambda judgement: judgement.rule or None,
            "why": lambda judgement: judgement.reason,
            "evidence": lambda judgement: format_evidence(judgement.evidence),
        },
    )
    rules = sorted({judgement.rule for judgement in judgements if judgement.rule in RULE_TEXTS})
    output.print_table("Rules", ("",), ((RULE_TEXTS[number],) for number in rules))


def index_verdicts(judgements: tuple[JudgementRow, ...]) -> dict[tuple[str, str, str, str], str]:
    """Return the verdicts by (scope, Connect cluster, connector, subject), for a table's column."""
    return {
        (
            judgement.scope,
            judgement.connect_cluster,
            judgement.connector,
            judgement.subject,
        ): judgement.verdict
        for judgement in judgements
    }


def _format_subject(finding: FindingRow) -> str:
    name = finding.connect_cluster
    if finding.connector is not None:
        name = f"{name}/{finding.connector}"
    return f"{name} {finding.subject}".strip()
