"""A Connect worker's clock, by the Date header that every HTTP answer carries, refusals too."""

from __future__ import annotations

import ssl

import httpx

from offsetwatch.clients.http.client import build_blocking_client
from offsetwatch.clients.http.date import parse_server_time


def read_worker_clock(
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
        with (
            build_blocking_client(
                "", timeout_s=timeout_s, headers={}, verify=verify, transport=transport
            ) as client,
            client.stream("HEAD", url) as response,  # no body is read
        ):
            return parse_server_time(response.headers.get("Date"))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
        return None
