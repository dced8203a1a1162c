"""Writer to a Connect cluster: requests that change connectors, each sent once.

Connect cannot distinguish a repeated request from a second one, and answers 500 while it still
works on it. The driver judges the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import httpx
import msgspec

from offsetwatch.clients.http.auth import TlsContext, build_authorization_headers
from offsetwatch.clients.http.bodies import HTML_PAGE, is_html
from offsetwatch.clients.http.client import (
    REDIRECT_PREFIX,
    build_async_client,
    describe_redirect,
    read_body,
)
from offsetwatch.clients.http.exchange import (
    Transport,
    build_timeout,
    exchange_in_memory,
    redact_secrets,
    run_exchange,
)
from offsetwatch.config import Auth, Connect, Tls
from offsetwatch.decode.json_text import decode_strict
from offsetwatch.errors import TargetUnreachable

TIMEOUT_S: Final = 100.0  # Connect's own verdict comes after 90 s at the latest
BODY_BYTES_MAX: Final = 256 * 1024  # beyond it an answer is cut off: it is only looked into

# What a creation may be answered without quoting a configuration.
_SAFE_MESSAGES = re.compile(
    r"Cannot complete request|Connector .{1,200} already exists|IO Error trying to forward"
    r'|Request timed out|Unrecognized field "initial_'
)
_WORD = re.compile(r"[A-Za-z0-9_.-]+")


class ConnectReply(NamedTuple):
    """Answer of a worker.

    `said` is its own message, short and without secrets; None if it gave none, or if something else
    answered (a proxy, a web server). `other` describes an answer that cannot be Connect's: a
    redirect, an HTML page.
    """

    status: int
    said: str | None = None
    other: str | None = None


class ConnectWriter:
    """Writer to one Connect cluster. Thread-safe: every request has its own connection."""

    def __init__(
        self,
        name: str,
        urls: tuple[str, ...],
        *,
        timeout_s: float = TIMEOUT_S,
        auth: Auth | None = None,
        tls: Tls | None = None,
        transport: Transport | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Configure the writer.

        `timeout_s` limits a whole answer of one worker; `transport` is a parameter for tests.
        `check` is called as late as possible before each request is sent: it raises
        TargetUnreachable if the request must not be sent any more.
        """
        assert urls
        self._check = check
        self.name = name
        self._urls = urls
        self._timeout_s = timeout_s
        self._auth = auth
        self._tls = TlsContext(tls)
        self._transport = transport

    def send(self, method: str, path: str, body: bytes | None = None) -> ConnectReply:
        """Send one request. Raises TargetUnreachable, AmbiguousOutcome."""
        status, answer = self._request(method, path, body)
        message = _parse_message(status, answer)
        said = None if message is None else redact_secrets(message)
        return ConnectReply(status, said, _describe_foreign_answer(status, answer))

    def create(
        self, connector: str, config: Mapping[str, Any], *, initial_state: str | None
    ) -> ConnectReply:
        """Send `POST /connectors`, answered with 201.

        `initial_state` (KIP-980) requires Kafka 3.7. Connect's refusal quotes the refused
        configuration; the reply contains only the names of settings.
        """
        request: dict[str, Any] = {"name": connector, "config": config}
        if initial_state is not None:
            request["initial_state"] = initial_state
        status, answer = self._request("POST", "/connectors", msgspec.json.encode(request))
        message = _parse_message(status, answer)
        if message is None or status < httpx.codes.BAD_REQUEST:
            return ConnectReply(status, other=_describe_foreign_answer(status, answer))
        if _SAFE_MESSAGES.match(message):
            return ConnectReply(status, redact_secrets(message))
        return ConnectReply(status, _describe_named_settings(message, frozenset(config)))

    def _request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return one worker's answer.

        Another worker is tried only if no connection was made, because nothing has happened then.
        Raises TargetUnreachable, AmbiguousOutcome.
        """
        failures: list[TargetUnreachable] = []
        for url in self._urls:
            try:
                return self._exchange(url, method, path, body)
            except TargetUnreachable as exc:
                failures.append(exc)
        details = "; ".join(dict.fromkeys(failure.detail for failure in failures))
        raise TargetUnreachable(self.name, f"{method} {path}: {details}") from failures[0]

    def _exchange(self, url: str, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if isinstance(self._transport, httpx.AsyncBaseTransport | None):
            exchange = self._answer(url, method, path, body, self._transport)
            return run_exchange(self.name, exchange, self._timeout_s)
        self._check()
        return exchange_in_memory(
            self._transport, self.name, (method, url, path, body), self._timeout_s
        )

    async def _answer(
        self,
        url: str,
        method: str,
        path: str,
        body: bytes | None,
        transport: httpx.AsyncBaseTransport | None,
    ) -> tuple[int, bytes]:
        client = build_async_client(
            url,
            timeout=build_timeout(self._timeout_s),
            headers={
                "Accept": "application/json",
                "Content-Type": "application/json",
                **build_authorization_headers(self._auth),
            },
            transport=transport,
            verify=self._tls.get_for(url),
        )
        async with client:
            self._check()
            async with client.stream(method, path, content=body) as response:
                where = describe_redirect(response.status_code, response.headers.get("Location"))
                if where is not None:
                    return response.status_code, where.encode()
                return response.status_code, await read_body(response, BODY_BYTES_MAX)


def _describe_foreign_answer(status: int, body: bytes) -> str | None:
    """Describe an answer that is not Connect's; the body of a redirect is its description."""
    if httpx.codes.is_redirect(status) and body.startswith(REDIRECT_PREFIX.encode()):
        return body.decode()
    return HTML_PAGE if is_html(body) else None


def writer_of(
    connect: Connect,
    *,
    transport: Transport | None = None,
    check: Callable[[], None] = lambda: None,
) -> ConnectWriter:
    """Build the writer to a configured Connect cluster, over all its workers."""
    return ConnectWriter(
        connect.name,
        connect.worker_urls,
        auth=connect.auth,
        tls=connect.tls,
        transport=transport,
        check=check,
    )


class _Message(msgspec.Struct):
    """Body of Connect's `Message`, or of its `ErrorMessage`, which repeats the status code."""

    message: str
    error_code: int | None = None


def _parse_message(status: int, body: bytes) -> str | None:
    answer = decode_strict(body, _Message)
    if answer is None or (status >= httpx.codes.BAD_REQUEST and answer.error_code is None):
        return None
    return answer.message


def _describe_named_settings(message: str, known: frozenset[str]) -> str | None:
    """Name the settings that a refusal is about, without values; None if it names none."""
    missing = re.findall(r'Missing required configuration "([\w.-]{1,100})"', message)
    words = {word.rstrip(".") for word in _WORD.findall(message)}
    named = sorted((words & known - {"name"}) | set(missing))
    return f"it is about {', '.join(named)}" if named else None
