"""A receiver of Alertmanager's webhooks: it takes what its Go types hold, and nothing else.

The types are those of Alertmanager 0.34: notify/webhook/webhook.go (Message), template/template.go
(Data, Alert). What every version from 0.25 on sends is required; what later ones added is optional.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

Labels = dict[str, str]
Status = Literal["firing", "resolved"]


class Alert(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    status: Status
    labels: Labels
    annotations: Labels
    starts_at: datetime
    ends_at: datetime
    generator_url: str = msgspec.field(name="generatorURL")
    fingerprint: str


class Message(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    receiver: str
    status: Status
    alerts: list[Alert]
    group_labels: Labels
    common_labels: Labels
    common_annotations: Labels
    external_url: str = msgspec.field(name="externalURL")
    version: Literal["4"]
    group_key: str
    truncated_alerts: int
    route_labels: Labels = {}
    notification_reason: str = msgspec.field(name="notification_reason", default="")


def take(body: bytes) -> Message:
    """Return what was posted. Raises msgspec.ValidationError for what no Alertmanager posts."""
    message = msgspec.json.decode(body, type=Message)
    firing = [alert for alert in message.alerts if alert.status == "firing"]
    if (message.status == "firing") is not bool(firing):
        raise msgspec.ValidationError("status: firing as long as one alert is")
    for alert in message.alerts:
        if alert.starts_at.tzinfo is None or alert.ends_at.tzinfo is None:
            raise msgspec.ValidationError("a moment without a time zone")
        if (alert.status == "firing") is not (alert.ends_at.year == 1):
            raise msgspec.ValidationError("endsAt: Go's zero time while it fires, and only then")
        if not message.group_labels.items() <= alert.labels.items():
            raise msgspec.ValidationError("groupLabels: an alert of another group")
    if message.common_labels != _common([alert.labels for alert in message.alerts]):
        raise msgspec.ValidationError("commonLabels: not those that all alerts have")
    if message.common_annotations != _common([alert.annotations for alert in message.alerts]):
        raise msgspec.ValidationError("commonAnnotations: not those that all alerts have")
    return message


def _common(all_labels: list[Labels]) -> Labels:
    first, *others = all_labels
    return {
        name: value
        for name, value in first.items()
        if all(labels.get(name) == value for labels in others)
    }
