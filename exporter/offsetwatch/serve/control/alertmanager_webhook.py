"""Alertmanager webhook payload (version 4, as of 0.25 to 0.34) -> alert hints. Pure and bounded.

Alertmanager cannot sign what it sends, delivers at least once, and passes on labels that an
attacker may have chosen. So only four labels of an alert are read, and compared with known names or
with a pattern: nothing is fetched, evaluated, followed or logged. All other fields, and those that
later versions add, are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from offsetwatch.remedy.model.service_api import AlertHint
from offsetwatch.serve.control.strict_json import MalformedRequest

VERSION: Final = "4"
ALERTS_MAX: Final = 500
LABELS: Final = ("connect_cluster", "connector", "topic", "partition")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_STARTS_AT = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_PARTITION_MAX: Final = 2**31 - 1


class AlertHints(NamedTuple):
    """Hints of a payload, and the number of alerts that concern no known connector."""

    hints: tuple[AlertHint, ...]
    unknown: int


def parse_payload(payload: Any, is_known: Callable[[str, str], bool]) -> AlertHints:
    """Return the hints of a payload. Raises MalformedRequest if Alertmanager would not send it.

    `is_known` checks whether a Connect cluster has a connector. One malformed alert rejects the
    whole payload.
    """
    if not isinstance(payload, dict) or payload.get("version") != VERSION:
        raise MalformedRequest("not an Alertmanager's payload of version 4")
    alerts = payload.get("alerts")
    if not isinstance(alerts, list):
        raise MalformedRequest("alerts: expected a list")
    if len(alerts) > ALERTS_MAX:
        raise MalformedRequest(f"alerts: more than {ALERTS_MAX}; set max_alerts in Alertmanager")
    hints = tuple(_parse_hints(alerts, is_known))
    return AlertHints(hints, len(alerts) - len(hints))


def _parse_hints(alerts: list[Any], is_known: Callable[[str, str], bool]) -> Iterator[AlertHint]:
    for number, alert in enumerate(alerts):
        hint = _parse_hint(alert, f"alerts[{number}]", is_known)
        if hint is not None:
            yield hint


def _parse_hint(alert: Any, at: str, is_known: Callable[[str, str], bool]) -> AlertHint | None:
    if not isinstance(alert, dict):
        raise MalformedRequest(f"{at}: expected an object")
    status, fingerprint = alert.get("status"), alert.get("fingerprint")
    if status not in ("firing", "resolved"):
        raise MalformedRequest(f"{at}.status: expected firing or resolved")
    if not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint):
        raise MalformedRequest(f"{at}.fingerprint: expected 16 hex digits")
    starts_at = _normalise_moment(alert.get("startsAt"), at)
    labels = alert.get("labels")
    if not isinstance(labels, dict) or not all(isinstance(label, str) for label in labels.values()):
        raise MalformedRequest(f"{at}.labels: expected names with text")
    cluster, connector, topic, partition = (labels.get(name) for name in LABELS)
    if cluster is None or connector is None or not is_known(cluster, connector):
        return None
    return AlertHint(
        fingerprint=fingerprint,
        starts_at=starts_at,
        firing=status == "firing",
        connect_cluster=cluster,
        connector=connector,
        topic=topic if topic is not None and _TOPIC.fullmatch(topic) else None,
        partition=_parse_partition(partition),
    )


def _normalise_moment(value: Any, name: str) -> str:
    """Return a time in UTC with all its digits: each Alertmanager of a cluster gives the same."""
    found = _STARTS_AT.fullmatch(value) if isinstance(value, str) else None
    try:
        if found is None:
            raise MalformedRequest(f"{name}.startsAt: expected a date and time")
        moment = datetime.fromisoformat(found[1] + found[3]).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise MalformedRequest(f"{name}.startsAt: expected a date and time") from None
    fraction = (found[2] or "").rstrip("0")
    return f"{moment.isoformat()}{'.' if fraction else ''}{fraction}Z"


def _parse_partition(text: str | None) -> int | None:
    if text is None or not _PARTITION.fullmatch(text) or int(text) > _PARTITION_MAX:
        return None
    return int(text)
