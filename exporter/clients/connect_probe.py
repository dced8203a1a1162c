"""A Connect worker's clock, by the Date header that every HTTP answer carries, a refusal included.

Called by doctor, which asks each worker; everything else asks through ConnectReader.
"""

from __future__ import annotations

import email.utils
import ssl

import httpx


def worker_time(
    url: str,
    timeout_s: float,
    *,
    verify: ssl.SSLContext | bool = True,
    transport: httpx.BaseTransport | None = None,
) -> float | None:
    """Unix seconds, cut to the second; None if it does not say. Who we are is not told.

    `transport` is the seam for tests.
    """
    try:
        with httpx.Client(
            timeout=timeout_s, verify=verify, transport=transport, trust_env=False
        ) as client:
            header = client.head(url).headers.get("Date")
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    if header is None:
        return None
    try:
        return email.utils.parsedate_to_datetime(header).timestamp()
    except ValueError:
        return None
