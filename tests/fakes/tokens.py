"""Tokens that nobody signed, as brokers take them in development; what an `oauth_hook` returns."""

from __future__ import annotations

import base64
import json
import time

LIFE_S = 300.0


def unsigned(_config: str) -> tuple[str, float]:
    """For a broker with Kafka's unsecured validator."""
    now = time.time()
    claims = {"sub": "watcher", "iat": now, "exp": now + LIFE_S}
    return f"{_part({'alg': 'none'})}.{_part(claims)}.", now + LIFE_S


def _part(claims: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
