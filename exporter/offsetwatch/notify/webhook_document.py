"""Findings as offsetwatch's own JSON format for webhooks. Pure.

Names are public contracts: users route by them. alertmanager.py has Alertmanager's formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from offsetwatch import documents
from offsetwatch.model.findings import Evidence, EvidenceItem, Finding
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.notify.delivery_state import Message, NotificationStatus

VERSION: Final = "1"
TEXT_CHARS_MAX: Final = 1_000  # of a summary; findings beyond are cut, receivers cut far earlier
EVIDENCE_MAX: Final = 25
EVIDENCE_CHARS_MAX: Final = 300
_DELETION_EVIDENCE: Final = EvidenceItem("ended", "the connector was deleted")


def encode_findings_body(
    messages: Sequence[Message], now: float, *, external_url: str | None = None
) -> bytes:
    """Return the body for a webhook, with times in RFC 3339.

    It has `version`, `at`, the address of the status page and the findings.
    """
    return documents.encode(
        {
            "version": VERSION,
            "at": Moment(now),
            "external_url": external_url,
            "findings": [
                {
                    "status": message.status.value,
                    **_build_identity_fields(message.finding),
                    "summary": truncate_text(message.finding.summary, TEXT_CHARS_MAX),
                    "since": Moment(message.finding.since),
                    "resolved_at": moment_of(message.resolved_at),
                    "evidence": evidence_of(message),
                    "next": message.finding.next_command,
                    "plan": plan_of(message),
                    "runbook_url": message.finding.runbook_url,
                    "supersedes": [name.value for name in message.finding.explains],
                    "superseded_by": None
                    if message.superseded_by is None
                    else _build_identity_fields(message.superseded_by),
                }
                for message in messages
            ],
        }
    )


def plan_of(message: Message) -> dict[str, str] | None:
    """Return the plan that waits for approval, with the command that approves it.

    None without a plan, and for a finding that has ended.
    """
    plan = message.finding.plan
    if plan is None or message.resolved_at is not None:
        return None
    return {
        "plan_id": plan.plan_id,
        "what": truncate_text(plan.what, EVIDENCE_CHARS_MAX),
        "approve": f"offsetwatch plan approve {plan.plan_id}",
    }


def _build_identity_fields(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.name.value,
        "severity": finding.severity.value,
        "connect_cluster": finding.connect_cluster,
        "connector": finding.connector,
        "subject": finding.subject,
    }


def evidence_of(message: Message) -> Evidence:
    """Return the evidence of a message, cut to EVIDENCE_MAX items of EVIDENCE_CHARS_MAX characters.

    If the connector was deleted, the first item says so.
    """
    ended = (_DELETION_EVIDENCE,) if message.status is NotificationStatus.DELETED else ()
    return tuple(
        EvidenceItem(
            truncate_text(item.name, EVIDENCE_CHARS_MAX),
            truncate_text(item.value, EVIDENCE_CHARS_MAX)
            if isinstance(item.value, str)
            else item.value,
            item.unit,
        )
        for item in (*ended, *message.finding.evidence)[:EVIDENCE_MAX]
    )


def truncate_text(text: str, chars_max: int) -> str:
    """Return a text of at most `chars_max` characters, with … where it was cut."""
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
