"""Bodies of notifications: offsetwatch's own JSON, and Alertmanager's for its API v2 and webhooks.

Names are public contracts: users route by them. Labels and annotations of alerts are named as in
the rules under alerts/, so one route and one template fit the alerts of Prometheus and of the
daemon.

Sources: Alertmanager 0.34, template/template.go (Data, Alert), notify/webhook/webhook.go (Message),
dispatch/route.go (the key of a group); prometheus/common, model/signature.go (the fingerprint).
Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from offsetwatch import documents
from offsetwatch.judge.findings.advice import RUNBOOKS
from offsetwatch.model.findings import Evidence, EvidenceItem, Finding, FindingName, format_item
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.model.observations import LOG_ENDS, TAIL
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


WEBHOOK_VERSION: Final = "4"
NO_END: Final = "0001-01-01T00:00:00Z"  # Go's zero time: Alertmanager says it of what is firing
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


def encode_alerts_body(
    messages: Sequence[Message], now: float, *, lasts_s: float, external_url: str | None
) -> bytes:
    """Return a body of POST /api/v2/alerts.

    A firing alert ends by itself `lasts_s` seconds after it was last sent.
    """
    generator = {} if external_url is None else {"generatorURL": external_url}
    return documents.encode(
        [
            {
                "labels": labels_of(message.finding),
                "annotations": annotations_of(message),
                "startsAt": Moment(message.finding.since),
                "endsAt": Moment(now + lasts_s)
                if _is_firing(message)
                else _compute_end_time(message),
                **generator,
            }
            for message in messages
        ]
    )


def encode_webhook_body(message: Message, *, receiver: str, external_url: str | None) -> bytes:
    """Return what Alertmanager posts to a webhook for this alert, in version 4 of its format.

    The alert is a group of its own, as with `group_by: ['...']`. So `status` and `groupKey` concern
    this alert alone, and a receiver that closes an incident by them closes the right one.
    """
    labels, annotations = labels_of(message.finding), annotations_of(message)
    status = "firing" if _is_firing(message) else "resolved"
    return documents.encode(
        {
            "receiver": receiver,
            "status": status,
            "alerts": [
                {
                    "status": status,
                    "labels": labels,
                    "annotations": annotations,
                    "startsAt": Moment(message.finding.since),
                    "endsAt": NO_END if _is_firing(message) else _compute_end_time(message),
                    "generatorURL": external_url or "",
                    "fingerprint": compute_fingerprint(labels),
                }
            ],
            "groupLabels": labels,
            "commonLabels": labels,
            "commonAnnotations": annotations,
            "externalURL": external_url or "",
            "version": WEBHOOK_VERSION,
            "groupKey": _format_group_key(labels),
            "truncatedAlerts": 0,
        }
    )


def labels_of(finding: Finding) -> dict[str, str]:
    """Return the labels of a finding's alert, sorted by name.

    `alertname` is the name of the alerting rule that fires with the finding. Alertmanager has no
    empty labels, so an empty label is left out.
    """
    labels = {
        "alertname": RUNBOOKS[finding.name],
        "finding": finding.name.value,
        "severity": finding.severity.value,
        "connect_cluster": finding.connect_cluster,
        "connector": finding.connector or "",
        "subject": finding.subject,
        **_build_subject_labels(finding),
    }
    return {name: labels[name] for name in sorted(labels) if labels[name]}


def annotations_of(message: Message) -> dict[str, str]:
    """Return the annotations of a message's alert, without the empty ones.

    `supersedes` names the findings of the same connector that this one supersedes. Their alerts are
    not resolved by it: they name it in `superseded_by`. `approve` is the command that approves the
    plan in `plan`.
    """
    finding, by = message.finding, message.superseded_by
    plan = plan_of(message) or {}
    annotations = {
        "summary": truncate_text(finding.summary, TEXT_CHARS_MAX),
        "description": "\n".join(map(format_item, evidence_of(message))),
        # By labels of its alert: `poison_suspected/critical orders-0`.
        "superseded_by": ""
        if by is None
        else f"{by.name.value}/{by.severity.value} {by.subject}".rstrip(),
        "next": finding.next_command,
        "plan": ": ".join(plan[key] for key in ("plan_id", "what") if plan),
        "approve": plan.get("approve", ""),
        "runbook_url": finding.runbook_url or "",
        "supersedes": ", ".join(name.value for name in finding.explains),
    }
    return {name: text for name, text in annotations.items() if text}


def compute_fingerprint(labels: Mapping[str, str]) -> str:
    """Return Alertmanager's fingerprint of a label set: FNV-1a of 64 bits, as 16 hex digits."""
    digest = _FNV_OFFSET
    for name in sorted(labels):
        for byte in (*name.encode(), 0xFF, *labels[name].encode(), 0xFF):
            digest = (digest ^ byte) * _FNV_PRIME % 2**64
    return f"{digest:016x}"


def _build_subject_labels(finding: Finding) -> dict[str, str]:
    """Return the labels by which metrics name the subject of this finding."""
    subject = finding.subject
    match finding.name:
        case FindingName.INTERNAL_TOPIC_PROBLEM | FindingName.HANGING_TRANSACTION:
            return _parse_topic_labels(subject)
        case FindingName.MM2_TOPIC_RECREATED:
            return {"topic": subject}
        case FindingName.CHECKPOINTS_STALE:
            source, _, target = subject.partition("->")
            return {"source": source, "target": target}
        case FindingName.INPUT_DOWN:
            kind, _, name = subject.partition(" ")
            if kind == LOG_ENDS:
                return {"kafka": name}
            return _parse_topic_labels(name) if kind == TAIL else {}
        case _:
            return {}


def _parse_topic_labels(name: str) -> dict[str, str]:
    """Return the labels of KAFKA/TOPIC; none if the name has another form."""
    kafka, slash, topic = name.rpartition("/")
    return {"kafka": kafka, "topic": topic} if slash else {}


def _format_group_key(labels: Mapping[str, str]) -> str:
    """Return the key of a group of the root route: `{}:{name="value", ...}`."""
    quoted = ", ".join(
        f"{name}={json.dumps(labels[name], ensure_ascii=False)}" for name in sorted(labels)
    )
    return f"{{}}:{{{quoted}}}"


def _is_firing(message: Message) -> bool:
    return message.resolved_at is None


def _compute_end_time(message: Message) -> Moment:
    """Return the end of an alert, never before its start.

    Alertmanager refuses all alerts of a body if one of them ends before it starts.
    """
    assert message.resolved_at is not None
    return Moment(max(message.resolved_at, message.finding.since))
