"""Clock of a Connect worker, from the Date header of every HTTP answer, errors included."""

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
    """Return the worker's time in whole Unix seconds; None if the answer has no date.

    The request carries no credentials. `transport` is a parameter for tests.
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
