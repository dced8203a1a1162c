"""GETs to the Connect REST API with httpx: bounded in time and size, errors translated.

Called by ingest and the CLI. Anything that changes a Connect cluster lives elsewhere, on purpose.
"""

from __future__ import annotations

from urllib.parse import quote

import httpx

from exporter.errors import (
    ClientError,
    Conflict,
    CutOff,
    Denied,
    Malformed,
    NotFound,
    Refused,
    ServerError,
    TimedOut,
    Unreachable,
)

BODY_BYTES_MAX = 64 * 1024 * 1024  # ten thousand connectors with long stack traces stay below


class ConnectReader:
    """One Connect cluster, asked over one worker."""

    def __init__(
        self,
        name: str,
        url: str,
        timeout_s: float,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`transport` is the seam for tests: a handler in place of a worker."""
        self.name = name
        self._client = httpx.Client(
            base_url=url,
            timeout=timeout_s,
            follow_redirects=False,
            headers={"Accept": "application/json"},
            transport=transport,
            trust_env=False,  # a proxy variable must not redirect what an on-call person trusts
        )

    def connectors(self) -> bytes:
        """`GET /connectors?expand=status&expand=info`: served from a worker's memory."""
        return self._get("/connectors?expand=status&expand=info")

    def offsets(self, connector: str) -> bytes:
        """`GET /connectors/{c}/offsets` (KIP-875, Kafka 3.5): makes the worker read the topic."""
        return self._get(f"/connectors/{quote(connector, safe='')}/offsets")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _get(self, path: str) -> bytes:
        try:
            with self._client.stream("GET", path) as response:
                body = _bounded(self.name, response)
        except httpx.TimeoutException as exc:
            raise TimedOut(self.name, f"GET {path}: no answer in time") from exc
        except (httpx.ConnectError, httpx.UnsupportedProtocol) as exc:
            raise Unreachable(self.name, f"GET {path}: {exc}") from exc
        except httpx.TransportError as exc:
            raise CutOff(self.name, f"GET {path}: {exc}") from exc
        except httpx.DecodingError as exc:
            raise Malformed(self.name, f"GET {path}: {exc}") from exc
        if response.status_code != httpx.codes.OK:
            raise _refusal(self.name, f"GET {path}: HTTP {response.status_code}", response)
        return body


def _bounded(name: str, response: httpx.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise Malformed(name, f"answer larger than {BODY_BYTES_MAX} bytes")
        parts.append(part)
    return b"".join(parts)


def _refusal(name: str, detail: str, response: httpx.Response) -> ClientError:
    """The body is left out of the message: Connect's errors may quote configurations."""
    classes: dict[int, type[ClientError]] = {
        401: Denied,
        403: Denied,
        404: NotFound,
        409: Conflict,
    }
    if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ServerError(name, detail)
    if response.status_code < httpx.codes.BAD_REQUEST:
        return Malformed(name, detail)
    return classes.get(response.status_code, Refused)(name, detail)
