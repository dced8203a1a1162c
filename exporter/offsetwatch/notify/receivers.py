"""Receivers of notifications, with address, format and rules: section `notify` of the config.

Nothing is sent here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from offsetwatch.clients.http import webhook
from offsetwatch.clients.http.auth import UnusableCredentials
from offsetwatch.config import NotifyConfig, WebhookConfig
from offsetwatch.config.files import describe_file_error, read_secret
from offsetwatch.model.findings import Severity
from offsetwatch.notify import message_bodies
from offsetwatch.notify.delivery_state import DeliveryRules, Message

_HTTP_URL: Final = re.compile(r"https?://[^\s/@]+(/\S*)?")

BodyEncoder = Callable[[Sequence[Message], float], bytes]


@dataclass(frozen=True, slots=True)
class Receiver:
    """Receiver of notifications. `post` raises ClientError, and may be called from any thread.

    messages_max    in one delivery: a hundred with all their evidence are less than 2 MB
    """

    name: str
    rules: DeliveryRules
    body: BodyEncoder
    post: Callable[[bytes], None]
    messages_max: int = 100


def build_receivers(
    settings: NotifyConfig, settle_s: float, external_url: str | None = None
) -> tuple[Receiver, ...]:
    """Return all configured receivers.

    `settle_s` is that of DeliveryRules. `external_url` is the address of the status page.
    """
    least = Severity(settings.severity)
    alerts = DeliveryRules(least, settle_s=settle_s, by_severity=True, resend_s=settings.resend_s)
    body = partial(
        message_bodies.encode_alerts_body, lasts_s=settings.lasts_s, external_url=external_url
    )
    return (
        *(
            Receiver(
                alertmanager.url,
                alerts,
                body,
                webhook.WebhookClient(
                    alertmanager.url,
                    partial(str, f"{alertmanager.url.rstrip('/')}/api/v2/alerts"),
                    settings.timeout_s,
                    auth=alertmanager.auth,
                    tls=alertmanager.tls,
                ).post,
            )
            for alertmanager in settings.alertmanagers
        ),
        *(
            _build_webhook_receiver(webhook_config, settings, settle_s, external_url)
            for webhook_config in settings.webhooks
        ),
    )


def _build_webhook_receiver(
    webhook_config: WebhookConfig, settings: NotifyConfig, settle_s: float, external_url: str | None
) -> Receiver:
    rules = DeliveryRules(
        Severity(settings.severity), settle_s=settle_s, changes_s=settings.changes_s
    )
    post = webhook.WebhookClient(
        webhook_config.name,
        partial(_read_webhook_url, webhook_config),
        settings.timeout_s,
        auth=webhook_config.auth,
        tls=webhook_config.tls,
    ).post
    if webhook_config.format == "offsetwatch":
        body = partial(message_bodies.encode_findings_body, external_url=external_url)
        return Receiver(webhook_config.name, replace(rules, successors=True), body, post)
    # The severity is a label: with another one it is another alert, and the earlier one ends.
    return Receiver(
        webhook_config.name,
        replace(rules, by_severity=True),
        partial(_encode_alert, receiver=webhook_config.name, external_url=external_url),
        post,
        messages_max=1,
    )


def _encode_alert(
    messages: Sequence[Message], _now: float, *, receiver: str, external_url: str | None
) -> bytes:
    (message,) = messages
    return message_bodies.encode_webhook_body(message, receiver=receiver, external_url=external_url)


def _read_webhook_url(settings: WebhookConfig) -> str:
    """Return the current address. Raises UnusableCredentials, whose text does not repeat it."""
    if settings.url_file is None:
        assert settings.url is not None  # config: one of the two is given
        return settings.url
    try:
        url = read_secret(settings.url_file)
    except (OSError, ValueError) as exc:
        raise UnusableCredentials(f"url_file: {describe_file_error(exc)}") from None
    if not _HTTP_URL.fullmatch(url):
        raise UnusableCredentials("url_file: what stands there is no http or https address")
    return url
