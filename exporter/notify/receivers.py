"""Who is told, in which words and how often: the `notify` section of the configuration.

Called by the daemon. Nothing is sent here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from exporter.clients import webhook
from exporter.clients.auth import CannotIdentify
from exporter.config import Notify, Webhook
from exporter.config.files import problem_with, read_secret
from exporter.model.findings import Severity
from exporter.notify import words
from exporter.notify.ledger import Message, Rules

_HTTP: Final = re.compile(r"https?://[^\s/@]+(/\S*)?")

Body = Callable[[Sequence[Message], float], bytes]


@dataclass(frozen=True, slots=True)
class Receiver:
    """One of them. `post` raises ClientError, and may be called from any thread."""

    name: str
    rules: Rules
    body: Body
    post: Callable[[bytes], None]


def receivers(settings: Notify, settle_s: float) -> tuple[Receiver, ...]:
    """Everybody who is named. `settle_s` as in ledger.Rules."""
    least = Severity(settings.severity)
    alerts = Rules(least, settle_s=settle_s, by_severity=True, resend_s=settings.resend_s)
    plain = Rules(least, settle_s=settle_s, changes_s=settings.changes_s)
    return (
        *(
            Receiver(
                at.url,
                alerts,
                partial(words.alertmanager, lasts_s=settings.lasts_s),
                webhook.Webhook(
                    at.url,
                    partial(_alerts_url, at.url),
                    settings.timeout_s,
                    auth=at.auth,
                    tls=at.tls,
                ).post,
            )
            for at in settings.alertmanagers
        ),
        *(
            Receiver(
                at.name,
                plain,
                words.plain,
                webhook.Webhook(
                    at.name, partial(_url, at), settings.timeout_s, auth=at.auth, tls=at.tls
                ).post,
            )
            for at in settings.webhooks
        ),
    )


def _alerts_url(url: str) -> str:
    return f"{url.rstrip('/')}/api/v2/alerts"


def _url(settings: Webhook) -> str:
    """The address of now. Raises CannotIdentify, whose text does not repeat it."""
    if settings.url_file is None:
        assert settings.url is not None  # config: one of the two is given
        return settings.url
    try:
        url = read_secret(settings.url_file)
    except (OSError, ValueError) as exc:
        raise CannotIdentify(f"url_file: {problem_with(exc)}") from None
    if not _HTTP.fullmatch(url):
        raise CannotIdentify("url_file: what stands there is no http or https address")
    return url
