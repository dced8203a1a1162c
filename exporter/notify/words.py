"""Messages as bytes: Alertmanager's API v2, and a JSON of our own for everybody else.

Names are public contracts: people route by them. Called by courier.py. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from exporter.clock import utc
from exporter.model.findings import Evidence, Finding
from exporter.notify.ledger import Message, Status

VERSION: Final = "1"
TEXT_CHARS_MAX: Final = 1_000  # of a summary; findings beyond are cut, receivers cut far earlier
EVIDENCE_MAX: Final = 20
EVIDENCE_CHARS_MAX: Final = 300


def alert_name(finding: Finding) -> str:
    """The finding's name in CamelCase, as Alertmanager's users write names: MM2RecordsLost."""
    parts = finding.name.value.split("_")
    return "".join(part.upper() if part == "mm2" else part.capitalize() for part in parts)


def alertmanager(messages: Sequence[Message], now: float, lasts_s: float) -> bytes:
    """A body of POST /api/v2/alerts. What stands ends by itself, `lasts_s` after we fell silent."""
    alerts = [
        {
            "labels": _labels(message.finding),
            "annotations": {
                "summary": _cut(message.finding.summary, TEXT_CHARS_MAX),
                "evidence": "\n".join(
                    f"{what}: {how_much}" for what, how_much in _evidence(_told(message))
                ),
                **_advice(message.finding),
            },
            "startsAt": _time(message.finding.since),
            "endsAt": _time(
                now + lasts_s
                if message.resolved_at is None
                else max(message.resolved_at, message.finding.since)
            ),
        }
        for message in messages
    ]
    return msgspec.json.encode(alerts)


def plain(messages: Sequence[Message], now: float) -> bytes:
    """The body for a webhook: `version`, `at` and the findings, times in RFC 3339."""
    return msgspec.json.encode(
        {
            "version": VERSION,
            "at": _time(now),
            "findings": [
                {
                    "status": message.status.value,
                    **_names(message.finding),
                    "summary": _cut(message.finding.summary, TEXT_CHARS_MAX),
                    "since": _time(message.finding.since),
                    "resolved_at": None
                    if message.resolved_at is None
                    else _time(message.resolved_at),
                    "evidence": [
                        {"what": what, "how_much": how_much}
                        for what, how_much in _evidence(_told(message))
                    ],
                    "next": message.finding.next_command,
                    "runbook_url": message.finding.runbook_url,
                    "supersedes": [name.value for name in message.finding.explains],
                }
                for message in messages
            ],
        }
    )


def _labels(finding: Finding) -> dict[str, str]:
    """Alertmanager has no empty labels: what is empty is left out."""
    labels = {
        "alertname": alert_name(finding),
        "severity": finding.severity.value,
        "connect_cluster": finding.connect_cluster,
        "connector": finding.connector or "",
        "subject": finding.subject,
    }
    return {name: value for name, value in labels.items() if value}


def _advice(finding: Finding) -> dict[str, str]:
    """Return the annotations that say what to do: what is not known is left out."""
    advice = {"next": finding.next_command, "runbook_url": finding.runbook_url or ""}
    return {name: text for name, text in advice.items() if text}


def _names(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.name.value,
        "severity": finding.severity.value,
        "connect_cluster": finding.connect_cluster,
        "connector": finding.connector,
        "subject": finding.subject,
    }


def _told(message: Message) -> Evidence:
    if message.status is not Status.DELETED:
        return message.finding.evidence
    return (("ended", "the connector was deleted"), *message.finding.evidence)


def _evidence(evidence: Evidence) -> Evidence:
    return tuple(
        (_cut(what, EVIDENCE_CHARS_MAX), _cut(how_much, EVIDENCE_CHARS_MAX))
        for what, how_much in evidence[:EVIDENCE_MAX]
    )


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


def _time(at: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
